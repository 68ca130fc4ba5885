"""`out=` of every function that has one: the result lands there, and a gradient refuses it, as in PyTorch."""

import inspect
import warnings

import pytest
import torch
from _both import same

import tensotron as tt

pytestmark = pytest.mark.filterwarnings("ignore")

A = [[0.5, 0.25, 0.75], [0.125, 0.625, 0.375]]


def a(lib, grad):
    return lib.tensor(A, requires_grad=grad)


def b(lib):
    return lib.tensor(A) + 0.5


def index(lib):
    return lib.tensor([[1, 0, 1], [0, 1, 1]])


# name -> the call on a tensor x of two rows and three columns, if it is not name(x, out=out)
UNARY = """abs acos acosh asin asinh atan atanh bernoulli ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 log1p
hardshrink log2 logical_not logit neg nonzero reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc""".split()
BINARY = """add arctan2 atan2 div divide eq floor_divide fmod ge greater greater_equal gt le less less_equal
logical_and logical_or logical_xor lt max maximum min minimum mul multiply ne not_equal pow remainder sub subtract
true_divide xlogy""".split()
ALONG_A_DIMENSION = """all amax amin any argmax argmin cumprod cumsum log_softmax logsumexp mean norm prod softmax std sum
var""".split()
JOIN = "cat concat concatenate stack".split()
CALLS = {name: lambda lib, f, x, **out: f(x, **out) for name in UNARY}
CALLS |= {name: lambda lib, f, x, **out: f(x, b(lib), **out) for name in BINARY}
CALLS |= {name: lambda lib, f, x, **out: f(x, 0, **out) for name in ALONG_A_DIMENSION}
CALLS |= {name: lambda lib, f, x, **out: f((x, b(lib)), **out) for name in JOIN}
CALLS |= {
    "addcdiv": lambda lib, f, x, **out: f(x, b(lib), b(lib), **out),
    "addcmul": lambda lib, f, x, **out: f(x, b(lib), b(lib), **out),
    "addmm": lambda lib, f, x, **out: f(x, x[:, :2], b(lib), **out),
    "bmm": lambda lib, f, x, **out: f(x[None], b(lib).t()[None], **out),
    "clamp": lambda lib, f, x, **out: f(x, 0.2, 0.5, **out),
    "clip": lambda lib, f, x, **out: f(x, 0.2, 0.5, **out),
    "clamp_max": lambda lib, f, x, **out: f(x, 0.5, **out),
    "clamp_min": lambda lib, f, x, **out: f(x, 0.5, **out),
    "dot": lambda lib, f, x, **out: f(x[0], b(lib)[0], **out),
    "gather": lambda lib, f, x, **out: f(x, 0, index(lib), **out),
    "index_add": lambda lib, f, x, **out: f(x, 0, lib.tensor([1]), b(lib)[:1], **out),
    "index_copy": lambda lib, f, x, **out: f(x, 0, lib.tensor([1]), b(lib)[:1], **out),
    "index_select": lambda lib, f, x, **out: f(x, 0, lib.tensor([1]), **out),
    "lerp": lambda lib, f, x, **out: f(x, b(lib), 0.5, **out),
    "linalg.vector_norm": lambda lib, f, x, **out: f(x, 2, 0, **out),
    "masked_select": lambda lib, f, x, **out: f(x, x > 0.3, **out),
    "matmul": lambda lib, f, x, **out: f(x, b(lib).t(), **out),
    "mm": lambda lib, f, x, **out: f(x, b(lib).t(), **out),
    "multinomial": lambda lib, f, x, **out: f(x, 2, **out),
    "mv": lambda lib, f, x, **out: f(x, b(lib)[0], **out),
    "normal": lambda lib, f, x, **out: f(x, b(lib), **out),
    "ger": lambda lib, f, x, **out: f(x[0], b(lib)[0], **out),
    "outer": lambda lib, f, x, **out: f(x[0], b(lib)[0], **out),
    "scatter": lambda lib, f, x, **out: f(x, 0, index(lib), b(lib), **out),
    "scatter_add": lambda lib, f, x, **out: f(x, 0, index(lib), b(lib), **out),
    "take": lambda lib, f, x, **out: f(x, index(lib), **out),
    "take_along_dim": lambda lib, f, x, **out: f(x, index(lib), 0, **out),
    "where": lambda lib, f, x, **out: f(x > 0.3, x, b(lib), **out),
    "threshold": lambda lib, f, x, **out: f(x, 0.3, 0.2, **out),
}
INTEGERS = "bitwise_and bitwise_not bitwise_or bitwise_xor".split()
CALLS |= {n: lambda lib, f, x, **out: f((x * 8).int(), (b(lib) * 8).int(), **out) for n in INTEGERS}
CALLS["bitwise_not"] = lambda lib, f, x, **out: f((x * 8).int(), **out)
FACTORIES = {
    "arange": (4,), "empty": (2, 3), "eye": (3,), "full": ((2, 3), 1.5), "linspace": (0, 1, 4), "logspace": (0, 1, 4),
    "ones": (2, 3), "rand": (2, 3), "randint": (5, (2, 3)), "randn": (2, 3), "randperm": (5,), "range": (0, 4),
    "zeros": (2, 3),
}  # fmt: skip
CALLS |= {name: lambda lib, f, x, args=args, **out: f(*args, **out) for name, args in FACTORIES.items()}


