"""Checkpoints that are damaged or hostile: errors, never a crash, nothing is run."""

import io
import pickle
import random
import struct
import zipfile

import numpy as np
import pytest
from _checkpoints import renamed, saved, zoo

import tensotron
from tensotron.serialization import _archive

CLEAN = (RuntimeError, pickle.UnpicklingError, NotImplementedError, EOFError, ValueError, MemoryError)


def test_truncated_files():
    data = saved(zoo(tensotron))
    for n in (*range(0, 120, 7), *range(120, len(data), 331), len(data) - 1):
        with pytest.raises(CLEAN):
            tensotron.load(io.BytesIO(data[:n]))


def test_random_damage():
    """Bytes changed at random: an error or a result, never a crash, an endless loop or much memory."""
    data = saved({"a": tensotron.arange(12.0).reshape(3, 4).t(), "b": [1, {"c": tensotron.ones(2, requires_grad=True)}, b"xyz"]})
    chance = random.Random(0)
    whole = 0
    for _ in range(400):
        mutated = bytearray(data)
        for _ in range(chance.choice([1, 1, 2, 8])):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        try:
            tensotron.load(io.BytesIO(mutated))
            whole += 1
        except CLEAN:
            pass
    assert whole < 350  # padding and names that nobody reads may change


def test_random_damage_of_the_pickle():
    """With checksums that fit, so that the unpickler gets to see it."""
    data = saved({"a": tensotron.arange(12.0).reshape(3, 4).t(), "b": [1, {"c": tensotron.ones(2, requires_grad=True)}, b"xyz"]})
    body = _archive.Reader(io.BytesIO(data)).read("data.pkl")
    chance = random.Random(1)
    for _ in range(600):
        mutated = bytearray(body)
        for _ in range(chance.choice([1, 1, 2, 4])):
            at = chance.randrange(len(mutated))
            mutated[at] = chance.choice([chance.randrange(256), *b"c\x81RbQ.(aesut\x85\x86\x87N)]}JKMGXhjqr0"])
        try:
            tensotron.load(renamed(data, body, bytes(mutated)))
        except CLEAN:
            pass


