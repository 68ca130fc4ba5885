"""Captured calls against plain ones, bit for bit: arguments, surroundings, results, errors."""

import collections
import dataclasses
import warnings

import pytest
from _captured import check, refused, run, same

import tensotron as t
from tensotron.compiler import stats

nn = t.nn


# ==== what a call is given ========================================================================
def test_shapes_dtypes_and_strides():
    def program(compile_):
        call = compile_(lambda x: (x * 2 + 1, x.t() + x.t(), x.is_contiguous()))
        for _ in range(2):
            for x in (t.randn(2, 3), t.randn(3, 2).t(), t.randn(3, 3), t.randn(2, 3).double(), t.arange(6).view(2, 3),
                      t.zeros(0, 3)):
                yield call(x)

    check(program, captures=6)


def test_python_scalars_are_told_apart():
    def program(compile_):
        call = compile_(lambda x, s: (x * s, x + s))
        for s in (1, 1.0, True, 0.0, -0.0, float("nan"), 1, 1.0, True, -0.0, float("nan")):
            yield call(t.tensor([-1, 0, 1]), s)

    check(program, captures=6)


def test_containers():
    @dataclasses.dataclass
    class Batch:
        x: object
        k: int

    Pair = collections.namedtuple("Pair", "a b")

    def call(d, p, o, batch, size, steps, device):
        y = d["x"] * 2 + p.a - p.b + o["y"][0] + batch.x * batch.k
        for i in steps:
            y = y * (i + 1)
        return Pair(y.view(size), {"d": [y.to(device), None, "text", 3]})

    def program(compile_):
        fn = compile_(call)
        o = collections.OrderedDict(y=[t.randn(6)])
        batch = Batch(None, 3)
        for k in range(4):
            batch.x, o["y"][0] = t.randn(6), t.randn(6)  # the same containers with other elements
            batch.k = 3 if k < 2 else 4
            yield tuple(fn({"x": t.randn(6)}, Pair(t.randn(6), 2.0), o, batch, t.Size([2, 3]), range(3), t.device("cpu")))

    check(program, captures=2)


def test_positional_and_keyword_arguments():
    def program(compile_):
        def call(d=None, a=None, *, k=2):
            return d["a"] * k if d is not None else a * 3 * k

        call = compile_(call)
        x = t.randn(3)
        for _ in range(2):
            yield call({"a": x}), call(a=x), call(a=x, k=3), call(k=3, a=x)

    check(program)


def test_aliasing_arguments():
    def program(compile_):
        def call(x, y):
            x.add_(1)
            y.mul_(2)
            return x * y

        call = compile_(call)
        b = t.randn(6)
        for x, y in ((b[:3], b[3:]), (b[3:], b[:3]), (b[1:4], b[2:5]), (b[0:3], b[1:4]), (b[:3], b[:3]), (t.ones(3), t.ones(3))):
            before = b._version
            yield call(x, y), b, b._version > before or y._version > before
        x = t.randn(3)
        yield call(x, x), x, call(x, x), x

    check(program)


def test_argument_that_is_a_parameter_of_the_call():
    def program(compile_):
        w = t.ones(3, requires_grad=True)

        def call(x):
            w.grad = x.grad = None
            (w * x * x).sum().backward()
            return w.grad.clone(), x.grad.clone()

        call = compile_(call)
        x = t.randn(3).requires_grad_()
        yield call(x), call(x), call(w), call(w), call(x)

    check(program)


def test_hooks_of_arguments_are_run():
    def program(compile_):
        def call(w):
            w.grad = None
            (w * w).sum().backward()
            return w.grad.clone()

        call = compile_(call)
        w = t.ones(3, requires_grad=True)
        yield call(w), call(w)
        handle = w.register_hook(lambda g: g * 2)
        yield call(w)
        handle.remove()
        yield call(w)

    check(program)


def test_place_in_the_storage():
    def program(compile_):
        b = t.randn(40)
        rows = compile_(lambda x: x * 2)
        absolute = compile_(lambda x: x.as_strided((2, 2), (2, 1), 0) + 1)
        offset = compile_(lambda x: x * x.storage_offset())
        base = compile_(lambda x: x._base.sum())
        for at in (0, 0, 4, 8):
            x = b[at:at + 4]
            yield rows(x), absolute(x), offset(x), base(x)
        x = t.randn(60)[4:8]
        yield rows(x), absolute(x), offset(x), base(x)

    check(program, captures=1)


