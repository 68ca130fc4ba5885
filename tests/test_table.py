"""Every row of the op tables against PyTorch: values, dtypes, layouts, gradients, double backward; and the
derivatives against finite differences. A row that no test calls fails `test_every_row_is_called`.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import tensotron as tt

pytestmark = pytest.mark.filterwarnings("ignore")

OPS = Path(__file__).resolve().parent.parent / "tensotron" / "_ops"
DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]
TOLERANCE = {"float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}  # torch.testing.assert_close


def rows(file, kinds):
    text = re.sub(r"//.*", "", (OPS / file).read_text())
    return {name: kind for kind, name in re.findall(rf"^({kinds})\(\s*(\w+)", text, re.M)}


# rows that end in _backward are derivatives of others: the second derivatives call them
ELEMENTWISE = {n: k for n, k in rows("elementwise.def", "UNARY|BINARY|TERNARY").items() if not n.endswith("_backward")}
REDUCE = rows("reduce.def", "FOLD|FLOAT_FOLD|FINISHED|TRUTH|SCAN|MOMENT|LOGSUMEXP")


def plain(name):
    return lambda lib, *args: getattr(lib, name)(*args)


def functional(name, **kwargs):
    return lambda lib, *args: getattr(lib.nn.functional, name)(*args, **kwargs)


def in_place(name, **kwargs):
    return lambda lib, x: getattr(lib.nn.functional, name)(x * 1, inplace=True, **kwargs)


# Rows that are reached by another name than their own, or with parameters. A row may have several calls.
CALLS = {
    "cube": [lambda lib, x: x**3],
    "pow_half": [lambda lib, x: x**0.5],
    "pow_minus_half": [lambda lib, x: x**-0.5],
    "pow_minus_one": [lambda lib, x: x**-1.0],
    "pow_minus_two": [lambda lib, x: x**-2.0],
    "pow_three_halves": [lambda lib, x: x**1.5],
    "pow_four": [lambda lib, x: x**4],
    "pow_scalar": [lambda lib, x: x**2.5, lambda lib, x: x**-1.5, lambda lib, x: lib.pow(x, 0.0)],
    "ipow_scalar": [lambda lib, x: x**4 if not x.is_floating_point() else x**4.0],
    "leaky_relu": [functional("leaky_relu"), functional("leaky_relu", negative_slope=-0.3)],
    "leaky_relu_result": [in_place("leaky_relu"), in_place("leaky_relu", negative_slope=0.2)],
    "threshold": [functional("threshold", threshold=0.5, value=2.0), in_place("threshold", threshold=1, value=3)],
    "elu": [functional("elu"), functional("elu", alpha=0.5), functional("selu"), functional("celu", alpha=2.0)],
    "elu_result": [in_place("elu"), in_place("selu"), in_place("celu", alpha=2.0)],
    "log_sigmoid": [functional("logsigmoid")],
    "mish": [functional("mish"), in_place("mish")],
    "hardshrink": [functional("hardshrink"), functional("hardshrink", lambd=1.0)],
    "softshrink": [functional("softshrink"), functional("softshrink", lambd=0.0)],
    "logit": [plain("logit"), lambda lib, x: lib.logit(x, eps=0.1), lambda lib, x: lib.logit(lib.sigmoid(x), 1e-3)],
    "prelu": [lambda lib, a, b: lib.prelu(a, b.reshape(-1)[: a.size(1) if a.dim() > 1 else 1])],
    "glu": [lambda lib, a, b, dim=dim: lib.nn.functional.glu(lib.cat([a, b], dim), dim) for dim in (0, -1)],
    "gelu": [functional("gelu")],
    "gelu_tanh": [functional("gelu", approximate="tanh")],
    "hardtanh": [functional("hardtanh"), functional("hardtanh", min_val=-0.5, max_val=2.0), functional("relu6")],
    "hardtanh_result": [in_place("hardtanh")],
    "hardsigmoid": [functional("hardsigmoid"), in_place("hardsigmoid")],
    "hardswish": [functional("hardswish"), in_place("hardswish")],
    "silu": [functional("silu")],
    "softplus": [functional("softplus"), functional("softplus", beta=2.0, threshold=3.0)],
    "clamp": [lambda lib, x: lib.clamp(x, -1, 2), lambda lib, x: lib.clamp(x, 2, 1)],
    "clamp_min": [lambda lib, x: x.clamp(min=0), lambda lib, x: lib.clamp_min(x, 1)],
    "clamp_max": [lambda lib, x: x.clamp(max=1), lambda lib, x: lib.clamp_max(x, 1)],
    "add_alpha": [lambda lib, a, b: lib.add(a, b, alpha=3)],
    "sub_alpha": [lambda lib, a, b: lib.sub(a, b, alpha=3)],
    "rsub_alpha": [lambda lib, a, b: lib.rsub(a, b, alpha=2)],
    "div": [plain("div"), lambda lib, a, b: a / b],
    "div_floor": [lambda lib, a, b: lib.div(a, b, rounding_mode="floor"), lambda lib, a, b: a // b],
    "div_trunc": [lambda lib, a, b: lib.div(a, b, rounding_mode="trunc")],
    "remainder": [plain("remainder"), lambda lib, a, b: a % b],
    "ipow": [plain("pow")],
    "where": [lambda lib, a, b, c: lib.where(a > 0, b, c)],
    "masked_fill": [lambda lib, a, b, c: a.masked_fill(b > 0, 2)],
    "clamp_tensor": [lambda lib, a, b, c: lib.clamp(a, b, c)],
    "clamp_low_tensor": [lambda lib, a, b: a.clamp(min=b)],
    "clamp_high_tensor": [lambda lib, a, b: a.clamp(max=b)],
    "addcmul": [lambda lib, a, b, c: lib.addcmul(a, b, c, value=2)],
    "addcdiv": [lambda lib, a, b, c: lib.addcdiv(a, b, c, value=0.5)],
}
EXTRA = {  # functions that share rows but have shape or dtype rules of their own
    "rsub scalar": ("UNARY", [lambda lib, x: 2 - x, lambda lib, x: 2.5 - x]),
    "scalars": ("UNARY", [lambda lib, x: x + 1, lambda lib, x: x * 2.5, lambda lib, x: 3 / x, lambda lib, x: x > 0.5]),
}


def calls(name):
    if name in EXTRA:
        return EXTRA[name][1]
    if name in CALLS:
        return CALLS[name]
    return [plain(name)] if hasattr(torch, name) else [functional(name)]


def numbers(kind):
    return {"UNARY": 1, "BINARY": 2, "TERNARY": 3}[kind]


def draw(rng, shape, dtype, positive=False):
    if dtype == "bool":
        x = rng.random(shape) > 0.4
    elif not dtype.startswith("float"):
        x = rng.integers(1 if positive else 0 if dtype == "uint8" else -6, 7, shape)
    else:
        x = rng.normal(size=shape) * 1.5
        x = np.abs(x) * 0.9 + 0.05 if positive else x
    return np.asarray(x, dtype=dtype)


LAYOUTS = {
    "contiguous": lambda lib, t: t,
    "transposed": lambda lib, t: t.transpose(0, -1) if t.dim() > 1 else t,
    "sliced": lambda lib, t: t[..., ::2] if t.dim() else t,
    "expanded": lambda lib, t: t[:1].expand_as(t) if t.dim() else t,
}
SHAPES = [[(3, 4)] * 3, [(4, 1), (3,), (2, 1, 1)], [(), (5,), (5,)], [(2, 0), (2, 1), (1,)], [(67,)] * 3]


def raised(fn, *args):
    try:
        return fn(*args), None
    except Exception as exc:
        return None, exc


def close(got, want, what, arrays=()):
    """Equal within the tolerance of the least precise float among the result and the inputs."""
    assert str(got.dtype) == str(want.dtype), what
    assert tuple(got.shape) == tuple(want.shape), what
    got, want = got.numpy(force=True), want.numpy(force=True)
    if want.dtype.kind != "f":
        assert np.array_equal(got, want), what
        return
    kinds = {str(a.dtype) for a in (want, *arrays)}
    rtol, atol = TOLERANCE["float32" if "float32" in kinds else "float64"]
    np.testing.assert_allclose(got, want, rtol, atol, equal_nan=True, err_msg=str(what))


def check(call, arrays, layout="contiguous", what=""):
    """Same value, or an exception of the same class, and the same gradients, once and twice."""
    results = []
    for lib in (tt, torch):
        leaves = [lib.from_numpy(a.copy()) for a in arrays]
        for t in leaves:
            if t.is_floating_point():
                t.requires_grad_()
        used = [LAYOUTS[layout](lib, t) for t in leaves]
        y, exc = raised(call, lib, *used)
        results.append((lib, leaves, y, exc))
    (_, _, got, our_error), (_, _, want, their_error) = results
    if their_error is not None:
        builtin = next(c for c in type(their_error).__mro__ if c.__module__ == "builtins")
        assert isinstance(our_error, builtin), (what, repr(our_error), repr(their_error))
        return
    assert our_error is None, (what, repr(our_error))
    close(got, want, what, arrays)
    assert got.requires_grad == want.requires_grad, what
    if not want.requires_grad:
        return
    v = draw(np.random.default_rng(1), tuple(want.shape), str(want.dtype).rpartition(".")[2])

    def gradients(lib, leaves, y):
        inputs = [t for t in leaves if t.requires_grad]
        first = lib.autograd.grad(y, inputs, lib.from_numpy(v), create_graph=True, allow_unused=True)
        live = [g for g in first if g is not None and g.requires_grad]
        if not live:
            return [*first, *[None] * len(first)]
        return [*first, *lib.autograd.grad(sum((g * g).sum() for g in live), inputs, allow_unused=True)]

    theirs, their_error = raised(gradients, *results[1][:3])
    if their_error is not None:  # no derivative in PyTorch either
        return
    for k, (a, b) in enumerate(zip(gradients(*results[0][:3]), theirs)):
        if a is None or b is None:  # None and zeros mean the same
            rest = a if a is not None else b
            assert rest is None or not rest.numpy(force=True).any(), (what, "gradient", k)
        else:
            close(a, b, (what, "gradient", k), arrays)


def test_every_row_is_called():
    names = [n for n in ELEMENTWISE if n not in CALLS]
    assert [n for n in names if not hasattr(torch, n) and not hasattr(torch.nn.functional, n)] == []
    assert [n for n in REDUCE if n not in REDUCTIONS and not hasattr(torch, n)] == []
    assert len(ELEMENTWISE) > 80 and len(REDUCE) > 15


@pytest.mark.parametrize("name", [*ELEMENTWISE, *EXTRA])
def test_elementwise(name):
    kind = EXTRA[name][0] if name in EXTRA else ELEMENTWISE[name]
    rng = np.random.default_rng(0)
    for call in calls(name):
        for dtype in DTYPES:
            for shapes in SHAPES:
                for layout in LAYOUTS if shapes is SHAPES[0] else ["contiguous"]:
                    arrays = [draw(rng, s, dtype, positive=k > 0) for k, s in enumerate(shapes[: numbers(kind)])]
                    check(call, arrays, layout, (name, dtype, shapes, layout))


@pytest.mark.parametrize("name", [n for n, kind in ELEMENTWISE.items() if kind != "UNARY"])
def test_promotion(name):
    kind = ELEMENTWISE[name]
    rng = np.random.default_rng(0)
    for call in calls(name):
        for a in DTYPES:
            for b in DTYPES:
                for shapes in ([(3,), (3,), (3,)], [(3,), (), ()], [(), (3,), (3,)]):
                    arrays = [draw(rng, s, d, positive=k > 0) for k, (s, d) in enumerate(zip(shapes, (a, b, b)))]
                    check(call, arrays[: numbers(kind)], what=(name, a, b, shapes))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_derivatives_against_differences(name):
    """Central differences in float64, away from kinks."""
    count = numbers(ELEMENTWISE[name])
    rng = np.random.default_rng(3)
    h = 1e-6
    for call in calls(name):
        arrays = [draw(rng, (40,), "float64", positive=True) for _ in range(count)]
        leaves = [tt.from_numpy(a.copy()).requires_grad_() for a in arrays]
        y, exc = raised(call, tt, *leaves)
        if exc is not None or not y.requires_grad:
            continue
        grads, exc = raised(lambda: tt.autograd.grad(y.sum(), leaves, allow_unused=True))
        if exc is not None:  # not differentiable; test_elementwise knows whether rightly
            continue
        for k, grad in enumerate(grads):
            moved = []
            for step in (h, -h):
                inputs = [tt.from_numpy(a + (step if i == k else 0)) for i, a in enumerate(arrays)]
                moved.append(call(tt, *inputs).numpy())
            slope = (moved[0] - moved[1]) / (2 * h)
            known = np.zeros(40) if grad is None else grad.numpy()
            smooth = np.isfinite(slope) & np.isfinite(known) & (np.abs(slope) < 1e4)  # not across a jump
            np.testing.assert_allclose(known[smooth], slope[smooth], 2e-4, 2e-4, err_msg=f"{name}, input {k}")


REDUCTIONS = {
    "sum_squares": [lambda lib, x, *dim, **kw: lib.linalg.vector_norm(x, 2, *dim, **kw)],
    "norm_1": [lambda lib, x, *dim, **kw: lib.linalg.vector_norm(x, 1, *dim, **kw)],
    "norm_inf": [lambda lib, x, *dim, **kw: lib.linalg.vector_norm(x, float("inf"), *dim, **kw)],
    "norm_2": [lambda lib, x, *dim, **kw: lib.norm(x, 2, *dim, **kw)],
    "var": [plain("var"), lambda lib, x, *dim, **kw: lib.var(x, *dim, correction=0, **kw) if dim else lib.var(x, unbiased=False)],
}
ONE_DIM = {"argmax", "argmin", "max", "min", "prod", "any", "all"}
NEEDS_DIM = {"logsumexp"}


@pytest.mark.parametrize("name", REDUCE)
def test_reductions(name):
    rng = np.random.default_rng(0)
    for call in REDUCTIONS.get(name, [lambda lib, x, *dim, **kw: getattr(lib, name)(x, *dim, **kw)]):
        for dtype in DTYPES:
            for shape in ((), (5,), (3, 4), (2, 0), (4, 33, 3), (2, 700)):
                arrays = [draw(rng, shape, dtype)]
                dims = [()] if name not in NEEDS_DIM else []
                dims += [(d,) for d in range(-len(shape), len(shape))] or [(0,)]
                if name not in ONE_DIM and len(shape) > 1:
                    dims += [((0, 1),), ((-1, 0),)]
                for dim in dims:
                    for keep in ({}, {"keepdim": True}) if dim else ({},):
                        for layout in ("contiguous", "transposed"):

                            def run(lib, x, dim=dim, keep=keep):
                                y = call(lib, x, *dim, **keep)
                                return y[0] if isinstance(y, tuple) else y

                            def second(lib, x, dim=dim, keep=keep):
                                y = call(lib, x, *dim, **keep)
                                return y[1] if isinstance(y, tuple) else y

                            what = (name, dtype, shape, dim, keep, layout)
                            check(run, arrays, layout, what)
                            if name in ("max", "min", "var_mean", "std_mean"):
                                check(second, arrays, layout, (*what, "second"))


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_of_overflowing_quotients(name):
    """torch's vector code and its scalar code differ (docs/adr/0004)."""
    for tiny, dtype in ((1e-40, np.float32), (1e-310, np.float64)):
        a, b = np.full(64, -2, dtype), np.full(64, tiny, dtype)
        for step in (1, 2):
            got, want = (getattr(lib, name)(lib.from_numpy(a)[::step], lib.from_numpy(b)[::step]) for lib in (tt, torch))
            np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("n", [2, 3, 8, 31, 64, 200, 256, 257])
