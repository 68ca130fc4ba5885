"""The zip container of checkpoints: records are stored, not compressed, and aligned in the file."""

import io
import os
import struct
import zlib

ALIGNMENT = 64
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_CHUNK = 1 << 24


class Writer:
    """Writes records, one after the other, to a file-like object that may lack seek()."""

    def __init__(self, file, prefix):
        import zipfile  # here, since few programs that import the library need it

        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._info, self._limit = zipfile.ZipInfo, zipfile.ZIP64_LIMIT
        self._prefix = prefix

    def write(self, name, data):
        """Adds a record; `data` is bytes or a buffer of bytes."""
        info = self._info(f"{self._prefix}/{name}")  # of a fixed date: equal objects give equal files
        info.file_size = len(data)
        large = info.file_size * 1.05 > self._limit  # where ZipFile itself adds 20 bytes to the header
        start = self._zip.start_dir if self._zip.start_dir is not None else self._zip.fp.tell()
        head = start + _LOCAL_HEADER.size + len(info.filename.encode()) + 20 * large + 4
        padding = -head % ALIGNMENT
        info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        with self._zip.open(info, "w") as record:
            record.write(data)

    def close(self):
        """Writes the directory; the file stays open."""
        self._zip.close()


class Reader:
    """Finds and reads records. Sizes are checked against the file before memory is taken.

    Raises:
        RuntimeError: no zip archive, a truncated or damaged one, or one that is compressed.
    """

    def __init__(self, file):
        import zipfile

        self._file = file
        try:
            self._size = file.seek(0, io.SEEK_END)
            self._size = file.tell() if self._size is None else self._size
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, zipfile.LargeZipFile, struct.error, ValueError, OSError, NotImplementedError, EOFError,
                OverflowError) as exc:
            raise RuntimeError(f"the file is no zip archive, or is truncated or damaged ({exc})") from None
        self._records = {}
        total = 0
        self.prefix = infos[0].filename.split("/")[0] if infos else ""
        for info in infos:
            if info.flag_bits & 1:
                raise RuntimeError(f"record {info.filename!r} is encrypted")
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise RuntimeError(f"record {info.filename!r} is compressed; PyTorch stores its records as they are. Pack the "
                                   "archive again without compression")
            if not 0 <= info.header_offset < self._size:
                raise RuntimeError(f"record {info.filename!r} lies outside of the archive")
            total += info.file_size
            prefix, _, name = info.filename.partition("/")
            if prefix == self.prefix:
                self._records[name] = info
        if total > self._size:
            raise RuntimeError("the records of the archive overlap, or it is truncated")

    def __contains__(self, name):
        return name in self._records

    def size(self, name):
        """Bytes of a record; RuntimeError if there is none."""
        try:
            return self._records[name].file_size
        except KeyError:
            raise RuntimeError(f"the archive has no record {name!r}; is it a checkpoint?") from None

    def read(self, name):
        """A record as bytes."""
        data = bytearray(self.size(name))
        self.read_into(name, memoryview(data))
        return bytes(data)

    def read_into(self, name, view):
        """Fills `view` with the first bytes of a record; all of it is read and its checksum verified."""
        info = self._records[name]
        damaged = RuntimeError(f"record {name!r} of the archive is damaged")
        file = self._file
        file.seek(info.header_offset)
        head = file.read(_LOCAL_HEADER.size)
        if len(head) != _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
            raise damaged
        start = info.header_offset + len(head) + sum(_LOCAL_HEADER.unpack(head)[-2:])
        if start + info.file_size > self._size:
            raise damaged
        file.seek(start)
        crc = fill(file, view)
        rest = info.file_size - len(view)
        while rest > 0:
            piece = file.read(min(rest, _CHUNK))
            if not piece:
                raise damaged
            crc = zlib.crc32(piece, crc)
            rest -= len(piece)
        if crc != info.CRC:
            raise RuntimeError(f"record {name!r} of the archive is damaged: its checksum is {crc:#010x}, not {info.CRC:#010x}. "
                               "(Files that PyTorch wrote with set_crc32_options(False) have no checksums to compare)")


def fill(file, view):
    """Reads len(view) bytes into view; their CRC-32. RuntimeError where the file ends before."""
    crc = done = 0
    readinto = getattr(file, "readinto", None)
    while done < len(view):
        part = view[done : done + _CHUNK]
        if readinto is not None:
            n = readinto(part)
        else:
            piece = file.read(len(part))
            n = len(piece)
            part[:n] = piece
        if not n:
            raise RuntimeError(f"unexpected EOF, expected {len(view) - done} more bytes. The file might be corrupted.")
        crc = zlib.crc32(part[:n], crc)
        done += n
    return crc


class AtomicFile:
    """A file that takes its name only when it is complete and on disk: whoever is killed while writing leaves the old one.

    The target's permissions are kept; a symbolic link is followed. What is no regular file (a pipe, a device) is
    written directly.
    """

    def __init__(self, path):
        path = os.path.realpath(path)
        self._path = path
        try:
            self._open(path)
        except OSError as exc:
            raise RuntimeError(f"open file failed with strerror: {exc.strerror}") from None

    def _open(self, path):
        exists = os.path.exists(path)
        if exists and not os.path.isfile(path):
            self._temporary = None
            self.file = open(path, "wb")
            return
        folder, name = os.path.split(path)
        if isinstance(name, bytes):
            name = os.fsdecode(name)
            folder = os.fsdecode(folder)
        if not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._temporary = os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.tmp")
        self.file = os.fdopen(os.open(self._temporary, flags, 0o666), "wb", buffering=1 << 20)
        if exists:
            os.fchmod(self.file.fileno(), os.stat(path).st_mode & 0o7777)

    def __enter__(self):
        return self.file

    def __exit__(self, kind, value, trace):
        if self._temporary is None:
            self.file.close()
            return
        try:
            if kind is None:
                self.file.flush()
                os.fsync(self.file.fileno())
                self.file.close()
                os.replace(self._temporary, self._path)
                _sync_folder(os.path.dirname(self._temporary))
        finally:
            self.file.close()
            if os.path.exists(self._temporary):
                os.unlink(self._temporary)


def _sync_folder(folder):
    """The new name, too, is on disk; not every file system can do it."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)
