"""Reductions: the kernel of every instruction set against PyTorch, arguments, errors, accuracy."""

import warnings

import numpy as np
import pytest
import torch
from _both import outcome

import tensotron as tt
from tensotron._cpu import backend

CASES = [
    ((5,), (0,)), ((10007,), (0,)), ((3, 7), (1,)), ((3, 7), (0,)), ((33, 129), (0,)), ((33, 129), (1,)), ((70, 200), (0,)),
    ((4, 5, 6), (0, 2)), ((4, 50, 6), (1,)), ((2, 3, 4, 5), (1, 3)), ((2, 3, 40, 50), (0, 2, 3)), ((6, 1), (1,)),
    ((200, 3), (1,)), ((2000, 17), (0,)),
]  # fmt: skip
FOLDS = ["sum", "mean", "amax", "amin", "any", "all", "var", "std", "logsumexp", "prod"]
LAYOUTS = {
    "rows": lambda t: t,
    "columns": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "gaps": lambda t: t.unsqueeze(-1).expand(*t.shape, 2).contiguous()[..., 0],
    "expanded": lambda t: t[:1].expand(t.shape),
}


@pytest.fixture(params=backend.available_isas())
def isa(request):
    before = backend.get_cpu_capability()
    backend.select(request.param)
    yield request.param
    backend.select({v: k for k, v in backend.CAPABILITIES.items()}[before])


def values(shape, dtype, special):
    rng = np.random.default_rng(len(shape) + shape[0])
    a = rng.standard_normal(shape)
    if dtype.startswith("float"):
        a = a.astype(dtype)
        if special:
            pick = rng.random(shape)
            a[pick < 0.1], a[(pick > 0.1) & (pick < 0.2)], a[(pick > 0.2) & (pick < 0.3)] = np.inf, -np.inf, np.nan
            a[pick > 0.7] = 0
        return a
    return a > 0.5 if dtype == "bool" else np.abs(a * 2).astype(dtype)


