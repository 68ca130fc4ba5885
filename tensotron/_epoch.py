"""A counter of changes that no tensor shows: modes, hooks, members of modules.

Whoever has recorded a run compares `count()` with the value it saw; `bump()` belongs to every such change.
"""

_value = 0


def count():
    """How many changes there have been."""
    return _value


def bump():
    """Notes a change."""
    global _value
    _value += 1
