"""DLPack: exchange of memory with other libraries, versioned and not."""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport Storage, Tensor, add_method, alias, fix_storage, foreign_storage, set_geometry, tensor_over
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8

from enum import IntEnum

from tensotron._core import geometry

# The structures of the DLPack standard.
cdef extern from *:
    """
    #include <cstdint>
    struct DlTensor {
      void* data;
      struct { int32_t type, id; } device;
      int32_t ndim;
      struct { uint8_t code, bits; uint16_t lanes; } dtype;
      int64_t *shape, *strides;
      uint64_t byte_offset;
    };
    struct DlManaged {
      DlTensor tensor;
      void* context;
      void (*deleter)(DlManaged*);
    };
    struct DlManagedVersioned {
      struct { uint32_t major, minor; } version;
      void* context;
      void (*deleter)(DlManagedVersioned*);
      uint64_t flags;
      DlTensor tensor;
    };
    """
    ctypedef struct DlDevice "decltype(DlTensor::device)":
        int32_t type, id
    ctypedef struct DlType "decltype(DlTensor::dtype)":
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct DlVersion "decltype(DlManagedVersioned::version)":
        uint32_t major, minor
    ctypedef struct DlTensor:
        void* data
        DlDevice device
        int32_t ndim
        DlType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct DlManaged:
        DlTensor tensor
        void* context
        void (*deleter)(DlManaged*) noexcept
    ctypedef struct DlManagedVersioned:
        DlVersion version
        void* context
        void (*deleter)(DlManagedVersioned*) noexcept
        uint64_t flags
        DlTensor tensor

cdef extern from "Python.h":
    bint Py_IsInitialized() nogil

cdef enum:
    CPU_DEVICE = 1
    # type codes
    INT = 0
    UINT = 1
    FLOAT = 2
    BOOLEAN = 6
    FLAG_COPIED = 2

cdef int CODE[6]
CODE[:] = [FLOAT, FLOAT, INT, INT, UINT, BOOLEAN]


# ==== export ==========================================================================================
cdef void describe(DlTensor* out, Tensor t, int64_t* geometry_) noexcept:
    """Fills `out`; shape and strides go to the 2 * nd numbers of `geometry_`."""
    cdef int d
    backend.expose(t.storage.data)
    fix_storage(t)
    out.data = t.ptr if t.n else NULL
    out.device.type = CPU_DEVICE
    out.device.id = 0
    out.ndim = t.nd
    out.dtype.code = CODE[t.dt]
    out.dtype.bits = <uint8_t>(8 * backend.item_size(t.dt))
    out.dtype.lanes = 1
    out.shape = geometry_
    out.strides = geometry_ + t.nd
    out.byte_offset = 0
    for d in range(t.nd):
        out.shape[d] = t.sizes[d]
        out.strides[d] = 1 if t.sizes[d] < 2 else t.strides[d]


# A consumer may let go after the interpreter has ended: hence Py_IsInitialized.
cdef void release_exported(DlManaged* m) noexcept nogil:
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object>m.context)
    free(m)


cdef void release_exported_versioned(DlManagedVersioned* m) noexcept nogil:
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object>m.context)
    free(m)


cdef void capsule_gone(object capsule) noexcept:
    """A capsule nobody consumed."""
    cdef DlManaged* m
    if PyCapsule_IsValid(capsule, "dltensor"):
        m = <DlManaged*>PyCapsule_GetPointer(capsule, "dltensor")
        m.deleter(m)


cdef void versioned_capsule_gone(object capsule) noexcept:
    cdef DlManagedVersioned* m
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        m = <DlManagedVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        m.deleter(m)


cdef object export(Tensor t):
    cdef DlManaged* m = <DlManaged*>malloc(sizeof(DlManaged) + 2 * t.nd * sizeof(int64_t))
    if m == NULL:
        raise MemoryError()
    keeper = alias(t)
    describe(&m.tensor, t, <int64_t*>(m + 1))
    Py_INCREF(keeper)
    m.context = <void*>keeper
    m.deleter = <void (*)(DlManaged*) noexcept>release_exported
    return PyCapsule_New(m, "dltensor", capsule_gone)


cdef object export_versioned(Tensor t, bint copied):
    cdef DlManagedVersioned* m = <DlManagedVersioned*>malloc(sizeof(DlManagedVersioned) + 2 * t.nd * sizeof(int64_t))
    if m == NULL:
        raise MemoryError()
    keeper = alias(t)
    describe(&m.tensor, t, <int64_t*>(m + 1))
    m.version.major, m.version.minor = 1, 0
    m.flags = FLAG_COPIED if copied else 0
    Py_INCREF(keeper)
    m.context = <void*>keeper
    m.deleter = <void (*)(DlManagedVersioned*) noexcept>release_exported_versioned
    return PyCapsule_New(m, "dltensor_versioned", versioned_capsule_gone)


