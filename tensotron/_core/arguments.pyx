"""Arguments of functions: numbers and sizes, and the messages about wrong ones."""
from libc.stdint cimport int64_t

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport Tensor, grad_enabled, make_size, shape_of

import warnings

import numpy as _np


def kind(x):
    """Name of a value's type in a message."""
    t = x if isinstance(x, type) else type(x)
    if isinstance(x, dt_.dtype):
        return "torch.dtype"
    return f"numpy.{t.__name__}" if getattr(t, "__module__", "") == "numpy" else t.__name__


def invalid(str op, args, dict kwargs, *signatures):
    """The TypeError for arguments that fit none of several signatures."""
    got = [kind(a) for a in args] + [f"{k}={kind(v)}" for k, v in kwargs.items() if v is not None]
    trailing = ", " if got and not args else ""  # torch's
    return TypeError(f"{op}() received an invalid combination of arguments - got ({', '.join(got)}{trailing}), but expected one of:\n"
                     + "".join([f" * ({s})\n" for s in signatures]))


cdef bint is_integer(object x):
    """Whether x can stand for an int: no bool, no float."""
    if type(x) is int:
        return True
    if isinstance(x, (bool, _np.bool_)):
        return False
    if isinstance(x, Tensor):
        return (<Tensor>x).n == 1 and x.dtype.is_floating_point is False and not x.requires_grad
    return hasattr(x, "__index__") and (not isinstance(x, _np.ndarray) or (x.ndim == 0 and x.dtype.kind in "iu"))


cdef int64_t int_arg(object x, str op, str name, int position) except? -1:
    if not is_integer(x):
        raise TypeError(f"{op}(): argument '{name}' (position {position}) must be int, not {kind(x)}")
    i = x.__index__()
    if not -(1 << 63) <= i < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    return i


cdef double float_arg(object x, str op, str name, int position) except? -1:
    if isinstance(x, (float, int)):
        return x
    if isinstance(x, (_np.floating, _np.integer, _np.bool_)) or (isinstance(x, Tensor) and (<Tensor>x).nd == 0 and not x.requires_grad):
        return float(x)
    raise TypeError(f"{op}(): argument '{name}' (position {position}) must be float, not {kind(x)}")


cdef int dtype_arg(object x, str op, int default) except? -1:
    if x is None:
        return default
    if not isinstance(x, dt_.dtype) and x is not float and x is not int and x is not bool:
        raise TypeError(f"{op}(): argument 'dtype' must be torch.dtype, not {kind(x)}")
    return dt_.code_of(x, default)


cdef int size_args(str op, tuple args, object size, int64_t* out) except -1:
    cdef int nd = 0, n = len(args)
    cdef bint nested
    if size is not None:
        if n:
            raise TypeError(f"{op}() got multiple values for argument 'size'")
        items = size
        nested = True
    elif n == 0:
        raise TypeError(f"{op}() missing 1 required positional arguments: \"size\"")
    else:
        items = args
        nested = n == 1 and isinstance(args[0], (tuple, list))
        if nested:
            items = args[0]
        elif n > 1 and isinstance(args[0], (tuple, list)):
            raise TypeError(f"{op}() takes 1 positional argument but {n} were given")
    if not isinstance(items, (tuple, list)):
        raise TypeError(f"{op}(): argument 'size' must be tuple of ints, not {kind(items)}")
    if len(items) > 64:
        raise RuntimeError("tensors of more than 64 dimensions are not supported")
    for x in items:
        if type(x) is int and -(1 << 62) < x < 1 << 62:
            out[nd] = x
            nd += 1
            continue
        if not is_integer(x) and not (nd and isinstance(x, bool)):
            if nd == 0 and nested:
                raise TypeError(f"{op}(): argument 'size' (position 1) must be tuple of ints, but found element of type {kind(x)} at pos 0")
            if nd == 0:
                raise TypeError(f"{op}(): argument 'size' (position 1) must be tuple of ints, not {kind(x)}")
            raise TypeError(f"{op}(): argument 'size' failed to unpack the object at pos {nd + 1} with error \"type must be tuple of "
                            f"ints,but got {kind(x)}\"")
        i = x.__index__()
        if not -(1 << 63) <= i < 1 << 63:
            raise TypeError(f"{op}(): argument 'size' failed to unpack the object at pos {nd + 1} with error \"Overflow when unpacking "
                            "long long\"")
        out[nd] = i
        nd += 1
    return nd


cdef bint old_overload_seen = False


cdef object old_number(str op, object number, bint alone, int given, str old, str now):
    """`number`, a Python number, if it can be one and no keyword says the same (`alone`); `given`: how many arguments were too many."""
    global old_overload_seen
    if isinstance(number, Tensor) and (<Tensor>number).nd == 0 and not (<Tensor>number).requires():
        number = number.item()
    if not alone or dt_.scalar_code(number) < 0:
        raise TypeError(f"{op}() takes {given - 1} positional arguments but {given} were given")
    if not old_overload_seen:
        old_overload_seen = True
        warnings.warn(f"This overload of {op} is deprecated:\n\t{op}({old})\nConsider using one of the following signatures instead:\n"
                      f"\t{op}({now})", UserWarning, stacklevel=2)
    return number


cdef int refuse_out(str op, Tensor out, bint inputs_require) except -1:
    if grad_enabled() and (inputs_require or out.requires()):
        raise RuntimeError(f"{op}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                           "arguments requires grad.")
    return 0


cdef int resize_out(Tensor out, int nd, const int64_t* sizes, bint warn) except -1:
    """Gives `out` the shape of a result; `warn`: with a warning, unless it is empty."""
    cdef int d
    if out.nd == nd:
        for d in range(nd):
            if out.sizes[d] != sizes[d]:
                break
        else:
            return 0
    shape = make_size(nd, sizes)
    if warn and out.n != 0:
        warnings.warn(f"An output with one or more elements was resized since it had shape {list(shape_of(out))}, which does not match the "
                      f"required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch release outputs will not "
                      "be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to "
                      "zero elements with t.resize_(0).", UserWarning, stacklevel=2)
    out.resize_(shape)
    return 0
