"""Elementwise ops: functions, methods, in-place forms and operators over the rows of the table."""
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from tensotron._autograd.elementwise cimport (
    apply_row, check_range, checked_number, int_number, is_number, launch_row, result_type_of, result_type_of_three, row_id)
from tensotron._core cimport dtype as dt_
from tensotron._core.arguments cimport old_number, refuse_out
from tensotron._core.tensor cimport (
    FnNode, Hooks, Tensor, add_method, alias, as_integer, as_real, as_view, attach, cast, check_inplace, empty, empty_like,
    grad_enabled, hooks, maybe, rebase, record, refuse_huge, wrap_dim)
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8

import numpy as _np

FUNCTIONS = {}   # name -> public function


cdef inline int float_of(int dt) noexcept:
    """The floating dtype that a float function of dtype dt computes in."""
    return dt if dt_.is_float(dt) else dt_.default_float()


cdef inline int compute_of(int dt) noexcept:
    return dt if dt <= F64 else I64


cdef Tensor tensor_arg(object x, str op, str name, int position, bint inplace=False):
    """inplace: op is named with an underscore, which only the refusal pays for."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}{'_' if inplace else ''}(): argument '{name}' (position {position}) must be Tensor, not {type(x).__name__}")
    return <Tensor>x


cdef object define(object fn, str name, str doc, bint method=True, bint function=True):
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    if function:
        FUNCTIONS[name] = fn
    if method:
        add_method(name, fn)
    return fn


def call(str name, list args):
    """The op `name` of a symbolic derivative on tensors and numbers."""
    if name == "where":
        return where3(args[0], args[1], args[2])
    if not any([isinstance(a, Tensor) for a in args]):
        return number_call(name, args)
    return DIRECT[name](*args)


cdef object number_call(str name, list args):
    """The op on Python numbers alone: parts of a derivative that only hold parameters."""
    import tensotron._core.data as data
    out = DIRECT[name](*[data.tensor(float(a), dtype=dt_.of_code(F64)) for a in args])
    return out.item()


cdef object where3(object m, object a, object b):
    if not isinstance(m, Tensor):
        return a if m else b
    return where(m, a, b)


# ==== unary ======================================================================================
cdef enum Kind:
    FLOAT       # integers become the default float
    SAME        # the input's dtype
    PREDICATE   # bool


# functions without `out`
NO_OUT = {"relu", "isnan", "isinf", "isfinite"}


cdef inline Tensor unary(int row, str node, str name, object input, int kind, bint no_bool, object out):
    cdef Tensor x = tensor_arg(input, name, "input", 1)
    cdef int dt = x.dt, compute
    if no_bool and dt == BOOL:
        refuse_bool(name)
    if kind == FLOAT:
        compute = float_of(dt)
        dt = compute
    else:
        compute = compute_of(dt)
        if kind == PREDICATE:
            dt = BOOL
    return apply_row(row, node, x, None, None, 0, 0, 0, 1, compute, dt, maybe(out), False, 0, 0, 0)


cdef object make_unary(str name, str row_name, str node, int kind, bint no_bool, str doc):
    cdef int row = row_id(row_name)

    def op(input, *, out=None):
        if kind == SAME and isinstance(out, Tensor) and isinstance(input, Tensor) and (<Tensor>out).dt != (<Tensor>input).dt:
            raise RuntimeError(f"Found dtype {TITLES[(<Tensor>out).dt]} but expected {TITLES[(<Tensor>input).dt]}")
        return unary(row, node, name, input, kind, no_bool, out)

    def op_without_out(input):
        return unary(row, node, name, input, kind, no_bool, None)

    def op_(input):
        cdef Tensor x = tensor_arg(input, name, "input", 1, True)
        cdef int compute
        if no_bool and x.dt == BOOL:
            refuse_bool(name)
        compute = float_of(x.dt) if kind == FLOAT else compute_of(x.dt)
        return apply_row(row, node, x, None, None, 0, 0, 0, 1, compute, compute if kind == FLOAT else x.dt, x, True, 0, 0, 0)

    define(op_without_out if name in NO_OUT else op, name, doc)
    if name not in NO_OUT or name == "relu":
        define(op_, name + "_", f"In-place version of {name}().")
    return op


cdef int refuse_bool(str name) except -1:
    if name == "neg":
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
                           "use the `~` or `logical_not()` operator instead.")
    if name == "relu":
        raise RuntimeError("Boolean inputs not supported for relu")
    raise NotImplementedError(f'"{name}_cpu" not implemented for \'Bool\'')


for name in ("sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
             "atanh erf erfc sigmoid").split():
    make_unary(name, name, ("Log1P" if name == "log1p" else name.capitalize()) + "Backward0", FLOAT, False, f"Elementwise {name} of input; integers give floats.")
for name in "abs neg sign floor ceil trunc frac".split():
    make_unary(name, name, name.capitalize() + "Backward0", SAME, name in ("neg", "floor", "ceil", "trunc", "abs"),
               f"Elementwise {name} of input.")
make_unary("relu", "relu", "ReluBackward0", SAME, True, "max(input, 0), elementwise; NaN stays.")
for name in "isnan isinf isfinite logical_not".split():
    make_unary(name, name, None, PREDICATE, False, f"Elementwise {name}, as a bool tensor.")


def square(input, *, out=None):
    """input * input; its node is that of pow."""
    return pow(input, 2, out=out)

def square_(input):
    """In-place version of square()."""
    return pow_(input, 2)

def positive(input):
    """input itself."""
    if tensor_arg(input, "positive", "input", 1).dt == BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input

def bitwise_not(input, *, out=None):
    """Complement of the bits of an integer tensor; logical not of a bool one."""
    cdef Tensor x = tensor_arg(input, "bitwise_not", "input", 1)
    if dt_.is_float(x.dt):
        raise NotImplementedError(f"\"bitwise_not_cpu\" not implemented for '{TITLES[x.dt]}'")
    cdef int row = row_id("logical_not" if x.dt == BOOL else "bitwise_not")
    return apply_row(row, None, x, None, None, 0, 0, 0, 1, I64, x.dt, maybe(out), False, 0, 0, 0)

TITLES = ["Float", "Double", "Long", "Int", "Byte", "Bool"]

def round(input, *, int decimals=0, out=None):
    """Rounds to the nearest integer, halves to even; or to `decimals` digits."""
    cdef Tensor x = tensor_arg(input, "round", "input", 1)
    if x.dt == BOOL:
        refuse_bool("round")
    if decimals:
        if not dt_.is_float(x.dt):
            raise NotImplementedError(f"\"round_cpu\" not implemented for '{TITLES[x.dt]}'")
        ten = 10.0 ** abs(decimals)
        scaled = x.detach() * ten if decimals > 0 else x.detach() / ten
        rounded = round(scaled)
        result = rounded / ten if decimals > 0 else rounded * ten
        return result if out is None else out.copy_(result)
    return apply_row(row_id("round"), "RoundBackward0", x, None, None, 0, 0, 0, 1, compute_of(x.dt), x.dt, maybe(out), False, 0, 0, 0)

def round_(input, *, int decimals=0):
    """In-place version of round()."""
    return input.copy_(round(input.detach(), decimals=decimals)) if decimals else apply_row(
        row_id("round"), "RoundBackward0", <Tensor?>input, None, None, 0, 0, 0, 1, compute_of((<Tensor>input).dt),
        (<Tensor>input).dt, <Tensor>input, True, 0, 0, 0)

for fn in (square, square_, positive, bitwise_not, round, round_):
    define(fn, fn.__name__, fn.__doc__)


# ==== binary =====================================================================================
cdef object binary(int row, str node, str name, object a, object b, int kind, object out, bint inplace, object alpha):
    """a op b for tensors and numbers, at least one a tensor. Kinds as Kind, FLOAT meaning true division. alpha: None, or the
    row's parameter."""
    cdef Tensor ta = <Tensor>a if isinstance(a, Tensor) else None
    cdef Tensor tb = <Tensor>b if isinstance(b, Tensor) else None
    cdef double na = 0, nb = 0
    cdef int dt, compute, result
    if ta is not None and tb is not None and ta.dt == tb.dt:
        dt = ta.dt
        compute = float_of(dt) if kind == FLOAT else compute_of(dt)
    else:
        if (ta is None and not is_number(a)) or (tb is None and not is_number(b)):
            bad = b if ta is not None else a
            raise TypeError(f"{name}(): argument 'other' (position {1 if ta is None else 2}) must be Tensor, not "
                            f"{type(bad).__name__}")
        dt = result_type_of(a, b)
        compute = float_of(dt) if kind == FLOAT else compute_of(dt)
        if ta is None:
            na = operand_number(a, dt, compute, tb)
        elif tb is None:
            nb = operand_number(b, dt, compute, ta)
        if (dt == U8 or dt == I32) and kind != FLOAT:  # a wider 0-dim tensor wraps first
            ta, tb = narrowed(ta, dt), narrowed(tb, dt)
    result = compute if kind == FLOAT else BOOL if kind == PREDICATE else dt
    if inplace and kind == PREDICATE:
        result = ta.dt
    return apply_row(row, node, ta, tb, None, na, nb, 0, 2, compute, result, maybe(out), inplace,
                     0 if alpha is None else checked_number(alpha, dt), 0, 0)


