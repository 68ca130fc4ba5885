"""Reads the format that torch.save wrote before zip: pickles in a row, then the storages."""

import io
import struct

from tensotron._core.pickling import new_storage
from tensotron.serialization import _restore, _weights_only
from tensotron.serialization._archive import fill
from tensotron.serialization._pickler import class_finder

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


def load(file, restore, weights_only, module, arguments):
    """The object of a file in the old format.

    Raises:
        RuntimeError: no such file, or a damaged one.
        NotImplementedError: a tar file, which is older still.
    """
    data = file.read()
    if data[257:262] == b"ustar":
        raise NotImplementedError("checkpoints in tar files (PyTorch before 0.1.10) are not supported by tensotron")
    stream = io.BytesIO(data)
    storages, notes = {}, {}

    def persistent_load(pid):
        if not isinstance(pid, tuple) or not pid:
            raise RuntimeError("the file is damaged: what it calls a storage is none")
        kind = pid[0].decode("ascii") if isinstance(pid[0], bytes) else pid[0]
        if kind == "module":
            return pid[1]
        if kind != "storage" or len(pid) != 6:
            raise RuntimeError(f"Unknown saved id type: {kind}")
        storage_type, key, location, numel, view = pid[1:]
        if view is not None:
            raise NotImplementedError("views of storages in checkpoints (PyTorch before 0.4) are not supported by tensotron")
        if type(key) is not str:
            raise RuntimeError("the file is damaged: the key of a storage is no str")
        if key not in storages:
            dtype, nbytes, location = _restore.checked(storage_type, numel, location)
            if nbytes + sum(s.nbytes() for s, _, _ in notes.values()) > len(data):
                raise RuntimeError("the file is damaged: a storage is larger than the file")
            storages[key] = _restore.wrapped(restore(new_storage(nbytes), location), dtype)
            notes[key] = storages[key].untyped(), dtype, numel
        return storages[key]

    if weights_only:
        reader = _weights_only.Unpickler(data, persistent_load, arguments["encoding"])
        next_object = reader.load
    else:
        finder = class_finder(module)

        def next_object():
            unpickler = finder(stream, **arguments)
            unpickler.persistent_load = persistent_load
            return unpickler.load()

    magic = next_object()
    if type(magic) is not int or magic != MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = next_object()
    if type(version) is not int or version != PROTOCOL:
        raise RuntimeError("Invalid protocol version")
    system = next_object()
    result = next_object()
    keys = next_object()
    if weights_only:
        stream.seek(reader.position)
    order = "<" if not isinstance(system, dict) or system.get("little_endian", True) else ">"
    if not isinstance(keys, list) or not all(type(k) is str and k in notes for k in keys):
        raise RuntimeError("the file is damaged: its list of storages does not fit its objects")
    for key in keys:
        storage, dtype, numel = notes[key]
        head = stream.read(8)
        if len(head) != 8 or struct.unpack(order + "q", head)[0] != numel:
            raise RuntimeError("the file is damaged: a storage has another size than its tensors say")
        fill(stream, memoryview(storage))
        if order == ">":
            _restore.swap_bytes(storage, dtype)
    return result
