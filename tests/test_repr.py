"""``repr`` and ``format`` of tensors, against PyTorch's."""

import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tensotron as tt

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]
OPTIONS = {
    "default": {},
    "short": {"profile": "short"},
    "full": {"profile": "full"},
    "precision": {"precision": 2},
    "no digits": {"precision": 0},
    "threshold": {"threshold": 5},
    "always summarized": {"threshold": 0, "edgeitems": 2},
    "no edge items": {"threshold": 3, "edgeitems": 0},
    "narrow": {"linewidth": 30},
    "one column": {"linewidth": 7},
    "wide": {"linewidth": 200, "precision": 8},
    "scientific": {"sci_mode": True},
    "never scientific": {"sci_mode": False},
    "profile and more": {"profile": "short", "precision": 7, "sci_mode": True},
}
SHAPES = [(), (1,), (0,), (0, 3), (2, 0), (7,), (20,), (1001,), (5, 3), (40, 30), (2, 3, 4)]
SHAPES += [(12, 10, 11), (2, 1, 3, 2), (1, 1100), (1100, 1)]
CASES = {
    "normal": lambda r, n: r.standard_normal(n),
    "magnitudes": lambda r, n: r.standard_normal(n) * 10.0 ** r.integers(-6, 9, n),
    "whole": lambda r, n: np.round(r.standard_normal(n) * 100),
    "big": lambda r, n: np.round(r.standard_normal(n) * 1e9),
    "small": lambda r, n: r.standard_normal(n) * 1e-5,
    "zeros": lambda r, n: np.where(r.random(n) < 0.5, 0.0, -0.0),
    "special": lambda r, n: r.choice([math.nan, math.inf, -math.inf, 0.0, 1.5, -2.0], n),
    "only non-finite": lambda r, n: r.choice([math.nan, math.inf, -math.inf], n),
    "denormal": lambda r, n: r.standard_normal(n) * 1e-310,
    "at the limits": lambda r, n: r.choice([1e-4, 1e8, 1000.0, 1.0, 0.5], n),
}


def both(array):
    return tt.from_numpy(array.copy()), torch.from_numpy(array.copy())


def set_options(options):
    for lib in (tt, torch):
        lib.set_printoptions(profile="default")
        lib.set_printoptions(**options)


def data(dtype, shape, case, seed=0):
    rng = np.random.default_rng(seed)
    values = CASES[case](rng, math.prod(shape))
    if dtype == "bool":
        values = values > 0
    elif not dtype.startswith("float"):
        values = np.nan_to_num(values, posinf=7, neginf=-7)
        values = np.abs(values) % 256 if dtype == "uint8" else np.clip(values, -(2**31), 2**31 - 1)
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype).reshape(shape)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype, options):
    set_options(options)
    for seed, shape in enumerate(SHAPES):
        cases = list(CASES) if dtype.startswith("float") else ["normal", "whole", "big"]
        if math.prod(shape) > 1000:  # PyTorch needs a second for each of these in full
            cases = cases[:2]
        for case in cases:
            ours, theirs = both(data(dtype, shape, case, seed))
            assert repr(ours) == repr(theirs), (shape, case)
            assert str(ours) == str(theirs)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(width=32), min_size=1, max_size=12),
    st.integers(0, 8),
    st.sampled_from([None, True, False]),
    st.integers(5, 100),
)
def test_any_floats(values, precision, sci_mode, linewidth):
    set_options({"precision": precision, "sci_mode": sci_mode, "linewidth": linewidth})
    ours, theirs = both(np.array(values, dtype=np.float32))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_suffixes(default):
    for lib in (tt, torch):
        lib.set_default_dtype(getattr(lib, default))

    def tensors(lib):
        leaf = lib.arange(6, dtype=lib.float32).reshape(2, 3).requires_grad_()
        double = lib.ones(25, dtype=lib.float64)
        yield leaf
        yield leaf.detach()
        yield leaf * 2
        yield leaf.sum()
        yield leaf[0]
        yield leaf.t()
        yield leaf.exp().sigmoid()
        yield double
        yield double.requires_grad_()
        yield (double * 1.5).reshape(5, 5)
        yield lib.zeros(0)
        yield lib.zeros(0, dtype=lib.float64)
        yield lib.zeros(0, dtype=lib.int64)
        yield lib.zeros(0, 3, dtype=lib.bool)
        yield lib.zeros(2, 0, requires_grad=True)
        yield lib.zeros(2, 0, requires_grad=True) * 2
        yield lib.tensor(True)
        yield lib.tensor(3)
        yield lib.tensor(3, dtype=lib.int32)
        yield lib.tensor(2.5, requires_grad=True)
        for n in range(10, 30):  # the suffix goes on a line of its own when it must
            yield lib.full((n,), 0.5, dtype=lib.float64, requires_grad=True) * 1

    for ours, theirs in zip(tensors(tt), tensors(torch)):
        assert repr(ours) == repr(theirs)


