"""Nothing touches tensor memory except a launch or the backend's copy: under the guarded backend it is
inaccessible at any other time, so that a stray access ends the process."""

import signal
import subprocess
import sys

HEAD = """
import tensotron as tt
from tensotron._cpu import backend
F = tt.nn.functional
"""

PROGRAM = (
    HEAD
    + """
with backend.guarded() as counts:
    tt.manual_seed(0)
    x = tt.randn(3, 4, requires_grad=True)
    w = tt.rand(4, 4, requires_grad=True)
    y = F.linear(F.layer_norm(x, (4,)), w, w[0]).tanh()
    y = tt.cat([y, y.t().reshape(3, 4)]).masked_fill(tt.arange(4) > 2, 0.5)
    y = y[tt.tensor([0, 2, 5])].index_select(1, tt.tensor([3, 1])) + F.dropout(y[:3, :2], 0.5)
    loss = F.cross_entropy(y, tt.tensor([0, 1, 1])) + y.std() + F.mse_loss(y, tt.zeros_like(y)) + y.cumsum(0).max()
    grads = tt.autograd.grad(loss, (x, w), create_graph=True)
    sum(g.square().sum() for g in grads).backward()
    image = tt.ones(1, 2, 6, 6, requires_grad=True)
    F.max_pool2d(F.conv2d(image, tt.ones(3, 2, 3, 3)), 2).sum().backward()
    z = tt.zeros(5)
    z[1:3] = 7
    z[z > 1] += 1
    z.scatter_add_(0, tt.tensor([0, 0]), tt.ones(2)).clamp_(max=5).copy_(tt.arange(5))
    launches, copies = counts()
    assert launches > 60, launches
    assert copies < 12, copies  # tensors made of lists, counts read back from nonzero
    z.sum().item()
    assert counts() == (launches + 1, copies + 1)
"""
)


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_memory_is_touched_by_launches_and_copies_only():
    done = run(PROGRAM)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_guard_sees_a_stray_access():
    """The same memory read behind the backend's back."""
    done = run(
        HEAD
        + """
import ctypes
with backend.guarded():
    x = tt.ones(4)
    address = x.untyped_storage().data_ptr()
    ctypes.c_float.from_address(address).value
"""
    )
    # AddressSanitizer reports the signal and aborts
    assert done.returncode == -signal.SIGSEGV or "AddressSanitizer: SEGV" in done.stderr, done.returncode
