"""Storages: the memory of tensors, as bytes (UntypedStorage) or as elements of a dtype (TypedStorage)."""

import copy

from tensotron._core import dtype as _dtype
from tensotron._core.geometry import CPU
from tensotron._core.pickling import UntypedStorage, _storage_from_bytes, new_storage, tensor_on

__all__ = ["TypedStorage", "UntypedStorage"]


class TypedStorage:
    """A storage seen as elements of one dtype: the form in which files mention it.

    TypedStorage(n) or FloatStorage(n) has n elements, not initialised; wrap_storage= sees existing memory.
    """

    dtype = None

    def __init__(self, size=0, *, wrap_storage=None, dtype=None):
        self.dtype = dtype or self.dtype or _dtype.get_default_dtype()
        if wrap_storage is None:
            wrap_storage = new_storage(size * self.dtype.itemsize)
        self._untyped_storage = wrap_storage

    device = property(lambda self: CPU)
    is_cuda = is_sparse = False

    def untyped(self):
        """The same memory as bytes."""
        return self._untyped_storage

    def nbytes(self):
        """Size in bytes."""
        return self._untyped_storage.nbytes()

    def size(self):
        """Number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = _size = size

    def element_size(self):
        """Bytes of an element."""
        return self.dtype.itemsize

    def data_ptr(self):
        """Address of the memory."""
        return self._untyped_storage.data_ptr()

    def _tensor(self):
        return tensor_on(self._untyped_storage, self.dtype, 0, (self.size(),), (1,))

    def tolist(self):
        """The elements as a list of numbers."""
        return self._tensor().tolist()

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise NotImplementedError("slices of a storage are not supported by tensotron; slice a tensor")
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        self._tensor()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def fill_(self, value):
        """Sets every element; returns the storage."""
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """Takes the elements of another storage of the same length."""
        self._tensor().copy_(source._tensor())
        return self

    def clone(self):
        """A copy of the memory."""
        return type(self)(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def cpu(self):
        """The storage itself."""
        return self

    def _pickle_storage_type(self):
        return _NAMES[self.dtype]

    def __deepcopy__(self, memo):
        return type(self)(wrap_storage=copy.deepcopy(self._untyped_storage, memo), dtype=self.dtype)

    def __reduce__(self):
        # its own bytes, not the shared object: tensors of one pickle do not share memory, as in PyTorch
        return _rebuild_typed_storage, (bytes(memoryview(self._untyped_storage)), self.dtype)

    def __repr__(self):
        lines = "\n ".join(map(str, self.tolist()))
        return f" {lines}\n[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {self.size()}]"


def _rebuild_typed_storage(data, dtype):
    return TypedStorage(wrap_storage=_storage_from_bytes(data), dtype=dtype)


# names of storage classes in files; those with None are dtypes that only PyTorch has
STORAGE_DTYPES = {
    "FloatStorage": _dtype.float32,
    "DoubleStorage": _dtype.float64,
    "LongStorage": _dtype.int64,
    "IntStorage": _dtype.int32,
    "ByteStorage": _dtype.uint8,
    "BoolStorage": _dtype.bool_,
    "UntypedStorage": _dtype.uint8,
    **dict.fromkeys(
        ["HalfStorage", "BFloat16Storage", "ShortStorage", "CharStorage", "ComplexFloatStorage", "ComplexDoubleStorage",
         "QInt8Storage", "QInt32Storage", "QUInt8Storage", "QUInt4x2Storage", "QUInt2x4Storage"]
    ),
}
_NAMES = {d: n for n, d in STORAGE_DTYPES.items() if d is not None and n != "UntypedStorage"}
CLASSES = {
    n: type(n, (TypedStorage,), {"dtype": d, "__doc__": f"Storage of {d}.", "__module__": "tensotron"}) for d, n in _NAMES.items()
}
CLASSES["UntypedStorage"] = UntypedStorage
