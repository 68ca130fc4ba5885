# distutils: language = c++
"""Losses: elementwise ones with their reduction, and those over classes."""
import warnings

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport result_type_of, sum_to_shape
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    FnNode, Node, NodeShells, Tensor, TypeWithDealloc, add_edge, add_method, alias, any_requires, attach, begin, begin_drop, check_inplace,
    copy_into, destructor, drop_members, empty, empty_like, empty_of, end_drop, fill_with, grad_enabled, materialise, next_seq, put_part,
    raise_freed_graph, rebase, record, run, same_shape, save_input, set_operand, shape_of, take_node, take_part, unpack_saved, wrap_dim)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport I64, Record, U8

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    #include "tensotron/_ops/loss.h"
    """
    enum: K_loss "tensotron::K_loss"
    enum: K_loss_backward "tensotron::K_loss_backward"
    enum: K_nll_loss "tensotron::K_nll_loss"
    enum: K_nll_loss_backward "tensotron::K_nll_loss_backward"
    enum: K_cross_entropy "tensotron::K_cross_entropy"
    enum: K_cross_entropy_backward "tensotron::K_cross_entropy_backward"
    enum: LOSS_mse "tensotron::LOSS_mse"
    enum: LOSS_smooth_l1 "tensotron::LOSS_smooth_l1"
    enum: LOSS_huber "tensotron::LOSS_huber"
    enum: LOSS_bce_with_logits "tensotron::LOSS_bce_with_logits"

include "arguments.pxi"

NN_FUNCTIONS = {}

cdef enum:
    NONE = 0
    MEAN = 1
    SUM = 2


cdef int reduction_of(object reduction, object size_average=None, object reduce=None) except -1:
    """LossReduction of an argument `reduction`; the two arguments before its time take precedence."""
    if size_average is not None or reduce is not None:
        average = True if size_average is None else size_average
        every = True if reduce is None else reduce
        meant = "mean" if average and every else "sum" if every else "none"
        warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.", stacklevel=3)
        reduction = meant
    if reduction == "mean":
        return MEAN
    if reduction == "none":
        return NONE
    if reduction == "sum":
        return SUM
    raise ValueError(f"{reduction} is not a valid value for reduction")


cdef object reduced(object loss, int reduction):
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss


# ==== elementwise ===============================================================================
cdef tuple same_size(Tensor x, Tensor t):
    """Both expanded to one shape, with torch's warning."""
    warnings.warn(f"Using a target size (torch.Size({list(shape_of(t))})) that is different to the input size "
                  f"(torch.Size({list(shape_of(x))})). This will likely lead to incorrect results due to broadcasting. Please "
                  "ensure they have the same size.", stacklevel=3)
    shape = broadcast_shape(x, t)
    return x.expand(shape), t.expand(shape)


cdef tuple broadcast_shape(Tensor a, Tensor b):
    cdef int nd = a.nd if a.nd > b.nd else b.nd, d
    cdef int64_t p, q
    shape = []
    for d in range(nd):
        p = a.sizes[d - nd + a.nd] if d >= nd - a.nd else 1
        q = b.sizes[d - nd + b.nd] if d >= nd - b.nd else 1
        if p != q and p != 1 and q != 1:
            raise RuntimeError(f"The size of tensor a ({p}) must match the size of tensor b ({q}) at non-singleton dimension {d}")
        shape.append(q if p == 1 else p)
    return tuple(shape)


cdef object slope(int op, object x, object t, double p):
    """Derivative of the loss in x, in public ops; kinks as the rows of loss.def."""
    d = x - t
    if op == LOSS_mse:
        return d * 2
    if op == LOSS_smooth_l1:
        return d.detach().sign().where(d.detach().abs() >= p, d / p)
    if op == LOSS_huber:
        return (d.detach().sign() * p).where(d.detach().abs() > p, d)
    return x.sigmoid() - t


cdef int launch(int kernel, int op, int nout, int nin, Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, int reduction, double p,
                int dt) except -1:
    """run() for the two kernels of elementwise losses; the last input is the target."""
    cdef Record r
    cdef Tensor target = c if nout == 1 else e
    begin(&r, kernel, op, nout, nin, dt)
    r.ndim = 0
    set_operand(&r, 0, a, dt)
    set_operand(&r, 1, b, dt)
    set_operand(&r, 2, c, dt)
    if nout + nin == 5:
        set_operand(&r, 3, d, dt)
        set_operand(&r, 4, e, dt)
    r.ints[0] = target.n
    r.ints[1] = reduction
    r.reals[0] = p
    return backend.launch(&r)


