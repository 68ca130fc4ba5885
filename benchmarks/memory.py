#!/usr/bin/env python3
"""Resident memory.

CartPole demo (MB): ru_maxrss of examples/cartpole_ppo.py less that of a script that only imports what it imports, the
library apart. Steps (kB): what the resident size gains between the first tenth of many eager steps and their end; it is to
stay flat. By default 100,000 and 20,000 steps; --full: a million and 200,000.
"""

import ast
import os
import resource
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from harness import HERE, ROOT, libraries, main, output, python, runner, workloads

DEMO = ROOT / "examples" / "cartpole_ppo.py"
NEEDS = ("gymnasium", "matplotlib", "tqdm")
STEPS = {"train_b1": 1_000_000, "ppo_minibatch": 200_000}


def peak(*arguments):
    """ru_maxrss in MB of a Python process.

    A process starts with the maximum of the one that it comes from, hence a small one in between.
    """
    return float(output(HERE / "memory.py", "--peak", *arguments))


def peak_of_child(*arguments):
    command, env = python(*arguments)
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(command, env=env, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def imports(file):
    """The import statements of a program, one to a line."""
    nodes = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, (ast.Import, ast.ImportFrom))]
    return "\n".join(map(ast.unparse, nodes))


def resident():
    """kB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def growth(lib, name, steps):
    """kB that the last nine tenths of the steps add; in this process."""
    run = runner(workloads(lib)["WORK"][name]())
    run(steps // 10)
    before = resident()
    run(steps - steps // 10)
    return resident() - before


def rows(full):
    missing = [name for name in NEEDS if not find_spec(name)]
    if missing:
        yield {"part": "memory", "name": "CartPole demo", "note": f"skipped: {', '.join(missing)} not installed"}
    else:
        alone = peak("-c", imports(DEMO))
        options = () if full else ("--steps", "16384", "--target", "0")
        demo = {lib: peak(DEMO, "--lib", lib, *options) - alone for lib in libraries()}
        yield {"part": "memory", "name": "CartPole demo", "unit": "MB", **demo}
    for name, steps in STEPS.items():
        steps //= 1 if full else 10
        gained = int(output(HERE / "memory.py", "--growth", "tensotron", name, steps))
        yield {"part": "memory", "name": f"{name}, {steps} steps", "unit": "kB", "tensotron": gained}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print(peak_of_child(*sys.argv[2:]))
    elif sys.argv[1:2] == ["--growth"]:
        print(growth(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        main(rows, __doc__)
