"""Changes that no tensor shows: members, hooks and modes of modules. Captured calls compare them.

`bump()` belongs to every change of a member, a hook or an attribute, `flip(module)` to every switch between training
and evaluation: captures made in either mode stay valid for it.
"""

from tensotron._cpu.backend import bump_epoch as bump
from tensotron._cpu.backend import epoch as count
from tensotron._cpu.backend import flip_mode as flip

__all__ = ["bump", "count", "flip"]
