# distutils: language = c++
"""Advanced indexing, index_select, gather, scatter and their kin: launches, graph, derivatives."""
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport check_range, sum_to_shape
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    FnNode, Tensor, add_method, alias, any_requires, as_element, as_view, attach, begin, cast, check_inplace,
    contiguous, copy_into, empty, empty_like, empty_of, fill_with, grad_enabled, item_of, rebase, record, same_shape, set_arg,
    set_geometry, shape_of, wrap_dim)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, I32, I64, U8, Iteration, Record

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_index_get "tensotron::K_index_get"
    enum: K_index_put "tensotron::K_index_put"
    enum: K_nonzero "tensotron::K_nonzero"
    enum: K_masked_select "tensotron::K_masked_select"
    enum: K_masked_scatter "tensotron::K_masked_scatter"
    enum: K_one_hot "tensotron::K_one_hot"

include "arguments.pxi"

FUNCTIONS = {}

cdef enum:
    MAX_TENSORS = 6
    # modes of index_put, as in index-inl.h
    ASSIGN = 0
    ADD = 1
    MULTIPLY = 2
    # how an index out of range is reported
    AS_INDEX_ERROR = 0
    AS_RUNTIME_ERROR = 1
    AS_SELF_RANGE = 2
    AS_TAKE_RANGE = 3


# ==== launch ====================================================================================
cdef struct Plan:
    int nd                      # of the iteration
    int64_t size[64]
    int64_t indexed[64]         # strides of the indexed operand, 0 where index tensors run
    int n                       # index tensors
    int64_t index[6][64]        # their strides
    int64_t dim_size[6]
    int64_t dim_stride[6]


cdef int launch_plan(const Plan* p, int kernel, int mode, Tensor direct, const int64_t* direct_strides, Tensor indexed,
                     list tensors, bint wrap, int error_kind, int dim) except -1:
    cdef Record r
    cdef Iteration it
    cdef int k
    cdef Tensor t
    for k in range(p.nd):
        if p.size[k] == 0:
            return 0
    begin(&r, kernel, mode, 1, 1 + p.n, indexed.dt)
    r.flags = wrap
    it.begin(p.nd, p.size)
    if kernel == K_index_get:
        set_arg(&r, 0, direct)
        set_arg(&r, 1, indexed)
        it.operand(p.nd, p.size, direct_strides)
        it.operand(p.nd, p.size, p.indexed)
    else:
        set_arg(&r, 0, indexed)
        set_arg(&r, 1, direct)
        it.operand(p.nd, p.size, p.indexed)
        it.operand(p.nd, p.size, direct_strides)
    r.ints[0] = p.n
    for k in range(p.n):
        t = <Tensor>tensors[k]
        set_arg(&r, 2 + k, t)
        it.operand(p.nd, p.size, p.index[k])
        r.ints[1 + 2 * k] = p.dim_size[k]
        r.ints[2 + 2 * k] = p.dim_stride[k]
    it.simplify(False)
    r.error[3] = error_kind + 4 * (dim + 1)
    return backend.launch_over(&r, it)


# ==== advanced indexing ===========================================================================
cdef int64_t count_nonzero(Tensor t) except -1:
    cdef Record r
    cdef Tensor total = empty(0, NULL, I64)
    cdef int d
    if t.nd > 8:
        t = contiguous(t)
    begin(&r, K_nonzero, 0, 1, 1, t.dt)
    set_arg(&r, 0, total)
    set_arg(&r, 1, t)
    if t.nd > 8:
        r.ndim = 1
        r.size[0] = t.n
        r.arg[0].stride[0] = 0
        r.arg[1].stride[0] = 1
    else:
        r.ndim = t.nd
        for d in range(t.nd):
            r.size[d] = t.sizes[d]
            r.arg[0].stride[d] = 0
            r.arg[1].stride[d] = t.strides[d]
    backend.launch(&r)
    return item_of(total)