@cython.final
cdef class LossNode(Node):
    """Node of an elementwise loss of x and the target t."""
    cdef int op, reduction, dt
    cdef double p
    cdef Tensor x, t
    cdef int64_t vx, vt

    cdef object apply(self, object grads):
        cdef PyObject* parts[2]
        parts[0] = parts[1] = NULL
        self.apply_parts(grads, parts)
        return take_part(parts), take_part(parts + 1)

    cdef bint apply_parts(self, object grads, PyObject** parts) except -1:
        cdef Tensor g = <Tensor>grads, x, t, gx = None, gt = None
        if self.released:
            raise_freed_graph()
        x, t = unpack_saved(self, self.x, self.vx, -1), unpack_saved(self, self.t, self.vt, -1)
        if grad_enabled():
            scale = g / x.n if self.reduction == MEAN else g
            if self.next0 is not None or self.op != LOSS_bce_with_logits:
                gx = slope(self.op, x, t, self.p) * scale
            if self.next1 is not None:
                gt = x * -scale if self.op == LOSS_bce_with_logits else -gx
        else:
            if self.next0 is not None:
                gx = empty(x.nd, x.sizes, self.dt)
            if self.next1 is not None:
                gt = empty(x.nd, x.sizes, self.dt)
            launch(K_loss_backward, self.op, 2, 3, gx, gt, materialise(g, self.dt), materialise(x, self.dt),
                   materialise(t, self.dt), self.reduction, self.p, self.dt)
        if gx is not None and gx.dt != x.dt:
            gx = gx.to(dt_.of_code(x.dt))
        if gt is not None and gt.dt != t.dt:
            gt = gt.to(dt_.of_code(t.dt))
        put_part(parts, gx)
        put_part(parts + 1, gt)
        return True

    cdef int release_saved(self) except -1:
        self.released = True
        self.x = self.t = None
        return 0

    cdef object saved_values(self):
        if self.released:
            return {}
        return {"0": unpack_saved(self, self.x, self.vx, -1), "1": unpack_saved(self, self.t, self.vt, -1)}


cdef NodeShells shells


cdef void drop_loss(LossNode node) noexcept:
    if not begin_drop(&shells, <PyObject*>node):
        return
    if node.x is not None:
        node.x = None
    if node.t is not None:
        node.t = None
    drop_members(node)
    end_drop(&shells, <PyObject*>node)

(<TypeWithDealloc*>LossNode).tp_dealloc = <destructor>drop_loss


cdef int attach_loss(Tensor y, str name, int op, Tensor x, Tensor t, int reduction, double p) except -1:
    cdef LossNode node = <LossNode>take_node(&shells) if shells.n else LossNode.__new__(LossNode)
    node.node_name = name
    node.seq = next_seq()
    node.n_out = 1
    node.out_dtype = y.dt
    node.op = op
    node.reduction = reduction
    node.p = p
    node.dt = y.dt
    add_edge(node, x)
    add_edge(node, t)
    node.x = save_input(x)
    node.vx = x.version()
    node.t = save_input(t)
    node.vt = t.version()
    y.grad_fn_ = node
    return 0


cdef Tensor elementwise_loss(int op, str node, str kernel, Tensor x, Tensor t, int reduction, double p):
    cdef int dt = x.dt if x.dt == t.dt else result_type_of(x, t)
    cdef Tensor y
    if not dt_.is_float(dt):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{TITLES[dt]}'")
    y = empty(x.nd, x.sizes, dt) if reduction == NONE else empty(0, NULL, dt)
    launch(K_loss, op, 1, 2, y, materialise(x, dt), materialise(t, dt), None, None, reduction, p, dt)
    if grad_enabled() and (x.requires() or t.requires()):
        attach_loss(y, node, op, x, t, reduction, p)
    return y


