"""Ops that copy or overwrite: clone, to, copy_, fill_, repeat and their kin."""
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport is_number, sum_to_shape
from tensotron._core cimport dtype as dt_
from tensotron._core.creation cimport new_like
from tensotron._core.tensor cimport (
    FnNode, Node, Tensor, add_edge, add_method, any_requires, as_view, attach, cast, check_inplace, contiguous, copy_into,
    empty, empty_like, empty_of, empty_strided, fill_with, grad_enabled, make_size, next_seq, parse_sizes, rebase, record,
    same_shape, set_geometry, shape_of)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8

from tensotron._core import geometry

FUNCTIONS = {}


cdef Tensor self_arg(object x, str op):
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    return <Tensor>x


cdef object expose(object fn, bint function=True, bint method=True):
    fn.__qualname__ = fn.__name__
    if function:
        FUNCTIONS[fn.__name__] = fn
    if method:
        add_method(fn.__name__, fn)
    return fn


def _same_backward(FnNode node, g):
    return g


def clone(input, *, memory_format=None):
    """A copy with its own memory; the gradient passes through."""
    cdef Tensor x = self_arg(input, "clone"), out = new_like(x, x.dt, memory_format)
    copy_into(out, x)
    return record(out, "CloneBackward0", _same_backward, (x,), None, None)


def contiguous_(self, memory_format=geometry.contiguous_format):
    """The tensor itself if its elements lie in order, else a copy in which they do."""
    cdef Tensor x = <Tensor?>self
    if x.is_contiguous(memory_format) if memory_format is not geometry.contiguous_format else x.contiguous:
        return x
    if memory_format is geometry.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return clone(x, memory_format=memory_format)


# ==== conversion ====================================================================================
def _to_backward(FnNode node, Tensor g):
    return convert(g, node.ctx, False, None)


cdef Tensor convert(Tensor x, int dt, bint copy, object memory_format):
    cdef Tensor out
    if x.dt == dt and not copy and (memory_format is None or memory_format is geometry.preserve_format
                                    or x.is_contiguous(memory_format)):
        return x
    out = new_like(x, dt, memory_format)
    copy_into(out, x)
    if not dt_.is_float(dt):
        return out
    return record(out, "ToCopyBackward0", _to_backward, (x if dt_.is_float(x.dt) else None,), None, x.dt)


def to(self, *args, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None, other=None):
    """Converted to a dtype and a device: to(dtype), to(device, dtype), to(other); itself if nothing changes."""
    cdef Tensor x = <Tensor?>self
    for i, a in enumerate(args):
        if isinstance(a, dt_.dtype) or a is float or a is int or a is bool:
            dtype = a
        elif isinstance(a, Tensor):
            dtype = a.dtype
        elif isinstance(a, bool):
            if i and not isinstance(args[i - 1], bool):
                non_blocking = a
            else:
                copy = a
        elif isinstance(a, (str, geometry.device, int)):
            device = a
        elif a is not None:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(a).__name__})")
    if other is not None:
        dtype = other.dtype
    if not args and dtype is None and device is None and not copy and memory_format is None and other is None:
        raise TypeError("to() received an invalid combination of arguments - got ()")
    geometry.require_cpu(device)
    return convert(x, dt_.code_of(dtype, x.dt), copy, memory_format)


cdef object caster(str name, int dt):
    def method(self, memory_format=None):
        return convert(<Tensor?>self, dt, False, memory_format)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Converted to {dt_.of_code(dt)}; the tensor itself if it has that dtype."
    add_method(name, method)
    return method

for name, code in {"float": F32, "double": F64, "long": I64, "int": I32, "byte": U8, "bool": BOOL}.items():
    caster(name, code)


def type(self, dtype=None, non_blocking=False):
    """Name of the tensor's type, or the tensor converted to `dtype` (a dtype or such a name)."""
    cdef Tensor x = <Tensor?>self
    if dtype is None:
        return "torch." + TYPE_NAMES[x.dt]
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2]
        if short not in TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype}'")
        return convert(x, TYPE_NAMES.index(short), False, None)
    return convert(x, dt_.code_of(dtype, x.dt), False, None)

TYPE_NAMES = ["FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor"]


def type_as(self, Tensor other not None):
    """Converted to the dtype of `other`."""
    return convert(<Tensor?>self, other.dt, False, None)


