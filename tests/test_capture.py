"""Captured calls against plain ones, bit for bit: training, state, compiled functions as objects."""

import copy
import gc
import pickle
import sys
import threading
import weakref

import pytest
from _captured import check, same
from tensotron._cpu.backend import memory_stats

import tensotron as t
from tensotron.compiler import stats

F = t.nn.functional
nn = t.nn


def net_of():
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def step_of(net, opt, loss=lambda y: y.pow(2).sum()):
    def step(x):
        opt.zero_grad()
        out = loss(net(x))
        out.backward()
        opt.step()
        return out.detach()

    return step


# ==== training ==================================================================================
OPTIMIZERS = {
    "sgd": lambda p: t.optim.SGD(p, lr=0.1),
    "momentum": lambda p: t.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: t.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: t.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: t.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: t.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "rprop": lambda p: t.optim.Rprop(p, lr=0.01),
    "adadelta": lambda p: t.optim.Adadelta(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_steps_with_a_changing_rate(name):
    def program(compile_):
        net = net_of()
        opt = OPTIMIZERS[name](net.parameters())
        step = compile_(step_of(net, opt))
        for k in range(8):
            opt.param_groups[0]["lr"] = 0.1 / (k // 3 + 1)
            yield step(t.randn(4, 3)), net.state_dict(), [p.grad for p in net.parameters()]

    figures = check(program)
    assert figures["replays"] >= 3 and figures["eager_calls"] <= 1
    if name not in ("rprop", "adadelta"):  # a fused step reads its numbers at each replay
        assert figures["captures"] == 1 + (name == "sgd")


def test_a_scheduler_needs_no_new_capture():
    def program(compile_):
        net = net_of()
        opt = t.optim.Adam(net.parameters(), lr=0.1)
        schedule = t.optim.lr_scheduler.StepLR(opt, 2, 0.5)
        step = compile_(step_of(net, opt))
        for _ in range(9):
            yield step(t.randn(4, 3)), net.state_dict(), opt.state_dict()["state"]
            schedule.step()

    check(program, captures=1, eager=1)


def test_clipping_dropout_batch_norm_and_modes():
    def program(compile_):
        net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 2))
        opt = t.optim.RMSprop(net.parameters(), lr=0.01)

        def step(x):
            opt.zero_grad()
            loss = net(x).pow(2).sum()
            loss.backward()
            norm = t.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            return loss.detach(), norm

        step = compile_(step)
        evaluate = compile_(lambda x: net(x).detach())
        for k in range(12):
            net.train(k % 3 != 2)
            yield step(t.randn(6, 3)), net.state_dict(), evaluate(t.randn(2, 3)), t.get_rng_state()

    check(program, captures=2, eager=1)


def test_generators():
    def program(compile_):
        a, b = t.Generator().manual_seed(1), t.Generator().manual_seed(2)

        def draw(x):
            return (x + t.rand(3, generator=a) + t.randn(3, generator=b) + t.rand(3), F.dropout(x, 0.5), t.randperm(5),
                    t.bernoulli(t.full((4,), 0.5)), t.empty(3).normal_(generator=a), t.randn(1))

        draw = compile_(draw)
        for k in range(6):
            yield draw(t.randn(3)), a.get_state(), b.get_state(), t.get_rng_state()
            if k == 3:
                a.manual_seed(5)
                t.manual_seed(9)

    check(program, captures=1)


def test_groups_of_mixed_dtypes_and_unused_parameters():
    def program(compile_):
        a, c, d = (t.randn(3).requires_grad_() for _ in range(3))
        b = t.randn(3).double().requires_grad_()
        opt = t.optim.AdamW([{"params": [a, b]}, {"params": [c, d], "lr": 0.5, "weight_decay": 0.3}], lr=0.1)

        def step(x):
            opt.zero_grad()
            ((a * x).sum() + (b * x).sum() + (d * x).sum()).backward()
            opt.step()

        step = compile_(step)
        for _ in range(6):
            step(t.randn(3))
            yield a, b, c, d, c.grad
            opt.param_groups[1]["lr"] *= 0.5

    check(program, captures=1, eager=1)


def test_parameters_used_in_turn():
    def program(compile_):
        a, b = t.randn(3).requires_grad_(), t.randn(3).requires_grad_()
        opt = t.optim.SGD([a, b], lr=0.1, momentum=0.9)

        def step(x, first):
            opt.zero_grad()
            ((a if first else b) * x).sum().backward()
            opt.step()

        step = compile_(step)
        for first in (True, True, False, False, True, True, False, True, False):
            step(t.randn(3), first)
            yield a, b, a.grad, b.grad

    check(program)


@pytest.mark.parametrize("to_none", [True, False])
def test_accumulation_inside_and_across_calls(to_none):
    def program(compile_):
        net = net_of()
        opt = t.optim.SGD(net.parameters(), lr=0.1)

        def backward(xs):
            for x in xs:
                net(x).pow(2).mean().backward()

        backward = compile_(backward)
        for k in range(9):
            backward([t.randn(5, 3), t.randn(4, 3)])
            yield [p.grad for p in net.parameters()], net.state_dict()
            if k % 3 == 2:
                opt.step()
                opt.zero_grad(set_to_none=to_none)

    check(program, captures=2)


def test_moving_average_of_parameters():
    def program(compile_):
        net, target = net_of(), net_of()
        opt = t.optim.Adam(net.parameters(), lr=0.1)

        def step(x):
            opt.zero_grad()
            (net(x) - target(x).detach()).pow(2).sum().backward()
            opt.step()
            with t.no_grad():
                for p, q in zip(net.parameters(), target.parameters()):
                    q.mul_(0.9).add_(p, alpha=0.1)

        step = compile_(step)
        for _ in range(6):
            step(t.randn(4, 3))
            yield target.state_dict()

    check(program, captures=1, eager=1)


def test_gradient_penalty():
    def program(compile_):
        net = net_of()
        opt = t.optim.Adam(net.parameters(), lr=0.01)

        def step(x):
            opt.zero_grad()
            x = x.clone().requires_grad_()
            y = net(x).sum()
            (g,) = t.autograd.grad(y, x, create_graph=True)
            loss = y + (g.norm(2, dim=1) - 1).pow(2).mean()
            loss.backward()
            opt.step()
            return loss.detach(), g.detach()

        step = compile_(step)
        for _ in range(5):
            yield step(t.randn(5, 3)), net.state_dict()

    check(program)


# ==== state changed between calls =================================================================
def change_hook(net, opt, k):
    if k == 3:
        net.hook = net[0].weight.register_hook(lambda g: g * 2)
    if k == 6:
        net.hook.remove()


def change_forward_hook(net, opt, k):
    if k == 3:
        change_forward_hook.handle = net[0].register_forward_hook(lambda m, i, o: o * 2)
    if k == 6:
        change_forward_hook.handle.remove()


def change_requires_grad(net, opt, k):
    if k in (3, 6):
        net[0].requires_grad_(k == 6)


def change_data(net, opt, k):
    if k == 3:
        net[0].weight.data = t.ones(5, 3)
    if k == 5:
        net[0].weight.data.zero_()


def change_parameter(net, opt, k):
    if k == 3:
        net[0].weight = nn.Parameter(t.ones(5, 3))


def change_module(net, opt, k):
    if k == 3:
        net[1] = nn.ReLU()


def change_states(net, opt, k):
    if k == 3:
        change_states.kept = copy.deepcopy((net.state_dict(), opt.state_dict()))
    if k == 6:
        net.load_state_dict(change_states.kept[0])
        opt.load_state_dict(change_states.kept[1])


def change_groups(net, opt, k):
    if k == 3:
        opt.add_param_group({"params": [t.ones(2, requires_grad=True)]})


def change_in_place(net, opt, k):
    with t.no_grad():
        net[0].weight.mul_(0.5)


def change_gradients(net, opt, k):
    if k == 3:
        for p in net.parameters():
            p.grad = None
    if k == 5:
        for p in net.parameters():
            p.grad = t.ones(p.shape)


CHANGES = [change_hook, change_forward_hook, change_requires_grad, change_data, change_parameter, change_module, change_states,
           change_groups, change_in_place, change_gradients]


@pytest.mark.parametrize("change", CHANGES, ids=lambda fn: fn.__name__[7:])
def test_changes_between_calls(change):
    def program(compile_):
        net = net_of()
        opt = t.optim.Adam(net.parameters(), lr=0.1)
        step = compile_(step_of(net, opt))
        for k in range(9):
            change(net, opt, k)
            yield step(t.randn(4, 3)), net.state_dict(), [p.grad for p in net.parameters()]

    assert check(program)["replays"] >= 2


def test_attributes_of_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.k, self.linear = 2, nn.Linear(3, 2)

        def forward(self, x):
            return self.linear(x) * self.k

    def program(compile_):
        net = Net()
        call = compile_(lambda x: net(x).detach())
        for k in range(6):
            if k == 3:
                net.k = -1.0
            yield call(t.randn(4, 3))

    check(program, captures=2)


def test_default_dtype_and_grad_mode():
    def program(compile_):
        w = t.ones(3, requires_grad=True)
        call = compile_(lambda x: (t.zeros(3) + x.shape[0], (w * 2).requires_grad))
        for dtype in (t.float32, t.float64):
            for mode in (True, False, True):
                t.set_default_dtype(dtype)
                with t.set_grad_enabled(mode):
                    yield call(t.ones(4))
        t.set_default_dtype(t.float32)

    check(program, captures=4)


# ==== compiled functions as objects ===================================================================
def test_nested_functions():
    inner = t.compile(lambda x: x * 3)
    outer = t.compile(lambda x: inner(x) + 1)
    for _ in range(3):
        assert outer(t.ones(1)).item() == 4 and inner(t.ones(1)).item() == 3
    assert stats(inner)["captures"] == stats(outer)["captures"] == 1


def test_methods():
    class Scale:
        def __init__(self, k):
            self.k = k

        @t.compile
        def __call__(self, x, more=0.0):
            """Multiplies."""
            return x * self.k + more

    a, b = Scale(2), Scale(3)
    for _ in range(2):
        assert [a(t.ones(1)).item(), b(t.ones(1)).item(), a(t.ones(1), more=1).item()] == [2, 3, 3]
    assert stats(Scale.__call__)["captures"] == 3 and Scale.__call__.__doc__ == "Multiplies."


def test_compiled_module():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    compiled = t.compile(net)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    for _ in range(3):
        for mode in (True, False):
            compiled.train(mode)
            assert net.training is mode and net[1].training is mode
            with t.no_grad():
                t.manual_seed(1)
                got = compiled(t.ones(1, 2))
                t.manual_seed(1)
                assert same(got, net(t.ones(1, 2)))
    assert stats(compiled)["captures"] == 2
    net[0].weight.data.zero_()
    assert same(compiled.eval()(t.ones(1, 2)).detach(), net[0].bias.detach().view(1, 2))


def twice(x):
    return 2 * x


def test_copies_and_pickles_of_what_is_compiled(monkeypatch):
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    x = t.randn(1, 2)
    compiled = t.compile(net, fullgraph=True)
    want = compiled(x)
    for copy_of in (copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))):
        other = copy_of(compiled)
        assert type(other) is type(compiled) and other._orig_mod is not net and same(other(x), want)
        assert list(other.state_dict()) == list(compiled.state_dict())
        with t.no_grad():
            other.get_parameter("0.weight").zero_()
        assert same(compiled(x), want) and not same(other(x), want)
    assert copy.copy(compiled)._orig_mod is net
    empty = type(compiled).__new__(type(compiled))
    for use in (lambda: empty(x), lambda: empty.weight):
        with pytest.raises(AttributeError):
            use()
    function = t.compile(twice)
    assert copy.copy(function) is function and copy.deepcopy([function])[0] is function
    monkeypatch.setitem(globals(), "twice", function)
    assert pickle.loads(pickle.dumps(function)) is function


