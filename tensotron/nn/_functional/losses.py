"""Losses composed of operators."""

import math

import tensotron as _t
from tensotron._autograd.engine import no_grad
from tensotron.autograd.function import Function
from tensotron.nn import functional as F
from tensotron.nn._reduction import legacy_get_string

__all__ = [
    "binary_cross_entropy",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


class _BinaryCrossEntropy(Function):
    """Elementwise, with the logarithms held above -100."""

    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return (target - 1) * (-x).log1p().clamp_min(-100) - target * x.log().clamp_min(-100)

    @staticmethod
    def backward(ctx, g):
        x, target = ctx.saved_tensors
        needs_x, needs_target = ctx.needs_input_grad
        return (
            g * (x - target) / ((1 - x) * x).clamp_min(1e-12) if needs_x else None,
            g * ((-x).log1p() - x.log()) if needs_target else None,
        )


def _kind(size_average, reduce, reduction):
    if size_average is not None or reduce is not None:
        return legacy_get_string(size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduce(loss, reduction):
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities in [0, 1]; RuntimeError outside."""
    reduction = _kind(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    if not ((input >= 0) & (input <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")
    loss = _BinaryCrossEntropy.apply(input, target)
    if weight is not None:
        loss = loss * weight
    return _reduce(loss, reduction)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, margin - target * (input1 - input2))."""
    reduction = _kind(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.size()}, "
            f"input2: {input2.size()}, target: {target.size()} "
        )
    return _reduce((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1."""
    reduction = _kind(size_average, reduce, reduction)
    loss = _t.where(target != 1, (margin - input).clamp_min(0), 0.0) + _t.where(target != -1, input, 0.0)
    return _reduce(loss, reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)); the target has no gradient."""
    reduction = _kind(size_average, reduce, reduction)
    if target.requires_grad and _t.is_grad_enabled():
        raise RuntimeError(
            "The function 'soft_margin_loss' is not differentiable with respect to argument 'target'. This input cannot have "
            "requires_grad True."
        )
    return _reduce((-input * target).exp().log1p(), reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; of (N, D) and (N,), or (D,) and ()."""
    reduction = _kind(size_average, reduce, reduction)
    dim = target.dim()
    if dim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != dim + 1 or input2.dim() != dim + 1:
        raise RuntimeError(
            f"{dim}D target tensor expects {dim + 1}D input tensors, but found inputs with sizes {list(input1.shape)} and "
            f"{list(input2.shape)}."
        )
    squares = [(x * x).sum(dim) + 1e-12 for x in (input1, input2)]
    cos = (input1 * input2).sum(dim) / (squares[0] * squares[1]).sqrt()
    loss = _t.where(target == 1, 1 - cos, 0.0) + _t.where(target == -1, (cos - margin).clamp_min(0), 0.0)
    return _reduce(loss, reduction)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """Negative log-likelihood of counts, given the rate or its logarithm; `full` adds Stirling's term."""
    reduction = _kind(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduce(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log-likelihood of a normal distribution of mean input and variance var (at least eps)."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * _t.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or sum(v for i, v in zip(input.size(), var.size()) if i != v) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Mean over the classes (last dimension) of the binary cross entropies of sigmoid(input)."""
    reduction = _kind(size_average, reduce, reduction)
    loss = -(target * F.logsigmoid(input) + (1 - target) * F.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce(loss.sum(-1) / input.size(-1), reduction)


def _positive(x):
    return _t.where(x > 0, x, 0.0)  # no gradient at 0


def _rows(x):
    return x if x.dim() == 2 else x.reshape(1, -1)


def _need_classes(name, input, ok):
    if input.dim() > 2 or input.shape[-1:] == (0,) or not ok:
        raise RuntimeError(f"inconsistent sizes of input ({list(input.shape)}) and target in {name}")


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Sum over the other classes of max(0, margin - input[target] + input) ** p, over their number."""
    reduction = _kind(size_average, reduce, reduction)
    if p != 1 and p != 2:
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    classes = target.reshape(-1, 1)
    rows = _rows(input)
    _need_classes("multi_margin_loss", input, classes.size(0) == rows.size(0))
    z = _positive(margin - rows.gather(1, classes) + rows) ** p
    if weight is not None:
        z = z * weight[classes]
    z = z.masked_fill(_t.arange(rows.size(1)) == classes, 0)
    loss = z.sum(1) / rows.size(1)
    return _reduce(loss if target.dim() else loss.reshape(()), reduction)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Sum over pairs of a target class and another of max(0, 1 - input[target] + input), over the number of classes.

    The target classes of a row end with the first -1.
    """
    reduction = _kind(size_average, reduce, reduction)
    _need_classes("multilabel_margin_loss", input, input.shape == target.shape)
    rows, labels = _rows(input), _rows(target)
    valid = (labels < 0).cumsum(1) == 0
    labels = _t.where(valid, labels, 0)
    is_label = _t.zeros(labels.shape, dtype=_t.int64).scatter_add(1, labels, valid.long()) > 0
    z = _positive(1 - rows.gather(1, labels).unsqueeze(2) + rows.unsqueeze(1))
    z = _t.where(valid.unsqueeze(2) & ~is_label.unsqueeze(1), z, 0.0)
    loss = z.sum((1, 2)) / rows.size(1)
    return _reduce(loss if input.dim() == 2 else loss.reshape(()), reduction)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
                        reduction="mean"):
    """max(0, margin + distance(anchor, positive) - distance(anchor, negative)), of p-norms."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    reduction = _kind(size_average, reduce, reduction)
    return _triplet(anchor, positive, negative, lambda a, b: F.pairwise_distance(a, b, p, eps), margin, swap, reduction)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """triplet_margin_loss with a distance of one's own."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet(anchor, positive, negative, distance_function or F.pairwise_distance, margin, swap, reduction)


def _triplet(anchor, positive, negative, distance, margin, swap, reduction):
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _t.minimum(far, distance(positive, negative))
    return _reduce((margin + near - far).clamp_min(0), reduction)
