# Bounds, choices, activations; the operators of Tensor. Included by pointwise.pyx.

# ==== where, clamp, masked_fill, lerp and the like ==================================================
def where(condition, input=None, other=None, *, out=None):
    """input where condition is true, else other; broadcast. With condition alone: nonzero(as_tuple=True)."""
    cdef Tensor c = tensor_arg(condition, "where", "condition", 1), a = None, b = None
    cdef double na = 0, nb = 0
    cdef int dt
    if input is None and other is None:
        return c.nonzero(as_tuple=True)
    if c.dt != BOOL and c.dt != U8:
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {TITLES[c.dt]}")
    for name, x, position in (("input", input, 2), ("other", other, 3)):
        if not operand(x):
            raise TypeError(f"where(): argument '{name}' (position {position}) must be Tensor, not {type(x).__name__}")
    dt = result_type_of(input, other)
    if isinstance(input, Tensor):
        a = <Tensor>input
    else:
        na = checked_number(input, dt)
    if isinstance(other, Tensor):
        b = <Tensor>other
    else:
        nb = checked_number(other, dt)
    return apply_row(row_id("where"), "WhereBackward0", c, a, b, 0, na, nb, 3, compute_of(dt), dt, maybe(out), False, 0, 0, 0)


def _where_method(self, condition, other):
    """self where condition is true, else other."""
    return where(condition, self, other)


cdef object clamp_any(object input, object lo, object hi, object out, bint inplace, str name="clamp"):
    cdef Tensor x = tensor_arg(input, name, "input", 1)
    cdef double low, high
    cdef int dt, compute
    if lo is None and hi is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if isinstance(lo, Tensor) or isinstance(hi, Tensor):
        return clamp_tensors(x, lo, hi, out, inplace)
    dt = x.dt
    for bound in (lo, hi):
        if bound is not None:
            if not is_number(bound):
                raise TypeError(f"{name}(): argument must be a number or Tensor, not {type(bound).__name__}")
            dt = dt_.promote(dt, result_type_of(x, bound))
    if dt == BOOL:
        kernel = "clamp_min" if hi is None else "clamp_max" if lo is None else "clamp"
        raise NotImplementedError(f"\"{kernel}_scalar_cpu\" not implemented for 'Bool'")
    if inplace and not dt_.can_cast(dt, x.dt):
        raise RuntimeError(f"result type {TITLES[dt]} can't be cast to the desired output type {NAMES[x.dt]}")
    compute = compute_of(dt)
    low = 0 if lo is None else checked_number(lo, dt)
    high = 0 if hi is None else checked_number(hi, dt)
    if hi is None:
        return apply_row(row_id("clamp_min"), CLAMP_NODES[name][0], x, None, None, 0, 0, 0, 1, compute, dt, maybe(out), inplace, low, 0, 0)
    if lo is None:
        return apply_row(row_id("clamp_max"), CLAMP_NODES[name][1], x, None, None, 0, 0, 0, 1, compute, dt, maybe(out), inplace, high, 0, 0)
    return apply_row(row_id("clamp"), "ClampBackward1", x, None, None, 0, 0, 0, 1, compute, dt, maybe(out), inplace, low, high, 0)

CLAMP_NODES = {"clamp": ("ClampBackward1", "ClampBackward1"), "clamp_min": ("ClampMinBackward0", ""), "clamp_max": ("", "ClampMaxBackward0")}