def functions():
    """Every public function that has an argument `out`."""
    for path, module in {"": tt, "linalg.": tt.linalg}.items():
        for name in dir(module):
            fn = getattr(module, name)
            try:
                has_out = not name.startswith("_") and "out" in inspect.signature(fn).parameters
            except (TypeError, ValueError):
                continue
            if has_out:
                yield path + name


def call(lib, name, x, **out):
    fn = lib
    for part in name.split("."):
        fn = getattr(fn, part)
    return CALLS[name](lib, fn, x, **out)


def outs(lib, name, requires_grad=False):
    """Empty tensors for the result, of its dtypes and shapes."""
    results = call(lib, name, a(lib, False))
    several = isinstance(results, tuple)
    made = [lib.full_like(r, 0) for r in (results if several else (results,))]
    for t in made:
        if requires_grad and t.is_floating_point():
            t.requires_grad_()
    return tuple(made) if several else made[0]


def values(tensor):
    """Nested lists, rounded: what is tested is where the result goes."""
    return [round(v, 4) for v in tensor.detach().double().reshape(-1).tolist()], tuple(tensor.shape), str(tensor.dtype)[6:]


def test_every_function_is_called():
    assert sorted(set(functions()) - set(CALLS)) == []


@pytest.mark.parametrize("name", ["relu", "isnan", "isinf", "isfinite"])
def test_no_out(name):
    for lib in (tt, torch):
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            getattr(lib, name)(a(lib, False), out=a(lib, False))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_into_its_input(name, dim):
    def run(lib):
        x = a(lib, False)
        y = getattr(lib, name)(x, dim, out=x)
        return y is x, (x * 1024).round()

    same(run)


@pytest.mark.parametrize("warned", [True, False])
@pytest.mark.parametrize("name", ["add", "mm", "cat", "softmax", "sum", "gather", "zeros", "rand"])
def test_out_of_another_shape(name, warned):
    """It is given the shape of the result: with a warning, unless it is empty or the function makes its shape."""
    seen = []
    for lib in (tt, torch):
        out = lib.zeros(5 if warned else 0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(lib, name, a(lib, False), out=out)
        seen.append((values(out), [str(w.message).partition(" (Triggered")[0] for w in caught]))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == (warned and name not in FACTORIES)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_result_lands_in_out(name):
    def run(lib):
        out = outs(lib, name)
        lib.manual_seed(0)
        given = call(lib, name, a(lib, False), out=out)
        several = isinstance(out, tuple)
        assert all(g is o for g, o in zip(given if several else (given,), out if several else (out,)))
        return [values(t) for t in (out if several else (out,)) if name != "empty"]

    same(run)


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("who", ["input", "out"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_gradients_refuse_out(name, who, mode):
    """Whether an input or `out` itself requires grad; under no_grad the leaf is written."""

    def run(lib):
        out = outs(lib, name, who == "out")
        x = a(lib, who == "input")
        with lib.set_grad_enabled(mode == "on"):
            lib.manual_seed(0)
            result = call(lib, name, x, out=out)
        first = result[0] if isinstance(result, tuple) else result
        return first.requires_grad, first.is_leaf, None if name == "empty" else values(first)

    same(run)


def test_integers_wrap_around_at_their_own_width_whatever_out_holds():
    def program(lib):
        u8, i32 = lib.tensor([200, 217, 3], dtype=lib.uint8), lib.tensor([2**31 - 1, -5, 7], dtype=lib.int32)
        yes = lib.tensor([True])
        for name in ("add", "sub", "mul"):
            for x in (u8, i32):
                for dtype in ("int64", "float32", "int32", "uint8"):
                    if dtype != "uint8" or x is u8:
                        yield getattr(lib, name)(x, x.flip(0), out=lib.empty(3, dtype=getattr(lib, dtype)))
        yield lib.add(yes, yes, out=lib.empty(1, dtype=lib.int64))
        yield lib.lt(u8, 210, out=lib.empty(3, dtype=lib.float32))
        yield u8.clone().mul_(i32)

    def seen(lib):
        return [(str(y.dtype).split(".")[1], y.tolist()) for y in program(lib)]

    assert seen(tt) == seen(torch)