def test_memory_does_not_grow_and_is_freed():
    net = net_of()
    opt = t.optim.Adam(net.parameters())
    before = weakref.ref(net)
    step = t.compile(step_of(net, opt))
    x = t.randn(4, 3)
    for _ in range(10):
        step(x)
    gc.collect()
    start, objects = memory_stats()["in_use"], len(gc.get_objects())
    for _ in range(10_000):
        step(x)
    gc.collect()
    assert memory_stats()["in_use"] == start and abs(len(gc.get_objects()) - objects) < 50
    program = weakref.ref(step)
    del step, net, opt
    gc.collect()
    assert program() is None and before() is None and memory_stats()["in_use"] < start


def test_threads_that_capture_at_the_same_time():
    def work(seed, compile_):
        g = t.Generator().manual_seed(seed)
        w = t.randn(4, generator=g).requires_grad_()
        opt = t.optim.SGD([w], lr=0.1)

        def step(x):
            for _ in range(20):
                x = x + t.rand(4, generator=g) * 0.01
            opt.zero_grad()
            (w * x).pow(2).sum().backward()
            opt.step()

        step = compile_(step)
        for _ in range(20):
            step(t.randn(4, generator=g))
        return w.tolist()

    got = {}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda k=k: got.update({k: work(k, t.compile)})) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert got == {k: work(k, lambda fn: fn) for k in range(4)}


