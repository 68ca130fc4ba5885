#!/usr/bin/env python3
"""What `import tensotron` with nn and optim adds to `import numpy`, and torch likewise: ms, best of 5 processes."""

import tempfile

from harness import libraries, main, output

PROGRAM = """
import time, numpy
began = time.perf_counter()
import {lib}, {lib}.nn, {lib}.optim
print((time.perf_counter() - began) * 1e3)
"""


def added(lib, rounds=5):
    """ms; compiled modules are at hand, as after an installation, however the caller has set Python up."""
    with tempfile.TemporaryDirectory() as cache:
        env = {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        times = [float(output("-c", PROGRAM.format(lib=lib), **env)) for _ in range(rounds + 1)]
    return min(times[1:])


def rows(full):
    yield {"part": "import", "name": "import, over numpy", "unit": "ms", **{lib: added(lib) for lib in libraries()}}


if __name__ == "__main__":
    main(rows, __doc__)
