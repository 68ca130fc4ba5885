"""A forked child goes on where the parent was: generator, allocator, graph, engine."""

import multiprocessing
import os
import pickle
import signal
import threading

import pytest

import tensotron as tt

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]


def in_child(fn, seconds=60):
    """The result of ``fn()`` in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)  # a deadlock ends the child
        try:
            answer = ("value", fn())
        except BaseException as exc:
            answer = ("error", repr(exc))
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with status {status}"
    kind, value = pickle.loads(data)
    assert kind == "value", value
    return value


def train():
    w = tt.full((4, 4), 0.5, requires_grad=True)
    for _ in range(50):
        (w @ w).sigmoid().sum().backward()
        with tt.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
    return w.tolist()


def test_same_numbers_in_the_child():
    want = train()
    assert in_child(train) == want
    assert train() == want


def test_generator_is_copied():
    tt.manual_seed(3)
    tt.randn(3)
    child = in_child(lambda: tt.randn(20).tolist())
    assert tt.randn(20).tolist() == child


def test_tensors_are_copied():
    x = tt.arange(5.0)

    def change():
        x.add_(1)
        return x.tolist()

    assert in_child(change) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_backward_of_a_graph_of_the_parent():
    x = tt.ones(3, requires_grad=True)
    loss = (x * 2).exp().sum()

    def run():
        loss.backward()
        return x.grad.tolist()

    child = in_child(run)
    assert x.grad is None
    assert run() == child


def test_fork_inside_no_grad():
    with tt.no_grad():
        assert in_child(tt.is_grad_enabled) is False


def test_fork_while_another_thread_works():
    """Whatever lock the other thread holds at the fork, the child does not wait for it."""
    stop = threading.Event()

    def work():
        big = tt.rand(200_000)
        while not stop.is_set():
            x = tt.rand(64, 64, requires_grad=True)
            (x @ x).sum().backward()
            big.exp().sum()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        want = train()
        for _ in range(20):
            assert in_child(train) == want
    finally:
        stop.set()
        thread.join()


def _square(x):
    return (tt.full((3,), float(x)) ** 2).tolist()


@pytest.mark.unsanitized("the sanitizer's allocator may be locked by another thread when a worker is forked")
def test_pool():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_square, range(6)) == [[float(i * i)] * 3 for i in range(6)]
