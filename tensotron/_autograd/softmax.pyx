# distutils: language = c++
"""softmax and log_softmax."""
import warnings

from libc.stdint cimport int64_t

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    FnNode, Tensor, add_method, alias, any_requires, attach, check_inplace, copy_into, empty, empty_like, empty_of,
    fill_with, grad_enabled, materialise, rebase, record, run, same_shape, shape_of, wrap_dim)

from tensotron._cpu cimport backend

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_softmax "tensotron::K_softmax"
    enum: K_softmax_backward "tensotron::K_softmax_backward"

include "arguments.pxi"

FUNCTIONS = {}
NN_FUNCTIONS = {}

cdef enum:
    SOFTMAX = 0
    LOG_SOFTMAX = 1


cdef tuple extents(Tensor x, int dim):
    """(outer, dim, inner) of a contiguous tensor around the dimension."""
    cdef int64_t outer = 1, inner = 1
    cdef int d
    for d in range(x.nd):
        if d < dim:
            outer *= x.sizes[d]
        elif d > dim:
            inner *= x.sizes[d]
    return (outer, x.sizes[dim] if x.nd > 0 else 1, inner)


def _softmax_backward(FnNode node, Tensor g):
    cdef Tensor y = <Tensor>node.saved(0), gx
    op, dim = node.ctx
    if grad_enabled():
        if op == LOG_SOFTMAX:
            return g - y.exp() * g.sum(dim, True)
        return y * (g - (g * y).sum(dim, True))
    gx = empty(y.nd, y.sizes, y.dt)
    run(K_softmax_backward, op, (gx,), (materialise(g, y.dt), materialise(y, y.dt)), extents(gx, dim), (), y.dt)
    return gx


cdef Tensor softmax_of(int op, str name, object input, object dim, object dtype, object out):
    cdef Tensor x = tensor_arg(input, name, "input", 1), y
    cdef int d, dt
    if dtype is not None:
        dt = dt_.code_of(dtype, -1)
        if x.dt != dt:
            x = <Tensor>x.to(dt_.of_code(dt))
    d = dim_arg(dim, x.nd, name, 2)
    if not dt_.is_float(x.dt):
        kernel = "softmax" if op == SOFTMAX else "log_softmax"
        kernel += "_lastdim_kernel_impl" if d == x.nd - 1 or x.nd == 0 else "_kernel_impl"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{TITLES[x.dt]}'")
    y = empty(x.nd, x.sizes, x.dt)
    run(K_softmax, op, (y,), (materialise(x, x.dt),), extents(x, d), (), x.dt)
    if grad_enabled() and x.requires():
        attach(y, "SoftmaxBackward0" if op == SOFTMAX else "LogSoftmaxBackward0", _softmax_backward, (x,), (y,), (op, d))
    if out is None:
        return y
    refuse_out("aten::" + name, <Tensor?>out, False)
    finish_out(out, y, name, ())
    return record(<Tensor>out, "NotImplemented", _no_derivative, (x,), None, "aten::" + name)


def _no_derivative(FnNode node, g):
    raise NotImplementedError(f"derivative for {node.ctx} is not implemented")


def softmax(input, dim, dtype=None, *, out=None):
    """exp(input) scaled to sum to 1 along `dim`.

    Args:
        input: the tensor.
        dim: the dimension.
        dtype: dtype to which the input is converted first.
    """
    return softmax_of(SOFTMAX, "softmax", input, dim, dtype, out)


def log_softmax(input, dim, dtype=None, *, out=None):
    """log(softmax(input, dim)), accurately. Args: as softmax()."""
    return softmax_of(LOG_SOFTMAX, "log_softmax", input, dim, dtype, out)


cdef object implicit_dim(str name, Tensor x, object dim, int stacklevel):
    """The dimension meant by a call without one: an old habit, warned of."""
    if dim is not None:
        return dim
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
                  stacklevel=max(stacklevel - 2, 1))  # torch counts two frames of its own, which are none here
    return 0 if x.nd in (0, 1, 3) else 1


def functional_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(input) scaled to sum to 1 along `dim`."""
    return softmax_of(SOFTMAX, "softmax", input, implicit_dim("softmax", tensor_arg(input, "softmax", "input", 1), dim, _stacklevel),
                      dtype, None)


def functional_log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(input, dim)), accurately."""
    return softmax_of(LOG_SOFTMAX, "log_softmax", input,
                      implicit_dim("log_softmax", tensor_arg(input, "log_softmax", "input", 1), dim, _stacklevel), dtype, None)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -input."""
    return softmax_of(SOFTMAX, "softmax", -input, implicit_dim("softmin", tensor_arg(input, "softmin", "input", 1), dim, _stacklevel),
                      dtype, None)


define(softmax, "softmax", FUNCTIONS, True)
define(log_softmax, "log_softmax", FUNCTIONS, True)
define(functional_softmax, "softmax", NN_FUNCTIONS)
define(functional_log_softmax, "log_softmax", NN_FUNCTIONS)
define(softmin, "softmin", NN_FUNCTIONS)
