from libc.stdint cimport int64_t

from tensotron._core.tensor cimport Tensor

# Sizes of a factory function, given one by one, as one sequence or as size=; the number of dimensions.
cdef int size_args(str op, tuple args, object size, int64_t* out) except -1
cdef int64_t int_arg(object x, str op, str name, int position) except? -1
cdef bint is_integer(object x)
cdef double float_arg(object x, str op, str name, int position) except? -1
cdef int dtype_arg(object x, str op, int default) except? -1
# The number of an overload that PyTorch has deprecated, add(input, alpha, other): warns once.
cdef object old_number(str op, object number, bint alone, int given, str old, str now)
# `out=`: refused where a gradient would be wanted; given the shape of the result, with a warning if wanted.
cdef int refuse_out(str op, Tensor out, bint inputs_require) except -1
cdef int resize_out(Tensor out, int nd, const int64_t* sizes, bint warn) except -1
