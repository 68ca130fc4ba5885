#!/usr/bin/env python3
"""All benchmarks in one table, against torch where it is installed; writes bench.json and bench.png.

    run.py                          a few minutes
    run.py --full                   everything, more than an hour
    run.py --only ops,memory        some parts
    run.py --rows train_b1,gemm_256 rows of the steps
"""

import argparse
import json
from functools import partial
from importlib import import_module
from pathlib import Path

from harness import libraries, show

PARTS = {"steps": "steps", "ops": "ops", "threads": "threads", "memory": "memory", "import": "import_time", "build": "build"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", metavar="PARTS", help=", ".join(PARTS))
    parser.add_argument("--rows", metavar="NAMES", help="rows of reference/compare.py, without other parts")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIRECTORY")
    args = parser.parse_args()
    parts = ["steps"] if args.rows else args.only.split(",") if args.only else list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")

    if "torch" not in libraries():
        print("torch is not installed: nothing to compare with (pip install torch==2.13.0)")
    rows = []
    for part in parts:
        produce = import_module(PARTS[part]).rows
        rows += show((partial(produce, only=args.rows.split(",")) if args.rows else produce)(args.full))

    args.out.mkdir(exist_ok=True)
    data, picture = args.out / "bench.json", args.out / "bench.png"
    data.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"\nwritten: {data}")
    from plot import plot

    try:
        if plot(rows, picture):
            print(f"written: {picture}")
    except ImportError as e:
        print(f"no plot: {e}; it needs pip install 'tensotron[bench]'")


if __name__ == "__main__":
    main()
