"""Where a module keeps its parameters, buffers and submodules, and its hooks."""

import weakref
from collections import OrderedDict

from tensotron._epoch import bump

REGISTRIES = ("_parameters", "_buffers", "_modules")

_ABSENT = object()


class Members(dict):
    """Parameters, buffers or submodules by name.

    Members are kept in the instance dict of the owner as well, where an attribute is found at the cost of one
    look-up; every change goes to both. (Python's way to names that are nowhere, `__getattr__`, costs twenty times
    as much.) Names that are no attributes ("0") or that the class defines are not.
    """

    __slots__ = ("_owners",)

    def __init__(self, items=()):
        dict.__init__(self, items)
        self._owners = []

    def adopt(self, owner):
        """Makes `owner` (one more) module whose members these are."""
        self._owners.append(weakref.ref(owner))
        for name, value in self.items():
            _mirror(owner, name, value)

    def release(self, owner):
        """Takes the members out of the owner's instance dict."""
        self._owners = [r for r in self._owners if r() is not owner]
        space = owner.__dict__
        for name, value in self.items():
            if space.get(name, _ABSENT) is value:
                del space[name]

    def __setitem__(self, name, value):
        dict.__setitem__(self, name, value)
        for ref in self._owners:
            owner = ref()
            if owner is not None:
                _mirror(owner, name, value)
        bump()

    def __delitem__(self, name):
        self.pop(name)

    def pop(self, name, *default):
        value = dict.pop(self, name, _ABSENT)
        if value is _ABSENT:
            if default:
                return default[0]
            raise KeyError(name)
        for ref in self._owners:
            owner = ref()
            if owner is not None and owner.__dict__.get(name, _ABSENT) is value:
                del owner.__dict__[name]
        bump()
        return value

    def popitem(self):
        if not self:
            raise KeyError("popitem(): dictionary is empty")
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self):
        for name in list(self):
            self.pop(name)

    def setdefault(self, name, default=None):
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *args, **kwargs):
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __ior__(self, other):
        self.update(other)
        return self

    def __reduce__(self):
        # who unpickles or copies a module makes them its members again; weights_only=True knows this class
        return OrderedDict, (), None, None, iter(self.items())

    def __reduce_ex__(self, protocol):
        return self.__reduce__()


def _mirror(owner, name, value):
    if name.isidentifier() and not hasattr(type(owner), name):
        owner.__dict__[name] = value


class Hooks(OrderedDict):
    """Hooks of calls, by id. Once there has been one, calls of modules look for hooks."""

    def __setitem__(self, key, hook):
        OrderedDict.__setitem__(self, key, hook)
        note()

    def __delitem__(self, key):
        OrderedDict.__delitem__(self, key)
        bump()

    def __reduce_ex__(self, protocol):
        # where there are none, no handle refers to this dict, and a file is one that PyTorch can read
        return OrderedDict.__reduce_ex__(self, protocol) if self else (OrderedDict, ())


_listeners = []


def on_first(listener):
    """Calls listener() when the first hook is registered."""
    _listeners.append(listener)


def note():
    """Notes that there is something that calls have to look for."""
    bump()
    while _listeners:
        _listeners.pop()()