cdef object clamp_tensors(Tensor x, object lo, object hi, object out, bint inplace):
    cdef int dt, compute
    cdef Tensor tl, th
    for bound in (lo, hi):
        if bound is not None and not isinstance(bound, Tensor):
            raise TypeError("clamp(): the bounds must both be Tensors or both be numbers")
    dt = result_type_of_three(x, lo, hi)
    if dt == BOOL and lo is not None and hi is not None:
        raise NotImplementedError("\"clamp_cpu\" not implemented for 'Bool'")
    if inplace and not dt_.can_cast(dt, x.dt):
        raise RuntimeError(f"result type {TITLES[dt]} can't be cast to the desired output type {TITLES[x.dt]}")
    compute = compute_of(dt)
    x = x if inplace else narrowed(x, dt)
    tl = narrowed(<Tensor>lo if lo is not None else None, dt)
    th = narrowed(<Tensor>hi if hi is not None else None, dt)
    if th is None:
        return apply_row(row_id("clamp_low_tensor"), "ClampBackward1", x, tl, None, 0, 0, 0, 2, compute, dt, maybe(out), inplace, 0, 0, 0)
    if tl is None:
        return apply_row(row_id("clamp_high_tensor"), "ClampBackward1", x, th, None, 0, 0, 0, 2, compute, dt, maybe(out), inplace, 0, 0, 0)
    return apply_row(row_id("clamp_tensor"), "ClampBackward1", x, tl, th, 0, 0, 0, 3, compute, dt, maybe(out), inplace, 0, 0, 0)


def clamp(input, min=None, max=None, *, out=None):
    """input bounded below by min and above by max, numbers or tensors; NaN stays, and a NaN bound gives NaN."""
    return clamp_any(input, min, max, out, False)

def clamp_(input, min=None, max=None):
    """In-place version of clamp()."""
    return clamp_any(input, min, max, input, True)

def clamp_min(input, min, *, out=None):
    """input bounded below by min."""
    return clamp_any(input, min, None, out, False, "clamp_min")

def clamp_min_(input, min):
    """In-place version of clamp_min()."""
    return clamp_any(input, min, None, input, True, "clamp_min")

def clamp_max(input, max, *, out=None):
    """input bounded above by max."""
    return clamp_any(input, None, max, out, False, "clamp_max")

def clamp_max_(input, max):
    """In-place version of clamp_max()."""
    return clamp_any(input, None, max, input, True, "clamp_max")


