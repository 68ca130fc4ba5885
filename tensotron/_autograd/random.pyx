"""Random numbers: filling in place, factories, bernoulli, normal and multinomial."""
from libc.stdint cimport int64_t, uint64_t

from tensotron._autograd.join import FUNCTIONS as JOIN
from tensotron._autograd.copies cimport inplace_node
from tensotron._core.arguments cimport float_arg, int_arg, is_integer, refuse_out, resize_out, size_args
from tensotron._core cimport dtype as dt_
from tensotron._core.creation cimport finish, like, sized
from tensotron._core.generator cimport Generator, generator_of
from tensotron._core.tensor cimport (
    FnNode, Tensor, add_method, alias, any_requires, as_view, begin, check_inplace, contiguous, empty, empty_like, grad_enabled,
    rebase, record, set_arg, shape_of)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, OK, PROBABILITY_OUT_OF_RANGE, U8, Record

import warnings
from tensotron._core.arguments import invalid

cdef extern from *:
    """
    #include "tensotron/_cpu/random.h"
    """
    enum: K_random "tensotron::K_random"
    enum: RANDOM_uniform "tensotron::RANDOM_uniform"
    enum: RANDOM_normal "tensotron::RANDOM_normal"
    enum: RANDOM_random_from_to "tensotron::RANDOM_random_from_to"
    enum: RANDOM_random_full_range "tensotron::RANDOM_random_full_range"
    enum: RANDOM_random_default "tensotron::RANDOM_random_default"
    enum: RANDOM_bernoulli "tensotron::RANDOM_bernoulli"
    enum: RANDOM_bernoulli_tensor "tensotron::RANDOM_bernoulli_tensor"
    enum: RANDOM_exponential "tensotron::RANDOM_exponential"
    enum: RANDOM_geometric "tensotron::RANDOM_geometric"
    enum: RANDOM_log_normal "tensotron::RANDOM_log_normal"
    enum: RANDOM_cauchy "tensotron::RANDOM_cauchy"
    enum: RANDOM_randperm "tensotron::RANDOM_randperm"
    enum: RANDOM_multinomial "tensotron::RANDOM_multinomial"
    enum: RANDOM_dropout_noise "tensotron::RANDOM_dropout_noise"
    enum: RANDOM_dropout "tensotron::RANDOM_dropout"
    enum: RANDOM_rrelu "tensotron::RANDOM_rrelu"

FUNCTIONS = {}

TITLES = ("Float", "Double", "Long", "Int", "Byte", "Bool")
C_NAMES = ("float", "double", "long int", "int", "unsigned char", "bool")
DIGITS = (24, 53)                 # of the mantissas of float32 and float64
LARGEST = (3.4028234663852886e38, 1.7976931348623157e308)
FACTORY = ", Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, bool pin_memory = " \
          "False, bool requires_grad = False"


cdef object expose(object fn, bint function, bint method):
    fn.__qualname__ = fn.__name__
    if function:
        FUNCTIONS[fn.__name__] = fn
    if method:
        add_method(fn.__name__, fn)
    return fn


# ==== launch ==========================================================================================
cdef int launch_draw(Record* r, Generator g, Tensor out, tuple more) except -1:
    """Draws the elements of `out` in torch's order; `more`: further operands of its shape."""
    cdef int d, k, n = 1 + len(more)
    cdef Tensor t
    cdef bint flat = out.contiguous
    cdef int64_t stride
    if out.n == 0:
        return 0
    r.state = &g.state
    backend.note_held(g)
    set_arg(r, 0, out)
    for k in range(1, n):
        t = <Tensor>more[k - 1]
        set_arg(r, k, t)
        flat = flat and t.contiguous
    if flat:
        r.ndim = 1
        r.size[0] = out.n
        for k in range(n):
            r.arg[k].stride[0] = 1
    else:
        # neighbours are merged only where there is no room: the order of drawing depends on the dimensions
        r.ndim = 0
        for d in range(out.nd):
            if out.nd > 8 and (out.sizes[d] == 1 or merge(r, n, out, more, d)):
                continue
            if r.ndim == 8:
                raise NotImplementedError("random numbers for a tensor of more than 8 separate dimensions")
            r.size[r.ndim] = out.sizes[d]
            for k in range(n):
                r.arg[k].stride[r.ndim] = (out if k == 0 else <Tensor>more[k - 1]).strides[d]
            r.ndim += 1
        backend.random_order(r)
    return backend.launch(r)


