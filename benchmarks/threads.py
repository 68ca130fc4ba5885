#!/usr/bin/env python3
"""What a second core brings, as a share of what two processes on a core each reach together in the same run; 1 is all.

First one process whose library has two threads (set_num_threads), then one whose two Python threads step a net each.
The shares of the best of 3 rounds of a second each; by default of one short round.
"""

import json
import os
import subprocess
import sys
import threading
import time
from importlib import import_module

from harness import HERE, REFERENCE, libraries, main, python, repeat, runner, workloads

SPLIT = {"gemm_1024": ("eager",), "cnn_atari_b32": ("eager", "compile")}
REPLAYED = {"mlp_small": ("compile",), "train_b32": ("steps",)}  # steps: MANY replays in one call
COLUMN = {"eager": "tensotron", "compile": "captured", "steps": "captured"}
MANY = 100


def together(commands):
    """What several processes print that run at the same time."""
    started = [subprocess.Popen(c, env=env, stdout=subprocess.PIPE, text=True) for c, env in commands]
    return [process.communicate()[0] for process in started]


def rate(printed, name):
    """Steps a second of a workload in the output of reference/workloads.py."""
    for line in printed.splitlines():
        row = json.loads(line)
        if row["name"] == name and "raw_median_us" in row:
            return 1e6 / row["raw_median_us"]
    raise RuntimeError(printed)


def split(lib, mode, name, seconds, cores):
    """Share that one process with two threads reaches."""
    def command(threads, *cores):
        options = ("--lib", lib, "--mode", mode, "--only", name, "--max-s", seconds, "--threads", threads)
        return python(REFERENCE / "workloads.py", *options, cores=cores, threads=threads)

    apart = sum(rate(text, name) for text in together([command(1, core) for core in cores]))
    return rate(*together([command(2, *cores)]), name) / apart


def net(lib, mode, name):
    """run(n) of n calls of a step."""
    if mode != "steps":
        return runner(workloads(lib, mode)["WORK"][name]())
    work, torch = workloads(lib)["WORK"][name](), import_module(lib)
    batches = [torch.stack([data] * MANY) for data in work.data]
    return repeat("step(*batches)", step=torch.compile(work.step, steps=MANY), batches=batches)


def step(lib, mode, name, seconds, count):
    """Calls a second of as many Python threads, each with a net of its own; in this process."""
    runs = [net(lib, mode, name) for _ in range(count)]
    for run in runs:
        run(20)
    began = time.perf_counter()
    run(20)
    calls = max(1, int(20 * 0.02 / (time.perf_counter() - began)))
    steps, barrier = [0] * count, threading.Barrier(count)

    def work(index):
        barrier.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            runs[index](calls)
            steps[index] += calls

    workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(steps) / seconds


def replay(lib, mode, name, seconds, cores):
    """Share that one process with two Python threads reaches."""
    def command(threads, *cores):
        return python(HERE / "threads.py", "--step", lib, mode, name, seconds, threads, cores=cores)

    apart = sum(map(float, together([command(1, core) for core in cores])))
    return float(*together([command(2, *cores)])) / apart


def rows(full):
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        yield {"part": "threads", "name": "two threads", "note": "skipped: this process may use one core only"}
        return
    rounds, seconds = (3, 1.0) if full else (1, 0.5)
    for measure, what, names in ((split, "two threads", SPLIT), (replay, "two Python threads", REPLAYED)):
        for name, modes in names.items():
            shares = {COLUMN[m]: max(measure("tensotron", m, name, seconds, cores) for _ in range(rounds)) for m in modes}
            if "torch" in libraries():
                shares["torch"] = max(measure("torch", "eager", name, seconds, cores) for _ in range(rounds))
            yield {"part": "threads", "name": f"{name}, {what}", "unit": "share", **shares}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        lib, mode, name, seconds, count = sys.argv[2:]
        print(step(lib, mode, name, float(seconds), int(count)))
    else:
        main(rows, __doc__)
