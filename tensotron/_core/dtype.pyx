"""dtype objects and PyTorch's type promotion."""
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, NUM_DTYPES, U8, item_size

import numpy as _np


cdef class dtype:
    """Element type of a tensor: float32, float64, int64, int32, uint8 or bool."""

    def __init__(self):
        raise TypeError("cannot create 'torch.dtype' instances")

    def __repr__(self):
        return "torch." + self.name

    def __reduce__(self):
        return self.name

    def to_real(self):
        return self

    @property
    def __module__(self):
        return "tensotron"


cdef list DTYPES = []
NAMES = ["float32", "float64", "int64", "int32", "uint8", "bool"]


cdef int _define() except -1:
    cdef dtype d
    for code in range(NUM_DTYPES):
        d = dtype.__new__(dtype)
        d.code = code
        d.name = NAMES[code]
        d.itemsize = item_size(code)
        d.is_floating_point = code == F32 or code == F64
        d.is_complex = False
        d.is_signed = code != U8 and code != BOOL
        DTYPES.append(d)
    return 0

_define()
float32, float64, int64, int32, uint8, bool_ = DTYPES
ALIASES = {"float": float32, "double": float64, "long": int64, "int": int32, "bool": bool_}
FROM_NUMPY = {_np.dtype(n if n != "bool" else _np.bool_): c for c, n in enumerate(NAMES)}
TO_NUMPY = [_np.dtype(n if n != "bool" else _np.bool_) for n in NAMES]

cdef int default_code = F32
cdef int PROMOTE[36]
cdef int CATEGORY[6]
CATEGORY[:] = [2, 2, 1, 1, 1, 0]


cdef int _fill_table() except -1:
    # width orders the members of a category; uint8 with a signed type gives the signed type
    width = {F32: 1, F64: 2, U8: 0, I32: 1, I64: 2, BOOL: 0}
    for a in range(6):
        for b in range(6):
            if CATEGORY[a] != CATEGORY[b]:
                PROMOTE[a * 6 + b] = a if CATEGORY[a] > CATEGORY[b] else b
            else:
                PROMOTE[a * 6 + b] = a if width[a] >= width[b] else b
    return 0

_fill_table()


cdef dtype of_code(int code):
    return <dtype>DTYPES[code]


cdef int default_float() noexcept:
    return default_code


cdef int promote(int a, int b) noexcept:
    return PROMOTE[a * 6 + b]


cdef bint is_float(int code) noexcept:
    return code <= F64


cdef bint is_int(int code) noexcept:
    return code == I64 or code == I32 or code == U8


cdef int category(int code) noexcept:
    return CATEGORY[code]


cdef bint can_cast(int source, int target) noexcept:
    return CATEGORY[source] <= CATEGORY[target]


cdef int code_of(object arg, int default) except -1:
    if arg is None:
        return default
    if isinstance(arg, dtype):
        return (<dtype>arg).code
    if arg is float:
        return F64
    if arg is int:
        return I64
    if arg is bool:
        return BOOL
    raise TypeError(f"expected a torch.dtype, not {type(arg).__name__}")


cdef int scalar_code(object value) noexcept:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return I64
    if isinstance(value, float):
        return default_code
    if isinstance(value, _np.integer):
        return I64
    if isinstance(value, (_np.floating, _np.bool_)):  # torch takes numpy's booleans for floats
        return default_code
    return -1


def numpy_code(np_dtype):
    """Code of a numpy dtype, or -1."""
    return FROM_NUMPY.get(np_dtype, -1)


def get_default_dtype():
    """The floating-point dtype of new tensors: float32 unless set otherwise."""
    return DTYPES[default_code]


def set_default_dtype(d):
    """Sets the default floating-point dtype, float32 or float64.

    Raises:
        TypeError: `d` is no floating-point dtype.
    """
    global default_code
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not (<dtype>d).is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    default_code = (<dtype>d).code


def promote_types(dtype type1, dtype type2):
    """The smallest dtype that holds values of both."""
    return DTYPES[promote(type1.code, type2.code)]


def can_cast_types(dtype from_, dtype to):
    return can_cast(from_.code, to.code)


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, tiny, smallest_normal, resolution, dtype."""

    def __init__(self, type=None):
        cdef int code = code_of(type, default_code)
        if not is_float(code):
            raise TypeError("torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'")
        i = _np.finfo(TO_NUMPY[code])
        self.bits, self.eps, self.max, self.min = i.bits, float(i.eps), float(i.max), float(i.min)
        self.tiny = self.smallest_normal = float(i.tiny)
        self.resolution, self.dtype = float(i.resolution), NAMES[code]

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer dtype: bits, max, min, dtype."""

    def __init__(self, type):
        cdef int code = code_of(type, I64)
        if not is_int(code):
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        i = _np.iinfo(TO_NUMPY[code])
        self.bits, self.max, self.min, self.dtype = i.bits, int(i.max), int(i.min), NAMES[code]

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
