# distutils: language = c++
"""Layer, group and batch normalisation."""
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
    enum: K_layer_norm "tensotron::K_layer_norm"
    enum: K_layer_norm_backward "tensotron::K_layer_norm_backward"
    enum: K_group_norm "tensotron::K_group_norm"
    enum: K_group_norm_backward "tensotron::K_group_norm_backward"
    enum: K_batch_norm "tensotron::K_batch_norm"
    enum: K_batch_norm_backward "tensotron::K_batch_norm_backward"

include "arguments.pxi"

FUNCTIONS = {}
NN_FUNCTIONS = {}

cdef enum:
    BATCH_STATISTICS = 0
    RUNNING_STATISTICS = 1


cdef int check_dtypes(Tensor x, str kernel, tuple others) except -1:
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{TITLES[x.dt]}'")
    for t in others:
        if t is not None and (<Tensor?>t).dt != x.dt:
            raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    return 0


cdef Tensor dense(object t):
    return None if t is None else materialise(<Tensor?>t, (<Tensor>t).dt)


cdef Tensor vector(int64_t n, int dt):
    return empty(1, &n, dt)


cdef tuple composed(object g, object xhat, object rstd, object w, list dims, list outer):
    """Gradients of y = xhat * w + b in public ops: of x (xhat normalised over `dims`), w, b. w is None or broadcasts."""
    gw = g if w is None else g * w
    gx = (gw - gw.mean(dims, True) - xhat * (gw * xhat).mean(dims, True)) * rstd
    return gx, (g * xhat).sum(outer), g.sum(outer)


cdef tuple normalised(object x, list dims, double eps):
    """xhat and 1 / deviation, differentiable."""
    centred = x - x.mean(dims, True)
    rstd = ((centred * centred).mean(dims, True) + eps).rsqrt()
    return centred * rstd, rstd


# ==== layer norm ================================================================================
def _layer_norm_backward(FnNode node, Tensor g):
    cdef Tensor x = <Tensor>node.saved(0), w = <Tensor>node.saved(1), mean, rstd, gx = None, gw = None, gb = None
    cdef int k
    kept, m, n, eps = node.ctx
    k = kept
    if grad_enabled():
        dims, outer = list(range(x.nd - k, x.nd)), list(range(x.nd - k))
        xhat, r = normalised(x, dims, eps)
        a, b, c = composed(g, xhat, r, w, dims, outer) if outer else composed(g.unsqueeze(0), xhat.unsqueeze(0), r.unsqueeze(0), w,
                                                                             [d + 1 for d in dims], [0])
        return a.reshape(x.shape), b if w is not None else None, c if node.next_node(2) is not None else None
    mean, rstd = <Tensor>node.saved(2), <Tensor>node.saved(3)
    x = materialise(x, x.dt)
    if node.next_node(0) is not None:
        gx = empty(x.nd, x.sizes, x.dt)
    if node.next_node(1) is not None:
        gw = empty(k, x.sizes + (x.nd - k), x.dt)
    if node.next_node(2) is not None:
        gb = empty(k, x.sizes + (x.nd - k), x.dt)
    run(K_layer_norm_backward, 0, (gx, gw, gb), (materialise(g, x.dt), x, mean, rstd, dense(w)), (m, n), (), x.dt)
    return gx, gw, gb


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """(input - mean) / sqrt(variance + eps) over the last dimensions, times weight, plus bias.

    Args:
        input: the tensor; its last dimensions are `normalized_shape`.
        normalized_shape: sizes of the dimensions that are normalised together.
        weight, bias: tensors of that shape, or None.
        eps: added to the variance.
    """
    cdef Tensor x = tensor_arg(input, "layer_norm", "input", 1), y, mean, rstd
    cdef Tensor w = weight, b = bias
    cdef int64_t m = 1, n = 1
    cdef int d, k
    if isinstance(normalized_shape, int) or not isinstance(normalized_shape, (tuple, list)):
        raise TypeError("layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
                        f"{type(normalized_shape).__name__}")
    shape = list(normalized_shape)
    k = len(shape)
    if k == 0:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
                           "got normalized_shape = []")
    for t, title in ((w, "weight"), (b, "bias")):
        if t is not None and list(t.shape) != shape:
            raise RuntimeError(f"Expected {title} to be of same shape as normalized_shape, but got {title} of shape {list(t.shape)} "
                               f"and normalized_shape = {shape}")
    if x.nd < k or list(shape_of(x))[x.nd - k:] != shape:
        raise RuntimeError(f"Given normalized_shape={shape}, expected input with shape [*, {', '.join([str(s) for s in shape])}], "
                           f"but got input of size{list(shape_of(x))}")
    check_dtypes(x, "LayerNormKernelImpl", (w, b))
    for d in range(x.nd):
        if d < x.nd - k:
            m *= x.sizes[d]
        else:
            n *= x.sizes[d]
    y, mean, rstd = empty(x.nd, x.sizes, x.dt), vector(m, x.dt), vector(m, x.dt)
    if m > 0:
        run(K_layer_norm, 0, (y, mean, rstd), (dense(x), dense(w), dense(b)), (m, n), (<double>eps,), x.dt)
    if grad_enabled() and any_requires((x, w, b)):
        attach(y, "NativeLayerNormBackward0", _layer_norm_backward, (x, w, b), (x, w, mean, rstd), (k, m, n, <double>eps))
    return y


