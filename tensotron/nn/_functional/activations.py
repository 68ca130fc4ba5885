"""Activation functions that PyTorch composes of operators too."""

import warnings

import tensotron as _t

__all__ = ["softsign", "tanhshrink", "gumbel_softmax"]


def softsign(input):
    """input / (|input| + 1)."""
    return input / (input.abs() + 1)


def tanhshrink(input):
    """input - tanh(input)."""
    return input - input.tanh()


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
