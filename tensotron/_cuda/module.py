"""Device kernels, compiled on demand from the op tables and cached on disk by PyCUDA."""

import os
from pathlib import Path

from . import runtime

SOURCES = Path(__file__).resolve().parent / "kernels"
# Rounding as on the CPU: a row's products and sums are not contracted.
OPTIONS = ["-std=c++17", "-fmad=false"]

_functions = {}


def source(kernels):
    """CUDA source of the kernels: pairs of a family and its arguments, `("reduce", "sum")`."""
    lines = ['#include "elementwise.cuh"', '#include "reduce.cuh"', '#include "copy.cuh"']
    for family, *arguments in kernels:
        lines.append(f"{family.upper()}({', '.join(map(str, arguments))})")
    return "\n".join(lines) + "\n"


def functions(kernels):
    """Device functions by kernel. What is missing is compiled, in one module."""
    missing = sorted(set(kernels) - _functions.keys(), key=str)
    if missing:
        runtime.get()
        from pycuda.compiler import SourceModule

        module = SourceModule(
            source(missing),
            nvcc=os.environ.get("TENSOTRON_NVCC", "nvcc"),
            options=OPTIONS,
            include_dirs=[str(SOURCES)],
            no_extern_c=True,
        )
        for kernel in missing:
            _functions[kernel] = module.get_function("_".join(map(str, kernel)))
    return {kernel: _functions[kernel] for kernel in kernels}
