from tensotron._core.tensor cimport Tensor

# The graph of the maxima y of x, found at `at`; v: the ints of pool-inl.h.
cdef int attach_max(Tensor y, Tensor at, Tensor x, tuple v, str node) except -1
