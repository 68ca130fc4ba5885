# distutils: language = c++
"""Pooling in one and two dimensions."""
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport mask_of, note_masked
from tensotron._autograd.engine cimport is_running
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    FnNode, Tensor, add_method, alias, any_requires, attach, attach_all, begin, check_inplace, contiguous, copy_into, empty,
    empty_like, empty_of, fill_with, grad_enabled, rebase, record, same_shape, set_arg, set_geometry, shape_of, wrap_dim)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8, Record

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_max_pool2d "tensotron::K_max_pool2d"
    enum: K_max_pool2d_backward "tensotron::K_max_pool2d_backward"
    enum: K_max_pool2d_gather "tensotron::K_max_pool2d_gather"
    enum: K_avg_pool2d "tensotron::K_avg_pool2d"
    enum: K_avg_pool2d_backward "tensotron::K_avg_pool2d_backward"

include "arguments.pxi"

FUNCTIONS = {}
NN_FUNCTIONS = {}


cdef int launch_pool(int kernel, tuple v, int nout, Tensor a, Tensor b, Tensor c, Tensor d=None) except -1:
    """v: the ints of pool-inl.h. Inputs must be contiguous."""
    cdef Record r
    cdef int k
    if a.n == 0:
        return 0
    begin(&r, kernel, 0, nout, 2 + (c is not None) + (d is not None) - nout, a.dt)
    r.ndim = 0
    set_arg(&r, 0, a)
    set_arg(&r, 1, b)
    if c is not None:
        set_arg(&r, 2, c)
    if d is not None:
        set_arg(&r, 3, d)
    for k in range(len(v)):
        r.ints[k] = v[k]
    backend.launch(&r)
    return 0


# ==== arguments ===================================================================================
cdef list sizes_arg(object x, str op, str name, object default):
    """Two numbers from one, or from a sequence of one or two; an empty sequence or None gives the default."""
    if x is None and default is not None:
        return default
    if isinstance(x, int) and not isinstance(x, bool):
        return [x, x]
    if not isinstance(x, (tuple, list)) or any([isinstance(i, (float, str)) for i in x]):
        raise TypeError(f"{op}(): argument '{name}' must be tuple of ints, not {type(x).__name__}")
    values = [int(i) for i in x]
    if not values and default is not None:
        return default
    if len(values) == 1:
        return values * 2
    if len(values) != 2:
        what = "must either be omitted, a single int, or a tuple of two ints" if default is not None else (
            "must either be a single int, or a tuple of two ints")
        raise RuntimeError(f"{op}: {name} {what}")
    return values


cdef int64_t output_size(int64_t n, int64_t k, int64_t s, int64_t p, int64_t d, bint ceil_mode) except? -1:
    cdef int64_t span, out
    if s == 0:
        raise RuntimeError("stride should not be zero")
    if p < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
    if p > ((k - 1) * d + 1) // 2:
        raise RuntimeError(f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}")
    span = n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)
    out = (span - (s - 1) if span < 0 else span) // s + 1
    if ceil_mode and (out - 1) * s >= n + p:
        out -= 1
    return out


cdef tuple geometry(Tensor x, list k, list s, list p, list d, bint ceil_mode):
    """The ints of the kernels and the output's shape."""
    cdef int64_t h = x.sizes[x.nd - 2], w = x.sizes[x.nd - 1], c = x.sizes[x.nd - 3], oh, ow
    cdef bint fits
    oh = output_size(h, k[0], s[0], p[0], d[0], ceil_mode)
    ow = output_size(w, k[1], s[1], p[1], d[1], ceil_mode)
    if k[0] <= 0 or k[1] <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got kH: {k[0]} kW: {k[1]}")
    if s[0] <= 0 or s[1] <= 0:
        raise RuntimeError(f"stride should be greater than zero, but got dH: {s[0]} dW: {s[1]}")
    if d[0] <= 0 or d[1] <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got dilationH: {d[0]} dilationW: {d[1]}")
    if c == 0 or h == 0 or w == 0:
        raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(shape_of(x))}")
    if oh < 1 or ow < 1:
        raise RuntimeError(f"Given input size: ({c}x{h}x{w}). Calculated output size: ({c}x{oh}x{ow}). Output size is too small")
    return planes_of(x), h, w, oh, ow, k[0], k[1], s[0], s[1], p[0], p[1], d[0], d[1]


