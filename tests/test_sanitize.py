"""That `make sanitize` would see what it is there for: reads and writes beyond a tensor's memory."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("TENSOTRON_SANITIZED"), reason="only under make sanitize")

HEAD = """
import numpy as np
import tensotron as tt
from numpy.lib.stride_tricks import as_strided
"""
# tensors that claim more memory than there is: numpy lets one make such arrays
BEYOND = {
    "read": "tt.from_numpy(as_strided(np.zeros(5000, np.float32), (5001,), (4,))).sum()",
    "write": "tt.from_numpy(as_strided(np.zeros(5000, np.float32), (5001,), (4,))).fill_(1)",
    "large": "x = tt.zeros(2_000_000); tt.from_numpy(as_strided(x.numpy(), (2_000_001,), (4,))).sum()",
    "strided": "tt.from_numpy(as_strided(np.zeros(5000, np.float32), (2, 2), (8, 19996))).exp()",
}


@pytest.mark.parametrize("case", BEYOND)
def test_access_beyond_a_tensor_is_seen(case):
    done = subprocess.run([sys.executable, "-c", HEAD + BEYOND[case]], capture_output=True, text=True)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


def test_what_is_inside_is_not():
    program = HEAD + "x = tt.zeros(2_000_000); x.numpy()[-1] = 1; assert x.sum().item() == 1"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
