# distutils: language = c++
"""Running sums and products along a dimension, and reversal of dimensions."""
from libc.stdint cimport int64_t, uint64_t

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    FnNode, Tensor, add_method, alias, any_requires, as_view, attach, cast, check_inplace, copy_into, empty, empty_like, empty_of,
    fill_with, grad_enabled, materialise, rebase, record, run, same_shape, shape_of, wrap_dim)
from tensotron._autograd.reduce cimport dim_mask
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F64, I64

from tensotron._autograd import join

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_scan "tensotron::K_scan"

include "arguments.pxi"

FUNCTIONS = {}

cdef enum:
    SUM = 0
    PRODUCT = 1

cdef tuple NAMES = ("cumsum", "cumprod")
cdef object MISSING = object()


# ==== flip ======================================================================================
def _flip_backward(FnNode node, Tensor g):
    return g.flip(node.ctx)


cdef Tensor flipped(object input, object dims, int position):
    """`position` of the argument dims, for messages; 0 if it came by keyword."""
    cdef Tensor x = tensor_arg(input, "flip", "input", 1), y
    cdef int64_t strides[64]
    cdef int64_t offset = 0
    cdef int d
    where = f" (position {position})" if position else ""
    if not isinstance(dims, (tuple, list)):
        raise TypeError(f"flip(): argument 'dims'{where} must be tuple of ints, not {type(dims).__name__}")
    for at, item in enumerate(dims):
        if isinstance(item, (bool, float, str)) or not hasattr(item, "__index__"):
            found = f"but found element of type {type(item).__name__} at pos {at}" if position else f"not {type(dims).__name__}"
            raise TypeError(f"flip(): argument 'dims'{where} must be tuple of ints, {found}")
    cdef uint64_t mask = dim_mask(dims, x.nd) if dims else 0
    y = empty_like(x, x.dt)
    if x.n > 0:
        for d in range(x.nd):
            strides[d] = x.strides[d]
            if mask >> d & 1:
                offset += (x.sizes[d] - 1) * x.strides[d]
                strides[d] = -x.strides[d]
        copy_into(y, as_view(x, x.nd, x.sizes, strides, offset))
    return record(y, "FlipBackward0", _flip_backward, (x,), None, tuple(dims))


def flip(input, dims=MISSING):
    """A copy with the order of the elements reversed along each of `dims`, a sequence of ints."""
    if dims is MISSING:
        raise TypeError("flip() missing 1 required positional arguments: \"dims\"")
    return flipped(input, dims, 2)


def flip_method(self, *dims, **named):
    """A copy with the order of the elements reversed along each of `dims`: ints, or one sequence of them."""
    if named:
        if dims or list(named) != ["dims"]:
            raise TypeError(f"flip() got an unexpected keyword argument '{list(named)[0]}'")
        return flipped(self, named["dims"], 0)
    if not dims:
        raise TypeError("flip() missing 1 required positional arguments: \"dims\"")
    if isinstance(dims[0], (tuple, list)) and len(dims) == 1:
        return flipped(self, dims[0], 1)
    if len(dims) == 1 and (isinstance(dims[0], (bool, float, str)) or not hasattr(dims[0], "__index__")):
        raise TypeError(f"flip(): argument 'dims' (position 1) must be tuple of ints, not {type(dims[0]).__name__}")
    return flipped(self, dims, 1)


# ==== forward ===================================================================================
cdef Tensor scan_of(int op, Tensor x, int dim, int dt):
    """The scan of x converted to the dtype; no graph."""
    cdef int compute = dt if dt <= F64 else I64
    cdef int64_t outer = 1, inner = 1
    cdef int d
    cdef Tensor y
    if dt == BOOL:
        if x.nd == 0 or x.n == 0:
            return copy_of(cast(x, dt))
        raise NotImplementedError(f"\"{NAMES[op]}_out_cpu\" not implemented for 'Bool'")
    if x.dt != dt and dt != I64:
        x = materialise(x, dt)  # narrow integers wrap before they are added up
    x = materialise(x, compute)
    for d in range(x.nd):
        if d < dim:
            outer *= x.sizes[d]
        elif d > dim:
            inner *= x.sizes[d]
    y = empty(x.nd, x.sizes, compute)
    if x.n > 0:
        run(K_scan, op, (y,), (x,), (outer, x.sizes[dim] if x.nd > 0 else 1, inner), (), compute)
    return y if compute == dt else materialise(y, dt)


cdef object scanned(int op, Tensor x, object dim, int position, object dtype, object out):
    cdef int d = dim_arg(dim, x.nd, NAMES[op], position)
    cdef int dt = x.dt if dt_.is_float(x.dt) else I64
    cdef Tensor y, result
    if isinstance(out, Tensor):
        dt = (<Tensor>out).dt
    dt = dt_.code_of(dtype, dt)
    y = scan_of(op, x, d, dt)
    if out is not None:
        return finish_out(out, y, NAMES[op], () if x is out else (x,))
    if dt_.is_float(x.dt) and dt_.is_float(dt):
        if op == SUM:
            record(y, "CumsumBackward0", _cumsum_backward, (x,), None, (d, dt_.of_code(x.dt)))
        else:
            record(y, "CumprodBackward0", _cumprod_backward, (x,), (x, y), d)
    return y