cdef double operand_number(object v, int dt, int compute, Tensor other) except? -1:
    """A number beside `other` in an operation of dtype dt, computed in `compute`: an integer wraps around."""
    cdef int beyond = 0
    cdef int64_t i
    if not isinstance(v, int):
        if compute != I64:
            return v
        v = int(v)
    i = PyLong_AsLongLongAndOverflow(v, &beyond)
    if beyond:
        refuse_huge(v)
        if other.dt == BOOL:
            raise RuntimeError("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote Bool and UInt64")
        i = <int64_t>(<uint64_t>v)
    if compute != I64:
        return v if beyond else <double>i
    return int_number(<uint8_t>i if dt == U8 else <int32_t>i if dt == I32 else i)


cdef inline Tensor narrowed(Tensor t, int dt):
    return cast(t, dt) if t is not None and t.dt != dt and t.dt in (I64, I32) else t


cdef object make_binary(str name, str row_name, str node, int kind, str doc, bint method=True, bint inplace=True):
    cdef int row = row_id(row_name)

    def op(input, other, *, out=None):
        if not isinstance(input, Tensor) and not (name in NUMBER_FIRST and isinstance(other, Tensor)):
            tensor_arg(input, name, "input", 1)
        return binary(row, node, name, input, other, kind, out, False, None)

    def op_(input, other):
        in_place = node if kind != PREDICATE else f"{row_name.capitalize()}Backward{1 if isinstance(other, Tensor) else 0}"
        return binary(row, in_place, name, tensor_arg(input, name + "_", "input", 1), other, kind, input, True, None)

    define(op, name, doc, method)
    if inplace:
        define(op_, name + "_", f"In-place version of {name}().", True, False)
    return op

