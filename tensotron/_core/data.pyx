"""Tensors from Python data, numpy arrays and buffers."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_STRIDED_RO, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.float cimport PyFloat_AsDouble
from cpython.sequence cimport PySequence_Check
from libc.float cimport FLT_MAX
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from tensotron._core cimport dtype as dt_
from tensotron._core cimport ndarray as np_
from tensotron._core.arguments cimport dtype_arg, size_args
from tensotron._core.creation cimport check_options, finish
from tensotron._core.tensor cimport (
    Storage, Tensor, add_method, alias, copy_into, empty, empty_like, fill_with, foreign_storage, item_of, record, set_geometry,
    shape_of, tensor_over)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8

import warnings

import numpy as _np

from tensotron._core import geometry
from tensotron._core.arguments import invalid, kind
from tensotron._core.dlpack import from_dlpack
from tensotron._core.dtype import TO_NUMPY, numpy_code, set_default_dtype

np_._import_array()
FUNCTIONS = {}

KNOWN = ("float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool")
cdef set said = set()  # warnings that PyTorch gives once


cdef object expose(object fn):
    fn.__qualname__ = fn.__name__
    FUNCTIONS[fn.__name__] = fn
    return fn


cdef int warn_once(str text) except -1:
    if text not in said:
        said.add(text)
        warnings.warn(text, UserWarning, stacklevel=3)
    return 0


# ==== numpy ===========================================================================================
cdef int array_code(object dtype) except -1:
    """dtype of an array's elements. NotImplementedError for those that only PyTorch has."""
    cdef int code = numpy_code(dtype)
    if code >= 0:
        return code
    if not dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order. Conversion between byte orders is "
                         "currently not supported.")
    if dtype.name in KNOWN.replace("and ", "").split(", "):
        raise NotImplementedError(f"dtype {dtype.name} is not supported by tensotron")
    raise TypeError(f"can't convert np.ndarray of type {kind(dtype.type)}. The only supported types are: {KNOWN}.")


cdef Tensor foreign(char* data, size_t nbytes, object owner, int code):
    """A tensor on memory that `owner` keeps; its geometry is still to be set."""
    backend.uncapturable("a tensor is made on the memory of numpy or of another library")
    return tensor_over(foreign_storage(data, nbytes, owner), data, code)


cdef int native_code(np_.Array* a) noexcept:
    """dtype of the elements of an array, -1 for those that take a closer look."""
    cdef int kind = np_.PyArray_TYPE(a)
    if not np_.PyArray_ISNOTSWAPPED(a):
        return -1
    if kind == np_.NPY_FLOAT:
        return F32
    if kind == np_.NPY_DOUBLE:
        return F64
    if kind == np_.NPY_INT64:
        return I64
    if kind == np_.NPY_INT32:
        return I32
    if kind == np_.NPY_UINT8:
        return U8
    return BOOL if kind == np_.NPY_BOOL else -1


cdef Tensor share(object array, bint warn):
    """A tensor on the memory of an array."""
    cdef np_.Array* a = <np_.Array*><void*>array
    cdef Tensor t
    cdef int d, nd = np_.PyArray_NDIM(a), code = native_code(a)
    cdef np_.npy_intp* strides = np_.PyArray_STRIDES(a)
    cdef np_.npy_intp* sizes = np_.PyArray_DIMS(a)
    cdef int64_t st[64]
    cdef int64_t size, extent
    if code < 0 or (warn and not np_.PyArray_ISWRITEABLE(a)):
        return share_odd(array, warn)
    size = extent = backend.item_size(code)
    for d in range(nd):
        if strides[d] < 0 or strides[d] % size:
            return share_odd(array, warn)
        st[d] = strides[d] // size
        if sizes[d]:
            extent += (sizes[d] - 1) * strides[d]
        else:
            return share_odd(array, warn)
    t = foreign(<char*>np_.PyArray_DATA(a), extent, array, code)
    set_geometry(t, nd, <int64_t*>sizes, st)
    return t