# ==== group norm ================================================================================
def _group_norm_backward(FnNode node, Tensor g):
    cdef Tensor x = <Tensor>node.saved(0), w = <Tensor>node.saved(1), gx = None, gw = None, gb = None
    n, c, s, groups, eps = node.ctx
    if grad_enabled():
        split = (n, groups, c // groups, s)
        xhat, r = normalised(x.reshape(split), [2, 3], eps)
        w4 = None if w is None else w.reshape((1, groups, c // groups, 1))
        a, b, d = composed(g.reshape(split), xhat, r, w4, [2, 3], [0, 3])
        return (a.reshape(x.shape), b.reshape((c,)) if w is not None else None,
                d.reshape((c,)) if node.next_node(2) is not None else None)
    x = materialise(x, x.dt)
    if node.next_node(0) is not None:
        gx = empty(x.nd, x.sizes, x.dt)
    if node.next_node(1) is not None:
        gw = vector(c, x.dt)
    if node.next_node(2) is not None:
        gb = vector(c, x.dt)
    run(K_group_norm_backward, 0, (gx, gw, gb), (materialise(g, x.dt), x, node.saved(2), node.saved(3), dense(w)),
        (n, c, s, groups), (), x.dt)
    return gx, gw, gb


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Normalises each group of channels of each sample; input is [batch, channels, ...].

    Args:
        input: the tensor.
        num_groups: number of groups; divides the number of channels.
        weight, bias: tensors with one element per channel, or None.
        eps: added to the variance.
    """
    cdef Tensor x = tensor_arg(input, "group_norm", "input", 1), y, mean, rstd
    cdef Tensor w = weight, b = bias
    cdef int64_t n, c, s = 1, groups = int_arg(num_groups, "group_norm", "num_groups", 2)
    cdef int d
    if x.nd < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.nd}")
    n, c = x.sizes[0], x.sizes[1]
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if c % groups != 0:
        raise RuntimeError(f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
                           f"{list(shape_of(x))} and num_groups={groups}")
    for t, title in ((w, "weight"), (b, "bias")):
        if t is not None and (t.dim() != 1 or t.numel() != c):
            raise RuntimeError(f"Expected {title} to be a vector of size equal to the number of channels in input, but got {title} "
                               f"of shape {list(t.shape)} and input of shape {list(shape_of(x))}")
    check_dtypes(x, "GroupNormKernelImpl", (w, b))
    for d in range(2, x.nd):
        s *= x.sizes[d]
    y, mean, rstd = empty(x.nd, x.sizes, x.dt), vector(n * groups, x.dt), vector(n * groups, x.dt)
    if x.n > 0:
        run(K_group_norm, 0, (y, mean, rstd), (dense(x), dense(w), dense(b)), (n, c, s, groups), (<double>eps,), x.dt)
    if grad_enabled() and any_requires((x, w, b)):
        attach(y, "NativeGroupNormBackward0", _group_norm_backward, (x, w, b), (x, w, mean, rstd), (n, c, s, groups, <double>eps))
    return y


def functional_group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises each group of channels of each sample; input is [batch, channels, ...]."""
    shape = input.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    check_batch([shape[0] * shape[1] // num_groups, num_groups, *shape[2:]], list(shape))
    return group_norm(input, num_groups, weight, bias, eps)


cdef int check_batch(object size, object shown) except -1:
    """One value a channel has no variance."""
    cdef int64_t n = size[0]
    for s in size[2:]:
        n *= s
    if n == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shown}")
    return 0


# ==== batch norm ================================================================================
cdef list other_dims(int nd):
    return [0] + list(range(2, nd))


def _batch_norm_backward(FnNode node, Tensor g):
    cdef Tensor x = <Tensor>node.saved(0), w = <Tensor>node.saved(1), gx = None, gw = None, gb = None
    n, c, s, op, eps = node.ctx
    if grad_enabled():
        dims = other_dims(x.nd)
        shape = [1, c] + [1] * (x.nd - 2)
        wide = None if w is None else w.reshape(shape)
        if op == BATCH_STATISTICS:
            xhat, r = normalised(x, dims, eps)
            a, b, d = composed(g, xhat, r, wide, dims, dims)
        else:
            r = (node.saved(3).reshape(shape) + eps).rsqrt()
            a = g * (r if wide is None else r * wide)
            b, d = (g * ((x - node.saved(2).reshape(shape)) * r)).sum(dims), g.sum(dims)
        return a, b if w is not None else None, d if node.next_node(2) is not None else None
    x = materialise(x, x.dt)
    if node.next_node(0) is not None:
        gx = empty(x.nd, x.sizes, x.dt)
    if node.next_node(1) is not None:
        gw = vector(c, x.dt)
    if node.next_node(2) is not None:
        gb = vector(c, x.dt)
    run(K_batch_norm_backward, op, (gx, gw, gb), (materialise(g, x.dt), x, dense(w), dense(node.saved(2)), dense(node.saved(3))),
        (n, c, s), (eps,), x.dt)
    return gx, gw, gb


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    """Normalises each channel over the batch (training) or with the running statistics; input is [batch, channels, ...].

    Args:
        input: the tensor.
        weight, bias, running_mean, running_var: tensors with one element per channel, or None.
        training: use the batch's statistics, and move the running ones towards them.
        momentum: by how much.
        eps: added to the variance.
    """
    cdef Tensor x = tensor_arg(input, "batch_norm", "input", 1), y, mean, invstd
    cdef Tensor w = weight, b = bias, rm = running_mean, rv = running_var
    cdef int64_t n, c, s = 1
    cdef int d
    cdef double m, e = eps
    if isinstance(momentum, bool) or not isinstance(momentum, (int, float)):
        raise TypeError(f"batch_norm(): argument 'momentum' (position 7) must be float, not {type(momentum).__name__}")
    m = momentum
    if x.n == 0:
        out = x.clone()
        if w is not None:
            out = out * w[0]
        return out if b is None else out + b[0]
    if x.nd < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    n, c = x.sizes[0], x.sizes[1]
    for t, title in ((rm, "running_mean"), (rv, "running_var"), (w, "weight"), (b, "bias")):
        if t is None:
            if not training and title.startswith("running"):
                raise RuntimeError(f"{title} must be defined in evaluation mode")
        elif t.numel() != c:
            raise RuntimeError(f"{title} should contain {c} elements not {t.numel()}")
    check_dtypes(x, "batch_norm", (w, b, rm, rv))
    for d in range(2, x.nd):
        s *= x.sizes[d]
    y = empty(x.nd, x.sizes, x.dt)
    if training:
        mean, invstd = vector(c, x.dt), vector(c, x.dt)
        srm, srv = dense(rm), dense(rv)
        run(K_batch_norm, BATCH_STATISTICS, (y, mean, invstd, srm, srv), (dense(x), dense(w), dense(b)), (n, c, s), (e, m), x.dt)
        update(rm, srm)
        update(rv, srv)
        saved = (x, w, mean, invstd)
    else:
        run(K_batch_norm, RUNNING_STATISTICS, (y,), (dense(x), dense(w), dense(b), dense(rm), dense(rv)), (n, c, s), (e,), x.dt)
        saved = (x, w, rm, rv)
    if grad_enabled() and any_requires((x, w, b)):
        attach(y, "NativeBatchNormBackward0", _batch_norm_backward, (x, w, b), saved,
               (n, c, s, BATCH_STATISTICS if training else RUNNING_STATISTICS, e))
    return y


cdef int update(Tensor running, Tensor written) except -1:
    """A running statistic was written, itself or through a contiguous copy."""
    if running is None:
        return 0
    if written is not running:
        copy_into(running, written)
    running.bump()
    return 0


def functional_batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalises each channel over the batch (training) or with the running statistics; input is [batch, channels, ...]."""
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if training:
        check_batch(input.shape, f"torch.Size({list(input.shape)})")
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


define(layer_norm, "layer_norm", FUNCTIONS)
define(group_norm, "group_norm", FUNCTIONS)
define(batch_norm, "batch_norm", FUNCTIONS)
define(functional_group_norm, "group_norm", NN_FUNCTIONS)
define(functional_batch_norm, "batch_norm", NN_FUNCTIONS)


def functional_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(input - mean) / sqrt(variance + eps) over the last dimensions, times weight, plus bias."""
    return layer_norm(input, normalized_shape, weight, bias, eps)

define(functional_layer_norm, "layer_norm", NN_FUNCTIONS)