cdef int64_t planes_of(Tensor x) noexcept:
    return x.sizes[0] * x.sizes[1] if x.nd == 4 else x.sizes[0]


cdef tuple output_shape(Tensor x, int64_t oh, int64_t ow):
    shape = list(shape_of(x))
    shape[x.nd - 2], shape[x.nd - 1] = oh, ow
    return tuple(shape)


cdef int check_dtype(Tensor x, str op, bint all_integers) except -1:
    if x.dt == BOOL or (not all_integers and (x.dt == I32 or x.dt == U8)):
        raise NotImplementedError(f"\"{op}\" not implemented for '{TITLES[x.dt]}'")
    return 0


# ==== maximum =====================================================================================
cdef tuple max_pool(Tensor x, tuple v, str node):
    """Values and indices."""
    cdef tuple shape = output_shape(x, v[3], v[4])
    cdef Tensor y = empty_of(shape, x.dt), at = empty_of(shape, I64)
    launch_pool(K_max_pool2d, v, 2, y, at, contiguous(x))
    attach_max(y, at, x, v, node)
    return y, at


cdef int attach_max(Tensor y, Tensor at, Tensor x, tuple v, str node) except -1:
    if grad_enabled() and x.requires():
        attach_all([y, at], node, max_backward, (x,), (at,), (v, shape_of(x), node))
    return 0


def max_backward(FnNode node, g, g_indices):
    cdef bint alone = is_running(node) and node.post_hooks is None and not grad_enabled()
    cdef Tensor mask = mask_of(node.next0) if alone else None, out
    v, shape, name = node.info
    if g is None:
        return None
    if mask is None or not mask.contiguous or mask.dt != (<Tensor>g).dt or (<Tensor>g).n == 0:
        return scatter_max(<Tensor>g, node.saved(0), v, shape, name)
    out = empty_of(tuple(shape), (<Tensor>g).dt)
    launch_pool(K_max_pool2d_backward, v, 1, out, contiguous(<Tensor>g), node.saved(0), mask)
    note_masked(node.next0, out)
    return out


cdef Tensor scatter_max(Tensor g, Tensor at, tuple v, object shape, str name):
    cdef Tensor out = empty_of(tuple(shape), g.dt)
    if g.n == 0:
        fill_with(out, 0)
    else:
        launch_pool(K_max_pool2d_backward, v, 1, out, contiguous(g), at)
    return record(out, name[:-1] + "Backward0", gather_max, (g,), (at,), (v, shape, shape_of(g), name))


def gather_max(node, g):
    v, shape, out, name = node.info
    cdef Tensor at = node.saved(0), y = empty_of(tuple(out), (<Tensor>g).dt)
    launch_pool(K_max_pool2d_gather, v, 1, y, contiguous(<Tensor>g), at)
    return record(y, name, gather_max_backward, (g,), (at,), (v, shape, name))


def gather_max_backward(node, g):
    v, shape, name = node.info
    return scatter_max(<Tensor>g, node.saved(0), v, shape, name)


cdef tuple max_pool2d_any(object input, object kernel_size, object stride, object padding, object dilation, bint ceil_mode):
    cdef Tensor x = tensor_arg(input, "max_pool2d", "input", 1)
    k = sizes_arg(kernel_size, "max_pool2d", "kernel_size", None)
    s = sizes_arg(stride, "max_pool2d", "stride", k)
    p = sizes_arg(padding, "max_pool2d", "padding", None)
    d = sizes_arg(dilation, "max_pool2d", "dilation", None)
    if x.nd != 3 and x.nd != 4:
        raise RuntimeError("non-empty 3D or 4D (batch mode) tensor expected for input")
    v = geometry(x, k, s, p, d, ceil_mode)
    check_dtype(x, "max_pool2d", True)
    return max_pool(x, v, "MaxPool2DWithIndicesBackward0")


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, bint ceil_mode=False, bint return_indices=False):
    """Maximum over windows of the last two dimensions; with return_indices also where it was, as h * W + w."""
    y, at = max_pool2d_any(input, kernel_size, stride, padding, dilation, ceil_mode)
    return (y, at) if return_indices else y


