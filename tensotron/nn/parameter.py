"""Parameters and buffers: tensors that a module takes in when they are assigned to it."""

from collections import OrderedDict

from tensotron import _utils, empty
from tensotron._core.geometry import preserve_format
from tensotron._core.tensor import Tensor, _make_subclass

__all__ = ["Buffer", "Parameter"]


class _MarkedMeta(type(Tensor)):
    """Makes tensors of other classes that carry the class's mark instances of it."""

    _mark = None

    def __instancecheck__(cls, instance):
        mark = cls.__dict__.get("_mark")
        if mark is not None and isinstance(instance, Tensor) and getattr(instance, mark, False):
            return True
        return super().__instancecheck__(instance)


def _require_float(data, requires_grad):
    if requires_grad and not data.is_floating_point():
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")


class Parameter(Tensor, metaclass=_MarkedMeta):
    """A tensor on the memory of `data` that is a parameter of the module it is assigned to."""

    _mark = "_is_param"

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = empty(0)
        kind = type(data)
        if kind is Tensor or kind is Parameter:
            _require_float(data, requires_grad)
            return _make_subclass(cls, data, requires_grad)
        plain = data.detach()
        _require_float(plain, requires_grad)
        out = _make_subclass(kind, plain, requires_grad)
        out._is_param = True
        return out

    def __init__(self, data=None, requires_grad=True):
        pass

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        out = type(self)(self.data.clone(memory_format=preserve_format), self.requires_grad)
        memo[id(self)] = out
        return out

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        state = _utils._get_obj_state(self)
        if state:
            return _utils._rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)
        return _utils._rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


class Buffer(Tensor, metaclass=_MarkedMeta):
    """A tensor on the memory of `data` that is a buffer of the module it is assigned to."""

    _mark = "_is_buffer"

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = empty(0)
        out = data.detach().requires_grad_(data.requires_grad)
        out.persistent = persistent
        out._is_buffer = True
        return out