cdef object scanned_inplace(int op, object self, object dim, object dtype):
    cdef Tensor x = tensor_arg(self, NAMES[op] + "_", "input", 1), y, before = None
    cdef int d = dim_arg(dim, x.nd, NAMES[op] + "_", 1)
    cdef int dt = dt_.code_of(dtype, x.dt)
    if dt != x.dt:
        raise RuntimeError(f"Bad in-place call: input tensor dtype {C_TYPE_NAMES[x.dt]} and output tensor dtype "
                           f"{C_TYPE_NAMES[dt]} should match")
    check_inplace(x, x.requires())
    if op == PRODUCT and grad_enabled() and x.requires():
        before = x.clone()
    y = scan_of(op, x, d, dt)
    copy_into(x, y)
    if op == SUM:
        return finish_inplace(x, "CumsumBackward0", _cumsum_backward, (x,), None, (d, dt_.of_code(dt)))
    # what was overwritten is kept; the result is computed again, since `x` may change once more
    return finish_inplace(x, "CumprodBackward0", _cumprod_backward, (x,), None if before is None else (before,), d)


# ==== backward ==================================================================================
cdef object from_the_end(object t, int dim):
    return t.flip(dim).cumsum(dim).flip(dim)


def _cumsum_backward(FnNode node, Tensor g):
    dim, dtype = node.ctx
    g = <Tensor>g.to(dtype)
    return g if g.n <= 1 or g.sizes[dim] == 1 else from_the_end(g, dim)


def _cumprod_backward(FnNode node, Tensor g):
    cdef Tensor x = <Tensor>node.saved(0)
    cdef int dim = node.ctx
    g = <Tensor>g.to(dt_.of_code(x.dt))
    if x.n <= 1 or x.sizes[dim] == 1:
        return g
    y = node.saved(1) if len(node.saved_tensors) > 1 else x.cumprod(dim)
    zero = x == 0
    if not zero.any():
        return from_the_end(y * g, dim) / x
    if grad_enabled():
        return _without_each(x, g, dim)
    # Before the first zero: the plain formula, on what lies before it. At the first zero z: the sum over j >= z
    # of g[j] times the product of x[.. j] without x[z]; every later product has z in it, so the rest is 0.
    zeros_so_far = zero.cumsum(dim)
    before, here = zeros_so_far == 0, zeros_so_far == 1
    first = zero & here
    after = here & ~first
    plain = from_the_end((y * g).masked_fill(~before, 0.0), dim) / x
    position = here.max(dim, keepdim=True).indices
    left = y.gather(dim, (position - 1).clamp(min=0)).masked_fill(position == 0, 1.0)
    at_zero = (x.masked_fill(~after, 1.0).cumprod(dim) * g.masked_fill(~here, 0.0)).sum(dim, True) * left
    return plain.where(before, at_zero.where(first, 0.0))


cdef object _without_each(Tensor x, object g, int dim):
    """The same as products that leave out one element each, which are differentiable where elements are zero."""
    cdef int64_t k, n = x.sizes[dim]
    one = x.new_ones(x.narrow(dim, 0, 1).shape)
    parts = []
    for k in range(n):
        left = one if k == 0 else x.narrow(dim, 0, k).prod(dim, True)
        products = left
        if k < n - 1:
            products = join.FUNCTIONS["cat"]([left, left * x.narrow(dim, k + 1, n - k - 1).cumprod(dim)], dim)
        parts.append((g.narrow(dim, k, n - k) * products).sum(dim, True))
    return join.FUNCTIONS["cat"](parts, dim)


# ==== public ====================================================================================
cdef int require_dim(object dim, str name) except -1:
    if dim is MISSING:
        raise TypeError(f"{name}() missing 1 required positional arguments: \"dim\"")
    return 0


def cumsum(input, dim=MISSING, *, dtype=None, out=None):
    """Sums of the elements up to each, along `dim`. Integers are summed as int64.

    Args:
        input: the tensor.
        dim: the dimension.
        dtype: dtype to which the input is converted first, and of the result.
    """
    require_dim(dim, "cumsum")
    return scanned(SUM, tensor_arg(input, "cumsum", "input", 1), dim, 2, dtype, out)


def cumprod(input, dim=MISSING, *, dtype=None, out=None):
    """Products of the elements up to each, along `dim`. Args: as cumsum()."""
    require_dim(dim, "cumprod")
    return scanned(PRODUCT, tensor_arg(input, "cumprod", "input", 1), dim, 2, dtype, out)


def cumsum_method(self, dim=MISSING, *, dtype=None):
    """Sums of the elements up to each, along `dim`."""
    require_dim(dim, "cumsum")
    return scanned(SUM, <Tensor?>self, dim, 1, dtype, None)


def cumprod_method(self, dim=MISSING, *, dtype=None):
    """Products of the elements up to each, along `dim`."""
    require_dim(dim, "cumprod")
    return scanned(PRODUCT, <Tensor?>self, dim, 1, dtype, None)


def cumsum_(self, dim=MISSING, *, dtype=None):
    """cumsum() in place; `dtype` can only be that of the tensor."""
    require_dim(dim, "cumsum_")
    return scanned_inplace(SUM, self, dim, dtype)


def cumprod_(self, dim=MISSING, *, dtype=None):
    """cumprod() in place; `dtype` can only be that of the tensor."""
    require_dim(dim, "cumprod_")
    return scanned_inplace(PRODUCT, self, dim, dtype)


for _name, _fn, _method in (("flip", flip, flip_method), ("cumsum", cumsum, cumsum_method), ("cumprod", cumprod, cumprod_method)):
    define(_fn, _name, FUNCTIONS)
    define(_method, _name, None, True)
define(cumsum_, "cumsum_", None, True)
define(cumprod_, "cumprod_", None, True)
