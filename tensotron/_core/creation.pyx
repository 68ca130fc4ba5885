"""Factories: tensors from Python data, numpy, sizes and ranges."""
from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport ceil
from libc.stdint cimport int64_t, uint8_t

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    Storage, Tensor, add_method, alias, begin, cast, copy_into, empty, empty_like, empty_of, empty_strided, fill_with,
    make_size, parse_sizes, set_arg, set_geometry, shape_of)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8, Record

import warnings

import numpy as _np

from tensotron._core import geometry
from tensotron._core.dtype import TO_NUMPY, numpy_code

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_arange "tensotron::K_arange"

FUNCTIONS = {}


cdef object expose(object fn, bint method=False):
    fn.__qualname__ = fn.__name__
    FUNCTIONS[fn.__name__] = fn
    return fn


cdef Tensor finish(Tensor t, bint requires_grad):
    if requires_grad:
        t.requires_grad = True
    return t


cdef int check_options(object device, object layout, bint pin_memory) except -1:
    geometry.require_cpu(device)
    if layout is not None and layout is not geometry.strided:
        raise NotImplementedError(f"layout {layout} is not supported")
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return 0


# ==== from numpy ====================================================================================
def from_numpy(array):
    """A tensor on the array's memory.

    Raises:
        TypeError: not an ndarray, or its dtype has no counterpart.
        ValueError: a stride is negative or no multiple of the element size.
    """
    cdef Tensor t
    cdef Py_buffer view
    cdef int code
    cdef int64_t s[64]
    cdef int64_t st[64]
    if not isinstance(array, _np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    code = numpy_code(array.dtype)
    if code < 0:
        if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not _np.little_endian):
            raise ValueError("given numpy array has byte order different from the native byte order. Conversion between byte orders is "
                             "currently not supported.")
        raise TypeError(f"can't convert np.ndarray of type {array.dtype.type}. The only supported types are: float64, float32, int64, "
                        "int32, uint8, and bool.")
    if not array.flags.writeable:
        warnings.warn("The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to "
                      "this tensor will result in undefined behavior. You may want to copy the array to protect its data or make it "
                      "writable before converting it to a tensor. This type of warning will be suppressed for the rest of this program.",
                      UserWarning, stacklevel=2)
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    try:
        for d in range(view.ndim):
            s[d] = view.shape[d]
            if view.strides[d] < 0:
                raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                                 "currently supported. (You can probably work around this by making a copy of your array  with "
                                 "array.copy().) ")
            if view.strides[d] % view.itemsize:
                raise ValueError("given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate "
                                 "the memory.")
            st[d] = view.strides[d] // view.itemsize
        t = Tensor.__new__(Tensor)
        t.storage = Storage.__new__(Storage)
        t.storage.data = <char*>view.buf
        t.storage.nbytes = view.itemsize
        for d in range(view.ndim):
            t.storage.nbytes += (s[d] - 1) * st[d] * view.itemsize if s[d] else 0
        t.storage.owner = array
        t.ptr = t.storage.data
        t.dt = code
        set_geometry(t, view.ndim, s, st)
    finally:
        PyBuffer_Release(&view)
    return t