def max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, bint ceil_mode=False, bint return_indices=False):
    """max_pool2d with the positions of the maxima."""
    return max_pool2d_any(input, kernel_size, stride, padding, dilation, ceil_mode)


cdef int one_size(object x, str op, str name) except? -1:
    if isinstance(x, (tuple, list)):
        if len(x) != 1:
            raise RuntimeError(f"{op}() {name} must be a single int or a list of one")
        x = x[0]
    return int_arg(x, op, name, 2)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, bint ceil_mode=False, bint return_indices=False):
    """Maximum over windows of the last dimension."""
    cdef Tensor x = tensor_arg(input, "max_pool1d", "input", 1)
    k = one_size(kernel_size, "max_pool1d", "kernel_size")
    s = k if stride is None or (isinstance(stride, (tuple, list)) and not stride) else one_size(stride, "max_pool1d", "stride")
    p, d = one_size(padding, "max_pool1d", "padding"), one_size(dilation, "max_pool1d", "dilation")
    if x.nd != 2 and x.nd != 3:
        raise RuntimeError(f"max_pool1d() Expected 2D or 3D input tensor, but got {x.nd} sizes: {list(shape_of(x))}")
    if k <= 0:
        raise RuntimeError(f"max_pool1d() kernel_size must be greater than zero, but got {k}")
    if s <= 0:
        raise RuntimeError(f"max_pool1d() stride must be greater than zero, but got {s}")
    if p < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {p}")
    if d <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {d}")
    if p > ((k - 1) * d + 1) // 2:
        raise RuntimeError(f"max_pool1d() padding should be at most half of kernel size, but got padding={p} and kernel_size={k}")
    y, at = max_pool2d_any(x.unsqueeze(-2), (1, k), (1, s), (0, p), (1, d), ceil_mode)
    y = y.squeeze(-2)
    return (y, at.squeeze(-2)) if return_indices else y


# ==== average =====================================================================================
cdef Tensor avg_pool(Tensor x, tuple v, str node):
    cdef Tensor y = empty_of(output_shape(x, v[3], v[4]), x.dt)
    launch_pool(K_avg_pool2d, v, 1, y, contiguous(x), None)
    return record(y, node, avg_backward, (x,), None, (v, shape_of(x), node))


def avg_backward(node, g):
    v, shape, name = node.info
    return spread_average(<Tensor>g, v, shape, name)


cdef Tensor spread_average(Tensor g, tuple v, object shape, str name):
    cdef Tensor out = empty_of(tuple(shape), g.dt)
    if g.n == 0:
        fill_with(out, 0)
    else:
        launch_pool(K_avg_pool2d_backward, v, 1, out, contiguous(g), None)
    return record(out, name[:-1] + "Backward0", average_of_gradient, (g,), None, (v, name))


def average_of_gradient(node, g):
    return avg_pool(<Tensor>g, node.info[0], node.info[1])


def avg_pool2d(input, kernel_size, stride=None, padding=0, bint ceil_mode=False, bint count_include_pad=True, divisor_override=None):
    """Mean over windows of the last two dimensions; divisor_override replaces the number of elements."""
    cdef Tensor x = tensor_arg(input, "avg_pool2d", "input", 1)
    k = sizes_arg(kernel_size, "avg_pool2d", "kernel_size", None)
    s = sizes_arg(stride, "avg_pool2d", "stride", k)
    p = sizes_arg(padding, "avg_pool2d", "padding", None)
    if divisor_override is not None and divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if x.nd < 3:
        wrap_dim(-3, x.nd)
    if x.nd > 4:
        raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(shape_of(x))}")
    v = geometry(x, k, s, p, [1, 1], ceil_mode)
    check_dtype(x, "avg_pool2d", False)
    return avg_pool(x, v + (count_include_pad, divisor_override or 0), "AvgPool2DBackward0")