def test_short_rows(n, dtype):
    """Bit for bit what the same operands written out give."""
    rng = np.random.default_rng(n)

    def equal(f, *operands, size):
        got, want = f(*operands), f(*[t.expand(size).clone() for t in operands])
        assert np.array_equal(got.numpy(), want.numpy())

    for rows in (2, 7, 300):
        size = (rows, n)
        a, row, column, one = (tt.from_numpy(draw(rng, s, dtype)) for s in (size, (n,), (rows, 1), (1,)))
        for b in (row, column, one):
            for f in (tt.mul, tt.sub, tt.maximum):
                equal(f, a, b, size=size)
                equal(f, b, a, size=size)
        for operands in ((row, column, a), (a, row, column), (column, a, row), (a, one, row)):
            equal(tt.addcmul, *operands, size=size)
            equal(lambda x, y, z: tt.where(x > 0, y, z), *operands, size=size)
        equal(tt.mul, a[: rows // 2], column[::2][: rows // 2], size=(rows // 2, n))


def test_gradient_of_more_broadcast_dimensions_than_a_record_holds():
    """Kept and broadcast dimensions in turn: nine of them, which do not merge."""
    shape = (2,) * 9

    def run(lib, dtype):
        small = lib.arange(32, dtype=getattr(lib, dtype)).reshape((2, 1) * 4 + (2,)).requires_grad_()
        big = lib.linspace(0, 1, 512, dtype=getattr(lib, dtype)).reshape(shape).permute(8, 1, 6, 3, 4, 5, 2, 7, 0)
        (small * big).sum().backward()
        once = small.grad.clone()
        small.grad = None
        (small.expand(shape) * big).sin().sum().backward()
        return once, small.grad

    for dtype in ("float32", "float64"):
        for got, want in zip(run(tt, dtype), run(torch, dtype)):
            close(got, want, dtype)
