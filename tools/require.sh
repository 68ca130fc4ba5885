#!/usr/bin/env bash
# Says which Debian package is missing for a build with the given interpreter; silent if none is.
set -u
python=${1:-python3}
missing=()

command -v "${CXX_PROGRAM:-g++}" >/dev/null || missing+=(g++)
command -v make >/dev/null || missing+=(make)

if ! command -v "$python" >/dev/null; then
  missing+=(python3)
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
  echo "error: $python is $("$python" -V 2>&1); tensotron needs Python 3.10 or newer" >&2
  exit 1
else
  # Debian's packages of its own python3 have no version in their names.
  name=python3
  [ "$("$python" -c 'import sys; print(sys.base_prefix)')" = /usr ] &&
    [ "$(readlink -f "$(command -v "$python")")" != "$(readlink -f /usr/bin/python3)" ] &&
    name=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  "$python" -c 'import venv, ensurepip' 2>/dev/null || missing+=("$name-venv")
  "$python" -c '
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ||
    missing+=("$name-dev")
fi

if [ ${#missing[@]} -gt 0 ]; then
  echo "error: missing: ${missing[*]}" >&2
  echo "  on Debian or Ubuntu: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