cdef object fill_masked(object input, object mask, object value, bint inplace):
    cdef Tensor x = tensor_arg(input, "masked_fill", "input", 1), m = tensor_arg(mask, "masked_fill", "mask", 2), v = None
    cdef double nv = 0
    cdef int compute = compute_of(x.dt)
    if m.dt != BOOL:
        raise RuntimeError(f"masked_fill{'_' if inplace else ''} only supports boolean masks, but got mask with dtype {NAMES[m.dt]}")
    if isinstance(value, Tensor):
        v = <Tensor>value
        if v.nd != 0:
            raise RuntimeError(f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {v.nd} dimension(s).")
        check_range(v, x.dt)
    else:
        if not is_number(value):
            raise TypeError(f"masked_fill(): argument 'value' must be Tensor or Number, not {type(value).__name__}")
        nv = checked_number(value, x.dt)
    return apply_row(row_id("masked_fill"), "MaskedFillBackward1" if v is not None else "MaskedFillBackward0", x, m, v, 0, 0, nv, 3,
                     compute, x.dt, x if inplace else None, inplace, 0, 0, 0)

NAMES = ["float", "double", "long int", "int", "unsigned char", "bool"]


def masked_fill(input, mask, value):
    """input with `value` where the bool tensor mask is true."""
    return fill_masked(input, mask, value, False)

def masked_fill_(input, mask, value):
    """In-place version of masked_fill()."""
    return fill_masked(input, mask, value, True)


cdef object ternary(str name, str node, object a, object b, object c, object value, object out, bint inplace):
    cdef Tensor x = tensor_arg(a, name, "input", 1), y = tensor_arg(b, name, "tensor1", 2), z = tensor_arg(c, name, "tensor2", 3)
    cdef int dt = result_type_of_three(x, y, z)
    cdef int compute
    if name == "addcdiv" and not dt_.is_float(result_type_of(y, z)):
        raise RuntimeError("Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
                           "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + "
                           "value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * "
                           "tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: "
                           "(input + value * tensor1 / tensor2), for all dtypes.")
    if dt == BOOL:
        raise NotImplementedError(f"\"{name}_cpu_out\" not implemented for 'Bool'")
    compute = compute_of(dt)
    return apply_row(row_id(name), node, x, y, z, 0, 0, 0, 3, compute, dt, maybe(out), inplace, checked_number(value, dt), 0, 0)


cdef inline object old_value(str op, object number, object value):
    """value of op(input, value, tensor1, tensor2)."""
    return old_number(op, number, value is 1, 4, "Tensor input, Number value, Tensor tensor1, Tensor tensor2, *, Tensor out = None",
                      "Tensor input, Tensor tensor1, Tensor tensor2, *, Number value = 1, Tensor out = None")


def addcmul(input, tensor1, tensor2, third=None, *, value=1, out=None):
    """input + value * tensor1 * tensor2, broadcast."""
    if third is not None:
        value, tensor1, tensor2 = old_value("addcmul", tensor1, value), tensor2, third
    return ternary("addcmul", "AddcmulBackward0", input, tensor1, tensor2, value, out, False)

def addcmul_(input, tensor1, tensor2, third=None, *, value=1):
    """In-place version of addcmul()."""
    if third is not None:
        value, tensor1, tensor2 = old_value("addcmul_", tensor1, value), tensor2, third
    return ternary("addcmul", "AddcmulBackward0", input, tensor1, tensor2, value, input, True)

def addcdiv(input, tensor1, tensor2, third=None, *, value=1, out=None):
    """input + value * tensor1 / tensor2, broadcast."""
    if third is not None:
        value, tensor1, tensor2 = old_value("addcdiv", tensor1, value), tensor2, third
    return ternary("addcdiv", "AddcdivBackward0", input, tensor1, tensor2, value, out, False)

def addcdiv_(input, tensor1, tensor2, third=None, *, value=1):
    """In-place version of addcdiv()."""
    if third is not None:
        value, tensor1, tensor2 = old_value("addcdiv_", tensor1, value), tensor2, third
    return ternary("addcdiv", "AddcdivBackward0", input, tensor1, tensor2, value, input, True)


cdef object lerp_any(object input, object end, object weight, object out, bint inplace):
    cdef Tensor x = tensor_arg(input, "lerp", "input", 1), e = tensor_arg(end, "lerp", "end", 2), w = None
    cdef double nw = 0
    cdef int dt = x.dt
    if x.dt != e.dt:
        raise RuntimeError(f"expected dtype {NAMES[x.dt]} for `end` but got dtype {NAMES[e.dt]}")
    if isinstance(weight, Tensor):
        w = <Tensor>weight
        if w.nd == 0:  # takes part in promotion
            dt = result_type_of_three(x, e, w)
        elif w.dt != x.dt:
            raise RuntimeError(f"expected dtype {NAMES[x.dt]} for `weight` but got dtype {NAMES[w.dt]}")
    if not dt_.is_float(dt):
        raise NotImplementedError(f"\"lerp_kernel_{'scalar' if w is None else 'tensor'}\" not implemented for '{TITLES[dt]}'")
    if w is None:
        nw = checked_number(weight, dt)
    return apply_row(row_id("lerp"), "LerpBackward1" if w is not None else "LerpBackward0", x, e, w, 0, 0, nw, 3, dt, dt,
                     maybe(out), inplace, 0, 0, 0)

def lerp(input, end, weight, *, out=None):
    """input + weight * (end - input)."""
    return lerp_any(input, end, weight, out, False)

def lerp_(input, end, weight):
    """In-place version of lerp()."""
    return lerp_any(input, end, weight, input, True)


define(where, "where", where.__doc__, False)
define(_where_method, "where", _where_method.__doc__, True, False)
for fn in (clamp, clamp_, clamp_min, clamp_min_, clamp_max, clamp_max_, masked_fill, addcmul, addcdiv, lerp):
    define(fn, fn.__name__, fn.__doc__)
for fn in (masked_fill_, addcmul_, addcdiv_, lerp_):
    define(fn, fn.__name__, fn.__doc__, True, False)
FUNCTIONS["clip"], FUNCTIONS["clip_"] = clamp, clamp_
add_method("clip", clamp)
add_method("clip_", clamp_)


# ==== activations with parameters (nn.functional) ===================================================
NN_FUNCTIONS = {}


cdef object activation(str row, str node, object input, bint inplace, double p0, double p1, double p2, str name, object out=None):
    """name: of the public function, without the underscore of its in-place version."""
    cdef Tensor x = tensor_arg(input, name, "input", 1, inplace)
    if out is not None and maybe(out).dt != x.dt and name != "log_sigmoid":
        raise RuntimeError(f"Found dtype {TITLES[maybe(out).dt]} but expected {TITLES[x.dt]}")
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"{KERNELS.get(name) or name + '_cpu'}\" not implemented for '{TITLES[x.dt]}'")
    if out is not None and maybe(out).dt != x.dt:
        raise RuntimeError(f"expected scalar type {TITLES[x.dt]} but found {TITLES[maybe(out).dt]}")
    return apply_row(row_id(row), node, x, None, None, 0, 0, 0, 1, x.dt, x.dt, x if inplace else maybe(out), inplace, p0, p1, p2)


