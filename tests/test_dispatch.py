"""Every instruction set that this machine runs, forced through the environment, against baseline."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from tensotron._cpu.backend import available_isas

import tensotron as tt

NAMES = {"baseline": "DEFAULT", "neon": "NEON", "avx2": "AVX2", "avx512": "AVX512"}
FASTER = [isa for isa in available_isas() if isa != "baseline"]

# Runs in a process of its own: name -> array, for values and gradients of every function.
PROGRAM = r"""
import pickle, sys
import numpy as np
import tensotron as tt

UNARY = '''abs neg sign square sqrt rsqrt reciprocal exp exp2 expm1 log log1p log2 log10 sin cos tan tanh
sinh cosh asin acos atan asinh acosh atanh sigmoid relu erf erfc floor ceil trunc round frac isnan isinf
isfinite logical_not lgamma deg2rad'''.split()
BINARY = '''add sub mul div maximum minimum fmax fmin pow atan2 hypot fmod remainder eq ne lt le gt ge
copysign floor_divide logical_and logical_or logical_xor'''.split()
REDUCE = 'sum mean prod amax amin argmax argmin std var logsumexp all any cumsum norm'.split()
FUNCTIONAL = 'leaky_relu elu gelu silu softplus softmax log_softmax layer_norm hardtanh logsigmoid'.split()

rng = np.random.default_rng(0)
special = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-30, 1e30, 88.7, -88.7, 3.4e38]

