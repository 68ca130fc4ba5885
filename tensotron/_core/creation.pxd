from tensotron._core.tensor cimport Tensor

# A tensor of the size (given by `args`, one by one or as a sequence, or by `size`), not initialised: new, or `out` resized.
cdef Tensor sized(str op, tuple args, object size, object dtype, object device, object layout, bint pin_memory, object out)
# The same of the size and dtype of a tensor.
cdef Tensor like(object input, object dtype, object device, object layout, object memory_format, bint pin_memory, str op)
cdef Tensor new_like(Tensor x, int dt, object memory_format)
# Sets requires_grad of a factory's result.
cdef Tensor finish(Tensor t, bint requires_grad)
cdef int check_options(object device, object layout, bint pin_memory) except -1
