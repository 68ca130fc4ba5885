"""Softmax, normalisation and losses on every instruction set; what a refused call leaves alone."""

import numpy as np
import pytest
import torch

import tensotron as tt
from tensotron._cpu import backend


@pytest.fixture(params=backend.available_isas())
def isa(request):
    before = backend.get_cpu_capability()
    backend.select(request.param)
    yield request.param
    backend.select({v: k for k, v in backend.CAPABILITIES.items()}[before])


def compare(fn, arrays, tolerance=2e-5):
    """Outputs, gradients, and gradients of those (float64)."""
    results = []
    for lib in (tt, torch):
        inputs = [lib.from_numpy(a.copy()) for a in arrays]
        leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
        out = fn(lib, *inputs)
        scale = lib.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)
        plain = lib.autograd.grad((out * scale).sum(), leaves, retain_graph=True, allow_unused=True)
        found = [out, *[g for g in plain if g is not None]]
        if out.dtype == lib.float64:
            first = lib.autograd.grad((out * scale).sum(), leaves, create_graph=True, allow_unused=True)
            found += [g for g in first if g is not None]
            total = sum((g * g).sum() for g in first if g is not None)
            second = lib.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
            found += [lib.zeros_like(t) if g is None else g for g, t in zip(second, leaves)]
        results.append([t.numpy(force=True) for t in found])
    assert len(results[0]) == len(results[1])
    for got, want in zip(*results):
        limit = tolerance if want.dtype == np.float32 else 1e-8
        np.testing.assert_allclose(got, want, rtol=limit, atol=limit * max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0)))


def random(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax(isa, dtype):
    shapes = [((4, 7), 1), ((4, 7), 0), ((1, 5), 1), ((100, 16), 1), ((3, 1000), 1), ((3, 40, 50), 1), ((2, 3, 17), 0)]
    short = [((rows, n), 1) for rows, n in [(2, 2), (15, 3), (16, 4), (17, 6), (40, 8), (9, 9), (33, 17), (20, 32), (5, 33)]]
    for shape, dim in [*shapes, *short, ((7, 1), 1)]:
        for name in ("softmax", "log_softmax"):
            compare(lambda lib, x: getattr(lib, name)(x, dim), [random(dtype, *shape)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms(isa, dtype):
    for shape, size in [((3, 5), (5,)), ((70, 37), (37,)), ((2, 3, 4), (3, 4)), ((5,), (5,)), ((2, 3000), (3000,))]:
        compare(lambda lib, x, w, b: lib.nn.functional.layer_norm(x, size, w, b),
                [random(dtype, *shape), random(dtype, *size), random(dtype, *size)])
    for shape, groups in [((2, 4, 5), 2), ((3, 6, 7, 7), 3), ((70, 12, 2), 4), ((2, 3, 1000), 3)]:
        c = shape[1]
        compare(lambda lib, x, w, b: lib.nn.functional.group_norm(x, groups, w, b),
                [random(dtype, *shape), random(dtype, c), random(dtype, c)])
    for shape in [(8, 3), (130, 37), (4, 5, 7), (3, 16, 5, 5)]:
        c = shape[1]
        for training in (True, False):
            def norm(lib, x, w, b):
                mean, var = lib.linspace(-1, 1, c, dtype=x.dtype), lib.linspace(0.5, 2, c, dtype=x.dtype)
                y = lib.nn.functional.batch_norm(x, mean, var, w, b, training, 0.3)
                return lib.cat([y.reshape(-1), mean, var])

            compare(norm, [random(dtype, *shape), random(dtype, c), random(dtype, c)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(isa, dtype, reduction):
    x, t = random(dtype, 37, 5), random(dtype, 37, 5)[::-1].copy()
    for name, extra in [("mse_loss", {}), ("l1_loss", {}), ("smooth_l1_loss", {"beta": 0.7}), ("huber_loss", {"delta": 0.6}),
                        ("binary_cross_entropy_with_logits", {})]:
        compare(lambda lib, a, b: getattr(lib.nn.functional, name)(a, b, reduction=reduction, **extra), [x, t])
    rng = np.random.default_rng(1)
    for shape in [(7, 10), (300, 3), (5, 300), (2, 4, 3, 5), (3, 5, 40), (6,), (17, 4), (20, 19)]:
        terms = shape[:1] + shape[2:] if len(shape) > 1 else ()
        classes = shape[1] if len(shape) > 1 else shape[0]
        target = rng.integers(0, classes, terms)
        target = np.where(rng.random(terms) < 0.2, -100, target)
        weight = rng.random(classes).astype(dtype)
        for name in ("cross_entropy", "nll_loss"):
            for w in (None, weight):
                def loss(lib, a, b):
                    return getattr(lib.nn.functional, name)(a, b, None if w is None else lib.from_numpy(w), reduction=reduction)

                compare(loss, [random(dtype, *shape), np.asarray(target)])


def test_a_class_out_of_range_is_found_before_anything_is_written():
    rows = tt.zeros(3, 4)
    with pytest.raises(IndexError, match="Target 4 is out of bounds."):
        tt.nn.functional.cross_entropy(rows, tt.tensor([0, 1, 4]))
    with backend.recording() as records, pytest.raises(IndexError):
        tt.nn.functional.nll_loss(rows, tt.tensor([-1, 0, 0]))
    assert len(records) == 1


def test_graph_has_torch_names():
    def names(lib):
        x = lib.ones(2, 3).requires_grad_()
        loss = lib.nn.functional.cross_entropy(x, lib.tensor([0, 1]))
        node, found = loss.grad_fn, []
        while node is not None:
            found.append(type(node).__name__)
            node = node.next_functions[0][0] if node.next_functions else None
        return found

    assert names(tt) == names(torch)


def test_running_statistics_are_a_write():
    mean, var = tt.zeros(3), tt.ones(3)
    tt.nn.functional.batch_norm(tt.arange(12.0).reshape(4, 3), mean, var, training=True)
    assert mean._version == 1 and var._version == 1
