# Masks, nonzero and one_hot. Included by index.pyx.

cdef int mask_geometry(Tensor t, Tensor mask, int64_t* size) except -1:
    """The broadcast shape of t and mask into size; its number of dimensions."""
    cdef int nd = t.nd if t.nd > mask.nd else mask.nd, d
    cdef int64_t a, b
    for d in range(nd):
        a = t.sizes[d - nd + t.nd] if d >= nd - t.nd else 1
        b = mask.sizes[d - nd + mask.nd] if d >= nd - mask.nd else 1
        if a != b and a != 1 and b != 1:
            raise RuntimeError(f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {d}")
        size[d] = b if a == 1 else a
    return nd


cdef Tensor expanded(Tensor t, int nd, const int64_t* size):
    """t broadcast to `size`, without history."""
    cdef int64_t strides[64]
    cdef int d
    for d in range(nd):
        strides[d] = 0 if d < nd - t.nd or t.sizes[d - nd + t.nd] == 1 else t.strides[d - nd + t.nd]
    return as_view(t, nd, size, strides, 0)


cdef int set_walk(Record* r, int k, Tensor t) except -1:
    cdef int d
    if t.nd > 8:
        raise NotImplementedError("masks of more than 8 dimensions")
    r.ndim = t.nd
    set_arg(r, k, t)
    for d in range(t.nd):
        r.size[d] = t.sizes[d]
        r.arg[k].stride[d] = t.strides[d]
    return 0


def masked_select(input, mask, *, out=None):
    """The elements of input where the bool tensor mask is true, as a 1-dim tensor; both broadcast."""
    cdef Tensor t = tensor_arg(input, "masked_select", "input", 1), m = tensor_arg(mask, "masked_select", "mask", 2)
    cdef Tensor result, wide
    cdef int64_t size[64]
    cdef int64_t count
    cdef int nd
    cdef Record r
    if m.dt != BOOL:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    nd = mask_geometry(t, m, size)
    wide = expanded(m, nd, size)
    count = count_nonzero(wide)
    result = empty(1, &count, t.dt)
    if count:
        begin(&r, K_masked_select, 0, 1, 2, t.dt)
        set_walk(&r, 1, expanded(t, nd, size))
        set_walk(&r, 2, wide)
        set_arg(&r, 0, result)
        backend.launch(&r)
    record(result, "MaskedSelectBackward0", masked_select_backward, (t,), (m,), (shape_of(t), shape_of(wide)))
    return finish_out(out, result, "masked_select", (t, m))


def masked_select_backward(node, g):
    shape, wide = node.info
    return sum_to_shape(masked_scatter(zeros(wide, (<Tensor>g).dt), node.saved(0), g), shape)


cdef object masked_scatter_op(object input, object mask, object source, bint inplace):
    cdef str op = "masked_scatter_" if inplace else "masked_scatter"
    cdef Tensor t = tensor_arg(input, op, "input", 1), m = tensor_arg(mask, op, "mask", 2), s = tensor_arg(source, op, "source", 3)
    cdef Tensor result, from_
    cdef int64_t size[64]
    cdef int nd
    cdef Record r
    if t.dt != s.dt:
        raise RuntimeError(f"masked_scatter: expected self and source to have same dtypes but got{TITLES[t.dt]} and {TITLES[s.dt]}")
    if m.dt != BOOL:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {TITLES[m.dt]}")
    nd = mask_geometry(t, m, size)
    if inplace:
        check_inplace(t, t.requires() or s.requires())
        result = t
        if nd != t.nd or not same_shape(expanded(t, nd, size), t):
            raise RuntimeError(f"output with shape {list(shape_of(t))} doesn't match the broadcast shape {[size[d] for d in range(nd)]}")
    else:
        result = empty(nd, size, t.dt)
        copy_into(result, t)
    from_ = copy_of(s) if s.storage is t.storage else contiguous(s)
    if not from_.contiguous:
        from_ = contiguous(from_)
    begin(&r, K_masked_scatter, 0, 1, 2, t.dt)
    set_walk(&r, 1, expanded(m, nd, size))
    set_walk(&r, 0, result)
    set_arg(&r, 2, from_)
    r.ints[0] = s.n
    try:
        backend.launch(&r)
    except IndexError:
        raise RuntimeError("Number of elements of source < number of ones in mask") from None
    if inplace:
        return finish_inplace(t, "MaskedScatterBackward0", masked_scatter_backward, (t, s), (m,), (shape_of(t), shape_of(s)))
    return record(result, "MaskedScatterBackward0", masked_scatter_backward, (t, s), (m,), (shape_of(t), shape_of(s)))


def masked_scatter(input, mask, source):
    """input with successive elements of source where the bool tensor mask is true."""
    return masked_scatter_op(input, mask, source, False)


def masked_scatter_(input, mask, source):
    """In-place version of masked_scatter()."""
    return masked_scatter_op(input, mask, source, True)


def masked_scatter_backward(node, g):
    shape, source = node.info
    m = node.saved(0)
    gs = None
    if node.needs(1):
        taken = masked_select(g, m)
        n = 1
        for size in source:
            n *= size
        gs = pad_corner(<Tensor>taken, (n,)).reshape(source) if n != taken.numel() else taken.reshape(source)
    return sum_to_shape(g.masked_fill(m, 0), shape) if node.needs(0) else None, gs


def nonzero(input, *, out=None, bint as_tuple=False):
    """The coordinates of the elements that are not zero: [count][dimensions], or a tuple of columns."""
    cdef Tensor t = tensor_arg(input, "nonzero", "input", 1), at
    cdef int64_t size[2]
    cdef int64_t strides[2]
    cdef int64_t one[1]
    one[0] = 1
    if as_tuple:
        if t.nd == 0:
            t = as_view(t, 1, one, one, 0)
        return tuple(mask_columns(t))
    if t.nd == 0:
        size[0] = count_nonzero(t)
        size[1] = 0
        return finish_out(out, empty(2, size, I64), "nonzero", ())
    at = coordinates(t)
    size[0] = at.sizes[1]
    size[1] = at.sizes[0]
    strides[0] = 1
    strides[1] = size[0]
    return finish_out(out, as_view(at, 2, size, strides, 0), "nonzero", ())


def argwhere(input):
    """nonzero(), named as in numpy."""
    return nonzero(tensor_arg(input, "argwhere", "input", 1))


def one_hot(tensor, num_classes=-1):
    """An int64 tensor with one dimension more, 1 at the class that `tensor` names and 0 elsewhere."""
    cdef Tensor t = tensor_arg(tensor, "one_hot", "tensor", 1), out, dense = contiguous(t)
    cdef int64_t classes = int_arg(num_classes, "one_hot", "num_classes", 2), k
    cdef int64_t size[64]
    cdef int d
    cdef Record r
    if t.dt != I64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if t.n == 0:
        if classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
    else:
        if classes < -1:
            raise RuntimeError("num_classes should be positive")
        if t.min().item() < 0:
            raise RuntimeError("Class values must be non-negative.")
        k = t.max().item()
        if classes == -1:
            classes = k + 1
        elif k >= classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    for d in range(t.nd):
        size[d] = t.sizes[d]
    size[t.nd] = classes
    out = empty(t.nd + 1, size, I64)
    begin(&r, K_one_hot, 0, 1, 1, I64)
    r.ndim = 0
    set_arg(&r, 0, out)
    set_arg(&r, 1, dense)
    r.ints[0] = t.n
    r.ints[1] = classes
    backend.launch(&r)
    return out


NN_FUNCTIONS = {}
define(one_hot, "one_hot", NN_FUNCTIONS)
for _name, _fn in (("masked_select", masked_select), ("masked_scatter", masked_scatter), ("nonzero", nonzero),
                   ("argwhere", argwhere)):
    define(_fn, _name, FUNCTIONS, True)
define(masked_scatter_, "masked_scatter_", None, True)
