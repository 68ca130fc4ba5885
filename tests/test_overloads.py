"""Argument orders that PyTorch has deprecated and still takes, and those that it does not."""

import subprocess
import sys

import pytest
from _both import same

import tensotron as tt

pytestmark = pytest.mark.filterwarnings("ignore")


def operands(lib):
    r = lambda *s: (lib.arange(float(tt.Size(s).numel())) + 1).reshape(s)
    return {"lib": lib, "x": r(2, 3), "m": r(2, 3), "n": r(3, 4), "c": r(2, 4), "i": lib.arange(3), "two": lib.tensor(2.0)}


TAKEN = """
lib.add(x, 2, m); x.add(2, m); x.add_(2, m); lib.add(x, 2, 3); x.add(2, 3); x.add_(2, 3); lib.add(1, 2, x); lib.add(x, two, m)
lib.add(x, 2.5, i); lib.add(i, 2, i); lib.add(i, 2, i, out=lib.zeros(3))
lib.sub(x, 2, m); x.sub(2, m); x.sub_(2, m); lib.sub(i, 2, i)
lib.addcmul(x, 2, m, m); x.addcmul(2, m, m); x.addcmul_(2, m, m); lib.addcmul(x, two, m, m)
lib.addcmul(x, 2, m, m, out=lib.zeros(2, 3))
lib.addcdiv(x, 2, m, m); x.addcdiv(2, m, m); x.addcdiv_(2, m, m); lib.addcdiv(x, 0.5, m, m, out=lib.zeros(2, 3))
lib.addmm(2, c, 3, m, n); lib.addmm(2, c, m, n); lib.addmm(2, c, 3, m, n, out=lib.zeros(2, 4)); lib.addmm(two, c, m, n)
c.addmm(2, 3, m, n); c.addmm(2, m, n); c.addmm_(2, 3, m, n); c.addmm_(2, m, n); c.addmm(two, m, n)
"""
REFUSED = """
lib.add(x, m, 2); x.add(m, 2); lib.add(2, x, m); lib.add(x, i, m); lib.add(x, 2, m, alpha=3)
lib.add(x, True, m); lib.add(i, 2.5, i)
lib.sub(x, m, 2); lib.mul(x, 2, m); lib.addcmul(2, x, m, m); lib.addcmul(x, m, m, 2); lib.addcmul(x, 2, m, m, value=3)
lib.addcdiv(x, m, m, 2); lib.addmm(c, 2, m, n); lib.addmm(c, m, n, 2, 3); lib.addmm(c, m, n, 2); lib.addmm(2, c, 3, m, n, beta=2)
lib.rsub(x, 2, m); lib.addmm(2, c, m)
"""


def calls(text):
    return [c.strip() for c in text.replace("\n", ";").split(";") if c.strip()]


@pytest.mark.parametrize("call", calls(TAKEN))
def test_taken(call):
    same(lambda lib: eval(call, operands(lib)))


@pytest.mark.parametrize("call", calls(REFUSED))
def test_refused(call):
    for lib in (tt, sys.modules["torch"]):
        with pytest.raises((TypeError, RuntimeError)):
            eval(call, operands(lib))


def test_gradients():
    def run(lib):
        x, m, n, c = (lib.ones(s, requires_grad=True) for s in ((2, 4), (2, 3), (3, 4), (2, 4)))
        y = lib.addmm(2, c, 3, m, n) + lib.add(x, 5, c) + c.addcmul(0.5, x, c)
        y.sum().backward()
        return [t.grad for t in (x, m, n, c)]

    same(run)


def test_warns_once():
    program = """
import warnings, tensotron as tt
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    x = tt.ones(2)
    x.add(2, x), tt.add(x, 2, x), tt.addcmul(x, 2, x, x)
print(len(seen), seen[0].category.__name__, str(seen[0].message).splitlines()[0])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "1 UserWarning This overload of add is deprecated:", done.stderr
