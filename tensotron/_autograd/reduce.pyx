# distutils: language = c++
"""Reductions: sum, mean, prod, extrema and their positions, variance, logsumexp, truth."""
import warnings

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    INLINE_DIMS, FnNode, Node, NodeShells, Tensor, TypeWithDealloc, add_edge, add_method, alias, any_requires, as_view, attach,
    attach_all, begin, begin_drop, cast, check_inplace, contiguous, copy_into, destructor, drop_members, empty, empty_like, empty_of,
    end_drop, fill_with, grad_enabled, make_size, next_seq, rebase, record, same_shape, set_arg, shape_of, take_node, wrap_dim)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F64, I32, I64, U8, Record

from tensotron._core import return_types

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    #include "tensotron/_ops/reduce_ops.h"
    """
    enum: K_reduce "tensotron::K_reduce"
    enum: REDUCE_sum "tensotron::REDUCE_sum"
    enum: REDUCE_prod "tensotron::REDUCE_prod"
    enum: REDUCE_mean "tensotron::REDUCE_mean"
    enum: REDUCE_amax "tensotron::REDUCE_amax"
    enum: REDUCE_amin "tensotron::REDUCE_amin"
    enum: REDUCE_any "tensotron::REDUCE_any"
    enum: REDUCE_all "tensotron::REDUCE_all"
    enum: REDUCE_count_nonzero "tensotron::REDUCE_count_nonzero"
    enum: REDUCE_argmax "tensotron::REDUCE_argmax"
    enum: REDUCE_argmin "tensotron::REDUCE_argmin"
    enum: REDUCE_max "tensotron::REDUCE_max"
    enum: REDUCE_min "tensotron::REDUCE_min"
    enum: REDUCE_var "tensotron::REDUCE_var"
    enum: REDUCE_std "tensotron::REDUCE_std"
    enum: REDUCE_var_mean "tensotron::REDUCE_var_mean"
    enum: REDUCE_std_mean "tensotron::REDUCE_std_mean"
    enum: REDUCE_logsumexp "tensotron::REDUCE_logsumexp"

include "arguments.pxi"

FUNCTIONS = {}


# ==== dimensions ================================================================================
cdef inline uint64_t all_dims(int nd) noexcept:
    return (<uint64_t>1 << nd) - 1 if nd < 64 else ~<uint64_t>0


cdef uint64_t dim_mask(object dim, int nd) except? 0xFFFFFFFFFFFFFFFF:
    cdef uint64_t mask = 0, bit
    cdef int d
    if dim is None:
        return all_dims(nd)
    if isinstance(dim, (tuple, list)):
        if not dim:
            return all_dims(nd)
        for item in dim:
            d = wrap_dim(index_of(item), nd)
            bit = <uint64_t>1 << d
            if mask & bit:
                raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
            mask |= bit
    else:
        mask = <uint64_t>1 << wrap_dim(index_of(dim), nd)
    return mask if nd > 0 else 0


cdef int64_t index_of(object item) except? -1:
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, (bool, float, str)) or not hasattr(item, "__index__"):
        raise TypeError(f"argument 'dim' must be tuple of ints, but found element of type {type(item).__name__}")
    return item.__index__()


cdef bint flag(object keepdim, str op) except -1:
    if not isinstance(keepdim, bool):
        raise TypeError(f"{op}(): argument 'keepdim' must be bool, not {type(keepdim).__name__}")
    return keepdim


cdef Tensor reduced_like(Tensor x, uint64_t mask, bint keepdim, int dt):
    """A new tensor for the result of reducing x."""
    cdef int64_t s[64]
    cdef int d, n = 0
    for d in range(x.nd):
        if not mask >> d & 1:
            s[n] = x.sizes[d]
            n += 1
        elif keepdim:
            s[n] = 1
            n += 1
    return empty(n, s, dt)


cdef int64_t reduced_count(Tensor x, uint64_t mask) noexcept:
    cdef int64_t n = 1
    cdef int d
    for d in range(x.nd):
        if mask >> d & 1:
            n *= x.sizes[d]
    return n


# ==== launch ====================================================================================
cdef bint merge_dim(Record* r, int k, int nargs, int64_t size, const int64_t* strides) noexcept:
    """Extends dimension k of the record by an inner one that steps on with it."""
    cdef int a
    for a in range(nargs):
        if r.arg[a].stride[k] != strides[a] * size:
            return False
    r.size[k] *= size
    for a in range(nargs):
        r.arg[a].stride[k] = strides[a]
    return True


cdef Tensor permuted(Tensor x, uint64_t mask):
    """A contiguous copy of x with the kept dimensions first."""
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int d, n = 0, part
    for part in range(2):
        for d in range(x.nd):
            if (mask >> d & 1) == <uint64_t>part:
                s[n] = x.sizes[d]
                st[n] = x.strides[d]
                n += 1
    return contiguous(as_view(x, n, s, st, 0))


cdef int reduce_into(int op, Tensor x, uint64_t mask, bint keepdim, Tensor out, Tensor second, int compute,
                     double correction) except -1:
    cdef Record r
    cdef int64_t strides[3]
    cdef int nargs = 2 if second is None else 3
    cdef int d, j, k = 0, first, part, reduced = 0, kept = 0
    begin(&r, K_reduce, op, nargs - 1, 1, compute)
    r.reals[0] = correction
    set_arg(&r, 0, out)
    if second is not None:
        set_arg(&r, 1, second)
    set_arg(&r, nargs - 1, x)
    for part in range(2):
        first = k
        j = 0
        for d in range(x.nd):
            if (mask >> d & 1) != <uint64_t>part:
                j += part == 1 or keepdim
                continue
            strides[0] = out.strides[j] if part == 0 else 0
            if second is not None:
                strides[1] = second.strides[j] if part == 0 else 0
            strides[nargs - 1] = x.strides[d]
            j += 1
            if x.sizes[d] == 1 or (k > first and merge_dim(&r, k - 1, nargs, x.sizes[d], strides)):
                continue
            if k == 8:
                for d in range(x.nd):
                    kept += not mask >> d & 1
                x = permuted(x, mask)
                mask = all_dims(x.nd) & ~all_dims(kept)
                shape = out if not keepdim else flat_like(out, mask, x)
                return reduce_into(op, x, mask, False, shape, second if second is None or not keepdim else flat_like(second, mask, x),
                                   compute, correction)
            r.size[k] = x.sizes[d]
            for a in range(nargs):
                r.arg[a].stride[k] = strides[a]
            k += 1
            reduced += part
    r.ndim = k
    r.ints[0] = reduced
    return backend.launch(&r)


cdef Tensor flat_like(Tensor out, uint64_t mask, Tensor x):
    """The contiguous `out` seen without the dimensions that were kept with size 1."""
    cdef int64_t s[64]
    cdef int d, n = 0
    for d in range(x.nd):
        if not mask >> d & 1:
            s[n] = x.sizes[d]
            n += 1
    return as_view(out, n, s, NULL, 0)


cdef Tensor reduce_one(int op, Tensor x, uint64_t mask, bint keepdim, int result, int compute, double correction):
    cdef Tensor out = reduced_like(x, mask, keepdim, result)
    reduce_into(op, x, mask, keepdim, out, None, compute, correction)
    return out


cdef inline int compute_of(int dt) noexcept:
    return dt if dt <= F64 else I64


# ==== graph =====================================================================================
cdef Tensor restore(Tensor g, int nd, uint64_t mask, bint keepdim):
    """g with the reduced dimensions put back as dimensions of size 1; differentiable."""
    cdef int d, k = 0
    if keepdim or nd == 0 or mask == 0:
        return g
    shape = []
    for d in range(nd):
        if mask >> d & 1:
            shape.append(1)
        else:
            shape.append(g.sizes[k])
            k += 1
    return g.reshape(tuple(shape))


@cython.final
cdef class SumNode(Node):
    """sum and mean: the gradient, divided by `divisor`, at every element that was summed."""
    cdef int nd
    cdef int64_t sizes[INLINE_DIMS]
    cdef object shape           # only of more dimensions
    cdef uint64_t mask
    cdef bint keepdim
    cdef uint8_t dtype
    cdef int64_t divisor        # -1: none

    cdef object apply(self, object grads):
        cdef Tensor g = <Tensor>grads
        cdef int64_t s[64]
        cdef int64_t st[64]
        cdef int d, k = 0, nd = self.nd
        for d in range(nd):
            s[d] = self.sizes[d] if self.shape is None else self.shape[d]
        if grad_enabled():
            g = cast_to(restore(g, nd, self.mask, self.keepdim), self.dtype).expand(make_size(nd, s))
            return g / self.divisor if self.divisor >= 0 else g
        if self.divisor >= 0:
            g = g / self.divisor
        g = cast(g, self.dtype)
        for d in range(nd):
            if self.mask >> d & 1:
                st[d] = 0
                k += self.keepdim
            else:
                st[d] = g.strides[k]
                k += 1
        return as_view(g, nd, s, st, 0)


cdef NodeShells shells


cdef void drop_sum(SumNode node) noexcept:
    if not begin_drop(&shells, <PyObject*>node):
        return
    if node.shape is not None:
        node.shape = None
    drop_members(node)
    end_drop(&shells, <PyObject*>node)

(<TypeWithDealloc*>SumNode).tp_dealloc = <destructor>drop_sum


cdef Tensor with_sum_node(Tensor out, str name, Tensor x, uint64_t mask, bint keepdim, int64_t divisor):
    cdef SumNode node
    cdef int d
    if not (grad_enabled() and x.requires() and dt_.is_float(out.dt) and dt_.is_float(x.dt)):
        return out
    node = <SumNode>take_node(&shells) if shells.n else SumNode.__new__(SumNode)
    node.node_name = name
    node.seq = next_seq()
    node.n_out = 1
    node.out_dtype = out.dt
    node.nd = x.nd
    if x.nd > INLINE_DIMS:
        node.shape = shape_of(x)
    else:
        for d in range(x.nd):
            node.sizes[d] = x.sizes[d]
    node.mask = mask
    node.keepdim = keepdim
    node.dtype = x.dt
    node.divisor = divisor
    add_edge(node, x)
    out.grad_fn_ = node
    return out


cdef bint wants_grad(Tensor x) noexcept:
    return grad_enabled() and x.requires() and dt_.is_float(x.dt)


# ==== sum, mean =================================================================================
cdef inline Tensor narrowed(Tensor x, int dt):
    """Floats that int32 and uint8 do not hold become what a conversion makes of them before they are folded."""
    return cast(x, dt) if dt_.is_float(x.dt) and (dt == I32 or dt == U8) else x


def sum(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=None):
    """Sum of the elements, all or along `dim` (an int or several). Integers are summed as int64.

    Args:
        input: the tensor.
        dim: dimension or dimensions to reduce; None or () for all.
        keepdim: keep them with size 1.
        dtype: dtype in which to sum, and of the result.
    """
    cdef Tensor x = tensor_arg(input, "sum", "input", 1), y
    cdef bint keep = flag(keepdim if keepdims is None else keepdims, "sum")
    cdef object over = dim if axis is None else axis
    cdef uint64_t mask = dim_mask(over, x.nd)
    cdef int dt
    if dtype is not None:
        dt = dt_.code_of(dtype, -1)
    elif out is not None:
        dt = (<Tensor?>out).dt
    else:
        dt = x.dt if dt_.is_float(x.dt) else I64
    y = reduce_one(REDUCE_any if dt == BOOL else REDUCE_sum, narrowed(x, dt), mask, keep, dt, compute_of(dt), 0)
    with_sum_node(y, "SumBackward0" if over is None else "SumBackward1", x, mask, keep, -1)
    return y if out is None else finish_out(out, y, "sum", (x,))


def mean(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=None):
    """Mean of the elements, all or along `dim`; nan where there are none. Floating point only.

    Args: as sum().
    """
    cdef Tensor x = tensor_arg(input, "mean", "input", 1), y
    cdef bint keep = flag(keepdim if keepdims is None else keepdims, "mean")
    cdef object over = dim if axis is None else axis
    cdef uint64_t mask = dim_mask(over, x.nd)
    cdef int dt = dt_.code_of(dtype, x.dt)
    if not dt_.is_float(dt):
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(f"mean(): could not infer output dtype. {which} dtype must be either a floating point or complex "
                           f"dtype. Got: {TITLES[dt]}")
    if out is not None:
        if not dt_.is_float((<Tensor?>out).dt):
            raise RuntimeError(f"result type {TITLES[dt]} can't be cast to the desired output type {TITLES[(<Tensor>out).dt]}")
        dt = (<Tensor>out).dt if dtype is None else dt
    y = reduce_one(REDUCE_mean, x, mask, keep, dt, dt, 0)
    with_sum_node(y, "MeanBackward0" if over is None else "MeanBackward1", x, mask, keep, reduced_count(x, mask))
    return y if out is None else finish_out(out, y, "mean", (x,))


# ==== product ===================================================================================
def _prod_backward(FnNode node, Tensor g):
    x, y = <Tensor>node.saved(0), <Tensor>node.saved(1)
    mask, keepdim, whole = node.ctx
    return prod_gradient(g, x, y, mask, keepdim, whole)


cdef object prod_gradient(Tensor g, Tensor x, Tensor y, uint64_t mask, bint keepdim, bint whole):
    cdef Tensor zero
    cdef int64_t zeros
    cdef int d = 0
    g = cast_to(g, x.dt)
    y = cast_to(y, x.dt)
    if x.nd == 0:
        return g.clone()
    g = restore(g, x.nd, mask, keepdim)
    y = restore(y, x.nd, mask, keepdim)
    zero = x.detach() == 0
    zeros = zero.sum().item()
    if zeros == 0:
        return g * (y / x)
    if whole and zeros > 1:
        return x.new_zeros(x.shape)
    if whole:
        return exclusive_product(x.reshape(-1), 0).reshape(x.shape) * g
    while not mask >> d & 1:
        d += 1
    return g * exclusive_product(x, d)


cdef object exclusive_product(Tensor x, int dim):
    """Of each element: the product of the others along dim. Through a square: zeros, infinities and the
    second derivative come out right."""
    cdef int64_t n = x.sizes[dim]
    from tensotron._core import creation
    if n == 1:
        return creation.ones_like(x)
    moved = x.movedim(dim, -1) if x.nd > 1 else x
    wide = list(moved.shape)
    wide.insert(x.nd - 1, n)
    square = moved.unsqueeze(-2).expand(wide)
    here = creation.arange(n)
    others = square.masked_fill(here == here.unsqueeze(-1), 1.0).prod(-1)
    return others.movedim(-1, dim) if x.nd > 1 else others


cdef Tensor cast_to(Tensor t, int dt):
    return t if t.dt == dt else t.to(dt_.of_code(dt))


def prod(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, keepdims=None):
    """Product of all elements, or along the dimension `dim`. Integers are multiplied as int64.

    Args:
        input: the tensor.
        dim: the dimension to reduce.
        keepdim: keep it with size 1.
        dtype: dtype in which to multiply, and of the result.
    """
    cdef Tensor x = tensor_arg(input, "prod", "input", 1), y
    cdef bint keep = flag(keepdim if keepdims is None else keepdims, "prod")
    cdef object over = dim if axis is None else axis
    cdef uint64_t mask
    cdef int dt
    if isinstance(over, (tuple, list)) or (over is None and out is not None):
        got = "Tensor, out=Tensor" if over is None else type(over).__name__
        raise TypeError(f"prod() received an invalid combination of arguments - got ({got})")
    mask = dim_mask(over, x.nd)
    if dtype is not None:
        dt = dt_.code_of(dtype, -1)
    elif out is not None:
        dt = (<Tensor?>out).dt
    else:
        dt = x.dt if dt_.is_float(x.dt) else I64
    y = reduce_one(REDUCE_all if dt == BOOL else REDUCE_prod, narrowed(x, dt), mask, keep, dt, compute_of(dt), 0)
    if wants_grad(x) and dt_.is_float(dt):
        attach(y, "ProdBackward0" if over is None else "ProdBackward1", _prod_backward, (x,), (x, y),
               (mask, keep, over is None))
    return y if out is None else finish_out(out, y, "prod", (x,))


# ==== extrema ===================================================================================
cdef int refuse_empty(Tensor x, object dim, uint64_t mask, str op, object whole_error) except -1:
    """An extremum of nothing is an error."""
    cdef int d
    if x.n > 0:
        return 0
    if dim is None or dim == () or dim == []:
        raise whole_error(f"{op}(): Expected reduction dim to be specified for input.numel() == 0." +
                          (" Specify the reduction dim with the 'dim' argument." if whole_error is RuntimeError else ""))
    for d in range(x.nd):
        if mask >> d & 1 and x.sizes[d] == 0:
            raise IndexError(f"{op}(): Expected reduction dim {d} to have non-zero size.")
    return 0


def _shared_backward(FnNode node, Tensor g):
    """amax, amin: equal parts to all that equal the result."""
    x, y = <Tensor>node.saved(0), <Tensor>node.saved(1)
    mask, keepdim = node.ctx
    g = restore(g, x.nd, mask, keepdim)
    y = restore(y.detach(), x.nd, mask, keepdim)
    here = x.detach() == y
    dims = [d for d in range(x.nd) if mask >> d & 1]
    return g * here / here.sum(dims, True)


cdef object extremum(int op, str name, object input, object dim, object keepdim, object out):
    cdef Tensor x = tensor_arg(input, name, "input", 1), y
    cdef bint keep = flag(keepdim, name)
    cdef uint64_t mask = dim_mask(dim, x.nd)
    refuse_empty(x, dim, mask, name, RuntimeError)
    if out is not None and (<Tensor?>out).dt != x.dt:
        raise RuntimeError(f"Expected the dtype for input and out to match, but got {TITLES[x.dt]} for input's dtype and "
                           f"{TITLES[(<Tensor>out).dt]} for out's dtype.")
    y = reduce_one(op, x, mask, keep, x.dt, compute_of(x.dt), 0)
    if wants_grad(x):
        attach(y, name.capitalize() + "Backward0", _shared_backward, (x,), (x, y), (mask, keep))
    return y if out is None else finish_out(out, y, name, (x,))


def amax(input, dim=(), keepdim=False, *, out=None, axis=None, keepdims=None):
    """Largest element along `dim` (an int or several; () for all); NaN wins. Ties share the gradient."""
    return extremum(REDUCE_amax, "amax", input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out)


def amin(input, dim=(), keepdim=False, *, out=None, axis=None, keepdims=None):
    """Smallest element along `dim` (an int or several; () for all); NaN wins. Ties share the gradient."""
    return extremum(REDUCE_amin, "amin", input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out)


def _whole_backward(FnNode node, Tensor g):
    """max(), min() of a whole tensor: equal parts to all that equal the result, or to all NaN."""
    x, y = <Tensor>node.saved(0), <Tensor>node.saved(1)
    x, y = x.detach(), y.detach()
    here = x.isnan() if y.item() != y.item() else x == y
    return (g / here.sum()).where(here, 0.0)


def _select_backward(FnNode node, Tensor g, gi):
    """The gradient goes where the value came from."""
    if g is None:
        return None
    index = <Tensor>node.saved(0)
    shape, mask, keepdim, dim = node.ctx
    g = restore(g, len(shape), mask, keepdim)
    index = restore(<Tensor>index, len(shape), mask, keepdim)
    return g.new_zeros(shape).scatter_add(dim, index, g) if len(shape) else g


cdef object largest(int op, int whole_op, str name, object input, object dim, object keepdim, object out):
    cdef Tensor x = tensor_arg(input, name, "input", 1), y, index
    cdef bint keep
    cdef uint64_t mask
    if dim is None:
        if keepdim is not False:
            raise TypeError(f"{name}() received an invalid combination of arguments - got (keepdim={type(keepdim).__name__}, )")
        refuse_empty(x, None, 0, name, RuntimeError)
        y = reduce_one(whole_op, x, all_dims(x.nd), False, x.dt, compute_of(x.dt), 0)
        if wants_grad(x):
            attach(y, name.capitalize() + "Backward1", _whole_backward, (x,), (x, y), None)
        return y if out is None else finish_out(out, y, name, (x,))
    if isinstance(dim, (tuple, list, float, str, bool)):
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({type(dim).__name__})")
    keep = flag(keepdim, name)
    mask = dim_mask(dim, x.nd)
    refuse_empty(x, dim, mask, name, RuntimeError)
    y = reduced_like(x, mask, keep, x.dt)
    index = reduced_like(x, mask, keep, I64)
    if x.n > 0:
        reduce_into(op, x, mask, keep, y, index, compute_of(x.dt), 0)
    if wants_grad(x):
        attach_all([y, index], name.capitalize() + "Backward0", _select_backward, (x,), (index,),
                   (shape_of(x), mask, keep, wrap_dim(dim, x.nd)))
    if out is not None:
        return (return_types.max_out if op == REDUCE_max else return_types.min_out)(
            (finish_out(out[0], y, name, (x,)), finish_out(out[1], index, name, (x,))))
    return (return_types.max if op == REDUCE_max else return_types.min)((y, index))


cdef object max_or_min(str name, int op, int whole_op, object input, object dim, object keepdim, object out, object other,
                       object axis, object keepdims):
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    if isinstance(dim, Tensor) and (<Tensor>dim).n >= 0 and other is None:
        other = dim
    if other is not None:
        from tensotron._autograd import pointwise
        fn = pointwise.FUNCTIONS["maximum" if op == REDUCE_max else "minimum"]
        return fn(input, other) if out is None else fn(input, other, out=out)
    return largest(op, whole_op, name, input, dim, keepdim, out)


def max(input, dim=None, keepdim=False, *, out=None, other=None, axis=None, keepdims=None):
    """Largest element; along a dimension: (values, indices), the first of equals. max(a, b) is maximum(a, b)."""
    return max_or_min("max", REDUCE_max, REDUCE_amax, input, dim, keepdim, out, other, axis, keepdims)


def min(input, dim=None, keepdim=False, *, out=None, other=None, axis=None, keepdims=None):
    """Smallest element; along a dimension: (values, indices), the first of equals. min(a, b) is minimum(a, b)."""
    return max_or_min("min", REDUCE_min, REDUCE_amin, input, dim, keepdim, out, other, axis, keepdims)


cdef object position(int op, str name, object input, object dim, object keepdim, object out):
    cdef Tensor x = tensor_arg(input, name, "input", 1), y
    cdef bint keep = flag(keepdim, name)
    cdef uint64_t mask
    if dim is not None and isinstance(dim, (tuple, list, float, bool, str)):
        raise TypeError(f"{name}(): argument 'dim' (position 1) must be int, not {type(dim).__name__}")
    if x.dt == BOOL:
        raise RuntimeError(f"{name}(): does not support bool input")
    mask = dim_mask(dim, x.nd)
    refuse_empty(x, dim, mask, name, IndexError)
    y = reduced_like(x, mask, keep, I64)
    if x.n > 0:
        reduce_into(op, x, mask, keep, y, None, compute_of(x.dt), 0)
    return y if out is None else finish_out(out, y, name, ())


def argmax(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=None):
    """Position of the largest element, in the flattened tensor or along `dim`: the first of equals; NaN wins."""
    return position(REDUCE_argmax, "argmax", input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out)


def argmin(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=None):
    """Position of the smallest element, in the flattened tensor or along `dim`: the first of equals; NaN wins."""
    return position(REDUCE_argmin, "argmin", input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out)


# ==== logsumexp, truth ==========================================================================
def _logsumexp_backward(FnNode node, Tensor g):
    x, y = <Tensor>node.saved(0), <Tensor>node.saved(1)
    mask, keepdim = node.ctx
    return restore(g, x.nd, mask, keepdim) * (x - restore(y, x.nd, mask, keepdim)).exp()


def logsumexp(input, dim, keepdim=False, *, out=None, axis=None):
    """log of the sum of exp(input) along `dim` (an int or several), without overflow."""
    cdef Tensor x = tensor_arg(input, "logsumexp", "input", 1), y
    cdef bint keep = flag(keepdim, "logsumexp")
    cdef uint64_t mask
    if not dt_.is_float(x.dt):
        x = cast(x, dt_.default_float())
    mask = dim_mask(dim, x.nd)
    y = reduce_one(REDUCE_logsumexp, x, mask, keep, x.dt, x.dt, 0)
    if wants_grad(x):
        attach(y, "LogsumexpBackward0", _logsumexp_backward, (x,), (x, y), (mask, keep))
    return y if out is None else finish_out(out, y, "logsumexp", (x,))


cdef object truth(int op, str name, object input, object dim, object keepdim, object out):
    cdef Tensor x = tensor_arg(input, name, "input", 1), y
    cdef bint keep = flag(keepdim, name)
    cdef uint64_t mask = dim_mask(dim, x.nd)
    cdef int dt = U8 if x.dt == U8 else BOOL
    if isinstance(dim, (tuple, list)) and not dim:
        mask = 0
    if out is not None and (<Tensor?>out).dt != BOOL and (<Tensor>out).dt != U8:
        raise RuntimeError(f"{name} only supports bool tensor for result, got: {TITLES[(<Tensor>out).dt]}")
    if out is not None:
        dt = (<Tensor>out).dt
    y = reduce_one(op, x, mask, keep, dt, I64, 0)
    return y if out is None else finish_out(out, y, name, ())


def any(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=None):
    """Whether some element is not zero, of all or along `dim`."""
    return truth(REDUCE_any, "any", input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out)


def all(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=None):
    """Whether no element is zero, of all or along `dim`."""
    return truth(REDUCE_all, "all", input, dim if axis is None else axis, keepdim if keepdims is None else keepdims, out)


def count_nonzero(input, dim=None):
    """Number of elements that are not zero, of all or along `dim`, as int64."""
    cdef Tensor x = tensor_arg(input, "count_nonzero", "input", 1)
    return reduce_one(REDUCE_count_nonzero, x, dim_mask(dim, x.nd), False, I64, I64, 0)


include "variance.pxi"

for _name, _fn in dict(sum=sum, mean=mean, prod=prod, amax=amax, amin=amin, max=max, min=min, argmax=argmax, argmin=argmin,
                       logsumexp=logsumexp, any=any, all=all, count_nonzero=count_nonzero, var=var, std=std).items():
    define(_fn, _name, FUNCTIONS, True)
for _name, _fn in dict(var_mean=var_mean, std_mean=std_mean).items():
    define(_fn, _name, FUNCTIONS)