def values(n):
    x = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 2, n)
    return np.concatenate([special[: n // 2], x[n // 2:]]) if n < 31 else np.concatenate([special, x[len(special):]])

out = {}

def record(name, fn, *inputs):
    try:
        tensors = [tt.from_numpy(a.copy()) for a in inputs]
        for t in tensors:
            if t.is_floating_point():
                t.requires_grad_()
        y = fn(*tensors)
    except (AttributeError, TypeError, RuntimeError):  # not for this dtype
        return
    out[name] = y.detach().numpy().copy()
    if y.requires_grad and 'floor_divide' not in name:  # which has no derivative
        y.backward(tt.ones_like(y))
        for i, t in enumerate(tensors):
            if t.grad is not None:
                out[f'{name} gradient {i}'] = t.grad.numpy().copy()

functional = getattr(getattr(tt, 'nn', None), 'functional', None)
for dtype in ('float32', 'float64'):
    for n in (1, 3, 7, 16, 33, 100, 1000):
        x, y = values(n).astype(dtype), values(n).astype(dtype)[::-1].copy()
        for name in UNARY:
            record(f'elementwise {name} {dtype} {n}', lambda t, name=name: getattr(tt, name)(t), x)
        for name in BINARY:
            record(f'elementwise {name} {dtype} {n}', lambda t, u, name=name: getattr(tt, name)(t, u), x, y)
        record(f'elementwise where {dtype} {n}', lambda t, u: tt.where(t > u, t, u), x, y)
        record(f'elementwise clamp {dtype} {n}', lambda t: t.clamp(-0.5, 2.0), x)
        moderate = np.clip(np.nan_to_num(x), -3, 3)
        for name in FUNCTIONAL:
            more = (-1,) if 'softmax' in name else ((n,),) if name == 'layer_norm' else ()
            record(f'sum {name} {dtype} {n}', lambda t, name=name, more=more: getattr(functional, name)(t, *more), moderate)
        for name in REDUCE:
            more = (0,) if name == 'cumsum' else ()
            record(f'sum {name} {dtype} {n}', lambda t, name=name, more=more: getattr(tt, name)(t, *more), moderate)
    for m, k, n in ((1, 1, 1), (1, 64, 64), (5, 7, 3), (33, 17, 65), (64, 64, 64), (100, 200, 50)):
        a = rng.standard_normal((m, k)).astype(dtype)
        b = rng.standard_normal((k, n)).astype(dtype)
        record(f'sum matmul {dtype} {m} {k} {n}', lambda t, u: t @ u, a, b)
        record(f'sum matmul transposed {dtype} {m} {k} {n}', lambda t, u: t.t().contiguous().t() @ u.t().contiguous().t(), a, b)
        for name in REDUCE[:10]:
            for dim in (0, 1):
                record(f'sum {name} {dtype} {m} {k} dim {dim}', lambda t, name=name, dim=dim: getattr(tt, name)(t, dim), a)
        record(f'elementwise strided {dtype} {m} {k}', lambda t: t.t() * 2 + t.t()[:, :1], a)
    image = rng.standard_normal((2, 3, 9, 8)).astype(dtype)
    weight = rng.standard_normal((4, 3, 3, 3)).astype(dtype)
    if functional is not None:
        record(f'sum conv2d {dtype}', lambda t, w: functional.conv2d(t, w, padding=1), image, weight)
        record(f'elementwise max_pool2d {dtype}', lambda t: functional.max_pool2d(t, 2), image)
        record(f'sum avg_pool2d {dtype}', lambda t: functional.avg_pool2d(t, 2), image)
for dtype in ('int64', 'int32', 'uint8', 'bool'):
    a, b = (rng.integers(0, 100, 37).astype(dtype) for _ in range(2))
    for name in BINARY:
        record(f'elementwise {name} {dtype}', lambda t, u, name=name: getattr(tt, name)(t, u + (not u.dtype == tt.bool)), a, b)
    record(f'exact sum {dtype}', lambda t: t.sum(), a)
tt.manual_seed(0)
for name in ('rand', 'randn'):
    out[f'exact {name}'] = getattr(tt, name)(1000).numpy()

with open(sys.argv[1], 'wb') as f:
    pickle.dump((tt.backends.cpu.get_cpu_capability(), out), f)
"""


def run_with(isa, path):
    env = {**os.environ, "TENSOTRON_CPU_CAPABILITY": isa}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(path)], env=env, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return pickle.loads(path.read_bytes())


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    capability, arrays = run_with("baseline", tmp_path_factory.mktemp("isa") / "baseline")
    assert capability == "DEFAULT"
    assert len(arrays) > 200
    return arrays


def distance(name, got, want):
    """Largest difference, in units of what is allowed for this kind of function."""
    assert got.dtype == want.dtype and got.shape == want.shape, name
    if got.dtype.kind != "f" or name.startswith("exact"):
        return 0.0 if np.array_equal(got, want) else np.inf
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return np.inf
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)]):
        return np.inf
    got, want = got[finite], want[finite]
    if not got.size:
        return 0.0
    if name.startswith("elementwise") and "gradient" in name:  # such as 1 - y * y, which cancels
        allowed = 16 * np.finfo(got.dtype).eps * np.maximum(1, np.abs(want))
        return float(np.max(np.abs(got - want) / allowed))
    if name.startswith("elementwise"):  # both within 2 ulp of the truth
        return float(np.max(np.abs(got - want) / np.spacing(np.abs(want)))) / 4
    # sums: rounding grows with the number of terms and the size of the largest
    scale = np.finfo(got.dtype).eps * max(1.0, float(np.max(np.abs(want))))
    return float(np.max(np.abs(got - want))) / (scale * 32)


@pytest.mark.parametrize("isa", FASTER)
def test_same_results_as_baseline(isa, baseline, tmp_path):
    capability, arrays = run_with(isa, tmp_path / isa)
    assert capability == NAMES[isa]
    assert arrays.keys() == baseline.keys()
    wrong = {n: d for n in arrays if not (d := distance(n, arrays[n], baseline[n])) <= 1}
    assert not wrong, f"{len(wrong)} of {len(arrays)} differ: {dict(list(wrong.items())[:10])}"


def import_with(value, expression):
    env = {**os.environ, "TENSOTRON_CPU_CAPABILITY": value}
    program = f"import tensotron as tt; print({expression})"
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60)


def test_the_best_is_taken_unless_forced():
    assert "baseline" in available_isas()
    best = import_with("", "tt.backends.cpu.get_cpu_capability()")
    assert best.stdout.strip() == NAMES[available_isas()[-1]]
    assert tt.backends.cpu.get_cpu_capability() in NAMES.values()
    upper = import_with("DEFAULT", "tt.backends.cpu.get_cpu_capability()")
    assert upper.stdout.strip() == "DEFAULT"


def test_an_unknown_name_is_refused():
    result = import_with("mmx", "1")
    assert result.returncode != 0
    assert "mmx" in result.stderr
    assert "available: " in result.stderr