def test_work_of_other_threads_is_not_captured():
    def call(x):
        out = []
        thread = threading.Thread(target=lambda: out.append(x * 2))
        thread.start()
        thread.join()
        return out[0] + 1

    call = t.compile(call)
    for k in range(3):
        assert call(t.ones(2) * k).tolist() == [2 * k + 1] * 2


# ==== passes over the recorded launches =========================================================
@pytest.mark.parametrize("act", ["relu", "tanh", "sigmoid", "relu_", "tanh_"])
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("bias", [True, False])
def test_activations_in_the_product_before_them(act, rows, bias):
    def program(compile_):
        net = nn.Linear(7, 37, bias=bias)
        step = compile_(lambda x: getattr(net(x), act)())
        for k in range(4):
            x = t.randn(rows, 7)
            x[0] = [float("nan"), -0.0, float("inf"), 0.0][k]
            yield step(x)
            with t.no_grad():
                yield step(x)

    assert check(program)["replays"] >= 4


@pytest.mark.parametrize("act", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("rows", [1, 3, 20, 40])
@pytest.mark.parametrize("wide", [2, 37, 400, 2100])  # summed over in one block or more, and with B read where it lies
def test_gradients_of_activations_in_the_product_before_them(act, rows, wide):
    def program(compile_):
        first, second = nn.Linear(7, 70), nn.Linear(70, wide)
        params = [*first.parameters(), *second.parameters()]

        def body(x, g):
            for p in params:
                p.grad = None
            second(getattr(first(x), act)()).backward(g)

        step = compile_(body)
        for k in range(4):
            g = t.randn(rows, wide)
            g[0] = [float("nan"), -0.0, float("inf"), 0.0][k]
            step(t.randn(rows, 7), g)
            yield [p.grad for p in params]

    assert check(program)["replays"] >= 2


def test_gradient_of_an_activation_whose_product_is_also_used_otherwise():
    def program(compile_):
        w = t.randn(6, 5, requires_grad=True)

        def body(x):
            h = (x @ w).tanh()
            return t.autograd.grad((h @ w.detach().t()).sum(), (h, w))

        step = compile_(body)
        for _ in range(4):
            yield step(t.randn(4, 6))

    assert check(program)["replays"] >= 2


def test_a_result_changed_in_place_is_in_the_history_of_its_views():
    def program(compile_):
        def body(x):
            y = x * 2
            return y, y[1:]

        step = compile_(body)
        for _ in range(4):
            x = t.ones(3, requires_grad=True)
            whole, part = step(x)
            part.mul_(3)
            (whole * t.tensor([1.0, 10.0, 100.0])).sum().backward()
            yield x.grad
        for _ in range(3):
            whole, part = step(t.ones(3))
            part.mul_(3)
            yield whole

    check(program)


def test_activation_of_a_product_that_is_also_used_otherwise():
    def program(compile_):
        w = t.randn(5, 6)

        def body(x):
            y = x @ w
            a = y.relu()
            return a.sum() + y.sum(), a[1:], (x @ w).t().tanh()

        step = compile_(body)
        for _ in range(3):
            yield step(t.randn(4, 5))

    check(program)


def test_what_is_dropped_or_run_once_does_not_show():
    def program(compile_):
        w = t.randn(3, requires_grad=True)

        def body(x):
            (x * 2).exp()  # nobody reads it
            ones = t.ones(3)
            zeros = t.zeros(3)
            zeros += x  # written to again
            (w * ones * zeros).sum().backward()
            return zeros, ones + 1, w.grad

        step = compile_(body)
        for _ in range(4):
            yield step(t.randn(3))

    check(program)


def test_a_dropped_launch_would_not_have_failed():
    index = t.tensor([0, 1])

    def body(x, index):
        x[index]  # read by nobody, but an error is one
        return x + 1

    step = t.compile(body)
    x = t.randn(3)
    for _ in range(3):
        step(x, index)
    with pytest.raises(IndexError):
        step(x, t.tensor([0, 7]))


def test_calls_with_and_without_keywords_and_containers():
    def program(compile_):
        w = t.randn(3)

        def body(x, scale=2.0, pair=None):
            return x * w * scale + (pair[0] if pair else 0)

        step = compile_(body)
        for k in range(3):
            x = t.randn(3)
            yield step(x)
            yield step(x, 3.0)
            yield step(x, scale=3.0)
            yield step(x, 2.0, (x,))
            yield step(x=x)
            w = t.randn(3) if k == 1 else w

    check(program)