cdef Tensor share_odd(object array, bint warn):
    """The same for any array, with what there is to say about it."""
    cdef Tensor t
    cdef Py_buffer view
    cdef int code, d
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef size_t extent
    code = array_code(array.dtype)
    strides = array.strides  # those of the buffer differ where there are no elements
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    try:
        extent = view.itemsize
        for d in range(view.ndim):
            s[d] = view.shape[d]
            if strides[d] < 0:
                raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                                 "currently supported. (You can probably work around this by making a copy of your array  with "
                                 "array.copy().) ")
            if strides[d] % view.itemsize:
                raise ValueError("given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate "
                                 "the memory.")
            st[d] = strides[d] // view.itemsize
            if s[d]:
                extent += (s[d] - 1) * <int64_t>strides[d]
        if not array.flags.writeable and warn:
            warn_once(f"The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to "
                      "this tensor will result in undefined behavior. You may want to copy the array to protect its data or make it "
                      "writable before converting it to a tensor. This type of warning will be suppressed for the rest of this program.")
        t = foreign(<char*>view.buf, extent if array.size else 0, array, code)
        set_geometry(t, view.ndim, s, st)
    finally:
        PyBuffer_Release(&view)
    return t


def from_numpy(array):
    """A tensor on the array's memory.

    Raises:
        TypeError: not an ndarray, or its dtype has no counterpart.
        ValueError: a stride is negative or no multiple of the element size.
    """
    if not isinstance(array, _np.ndarray):
        raise TypeError(f"expected np.ndarray (got {kind(array)})")
    return share(array, True)


# ==== nested sequences ================================================================================
cdef bint is_leaf(object x):
    """Whether x is one element: no sequence, or a tensor."""
    return isinstance(x, (float, int, Tensor, _np.generic)) or not PySequence_Check(x)


cdef list measure(object data):
    """Shape of nested sequences, by the first element of each."""
    cdef list shape = []
    while not is_leaf(data):
        shape.append(len(data))
        if len(shape) > 64:
            raise ValueError(f"too many dimensions '{kind(data)}'")
        if shape[len(shape) - 1] == 0:
            break
        data = data[0]
        if isinstance(data, (str, bytes)):
            raise ValueError(f"too many dimensions '{kind(data)}'")
    return shape


cdef int infer(object data) except -1:
    """dtype that holds all elements."""
    cdef int code = -1, c
    if isinstance(data, Tensor):
        return (<Tensor>data).dt
    if isinstance(data, (_np.ndarray, _np.generic)):
        return array_code(data.dtype)
    if isinstance(data, float):
        return dt_.default_float()
    if isinstance(data, bool):
        return BOOL
    if isinstance(data, int):
        return I64
    if isinstance(data, complex):
        raise NotImplementedError("complex tensors are not supported by tensotron")
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind(data)}'")
    if not PySequence_Check(data):
        raise RuntimeError(f"Could not infer dtype of {kind(data)}")
    if len(data) == 0:
        return dt_.default_float()
    for x in data:
        c = infer(x)
        code = c if code < 0 else dt_.promote(code, c)
    return code


cdef int64_t whole(object x, int64_t least, int64_t most, str name) except? -1:
    """x as an integer of the dtype `name`."""
    cdef double v
    if isinstance(x, float):
        v = x
        # beyond 2^63 - 513 the comparison would be with a rounded bound
        if not (v >= least and v <= most) or (most > 1 << 53 and v >= 9223372036854775808.0):
            raise RuntimeError(f"value cannot be converted to type {name} without overflow")
        return <int64_t>v
    if not hasattr(x, "__index__"):
        refuse_index(x)
    i = x.__index__()
    if not -(1 << 63) <= i < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    if not (least if least < 0 else -most) <= i <= most:
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return <int64_t>i


cdef int64_t LEAST = <int64_t>(<uint64_t>1 << 63)


cdef int refuse_index(object x) except -1:
    raise TypeError(f"'{kind(x)}' object cannot be interpreted as an integer")


