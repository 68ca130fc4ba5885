"""What every test shares: both libraries in a known state, before and after."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

import tensotron

torch.set_num_threads(1)
LIBRARIES = (tensotron, torch)


def pytest_report_header(config):
    name = getattr(getattr(tensotron, "backends", None), "cpu", None)
    capability = name.get_cpu_capability() if name else "unknown"
    place = os.path.dirname(tensotron.__file__)
    return f"tensotron: {place}, kernels {capability}; torch {torch.__version__}"


def pytest_collection_modifyitems(items):
    if os.environ.get("TENSOTRON_SANITIZED"):
        for item in items:
            for mark in item.iter_markers("unsanitized"):
                item.add_marker(pytest.mark.skip(reason=mark.args[0]))


@pytest.fixture(autouse=True)
def _fresh_state():
    for lib in LIBRARIES:
        lib.manual_seed(0)
    yield
    for lib in LIBRARIES:
        lib.set_default_dtype(lib.float32)
        lib.set_grad_enabled(True)
        lib.set_printoptions(profile="default")
