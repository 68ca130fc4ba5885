"""Containers of modules and of parameters."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain

from tensotron._core.tensor import Tensor
from tensotron._typename import typename
from tensotron.nn.modules._dispatch import iterates_by, know
from tensotron.nn.modules.module import Module
from tensotron.nn.parameter import Parameter

__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class _Numbered(Module):
    """Submodules that make up a list."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, idx):
        return _place(idx, len(self))

    def __setitem__(self, idx, module):
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx):
        if isinstance(idx, slice):
            for name in list(self._modules)[idx]:
                delattr(self, name)
        else:
            delattr(self, self._name_at(idx))
        self._modules = OrderedDict((str(i), module) for i, module in enumerate(self))

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Removes a module and returns it."""
        module = self[key]
        del self[key]
        return module


def _place(idx, size):
    """The name of the item at an index, which may be negative."""
    idx = operator.index(idx)
    if not -size <= idx < size:
        raise IndexError(f"index {idx} is out of range")
    return str(idx % size)


class Sequential(_Numbered):
    """Modules called one after the other; also from an OrderedDict of named ones."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    def _name_at(self, idx):
        return list(self._modules)[int(_place(idx, len(self)))]  # they may have names of their own

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    @staticmethod
    def _need_sequential(other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")

    def __add__(self, other):
        self._need_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._need_sequential(other)
        return self.extend(other)

    def _check_factor(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other):
        self._check_factor(other)
        return Sequential(*(list(self) * other))

    def __rmul__(self, other):
        return self.__mul__(other)

    def __imul__(self, other):
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index, module):
        """Puts a module before the one at an index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        _insert(self._modules, index % size if index < 0 else index, module)
        return self

    def extend(self, sequential):
        """Adds modules at the end."""
        for module in sequential:
            self.append(module)
        return self


iterates_by(_Numbered.__iter__)
know(Sequential.forward, "sequential")


def _insert(modules, index, module):
    for i in range(len(modules), index, -1):
        modules[str(i)] = modules[str(i - 1)]
    modules[str(index)] = module


class ModuleList(_Numbered):
    """A list of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._name_at(idx)]

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        out = ModuleList()
        for i, module in enumerate(chain(self, other)):
            out.add_module(str(i), module)
        return out

    def insert(self, index, module):
        """Puts a module before the one at an index."""
        _insert(self._modules, index, module)

    def extend(self, modules):
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for i, module in enumerate(modules, len(self)):
            self.add_module(str(i), module)
        return self

    def __repr__(self):
        runs = []  # [first, last, text] of equal neighbours
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {body}\n)"


def _pairs(what, items):
    """(key, value) of the elements of an iterable that is no mapping; raises as torch does."""
    cls, verb = what
    if not isinstance(items, Iterable):
        raise TypeError(f"{verb}.update should be called with an iterable of key/value pairs, but got {type(items).__name__}")
    for place, pair in enumerate(items):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{cls} update sequence element #{place} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{cls} update sequence element #{place} has length {len(pair)}; 2 is required")
        yield pair[0], pair[1]


class ModuleDict(Module):
    """A dict of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Removes everything."""
        self._modules.clear()

    def pop(self, key):
        """Removes a module and returns it."""
        module = self[key]
        del self[key]
        return module

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """(name, module)."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Adds those of a mapping, or of (name, module) pairs."""
        if isinstance(modules, (Mapping, ModuleDict)):
            pairs = modules.items()
        else:
            pairs = _pairs(("ModuleDict", "ModuleDict"), modules)
        for key, module in pairs:
            self[key] = module


def _as_parameter(value):
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(items, name_of_type):
    lines = []
    for key, value in items:
        if isinstance(value, Tensor):
            kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
            size = "x".join(str(n) for n in value.size())
            device = f" ({value.device})" if value.device.type == "cuda" else ""
            text = f"{kind} containing: [{name_of_type(value)} of size {size}{device}]"
        else:
            text = f"Object of type: {type(value).__name__}"
        lines.append(f"  ({key}): {text}")
    return "\n".join(lines)


class ParameterList(Module):
    """A list of parameters, and of other values; tensors become parameters."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            out = type(self)()
            for i in range(*idx.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, _place(idx, len(self)))

    def __setitem__(self, idx, param):
        setattr(self, _place(idx, len(self)), _as_parameter(param))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value):
        """Adds a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Adds values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return _describe(enumerate(self), lambda t: t.dtype)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters, and of other values; tensors become parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _key_to_attr(key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        setattr(self, self._key_to_attr(key), _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        """A ParameterDict of the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key, default=None):
        """The value of a key, which becomes `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Removes everything."""
        for k in list(self._keys):
            del self[k]

    def pop(self, key):
        """Removes a value and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Removes the last (key, value) and returns it."""
        if not self._keys:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key, default=None):
        """The value of a key, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A ParameterDict with the same value for every key."""
        return ParameterDict((k, default) for k in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self):
        """(key, value)."""
        return ((k, self[k]) for k in self._keys)

    def values(self):
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters):
        """Adds those of a mapping (in the order of the keys, unless it has an order), or of (key, value) pairs."""
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = _pairs(("ParameterDict", "ParametersDict"), parameters)
        for key, value in pairs:
            self[key] = value

    def extra_repr(self):
        return _describe(self.items(), typename)

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other):
        out = other.copy()
        out.update(self)
        return out

    def __ior__(self, other):
        self.update(other)
        return self
