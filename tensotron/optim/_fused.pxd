from libc.stdint cimport int64_t

from tensotron._core.program cimport Held
from tensotron._core.tensor cimport Tensor
from tensotron._cpu.backend cimport Arg

# The step of one parameter group as one launch for each dtype.
cdef class FusedStep(Held):
    cdef readonly object group
    cdef double numbers[5]     # what the kernel reads, by OptimNumber; a record's `state` points here
    cdef int algorithm
    cdef int64_t flags         # OptimFlags
    cdef tuple names           # of the buffers of a parameter, in the order of the operands
    cdef Arg* operands
    cdef Py_ssize_t room, used
    cdef list seen             # keys and values of the group as last read, if they stand for what was read
    cdef bint served           # what that reading found
    # Reads numbers and flags from the group. False: something in it is beyond the kernel.
    cdef bint read(self) except -1
    cdef bint read_numbers(self) except -1
    cdef bint unchanged(self) noexcept
    cdef int remember(self, list seen) except -1
    cdef object step(self, object group, object state)
    cdef int set_flags(self, int64_t flags) except -1
    cdef bint add(self, Tensor p, object state) except -1
    cdef object new_state(self, Tensor p, object own, object state)
    cdef int launch(self, int dt) except -1
