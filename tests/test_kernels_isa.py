"""Kernels of instruction sets that this machine does not have, run under an emulator against baseline:
NEON with a cross compiler and qemu (on Debian: g++-aarch64-linux-gnu qemu-user). Skipped, saying so,
where these are not installed; docs/isas.md lists what was executed where.
"""

import platform
import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
CPU = ROOT / "tensotron" / "_cpu"
DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]
CANCEL = {"gelu", "gelu_tanh", "mish_backward"}  # rows that subtract what is nearly equal
FLAGS = ["-std=c++17", "-O2", "-static", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-pthread", "-w"]
FLAGS += ["-I", str(ROOT)]
CROSS = "aarch64-linux-gnu-g++"

pytestmark = [
    pytest.mark.unsanitized("compiles a program of its own, for another machine"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="cross-compiles from x86-64"),
    pytest.mark.skipif(not (which(CROSS) and which("qemu-aarch64")), reason=f"NEON not executed: no {CROSS} or no qemu-aarch64"),
]


def results(compiler, isa, emulator, path):
    """name -> arrays, in the order of the program's output."""
    program = path / f"isa_{isa}"
    sources = [ROOT / "tests/kernels/isa.cpp", *CPU.glob("kernels*.cpp")]
    sources += [CPU / f"{name}.cpp" for name in ("generator", "pool", "random", "scratch")]
    subprocess.run([*compiler, *FLAGS, f"-DTENSOTRON_ISA={isa}", *sources, "-o", program], check=True)
    out = subprocess.run([*emulator, program], check=True, capture_output=True, timeout=300).stdout
    found, at = [], 0
    while at < len(out):
        end = out.index(b"\n", at)
        *name, dtype, count = out[at:end].decode().split()
        dtype = np.dtype(DTYPES[int(dtype)])
        array = np.frombuffer(out, dtype, int(count), end + 1)
        found.append((" ".join(name), array))
        at = end + 1 + array.nbytes
    return found


def differs(name, got, want):
    if got.dtype.kind != "f":
        return not np.array_equal(got, want)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return True
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return True
    got, want, limits = got[finite], want[finite], np.finfo(got.dtype)
    # 4 ulp for a function; derivatives and sums are made of several, and cancel
    simple = name.startswith("elementwise") and name.endswith(" 0") and name.split()[1] not in CANCEL
    size = np.abs(want) if simple else np.maximum(1, np.max(np.abs(want), initial=0))
    allowed = (4 if simple else 32) * limits.eps * size + 4 * limits.smallest_subnormal
    return bool((np.abs(got - want) > allowed).any())


def test_neon_against_baseline(tmp_path):
    want = results(["g++"], "baseline", [], tmp_path)
    got = results([CROSS], "neon", ["qemu-aarch64"], tmp_path)
    assert [n for n, _ in got] == [n for n, _ in want]
    assert len(got) > 500
    wrong = [n for (n, g), (_, w) in zip(got, want) if differs(n, g, w)]
    assert not wrong, f"{len(wrong)} of {len(got)} differ: {wrong[:20]}"
