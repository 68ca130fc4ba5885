"""Convolution and pooling against PyTorch in float64 precision, for every instruction set of this machine."""

import numpy as np
import pytest
import torch

import tensotron
from tensotron._cpu import backend

F, R = tensotron.nn.functional, torch.nn.functional


@pytest.fixture(params=backend.available_isas())
def isa(request):
    backend.select(request.param)
    yield request.param
    backend.select(None)


def shapes(seed):
    rnd = np.random.RandomState(seed)
    groups = rnd.choice([1, 1, 2, 3])
    conv = {
        "stride": tuple(int(v) for v in rnd.choice([1, 1, 2, 3], 2)), "padding": tuple(int(v) for v in rnd.choice([0, 1, 2], 2)),
        "dilation": tuple(int(v) for v in rnd.choice([1, 1, 2], 2)), "groups": int(groups),
    }
    cin, cout = groups * rnd.choice([1, 2, 5]), groups * rnd.choice([1, 3, 8, 13, 16])
    kernel = tuple(int(v) for v in rnd.choice([1, 2, 3, 4], 2))
    x = int(rnd.choice([1, 2, 3])), int(cin), 9 + rnd.randint(9), 9 + rnd.randint(30)
    return rnd, conv, x, (int(cout), int(cin // groups), *kernel)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_conv2d(isa, seed, dtype):
    rnd, args, xs, ws = shapes(seed)
    arrays = [rnd.randn(*xs), rnd.randn(*ws), rnd.randn(ws[0])]
    ref = [torch.tensor(a, requires_grad=True) for a in arrays]
    ours = [tensotron.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    want = R.conv2d(*ref, **args)
    got = F.conv2d(*ours, **args)
    g = rnd.randn(*want.shape)
    want.backward(torch.tensor(g))
    got.backward(tensotron.tensor(g.astype(dtype)))
    tol = 2e-5 if dtype == "float32" else 1e-12
    for a, b in [(got, want), *((x.grad, y.grad) for x, y in zip(ours, ref, strict=True))]:
        b = b.detach().numpy()
        assert np.abs(a.detach().numpy() - b).max() <= tol * max(1, np.abs(b).max())


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_named_padding(padding):
    x, w = np.random.RandomState(0).randn(1, 2, 7, 6), np.random.RandomState(1).randn(3, 2, 4, 3)
    want = R.conv2d(torch.tensor(x), torch.tensor(w), padding=padding).numpy()
    assert np.allclose(F.conv2d(tensotron.tensor(x), tensotron.tensor(w), padding=padding).numpy(), want)


def test_infinities_reach_only_the_taps_that_meet_them(isa):
    """Padding inside the kernels must not turn an infinity elsewhere into a NaN."""
    x = tensotron.ones(2, 3, 6, 7, requires_grad=True)
    w = tensotron.ones(5, 3, 3, 3, requires_grad=True)
    with tensotron.no_grad():
        x[0, 0, 5, 6] = float("inf")
        w[0, 0, 0, 0] = float("inf")
    y = F.conv2d(x, w)
    y.backward(tensotron.ones_like(y))
    finite = np.isfinite(w.grad.numpy())
    assert not np.isnan(w.grad.numpy()).any() and not np.isnan(x.grad.numpy()).any()
    assert (~finite).sum() == 5 and np.isfinite(x.grad.numpy()[:, 0, 4:]).all() and np.isfinite(x.grad.numpy()[:, 1:]).all()


@pytest.mark.parametrize("seed", range(25))
def test_pooling(isa, seed):
    rnd = np.random.RandomState(seed)
    kernel = (2, 2) if seed % 3 == 0 else tuple(int(v) for v in rnd.choice([1, 2, 3], 2))
    args = {"stride": (2, 2) if seed % 3 == 0 else tuple(int(v) for v in rnd.choice([1, 2, 3], 2)), "ceil_mode": bool(seed % 2)}
    args["padding"] = (0, 0) if seed % 3 == 0 else tuple(int(k // 2) for k in kernel)
    data = rnd.randint(0, 4, (2, 3, 7 + rnd.randint(5), 7 + rnd.randint(40))).astype(np.float32)
    data[rnd.rand(*data.shape) < 0.02] = np.nan
    data[rnd.rand(*data.shape) < 0.1] = -np.inf
    results = []
    for lib in (tensotron, torch):
        x = lib.tensor(data, requires_grad=True)
        y, at = lib.nn.functional.max_pool2d(x, kernel, return_indices=True, **args)
        y.backward(lib.ones_like(y))
        smooth = lib.tensor(np.nan_to_num(data, neginf=0.0), requires_grad=True)
        z = lib.nn.functional.avg_pool2d(smooth, kernel, count_include_pad=bool(seed % 5), **args)
        z.backward(lib.ones_like(z))
        a = lib.nn.functional.adaptive_max_pool2d(lib.tensor(data), (3, 5))
        results.append([t.detach().numpy() for t in (y, at, x.grad, z, smooth.grad, a)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [*range(2, 19), 31, 32, 33, 66])
def test_pooling_two_by_two(isa, width, dtype):
    rnd = np.random.RandomState(width)
    for height in (2, 3, 6, 7):
        for ceil_mode in (False, True):
            data = rnd.randint(-2, 2, (2, 2, height, width)).astype(dtype)
            data[rnd.rand(*data.shape) < 0.05] = np.nan
            grad = rnd.randn(2, 2, 40, 40).astype(dtype)
            grad[rnd.rand(*grad.shape) < 0.2] = -0.0
            results = []
            for lib in (tensotron, torch):
                x = lib.tensor(data, requires_grad=True)
                y, at = lib.nn.functional.max_pool2d(x, 2, ceil_mode=ceil_mode, return_indices=True)
                y.backward(lib.tensor(grad[:, :, : y.shape[2], : y.shape[3]].copy()))
                results.append([y.detach().numpy(), at.numpy(), x.grad.numpy()])
            for got, want in zip(*results, strict=True):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(results[0][2]), np.signbit(results[1][2]))


def test_second_derivatives():
    rnd = np.random.RandomState(3)
    x, w = rnd.randn(1, 2, 5, 4), rnd.randn(3, 2, 2, 3)
    results = []
    for lib in (tensotron, torch):
        a, b = lib.tensor(x, requires_grad=True), lib.tensor(w, requires_grad=True)
        y = lib.nn.functional.max_pool2d(lib.nn.functional.conv2d(a, b, padding=1) ** 2, 2)
        y = lib.nn.functional.avg_pool2d(y, 2)
        ga, gb = lib.autograd.grad(y, (a, b), lib.ones_like(y), create_graph=True)
        results.append([t.detach().numpy() for t in lib.autograd.grad(ga.sum() + (gb * gb).sum(), (a, b))])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


def rms_error(values, truth):
    return float(np.sqrt(np.mean((np.asarray(values, np.float64) - truth) ** 2)))


@pytest.mark.parametrize("channels", [32, 64])
def test_sums_over_channels_round_as_little_as_pytorchs(channels):
    """A long sum in one chain rounds more, and then lands on other sides of relu's kink than PyTorch does."""
    rnd = np.random.RandomState(0)
    x, w = rnd.randn(8, channels, 9, 9), rnd.randn(64, channels, 3, 3) / np.sqrt(9 * channels)
    b, g = rnd.randn(64), rnd.randn(8, 64, 7, 7)
    results = []
    for lib, dtype in (R, "float64"), (R, "float32"), (F, "float32"):
        make = torch.from_numpy if lib is R else tensotron.from_numpy
        xs, ws, bs, gs = (make(v.astype("float32").astype(dtype)) for v in (x, w, b, g))
        y = lib.conv2d(xs.requires_grad_(), ws.requires_grad_(), bs)
        y.backward(gs)
        results.append([t.detach().numpy() for t in (y, xs.grad, ws.grad)])
    for truth, theirs, ours in zip(*results, strict=True):
        assert rms_error(ours, truth) <= 1.5 * rms_error(theirs, truth)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adaptive_average_of_everything(isa, dtype):
    """To one element it is the mean: its node, its rounding, its gradient."""
    data = np.random.RandomState(0).randn(3, 5, 9, 7).astype(dtype)
    results = []
    for lib in (tensotron, torch):
        x = lib.tensor(data, requires_grad=True)
        y = lib.nn.functional.adaptive_avg_pool2d(x, 1)
        assert y.grad_fn.name() == "MeanBackward1"
        (y * y).sum().backward()
        z = lib.nn.functional.adaptive_avg_pool2d(x[0], (1, 1))
        results.append([t.detach().numpy() for t in (y, x.grad, z)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)