@pytest.mark.parametrize(
    "old, new",
    {
        "offset beyond": (b"K\x01K\x03\x85", b"K\x02K\x03\x85"),
        "offset negative": (b"K\x01K\x03\x85", b"J\xff\xff\xff\xffK\x03\x85"),
        "offset huge": (b"K\x01K\x03\x85", b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x03\x85"),
        "offset beyond int64": (b"K\x01K\x03\x85", b"\x8a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01K\x03\x85"),
        "size beyond": (b"K\x01K\x03\x85", b"K\x01K\x04\x85"),
        "size huge": (b"K\x01K\x03\x85", b"K\x01\x8a\x07\0\0\0\0\0\0\x10\x85"),
        "size a float": (b"K\x01K\x03\x85", b"K\x01G\x40\0\0\0\0\0\0\0\x85"),
        "size negative": (b"K\x01K\x03\x85", b"K\x01J\xfe\xff\xff\xff\x85"),
        "stride huge": (b"K\x01\x85q\x07", b"\x8a\x08\0\0\0\0\0\0\0\x40\x85q\x07"),
        "stride negative": (b"K\x01\x85q\x07", b"J\xff\xff\xff\xff\x85q\x07"),
        "fewer strides": (b"K\x01\x85q\x07", b")q\x07"),
        "other dtype": (b"FloatStorage", b"DoubleStorage"),
        "unknown dtype": (b"FloatStorage", b"FloutStorage"),
        "numel lies": (b"K\x04tq\x05Q", b"K\x05tq\x05Q"),
        "numel huge": (b"K\x04tq\x05Q", b"\x8a\x08\0\0\0\0\0\0\0\x10tq\x05Q"),
        "numel negative": (b"K\x04tq\x05Q", b"J\xff\xff\xff\xfftq\x05Q"),
        "no such record": (b"X\x01\0\0\x000", b"X\x01\0\0\x009"),
        "a path as key": (b"X\x01\0\0\x000", b"X\x06\0\0\x00../../"),
        "string too long": (b"X\x01\0\0\x000", b"X\xff\xff\xff\xff0"),
        "other function": (b"torch._utils\n_rebuild_tensor_v2", b"torch._utils\n_rebuild_everything"),
    }.values(),
)
def test_lies_about_a_tensor(old, new):
    data = saved(tensotron.arange(4.0)[1:])
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        tensotron.load(renamed(data, old, new))


def unpickled(body):
    out = io.BytesIO()
    writer = _archive.Writer(out, "archive")
    writer.write("data.pkl", b"\x80\x02" + body)
    writer.close()
    out.seek(0)
    return tensotron.load(out)


@pytest.mark.parametrize(
    "body",
    {
        "memo": b"N" + b"r\xff\xff\xff\x7f" + b"j\xfe\xff\xff\x7f.",
        "empty": b".",
        "mark": b"t.",
        "append": b"Na.",
        "odd items": b"}(Nu.",
        "unhashable": b"}]Ns.",
        "deep key": b"}" + b")" + b"\x85" * 30_000 + b"Ns.",
        "wide key": b"}" + b"N" + b"h\x00".join([b"q\x00"] + [b"\x86q\x00"] * 60) + b"\x86Ns.",
        "deep set": b"c__builtin__\nset\n](" + b")" + b"\x85" * 30_000 + b"e\x85R.",
        "copies": b"](" + b"N" * 5000 + b"eq\x000" + b"ctorch\nSize\nh\x00\x85R" * 2000 + b".",
        "bytearray of a size": b"c__builtin__\nbytearray\n\x8a\x07\0\0\0\0\0\0\x10\x85R.",
        "codec": b"c_codecs\nencode\nX\x01\0\0\0aX\x05\0\0\0rot13\x86R.",
        "reduce an int": b"K\x01)R.",
        "reduce a class": b"ctorch\nTensor\n(K\x05tR.",
        "new of a dtype": b"ctorch\nfloat32\n)\x81.",
        "build a list": b"]}b.",
        "parameter of an int": b"ctorch.nn.parameter\nParameter\nK\x01\x85\x81.",
        "from_type of an int": b"ctorch._tensor\n_rebuild_from_type_v2\n(K\x01K\x02K\x03K\x04tR.",
        "from_type of a deep tuple": b"ctorch._tensor\n_rebuild_from_type_v2\n()" + b"\x85" * 30_000 + b"K\x02K\x03K\x04tR.",
        "storage of an int": b"K\x07Q.",
        "storage of nothing": b")Q.",
        "storage of lies": b"(X\x07\0\0\0storageK\x01K\x02K\x03K\x04tQ.",
        "protocol 4": b"\x95\x01\0\0\0\0\0\0\0N.",
        "os": b"cos\nsystem\nX\x01\0\0\0a\x85R.",
        "posix": b"cposix\nsystem\nX\x01\0\0\0a\x85R.",
        "attribute": b"c__builtin__\ngetattr\n.",
        "nothing": b"",
        "no newline": b"ctorch",
        "global of bytes": b"c\xff\xfe\n\xff\n.",
        "no device": b"ctorch\ndevice\nK\x01K\x02K\x03\x87R.",
    }.values(),
)
def test_hostile_pickles(body):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        unpickled(body)


def test_deep_nesting_is_let_go():
    assert unpickled(b")" + b"\x85" * 100_000 + b".") is not None


def zip_of(*records, **changes):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **changes) as z:
        for name, data in records:
            z.writestr(name, data)
    return bytearray(out.getvalue())


def test_hostile_archives():
    ok = ("archive/data.pkl", b"\x80\x02N.")
    assert tensotron.load(io.BytesIO(zip_of(ok))) is None
    packed = zip_of(ok, ("archive/data/0", bytes(10**6)), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(RuntimeError, match="compress"):
        tensotron.load(io.BytesIO(packed))
    with pytest.raises(RuntimeError, match="no record 'data.pkl'"):
        tensotron.load(io.BytesIO(zip_of(("archive/x", b""))))
    huge = zip_of(ok)  # sizes of the directory lie
    at = huge.index(b"PK\x01\x02")
    struct.pack_into("<2L", huge, at + 20, 2**31, 2**31)
    with pytest.raises(RuntimeError):
        tensotron.load(io.BytesIO(huge))
    for offset in (2**31, 2**32 - 2):
        moved = zip_of(ok)
        struct.pack_into("<L", moved, at + 42, offset)
        with pytest.raises(RuntimeError):
            tensotron.load(io.BytesIO(moved))
    early = zip_of(ok)  # the directory is said to be longer than what is before it
    end = early.index(b"PK\x05\x06")
    struct.pack_into("<L", early, end + 16, 2**30)
    with pytest.raises(RuntimeError):
        tensotron.load(io.BytesIO(early))
    locked = zip_of(ok)
    locked[at + 8] |= 1
    with pytest.raises(RuntimeError, match="encrypted"):
        tensotron.load(io.BytesIO(locked))
    flipped = bytearray(saved(tensotron.arange(4.0)))
    flipped[flipped.index(np.arange(4, dtype=np.float32).tobytes()) + 5] ^= 1
    with pytest.raises(RuntimeError, match="checksum"):
        tensotron.load(io.BytesIO(flipped))
    with pytest.raises(ValueError, match="endianness"):
        tensotron.load(io.BytesIO(zip_of(ok, ("archive/byteorder", b"middle"))))