KERNELS = {"selu": "elu_cpu", "celu": "elu_cpu", "gelu": "GeluKernelImpl"}  # as PyTorch names them when it refuses integers


def _refuse_negative(FnNode node, Tensor g):
    raise RuntimeError(f"In-place {node.ctx} backward calculation is triggered with a negative slope which is not supported. This is "
                       "caused by calling in-place forward function with a negative slope, please call out-of-place version instead."
                       + (" File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu "
                          "backward calculation with negative slope" if node.ctx == "leakyReLu" else ""))


cdef object from_result(str row, str node, object input, double p0, double p1, double p2, str name, str refusing):
    """An activation in place whose derivative the result tells, unless the slope p0 is negative."""
    cdef Tensor x = tensor_arg(input, name, "input", 1, True)
    cdef double[4] p = [p0, p1, p2, 0]
    if p0 >= 0 or not dt_.is_float(x.dt) or not grad_enabled() or not x.requires():
        return activation(row, node, x, True, p0, p1, p2, name)
    check_inplace(x, True)
    graph = attach(alias(x), node, _refuse_negative, (x,), (), refusing)
    launch_row(row_id(row) * 4, x, x, None, None, None, 0, 0, 0, 1, x.dt, p)
    rebase(x, graph)
    return x


def _relu(input, bint inplace=False):
    """max(input, 0), elementwise."""
    return FUNCTIONS["relu_"](input) if inplace else relu_of(input)


cdef object relu_of(object input):
    return unary(ROW_relu, "ReluBackward0", "relu", input, SAME, True, None)


cdef object tanh_of(object input):
    return unary(ROW_tanh, "TanhBackward0", "tanh", input, FLOAT, False, None)


cdef object sigmoid_of(object input):
    return unary(ROW_sigmoid, "SigmoidBackward0", "sigmoid", input, FLOAT, False, None)


def leaky_relu(input, double negative_slope=0.01, bint inplace=False):
    """input where positive, else negative_slope * input."""
    if inplace:
        return leaky_in_place("LeakyReluBackward1", input, negative_slope)
    return activation("leaky_relu", "LeakyReluBackward0", input, False, negative_slope, 0, 0, "leaky_relu")

cdef object leaky_in_place(str node, object input, double slope):
    return from_result("leaky_relu_result", node, input, slope, 0, 0, "leaky_relu", "leakyReLu")

def leaky_relu_(input, double negative_slope=0.01):
    """In-place version of leaky_relu()."""
    return leaky_relu(input, negative_slope, True)

cdef object elu_any(str name, str node, object input, double alpha, double scale, double inner, bint inplace):
    if inplace:
        return from_result("elu_result", node + "1", input, alpha, scale, inner, name, "elu")
    return activation("elu", node + "0", input, False, alpha, scale, inner, name)

def elu(input, double alpha=1.0, bint inplace=False):
    """input where positive, else alpha * (exp(input) - 1)."""
    return elu_any("elu", "EluBackward", input, alpha, 1, 1, inplace)

def elu_(input, double alpha=1.0):
    """In-place version of elu()."""
    return elu(input, alpha, True)

def selu(input, bint inplace=False):
    """elu() with the constants that keep mean 0 and variance 1 from layer to layer."""
    return elu_any("selu", "EluBackward", input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1, inplace)

def selu_(input):
    """In-place version of selu()."""
    return selu(input, True)