def test_as_strided_beyond_an_argument():
    call = t.compile(lambda x: x.as_strided((10,), (1,)) + 1)
    b = t.arange(20.0)
    assert same(call(b[:2]), b[:10] + 1) and same(call(b[:2]), b[:10] + 1)
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        call(t.ones(2))


def test_in_place_and_out():
    def program(compile_):
        def call(x, mask, out):
            x[mask] = 0.0
            x[1] = 7.0
            x[:, 1].mul_(3)
            t.add(x, 1, out=out)
            return x.sum(), out * 2

        call = compile_(call)
        for _ in range(4):
            x, out = t.randn(3, 3), t.empty(3, 3)
            yield call(x, x > 0, out), x, out, x._version > 0, out._version > 0

    check(program, captures=1)


def test_out_of_another_size_is_resized():
    def program(compile_):
        def call(x, out):
            t.add(x, 1, out=out)
            return out * 2

        call = compile_(call)
        for _ in range(3):
            out = t.empty(0)
            yield call(t.randn(3), out), out

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused(program, "changes its shape")


# ==== surroundings =================================================================================
def test_globals_and_helpers():
    def program(compile_):
        space = {}
        exec("def helper(x): return x * SCALE + step\ndef call(x): return helper(x).abs()", space)
        call = compile_(space["call"])
        for k in (1, 1, 2, 2, -3.0):
            space["SCALE"], space["abs"] = k, k  # `abs` is but an attribute there
            space["step"] = t.ones(1) * k
            yield call(t.ones(3))

    check(program, captures=3)


def test_helpers_of_one_code():
    """Functions that differ in their closures alone."""

    def program(compile_):
        factors = [2.0, 3.0]

        def scaler(k):
            factor = factors[k]

            def scale(x):
                return x * factor

            def change(to):
                nonlocal factor
                factor = to

            return scale, change

        (first, change_first), (second, change_second) = scaler(0), scaler(1)
        call = compile_(lambda x: first(x) + second(x))
        for change, to in ((change_first, 4.0), (change_first, 4.0), (change_second, 5.0), (change_first, 6.0)):
            change(to)
            yield call(t.ones(2))

    check(program, captures=3)


def test_closures():
    def program(compile_):
        k, w, pair = 1, t.randn(3), (t.ones(3), t.ones(3))

        def call(x):
            return x * w * k + pair[0] - pair[1]

        call = compile_(call)
        for n in range(9):
            if n == 3:
                w = t.randn(3)
            if n == 4:
                k = 2.0
            if n == 5:
                w = w.double()
            if n == 6:
                pair = (t.randn(3), t.randn(3))
            if n == 7:
                w.zero_()
            yield call(t.randn(3))

    check(program, captures=3)


def test_state_kept_by_python_is_not_captured():
    def program(compile_):
        h, kept = t.zeros(3), []

        def call(x):
            nonlocal h
            h = h * 0.5 + x
            kept.append(h * 2)
            return h * 1 + len(kept)

        call = compile_(call)
        for _ in range(6):
            yield call(t.ones(3)), list(kept)

    refused(program, "kept by something other")


def test_tensors_taken_from_a_queue_are_not_captured():
    def program(compile_):
        queue = [t.randn(3) for _ in range(4)]
        call = compile_(lambda x: x + queue.pop())
        for _ in range(4):
            yield call(t.ones(3))

    refused(program, "gone after the call")


# ==== results =====================================================================================
def test_results_are_the_callers():
    def program(compile_):
        def call(x):
            y = x + 1
            return y, y, y[0], [y, {"k": y.t()}], x, x[0], x.view(-1), collections.OrderedDict(a=y)

        call = compile_(call)
        kept = []
        for _ in range(4):
            x = t.randn(2, 2)
            r = call(x)
            r[2].add_(5)
            r[5].mul_(2)
            kept.append(r)
            yield [list(r) for r in kept], r[0] is r[1], r[3][0] is r[0], r[4] is x, x._version

    check(program, captures=1)


class List(list):
    pass


@pytest.mark.parametrize("make", [lambda x: {x}, lambda x: iter([x]), lambda x: List([x])], ids=["set", "iter", "list"])
def test_results_in_other_containers_are_not_captured(make):
    call = t.compile(make)
    for _ in range(3):
        x = t.randn(2)
        assert next(iter(call(x))) is x
    assert "a result is of type" in stats(call)["reason"]