# ==== from Python data ===============================================================================
cdef int measure(object data, list shape, int depth, int* code) except -1:
    """Shape of nested sequences, and the dtype that holds their elements (-1: none seen)."""
    cdef int c, i, n
    if isinstance(data, Tensor):
        if depth == len(shape):
            shape.extend(tuple((<Tensor>data).shape))
        c = (<Tensor>data).dt
        code[0] = c if code[0] < 0 else dt_.promote(code[0], c)
        return 0
    if isinstance(data, float):
        c = dt_.default_float()
        code[0] = c if code[0] < 0 else dt_.promote(code[0], c)
        return 0
    if isinstance(data, bool):
        code[0] = BOOL if code[0] < 0 else code[0]
        return 0
    if isinstance(data, int):
        code[0] = I64 if code[0] < 0 else dt_.promote(code[0], I64)
        return 0
    if isinstance(data, (_np.ndarray, _np.generic)):
        if depth == len(shape):
            shape.extend(data.shape)
        c = numpy_code(data.dtype)
        if c < 0:
            raise TypeError(f"can't convert np.ndarray of type {data.dtype.type}. The only supported types are: float64, float32, int64, "
                            "int32, uint8, and bool.")
        code[0] = c if code[0] < 0 else dt_.promote(code[0], c)
        return 0
    if isinstance(data, complex):
        raise NotImplementedError("complex tensors are not supported by tensotron")
    if isinstance(data, str):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        for name in ("__index__", "__float__"):
            if hasattr(data, name):
                return measure(data.__index__() if name == "__index__" else float(data), shape, depth, code)
        if data is None:
            raise RuntimeError("Could not infer dtype of NoneType")
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    n = len(data)
    if depth == len(shape):
        shape.append(n)
    for i in range(n):
        measure(data[i], shape, depth + 1, code)
    return 0


cdef int write(object data, list shape, int depth, list out) except -1:
    """Appends the elements in order, checking that the nesting is even."""
    if depth == len(shape):
        if isinstance(data, (list, tuple)) or (isinstance(data, Tensor) and (<Tensor>data).n != 1):
            raise ValueError(f"only one element tensors can be converted to Python scalars" if isinstance(data, Tensor) else
                             f"expected a number at dim {depth}, got a sequence")
        out.append(data)
        return 0
    if isinstance(data, (Tensor, _np.ndarray)):
        data = data.tolist()
    if not hasattr(data, "__len__"):
        raise TypeError(f"expected sequence of length {shape[depth]} at dim {depth} (got a number)" if False else
                        f"expected sequence at dim {depth} (got {type(data).__name__})" if False else
                        f"'{type(data).__name__}' object cannot be interpreted as a sequence at dim {depth}" if False else
                        f"not a sequence")
    if len(data) != shape[depth]:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})")
    for item in data:
        write(item, shape, depth + 1, out)
    return 0


cdef Tensor from_data(object data, int dt):
    """dt < 0: inferred."""
    cdef int code = -1
    cdef list shape = [], flat = []
    cdef Tensor t
    if isinstance(data, _np.ndarray) or isinstance(data, _np.generic):
        array = _np.asarray(data)
        code = numpy_code(array.dtype)
        if code < 0 and dt < 0:
            if array.dtype.kind in "iuf":
                raise TypeError(f"can't convert np.ndarray of type {array.dtype.type}. The only supported types are: float64, float32, "
                                "int64, int32, uint8, and bool.")
            raise TypeError(f"can't convert np.ndarray of type {array.dtype.type}.")
        array = array.astype(TO_NUMPY[dt if dt >= 0 else code], order="C", copy=True)
        t = empty_of(array.shape, dt if dt >= 0 else code)
        fill_from(t, array)
        return t
    measure(data, shape, 0, &code)
    if code < 0:
        code = dt_.default_float()
    if dt < 0:
        dt = code
    t = empty_of(tuple(shape), dt)
    if t.n == 0:
        write(data, shape, 0, flat)
        return t
    write(data, shape, 0, flat)
    try:
        array = _np.array(flat, dtype=TO_NUMPY[dt]) if code != F32 or dt_.is_float(dt) else _np.array(flat, dtype=_np.float64).astype(TO_NUMPY[dt])
    except OverflowError:
        raise RuntimeError(f"value cannot be converted to type {dt_.of_code(dt).name} without overflow") from None
    fill_from(t, array)
    return t


