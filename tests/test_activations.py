"""Activations where PyTorch's nodes, kinks, special values, refusals and random numbers show."""

import numpy as np
import pytest
import torch

import tensotron as tt

NAN, INF = float("nan"), float("inf")
VALUES = [NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 20.5, 0.1, -0.1, 1e-40, -1e-40, 1e30, 3e38, -3e38]
FUNCTIONS = {
    "threshold": ({"threshold": 0.5, "value": 2.0}, {"threshold": NAN, "value": 1}, {"threshold": -1, "value": NAN}),
    "mish": ({},),
    "logsigmoid": ({},),
    "hardshrink": ({}, {"lambd": 1.0}, {"lambd": -0.3}, {"lambd": NAN}),
    "softshrink": ({}, {"lambd": 0.0}, {"lambd": 1}),
    "celu": ({}, {"alpha": 2.0}, {"alpha": -1.0}),
    "elu": ({}, {"alpha": -1.0}),
    "selu": ({},),
    "rrelu": ({}, {"lower": -1.0, "upper": 0.5}),
    "leaky_relu": ({}, {"negative_slope": -0.5}),
    "relu": ({},),
}
IN_PLACE = ("threshold", "mish", "celu", "elu", "selu", "rrelu", "leaky_relu", "relu")


def arrays(dtype):
    x = np.array(VALUES, dtype)
    return {"whole vectors": np.tile(x, 32), "a few": x[:7]}


def same(got, want, what, rtol=2e-6):
    assert str(got.dtype) == str(want.dtype), what
    got, want = got.numpy(force=True), want.numpy(force=True)
    np.testing.assert_allclose(got, want, rtol, 1e-44, err_msg=str(what))
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]), str(what))


