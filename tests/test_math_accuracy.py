"""The elementary functions of math.h, compiled alone for each instruction set of this machine: errors in
ulp against a wider type, special values, and scalars and tails against whole vectors.
"""

import ctypes
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]
AVX2 = ["-mavx2", "-mfma", "-mbmi2", "-mf16c"]
AVX512 = [*AVX2, *(f"-mavx512{part}" for part in ("f", "dq", "vl", "bw"))]
ISAS = {"baseline": [], "avx2": AVX2, "avx512": AVX512} if platform.machine() == "x86_64" else {"baseline": []}

# The largest error allowed, in ulp: float32 with and without fused multiply-add. math.h has what was measured.
LIMITS = {
    "exp": (0.9, 1.2), "exp2": (0.9, 1.1), "expm1": (1.6, 1.7), "log": (1.1, 1.2), "log2": (1.4, 2.5),
    "log10": (1.2, 1.2), "log1p": (1.1, 1.2), "sin": (1.6, 2.3), "cos": (1.6, 2.2), "tan": (1.2, 1.4),
    "asin": (2, 2), "acos": (1.1, 1.1), "atan": (1.4, 1.6), "sinh": (2.2, 2.2), "cosh": (1.3, 1.5),
    "tanh": (2.4, 2.4), "asinh": (0.51, 0.51), "acosh": (0.51, 0.51), "atanh": (0.51, 0.51),
    "sigmoid": (2.3, 2.3), "erf": (1.1, 1.3), "erfc": (2.0, 2.5), "erfinv": (2.3, 2.4),
}  # fmt: skip
LIMITS64 = {
    "exp": (0.7, 0.7), "exp2": (0.7, 0.7), "expm1": (1.8, 1.8), "log": (0.7, 0.7), "log2": (0.7, 1.5), "log10": (0.7, 1.4),
    "log1p": (0.7, 0.7), "sin": (1.5, 1.5), "cos": (1.5, 1.5), "tan": (1.3, 0.7), "asin": (1.2, 1.2), "acos": (1.1, 1.1),
    "atan": (1.5, 1.5), "sinh": (0.9, 0.9), "cosh": (0.9, 0.9), "tanh": (2.4, 2.4), "asinh": (1, 1.6), "acosh": (1, 2.1),
    "atanh": (0.6, 1.6), "sigmoid": (2.3, 2.3), "erf": (1.9, 2.2), "erfc": (2.3, 3.5),
}  # fmt: skip
SPECIAL = [
    0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, 3, -3, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38,
    88.72283, 88.72284, -87.33655, -103.97208, -103.97209, 89.41599, 128, -126, -149, -150, 16777216, 16777217, 8388607.5, 1.5,
    2.5,
]  # fmt: skip
SPECIAL64 = [
    5e-324, -5e-324, 2e-310, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 709.782712893384,
    709.7827128933841, -708.4, -745.13, -745.14, 710.47586007394, 710.4758600739440, 1023.5, 1024, -1074, -1075, 1e-160, 1e160,
    26.5, 27.2, 27.3, -6, 0.65, 0.84375, 2**52, 2**53 + 2, 1 - 2**-53, 1 + 2**-52, -1 + 2**-53, 0.5 + 2**-53, 2**-54, 1e-17,
]  # fmt: skip
pytestmark = pytest.mark.unsanitized("compiles a library of its own, without the sanitizers")


@pytest.fixture(scope="module", params=ISAS)
def library(request, tmp_path_factory):
    isa = request.param
    flags = Path("/proc/cpuinfo").read_text() if ISAS[isa] else ""
    if isa not in ("baseline", "avx2") and "avx512bw" not in flags or isa == "avx2" and " fma" not in flags:
        pytest.skip(f"no {isa} here")
    path = tmp_path_factory.mktemp("math") / f"{isa}.so"
    source = ROOT / "tests/kernels/math.cpp"
    subprocess.run(["g++", *FLAGS, *ISAS[isa], f"-DTENSOTRON_ISA={isa}", "-I", ROOT, source, "-o", path], check=True)
    lib = ctypes.CDLL(str(path))
    lib.isa = isa
    return lib


def call(lib, name, *args, scalar=""):
    args = [np.ascontiguousarray(a) for a in args]
    out = np.empty_like(args[0])
    pointers = (ctypes.c_void_p(a.ctypes.data) for a in (*args, out))
    prefix = "f32" if out.dtype == np.float32 else "f64"
    getattr(lib, f"{prefix}_{scalar}{name}")(*pointers, ctypes.c_int(out.size))
    return out


