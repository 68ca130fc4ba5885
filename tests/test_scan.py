"""cumsum, cumprod, flip and norms against PyTorch."""

import math

import numpy as np
import pytest
import torch
from _both import same

import tensotron as tt
from tensotron._cpu import backend

SHAPES = [
    ((7,), 0),
    ((0,), 0),
    ((), 0),
    ((3, 5), 0),
    ((3, 5), -1),
    ((2, 130, 3), 1),
    ((2, 3, 70), 1),
    ((3, 0, 2), 1),
    ((4, 1), 1),
]
DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]
INF = math.inf


@pytest.fixture(params=backend.available_isas())
def isa(request):
    before = backend.get_cpu_capability()
    backend.select(request.param)
    yield request.param
    backend.select({v: k for k, v in backend.CAPABILITIES.items()}[before])


def values(shape, dtype):
    a = np.random.default_rng(len(shape)).standard_normal(shape)
    return np.asarray(a > 0) if dtype == "bool" else np.asarray(abs(a * 2) if dtype == "uint8" else a * 2).astype(dtype)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scan(isa, name, dtype):
    for shape, dim in SHAPES:
        a = values(shape, dtype)
        same(lambda lib: getattr(lib, name)(lib.from_numpy(a.copy()), dim))
        same(lambda lib: getattr(lib.from_numpy(a.copy()), name + "_")(dim))
        if len(shape) > 1:
            same(lambda lib: getattr(lib.from_numpy(a.T.copy()).transpose(0, -1), name)(dim))
        for to in DTYPES:
            if to != "uint8" or not dtype.startswith("float"):  # negative floats have no uint8 value
                same(lambda lib: getattr(lib.from_numpy(a.copy()), name)(dim, dtype=getattr(lib, to)))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scan_arguments(name):
    for call in (
        lambda f, m, x, lib: f(x),
        lambda f, m, x, lib: f(x, 1.0),
        lambda f, m, x, lib: m(x, 1.0),
        lambda f, m, x, lib: f(x, 2),
        lambda f, m, x, lib: f(3, 0),
        lambda f, m, x, lib: f(x, 0, out=lib.empty(0, dtype=lib.int64)),
        lambda f, m, x, lib: f(x, 0, dtype=lib.float64, out=lib.empty(3)),
        lambda f, m, x, lib: f(x, 0, out=x),
        lambda f, m, x, lib: f(x.clone().requires_grad_(), 0, out=lib.empty(3)),
        lambda f, m, x, lib: getattr(x, name + "_")(0, dtype=lib.int64),
        lambda f, m, x, lib: getattr(x.clone().requires_grad_(), name + "_")(0),
    ):
        same(lambda lib: call(getattr(lib, name), getattr(lib.Tensor, name), lib.tensor([1.5, -2.0, 3.0]), lib))


def gradients(lib, fn, data, dtype="float64"):
    """The result, its gradient, and the gradient of a function of that gradient."""
    x = lib.tensor(data, dtype=getattr(lib, dtype)).requires_grad_()
    y = fn(x, lib)
    weight = lib.arange(1.0, y.numel() + 1, dtype=y.dtype).reshape(y.shape)
    (g,) = lib.autograd.grad((y * weight).sum(), x, create_graph=True)
    (plain,) = lib.autograd.grad((fn(x, lib) * weight).sum(), x)
    second = lib.autograd.grad((g * g).sum(), x)[0] if g.requires_grad else g
    # + 0: PyTorch's tensors of known zeros have no NumPy array
    return [t.detach() + 0 for t in (y, g, plain, second)], y.grad_fn.name()


def agree(fn, data, dtype="float64"):
    (got, name), (want, wanted) = gradients(tt, fn, data, dtype), gradients(torch, fn, data, dtype)
    assert name == wanted
    for a, b in zip(got, want, strict=True):
        assert str(a.dtype)[-7:] == str(b.dtype)[-7:] and tuple(a.shape) == tuple(b.shape)
        tight = {} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-12}
        np.testing.assert_allclose(a.numpy(), b.numpy(), **(tight or {"rtol": 1e-5, "atol": 1e-5}))


DATA = [
    [[1.5, -2.0, 0.5], [3.0, 1.0, -1.0]],
    [[1.5, 0.0, 0.5], [3.0, 1.0, 2.0]],
    [[0.0, 0.0, 2.0], [3.0, 0.0, 0.0]],
]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("dim", [0, 1])
def test_scan_gradients(data, dim):
    for name in ("cumsum", "cumprod"):
        agree(lambda x, lib: getattr(x, name)(dim), data)
        agree(lambda x, lib: getattr(x, name)(dim, dtype=lib.float64), data, "float32")
        agree(lambda x, lib: getattr(x * 2, name + "_")(dim), data)
        agree(lambda x, lib: getattr(x[:, :1] * 1, name)(dim) * x, data)
    agree(lambda x, lib: (x * x).cumprod_(dim).exp(), data)


