"""Imports skcuda.cublas. As released (0.5.3) scikit-cuda knows cuBLAS up to 10 and wants setuptools'
pkg_resources; here it is given the library, and stand-ins for the two modules of its own in the way.
"""

import contextlib
import ctypes
import functools
import glob
import importlib.metadata
import importlib.util
import os
import sys
import types
import warnings

from .runtime import Unavailable


def _directories():
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    nvidia = importlib.util.find_spec("nvidia")
    for root in nvidia.submodule_search_locations if nvidia else ():
        yield from glob.glob(os.path.join(root, "cu1?", "lib"))
        yield os.path.join(root, "cublas", "lib")
    cuda = os.environ.get("CUDA_ROOT", "/usr/local/cuda")
    yield os.path.join(cuda, "lib64")


def _library():
    for directory in _directories():
        found = sorted(glob.glob(os.path.join(glob.escape(directory), "libcublas.so.*")), key=len)
        if found:
            return ctypes.CDLL(found[0], mode=ctypes.RTLD_GLOBAL)
    raise Unavailable("libcublas is not installed (pip install nvidia-cublas)")


class _Complex(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float)]


class _DoubleComplex(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]


@contextlib.contextmanager
def _stand_ins(library):
    try:
        found = importlib.metadata.version("scikit-cuda")
    except importlib.metadata.PackageNotFoundError:
        raise Unavailable("scikit-cuda is not installed (pip install scikit-cuda)") from None
    version = types.ModuleType("skcuda.version")
    version.__version__ = found
    cuda = types.ModuleType("skcuda.cuda")  # else it looks for the runtime library
    cuda.cuFloatComplex, cuda.cuDoubleComplex = _Complex, _DoubleComplex
    sys.modules.update({"skcuda.version": version, "skcuda.cuda": cuda})
    ctypes.cdll.LoadLibrary = lambda name: library
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        del ctypes.cdll.LoadLibrary, sys.modules["skcuda.cuda"]


@functools.cache
def cublas():
    library = _library()
    with _stand_ins(library):
        import skcuda.utils

        # It reads the version off the library's name, and else creates a handle for it.
        skcuda.utils.find_lib_path = lambda name: name
        skcuda.utils.get_soname = lambda path: "libcublas.so.13.0"
        import skcuda.cublas
    return skcuda.cublas