def celu(input, double alpha=1.0, bint inplace=False):
    """input where positive, else alpha * (exp(input / alpha) - 1)."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return elu_any("celu", "CeluBackward", input, alpha, 1, 1 / alpha, inplace)

def celu_(input, double alpha=1.0):
    """In-place version of celu()."""
    return celu(input, alpha, True)

def gelu(input, *, str approximate="none"):
    """input times the normal distribution function of input; approximate="tanh" for the tanh form."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return activation("gelu" if approximate == "none" else "gelu_tanh", "GeluBackward0", input, False, 0, 0, 0, "gelu")

def silu(input, bint inplace=False):
    """input * sigmoid(input)."""
    return activation("silu", "SiluBackward0", input, inplace, 0, 0, 0, "silu")

def mish(input, bint inplace=False):
    """input * tanh(softplus(input))."""
    return activation("mish", "MishBackward0", input, inplace, 0, 0, 0, "mish")

def hardtanh(input, min_val=-1.0, max_val=1.0, bint inplace=False):
    """input limited to [min_val, max_val]; no gradient at the limits. ValueError if min_val > max_val."""
    return hardtanh_any("hardtanh", input, min_val, max_val, inplace)

cdef object hardtanh_any(str name, object input, object min_val, object max_val, bint inplace):
    cdef Tensor x = tensor_arg(input, name, "input", 1, inplace)
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if dt_.is_float(x.dt):
        return activation("hardtanh_result" if inplace else "hardtanh", "HardtanhBackward0", x, inplace,
                          checked_number(min_val, x.dt), checked_number(max_val, x.dt), 0, "hardtanh")
    if x.dt == BOOL:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    low, high = as_integer(min_val, I64), as_integer(max_val, I64)
    if x.dt == U8 and (low < 0 or high < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return x.clamp_(low, high) if inplace else x.clamp(low, high)

def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """In-place version of hardtanh()."""
    return hardtanh(input, min_val, max_val, True)

def relu6(input, bint inplace=False):
    """input limited to [0, 6]."""
    return hardtanh_any("relu6", input, 0, 6, inplace)

def hardsigmoid(input, bint inplace=False):
    """relu6(input + 3) / 6."""
    return activation("hardsigmoid", "HardsigmoidBackward0", input, inplace, 0, 0, 0, "hardsigmoid")

def hardswish(input, bint inplace=False):
    """input * relu6(input + 3) / 6."""
    return activation("hardswish", "HardswishBackward0", input, inplace, 0, 0, 0, "hardswish")

def softplus(input, double beta=1.0, double threshold=20.0, *, out=None):
    """log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold."""
    return activation("softplus", "SoftplusBackward0", input, False, beta, threshold, 0, "softplus", out)

def logsigmoid(input, *, out=None):
    """log(sigmoid(input))."""
    return activation("log_sigmoid", "LogSigmoidBackward0", input, False, 0, 0, 0, "log_sigmoid", out)

def hardshrink(input, double lambd=0.5, *, out=None):
    """input outside [-lambd, lambd] (or NaN), else 0."""
    return activation("hardshrink", "HardshrinkBackward0", input, False, lambd, 0, 0, "hardshrink", out)

def softshrink(input, double lambd=0.5, *, out=None):
    """input moved towards 0 by lambd. RuntimeError if lambd is negative or not finite."""
    cdef Tensor x = tensor_arg(input, "softshrink", "input", 1)
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"softshrink_check\" not implemented for '{TITLES[x.dt]}'")
    if not 0 <= lambd <= FLOAT_LIMITS[x.dt]:
        raise RuntimeError(f"lambda must be in range [0, {FLOAT_LIMITS[x.dt]:g}] for input dtype {TITLES[x.dt]}, but found {lambd:g}")
    return activation("softshrink", "SoftshrinkBackward0", x, False, lambd, 0, 0, "softshrink", out)

FLOAT_LIMITS = (3.4028234663852886e38, 1.7976931348623157e308)


