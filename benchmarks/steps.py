#!/usr/bin/env python3
"""Training steps and single calls of reference/workloads.py: us for one step, median of the best round.

Every contender has a process of its own, pinned to one core, and they run in turn: torch (the better of its default and
its fused Adam), tensotron, captured (tensotron.compile) and the floor, which is written by hand. By default some rows and
one round; --full runs all of them three times, as reference/compare.py does, which prints ratios to quote.
"""

import sys
from shutil import which

from harness import REFERENCE, environment, libraries, main

sys.path.insert(0, str(REFERENCE))
import compare  # noqa: E402

SHORT = "infer_b1 train_b1 train_b32 ppo_minibatch mlp_small cnn_mnist_b64 op_add_64 op_add_backward gemm_256".split()


def rows(full, only=None):
    compare.os.environ.update(environment())
    names = only or (compare.STEPS + compare.OPS if full else SHORT)
    rounds, seconds = (3, 1.0) if full else (1, 0.3)
    absent = {"torch", "torch-fused"} if "torch" not in libraries() else set()
    absent |= set() if which("g++") else {"floor"}
    for name in names:
        figures = {}
        for _ in range(rounds):
            for who, command in compare.contenders(name, seconds):
                found = compare.run(command, 0) if who not in absent else []
                column = {"torch-fused": "torch", "eager": "tensotron"}.get(who, who)
                for measured in found:
                    if measured.get("name") == name and measured.get("median_us"):
                        figures[column] = min(figures.get(column, float("inf")), measured["median_us"])
        yield {"part": "steps", "name": name, "unit": "us", **figures}


if __name__ == "__main__":
    main(rows, __doc__)