cdef Tensor coordinates(Tensor t):
    """[nd][count]: where t is not zero."""
    cdef int64_t size[2]
    cdef Record r
    cdef Tensor out
    cdef int d
    if t.nd > 8:
        raise NotImplementedError("nonzero: more than 8 dimensions")
    size[0] = t.nd
    size[1] = count_nonzero(t)
    out = empty(2, size, I64)
    if out.n == 0:
        return out
    begin(&r, K_nonzero, 1, 1, 1, t.dt)
    set_arg(&r, 0, out)
    set_arg(&r, 1, t)
    r.ndim = t.nd
    for d in range(t.nd):
        r.size[d] = t.sizes[d]
        r.arg[1].stride[d] = t.strides[d]
    r.arg[0].stride[0] = 1
    r.arg[0].stride[1] = size[1]
    backend.launch(&r)
    return out


cdef list mask_columns(Tensor mask):
    """The coordinates of the true elements, one 1-dim tensor per dimension of the mask."""
    cdef Tensor at = coordinates(mask)
    cdef int d
    return [as_view(at, 1, at.sizes + 1, at.strides + 1, d * at.sizes[1]) for d in range(mask.nd)]


cdef list expand_indices(Tensor t, list indices):
    """Masks replaced by coordinates, types and number checked."""
    cdef list out = []
    cdef Tensor i
    cdef int d, k
    for k in range(len(indices)):
        if indices[k] is None:
            out.append(None)
            continue
        i = <Tensor>indices[k]
        if i.dt == BOOL or i.dt == U8:
            if i.dt == U8:
                import warnings
                warnings.warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                              UserWarning, stacklevel=2)
            for d in range(i.nd):
                if len(out) + d >= t.nd:
                    raise IndexError(f"too many indices for tensor of dimension {t.nd}")
                if i.sizes[d] != t.sizes[len(out) + d]:
                    raise IndexError(f"The shape of the mask {list(shape_of(i))} at index {d} does not match the shape of the "
                                     f"indexed tensor {list(shape_of(t))} at index {len(out) + d}")
            out += mask_columns(i)
        elif i.dt == I64 or i.dt == I32:
            out.append(i)
        else:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if len(out) > t.nd:
        raise IndexError(f"too many indices for tensor of dimension {t.nd} (got {len(out)})")
    return out


cdef list plan_index(Plan* p, Tensor t, list indices):
    """The iteration of t[indices]; the tensors among the indices. torch's rule: the indexed dimensions
    stand where they stood if they are neighbours, else in front."""
    cdef int64_t shape[64]
    cdef int64_t* at
    cdef int bnd = 0, d, e, k, first = -1, last = -1, n = 0, pos = 0
    cdef Tensor i
    cdef list tensors = []
    for d in range(len(indices)):
        if indices[d] is None:
            continue
        i = <Tensor>indices[d]
        if first < 0:
            first = d
        last = d
        n += 1
        tensors.append(i)
        bnd = i.nd if i.nd > bnd else bnd
    if n > MAX_TENSORS:
        raise NotImplementedError("indexing with more than 6 index tensors")
    for e in range(bnd):
        shape[e] = 1
    for k in range(n):
        i = <Tensor>tensors[k]
        for d in range(i.nd):
            e = bnd - i.nd + d
            if i.sizes[d] == 1 or i.sizes[d] == shape[e]:
                continue
            if shape[e] != 1:
                shapes = ", ".join([str(list(shape_of(<Tensor>x))) for x in tensors])
                raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")
            shape[e] = i.sizes[d]
    if last - first + 1 != n:
        first = -1  # not neighbours: in front
    p.n = n
    k = 0
    for d in range(-1, t.nd):
        if (d < 0 and first < 0) or (d >= 0 and d == first):
            for e in range(bnd):
                p.size[pos] = shape[e]
                p.indexed[pos] = 0
                for k in range(n):
                    i = <Tensor>tensors[k]
                    at = p.index[k]
                    at[pos] = 0 if e < bnd - i.nd or i.sizes[e - bnd + i.nd] == 1 else i.strides[e - bnd + i.nd]
                pos += 1
        if d < 0 or (d < len(indices) and indices[d] is not None):
            continue
        p.size[pos] = t.sizes[d]
        p.indexed[pos] = t.strides[d]
        for k in range(n):
            p.index[k][pos] = 0
        pos += 1
    p.nd = pos
    k = 0
    for d in range(len(indices)):
        if indices[d] is None:
            continue
        p.dim_size[k] = t.sizes[d]
        p.dim_stride[k] = t.strides[d]
        if t.sizes[d] == 0:
            for e in range(bnd):
                if shape[e] == 0:
                    break
            else:
                raise IndexError("index is out of bounds for dimension with size 0")
        k += 1
    return tensors


