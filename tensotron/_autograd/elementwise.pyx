"""Rows of the elementwise table: launch, graph, first and second derivatives."""
from cpython.object cimport PyObject
from libc.string cimport memcpy

from tensotron._core cimport dtype as dt_
from tensotron._core.arguments cimport refuse_out, resize_out
from tensotron._core.tensor cimport (
    NodeShells, Storage, Tensor, TypeWithDealloc, Node, add_edge, alias, as_integer, as_real, as_view, begin, begin_drop,
    check_inplace, contiguous, copy_into, destructor, drop_members, empty, empty_like, empty_strided, end_drop, grad_enabled,
    inference_enabled, is_dense, make_size, next_seq, parse_sizes, put_part, raise_freed_graph, rebase, same_shape, save_input,
    save_output, set_arg, shape_of, take_node, unpack_saved)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8, Iteration, Record

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    #include "tensotron/_ops/reduce_ops.h"
    #include "tensotron/_ops/symbol.h"
    static inline const tensotron::RowInfo& tt_row(int r) { return tensotron::rows::info[r]; }
    """
    enum: K_elementwise "tensotron::K_elementwise"
    enum: K_reduce "tensotron::K_reduce"
    enum: REDUCE_sum "tensotron::REDUCE_sum"
    enum: NUM_ROWS "tensotron::NUM_ROWS"
    enum: USES_A "tensotron::USES_A"
    enum: USES_B "tensotron::USES_B"
    enum: USES_C "tensotron::USES_C"
    enum: USES_Y "tensotron::USES_Y"
    enum: STEP_INPUT "tensotron::symbolic::STEP_INPUT"
    enum: STEP_PARAM "tensotron::symbolic::STEP_PARAM"
    enum: STEP_CONST "tensotron::symbolic::STEP_CONST"
    cdef cppclass RowInfo "tensotron::RowInfo":
        const char* name
        uint8_t nin, types
        uint8_t uses[3]
    const RowInfo& tt_row(int r)
    struct Step "tensotron::symbolic::Step":
        int kind
        const char* name
        int arg[3]
        double value
    cdef cppclass Tape "tensotron::symbolic::Tape":
        Step step[256]
        int n
    Tape& tape "tensotron::symbolic::tape"()
    int trace "tensotron::symbolic::trace"(int row, int expression)

import tensotron._core.dtype as _dtype

cdef dict ROWS = {tt_row(r).name.decode(): r for r in range(NUM_ROWS)}
# gradient i of a row is the incoming gradient itself
cdef bint identity[NUM_ROWS * 3]
for r in range(NUM_ROWS):
    for k in range(tt_row(r).nin):
        identity[r * 3 + k] = trace(r, k + 1) == 0


cdef int row_id(str name) except -1:
    return ROWS[name]


cdef bint is_number(object x) noexcept:
    return dt_.scalar_code(x) >= 0


cdef double int_number(int64_t v) noexcept:
    """A number of a launch that computes in int64, where a double would round it: its bits."""
    cdef double bits
    memcpy(&bits, &v, sizeof(v))
    return bits


cdef double checked_number(object value, int dt) except? -1:
    """A parameter of a launch as a number of this dtype, which must hold it; of an integer dtype its bits. A float loses
    its fraction, and a 0-dim tensor is read. RuntimeError."""
    if isinstance(value, Tensor):
        value = value.item()
    return as_real(value, dt) if dt_.is_float(dt) else int_number(as_integer(value, dt))


cdef int check_range(Tensor number, int dt) except -1:
    """Refuses a 0-dim tensor that stands for a number which this dtype does not hold."""
    if number.dt != dt and dt != F64 and dt != BOOL and (number.dt < dt or number.dt == F64):  # else it holds them all
        checked_number(number, dt)
    return 0


cdef int result_type_of(object a, object b) except -1:
    """dtype of a op b by torch's rules: tensors with dimensions before 0-dim tensors before Python numbers,
    a higher category winning."""
    if isinstance(a, Tensor) and isinstance(b, Tensor) and (<Tensor>a).dt == (<Tensor>b).dt:
        return (<Tensor>a).dt
    return result_type_of_three(a, b, None)


cdef int result_type_of_three(object a, object b, object c) except -1:
    """The same for three operands; None counts for nothing."""
    cdef int level[3]
    cdef int i, code
    cdef Tensor t
    level[:] = [-1, -1, -1]
    for x in (a, b, c):
        if x is None:
            continue
        if isinstance(x, Tensor):
            t = <Tensor>x
            i = 0 if t.nd > 0 else 1
            code = t.dt
        else:
            i = 2
            code = dt_.scalar_code(x)
        level[i] = code if level[i] < 0 else dt_.promote(level[i], code)
    return combine(level[0], combine(level[1], level[2]))


cdef int combine(int higher, int lower) noexcept:
    if higher < 0:
        return lower
    if lower < 0 or dt_.is_float(higher):
        return higher
    if higher == BOOL or dt_.is_float(lower):
        return dt_.promote(higher, lower)
    return higher


# ==== launch ====================================================================================
cdef inline void set_operand(Record* r, int k, Tensor t, double number, int compute) noexcept:
    """Argument k: a tensor, or a number kept in the record."""
    if t is not None:
        set_arg(r, k, t)
        return
    cdef int slot = 3 + k  # reals and ints 0..3 are the row's parameters
    if compute == I64:
        memcpy(&r.ints[slot], &number, sizeof(number))
        r.arg[k].data = <char*>&r.ints[slot]
        r.arg[k].dtype = I64
    else:
        r.reals[slot] = number
        r.arg[k].data = <char*>&r.reals[slot]
        r.arg[k].dtype = F64
    r.arg[k].buffer = NULL
    r.arg[k].is_const = 1


cdef inline bint dense_like(Tensor t, Tensor first, int compute) noexcept:
    return t.contiguous and t.dt == compute and (t is first or same_shape(t, first))


cdef int launch_row(int op, Tensor out, Tensor a, Tensor b, Tensor c, Tensor d, double na, double nb, double nc, int n_in,
                    int compute, const double* p) except -1:
    """Writes out = expression(a, b, c, d); operands broadcast to out. None is a number."""
    cdef Record r
    cdef Iteration it
    cdef int k
    cdef Tensor t
    cdef double number
    begin(&r, K_elementwise, op, 1, n_in, compute)
    for k in range(4):
        r.reals[k] = p[k]
    if compute == I64:
        memcpy(r.ints, p, 4 * sizeof(double))
    set_arg(&r, 0, out)
    if (out.contiguous and out.dt == compute
            and (a is None or dense_like(a, out, compute)) and (n_in < 2 or b is None or dense_like(b, out, compute))
            and (n_in < 3 or c is None or dense_like(c, out, compute))
            and (n_in < 4 or d is None or dense_like(d, out, compute))):
        r.ndim = 1
        r.size[0] = out.n
        r.arg[0].stride[0] = 1
        set_operand(&r, 1, a, na, compute)
        r.arg[1].stride[0] = a is not None
        if n_in > 1:
            set_operand(&r, 2, b, nb, compute)
            r.arg[2].stride[0] = b is not None
        if n_in > 2:
            set_operand(&r, 3, c, nc, compute)
            r.arg[3].stride[0] = c is not None
        if n_in > 3:
            set_operand(&r, 4, d, 0, compute)
            r.arg[4].stride[0] = d is not None
        return backend.launch(&r)
    it.begin(out.nd, out.sizes)
    it.operand(out.nd, out.sizes, out.strides)
    for k in range(n_in):
        if k == 0:
            t, number = a, na
        elif k == 1:
            t, number = b, nb
        elif k == 2:
            t, number = c, nc
        else:
            t, number = d, 0
        set_operand(&r, k + 1, t, number, compute)
        if t is None:
            it.constant()
        else:
            it.operand(t.nd, t.sizes, t.strides)
    it.simplify(True)
    return backend.launch_over(&r, it)


cdef int broadcast(Tensor a, Tensor b, Tensor c, int64_t* out) except -1:
    """Broadcast shape of the tensors given; its number of dimensions."""
    cdef int nd = 0, d, e, k
    cdef Tensor t, first = None
    cdef int64_t s
    for k in range(3):
        t = a if k == 0 else b if k == 1 else c
        if t is None:
            continue
        if first is None:
            first = t
            nd = t.nd
            for d in range(nd):
                out[d] = t.sizes[d]
            continue
        if t.nd > nd:
            for d in range(t.nd - 1, -1, -1):
                e = d - (t.nd - nd)
                out[d] = out[e] if e >= 0 else 1
            nd = t.nd
        for d in range(t.nd):
            e = d + nd - t.nd
            s = t.sizes[d]
            if out[e] == s or s == 1:
                continue
            if out[e] != 1:
                raise RuntimeError(f"The size of tensor a ({out[e]}) must match the size of tensor b ({s}) at "
                                   f"non-singleton dimension {e}")
            out[e] = s
    return nd


cdef Tensor new_output(int nd, const int64_t* sizes, Tensor a, Tensor b, Tensor c, int dt):
    """Output in the memory order of the operands that have the full shape, as torch lays it out."""
    cdef Tensor t, like = None
    cdef int k, d
    cdef bint full
    for k in range(3):
        t = a if k == 0 else b if k == 1 else c
        if t is None or t.nd != nd:
            continue
        full = True
        for d in range(nd):
            if t.sizes[d] != sizes[d]:
                full = False
        if full:
            like = t
            break
    if like is None or like.contiguous:
        return empty(nd, sizes, dt)
    return empty_like(like, dt)


DTYPE_TITLES = ["Float", "Double", "Long", "Int", "Byte", "Bool"]


cdef int check_out(Tensor out, int nd, const int64_t* sizes, int result, bint inplace) except -1:
    """Whether a result of this dtype and shape may be written to out; resizes an out= of other shape."""
    cdef int d
    if not dt_.can_cast(result, out.dt):
        raise RuntimeError(f"result type {DTYPE_TITLES[result]} can't be cast to the desired output type "
                           f"{DTYPE_TITLES[out.dt]}")
    if not inplace:
        return resize_out(out, nd, sizes, True)
    if out.nd == nd:
        for d in range(nd):
            if out.sizes[d] != sizes[d]:
                break
        else:
            return 0
    raise RuntimeError(f"output with shape {list(shape_of(out))} doesn't match the broadcast shape {[sizes[i] for i in range(nd)]}")


cdef str out_name(str node):
    """The op's name in a message, from its node's: "ClampMinBackward0" is clamp_min."""
    return "".join(["_" + c.lower() if c.isupper() else c for c in node[:len(node) - 9]])[1:].replace("log1_p", "log1p")


cdef Tensor apply_row(int row, str node, Tensor a, Tensor b, Tensor c, double na, double nb, double nc,
                      int n_in, int compute, int result, Tensor out, bint inplace,
                      double p0, double p1, double p2):
    cdef Tensor written = None
    cdef int64_t sizes[64]
    cdef int nd
    cdef double p[4]
    cdef RowNode graph = None
    cdef bint requires = False
    p[0] = p0
    p[1] = p1
    p[2] = p2
    p[3] = 0
    if grad_enabled():
        requires = ((a is not None and a.requires()) or (b is not None and b.requires())
                    or (c is not None and c.requires()) or (out is not None and out.requires()))
    if out is None:
        if a is not None and (n_in == 1 or (b is not None and n_in == 2 and same_shape(a, b)) or (b is None and n_in == 2)):
            out = empty(a.nd, a.sizes, result) if a.contiguous else new_output(a.nd, a.sizes, a, b, None, result)
        else:
            nd = broadcast(a, b, c, sizes)
            out = new_output(nd, sizes, a, b, c, result)
        if requires and node is not None and dt_.is_float(result):
            graph = make_node(row, node, a, b, c, na, nb, nc, n_in, compute, p, out, False)
        launch_row(row * 4, out, a, b, c, None, na, nb, nc, n_in, compute, p)
        if graph is not None:
            save_result(graph, out)
            out.grad_fn_ = graph
        return out
    nd = broadcast(a, b, c, sizes)
    if inplace:
        check_inplace(out, requires)
    elif node is not None:
        refuse_out(out_name(node), out, requires)
    check_out(out, nd, sizes, result, inplace)
    if inplace and requires and node is not None and dt_.is_float(out.dt):
        graph = make_node(row, node, a, b, c, na, nb, nc, n_in, compute, p, out, True)
    written = out
    if overlaps_partly(out, a) or overlaps_partly(out, b) or overlaps_partly(out, c):
        if inplace or dense_overlap(out, a) or dense_overlap(out, b) or dense_overlap(out, c):
            raise RuntimeError("unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                               "a single memory location. Please clone() the tensor before performing the operation.")
        written = empty(out.nd, out.sizes, out.dt)
    elif out.dt != result and (result == I32 or result == U8 or result == BOOL):
        written = empty(out.nd, out.sizes, result)  # wraps around at its own width, not at that of `out`
    launch_row(row * 4, written, a, b, c, None, na, nb, nc, n_in, compute, p)
    if written is not out:
        copy_into(out, written)
    rebase(out, graph)
    if graph is not None:
        save_result(graph, out)
    return out

cdef int attach_relu(Tensor x, Tensor out) except -1:
    cdef double[4] p = [0, 0, 0, 0]
    cdef RowNode graph = make_node(RELU, "ReluBackward0", x, None, None, 0, 0, 0, 1, x.dt, p, out, False)
    save_result(graph, out)
    out.grad_fn_ = graph
    return 0


cdef Tensor mask_of(Node node):
    if (type(node) is not RowNode or (<RowNode>node).row != RELU or node.tensor_hooks is not None or node.pre_hooks is not None
            or node.post_hooks is not None or node.retain is not None):
        return None
    return (<RowNode>node).y


cdef int note_masked(Node node, Tensor g) except -1:
    (<RowNode>node).masked = g
    return 0


cdef enum:
    WORTH_REUSING = 4096  # elements; results below stay in the first-level cache


cdef bint is_temporary(Tensor t, Py_ssize_t references) noexcept:
    """Whether these references to t are all there are to its memory, so that its last reader may write to it: another
    megabyte would push a megabyte out of the cache."""
    cdef Storage s = t.storage
    return (Py_REFCNT(<PyObject*>t) == references and Py_REFCNT(<PyObject*>s) == 2 and t.n >= WORTH_REUSING and t.contiguous
            and t.base_ is None and not t.inference and not s.fixed and not s.watched and s.owner is None)


ROW_NAMES = [tt_row(r).name.decode() for r in range(NUM_ROWS)]
# elu_result_backward: EluBackwardBackward0
DERIVED_NODES = {r: ROW_NAMES[r].replace("_result", "").title().replace("_", "") + "Backward0" for r in range(NUM_ROWS)}
cdef int RELU = ROW_NAMES.index("relu")


cdef bint overlaps_partly(Tensor out, Tensor t) noexcept:
    """Whether t shares memory with out without being the same elements in the same order."""
    cdef int d
    if t is None or t is out or t.storage is not out.storage or t.n == 0 or out.n == 0:
        return False
    if t.ptr == out.ptr and t.nd == out.nd:
        for d in range(t.nd):
            if t.strides[d] != out.strides[d] or t.sizes[d] != out.sizes[d]:
                break
        else:
            return False
    return not (last_byte(t) <= out.ptr or last_byte(out) <= t.ptr)


cdef bint dense_overlap(Tensor out, Tensor t) noexcept:
    """The overlaps that PyTorch refuses of an out=: of others it does not find out."""
    return overlaps_partly(out, t) and is_dense(out) and is_dense(t)


cdef char* last_byte(Tensor t) noexcept:
    cdef int64_t extent = 1
    for d in range(t.nd):
        extent += (t.sizes[d] - 1) * t.strides[d]
    return t.ptr + extent * backend.item_size(t.dt)


include "row_node.pxi"


# ==== broadcasting back =========================================================================
cdef object sum_to_shape(Tensor g, object shape):
    cdef int64_t sizes[64]
    cdef int nd = parse_sizes((shape,), sizes) if len(shape) else 0
    if grad_enabled() and g.requires():
        lead = g.nd - nd
        dims = [d for d in range(g.nd) if d < lead or (sizes[d - lead] == 1 and g.sizes[d] != 1)]
        if dims:
            out = g.sum(dims, keepdim=True)
            return out.reshape(shape)
        return g
    return sum_to(g, nd, sizes)


cdef Tensor sum_to(Tensor g, int nd, const int64_t* sizes):
    """Sum over the dimensions along which `sizes` was broadcast to g's shape. No graph."""
    cdef Record r
    cdef Tensor out
    cdef int d, e, k = 0, n_red = 0, red, first
    cdef bint reduced
    if g.nd == nd:
        for d in range(nd):
            if g.sizes[d] != sizes[d]:
                break
        else:
            return g
    out = empty(nd, sizes, g.dt)
    begin(&r, K_reduce, REDUCE_sum, 1, 1, g.dt)
    set_arg(&r, 0, out)
    set_arg(&r, 1, g)
    if g.contiguous and g.n == out.n:  # nothing but dimensions of size 1 goes
        r.ndim = 1
        r.size[0] = g.n
        r.arg[0].stride[0] = r.arg[1].stride[0] = 1
        r.ints[0] = 0
        backend.launch(&r)
        return out
    # kept dimensions first, reduced last, neighbours merged
    k = 0
    for red in range(2):
        first = k
        for d in range(g.nd):
            e = d - (g.nd - nd)
            reduced = e < 0 or (sizes[e] == 1 and g.sizes[d] != 1)
            if reduced != red or g.sizes[d] == 1:
                continue
            if k > first and it_merge(&r, k - 1, g.sizes[d], out.strides[e] if not reduced else 0, g.strides[d]):
                continue
            if k == 8:
                return sum_packed(g, nd, sizes)
            r.size[k] = g.sizes[d]
            r.arg[0].stride[k] = 0 if reduced else out.strides[e]
            r.arg[1].stride[k] = g.strides[d]
            k += 1
            n_red += red
    r.ndim = k
    r.ints[0] = n_red
    backend.launch(&r)
    return out


cdef Tensor sum_packed(Tensor g, int nd, const int64_t* sizes):
    """sum_to by way of a copy of g with the kept dimensions first, where all of either kind merge."""
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int64_t kept[64]
    cdef int d, e, red, k = 0
    for red in range(2):
        for d in range(g.nd):
            e = d - (g.nd - nd)
            if red == (e < 0 or sizes[e] != g.sizes[d]):
                s[k], st[k] = g.sizes[d], g.strides[d]
                kept[k] = 1 if red else s[k]
                k += 1
    cdef Tensor out = sum_to(contiguous(as_view(g, k, s, st, 0)), k, kept)
    return as_view(out, nd, sizes, NULL, 0)


cdef inline bint it_merge(Record* r, int k, int64_t size, int64_t so, int64_t sg) noexcept:
    if r.arg[0].stride[k] == so * size and r.arg[1].stride[k] == sg * size:
        r.size[k] *= size
        r.arg[0].stride[k] = so
        r.arg[1].stride[k] = sg
        return True
    return False


def _result_type(a, b):
    """dtype of an operation on two tensors or numbers."""
    return dt_.of_code(result_type_of(a, b))