cdef object threshold_any(object input, object threshold, object value, object out, bint inplace):
    cdef Tensor x = tensor_arg(input, "threshold", "input", 1, inplace)
    for name, v, position in (("threshold", threshold, 2), ("value", value, 3)):
        if not is_number(v):
            raise TypeError(f"threshold{'_' if inplace else ''}(): argument '{name}' (position {position}) must be Number, not {type(v).__name__}")
    if x.dt == BOOL:
        raise NotImplementedError("\"threshold_cpu\" not implemented for 'Bool'")
    return apply_row(row_id("threshold"), "ThresholdBackward1" if inplace else "ThresholdBackward0",
                     x, None, None, 0, 0, 0, 1, compute_of(x.dt), x.dt, x if inplace else maybe(out), inplace,
                     checked_number(threshold, x.dt), checked_number(value, x.dt), 0)

def threshold(input, threshold, value, bint inplace=False):
    """input where it is above the threshold (or NaN), else value."""
    return threshold_any(input, threshold, value, None, inplace)

def _threshold(input, threshold, value, *, out=None):
    """input where it is above the threshold (or NaN), else value."""
    return threshold_any(input, threshold, value, out, False)

def threshold_(input, threshold, value):
    """In-place version of threshold()."""
    return threshold_any(input, threshold, value, None, True)


def prelu(input, weight):
    """input where it is positive, else weight * input; weight has one element, or one for each channel."""
    cdef Tensor x = tensor_arg(input, "prelu", "input", 1), w = tensor_arg(weight, "prelu", "weight", 2)
    cdef int64_t channels
    if x.dt != w.dt:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {TITLES[x.dt]} and {TITLES[w.dt]}")
    if w.n != 1:
        if x.nd == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = x.sizes[1] if x.nd > 1 else 1
        if w.n != channels:
            raise RuntimeError(f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {w.n} and "
                               f"channel size = {channels}.")
    if w.nd > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {w.nd}")
    if w.nd != x.nd:
        w = <Tensor>weight.reshape([w.n if d == 1 else 1 for d in range(x.nd)])
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"prelu_cpu\" not implemented for '{TITLES[x.dt]}'")
    return apply_row(row_id("prelu"), "PreluKernelBackward0", x, w, None, 0, 0, 0, 2, x.dt, x.dt, None, False, 0, 0, 0)


# ---- glu: a row of the halves -----------------------------------------------------------------------
cdef Tensor half(Tensor x, int dim, int which):
    """No view to the autograd."""
    cdef int64_t[64] sizes
    cdef int d
    for d in range(x.nd):
        sizes[d] = x.sizes[d]
    sizes[dim] //= 2
    return as_view(x, x.nd, sizes, x.strides, which * sizes[dim] * x.strides[dim])


def _glu_backward(FnNode node, Tensor g):
    cdef Tensor x = node.saved(0), out, a, b
    cdef int dim = node.ctx, row = row_id("glu") * 4
    cdef double[4] p = [0, 0, 0, 0]
    if grad_enabled():
        first, second = x.chunk(2, dim)
        s = second.sigmoid()
        import tensotron._autograd.join as join  # comes after this module
        return join.FUNCTIONS["cat"]((g * s, g * first * (s * (1 - s))), dim)
    out = empty(x.nd, x.sizes, x.dt)
    a, b = half(x, dim, 0), half(x, dim, 1)
    launch_row(row + 1, half(out, dim, 0), g, b, None, None, 0, 0, 0, 2, x.dt, p)
    launch_row(row + 2, half(out, dim, 1), g, a, b, None, 0, 0, 0, 3, x.dt, p)
    return out


def glu(input, dim=-1):
    """a * sigmoid(b) of the halves a, b of input along dim, whose size must be even."""
    cdef Tensor x = tensor_arg(input, "glu", "input", 1)
    cdef int d
    if x.nd == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    d = wrap_dim(dim, x.nd)
    if x.sizes[d] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {x.sizes[d]}")
    if not dt_.is_float(x.dt):
        raise NotImplementedError(f"\"glu_cpu\" not implemented for '{TITLES[x.dt]}'")
    return record(apply_row(row_id("glu"), None, half(x, d, 0), half(x, d, 1), None, 0, 0, 0, 2, x.dt, x.dt, None, False, 0, 0, 0),
                  "GluBackward0", _glu_backward, (x,), (x,), d)