cdef Tensor get_raw(Tensor t, list indices):
    cdef Plan p
    cdef list tensors = plan_index(&p, t, indices)
    cdef Tensor out = empty(p.nd, p.size, t.dt)
    launch_plan(&p, K_index_get, 0, out, out.strides, t, tensors, True, AS_INDEX_ERROR, -1)
    return out


cdef int put_raw(Tensor t, list indices, Tensor values, int mode) except -1:
    cdef Plan p
    cdef int64_t strides[64]
    cdef int d, e
    cdef list tensors = plan_index(&p, t, indices)
    for d in range(p.nd):
        e = d - (p.nd - values.nd)
        strides[d] = 0 if e < 0 or values.sizes[e] == 1 else values.strides[e]
        if e >= 0 and values.sizes[e] != 1 and values.sizes[e] != p.size[d]:
            e = -100
            break
    if values.nd > p.nd or e == -100:
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(shape_of(values))} cannot be broadcast to indexing "
                           f"result of shape {[p.size[d] for d in range(p.nd)]}")
    if t.dt != values.dt:
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got {TITLES[t.dt]} for the destination "
                           f"and {TITLES[values.dt]} for the source.")
    if values.storage is t.storage:
        values = copy_of(values)
        return put_raw(t, indices, values, mode)
    for d in range(len(tensors)):
        if (<Tensor>tensors[d]).storage is t.storage:
            return put_raw(t, [copy_of(<Tensor>i) if i is not None else None for i in indices], values, mode)
    launch_plan(&p, K_index_put, mode, values, strides, t, tensors, True, AS_INDEX_ERROR, -1)
    return 0


cdef list saved_indices(object node):
    return [node.saved(i) for i in range(len((<FnNode>node).saved_tensors or ()))]


cdef Tensor index(Tensor t, list indices):
    cdef list idx = expand_indices(t, indices)
    return record(get_raw(t, idx), "IndexBackward0", index_backward, (t,), tuple(idx), shape_of(t))


def index_backward(node, g):
    node.saved(0)
    return index_adjoint(<Tensor>g, node.info, saved_indices(node))


cdef Tensor index_adjoint(Tensor g, object shape, list idx):
    """Zeros of `shape` with g added at the indices."""
    cdef Tensor out = zeros(shape, g.dt)
    put_raw(out, idx, g, ADD)
    return record(out, "IndexPutBackward0", index_adjoint_backward, (g,), tuple(idx), None)


def index_adjoint_backward(node, g):
    node.saved(0)
    return index(<Tensor>g, saved_indices(node))


cdef Tensor only_mask(Tensor t, list indices, int* dim):
    """The mask, if the indices are one mask that starts at dimension `dim`."""
    cdef Tensor mask = None, i
    cdef int k
    for k in range(len(indices)):
        if indices[k] is None:
            continue
        i = <Tensor>indices[k]
        if mask is not None or i.dt != BOOL or k + i.nd > t.nd or t.nd > 8:
            return None
        mask = i
        dim[0] = k
    return mask


