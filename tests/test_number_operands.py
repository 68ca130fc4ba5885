"""Python numbers beside tensors: integers to the last bit, out of range refused or wrapped around, as in PyTorch."""

import numpy as np
import pytest
import torch
from _both import same

import tensotron as tt

BIG = (1 << 60) + 1  # no double
NUMBERS = {
    "big": BIG, "int64 max": (1 << 63) - 1, "int32 max + 1": 1 << 31, "300": 300, "-1": -1, "-255": -255, "-256": -256,
    "2.5": 2.5,
    "-1.5": -1.5, "300.5": 300.5, "nan": float("nan"), "inf": float("inf"), "1e39": 1e39, "1e300": 1e300, "True": True,
    "2 ** 63": 1 << 63, "numpy float": np.float32(2.5), "numpy int": np.int64(3),
}
DTYPES = "int64 int32 uint8 bool float32 float64".split()
INDEX = [0]
ROUNDED = ((1 << 63) - 1, 1 << 63)  # PyTorch pads with a double, which is beyond int64


def written(t, index, v):
    t = t.clone()
    t[index] = v
    return t


# on a tensor t of two elements and a number v
CALLS = {
    "add": lambda lib, t, v: t + v,
    "add_": lambda lib, t, v: t.clone().add_(v),
    "add alpha": lambda lib, t, v: lib.add(t, t, alpha=v),
    "addcdiv": lambda lib, t, v: lib.addcdiv(t, t, t, value=v),
    "addcmul": lambda lib, t, v: lib.addcmul(t, t, t, value=v),
    "addmm": lambda lib, t, v: lib.addmm(t[None], t[None, :1], t[None], alpha=v, beta=3),
    "and": lambda lib, t, v: t & v,
    "atan2": lambda lib, t, v: lib.atan2(t, v),
    "clamp": lambda lib, t, v: lib.clamp(t, v, v),
    "clamp_": lambda lib, t, v: t.clone().clamp_(min=v),
    "clamp max": lambda lib, t, v: lib.clamp(t, max=v),
    "clamp min": lambda lib, t, v: lib.clamp(t, min=v),
    "div": lambda lib, t, v: t / v,
    "eq": lambda lib, t, v: t == v,
    "fill_": lambda lib, t, v: t.clone().fill_(v),
    "floor_divide": lambda lib, t, v: t // v,
    "fmod": lambda lib, t, v: lib.fmod(t, v),
    "full": lambda lib, t, v: lib.full((1,), v, dtype=t.dtype),
    "hardtanh": lambda lib, t, v: lib.nn.functional.hardtanh(t, -1, v),
    "index_add": lambda lib, t, v: t.index_add(0, lib.tensor(INDEX), t[:1], alpha=v),
    "index_fill": lambda lib, t, v: t.index_fill(0, lib.tensor(INDEX), v),
    "lerp": lambda lib, t, v: lib.lerp(t, t, v),
    "linspace": lambda lib, t, v: lib.linspace(0, v, 2, dtype=t.dtype),
    "lt": lambda lib, t, v: t < v,
    "masked_fill": lambda lib, t, v: t.masked_fill(lib.tensor([True, False]), v),
    "maximum": lambda lib, t, v: lib.maximum(t, v),
    "mul": lambda lib, t, v: t * v,
    "pad": lambda lib, t, v: lib.nn.functional.pad(t, (1, 0), value=v) if v not in ROUNDED else None,
    "pow": lambda lib, t, v: t**v,
    "remainder": lambda lib, t, v: lib.remainder(t, v),
    "rpow": lambda lib, t, v: v**t,
    "rsub": lambda lib, t, v: v - t if t.dtype != lib.bool else None,
    "scatter": lambda lib, t, v: t.scatter(0, lib.tensor(INDEX), v),
    "setitem": lambda lib, t, v: written(t, 0, v),
    "setitem of a mask": lambda lib, t, v: written(t, lib.tensor([True, False]), v),
    "threshold": lambda lib, t, v: lib.nn.functional.threshold(t, 5, v),
    "threshold above": lambda lib, t, v: lib.nn.functional.threshold(t, v, 5),
    "where": lambda lib, t, v: lib.where(lib.tensor([True, False]), t, v),
    "where first": lambda lib, t, v: lib.where(lib.tensor([True, False]), v, t),
    "xlogy": lambda lib, t, v: lib.xlogy(t, v),
    "xlogy of a number": lambda lib, t, v: lib.xlogy(v, t),
}
TAKE_TENSORS = "add alpha|addcdiv|addcmul|clamp|index_fill|lerp|masked_fill|setitem of a mask".split("|")


def outcome(lib, call, dtype, v, as_tensor=False):
    """dtype and elements of the result, or the class of what is raised."""
    t = lib.tensor([5, 6], dtype=getattr(lib, dtype))
    try:
        if as_tensor:
            v = lib.tensor(v, dtype=lib.float64 if isinstance(v, float) else lib.int64)
        y = call(lib, t, v)
    except (ValueError, TypeError, RuntimeError, OverflowError) as e:
        return type(e)
    return y if y is None else (str(y.dtype), [y.tolist()] if y.dtype in (lib.int64, lib.int32) else y.numpy())


def alike(want, got):
    if isinstance(want, tuple) and isinstance(got, tuple) and isinstance(want[1], np.ndarray):
        return want[0] == got[0] and np.allclose(got[1], want[1], 1e-6, 0, equal_nan=True)
    return want == got


def check(name, dtype, numbers, as_tensor=False):
    wrong = []
    for number in numbers:
        want, got = (outcome(lib, CALLS[name], dtype, NUMBERS[number], as_tensor) for lib in (torch, tt))
        if not alike(want, got):
            wrong.append(f"{number}: {got} instead of {want}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_a_number_as_pytorch_takes_it(name, dtype):
    check(name, dtype, NUMBERS)


@pytest.mark.parametrize("name", ["add", "mul", "div", "rpow", "eq", "lt", "where", "where first"])
def test_complex_numbers_are_refused(name):
    with pytest.raises(NotImplementedError, match="complex"):
        CALLS[name](tt, tt.ones(2), 1j)


@pytest.mark.parametrize("name, args", [("fill_", (2.5,)), ("zero_", ()), ("add_", (1,)), ("copy_", ([1.0, 2.0, 3.0],))])
def test_elements_that_are_one_in_memory(name, args):
    """One value for all of them is written, another for each refused."""
    def run(lib):
        x = lib.ones(1).expand(3)
        return getattr(x, name)(*[lib.tensor(v) if isinstance(v, list) else v for v in args])

    same(run)


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add", "add_", "mul", "lt", "fill_", "full", "masked_fill", "where", "clamp min", "addmm"])
def test_an_integer_beyond_all(name, dtype, number):
    if (name, dtype) != ("addmm", "bool"):
        for lib in (torch, tt):
            assert outcome(lib, CALLS[name], dtype, number) is OverflowError, lib


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TAKE_TENSORS)
def test_a_tensor_for_a_number(name, dtype):
    check(name, dtype, "big|int32 max + 1|300|-1|2.5|nan|1e39".split("|"), as_tensor=True)
