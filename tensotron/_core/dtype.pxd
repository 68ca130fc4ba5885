from libc.stdint cimport uint8_t

cdef class dtype:
    cdef readonly int code
    cdef readonly str name
    cdef readonly int itemsize
    cdef readonly bint is_floating_point
    cdef readonly bint is_complex
    cdef readonly bint is_signed

cdef dtype of_code(int code)
cdef int default_float() noexcept
cdef int promote(int a, int b) noexcept
cdef bint is_float(int code) noexcept
cdef bint is_int(int code) noexcept
# 0 bool, 1 integer, 2 floating point
cdef int category(int code) noexcept
# The dtype named by a Python argument; None gives `default`.
cdef int code_of(object arg, int default) except? -1
cdef bint can_cast(int source, int target) noexcept
# Type of a Python number: bool, int (I64) or float (the default dtype); -1 if it is none.
cdef int scalar_code(object value) noexcept