def points(dtype):
    rng = np.random.default_rng(0)
    bits = np.arange(0, 2**32, 19997, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = [np.linspace(-20, 20, 60001), np.linspace(-1.01, 1.01, 40001), np.linspace(0.4, 2.5, 40001)]
    near = np.arange(-2000, 2000) * (np.pi / 2)  # where sin, cos and tan vanish or blow up
    wide = np.exp(rng.uniform(-80, 80, 20000)) * rng.choice([-1, 1], 20000)
    if dtype == np.float64:
        digits = rng.standard_normal(40000)
        powers = np.ldexp(digits, rng.integers(-1070, 1020, 40000))
        near1 = 1 + digits * np.exp(rng.uniform(-36, -2, 40000))
        wide = np.concatenate([wide, SPECIAL64, digits, 9 * digits, 100 * digits, powers, near1])
    return np.concatenate([SPECIAL, bits, *dense, near, wide]).astype(dtype)


def reference(library, name, x):
    if x.dtype == np.float64:  # of float32 values
        return getattr(torch, name)(torch.from_numpy(x)).numpy()
    if name == "sigmoid":
        e = np.exp(-np.abs(x))
        return np.where(x < 0, e, 1) / (1 + e)
    if name in ("erf", "erfc"):  # numpy has none
        out = np.empty_like(x)
        getattr(library, f"long_{name}")(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int(x.size))
        return out
    return getattr(np, f"arc{name[1:]}" if name[0] == "a" else name)(x)


def worst(got, want):
    """The largest error in ulp of `got`'s type; infinite where NaN, infinity or a zero's sign is wrong."""
    limits = np.finfo(got.dtype)
    rounded = want.astype(got.dtype)
    size = np.clip(np.abs(rounded), limits.tiny, limits.max * (1 - limits.eps))
    error = np.abs(got - want) / np.spacing(size).astype(want.dtype)
    regular = np.isfinite(got) & np.isfinite(rounded)
    wrong = np.where(regular, (want == 0) & ((got != 0) | (np.signbit(got) != np.signbit(want))), got != rounded)
    wrong &= ~(np.isnan(got) & np.isnan(rounded))
    at = int(np.argmax(np.where(wrong, np.inf, np.where(regular, error, 0))))
    return (np.inf if wrong[at] else float(error[at])), at


@pytest.mark.parametrize("name", LIMITS)
@np.errstate(all="ignore")
def test_float32(library, name):
    x = points(np.float32)
    got = call(library, name, x)
    error, at = worst(got, reference(library, name, x.astype(np.float64)))
    limit = LIMITS[name][library.isa == "baseline"]
    assert error <= limit, f"{error:.3f} ulp: {name}({x[at]!r}) gave {got[at]!r}"


@pytest.mark.parametrize("name", LIMITS64)
@np.errstate(all="ignore")
def test_float64(library, name):
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is double here")
    x = points(np.float64)
    if name in ("sin", "cos", "tan"):  # beyond, x87's and ours are the same C library
        x = x[~(np.abs(x) > 1e15)]
    got = call(library, name, x)
    error, at = worst(got, reference(library, name, x.astype(np.longdouble)))
    limit = LIMITS64[name][library.isa == "baseline"]
    assert error <= limit, f"{error:.3f} ulp: {name}({x[at]!r}) gave {got[at]!r}"


@pytest.mark.parametrize("name", ["pow", "atan2", "hypot"])
@np.errstate(all="ignore")
def test_two_arguments(library, name):
    rng = np.random.default_rng(1)
    special = np.array([*SPECIAL, 1e10, 8388607, -2.5, -2], np.float32)
    grid = [v.ravel() for v in np.meshgrid(special, special)]
    n = 40000
    a = [rng.uniform(0, 4, n), np.exp(rng.uniform(-80, 80, n)), rng.uniform(-9, 9, n), rng.uniform(0.99, 1.01, n)]
    b = [rng.uniform(-60, 60, n), rng.uniform(-1.1, 1.1, n), rng.integers(-20, 20, n), rng.uniform(-8000, 8000, n)]
    a, b = (np.concatenate([g, *v]).astype(np.float32) for g, v in zip(grid, (a, b)))
    function = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}[name]
    got = call(library, name, a, b)
    error, at = worst(got, function(a.astype(np.float64), b.astype(np.float64)))
    assert error <= (1.9 if name == "atan2" else 0.51), f"{error:.3f} ulp: {name}({a[at]!r}, {b[at]!r}) gave {got[at]!r}"


@pytest.mark.parametrize("name", ["pow", "atan2"])
@np.errstate(all="ignore")
def test_two_arguments_of_float64(library, name):
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is double here")
    rng = np.random.default_rng(3)
    special = np.array([*SPECIAL, *SPECIAL64, 1e10, -2.5, -2, 0.25])
    grid = [v.ravel() for v in np.meshgrid(special, special)]
    n = 40000
    small = np.ldexp(rng.standard_normal(n), rng.integers(-1060, -900, n))
    a = [rng.uniform(0, 4, n), np.exp(rng.uniform(-700, 700, n)), rng.uniform(-9, 9, n), rng.uniform(0.99, 1.01, n), small]
    a += [rng.uniform(1, 1.04, n), rng.standard_normal(n)]
    b = [rng.uniform(-500, 500, n), rng.uniform(-1.1, 1.1, n), rng.integers(-200, 200, n), rng.uniform(-70000, 70000, n)]
    b += [rng.standard_normal(n), rng.uniform(-18000, 18000, n), rng.standard_normal(n)]
    a, b = (np.concatenate([g, *v]) for g, v in zip(grid, (a, b)))
    got = call(library, name, a, b)
    function = np.power if name == "pow" else np.arctan2
    error, at = worst(got, function(a.astype(np.longdouble), b.astype(np.longdouble)))
    assert error <= (1.3 if name == "pow" else 1.5), f"{error:.3f} ulp: {name}({a[at]!r}, {b[at]!r}) gave {got[at]!r}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@np.errstate(all="ignore")