def test_gradients_that_the_caller_keeps():
    def program(compile_):
        w = t.randn(3).requires_grad_()

        def call(x):
            w.grad = None
            (w * x).sum().backward()
            return w.grad

        call = compile_(call)
        kept = []
        for k in range(8):
            r = call(t.randn(3))
            kept.append((r, w.grad, w.grad[1:], w.grad.numpy())[k % 4])
            del r
            yield [x if isinstance(x, t.Tensor) else x.tolist() for x in kept]

    check(program)


def test_gradients_that_the_caller_reshapes():
    def program(compile_):
        w = t.ones(2, 3, requires_grad=True)

        def call(x):
            w.grad = None
            (w * x).sum().backward()

        call = compile_(call)
        for k in range(6):
            call(t.randn(3))
            yield w.grad, w.grad._version
            if k == 1:
                w.grad.mul_(2)
            if k == 2:
                w.grad.t_()
            if k == 3:
                w.grad.resize_(10)
            if k == 4:
                w.grad.data = t.zeros(1)

    check(program)


def test_zero_sizes_and_many_dimensions():
    def program(compile_):
        def call(x):
            return x + x.transpose(0, -1), (x * x.permute(*reversed(range(x.dim())))).sum(), x.contiguous(), x.sum(0)

        call = compile_(call)
        for _ in range(3):
            yield call(t.randn(*[2] * 11).transpose(1, 3)), call(t.zeros(0, 0))

    check(program, captures=2)


# ==== what cannot be captured, and errors =============================================================
def test_reading_values_is_eager():
    def program(compile_):
        for fn in (lambda x: x * x.sum().item(), lambda x: x * 2 if x.sum() > 0 else x * 3, lambda x: x + float(x.numpy().sum())):
            call = compile_(fn)
            for _ in range(5):
                yield call(t.randn(3))

    _, figures = run(program, True)
    assert all(f["captures"] == 0 and f["eager_calls"] == 5 and f["reason"] for f in figures)
    check(program)


def test_fullgraph_raises():
    call = t.compile(lambda x: x * x.sum().item(), fullgraph=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot be captured"):
            call(t.ones(2))


def test_the_ninth_kind_is_eager_with_a_warning():
    call = t.compile(lambda x, k: x * k)
    with pytest.warns(UserWarning, match="8 kinds"):
        for k in range(12):
            assert same(call(t.ones(2), k), t.ones(2) * k)
    assert stats(call)["captures"] == 8 and stats(call)["eager_calls"] == 4


def test_exceptions_leave_captures_usable():
    def call(x, k):
        y = x * 2
        if k:
            raise KeyError(k)
        return y

    call = t.compile(call)
    for k in (0, 1, 0, 1, 0):
        if k:
            with pytest.raises(KeyError):
                call(t.ones(2), k)
        else:
            assert call(t.ones(2), k).tolist() == [2, 2]
    assert stats(call)["captures"] == 1 and stats(call)["replays"] == 2


@pytest.mark.parametrize("first", ["zero_grad", "forward"])
def test_data_errors_in_a_replay(first):
    def program(compile_):
        table = nn.Embedding(5, 3)
        w = t.randn(5, 3).requires_grad_()
        opt = t.optim.SGD([w, *table.parameters()], lr=0.1)

        def step(i):
            if first == "zero_grad":
                opt.zero_grad()
            loss = w[i].pow(2).sum() + table(i.clamp(min=0)).sum()
            if first == "forward":
                opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.detach()

        step = compile_(step)
        look_up = compile_(lambda i: table(i).detach())
        for k in range(8):
            i = t.tensor([0, 1, 9 if k in (3, 5) else 2])
            for fn in (step, look_up):
                try:
                    yield fn(i), w, w.grad
                except IndexError as e:
                    yield str(e), w, w.grad

    check(program)


def test_deep_and_endless_containers():
    call = t.compile(lambda x: None)
    deep, endless = [], []
    for _ in range(100_000):
        deep = [deep]
    endless += [endless, endless]
    for x in (deep, endless):
        call(x)
        assert "nested too deeply" in stats(call)["reason"]
    while deep:  # freed level by level
        deep = deep[0]