# functions that take a number for their first tensor
NUMBER_FIRST = {"mul", "multiply", "xlogy", "remainder", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor"}

make_binary("mul", "mul", "MulBackward0", SAME, "input * other, broadcast.")
for alias_name in ("multiply",):
    make_binary(alias_name, "mul", "MulBackward0", SAME, "Alias of mul().")
make_binary("xlogy", "xlogy", "XlogyBackward0", FLOAT, "input * log(other), and 0 where input is 0.")
for name in "eq ne lt le gt ge".split():
    make_binary(name, name, None, PREDICATE, f"Elementwise comparison `{name}`, as a bool tensor.")
for name, row_name in dict(equal_to="eq", not_equal="ne", less="lt", less_equal="le", greater="gt", greater_equal="ge").items():
    if name != "equal_to":
        make_binary(name, row_name, None, PREDICATE, f"Alias of {row_name}().")


cdef object tensors_only(str name, str row_name, str node, int kind, str doc, bint inplace=False):
    cdef int row = row_id(row_name)

    def op(input, other, *, out=None):
        tensor_arg(other, name, "other", 2)
        return binary(row, node, name, tensor_arg(input, name, "input", 1), other, kind, out, False, None)

    def op_(input, other):
        tensor_arg(other, name, "other", 1, True)
        return binary(row, node, name, tensor_arg(input, name, "input", 1, True), other, kind, input, True, None)

    define(op, name, doc)
    if inplace:
        define(op_, name + "_", f"In-place version of {name}().", True, False)

tensors_only("atan2", "atan2", "Atan2Backward0", FLOAT, "Angle of the point (other, input).", True)
tensors_only("arctan2", "atan2", "Atan2Backward0", FLOAT, "Alias of atan2().", True)
tensors_only("maximum", "maximum", "MaximumBackward0", SAME, "Elementwise larger of two tensors; NaN wins.")
tensors_only("minimum", "minimum", "MinimumBackward0", SAME, "Elementwise smaller of two tensors; NaN wins.")
for name in "logical_and logical_or logical_xor".split():
    tensors_only(name, name, None, PREDICATE, f"Elementwise {name} of truth values.", True)


cdef object make_bitwise(str name, str logical):
    def op(input, other, *, out=None):
        dt = result_type_of(input, other)
        if dt_.is_float(dt):
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{TITLES[dt]}'")
        return binary(row_id(name), None, name, input, other, SAME, out, False, None)

    def op_(input, other):
        dt = result_type_of(input, other)
        if dt_.is_float(dt):
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{TITLES[dt]}'")
        return binary(row_id(name), None, name, tensor_arg(input, name, "input", 1), other, SAME, input, True, None)

    define(op, name, f"Elementwise {name} of integers or truth values.")
    define(op_, name + "_", f"In-place version of {name}().", True, False)

for name in "bitwise_and bitwise_or bitwise_xor".split():
    make_bitwise(name, name)


cdef inline int first_operand(object input, object other, str name) except -1:
    """Arithmetic functions also take a number first, if the other operand is a tensor."""
    if not isinstance(input, Tensor) and not (is_number(input) and isinstance(other, Tensor)):
        tensor_arg(input, name, "input", 1)
    return 0


# ---- addition and subtraction -------------------------------------------------------------------
cdef object check_alpha(object alpha, object a, object b):
    cdef int dt
    if isinstance(alpha, Tensor):
        alpha = alpha.item()
    if alpha == 1 and not isinstance(alpha, (float, bool)):
        return 1
    if not is_number(alpha):
        raise TypeError(f"argument 'alpha' must be Number, not {type(alpha).__name__}")
    dt = result_type_of(a, b)
    if isinstance(alpha, bool) and dt != BOOL:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if dt_.is_float(dt_.scalar_code(alpha)) and not dt_.is_float(dt):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return alpha


cdef int check_sub(object a, object b) except -1:
    ba = isinstance(a, bool) or (isinstance(a, Tensor) and (<Tensor>a).dt == BOOL)
    bb = isinstance(b, bool) or (isinstance(b, Tensor) and (<Tensor>b).dt == BOOL)
    if ba and bb:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                           "`logical_xor()` operator instead.")
    if ba or bb:
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert "
                           "a mask, use the `~` or `logical_not()` operator instead.")
    return 0