cdef bint fill_masked(Tensor t, list indices, Tensor values) except -1:
    """t[mask] = one value of any dtype, without a list of coordinates. False if that is not what is asked."""
    cdef Record r
    cdef int dim = 0, d
    cdef Tensor mask = only_mask(t, indices, &dim)
    if mask is None or values.n != 1:
        return False
    for d in range(mask.nd):
        if mask.sizes[d] != t.sizes[dim + d]:
            return False
    check_range(values, t.dt)
    if t.n == 0:
        return True
    if values.storage is t.storage:
        values = copy_of(values)
    if mask.storage is t.storage:
        mask = copy_of(mask)
    values = cast(values, t.dt)
    begin(&r, K_masked_scatter, 0, 1, 2, t.dt)
    r.flags = 1
    r.ndim = t.nd
    set_arg(&r, 0, t)
    set_arg(&r, 1, mask)
    set_arg(&r, 2, values)
    for d in range(t.nd):
        r.size[d] = t.sizes[d]
        r.arg[0].stride[d] = t.strides[d]
        r.arg[1].stride[d] = mask.strides[d - dim] if dim <= d < dim + mask.nd else 0
    r.ints[0] = 1
    backend.launch(&r)
    return True


cdef list put_any(Tensor t, list indices, Tensor values, bint accumulate):
    """Writes or adds values; the indices for the backward pass."""
    cdef list idx
    if not accumulate and fill_masked(t, indices, values):
        return indices
    idx = expand_indices(t, indices)
    put_raw(t, idx, values, ADD if accumulate else ASSIGN)
    return idx


cdef Tensor index_put_inplace(Tensor t, list indices, Tensor values, bint accumulate):
    cdef list idx
    check_inplace(t, t.requires() or values.requires())
    idx = put_any(t, indices, values, accumulate)
    return finish_inplace(t, "IndexPutBackward0", index_put_backward, (t, values), tuple(idx), (accumulate, shape_of(values)))


cdef Tensor index_put_copy(Tensor t, list indices, Tensor values, bint accumulate):
    cdef Tensor out = copy_of(t)
    cdef list idx = put_any(out, indices, values, accumulate)
    return record(out, "IndexPutBackward0", index_put_backward, (t, values), tuple(idx), (accumulate, shape_of(values)))


def index_put_backward(node, g):
    accumulate, shape = node.info
    idx = saved_indices(node)
    gt = gv = None
    if node.needs(0):
        gt = g if accumulate else index_put_copy(<Tensor>g, idx, zeros((), (<Tensor>g).dt), False)
    if node.needs(1):
        gv = sum_to_shape(index(<Tensor>g, idx), shape)
    return gt, gv


cdef list index_list(object indices, str op):
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{op}(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}")
    for k, i in enumerate(indices):
        if not isinstance(i, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(i).__name__}")
    return list(indices)


def index_put(input, indices, values, bint accumulate=False):
    """input with `values` written (accumulate: added) where the tuple of index tensors points."""
    return index_put_copy(tensor_arg(input, "index_put", "input", 1), index_list(indices, "index_put"),
                          tensor_arg(values, "index_put", "values", 2), accumulate)


def index_put_(input, indices, values, bint accumulate=False):
    """In-place version of index_put()."""
    return index_put_inplace(tensor_arg(input, "index_put_", "input", 1), index_list(indices, "index_put_"),
                             tensor_arg(values, "index_put_", "values", 2), accumulate)


# ==== one index along one dimension ===============================================================
cdef int plan_dim(Plan* p, Tensor t, int dim, Tensor i, bint full, const int64_t* sizes) except -1:
    """Iteration over `sizes` with i along dimension `dim` of t: a vector, or (full) of the iteration's shape.
    A 0-dim tensor counts as one of a single element."""
    cdef int d, nd = t.nd if t.nd > 0 else 1
    p.nd = nd
    p.n = 1
    for d in range(nd):
        p.size[d] = sizes[d]
        p.indexed[d] = 0 if d == dim else t.strides[d]
        p.index[0][d] = 0
        if full:
            p.index[0][d] = i.strides[d] if i.nd > 0 else 0
        elif d == dim and i.nd > 0:
            p.index[0][d] = i.strides[0]
    p.dim_size[0] = t.sizes[dim] if t.nd > 0 else 1
    p.dim_stride[0] = t.strides[dim] if t.nd > 0 else 1
    return 0