# ---- logit --------------------------------------------------------------------------------------------
cdef object logit_any(object input, object eps, object out, bint inplace):
    cdef Tensor x = tensor_arg(input, "logit", "input", 1, inplace)
    cdef int compute = float_of(x.dt)
    cdef double low = 0, high = 1, beyond = float("nan")
    if eps is not None and not eps < 0:
        low, beyond = eps, 0
        if compute == F32:
            low = <float>low
        high = <double>(<float>1 - <float>low) if compute == F32 else 1 - low
    return apply_row(row_id("logit"), "LogitBackward0", x, None, None, 0, 0, 0, 1, compute, compute, x if inplace else maybe(out),
                     inplace, low, high, beyond)

def logit(input, eps=None, *, out=None):
    """log(input / (1 - input)); input is first limited to [eps, 1 - eps] if eps is given."""
    return logit_any(input, eps, out, False)

def logit_(input, eps=None):
    """In-place version of logit()."""
    return logit_any(input, eps, None, True)


for fn in (leaky_relu, leaky_relu_, elu, elu_, selu, selu_, celu, celu_, gelu, silu, mish, hardtanh, hardtanh_, relu6, hardsigmoid,
           hardswish, softplus, logsigmoid, hardshrink, softshrink, threshold, threshold_, prelu, glu):
    fn.__qualname__ = fn.__name__
    NN_FUNCTIONS[fn.__name__] = fn
for fn in (selu, selu_, celu, celu_, threshold_):
    FUNCTIONS[fn.__name__] = fn
for fn in (hardshrink, prelu, logit, logit_):
    define(fn, fn.__name__, fn.__doc__)
define(_threshold, "threshold", _threshold.__doc__, False)
_relu.__name__ = _relu.__qualname__ = "relu"
NN_FUNCTIONS["relu"] = _relu
NN_FUNCTIONS["relu_"] = FUNCTIONS["relu_"]
NN_FUNCTIONS["sigmoid"] = FUNCTIONS["sigmoid"]
NN_FUNCTIONS["tanh"] = FUNCTIONS["tanh"]


# ==== operators =================================================================================
cdef inline bint operand(object x) except -1:
    if isinstance(x, Tensor) or is_number(x):
        return True
    if isinstance(x, complex):
        raise NotImplementedError("complex numbers are not supported by tensotron")
    return False


cdef object op_add(object a, object b):
    if not operand(b):
        return NotImplemented
    return binary(ROW_add, "AddBackward0", "add", a, b, SAME, None, False, None)

cdef object op_radd(object a, object b):
    if not operand(b):
        return NotImplemented
    return binary(ROW_add, "AddBackward0", "add", a, b, SAME, None, False, None)

cdef object op_sub(object a, object b):
    if not operand(b):
        return NotImplemented
    check_sub(a, b)
    return binary(ROW_sub, "SubBackward0", "sub", a, b, SAME, None, False, None)

cdef object op_rsub(object a, object b):
    return rsub(a, b) if operand(b) else NotImplemented

cdef object op_mul(object a, object b):
    if not operand(b):
        return NotImplemented
    return binary(ROW_mul, "MulBackward0", "mul", a, b, SAME, None, False, None)

cdef object op_div(object a, object b):
    if not operand(b):
        return NotImplemented
    return binary(ROW_div, "DivBackward0", "div", a, b, FLOAT, None, False, None)

cdef object op_rdiv(object a, object b):
    return FUNCTIONS["reciprocal"](a) * b if operand(b) or isinstance(b, _np.ndarray) else NotImplemented

cdef object op_pow(object a, object b):
    return power(a, b, None, False) if operand(b) else NotImplemented

cdef object op_rpow(object a, object b):
    return power(b, a, None, False) if operand(b) else NotImplemented

cdef object op_floordiv(object a, object b):
    return floor_divide(a, b) if operand(b) else NotImplemented

cdef object op_rfloordiv(object a, object b):
    return floor_divide(b, a) if operand(b) else NotImplemented

cdef object op_mod(object a, object b):
    return remainder(a, b) if operand(b) else NotImplemented

cdef object op_rmod(object a, object b):
    return remainder(b, a) if operand(b) else NotImplemented

