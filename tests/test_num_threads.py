"""The pool of threads, and launches and replays without the GIL: the same bits for any number of threads."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import torch
from test_fork import in_child
from test_threads import in_threads

import tensotron as tt
from tensotron import nn
from tensotron.nn import functional as F

COUNTS = (2, 3, 5)


@pytest.fixture(autouse=True)
def one_thread_afterwards():
    yield
    tt.set_num_threads(1)


def rand(*shape, dtype=np.float32, seed=0):
    return tt.as_tensor(np.random.RandomState(seed).randn(*shape).astype(dtype))


def bits(x):
    return [t.detach().clone().numpy().tobytes() for t in (x if isinstance(x, (tuple, list)) else (x,))]


def check(work):
    """The same bits from any number of threads."""
    tt.set_num_threads(1)
    want = bits(work())
    for count in COUNTS:
        tt.set_num_threads(count)
        for _ in range(3):
            assert bits(work()) == want, f"{count} threads"


def gradients(f, *tensors):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = f(*leaves)
    out.backward(rand(*out.shape, dtype=out.detach().numpy().dtype, seed=9))
    return [out, *(t.grad for t in leaves)]


# ==== the same bits ===============================================================================
@pytest.mark.parametrize("transpose", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("m, n, k", [(257, 331, 300), (1000, 64, 129), (8, 2000, 700), (300, 300, 1000), (513, 700, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(m, n, k, transpose, dtype):
    a = rand(*((k, m) if transpose[0] else (m, k)), dtype=dtype)
    b = rand(*((n, k) if transpose[1] else (k, n)), dtype=dtype, seed=1)
    check(lambda: (a.t() if transpose[0] else a) @ (b.t() if transpose[1] else b))


FEW = [(1, 3000, 1000), (3000, 1, 1000), (2, 1501, 900), (1501, 2, 900), (5, 1000, 1300), (4, 129, 9000)]


@pytest.mark.parametrize("m, n, k", FEW)
def test_products_with_few_rows_or_columns(m, n, k):
    a, b = rand(m, k), rand(n, k, seed=1)
    check(lambda: a @ b.t())
    check(lambda: (b @ a.t()).t() @ b)


def test_products_with_bias_activation_and_batches():
    a, b, bias = rand(300, 200), rand(400, 200, seed=1), rand(400, seed=2)
    check(lambda: F.linear(a, b, bias))
    check(lambda: tt.addmm(bias, a, b.t(), alpha=0.7, beta=1.3))
    x, y = rand(7, 150, 90), rand(7, 90, 160, seed=1)
    check(lambda: x @ y)
    check(lambda: rand(40, 60, 50) @ rand(50, 70, seed=1))
    few, large = rand(5, 33, 300), rand(5, 300, 2000, seed=1)  # a packed operand, shared and not
    check(lambda: few @ large)
    check(lambda: tt.tanh(F.linear(few[0], large[0].t().contiguous(), rand(2000, seed=2))))
    i, j = (tt.as_tensor(np.random.RandomState(s).randint(-99, 99, (150, 140))) for s in (1, 2))
    check(lambda: i @ j.t())


CONVOLUTIONS = [
    # N, C, H, W, O, K, options
    (9, 4, 40, 40, 32, 8, {"stride": 4}),
    (8, 32, 15, 15, 64, 4, {"stride": 2}),
    (8, 64, 9, 9, 64, 3, {}),
    (16, 1, 28, 28, 8, 3, {"padding": 1}),
    (16, 8, 14, 14, 16, 3, {"padding": 1}),
    (7, 12, 20, 17, 24, 3, {"padding": 2, "dilation": 2, "groups": 4}),
    (8, 32, 16, 16, 32, 3, {"padding": 1, "groups": 32}),
    (1, 16, 64, 64, 48, 5, {"padding": 2}),
    (6, 3, 30, 31, 5, 5, {"stride": (2, 3), "padding": (1, 2)}),
]


@pytest.mark.parametrize("n, c, h, w, o, k, options", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolutions(n, c, h, w, o, k, options, dtype):
    x, weight = rand(n, c, h, w, dtype=dtype), rand(o, c // options.get("groups", 1), k, k, dtype=dtype, seed=1)
    bias = rand(o, dtype=dtype, seed=2)
    check(lambda: gradients(lambda x, weight, bias: F.conv2d(x, weight, bias, **options), x, weight, bias))


def test_elementwise():
    x, y = rand(300_001), rand(300_001, seed=1)
    row, column = rand(1, 700, seed=2), rand(601, 1, seed=3)
    wide = rand(700, 601, seed=4).t()
    ints = tt.as_tensor(np.random.RandomState(5).randint(-9, 9, 300_001))
    for f in (
        lambda: x + y, lambda: tt.tanh(x), lambda: x.exp() * 3, lambda: x.double() / 3, lambda: row + column,
        lambda: wide * row, lambda: wide + wide, lambda: wide.t().contiguous(), lambda: wide.contiguous(), lambda: ints + x,
        lambda: ints * 3, lambda: x > y, lambda: tt.where(x > 0, x, y), lambda: x[1::2] - y[1::2], lambda: tt.pow(x.abs(), 1.7),
        lambda: x.clone().add_(y, alpha=0.3), lambda: tt.full((300_001,), 3.5), lambda: x[:-7].flip(0).sigmoid(),
        lambda: rand(3, 5, 7, 11, 13, 17).permute(5, 3, 1, 0, 2, 4).exp(),
    ):  # fmt: skip
        check(f)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        ints // tt.zeros_like(ints)


def test_reductions():
    x = rand(400, 1300)
    for f in (
        lambda: x.sum(), lambda: x.sum(0), lambda: x.sum(1), lambda: x.t().sum(0), lambda: x.mean((0, 1)), lambda: x.amax(0),
        lambda: x.max(1), lambda: x.max(0), lambda: x.argmin(1), lambda: x.var(0), lambda: x.std(1), lambda: tt.logsumexp(x, 1),
        lambda: tt.logsumexp(x, 0), lambda: (x > 0).sum(1), lambda: (x > 0).all(0), lambda: x.view(40, 10, 1300).sum(1),
        lambda: x.view(40, 10, 1300).sum((0, 2)), lambda: x.view(130_000, 4).sum(1), lambda: x.view(130_000, 4).amax(1),
        lambda: x.double().prod(0), lambda: x[:, ::3].sum(0),
    ):  # fmt: skip
        check(f)


@pytest.mark.parametrize("shape, dim", [((500, 400), 1), ((40_000, 5), 1), ((10, 300, 70), 1), ((3, 100_000), 1)])
@pytest.mark.parametrize("op", [F.softmax, F.log_softmax])
def test_softmax(shape, dim, op):
    check(lambda: gradients(lambda x: op(x, dim), rand(*shape)))


def test_pooling():
    x = rand(32, 16, 28, 27)
    check(lambda: gradients(lambda x: F.max_pool2d(x, 2), x))
    check(lambda: gradients(lambda x: F.max_pool2d(x, 3, 2, 1), x))
    check(lambda: gradients(lambda x: F.avg_pool2d(x, 3, 2, 1), x))


def network():
    net = nn.Sequential(nn.Conv2d(4, 32, 5, stride=2), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Flatten(), nn.Linear(32 * 49, 300), nn.ReLU(), nn.Linear(300, 10))  # fmt: skip
    with tt.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(rand(*p.shape, seed=i) / (p[0].numel() or 1) ** 0.5)
    return net


def trained(compiled, optimizer=tt.optim.Adam, steps=3, clip=None):
    net, x = network(), rand(16, 4, 32, 32)
    target = tt.arange(16) % 10
    opt = optimizer(net.parameters(), lr=1e-3)

    def step(x, target):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        opt.step()
        return loss

    step = tt.compile(step) if compiled else step
    losses = [step(x, target).detach().clone() for _ in range(steps)]
    return losses + [p.detach() for p in net.parameters()]


@pytest.mark.parametrize("compiled", [False, True])
def test_training(compiled):
    tt.set_num_threads(1)
    want = bits(trained(False, clip=0.5))
    check(lambda: trained(compiled, clip=0.5))
    assert bits(trained(compiled, clip=0.5)) == want


@pytest.mark.parametrize("optimizer", [tt.optim.SGD, tt.optim.RMSprop])
def test_optimisers(optimizer):
    check(lambda: trained(False, optimizer))


# ==== the pool ====================================================================================
def busy(seconds=0.3):
    """CPU seconds that the process takes while nothing is asked of it."""
    before = time.process_time()
    time.sleep(seconds)
    return time.process_time() - before


def test_idle_workers_sleep():
    tt.set_num_threads(4)
    x = rand(500, 500)
    x @ x
    time.sleep(0.05)
    assert busy() < 0.05


def test_errors_are_those_of_torch():
    for name in ("set_num_threads", "set_num_interop_threads"):
        for value in (0, -1, 2.5, "3", True, None, 2**40):
            with pytest.raises(Exception) as theirs:
                getattr(torch, name)(value)
            with pytest.raises(type(theirs.value)) as ours:
                getattr(tt, name)(value)
            assert str(ours.value) == str(theirs.value)
    assert tt.get_num_threads() == 1
    tt.set_num_threads(np.int64(3))
    assert tt.get_num_threads() == 3


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=120, cwd=os.path.dirname(__file__),
    )  # fmt: skip


def test_environment():
    ask = "import tensotron as tt; print(tt.get_num_threads(), tt.get_num_interop_threads())"
    cpus = len(os.sched_getaffinity(0))
    assert run(ask, TENSOTRON_CPU_THREADS="").stdout.split() == ["1", str(cpus)]
    assert run(ask, TENSOTRON_CPU_THREADS="3").stdout.split() == ["3", str(cpus)]
    assert run(ask, TENSOTRON_CPU_THREADS="auto").stdout.split() == [str(cpus)] * 2
    bad = run(ask, TENSOTRON_CPU_THREADS="many")
    assert bad.returncode != 0 and "TENSOTRON_CPU_THREADS" in bad.stderr


def test_interop_threads_are_set_once():
    done = run("""
        import tensotron as tt
        tt.set_num_interop_threads(2)
        print(tt.get_num_interop_threads())
        try:
            tt.set_num_interop_threads(3)
        except RuntimeError as exc:
            print(exc)
    """)
    assert done.stdout.startswith("2\nError: cannot set number of interop threads after parallel work has started")


def test_exit_with_workers():
    done = run("""
        import tensotron as tt, threading
        x = tt.rand(600, 600)
        (x @ x).sum().item()
        threading.Thread(target=lambda: [x @ x for _ in range(20)]).start()
    """, TENSOTRON_CPU_THREADS="4")  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_fork():
    x = rand(400, 400)
    want = bits(x @ x)
    tt.set_num_threads(3)
    assert bits(x @ x) == want
    stop = threading.Event()

    def work():
        while not stop.is_set():
            x @ x

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(10):
            assert in_child(lambda: bits(x @ x) == want and tt.get_num_threads() == 3)
    finally:
        stop.set()
        for t in threads:
            t.join()


def test_the_number_changes_while_others_work():
    x = rand(300, 300)
    want = bits(x @ x)
    stop = threading.Event()

    def change():
        count = 1
        while not stop.is_set():
            count = count % 5 + 1
            tt.set_num_threads(count)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for results in in_threads(lambda _: [bits(x @ x) == want for _ in range(100)], 3):
            assert all(results)
    finally:
        stop.set()
        thread.join()


# ==== without the GIL =============================================================================
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("compiled", [False, True])
def test_python_threads_train_at_once(compiled, count):
    tt.set_num_threads(1)
    want = bits(trained(False))
    tt.set_num_threads(count)
    for got in in_threads(lambda _: bits(trained(compiled)), 3):
        assert got == want


def test_other_threads_run_during_a_launch():
    """One that counts gets its turn while another is inside a long launch."""
    x = rand(700, 700)
    for _ in range(5):
        inside, seen = threading.Event(), []

        def count():
            inside.wait()
            seen.append(time.perf_counter())

        thread = threading.Thread(target=count)
        thread.start()
        inside.set()
        for _ in range(3):
            x @ x
        end = time.perf_counter()
        thread.join()
        if seen[0] < end:
            return
    raise AssertionError("nobody ran until the launches were over")


def test_large_gradients_of_a_shared_leaf_add_up():
    x = tt.ones(400_000, requires_grad=True)

    def work(index):
        for _ in range(20):
            (x * (index + 1)).backward(tt.ones(400_000))

    in_threads(work)
    assert x.grad.min().item() == x.grad.max().item() == 20 * (1 + 2 + 3 + 4)


def test_one_compiled_function_in_several_threads():
    weight = rand(512, 512) / 22

    @tt.compile
    def f(x):
        for _ in range(3):
            x = tt.tanh(x @ weight)
        return x

    inputs = [rand(256, 512, seed=i) for i in range(4)]
    want = [bits(f.function(x)) for x in inputs]
    for i, x in enumerate(inputs):
        assert bits(f(x)) == want[i]

    def work(index):
        return all(bits(f(inputs[index])) == want[index] for _ in range(30))

    assert all(in_threads(work))


def test_random_numbers_of_one_generator_in_several_threads():
    """Captured programs that draw run beside others; every number is drawn once."""
    weight = rand(600, 600)

    @tt.compile
    def f(x):
        return tt.rand(3000), x @ weight

    f(weight)
    tt.manual_seed(7)
    want = sorted(tt.rand(4 * 20 * 3000).tolist())
    tt.manual_seed(7)
    drawn = in_threads(lambda i: [f(weight)[0].tolist() if i % 2 else tt.rand(3000).tolist() for _ in range(20)])
    assert sorted(v for parts in drawn for part in parts for v in part) == want


def test_memory_dropped_by_another_thread_during_a_launch():
    stop = threading.Event()
    box = [rand(300_000)]

    def drop():
        while not stop.is_set():
            box[0] = rand(300_000)

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        for _ in range(30):
            assert tt.isfinite(tt.tanh(box[0]) + 1).all()
    finally:
        stop.set()
        thread.join()