cdef inline object old_alpha(str op, object number, object alpha):
    """alpha of op(input, alpha, other)."""
    return old_number(op, number, alpha is 1, 3, "Tensor input, Number alpha, Tensor other, *, Tensor out = None",
                      "Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None")

cdef int ROW_add = row_id("add")
cdef int ROW_add_alpha = row_id("add_alpha")
cdef int ROW_sub = row_id("sub")
cdef int ROW_sub_alpha = row_id("sub_alpha")
cdef int ROW_rsub = row_id("rsub_alpha")
cdef int ROW_mul = row_id("mul")
cdef int ROW_div = row_id("div")
cdef int ROW_relu = row_id("relu")
cdef int ROW_tanh = row_id("tanh")
cdef int ROW_sigmoid = row_id("sigmoid")


def add(input, other, third=None, *, alpha=1, out=None):
    """input + alpha * other, broadcast."""
    if third is not None:
        alpha, other = old_alpha("add", other, alpha), third
    first_operand(input, other, "add")
    if alpha is not 1 and check_alpha(alpha, input, other) != 1:
        return binary(ROW_add_alpha, "AddBackward0", "add", input, other, SAME, out, False, alpha)
    return binary(ROW_add, "AddBackward0", "add", input, other, SAME, out, False, None)

def add_(input, other, third=None, *, alpha=1):
    """In-place version of add()."""
    if third is not None:
        alpha, other = old_alpha("add_", other, alpha), third
    tensor_arg(input, "add_", "input", 1)
    if alpha is not 1 and check_alpha(alpha, input, other) != 1:
        return binary(ROW_add_alpha, "AddBackward0", "add", input, other, SAME, input, True, alpha)
    return binary(ROW_add, "AddBackward0", "add", input, other, SAME, input, True, None)