def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule of the tensor's memory.

    Raises:
        BufferError: the tensor requires grad.
    """
    cdef Tensor t = <Tensor?>self
    if t.requires():
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream is not None and stream != -1:
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and tuple(dl_device)[0] != CPU_DEVICE:
        raise BufferError("the tensor is on the CPU and cannot be exported to another device")
    if copy:
        t = <Tensor>t.clone()
    if max_version is not None and tuple(max_version)[0] >= 1:
        return export_versioned(t, bool(copy))
    return export(t)


def __dlpack_device__(self):
    """The CPU, number 0."""
    return DLDeviceType.kDLCPU, 0


class DLDeviceType(IntEnum):
    """Kinds of devices of the standard."""

    kDLCPU = 1
    kDLCUDA = 2


# ==== import ==========================================================================================
cdef class Foreign:
    """Holds another library's memory until the last tensor on it is gone."""
    cdef DlManaged* managed
    cdef DlManagedVersioned* versioned

    def __dealloc__(self):
        if self.managed != NULL and self.managed.deleter != NULL:
            self.managed.deleter(self.managed)
        if self.versioned != NULL and self.versioned.deleter != NULL:
            self.versioned.deleter(self.versioned)


cdef int code_of_type(DlType t) except -1:
    for code in range(6):
        if t.code == CODE[code] and t.bits == 8 * backend.item_size(code) and t.lanes == 1:
            return code
    raise NotImplementedError(f"DLPack type code {t.code} of {t.bits} bits and {t.lanes} lanes is not supported by tensotron")


cdef Tensor take(DlTensor* d, Foreign holder):
    cdef Tensor t
    cdef char* data = <char*>d.data + d.byte_offset
    cdef int64_t extent = 1
    cdef int k, code = code_of_type(d.dtype)
    if d.device.type != CPU_DEVICE:
        raise RuntimeError(f"Unsupported device_type: {d.device.type}")
    for k in range(d.ndim):
        if d.strides != NULL and d.strides[k] < 0 and d.shape[k] > 1:
            raise RuntimeError(f"Storage size calculation overflowed with sizes={[d.shape[i] for i in range(d.ndim)]} and "
                               f"strides={[d.strides[i] for i in range(d.ndim)]}")
    backend.uncapturable("a tensor is made on the memory of another library")
    t = tensor_over(foreign_storage(data, 0, holder), data, code)
    set_geometry(t, d.ndim, d.shape, d.strides)
    for k in range(d.ndim):
        extent += (t.sizes[k] - 1) * t.strides[k]
    t.storage.nbytes = extent * backend.item_size(code) if t.n else 0
    return t


cdef Tensor from_capsule(object capsule):
    cdef Foreign holder = Foreign()
    cdef DlManaged* m
    cdef DlManagedVersioned* v
    cdef Tensor t
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        v = <DlManagedVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if v.version.major > 1:
            raise BufferError(f"DLPack {v.version.major}.{v.version.minor} is not supported")
        t = take(&v.tensor, holder)
        holder.versioned = v
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        return t
    if not PyCapsule_IsValid(capsule, "dltensor"):
        raise RuntimeError("from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might "
                           "have already constructed a tensor from it once.")
    m = <DlManaged*>PyCapsule_GetPointer(capsule, "dltensor")
    t = take(&m.tensor, holder)
    holder.managed = m
    PyCapsule_SetName(capsule, "used_dltensor")
    return t


def from_dlpack(ext_tensor, device=None, copy=None):
    """A tensor on the memory of an object with `__dlpack__`, or of a capsule."""
    if device is not None:
        geometry.require_cpu(device)
    if not hasattr(ext_tensor, "__dlpack__"):
        return from_capsule(ext_tensor)
    if ext_tensor.__dlpack_device__()[0] != CPU_DEVICE:
        raise NotImplementedError("from_dlpack of memory that is not on the CPU is not supported by tensotron")
    options = {"max_version": (1, 0)}
    if copy is not None:
        options["copy"] = copy
    try:
        capsule = ext_tensor.__dlpack__(**options)
    except TypeError:  # an exporter of the standard before version 1
        options.pop("max_version")
        capsule = ext_tensor.__dlpack__(**options)
    return from_capsule(capsule)


def to_dlpack(tensor):
    """A DLPack capsule of the tensor's memory, without a version."""
    return export(<Tensor?>tensor)


FUNCTIONS = {"from_dlpack": from_dlpack, "to_dlpack": to_dlpack}
for fn in (from_dlpack, to_dlpack, __dlpack__, __dlpack_device__):
    fn.__qualname__ = fn.__name__
for fn in (__dlpack__, __dlpack_device__):
    add_method(fn.__name__, fn)
