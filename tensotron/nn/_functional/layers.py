"""Layers composed of operators."""

import tensotron as _t
from tensotron._autograd.engine import no_grad
from tensotron.autograd.function import Function
from tensotron.nn import functional as F

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "bilinear",
    "conv1d",
    "cosine_similarity",
    "embedding",
    "instance_norm",
    "local_response_norm",
    "lp_pool1d",
    "lp_pool2d",
    "normalize",
    "pairwise_distance",
    "rms_norm",
]


def bilinear(input1, input2, weight, bias=None):
    """(*, in1), (*, in2), (out, in1, in2) -> (*, out)."""
    if input1.dim() != input2.dim() or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    for number, input in ((1, input1), (2, input2)):
        if input.size(-1) != weight.size(number):
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {input.size(-1)} but expected "
                f"{weight.size(number)}"
            )
    outputs, in1, in2 = weight.shape
    batch = input1.shape[:-1]
    left = input1.reshape(-1, in1) @ weight.permute(1, 0, 2).reshape(in1, outputs * in2)
    out = _t.bmm(left.reshape(-1, outputs, in2), input2.reshape(-1, in2, 1)).reshape(*batch, outputs)
    return out if bias is None else out + bias


def _one(x):
    return x if isinstance(x, int) else tuple(x)[0]


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """(N, C, L) or (C, L), (out, C / groups, k) -> (N, out, L')."""
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"Expected 2D (unbatched) or 3D (batched) input to conv1d, but got input of size: {list(input.shape)}"
        )
    if not isinstance(padding, str):
        padding = (0, _one(padding))
    out = F.conv2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, (1, _one(stride)), padding, (1, _one(dilation)), groups)
    return out.squeeze(-2)


def _one_size(name, output_size):
    if not isinstance(output_size, int) and len(output_size) != 1:
        raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(output_size)})")
    return 1, _one(output_size)


def adaptive_avg_pool1d(input, output_size):
    """Means over output_size windows of (N, C, L) or (C, L)."""
    return F.adaptive_avg_pool2d(input.unsqueeze(-2), _one_size("adaptive_avg_pool1d", output_size)).squeeze(-2)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima over output_size windows of (N, C, L) or (C, L)."""
    out = F.adaptive_max_pool2d(input.unsqueeze(-2), _one_size("adaptive_max_pool1d", output_size), return_indices)
    return tuple(t.squeeze(-2) for t in out) if return_indices else out.squeeze(-2)


class _ScaledGradient(Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight; the row padding_idx gets no gradient. Rows longer than max_norm are shortened in place."""
    if sparse:
        raise NotImplementedError("tensotron.nn.functional.embedding: sparse gradients are not supported")
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    if input.dtype not in (_t.int64, _t.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.type()} instead (while checking arguments for embedding)"
        )
    rows = weight.size(0)
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    index = input.reshape(-1)
    if max_norm is not None:
        _shorten(weight, index, max_norm, norm_type)
    out = weight.index_select(0, index)
    if scale_grad_by_freq:
        counts = _t.zeros(rows, dtype=weight.dtype).index_add(0, index, _t.ones(index.shape, dtype=weight.dtype))
        out = _ScaledGradient.apply(out, (1 / counts)[index].unsqueeze(1))
    if padding_idx is not None:
        out = _t.where((index == padding_idx).unsqueeze(1), out.detach(), out)
    return out.reshape(*input.shape, weight.size(1))


def _shorten(weight, index, max_norm, norm_type):
    with no_grad():
        used = _t.zeros(weight.size(0), dtype=_t.bool)
        used[index] = True
        norms = _t.linalg.vector_norm(weight, norm_type, 1)
        weight.mul_(_t.where(used & (norms > max_norm), max_norm / (norms + 1e-7), 1.0).unsqueeze(1))


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """input over its root mean square along the last dimensions, times weight."""
    shape = tuple(normalized_shape)
    n = len(shape)
    if n == 0 or tuple(input.shape[-n:]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but got "
            f"input of size{list(input.shape)}"
        )
    if weight is not None and tuple(weight.shape) != shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight.shape)} and normalized_shape = {list(shape)}"
        )
    if eps is None:
        eps = _t.finfo(input.dtype).eps
    out = input * (input.square().mean(tuple(range(-n, 0)), keepdim=True) + eps).rsqrt()
    return out if weight is None else out * weight


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input over its p-norm along dim (at least eps)."""
    scale = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / scale if out is None else _t.div(input, scale, out=out)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
                  eps=1e-5):
    """Normalises each channel of each sample of (N, C, *): batch normalisation of the channels of one big sample."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    if use_input_stats and input[0, 0].numel() == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    n, c = input.shape[:2]
    wide = [None if t is None else t.repeat(n) for t in (running_mean, running_var, weight, bias)]
    out = F.batch_norm(input.reshape(1, n * c, *input.shape[2:]), *wide, use_input_stats, momentum, eps)
    if use_input_stats:
        with no_grad():
            for running, each in ((running_mean, wide[0]), (running_var, wide[1])):
                if running is not None:
                    running.copy_(each.view(n, c).mean(0))
    return out.view(input.shape)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """input over (k + alpha * mean of the squares of `size` neighbouring channels) ** beta."""
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares = (input * input).reshape(input.size(0), 1, input.size(1), -1)
    means = F.avg_pool2d(F.pad(squares, (0, 0, size // 2, (size - 1) // 2)), (size, 1), stride=1)
    return input / (means.reshape(input.shape) * alpha + k).pow(beta)


def _lp_pool(avg_pool, max_pool, count, input, norm_type, kernel_size, stride, ceil_mode):
    if norm_type == float("inf"):
        return max_pool(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == -float("inf"):
        return -max_pool(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    mean = avg_pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norms of windows of (N, C, L)."""
    return _lp_pool(F.avg_pool1d, F.max_pool1d, kernel_size, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norms of windows of (N, C, H, W)."""
    count = kernel_size**2 if isinstance(kernel_size, int) else kernel_size[0] * kernel_size[1]
    return _lp_pool(F.avg_pool2d, F.max_pool2d, count, input, norm_type, kernel_size, stride, ceil_mode)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Cosine of the angle along dim; norms count as at least eps."""
    dtype = _t.result_type(x1, x2)
    if not dtype.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {x1.type().split('.')[-1][:-6]}")
    x1, x2 = x1.to(dtype), x2.to(dtype)
    shape = x1.shape if x1.shape == x2.shape else (x1.detach() + x2.detach()).shape
    x1, x2 = x1.expand(shape), x2.expand(shape)
    units = []
    for x in (x1, x2):
        norm = _t.linalg.vector_norm(x, 2, dim, keepdim=True).clone()
        with no_grad():
            norm.clamp_min_(eps)
        units.append(x / norm)
    return (units[0] * units[1]).sum(dim)
