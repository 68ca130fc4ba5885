# gather, scatter, take: an index tensor of the result's (or the source's) shape. Included by index.pyx.

cdef int check_shapes(Tensor t, int dim, Tensor i, Tensor src, bint gathers) except -1:
    """Refuses an index that does not fit t (apart from dim) or src."""
    cdef int d, nd = t.nd if t.nd > 0 else 1
    cdef bint wrong = False, wrong_src = False
    if i.n == 0:
        return 0
    if (i.nd if i.nd > 0 else 1) != nd:
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {'input' if gathers else 'self'} tensor")
    for d in range(i.nd):
        size = t.sizes[d] if t.nd > 0 else 1
        if d != dim and i.sizes[d] > size:
            if gathers:
                raise RuntimeError(f"Size does not match at dimension {d} expected index {list(shape_of(i))} to be no larger than "
                                   f"self {list(shape_of(t))} apart from dimension {dim}")
            wrong = True
        if src is not None:
            if d >= src.nd and not (src.nd == 0 and d == 0):
                wrap_dim(d, src.nd)
            if i.sizes[d] > (src.sizes[d] if src.nd > 0 else 1):
                wrong_src = True
    if src is not None and (src.nd if src.nd > 0 else 1) != nd:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if wrong or wrong_src:
        text = f"Expected index {list(shape_of(i))} to be no larger than self {list(shape_of(t))} apart from dimension {dim}"
        if src is not None:
            text += f" and to be no larger size than src {list(shape_of(src))}"
        raise RuntimeError(text)
    return 0


cdef Tensor gather_raw(Tensor t, int dim, Tensor i):
    cdef Plan p
    cdef int64_t one = 1
    cdef Tensor out = empty(i.nd, i.sizes, t.dt)
    if out.n == 0:
        return out
    plan_dim(&p, t, dim, i, True, i.sizes if i.nd > 0 else &one)
    launch_plan(&p, K_index_get, 0, out, out.strides if i.nd > 0 else &one, t, [i], False, AS_RUNTIME_ERROR, dim)
    return out


cdef int scatter_raw(Tensor t, int dim, Tensor i, Tensor src, int mode) except -1:
    """src: of at least the index's shape, or a 0-dim tensor for all."""
    cdef Plan p
    cdef int64_t one = 1
    cdef int64_t strides[64]
    cdef int d
    if i.n == 0:
        return 0
    if src.storage is t.storage:
        return scatter_raw(t, dim, i, copy_of(src), mode)
    strides[0] = 0
    for d in range(i.nd):
        strides[d] = src.strides[d] if src.nd > 0 else 0
    plan_dim(&p, t, dim, i, True, i.sizes if i.nd > 0 else &one)
    launch_plan(&p, K_index_put, mode, src, strides, t, [i], False, AS_RUNTIME_ERROR, dim)
    return 0


def gather(input, dim, index, *, bint sparse_grad=False, out=None):
    """out[i][j].. = input[index[i][j]..][j].. along dim; the result has the index's shape."""
    cdef Tensor t = tensor_arg(input, "gather", "input", 1), i = tensor_arg(index, "gather", "index", 3), result
    cdef int d = dim_arg(dim, t.nd, "gather", 2)
    if i.n:
        check_index_dtype(i, "gather(): Expected dtype int32/int64 for index")
    check_shapes(t, d, i, None, True)
    result = gather_raw(t, d, i)
    if out is None and not t.requires():
        return result
    record(result, "GatherBackward0", gather_backward, (t,), (i,), (d, shape_of(t)))
    return finish_out(out, result, "gather", (t, i))


def gather_backward(node, g):
    dim, shape = node.info
    cdef Tensor i = node.saved(0), out = zeros(shape, (<Tensor>g).dt)
    scatter_raw(out, dim, i, <Tensor>g, ADD)
    return record(out, "ScatterAddBackward0", gather_of_gradient, (g,), (i,), dim)


def gather_of_gradient(node, g):
    return gather(g, node.info, node.saved(0))


