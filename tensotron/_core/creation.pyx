"""Factories: tensors of sizes and ranges."""
from libc.math cimport ceil
from libc.stdint cimport int64_t

from tensotron._core cimport dtype as dt_
from tensotron._core.arguments cimport dtype_arg, int_arg, refuse_out, resize_out, size_args
from tensotron._core.tensor cimport (
    Tensor, add_method, as_element, begin, check_inplace, empty, empty_like, empty_strided, fill_with, make_size, rebase, set_arg)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8, Record

import warnings

import numpy as _np

from tensotron._core import geometry
from tensotron._core.arguments import invalid, kind

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_arange "tensotron::K_arange"

FUNCTIONS = {}

TITLES = ("Float", "Double", "Long", "Int", "Byte", "Bool")
OPTIONS = ("*, Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, bool pin_memory = "
           "False, bool requires_grad = False")


cdef Tensor finish(Tensor t, bint requires_grad):
    if requires_grad:
        if not dt_.is_float(t.dt):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        t.requires_grad = True
    return t


cdef int check_options(object device, object layout, bint pin_memory) except -1:
    if device is not None:
        geometry.require_cpu(device)
    if layout is not None and layout is not geometry.strided:
        raise NotImplementedError(f"layout {layout} is not supported by tensotron")
    if pin_memory:
        raise RuntimeError("pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this "
                           "system.")
    return 0


# ==== sizes ===========================================================================================
cdef Tensor sized(str op, tuple args, object size, object dtype, object device, object layout, bint pin_memory, object out):
    """A tensor of the size, not initialised: new, or `out` resized."""
    cdef int64_t s[64]
    cdef int nd = size_args(op, args, size, s), d
    cdef int code = dtype_arg(dtype, op, -1)
    cdef Tensor t
    check_options(device, layout, pin_memory)
    for d in range(nd):
        if s[d] < 0:
            raise RuntimeError("zeros: Dimension size must be non-negative." if op == "zeros" else
                               f"Trying to create tensor with negative dimension {s[d]}: {[s[i] for i in range(nd)]}")
    if out is None:
        return empty(nd, s, dt_.default_float() if code < 0 else code)
    if not isinstance(out, Tensor):
        raise TypeError(f"{op}(): argument 'out' must be Tensor, not {kind(out)}")
    t = <Tensor>out
    if code >= 0 and code != t.dt:
        raise RuntimeError(f"dtype {TITLES[code]} does not match dtype of out parameter ({TITLES[t.dt]})")
    if op in ("empty", "randn"):  # which only give it its shape, or do that first
        t.resize_(make_size(nd, s))
    return out_of("aten::" + op, t, nd, s)


cdef Tensor out_of(str op, Tensor t, int nd, const int64_t* sizes):
    """t, an `out`, ready to be written; it will not require grad."""
    refuse_out(op, t, False)
    check_inplace(t, False)
    resize_out(t, nd, sizes, False)
    rebase(t, None)
    t.leaf_grad = False
    return t


def empty_(*args, size=None, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False,
           memory_format=None):
    """A tensor of a size, not initialised."""
    cdef Tensor t = sized("empty", args, size, dtype, device, layout, pin_memory, out)
    if memory_format is geometry.preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    if memory_format is not None:
        t = new_like(t, t.dt, memory_format)
    return finish(t, requires_grad)