cdef object weighted(object loss, object input, object weight, int reduction):
    """The weights of mse, l1 and huber: multiplied in before the reduction; the mean is over their sum (not so of huber's)."""
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError("Inputs and weight must have the same size.")
    loss = loss * weight
    return loss if reduction == NONE else loss.sum() if reduction == SUM else loss.sum() / weight.sum()


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared error, averaged, summed or (reduction="none") per element."""
    cdef Tensor x, t
    cdef int kind = reduction_of(reduction, size_average, reduce)
    x, t = tensor_arg(input, "mse_loss", "input", 1), tensor_arg(target, "mse_loss", "target", 2)
    if not same_shape(x, t):
        x, t = same_size(x, t)
    if weight is not None:
        return weighted(elementwise_loss(LOSS_mse, "MseLossBackward0", "mse_cpu", x, t, NONE, 0), input, weight, kind)
    return elementwise_loss(LOSS_mse, "MseLossBackward0", "mse_cpu", x, t, kind, 0)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute error, averaged, summed or (reduction="none") per element."""
    cdef Tensor x, t
    cdef int kind = reduction_of(reduction, size_average, reduce)
    x, t = tensor_arg(input, "l1_loss", "input", 1), tensor_arg(target, "l1_loss", "target", 2)
    if not same_shape(x, t):
        x, t = same_size(x, t)
    if weight is not None:
        return weighted((x - t).abs(), input, weight, kind)
    return reduced((x - t).abs(), kind)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared error over 2 beta where it is below beta, else absolute error less beta / 2."""
    cdef Tensor x, t
    cdef int kind = reduction_of(reduction, size_average, reduce)
    cdef double b = beta
    x, t = tensor_arg(input, "smooth_l1_loss", "input", 1), tensor_arg(target, "smooth_l1_loss", "target", 2)
    if not same_shape(x, t):
        x, t = same_size(x, t)
    if b < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if b == 0:
        return reduced((x - t).abs(), kind)
    return elementwise_loss(LOSS_smooth_l1, "SmoothL1LossBackward0", "smooth_l1_cpu", x, t, kind, b)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the squared error up to delta, then linear."""
    cdef Tensor x, t
    cdef int kind = reduction_of(reduction)
    cdef double d = delta
    x, t = tensor_arg(input, "huber_loss", "input", 1), tensor_arg(target, "huber_loss", "target", 2)
    if not same_shape(x, t):
        x, t = same_size(x, t)
    if d <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if x.dt != t.dt and dt_.is_float(x.dt):
        t = t.to(x.dtype)  # torch's result has the input's dtype
    if weight is not None:
        terms = weighted(elementwise_loss(LOSS_huber, "HuberLossBackward0", "huber_cpu", x, t, NONE, d), input, weight, NONE)
        return reduced(terms, kind)
    return elementwise_loss(LOSS_huber, "HuberLossBackward0", "huber_cpu", x, t, kind, d)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """Pointwise Kullback-Leibler divergence of target probabilities (or their logs) from log-probabilities `input`."""
    cdef int kind
    cdef Tensor x = tensor_arg(input, "kl_div", "input", 1), t = tensor_arg(target, "kl_div", "target", 2)
    from tensotron._autograd import pointwise
    if size_average is None and reduce is None:
        if reduction == "mean":
            warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
                          "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
                          "same as 'batchmean' in the next major release.", stacklevel=2)
        kind = SUM if reduction == "batchmean" else reduction_of(reduction)
    else:
        kind = reduction_of(reduction, size_average, reduce)
    if not dt_.is_float(x.dt) or not dt_.is_float(t.dt):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    loss = t.exp() * (t - x) if log_target else pointwise.FUNCTIONS["xlogy"](t, t) - t * x
    loss = reduced(loss, kind)
    return loss / x.sizes[0] if reduction == "batchmean" and x.nd > 0 else loss


# ---- binary cross entropy with logits ----------------------------------------------------------
def _bce_logits_backward(FnNode node, Tensor g):
    """With weights; torch's formulas, in public ops."""
    x, t, weight, positive = node.saved(0), node.saved(1), node.saved(2), node.saved(3)
    reduction = node.ctx
    gx = gt = None
    if node.next_node(0) is not None:
        if positive is not None:
            p = positive * t
            gx = ((p + 1 - t) * x.sigmoid() - p) * g
        else:
            gx = (x.sigmoid() - t) * g
        gx = weigh(gx, weight, reduction, x)
    if node.next_node(1) is not None:
        gt = x * -g if positive is None else (log_sigmoid(-x) - positive * log_sigmoid(x)) * g
        gt = weigh(gt, weight, reduction, x)
    return gx, gt, None, None


cdef object weigh(object g, object weight, int reduction, object x):
    if weight is not None:
        g = g * weight
    return g / x.numel() if reduction == MEAN else g


cdef object log_sigmoid(object x):
    from tensotron._autograd import pointwise
    return pointwise.NN_FUNCTIONS["logsigmoid"](x)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    """Binary cross entropy of target probabilities and sigmoid(input), without overflow.

    Args:
        input: logits.
        target: probabilities, of the same shape.
        weight: factor of each term, broadcast; or None.
        reduction: "mean", "sum" or "none".
        pos_weight: factor of the positive part, broadcast; or None.
    """
    cdef int kind = reduction_of(reduction, size_average, reduce)
    cdef Tensor x = tensor_arg(input, "binary_cross_entropy_with_logits", "input", 1), y
    cdef Tensor t = tensor_arg(target, "binary_cross_entropy_with_logits", "target", 2)
    if not same_shape(x, t):
        raise ValueError(f"Target size (torch.Size({list(shape_of(t))})) must be the same as input size "
                         f"(torch.Size({list(shape_of(x))}))")
    if dt_.is_float(x.dt) and not dt_.is_float(t.dt):
        raise RuntimeError(f"result type {TITLES[x.dt]} can't be cast to the desired output type {TITLES[t.dt]}")
    if weight is None and pos_weight is None:
        return elementwise_loss(LOSS_bce_with_logits, "BinaryCrossEntropyWithLogitsBackward0", "log_sigmoid_cpu", x, t, kind, 0)
    a, b = x.detach(), t.detach()
    if pos_weight is not None:
        loss = (1 - b) * a - ((pos_weight.detach() - 1) * b + 1) * log_sigmoid(a)
    else:
        loss = (1 - b) * a - log_sigmoid(a)
    if weight is not None:
        loss = loss * weight.detach()
    y = <Tensor>reduced(loss, kind)
    if grad_enabled() and any_requires((x, t)):
        attach(y, "BinaryCrossEntropyWithLogitsBackward0", _bce_logits_backward, (x, t, None, None), (x, t, weight, pos_weight), kind)
    return y


include "class_loss.pxi"

for _fn in (mse_loss, l1_loss, smooth_l1_loss, huber_loss, kl_div, binary_cross_entropy_with_logits, nll_loss, cross_entropy):
    define(_fn, _fn.__name__, NN_FUNCTIONS)
