"""Builds the extensions: one Cython module per .pyx, and the C++ kernels once per instruction set.

Switches, by environment: TENSOTRON_DEBUG=1 (assertions, -Og), TENSOTRON_SANITIZE=1 (AddressSanitizer and
UBSan), TENSOTRON_COVERAGE=1 (gcov), TENSOTRON_JOBS=N (compiler processes, default 2); for quick builds
TENSOTRON_MODULE_OPT=-O1 (of the Cython modules) and TENSOTRON_ISAS=avx2 (besides the baseline).
"""

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

os.chdir(Path(__file__).parent)
CPU = Path("tensotron/_cpu")
DEBUG, SANITIZE, COVERAGE = (
    os.environ.get(f"TENSOTRON_{name}", "0") not in ("", "0") for name in ("DEBUG", "SANITIZE", "COVERAGE")
)
JOBS = int(os.environ.get("TENSOTRON_JOBS", "2"))

X86 = platform.machine().lower() in ("x86_64", "amd64")
ARM = platform.machine().lower() in ("aarch64", "arm64")
AVX2 = ["-mavx2", "-mfma", "-mbmi2", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mprefer-vector-width=512"]
ISAS = {"baseline": []}
if X86:
    ISAS.update(avx2=AVX2, avx512=AVX512)
elif ARM:
    ISAS.update(neon=[])
if os.environ.get("TENSOTRON_ISAS"):  # fewer, for a quick build
    ISAS = {isa: flags for isa, flags in ISAS.items() if isa in ("baseline", *os.environ["TENSOTRON_ISAS"].split(","))}

COMMON = ["-std=c++17", "-fvisibility=hidden", "-g0", "-fno-math-errno", "-fwrapv"]
if SANITIZE:
    # use-after-scope: a kernel has thousands of vectors in scopes, and takes four times as long to compile with it
    COMMON += ["-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-address-use-after-scope"]
    COMMON += ["-fno-omit-frame-pointer", "-g1"]
if COVERAGE:
    COMMON += ["--coverage"]
LINK = [f for f in COMMON if f.startswith("-fsanitize") or f == "--coverage"]
OPTIMISE = ["-Og", "-g"] if DEBUG else ["-O1"] if SANITIZE else []
KERNEL_FLAGS = [*COMMON, *(OPTIMISE or ["-O3"]), "-ffp-contract=off", "-fno-trapping-math", "-fno-exceptions", "-fno-rtti"]
# with the sanitizers -O1 triples the time the modules take to compile, and the tests gain nothing
MODULE_OPTIMISE = ["-O0"] if SANITIZE else OPTIMISE or [os.environ.get("TENSOTRON_MODULE_OPT", "-O2")]
MODULE_FLAGS = [*COMMON, *MODULE_OPTIMISE, "-ffp-contract=off", "-Wno-unused-function"]
MACROS = [(f"TENSOTRON_HAVE_{isa.upper()}", "1") for isa in ISAS if isa != "baseline"]
if SANITIZE:
    MACROS.append(("TENSOTRON_SANITIZE", "1"))


KERNELS = sorted(CPU.glob("kernels*.cpp"))
ONCE = [CPU / "generator.cpp", CPU / "random.cpp"]  # as kernels, but the same for all ISAs
SOURCES = (CPU, Path("tensotron/_ops"), Path("tensotron/_core"))
HEADERS = [p for d in SOURCES for p in d.iterdir() if p.suffix in (".h", ".def", ".inc")]


def modules() -> list[Extension]:
    """One extension per .pyx; the backend's also holds the C++ sources."""
    found = []
    for pyx in sorted(Path("tensotron").rglob("*.pyx")):
        sources = [str(pyx)]
        if pyx == CPU / "backend.pyx":
            sources += sorted(str(p) for p in CPU.glob("*.cpp") if p not in [*KERNELS, *ONCE])
        found.append(
            Extension(
                ".".join(pyx.with_suffix("").parts), sources, language="c++", include_dirs=[".", numpy.get_include()],
                define_macros=MACROS, extra_compile_args=MODULE_FLAGS, extra_link_args=LINK,
                depends=[str(p) for p in HEADERS],
            )
        )
    return found


class BuildExt(build_ext):
    """Compiles kernels.cpp per ISA, then the extensions, JOBS at a time."""

    def initialize_options(self):
        super().initialize_options()
        self.parallel = JOBS

    def build_extensions(self):
        backend = next(e for e in self.extensions if e.name.endswith("_cpu.backend"))
        units = [(isa, source) for source in KERNELS for isa in ISAS] + [(None, source) for source in ONCE]
        with ThreadPoolExecutor(JOBS) as pool:
            backend.extra_objects = list(pool.map(self.kernel_object, units))
        backend.depends = [*backend.depends, *backend.extra_objects]
        super().build_extensions()

    def kernel_object(self, unit: tuple[str | None, Path]) -> str:
        """Object file of one kernel source for one ISA (None: for all), compiled if a source is newer."""
        isa, source = unit
        target = Path(self.build_temp) / (f"kernels/{isa}" if isa else "once")
        target.mkdir(parents=True, exist_ok=True)
        obj = target / source.with_suffix(".o")
        if not self.force and obj.exists() and obj.stat().st_mtime > max(p.stat().st_mtime for p in [source, *HEADERS]):
            return str(obj)
        (compiled,) = self.compiler.compile(
            [str(source)], output_dir=str(target), macros=[*MACROS, ("TENSOTRON_ISA", isa)] if isa else MACROS,
            extra_postargs=[*KERNEL_FLAGS, *ISAS.get(isa, [])],
        )
        return compiled




def interfaces_changed() -> bool:
    """Whether a .pxd or .pxi is newer than a generated file: cythonize does not follow all cimports."""
    generated = [p.stat().st_mtime for p in Path("build/cython").rglob("*.cpp")]
    shared = list(Path("tensotron").rglob("*.px[di]"))
    return bool(generated) and max(p.stat().st_mtime for p in shared) > min(generated)


setup(
    ext_modules=cythonize(
        modules(), build_dir="build/cython", force=interfaces_changed(), show_all_warnings=False,
        compiler_directives={
            "language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True,
            "initializedcheck": False, "embedsignature": False, "freethreading_compatible": False,
        },
    ),
    cmdclass={"build_ext": BuildExt},
)
