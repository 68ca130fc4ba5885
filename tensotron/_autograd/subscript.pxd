from libc.stdint cimport int64_t

from tensotron._core.tensor cimport Tensor

# Differentiable views along one dimension; arguments are checked by the caller.
cdef Tensor view_select(Tensor t, int dim, int64_t i)
cdef Tensor view_slice(Tensor t, int dim, int64_t start, int64_t length, int64_t step)
cdef Tensor view_unsqueeze(Tensor t, int dim)
