"""From a list of samples to a batch."""

import copy
import re
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

import numpy as np

import tensotron as _t

_NO_NUMBERS = re.compile(r"[SaUO]")
default_collate_err_msg_format = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _like_mapping(example, items):
    """A mapping of the type of `example` with other values, a plain dict where the type cannot be made."""
    try:
        if isinstance(example, MutableMapping):
            out = copy.copy(example)  # which keeps what else the type holds
            out.update(items())
            return out
        return type(example)(items())
    except TypeError:
        return items()


def _like_sequence(example, items):
    try:
        if isinstance(example, MutableSequence):
            out = copy.copy(example)
            for i, item in enumerate(items()):
                out[i] = item
            return out
        return type(example)(items())
    except TypeError:
        return items()


def default_convert(data):
    """numpy arrays and scalars inside of `data` as tensors; the rest as it is, except that tuples become lists."""
    kind = type(data)
    if isinstance(data, _t.Tensor):
        return data
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_"):
        if kind.__name__ == "ndarray" and _NO_NUMBERS.search(data.dtype.str):
            return data
        return _t.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, lambda: {k: default_convert(data[k]) for k in data})
    if isinstance(data, tuple):
        items = [default_convert(d) for d in data]
        return kind(*items) if hasattr(data, "_fields") else items
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, lambda: [default_convert(d) for d in data])
    return data


def collate(batch, *, collate_fn_map=None):
    """A batch of the structure of its samples, made by the functions that `collate_fn_map` has for their types.

    Raises:
        TypeError: no function for a type.
        RuntimeError: sequences of different lengths.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        fn = collate_fn_map.get(kind)
        if fn is None:
            fn = next((f for t, f in collate_fn_map.items() if isinstance(first, t)), None)
        if fn is not None:
            return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _like_mapping(first, lambda: {k: collate([d[k] for d in batch], collate_fn_map=collate_fn_map) for k in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)))
    if isinstance(first, Sequence):
        size = len(first)
        if not all(len(d) == size for d in batch):
            raise RuntimeError("each element in list of batch should be of equal size")

        def columns():
            return [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]

        return columns() if isinstance(first, tuple) else _like_sequence(first, columns)
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors, stacked."""
    return _t.stack(batch, 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Arrays, as tensors stacked."""
    if _NO_NUMBERS.search(batch[0].dtype.str):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([_t.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """numpy numbers, as one tensor."""
    return _t.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    """Floats, as a float64 tensor."""
    return _t.tensor(batch, dtype=_t.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Ints, as a tensor."""
    return _t.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Texts, as they are."""
    return batch


default_collate_fn_map = {
    _t.Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch):
    """A batch of a list of samples: tensors, arrays and numbers are stacked, texts listed, containers kept (tuples become lists).

    Raises:
        TypeError: a sample of another type.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