cdef bint merge(Record* r, int n, Tensor out, tuple more, int d):
    """Whether dimension d was merged into the record's last one."""
    cdef int k, last = r.ndim - 1
    if last < 0:
        return False
    for k in range(n):
        if r.arg[k].stride[last] != (out if k == 0 else <Tensor>more[k - 1]).strides[d] * out.sizes[d]:
            return False
    for k in range(n):
        r.arg[k].stride[last] = (out if k == 0 else <Tensor>more[k - 1]).strides[d]
    r.size[last] *= out.sizes[d]
    return True


cdef int draw(int op, Generator g, Tensor out, double a, double b) except -1:
    """A distribution of two real parameters."""
    cdef Record r
    begin(&r, K_random, op, 1, 0, out.dt)
    r.reals[0] = a
    r.reals[1] = b
    r.ints[0] = out.contiguous
    return launch_draw(&r, g, out, ())


cdef int draw_integers(int op, Generator g, Tensor out, uint64_t span, int64_t base) except -1:
    cdef Record r
    begin(&r, K_random, op, 1, 0, out.dt)
    r.ints[0] = <int64_t>span
    r.ints[1] = base
    return launch_draw(&r, g, out, ())


cdef int draw_bernoulli(Generator g, Tensor out, Tensor p) except -1:
    """out = 1 with probability p, element by element; p of out's shape."""
    cdef Record r
    begin(&r, K_random, RANDOM_bernoulli_tensor, 1, 1, out.dt)
    return launch_draw(&r, g, out, (p,))


cdef int draw_noise(Generator g, Tensor noise, double p) except -1:
    return draw(RANDOM_dropout_noise, g, noise, p, 0)


cdef int draw_dropout(Generator g, Tensor noise, Tensor out, Tensor x, double p) except -1:
    cdef Record r
    begin(&r, K_random, RANDOM_dropout, 2, 1, x.dt)
    r.reals[0] = p
    return launch_draw(&r, g, noise, (out, x))


cdef int draw_slopes(Generator g, Tensor noise, Tensor out, Tensor x, double lower, double upper) except -1:
    cdef Record r
    begin(&r, K_random, RANDOM_rrelu, 2, 1, x.dt)
    r.reals[0] = lower
    r.reals[1] = upper
    return launch_draw(&r, g, noise, (out, x))


# ==== parameters ======================================================================================
cdef int need_float(Tensor t, str kernel) except -1:
    if not dt_.is_float(t.dt):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{TITLES[t.dt]}'")
    return 0


cdef int check_std(double std) except -1:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    return 0


cdef int fill_uniform(Generator g, Tensor t, double low, double high) except -1:
    need_float(t, "check_uniform_bounds")
    limit = LARGEST[t.dt]
    for name, v in (("from", low), ("to", high)):
        if not -limit <= v <= limit:
            raise RuntimeError(f"{name} is out of bounds for {C_NAMES[t.dt]}")
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if not high - low <= limit:
        raise RuntimeError(f"uniform_ expects to-from <= std::numeric_limits<{TITLES[t.dt]}>::max(), but found to={high:g} and "
                           f"from={low:g} which result in to-from to exceed the limit")
    return draw(RANDOM_uniform, g, t, low, high)


cdef int fill_normal(Generator g, Tensor t, double mean, double std) except -1:
    check_std(std)
    if t.n:
        need_float(t, "normal_kernel_cpu")
    return draw(RANDOM_normal, g, t, mean, std)


cdef int64_t rounded(int dt, int64_t v) noexcept:
    """v as it is after a conversion to the floating dtype and back."""
    return <int64_t><float>v if dt == F32 else <int64_t><double>v


cdef int64_t spacing(int dt, int64_t v) noexcept:
    """Distance of neighbouring values of the floating dtype near v."""
    cdef uint64_t magnitude = <uint64_t>v if v >= 0 else 0 - <uint64_t>v
    cdef int exponent = 0
    while magnitude >> 1:
        magnitude >>= 1
        exponent += 1
    return (<int64_t>1) << (exponent - (24 if dt == F32 else 53) + 1)


cdef int64_t first_inside(int dt, int64_t low) noexcept:
    """The lower bound, moved up to a value of the dtype if the bound itself is rounded down."""
    cdef int64_t v = rounded(dt, low + 1)
    return v + spacing(dt, low + 1) if v < low else low


