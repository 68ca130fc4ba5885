"""Reductions of integers and bools, and truth of floats, in their own width: values, ties and positions as PyTorch's."""

import numpy as np
import pytest
import torch

import tensotron as tt
from tensotron._cpu import backend

SHAPES = [(1,), (15,), (16,), (63,), (65,), (300,), (5000,), (40000,), (70, 7), (33, 64), (100, 65), (7, 700), (3, 300, 70),
          (2, 600, 5), (4, 9, 17)]
LIMITS = {"int64": (-(1 << 63), (1 << 63) - 1), "int32": (-(1 << 31), (1 << 31) - 1), "uint8": (0, 255), "bool": (0, 1)}


@pytest.fixture(params=backend.available_isas())
def isa(request):
    before = backend.get_cpu_capability()
    backend.select(request.param)
    yield request.param
    backend.select({v: k for k, v in backend.CAPABILITIES.items()}[before])


def samples(shape, dtype):
    """Few values, so that extrema tie; the type's limits; one extremum at either end; nothing but zeros; a single one."""
    rs = np.random.RandomState(sum(shape))
    low, high = LIMITS[dtype]
    yield rs.randint(0, 3, shape).astype(dtype)
    yield np.array([low, high, 0, 1]).astype(dtype)[rs.randint(0, 4, shape)]
    for at in (0, -1):
        a = np.full(shape, 1 if dtype != "bool" else 0).astype(dtype)
        a.flat[at] = high
        yield a
    a = np.full(shape, 1).astype(dtype)
    a.flat[-1] = low
    yield a
    yield np.zeros(shape).astype(dtype)
    yield rs.randint(0, 256, shape).astype(dtype)


def results(lib, x):
    yield from (x.sum(), x.any(), x.all(), lib.count_nonzero(x), x.amax(), x.amin(), x.max(), x.min())
    if x.dtype != lib.bool:
        yield from (x.argmax(), x.argmin())
    for d in range(x.ndim):
        yield from (x.sum(d), x.any(d), x.all(d), lib.count_nonzero(x, d), x.amax(d), x.amin(d, keepdim=True))
        yield from (*x.max(d), *x.min(d))
        if x.dtype != lib.bool:
            yield from (x.argmax(d), x.argmin(d))


def same(arrange, array):
    got, want = results(tt, arrange(tt.from_numpy(array))), results(torch, arrange(torch.from_numpy(array)))
    for i, (g, w) in enumerate(zip(got, want)):
        assert str(g.dtype).split(".")[1] == str(w.dtype).split(".")[1] and g.shape == w.shape, i
        np.testing.assert_array_equal(g.numpy(), w.numpy(), err_msg=f"{i} {array.shape}")


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_torch(isa, shape, dtype):
    for array in samples(shape, dtype):
        same(lambda t: t, array)
        same(lambda t: t.transpose(0, -1), array)
        same(lambda t: t[..., ::2], array)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_sums_widen(isa, dtype):
    """Sums of the largest values, of more rows than a narrow accumulator holds."""
    for shape in ((300000,), (70000, 20), (9, 40000)):
        a = np.full(shape, LIMITS[dtype][1]).astype(dtype)
        x, y = tt.from_numpy(a), torch.from_numpy(a)
        for d in range(len(shape)):
            assert x.sum(d).tolist() == y.sum(d).tolist()
            assert tt.count_nonzero(x, d).tolist() == torch.count_nonzero(y, d).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_truth_of_floats(isa, shape, dtype):
    """NaN and subnormal numbers are true, both zeros are not."""
    rs = np.random.RandomState(len(shape))
    tiny = 1e-310 if dtype is np.float64 else 1e-40
    for values in ([0.0, -0.0], [0.0, -0.0, np.nan, tiny], [np.nan, np.inf, 1.0, -1.0, -tiny]):
        a = np.array(values, dtype)[rs.randint(0, len(values), shape)]
        for arrange in (lambda t: t, lambda t: t.transpose(0, -1), lambda t: t[..., ::2]):
            x, y = arrange(tt.from_numpy(a)), arrange(torch.from_numpy(a))
            for d in range(x.ndim):
                for name in ("any", "all"):
                    assert getattr(x, name)(d).tolist() == getattr(y, name)(d).tolist()
                assert tt.count_nonzero(x, d).tolist() == torch.count_nonzero(y, d).tolist()
            assert x.any().item() == y.any().item() and x.all().item() == y.all().item()