cdef int fill_from(Tensor t, object array) except -1:
    """Copies a contiguous array of the tensor's dtype."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    backend.copy_bytes(t.ptr, view.buf, view.len)
    PyBuffer_Release(&view)
    return 0


def tensor(data, *, dtype=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """A new tensor with the values of `data`: numbers, nested sequences, arrays, tensors.

    dtype: inferred from the data if None (floats give the default dtype, integers int64).

    Raises:
        ValueError: the sequences are of uneven length.
    """
    cdef Tensor t, x
    cdef int code = dt_.code_of(dtype, -1)
    check_options(device, None, pin_memory)
    if isinstance(data, Tensor):
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).", UserWarning,
                      stacklevel=2)
        x = <Tensor>data
        t = empty_like(x, x.dt if code < 0 else code)
        copy_into(t, x)
    elif isinstance(data, float):
        t = empty(0, NULL, dt_.default_float() if code < 0 else code)
        fill_with(t, data)
    elif type(data) is int or type(data) is bool:
        if type(data) is int and not -(1 << 63) <= data < (1 << 63):
            raise RuntimeError("Overflow when unpacking long long")
        t = empty(0, NULL, (BOOL if type(data) is bool else I64) if code < 0 else code)
        fill_with(t, data)
    else:
        t = from_data(data, code)
    return finish(t, requires_grad)


def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, sharing memory with a tensor or array of the right dtype."""
    cdef int code = dt_.code_of(dtype, -1)
    geometry.require_cpu(device)
    if isinstance(data, Tensor):
        return data if code < 0 or (<Tensor>data).dt == code else data.to(dtype)
    if isinstance(data, _np.ndarray) and numpy_code(data.dtype) >= 0:
        t = from_numpy(data)
        return t if code < 0 else t.to(dtype)
    return from_data(data, code)


def asarray(obj, *, dtype=None, device=None, copy=None, bint requires_grad=False):
    """`obj` (tensor, array, DLPack capsule holder, buffer, numbers) as a tensor; copy=True copies always."""
    if not isinstance(obj, (Tensor, _np.ndarray)) and hasattr(obj, "__dlpack__"):
        obj = from_dlpack(obj)
    t = as_tensor(obj, dtype=dtype, device=device)
    if copy:
        t = t.detach().clone()
    elif copy is False and (not isinstance(obj, (Tensor, _np.ndarray)) or t.data_ptr() != as_tensor(obj).data_ptr()):
        raise ValueError("can't alias the given object")
    return finish(t.detach(), True) if requires_grad and not t.requires_grad else t