cdef int64_t end_inside(int dt, int64_t end) noexcept:
    """The end, moved down if the largest number below it is rounded up to it."""
    cdef int64_t v = rounded(dt, end - 1)
    return v - spacing(dt, end - 1) if v >= end else end


cdef int check_integers(int dt, int64_t low, int64_t last) except -1:
    """The bounds must be values of the dtype; a warning where not all numbers between them are."""
    if dt_.is_float(dt):
        digits = DIGITS[dt]
        for name, v in (("from", low), ("to - 1", last)):
            if not -(1 << digits) <= v <= 1 << digits:
                warnings.warn(f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {C_NAMES[dt]} can "
                              "support discrete uniform distribution only within this range. This warning will become an error in "
                              "version 1.7 release, please fix the code in advance", UserWarning, stacklevel=3)
        return 0
    least, most = smallest(dt), largest(dt)
    for name, v in (("from", low), ("to - 1", last)):
        if not least <= v <= most:
            raise RuntimeError(f"{name} is out of bounds for {C_NAMES[dt]}")
    return 0


cdef int64_t smallest(int dt) noexcept:
    return <int64_t>((<uint64_t>1) << 63) if dt == I64 else -(<int64_t>1 << 31) if dt == I32 else 0


cdef int64_t largest(int dt) noexcept:
    return 0x7fffffffffffffff if dt == I64 else 0x7fffffff if dt == I32 else 255 if dt == U8 else 1


cdef int fill_integers(Generator g, Tensor t, int64_t low, int64_t end) except -1:
    """Integers of [low, end)."""
    if low >= end:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={end}")
    if dt_.is_float(t.dt):
        low, end = first_inside(t.dt, low), end_inside(t.dt, end)
        if low >= end:
            raise RuntimeError(f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={low} >= "
                               f"to={end}")
    check_integers(t.dt, low, end - 1)
    return draw_integers(RANDOM_random_from_to, g, t, <uint64_t>end - <uint64_t>low, low)


cdef int fill_integers_from(Generator g, Tensor t, int64_t low) except -1:
    """Integers from low to the largest that the dtype holds exactly."""
    cdef int64_t last
    if low == smallest(I64):
        if t.dt == I32 or t.dt == U8 or t.dt == BOOL:
            raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
        return draw_integers(RANDOM_random_full_range, g, t, 0, 0)
    if dt_.is_float(t.dt):
        last = (<int64_t>1) << (24 if t.dt == F32 else 53)
        low = first_inside(t.dt, low)
        if low >= last:
            raise RuntimeError(f"random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got "
                               f"from={low} > to_inc={last}")
    else:
        last = largest(t.dt)
    check_integers(t.dt, low, last)
    return draw_integers(RANDOM_random_from_to, g, t, <uint64_t>last - <uint64_t>low + 1, low)


# ==== in place ========================================================================================
def _zeros_backward(FnNode node, Tensor g):
    """What a random number replaced, and what it was drawn by, get no gradient."""
    out = []
    for i in range(node.n_next):
        shape = g.shape if node.ctx is None else node.ctx[i]
        out.append(g.new_zeros(shape) if node.needs(i) else None)
    return out[0] if node.n_next == 1 else tuple(out)


cdef Tensor writable(object self):
    cdef Tensor x = <Tensor?>self
    check_inplace(x, x.requires())
    return x


cdef Tensor written(Tensor x, str node):
    rebase(x, inplace_node(node, _zeros_backward, (x,), None, x))
    return x


cdef int two(str op, tuple args, dict kw, str first, str second, double* a, double* b) except -1:
    """Two real parameters, by position or by name; a and b hold what is taken without them."""
    if len(args) > 2:
        raise TypeError(f"{op}() takes from 0 to 2 positional arguments but {len(args)} were given")
    if len(args) > 0:
        a[0] = float_arg(args[0], op, first, 1)
    if len(args) > 1:
        b[0] = float_arg(args[1], op, second, 2)
    for k in kw:
        if k == first and len(args) < 1:
            a[0] = float_arg(kw[k], op, first, 1)
        elif k == second and len(args) < 2:
            b[0] = float_arg(kw[k], op, second, 2)
        elif k in (first, second):
            raise TypeError(f"{op}() got multiple values for argument '{k}'")
        else:
            raise TypeError(f"{op}() got an unexpected keyword argument '{k}'")
    return 0


