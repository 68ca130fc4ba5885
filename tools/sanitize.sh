#!/usr/bin/env bash
# The test suite under AddressSanitizer and UBSan: PYTHON VENV JOBS [pytest arguments].
# Build products stay apart from the ordinary ones.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD python=$1 venv=$2 jobs=$3
shift 3

bash tools/require.sh "$python"
asan=$(gcc -print-file-name=libasan.so)
stdcxx=$(g++ -print-file-name=libstdc++.so.6)
if [ "$asan" = libasan.so ]; then
  echo "error: libasan.so not found; on Debian or Ubuntu: sudo apt-get install libgcc-12-dev" >&2
  exit 1
fi

py=$venv/bin/python
if [ ! -e "$venv/.made" ]; then
  "$python" -m venv "$venv"
  eval "$py -m pip install -q 'setuptools>=77' wheel 'cython>=3.1,<4' 'numpy>=2' $("$python" tools/extra.py test)"
  touch "$venv/.made"
fi

mkdir -p build/sanitize out
printf '[build]\nbuild_base = build/sanitize\n' >build/sanitize/build.cfg
find build/sanitize -path 'build/sanitize/lib*' -name '*.py' -delete  # modules that may be gone from the sources
echo "building with sanitizers (minutes the first time)"
DIST_EXTRA_CONFIG=$root/build/sanitize/build.cfg TENSOTRON_SANITIZE=1 TENSOTRON_JOBS=$jobs \
  "$py" -m pip install -q --no-build-isolation --force-reinstall --no-deps .

# Python and PyTorch keep memory on purpose, hence no leak check: tests/test_engine.py watches the
# resident size instead. PyTorch throws C++ exceptions, which only work if libstdc++ is there
# before ASan looks for __cxa_throw, hence both are preloaded.
cd tests
LD_PRELOAD="$asan $stdcxx" \
  ASAN_OPTIONS=detect_leaks=0:halt_on_error=1:abort_on_error=1:allocator_may_return_null=1 \
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  PYTHONMALLOC=malloc TENSOTRON_SANITIZED=1 OMP_NUM_THREADS=1 \
  "$root/$py" -m pytest "$@"
