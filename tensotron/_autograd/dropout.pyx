"""Dropout and its kin: what multiplies by random factors."""
from libc.math cimport isfinite, sqrt
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport apply_row, row_id
from tensotron._autograd.pointwise cimport leaky_in_place
from tensotron._autograd.random cimport draw_dropout, draw_noise, draw_slopes
from tensotron._core cimport dtype as dt_
from tensotron._core.generator cimport generator_of
from tensotron._core.tensor cimport (
    FnNode, Tensor, alias, attach, check_inplace, contiguous, copy_into, empty, empty_like, fill_with, grad_enabled, rebase, record)

import warnings

FUNCTIONS = {}
NN_FUNCTIONS = {}


def _dropout_backward(FnNode node, Tensor g):
    return g * node.saved(0), None


cdef int check(str op, object input, double p) except -1:
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    return 0


cdef Tensor noise_for(Tensor x, int feature):
    """Memory for the factors of x: one each, or one per index of the first `feature` dimensions."""
    cdef int64_t sizes[64]
    cdef int d
    if not feature:
        return empty_like(x, x.dt)
    if x.nd < feature:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    for d in range(x.nd):
        sizes[d] = x.sizes[d] if d < feature else 1
    return empty(x.nd, sizes, x.dt)


cdef object apply(str op, object input, double p, bint train, bint inplace, int feature, bint alpha):
    cdef Tensor x, noise, out
    check(op, input, p)
    x = <Tensor>input
    if p == 0 or not train or x.n == 0:
        return x
    if p == 1:
        noise = empty(0, NULL, x.dt)
        fill_with(noise, 0)
        return x.mul_(noise) if inplace else x.mul(noise)
    noise = noise_for(x, feature)
    if not dt_.is_float(x.dt):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {TITLES[x.dt]}")
    if alpha:
        return apply_alpha(x, noise, p, inplace)
    if inplace or feature:
        draw_noise(generator_of(None, op), noise, p)
        return x.mul_(noise) if inplace else x.mul(noise)
    out = empty_like(x, x.dt)
    draw_dropout(generator_of(None, op), noise, out, x, p)
    return record(out, "MulBackward0", _dropout_backward, (x, None), (noise,), None)

TITLES = ("Float", "Double", "Long", "Int", "Byte", "Bool")


cdef object apply_alpha(Tensor x, Tensor noise, double p, bint inplace):
    """Dropped elements get the negative saturation value of selu; mean and variance are kept."""
    cdef double saturation = 1.7580993408473766
    cdef double scale = 1 / sqrt((saturation * saturation * p + 1) * (1 - p))
    noise.bernoulli_(1 - p)
    shift = noise.add(-1).mul_(saturation * scale).add_(saturation * scale * p)
    noise.mul_(scale)
    return (x.mul_(noise) if inplace else x.mul(noise)).add_(shift)


# ==== torch.dropout and so on =========================================================================
cdef object define(str name, bint inplace, int feature, bint alpha):
    def fn(input, double p, bint train):
        return apply(name, input, p, train, inplace, feature, alpha)
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"nn.functional's {'feature_' * bool(feature)}{'alpha_' * alpha}dropout{' in place' * inplace}, with every argument given."
    FUNCTIONS[name] = fn
    return 0

for feature in (0, 2):
    for alpha in (False, True):
        for inplace in (False, True):
            define("feature_" * bool(feature) + "alpha_" * alpha + "dropout" + "_" * inplace, inplace, feature, alpha)


# ==== nn.functional ===================================================================================
cdef double chance(object p) except? -1:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return p


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability p and scales the others by 1 / (1 - p); input itself if not training.

    Raises:
        ValueError: p lies outside [0, 1].
    """
    return apply("dropout", input, chance(p), training, inplace, 0, False)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout for selu networks: keeps mean and variance."""
    return apply("alpha_dropout", input, chance(p), training, inplace, 0, True)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout() of whole channels (dimension 1)."""
    return apply("feature_alpha_dropout", input, chance(p), training, inplace, 2, True)


cdef object channels(str op, object input, object p, object training, object inplace, bint batched):
    """dropout of channels; not batched: of dimension 0."""
    cdef double v = chance(p)
    if batched or inplace:
        return apply(op, input, v, training, inplace, 2 if batched else 1, False)
    return apply(op, input.unsqueeze(0), v, training, False, 2, False).squeeze(0)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of an input of shape (N, C, L) or (C, L).

    Raises:
        RuntimeError: the input has other dimensions.
    """
    chance(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d exists to "
                           "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
                           "batch dimension (i.e. 2D or 3D inputs).")
    return channels("feature_dropout", input, p, training, inplace, input.dim() == 3)


