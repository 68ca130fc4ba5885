"""Initialisation in place: torch.nn.init's functions, with its random numbers."""

import functools
import math
import warnings

import numpy as _np

import tensotron as _t
from tensotron._autograd.engine import no_grad

__all__ = [
    "calculate_gain",
    "uniform_",
    "normal_",
    "trunc_normal_",
    "constant_",
    "ones_",
    "zeros_",
    "eye_",
    "dirac_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
    "uniform",
    "normal",
    "constant",
    "eye",
    "dirac",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
    "orthogonal",
    "sparse",
]

_GAINS = dict.fromkeys(
    ["linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"], 1
)
_GAINS.update(tanh=5.0 / 3, relu=math.sqrt(2.0), selu=3.0 / 4)


def calculate_gain(nonlinearity, param=None):
    """The recommended gain of a nonlinearity; `param` is leaky_relu's slope. ValueError for an unknown one."""
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """From the uniform distribution over [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """From the normal distribution."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """From the normal distribution truncated to [a, b]: by rejection, of normal or, far out, uniform proposals."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def below(x):
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with no_grad():
        if below(b) - below(a) > 0.3:
            return _reject_normal(tensor, mean, std, a, b, generator)
        return _reject_uniform(tensor, mean, std, a, b, generator)


def _reject_normal(tensor, mean, std, a, b, generator):
    low, high = (tensor.new_tensor(v, device="cpu").item() for v in (a, b))
    out = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (out < low) | (out > high)
        if not outside.any():
            break
        out = _t.where(outside, _t.empty_like(out).normal_(mean, std, generator=generator), out)
    return tensor if out is tensor else tensor.copy_(out)


def _reject_uniform(tensor, mean, std, a, b, generator):
    # a proposal is taken with the probability density(proposal) / density(mode)
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    proposal, chance = _t.empty_like(tensor), _t.empty_like(tensor)

    def refused():
        proposal.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return chance.uniform_(generator=generator).log_().gt(proposal)

    proposal.copy_(tensor.uniform_(a, b, generator=generator))
    pending = refused()
    out = tensor
    while pending.any():
        proposal.uniform_(a, b, generator=generator)
        out = _t.where(pending, proposal, out)
        pending = _t.where(pending, refused(), pending)
    return tensor if out is tensor else tensor.copy_(out)


def constant_(tensor, val):
    """All elements val."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """All elements 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """All elements 0."""
    with no_grad():
        return tensor.zero_()


def _need_matrix(tensor):
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")


def eye_(tensor):
    """The identity matrix."""
    _need_matrix(tensor)
    with no_grad():
        tensor.copy_(_t.eye(*tensor.shape, dtype=tensor.dtype))
    return tensor


def dirac_(tensor, groups=1):
    """A convolution's weight that passes its input on: 1 at the centre of the kernel of (i, i) in each group."""
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out_channels, in_channels, *kernel = tensor.size()
    if out_channels % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each = out_channels // groups
    centre = tuple(k // 2 for k in kernel)
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(each, in_channels)):
                tensor[(g * each + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    fan_out, fan_in, *kernel = tensor.shape
    field = math.prod(kernel)
    return fan_in * field, fan_out * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor, gain):
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out)); ValueError below 2 dimensions."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal with std gain * sqrt(2 / (fan_in + fan_out)); ValueError below 2 dimensions."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _nothing_to_do(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform in +-gain * sqrt(3 / fan)."""
    if _nothing_to_do(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal with std gain / sqrt(fan)."""
    if _nothing_to_do(tensor):
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix times gain, dimensions after the first taken together."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator).numpy()
    q, r = _np.linalg.qr(flat.T if rows < cols else flat)
    q *= _np.sign(_np.diag(r))  # makes the decomposition unique, and q uniform
    with no_grad():
        tensor.copy_(_t.tensor(q.T if rows < cols else q, dtype=tensor.dtype).view_as(tensor))
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal, with the fraction `sparsity` of each column zero."""
    _need_matrix(tensor)
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[_t.randperm(rows)[:zeros], col] = 0
    return tensor


def _old_name(function):
    """The name without underscore, which warns."""
    new = function.__name__
    old = new[:-1]

    @functools.wraps(function)
    def warn_and_call(*args, **kwargs):
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    warn_and_call.__name__ = old
    warn_and_call.__doc__ = f"Deprecated: {new}."
    return warn_and_call


uniform, normal, constant, eye, dirac = map(_old_name, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = map(_old_name, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_old_name, (kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_old_name, (orthogonal_, sparse_))
