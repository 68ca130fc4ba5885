"""The launch record as Python sees it: the structs of `_cpu/record.h`, and the names behind its ids."""

import ctypes
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
MAX_DIMS, MAX_ARGS, MAX_INTS, MAX_REALS = 8, 8, 28, 8
F32 = 0
ITEM_SIZE = (4, 8, 8, 4, 1, 1)  # by dtype
NUM_EXPRESSIONS = 4  # of a row of the elementwise table: its forward and up to three derivatives


class Arg(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("buffer", ctypes.c_uint64),
        ("stride", ctypes.c_int64 * MAX_DIMS),
        ("dtype", ctypes.c_uint8),
        ("is_const", ctypes.c_uint8),
    ]


class Record(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_uint16),
        ("op", ctypes.c_uint16),
        ("nout", ctypes.c_uint8),
        ("nin", ctypes.c_uint8),
        ("ndim", ctypes.c_uint8),
        ("compute", ctypes.c_uint8),
        ("device", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("nlist", ctypes.c_uint32),
        ("size", ctypes.c_int64 * MAX_DIMS),
        ("arg", Arg * MAX_ARGS),
        ("list", ctypes.c_uint64),
        ("state", ctypes.c_uint64),
        ("ints", ctypes.c_int64 * MAX_INTS),
        ("reals", ctypes.c_double * MAX_REALS),
        ("error", ctypes.c_int64 * 4),
    ]

    @property
    def family(self):
        return FAMILIES[self.kernel]

    @property
    def args(self):
        return self.arg[: self.nout + self.nin]


def _names(path, *macros):
    """First arguments of the rows of a table: their order is the numbering."""
    row = re.compile(rf"^(?:{'|'.join(macros)})\(\s*(\w+)", re.MULTILINE)
    return tuple(row.findall((PACKAGE / path).read_text(encoding="utf-8")))


FAMILIES = _names("_cpu/kernels.def", "KERNEL")
ROWS = _names("_ops/elementwise.def", "UNARY", "BINARY", "TERNARY")
REDUCTIONS = _names(
    "_ops/reduce.def", "FOLD", "FLOAT_FOLD", "FINISHED", "TRUTH", "SCAN", "MOMENT", "LOGSUMEXP"
)