cdef int store(char* p, int dt, object x) except -1:
    """One element."""
    if isinstance(x, Tensor):
        if (<Tensor>x).n != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        if not dt_.is_float(dt) and dt != BOOL and dt_.is_float((<Tensor>x).dt):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        if (<Tensor>x).requires():
            warn_once("Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using "
                      "tensor.detach() first.")
        x = item_of(<Tensor>x)
    if dt == F32:
        (<float*>p)[0] = <float>PyFloat_AsDouble(x)
    elif dt == F64:
        (<double*>p)[0] = PyFloat_AsDouble(x)
    elif dt == I64:
        (<int64_t*>p)[0] = whole(x, LEAST, 0x7fffffffffffffff, "int64")
    elif dt == I32:
        (<int32_t*>p)[0] = <int32_t>whole(x, -0x80000000, 0x7fffffff, "int32")
    elif dt == U8:
        (<uint8_t*>p)[0] = <uint8_t>whole(x, 0, 255, "uint8")
    else:
        if not isinstance(x, (float, int)) and PySequence_Check(x):
            refuse_index(x)
        (<uint8_t*>p)[0] = 1 if x else 0
    return 0


cdef char* write(char* p, int dt, object data, list shape, int depth) except NULL:
    """Stores the elements in order, checking that the nesting is even; the place after the last."""
    cdef int64_t n
    if depth == len(shape):
        store(p, dt, data)
        return p + backend.item_size(dt)
    if not isinstance(data, (list, tuple)):
        if isinstance(data, Tensor) or not hasattr(data, "__iter__") and not PySequence_Check(data):
            raise TypeError("not a sequence")
        if isinstance(data, _np.ndarray):
            if depth:
                warn_once("Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a "
                          "single numpy.ndarray with numpy.array() before converting to a tensor.")
            data = data.tolist()
        else:
            data = list(data)
    n = shape[depth]
    if len(data) != n:
        raise ValueError(f"expected sequence of length {n} at dim {depth} (got {len(data)})")
    for x in data:
        p = write(p, dt, x, shape, depth + 1)
    return p


cdef Tensor from_data(object data, int dt):
    """dt < 0: inferred."""
    cdef list shape
    cdef int64_t s[64]
    cdef int d
    cdef Tensor t, source
    cdef char* buffer
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind(data)}'")
    if isinstance(data, (_np.ndarray, _np.generic)):
        array = _np.asarray(data)
        if dt >= 0 and numpy_code(array.dtype) < 0 and array.dtype.isnative and array.dtype.kind in "iuf":
            array = array.astype(TO_NUMPY[dt])
        source = share(array, False)
        t = empty_like(source, source.dt if dt < 0 else dt)
        copy_into(t, source)
        return t
    shape = measure(data)
    if dt < 0:
        dt = infer(data)
    for d in range(len(shape)):
        s[d] = shape[d]
    t = empty(len(shape), s, dt)
    if t.n == 0:
        return t
    buffer = <char*>malloc(t.n * backend.item_size(dt))
    if buffer == NULL:
        raise MemoryError()
    try:
        write(buffer, dt, data, shape, 0)
        backend.copy_bytes(t.ptr, buffer, t.n * backend.item_size(dt))
    finally:
        free(buffer)
    return t


cdef Tensor from_anything(object data, int code, str instead):
    cdef Tensor t, x
    if isinstance(data, Tensor):
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      f"sourceTensor.detach().clone().requires_grad_(True), rather than {instead}(sourceTensor).", UserWarning,
                      stacklevel=2)
        x = <Tensor>data
        t = empty_like(x, x.dt if code < 0 else code)
        copy_into(t, x)
        return t
    return from_data(data, code)


def tensor(data, *, dtype=None, device=None, bint requires_grad=False, bint pin_memory=False):
    """A new tensor with the values of `data`: numbers, nested sequences, arrays, tensors.

    dtype: inferred from the data if None (floats give the default dtype, integers int64).

    Raises:
        ValueError: the sequences are of uneven length.
    """
    cdef int code = dtype_arg(dtype, "tensor", -1)
    check_options(device, None, pin_memory)
    return finish(from_anything(data, code, "torch.tensor"), requires_grad)


def new_tensor(self, data, *, dtype=None, device=None, bint requires_grad=False, layout=None, bint pin_memory=False):
    """tensor() with this tensor's dtype."""
    check_options(device, layout, pin_memory)
    return finish(from_anything(data, dtype_arg(dtype, "new_tensor", (<Tensor?>self).dt), "tensor.new_tensor"), requires_grad)


