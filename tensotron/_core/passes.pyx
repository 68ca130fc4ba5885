# distutils: language = c++
"""Passes over the records of a captured call, before they become a program. See docs/adr/0035-passes.md."""
from libc.stdint cimport int64_t

from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport F32, F64, Arg, Record

cdef extern from *:
    """
    #include "tensotron/_ops/elementwise.h"
    #include "tensotron/_cpu/record.h"
    static int tt_activation(int op) {  // GemmActivation of an elementwise row, 0: none
      using namespace tensotron;
      return op == row_op(ROW_relu, FORWARD) ? 1 : op == row_op(ROW_tanh, FORWARD) ? 2 : op == row_op(ROW_sigmoid, FORWARD) ? 3 : 0;
    }
    """
    int tt_activation(int op) noexcept
    enum: K_gemm "tensotron::K_gemm"
    enum: K_elementwise "tensotron::K_elementwise"
    enum: K_fill "tensotron::K_fill"
    enum: K_copy "tensotron::K_copy"
    enum: K_reduce "tensotron::K_reduce"

cdef enum:
    LARGEST_CONSTANT = 1 << 16  # bytes; what is computed once keeps its memory


cdef class Launch:
    """A record that may be changed, its number in the recording, and the buffers it reads and writes."""
    cdef bytearray data
    cdef readonly Py_ssize_t number
    cdef readonly set reads, writes

    def __init__(self, bytes record, Py_ssize_t number):
        cdef Record* r
        cdef const Arg* more
        cdef int k
        self.data, self.number = bytearray(record), number
        self.reads, self.writes = set(), set()
        r = self.record()
        for k in range(r.nout + r.nin):
            if r.arg[k].buffer != NULL and not r.arg[k].is_const:
                (self.writes if k < r.nout else self.reads).add(<size_t>r.arg[k].buffer)
        more = <const Arg*>(<char*>self.data + sizeof(Record))
        for k in range(<int>r.nlist):
            if more[k].buffer != NULL:
                self.reads.add(<size_t>more[k].buffer)
                if r.nout == 0:  # a step over lists of tensors
                    self.writes.add(<size_t>more[k].buffer)

    cdef Record* record(self):
        return <Record*><char*>self.data

    cdef bint touches(self, size_t buffer) except -1:
        return buffer in self.reads or buffer in self.writes


def optimise(list records, dict created, dict temporaries):
    """(constants, launches): what is run once, and what is run in every replay, as lists of (record, number).

    created: addresses of the storages made in the call; temporaries: {address: bytes} of those that nothing sees
    after it.
    """
    launches = [Launch(b, i) for i, b in enumerate(records)]
    launches = fold_activations(launches, created, temporaries)
    launches = drop_dead(launches, temporaries)
    constants = [x for x in launches if is_constant(x, launches, temporaries)]
    return ([(bytes((<Launch>x).data), x.number) for x in constants],
            [(bytes((<Launch>x).data), x.number) for x in launches if not any([x is c for c in constants])])


def buffers_of(bytes record):
    """Addresses of the buffers that a record reads or writes."""
    x = Launch(record, 0)
    return x.reads | x.writes


cdef list users_of(list launches, size_t buffer):
    cdef Launch x
    return [x for x in launches if x.touches(buffer)]


# ==== activations go into the product before them ===============================================
cdef list fold_activations(list launches, dict created, dict temporaries):
    cdef Launch x, product
    cdef Record *r
    cdef Record *g
    cdef size_t source, target
    cdef list kept = [], users
    for x in launches:
        r = x.record()
        if r.kernel != K_elementwise or not tt_activation(r.op) or r.nout != 1 or r.nin != 1 or r.arg[1].is_const:
            kept.append(x)
            continue
        source, target = <size_t>r.arg[1].buffer, <size_t>r.arg[0].buffer
        users = users_of(launches, source) if source in temporaries else []
        if len(users) < 2 or users[1] is not x or (source != target and len(users) != 2):
            kept.append(x)
            continue
        product = <Launch>users[0]
        g = product.record()
        if (g.kernel != K_gemm or g.op != 0 or source in product.reads or g.compute != r.compute
                or not (r.compute == F32 or r.compute == F64) or not covers(g, r)
                or target not in created or users_of(launches, target)[0] is not (product if source == target else x)):
            kept.append(x)
            continue
        g.op = tt_activation(r.op)
        g.arg[0].data, g.arg[0].buffer = r.arg[0].data, r.arg[0].buffer
        product.writes = {target}
        x.reads, x.writes = set(), set()
    return kept


cdef bint covers(const Record* g, const Record* r) noexcept:
    """Whether the elementwise r takes all of the product g and nothing else, both contiguous."""
    cdef const Arg* c = &g.arg[0]
    cdef int64_t expect = 1, m = g.ints[1], n = g.ints[2]
    cdef int d
    if c.data != r.arg[1].data or r.arg[0].dtype != r.compute or r.arg[1].dtype != r.compute:
        return False
    if (n > 1 and c.stride[2] != 1) or (m > 1 and c.stride[1] != n) or (g.ints[0] > 1 and c.stride[0] != m * n):
        return False
    for d in range(r.ndim - 1, -1, -1):
        if r.size[d] > 1 and (r.arg[0].stride[d] != expect or r.arg[1].stride[d] != expect):
            return False
        expect *= r.size[d]
    return expect == g.ints[0] * m * n


# ==== what nobody reads =========================================================================
cdef list drop_dead(list launches, dict temporaries):
    cdef Launch x
    cdef set wanted = set()
    cdef list kept = []
    for x in reversed(launches):
        if is_pure(x.record()) and all([b in temporaries and b not in wanted for b in x.writes]):
            continue
        kept.append(x)
        wanted |= x.reads
        wanted |= x.writes
    kept.reverse()
    return kept


cdef bint is_pure(const Record* r) noexcept:
    """Whether the launch does nothing but write its outputs, and cannot fail."""
    if r.nout == 0 or r.nlist or r.state != NULL:
        return False
    if r.kernel == K_elementwise or r.kernel == K_reduce or r.kernel == K_gemm:
        return r.compute == F32 or r.compute == F64
    return r.kernel == K_fill or r.kernel == K_copy


# ==== what is the same in every replay ==========================================================
cdef bint is_constant(Launch x, list launches, dict temporaries) except -1:
    """Whether x fills a small temporary that nothing else writes to."""
    cdef Launch y
    if x.record().kernel != K_fill or len(x.writes) != 1:
        return False
    (target,) = x.writes
    if temporaries.get(target, LARGEST_CONSTANT + 1) > LARGEST_CONSTANT:
        return False
    for y in launches:
        if y is not x and target in y.writes:
            return False
    return True
