"""What the compiler made of the kernels, and what an import costs."""

import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

import tensotron as tt

ROOT = Path(__file__).resolve().parent.parent
OBJECTS = {p.parents[2].name: p for p in sorted(ROOT.glob("build/temp*/kernels/*/tensotron/_cpu/kernels.o"))}
MAX_OBJECT_BYTES = 2_000_000

needs_objects = pytest.mark.skipif(not (OBJECTS and which("nm") and which("objdump")), reason="no build directory here")


@needs_objects
@pytest.mark.parametrize("isa", OBJECTS)
def test_kernel_objects_keep_their_code_to_themselves(isa):
    """The linker merges weak symbols: code of one instruction set could run on a machine without it."""
    lines = subprocess.run(["nm", "-C", OBJECTS[isa]], check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [(line[17:18], line[19:]) for line in lines]
    assert [s for s in symbols if s[0] in "WwVvu" and s[0] != "w"] == []
    defined = [name for kind, name in symbols if kind in "TDBRC"]
    assert defined and all(name.startswith(f"tensotron::{isa}::") for name in defined)


@needs_objects
@pytest.mark.parametrize("isa", OBJECTS)
def test_kernel_objects_are_small(isa):
    sections = subprocess.run(["size", OBJECTS[isa]], check=True, capture_output=True, text=True).stdout.splitlines()[1]
    assert sum(map(int, sections.split()[:3])) < MAX_OBJECT_BYTES


@needs_objects
@pytest.mark.slow
@pytest.mark.parametrize("isa, forbidden", [("baseline", ("%ymm", "%zmm")), ("avx2", ("%zmm",))])
def test_registers_of_other_instruction_sets(isa, forbidden):
    if isa not in OBJECTS:
        pytest.skip("not built on this machine")
    code = subprocess.run(["objdump", "-d", OBJECTS[isa]], check=True, capture_output=True, text=True).stdout
    assert [r for r in forbidden if r in code] == []


def test_version():
    assert f'version = "{tt.__version__}"' in (ROOT / "pyproject.toml").read_text()


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
