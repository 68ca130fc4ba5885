# nll_loss and cross_entropy. Included by loss.pyx.

cdef tuple class_extents(Tensor x):
    """(N, C, S) of [C], [N, C] or [N, C, d1, ...]."""
    cdef int64_t s = 1
    cdef int d
    if x.nd == 1:
        return (1, x.sizes[0], 1)
    for d in range(2, x.nd):
        s *= x.sizes[d]
    return (x.sizes[0], x.sizes[1], s)


cdef Tensor check_classes(Tensor x, Tensor t, Tensor weight):
    """Refuses what torch refuses; the target as contiguous int64."""
    cdef int64_t classes
    if x.nd < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {x.nd})")
    if x.nd == 1 and t.nd == 1 and t.sizes[0] != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {t.sizes[0]}")
    if x.nd != 1 and (t.nd == 0 or x.sizes[0] != t.sizes[0]):
        raise ValueError(f"Expected input batch_size ({x.sizes[0]}) to match target batch_size ({t.sizes[0] if t.nd else 0}).")
    if x.nd == 1 and t.nd > 1 or x.nd == 2 and t.nd != 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if x.nd > 2:
        want = [x.sizes[0]] + [x.sizes[d] for d in range(2, x.nd)]
        if list(shape_of(t)) != want:
            raise RuntimeError(f"Expected target size {want}, got {list(shape_of(t))}")
    if t.dt != I64 and t.dt != U8:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {TITLES[t.dt]}")
    classes = x.sizes[0] if x.nd == 1 else x.sizes[1]
    if weight is not None:
        if weight.nd != 1 or weight.n != classes:
            raise RuntimeError(f"weight tensor should be defined either for all {classes} classes or no classes but got weight "
                               f"tensor of shape: {list(shape_of(weight))}")
        if weight.dt != x.dt:
            raise RuntimeError(f"expected scalar type {TITLES[x.dt]} but found {TITLES[weight.dt]}")
    return materialise(t, I64)


cdef Tensor loss_output(Tensor x, Tensor t, int reduction):
    if reduction != NONE or x.nd == 1:
        return empty(0, NULL, x.dt)
    return empty(t.nd, t.sizes, x.dt)


cdef object picked(Tensor x, Tensor t, object weight, tuple ints):
    """-weight[target] where each target's class is, 0 elsewhere and for ignored targets: the gradient of the sum."""
    cdef Tensor unit = empty(x.nd, x.sizes, x.dt), one = empty(0, NULL, x.dt)
    fill_with(one, 1)
    n, c, s, _, ignored = ints
    run(K_nll_loss_backward, 0, (unit,), (one, t, weight, one), (n, c, s, SUM, ignored), (), x.dt)
    return unit


cdef object per_term(Tensor g, Tensor x, Tensor total, tuple ints):
    """g as a factor of [N, C, ...]: over the classes, and divided by the total weight for a mean."""
    reduction = ints[3]
    if reduction == MEAN:
        return g / total
    if reduction == SUM or x.nd == 1:
        return g.reshape(())
    return g.unsqueeze(1)


cdef Tensor class_gradient(Tensor g, Tensor x, Tensor t, object weight, Tensor total, tuple ints):
    """The gradient of nll_loss, in public ops of g."""
    cdef Tensor unit = picked(x, t, None, ints), factor
    factor = unit if weight is None else picked(x, t, dense_weight(weight), ints)
    return (factor * per_term(g, x, total, ints)).where(unit != 0, 0.0)


def _nll_backward(FnNode node, Tensor g):
    """Gradient in the log-probabilities. It is linear in g and needs no values of the input."""
    cdef Tensor t = <Tensor>node.saved(0), total = <Tensor>node.saved(2), like = <Tensor>node.saved(3), gx
    weight = node.saved(1)
    if grad_enabled():
        return class_gradient(g, like, t, weight, total, node.ctx)
    gx = empty(like.nd, like.sizes, like.dt)
    run(K_nll_loss_backward, 0, (gx,), (materialise(g, like.dt), t, dense_weight(weight), total), node.ctx, (), like.dt)
    return gx