def test_exact(library, dtype):
    x = points(dtype)
    for name in ("floor", "ceil", "trunc", "rint", "sqrt", "root", "abs"):
        assert worst(call(library, name, x), getattr(np, "sqrt" if name == "root" else name)(x))[0] == 0, name


def test_logarithms_of_powers(library):
    exponents = np.arange(39, dtype=np.float32)
    powers = np.array([10.0**k for k in range(39)], np.float32)
    np.testing.assert_array_equal(call(library, "log10", powers), exponents)
    exponents = np.arange(23, dtype=np.float64)
    np.testing.assert_array_equal(call(library, "log10", np.array([10.0**k for k in range(23)])), exponents)
    exponents = np.arange(-1074, 1024, dtype=np.float64)
    np.testing.assert_array_equal(call(library, "log2", np.exp2(exponents)), exponents)


def test_root_of_every_digit_pattern(library):
    """Estimates differ between processors; what follows from them must not."""
    for first in (0x3F000000, 0x3F800000):  # an odd and an even exponent
        x = np.arange(first, first + 0x800000, dtype=np.uint32).view(np.float32)
        np.testing.assert_array_equal(call(library, "root", x), np.sqrt(x))


def near_midpoints(reach):
    """Every double in [2^104, 2^106) whose root is within `reach` / 2^55 ulp of the middle between two doubles.

    With x the integer and m / 2 the middle, m^2 = 4x + k for a small k, and 4x has 54 or 55 zeros at its end: m is a root of
    k to a power of 2, which is found bit by bit.
    """
    for zeros in (54, 55):
        for k in range(1 - 8 * (reach // 8), reach + 1, 8):  # odd squares are 1 modulo 8
            m = 1
            for bit in range(3, zeros):
                if (m * m - k) >> bit & 1:
                    m += 1 << (bit - 1)
            for root in {(sign * m + half) % (1 << zeros) for sign in (1, -1) for half in (0, 1 << (zeros - 1))}:
                for middle in range(root, 1 << 54, 1 << zeros):
                    x = (middle * middle - k) >> 2
                    if middle >= 1 << 53 and 4 * x == middle * middle - k and x % (1 << (zeros - 2)) == 0 and int(float(x)) == x:
                        yield float(x)


def test_root_near_midpoints(library):
    hard = np.array(sorted(set(near_midpoints(64))))
    assert hard.size > 20 and 2.0**104 * (1 + 2**-52) in hard
    x = np.concatenate([hard * 4.0**k for k in range(-500, 450, 7)])
    np.testing.assert_array_equal(call(library, "root", x), np.sqrt(x))
    x = np.random.default_rng(4).uniform(1, 4, 400000)
    np.testing.assert_array_equal(call(library, "root", x), np.sqrt(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@np.errstate(all="ignore")
def test_remainders(library, dtype):
    """Bit for bit as the C library's, which numpy calls: any quotient, quotients near integers, denormals, special values."""
    rng = np.random.default_rng(2)
    n, digits, word = 60000, np.finfo(dtype).nmant, np.uint32 if dtype == np.float32 else np.uint64
    any_bits = rng.integers(0, np.iinfo(word).max, (2, n), dtype=word, endpoint=True).view(dtype)
    y = rng.standard_normal(n).astype(dtype)
    whole = rng.integers(-(2 ** (digits + 2)), 2 ** (digits + 2), n) >> rng.integers(0, digits, n)
    product = (whole * y).astype(dtype)
    near = np.nextafter(product, rng.choice([-np.inf, np.inf], n).astype(dtype))
    tiny = (any_bits.view(word) & word((1 << digits) - 1)).view(dtype)
    one, other = (v.ravel() for v in np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype)))
    plain = points(dtype)
    pairs = [(plain, np.roll(plain, 12345)), any_bits, (product, y), (near, y), tiny, (y, tiny[0]), (one, other)]
    for a, b in pairs:
        m = np.fmod(a, b)
        same_bits(call(library, "fmod", a, b), m)
        same_bits(call(library, "remainder", a, b), np.where((m != 0) & ((b < 0) != (m < 0)), m + b, m))


def same_bits(got, want):
    np.testing.assert_array_equal(got, want)
    regular = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[regular], np.signbit(want)[regular])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scalars_and_tails(library, dtype):
    """An element's value depends neither on its neighbours nor on how it was reached."""
    x = np.concatenate([np.array(SPECIAL), np.linspace(-3, 3, 99)]).astype(dtype)
    for name in LIMITS:
        whole = call(library, name, x)
        np.testing.assert_array_equal(call(library, name, x, scalar="scalar_"), whole, name)
        for n in range(1, 40):
            np.testing.assert_array_equal(call(library, name, x[-n:]), whole[-n:], name)
