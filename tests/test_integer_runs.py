"""Integers elementwise: long dense runs in every width, numbers beside them, in place and strided, bit for bit as PyTorch."""

import numpy as np
import pytest
import torch

import tensotron as tt

EDGES = {
    "int64": [-(1 << 63), (1 << 63) - 1, -1, 0, 1, 7, -7,
              (1 << 51) - 1, 1 << 51, -(1 << 51), (1 << 53) + 1, 3 << 49, -(1 << 51) + 1],
    "int32": [-(1 << 31), (1 << 31) - 1, -1, 0, 1, 7, -7, 46341, 65537, -46341],
    "uint8": [0, 1, 7, 127, 128, 255],
    "bool": [0, 1],
}
NUMBERS = {"int64": [3, -7, (1 << 53) + 1], "int32": [3, -7, 1 << 30], "uint8": [3, 255], "bool": [True]}

BINARY = {
    "add": lambda lib, a, b: a + b,
    "sub": lambda lib, a, b: a - b,
    "mul": lambda lib, a, b: a * b,
    "add alpha": lambda lib, a, b: lib.add(a, b, alpha=3),
    "sub alpha": lambda lib, a, b: lib.sub(a, b, alpha=3),
    "rsub alpha": lambda lib, a, b: lib.rsub(a, b, alpha=3),
    "maximum": lambda lib, a, b: lib.maximum(a, b),
    "minimum": lambda lib, a, b: lib.minimum(a, b),
    "and": lambda lib, a, b: a & b,
    "or": lambda lib, a, b: a | b,
    "xor": lambda lib, a, b: a ^ b,
    "logical_and": lambda lib, a, b: lib.logical_and(a, b),
    "logical_or": lambda lib, a, b: lib.logical_or(a, b),
    "logical_xor": lambda lib, a, b: lib.logical_xor(a, b),
    "eq": lambda lib, a, b: a == b,
    "ne": lambda lib, a, b: a != b,
    "lt": lambda lib, a, b: a < b,
    "le": lambda lib, a, b: a <= b,
    "gt": lambda lib, a, b: a > b,
    "ge": lambda lib, a, b: a >= b,
}
DIVISIONS = {
    "floor": lambda lib, a, b: a // b,
    "trunc": lambda lib, a, b: lib.div(a, b, rounding_mode="trunc"),
    "remainder": lambda lib, a, b: a % b,
    "fmod": lambda lib, a, b: lib.fmod(a, b),
}
UNARY = {
    "neg": lambda lib, a: -a,
    "abs": lambda lib, a: a.abs(),
    "square": lambda lib, a: a.square(),
    "relu": lambda lib, a: a.relu(),
    "clamp": lambda lib, a: a.clamp(2, 100),
    "clamp crossed": lambda lib, a: a.clamp(100, 2),
    "clamp min": lambda lib, a: a.clamp(min=5),
    "clamp max": lambda lib, a: a.clamp(max=5),
    "invert": lambda lib, a: ~a,
    "logical_not": lambda lib, a: lib.logical_not(a),
}


def operands(dtype, n, divided=False):
    """n pairs: every pair of edges first, then others. `divided`: without the divisions that end PyTorch's process."""
    rs = np.random.RandomState(n)
    edges = np.array(EDGES[dtype]).astype(dtype)
    pairs = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    small = rs.randint(0, 2, (2, n)) if dtype == "bool" else rs.randint(-90, 90, (2, n))
    a, b = np.concatenate([pairs, small.astype(dtype)], 1)[:, :n]
    if divided:
        b = np.where((b == 0) | ((a == edges.min()) & (b == edges.dtype.type(0) - 1)), edges.dtype.type(3), b)
    return a, b


def outcome(lib, f, *operands):
    try:
        y = f(lib, *operands)
    except (RuntimeError, TypeError, NotImplementedError) as e:
        return type(e)
    return str(y.dtype), y.shape, y.numpy().tobytes()


def check(f, arrays):
    def both(make):
        got, want = (outcome(lib, f, *make(lib)) for lib in (tt, torch))
        assert got == want

    def tensors(lib):
        return [lib.tensor(x) if isinstance(x, np.ndarray) else x for x in arrays]

    both(tensors)
    both(lambda lib: [t[1:] if isinstance(x, np.ndarray) else x for t, x in zip(tensors(lib), arrays)])
    both(lambda lib: [t[::2] if isinstance(x, np.ndarray) else x for t, x in zip(tensors(lib), arrays)])


@pytest.mark.parametrize("n", [1, 5, 77, 3000])
@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name, dtype, n):
    a, b = operands(dtype, n)
    check(BINARY[name], [a, b])
    for number in NUMBERS[dtype]:
        check(BINARY[name], [a, number])
        check(BINARY[name], [number, b])


@pytest.mark.parametrize("n", [1, 5, 77, 3000])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_division(name, dtype, n):
    a, b = operands(dtype, n, divided=True)
    check(DIVISIONS[name], [a, b])
    for number in NUMBERS[dtype]:
        check(DIVISIONS[name], [a, number])
        check(DIVISIONS[name], [number, b])
    b[n // 2] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        DIVISIONS[name](tt, tt.tensor(a), tt.tensor(b))


@pytest.mark.parametrize("n", [1, 5, 77, 3000])
@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name, dtype, n):
    check(UNARY[name], [operands(dtype, n)[0]])


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("op", ["add_", "sub_", "mul_", "floor_divide_", "remainder_", "bitwise_and_", "eq_", "lt_"])
def test_in_place(op, dtype):
    a, b = operands(dtype, 3000, divided=True)
    for other in (b, NUMBERS[dtype][0]):
        results = []
        for lib in (tt, torch):
            x = lib.tensor(a)
            getattr(x, op)(lib.tensor(other) if isinstance(other, np.ndarray) else other)
            results.append(x.numpy().tobytes())
        assert results[0] == results[1]


@pytest.mark.parametrize("name", DIVISIONS)
def test_division_of_the_least_integer(name):
    """It wraps around, where PyTorch's division ends the process."""
    x = tt.full((9,), -(1 << 63))
    want = 0 if name in ("remainder", "fmod") else -(1 << 63)
    assert DIVISIONS[name](tt, x, tt.full((9,), -1)).tolist() == [want] * 9