def sub(input, other, third=None, *, alpha=1, out=None):
    """input - alpha * other, broadcast."""
    if third is not None:
        alpha, other = old_alpha("sub", other, alpha), third
    first_operand(input, other, "sub")
    check_sub(input, other)
    if alpha is not 1 and check_alpha(alpha, input, other) != 1:
        return binary(ROW_sub_alpha, "SubBackward0", "sub", input, other, SAME, out, False, alpha)
    return binary(ROW_sub, "SubBackward0", "sub", input, other, SAME, out, False, None)

def sub_(input, other, third=None, *, alpha=1):
    """In-place version of sub()."""
    if third is not None:
        alpha, other = old_alpha("sub_", other, alpha), third
    tensor_arg(input, "sub_", "input", 1)
    check_sub(input, other)
    if alpha is not 1 and check_alpha(alpha, input, other) != 1:
        return binary(ROW_sub_alpha, "SubBackward0", "sub", input, other, SAME, input, True, alpha)
    return binary(ROW_sub, "SubBackward0", "sub", input, other, SAME, input, True, None)

def rsub(input, other, *, alpha=1):
    """other - alpha * input, broadcast."""
    tensor_arg(input, "rsub", "input", 1)
    check_sub(input, other)
    alpha = check_alpha(alpha, input, other)
    return binary(ROW_rsub, "RsubBackward1" if not isinstance(other, Tensor) else "SubBackward0", "rsub", input, other, SAME, None, False, alpha)


