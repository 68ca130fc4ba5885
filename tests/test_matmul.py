"""Matrix products: the GEMM kernel of every instruction set, shapes, errors and gradients."""

import numpy as np
import pytest
from _both import same

import tensotron as tt
from tensotron._cpu import backend

ISAS = backend.available_isas()
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 4), (3, 3), (3, 0), (0, 3), (2, 2, 3), (2, 3, 2), (1, 3, 4), (5, 2, 3)]
SHAPES += [(2, 1, 2, 3), (0, 2, 3)]
SIZES = [1, 2, 3, 4, 7, 8, 9, 13, 14, 15, 16, 17, 31, 33, 48, 64, 65, 100]
LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: np.ascontiguousarray(a.T).T,
    "gaps": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "padded": lambda a: np.pad(a, ((0, 0), (2, 5)))[:, 2 : 2 + a.shape[1]],
}


@pytest.fixture(params=ISAS)
def isa(request):
    before = backend.get_cpu_capability()
    backend.select(request.param)
    yield request.param
    backend.select({v: k for k, v in backend.CAPABILITIES.items()}[before])


def whole(lib, shape, start=0, grad=False, dtype="float32"):
    """Small whole numbers, whose sums are exact in any order; no zeros, as the sign of a zero sum is not."""
    some = [1, -2, 3, -1, 5, -3, 2, -5, 4, -4, 7]
    t = lib.tensor([some[(i + start) % 11] for i in range(int(np.prod(shape)))], dtype=getattr(lib, dtype)).reshape(shape)
    return t.requires_grad_() if grad else t


def check(got, a, b, extra=0.0):
    want = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    eps = np.finfo(got.dtype).eps
    assert np.all(np.abs(got - want - extra) <= eps * (4 + a.shape[1] / 2) * (size + np.abs(extra)) + 1e-30)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernel(isa, dtype):
    rng = np.random.default_rng(0)
    layouts = list(LAYOUTS.values())
    cases = [tuple(rng.choice(SIZES, 3)) for _ in range(300)]
    cases += [(300, 270, 260), (40, 33, 1100), (1, 700, 600), (5, 130, 4100), (1, 1, 9000), (600, 1, 500), (260, 300, 2)]
    cases += [(m, n, k) for m in (8, 16, 30, 32, 64) for n, k in [(500, 300), (120, 1700)]]  # few rows and much to multiply by
    cases += [(m, n, k) for m in (16, 40) for n in (2, 4, 6, 8) for k in (16, 40, 700)]  # narrow results
    for m, n, k in cases:
        a, b = (layouts[rng.integers(4)](rng.standard_normal(s).astype(dtype)) for s in ((m, k), (k, n)))
        x, y = tt.from_numpy(a), tt.from_numpy(b)
        check(tt.mm(x, y).numpy(), a, b)
        out = tt.from_numpy(layouts[rng.integers(4)](np.full((m, n), np.nan, dtype)))
        tt.mm(x, y, out=out)
        check(out.numpy(), a, b)
        bias = rng.standard_normal(n).astype(dtype)
        check(tt.addmm(tt.from_numpy(bias), x, y).numpy(), a, b, bias)
        check(tt.addmm(tt.from_numpy(bias), x, y, beta=2, alpha=-3).numpy(), -3 * a, b, 2.0 * bias)


