# distutils: language = c++
"""Tensor, Storage and the base of graph nodes."""
cimport cython
from cpython.object cimport Py_EQ, PyObject, PyTypeObject
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_FillInfo
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_SET_ITEM
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.string cimport memcpy

from tensotron._core cimport dtype as dt_
from tensotron._core cimport ndarray as np_
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport (
    BOOL, F32, F64, I32, I64, MAX_ARGS, OK, U8, Arg, Iteration, Record, item_size)

import warnings
import weakref

from tensotron._core import geometry
from tensotron._core.dtype import TO_NUMPY
from tensotron._core.geometry import CPU, Size, strided

np_._import_array()

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    // initial-exec: two bytes of the space that the loader keeps for this, and no call to read them
    #define TT_THREAD static thread_local __attribute__((tls_model("initial-exec")))
    TT_THREAD bool tt_grad = true;
    TT_THREAD bool tt_inference = false;
    static inline bool tt_mul_overflow(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }
    """
    bint tt_mul_overflow(int64_t a, int64_t b, int64_t* out)
    bint tt_grad
    bint tt_inference
    enum: K_copy "tensotron::K_copy"
    enum: K_fill "tensotron::K_fill"

cdef extern from "Python.h":
    void PyType_Modified(PyTypeObject* t)
    void PyErr_Clear()
    bint PyLong_CheckExact(object o)
    int64_t PyLong_AsLongLong_ "PyLong_AsLongLong"(PyObject* o)
    PyObject* PyTuple_GET_ITEM_ "PyTuple_GET_ITEM"(PyObject* o, Py_ssize_t i)
    object PyType_GenericAlloc(PyTypeObject* t, Py_ssize_t n)
    ctypedef struct PyTypeWithDict "PyTypeObject":
        PyObject* tp_dict

cdef Hooks the_hooks
cdef backend.Watch* watch = backend.watch_state()
cdef const backend.Backend** active = backend.active()
cdef uint64_t sequence = 0
cdef type SizeType = Size


cdef Hooks* hooks() noexcept:
    return &the_hooks


cdef bint grad_enabled() noexcept:
    return tt_grad


cdef bint inference_enabled() noexcept:
    return tt_inference


cdef bint set_grad(bint on) noexcept:
    global tt_grad
    cdef bint before = tt_grad
    tt_grad = on
    return before


cdef bint set_inference(bint on) noexcept:
    global tt_inference
    cdef bint before = tt_inference
    tt_inference = on
    return before


include "shells.pxi"


# ==== storage ===================================================================================
@cython.no_gc
cdef class Storage:
    """Memory of one or more tensors."""

    def __dealloc__(self):
        if self.data != NULL and self.owner is None:
            active[0].release(self.data, self.capacity)

    def __getbuffer__(self, Py_buffer* view, int flags):
        backend.expose(self.data)
        PyBuffer_FillInfo(view, self, self.data, <Py_ssize_t>self.nbytes, 0, flags)

    def __len__(self):
        return self.nbytes

    def data_ptr(self):
        return <size_t>self.data


cdef int note_change(Tensor t) except -1:
    if t.storage.watched:
        watch.epoch += 1
    if watch.capturing:
        backend.note_change_of(t.storage)
    return 0


cdef int note_place(Tensor t) except -1:
    """Notes that a call that is captured depends on where in its storage an argument is."""
    t.storage.watched = True
    return 0


cdef int fix_storage(Tensor t) except -1:
    t.storage.fixed = True
    if type(t.storage.owner) is Storage:  # during a capture: stands for that one
        (<Storage>t.storage.owner).fixed = True
    return 0


cdef class VersionCounter:
    """Version of tensors that share memory but not history (`.data`)."""


cdef Storage new_storage(size_t nbytes):
    cdef Storage s = new_shell()
    s.data = <char*>active[0].alloc(nbytes, &s.capacity)
    if s.data == NULL:
        backend.refuse_memory(nbytes)
    s.nbytes = nbytes
    if watch.capturing:
        backend.note_storage(s)
    return s


# ==== geometry ==================================================================================
cdef int set_geometry(Tensor t, int nd, const int64_t* sizes, const int64_t* strides) except -1:
    """Copies shape and strides (null: row-major) into t; sets n and contiguous."""
    cdef int d
    cdef int64_t n = 1, expect
    if nd > INLINE_DIMS:
        if nd > 64:
            raise RuntimeError("tensors of more than 64 dimensions are not supported")
        room = bytearray(2 * nd * sizeof(int64_t))
        t.sizes = <int64_t*>PyByteArray_AS_STRING(room)
        t.strides = t.sizes + nd
        kept = t.heap_geometry  # `sizes` may point into it
        t.heap_geometry = room
    else:
        t.sizes = t.inline_geometry
        t.strides = t.inline_geometry + INLINE_DIMS
    t.nd = nd
    if strides == NULL:
        expect = 1  # an empty dimension counts as one in the strides
        for d in range(nd - 1, -1, -1):
            t.sizes[d] = sizes[d]
            t.strides[d] = expect
            n *= sizes[d]
            if sizes[d] > 1:
                expect *= sizes[d]
        t.contiguous = True
    else:
        expect = 1
        t.contiguous = True
        for d in range(nd - 1, -1, -1):
            t.sizes[d] = sizes[d]
            t.strides[d] = strides[d]
            if sizes[d] != 1:
                if strides[d] != expect:
                    t.contiguous = False
                expect *= sizes[d]
            n *= sizes[d]
        if n == 0:
            t.contiguous = True
    t.n = n
    return 0


cdef int64_t MOST = <int64_t>1 << 60  # elements of a tensor; as a literal it would be an int of Python's


cdef int64_t count(int nd, const int64_t* sizes) except -1:
    """Number of elements; their bytes must be countable, too."""
    cdef int64_t n = 1
    cdef bint overflow = False
    cdef int d
    for d in range(nd):
        if sizes[d] < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {sizes[d]}: {[sizes[i] for i in range(nd)]}")
        overflow = tt_mul_overflow(n, sizes[d], &n) or overflow
    if overflow and 0 in [sizes[i] for i in range(nd)]:
        return 0
    if overflow or n >= MOST:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={[sizes[i] for i in range(nd)]}")
    return n


cdef Tensor empty(int nd, const int64_t* sizes, int dt):
    cdef Tensor t = new_tensor()
    cdef int64_t n = 1, s
    cdef int d
    cdef bint odd = nd > INLINE_DIMS
    if not odd:
        t.sizes = t.inline_geometry
        t.strides = t.inline_geometry + INLINE_DIMS
        for d in range(nd - 1, -1, -1):
            s = sizes[d]
            t.sizes[d] = s
            t.strides[d] = n
            odd = odd or s < 1 or tt_mul_overflow(n, s, &n)
        t.nd = nd
        t.n = n
        t.contiguous = True
    if odd or n >= MOST:
        n = count(nd, sizes)
        set_geometry(t, nd, sizes, NULL)
    t.dt = dt
    t.storage = new_storage(n * item_size(dt))
    t.ptr = t.storage.data
    t.inference = tt_inference
    return t


cdef Tensor empty_strided(int nd, const int64_t* sizes, const int64_t* strides, int dt):
    cdef Tensor t = new_tensor()
    cdef int64_t extent = 1
    cdef int d
    if count(nd, sizes) == 0:
        extent = 0
    else:
        for d in range(nd):
            if strides[d] < 0:
                raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: "
                                   f"{[strides[i] for i in range(nd)]}")
            extent += (sizes[d] - 1) * strides[d]
    t.dt = dt
    t.storage = new_storage(extent * item_size(dt))
    t.ptr = t.storage.data
    set_geometry(t, nd, sizes, strides)
    t.inference = tt_inference
    return t


cdef bint is_dense(Tensor t) noexcept:
    """Whether the elements fill a block of memory, in whatever order of dimensions."""
    cdef int64_t expect = 1
    cdef uint64_t placed = 0
    cdef int d, left = 0
    for d in range(t.nd):
        left += t.sizes[d] > 1
    while left:
        for d in range(t.nd):
            if t.sizes[d] > 1 and t.strides[d] == expect and not placed >> d & 1:
                placed |= <uint64_t>1 << d
                expect *= t.sizes[d]
                left -= 1
                break
        else:
            return False
    return True


cdef bint row_major(Tensor t) noexcept:
    """Whether the strides are those of a new tensor, those of dimensions of size 1 included."""
    cdef int64_t expect = 1
    cdef int d
    for d in range(t.nd - 1, -1, -1):
        if t.strides[d] != expect:
            return False
        if t.sizes[d] > 1:
            expect *= t.sizes[d]
    return True


cdef bint dense_strides(Tensor t, int64_t* out) noexcept:
    """Strides for a new tensor like t, which is not row-major: t's own if t is dense, else t's order of dimensions
    packed. False if row-major will do."""
    cdef int order[64]
    cdef int i, j, k
    cdef int64_t n = 1
    if t.n == 0 or is_dense(t):
        memcpy(out, t.strides, t.nd * sizeof(int64_t))
        return True
    if t.nd < 2:
        return False
    for i in range(t.nd):
        order[i] = i
    # stable insertion sort, largest stride first; dimensions of stride 0 keep their place
    for i in range(1, t.nd):
        j = i
        while j > 0:
            k = order[j - 1]
            if t.strides[k] != 0 and t.strides[order[j]] != 0 and (
                    t.strides[k] < t.strides[order[j]] or
                    (t.strides[k] == t.strides[order[j]] and t.sizes[k] < t.sizes[order[j]])):
                order[j - 1] = order[j]
                order[j] = k
                j -= 1
            else:
                break
    for i in range(t.nd - 1, -1, -1):
        out[order[i]] = n
        n *= t.sizes[order[i]] if t.sizes[order[i]] > 1 else 1
    return True


cdef Tensor empty_like(Tensor t, int dt):
    cdef int64_t st[64]
    if (not t.contiguous or not row_major(t)) and dense_strides(t, st):
        return empty_strided(t.nd, t.sizes, st, dt)
    return empty(t.nd, t.sizes, dt)


cdef Tensor tensor_over(Storage s, char* ptr, int dt):
    cdef Tensor t = new_tensor()
    t.storage, t.ptr, t.dt = s, ptr, dt
    return t


cdef Storage foreign_storage(char* data, size_t nbytes, object owner):
    cdef Storage s = new_shell()
    s.data, s.nbytes, s.owner = data, nbytes, owner
    return s


cdef Tensor empty_of(object sizes, int dt):
    cdef int64_t s[64]
    cdef int nd = parse_sizes(sizes, s)
    return empty(nd, s, dt)


cdef Tensor alias(Tensor t):
    cdef Tensor v = new_tensor()
    v.storage = t.storage
    v.ptr = t.ptr
    v.dt = t.dt
    v.dev = t.dev
    v.counter = t.counter
    v.inference = t.inference
    if t.nd <= INLINE_DIMS:
        v.sizes = v.inline_geometry
        v.strides = v.inline_geometry + INLINE_DIMS
        memcpy(v.inline_geometry, t.inline_geometry, sizeof(t.inline_geometry))
        v.nd = t.nd
        v.n = t.n
        v.contiguous = t.contiguous
    else:
        set_geometry(v, t.nd, t.sizes, t.strides)
    return v


cdef Tensor as_view(Tensor t, int nd, const int64_t* sizes, const int64_t* strides, int64_t offset_delta):
    """Alias of t with other geometry, `offset_delta` elements further on. No bounds are checked."""
    cdef Tensor v = new_tensor()
    v.storage = t.storage
    v.ptr = t.ptr + offset_delta * item_size(t.dt)
    v.dt = t.dt
    v.dev = t.dev
    v.counter = t.counter
    v.inference = t.inference
    set_geometry(v, nd, sizes, strides)
    return v


cdef object make_size(int nd, const int64_t* v):
    cdef object s = PyType_GenericAlloc(<PyTypeObject*>SizeType, nd)
    cdef object item
    for d in range(nd):
        item = v[d]
        Py_INCREF(item)
        PyTuple_SET_ITEM(s, d, item)
    return s


cdef object shape_of(Tensor t):
    return make_size(t.nd, t.sizes)


cdef int parse_sizes(object args, int64_t* out) except -1:
    """A sequence of ints, or a tuple holding one such sequence, into out; the number of dimensions."""
    cdef int nd = 0
    if not isinstance(args, (tuple, list)):
        if isinstance(args, Tensor) or not hasattr(args, "__len__"):
            args = (args,)
        else:
            args = tuple(args)
    if len(args) == 1 and not isinstance(args[0], int):
        first = args[0]
        if isinstance(first, (tuple, list)) or (hasattr(first, "__len__") and getattr(first, "ndim", 1) != 0):
            args = first
    if len(args) > 64:
        raise RuntimeError("tensors of more than 64 dimensions are not supported")
    for a in args:
        if isinstance(a, float):
            raise TypeError(f"'float' object cannot be interpreted as an integer")
        out[nd] = a if isinstance(a, int) else a.__index__()
        nd += 1
    return nd


cdef int wrap_dim(int64_t dim, int nd) except -1:
    cdef int limit = nd if nd > 0 else 1
    if dim < -limit or dim >= limit:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return <int>(dim + limit if dim < 0 else dim)


cdef Tensor as_tensor(object x, str what):
    if not isinstance(x, Tensor):
        raise TypeError(f"{what} must be Tensor, not {type(x).__name__}")
    return <Tensor>x


# ==== launches ==================================================================================
cdef inline bint one_element(Tensor t) noexcept:
    """Whether all of t is one element, expanded."""
    cdef int d
    for d in range(t.nd):
        if t.strides[d] != 0 and t.sizes[d] != 1:
            return False
    return True


cdef int copy_into(Tensor dst, Tensor src) except -1:
    cdef Record r
    cdef Iteration it
    begin(&r, K_copy, 0, 1, 1, dst.dt)
    set_arg(&r, 0, dst)
    set_arg(&r, 1, src)
    if dst.contiguous and (src.n == 1 or (same_shape(src, dst) and (src.contiguous or one_element(src)))):
        r.ndim = 1
        r.size[0] = dst.n
        r.arg[0].stride[0] = 1
        r.arg[1].stride[0] = src.n != 1 and src.contiguous
        return backend.launch(&r)
    it.begin(dst.nd, dst.sizes)
    it.operand(dst.nd, dst.sizes, dst.strides)
    it.operand(src.nd, src.sizes, src.strides)
    it.simplify(True)
    backend.launch_over(&r, it)
    return 0


cdef double FLOAT_MAX = 3.4028234663852886e38
cdef list SCALAR_NAMES = ["float", "double", "int64_t", "int", "uint8_t", "bool"]


cdef int scalar_overflow(int dt) except -1:
    raise RuntimeError(f"value cannot be converted to type {SCALAR_NAMES[dt]} without overflow")


cdef int refuse_huge(object value) except -1:
    """Integers that no integer dtype holds."""
    cdef int beyond = 0
    if isinstance(value, int):
        PyLong_AsLongLongAndOverflow(value, &beyond)
        if beyond and not 0 < value < 1 << 64:
            raise OverflowError("int too big to convert" if value > 0 else "can't convert negative int to unsigned")
    return 0


cdef double as_real(object value, int dt) except? -1:
    """A number as an element of a float dtype."""
    refuse_huge(value)
    cdef double v = value
    if dt == F32 and (v > FLOAT_MAX or v < -FLOAT_MAX) and v - v == 0:
        scalar_overflow(F32)
    return v


cdef int64_t as_integer(object value, int dt) except? -1:
    """A number as an element of an integer dtype; unsigned ones take negative integers, which wrap."""
    refuse_huge(value)
    cdef double v
    cdef int64_t least, most
    if dt == BOOL:
        return 1 if value else 0
    least, most = (-0x7fffffffffffffff - 1, 0x7fffffffffffffff) if dt == I64 else (-0x80000000, 0x7fffffff) if dt == I32 else (0, 255)
    if isinstance(value, int):
        if not (-most if dt == U8 else least) <= value <= most:
            scalar_overflow(dt)
        return <uint8_t>(<int64_t>value) if dt == U8 else <int64_t>value
    v = value
    if not (v >= least and v <= most) or (dt == I64 and v >= 9223372036854775808.0):
        scalar_overflow(dt)
    return <int64_t>v


cdef object as_element(object value, int dt):
    """A number, or one in a tensor, as an element of the dtype."""
    if isinstance(value, Tensor):
        value = value.item()
    if dt_.is_float(dt):
        return as_real(value, dt)
    return as_integer(value, dt) != 0 if dt == BOOL else as_integer(value, dt)


cdef int fill_with(Tensor dst, object value) except -1:
    cdef Record r
    cdef Iteration it
    begin(&r, K_fill, 0, 1, 0, dst.dt)
    set_arg(&r, 0, dst)
    if dt_.is_float(dst.dt):
        r.reals[0] = as_real(value, dst.dt)
    else:
        r.ints[0] = as_integer(value, dst.dt)
    it.begin(dst.nd, dst.sizes)
    it.operand(dst.nd, dst.sizes, dst.strides)
    it.simplify(True)
    backend.launch_over(&r, it)
    return 0


cdef int fill_number(Tensor dst, double value) except -1:
    cdef Record r
    begin(&r, K_fill, 0, 1, 0, dst.dt)
    set_arg(&r, 0, dst)
    r.reals[0] = value
    r.ndim = 1
    r.size[0] = dst.n
    r.arg[0].stride[0] = 1
    return backend.launch(&r)


cdef Tensor contiguous(Tensor t):
    cdef Tensor out
    if t.contiguous:
        return t
    out = empty(t.nd, t.sizes, t.dt)
    copy_into(out, t)
    return out


cdef Tensor cast(Tensor t, int dt):
    cdef Tensor out
    if t.dt == dt:
        return t
    out = empty_like(t, dt)
    copy_into(out, t)
    return out


cdef Tensor materialise(Tensor t, int dt):
    cdef Tensor out
    if t.contiguous and t.dt == dt:
        return t
    out = empty(t.nd, t.sizes, dt)
    copy_into(out, t)
    return out


cdef void set_operand(Record* r, int k, Tensor t, int compute) noexcept:
    cdef int d
    if t is None:
        r.arg[k].data = NULL
        r.arg[k].buffer = NULL
        r.arg[k].dtype = compute
        r.arg[k].is_const = 0
        return
    set_arg(r, k, t)
    if t.nd <= 8:
        for d in range(t.nd):
            r.arg[k].stride[d] = t.strides[d]
            if k == 0:
                r.size[d] = t.sizes[d]
        if k == 0:
            r.ndim = t.nd


cdef int run(int kernel, int op, tuple outs, tuple ins, tuple ints, tuple reals, int compute) except -1:
    """Launches a kernel on operands whose geometry its parameters describe. Operands of at most 8
    dimensions also pass their own strides; None leaves an argument null."""
    cdef Record r
    cdef int k = 0
    begin(&r, kernel, op, len(outs), len(ins), compute)
    r.ndim = 0
    for group in (outs, ins):
        for x in group:
            set_operand(&r, k, <Tensor>x, compute)
            k += 1
    for k in range(len(ints)):
        r.ints[k] = ints[k]
    for k in range(len(reals)):
        r.reals[k] = reals[k]
    backend.launch(&r)
    return 0


cdef object item_of(Tensor t):
    cdef double f64
    cdef float f32
    cdef int64_t i64
    cdef int i32
    cdef uint8_t u8
    if t.n != 1:
        raise RuntimeError(f"a Tensor with {t.n} elements cannot be converted to Scalar")
    if t.dt == F32:
        backend.copy_bytes(&f32, t.ptr, 4)
        return <double>f32
    if t.dt == F64:
        backend.copy_bytes(&f64, t.ptr, 8)
        return f64
    if t.dt == I64:
        backend.copy_bytes(&i64, t.ptr, 8)
        return i64
    if t.dt == I32:
        backend.copy_bytes(&i32, t.ptr, 4)
        return i32
    backend.copy_bytes(&u8, t.ptr, 1)
    return u8 != 0 if t.dt == BOOL else u8


include "graph.pxi"
include "methods.pxi"
include "type_setup.pxi"