cdef object aliased(object data, int code):
    """`data` as a tensor on the same memory if it has any."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, _np.ndarray) and (code < 0 or numpy_code(data.dtype) >= 0):
        return share(data, True)
    return from_data(data, code)


def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, sharing memory with a tensor or array of the right dtype."""
    cdef int code = dtype_arg(dtype, "as_tensor", -1)
    check_options(device, None, False)
    t = aliased(data, code)
    return t if code < 0 or (<Tensor>t).dt == code else t.to(dtype)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """`obj` (tensor, array, object with DLPack or a buffer, numbers) as a tensor. copy: always, never (False)
    or only if needed (None).

    Raises:
        ValueError: copy=False and the memory cannot be shared.
    """
    cdef int code = dtype_arg(dtype, "asarray", -1)
    cdef Tensor t
    cdef bint sequence = False
    check_options(device, None, False)
    if isinstance(obj, Tensor):
        t = <Tensor>obj
    elif isinstance(obj, _np.ndarray):
        t = share(obj, True)
    elif hasattr(obj, "__dlpack__") and not isinstance(obj, _np.generic):
        t = <Tensor>from_dlpack(obj)
    elif PyObject_CheckBuffer(obj) and not isinstance(obj, _np.generic):
        t = <Tensor>frombuffer(obj, dtype=dtype if dtype is not None else dt_.of_code(dt_.default_float()))
    else:
        t = from_data(obj, code)
        sequence = True
    if sequence:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return finish(t, bool(requires_grad))
    if code >= 0 and t.dt != code:
        if copy is False:
            raise ValueError(f"can't alias tensor with dtype '{TITLES[t.dt]}' into dtype '{TITLES[code]}'.")
        t = <Tensor>t.to(dtype)
    elif copy:
        t = <Tensor>t.clone()
    if requires_grad is None:
        if isinstance(obj, Tensor) and (<Tensor>obj).requires():
            warn_once("torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
                      "requires_grad=False explicitly to get the old behavior and silence this warning.")
        return t
    if not requires_grad:
        return t.detach() if t.requires() else t
    return t if t.requires() else finish(t if t is not obj else alias(t), True)

TITLES = ("Float", "Double", "Long", "Int", "Byte", "Bool")


def frombuffer(buffer, *, dtype, int64_t count=-1, int64_t offset=0, bint requires_grad=False):
    """A 1-d tensor on the memory of an object with Python's buffer protocol; count=-1: all of it from `offset` bytes on.

    Raises:
        ValueError: the buffer is too short, or no whole number of elements.
    """
    cdef int code = dtype_arg(dtype, "frombuffer", -1)
    cdef Py_buffer view
    cdef int64_t n, size = backend.item_size(code), length
    cdef Tensor t
    if not PyObject_CheckBuffer(buffer):
        raise ValueError("object does not implement Python buffer protocol.")
    try:
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    except BufferError:
        warn_once("The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can write to the "
                  "underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer to protect its data or "
                  "make it writable before converting it to a tensor. This type of warning will be suppressed for the rest of this "
                  "program.")
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    length = view.len
    data = <char*>view.buf
    PyBuffer_Release(&view)
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if offset < 0 or offset >= length:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1")
    if count < 0:
        if (length - offset) % size:
            raise ValueError(f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
                             f"({size})")
        n = (length - offset) // size
    else:
        n = count
        if offset + n * size > length:
            raise ValueError(f"requested buffer length ({n} * {size} bytes) after offset ({offset} bytes) must not be greater than "
                             f"actual buffer length ({length} bytes)")
    # a memoryview keeps the buffer from being resized
    t = foreign(data + offset, n * size, memoryview(buffer), code)
    set_geometry(t, 1, &n, NULL)
    return finish(t, requires_grad)


# ==== torch.Tensor(...), torch.LongTensor(...), tensor.new(...) =======================================
LEGACY = ("*, torch.device device = None", "torch.Storage storage", "Tensor other", "tuple of ints size, *, torch.device device = None",
          "object data, *, torch.device device = None")