def uniform_(self, *args, generator=None, **kw):
    """uniform_(from=0, to=1): numbers of [from, to), in place."""
    cdef Tensor x = writable(self)
    cdef double low = 0, high = 1
    two("uniform_", args, kw, "from", "to", &low, &high)
    fill_uniform(generator_of(generator, "uniform_"), x, low, high)
    return written(x, "UniformBackward0")


def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Normally distributed numbers, in place."""
    cdef Tensor x = writable(self)
    fill_normal(generator_of(generator, "normal_"), x, float_arg(mean, "normal_", "mean", 1), float_arg(std, "normal_", "std", 2))
    return written(x, "NormalBackward0")


def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """exp of normally distributed numbers, in place."""
    cdef Tensor x = writable(self)
    cdef double m = float_arg(mean, "log_normal_", "mean", 1), s = float_arg(std, "log_normal_", "std", 2)
    if not s > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={s:g}")
    need_float(x, "log_normal_cpu")
    draw(RANDOM_log_normal, generator_of(generator, "log_normal_"), x, m, s)
    return written(x, "LogNormalBackward0")


def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Numbers of a Cauchy distribution, in place."""
    cdef Tensor x = writable(self)
    cdef double m = float_arg(median, "cauchy_", "median", 1), s = float_arg(sigma, "cauchy_", "sigma", 2)
    if not s > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={s:g}")
    if not dt_.is_float(x.dt):
        raise RuntimeError("Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
                           f"specified {C_NAMES[x.dt]}")
    draw(RANDOM_cauchy, generator_of(generator, "cauchy_"), x, m, s)
    return written(x, "CauchyBackward0")


def exponential_(self, lambd=1.0, *, generator=None):
    """Numbers of an exponential distribution of rate lambd, in place."""
    cdef Tensor x = writable(self)
    cdef double rate = float_arg(lambd, "exponential_", "lambd", 1)
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    if not dt_.is_float(x.dt):
        raise RuntimeError("Exponential distribution is a continuous probability distribution. dtype must be a floating point but you "
                           f"specified {TITLES[x.dt]}")
    draw(RANDOM_exponential, generator_of(generator, "exponential_"), x, rate, 0)
    return written(x, "ExponentialBackward0")


def geometric_(self, p, *, generator=None):
    """Numbers of trials up to the first success of probability p, in place."""
    cdef Tensor x = writable(self)
    cdef double chance = float_arg(p, "geometric_", "p", 1)
    if not 0 < chance < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={chance:g}")
    if x.dt == BOOL:
        raise NotImplementedError("\"geometric_cpu\" not implemented for 'Bool'")
    draw(RANDOM_geometric, generator_of(generator, "geometric_"), x, chance, 0)
    return written(x, "GeometricBackward0")


def random_(self, *args, generator=None, **kw):
    """random_(from=0, to): integers of [from, to), in place; without `to` up to what the dtype holds exactly."""
    cdef Tensor x = writable(self)
    cdef Generator g = generator_of(generator, "random_")
    cdef bint bounded = "from" in kw or len(args) + ("to" in kw) > 1
    names = ["from", "to"] if bounded else ["to"]
    if len(args) > 2:
        raise TypeError(f"random_() takes 2 positional arguments but {len(args)} were given")
    values = dict(zip(names, args))
    if set(kw) & set(values) or not set(kw) <= {"from", "to"} or not all(is_integer(v) or (n == "to" and bounded and v is None) for n, v in
                                                                            [*values.items(), *kw.items()]):
        raise invalid("random_", args, kw, "*, torch.Generator generator = None", "int from, int to, *, torch.Generator generator = None",
                      "int to, *, torch.Generator generator = None")
    values.update(kw)
    if not values:
        draw_integers(RANDOM_random_default, g, x, 0, 0)
        return written(x, "RandomBackward2")
    low, end = values.get("from", 0), values.get("to")
    if end is None:
        fill_integers_from(g, x, int_arg(low, "random_", "from", 1))
    else:
        fill_integers(g, x, int_arg(low, "random_", "from", 1), int_arg(end, "random_", "to", 2))
    return written(x, "RandomBackward0" if bounded else "RandomBackward1")


