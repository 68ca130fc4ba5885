# distutils: language = c++
"""Passes over the records of a captured call, before they become a program. See docs/adr/0035-passes.md."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport F32, F64, Arg, Record

cdef extern from *:
    """
    #include "tensotron/_ops/elementwise.h"
    #include "tensotron/_cpu/gemm.h"
    #include "tensotron/_cpu/record.h"
    static int tt_activation(int op) {  // what a product may do at its end instead of this elementwise row
      using namespace tensotron;
      switch (op) {
        case row_op(ROW_relu, FORWARD): return GEMM_RELU;
        case row_op(ROW_tanh, FORWARD): return GEMM_TANH;
        case row_op(ROW_sigmoid, FORWARD): return GEMM_SIGMOID;
        case row_op(ROW_relu, GRAD_A): return GEMM_RELU_GRAD;
        case row_op(ROW_tanh, GRAD_A): return GEMM_TANH_GRAD;
        case row_op(ROW_sigmoid, GRAD_A): return GEMM_SIGMOID_GRAD;
        default: return GEMM_NONE;
      }
    }
    """
    int tt_activation(int op) noexcept
    enum: GEMM_NONE "tensotron::GEMM_NONE"
    enum: GEMM_SIGMOID "tensotron::GEMM_SIGMOID"
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

    def touched(self):
        return self.reads | self.writes

    def record_now(self):
        return bytes(self.data)


def optimise(list records, dict created, dict temporaries):
    """(constants, launches): what is run once, and what is run in every replay.

    created: addresses of the storages made in the call; temporaries: {address: bytes} of those that nothing sees
    after it.
    """
    launches = [Launch(b, i) for i, b in enumerate(records)]
    launches = fold_activations(launches, created, temporaries)
    launches = drop_dead(launches, temporaries)
    return split_constants(launches, temporaries)


# ==== activations and their gradients go into the product before them ===============================================
cdef list fold_activations(list launches, dict created, dict temporaries):
    cdef Launch x
    cdef list kept = []
    cdef dict users = {}           # buffer -> the launches that read or write it, in order
    for x in launches:
        for buffer in x.touched():
            users.setdefault(buffer, []).append(x)
    for x in launches:
        if not fold(x, users, created, temporaries):
            kept.append(x)
    return kept


cdef bint fold(Launch x, dict users, dict created, dict temporaries) except -1:
    """Whether x was an activation that the product which computes its operand now does."""
    cdef Record* r = x.record()
    cdef Record* g
    cdef Launch product
    cdef size_t source, target, output = 0
    cdef list around
    cdef int end = tt_activation(r.op) if r.kernel == K_elementwise else GEMM_NONE
    cdef bint grad = end > GEMM_SIGMOID
    if end == GEMM_NONE or r.nout != 1 or r.nin != 1 + grad or r.arg[1].is_const or (grad and r.arg[2].is_const):
        return False
    source, target = <size_t>r.arg[1].buffer, <size_t>r.arg[0].buffer
    if source not in temporaries or target not in created:
        return False
    around = <list>users[source]
    if len(around) < 2 or around[1] is not x or (source != target and len(around) != 2):
        return False
    product = <Launch>around[0]
    g = product.record()
    if (g.kernel != K_gemm or g.op != GEMM_NONE or source in product.reads or g.compute != r.compute
            or not (r.compute == F32 or r.compute == F64) or not covers(g, r)
            or (source != target and users[target][0] is not x)):
        return False
    if grad:  # by the output of the function, which has to be there when the product is formed
        output = <size_t>r.arg[2].buffer
        if g.nin != 2 or output == source or output == target or any(
                [output in u.writes and product.number < u.number < x.number for u in <list>users[output]]):
            return False
        g.nin = 3
        g.arg[3] = r.arg[2]
        memcpy(g.arg[3].stride, g.arg[0].stride, sizeof(g.arg[0].stride))
        product.reads.add(output)
    g.op = end
    g.arg[0].data, g.arg[0].buffer = r.arg[0].data, r.arg[0].buffer
    product.writes = {target}
    users[target][0 if source != target else 1] = product
    return True


cdef bint covers(const Record* g, const Record* r) noexcept:
    """Whether the elementwise r takes all of the product g, and its operands are all contiguous."""
    cdef const Arg* c = &g.arg[0]
    cdef int64_t expect = 1, m = g.ints[1], n = g.ints[2]
    cdef int d
    cdef int k
    if c.data != r.arg[1].data:
        return False
    for k in range(r.nout + r.nin):
        if r.arg[k].dtype != r.compute:
            return False
    if (n > 1 and c.stride[2] != 1) or (m > 1 and c.stride[1] != n) or (g.ints[0] > 1 and c.stride[0] != m * n):
        return False
    for d in range(r.ndim - 1, -1, -1):
        for k in range(r.nout + r.nin):
            if r.size[d] > 1 and r.arg[k].stride[d] != expect:
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
cdef tuple split_constants(list launches, dict temporaries):
    """Launches that fill a small temporary which nothing else writes to, and the others."""
    cdef Launch x
    cdef list constants = [], others = []
    cdef dict writers = {}         # buffer -> number of launches
    for x in launches:
        for buffer in x.writes:
            writers[buffer] = writers.get(buffer, 0) + 1
    for x in launches:
        if x.record().kernel == K_fill and len(x.writes) == 1 and all(
                [writers[b] == 1 and temporaries.get(b, LARGEST_CONSTANT + 1) <= LARGEST_CONSTANT for b in x.writes]):
            constants.append(x)
        else:
            others.append(x)
    return constants, others
