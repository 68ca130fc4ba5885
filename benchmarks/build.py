#!/usr/bin/env python3
"""The wheel: seconds from the sources to the wheel with two compiler processes and no compiler cache, and its size in MB.

It takes minutes, hence only with --full.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import ROOT, main

SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "tensotron")
BUILT = shutil.ignore_patterns("*.so", "__pycache__")


def wheel(directory):
    """(seconds, MB) of a build in an empty directory."""
    sources = Path(directory, "sources")
    sources.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=BUILT)
        else:
            shutil.copy(ROOT / name, sources / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    began = time.perf_counter()
    subprocess.run([*command, "-w", directory, str(sources)], check=True, env={**os.environ, "CCACHE_DISABLE": "1"})
    seconds = time.perf_counter() - began
    (file,) = Path(directory).glob("*.whl")
    return seconds, file.stat().st_size / 1e6


def rows(full):
    if not full:
        yield {"part": "build", "name": "wheel", "note": "skipped: takes minutes, --full builds it"}
        return
    with tempfile.TemporaryDirectory() as directory:
        seconds, size = wheel(directory)
    yield {"part": "build", "name": "build", "unit": "s", "tensotron": seconds}
    yield {"part": "build", "name": "wheel", "unit": "MB", "tensotron": size}


if __name__ == "__main__":
    main(rows, __doc__)