# ---- division -----------------------------------------------------------------------------------
cdef object divide(object input, object other, object mode, object out, bint inplace):
    if mode is None:
        return binary(ROW_div, "DivBackward0", "div", input, other, FLOAT, out, inplace, None)
    if mode not in ("trunc", "floor"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")
    dt = result_type_of(input, other)
    if dt == BOOL:
        raise NotImplementedError(f"\"div_{mode}_cpu\" not implemented for 'Bool'")
    return binary(row_id("div_" + mode), "DivBackward1", "div", input, other, SAME, out, inplace, None)

def div(input, other, *, rounding_mode=None, out=None):
    """input / other, broadcast: true division, or rounded with rounding_mode "trunc" or "floor"."""
    first_operand(input, other, "div")
    return divide(input, other, rounding_mode, out, False)

def div_(input, other, *, rounding_mode=None):
    """In-place version of div()."""
    tensor_arg(input, "div_", "input", 1)
    return divide(input, other, rounding_mode, input, True)

def floor_divide(input, other, *, out=None):
    """Division rounded towards minus infinity; differentiating it raises NotImplementedError."""
    if result_type_of(input, other) == BOOL:
        raise NotImplementedError("\"div_floor_cpu\" not implemented for 'Bool'")
    if out is not None:
        refuse_out("aten::floor_divide", <Tensor?>out, False)
    cdef Tensor y = binary(row_id("div_floor"), None, "floor_divide", input, other, SAME, out, False, None)
    if dt_.is_float(y.dt):
        record(y, "NotImplemented", _no_floor_divide, (input if isinstance(input, Tensor) else None,
                                                       other if isinstance(other, Tensor) else None), None, None)
    return y

def _no_floor_divide(node, g):
    raise NotImplementedError("derivative for aten::floor_divide is not implemented")

def floor_divide_(input, other):
    """In-place version of floor_divide()."""
    return binary(row_id("div_floor"), None, "floor_divide", tensor_arg(input, "floor_divide_", "input", 1), other, SAME, input, True, None)


cdef object modulo(str name, str node, object input, object other, object out, bint inplace):
    if result_type_of(input, other) == BOOL:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    return binary(row_id(name), node, name, input, other, SAME, out, inplace, None)

def remainder(input, other, *, out=None):
    """Python's input % other, with the sign of the divisor."""
    return modulo("remainder", "RemainderBackward0", input, other, out, False)

def remainder_(input, other):
    """In-place version of remainder()."""
    return modulo("remainder", "RemainderBackward0", tensor_arg(input, "remainder_", "input", 1), other, input, True)

def fmod(input, other, *, out=None):
    """Remainder of the division truncated towards zero, with the sign of input."""
    return modulo("fmod", "FmodBackward0", tensor_arg(input, "fmod", "input", 1), other, out, False)

def fmod_(input, other):
    """In-place version of fmod()."""
    return modulo("fmod", "FmodBackward0", tensor_arg(input, "fmod_", "input", 1), other, input, True)


# ---- powers -------------------------------------------------------------------------------------
cdef dict SPECIAL_POWERS = {0.5: "pow_half", 1.5: "pow_three_halves", 2.0: "square", 3.0: "cube", 4.0: "pow_four",
                            -0.5: "pow_minus_half", -1.0: "pow_minus_one", -2.0: "pow_minus_two"}


cdef object power(object base, object exponent, object out, bint inplace):
    cdef Tensor x
    cdef int dt
    if isinstance(base, Tensor) and not isinstance(exponent, Tensor):
        x = <Tensor>base
        if not is_number(exponent):
            raise TypeError(f"pow(): argument 'exponent' (position 2) must be Tensor or Number, not {type(exponent).__name__}")
        dt = result_type_of(base, exponent)
        if dt_.is_float(dt):
            return apply_row(row_id(SPECIAL_POWERS.get(exponent, "pow_scalar")), "PowBackward0", x, None, None, 0, 0, 0, 1, dt, dt,
                             maybe(out), inplace, as_real(exponent, F64), 0, 0)
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return apply_row(row_id("ipow_scalar"), None, x, None, None, 0, 0, 0, 1, I64, dt, maybe(out), inplace,
                         checked_number(exponent, dt), 0, 0)
    dt = result_type_of(base, exponent)
    if dt == BOOL:
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")
    if not dt_.is_float(dt):
        return binary(row_id("ipow"), None, "pow", base, exponent, SAME, out, inplace, None)
    return binary(row_id("pow"), "PowBackward1", "pow", base, exponent, SAME, out, inplace, None)

def pow(input, exponent, *, out=None):
    """input ** exponent, broadcast; either may be a number."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError(f"pow(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return power(input, exponent, out, False)

def pow_(input, exponent):
    """In-place version of pow()."""
    return power(tensor_arg(input, "pow_", "input", 1), exponent, input, True)

for fn in (add, sub, rsub, div, floor_divide, remainder, fmod, pow):
    define(fn, fn.__name__, fn.__doc__)
define(rsub, "rsub", rsub.__doc__, False)
for fn in (add_, sub_, div_, floor_divide_, remainder_, fmod_, pow_):
    define(fn, fn.__name__, fn.__doc__, True, False)
for name, fn in dict(subtract=sub, divide=div, true_divide=div).items():
    FUNCTIONS[name] = fn
    add_method(name, fn)


include "pointwise_more.pxi"
