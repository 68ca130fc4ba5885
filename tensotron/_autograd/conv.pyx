# distutils: language = c++
"""Convolutions: one node and one set of kernels for all of them."""
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport attach_relu
from tensotron._autograd.pool cimport attach_max
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    FnNode, Tensor, add_method, alias, any_requires, attach, begin, check_inplace, contiguous, copy_into, empty, empty_like,
    empty_of, fill_with, grad_enabled, rebase, record, run, same_shape, set_arg, set_geometry, shape_of, wrap_dim)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I64, Record

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_conv_forward "tensotron::K_conv_forward"
    enum: K_conv_backward_input "tensotron::K_conv_backward_input"
    enum: K_conv_backward_weight "tensotron::K_conv_backward_weight"
    enum: K_conv_backward_bias "tensotron::K_conv_backward_bias"

include "arguments.pxi"

FUNCTIONS = {}
NN_FUNCTIONS = {}


# Stride, padding (top and left), dilation, groups and the sizes of a 2-d convolution.
cdef struct Shape:
    int64_t v[16]  # as conv-inl.h wants them


cdef Tensor launch_conv(int kernel, const Shape* s, Tensor out, Tensor a, Tensor b, Tensor bias):
    cdef Record r
    cdef int k
    if out.n == 0:
        return out
    begin(&r, kernel, 0, 1, 1 + (b is not None) + (bias is not None), out.dt)
    r.ndim = 0
    a = contiguous(a)
    set_arg(&r, 0, out)
    set_arg(&r, 1, a)
    if b is not None:
        b = contiguous(b)
        set_arg(&r, 2, b)
    if bias is not None:
        bias = contiguous(bias)
        set_arg(&r, 3, bias)
    for k in range(16):
        r.ints[k] = s.v[k]
    backend.launch(&r)
    return out


cdef Shape shape_from(tuple v):
    cdef Shape s
    cdef int k
    for k in range(16):
        s.v[k] = v[k]
    return s



# The three passes as differentiable functions of their tensors; `v` is the shape of the forward. Each is linear in both
# operands, so that the derivatives of any are the two others.
cdef Tensor forward(Tensor x, Tensor w, Tensor bias, tuple v):
    cdef Shape s = shape_from(v)
    cdef Tensor y = empty_of((v[0], v[4], v[14], v[15]), x.dt)
    launch_conv(K_conv_forward, &s, y, x, w, bias)
    return record(y, "ConvolutionBackward0", forward_backward, (x, w, bias), (x, w), v)


def forward_backward(node, g):
    v = node.info
    x, w = node.saved(0), node.saved(1)
    gx = input_gradient(<Tensor>g, w, v) if node.needs(0) else None
    if node.needs(1) and node.needs(2) and not grad_enabled():
        gw, gb = weight_and_bias_gradients(<Tensor>g, x, v)
        return gx, gw, gb
    return (gx, weight_gradient(<Tensor>g, x, v) if node.needs(1) else None, bias_gradient(<Tensor>g, v) if node.needs(2) else None)


cdef Tensor input_gradient(Tensor g, Tensor w, tuple v):
    cdef Shape s = shape_from(v)
    cdef Tensor out = empty_of((v[0], v[1], v[2], v[3]), g.dt)
    launch_conv(K_conv_backward_input, &s, out, g, w, None)
    return record(out, "ConvolutionBackwardBackward0", input_gradient_backward, (g, w), (g, w), v)


def input_gradient_backward(node, gx):
    v = node.info
    return (forward(<Tensor>gx, node.saved(1), None, v) if node.needs(0) else None,
            weight_gradient(node.saved(0), <Tensor>gx, v) if node.needs(1) else None)