def zeros(*args, size=None, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """Zeros of a size, given as ints or one sequence."""
    cdef Tensor t = sized("zeros", args, size, dtype, device, layout, pin_memory, out)
    fill_with(t, 0)
    return finish(t, requires_grad)


def ones(*args, size=None, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """Ones of a size, given as ints or one sequence."""
    cdef Tensor t = sized("ones", args, size, dtype, device, layout, pin_memory, out)
    fill_with(t, 1)
    return finish(t, requires_grad)


cdef object fill_value_arg(object v, str op):
    """A Python number, from a number or a 0-dim tensor without history."""
    if isinstance(v, Tensor) and (<Tensor>v).nd == 0 and not (<Tensor>v).requires():
        return v.item()
    if dt_.scalar_code(v) < 0:
        if isinstance(v, complex):
            raise NotImplementedError("complex tensors are not supported by tensotron")
        raise TypeError(f"{op}(): argument 'fill_value' (position 2) must be Number, not {kind(v)}")
    return v


def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """A tensor of a size filled with one value, whose type decides the dtype if none is given."""
    cdef Tensor t
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {kind(size)}")
    fill_value = fill_value_arg(fill_value, "full")
    if dtype is None and out is None:
        dtype = dt_.of_code(dt_.scalar_code(fill_value))
    t = sized("full", (), size, dtype, device, layout, pin_memory, out)
    fill_with(t, fill_value)
    return finish(t, requires_grad)


cdef Tensor new_like(Tensor x, int dt, object memory_format):
    """New tensor of x's shape: strides as x's, or row-major, or channels_last."""
    cdef int64_t st[5]
    cdef int nd, d
    if memory_format is None or memory_format is geometry.preserve_format:
        return empty_like(x, dt)
    if memory_format is geometry.contiguous_format:
        return empty(x.nd, x.sizes, dt)
    if memory_format is geometry.channels_last or memory_format is geometry.channels_last_3d:
        nd = 4 if memory_format is geometry.channels_last else 5
        if x.nd != nd:
            raise RuntimeError(f"required rank {nd} tensor to use {memory_format._name} format")
        st[1] = 1
        st[nd - 1] = x.sizes[1]
        for d in range(nd - 2, 1, -1):
            st[d] = st[d + 1] * x.sizes[d + 1]
        st[0] = st[2] * x.sizes[2]
        return empty_strided(nd, x.sizes, st, dt)
    raise NotImplementedError(f"memory format {memory_format} is not supported by tensotron")


cdef Tensor like(object input, object dtype, object device, object layout, object memory_format, bint pin_memory, str op):
    cdef Tensor x
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {kind(input)}")
    x = <Tensor>input
    check_options(device, layout, pin_memory)
    return new_like(x, dtype_arg(dtype, op, x.dt), memory_format)


def empty_like_(input, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None, bint pin_memory=False):
    """A tensor of input's size and dtype, not initialised."""
    return finish(like(input, dtype, device, layout, memory_format, pin_memory, "empty_like"), requires_grad)


def zeros_like(input, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None, bint pin_memory=False):
    """Zeros of input's size and dtype."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, pin_memory, "zeros_like")
    fill_with(t, 0)
    return finish(t, requires_grad)


def ones_like(input, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None, bint pin_memory=False):
    """Ones of input's size and dtype."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, pin_memory, "ones_like")
    fill_with(t, 1)
    return finish(t, requires_grad)


def full_like(input, fill_value, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None,
              bint pin_memory=False):
    """A tensor of input's size and dtype filled with one value."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, pin_memory, "full_like")
    fill_with(t, fill_value_arg(fill_value, "full_like"))
    return finish(t, requires_grad)


cdef Tensor new_sized(object self, str op, tuple args, object size, object dtype, object device, object layout, bint pin_memory):
    """A tensor of the size with the dtype of self."""
    return sized(op, args, size, dt_.of_code((<Tensor?>self).dt) if dtype is None else dtype, device, layout, pin_memory, None)


def new_empty(self, *args, size=None, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """empty() with this tensor's dtype."""
    return finish(new_sized(self, "new_empty", args, size, dtype, device, layout, pin_memory), requires_grad)


def new_zeros(self, *args, size=None, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """zeros() with this tensor's dtype."""
    cdef Tensor t = new_sized(self, "new_zeros", args, size, dtype, device, layout, pin_memory)
    fill_with(t, 0)
    return finish(t, requires_grad)


def new_ones(self, *args, size=None, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """ones() with this tensor's dtype."""
    cdef Tensor t = new_sized(self, "new_ones", args, size, dtype, device, layout, pin_memory)
    fill_with(t, 1)
    return finish(t, requires_grad)


def new_full(self, size, fill_value, *, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """full() with this tensor's dtype."""
    cdef Tensor t = new_sized(self, "new_full", (), size, dtype, device, layout, pin_memory)
    fill_with(t, fill_value_arg(fill_value, "new_full"))
    return finish(t, requires_grad)


def empty_strided_(size, stride, *, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """A tensor of given size and strides, not initialised."""
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int nd, n_strides, d
    for v in (size, stride):
        if not isinstance(v, (tuple, list)):
            raise TypeError(f"empty_strided(): argument 'size' (position 1) must be tuple of ints, not {kind(v)}")
    nd, n_strides = size_args("empty_strided", (), size, s), size_args("empty_strided", (), stride, st)
    check_options(device, layout, pin_memory)
    if nd != n_strides:
        raise RuntimeError(f"dimensionality of sizes ({nd}) must match dimensionality of strides ({n_strides})")
    for d in range(nd):
        if st[d] < 0:
            raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    return finish(empty_strided(nd, s, st, dtype_arg(dtype, "empty_strided", dt_.default_float())), requires_grad)


def new_empty_strided(self, size, stride, *, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """empty_strided() with this tensor's dtype."""
    return empty_strided_(size, stride, dtype=(<Tensor?>self).dtype if dtype is None else dtype, layout=layout, device=device,
                          requires_grad=requires_grad, pin_memory=pin_memory)


def scalar_tensor(value, *, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """A 0-dim tensor of the default float dtype, or of `dtype`."""
    return full((), value, dtype=dtype if dtype is not None else dt_.of_code(dt_.default_float()), device=device, layout=layout,
                requires_grad=requires_grad, pin_memory=pin_memory)


# ==== ranges ==========================================================================================
cdef object number_arg(object x, str op, str name, int position):
    if isinstance(x, Tensor):
        if (<Tensor>x).nd == 0 and not (<Tensor>x).requires():
            return x.item()
    elif dt_.scalar_code(x) >= 0:
        if isinstance(x, int) and not -(1 << 63) <= x < 1 << 63:
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        return x
    elif isinstance(x, complex):
        raise RuntimeError("value cannot be converted to type double without overflow")
    raise TypeError(f"{op}(): argument '{name}' (position {position}) must be Number, not {kind(x)}")


cdef Tensor range_out(object out, int64_t n, int code):
    """`out`, resized with a warning, or a new tensor."""
    cdef Tensor t
    if out is None:
        return empty(1, &n, code)
    t = <Tensor?>out
    check_inplace(t, t.requires())
    if t.n != n:
        if t.n:
            warnings.warn(f"The number of elements in the out tensor of shape {list(t.shape)} is {t.n} which does not match the computed "
                          f"number of elements {n}. Note that this may occur as a result of rounding error. The out tensor will be "
                          f"resized to a tensor of shape ({n},).", UserWarning, stacklevel=2)
        t.resize_(n)
    rebase(t, None)
    return t


cdef Tensor count_up(Tensor t, int op, object start, object step):
    """Writes start, start + step, ... (op 0) or the elements of linspace(start, step) (op 1)."""
    cdef Record r
    cdef Tensor flat = t if t.contiguous else empty(t.nd, t.sizes, t.dt)
    begin(&r, K_arange, op, 1, 0, flat.dt)
    set_arg(&r, 0, flat)
    r.ndim = 1
    r.size[0] = flat.n
    r.arg[0].stride[0] = 1
    r.reals[0], r.reals[1] = start, step
    if not dt_.is_float(flat.dt):
        r.ints[0], r.ints[1] = start, step
    if flat.n:
        backend.launch(&r)
    return t if flat is t else <Tensor>t.copy_(flat)


ARANGE = ("Number end, " + OPTIONS, "Number start, Number end, " + OPTIONS, "Number start, Number end, Number step = 1, " + OPTIONS)


def arange(*args, start=None, end=None, step=None, out=None, dtype=None, layout=None, device=None, bint requires_grad=False,
           bint pin_memory=False):
    """arange(start=0, end, step=1): start, start + step, ... before end. Integers give int64.

    Raises:
        RuntimeError: step is zero or has the wrong sign.
    """
    cdef int code
    cdef int64_t n
    cdef double length
    check_options(device, layout, pin_memory)
    given = {"start": start, "end": end, "step": step}
    given = {k: v for k, v in given.items() if v is not None}
    names = ("end",) if len(args) == 1 and "end" not in given else ("start", "end", "step")
    if len(args) > 3 or set(names[:len(args)]) & set(given) or not (args or given):
        raise invalid("arange", args, given, *ARANGE)
    given.update(zip(names, args))
    if "end" not in given:
        raise TypeError("arange() missing 1 required positional arguments: \"end\"")
    for i, k in enumerate(("start", "end", "step")):
        if k in given:
            given[k] = number_arg(given[k], "arange", k, 1 if len(args) == 1 else i + 1)
    start, end, step = given.get("start", 0), given["end"], given.get("step", 1)
    whole = all([isinstance(v, (int, _np.integer, _np.bool_)) for v in (start, end, step)])
    code = dtype_arg(dtype, "arange", (<Tensor?>out).dt if out is not None else I64 if whole else dt_.default_float())
    if code == BOOL:
        raise NotImplementedError("\"arange_cpu\" not implemented for 'Bool'")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (abs(start) < float("inf") and abs(end) < float("inf")):
        raise RuntimeError(f"unsupported range: {float(start):g} -> {float(end):g}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if not dt_.is_float(code):
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
    length = ceil((<double>(end - start)) / <double>step) if not dt_.is_float(code) else ceil((<double>end - <double>start) / <double>step)
    if not 0 <= length < 9.2e18:
        raise RuntimeError("invalid size, possible overflow?")
    n = <int64_t>length
    return finish(count_up(range_out(out, n, code), 0, start, step), requires_grad)


def range_(start, end, step=1, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """start, start + step, ... up to and including end: arange() is to be preferred."""
    cdef int code = dtype_arg(dtype, "range", (<Tensor?>out).dt if out is not None else dt_.default_float())
    cdef int64_t n
    warnings.warn("torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's "
                  "range builtin. Instead, use torch.arange, which produces values in [start, end).", UserWarning, stacklevel=2)
    check_options(device, layout, pin_memory)
    start, end, step = number_arg(start, "range", "start", 1), number_arg(end, "range", "end", 2), number_arg(step, "range", "step", 3)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (abs(start) < float("inf") and abs(end) < float("inf")):
        raise RuntimeError(f"unsupported range: {float(start):g} -> {float(end):g}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if not dt_.is_float(code):
        start, end, step = int(start), int(end), int(step)
    n = <int64_t>((<double>end - <double>start) / <double>step) + 1
    if out is not None:
        refuse_out("aten::range", <Tensor>out, False)
        (<Tensor>out).leaf_grad = False
    return finish(count_up(range_out(out, n, code), 0, start, step), requires_grad)


cdef Tensor spaced(object start, object end, int64_t steps, int code):
    """`steps` evenly spaced numbers in a floating dtype."""
    return count_up(empty(1, &steps, code), 1, start, end)


LINSPACE = ("Tensor start, Tensor end, int steps, " + OPTIONS, "Number start, Tensor end, int steps, " + OPTIONS,
            "Tensor start, Number end, int steps, " + OPTIONS, "Number start, Number end, int steps, " + OPTIONS)


cdef Tensor spaced_tensor(str op, object start, object end, object steps, object base, object out, object dtype, bint requires_grad):
    cdef int code = dtype_arg(dtype, op, (<Tensor?>out).dt if out is not None else dt_.default_float())
    cdef int64_t n
    cdef Tensor t
    if isinstance(steps, (float, str, bool)) or not hasattr(steps, "__index__"):
        raise invalid(op, (start, end, steps), {}, *LINSPACE)
    n = int_arg(steps, op, "steps", 3)
    for name, v in (("start", start), ("end", end)):
        if isinstance(v, Tensor) and (<Tensor>v).nd:
            raise RuntimeError(f"{op} only supports 0-dimensional start and end tensors, but got {name} with {(<Tensor>v).nd} dimension(s).")
        if isinstance(v, complex):
            raise NotImplementedError("complex tensors are not supported by tensotron")
        if not isinstance(v, Tensor) and dt_.scalar_code(v) < 0:
            raise invalid(op, (start, end, steps), {}, *LINSPACE)
    if n < 0:
        raise RuntimeError("number of steps must be non-negative")
    if code == BOOL:
        raise NotImplementedError(f"\"{op}_cpu\" not implemented for 'Bool'")
    start, end = as_element(start, code), as_element(end, code)
    t = spaced(start, end, n, code if dt_.is_float(code) else F64)
    if base is not None:
        t = <Tensor>base_power(t, base)
    if out is not None:
        return out_of("aten::" + op, <Tensor>out, 1, &n).copy_(t)
    return finish(<Tensor>t.to(dt_.of_code(code)), requires_grad)


cdef object base_power(Tensor t, object base):
    """base ** t, by the C library as in PyTorch."""
    from tensotron._core.data import from_numpy
    values = t.numpy()
    return from_numpy(_np.power(values.dtype.type(base), values))


def linspace(start, end, steps=None, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """`steps` evenly spaced values from start to end, both included."""
    check_options(device, layout, pin_memory)
    return spaced_tensor("linspace", start, end, steps, None, out, dtype, requires_grad)


def logspace(start, end, steps=None, base=10.0, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False,
             bint pin_memory=False):
    """base to the power of linspace(start, end, steps)."""
    check_options(device, layout, pin_memory)
    return spaced_tensor("logspace", start, end, steps, base, out, dtype, requires_grad)


def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """Ones on the diagonal of an n by m matrix of zeros."""
    cdef int64_t rows = int_arg(n, "eye", "n", 1), cols = rows if m is None else int_arg(m, "eye", "m", 2)
    cdef Tensor t
    if rows < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {rows}")
    if cols < 0:
        raise RuntimeError(f"m must be greater or equal to 0, got {cols}")
    t = sized("eye", (), (rows, cols), dtype, device, layout, pin_memory, out)
    fill_with(t, 0)
    fill_with(<Tensor>t.detach().diagonal(), 1)
    return finish(t, requires_grad)


# ==== queries ===========================================================================================
cdef Tensor input_of(object x, str op):
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {kind(x)}")
    return <Tensor>x


def result_type(tensor1, tensor2):
    """dtype of an operation on two tensors or numbers."""
    from tensotron._autograd.elementwise import _result_type
    for x in (tensor1, tensor2):
        if not isinstance(x, Tensor) and dt_.scalar_code(x) < 0:
            raise invalid("result_type", (tensor1, tensor2), {}, "Tensor tensor, Tensor other", "Number scalar, Tensor tensor",
                          "Tensor tensor, Number other", "Number scalar1, Number scalar2")
    return _result_type(tensor1, tensor2)


def numel(input):
    """Number of elements."""
    return input_of(input, "numel").n


def is_tensor(obj):
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input):
    """Whether the dtype of input is floating point."""
    return dt_.is_float(input_of(input, "is_floating_point").dt)


def is_complex(input):
    """Whether the dtype of input is complex: no."""
    input_of(input, "is_complex")
    return False


def is_signed(input):
    """Whether the dtype of input has negative values."""
    return input_of(input, "is_signed").is_signed()


def is_nonzero(input):
    """Whether the one element of input is not zero."""
    return bool(input_of(input, "is_nonzero"))


empty_.__name__, empty_like_.__name__, empty_strided_.__name__, range_.__name__ = "empty", "empty_like", "empty_strided", "range"
for fn in (empty_, zeros, ones, full, empty_like_, zeros_like, ones_like, full_like, empty_strided_, scalar_tensor, arange, range_, linspace,
           logspace, eye, result_type, numel, is_tensor, is_floating_point, is_complex, is_signed, is_nonzero):
    fn.__qualname__ = fn.__name__
    FUNCTIONS[fn.__name__] = fn
for fn in (new_empty, new_zeros, new_ones, new_full, new_empty_strided, is_nonzero):
    fn.__qualname__ = fn.__name__
    add_method(fn.__name__, fn)
