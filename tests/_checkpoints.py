"""Checkpoints for tests, and checkpoints that were tampered with."""

import io

import tensotron
from tensotron.serialization import _archive


def zoo(L):
    base = L.arange(12.0).reshape(3, 4)
    return {
        "base": base, "row": base[1:], "transposed": base.t(), "strided": L.as_strided(base, (2, 2), (1, 0), 3),
        "float64": L.linspace(0, 1, 5, dtype=L.float64), "int64": L.tensor([2**62, -1]),
        "int32": L.ones(2, 1, dtype=L.int32),
        "uint8": L.tensor([255, 0], dtype=L.uint8), "bool": L.tensor([True, False]),
        "empty": L.zeros(0, 3), "scalar": L.tensor(2.5),
        "leaf": L.ones(2, requires_grad=True), "special": L.tensor([float("nan"), float("inf"), -0.0, 1e-45]),
        "nested": [1, (2.5, None, True), {"k": "\u00fc", 3: 2**70, -1: -(2**31)}],
        7: base[0, 0],
        "shape": base.shape,
    }  # fmt: skip


def renamed(data, old, new):
    """The archive with its pickle changed, checksums and all."""
    reader, out = _archive.Reader(io.BytesIO(data)), io.BytesIO()
    writer = _archive.Writer(out, "archive")
    for name in reader._records:
        body = reader.read(name)
        if name == "data.pkl":
            assert old in body
            body = body.replace(old, new)
        writer.write(name, body)
    writer.close()
    return io.BytesIO(out.getvalue())


def saved(obj):
    buffer = io.BytesIO()
    tensotron.save(obj, buffer)
    return buffer.getvalue()
