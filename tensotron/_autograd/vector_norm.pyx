# distutils: language = c++
"""Norms of vectors: norm, linalg.vector_norm."""
from libc.math cimport INFINITY, isinf
from libc.stdint cimport int64_t, uint64_t

from tensotron._autograd.reduce cimport dim_mask, reduce_one, restore
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    FnNode, Tensor, add_method, alias, any_requires, attach, cast, check_inplace, copy_into, empty_like, empty_of, fill_with,
    grad_enabled, rebase, record, same_shape, set_grad, shape_of, wrap_dim)
from tensotron._cpu cimport backend

cdef extern from *:
    """
    #include "tensotron/_ops/reduce_ops.h"
    """
    enum: REDUCE_norm_1 "tensotron::REDUCE_norm_1"
    enum: REDUCE_norm_2 "tensotron::REDUCE_norm_2"
    enum: REDUCE_norm_inf "tensotron::REDUCE_norm_inf"

include "arguments.pxi"

FUNCTIONS = {}


# ==== arguments =================================================================================
cdef double order_of(object p) except? -7.25:
    if isinstance(p, Tensor) and (<Tensor>p).n == 1:
        p = p.item()
    if isinstance(p, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    if isinstance(p, str) or not (hasattr(p, "__float__") or hasattr(p, "__index__")):
        raise TypeError(f"linalg_vector_norm(): argument 'ord' (position 2) must be Number, not {type(p).__name__}")
    return p


cdef object dims_of(object dim):
    """None, or a tuple of ints."""
    if dim is None:
        return None
    if not isinstance(dim, (tuple, list)):
        if isinstance(dim, (bool, float, str)) or not hasattr(dim, "__index__"):
            raise TypeError(f"linalg_vector_norm(): argument 'dim' (position 3) must be tuple of ints, not {type(dim).__name__}")
        return (dim.__index__(),)
    for at, item in enumerate(dim):
        if isinstance(item, (bool, float, str)) or not hasattr(item, "__index__"):
            raise TypeError("linalg_vector_norm(): argument 'dim' (position 3) must be tuple of ints, but found element of type "
                            f"{type(item).__name__} at pos {at}")
    return tuple(dim)


cdef int refuse_empty(Tensor x, object dims, uint64_t mask, double p) except -1:
    """An order without an identity over no elements."""
    cdef int d
    if x.n > 0 or not (p < 0 or p == INFINITY):
        return 0
    if not dims:
        raise RuntimeError(f"linalg.vector_norm cannot compute the {p:g} norm on an empty tensor because the operation does not "
                           "have an identity")
    for d in range(x.nd):
        if mask >> d & 1 and x.sizes[d] == 0:
            raise RuntimeError(f"linalg.vector_norm cannot compute the {p:g} norm on the dimension {d}because this dimension is "
                               "empty and the operation does not have an identity")
    return 0


# ==== norm and its gradient =====================================================================
cdef Tensor forward(Tensor x, double p, uint64_t mask, bint keepdim):
    """The norm of a floating-point tensor; called without a graph."""
    cdef list dims = [d for d in range(x.nd) if mask >> d & 1]
    if dims and p != 0 and all([x.sizes[d] == 1 for d in dims]):  # no power that could overflow
        return x.abs() if keepdim else x.abs().squeeze(dims)
    if p == 1:
        return reduce_one(REDUCE_norm_1, x, mask, keepdim, x.dt, x.dt, 0)
    if p == 2:
        return reduce_one(REDUCE_norm_2, x, mask, keepdim, x.dt, x.dt, 0)
    if p == INFINITY:
        return reduce_one(REDUCE_norm_inf, x, mask, keepdim, x.dt, x.dt, 0)
    terms = x.abs() if p != 0 else (x != 0).to(dt_.of_code(x.dt))
    if isinf(p):
        return terms.amin(dims, keepdim) if dims else terms
    terms = terms if p == 0 else terms ** p
    terms = terms.sum(dims, keepdim) if dims else terms
    return terms if p == 0 else terms ** (1 / p)


def _backward(FnNode node, Tensor g):
    cdef Tensor x = <Tensor>node.saved(0)
    cdef double p = node.ctx[0]
    cdef uint64_t mask = node.ctx[1]
    if p == 0:
        return None
    norm = restore(<Tensor>node.saved(1), x.nd, mask, node.ctx[2])
    gradient = restore(g, x.nd, mask, node.ctx[2])
    if p == 1:
        return x.sign() * gradient
    if p == 2:
        return gradient * (x / norm).masked_fill(norm == 0, 0)
    size = x.abs()
    if isinf(p):
        # equal parts to all of the extreme size, and to NaN
        here = (size == norm).logical_or(size.isnan())
        dims = [d for d in range(x.nd) if mask >> d & 1]
        return x.sign() * (gradient / (here.sum(dims, True) if dims else here) * here)
    if p < 1:
        return x.sign() * (size ** (p - 1)).masked_fill(x == 0, 0) * gradient * norm ** (1 - p)
    scale = (gradient / norm ** (p - 1)).masked_fill(norm == 0, 0)
    return (x.sign() * size ** (p - 1) if p < 2 else x * size ** (p - 2)) * scale


cdef object norm_of(Tensor x, object order, object dim, object keepdim, object dtype, object out):
    cdef double p = order_of(order)
    cdef object dims = dims_of(dim)
    cdef Tensor converted, y
    cdef uint64_t mask
    cdef int dt
    cdef bint grad
    if not isinstance(keepdim, bool):
        raise TypeError(f"linalg_vector_norm(): argument 'keepdim' (position 4) must be bool, not {type(keepdim).__name__}")
    if not dt_.is_float(x.dt):
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {TITLES[x.dt]}")
    mask = dim_mask(dims, x.nd)
    refuse_empty(x, dims, mask, p)
    dt = dt_.code_of(dtype, x.dt)
    if not dt_.is_float(dt):
        raise RuntimeError(f"linalg.vector_norm: dtype should be floating point or complex, but got {TITLES[dt]}")
    if dt_.promote(x.dt, dt) != dt:
        raise RuntimeError(f"linalg.vector_norm: the dtype of the input ({TITLES[x.dt]}) should be convertible without narrowing "
                           f"to the specified dtype ({TITLES[dt]})")
    converted = cast(x, dt)
    grad = set_grad(False)
    try:
        y = forward(converted, p, mask, keepdim)
    finally:
        set_grad(grad)
    if out is not None:
        return finish_out(out, y, "linalg_vector_norm", (x,))
    return record(y, "LinalgVectorNormBackward0", _backward, (x,), (x, y), (p, mask, keepdim))


# ==== public ====================================================================================
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """(sum |x|^ord)^(1/ord) along `dim`, an int or several, or over all elements.

    Args:
        x: the tensor, floating point.
        ord: any number; inf and -inf for the largest and the smallest size, 0 for the number of elements not zero.
        dim: dimension or dimensions to reduce; None or () for all.
        keepdim: keep them with size 1.
        dtype: dtype to which x is converted first; it cannot be narrower.
    """
    return norm_of(tensor_arg(x, "linalg_vector_norm", "input", 1), ord, dim, keepdim, dtype, out)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of a tensor as a vector, or of the vectors along `dim`.

    Args:
        input: the tensor, floating point.
        p: order, as of linalg.vector_norm(); 'fro' is 2.
        dim, keepdim, dtype: as of linalg.vector_norm().
    """
    if not isinstance(input, Tensor):
        raise AttributeError(f"'{type(input).__name__}' object has no attribute 'layout'")
    cdef Tensor x = <Tensor>input
    if not isinstance(p, str):
        return norm_of(x, 2.0 if p is None else p, dim, keepdim, dtype, out)
    if p == "nuc":
        raise NotImplementedError("norm with p='nuc' (the nuclear norm) is not implemented")
    if p != "fro":
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    if isinstance(dim, (tuple, list)) and len(dim) > 2:
        raise RuntimeError("linalg.matrix_norm: dim must be a 2-tuple. Got " + " ".join(str(d) for d in dim))
    return norm_of(x, 2, dim, keepdim, dtype, out)


def norm_method(self, p="fro", dim=None, keepdim=False, dtype=None):
    """norm() of the tensor."""
    return norm(self, p, dim, keepdim, None, dtype)


FUNCTIONS["norm"] = norm
norm.__qualname__ = "norm"
define(norm_method, "norm", None, True)