cdef Tensor weight_gradient(Tensor g, Tensor x, tuple v):
    cdef Shape s = shape_from(v)
    cdef Tensor out = empty_of((v[4], v[1] // v[13], v[5], v[6]), g.dt)
    launch_conv(K_conv_backward_weight, &s, out, g, x, None)
    return record(out, "ConvolutionBackwardBackward0", weight_gradient_backward, (g, x), (g, x), v)


def weight_gradient_backward(node, gw):
    v = node.info
    return (forward(node.saved(1), <Tensor>gw, None, v) if node.needs(0) else None,
            input_gradient(node.saved(0), <Tensor>gw, v) if node.needs(1) else None)


cdef tuple weight_and_bias_gradients(Tensor g, Tensor x, tuple v):
    """Both in one pass over g."""
    cdef Tensor gw = empty_of((v[4], v[1] // v[13], v[5], v[6]), g.dt), gb = empty_of((v[4],), g.dt)
    run(K_conv_backward_weight, 0, (gw, gb), (contiguous(g), contiguous(x)), v, (), g.dt)
    return gw, gb


cdef Tensor bias_gradient(Tensor g, tuple v):
    cdef Shape s = shape_from(v)
    cdef Tensor out
    if grad_enabled() and g.requires():
        return <Tensor>g.sum((0, 2, 3))
    out = empty_of((v[4],), g.dt)
    return launch_conv(K_conv_backward_bias, &s, out, g, None, None)


cdef list int_pair(object x, str op, str name, int n):
    """n integers from one or from a sequence of one or n."""
    if isinstance(x, int) and not isinstance(x, bool):
        return [x] * n
    if not isinstance(x, (tuple, list)) or any([isinstance(i, (float, bool, str)) for i in x]):
        kind = type(x).__name__
        raise TypeError(f"{op}(): argument '{name}' must be tuple of ints, not {kind}")
    values = [int(i) for i in x]
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(f"expected {name} to be a single integer value or a list of {n} values to match the convolution "
                           f"dimensions, but got {name}={values}")
    return values


cdef int check_types(Tensor x, Tensor w, Tensor b) except -1:
    if x.dt != w.dt:
        raise RuntimeError(f"expected scalar type {TITLES[x.dt]} but found {TITLES[w.dt]}")
    if b is not None and b.dt != x.dt:
        raise RuntimeError(f"Input type ({C_TYPE_NAMES[x.dt]}) and bias type ({C_TYPE_NAMES[b.dt]}) should be the same")
    if x.dt == BOOL:
        raise NotImplementedError("\"slow_conv2d_cpu\" not implemented for 'Bool'")
    return 0


cdef tuple shape_of_conv(Tensor x, Tensor w, Tensor b, object stride, object padding, object dilation, int64_t g):
    """The shape of the convolution of x, which is 4-d; raises if the operands do not fit."""
    cdef int d
    cdef list st, di, out, left, total
    st = int_pair(stride, "conv2d", "stride", 2)
    di = int_pair(dilation, "conv2d", "dilation", 2)
    if w.nd != 4:
        raise RuntimeError(f"expected stride to be a single integer value or a list of {w.nd - 2} values to match the convolution "
                           f"dimensions, but got stride={st}")
    for d in range(2):
        if di[d] <= 0:
            raise RuntimeError(f"dilation should be greater than zero, but got {di}")
    if isinstance(padding, str):
        if padding == "valid":
            left = total = [0, 0]
        elif padding == "same":
            if st != [1, 1]:
                raise RuntimeError("padding='same' is not supported for strided convolutions")
            total = [di[d] * (w.sizes[2 + d] - 1) for d in range(2)]
            left = [n // 2 for n in total]
        else:
            raise RuntimeError(f"Invalid padding string: '{padding}'")
    else:
        left = int_pair(padding, "conv2d", "padding", 2)
        total = [2 * n for n in left]
    check_conv(x, w, b, st, left, g)
    check_types(x, w, b)
    out = []
    for d in range(2):
        size, kernel = x.sizes[2 + d] + total[d], di[d] * (w.sizes[2 + d] - 1) + 1
        out.append((size - kernel) // st[d] + 1 if size >= kernel else 0)
    if min(out) <= 0:
        padded = " x ".join([str(x.sizes[2 + d] + total[d]) for d in range(2)])
        kernel = " x ".join([str(di[d] * (w.sizes[2 + d] - 1) + 1) for d in range(2)])
        raise RuntimeError(f"Calculated padded input size per channel: ({padded}). Kernel size: ({kernel}). Kernel size can't be greater "
                           "than actual input size")
    return (x.sizes[0], x.sizes[1], x.sizes[2], x.sizes[3], w.sizes[0], w.sizes[2], w.sizes[3], st[0], st[1], left[0],
            left[1], di[0], di[1], g, out[0], out[1])


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """2-d convolution of input [N, C, H, W] or [C, H, W] with weight [O, C / groups, KH, KW].

    padding: an int, two, "valid" or "same" (stride 1 only).

    Raises:
        RuntimeError: shapes or dtypes do not fit.
    """
    cdef Tensor x = tensor_arg(input, "conv2d", "input", 1), w = tensor_arg(weight, "conv2d", "weight", 2), b = None, y
    cdef int64_t g = int_arg(groups, "conv2d", "groups", 7)
    cdef bint batched
    if bias is not None:
        b = tensor_arg(bias, "conv2d", "bias", 3)
    if x.nd != 3 and x.nd != 4:
        raise RuntimeError(f"Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: {list(shape_of(x))}")
    batched = x.nd == 4
    if not batched:
        x = <Tensor>x.unsqueeze(0)
    y = forward(x, w, b, shape_of_conv(x, w, b, stride, padding, dilation, g))
    return y if batched else y.squeeze(0)


cdef object conv2d_relu(object input, object weight, object bias, object stride, object padding, object dilation, object groups,
                        bint pool):
    """relu(conv2d(...)), and with `pool` max_pool2d of that with windows of 2, in one pass and with the same graph; None
    where the operators have to be called one by one."""
    cdef Tensor x, w, b = None, y, c, most = None, at = None
    cdef int k, nout = 3 if pool else 1
    cdef tuple v, pooled
    cdef Record r
    if not (type(input) is Tensor and isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor)) and type(groups) is int):
        return None
    x, w, b = <Tensor>input, <Tensor>weight, <Tensor>bias
    if x.nd != 4 or x.dt > F64 or w.dt != x.dt or (b is not None and b.dt != x.dt):
        return None
    v = shape_of_conv(x, w, b, stride, padding, dilation, groups)
    if v[0] == 0 or (pool and min(v[14], v[15]) < 2):
        return None
    y = empty_of((v[0], v[4], v[14], v[15]), x.dt)
    begin(&r, K_conv_forward, 1, nout, 2 + (b is not None), x.dt)
    r.ndim = 0
    set_arg(&r, 0, y)
    if pool:
        pooled = (v[0], v[4], v[14] // 2, v[15] // 2)
        most, at = empty_of(pooled, x.dt), empty_of(pooled, I64)
        set_arg(&r, 1, most)
        set_arg(&r, 2, at)
    cx, cw, cb = contiguous(x), contiguous(w), contiguous(b) if b is not None else None
    set_arg(&r, nout, <Tensor>cx)
    set_arg(&r, nout + 1, <Tensor>cw)
    if b is not None:
        set_arg(&r, nout + 2, <Tensor>cb)
    for k in range(16):
        r.ints[k] = v[k]
    backend.launch(&r)
    if grad_enabled() and any_requires((x, w, b)):
        c = alias(y)  # stands for the convolution's result, which nobody keeps
        attach(c, "ConvolutionBackward0", forward_backward, (x, w, b), (x, w), v)
        attach_relu(c, y)
    if not pool:
        return y
    attach_max(most, at, y, (v[0] * v[4], v[14], v[15], v[14] // 2, v[15] // 2, 2, 2, 2, 2, 0, 0, 1, 1), "MaxPool2DWithIndicesBackward0")
    return most


cdef int check_conv(Tensor x, Tensor w, Tensor b, list stride, list padding, int64_t groups) except -1:
    ws = list(shape_of(w))
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if w.sizes[0] < groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {ws} instead")
    if w.sizes[0] % groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size [{ws}] instead")
    if x.sizes[1] != w.sizes[1] * groups:
        raise RuntimeError(f"Given groups={groups}, weight of size {ws}, expected input{list(shape_of(x))} to have {w.sizes[1] * groups} "
                           f"channels, but got {x.sizes[1]} channels instead")
    if b is not None and (b.nd != 1 or b.sizes[0] != w.sizes[0]):
        raise RuntimeError(f"Given weight of size {ws}, expected bias to be 1-dimensional with {w.sizes[0]} elements, but got bias of size "
                           f"{list(shape_of(b))} instead")
    return 0


define(conv2d, "conv2d", FUNCTIONS)
NN_FUNCTIONS["conv2d"] = conv2d
