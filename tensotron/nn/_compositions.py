"""Functions of nn.functional composed of operators: right at kinks and special values, not the fastest."""

import warnings

import tensotron as _t
from tensotron._autograd.engine import no_grad
from tensotron.autograd.function import Function
from tensotron.nn import functional as F
from tensotron.nn._reduction import legacy_get_string

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "bilinear",
    "binary_cross_entropy",
    "conv1d",
    "embedding",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "logsigmoid",
    "mish",
    "normalize",
    "pad",
    "prelu",
    "relu6",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
    "threshold_",
]


# ---- activations -------------------------------------------------------------------------------
def _apply(fn, input, inplace, *args):
    if not inplace:
        return fn(input, *args)
    # of a copy: what the derivative reads must not be overwritten
    return input.copy_(fn(input.clone(), *args))


def _where(condition, a, b):
    return _t.where(condition, a, b)


def threshold(input, threshold, value, inplace=False):
    """input where it is above the threshold (or NaN), else value."""
    return _apply(lambda x: _where(x <= threshold, value, x), input, inplace)


def threshold_(input, threshold, value):
    """threshold in place."""
    return F.threshold(input, threshold, value, True)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """input limited to [min_val, max_val]; no gradient at the limits. ValueError if min_val > max_val."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _apply(lambda x: _where(x <= min_val, min_val, _where(x >= max_val, max_val, x)), input, inplace)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """hardtanh in place."""
    return hardtanh(input, min_val, max_val, True)


def relu6(input, inplace=False):
    """input limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


class _Hardsigmoid(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x + 3).clamp(0, 6) / 6

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _where((x > -3) & (x < 3), g * _SIXTH, 0.0)


_SIXTH = 0.1666666716337204  # torch has it in single precision, whatever the dtype


def hardsigmoid(input, inplace=False):
    """relu6(input + 3) / 6."""
    return _apply(_Hardsigmoid.apply, input, inplace)


def _hardswish(x):
    # the middle is computed of finite values only, so that no 0 * inf enters its gradient
    middle = (x > -3) & (x < 3)
    y = _where(middle, x, 0.0)
    return _where(middle, y * (y + 3) / 6, _where(x <= -3, x.detach() * 0.0, x))


def hardswish(input, inplace=False):
    """input * relu6(input + 3) / 6."""
    return _apply(_hardswish, input, inplace)


def mish(input, inplace=False):
    """input * tanh(softplus(input))."""
    return _apply(lambda x: x * F.softplus(x).tanh(), input, inplace)


def logsigmoid(input):
    """log(sigmoid(input))."""
    return -F.softplus(-input, 1, 40)  # above 40 the addend is below the last place of a float64


def hardshrink(input, lambd=0.5):
    """input outside [-lambd, lambd] (or NaN), else 0."""
    return _where((input >= -lambd) & (input <= lambd), 0.0, input)


def softshrink(input, lambd=0.5):
    """input moved towards 0 by lambd. RuntimeError if lambd is negative."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd:g}.")
    return _where((input >= -lambd) & (input <= lambd), 0.0, _where(input > lambd, input - lambd, input + lambd))


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
    if weight.numel() != 1:
        channels = input.size(1) if input.dim() > 1 else 1
        if weight.dim() == 1 and weight.numel() != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and "
                f"channel size = {channels}."
            )
        weight = weight.reshape([-1] + [1] * max(input.dim() - 2, 0))
    elif weight.dim() and not input.dim():
        weight = weight.reshape(())
    return _where(input > 0, input, weight * _where(input > 0, 0.0, input))


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with slope (lower + upper) / 2; in training, slopes drawn from [lower, upper)."""
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


# ---- layers --------------------------------------------------------------------------------------
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


def adaptive_avg_pool1d(input, output_size):
    """Means over output_size windows of (N, C, L) or (C, L)."""
    return F.adaptive_avg_pool2d(input.unsqueeze(-2), (1, _one(output_size))).squeeze(-2)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima over output_size windows of (N, C, L) or (C, L)."""
    out = F.adaptive_max_pool2d(input.unsqueeze(-2), (1, _one(output_size)), return_indices)
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
        out = _where((index == padding_idx).unsqueeze(1), out.detach(), out)
    return out.reshape(*input.shape, weight.size(1))


def _shorten(weight, index, max_norm, norm_type):
    with no_grad():
        used = _t.zeros(weight.size(0), dtype=_t.bool)
        used[index] = True
        norms = _t.linalg.vector_norm(weight, norm_type, 1)
        weight.mul_(_where(used & (norms > max_norm), max_norm / (norms + 1e-7), 1.0).unsqueeze(1))


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


# ---- padding -------------------------------------------------------------------------------------
def pad(input, pad, mode="constant", value=None):
    """Pads dimensions from the last on, by pairs (before, after); modes constant, reflect, replicate, circular."""
    pad = tuple(pad)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.dim()}"
        )
    pairs = [(input.dim() - 1 - i // 2, pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    if mode == "constant":
        return _pad_constant(input, pairs, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _PADDED_INDEX:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) not in (2, 4, 6) or input.dim() not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    for dim, before, after in pairs:
        size = input.size(dim)
        if mode == "reflect" and (before >= size or after >= size):
            raise RuntimeError(
                f"Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) "
                f"at dimension {dim} of input {list(input.shape)}"
            )
        if mode == "circular" and (before > size or after > size):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if mode == "circular":  # around what is left
            input = input.narrow(dim, max(-before, 0), size - max(-before, 0) - max(-after, 0))
            before, after, size = max(before, 0), max(after, 0), input.size(dim)
        if before or after:
            index = _PADDED_INDEX[mode](_t.arange(-before, size + after), size)
            input = input.index_select(dim, index)
    return input


_PADDED_INDEX = {
    "reflect": lambda i, n: (n - 1) - ((n - 1) - i.abs()).abs(),
    "replicate": lambda i, n: i.clamp(0, n - 1),
    "circular": lambda i, n: i.remainder(n),
}


def _pad_constant(input, pairs, value):
    shape = list(input.shape)
    place = [slice(None)] * input.dim()
    for dim, before, after in pairs:
        size = shape[dim]
        shape[dim] = size + before + after
        if shape[dim] < 0:
            raise RuntimeError(
                f"The input size {size}, plus negative padding {before} and {after} resulted in a negative output size, "
                f"which is invalid. Check dimension {dim} of your input."
            )
        start, stop = max(-before, 0), size - max(-after, 0)
        input = input.narrow(dim, start, max(stop - start, 0))
        place[dim] = slice(max(before, 0), max(before, 0) + input.size(dim))
    out = _t.full(shape, value, dtype=input.dtype)
    out[tuple(place)] = input
    return out


# ---- losses --------------------------------------------------------------------------------------
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


def _reduce(loss, reduction):
    if reduction == "none":
        return loss
    if reduction in ("mean", "sum"):
        return loss.mean() if reduction == "mean" else loss.sum()
    raise ValueError(f"{reduction} is not a valid value for reduction")


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities in [0, 1]; RuntimeError outside."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
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