cdef object scatter_op(object input, object dim, object index, object src, str op, int mode, bint inplace, object out):
    """scatter_add and scatter: src is a tensor or, for scatter, a number."""
    cdef Tensor t = tensor_arg(input, op, "input", 1), i = tensor_arg(index, op, "index", 3), s, result
    cdef int d = dim_arg(dim, t.nd, op, 2)
    cdef bint number = not isinstance(src, Tensor)
    if i.n:
        check_index_dtype(i, "scatter(): Expected dtype int32/int64 for index")
    if number:
        s = empty(0, NULL, t.dt)
        fill_with(s, src)
        check_shapes(t, d, i, None, False)
    else:
        s = <Tensor>src
        if i.n:
            check_shapes(t, d, i, s, False)
        if s.dt != t.dt:
            raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if inplace:
        check_inplace(t, t.requires() or s.requires())
        result = t
    else:
        result = copy_of(t)
    scatter_raw(result, d, i, s, mode)
    inputs = (t,) if number else (t, s)
    if mode == ADD and not op.startswith("scatter_add"):
        node, backward = "NotImplemented", scatter_reduce_backward
    elif mode == MULTIPLY:
        node, backward = "NotImplemented", scatter_reduce_backward
    elif mode == ADD:
        node, backward = "ScatterAddBackward0", scatter_add_backward
    elif number:
        node, backward = "ScatterBackward1", scatter_value_backward
    else:
        node, backward = "ScatterBackward0", scatter_backward
    if inplace:
        return finish_inplace(t, node, backward, inputs, (i,), (d, shape_of(s)))
    record(result, node, backward, inputs, (i,), (d, shape_of(s)))
    return finish_out(out, result, op, inputs + (i,))


def scatter_add(input, dim, index, src, *, out=None):
    """input with src added at the indices along dim."""
    return scatter_op(input, dim, index, tensor_arg(src, "scatter_add", "src", 4), "scatter_add", ADD, False, out)


def scatter_add_(input, dim, index, src):
    """In-place version of scatter_add()."""
    return scatter_op(input, dim, index, tensor_arg(src, "scatter_add_", "src", 4), "scatter_add_", ADD, True, None)


cdef Tensor source_gradient(Tensor g, int dim, Tensor i, object shape):
    """g gathered at the indices; zeros where the index is smaller than the source was."""
    cdef Tensor got = gather(g, dim, i)
    if tuple(shape) == tuple(shape_of(got)):
        return got
    return pad_corner(got, shape)


cdef Tensor pad_corner(Tensor g, object shape):
    cdef Tensor out = zeros(shape, g.dt), corner = as_view(out, g.nd, g.sizes, out.strides, 0)
    copy_into(corner, g)
    return record(out, "SliceBackward0", corner_of_gradient, (g,), None, shape_of(g))


def corner_of_gradient(node, g):
    for d, n in enumerate(node.info):
        g = g.narrow(d, 0, n)
    return g


def scatter_add_backward(node, g):
    dim, shape = node.info
    return (g if node.needs(0) else None,
            source_gradient(<Tensor>g, dim, node.saved(0), shape) if node.needs(1) else None)


def scatter_backward(node, g):
    dim, shape = node.info
    i = node.saved(0)
    return (scatter(g, dim, i, 0) if node.needs(0) else None,
            source_gradient(<Tensor>g, dim, i, shape) if node.needs(1) else None)


def scatter_value_backward(node, g):
    return scatter(g, node.info[0], node.saved(0), 0)


def scatter_reduce_backward(node, *g):
    raise RuntimeError("derivative for aten::scatter is not implemented")


cdef int scatter_mode(object reduce) except -1:
    if reduce is None:
        return ASSIGN
    if reduce == "add":
        return ADD
    if reduce == "multiply":
        return MULTIPLY
    raise RuntimeError("reduce argument must be either add or multiply.")


cdef object scatter_source(object src, object value, str op):
    if (src is None) == (value is None):
        raise TypeError(f"{op}() received an invalid combination of arguments: one of src and value is needed")
    if src is None:
        src = value
    if not isinstance(src, Tensor) and dt_.scalar_code(src) < 0:
        raise TypeError(f"{op}(): argument 'src' (position 4) must be Tensor, not {type(src).__name__}")
    return src


