"""Averages that have shrunk into the subnormal numbers, where the fused steps count instead of multiplying."""

import numpy as np
import pytest
import torch

import tensotron

N, EDGE = 1027, 600  # odd, so that a last vector is not full; the lanes before EDGE have no gradient


def averages(rs, positive):
    """Subnormal numbers, the smallest among them, zeros, and normal numbers of every size."""
    units = rs.randint(0, 2**23, N).astype(np.uint32)
    units[:64] = np.arange(64)
    sign = np.uint32(0) if positive else rs.randint(0, 2, N).astype(np.uint32) << 31
    values = (units | sign).view(np.float32).copy()
    normal = rs.rand(N) < 0.3
    values[normal] = (rs.randn(N) * 10.0 ** rs.uniform(-44, 0, N)).astype(np.float32)[normal]
    return np.abs(values) if positive else values


def run(lib, algorithm, options, buffers, steps):
    rs = np.random.RandomState(0)
    start = rs.randn(N) * 10.0 ** rs.uniform(-30, 1, N)
    start[:200] = rs.randn(200)
    gradient = rs.randn(N) * 10.0 ** rs.uniform(-25, 0, N) * (rs.rand(N) < 0.3)
    gradient[:EDGE] = 0
    p = lib.nn.Parameter(lib.from_numpy(start.astype(np.float32)))
    p.grad = lib.from_numpy(gradient.astype(np.float32))
    optimizer = getattr(lib.optim, algorithm)([p], **options)
    state = {name: lib.from_numpy(averages(rs, "sq" in name)) for name in buffers}
    if algorithm != "SGD":
        state["step"] = lib.tensor(500.0)
    optimizer.state[p] = state
    for _ in range(steps):
        optimizer.step()
    return p.detach().numpy(), {name: optimizer.state[p][name].numpy() for name in buffers}


ADAM = ("exp_avg", "exp_avg_sq")


@pytest.mark.skipif(
    tensotron.backends.cpu.get_cpu_capability() == "DEFAULT", reason="rounds products, which PyTorch adds unrounded"
)
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize(
    "algorithm, options, buffers",
    [
        ("Adam", {}, ADAM),
        ("Adam", {"lr": 0.1, "betas": (0.99, 0.99)}, ADAM),
        ("Adam", {"betas": (0.999, 0.999)}, ADAM),  # 0.001 of a subnormal number is not exact in double
        ("Adam", {"betas": (0.3, 0.5)}, ADAM),
        ("Adam", {"amsgrad": True}, (*ADAM, "max_exp_avg_sq")),
        ("Adam", {"maximize": True}, ADAM),
        ("Adam", {"lr": 1e6}, ADAM),
        ("AdamW", {}, ADAM),
        ("SGD", {"lr": 0.1, "momentum": 0.9}, ("momentum_buffer",)),
        ("SGD", {"lr": 0.1, "momentum": 0.5}, ("momentum_buffer",)),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, ("momentum_buffer",)),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}, ("momentum_buffer",)),
        ("RMSprop", {}, ("square_avg",)),
        ("RMSprop", {"alpha": 0.9, "momentum": 0.9}, ("square_avg", "momentum_buffer")),
        ("RMSprop", {"centered": True}, ("square_avg", "grad_avg")),
    ],
)
def test_subnormal_averages_are_those_of_torch(algorithm, options, buffers, steps):
    ours, kept = run(tensotron, algorithm, options, buffers, steps)
    theirs, wanted = run(torch, algorithm, options, buffers, steps)
    for name in buffers:
        exact = EDGE if (algorithm, name) == ("RMSprop", "momentum_buffer") else N
        np.testing.assert_array_equal(kept[name][:exact].view(np.uint32), wanted[name][:exact].view(np.uint32), err_msg=name)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=0)


def test_averages_stop_at_the_multiples_pytorch_stops_at():
    p = tensotron.nn.Parameter(tensotron.ones(3))
    p.grad = tensotron.zeros(3)
    optimizer = tensotron.optim.Adam([p])
    units = np.array([4, 5, 100], np.uint32).view(np.float32)
    optimizer.state[p] = {
        "step": tensotron.tensor(9.0),
        "exp_avg": tensotron.from_numpy(units.copy()),
        "exp_avg_sq": tensotron.from_numpy(units.copy()),
    }
    for _ in range(60):
        optimizer.step()
    assert optimizer.state[p]["exp_avg"].numpy().view(np.uint32).tolist() == [4, 4, 4]
    assert optimizer.state[p]["exp_avg_sq"].numpy().view(np.uint32).tolist() == [4, 5, 100]
    assert p.tolist() == [1, 1, 1]


def test_a_negative_step_counts_as_any_other():
    """Steps choose where averages are sampled; under the sanitizers a sample before the first element is an error."""
    for step in range(-20, 0):
        got = []
        for lib in (torch, tensotron):
            p = lib.nn.Parameter(lib.ones(64))
            p.grad = lib.full((64,), 0.5)
            optimizer = lib.optim.RMSprop([p])
            optimizer.state[p] = {"step": lib.tensor(float(step)), "square_avg": lib.full((64,), 0.25)}
            optimizer.step()
            got.append((p.detach().numpy(), optimizer.state[p]["step"].item()))
        np.testing.assert_allclose(got[1][0], got[0][0], rtol=1e-6)
        assert got[1][1] == got[0][1] == step + 1
