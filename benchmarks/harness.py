"""What the benchmarks share: the workloads, child processes, rows and their table.

A row is a dict: part (the script), name, unit, and the figures of torch, tensotron, captured and floor as far as there are
any; less is better, save where the unit is "share". A row with a note instead says why there is no figure.
"""

import argparse
import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
REFERENCE = HERE / "reference"
FIGURES = ("torch", "tensotron", "captured", "floor")


# --- the workloads --------------------------------------------------------------------------

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


def repeat(statement, **names):
    """run(n) whose loop holds nothing but the statement."""
    exec(f"def run(n):\n for _ in range(n):\n  {statement}", names)
    return names["run"]


# --- processes ------------------------------------------------------------------------------

def libraries():
    """torch where it is installed, and tensotron."""
    return [lib for lib in ("torch", "tensotron") if find_spec(lib)]


def environment(threads=1, **more):
    """Of a child process."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TENSOTRON_CPU_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONHASHSEED": "0", **more}


def python(*arguments, cores=None, **env):
    """The command and the environment of a Python process, pinned to cores where they are given."""
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    return [*pinned, sys.executable, *map(str, arguments)], environment(**env)


def output(*arguments, **more):
    """What a Python process prints; away from the checkout, which `-c` would import from."""
    command, env = python(*arguments, **more)
    done = subprocess.run(command, env=env, cwd=tempfile.gettempdir(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


# --- the table ------------------------------------------------------------------------------

def ratio(row, ours="tensotron"):
    """torch's figure over ours; None where one is missing or more is better."""
    comparable = row.get("torch") and row.get(ours) and row["unit"] != "share"
    return row["torch"] / row[ours] if comparable else None


def show(rows):
    """Prints rows as they come; returns them as a list."""
    rows, part = iter(rows), None
    shown = []
    for row in rows:
        if row["part"] != part:
            part = row["part"]
            titles = "".join(f"{title:>12s}" for title in (*FIGURES, "torch/ours", "torch/capt."))
            print(f"\n{part:34s}{'':>6s}{titles}")
        cells = "".join(f"{row[f]:12.4g}" if row.get(f) is not None else f"{'-':>12s}" for f in FIGURES)
        for r in (ratio(row), ratio(row, "captured")):
            cells += f"{r:12.2f}" if r else f"{'-':>12s}"
        print(f"{row['name']:34s}{row['note']}" if "note" in row else f"{row['name']:34s}{row['unit']:>6s}{cells}", flush=True)
        shown.append(row)
    return shown


def main(rows, doc):
    """The command line of one part."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="everything, for as long as it takes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    shown = show(rows(args.full))
    if args.json:
        args.json.write_text(json.dumps(shown, indent=1) + "\n")