def avg_pool1d(input, kernel_size, stride=None, padding=0, bint ceil_mode=False, bint count_include_pad=True):
    """Mean over windows of the last dimension."""
    cdef Tensor x = tensor_arg(input, "avg_pool1d", "input", 1)
    k = one_size(kernel_size, "avg_pool1d", "kernel_size")
    s = k if stride is None or (isinstance(stride, (tuple, list)) and not stride) else one_size(stride, "avg_pool1d", "stride")
    p = one_size(padding, "avg_pool1d", "padding")
    if x.nd != 2 and x.nd != 3:
        raise RuntimeError(f"Expected 2 to 3 dimensions, but got {x.nd}-dimensional tensor for argument #1 'self' (while checking "
                           "arguments for avg_pool1d)")
    return avg_pool2d(x.unsqueeze(-2), (1, k), (1, s), (0, p), ceil_mode, count_include_pad).squeeze(-2)


# ==== adaptive ====================================================================================
cdef tuple adaptive_geometry(Tensor x, object output_size, str op):
    cdef int d
    if x.nd < 3:
        raise ValueError("Input dimension should be at least 3")
    if x.nd > 4:
        raise RuntimeError(f"{op}(): Expected 3D or 4D tensor, but got {list(shape_of(x))}")
    for d in range(x.nd - 2, x.nd):
        if x.sizes[d] == 0:
            raise RuntimeError(f"{op}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                               f"{list(shape_of(x))} with dimension {d} being empty")
    sizes = [output_size, output_size] if isinstance(output_size, int) or output_size is None else list(output_size)
    if len(sizes) != 2:
        raise RuntimeError(f"{op}: output_size must be 2")
    sizes = [x.sizes[x.nd - 2 + k] if n is None else n for k, n in enumerate(sizes)]
    if min(sizes) < 0:
        raise RuntimeError(f"{op}: elements of output_size must be greater than or equal to 0 but received {{{sizes[0]}, {sizes[1]}}}")
    return planes_of(x), x.sizes[x.nd - 2], x.sizes[x.nd - 1], sizes[0], sizes[1], 0, 0, 1, 1, 0, 0, 1, 1


def adaptive_max_pool2d(input, output_size, bint return_indices=False):
    """Maximum over windows chosen so that the last two dimensions become output_size."""
    cdef Tensor x = tensor_arg(input, "adaptive_max_pool2d", "input", 1)
    v = adaptive_geometry(x, output_size, "adaptive_max_pool2d")
    check_dtype(x, "adaptive_max_pool2d", True)
    y, at = max_pool(x, v, "AdaptiveMaxPool2DBackward0")
    return (y, at) if return_indices else y


def adaptive_avg_pool2d(input, output_size):
    """Mean over windows chosen so that the last two dimensions become output_size."""
    cdef Tensor x = tensor_arg(input, "adaptive_avg_pool2d", "input", 1)
    v = adaptive_geometry(x, output_size, "adaptive_avg_pool2d")
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"adaptive_avg_pool2d_cpu\" not implemented for '{TITLES[x.dt]}'")
    if v[3] == 1 and v[4] == 1 and x.n > 0:  # PyTorch's mean too
        return x.mean((-1, -2), True)
    return avg_pool(x, v + (0, 0), "AdaptiveAvgPool2DBackward0")


for _fn in (max_pool2d, max_pool1d, avg_pool2d, avg_pool1d, adaptive_max_pool2d, adaptive_avg_pool2d, max_pool2d_with_indices):
    define(_fn, _fn.__name__, NN_FUNCTIONS)
for _fn in (max_pool2d, max_pool1d, avg_pool1d):
    FUNCTIONS[_fn.__name__] = _fn
