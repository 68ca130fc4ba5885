#!/usr/bin/env python3
"""Instructions that the hot paths execute, against limits that only fall.

    counts.py             the counts: instructions for one call
    counts.py --check     fail if one is above its limit
    counts.py --update    lower the limits to the counts of now and add those that are missing; raises none

Times drift from machine to machine and from minute to minute, counts hardly. Each path is called 800 times in a
process under valgrind's callgrind; what 500 calls add to 100 others is divided by 500. `own` are the instructions in
tensotron's extension modules, `all` takes in the interpreter, numpy and libc. The limits (counts.json) belong to a minor
version of Python and a major one of g++; `all` is compared only under the build of the interpreter that the limits are
from. Valgrind knows no AVX-512: the AVX2 kernels are counted.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from shutil import which

from harness import environment, repeat, runner, workloads

LIMITS = Path(__file__).resolve().parent / "counts.json"
KINDS = ("own", "all")
SLACK = 1.03  # hashes of addresses collide or do not
WARM, CALLS = 100, 500
OPS = "op_add_1 op_add_64 op_add_grad_64 op_add_backward op_relu_64 op_sum_4096 op_view op_index_row op_item".split()


def paths(torch):
    """Name and run(n) of everything that is counted."""
    eager, captured = workloads(), workloads(mode="compile")
    for name in OPS:
        yield name, eager["OPS"][name]()
    for name in ("infer_b1", "train_b1"):
        yield name, runner(eager["WORK"][name]())
        yield f"{name} captured", runner(captured["WORK"][name]())
    yield "Linear", repeat("linear(x)", linear=torch.nn.Linear(64, 64), x=torch.ones(1, 64))
    net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 2))
    parameters = list(net.parameters())
    adam = torch.optim.Adam(parameters, lr=1e-9)
    net(torch.ones(1, 4)).sum().backward()
    yield "clip_grad_norm_", repeat("clip(parameters, 0.5)", clip=torch.nn.utils.clip_grad_norm_, parameters=parameters)
    yield "Adam.step", repeat("step()", step=adam.step)
    yield "zero_grad", repeat("zero_grad()", zero_grad=adam.zero_grad)


def child():
    """Runs under callgrind, which writes its counts and starts again from zero whenever getppid is called."""
    import tensotron

    gc.disable()  # collections would fall into one path or another
    print(tensotron.__path__[0])
    for name, run in paths(tensotron):
        for calls in (WARM, WARM, WARM + CALLS):
            run(calls)
            os.getppid()
        print(name)


def cost(file, package):
    """Instructions (own, all) in a file of callgrind's."""
    objects, current, callee = Counter(), "", False
    for line in file.read_text(errors="replace").splitlines():
        if line.startswith("ob="):
            current = line[3:]
        elif line.startswith("calls="):
            callee = True  # the next line is the callee's cost, which stands with the callee too
        elif line[:1].isdigit():
            objects[current] += 0 if callee else int(line.split()[1])
            callee = False
    return sum(n for name, n in objects.items() if name.startswith(package)), sum(objects.values())


def count():
    """{path: (own, all)} of one call each."""
    with tempfile.TemporaryDirectory() as directory:
        out = f"{directory}/counts"
        command = ["valgrind", "--tool=callgrind", "--dump-before=getppid", "--compress-strings=no", "--compress-pos=no"]
        command += [f"--callgrind-out-file={out}", sys.executable, os.path.abspath(__file__), "--child"]
        done = subprocess.run(command, env=environment(TENSOTRON_CPU_CAPABILITY="avx2"), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"valgrind ended with status {done.returncode}\n{done.stdout}{done.stderr[-3000:]}")
        package, *names = done.stdout.splitlines()
        costs = [cost(Path(f"{out}.{i + 1}"), package) for i in range(3 * len(names))]
    without, more = costs[1::3], costs[2::3]
    return {name: [round((b[k] - a[k]) / CALLS) for k in (0, 1)] for name, a, b in zip(names, without, more)}


def build():
    """What the limits depend on beside the sources."""
    gxx = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True).stdout
    return f"Python {sys.version_info[0]}.{sys.version_info[1]}, g++ {gxx.split('.')[0].strip() or '?'}"


def compared(limits):
    """The kinds of counts that the limits are good for."""
    return KINDS if limits.get("interpreter") == sys.version else KINDS[:1]


def above(limits, counts):
    """Sentences about counts above their limits and about limits of paths that are gone."""
    told = [f"{name}: counted no longer" for name in limits.get("paths", {}) if name not in counts]
    for name, limit in limits.get("paths", {}).items():
        for kind, most, now in zip(KINDS, limit, counts.get(name, ())):
            if kind in compared(limits) and now > most * SLACK:
                told.append(f"{name}: {now} instructions ({kind}), the limit is {most}")
    return told


def lowered(limits, counts):
    """The limits after --update."""
    same = compared(limits) == KINDS or not limits
    old = limits.get("paths", {})
    new = {}
    for name, now in counts.items():
        before = old.get(name, now)
        new[name] = [min(before[0], now[0]), min(before[1], now[1]) if same else before[1]]
    return {"interpreter": limits.get("interpreter", sys.version), "paths": new}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if a count is above its limit")
    parser.add_argument("--update", action="store_true", help="lower the limits")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child()
    if not which("valgrind"):
        print("counts: valgrind is not installed, nothing is counted")
        return 0

    stored = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    limits, counts = stored.get(build(), {}), count()
    print(f"{'instructions for a call':24s}{'own':>10s}{'limit':>10s}{'all':>10s}{'limit':>10s}")
    for name, now in counts.items():
        most = limits.get("paths", {}).get(name, ["-", "-"])
        print(f"{name:24s}" + "".join(f"{x:>10}" for pair in zip(now, most) for x in pair))
    if not limits:
        print(f"there are no limits for {build()}")
    elif "all" not in compared(limits):
        print(f"only tensotron's own instructions are compared: the limits are from {limits['interpreter']}")
    told = above(limits, counts)
    print("\n".join(f"ABOVE {line}" for line in told) or "no count is above its limit")
    if args.update:
        stored[build()] = lowered(limits, counts)
        LIMITS.write_text(json.dumps(stored, indent=1) + "\n")
        print(f"limits written: {LIMITS.name}")
    return 1 if told and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
