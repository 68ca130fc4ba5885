"""save and load: checkpoints in PyTorch's zip format, readable by both libraries."""

import io
import os
import pickle
import sys
import warnings

from tensotron.serialization import _legacy, _restore, _weights_only
from tensotron.serialization._archive import AtomicFile, Reader, Writer
from tensotron.serialization._pickler import class_finder, pickled
from tensotron.serialization._restore import default_restore_location, location_tag

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "safe_globals",
    "save",
]

DEFAULT_PROTOCOL = 2
_ADVICE = (
    "If you trust whoever made the file, load it with `weights_only=False`: then it can run any code it likes. (The default "
    "is True, as in PyTorch since 2.6.)"
)


# ==== what weights_only=True trusts ====================================================================
def add_safe_globals(safe_globals):
    """Lets files loaded with weights_only=True name these functions and classes.

    An item is the object itself, found as {__module__}.{__qualname__}, or a pair (object, full path).
    """
    _weights_only._user_globals.update(dict.fromkeys(safe_globals))


def get_safe_globals():
    """The objects and pairs that were added."""
    return list(_weights_only._user_globals)


def clear_safe_globals():
    """Forgets all that were added."""
    _weights_only._user_globals.clear()


class safe_globals:
    """Context in which the given functions and classes are trusted, as by add_safe_globals."""

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exc):
        for entry in self.safe_globals:
            _weights_only._user_globals.pop(entry, None)