def test_scan_of_floats_rounds_once():
    a = np.random.default_rng(0).random(50_000, np.float32)
    same(lambda lib: lib.from_numpy(a).cumsum(0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_scan_of_rows(dtype):
    """Rows that are scanned together, and steps of several elements: every number of either."""
    for rows in (1, 3, 4, 5, 9):
        for n in (1, 2, 3, 4, 5, 7, 30):
            a = np.random.default_rng(n).uniform(0, 3, (rows, n)).astype(dtype)
            same(lambda lib: lib.from_numpy(a).cumsum(1))
            same(lambda lib: lib.from_numpy(a).cumprod(1))


def test_flip():
    for dims in ((), (0,), (1,), (0, -1), (2, 0), (0, 0), (5,), ("a",), (1.5,), 0, None):
        same(lambda lib: lib.flip(lib.arange(24.0).reshape(2, 3, 4), dims))
        same(lambda lib: lib.arange(24).reshape(2, 3, 4).permute(2, 0, 1).flip(dims))
        same(lambda lib: lib.arange(24).reshape(2, 3, 4).permute(2, 0, 1).flip(dims).stride())
        same(lambda lib: lib.arange(24).reshape(2, 3, 4)[:, 1:, ::2].flip(dims=dims))
    same(lambda lib: lib.arange(6).reshape(2, 3).flip(0, 1))
    same(lambda lib: lib.tensor(3).flip(0))
    same(lambda lib: lib.ones(0, 3).flip(0))
    same(lambda lib: lib.ones(1, 3).expand(2, 3).flip(0).stride())
    agree(lambda x, lib: x.flip((0, 1)).cumsum(1).flip(0).flip(-1).flip(1), DATA[0])


ORDERS = [0, 1, 2, 3, 0.5, 1.5, -1, -2, INF, -INF, "fro", None]


@pytest.mark.parametrize("p", ORDERS)
def test_norm(p):
    for data in (*DATA, [[0.0, 0.0], [0.0, 0.0]], [[2.0, -2.0], [2.0, 1.0]], [[math.nan, 1.0], [3.0, -3.0]]):
        for dim in (None, 0, (1,), (0, 1), ()):
            for keepdim in (False, True):
                if p != 0:
                    agree(lambda x, lib: lib.norm(x, p, dim, keepdim), data)
                    agree(lambda x, lib: (x * 1).norm(p, dim, keepdim, lib.float64), data, "float32")
                if isinstance(p, (int, float)):
                    norms = [lib.linalg.vector_norm(lib.tensor(data), p, dim, keepdim).numpy() for lib in (tt, torch)]
                    np.testing.assert_allclose(*norms, rtol=1e-6)


def test_norm_0_has_no_gradient():
    x = tt.tensor([1.0, 0.0, 2.0]).requires_grad_()
    y = x.norm(0)
    y.backward()
    assert y.item() == 2 and x.grad is None


def test_norm_arguments():
    for call in (
        lambda n, v, x, lib: v(x.long()),
        lambda n, v, x, lib: n(x > 0),
        lambda n, v, x, lib: n(x, dtype=lib.int64),
        lambda n, v, x, lib: v(x.double(), dtype=lib.float32),
        lambda n, v, x, lib: v(x, "fro"),
        lambda n, v, x, lib: v(x, 1j),
        lambda n, v, x, lib: n(x, lib.tensor(1.0)),
        lambda n, v, x, lib: n(x, "abc"),
        lambda n, v, x, lib: n(x, 1, (0, 0)),
        lambda n, v, x, lib: n(x, 1, 5),
        lambda n, v, x, lib: v(x, 1, 1.5),
        lambda n, v, x, lib: n(x, 1, "a"),
        lambda n, v, x, lib: n(x, 1, 0, 1),
        lambda n, v, x, lib: n(3.0),
        lambda n, v, x, lib: n(x, "fro", (0, 1, 2)),
        lambda n, v, x, lib: n(x, 1, 0, out=lib.empty(3)),
        lambda n, v, x, lib: n(x, 1, 0, out=lib.empty(3, dtype=lib.float64)),
        lambda n, v, x, lib: n(x.clone().requires_grad_(), out=lib.empty(())),
        *(lambda n, v, x, lib, p=p: v(lib.ones(0), p) for p in (0, 1, 2, 3, INF, -INF, -1, -2.5)),
        *(lambda n, v, x, lib, d=d: v(lib.ones(0, 3), INF, d) for d in (0, 1, (0, 1), ())),
    ):
        same(lambda lib: call(lib.norm, lib.linalg.vector_norm, lib.arange(6.0).reshape(2, 3), lib))
    with pytest.raises(NotImplementedError, match="nuc"):
        tt.ones(2, 2).norm("nuc")
