"""Storages of a checkpoint: where they are in the archive, and on which device they go."""

import numpy as np

from tensotron._core.geometry import device
from tensotron._core.pickling import new_storage
from tensotron.storage import TypedStorage, UntypedStorage


def location_tag(storage):
    """The location that a file notes for a storage."""
    return str(storage.device)


def default_restore_location(storage, location):
    """The storage on the device of a location tag.

    Raises:
        RuntimeError: the device is not there, or the tag is unknown.
    """
    if location == "cpu":
        return storage
    kind = location.split(":")[0].rstrip("0123456789")
    if kind == "cuda":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a "
            "CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.")
    if kind in ("meta", "mps", "xpu", "hpu", "mtia"):
        raise NotImplementedError(f"storages on device {location!r} are not supported by tensotron; use map_location='cpu'")
    raise RuntimeError(f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})")


def restorer(map_location):
    """restore(storage, location) for an argument map_location of load()."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, bytes):
        map_location = map_location.decode("ascii")
    if isinstance(map_location, (str, device)):
        return lambda storage, location: default_restore_location(storage, str(map_location))

    def restore(storage, location):
        found = map_location(storage, location)
        return default_restore_location(storage, location) if found is None else found

    return restore


def checked(storage_type, numel, location):
    """dtype, bytes and location of a storage that a file describes; RuntimeError if it cannot be one."""
    if isinstance(location, bytes):
        location = location.decode("ascii", "replace")
    if type(numel) is not int or numel < 0 or type(location) is not str or not hasattr(storage_type, "dtype"):
        raise RuntimeError("the file is damaged: it describes a storage by something else than type, location and size")
    dtype = storage_type.dtype
    return dtype, numel * dtype.itemsize, location


def wrapped(storage, dtype):
    """What a map_location returned, as a TypedStorage."""
    if isinstance(storage, TypedStorage):
        storage = storage.untyped()
    if not isinstance(storage, UntypedStorage):
        raise TypeError(f"map_location must return a storage, not {type(storage).__name__}")
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def swap_bytes(storage, dtype):
    """Turns elements of the other byte order into this machine's."""
    if dtype.itemsize > 1:
        np.frombuffer(storage, f"u{dtype.itemsize}").byteswap(inplace=True)


class Storages:
    """Makes the storages that the pickle of an archive mentions, each once."""

    def __init__(self, archive, restore, swap):
        self._archive, self._restore, self._swap = archive, restore, swap
        self._loaded = {}

    def persistent_load(self, pid):
        """The TypedStorage of ("storage", type, key, location, number of elements).

        Raises:
            RuntimeError: the record is missing, or of another size.
        """
        if not isinstance(pid, tuple) or len(pid) != 5 or type(pid[2]) is not str:
            raise RuntimeError("the file is damaged: what it calls a storage is none")
        storage_type, key, location, numel = pid[1:]
        found = self._loaded.get(key)
        if found is None:
            dtype, nbytes, location = checked(storage_type, numel, location)
            record = f"data/{key}"
            size = self._archive.size(record)
            if not nbytes <= size < nbytes + dtype.itemsize:
                raise RuntimeError(f"the file is damaged: record {record} has {size} bytes, but should have {nbytes}")
            storage = new_storage(nbytes)
            self._archive.read_into(record, memoryview(storage))
            if self._swap:
                swap_bytes(storage, dtype)
            found = self._loaded[key] = wrapped(self._restore(storage, location), dtype)
        if getattr(storage_type, "name", None) == "UntypedStorage":
            return found.untyped()
        return found
