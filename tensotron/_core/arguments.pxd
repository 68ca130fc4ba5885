from libc.stdint cimport int64_t

# Sizes of a factory function, given one by one, as one sequence or as size=; the number of dimensions.
cdef int size_args(str op, tuple args, object size, int64_t* out) except -1
cdef int64_t int_arg(object x, str op, str name, int position) except? -1
cdef bint is_integer(object x)
cdef double float_arg(object x, str op, str name, int position) except? -1
cdef int dtype_arg(object x, str op, int default) except? -1
