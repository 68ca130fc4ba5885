"""Names in checkpoints: tensotron's classes and functions are written as PyTorch's, and PyTorch's are found as tensotron's."""

import io
import pickle
from importlib import import_module
from types import BuiltinFunctionType, FunctionType

from tensotron import _utils
from tensotron._core import generator, geometry, return_types
from tensotron._core.dtype import dtype
from tensotron._core.tensor import Tensor
from tensotron.serialization._weights_only import StorageType
from tensotron.storage import STORAGE_DTYPES, TypedStorage, UntypedStorage

# what lies elsewhere in PyTorch
PLACES = {
    ("torch", "Tensor"): Tensor,
    ("torch", "Size"): geometry.Size,
    ("torch", "device"): geometry.device,
    ("torch._C", "Generator"): generator.Generator,
    ("torch.serialization", "_get_layout"): _utils._get_layout,
    ("torch._tensor", "_rebuild_from_type_v2"): _utils._rebuild_from_type_v2,
    **{("torch._utils", n): f for n, f in _utils.REBUILD.items()},
    **{("torch.return_types", n): t for n, t in vars(return_types).items() if isinstance(t, type)},
}
_RESULTS = frozenset(t for t in vars(return_types).values() if isinstance(t, type))
_NAMES = {id(obj): place for place, obj in PLACES.items()}


def public_name(obj, name):
    """(module, name) of a class or function of tensotron as PyTorch calls it; None for what is not tensotron's."""
    if isinstance(obj, StorageType):
        return "torch", obj.name
    found = _NAMES.get(id(obj))
    if found is not None:
        return found
    module = getattr(obj, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] != "tensotron":
        return None
    name = name or getattr(obj, "__qualname__", None) or obj.__name__
    # functions live in private modules: the public ones that have them come first
    for public in ("tensotron", "tensotron.nn.functional", module):
        if getattr(import_module(public), name, None) is obj:
            return "torch" + public[len("tensotron"):], name
    if _lookup(import_module(module), name) is not obj:
        raise pickle.PicklingError(f"Can't pickle {obj!r}: it's not found as {module}.{name}")
    return "torch" + module[len("tensotron"):], name


def _lookup(module, path):
    found = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


class _StorageIds:
    """Storages are not pickled: the file has them beside the pickle."""

    def persistent_id(self, obj):
        if isinstance(obj, TypedStorage):
            return self.storage_id(obj._pickle_storage_type(), obj.untyped(), obj.dtype, obj.size())
        if isinstance(obj, UntypedStorage):
            return self.storage_id("UntypedStorage", obj, STORAGE_DTYPES["UntypedStorage"], obj.nbytes())
        return None


class Pickler(_StorageIds, pickle._Pickler):
    """The pickler of the standard library in Python, the one that lets names be chosen."""

    def reducer_override(self, obj):
        if type(obj) in _RESULTS:
            return type(obj), (tuple(obj),)
        return NotImplemented

    def save_global(self, obj, name=None):
        found = public_name(obj, name)
        if found is None:
            super().save_global(obj, name)
            return
        if self.proto >= 4:
            for part in found:
                self.save(part)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + "{}\n{}\n".format(*found).encode())
        self.memoize(obj)

    dispatch = {**pickle._Pickler.dispatch, FunctionType: save_global, StorageType: save_global}


class _FastPickler(_StorageIds, pickle.Pickler):
    """The pickler in C, which writes tensotron's names; it notes which, and what they are to become."""

    def reducer_override(self, obj):
        if isinstance(obj, (type, dtype, StorageType, FunctionType, BuiltinFunctionType)) or hasattr(obj, "__code__"):
            found = public_name(obj, obj.name if isinstance(obj, dtype) else None)
            if found is not None:
                module, name = obj.__module__, getattr(obj, "__qualname__", None) or obj.name
                self.names[_instruction(module, name)] = _instruction(*found)
        elif type(obj) in _RESULTS:
            raise pickle.PicklingError("a class of torch's name: only Pickler can write it")
        return NotImplemented


def _instruction(module, name):
    return f"c{module}\n{name}\n".encode()


def _rename(data, names):
    """The pickle with its names replaced; None if it is not certain where they stand.

    A name is pickled once and remembered by number afterwards. Where it stands once, that is the instruction; more than
    once, it is also part of a string. Protocols below 4 have no lengths around it.
    """
    for old, new in names.items():
        if data.count(old) != 1:
            return None
        data = data.replace(old, new)
    return None if b"ctensotron" in data else data


def pickled(obj, module, protocol, storage_id):
    """The pickle of an object by `module`, with PyTorch's names if that is pickle.

    storage_id(class name, storage, dtype, number of elements) gives the persistent id of a storage; it may be called twice.
    """
    if module is pickle and protocol in (2, 3):
        pickler, buffer = _pickler(_FastPickler, protocol, storage_id)
        pickler.names = {}
        try:
            pickler.dump(obj)
            data = _rename(buffer.getvalue(), pickler.names)
            if data is not None:
                return data
        except pickle.PicklingError:
            pass  # the other pickler succeeds, or says why not
    cls = Pickler if module is pickle else type("Pickler", (_StorageIds, module.Pickler), {})
    pickler, buffer = _pickler(cls, protocol, storage_id)
    pickler.dump(obj)
    return buffer.getvalue()


def _pickler(cls, protocol, storage_id):
    buffer = io.BytesIO()
    pickler = cls(buffer, protocol=protocol)
    pickler.storage_id = storage_id
    return pickler, buffer


def find_class(module, name):
    """The object that stands for torch.…: where PyTorch has it, or in a package above.

    Raises:
        NotImplementedError: there is none.
    """
    if name in STORAGE_DTYPES and module in ("torch", "torch.storage"):
        return StorageType(name)
    if module == "torch.tensor":  # of old files
        module = "torch._tensor"
    found = PLACES.get((module, name))
    if found is not None:
        return found
    path = "tensotron" + module[len("torch"):]
    while path:
        try:
            found = _lookup(import_module(path), name)
        except ModuleNotFoundError as exc:
            if not (exc.name or "").startswith("tensotron"):
                raise
        if found is not None:
            return found
        path = path.rpartition(".")[0]
    raise NotImplementedError(f"{module}.{name}, which the file contains, is not supported by tensotron")


def class_finder(module):
    """A subclass of module.Unpickler that looks PyTorch's names up in tensotron."""

    class Unpickler(module.Unpickler):
        def find_class(self, module_name, name):
            if module_name == "torch" or module_name.startswith("torch."):
                return find_class(module_name, name)
            return super().find_class(module_name, name)

    return Unpickler