cdef Tensor dense_weight(object weight):
    return None if weight is None else materialise(<Tensor>weight, (<Tensor>weight).dt)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the log-probability of each target class.

    Args:
        input: log-probabilities, [C], [N, C] or [N, C, d1, ...].
        target: classes, of input's shape without C.
        weight: a factor for each class, or None.
        ignore_index: targets of this value do not count.
        reduction: "mean" (over the weights of the targets that count), "sum" or "none".
    """
    cdef int kind = reduction_of(reduction, size_average, reduce)
    cdef Tensor x = tensor_arg(input, "nll_loss", "input", 1), t = tensor_arg(target, "nll_loss", "target", 2)
    return nll(x, t, weight, ignore_index, kind)


cdef Tensor nll(Tensor x, Tensor target, Tensor weight, int64_t ignored, int kind):
    cdef Tensor t = check_classes(x, target, weight), y, total
    cdef tuple ints
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{TITLES[x.dt]}'")
    n, c, s = class_extents(x)
    ints = (n, c, s, kind, ignored)
    y, total = loss_output(x, target, kind), empty(0, NULL, x.dt)
    run(K_nll_loss, 0, (y, total), (materialise(x, x.dt), t, dense_weight(weight)), ints, (), x.dt)
    if grad_enabled() and x.requires():
        attach(y, nll_name(x), _nll_backward, (x,), (t, weight, total, x.detach()), ints)
    return y


cdef str nll_name(Tensor x):
    return "NllLossBackward0" if x.nd <= 2 else "NllLoss2DBackward0"


# ---- cross entropy of classes ------------------------------------------------------------------
# Two nodes, as torch has: NllLoss over LogSoftmax. Only logits and two numbers per row are saved; the first
# node computes the gradient in the logits, and the second hands it on.
def _cross_entropy_backward(FnNode node, Tensor g):
    cdef Tensor x = <Tensor>node.saved(0), t = <Tensor>node.saved(1), total = <Tensor>node.saved(3), gx
    weight = node.saved(2)
    if grad_enabled():
        g = class_gradient(g, x, t, weight, total, node.ctx)
        dim = 0 if x.nd == 1 else 1
        return g - x.softmax(dim) * g.sum(dim, True)
    gx = empty(x.nd, x.sizes, x.dt)
    run(K_cross_entropy_backward, 0, (gx,), (materialise(g, x.dt), materialise(x, x.dt), t, dense_weight(weight), total,
                                             node.saved(4)), node.ctx, (), x.dt)
    return gx


def _pass_on(FnNode node, Tensor g):
    return g


cdef Tensor class_cross_entropy(Tensor x, Tensor target, Tensor weight, int64_t ignored, int kind):
    cdef Tensor t, y, total, stats, hidden
    cdef tuple ints
    cdef int64_t terms[2]
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"log_softmax_lastdim_kernel_impl\" not implemented for '{TITLES[x.dt]}'")
    t = check_classes(x, target, weight)
    n, c, s = class_extents(x)
    ints = (n, c, s, kind, ignored)
    terms[0] = 2
    terms[1] = n * s
    y, total, stats = loss_output(x, target, kind), empty(0, NULL, x.dt), empty(2, terms, x.dt)
    run(K_cross_entropy, 0, (y, total, stats), (materialise(x, x.dt), t, dense_weight(weight)), ints, (), x.dt)
    if grad_enabled() and x.requires():
        hidden = <Tensor>x.detach()
        attach(hidden, "LogSoftmaxBackward0", _pass_on, (x,), None, None)
        attach(y, nll_name(x), _cross_entropy_backward, (hidden,), (x, t, weight, total, stats), ints)
    return y


cdef object smoothed(Tensor x, Tensor t, Tensor weight, int64_t ignored, int kind, double smoothing):
    """(1 - smoothing) of the loss, and smoothing spread over all classes."""
    cdef int dim = 0 if x.nd == 1 else 1
    from tensotron._autograd import softmax
    logp = softmax.FUNCTIONS["log_softmax"](x, dim)
    loss = nll(<Tensor>logp, t, weight, ignored, kind)
    if weight is not None:
        spread = -(logp * (weight if x.nd == 1 else weight.reshape([1, -1] + [1] * (x.nd - 2)))).sum(dim)
    else:
        spread = -logp.sum(dim)
    skip = t == ignored
    spread = spread.masked_fill(skip.reshape(spread.shape), 0.0)
    if kind == MEAN:
        if weight is not None:
            chosen = weight.detach().index_select(0, t.masked_fill(skip, 0).reshape(-1).to(dt_.of_code(I64)))
            spread = spread.sum() / chosen.masked_fill(skip.reshape(-1), 0.0).sum()
        else:
            spread = spread.sum() / (t.n - skip.sum())
    elif kind == SUM:
        spread = spread.sum()
    return loss * (1 - smoothing) + spread * (smoothing / x.sizes[dim])


cdef object probability_cross_entropy(Tensor x, object t, Tensor weight, int kind, double smoothing):
    """Against probabilities of all classes."""
    cdef int dim = 0 if x.nd == 1 else 1
    cdef int64_t classes = x.sizes[dim]
    from tensotron._autograd import softmax
    if not dt_.is_float((<Tensor>t).dt):
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {TITLES[(<Tensor>t).dt]}")
    if weight is not None and (weight.nd != 1 or weight.n != classes):
        raise RuntimeError(f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got "
                           f"weight tensor of shape: {list(shape_of(weight))}")
    logp = softmax.FUNCTIONS["log_softmax"](x, dim)
    if smoothing > 0:
        t = t * (1 - smoothing) + smoothing / classes
    terms = logp * t
    if weight is not None:
        terms = terms * (weight if x.nd == 1 else weight.reshape([1, -1] + [1] * (x.nd - 2)))
    if kind == NONE:
        return -terms.sum(dim)
    total = -terms.sum()
    if kind == SUM:
        return total
    return total * float("nan") if x.n == 0 else total / (x.n // classes)


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """Cross entropy of logits with target classes, or with target probabilities of input's shape.

    Args:
        input: logits, [C], [N, C] or [N, C, d1, ...].
        target: classes, of input's shape without C; or floating point probabilities.
        weight: a factor for each class, or None.
        ignore_index: target classes of this value do not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: in [0, 1], the part of the target spread evenly over the classes.
    """
    cdef int kind = reduction_of(reduction, size_average, reduce)
    cdef Tensor x = tensor_arg(input, "cross_entropy", "input", 1), t = tensor_arg(target, "cross_entropy", "target", 2)
    cdef Tensor w = weight
    cdef double smoothing = label_smoothing
    if smoothing < 0 or smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if same_shape(x, t):
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return probability_cross_entropy(x, t, w, kind, smoothing)
    if smoothing > 0 and x.nd > 0:
        return smoothed(x, t, w, ignore_index, kind, smoothing)
    return class_cross_entropy(x, t, w, ignore_index, kind)