def cpu(self, memory_format=None):
    """The tensor on the CPU: itself."""
    return self


def cuda(self, device=None, non_blocking=False, memory_format=None):
    """A copy on the GPU."""
    geometry.require_cpu("cuda")


# ==== writing in place ==============================================================================
def _copy_backward(FnNode node, Tensor g):
    """The tensor written to gets no gradient, the source gets it back in its shape and dtype."""
    out = None
    if node.needs(1):
        out = sum_to_shape(convert(g, node.ctx[1], False, None), node.ctx[0])
    return (g.new_zeros(g.shape) if node.needs(0) else None, out)


cdef FnNode inplace_node(str name, object backward, tuple inputs, object ctx, Tensor x):
    cdef FnNode node
    if not grad_enabled() or not dt_.is_float(x.dt) or not any_requires(inputs):
        return None
    node = FnNode.__new__(FnNode)
    node.node_name = name
    node.backward = backward
    node.ctx = ctx
    node.seq = next_seq()
    node.n_out = 1
    node.out_dtype = x.dt
    for t in inputs:
        add_edge(node, t if t is not None and dt_.is_float((<Tensor>t).dt) else None)
    return node


def copy_(self, src, non_blocking=False):
    """Writes src, broadcast and converted, into this tensor."""
    cdef Tensor x = <Tensor?>self, s
    cdef Node node = None
    cdef bint requires
    if not isinstance(src, Tensor):
        if not is_number(src):
            raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {src.__class__.__name__}")
        return fill_(x, src)
    s = <Tensor>src
    requires = x.requires() or s.requires()
    check_inplace(x, requires)
    if not broadcasts_to(s, x):
        if s.nd > x.nd:
            raise RuntimeError(f"output with shape {list(shape_of(x))} doesn't match the broadcast shape {list(shape_of(s))}")
        for d in range(s.nd):
            e = d + x.nd - s.nd
            if s.sizes[d] != 1 and s.sizes[d] != x.sizes[e]:
                raise RuntimeError(f"The size of tensor a ({x.sizes[e]}) must match the size of tensor b ({s.sizes[d]}) at non-singleton "
                                   f"dimension {e}")
    if x is s:
        return x
    node = inplace_node("CopyBackwards", _copy_backward, (x, s), (shape_of(s), s.dt), x)
    if s.storage is x.storage and s.n:
        s = contiguous_copy(s)
    copy_into(x, s)
    rebase(x, node)
    return x


cdef Tensor contiguous_copy(Tensor s):
    cdef Tensor out = empty(s.nd, s.sizes, s.dt)
    copy_into(out, s)
    return out


cdef bint broadcasts_to(Tensor s, Tensor x) noexcept:
    cdef int d, e
    if s.nd > x.nd:
        return False
    for d in range(s.nd):
        e = d + x.nd - s.nd
        if s.sizes[d] != x.sizes[e] and s.sizes[d] != 1:
            return False
    return True


def _fill_backward(FnNode node, Tensor g):
    value = None
    if node.n_next > 1 and node.needs(1):
        value = g.sum()
        if node.ctx is not None:
            value = convert(value, node.ctx, False, None)
    zero = g.new_zeros(g.shape) if node.needs(0) else None
    return zero if node.n_next == 1 else (zero, value)


def fill_(self, value):
    """Writes one value, a number or a 0-dim tensor, everywhere."""
    cdef Tensor x = <Tensor?>self, v = None
    cdef Node node = None
    cdef bint requires
    if isinstance(value, Tensor):
        v = <Tensor>value
        if v.nd != 0:
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {v.nd} dimensions.")
    elif not is_number(value):
        raise TypeError(f"fill_(): argument 'value' (position 1) must be Tensor or Number, not {value.__class__.__name__}")
    requires = x.requires() or (v is not None and v.requires())
    check_inplace(x, requires)
    if v is not None:
        node = inplace_node("FillBackward3", _fill_backward, (x, v), v.dt, x)
    else:
        node = inplace_node("FillBackward2", _fill_backward, (x,), None, x)
    if v is not None:
        copy_into(x, contiguous_copy(v) if v.storage is x.storage else v)
    else:
        fill_with(x, value)
    rebase(x, node)
    return x


def fill(input, value):
    """A copy of input's shape filled with `value`."""
    return fill_(clone(input), value)


