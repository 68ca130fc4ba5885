from libc.stdint cimport int64_t, uint64_t

from tensotron._core.tensor cimport Tensor

# Bit d is set for each dimension that `dim` names: an int, a sequence of ints; all for None or ().
cdef uint64_t dim_mask(object dim, int nd) except? 0xFFFFFFFFFFFFFFFF
# One reduction of _ops/reduce.def over the dimensions of the mask; no graph.
cdef Tensor reduce_one(int op, Tensor x, uint64_t mask, bint keepdim, int result, int compute, double correction)
cdef int reduce_into(int op, Tensor x, uint64_t mask, bint keepdim, Tensor out, Tensor second, int compute,
                     double correction) except -1
cdef Tensor reduced_like(Tensor x, uint64_t mask, bint keepdim, int dt)
# g with the reduced dimensions put back as dimensions of size 1; differentiable.
cdef Tensor restore(Tensor g, int nd, uint64_t mask, bint keepdim)
