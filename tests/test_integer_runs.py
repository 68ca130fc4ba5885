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
    "sign": lambda lib, a: a.sign(),
    "floor": lambda lib, a: a.floor(),
    "ceil": lambda lib, a: a.ceil(),
    "trunc": lambda lib, a: a.trunc(),
    "round": lambda lib, a: a.round(),
    "isnan": lambda lib, a: lib.isnan(a),
    "isinf": lambda lib, a: lib.isinf(a),
    "isfinite": lambda lib, a: lib.isfinite(a),
    "invert": lambda lib, a: ~a,
    "logical_not": lambda lib, a: lib.logical_not(a),
}

THREE = {
    "clamp": lambda lib, a, b, c: a.clamp(b, c),
    "clamp low": lambda lib, a, b, c: a.clamp(min=b),
    "clamp high": lambda lib, a, b, c: a.clamp(max=c),
    "addcmul": lambda lib, a, b, c: lib.addcmul(a, b, c),
    "addcmul value": lambda lib, a, b, c: lib.addcmul(a, b, c, value=3),
    "where": lambda lib, a, b, c: lib.where(a < b, b, c),
}
# Pairs of tensors that broadcast, made of matrices of one shape.
LAYOUTS = {
    "row": lambda a, b: (a, b[0]),
    "row first": lambda a, b: (a[1], b),
    "column": lambda a, b: (a, b[:, :1]),
    "column first": lambda a, b: (a[:, 2:3], b),
    "both": lambda a, b: (a[:1], b[:, :1]),
    "transposed": lambda a, b: (a.t(), b.t().contiguous()),
    "transposed second": lambda a, b: (a.t().contiguous(), b.t()),
    "two transposed": lambda a, b: (a.t(), b.t()[:, :]),
    "columns of wider": lambda a, b: (a[:, 1:20], b[:, :19]),
    "wider, dense": lambda a, b: (a[:, 1:20], b[:, :19].contiguous()),
    "every other": lambda a, b: (a[:, ::2], b[:, 1::2]),
    "a number": lambda a, b: (a[:, :9], b[3, 4]),
    "deep": lambda a, b: (a.reshape(-1, 2, a.shape[1]), b[:2, :].unsqueeze(0)),
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
    y, dtype = y.numpy(), y.dtype
    return str(dtype), y.shape, (np.where(np.isnan(y), np.nan, y) if y.dtype.kind == "f" else y).tobytes()


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


@pytest.mark.parametrize("shape", [(40, 38), (4, 1200), (600, 6)], ids=str)
@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, dtype, shape):
    a, b = (x.reshape(shape) for x in operands(dtype, shape[0] * shape[1]))

    def same(f, *arrays):
        got, want = (outcome(lib, f, *LAYOUTS[layout](*(lib.tensor(x) for x in arrays))) for lib in (tt, torch))
        assert got == want

    for f in BINARY.values():
        same(f, a, b)
    for f in UNARY.values():
        same(lambda lib, x, y: f(lib, x), a, b)
    if dtype != "bool":
        signs = [-a.dtype.type(7), a.dtype.type(3)] if dtype != "uint8" else [a.dtype.type(3)] * 2
        for f in DIVISIONS.values():
            same(f, np.where(np.abs(a) < 3, signs[0], a), np.where((b < 1) & (b > -2), signs[1], b))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("name", THREE)
def test_three_operands(name, dtype):
    a, b = (x.reshape(50, 33) for x in operands(dtype, 50 * 33))
    check(THREE[name], [a, b, a[::-1].copy()])
    check(THREE[name], [a, b[0], b[:, :1].copy()])


@pytest.mark.parametrize("shape", [(40, 38), (4, 1200), (600, 6)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_floats(layout, dtype, shape):
    rs = np.random.RandomState(0)
    a, b = (rs.randn(*shape).astype(dtype) for _ in range(2))
    a[::3, ::2], b[::5, 1::3] = np.nan, -np.inf
    a[1::4, 1::3] = b[1::4, 1::3]

    def arranged(lib):
        return LAYOUTS[layout](lib.tensor(a), lib.tensor(b))

    for f in (lambda lib, x, y: x + y, lambda lib, x, y: x < y, lambda lib, x, y: x != y, lambda lib, x, y: lib.maximum(x, y),
              lambda lib, x, y: lib.logical_and(x, y), lambda lib, x, y: lib.where(x < y, x, y)):
        assert outcome(tt, f, *arranged(tt)) == outcome(torch, f, *arranged(torch))
    ints = rs.randint(1, 90, (2, *shape))
    for kind in ("int32", "uint8"):  # divided in floating point
        x, y = (LAYOUTS[layout](*(lib.tensor(i.astype(kind)) for i in ints)) for lib in (tt, torch))
        assert outcome(tt, lambda lib, a, b: a / b, *x) == outcome(torch, lambda lib, a, b: a / b, *y)


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
