"""compile(steps=N): many captured calls in one, against a loop of plain ones, bit for bit."""

import threading

import pytest

import tensotron as t
from tensotron.compiler import stats

nn, F = t.nn, t.nn.functional


def trainer(seed=0, dropout=0.0):
    t.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2))
    opt = t.optim.Adam(net.parameters(), lr=0.01)

    def step(x, y):
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach(), {"norm": net[0].weight.grad.norm(), "fixed": 3}

    return net, opt, step


def data(n=12, rows=5):
    g = t.Generator().manual_seed(1)
    return t.randn(n, rows, 3, generator=g), t.randn(n, rows, 2, generator=g)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_training_as_in_a_loop(dropout):
    xs, ys = data()
    net, opt, step = trainer(dropout=dropout)
    want = [step(x, y) for x, y in zip(xs, ys, strict=True)]
    net2, opt2, step2 = trainer(dropout=dropout)
    steps = t.compile(step2, steps=12)
    losses, rest = steps(xs, ys)
    assert losses.tolist() == [loss.item() for loss, _ in want]
    assert rest["norm"].tolist() == [r["norm"].item() for _, r in want] and rest["fixed"] == 3
    for a, b in zip(net.parameters(), net2.parameters(), strict=True):
        assert a.tolist() == b.tolist() and a.grad.tolist() == b.grad.tolist()
    assert stats(steps)["replays"] >= 9
    # another rate, and other data
    for o in (opt, opt2):
        o.param_groups[0]["lr"] = 0.5
    t.manual_seed(7)
    want = [step(x, y)[0].item() for x, y in zip(ys.new_ones(12, 5, 3), ys, strict=True)]
    t.manual_seed(7)
    assert steps(ys.new_ones(12, 5, 3), ys)[0].tolist() == want


def test_gradients_that_add_up_and_strided_arguments():
    def made():
        w = t.ones(3, requires_grad=True)

        def step(x, k):
            y = (w * x * k).sum()
            y.backward()
            return y.detach(), x.exp()

        return w, step

    xs = t.randn(3, 9).t()
    w, step = made()
    for _ in range(2):
        want = [step(x, 2.0) for x in xs]
    v, inner = made()
    steps = t.compile(inner, steps=9)
    for _ in range(2):
        y, e = steps(xs, 2.0)
        assert y.tolist() == [a.item() for a, _ in want] and e.tolist() == [b.tolist() for _, b in want]
    assert v.grad.tolist() == w.grad.tolist()


def test_arguments_that_are_written_to():
    def step(x, y):
        x.add_(y)
        return x * 2

    xs, ys = t.zeros(6, 2), t.arange(12.0).view(6, 2)
    version = xs._version
    out = t.compile(step, steps=6)(xs, ys)
    assert xs.tolist() == ys.tolist() and out.tolist() == (2 * ys).tolist() and xs._version == version + 6


def test_what_cannot_be_captured_runs_in_a_loop():
    def step(x):
        return x * (2 if x.sum().item() > 0 else 3)

    xs = t.tensor([[1.0], [-1.0], [2.0]])
    steps = t.compile(step, steps=3)
    assert steps(xs).tolist() == [[2.0], [-3.0], [4.0]] and stats(steps)["replays"] == 0


def test_memory_that_overlaps_differently_from_step_to_step():
    """Two arguments in one storage, whose distance changes."""
    base = t.arange(20.0)

    def step(a, b):
        c = a * b
        a.zero_()
        return c.sum()

    want_base = base.clone()
    want = [step(want_base[2 * i : 2 * i + 2], want_base[i : i + 2]).item() for i in range(6)]
    a, b = base.as_strided((6, 2), (2, 1)), base.as_strided((6, 2), (1, 1))
    assert t.compile(step, steps=6)(a, b).tolist() == want and base.tolist() == want_base.tolist()


def test_an_error_in_a_step():
    def step(x, i):
        return x[i] + 0

    steps = t.compile(step, steps=4)
    x = t.arange(12.0).view(4, 3)
    good = t.tensor([[0], [1], [2], [0]])
    assert steps(x, good).tolist() == [[0.0], [4.0], [8.0], [9.0]]
    with pytest.raises(IndexError):
        steps(x, t.tensor([[0], [1], [2], [5]]))


def test_misuse():
    with pytest.raises(ValueError, match="at least one step"):
        t.compile(lambda x: x, steps=0)
    steps = t.compile(lambda x: x * 2, steps=3)
    for x in (t.ones(2), t.tensor(1.0)):
        with pytest.raises(RuntimeError, match="argument 0 has to have 3 elements"):
            steps(x)
    with pytest.raises(RuntimeError, match="pass x.detach"):
        steps(t.ones(3, requires_grad=True))
    with pytest.raises(TypeError, match="type object"):
        t.compile(lambda x: object(), steps=3)(t.ones(3))
    with pytest.raises(RuntimeError, match="differ in shape"):
        t.compile(lambda x: t.ones(int(x.item())), steps=3)(t.arange(3.0))
    with pytest.raises(RuntimeError, match="a number among the results changes"):
        t.compile(lambda x: (x, x.item()), steps=3)(t.arange(3.0))


def test_two_threads():
    xs, ys = data(60)
    want = []
    for k in range(2):
        _, _, step = trainer(k)
        want.append([step(x, y)[0].item() for x, y in zip(xs, ys, strict=True)])
    found = [None, None]

    def run(k, steps):
        found[k] = steps(xs, ys)[0].tolist()

    workers = [threading.Thread(target=run, args=(k, t.compile(trainer(k)[2], steps=60))) for k in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found == want