def scatter(input, dim, index, src=None, *, value=None, reduce=None, out=None):
    """input with src (a tensor or a number) written at the indices along dim; reduce: "add" or "multiply"."""
    return scatter_op(input, dim, index, scatter_source(src, value, "scatter"), "scatter", scatter_mode(reduce), False, out)


def scatter_(input, dim, index, src=None, *, value=None, reduce=None):
    """In-place version of scatter()."""
    return scatter_op(input, dim, index, scatter_source(src, value, "scatter_"), "scatter_", scatter_mode(reduce), True, None)


# ==== take ========================================================================================
cdef int plan_flat(Plan* p, Tensor t, Tensor i) except -1:
    """i indexes the elements of the contiguous t."""
    cdef int d
    p.nd = i.nd if i.nd > 0 else 1
    p.n = 1
    p.size[0] = 1
    p.index[0][0] = 0
    p.indexed[0] = 0
    for d in range(i.nd):
        p.size[d] = i.sizes[d]
        p.index[0][d] = i.strides[d]
        p.indexed[d] = 0
    p.dim_size[0] = t.n
    p.dim_stride[0] = 1
    return 0


def take(input, index, *, out=None):
    """The elements of input, taken as 1-dim, at the indices; the result has the index's shape."""
    cdef Tensor t = tensor_arg(input, "take", "input", 1), i = tensor_arg(index, "take", "index", 2), result
    cdef int64_t one = 1
    cdef Plan p
    if i.dt != I64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {TITLES[i.dt]}")
    if t.n == 0 and i.n != 0:
        raise IndexError("take(): tried to take from an empty tensor")
    result = empty(i.nd, i.sizes, t.dt)
    plan_flat(&p, t, i)
    launch_plan(&p, K_index_get, 0, result, result.strides if i.nd > 0 else &one, contiguous(t), [i], True, AS_TAKE_RANGE, 0)
    record(result, "TakeBackward0", take_backward, (t,), (i,), shape_of(t))
    return finish_out(out, result, "take", (t, i))


def take_backward(node, g):
    cdef Tensor i = node.saved(0), out = zeros(node.info, (<Tensor>g).dt), s = <Tensor>g
    cdef int64_t one = 1
    cdef Plan p
    plan_flat(&p, out, i)
    launch_plan(&p, K_index_put, ADD, s, s.strides if i.nd > 0 else &one, out, [i], True, AS_TAKE_RANGE, 0)
    return record(out, "PutBackward0", take_of_gradient, (g,), (i,), None)


def take_of_gradient(node, g):
    return take(g, node.saved(0))


def take_along_dim(input, indices, dim=None, *, out=None):
    """gather with broadcasting; without dim, of the flattened tensors."""
    cdef Tensor t = tensor_arg(input, "take_along_dim", "input", 1), i = tensor_arg(indices, "take_along_dim", "indices", 2)
    cdef int d, e
    if i.dt != I64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {TITLES[i.dt]}")
    if dim is None:
        return gather(t.reshape((-1,)), 0, i.reshape((-1,)), out=out)
    if t.nd != i.nd:
        raise RuntimeError(f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {t.nd} "
                           f"dimensions for input, and {i.nd} dimensions for indices")
    d = dim_arg(dim, t.nd, "take_along_dim", 3)
    ts, ins = list(shape_of(t)), list(shape_of(i))
    for e in range(t.nd):
        if e == d:
            continue
        if ts[e] != ins[e] and ts[e] != 1 and ins[e] != 1:
            raise RuntimeError(f"The size of tensor a ({ts[e]}) must match the size of tensor b ({ins[e]}) at non-singleton dimension {e}")
        if ts[e] == 1:
            ts[e] = ins[e]
        else:
            ins[e] = ts[e]
    if t.sizes[d] > 0:
        i = <Tensor>(i % t.sizes[d])
    return gather(t if ts == list(shape_of(t)) else t.expand(ts), d, i if ins == list(shape_of(i)) else i.expand(ins), out=out)


for _name, _fn in (("gather", gather), ("scatter", scatter), ("scatter_add", scatter_add), ("take", take),
                   ("take_along_dim", take_along_dim)):
    define(_fn, _name, FUNCTIONS, True)
for _name, _fn in (("scatter_", scatter_), ("scatter_add_", scatter_add_)):
    define(_fn, _name, None, True)