def scalar_tensor(value, *, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """A 0-dim tensor of the default float dtype, or of `dtype`."""
    return full((), value, dtype=dtype if dtype is not None else dt_.of_code(dt_.default_float()), device=device, requires_grad=requires_grad)


# ==== sizes ===========================================================================================
cdef Tensor sized(object size, object dtype, object device, object layout, bint pin_memory, object out, str op):
    cdef int64_t s[64]
    cdef int nd = parse_sizes(size, s) if size != () else 0, d
    check_options(device, layout, pin_memory)
    for d in range(nd):
        if s[d] < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {s[d]}: {[s[i] for i in range(nd)]}")
    if out is not None:
        if dtype is not None and dt_.code_of(dtype, 0) != (<Tensor?>out).dt:
            raise RuntimeError(f"dtype {dt_.of_code(dt_.code_of(dtype, 0)).name} does not match dtype of out parameter ({dt_.of_code((<Tensor>out).dt).name})")
        return <Tensor>out.resize_(make_size(nd, s))
    return empty(nd, s, dt_.code_of(dtype, dt_.default_float()))


def empty_(*size, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False, memory_format=None):
    """A tensor of a size, not initialised."""
    return finish(sized(size, dtype, device, layout, pin_memory, out, "empty"), requires_grad)

def zeros(*size, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """Zeros of a size, given as ints or one sequence."""
    cdef Tensor t = sized(size, dtype, device, layout, pin_memory, out, "zeros")
    fill_with(t, 0)
    return finish(t, requires_grad)

def ones(*size, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """Ones of a size, given as ints or one sequence."""
    cdef Tensor t = sized(size, dtype, device, layout, pin_memory, out, "ones")
    fill_with(t, 1)
    return finish(t, requires_grad)

def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """A tensor of a size filled with one value, whose type decides the dtype if none is given."""
    cdef Tensor t
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dt_.scalar_code(fill_value) < 0:
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type(fill_value).__name__}")
    if dtype is None and out is None:
        dtype = dt_.of_code(dt_.scalar_code(fill_value))
    t = sized((size,) if not isinstance(size, (tuple, list)) or len(size) else (), dtype, device, layout, pin_memory, out, "full")
    fill_with(t, fill_value)
    return finish(t, requires_grad)


cdef Tensor like(object input, object dtype, object device, object layout, object memory_format, str op):
    cdef Tensor x
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    x = <Tensor>input
    check_options(device, layout, False)
    if memory_format is geometry.contiguous_format:
        return empty(x.nd, x.sizes, dt_.code_of(dtype, x.dt))
    return empty_like(x, dt_.code_of(dtype, x.dt))

def empty_like_(input, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None, pin_memory=False):
    """A tensor of input's size and dtype, not initialised."""
    return finish(like(input, dtype, device, layout, memory_format, "empty_like"), requires_grad)

def zeros_like(input, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None, pin_memory=False):
    """Zeros of input's size and dtype."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, "zeros_like")
    fill_with(t, 0)
    return finish(t, requires_grad)

def ones_like(input, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None, pin_memory=False):
    """Ones of input's size and dtype."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, "ones_like")
    fill_with(t, 1)
    return finish(t, requires_grad)

def full_like(input, fill_value, *, dtype=None, layout=None, device=None, bint requires_grad=False, memory_format=None, pin_memory=False):
    """A tensor of input's size and dtype filled with one value."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, "full_like")
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    fill_with(t, fill_value)
    return finish(t, requires_grad)


def new_empty(self, *size, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """empty() with this tensor's dtype."""
    return empty_(*size, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)

def new_zeros(self, *size, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """zeros() with this tensor's dtype."""
    return zeros(*size, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)

def new_ones(self, *size, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """ones() with this tensor's dtype."""
    return ones(*size, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)

def new_full(self, size, fill_value, *, dtype=None, device=None, layout=None, bint requires_grad=False, bint pin_memory=False):
    """full() with this tensor's dtype."""
    return full(size, fill_value, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)

def new_tensor(self, data, *, dtype=None, device=None, bint requires_grad=False, layout=None, bint pin_memory=False):
    """tensor() with this tensor's dtype."""
    return tensor(data, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


def empty_strided_(size, stride, *, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """A tensor of given size and strides, not initialised."""
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int nd = parse_sizes((size,), s)
    if parse_sizes((stride,), st) != nd:
        raise RuntimeError("mismatch in length of strides and shape")
    check_options(device, layout, pin_memory)
    return finish(empty_strided(nd, s, st, dt_.code_of(dtype, dt_.default_float())), requires_grad)


# ==== ranges ==========================================================================================
cdef object number(object x):
    return x.item() if isinstance(x, Tensor) else x


def arange(start, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """start, start + step, ... before end; arange(end) starts at 0. Integers give int64.

    Raises:
        RuntimeError: step is zero or has the wrong sign.
    """
    cdef Record r
    cdef Tensor t
    cdef int code
    cdef int64_t n
    check_options(device, layout, pin_memory)
    if end is None:
        start, end = 0, start
    start, end, step = number(start), number(end), number(step)
    for v in (start, end, step):
        if dt_.scalar_code(v) < 0:
            raise TypeError(f"arange() received an invalid combination of arguments - got ({type(v).__name__})")
    whole = all([isinstance(v, int) or isinstance(v, _np.integer) for v in (start, end, step)])
    code = dt_.code_of(dtype, (<Tensor>out).dt if out is not None else I64 if whole else dt_.default_float())
    if code == BOOL:
        raise RuntimeError("\"arange_cpu\" not implemented for 'Bool'")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if start != start or end != end or abs(start) == float("inf") or abs(end) == float("inf"):
        raise RuntimeError(f"unsupported range: {float(start):g} -> {float(end):g}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if not dt_.is_float(code) and not whole:
        start, end, step = int(start), end, int(step)
        if step == 0:
            raise RuntimeError("step must be nonzero")
        n = <int64_t>ceil((<double>(int(end)) - <double>start) / <double>step)
    elif whole:
        n = (end - start + step - (1 if step > 0 else -1)) // step
    else:
        n = <int64_t>ceil((<double>end - <double>start) / <double>step)
    if out is not None:
        t = <Tensor>out.resize_((n,))
    else:
        t = empty(1, &n, code)
    begin(&r, K_arange, 0, 1, 0, code)
    set_arg(&r, 0, t)
    r.ndim = 1
    r.size[0] = n
    r.arg[0].stride[0] = 1
    r.reals[0], r.reals[1] = start, step
    if not dt_.is_float(code):
        r.ints[0], r.ints[1] = start, step
    backend.launch(&r)
    return finish(t, requires_grad)


def linspace(start, end, int64_t steps, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """`steps` evenly spaced values from start to end, both included."""
    cdef int code = dt_.code_of(dtype, (<Tensor>out).dt if out is not None else dt_.default_float())
    check_options(device, layout, pin_memory)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = number(start), number(end)
    # counted from both ends, so that the last value is exact
    cdef double step = (end - start) / (steps - 1) if steps > 1 else 0
    values = _np.empty(steps, _np.float64)
    half = steps // 2
    up = _np.arange(steps, dtype=_np.float64)
    work = _np.float32 if code == F32 else _np.float64
    step = float(work(step))
    values[:half] = start + step * up[:half]
    values[half:] = end - step * (steps - 1 - up[half:])
    if steps == 1:
        values[:] = start
    t = from_data(values.astype(TO_NUMPY[code]), code)
    if out is not None:
        return out.resize_((steps,)).copy_(t)
    return finish(<Tensor>t, requires_grad)


def eye(int64_t n, m=None, *, out=None, dtype=None, layout=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """Ones on the diagonal of an n by m matrix of zeros."""
    cdef int64_t cols = n if m is None else m
    if n < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {n}")
    if cols < 0:
        raise RuntimeError(f"m must be greater or equal to 0, got {cols}")
    t = zeros((n, cols), out=out, dtype=dtype, device=device, layout=layout)
    t.diagonal().fill_(1)
    return finish(<Tensor>t, requires_grad)


# ==== dtype queries =====================================================================================
def result_type(tensor1, tensor2):
    """dtype of an operation on two tensors or numbers."""
    from tensotron._autograd.elementwise import _result_type
    return _result_type(tensor1, tensor2)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor on the memory of an object that speaks DLPack."""
    from tensotron._core import dlpack
    return dlpack.from_dlpack(ext_tensor)


def numel(input):
    """Number of elements."""
    return (<Tensor?>input).n


def is_tensor(obj):
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input):
    """Whether the dtype of input is floating point."""
    return dt_.is_float((<Tensor?>input).dt)


empty_.__name__, empty_like_.__name__, empty_strided_.__name__ = "empty", "empty_like", "empty_strided"
for fn in (from_numpy, tensor, as_tensor, asarray, scalar_tensor, empty_, zeros, ones, full, empty_like_, zeros_like, ones_like, full_like,
           empty_strided_, arange, linspace, eye, result_type, from_dlpack, numel, is_tensor, is_floating_point):
    expose(fn)
for fn in (new_empty, new_zeros, new_ones, new_full, new_tensor):
    fn.__qualname__ = fn.__name__
    add_method(fn.__name__, fn)