cdef object op_neg(object a):
    return FUNCTIONS["neg"](a)

cdef object op_invert(object a):
    if dt_.is_float((<Tensor?>a).dt):
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(a)

cdef object op_eq(object a, object b):
    return binary(row_id("eq"), None, "eq", a, b, PREDICATE, None, False, None) if operand(b) else NotImplemented

cdef object op_ne(object a, object b):
    return binary(row_id("ne"), None, "ne", a, b, PREDICATE, None, False, None) if operand(b) else NotImplemented

cdef object op_lt(object a, object b):
    return binary(row_id("lt"), None, "lt", a, b, PREDICATE, None, False, None) if operand(b) else NotImplemented

cdef object op_le(object a, object b):
    return binary(row_id("le"), None, "le", a, b, PREDICATE, None, False, None) if operand(b) else NotImplemented

cdef object op_gt(object a, object b):
    return binary(row_id("gt"), None, "gt", a, b, PREDICATE, None, False, None) if operand(b) else NotImplemented

cdef object op_ge(object a, object b):
    return binary(row_id("ge"), None, "ge", a, b, PREDICATE, None, False, None) if operand(b) else NotImplemented

cdef object op_and(object a, object b):
    return FUNCTIONS["bitwise_and"](a, b) if operand(b) else NotImplemented

cdef object op_or(object a, object b):
    return FUNCTIONS["bitwise_or"](a, b) if operand(b) else NotImplemented

cdef object op_xor(object a, object b):
    return FUNCTIONS["bitwise_xor"](a, b) if operand(b) else NotImplemented

cdef object op_iadd(object a, object b):
    if not operand(b):
        return NotImplemented
    return binary(ROW_add, "AddBackward0", "add", a, b, SAME, a, True, None)

cdef object op_isub(object a, object b):
    return sub_(a, b) if operand(b) else NotImplemented

cdef object op_imul(object a, object b):
    if not operand(b):
        return NotImplemented
    return binary(ROW_mul, "MulBackward0", "mul", a, b, SAME, a, True, None)

cdef object op_idiv(object a, object b):
    return divide(a, b, None, a, True) if operand(b) else NotImplemented


add_method("__rdiv__", lambda self, other: op_rdiv(self, other))

cdef Hooks* h = hooks()
h.add, h.radd, h.sub, h.rsub, h.mul, h.rmul = op_add, op_radd, op_sub, op_rsub, op_mul, op_mul
h.div, h.rdiv, h.pow, h.rpow = op_div, op_rdiv, op_pow, op_rpow
h.floordiv, h.rfloordiv, h.mod, h.rmod = op_floordiv, op_rfloordiv, op_mod, op_rmod
h.eq, h.ne, h.lt, h.le, h.gt, h.ge = op_eq, op_ne, op_lt, op_le, op_gt, op_ge
h.and_, h.or_, h.xor, h.rand_, h.ror, h.rxor = op_and, op_or, op_xor, op_and, op_or, op_xor
h.iadd, h.isub, h.imul, h.idiv = op_iadd, op_isub, op_imul, op_idiv
h.neg, h.invert = op_neg, op_invert

# what the symbolic derivatives call
DIRECT = {name: FUNCTIONS[name] for name in (
    "add sub mul div neg abs sign square sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc sigmoid floor ceil trunc round atan2 lt le gt ge eq ne logical_and logical_or fmod "
    "remainder").split()}
DIRECT["add"] = lambda a, b: a + b
DIRECT["sub"] = lambda a, b: a - b
DIRECT["mul"] = lambda a, b: a * b
DIRECT["div"] = lambda a, b: a / b
DIRECT["pow"] = pow
DIRECT["div_floor"] = lambda a, b: divide(a, b, "floor", None, False)
DIRECT["div_trunc"] = lambda a, b: divide(a, b, "trunc", None, False)
DIRECT["lt"] = lambda a, b: a < b
DIRECT["le"] = lambda a, b: a <= b
DIRECT["gt"] = lambda a, b: a > b
DIRECT["ge"] = lambda a, b: a >= b
DIRECT["eq"] = lambda a, b: a == b
DIRECT["ne"] = lambda a, b: a != b
