"""The launch record on the GPU backend, without a GPU: real PyCUDA and scikit-cuda over a driver and a
cuBLAS that run on the host (tests/gpu). Records of real tensotron ops, eagerly and from a graph.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tensotron._cuda import module
from tensotron._cuda.record import Arg, Record

ROOT = Path(__file__).resolve().parent.parent
GPU = ROOT / "tests" / "gpu"
CACHE = ROOT / ".cache" / "gpu" / "cp{}{}".format(*sys.version_info)
PACKAGE = module.SOURCES.parent.parent
CI = os.environ.get("CI") == "true"

unsanitized = pytest.mark.unsanitized("the stand-in switches stacks, which AddressSanitizer takes for an overflow")


def make(target):
    return subprocess.run(["make", "-s", "-C", GPU, target, f"PYTHON={sys.executable}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def environment():
    """Builds what is missing: PyCUDA (once, two minutes) and the stand-in libraries."""
    site = make("site")  # needs a package index
    if site.returncode and not CI:
        pytest.skip(f"no PyCUDA: {site.stdout.strip().splitlines()[-1]}")
    assert site.returncode == 0, site.stdout
    libraries = make("lib")
    assert libraries.returncode == 0, libraries.stdout
    (CACHE / "modules").mkdir(exist_ok=True)
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(CACHE / "lib"),
        "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), str(CACHE / "site")]),
        "PYCUDA_CACHE_DIR": str(CACHE / "modules"),
        "TENSOTRON_NVCC": str(GPU / "hostnvcc"),
    }


def run(check, environment):
    return subprocess.run([sys.executable, GPU / "seam.py", check], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)


@unsanitized
@pytest.mark.parametrize("check", ["replay", "capture_errors", "divergence"])
def test_seam(check, environment):
    result = run(check, environment)
    assert result.returncode == 0, result.stdout


@unsanitized
def test_a_write_out_of_bounds_is_a_segmentation_fault(environment):
    assert run("out_of_bounds", environment).returncode == -signal.SIGSEGV


def test_without_a_driver_the_reason_is_given():
    code = """
import sys
sys.modules["pycuda"] = None  # not importable
from tensotron._cuda import blas, graph, launch, module, runtime
try:
    runtime.get()
except runtime.Unavailable as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert result.stdout.startswith("PyCUDA is not installed")


def test_importing_tensotron_does_not_touch_cuda():
    code = "import sys, tensotron; print({'tensotron._cuda', 'pycuda', 'skcuda'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert result.stdout == "set()\n"


def test_record_layout(tmp_path):
    """The structs of record.py are those of record.h."""
    fields = [(s, name) for s in (Arg, Record) for name, _ in s._fields_]
    lines = [f'std::printf("%zu\\n", offsetof(tensotron::{s.__name__}, {name}));' for s, name in fields]
    lines += [f'std::printf("%zu\\n", sizeof(tensotron::{s.__name__}));' for s in (Arg, Record)]
    source = tmp_path / "layout.cpp"
    source.write_text('#include <cstdio>\n#include "tensotron/_cpu/record.h"\nint main() {\n' + "\n".join(lines) + "\n}\n")
    subprocess.run(["g++", "-std=c++17", f"-I{PACKAGE.parent}", source, "-o", tmp_path / "layout"], check=True)
    compiled = subprocess.run([tmp_path / "layout"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert [int(n) for n in compiled.split()] == [
        *(getattr(s, name).offset for s, name in fields), ctypes.sizeof(Arg), ctypes.sizeof(Record)]


# Every kernel that the tables give for float, by the tables' own macros.
ALL_KERNELS = """
#include "copy.cuh"
#include "elementwise.cuh"
#include "reduce.cuh"
COPY()
#define ROW(name, expressions, TYPES) ROW_##TYPES(name, expressions)
#define ROW_F(name, expressions) EXPRESSIONS_##expressions(name)
#define ROW_A ROW_F
#define ROW_I(name, expressions)
#define EXPRESSIONS_2(name) ELEMENTWISE(name, 0) ELEMENTWISE(name, 1)
#define EXPRESSIONS_3(name) EXPRESSIONS_2(name) ELEMENTWISE(name, 2)
#define EXPRESSIONS_4(name) EXPRESSIONS_3(name) ELEMENTWISE(name, 3)
#define UNARY(name, TYPES, ...) ROW(name, 2, TYPES)
#define BINARY(name, TYPES, ...) ROW(name, 3, TYPES)
#define TERNARY(name, TYPES, ...) ROW(name, 4, TYPES)
#include "../../_ops/elementwise.def"
#define FOLD(name, ...) REDUCE(name)
#define FLOAT_FOLD FOLD
#define FINISHED FOLD
#include "../../_ops/reduce.def"
"""


@unsanitized
def test_every_row_instantiates_with_a_float(tmp_path):
    source = tmp_path / "all.cpp"
    source.write_text(ALL_KERNELS)
    subprocess.run(["g++", "-std=c++17", "-c", "-o", tmp_path / "all.o", "-w", "-include", GPU / "cuda_host.h",
                    f"-I{module.SOURCES}", source], check=True)


@unsanitized
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on PATH")
def test_kernels_compile_for_real_devices(tmp_path):
    kernels = [("copy",), ("reduce", "sum"), ("reduce", "amax"), ("elementwise", "add", 0), ("elementwise", "sigmoid", 0),
               ("elementwise", "gelu", 1), ("elementwise", "remainder", 0), ("elementwise", "where", 0)]
    source = tmp_path / "seam.cu"
    source.write_text(module.source(kernels))
    devices = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (75, 80, 90, 100)]
    subprocess.run(["nvcc", "--fatbin", *devices, *module.OPTIONS, f"-I{module.SOURCES}", source,
                    "-o", tmp_path / "seam.fatbin"], check=True)