def get_unsafe_globals_in_checkpoint(f):
    """Full paths of what a checkpoint names and weights_only=True would refuse. Nothing of the file is run.

    Raises:
        ValueError: `f` is no checkpoint in the zip format.
    """
    with _opened(f) as file:
        if not _is_zip(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        archive = Reader(file)
        if "constants.pkl" in archive:
            raise ValueError("Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint")
        found = _weights_only.globals_in(archive.read("data.pkl"))
    return list(found - set(_weights_only.SAFE) - set(_weights_only.user_globals()))


# ==== save =============================================================================================
def save(obj, f, pickle_module=pickle, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False):
    """Writes `obj` to a path or to a file-like object with write() and flush(). Tensors that share memory still do after
    loading. A path gets the new file at once when all of it is on disk; until then, and after a failure, the old one stays.

    Classes and functions of tensotron are named as PyTorch's in the file, so that PyTorch can load it; with a
    `pickle_module` other than pickle they keep their names.

    Raises:
        AttributeError: `f` is neither.
        RuntimeError: the path cannot be written, or tensors see the same memory as different dtypes.
        NotImplementedError: _use_new_zipfile_serialization=False.
    """
    to_path = isinstance(f, (str, os.PathLike))
    if not to_path:
        if not hasattr(f, "write"):
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
        if not callable(f.write):
            raise TypeError(f"Buffer of {str(type(f)).strip('<>')} has no callable attribute 'write'")
    if not _use_new_zipfile_serialization:
        raise NotImplementedError("the format before zip (_use_new_zipfile_serialization=False) is not written by tensotron")
    data, storages = _pickled(obj, pickle_module, pickle_protocol)
    if not to_path:
        _write(f, "archive", data, storages, _disable_byteorder_record)
        getattr(f, "flush", lambda: None)()
        return
    path = os.fspath(f)
    prefix = os.path.splitext(os.path.basename(os.fsdecode(path)))[0]
    if not prefix.isascii() or not prefix:
        prefix = "archive"
    with AtomicFile(path) as file:
        _write(file, prefix, data, storages, _disable_byteorder_record)


def _pickled(obj, module, protocol):
    """The pickle of an object, and the storages that it mentions: key -> UntypedStorage."""
    keys, storages, dtypes = {}, {}, {}

    def storage_id(name, storage, dtype, numel):
        if storage.nbytes():
            if dtypes.setdefault(storage.data_ptr(), dtype) is not dtype:
                raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key = keys.get(id(storage))
        if key is None:
            key = keys[id(storage)] = str(len(keys))
            storages[key] = storage  # which also keeps its id its own
        return ("storage", _weights_only.SAFE["torch." + name], key, location_tag(storage), numel)

    return pickled(obj, module, protocol, storage_id), storages


def _write(file, prefix, data, storages, no_byteorder):
    archive = Writer(file, prefix)
    archive.write("data.pkl", data)
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", b"64")
    if not no_byteorder:
        archive.write("byteorder", sys.byteorder.encode())
    for key, storage in storages.items():
        archive.write(f"data/{key}", memoryview(storage))
    archive.write("version", b"3\n")
    archive.close()


# ==== load =============================================================================================
def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Reads what save, or PyTorch's, wrote to a path or to a file-like object that can seek.

    weights_only=True (the default) makes tensors, containers and numbers only and runs no code of the file; with False
    the file can run any code. `map_location`, a device, str, dict or callable(storage, location), says where storages go.

    Raises:
        pickle.UnpicklingError: weights_only=True, and the file names something else, or its pickle is damaged.
        RuntimeError: a damaged or truncated file, or a device that is not there.
        NotImplementedError: mmap=True, dtypes that tensotron has not, TorchScript archives, tar files.
    """
    weights_only = _decide(weights_only, pickle_module)
    if mmap:
        raise NotImplementedError("load(mmap=True) is not supported by tensotron")
    if weights_only:
        if pickle_module is not None:
            raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
        if pickle_load_args:
            warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    pickle_load_args.setdefault("encoding", "utf-8")
    if isinstance(f, (str, os.PathLike)) and os.fsdecode(os.fspath(f)).endswith(".safetensors"):
        raise NotImplementedError("load() of a .safetensors file is not supported by tensotron; take safetensors.numpy.load_file "
                                  "and tensotron.from_numpy")
    restore = _restore.restorer(map_location)
    with _opened(f) as file:
        try:
            if _is_zip(file):
                return _load_zip(file, restore, weights_only, pickle_module or pickle, pickle_load_args)
            return _legacy.load(file, restore, weights_only, pickle_module or pickle, pickle_load_args)
        except pickle.UnpicklingError as exc:
            if not weights_only:
                raise
            raise pickle.UnpicklingError(_explain(str(exc))) from None


def _decide(weights_only, pickle_module):
    def switch(name):
        return os.getenv(name, "0").lower() in ("1", "y", "yes", "true")

    only, all_ = switch("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), switch("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if only and all_:
        raise RuntimeError("Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, "
                           "but both were set.")
    if only:
        return True
    if weights_only is None:
        if all_:
            warnings.warn("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set and `weights_only` was not given: loading with "
                          "weights_only=False", UserWarning, stacklevel=3)
            return False
        return pickle_module is None
    return weights_only


def _explain(message):
    if "was not an allowed global by default" in message:
        return (f"Weights only load failed. There are two ways to load this file. (1) {_ADVICE} (2) Keep `weights_only=True` and "
                f"name what you trust, as this error says: {message}")
    return f"Weights only load failed. {message}\n{_ADVICE}"


class _opened:
    """A path as an open file; a file-like object as it is."""

    def __init__(self, f):
        self._own = isinstance(f, (str, os.PathLike))
        if self._own:
            self._file = open(f, "rb")
            return
        self._file = f
        try:
            f.seek(f.tell())
        except (io.UnsupportedOperation, AttributeError) as exc:
            raise type(exc)(f"{exc}. You can only torch.load from a file that is seekable. Please pre-load the data into a "
                            "buffer like io.BytesIO and try to load from it instead.") from None

    def __enter__(self):
        return self._file

    def __exit__(self, *exc):
        if self._own:
            self._file.close()


def _is_zip(file):
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    return head == b"PK\x03\x04"


def _load_zip(file, restore, weights_only, module, arguments):
    archive = Reader(file)
    if "constants.pkl" in archive:
        raise NotImplementedError("TorchScript archives (torch.jit.load) are not supported by tensotron")
    order = archive.read("byteorder") if "byteorder" in archive else b"little"
    if order not in (b"little", b"big"):
        raise ValueError(f"Unknown endianness type: {order[:20].decode('latin1')}")
    storages = _restore.Storages(archive, restore, swap=order.decode() != sys.byteorder)
    data = archive.read("data.pkl")
    if weights_only:
        return _weights_only.Unpickler(data, storages.persistent_load, arguments["encoding"]).load()
    unpickler = class_finder(module)(io.BytesIO(data), **arguments)
    unpickler.persistent_load = storages.persistent_load
    return unpickler.load()