cdef int check_index_dtype(Tensor i, str text) except -1:
    if i.dt != I64 and i.dt != I32:
        raise RuntimeError(text)
    return 0


cdef Tensor vector_index(Tensor i, str op):
    if i.nd > 1:
        raise IndexError(f"{op}(): Index is supposed to be a vector" +
                         (f", but got dim: {i.nd} with type: {TITLES[i.dt]} and size: {list(shape_of(i))}" if op == "index_add_" else ""))
    return i


cdef Tensor select_raw(Tensor t, int dim, Tensor i):
    cdef Plan p
    cdef int64_t size[64]
    cdef int d
    cdef Tensor out
    size[0] = 1
    for d in range(t.nd):
        size[d] = i.n if d == dim else t.sizes[d]
    out = empty(t.nd, size, t.dt)
    plan_dim(&p, t, dim, i, False, size)
    launch_plan(&p, K_index_get, 0, out, out.strides, t, [i], False, AS_SELF_RANGE, dim)
    return out


def index_select(input, dim, index, *, out=None):
    """The slices of input along dim that the index tensor (a vector) names, as a new tensor."""
    cdef Tensor t = tensor_arg(input, "index_select", "input", 1), i = tensor_arg(index, "index_select", "index", 3)
    cdef int d = dim_arg(dim, t.nd, "index_select", 2)
    vector_index(i, "index_select")
    check_index_dtype(i, "index_select(): Expected dtype int32 or int64 for index")
    if t.nd == 0 and i.n != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {i.n} value(s)")
    if out is not None and isinstance(out, Tensor) and (<Tensor>out).dt != t.dt:
        raise RuntimeError("index_select(): self and result must have the same scalar type")
    result = record(select_raw(t, d, i), "IndexSelectBackward0", index_select_backward, (t,), (i,), (d, shape_of(t)))
    return finish_out(out, result, "index_select", (t, i))


def index_select_backward(node, g):
    dim, shape = node.info
    cdef Tensor out = zeros(shape, (<Tensor>g).dt), i = node.saved(0)
    add_slices(out, dim, i, <Tensor>g, ADD, AS_SELF_RANGE)
    return record(out, "IndexAddBackward0", slices_of_gradient, (g,), (i,), dim)


def slices_of_gradient(node, g):
    return index_select(g, node.info, node.saved(0))


cdef int add_slices(Tensor t, int dim, Tensor i, Tensor source, int mode, int error_kind, bint wrap=False) except -1:
    """Writes or adds the slices of source at the indices along dim; source broadcasts if it is 0-dim."""
    cdef Plan p
    cdef int64_t size[64]
    cdef int64_t strides[64]
    cdef int d
    size[0] = i.n
    strides[0] = 0
    for d in range(t.nd):
        size[d] = i.n if d == dim else t.sizes[d]
        strides[d] = source.strides[d] if source.nd > 0 and source.sizes[d] != 1 else 0
    if source.storage is t.storage:
        source = copy_of(source)
        return add_slices(t, dim, i, source, mode, error_kind, wrap)
    plan_dim(&p, t, dim, i, False, size)
    launch_plan(&p, K_index_put, mode, source, strides, t, [i], wrap, error_kind, dim)
    return 0