def close(got, want, what):
    got, want = got.detach().numpy(), want.detach().numpy()
    assert got.dtype == want.dtype and got.shape == want.shape, what
    tight = want.dtype != np.float32
    np.testing.assert_allclose(got, want, rtol=1e-9 if tight else 3e-6, atol=1e-9 if tight else 2e-5, err_msg=str(what))


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_kernel(isa, dtype, special):
    for shape, dims in CASES:
        a = values(shape, dtype, special)
        for layout, arrange in LAYOUTS.items():
            if layout == "columns" and len(shape) < 2:
                continue
            x, y = arrange(tt.from_numpy(a)), arrange(torch.from_numpy(a))
            for name in FOLDS:
                if name in ("mean", "var", "std", "logsumexp") and not dtype.startswith("float"):
                    continue
                if name == "prod" and (len(dims) > 1 or a.size > 400):
                    continue
                d = dims[0] if name == "prod" else dims
                close(getattr(x, name)(d), getattr(y, name)(d), (isa, name, shape, dims, layout))
            if dtype != "bool" and len(dims) == 1:
                for name in ("max", "min"):
                    got, want = getattr(x, name)(dims[0]), getattr(y, name)(dims[0])
                    close(got.values, want.values, (isa, name, shape, dims, layout))
                    close(got.indices, want.indices, (isa, name, shape, dims, layout))
                    close(getattr(x, "arg" + name)(), getattr(y, "arg" + name)(), (isa, "arg" + name, shape, layout))


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_row_alone_and_among_others(isa, dtype, special):
    """Neighbouring rows are folded together; each has the bits of a row alone, and the index of its first extremum."""
    rng = np.random.default_rng(3)
    for n in (13, 15, 16, 17, 33, 64, 100, 127, 128, 130, 300):
        a = values((37, n), dtype, special)
        a[:, rng.integers(n, size=5)] = a[:, :1]  # ties
        if dtype != "int64":
            a[::3, : n // 2] *= 0  # zeros of both signs
        x = tt.from_numpy(a)
        folds = [f for f in FOLDS if dtype != "int64" or f in ("sum", "amax", "amin", "prod", "any", "all")]
        for name in [*folds, "argmax", "argmin"]:
            whole = getattr(x, name)(1).numpy()
            alone = np.stack([getattr(row, name)(0).numpy() for row in x])
            nan = np.isnan(alone)
            assert np.array_equal(np.isnan(whole), nan) and whole[~nan].tobytes() == alone[~nan].tobytes(), (name, n)
        for name in ("max", "min"):
            got, want = getattr(x, name)(1), getattr(torch.from_numpy(a), name)(1)
            for g, w in zip(got, want):
                assert np.array_equal(g.numpy(), w.numpy(), equal_nan=g.dtype.is_floating_point), (name, n)


def test_sums_are_as_accurate_as_torch(isa):
    def worst(lib, n):
        errors = []
        for seed in range(8):
            a = np.random.default_rng(seed).random(n, np.float32)
            exact = a.sum(dtype=np.float64)
            errors.append((lib.from_numpy(a).sum().item() - exact) / exact)
        return np.sqrt(np.mean(np.square(errors)))

    for n in (1000, 100_000, 1 << 20):
        assert worst(tt, n) <= max(1.5 * worst(torch, n), 6e-8)
    columns = np.random.default_rng(0).random((1 << 16, 5), np.float32)
    np.testing.assert_allclose(tt.from_numpy(columns).sum(0).numpy(), columns.sum(0, dtype=np.float64), rtol=2e-7)


@pytest.mark.parametrize("keepdim", [False, True])
def test_many_dimensions(keepdim):
    def run(lib):
        x = lib.arange(4096.0).reshape([2] * 12).permute(0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11).requires_grad_()
        y = x.amax(tuple(range(1, 12, 2)), keepdim=keepdim)
        z = x.sum((0, 3, 5, 8), keepdim=keepdim)
        (y.sum() + (z * z).sum()).backward()
        return y, z, x.grad

    assert outcome(run, tt) == outcome(run, torch)


EXPRESSIONS = """
" | x.sum(()) | x.sum(None) | x.sum(2) | L.sum(x, dim=(0, 0)) | x.sum(dtype=L.bool) | i.sum(dtype=L.uint8)
x.sum(axis=0, keepdims=True) | i.mean() | i.mean(dtype=L.int32) | i.mean(dtype=L.float64) | e.mean() | b.sum()
b.prod() | L.prod(x, 0, True) | x.amax(()) | e.amax() | e.amax(0) | e.amax(1) | e.amax((0, 1)) | b.amax() | e.max()
e.max(0) | e.max(1) | b.max(0) | x.max(x) | x.max(0, True) | z.max(0)
L.max(x, 1, out=(L.empty(2), L.empty(2, dtype=L.int64))) | e.argmax() | e.argmax(0) | e.argmax(1) | b.argmax()
x.argmax(keepdim=True) | x.any(()) | x.any((0, 1)) | L.tensor([1], dtype=L.uint8).any(0) | e.all(0) | x.all([])
x.all((0, 0)) | x.var(()) | i.var() | x.var(0, True) | x.var(0, False, True) | x.var(unbiased=False)
x.var(0, correction=2) | x.var(True) | e.var(0) | L.var_mean(x, 0) | L.std_mean(i) | x.logsumexp((0, 1), True)
i.logsumexp(0) | e.logsumexp(0) | L.count_nonzero(x, dim=(0, 1)) | L.sum(x, 0, out=L.empty(5))
L.mean(x, 0, out=L.empty(3, dtype=L.int64)) | L.amax(x, 0, out=L.empty(3, dtype=L.float64))
L.argmax(x, 0, out=L.empty(3)) | L.sum(1) | L.any(x, 0, out=L.empty(3, dtype=L.uint8))
L.sum(x, 0, out=L.empty(3, dtype=L.float64))
"""


@pytest.mark.parametrize("expression", [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(" | ")])
def test_arguments(expression):
    def run(lib):
        i = lib.arange(6).reshape(2, 3)
        scope = {"L": lib, "x": i.float(), "i": i, "b": i > 2, "e": lib.zeros(0, 3), "z": lib.tensor(3.0)}
        return eval(expression, scope)

    got, want = outcome(run, tt), outcome(run, torch)
    assert len(got) == len(want) and [str(g) for g in got] == [str(w) for w in want]


def test_named_results():
    r = tt.tensor([[1.0, 3.0], [2.0, 0.0]]).max(1)
    assert repr(r) == repr(torch.tensor([[1.0, 3.0], [2.0, 0.0]]).max(1))
    values, indices = r
    assert values is r.values and indices is r[1]


def test_variance_warns_of_no_freedom():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tt.ones(1).var()
    assert "degrees of freedom is <= 0" in str(seen[0].message)
