# distutils: language = c++
"""A program: launch records in one block, whose operands are addressed by slots."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from libcpp.vector cimport vector
from posix.unistd cimport usleep

from tensotron._core.tensor cimport Storage, Tensor, empty, new_storage
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport U8, Arg, Record


cdef class Held:

    def guard(self):
        raise NotImplementedError

    cdef bint as_before(self, object before) except -1:
        return self.guard() == before


cdef class Program:
    """Records to be run in order.

    A slot is the memory of one storage; `point` moves all operands of a slot. The memory of temporaries is planned:
    those that are not alive at the same time share places of one arena.
    """

    def __cinit__(self, list records, dict slot_of, dict base_of, int n_slots):
        """slot_of: address of a storage -> slot. base_of: address -> where the slot's memory starts."""
        cdef Py_ssize_t i, used = 0, n_list = 0
        cdef bytes b
        cdef Record* r
        cdef int k
        self.n = len(records)
        self.long_ = -1
        self.records = <Record*>calloc(self.n + 1, sizeof(Record))
        for b in records:
            n_list += (<const Record*><const char*>b).nlist
        self.lists = <Arg*>calloc(n_list + 1, sizeof(Arg))
        if self.records == NULL or self.lists == NULL:
            raise MemoryError()
        self.slots.resize(n_slots)
        for i in range(self.n):
            b = records[i]
            r = self.records + i
            memcpy(r, <const char*>b, sizeof(Record))
            for k in range(r.nout + r.nin):
                if r.arg[k].is_const:
                    r.arg[k].data = <char*>r + <size_t>r.arg[k].data
                else:
                    self.place(&r.arg[k], slot_of, base_of)
            if r.nlist:
                r.list = self.lists + used
                used += r.nlist
                memcpy(r.list, <const char*>b + sizeof(Record), r.nlist * sizeof(Arg))
                for k in range(<int>r.nlist):
                    self.place(r.list + k, slot_of, base_of)

    cdef int place(self, Arg* a, dict slot_of, dict base_of) except -1:
        cdef Patch p
        cdef size_t address = <size_t>a.buffer
        cdef int slot
        if a.buffer == NULL:
            return 0
        slot = slot_of[address]
        p.arg = a
        p.offset = <int64_t>(<size_t>a.data - <size_t>base_of[address])
        self.slots[slot].patches.push_back(p)
        self.slots[slot].base = <char*><size_t>base_of[address]
        return 0

    def __dealloc__(self):
        free(self.records)
        free(self.lists)

    def plan(self, dict temporaries):
        """Places the temporaries, {slot: bytes}, in an arena; bytes of the arena."""
        cdef dict first = {}, last = {}
        cdef int64_t total = 0, size, at
        cdef Py_ssize_t i
        cdef size_t k
        cdef Tensor arena
        where = {}
        for slot in temporaries:
            places = [self.record_of(self.slots[slot].patches[k].arg) for k in range(self.slots[slot].patches.size())]
            first[slot], last[slot] = min(places), max(places)
        alive = []  # (offset, end, slot), in order of offset
        for slot in sorted(temporaries, key=lambda s: first[s]):
            size = (max(temporaries[slot], 1) + 63) // 64 * 64
            alive = [a for a in alive if last[a[2]] >= first[slot]]
            at = 0
            for start, end, _ in alive:
                if start - at >= size:
                    break
                at = max(at, end)
            alive.append((at, at + size, slot))
            alive.sort()
            where[slot] = at
            total = max(total, at + size)
        if total:
            arena = empty(1, &total, U8)
            self.arena = arena.storage
            for slot, start in where.items():
                at = start
                self.point(slot, arena.storage.data + at)
        return total

    cdef Py_ssize_t record_of(self, const Arg* a):
        """Number of the record that the operand belongs to."""
        cdef Py_ssize_t i
        cdef size_t at = <size_t>a, begin = <size_t>self.records
        if begin <= at < begin + self.n * sizeof(Record):
            return (at - begin) // sizeof(Record)
        for i in range(self.n):
            if self.records[i].nlist and <size_t>self.records[i].list <= at < <size_t>(self.records[i].list + self.records[i].nlist):
                return i
        return -1

    def written(self):
        """Slots that some record writes to."""
        out = set()
        writes = set()
        cdef Py_ssize_t i
        cdef int k
        cdef size_t j
        for i in range(self.n):
            for k in range(self.records[i].nout):
                writes.add(<size_t>&self.records[i].arg[k])
            if self.records[i].nout == 0:  # a step over lists of tensors
                for k in range(<int>self.records[i].nlist):
                    writes.add(<size_t>(self.records[i].list + k))
        for k in range(<int>self.slots.size()):
            for j in range(self.slots[k].patches.size()):
                if <size_t>self.slots[k].patches[j].arg in writes:
                    out.add(k)
                    break
        return out

    cdef int wait(self) except -1:
        while self.running and self.forks == backend.forks():
            with nogil:
                usleep(20)
        self.running = False  # not in a child either
        return 0

    cdef int run(self) except -1:
        cdef int status = self.go_once()
        if status:
            self.complain(status)
        return 0

    cdef int go_once(self) noexcept:
        cdef vector[int] slots
        cdef vector[char*] bases
        cdef vector[int64_t] strides
        return self.go(1, slots, bases, strides)

    cdef int go(self, Py_ssize_t count, vector[int]& slots, vector[char*]& bases, vector[int64_t]& strides) noexcept:
        """`count` runs; slots[k] lies strides[k] bytes further on in each. A Status: `complain` raises it."""
        cdef int status
        cdef bint let_go = (count > 1 or self.alone()) and backend.may_let_go()
        self.running, self.forks = let_go, backend.forks()
        if let_go:
            with nogil:
                status = self.step_through(count, slots, bases, strides, True)
        else:
            status = self.step_through(count, slots, bases, strides, False)
        self.running = False
        if status:
            self.failed += self.first
        return status

    cdef int complain(self, int status) except -1:
        backend.raise_status(status, self.records + self.failed)
        return 0

    cdef int step_through(self, Py_ssize_t count, vector[int]& slots, vector[char*]& bases, vector[int64_t]& strides,
                          bint let_go) noexcept nogil:
        cdef Py_ssize_t i
        cdef size_t k
        cdef int status
        for i in range(count):
            for k in range(slots.size()):
                self.point(slots[k], bases[k] + i * strides[k])
            status = backend.run_records(self.records + self.first, self.n - self.first, &self.failed, let_go)
            if status:
                return status
        return 0

    cdef int run_constants(self, Py_ssize_t n, list slots, list sizes) except -1:
        """Gives the slots memory of their own and runs the first n records, now and never again."""
        cdef Storage s
        cdef Py_ssize_t i
        cdef int slot, status
        self.constants = []
        for i in range(len(slots)):
            s = new_storage(sizes[i])
            slot = slots[i]
            self.point(slot, s.data)
            self.constants.append(s)
        self.first = n
        status = backend.run_records(self.records, n, &self.failed, False)
        if status:
            backend.raise_status(status, self.records + self.failed)
        return 0

    def __len__(self):
        return self.n - self.first
