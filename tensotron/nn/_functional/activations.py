"""Activation functions composed of operators: right at kinks and special values, not the fastest.

At NaN the gradients of PyTorch's vector and scalar code differ; these are those of the vector code.
"""

import warnings

import tensotron as _t
from tensotron.nn import functional as F

__all__ = [
    "threshold",
    "threshold_",
    "mish",
    "logsigmoid",
    "hardshrink",
    "softshrink",
    "softsign",
    "tanhshrink",
    "glu",
    "prelu",
    "rrelu",
    "rrelu_",
    "gumbel_softmax",
]


def _apply(fn, input, inplace, *args):
    if not inplace:
        return fn(input, *args)
    # of a copy: what the derivative reads must not be overwritten
    return input.copy_(fn(input.clone(), *args))


def threshold(input, threshold, value, inplace=False):
    """input where it is above the threshold (or NaN), else value."""
    return _apply(lambda x: _t.where(x <= threshold, value, x), input, inplace)


def threshold_(input, threshold, value):
    """threshold in place."""
    return F.threshold(input, threshold, value, True)


def mish(input, inplace=False):
    """input * tanh(softplus(input))."""
    return _apply(lambda x: x * F.softplus(x).tanh(), input, inplace)


def logsigmoid(input):
    """log(sigmoid(input))."""
    return -F.softplus(-input, 1, 40)  # above 40 the addend is below the last place of a float64


def hardshrink(input, lambd=0.5):
    """input outside [-lambd, lambd] (or NaN), else 0."""
    inside = _t.where(input != input, input.detach(), 0.0)  # NaN stays, and has no gradient
    return _t.where((input < -lambd) | (input > lambd), input, inside)


def softshrink(input, lambd=0.5):
    """input moved towards 0 by lambd. RuntimeError if lambd is negative."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd:g}.")
    inside = _t.where(input != input, input.detach(), 0.0)  # NaN stays, and has no gradient
    return _t.where(input > lambd, input - lambd, _t.where(input < -lambd, input + lambd, inside))


def softsign(input):
    """input / (|input| + 1)."""
    return input / (input.abs() + 1)


def tanhshrink(input):
    """input - tanh(input)."""
    return input - input.tanh()


def glu(input, dim=-1):
    """a * sigmoid(b) of the halves a, b of input along dim, whose size must be even."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.size(dim)
    if size % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size {size}"
        )
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def prelu(input, weight):
    """input where it is positive, else weight * input; weight has one element, or one for each channel."""
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if weight.numel() != 1:
        channels = input.size(1) if input.dim() > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and "
                f"channel size = {channels}."
            )
        weight = weight.reshape([-1] + [1] * max(input.dim() - 2, 0))
    elif weight.dim() and not input.dim():
        weight = weight.reshape(())
    return _t.where(input > 0, input, weight * _t.where(input > 0, 0.0, input))


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with slope (lower + upper) / 2; in training, slopes drawn from [lower, upper)."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return F.leaky_relu(input, (lower + upper) / 2, inplace)

    def leaky(x):
        negative = x <= 0
        slopes = _t.empty(int(negative.sum()), dtype=_t.float64).uniform_(lower, upper)
        slope = _t.ones(x.shape, dtype=_t.float64)
        slope[negative] = slopes
        return (x * slope).to(x.dtype)

    return _apply(leaky, input, inplace)


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """rrelu in place."""
    return rrelu(input, lower, upper, training, True)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution; with `hard` one-hot, with the gradient of the soft sample."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -_t.empty(logits.shape, dtype=logits.dtype).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return _t.zeros(logits.shape, dtype=logits.dtype).scatter_(dim, index, 1.0) - soft.detach() + soft