def test_a_view_that_lost_its_history():
    def make(lib):
        base = lib.ones(3, requires_grad=True).clone()
        with lib.no_grad():
            view = base[:2]
            view.mul_(2)
        return repr(view)

    assert make(tt) == make(torch)


def test_options_are_kept_and_restored():
    for lib in (tt, torch):
        lib.set_printoptions(precision=7, linewidth=33, sci_mode=True)
    assert tt.get_default_dtype() == tt.float32
    t, u = both(np.array([1.23456789, 2.0]))
    assert repr(t) == repr(u)
    # sci_mode does not survive a call that leaves it out
    for lib in (tt, torch):
        lib.set_printoptions(edgeitems=1)
    assert repr(t) == repr(u)
    with tt._tensor_str.printoptions(precision=1), torch._tensor_str.printoptions(precision=1):
        assert repr(t) == repr(u)
    assert repr(t) == repr(u)
    assert tt._tensor_str.get_printoptions() == torch._tensor_str.get_printoptions()


@pytest.mark.parametrize("spec", ["", ".3f", "10.2e", ">12", "d", "05", "x"])
def test_format(spec):
    def results(lib):
        for value in (2.5, 3, True, -1e-9, math.nan):
            for tensor in (lib.tensor(value), lib.tensor([value])):
                try:
                    yield format(tensor, spec)
                except (TypeError, ValueError) as exc:
                    yield type(exc).__name__, str(exc)
        yield format(lib.tensor(1.0), "") + f"{lib.tensor(7):>4}"
        if spec == ".3f":  # no warning about the gradient either
            yield format(lib.tensor(0.125, requires_grad=True), spec)

    assert list(results(tt)) == list(results(torch))


def test_type_names():
    """The names by which Python itself speaks of a tensor, and of its class."""

    def results(lib):
        cls = lib.Tensor
        t = lib.ones(2)
        calls = (
            lambda: t + "a", lambda: "a" + t, lambda: t < "a", lambda: t @ 3, lambda: t << "a", lambda: divmod(t, "a"),
            lambda: t(), lambda: t.foo, lambda: cls.foo, lambda: "".join([t]), lambda: ~t, lambda: format(t, "d"),
        )  # fmt: skip
        for call in calls:
            try:
                call()
            except (TypeError, AttributeError) as exc:
                yield type(exc).__name__, str(exc)
        yield repr(cls).replace(lib.__name__, "torch"), cls.__module__ == lib.__name__
        yield cls.__name__, cls.__qualname__, type(cls).__name__
        sub = type("Sub", (cls,), {"__module__": "here"})
        yield repr(sub), sub.__module__, isinstance(t, cls), isinstance(t, sub), isinstance(1, cls), issubclass(sub, cls)
        sub.__module__ = "there"
        yield repr(sub), pickle.loads(pickle.dumps(cls)) is cls
        for name in ("Size", "device", "layout", "memory_format"):
            yield repr(getattr(lib, name)).replace(lib.__name__, "torch")

    assert list(results(tt)) == list(results(torch))
