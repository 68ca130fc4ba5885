"""What the compiler made of the kernels, and what an import costs."""

import io
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from shutil import which

import pytest

import tensotron as tt

ROOT = Path(__file__).resolve().parent.parent
# instruction set -> its object files
OBJECTS = {p.name: sorted(p.rglob("*.o")) for p in sorted(ROOT.glob("build/temp*/kernels/*"))}
MAX_BYTES = 2_300_000

needs_objects = pytest.mark.skipif(not (OBJECTS and which("nm") and which("objdump")), reason="no build directory here")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@needs_objects
@pytest.mark.parametrize("isa", OBJECTS)
def test_kernel_objects_keep_their_code_to_themselves(isa):
    """The linker merges weak symbols of one name: code of one instruction set could run on a machine
    without it. So every symbol defined here is in the namespace of the instruction set."""
    defined = [line[19:] for path in OBJECTS[isa] for line in output("nm", "-C", path).splitlines() if line[17] in "TDBRCVWu"]
    assert defined
    strangers = [name for name in defined if f"tensotron::{isa}::" not in name]
    assert strangers == []


@needs_objects
@pytest.mark.parametrize("isa", OBJECTS)
def test_kernel_objects_are_small(isa):
    totals = [line.split()[3] for line in output("size", *OBJECTS[isa]).splitlines()[1:]]
    assert sum(map(int, totals)) < MAX_BYTES


@needs_objects
@pytest.mark.unsanitized("reads the code of the ordinary build")
@pytest.mark.parametrize("isa, forbidden", [("baseline", ("%ymm", "%zmm")), ("avx2", ("%zmm",))])
def test_registers_of_other_instruction_sets(isa, forbidden):
    if isa not in OBJECTS:
        pytest.skip("not built on this machine")
    for path in OBJECTS[isa]:
        code = output("objdump", "-d", path)
        assert [r for r in forbidden if r in code] == [], path.name


def test_version():
    assert f'version = "{tt.__version__}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.unsanitized("measures the ordinary build")
def test_the_package_is_small():
    """As it is packed into a wheel, in one flavour of Python."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    package = Path(tt.__path__[0])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in package.rglob("*"):
            built = file.suffix == ".so" and not file.name.endswith(suffix)  # for another Python, in a checkout
            if file.is_file() and "__pycache__" not in file.parts and not built:
                wheel.write(file, file.relative_to(package))
    assert len(packed.getvalue()) < 12e6


def test_import_is_light():
    """numpy is the only package imported, and none of Python's heavy modules."""
    program = """
import sys, numpy
before = set(sys.modules)
import tensotron
new = {m.partition('.')[0] for m in set(sys.modules) - before} - {'tensotron'}
print(*sorted(new))
"""
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    heavy = {"torch", "scipy", "matplotlib", "asyncio", "multiprocessing", "unittest", "dataclasses", "inspect", "typing"}
    heavy |= {"tensorflow", "pycuda", "skcuda", "concurrent", "logging", "http", "email", "xml"}
    assert heavy.isdisjoint(result.stdout.split())