def test_special_values_spread(isa):
    for m, n, k in [(1, 40, 40), (5, 17, 33), (20, 70, 9), (1, 1, 50)]:
        a, b = np.ones((m, k), "f4"), np.ones((k, n), "f4")
        a[0, k // 2], b[k // 2, 0] = np.inf, 0
        for y in (b, np.ascontiguousarray(b.T).T):
            got = tt.mm(tt.from_numpy(a), tt.from_numpy(y)).numpy()
            assert np.isnan(got[0, 0]) and np.all(np.isposinf(got[0, 1:])) and np.all(np.isfinite(got[1:]))
    nans = tt.full((3, 4), float("nan"))
    assert tt.addmm(nans, tt.ones(3, 5), tt.ones(5, 4), beta=0).eq(5).all().item()


def test_rows_do_not_depend_on_their_number(isa):
    a, b = np.random.default_rng(1).standard_normal((2, 130, 130)).astype("f4")
    full = tt.mm(tt.from_numpy(a), tt.from_numpy(b)).numpy()
    for m in (1, 2, 5, 14, 63):
        assert np.array_equal(tt.mm(tt.from_numpy(a[:m]), tt.from_numpy(b)).numpy(), full[:m])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_row(isa, dtype):
    """A row by a transposed matrix: each element is the same, whatever the number of columns."""
    rng = np.random.default_rng(2)
    for k in (2, 3, 4, 5, 8, 16, 17, 64):
        a, b, bias = (rng.standard_normal(s).astype(dtype) for s in ((1, k), (130, k), 130))
        x, w, c = (tt.from_numpy(v) for v in (a, b, bias))
        full = tt.mm(x, w.t()).numpy()
        check(full, a, b.T)
        spread = tt.from_numpy(np.pad(b, ((0, 0), (0, 3))))[:, :k]
        for n in (2, 5, 16, 17, 32, 64, 70, 130):
            assert np.array_equal(tt.mm(x, w[:n].t()).numpy(), full[:, :n])
            assert np.array_equal(tt.mm(x, spread[:n].t()).numpy(), full[:, :n])
            for f in (tt.relu, tt.tanh, tt.sigmoid):  # captured: within the product
                product = tt.compile(lambda x, w, c, f=f: f(tt.nn.functional.linear(x, w, c)))
                want = f(tt.nn.functional.linear(x, w[:n], c[:n]))
                assert all(np.array_equal(product(x, w[:n], c[:n]).numpy(), want.numpy()) for _ in range(2))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_wrap_around(dtype):
    def product(lib):
        a, b = whole(lib, (9, 40), 3, dtype="int64") * 2**61 + 77, whole(lib, (40, 70), dtype="int64") * 3**30
        a, b = a.to(getattr(lib, dtype)), b.to(getattr(lib, dtype))
        return [a @ b, lib.addmm(b[:9, :1], a, b, alpha=3, beta=5), lib.mv(a, b[:, 2]), lib.dot(a[0], b[:, 0])]

    same(product)


@pytest.mark.parametrize("name", ["matmul", "mm", "bmm", "mv", "dot", "outer"])
def test_shapes_and_errors(name):
    for s in SHAPES:
        for t in SHAPES:
            same(lambda lib, s=s, t=t: getattr(lib, name)(whole(lib, s), whole(lib, t, 4)))
    for p in ("float32", "float64", "int64", "bool"):
        for q in ("float32", "float64", "int64", "bool"):
            same(lambda lib, p=p, q=q: getattr(lib, name)(whole(lib, (3,), dtype=p), whole(lib, (3,), dtype=q)))


def test_gradients():
    def products(lib):
        out = []
        for s, t in [((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
                     ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 4))]:
            for ga, gb in [(True, True), (True, False), (False, True)]:
                a, b = whole(lib, s, 1, ga), whole(lib, t, 2, gb)
                y = a @ b
                y.backward(whole(lib, tuple(y.shape), 5))
                out += [y, type(y.grad_fn).__name__, a.grad, b.grad]
        for shape in [(4,), (2, 4), (2, 1), (1,), ()]:
            d, a, b = whole(lib, shape, 3, True), whole(lib, (2, 3), 1, True), whole(lib, (3, 4), 2, True)
            y = lib.addmm(d, a, b, beta=2, alpha=3)
            y.backward(whole(lib, (2, 4), 5))
            out += [y, d.grad, a.grad, b.grad]
        for shape in [(3,), (6, 3), (2, 5, 3)]:
            x, w, d = whole(lib, shape, 1, True), whole(lib, (4, 3), 2, True), whole(lib, (4,), 3, True)
            for y in (lib.nn.functional.linear(x, w, d), lib.nn.functional.linear(x, w)):
                y.backward(whole(lib, tuple(y.shape), 5))
                out += [y, type(y.grad_fn).__name__, x.grad, w.grad, w.grad.stride(), d.grad]
        w = whole(lib, (4, 3), 2, True)
        (whole(lib, (6, 3)) @ w.t()).backward(whole(lib, (6, 4), 5))
        return [*out, w.grad, w.grad.stride()]

    same(products)


def test_out_and_in_place():
    def written(lib):
        a, b = whole(lib, (3, 3), 1), whole(lib, (3, 3), 2)
        a = lib.mm(a, b, out=lib.ones(3, 3))
        c = lib.ones(3, 6)[:, ::2]
        lib.matmul(a, b, out=c)
        d = whole(lib, (3, 3), 3).requires_grad_() * 1
        d.addmm_(a, b, beta=2)
        d.backward(lib.ones(3, 3))
        return [a, c, lib.mv(a, b[0], out=lib.empty(0)), lib.dot(a[0], b[0], out=lib.empty(3)), d]

    same(written)
    for fn in [
        lambda lib: lib.mm(lib.ones(2, 2), lib.ones(2, 2), out=lib.empty(2, 2, dtype=lib.float64)),
        lambda lib: lib.mm(lib.ones(2, 2, requires_grad=True), lib.ones(2, 2), out=lib.empty(2, 2)),
        lambda lib: lib.ones(4).addmm_(lib.ones(2, 2), lib.ones(2, 4)),
        lambda lib: lib.ones(2, 2).mm(lib.ones(3, 3)),
        lambda lib: lib.nn.functional.linear(lib.ones(2, 3), lib.ones(4, 3), lib.ones(5)),
        lambda lib: lib.nn.functional.linear(lib.ones(2, 3), lib.ones(2, 4, 3), lib.ones(4)),
    ]:
        same(fn)


def test_result_is_an_operand():
    """The same as the call out of place. PyTorch's library may write zeros before it reads."""
    a, b = whole(tt, (3, 3), 1), whole(tt, (3, 3), 2)
    product, biased = tt.mm(a, b), tt.addmm(b, a, b, beta=2)
    assert bool((b.clone().addmm_(a, b, beta=2) == biased).all())
    c = b.clone()
    assert bool((c.addmm_(a, c, beta=2) == biased).all())
    assert bool((tt.mm(a, b, out=a) == product).all())


def test_second_derivatives():
    def derivatives(lib):
        x, w, d = (whole(lib, s, i, True, "float64") for i, s in enumerate([(4, 3), (2, 3), (2,)]))
        y = lib.nn.functional.linear(x, w, d)
        u = (y @ y.t()).mv(whole(lib, (4,), 7, dtype="float64"))
        z = lib.bmm(u.reshape(2, 2, 1), y[:2].unsqueeze(1)).sum() + u.dot(y[:, 1])
        first = lib.autograd.grad(z, (x, w, d), create_graph=True)
        second = lib.autograd.grad(sum(g.sum() for g in first), (x, w, d))
        return [*first, *second]

    same(derivatives)


@pytest.mark.parametrize(("m", "k", "n"), [(96, 512, 96), (96, 1024, 96), (96, 640, 16), (16, 1500, 96)])
def test_long_sums_are_cut(m, k, n):
    """They round as little as sums of chains of 400 products (0033); those of one chain lose 1.2 to 2 times as much.

    Where PyTorch cuts is up to its linear algebra library, which differs from processor to processor."""
    rnd = np.random.RandomState(0)
    a, b = rnd.randn(m, k).astype("float32"), rnd.randn(k, n).astype("float32")
    truth = a.astype("float64") @ b.astype("float64")
    chains = np.zeros((m, n), "float32")
    for begin in range(0, k, 400):
        chain = np.zeros((m, n), "float32")
        for i in range(begin, min(begin + 400, k)):
            chain += a[:, i, None] * b[i]
        chains += chain
    ours = (tt.from_numpy(a) @ tt.from_numpy(b)).numpy()
    assert np.mean((ours - truth) ** 2) <= np.mean((chains - truth) ** 2)
