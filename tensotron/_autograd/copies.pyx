"""Ops that copy or overwrite: clone, to, copy_, fill_, repeat and their kin."""
import gc

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport dense_overlap, is_number, sum_to_shape
from tensotron._core cimport dtype as dt_
from tensotron._core.arguments cimport size_args
from tensotron._core.creation cimport new_like
from tensotron._core.tensor cimport (
    FnNode, Node, Storage, Tensor, add_edge, add_method, any_requires, as_view, attach, cast, check_fill, check_inplace,
    contiguous, copy_into, empty, empty_like, empty_of, empty_strided, fill_with, grad_enabled, make_size, next_seq,
    note_change, parse_sizes, rebase, record, same_shape, set_geometry, shape_of)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, F32, F64, I32, I64, U8

from tensotron._core import geometry
from tensotron._core.arguments import invalid, kind
from tensotron._core.data import TensorType

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

FUNCTIONS = {}


cdef Tensor self_arg(object x, str op):
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {kind(x)}")
    return <Tensor>x


cdef object expose(object fn, bint function, bint method):
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


TO = ("torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format "
      "memory_format = None",
      "torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None",
      "Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None")


def to(self, *args, memory_format=None, **kwargs):
    """Converted to a dtype and a device: to(dtype), to(device, dtype), to(other); itself if nothing changes.

    Further arguments of each form: non_blocking=False, copy=False, memory_format=None.
    """
    cdef Tensor x = <Tensor?>self
    cdef int dt = x.dt
    names = ["device", "dtype", "non_blocking", "copy"]
    if args and (isinstance(args[0], dt_.dtype) or args[0] is float or args[0] is int or args[0] is bool):
        names = ["dtype", "non_blocking", "copy"]
    elif args and isinstance(args[0], Tensor) or "tensor" in kwargs:
        names = ["tensor", "non_blocking", "copy"]
    given = dict(zip(names, args))
    if len(args) > len(names) or set(given) & set(kwargs) or not set(kwargs) <= {*names, "device"}:
        raise invalid("to", args, kwargs, *TO)
    given.update(kwargs)
    device, dtype, other = given.get("device"), given.get("dtype"), given.get("tensor")
    if not isinstance(device, (str, geometry.device, int, NoneType)) or not (
            dtype is None or isinstance(dtype, dt_.dtype) or dtype in (float, int, bool)):
        raise invalid("to", args, kwargs, *TO)
    geometry.require_cpu(device)
    if other is not None:
        dt = (<Tensor?>other).dt
    return convert(x, dt_.code_of(dtype, dt), bool(given.get("copy")), memory_format)

NoneType = (None).__class__


cdef object caster(str name, int dt):
    def method(self, *, memory_format=None):
        return convert(<Tensor?>self, dt, False, memory_format)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Converted to {dt_.of_code(dt)}; the tensor itself if it has that dtype."
    add_method(name, method)
    return method

for name, code in {"float": F32, "double": F64, "long": I64, "int": I32, "byte": U8, "bool": BOOL}.items():
    caster(name, code)


cdef object missing(str name):
    def method(self, *, memory_format=None):
        raise NotImplementedError(f"Tensor.{name}(): that dtype is not supported by tensotron")
    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Not supported: raises NotImplementedError."
    add_method(name, method)

for name in ("half", "bfloat16", "short", "char", "cfloat", "cdouble"):
    missing(name)


def type_(self, dtype=None, non_blocking=False):
    """Name of the tensor's type, or the tensor converted to `dtype` (a dtype, a type or its name)."""
    cdef Tensor x = <Tensor?>self
    if dtype is None:
        return "torch." + TYPE_NAMES[x.dt]
    if isinstance(dtype, TensorType):
        dtype = dtype.dtype
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2]
        if short not in TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype}'")
        return convert(x, TYPE_NAMES.index(short), False, None)
    return convert(x, dt_.code_of(dtype, x.dt), False, None)

TYPE_NAMES = ["FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor"]


