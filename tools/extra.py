"""Prints the requirements of an extra of pyproject.toml, each quoted for the shell.

Installing them by themselves, not through ``.[extra]``, spares a second build of the package.
"""

import re
import shlex
import sys
from pathlib import Path

# tomllib is not there in Python 3.10, and nothing is installed yet when this runs.
text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
extras = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
found = re.search(rf"^{re.escape(sys.argv[1])} = \[(.*?)\]", extras, re.M | re.S)
if not found:
    sys.exit(f"no extra {sys.argv[1]!r}")
print(" ".join(shlex.quote(r) for r in re.findall(r'"([^"]+)"', found.group(1))))