cdef double probability(object p) except? -1:
    cdef double v = p
    if not 0 <= v <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={v:g}")
    return v


cdef Tensor probabilities(object p, Tensor x):
    """The tensor p, broadcast to x."""
    cdef Tensor t = <Tensor>p
    need_float(t, "bernoulli_tensor_cpu_p_")
    return <Tensor>t.detach().expand(shape_of(x))


def bernoulli_(self, p=0.5, *, generator=None):
    """1 with probability p, a number or a tensor that broadcasts, else 0; in place."""
    cdef Tensor x = <Tensor?>self
    cdef Generator g = generator_of(generator, "bernoulli_")
    if isinstance(p, Tensor):
        check_inplace(x, x.requires() or (<Tensor>p).requires())
        draw_bernoulli(g, x, probabilities(p, x))
        rebase(x, inplace_node("BernoulliBackward1", _zeros_backward, (x, p), (shape_of(x), shape_of(<Tensor>p)), x))
        return x
    if not isinstance(p, (float, int)) and dt_.scalar_code(p) < 0:
        raise invalid("bernoulli_", (p,), {}, "Tensor p, *, torch.Generator generator = None",
                      "float p = 0.5, *, torch.Generator generator = None")
    check_inplace(x, x.requires())
    draw(RANDOM_bernoulli, g, x, probability(p), 0)
    return written(x, "BernoulliBackward2")


for fn in (uniform_, normal_, log_normal_, cauchy_, exponential_, geometric_, random_, bernoulli_):
    expose(fn, False, True)


# ==== of a tensor =====================================================================================
cdef Tensor into(object out, Tensor shaped, str op):
    """`out`, resized to the shape."""
    cdef Tensor t = <Tensor?>out
    refuse_out(op, t, shaped.requires())
    check_inplace(t, False)
    resize_out(t, shaped.nd, shaped.sizes, False)
    t.bump()
    return t


