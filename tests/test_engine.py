"""The graph and the engine: depth, memory, order; compared with PyTorch where values matter."""

import gc
import threading
import weakref

import pytest
import torch
from _both import same
from tensotron._cpu.backend import empty_cache

import tensotron as tt

DEEP = 200_000


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def on_small_stack(fn, kib=512):
    """Runs ``fn`` in a thread whose C stack is too small for any recursion along a graph."""
    result = []

    def target():
        try:
            result.append((fn(), None))
        except BaseException as exc:
            result.append((None, exc))

    before = threading.stack_size(kib * 1024)
    try:
        thread = threading.Thread(target=target)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    value, exc = result[0]
    if exc is not None:
        raise exc
    return value


def resident_kib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4


def assert_flat(step, steps, warm=None, slack_kib=1500):
    """The resident size does not grow over ``steps`` calls, collections apart."""
    for _ in range(warm if warm is not None else steps // 10):
        step()
    before = resident_kib()
    for _ in range(steps):
        step()
    grown = resident_kib() - before
    assert grown < slack_kib, f"{grown} KiB more after {steps} steps"


# --- depth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["add", "mul", "sigmoid", "view", "mixed"])
def test_deep_chain(kind, no_gc):
    step = {
        "add": lambda y: y + 1,
        "mul": lambda y: y * 1,
        "sigmoid": lambda y: y.sigmoid(),
        "view": lambda y: y.view(1),
        "mixed": lambda y: (-y).reshape(1, 1)[0] if y.dim() else y,
    }[kind]

    def run():
        x = tt.ones(1, requires_grad=True)
        y = x
        for _ in range(DEEP if kind != "mixed" else DEEP // 4):
            y = step(y)
        y.sum().backward()
        grad = x.grad.item()
        del y
        # never run backward: freed all the same
        y = x
        for _ in range(DEEP):
            y = y + 1
        del y
        return grad

    grad = on_small_stack(run)
    assert grad == {"add": 1.0, "mul": 1.0, "view": 1.0, "mixed": 1.0}.get(kind, grad)


def test_deep_chain_kept_by_retain_graph(no_gc):
    def run():
        x = tt.ones(2, requires_grad=True)
        y = x
        for _ in range(DEEP):
            y = y * 1
        loss = y.sum()
        loss.backward(retain_graph=True)
        loss.backward()
        del y, loss
        return x.grad.tolist()

    assert on_small_stack(run) == [2.0, 2.0]


def test_deep_double_backward(no_gc):
    def run():
        x = tt.full((1,), 1.0, requires_grad=True)
        y = x
        for _ in range(DEEP // 4):
            y = y * x
        (g,) = tt.autograd.grad(y, x, create_graph=True)
        (h,) = tt.autograd.grad(g, x)
        del y, g
        return h.item()

    n = DEEP // 4 + 1
    assert on_small_stack(run) == pytest.approx(n * (n - 1.0), rel=1e-2)


def test_deep_inplace_chain(no_gc):
    def run():
        x = tt.ones(3, requires_grad=True)
        y = x.clone()
        for _ in range(DEEP // 4):
            y[0].mul_(1)  # each one a CopySlices
        y.sum().backward()
        del y
        return x.grad.tolist()

    assert on_small_stack(run) == [1.0, 1.0, 1.0]


def test_every_node_runs_once():
    x = tt.ones(1, requires_grad=True)
    y = x
    for _ in range(60):
        y = y + y  # 2**60 paths
    y.backward()
    assert x.grad.item() == 2.0**60


def test_wide_graph():
    xs = [tt.full((1,), float(i), requires_grad=True) for i in range(2000)]
    total = xs[0] * 1
    for x in xs[1:]:
        total = total + x * x.detach()
    total.backward()
    assert [x.grad.item() for x in xs] == [1.0, *map(float, range(1, 2000))]


# --- memory ---------------------------------------------------------------------------------

UNARY = ["sigmoid", "tanh", "exp", "sqrt", "relu", "abs", "neg", "square", "log", "reciprocal"]
FREED = {name: (lambda x, name=name: getattr(x, name)()) for name in UNARY}
FREED |= {
    "add": lambda x: x + x,
    "mul": lambda x: x * x,
    "div": lambda x: x / x,
    "pow": lambda x: x**3,
    "matmul": lambda x: x @ x.t(),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "prod": lambda x: x.prod(),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1).values,
    "std": lambda x: x.std(),
    "logsumexp": lambda x: x.logsumexp(0),
    "view": lambda x: x.view(-1),
    "transpose": lambda x: x.t().contiguous(),
    "index": lambda x: x[1, :2],
    "gather": lambda x: x.gather(0, tt.zeros(1, 4, dtype=tt.int64)),
    "cat": lambda x: tt.cat([x, x]),
    "where": lambda x: tt.where(x > 0, x, x * 2),
    "clamp": lambda x: x.clamp(0.5, 1.0),
    "inplace": lambda x: x.clone().mul_(2).add_(1),
    "inplace of a view": lambda x: _inplace_of_view(x),
    "expand": lambda x: x.expand(3, 4, 4),
}


def _inplace_of_view(x):
    y = x.clone()
    y[0].mul_(3)
    return y


@pytest.mark.parametrize("name", FREED)
def test_graph_is_freed_without_the_collector(name, no_gc):
    x = (tt.rand(4, 4) + 0.5).requires_grad_()
    for run_backward in (False, True):
        middle = x * 1
        out = FREED[name](middle)
        loss = out.sum()
        watched = [weakref.ref(t) for t in (middle, out, loss)]
        if run_backward:
            loss.backward()
        del middle, out, loss
        assert [w() for w in watched] == [None] * 3


def test_hooks_and_retained_grads_are_freed(no_gc):
    x = tt.ones(3, requires_grad=True)

    class Marker:
        def __call__(self, grad):
            return grad

    y = (x * 2).sigmoid()
    y.retain_grad()
    marker = Marker()
    y.register_hook(marker)
    watched = [weakref.ref(y), weakref.ref(marker)]
    y.sum().backward()
    del y, marker
    assert [w() for w in watched] == [None, None]


def test_cycles_through_python_are_collected():
    leaf = tt.ones(3, requires_grad=True)
    leaf.register_hook(lambda grad, leaf=leaf: None)
    named = tt.ones(3)
    named.myself = named
    watched = [weakref.ref(leaf), weakref.ref(named)]
    del leaf, named
    gc.collect()
    assert [w() for w in watched] == [None, None]


def test_custom_function_is_freed(no_gc):
    class Cube(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x

    x = tt.full((2,), 2.0, requires_grad=True)
    y = Cube.apply(x * 1)
    watched = weakref.ref(y)
    y.sum().backward()
    del y
    assert x.grad.tolist() == [12.0, 12.0]
    assert watched() is None


@pytest.mark.unsanitized("the sanitizers keep freed memory on purpose")
def test_memory_is_flat_over_training_steps(no_gc):
    w = tt.randn(8, 8, requires_grad=True)
    b = tt.zeros(8, requires_grad=True)
    x = tt.randn(4, 8)

    def step():
        loss = ((x @ w + b).tanh().sigmoid() - 0.25).square().mean()
        loss.backward()
        with tt.no_grad():
            for p in (w, b):
                p.sub_(p.grad, alpha=1e-3)
                p.grad = None

    assert_flat(step, 100_000)


@pytest.mark.unsanitized("the sanitizers keep freed memory on purpose")
def test_memory_is_flat_over_other_uses(no_gc):
    x = tt.rand(4, 4, requires_grad=True)

    def double_backward():
        (g,) = tt.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
        g.sum().backward()
        x.grad = None

    def views_and_errors():
        y = x.detach().clone().view(2, 8).t()[1:3]
        y.add_(1)
        y.numpy()
        y.tolist()
        try:
            y.view(5)
        except RuntimeError:
            pass
        else:
            raise AssertionError
        try:
            (x * 2).backward()
        except RuntimeError:
            pass

    def hooks():
        y = x * 2
        handle = y.register_hook(lambda g: g * 2)
        y.sum().backward()
        handle.remove()
        x.grad = None

    sizes = iter(range(1, 10**9))

    def changing_sizes():
        n = next(sizes) % 3000 + 1
        tt.ones(n).mul_(2).sum().item()

    for step in (double_backward, views_and_errors, hooks, changing_sizes):
        assert_flat(step, 20_000)


@pytest.mark.unsanitized("the sanitizers keep freed memory on purpose")
def test_memory_of_big_tensors_is_returned():
    step = lambda: tt.zeros(4_000_000).add_(1)
    step()
    empty_cache()
    before = resident_kib()
    kept = [step() for _ in range(24)]
    assert resident_kib() - before > 24 * 15_000
    del kept
    assert resident_kib() - before < 280_000  # the cache keeps up to 256 MiB
    empty_cache()
    assert resident_kib() - before < 20_000


# --- order and bookkeeping ------------------------------------------------------------------


def test_order_of_hooks():
    def order(lib):
        seen = []
        x = lib.ones(2, requires_grad=True)
        named = {}
        named["a"] = x * 2
        named["b"] = named["a"].exp()
        named["c"] = named["a"].sigmoid()
        named["d"] = named["c"] * named["b"]
        for name, t in named.items():
            t.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
        x.register_hook(lambda g: seen.append(("x", [round(v, 3) for v in g.tolist()])))
        (named["d"] + named["a"]).sum().backward()
        return [name for name, _ in seen]

    same(order)


def test_graph_structure():
    def walk(lib):
        x = lib.ones(2, 3, requires_grad=True)
        y = ((x * 2 + x.t().reshape(2, 3)).relu() @ x.t()).sum()
        lines = []

        def visit(node, depth):
            lines.append((depth, type(node).__name__ if node is not None else None))
            for nxt, index in node.next_functions if node is not None else ():
                lines.append(index)
                visit(nxt, depth + 1)

        visit(y.grad_fn, 0)
        return lines

    same(walk)


def test_gradients_reach_only_what_is_asked():
    def run(lib):
        a, b = (lib.full((2,), v, requires_grad=True) for v in (2.0, 3.0))
        c = a * b
        d = c * a
        grads = lib.autograd.grad(d.sum(), [c, a], retain_graph=True)
        return [*grads, a.grad, b.grad, lib.autograd.grad(d.sum(), b)[0]]

    same(run)


def test_backward_errors():
    def second(lib):
        y = lib.ones(2, requires_grad=True).exp().sum()
        y.backward()
        y.backward()

    def not_scalar(lib):
        (lib.ones(2, requires_grad=True) * 2).backward()

    def no_grad_fn(lib):
        lib.ones(1).backward()

    def leaf_inplace(lib):
        lib.ones(2, requires_grad=True).add_(1)

    def stale(lib):
        x = lib.ones(2, requires_grad=True)
        y = x.exp()
        z = y * 2
        y.add_(1)
        z.sum().backward()

    def unused(lib):
        x, y = (lib.ones(1, requires_grad=True) for _ in range(2))
        lib.autograd.grad(x * 2, y)

    def wrong_shape(lib):
        (lib.ones(2, requires_grad=True) * 2).backward(lib.ones(3))

    for fn in (second, not_scalar, no_grad_fn, leaf_inplace, stale, unused, wrong_shape):
        same(fn)


def test_exception_in_a_hook_leaves_the_engine_usable():
    def fail(grad):
        raise KeyError("from the hook")

    x = tt.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(fail)
    with pytest.raises(KeyError, match="from the hook"):
        y.sum().backward()
    z = (x * 3).sum()
    x.grad = None
    z.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_backward_inside_a_hook():
    def run(lib):
        x = lib.ones(2, requires_grad=True)
        w = lib.full((2,), 5.0, requires_grad=True)

        def hook(grad):
            with lib.enable_grad():
                (w * w).sum().backward()
            return grad * 2

        y = x * 3
        y.register_hook(hook)
        y.sum().backward()
        return [x.grad, w.grad]

    same(run)


def test_nodes_that_are_used_again_are_as_new(no_gc):
    def loss(lib, a, b):
        return lib.nn.functional.mse_loss(lib.addmm(b[0], a * b + a.sum(), b), a)

    def kind(node):
        return node.name().split("::")[-1]

    def graph(lib, hooked):
        a = lib.ones(2, 2, requires_grad=True)
        b = lib.ones(2, 2, requires_grad=hooked)
        many = (a if hooked else a.detach()).unbind(0)
        out = loss(lib, a, b) + (many[1] * many[0]).sum()
        nodes, todo = [], [out.grad_fn]
        while todo:
            node = todo.pop()
            nodes.append((kind(node), [(f and kind(f), k) for f, k in node.next_functions], dict(node.metadata)))
            todo += [f for f, _ in node.next_functions if f]
            if hooked:
                node.metadata["seen"] = True
                node.register_hook(lambda *grads: None)
                node.register_prehook(lambda grads: None)
        out.backward()
        return nodes

    for hooked in (True, False, True, False):
        assert graph(tt, hooked) == graph(torch, hooked)


@pytest.mark.parametrize("kind", ["row", "product", "sum", "loss", "function"])
def test_freeing_a_chain_takes_no_more_stack_the_longer_it_is(kind, no_gc):
    step = {
        "row": lambda y: y + 1,
        "product": lambda y: y @ y.detach(),
        "sum": lambda y: y.sum(0, keepdim=True),
        "loss": lambda y: tt.nn.functional.mse_loss(y, y.detach(), reduction="none"),
        "function": lambda y: y.cumsum(0),
    }[kind]

    def run():
        y = tt.ones(1, 1, requires_grad=True)
        for _ in range(DEEP):
            y = step(y)
        del y
        return True

    assert on_small_stack(run, 192)


def test_chains_of_several_kinds_on_a_small_stack(no_gc):
    w = tt.ones(1, 1, requires_grad=True)

    def run():
        x = w
        for _ in range(DEEP // 20):
            x = tt.nn.functional.mse_loss((x @ w).relu().sum(0, keepdim=True), w)
            x = x.reshape(1, 1).exp() * 0 + 1
        del x
        return True

    assert on_small_stack(run)


def test_a_graph_modified_between_forward_and_backward():
    x, t = tt.ones(3, requires_grad=True), tt.zeros(3)
    y = x * 1
    loss = tt.nn.functional.mse_loss(y, t)
    t += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss = tt.nn.functional.mse_loss(x * 1, t)
    loss.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()
