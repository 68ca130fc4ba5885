"""Several Python threads: independent work, shared leaves and graphs, thread-local modes."""

import threading

import pytest

import tensotron as tt

THREADS = 4


def in_threads(fn, count=THREADS):
    """``fn(index)`` in as many threads at once; results in order, the first exception raised."""
    results, errors = [None] * count, []
    barrier = threading.Barrier(count)

    def target(index):
        try:
            barrier.wait()
            results[index] = fn(index)
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=target, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=120)
        assert not t.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def train(seed, steps=200):
    generator = tt.Generator()
    generator.manual_seed(seed)
    w = tt.randn(6, 3, generator=generator).requires_grad_()
    x = tt.randn(10, 6, generator=generator)
    for _ in range(steps):
        loss = ((x @ w).tanh() - 0.3).square().sum()
        loss.backward()
        with tt.no_grad():
            w -= 0.05 * w.grad
            w.grad = None
    return w.tolist()


def test_independent_training_gives_the_sequential_numbers():
    want = [train(i) for i in range(THREADS)]
    assert in_threads(train) == want


def test_gradients_of_a_shared_leaf_add_up():
    steps = 500
    x = tt.ones(3, requires_grad=True)

    def work(index):
        for _ in range(steps):
            (x * (index + 1)).sum().backward()

    in_threads(work)
    assert x.grad.tolist() == [steps * sum(range(1, THREADS + 1))] * 3


def test_one_graph_run_from_several_threads():
    x = tt.ones(4, requires_grad=True)
    loss = (x * 2).exp().sigmoid().sum()
    (want,) = tt.autograd.grad(loss, x, retain_graph=True)

    def work(index):
        return [tt.autograd.grad(loss, x, retain_graph=True)[0].tolist() for _ in range(200)]

    for grads in in_threads(work):
        assert grads == [want.tolist()] * 200


def test_backward_in_another_thread():
    x = tt.ones(4, requires_grad=True)
    loss = (x * 3).sum()
    in_threads(lambda _: loss.backward(), 1)
    assert x.grad.tolist() == [3.0] * 4


def test_grad_mode_is_of_the_thread():
    entered, leave = threading.Event(), threading.Event()

    def target():
        with tt.no_grad():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=target)
    thread.start()
    assert entered.wait(60)
    assert tt.is_grad_enabled()
    assert (tt.ones(1, requires_grad=True) * 2).requires_grad
    with tt.no_grad():
        # a new thread starts with gradients on
        assert in_threads(lambda _: tt.is_grad_enabled(), 1) == [True]
    leave.set()
    thread.join()


def test_default_generator_is_shared():
    tt.manual_seed(7)
    want = sorted(tt.rand(4000).tolist())
    tt.manual_seed(7)
    drawn = in_threads(lambda _: [tt.rand(1).item() for _ in range(4000 // THREADS)])
    assert sorted(v for part in drawn for v in part) == want


def test_tensors_freed_elsewhere():
    """Each thread frees what its neighbour allocated."""
    boxes = [[] for _ in range(THREADS)]

    def work(index):
        for i in range(3000):
            boxes[index].append(tt.full((i % 200 + 1,), float(index)))
            try:
                t = boxes[(index + 1) % THREADS].pop()
            except IndexError:
                continue
            values = set(t.tolist())
            assert len(values) == 1 and values < {float(k) for k in range(THREADS)}

    in_threads(work)


@pytest.mark.unsanitized("the sanitizers keep freed memory on purpose")
@pytest.mark.parametrize("rounds", [30])
def test_threads_that_end_give_back_their_memory(rounds):
    def resident_kib():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4

    def work(_):
        x = tt.rand(64, 64, requires_grad=True)
        (x @ x).sigmoid().sum().backward()

    for _ in range(5):
        in_threads(work)
    before = resident_kib()
    for _ in range(rounds):
        in_threads(work)
    assert resident_kib() - before < 20_000


def test_first_use_of_an_op_in_many_threads():
    def work(index):
        x = tt.full((3,), index + 1.0, requires_grad=True)
        y = x.log1p().expm1()
        name = type(y.grad_fn).__name__
        y.sum().backward()
        return name, [round(v, 5) for v in x.grad.tolist()]

    assert set(map(repr, in_threads(work, 8))) == {repr(("Expm1Backward0", [1.0] * 3))}
