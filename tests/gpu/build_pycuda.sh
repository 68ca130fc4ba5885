#!/bin/sh
# Builds a PyCUDA wheel (it is published as source only) where there is neither a CUDA toolkit nor a
# driver: cuda.h and cudaProfiler.h are enough.
#
#   build_pycuda.sh PYTHON INCLUDE OUTDIR
set -eu
python=$(command -v "$1")
include=$(cd "$2" && pwd)
mkdir -p "$3"
out=$(cd "$3" && pwd)
version=2026.1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Something to link against. One symbol is enough for the linker to record libcuda.so.1 as needed; a
# shared object may leave the others open.
mkdir link
echo 'int cuInit(unsigned flags) { return 999; }' |
    gcc -x c -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o link/libcuda.so -

# The download runs setup.py once, unconfigured, which counts down ten seconds first.
"$python" -m pip download -qq --no-deps --no-binary pycuda -d . "pycuda==$version"
tar xf "pycuda-$version.tar.gz"
cd "pycuda-$version"
cat > siteconf.py <<END
CUDA_INC_DIR = ["$include"]
CUDADRV_LIB_DIR = ["$work/link"]
CUDA_ENABLE_CURAND = False
END

# Compiled for tests, not for speed. Old setuptools reads CFLAGS for C++ too, new ones CXXFLAGS only.
export CFLAGS="-DNDEBUG -fwrapv -O0 -g0 -w" CXXFLAGS="-DNDEBUG -fwrapv -O0 -g0 -w"
if command -v ccache >/dev/null; then
    export CC="ccache gcc" CXX="ccache g++" CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$work"
fi
nice "$python" -m pip wheel -qq --no-deps --no-cache-dir -w "$out" .
