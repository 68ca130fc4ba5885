# Captured launch records, replayed in C.
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport Arg, Record

cdef struct Patch:
    Arg* arg
    int64_t offset

cdef struct SlotInfo:
    vector[Patch] patches
    char* base                 # where the operands of the slot point now

# What launch records point into and read anew at each replay; `guard` is what a replay takes for granted of it.
cdef class Held:
    cdef bint as_before(self, object before) except -1

cdef class Program:
    cdef Record* records
    cdef Arg* lists
    cdef Py_ssize_t n
    cdef vector[SlotInfo] slots
    cdef object arena          # storage of the temporaries
    cdef list held             # what records point into
    cdef Py_ssize_t first      # records before it are run once
    cdef list constants        # storages of what they compute
    cdef inline void point(self, int slot, char* base) noexcept nogil:
        cdef size_t k
        if self.slots[slot].base != base:
            self.slots[slot].base = base
            for k in range(self.slots[slot].patches.size()):
                self.slots[slot].patches[k].arg.data = base + self.slots[slot].patches[k].offset
    cdef readonly Py_ssize_t failed   # number of the record at which the last run that failed ended
    cdef int run(self) except -1
    cdef char long_            # the GIL is let go while it runs: 1, 0, or -1 where nobody has asked yet
    cdef bint running          # without the GIL, since as many forks as there were then
    cdef int forks
    cdef inline bint alone(self) noexcept:
        if self.long_ < 0:
            self.long_ = backend.are_long(self.records, self.n)
        return self.long_
    cdef int go_once(self) noexcept
    cdef int go(self, Py_ssize_t count, vector[int]& slots, vector[char*]& bases, vector[int64_t]& strides) noexcept
    cdef int complain(self, int status) except -1
    cdef int step_through(self, Py_ssize_t count, vector[int]& slots, vector[char*]& bases, vector[int64_t]& strides, bint let_go) noexcept nogil
    cdef int wait(self) except -1     # until no other thread runs it: operands must not be moved before
    cdef int run_constants(self, Py_ssize_t n, list slots, list sizes) except -1
    cdef int place(self, Arg* a, dict slot_of, dict base_of) except -1
    cdef Py_ssize_t record_of(self, const Arg* a)
