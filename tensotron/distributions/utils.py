"""What distributions share: broadcasting of parameters, logits and probabilities, properties computed when first read."""

import functools
import math

import tensotron as _t
from tensotron._autograd.engine import is_grad_enabled
from tensotron._core.tensor import Tensor
from tensotron.autograd import enable_grad
from tensotron.autograd.function import Function

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]

NUMBER = (bool, int, float)


def broadcast_tensors(*tensors):
    """The tensors, expanded to their common shape."""
    first = tensors[0].shape
    if all(t.shape == first for t in tensors[1:]):
        return tensors
    shape = first
    for t in tensors[1:]:
        shape = _common(shape, t.shape)
    return tuple([t.expand(shape) for t in tensors])


def _common(a, b):
    """The shape that two broadcast to."""
    nd = max(len(a), len(b))
    a, b = (1,) * (nd - len(a)) + tuple(a), (1,) * (nd - len(b)) + tuple(b)
    for d in reversed(range(nd)):
        if a[d] != b[d] and a[d] != 1 and b[d] != 1:
            raise RuntimeError(f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) at non-singleton "
                               f"dimension {d}")
    return _t.Size([n if m == 1 else m for m, n in zip(a, b)])


def broadcast_all(*values):
    """Tensors and numbers as tensors of one shape; numbers take dtype from the first tensor, else the default.

    Raises:
        ValueError: something else.
    """
    tensors = [v for v in values if isinstance(v, Tensor)]
    if len(tensors) < len(values):
        if not all(isinstance(v, (Tensor, *NUMBER)) for v in values):
            raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                             "__torch_function__.")
        dtype = tensors[0].dtype if tensors else _t.get_default_dtype()
        values = [v if isinstance(v, Tensor) else _t.tensor(v, dtype=dtype) for v in values]
    return broadcast_tensors(*values)


def batch_shape_of(parameter, *given):
    """Shape of the parameter; that of numbers has none."""
    return _t.Size() if all(isinstance(v, NUMBER) for v in given) else parameter.shape


def _standard_normal(shape, dtype, device):
    return _t.empty(shape, dtype=dtype).normal_()


def _sum_rightmost(value, dim):
    """Sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    if dim == 1:
        return value.sum(-1)
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    """Probabilities of (unnormalised) log probabilities along the last dimension; of log odds if binary."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs):
    """Probabilities moved into [eps, 1 - eps]."""
    eps = _t.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Log probabilities; log odds if binary."""
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


class lazy_property:
    """A property that is computed, with gradients, when first read, and then is a plain attribute."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        if is_grad_enabled():
            value = self.wrapped(instance)
        else:
            with enable_grad():
                value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


class _Erfinv(Function):
    """Inverse of erf: a first guess, then Newton's steps in float64."""

    @staticmethod
    def forward(ctx, y):
        d = y.double()
        near_one = (1 - d.abs()).clamp(min=0)  # of the tail, which erf cannot tell from 1
        log = (near_one * (2 - near_one)).log()
        a = 2 / (math.pi * 0.147) + log / 2
        x = ((a * a - log / 0.147).sqrt() - a).clamp(min=0).sqrt()
        for _ in range(3):
            slope = (-x * x).exp() * (2 / math.sqrt(math.pi))
            x = x - _t.where(near_one < 0.5, near_one - x.erfc(), x.erf() - d.abs()) / slope
        x = _t.where(near_one == 0, math.inf, x) * d.sign()
        x = _t.where((d.abs() <= 1), x, math.nan).to(y.dtype)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (math.sqrt(math.pi) / 2) * (x * x).exp()


def erfinv(y):
    """The x with erf(x) = y; infinite at -1 and 1, NaN beyond."""
    return _Erfinv.apply(y)
