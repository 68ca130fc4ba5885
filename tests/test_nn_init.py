"""nn.init against PyTorch's, bit for bit (orthogonal_, which decomposes a matrix, to rounding)."""

import warnings

import numpy as np
import pytest
import torch
from _both import same

import tensotron

CALLS = [
    "uniform_(t, -2, 3)",
    "normal_(t, 1, 2)",
    "trunc_normal_(t)",
    "trunc_normal_(t, 0.5, 2, -1, 1.5)",
    "trunc_normal_(t, 0, 0.02, -2, 2)",
    "trunc_normal_(t, 5, 0.1, -2, 2)",
    "constant_(t, 0.3)",
    "ones_(t)",
    "zeros_(t)",
    "eye_(t)",
    "dirac_(t)",
    "dirac_(t, 2)",
    "xavier_uniform_(t, 1.5)",
    "xavier_normal_(t)",
    "kaiming_uniform_(t, 5 ** 0.5)",
    "kaiming_uniform_(t, mode='fan_out', nonlinearity='relu')",
    "kaiming_normal_(t, mode='FAN_OUT')",
    "kaiming_normal_(t, mode='fan')",
    "kaiming_normal_(t, nonlinearity='nothing')",
    "sparse_(t, 0.3)",
    "xavier_uniform(t)",
]


@pytest.mark.parametrize("shape", [(4, 6), (6, 4, 3), (4, 2, 3, 3), (5,), (0, 3), (60, 40)], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_init(call, shape):
    for dtype in ("float32", "float64"):
        def run(lib, dtype=dtype):
            lib.manual_seed(7)
            t = lib.nn.Parameter(lib.empty(shape, dtype=getattr(lib, dtype)))
            out = eval("init." + call, {"init": lib.nn.init, "t": t})
            assert out is t
            return t, lib.rand(1)

        same(run)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (4, 2, 3), (64, 64), (3, 128), (5,)], ids=str)
def test_orthogonal(shape):
    out = []
    for lib in (tensotron, torch):
        lib.manual_seed(7)
        t = lib.empty(shape)
        if len(shape) < 2:
            with pytest.raises(ValueError, match="Only tensors with 2 or more dimensions are supported"):
                lib.nn.init.orthogonal_(t)
            return
        assert lib.nn.init.orthogonal_(t, gain=2**0.5) is t
        out.append((t.numpy(), lib.rand(1).item()))
    np.testing.assert_allclose(out[0][0], out[1][0], rtol=1e-4, atol=2e-6)
    assert out[0][1] == out[1][1]


@pytest.mark.parametrize("args", [("linear",), ("tanh",), ("relu",), ("selu",), ("leaky_relu",), ("leaky_relu", 0.2),
                                  ("leaky_relu", True), ("leaky_relu", "x"), ("gelu",), ("conv_transpose3d",)], ids=str)
def test_calculate_gain(args):
    same(lambda lib: lib.nn.init.calculate_gain(*args))


def test_warnings():
    for call, category in (("normal", FutureWarning), ("kaiming_uniform_", UserWarning)):
        texts = []
        for lib in (tensotron, torch):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                getattr(lib.nn.init, call)(lib.empty(0, 2) if category is UserWarning else lib.empty(2))
            texts.append([(w.category, str(w.message)) for w in seen])
        assert texts[0] == texts[1] and texts[0][0][0] is category
