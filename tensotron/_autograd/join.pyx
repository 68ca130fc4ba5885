# distutils: language = c++
"""cat, stack, split and chunk."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from tensotron._autograd.subscript cimport view_select, view_slice
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    VIEW_MULTI, FnNode, Tensor, add_method, alias, any_requires, as_view, attach, attach_all, begin, check_inplace, copy_into,
    empty, empty_like, empty_of, fill_with, grad_enabled, make_size, make_view, materialise, rebase, record, same_shape, set_arg,
    set_geometry, shape_of, wrap_dim)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport Arg, Record

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_cat "tensotron::K_cat"

include "arguments.pxi"

FUNCTIONS = {}


cdef list tensor_list(object tensors, str op):
    cdef list out
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{op}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    out = list(tensors)
    for k in range(len(out)):
        if not isinstance(out[k], Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(out[k]).__name__}")
    return out


cdef int common_dtype(list ts) except -1:
    """Promotion over all: tensors with dimensions first, 0-dim ones only by a higher category."""
    cdef int high = -1, low = -1
    cdef Tensor t
    for x in ts:
        t = <Tensor>x
        if t.nd > 0:
            high = t.dt if high < 0 else dt_.promote(high, t.dt)
        else:
            low = t.dt if low < 0 else dt_.promote(low, t.dt)
    if high < 0:
        return low
    return dt_.promote(high, low) if low >= 0 and dt_.category(low) > dt_.category(high) else high


cdef int join(Tensor out, list ts, int64_t rows, int64_t inner, int dim) except -1:
    """Copies operands side by side: out is [rows][...]; an operand has size(dim) * inner elements a row, for stack
    (dim = -1) inner."""
    cdef Record r
    cdef Tensor t
    cdef int k, n = len(ts)
    cdef int64_t total = 0
    cdef Arg* operands
    cdef list kept
    if out.n == 0:
        return 0
    kept = [materialise(<Tensor>x, out.dt) for x in ts]
    operands = <Arg*>malloc(n * sizeof(Arg))
    if operands == NULL:
        raise MemoryError()
    begin(&r, K_cat, 0, 1, 0, out.dt)
    set_arg(&r, 0, out)
    r.ndim = 0
    for k in range(n):
        t = <Tensor>kept[k]
        operands[k].data = t.ptr
        operands[k].buffer = <void*>t.storage
        operands[k].dtype = t.dt
        operands[k].is_const = 0
        operands[k].stride[0] = inner
        if dim >= 0:
            operands[k].stride[0] = 0 if t.nd <= dim or t.n == 0 else t.sizes[dim] * inner
        total += operands[k].stride[0]
    r.list = operands
    r.nlist = n
    r.ints[0] = rows
    r.ints[1] = total
    try:
        backend.launch(&r)
    finally:
        free(operands)
    return 0


cdef int64_t product(Tensor t, int first, int last) noexcept:
    cdef int64_t n = 1
    cdef int d
    for d in range(first, last):
        n *= t.sizes[d]
    return n


cdef object check_out_dtype(object out, int dt, str op):
    if isinstance(out, Tensor) and not dt_.can_cast(dt, (<Tensor>out).dt):
        raise TypeError(f"torch.{op}(): input types can't be cast to the desired output type {TITLES[(<Tensor>out).dt]}")
    return None


cdef Tensor cast_for_out(object out, Tensor result):
    """Joins may write into an `out` of another dtype."""
    cdef Tensor other
    if not isinstance(out, Tensor) or (<Tensor>out).dt == result.dt:
        return result
    other = empty(result.nd, result.sizes, (<Tensor>out).dt)
    copy_into(other, result)
    return other


def cat(tensors, dim=0, *, axis=None, out=None):
    """The tensors one after the other along dim.

    Raises:
        RuntimeError: shapes differ apart from dim.
        ValueError: no tensors.
    """
    cdef list ts = tensor_list(tensors, "cat")
    cdef Tensor first = None, t, result
    cdef int64_t size[64]
    cdef int64_t rows, inner, along = 0
    cdef int d, e, k, dt
    if not ts:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for k in range(len(ts)):
        t = <Tensor>ts[k]
        if t.nd == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
        if first is None and not (t.nd == 1 and t.sizes[0] == 0):
            first = t
    if first is None:
        first = <Tensor>ts[0]
    d = dim_arg(dim if axis is None else axis, first.nd, "cat", 2)
    dt = common_dtype(ts)
    check_out_dtype(out, dt, "cat")
    for k in range(len(ts)):
        t = <Tensor>ts[k]
        if t.nd == 1 and t.sizes[0] == 0:  # the old empty tensor fits everywhere
            continue
        if t.nd != first.nd:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.nd} and {t.nd}")
        for e in range(t.nd):
            if e != d and t.sizes[e] != first.sizes[e]:
                raise RuntimeError(f"Sizes of tensors must match except in dimension {d}. Expected size {first.sizes[e]} but got size "
                                   f"{t.sizes[e]} for tensor number {k} in the list.")
        along += t.sizes[d]
    for e in range(first.nd):
        size[e] = first.sizes[e]
    size[d] = along
    result = empty(first.nd, size, dt)
    rows = product(first, 0, d)
    inner = product(first, d + 1, first.nd)
    join(result, ts, rows, inner, d)
    inputs = tuple(ts)
    if grad_enabled() and any_requires(inputs):
        attach(result, "CatBackward0", cat_backward, inputs, None, (d, [shape_of(<Tensor>x) for x in ts]))
    elif out is None:
        return result
    return finish_out(out, cast_for_out(out, result), "cat", inputs)


def cat_backward(node, g):
    dim, shapes = node.info
    cdef Tensor t = <Tensor>g
    grads = []
    start = 0
    for k, shape in enumerate(shapes):
        if len(shape) != t.nd:  # the old empty tensor
            grads.append(zeros(shape, t.dt) if node.needs(k) else None)
            continue
        grads.append(view_slice(t, dim, start, shape[dim], 1) if node.needs(k) else None)
        start += shape[dim]
    return grads[0] if len(grads) == 1 else tuple(grads)


def stack(tensors, dim=0, *, out=None):
    """The tensors, all of one shape, along a new dimension."""
    cdef list ts = tensor_list(tensors, "stack")
    cdef Tensor first, t, result
    cdef int64_t size[64]
    cdef int64_t rows, inner
    cdef int d, e, k, dt
    if not ts:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = <Tensor>ts[0]
    d = dim_arg(dim, first.nd + 1, "stack", 2)
    for k in range(1, len(ts)):
        t = <Tensor>ts[k]
        if not same_shape(t, first):
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(shape_of(first))} at entry 0 and "
                               f"{list(shape_of(t))} at entry {k}")
    dt = common_dtype(ts)
    check_out_dtype(out, dt, "stack")
    for e in range(first.nd + 1):
        size[e] = first.sizes[e] if e < d else len(ts) if e == d else first.sizes[e - 1]
    result = empty(first.nd + 1, size, dt)
    rows = product(first, 0, d)
    inner = product(first, d, first.nd)
    join(result, ts, rows, inner, -1)
    inputs = tuple(ts)
    record(result, "StackBackward0", stack_backward, inputs, None, (d, len(ts)))
    return finish_out(out, cast_for_out(out, result), "stack", inputs)


def stack_backward(node, g):
    dim, n = node.info
    grads = [view_select(<Tensor>g, dim, k) if node.needs(k) else None for k in range(n)]
    return grads[0] if len(grads) == 1 else tuple(grads)


# ==== split =======================================================================================
cdef tuple parts(Tensor t, int dim, list sizes, str node):
    """Views of t of the given sizes along dim, outputs of one node."""
    cdef int64_t size[64]
    cdef int64_t start = 0
    cdef int d
    cdef Tensor v
    cdef list views = []
    for d in range(t.nd):
        size[d] = t.sizes[d]
    for n in sizes:
        size[dim] = n
        v = as_view(t, t.nd, size, t.strides, start * t.strides[dim])
        views.append(make_view(t, v, VIEW_MULTI))
        start += <int64_t>n
    if grad_enabled() and t.requires() and views:
        attach_all(views, node, split_backward, (t,), None, (dim, list(sizes), shape_of(t), t.dt))
    return tuple(views)


def split_backward(node, *grads):
    dim, sizes, shape, dt = node.info
    pieces = []
    for n, g in zip(sizes, grads):
        if g is None:
            piece = list(shape)
            piece[dim] = n
            g = zeros(piece, dt)
        pieces.append(g)
    return cat(pieces, dim)


cdef list even_sizes(int64_t length, int64_t step):
    if length == 0 or step == 0:
        return [0]
    return [min(step, length - start) for start in range(0, length, step)]


def split_with_sizes(input, split_sizes, dim=0):
    """Views of input with the given sizes along dim."""
    cdef Tensor t = tensor_arg(input, "split_with_sizes", "input", 1)
    cdef int d
    if not isinstance(split_sizes, (tuple, list)):
        raise TypeError(f"split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not {type(split_sizes).__name__}")
    if t.nd == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = dim_arg(dim, t.nd, "split_with_sizes", 3)
    sizes = [int_arg(n, "split_with_sizes", "split_sizes", 2) for n in split_sizes]
    for n in sizes:
        if n < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}")
    if sum(sizes) != t.sizes[d]:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {t.sizes[d]} (input tensor's size at dimension {d}), "
                           f"but got split_sizes={sizes}")
    return parts(t, d, sizes, "SplitWithSizesBackward0")


def split(tensor, split_size_or_sections, dim=0):
    """Views of tensor along dim: of one size (the last may be smaller), or of a list of sizes."""
    cdef Tensor t = tensor_arg(tensor, "split", "tensor", 1)
    cdef int64_t step
    cdef int d
    if not isinstance(split_size_or_sections, int) or isinstance(split_size_or_sections, bool):
        return split_with_sizes(t, split_size_or_sections, dim)
    step = split_size_or_sections
    if t.nd == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = dim_arg(dim, t.nd, "split", 3)
    if step < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={step}")
    if step == 0 and t.sizes[d] != 0:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {t.sizes[d]}")
    return parts(t, d, even_sizes(t.sizes[d], step), "SplitBackward0")


def _split_method(self, split_size, dim=0):
    """Views of this tensor along dim: of one size (the last may be smaller), or of a list of sizes."""
    return split(self, split_size, dim)


def chunk(input, chunks, dim=0):
    """At most `chunks` views of input along dim, of equal size but for the last."""
    cdef Tensor t = tensor_arg(input, "chunk", "input", 1)
    cdef int64_t n = int_arg(chunks, "chunk", "chunks", 2), step
    cdef int d
    if t.nd == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if n <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {n}")
    d = dim_arg(dim, t.nd, "chunk", 3)
    step = (t.sizes[d] + n - 1) // n
    if step == 0:
        return parts(t, d, [0] * n, "SplitWithSizesBackward0")
    return parts(t, d, even_sizes(t.sizes[d], step), "SplitBackward0")


for _name, _fn in (("cat", cat), ("stack", stack), ("split", split)):
    define(_fn, _name, FUNCTIONS)
for _name in ("concat", "concatenate"):
    FUNCTIONS[_name] = cat
for _name, _fn in (("chunk", chunk), ("split_with_sizes", split_with_sizes)):
    define(_fn, _name, FUNCTIONS, True)
define(_split_method, "split", None, True)