def _same_backward(node, g):
    return g


def legacy(int dt, bint any_dtype, tuple args, dict kwargs):
    """Sizes, or data, or a tensor that is aliased (`any_dtype`: even if it is of another dtype)."""
    cdef int64_t s[64]
    cdef int nd
    cdef Tensor x, t
    if set(kwargs) - {"device", "size", "data", "other", "storage"}:
        raise invalid("new", args, kwargs, *LEGACY)
    device = kwargs.get("device")
    if device is not None and geometry.device(device).type != "cpu":
        raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {geometry.device(device).type} was passed")
    for name in ("data", "other", "storage", "size"):
        if name in kwargs:
            args = (*args, kwargs[name])
    if not args:
        s[0] = 0
        return empty(1, s, dt)
    if len(args) == 1:
        first = args[0]
        if isinstance(first, Tensor):
            x = <Tensor>first
            if x.dt != dt and not any_dtype:
                raise TypeError(f"expected {OPTIONS.format(C_NAMES[dt])}) (got {OPTIONS.format(C_NAMES[x.dt])}))")
            return record(alias(x), "AliasBackward0", _same_backward, (x,), None, None)
        if isinstance(first, Storage):
            t = tensor_over(<Storage>first, (<Storage>first).data, dt)
            s[0] = (<Storage>first).nbytes // backend.item_size(dt)
            set_geometry(t, 1, s, NULL)
            return t
        if isinstance(first, (str, bytes)):
            raise TypeError(f"new(): invalid data type '{kind(first)}'")
        if not isinstance(first, geometry.Size) and not hasattr(first, "__index__") or (isinstance(first, _np.ndarray) and first.ndim):
            if isinstance(first, _np.generic) or not PySequence_Check(first):
                raise TypeError(f"new(): data must be a sequence (got {kind(first)})")
            return from_data(first, dt)
    elif isinstance(args[0], (tuple, list)):
        raise invalid("new", args, kwargs, *LEGACY)
    nd = size_args("new", args, None, s)
    return empty(nd, s, dt)

C_NAMES = ("float", "double", "long int", "int", "unsigned char", "bool")
OPTIONS = ("TensorOptions(dtype={}, device=cpu, layout=Strided, requires_grad=false (default), pinned_memory=false (default), "
           "memory_format=(nullopt)")


def new(self, *args, **kwargs):
    """torch.Tensor(...) with this tensor's dtype."""
    return legacy((<Tensor?>self).dt, False, args, kwargs)


class TensorType(type):
    """Type of torch.FloatTensor and its like: makes tensors of one dtype, and knows them."""

    def __call__(cls, *args, **kwargs):
        return legacy((<dt_.dtype>cls.dtype).code, False, args, kwargs)

    def __instancecheck__(cls, x):
        return isinstance(x, Tensor) and x.dtype is cls.dtype

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"


for code, name in enumerate(("FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor")):
    FUNCTIONS[name] = TensorType(name, (), {
        "dtype": dt_.of_code(code), "layout": geometry.strided, "is_cuda": False, "is_sparse": False, "__module__": "torch",
        "__doc__": f"{name}(sizes or data): a tensor of dtype {dt_.of_code(code)}."})


def is_storage(obj):
    """Whether obj is the memory of tensors."""
    return isinstance(obj, Storage)


def set_default_tensor_type(t):
    """Sets the default dtype by a type, such as torch.DoubleTensor, or its name."""
    warn_once("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
              "torch.set_default_device() as alternatives.")
    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        if module not in ("torch", "tensotron"):
            raise ModuleNotFoundError(f"No module named '{module or name}'")
        if name not in FUNCTIONS:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        t = FUNCTIONS[name]
    if not isinstance(t, TensorType):
        raise TypeError("invalid type object")
    set_default_dtype(t.dtype)


for fn in (from_numpy, tensor, as_tensor, asarray, frombuffer, is_storage, set_default_tensor_type):
    expose(fn)
for fn in (new, new_tensor):
    fn.__qualname__ = fn.__name__
    add_method(fn.__name__, fn)