def type_as(self, other):
    """Converted to the dtype of `other`."""
    if not isinstance(other, Tensor):
        raise TypeError(f"type_as(): argument 'other' (position 1) must be Tensor, not {kind(other)}")
    return convert(<Tensor?>self, (<Tensor>other).dt, False, None)


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
            raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {kind(src)}")
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
    if dense_overlap(x, s):
        raise RuntimeError("unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                           "memory location. Please clone() the tensor before performing the operation.")
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
        raise invalid("fill_", (value,), {}, "Tensor value", "Number value")
    requires = x.requires() or (v is not None and v.requires())
    check_fill(x, requires)
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
    """A tensor of input's shape filled with `value`."""
    cdef Tensor x = self_arg(input, "fill"), v, out = empty_like(x, x.dt)
    fill_(out, value.detach() if isinstance(value, Tensor) else value)
    if not isinstance(value, Tensor):
        return record(out, "FillBackward0", _fill_backward, (x,), None, None)
    v = <Tensor>value
    return record(out, "FillBackward1", _fill_backward, (x, v if dt_.is_float(v.dt) else None), None, v.dt)


def zero_(self):
    """Writes zeros everywhere."""
    cdef Tensor x = <Tensor?>self
    cdef Node node
    check_fill(x, x.requires())
    node = inplace_node("ZeroBackward0", _fill_backward, (x,), None, x)
    fill_with(x, 0)
    rebase(x, node)
    return x


cdef int64_t resize_storage(Tensor x, int64_t nbytes) except -1:
    """Makes the storage of x at least that large; every tensor on it follows."""
    cdef Tensor grown, t
    cdef Storage real, s
    cdef int64_t distance
    if nbytes <= <int64_t>x.storage.nbytes:
        return 0
    if type(x.storage.owner) is Storage:  # during a capture: stands for that one
        real = x.storage
        x.storage = <Storage>real.owner
        resize_storage(x, nbytes)
        real.data, real.nbytes, real.capacity = x.storage.data, x.storage.nbytes, x.storage.capacity
        x.storage = real
        return 0
    if x.storage.owner is not None or x.storage.fixed:
        raise RuntimeError("Trying to resize storage that is not resizable")
    grown = empty(1, &nbytes, U8)
    backend.copy_bytes(grown.ptr, x.storage.data, x.storage.nbytes)
    grown.storage.data, x.storage.data = x.storage.data, grown.storage.data
    grown.storage.nbytes, x.storage.nbytes = x.storage.nbytes, grown.storage.nbytes
    grown.storage.capacity, x.storage.capacity = x.storage.capacity, grown.storage.capacity
    s = x.storage
    distance = s.data - grown.storage.data
    if Py_REFCNT(<PyObject*>s) == 2:  # of x and of this function
        x.ptr += distance
        return 0
    for item in gc.get_objects():  # a storage does not know its tensors, and few of them ever move
        if isinstance(item, Tensor):
            t = <Tensor>item
            if t.storage is not None and (t.storage is s or t.storage.owner is s):
                t.ptr += distance
    return 0


def resize_(self, *args, size=None, memory_format=None):
    """Changes the shape; memory grows if needed and is not initialised then."""
    cdef Tensor x = <Tensor?>self
    cdef int64_t s[64]
    cdef int nd = size_args("resize_", args, size, s), d
    cdef int64_t n = 1
    cdef bint same = nd == x.nd
    if x.requires():
        raise RuntimeError("cannot resize variables that require grad")
    for d in range(nd):
        if s[d] < 0:
            raise RuntimeError("numel: integer multiplication overflow")
        n *= s[d]
        same = same and s[d] == x.sizes[d]
    if not same:
        note_change(x)
        resize_storage(x, x.ptr - x.storage.data + n * backend.item_size(x.dt))
        set_geometry(x, nd, s, NULL)
    if memory_format is geometry.preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    if memory_format is not None and memory_format is not geometry.contiguous_format:
        ordered = new_like(x, x.dt, memory_format)
        set_geometry(x, nd, s, (<Tensor>ordered).strides)
    return x


def resize_as_(self, the_template, *, memory_format=None):
    """resize_(the_template.size())."""
    return resize_(self, shape_of(self_arg(the_template, "resize_as_")), memory_format=memory_format)


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


cdef int repeats_arg(str op, str name, tuple args, object given, int64_t* out) except -1:
    """Numbers of copies, given one by one, as a sequence or by name."""
    try:
        return size_args(op, args, given, out)
    except TypeError as e:
        raise TypeError(str(e).replace("'size'", f"'{name}'").replace('"size"', f'"{name}"')) from None


def repeat(self, *args, repeats=None):
    """Copies of the tensor laid side by side, `repeats` along each dimension."""
    cdef Tensor x = <Tensor?>self, out, tiled
    cdef int64_t r[64]
    cdef int64_t s[64]
    cdef int64_t in_s[64]
    cdef int64_t in_st[64]
    cdef int64_t size
    cdef int nd = repeats_arg("repeat", "repeats", args, repeats, r), d, lead
    if nd < x.nd:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    lead = nd - x.nd
    for d in range(nd):
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


cdef object tiled(Tensor x, tuple args, object dims):
    cdef int64_t r[64]
    cdef int nd = repeats_arg("tile", "dims", args, dims, r)
    return repeat(x, (1,) * (x.nd - nd) + tuple([r[d] for d in range(nd)]))


def tile(input, dims):
    """repeat() that allows fewer numbers than dimensions."""
    if not isinstance(dims, (tuple, list)):
        raise TypeError(f"tile(): argument 'dims' (position 2) must be tuple of ints, not {kind(dims)}")
    return tiled(self_arg(input, "tile"), (), dims)


def tile_method(self, *args, dims=None):
    """repeat() that allows fewer numbers than dimensions."""
    return tiled(<Tensor?>self, args, dims)


type_.__name__ = "type"
tile_method.__name__ = "tile"
contiguous_.__name__ = "contiguous"
expose(clone, True, True)
for fn in (fill, tile, fill_, zero_):
    expose(fn, True, False)
for fn in (to, type_, type_as, cpu, cuda, copy_, fill_, zero_, resize_, resize_as_, repeat, tile_method, contiguous_):
    expose(fn, False, True)