def zero_(self):
    """Writes zeros everywhere."""
    cdef Tensor x = <Tensor?>self
    cdef Node node
    check_inplace(x, x.requires())
    node = inplace_node("ZeroBackward0", _fill_backward, (x,), None, x)
    fill_with(x, 0)
    rebase(x, node)
    return x


def zero(input):
    """Zeros of the shape of input."""
    return zero_(clone(input))


def resize_(self, *sizes, memory_format=None):
    """Changes the shape; memory grows if needed and is not initialised then."""
    cdef Tensor x = <Tensor?>self, grown
    cdef int64_t s[64]
    cdef int nd = parse_sizes(sizes, s), d
    cdef int64_t n = 1, offset = x.ptr - x.storage.data
    if x.requires():
        raise RuntimeError("cannot resize variables that require grad")
    for d in range(nd):
        n *= s[d]
    if offset + n * backend.item_size(x.dt) > <int64_t>x.storage.nbytes:
        if x.storage.owner is not None:
            raise RuntimeError("Trying to resize storage that is not resizable")
        grown = empty(nd, s, x.dt)
        if x.n and x.contiguous:
            copy_into(as_view(grown, 1, &x.n, NULL, 0), as_view(x, 1, &x.n, NULL, 0))
        # every tensor on this storage follows
        grown.storage.data, x.storage.data = x.storage.data, grown.storage.data
        grown.storage.nbytes, x.storage.nbytes = x.storage.nbytes, grown.storage.nbytes
        grown.storage.capacity, x.storage.capacity = x.storage.capacity, grown.storage.capacity
        x.ptr = x.storage.data
    set_geometry(x, nd, s, NULL)
    return x


def resize_as_(self, Tensor other not None, memory_format=None):
    """resize_(other.size())."""
    return resize_(self, shape_of(other))


# ==== repetition =====================================================================================
def _repeat_backward(FnNode node, Tensor g):
    shape, reps = node.ctx
    lead = len(reps) - len(shape)
    parts, dims = [], []
    for d, r in enumerate(reps):
        size = shape[d - lead] if d >= lead else 1
        dims.append(len(parts))
        parts += [r, size]
    if 0 in reps:
        return g.new_zeros(shape)
    return g.reshape(parts).sum(dims).reshape(shape)


def repeat(self, *repeats):
    """Copies of the tensor laid side by side, `repeats` along each dimension."""
    cdef Tensor x = <Tensor?>self, out, tiled
    cdef int64_t r[64]
    cdef int64_t s[64]
    cdef int64_t in_s[64]
    cdef int64_t in_st[64]
    cdef int64_t size
    cdef int nd = parse_sizes(repeats, r), d, lead
    if nd < x.nd:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    lead = nd - x.nd
    for d in range(nd):
        if r[d] < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {r[d]}: {[r[i] for i in range(nd)]}")
        s[d] = (x.sizes[d - lead] if d >= lead else 1) * r[d]
    out = empty(nd, s, x.dt)
    if out.n:
        # out as (r0, s0, r1, s1, ...), the input broadcast along every r
        for d in range(nd):
            size = x.sizes[d - lead] if d >= lead else 1
            in_s[2 * d], in_st[2 * d] = r[d], size * out.strides[d]
            in_s[2 * d + 1], in_st[2 * d + 1] = size, out.strides[d]
        tiled = as_view(out, 2 * nd, in_s, in_st, 0)
        for d in range(nd):
            in_st[2 * d] = 0
            in_st[2 * d + 1] = x.strides[d - lead] if d >= lead else 0
        copy_into(tiled, as_view(x, 2 * nd, in_s, in_st, 0))
    return record(out, "RepeatBackward0", _repeat_backward, (x,), None, (tuple(shape_of(x)), tuple([r[d] for d in range(nd)])))


def tile(input, *dims):
    """repeat() that allows fewer numbers than dimensions."""
    cdef Tensor x = self_arg(input, "tile")
    reps = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return repeat(x, (1,) * (x.nd - len(reps)) + reps)


for fn in (clone, fill, zero, tile):
    expose(fn)
for fn in (to, type, type_as, cpu, cuda, copy_, fill_, zero_, resize_, resize_as_, repeat):
    expose(fn, False)
FUNCTIONS["zero_"], FUNCTIONS["fill_"] = zero_, fill_
add_method("contiguous", contiguous_)