def error(fn):
    try:
        fn()
    except Exception as exc:
        builtin = next(c for c in type(exc).__mro__ if c.__module__ == "builtins")
        return builtin, str(exc).split("\n")[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_gradients_and_nodes(name, dtype):
    for kwargs in FUNCTIONS[name]:
        for inplace in (False, True) if name in IN_PLACE else (False,):
            for layout, x in arrays(dtype).items():
                for step in (1, 2):
                    results = []
                    for lib in (tt, torch):
                        leaf = lib.from_numpy(np.repeat(x, step)).requires_grad_()
                        used = leaf[::step] if step > 1 else leaf
                        f = getattr(lib.nn.functional, name)
                        y = f(used * 1, inplace=True, **kwargs) if inplace else f(used, **kwargs)
                        for g in (1.0, -0.0, NAN):
                            try:
                                (grad,) = lib.autograd.grad(y, used, lib.full_like(y, g), retain_graph=True)
                            except RuntimeError as exc:
                                grad = str(exc)
                            results.append((y, grad, type(y.grad_fn).__name__))
                    for (y, grad, node), (want, want_grad, want_node) in zip(results[:3], results[3:]):
                        what = (name, kwargs, inplace, layout, step)
                        assert node == want_node, what
                        same(y, want, what)
                        if isinstance(want_grad, str):
                            assert grad == want_grad.split("\n")[0], what
                        else:  # mish's derivative cancels at -1.2
                            same(grad, want_grad, what, 2e-6 if name != "mish" else 1e-5)


@pytest.mark.parametrize("name", "relu leaky_relu hardtanh hardshrink softshrink hardswish elu logsigmoid softplus".split())
@pytest.mark.parametrize("step", [1, 2])
def test_second_derivatives_at_special_values(name, step):
    x = np.tile(np.array([NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0], np.float32), 5)
    results = []
    for lib in (tt, torch):
        leaf = lib.from_numpy(np.repeat(x, step)).requires_grad_()
        v = lib.full((len(x),), 0.75).requires_grad_()
        (first,) = lib.autograd.grad(getattr(lib.nn.functional, name)(leaf[::step]), leaf, v, create_graph=True)
        results += [first[::step], *lib.autograd.grad(first, (leaf, v), lib.full_like(first, 0.5))]
    for got, want in zip(results[:3], results[3:]):
        np.testing.assert_allclose(got.numpy(force=True), want.numpy(force=True), 1e-5, 1e-7)


@pytest.mark.parametrize("name, args", [("relu", ()), ("leaky_relu", (0.5,)), ("threshold", (0.25, -2.0))])
@pytest.mark.parametrize("inplace", [False, True])
def test_zero_second_derivative_has_a_graph(name, args, inplace):
    """A gradient penalty through a net whose weights are frozen."""
    results = []
    for lib in (tt, torch):
        x = lib.tensor([1.0, 0.0, -1.0, NAN], requires_grad=True)
        y = getattr(lib.nn.functional, name)(x * 2 if inplace else x, *args, inplace=inplace)
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        results.append((g.detach(), *lib.autograd.grad(g.sum(), x)))
    for got, want in zip(*results):
        same(got, want, name)


REFUSED = [
    lambda lib, x: lib.nn.functional.softshrink(x, -0.3),
    lambda lib, x: lib.nn.functional.softshrink(x, NAN),
    lambda lib, x: lib.nn.functional.softshrink(x, INF),
    lambda lib, x: lib.nn.functional.threshold(x, 1, 300),
    lambda lib, x: lib.nn.functional.threshold(x, -1, 2),
    lambda lib, x: lib.nn.functional.threshold(x, -1.0, 2),
    lambda lib, x: lib.nn.functional.threshold(x, 0, NAN),
    lambda lib, x: lib.nn.functional.threshold(x, 2.7, 1.7),
    lambda lib, x: lib.nn.functional.threshold(x, 1e30, 1),
    lambda lib, x: lib.nn.functional.threshold_(x, 1, 2),
    lambda lib, x: lib.threshold(x, 1, 2),
    lambda lib, x: lib.nn.functional.hardshrink(x),
    lambda lib, x: x.hardshrink(0.25),
    lambda lib, x: lib.nn.functional.logsigmoid(x),
    lambda lib, x: lib.nn.functional.mish(x),
    lambda lib, x: lib.nn.functional.gelu(x[:0]),
    lambda lib, x: lib.celu_(x),
    lambda lib, x: lib.selu_(x),
    lambda lib, x: lib.nn.functional.celu(x, 0.0),
    lambda lib, x: lib.nn.functional.rrelu(x),
    lambda lib, x: lib.nn.functional.rrelu(x, 0.3, 0.2),
    lambda lib, x: lib.nn.functional.rrelu(x, -INF, 0.2),
    lambda lib, x: lib.nn.functional.rrelu(x, 0.1, NAN, True),
    lambda lib, x: lib.rrelu(x, 0.1, 0.3, True),
    lambda lib, x: lib.rrelu_(x, 0.1, 0.3),
    lambda lib, x: lib.nn.functional.glu(x),
    lambda lib, x: lib.nn.functional.glu(x, 2),
    lambda lib, x: lib.nn.functional.glu(x[:5], 0),
    lambda lib, x: lib.nn.functional.glu(x[0, 0]),
    lambda lib, x: lib.prelu(x, lib.tensor([0.25])),
    lambda lib, x: lib.prelu(x, lib.ones(3, dtype=x.dtype)),
    lambda lib, x: lib.prelu(x, lib.ones(4, dtype=x.dtype)),
    lambda lib, x: lib.prelu(x, lib.ones(2, 2, dtype=x.dtype)),
    lambda lib, x: lib.prelu(x, lib.ones(1, 1, dtype=x.dtype)),
    lambda lib, x: lib.prelu(x[0, 0], lib.ones(2, dtype=x.dtype)),
    lambda lib, x: lib.prelu(x[0, 0], lib.ones(1, dtype=x.dtype)),
    lambda lib, x: lib.prelu(x[0], lib.ones((), dtype=x.dtype)),
    lambda lib, x: lib.prelu(x[0], lib.ones(1, dtype=x.dtype)),
    lambda lib, x: lib.logit(x, 0.1),
    lambda lib, x: x.clone().logit_(),
    lambda lib, x: lib.logit(x, out=lib.empty(6, 4, dtype=lib.float32)),
    lambda lib, x: lib.nn.functional.logsigmoid(x, out=lib.empty(0)),
    lambda lib, x: lib.nn.functional.softplus(x, out=lib.empty(0, dtype=lib.float64)),
    lambda lib, x: lib.hardshrink(x, out=lib.empty(6, 4)),
    lambda lib, x: lib.nn.functional.softshrink(x, out=lib.empty(0)),
    lambda lib, x: lib.threshold(x, 1, 2, out=lib.empty(0)),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_dtypes_and_refusals(case, dtype):
    x = np.arange(-9, 15).reshape(6, 4) if dtype != "uint8" else np.arange(24).reshape(6, 4)
    results = []
    for lib in (tt, torch):
        t = lib.from_numpy(x.astype(dtype))
        kept = []
        refusal = error(lambda: kept.append(REFUSED[case](lib, t)))
        results.append((refusal, kept, t))
    (got, kept, t), (want, wanted, expected) = results
    assert got == want
    same(t, expected, "what is left of the input")
    for a, b in zip(kept, wanted):
        same(a, b, "result")


def test_relu_keeps_the_sign_of_zero():
    x = np.array([-0.0, 0.0, -1, 2] * 20, np.float32)
    calls = lambda lib, t: lib.relu(t), lambda lib, t: lib.nn.functional.relu_(t.clone()), lambda lib, t: lib.nn.ReLU()(t[::2])
    for call in calls:
        got, want = (call(lib, lib.from_numpy(x)).numpy() for lib in (tt, torch))
        assert np.array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("rows", [1, 2, 9, 40])
def test_relu_of_products_that_underflow(rows):
    """Captured, relu is part of the product; the sign of zero stays what it is one by one.

    PyTorch's sign is its linear algebra library's, which differs from processor to processor."""
    compiled = tt.compile(lambda x, w, b: tt.nn.functional.linear(x, w, b).relu())
    x, w = tt.full((rows, 8), 1e-30), tt.full((65, 8), -1e-30)
    for b in (None, tt.full((65,), -0.0)):
        for _ in range(3):
            got = compiled(x, w, b).numpy()
            eager = tt.nn.functional.linear(x, w, b).relu().numpy()
            assert np.array_equal(np.signbit(got), np.signbit(eager)) and not eager.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("inplace", [False, True])
def test_random_slopes_are_those_of_torch(dtype, inplace):
    x = np.random.default_rng(0).normal(size=(41, 50)).astype(dtype)
    x[0, :4] = [NAN, 0.0, -0.0, INF]
    results = []
    for lib in (tt, torch):
        lib.manual_seed(3)
        leaf = lib.from_numpy(x).requires_grad_()
        for used in (leaf, leaf.T):
            y = lib.nn.functional.rrelu(used * 1 if inplace else used, 0.1, 0.7, True, inplace)
            results += [y, *lib.autograd.grad(y, leaf, lib.ones_like(y))]
        results.append(lib.rand(3))
    for got, want in zip(results[:5], results[5:]):
        same(got, want, "rrelu", 0)


def test_prelu_per_channel():
    for shape in ((5,), (3, 4), (2, 4, 5), (2, 4, 3, 3)):
        results = []
        for lib in (tt, torch):
            n = int(np.prod(shape))
            x = (lib.arange(n, dtype=lib.float32) - n // 2).reshape(shape).requires_grad_()
            w = lib.linspace(-1, 1, 4 if len(shape) > 1 else 1).requires_grad_()
            y = lib.nn.functional.prelu(x, w)
            gx, gw = lib.autograd.grad((y * y).sum(), (x, w), create_graph=True)
            results += [y, gx, gw, *lib.autograd.grad((gx * gx).sum() + (gw * gw).sum(), (x, w))]
        for got, want in zip(results[:5], results[5:]):
            same(got, want, shape)


def test_gradients_in_a_captured_step():
    """The same bits as the eager run."""

    def step(x, w):
        F = tt.nn.functional
        y = F.mish(x) + F.logsigmoid(x) + F.hardshrink(x) + F.softshrink(x) + F.threshold(x, 0.1, 2.0) + F.prelu(x, w)
        y = y + F.celu(x * 2, 1.5, True) + F.leaky_relu(x * 3, 0.1, True) + F.rrelu(x) + tt.logit(tt.sigmoid(x), 1e-3)
        y = F.glu(tt.cat([y, x], 1)).relu()
        return (y, *tt.autograd.grad((y * y).sum(), (x, w)))

    compiled = tt.compile(step)
    for seed in range(4):
        tt.manual_seed(seed)
        x, w = tt.randn(6, 37).requires_grad_(), tt.tensor([0.25]).requires_grad_()
        for got, want in zip(compiled(x, w), step(x, w)):
            assert np.array_equal(got.detach().numpy(), want.detach().numpy())
    assert tt.compiler.stats(compiled)["replays"] > 0


@pytest.mark.parametrize("name", "leaky_relu elu selu celu gelu silu mish hardtanh relu6 hardsigmoid hardswish softplus "
                         "logsigmoid hardshrink softshrink threshold rrelu relu".split())
@pytest.mark.parametrize("inplace", [False, True])
def test_no_tensor(name, inplace):
    args = (0.1, 0.2) if name == "threshold" else ()
    kwargs = {"inplace": True} if inplace and name not in ("gelu", "softplus", "logsigmoid", "hardshrink", "softshrink") else {}
    ours, theirs = (error(lambda: getattr(lib.nn.functional, name)("text", *args, **kwargs)) for lib in (tt, torch))
    assert ours == theirs and ours[0] is TypeError
