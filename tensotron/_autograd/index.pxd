from tensotron._core.tensor cimport Tensor

# Advanced indexing. `indices`: for each dimension of t a tensor or None, shorter lists are filled up.
cdef Tensor index(Tensor t, list indices)
cdef Tensor index_put_inplace(Tensor t, list indices, Tensor values, bint accumulate)
cdef list mask_columns(Tensor mask)
