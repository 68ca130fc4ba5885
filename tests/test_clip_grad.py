"""The fused clipping of gradients: one launch for the norm, one to scale."""

import numpy as np
import pytest
import torch

import tensotron

LIBRARIES = (tensotron, torch)
SHAPES = [(64, 4), (64,), (300, 70), (), (0, 3), (17,), (1,)]


def clipped(lib, arrays, max_norm, **options):
    params = [lib.zeros(a.shape, dtype=getattr(lib, str(a.dtype))).requires_grad_() for a in arrays]
    for p, a in zip(params, arrays):
        p.grad = lib.from_numpy(a.copy())
    norm = lib.nn.utils.clip_grad_norm_(params, max_norm, **options)
    return norm, [p.grad.numpy() for p in params], params


def gradients(dtype, scale=1.0):
    rng = np.random.default_rng(0)
    return [np.asarray(rng.standard_normal(s) * scale, dtype) for s in SHAPES]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("max_norm", [1.0, 0, 1e6, 3, float("inf")])
@pytest.mark.parametrize("norm_type", [2.0, 2, "inf", 1.0, 3.5])
def test_pytorchs_result(dtype, max_norm, norm_type):
    arrays = [g for g in gradients(dtype) if g.size or norm_type == 2]
    (mine, grads, _), (theirs, others, _) = (clipped(lib, arrays, max_norm, norm_type=norm_type) for lib in LIBRARIES)
    eps = np.finfo(dtype).eps * (1 if norm_type == 2 else 16)  # PyTorch's long sums in single precision are that far off
    assert mine.shape == () and mine.dtype is getattr(tensotron, dtype) and not mine.requires_grad
    np.testing.assert_allclose(mine.item(), theirs.item(), rtol=4 * eps)
    for a, b in zip(grads, others):
        np.testing.assert_allclose(a, b, rtol=8 * eps)
        assert a.dtype == b.dtype


def test_norm_is_accurate():
    for n in (1, 15, 16, 63, 64, 65, 4095, 4096, 4097, 100_003):
        x = np.random.default_rng(n).standard_normal(n).astype("f4")
        want = np.linalg.norm(x.astype("f8"))
        got = tensotron.nn.utils.get_total_norm([tensotron.from_numpy(x)]).item()
        assert abs(got - want) <= 2 * np.spacing(np.float32(want))


def test_two_launches():
    arrays = gradients("float32")
    params = [tensotron.zeros(a.shape).requires_grad_() for a in arrays]
    for p, a in zip(params, arrays):
        p.grad = tensotron.from_numpy(a)
    versions = [p.grad._version for p in params]
    with tensotron._backend.recording() as records:
        tensotron.nn.utils.clip_grad_norm_(params, 1.0)
    assert len(records) == 2
    assert all(p.grad._version > v for p, v in zip(params, versions))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, 1e-30])
def test_norms_out_of_range(value):
    arrays = [np.array([1.0, value, 2.0], "f4"), np.array([3.0, 0.0], "f4")]
    (mine, grads, _), (theirs, others, _) = (clipped(lib, arrays, 1.0) for lib in LIBRARIES)
    np.testing.assert_equal(mine.item(), theirs.item())
    for a, b in zip(grads, others):
        np.testing.assert_array_equal(a, b)


def test_what_the_kernels_do_not_take():
    """Gradients of two dtypes, and such that are not dense."""
    for arrays in ([np.ones(3, "f4"), np.ones(4, "f8")], [np.ones((4, 6), "f4")[:, ::2], np.ones((2, 3), "f4").T]):
        results = []
        for lib in LIBRARIES:
            params = [lib.from_numpy(a.copy()).requires_grad_() for a in arrays]
            for p, a in zip(params, arrays):
                p.grad = lib.from_numpy(a.copy()) if a.flags.c_contiguous else lib.ones(4, 6)[:, : a.shape[1]][: a.shape[0]]
            results.append((lib.nn.utils.clip_grad_norm_(params, 0.5).item(), [p.grad.numpy().copy() for p in params]))
        np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
        for a, b in zip(results[0][1], results[1][1]):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_given_norm():
    for norm in (lambda lib: lib.tensor(5.0), lambda lib: lib.tensor(5.0, dtype=lib.float64)):
        results = []
        for lib in LIBRARIES:
            p = lib.ones(3, requires_grad=True)
            p.grad = lib.tensor([3.0, 4.0, 0.0])
            lib.nn.utils.clip_grads_with_norm_(p, 1.0, norm(lib))
            results.append(p.grad.numpy())
        np.testing.assert_array_equal(*results)


def test_nothing_to_clip():
    for lib in LIBRARIES:
        p = lib.ones(3, requires_grad=True)
        norm = lib.nn.utils.clip_grad_norm_([p], 1.0)
        assert norm.item() == 0 and norm.shape == () and p.grad is None
