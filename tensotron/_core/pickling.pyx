"""Storages as Python sees them, tensors made on a storage, copying and pickling of tensors."""
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport Storage, Tensor, add_method, inference_enabled, set_geometry
from tensotron._cpu cimport backend

import copy
from collections import OrderedDict

from tensotron._core import geometry
from tensotron._core.tensor import _make_subclass

cdef extern from *:
    """
    static inline bool tt_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }
    static inline bool tt_sum_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }
    """
    bint tt_overflows(int64_t a, int64_t b, int64_t* out)
    bint tt_sum_overflows(int64_t a, int64_t b, int64_t* out)

cdef extern from "Python.h":
    void PyType_Modified(PyTypeObject* t)
    ctypedef struct PyTypeWithDict "PyTypeObject":
        PyObject* tp_dict

UntypedStorage = Storage


# ==== storages ========================================================================================
cpdef Storage new_storage(object nbytes):
    """Memory of nbytes bytes, not initialised.

    Raises:
        RuntimeError: the size is negative or cannot be had.
    """
    if not 0 <= nbytes < 1 << 60:
        raise RuntimeError(f"a storage cannot have {nbytes} bytes")
    cdef Storage s = Storage.__new__(Storage)
    s.data = <char*>backend.alloc(nbytes, &s.capacity)
    s.nbytes = nbytes
    return s


cdef Storage duplicate(Storage s):
    cdef Storage out = new_storage(s.nbytes)
    backend.expose(s.data)
    memcpy(out.data, s.data, s.nbytes)
    return out


def nbytes(Storage self not None):
    """Size in bytes."""
    return self.nbytes


def clone(Storage self not None):
    """A copy of the memory."""
    return duplicate(self)


def tolist(Storage self not None):
    """The bytes, as ints."""
    return list(memoryview(self))


def storage_deepcopy(Storage self not None, memo):
    out = duplicate(self)
    memo[id(self)] = out
    return out


def storage_reduce(Storage self not None, protocol):
    return _storage_from_bytes, (bytes(memoryview(self)),)


def _storage_from_bytes(data):
    cdef Storage s = new_storage(len(data))
    memoryview(s)[:] = data
    return s


cdef int add_storage_method(str name, object fn) except -1:
    cdef PyTypeObject* t = <PyTypeObject*>Storage
    (<dict>(<PyTypeWithDict*>t).tp_dict)[name] = fn
    PyType_Modified(t)
    return 0

for name, fn in {
        "nbytes": nbytes, "size": nbytes, "clone": clone, "tolist": tolist, "__deepcopy__": storage_deepcopy,
        "__reduce_ex__": storage_reduce, "cpu": lambda self: self, "element_size": lambda self: 1,
        "device": property(lambda self: geometry.CPU), "is_cuda": False, "is_sparse": False,
        "__module__": "tensotron.storage", "__name__": "UntypedStorage"}.items():
    add_storage_method(name, fn)


# ==== tensors on a storage ============================================================================
cpdef Tensor tensor_on(Storage storage, dt_.dtype dtype, object offset, tuple size, tuple stride):
    """A tensor that sees `storage` from element `offset` on, with the sizes and strides given.

    Raises:
        RuntimeError: a negative or huge number, or elements outside of the storage.
    """
    cdef int64_t sizes[64]
    cdef int64_t strides[64]
    cdef int64_t first, last, step, width = dtype.itemsize, count = 1
    cdef int d, nd = len(size)
    cdef bint wrong = nd > 64 or len(stride) != nd, nothing = False
    cdef Tensor t
    if not wrong:
        for d in range(nd):
            if not 0 <= size[d] < 1 << 62 or not 0 <= stride[d] < 1 << 62:
                wrong = True
                break
            sizes[d], strides[d] = size[d], stride[d]
            nothing = nothing or sizes[d] == 0
            # of the other sizes, too: they are multiplied for strides
            wrong = tt_overflows(count, max(sizes[d], 1), &count) or count >= 1 << 60 or wrong
    if wrong or not 0 <= offset < 1 << 62:
        raise RuntimeError(f"sizes {list(size)}, strides {list(stride)} and storage offset {offset} describe no tensor")
    first = last = offset
    for d in range(nd):
        if nothing:
            break
        wrong = tt_overflows(sizes[d] - 1, strides[d], &step) or tt_sum_overflows(last, step, &last) or wrong
    wrong = wrong or tt_sum_overflows(last, not nothing, &last) or tt_overflows(last, width, &step)
    if wrong or step > <int64_t>storage.nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {width} requiring a "
            f"storage size of {step if not wrong else 'too many bytes'} are out of bounds for storage of size {storage.nbytes}")
    t = Tensor.__new__(Tensor)
    t.storage, t.dt = storage, dtype.code
    t.ptr = storage.data + first * width
    set_geometry(t, nd, sizes, strides)
    t.inference = inference_enabled()
    return t


# ==== copying and pickling ============================================================================
def tensor_deepcopy(self, memo):
    """The copy sees a copy of the whole storage, shared with the copies of other views of it."""
    cdef Tensor t = <Tensor?>self, out
    if t.grad_fn is not None:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
                           "the moment.  If you were attempting to deepcopy a module, this may be because of a "
                           "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001")
    if id(self) in memo:
        return memo[id(self)]
    out = tensor_on(copy.deepcopy(t.storage, memo), dt_.of_code(t.dt), t.storage_offset(), tuple(t.shape), t.stride())
    if type(self) is not Tensor:
        out = _make_subclass(type(self), out)
    out.leaf_grad = t.leaf_grad
    if t.grad_ is not None:
        out.grad_ = <Tensor?>copy.deepcopy(t.grad_, memo)
    attributes = vars(self)
    if attributes:
        vars(out).update(copy.deepcopy(attributes, memo))
    memo[id(self)] = out
    return out


def tensor_reduce(self, protocol):
    """Storage, offset, size and strides, as PyTorch's files have them. Hooks are not kept."""
    from tensotron import _utils
    from tensotron.storage import TypedStorage
    cdef Tensor t = <Tensor?>self
    args = (TypedStorage(wrap_storage=t.storage, dtype=dt_.of_code(t.dt)), t.storage_offset(), tuple(t.shape), t.stride(),
            t.requires(), OrderedDict())
    state = _utils._get_obj_state(self)
    if type(self) is Tensor and not state:
        return _utils._rebuild_tensor_v2, args
    return _utils._rebuild_from_type_v2, (_utils._rebuild_tensor_v2, type(self), args, state)


def typed_storage(self):
    """The storage, as elements of the tensor's dtype."""
    from tensotron.storage import TypedStorage
    cdef Tensor t = <Tensor?>self
    return TypedStorage(wrap_storage=t.storage, dtype=dt_.of_code(t.dt))


for name, fn in {"__deepcopy__": tensor_deepcopy, "__reduce_ex__": tensor_reduce, "_typed_storage": typed_storage}.items():
    fn.__name__ = fn.__qualname__ = name
    add_method(name, fn)
