"""The workloads of reference/workloads.py for the other scripts here."""

import contextlib
import io
import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
REFERENCE = HERE / "reference"


def workloads(lib="tensotron", mode="eager", threads=1):
    """The names of reference/workloads.py, among them WORK and OPS; mode is "eager" or "compile".

    It parses its own command line when it is run; --list keeps it from measuring.
    """
    argv, path = sys.argv, str(REFERENCE / "workloads.py")
    sys.argv = [path, "--lib", lib, "--mode", mode, "--threads", str(threads), "--list"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return runpy.run_path(path, run_name="workloads")
    finally:
        sys.argv = argv


def runner(work):
    """run(n) of a workload."""
    return work.runner() if hasattr(work, "runner") else work


def libraries():
    """What there is to compare: torch where it is installed, and tensotron."""
    return [lib for lib in ("torch", "tensotron") if find_spec(lib)]


def environment(**more):
    """Of a child process: one thread in every library."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TENSOTRON_CPU_THREADS")
    return {**os.environ, **dict.fromkeys(names, "1"), "PYTHONHASHSEED": "0", **more}
