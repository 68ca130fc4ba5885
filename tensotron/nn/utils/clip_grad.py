"""Clipping of gradients."""

import types
import warnings

import tensotron as _t
from tensotron._autograd.engine import no_grad
from tensotron._core.tensor import Tensor
from tensotron.optim._fused import clip_to_norm, scale_to_norm
from tensotron.optim._fused import total_norm as fused_norm

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _as_list(tensors):
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _norm(tensor, norm_type):
    return _t.linalg.vector_norm(tensor, norm_type)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors taken as one vector, a 0-dim tensor."""
    with no_grad():
        tensors = _as_list(tensors)
        norm_type = float(norm_type)
        if not tensors:
            return _t.tensor(0.0)
        total = fused_norm(tensors) if norm_type == 2.0 else None
        if total is None:
            total = _norm(_t.stack([_norm(t, norm_type) for t in _by_dtype(tensors)]), norm_type)
        if error_if_nonfinite and not total.isfinite():
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
        return total


def _by_dtype(tensors):
    """The tensors in groups of a dtype, as torch orders them."""
    order = list(dict.fromkeys(t.dtype for t in tensors))
    return tensors if len(order) == 1 else sorted(tensors, key=lambda t: order.index(t.dtype))


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients by max_norm / total_norm where that is below 1, in place."""
    with no_grad():
        grads = [p.grad for p in _as_list(parameters) if p.grad is not None]
        _scale(grads, float(max_norm), total_norm)


def _scale(grads, max_norm, total_norm):
    if not grads or (isinstance(total_norm, Tensor) and scale_to_norm(grads, total_norm, max_norm)):
        return
    factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(factor)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients so that their norm, taken as one vector, is at most max_norm; returns the norm before."""
    if norm_type == 2.0 and not error_if_nonfinite:
        total_norm = clip_to_norm(parameters, float(max_norm))
        if total_norm is not None:
            return total_norm
    empty = isinstance(parameters, types.GeneratorType)
    parameters = _as_list(parameters)
    if empty and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    grads = [p.grad for p in parameters if p.grad is not None]
    total_norm = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    with no_grad():
        _scale(grads, float(max_norm), total_norm)
    return total_norm


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Deprecated: clip_grad_norm_."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits every element of the gradients to [-clip_value, clip_value], in place."""
    clip_value = float(clip_value)
    with no_grad():
        for p in _as_list(parameters):
            if p.grad is not None:
                p.grad.clamp_(-clip_value, clip_value)