cdef int check_slices(Tensor t, int dim, Tensor i, Tensor source, str op) except -1:
    vector_index(i, op)
    check_index_dtype(i, f"{op}(): Expected dtype int32/int64 for index but got: {TITLES[i.dt]}" if op == "index_add_" else
                      f"{op}(): Expected a long tensor for index, but got {TITLES[i.dt]}")
    if t.dt != source.dt:
        raise RuntimeError(f"{op}(): self ({TITLES[t.dt]}) and source ({TITLES[source.dt]}) must have the same scalar type"
                           if op == "index_add_" else
                           f"{op}(): self and source expected to have the same dtype, but got (self) {TITLES[t.dt]} and (source) "
                           f"{TITLES[source.dt]}")
    if op == "index_copy_":
        if source.nd == 0 and i.n != 1:
            raise IndexError(f"{op}(): When source is scalar, index should have one element (got {i.n})")
        if source.nd != t.nd and source.nd != 0 and t.nd != 0:
            raise IndexError(f"{op}(): When source and destination are not scalars, their dimensionality must match. Source "
                             f"dimensionality ({source.nd}), destination dimensionality ({t.nd})")
        for d in range(t.nd):
            if d != dim and source.nd and source.sizes[d] != t.sizes[d]:
                a = "".join(str(t.sizes[e]) + " " for e in range(t.nd) if e != dim).strip()
                b = "".join(str(source.sizes[e]) + " " for e in range(source.nd) if e != dim).strip()
                raise RuntimeError(f"{op}(): Source/destination tensor must have same slice shapes. Destination slice shape: {a} at "
                                   f"dimension {dim} and source slice shape: {b} at dimension 0.")
        if source.nd and i.n != source.sizes[dim]:
            raise IndexError(f"{op}(): Number of indices ({i.n}) should be equal to source.size(dim) ({source.sizes[dim]})")
        return 0
    if source.nd > 1 and source.nd != t.nd:
        raise RuntimeError(f"source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                           f"{list(shape_of(t))} source.shape = {list(shape_of(source))}")
    n = source.sizes[dim] if source.nd > dim else 1
    if i.n != n:
        raise RuntimeError(f"{op}(): Number of indices ({i.n}) should be equal to source.size(dim): ({n}), for dim: {dim}")
    if t.nd > 0 and source.nd > 0:
        for d in range(t.nd):
            if d != dim and (d >= source.nd or source.sizes[d] != t.sizes[d]):
                raise RuntimeError(f"source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                                   f"self.shape = {list(shape_of(t))} source.shape = {list(shape_of(source))}")
    return 0


cdef Tensor scaled(Tensor source, object alpha):
    alpha = as_element(alpha, source.dt)
    return source if alpha == 1 else alias(source) * alpha


cdef object slices_op(object input, object dim, object index, object source, object alpha, str op, str node, object backward,
                      int mode, bint inplace, object out):
    cdef str name = op if inplace else op[:-1]
    cdef Tensor t = tensor_arg(input, name, "input", 1), i = tensor_arg(index, name, "index", 3)
    cdef Tensor s = tensor_arg(source, name, "source", 4), result
    cdef int d = dim_arg(dim, t.nd, name, 2)
    check_slices(t, d, i, s, op)
    if inplace:
        check_inplace(t, t.requires() or s.requires())
        result = t
    else:
        result = copy_of(t)
    add_slices(result, d, i, scaled(s, alpha), mode, AS_RUNTIME_ERROR if mode == ADD else AS_INDEX_ERROR)
    if inplace:
        return finish_inplace(t, node, backward, (t, s), (i,), (d, alpha, shape_of(s)))
    record(result, node, backward, (t, s), (i,), (d, alpha, shape_of(s)))
    return finish_out(out, result, name, (t, s))


def index_add(input, dim, index, source, *, alpha=1, out=None):
    """input with alpha * source added at the indices along dim."""
    return slices_op(input, dim, index, source, alpha, "index_add_", "IndexAddBackward0", index_add_backward, ADD, False, out)


def index_add_(input, dim, index, source, *, alpha=1):
    """In-place version of index_add()."""
    return slices_op(input, dim, index, source, alpha, "index_add_", "IndexAddBackward0", index_add_backward, ADD, True, None)


def index_add_backward(node, g):
    dim, alpha, shape = node.info
    gs = None
    if node.needs(1):
        gs = index_select(g, dim, node.saved(0)).reshape(shape)
        gs = gs if alpha == 1 else gs * alpha
    return g if node.needs(0) else None, gs


def index_copy(input, dim, index, source, *, out=None):
    """input with the slices of source at the indices along dim."""
    return slices_op(input, dim, index, source, 1, "index_copy_", "IndexCopyBackward0", index_copy_backward, ASSIGN, False, out)


def index_copy_(input, dim, index, source):
    """In-place version of index_copy()."""
    return slices_op(input, dim, index, source, 1, "index_copy_", "IndexCopyBackward0", index_copy_backward, ASSIGN, True, None)


def index_copy_backward(node, g):
    dim, _, shape = node.info
    i = node.saved(0)
    return (index_fill(g, dim, i, 0) if node.needs(0) else None,
            index_select(g, dim, i).reshape(shape) if node.needs(1) else None)


cdef object fill_op(object input, object dim, object index, object value, bint inplace):
    cdef str op = "index_fill_" if inplace else "index_fill"
    cdef Tensor t = tensor_arg(input, op, "input", 1), i = tensor_arg(index, op, "index", 3), v, result
    cdef int d = dim_arg(dim, t.nd, op, 2)
    cdef bint tensor_value = isinstance(value, Tensor)
    vector_index(i, "index_fill_")
    if i.dt != I64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if tensor_value:
        v = <Tensor>value
        if v.nd != 0:
            raise RuntimeError(f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {v.nd} dimension(s).")
        check_range(v, t.dt)
    else:
        v = empty(0, NULL, t.dt)
        fill_with(v, value)
    if inplace:
        check_inplace(t, t.requires() or v.requires())
        result = t
    else:
        result = copy_of(t)
    write = v
    if v.dt != t.dt:
        write = empty(0, NULL, t.dt)
        copy_into(<Tensor>write, v)
    add_slices(result, d, i, <Tensor>write, ASSIGN, AS_INDEX_ERROR, True)
    if tensor_value:
        args = ("IndexFillBackward1", index_fill_backward, (t, v), (i,), d)
    else:
        args = ("IndexFillBackward0", index_fill_scalar_backward, (t,), (i,), d)
    if inplace:
        return finish_inplace(t, args[0], args[1], args[2], args[3], args[4])
    return record(result, args[0], args[1], args[2], args[3], args[4])


def index_fill(input, dim, index, value):
    """input with a number (or 0-dim tensor) at the indices along dim."""
    return fill_op(input, dim, index, value, False)


def index_fill_(input, dim, index, value):
    """In-place version of index_fill()."""
    return fill_op(input, dim, index, value, True)


def index_fill_scalar_backward(node, g):
    return index_fill(g, node.info, node.saved(0), 0)


def index_fill_backward(node, g):
    i = node.saved(0)
    return (index_fill(g, node.info, i, 0) if node.needs(0) else None,
            sum_of_filled(g, node.info, i) if node.needs(1) else None)


cdef object sum_of_filled(object g, int dim, object i):
    """Sum of g where index_fill wrote: once each, however often the index names it."""
    cdef Tensor kept = zeros(shape_of(<Tensor>g), BOOL)
    fill_with(kept, True)
    return g.masked_fill(index_fill(kept, dim, i, False), 0).sum()


for _name, _fn in (("index_put", index_put), ("index_select", index_select), ("index_add", index_add),
                   ("index_copy", index_copy), ("index_fill", index_fill), ("index_put_", index_put_)):
    define(_fn, _name, FUNCTIONS, True)
for _name, _fn in (("index_add_", index_add_), ("index_copy_", index_copy_), ("index_fill_", index_fill_)):
    define(_fn, _name, None, True)

include "scatter.pxi"
include "masked.pxi"