cdef object deprecated(int n, object input):
    warnings.warn(f"dropout{n}d: Received a {input.dim()}-D input to dropout{n}d, which is deprecated and will result in an error in a "
                  "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
                  f"dropout{n}d exists to provide channel-wise dropout on inputs with {n} spatial dimensions, a channel dimension, "
                  f"and an optional batch dimension (i.e. {n + 1}D or {n + 2}D inputs).", UserWarning, stacklevel=2)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of an input of shape (N, C, H, W)."""
    chance(p)
    if input.dim() not in (3, 4):
        deprecated(2, input)
    if input.dim() == 3:
        warnings.warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input "
                      "is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future release to "
                      "interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
                      "dropout behavior, please switch to using dropout1d instead.", UserWarning, stacklevel=2)
    return channels("feature_dropout", input, p, training, inplace, True)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of an input of shape (N, C, D, H, W) or (C, D, H, W)."""
    chance(p)
    if input.dim() not in (4, 5):
        deprecated(3, input)
    return channels("feature_dropout", input, p, training, inplace, input.dim() == 5)


for fn in (dropout, alpha_dropout, feature_alpha_dropout, dropout1d, dropout2d, dropout3d):
    fn.__qualname__ = fn.__name__
    NN_FUNCTIONS[fn.__name__] = fn


# ==== rrelu ===========================================================================================
cdef object rrelu_any(object input, double lower, double upper, bint training, bint inplace):
    cdef Tensor x, noise, out
    if not isinstance(input, Tensor):
        raise TypeError(f"rrelu{'_' if inplace else ''}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    for name, bound in (("lower", lower), ("upper", upper)):
        if not isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    x = <Tensor>input
    node = "RreluWithNoiseBackward1" if inplace else "RreluWithNoiseBackward0"
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"{'rrelu_with_noise_out_cpu' if training else 'leaky_relu_cpu'}\" not implemented for '{TITLES[x.dt]}'")
    if not training:
        if inplace:
            return leaky_in_place(node, x, (lower + upper) / 2)
        return apply_row(row_id("leaky_relu"), node, x, None, None, 0, 0, 0, 1, x.dt, x.dt, None, False, (lower + upper) / 2, 0, 0)
    if inplace:
        check_inplace(x, x.requires())
    noise = empty(x.nd, x.sizes, x.dt)
    out = x if inplace and x.contiguous else empty(x.nd, x.sizes, x.dt)
    draw_slopes(generator_of(None, "rrelu"), noise, out, contiguous(x), lower, upper)
    if not inplace:
        return record(out, node, _rrelu_backward, (x,), (noise,), None)
    graph = attach(alias(x), node, _rrelu_backward, (x,), (noise,), None) if grad_enabled() and x.requires() else None
    if out is not x:
        copy_into(x, out)
    rebase(x, graph)
    return x


def _rrelu_backward(FnNode node, Tensor g):
    return g * node.saved(0)


def rrelu(input, double lower=1.0 / 8, double upper=1.0 / 3, bint training=False, bint inplace=False):
    """Leaky ReLU with slope (lower + upper) / 2; in training, slopes drawn from [lower, upper)."""
    return rrelu_any(input, lower, upper, training, inplace)

def _rrelu(input, double lower=1.0 / 8, double upper=1.0 / 3, bint training=False):
    """Leaky ReLU with slope (lower + upper) / 2; in training, slopes drawn from [lower, upper)."""
    return rrelu_any(input, lower, upper, training, False)

def rrelu_(input, double lower=1.0 / 8, double upper=1.0 / 3, bint training=False):
    """In-place version of rrelu()."""
    return rrelu_any(input, lower, upper, training, True)

for fn in (rrelu, rrelu_):
    fn.__qualname__ = fn.__name__
    NN_FUNCTIONS[fn.__name__] = fn
_rrelu.__name__ = _rrelu.__qualname__ = "rrelu"
FUNCTIONS["rrelu"], FUNCTIONS["rrelu_"] = _rrelu, rrelu_
