"""Elementwise launches longer than the cache run from the end where the last one stopped: no bit may depend on it."""

import numpy as np
import pytest

import tensotron as tt

N = 300_001  # several blocks, and a last one that is no whole vector


def operands(dtype):
    rng = np.random.default_rng(0)
    return tt.from_numpy((rng.standard_normal(N) * 4).astype(dtype)), tt.from_numpy(rng.standard_normal(N).astype(dtype))


def bits(t):
    return t.numpy().tobytes()


OPS = {
    "exp": lambda x, y: tt.exp(x),
    "add": lambda x, y: x + y,
    "atan2": lambda x, y: tt.atan2(x, y),
    "lerp": lambda x, y: tt.lerp(x, y, 0.25),
    "where": lambda x, y: tt.where(x > 0, x, y),
}


CASES = [(name, dtype) for name in OPS for dtype in ("float32", "float64")] + [("add", "int64"), ("where", "int64")]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_long_runs_equal_short_ones(name, dtype):
    x, y = operands(dtype)
    op = OPS[name]
    pieces = b"".join(bits(op(x[i : i + 999], y[i : i + 999])) for i in range(0, N, 999))
    for _ in range(3):  # up, down, up
        assert bits(op(x, y)) == pieces


def test_in_place_and_chains():
    x, y = operands("float32")
    expected = np.maximum(x.numpy() * np.float32(0.5), 0) + y.numpy()
    for _ in range(3):
        z = x.clone()
        z.mul_(0.5).relu_().add_(y)
        assert bits(z) == expected.tobytes()
        assert bits(tt.relu(x * 0.5) + y) == expected.tobytes()


def test_division_that_overflows_follows_the_place_in_the_whole_run():
    """PyTorch's vectors give NaN where the quotient overflows, its scalar code does not: only the tail of the whole is scalar."""
    torch = pytest.importorskip("torch")
    a, b = np.full(N, 3e38, np.float32), np.full(N, 1e-3, np.float32)
    expected = torch.fmod(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    for _ in range(3):
        got = tt.fmod(tt.from_numpy(a), tt.from_numpy(b)).numpy()
        np.testing.assert_array_equal(got, expected)