def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with the probability that `input` (or the number p) says, else 0."""
    cdef Tensor x, t
    cdef Generator g = generator_of(generator, "bernoulli")
    if not isinstance(input, Tensor):
        raise TypeError(f"bernoulli(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    x = <Tensor>input
    t = empty(x.nd, x.sizes, x.dt) if out is None else into(out, x, "bernoulli")
    if p is not None:
        draw(RANDOM_bernoulli, g, t, probability(float_arg(p, "bernoulli", "p", 2)), 0)
        return t
    draw_bernoulli(g, t, probabilities(x, x))
    return record(t, "BernoulliBackward0", _zeros_backward, (x,), None, None)


NORMAL = ("Tensor mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
          "Tensor mean, float std = 1, *, torch.Generator generator = None, Tensor out = None",
          "float mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
          "float mean, float std, tuple of ints size, *, torch.Generator generator = None" + FACTORY)


def normal(mean, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None, device=None, bint pin_memory=False,
           bint requires_grad=False):
    """Normally distributed numbers. Mean and deviation: tensors that broadcast, or numbers; both numbers
    need a size.

    Raises:
        RuntimeError: a deviation is negative.
    """
    cdef Tensor t, m = None, s = None
    cdef Generator g = generator_of(generator, "normal")
    numbers = [not isinstance(v, Tensor) and dt_.scalar_code(v) >= 0 for v in (mean, std)]
    if numbers[0] and numbers[1] and isinstance(size, (tuple, list)):
        t = sized("normal", (), size, dtype, device, layout, pin_memory, out)
        fill_normal(g, t, mean, std)
        return finish(t, requires_grad)
    if size is not None or dtype is not None or not ((numbers[0] or isinstance(mean, Tensor)) and (numbers[1] or isinstance(std, Tensor))
                                                     and not (numbers[0] and numbers[1])):
        raise invalid("normal", (mean, std) if size is None else (mean, std, size), {"dtype": dtype}, *NORMAL)
    if isinstance(mean, Tensor):
        m = <Tensor>mean
    if isinstance(std, Tensor):
        s = <Tensor>std
        if s.n and not bool(s.detach().min() >= 0):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    else:
        check_std(std)
    if m is not None and s is not None:
        shaped = m.detach() + s.detach() if out is not None or m.nd != s.nd or shape_of(m) != shape_of(s) else m
    else:
        shaped = m if m is not None else s
    if out is None:
        t = empty((<Tensor>shaped).nd, (<Tensor>shaped).sizes, (m if m is not None else s).dt)
    else:
        refuse_out("normal", <Tensor?>out, any_requires((m, s)))
        t = into(out, <Tensor>shaped, "normal")
    fill_normal(g, t, 0, std if s is None else 1.0)
    work = alias(t)  # not to be seen by the graph
    if s is not None:
        work.mul_(s.detach())
    work.add_(m.detach() if m is not None else mean)
    if s is None:
        return record(t, "NormalBackward1", _zeros_backward, (m,), None, (shape_of(m),))
    if m is None:
        return record(t, "NormalBackward2", _zeros_backward, (s,), None, (shape_of(s),))
    return record(t, "NormalBackward3", _zeros_backward, (m, s), None, (shape_of(m), shape_of(s)))


MULTINOMIAL = ("invalid multinomial distribution (encountering probability entry < 0)",
               "invalid multinomial distribution (encountering probability entry = infinity or NaN)",
               "invalid multinomial distribution (sum of probabilities <= 0)")


def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with the weights in `input`, a row or rows of them, with or without replacement.

    Raises:
        RuntimeError: weights are negative or not finite, or too few.
    """
    cdef Tensor x, t, w
    cdef Record r
    cdef int64_t shape[2]
    cdef int64_t n, draws
    cdef int status
    cdef Generator g = generator_of(generator, "multinomial")
    if not isinstance(input, Tensor):
        raise TypeError(f"multinomial(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    x = <Tensor>input.detach()
    draws = int_arg(num_samples, "multinomial", "num_samples", 2)
    if x.nd != 1 and x.nd != 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not dt_.is_float(x.dt):
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {TITLES[x.dt]}")
    if out is not None and (<Tensor?>out).dt != I64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {TITLES[(<Tensor>out).dt]}")
    n = x.sizes[x.nd - 1]
    if draws <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and draws > n:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if n > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    shape[0] = x.sizes[0] if x.nd == 2 else 1
    shape[1] = draws
    t = empty(x.nd, &shape[2 - x.nd], I64)
    if t.n and (not replacement or draws == 1):
        t = without_replacement(g, x, draws)
    elif t.n:
        w = contiguous(x)
        begin(&r, K_random, RANDOM_multinomial, 1, 1, I64)
        set_arg(&r, 0, t)
        set_arg(&r, 1, w)
        r.state, r.ndim = &g.state, 2
        backend.note_held(g)
        r.size[0], r.size[1] = shape[0], draws
        r.arg[0].stride[0], r.arg[0].stride[1] = draws, 1
        r.arg[1].stride[0], r.arg[1].stride[1] = n, 1
        r.ints[0] = n
        status = backend.launch_status(&r)
        if status == PROBABILITY_OUT_OF_RANGE:
            raise RuntimeError(MULTINOMIAL[r.error[0]])
        if status != OK:
            backend.raise_status(status, &r)
    if out is None:
        return t
    return into(out, t, "multinomial").copy_(t)


cdef Tensor without_replacement(Generator g, Tensor x, int64_t draws):
    """The largest of weight / exponential number: torch's way, for one draw too."""
    cdef Tensor q = empty_like(x, x.dt)
    if not (bool(x.max() < float("inf")) and bool(x.min() >= 0)):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if bool((x.sum(-1) == 0).any()):
        raise RuntimeError(MULTINOMIAL[2])
    draw(RANDOM_exponential, g, q, 1, 0)
    scores = x / q
    picks = []  # the largest scores in turn
    while len(picks) < draws:
        picks.append(best := scores.argmax(-1, keepdim=True))
        scores.scatter_(-1, best, -1.0)
    return <Tensor>JOIN["cat"](picks, -1)


for fn in (bernoulli, multinomial):
    expose(fn, True, True)
expose(normal, True, False)


# ==== factories =======================================================================================
def rand(*args, size=None, generator=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """Numbers of [0, 1) in a tensor of a size, given as ints or one sequence."""
    cdef Tensor t = sized("rand", args, size, dtype, device, layout, pin_memory, out)
    need_float(t, "check_uniform_bounds")
    draw(RANDOM_uniform, generator_of(generator, "rand"), t, 0, 1)
    return finish(t, requires_grad)


def randn(*args, size=None, generator=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """Standard normal numbers in a tensor of a size, given as ints or one sequence."""
    cdef Tensor t = sized("randn", args, size, dtype, device, layout, pin_memory, out)
    fill_normal(generator_of(generator, "randn"), t, 0, 1)
    return finish(t, requires_grad)


RANDINT = ("int high, tuple of ints size, *, torch.Generator generator = None" + FACTORY,
           "int low, int high, tuple of ints size, *, torch.Generator generator = None" + FACTORY)


def randint(*args, low=None, high=None, size=None, generator=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
            requires_grad=False):
    """randint(low=0, high, size): integers of [low, high)."""
    cdef Tensor t
    given = args
    if size is None and args and isinstance(args[len(args) - 1], (tuple, list)):
        size, given = args[len(args) - 1], args[:len(args) - 1]
    if len(given) == 1 and high is None:
        high = given[0]
    elif len(given) == 1 and low is None:
        low = given[0]
    elif len(given) == 2 and low is None and high is None:
        low, high = given
    elif given:
        size = None
    if not isinstance(size, (tuple, list)) or not is_integer(high) or not (low is None or is_integer(low)):
        raise invalid("randint", args, {"low": low if low not in given else None, "high": high if high not in given else None}, *RANDINT)
    t = sized("randint", (), size, dtype if dtype is not None or out is not None else dt_.of_code(I64), device, layout, pin_memory, out)
    fill_integers(generator_of(generator, "randint"), t, 0 if low is None else int_arg(low, "randint", "low", 1),
                  int_arg(high, "randint", "high", 2))
    return finish(t, requires_grad)


def randperm(n, *, generator=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A permutation of 0 .. n - 1."""
    cdef Tensor t
    cdef Record r
    cdef int64_t count = int_arg(n, "randperm", "n", 1)
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    t = sized("randperm", (), (count,), dtype if dtype is not None or out is not None else dt_.of_code(I64), device, layout, pin_memory, out)
    if t.dt == BOOL:
        raise NotImplementedError("\"randperm\" not implemented for 'Bool'")
    if dt_.is_float(t.dt):
        if count > (1 << DIGITS[t.dt]) + 1:
            raise RuntimeError(f"n cannot be greater than 2^{DIGITS[t.dt]}+1 for {TITLES[t.dt]} type.")
    elif count > largest(t.dt):
        raise RuntimeError(f"value cannot be converted to type {'uint8_t' if t.dt == U8 else 'int'} without overflow")
    begin(&r, K_random, RANDOM_randperm, 1, 0, t.dt)
    launch_draw(&r, generator_of(generator, "randperm"), t, ())
    return finish(t, requires_grad)


def rand_like(input, *, generator=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None):
    """rand() of input's size and dtype."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, pin_memory, "rand_like")
    need_float(t, "check_uniform_bounds")
    draw(RANDOM_uniform, generator_of(generator, "rand_like"), t, 0, 1)
    return finish(t, requires_grad)


def randn_like(input, *, generator=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None):
    """randn() of input's size and dtype."""
    cdef Tensor t = like(input, dtype, device, layout, memory_format, pin_memory, "randn_like")
    fill_normal(generator_of(generator, "randn_like"), t, 0, 1)
    return finish(t, requires_grad)


def randint_like(input, *args, low=None, high=None, generator=None, dtype=None, layout=None, device=None, pin_memory=False,
                 requires_grad=False, memory_format=None):
    """randint_like(input, low=0, high): randint() of input's size and dtype."""
    cdef Tensor t
    if len(args) == 1 and high is None:
        high = args[0]
    elif len(args) == 1 and low is None:
        low = args[0]
    elif len(args) == 2 and low is None and high is None:
        low, high = args
    elif args:
        high = None
    if not isinstance(input, Tensor) or not is_integer(high) or not (low is None or is_integer(low)):
        raise invalid("randint_like", (input, *args), {}, "Tensor input, int high, *, torch.Generator generator = None" + FACTORY,
                      "Tensor input, int low, int high, *, torch.Generator generator = None" + FACTORY)
    t = like(input, dtype, device, layout, memory_format, pin_memory, "randint_like")
    fill_integers(generator_of(generator, "randint_like"), t, 0 if low is None else int_arg(low, "randint_like", "low", 2),
                  int_arg(high, "randint_like", "high", 3))
    return finish(t, requires_grad)


for fn in (rand, randn, randint, randperm, rand_like, randn_like, randint_like):
    expose(fn, True, False)
