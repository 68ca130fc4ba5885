"""What pickles of tensors call: torch._utils's names. Arguments may come from a hostile file."""

import copyreg

from tensotron._core.geometry import strided
from tensotron._core.pickling import tensor_on
from tensotron._core.tensor import Tensor, _make_subclass
from tensotron.storage import TypedStorage


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A tensor on a TypedStorage.

    Raises:
        RuntimeError: it would reach outside of the storage, or the arguments are of other types.
    """
    if not isinstance(storage, TypedStorage):
        raise RuntimeError(f"a tensor is made on a storage, not on {type(storage).__name__}")
    if not all(type(n) is int for n in (storage_offset, *size, *stride)):
        raise RuntimeError("sizes, strides and offset of a tensor are ints")
    return tensor_on(storage.untyped(), storage.dtype, storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    if metadata:
        raise NotImplementedError("tensor metadata (of conjugate or negative views) is not supported by tensotron")
    t = _rebuild_tensor(storage, storage_offset, size, stride)
    if requires_grad:
        t.requires_grad_()
    return t


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    if not isinstance(storage, TypedStorage):
        raise RuntimeError(f"a tensor is made on a storage, not on {type(storage).__name__}")
    storage = TypedStorage(wrap_storage=storage.untyped(), dtype=dtype)
    return _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from tensotron.nn import Parameter

    if not isinstance(data, Tensor):
        raise RuntimeError(f"the data of a Parameter is a tensor, not {type(data).__name__}")
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _set_obj_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


REBUILD = {
    f.__name__: f
    for f in (_rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter, _rebuild_parameter_with_state)
}
_PARTS = frozenset(map(id, REBUILD.values()))


def _rebuild_from_type_v2(func, new_type, args, state):
    """A tensor of a subclass, or with attributes of its own.

    Raises:
        RuntimeError: `func` is none of the functions above, or `new_type` no class of tensors.
    """
    if id(func) not in _PARTS:
        raise RuntimeError("_rebuild_from_type_v2 is given a function that does not rebuild tensors")
    if not isinstance(new_type, type) or not issubclass(new_type, Tensor):
        raise RuntimeError("_rebuild_from_type_v2 is given a class that is none of tensors")
    t = func(*args)
    if type(t) is not new_type:
        t = _make_subclass(new_type, t, t.requires_grad)
    setstate = getattr(type(t), "__setstate__", None)
    if setstate is not getattr(Tensor, "__setstate__", None):  # Cython's, which refuses
        setstate(t, state)
        return t
    return _set_obj_state(t, state)


def _get_obj_state(obj):
    """The attributes of an object: its dict, or (dict, slots) where the class has slots."""
    getstate = getattr(type(obj), "__getstate__", None)
    if getstate is not None and getstate is not getattr(object, "__getstate__", None):
        return getstate(obj)
    attributes = dict(vars(obj))
    slots = {n: getattr(obj, n) for n in copyreg._slotnames(type(obj)) if hasattr(obj, n)}
    return (attributes, slots) if slots else attributes


def _set_obj_state(obj, state):
    slots = {}
    if isinstance(state, tuple):
        if len(state) != 2:
            raise RuntimeError("Invalid serialized state: a tuple that is no pair")
        state, slots = state
    for part, put in ((state, vars(obj).__setitem__), (slots, lambda k, v: setattr(obj, k, v))):
        if part is not None and not isinstance(part, dict):
            raise RuntimeError(f"Invalid serialized state: {type(part).__name__}")
        for k, v in (part or {}).items():
            put(k, v)
    return obj


def _get_layout(name):
    if name != repr(strided):
        raise NotImplementedError(f"layout {name} is not supported by tensotron")
    return strided


copyreg.pickle(type(strided), lambda layout: (_get_layout, (repr(layout),)))
