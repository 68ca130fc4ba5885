"""Views, and the history of tensors that are views: AsStridedBackward and CopySlices."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from tensotron._autograd.elementwise cimport sum_to_shape
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    VIEW_MULTI, VIEW_SINGLE, FnNode, Hooks, Node, Tensor, add_edge, add_fast_method, add_method, alias, as_view, attach, attach_all, call_general, check_fill, contiguous,
    copy_into, empty, empty_like, empty_of, empty_strided, fill_with, grad_enabled, gradient_edge, hooks, make_size, make_view,
    next_seq, note_change, parse_sizes, plain_ints, record, same_shape, set_geometry, set_history, shape_of, wrap_dim)
from tensotron._cpu cimport backend

FUNCTIONS = {}


cdef Tensor self_arg(object x, str op):
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    return <Tensor>x


cdef object expose(object fn, bint function=True, bint method=True, str name=None):
    if name is None:
        name = fn.__name__
    fn.__qualname__ = fn.__name__
    if function:
        FUNCTIONS[name] = fn
    if method:
        add_method(name, fn)
    return fn


cdef inline Tensor finish(Tensor x, Tensor v, str node, object backward, object ctx):
    """Makes v a view of x with its node."""
    make_view(x, v, VIEW_SINGLE)
    if grad_enabled() and x.requires() and dt_.is_float(x.dt):
        attach(v, node, backward, (x,), None, ctx)
    return v


# ==== view, reshape =============================================================================
cdef int infer_shape(int64_t n, int nd, int64_t* s) except -1:
    """Replaces a -1 so that the sizes multiply to n."""
    cdef int d, at = -1
    cdef int64_t known = 1
    for d in range(nd):
        if s[d] == -1:
            if at >= 0:
                raise RuntimeError("only one dimension can be inferred")
            at = d
        elif s[d] < 0:
            raise RuntimeError(f"invalid shape dimension {s[d]} at index {d} of shape {[s[i] for i in range(nd)]}")
        else:
            known *= s[d]
    if at >= 0:
        if known == 0:
            raise RuntimeError(f"cannot reshape tensor of {n} elements into shape {[s[i] for i in range(nd)]} because the "
                               "unspecified dimension size -1 can be any value and is ambiguous")
        if n % known == 0:
            s[at] = n // known
            return 0
    elif known == n:
        return 0
    raise RuntimeError(f"shape '{[s[i] for i in range(nd)]}' is invalid for input of size {n}")


cdef bint view_strides(Tensor t, int nd, const int64_t* s, int64_t* out) noexcept:
    """Strides that give t's elements the shape s without a copy; False if there are none."""
    cdef int d = nd - 1, k
    cdef int64_t chunk_base, chunk_t = 1, chunk_v = 1
    if t.n == 0:
        chunk_v = 1
        for k in range(nd - 1, -1, -1):
            out[k] = chunk_v
            chunk_v *= s[k] if s[k] > 1 else 1
        return True
    if t.nd == 0:
        for k in range(nd):
            out[k] = 1
        return True
    chunk_base = t.strides[t.nd - 1]
    for k in range(t.nd - 1, -1, -1):
        chunk_t *= t.sizes[k]
        if k == 0 or (t.sizes[k - 1] != 1 and t.strides[k - 1] != chunk_t * chunk_base):
            while d >= 0 and (chunk_v < chunk_t or s[d] == 1):
                out[d] = chunk_v * chunk_base
                chunk_v *= s[d]
                d -= 1
            if chunk_v != chunk_t:
                return False
            if k > 0:
                chunk_base = t.strides[k - 1]
                chunk_t = 1
                chunk_v = 1
    return d < 0


def _view_backward(FnNode node, Tensor g):
    return g.reshape(node.ctx)


cdef Tensor view_as_shape(Tensor x, int nd, int64_t* s):
    cdef int64_t st[64]
    cdef Tensor v
    infer_shape(x.n, nd, s)
    if x.contiguous:
        v = as_view(x, nd, s, NULL, 0)
    else:
        if not view_strides(x, nd, s, st):
            raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one dimension spans "
                               "across two contiguous subspaces). Use .reshape(...) instead.")
        v = as_view(x, nd, s, st, 0)
    make_view(x, v, VIEW_SINGLE)
    if grad_enabled() and x.requires() and dt_.is_float(x.dt):
        attach(v, "ViewBackward0", _view_backward, (x,), None, shape_of(x))
    return v


def view(self, *shape, dtype=None):
    """The same memory in another shape; one size may be -1. With a dtype: the bytes read as that dtype.

    Raises:
        RuntimeError: the strides do not allow it (use reshape), or the sizes do not multiply to numel().
    """
    cdef int64_t s[64]
    cdef int nd
    cdef Tensor x = <Tensor?>self
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], dt_.dtype)):
        return view_dtype(x, shape[0] if dtype is None else dtype)
    if not shape:
        raise TypeError("view() missing 1 required positional arguments: \"size\"")
    nd = parse_sizes(shape, s)
    return view_as_shape(x, nd, s)


cdef Tensor view_dtype(Tensor x, object dtype):
    cdef int code = dt_.code_of(dtype, -1)
    cdef int64_t old = backend.item_size(x.dt), new = backend.item_size(code)
    cdef Tensor v
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int d
    for d in range(x.nd):
        s[d] = x.sizes[d]
        st[d] = x.strides[d]
    if old != new:
        if x.nd == 0:
            raise RuntimeError(f"self.dim() cannot be 0 to view {dt_.of_code(x.dt).name} as {dt_.of_code(code).name} (different element sizes)")
        if x.strides[x.nd - 1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 to view {dt_.of_code(x.dt).name} as {dt_.of_code(code).name} (different element sizes), but got {x.strides[x.nd - 1]}")
        if (s[x.nd - 1] * old) % new:
            raise RuntimeError(f"self.size(-1) must be divisible by {new // old} to view {dt_.of_code(x.dt).name} as {dt_.of_code(code).name} (different element sizes), but got {s[x.nd - 1]}")
        for d in range(x.nd):
            st[d] = st[d] * old // new if d < x.nd - 1 else 1
        s[x.nd - 1] = s[x.nd - 1] * old // new
    v = alias(x)
    v.dt = code
    set_geometry(v, x.nd, s, st)
    return v


def reshape(input, *shape):
    """input in another shape: a view where the strides allow it, else a copy. One size may be -1."""
    cdef Tensor x = self_arg(input, "reshape"), v
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int nd
    if not shape:
        raise TypeError("reshape() missing 1 required positional arguments: \"shape\"")
    nd = parse_sizes(shape, s)
    infer_shape(x.n, nd, s)
    if x.contiguous or view_strides(x, nd, s, st):
        return view_as_shape(x, nd, s)
    v = empty(x.nd, x.sizes, x.dt)
    copy_into(v, x)
    record(v, "CloneBackward0", _clone_backward, (x,), None, None)
    return record(as_view(v, nd, s, NULL, 0), "UnsafeViewBackward0", _view_backward, (v,), None, shape_of(x))


def _clone_backward(FnNode node, Tensor g):
    return g


def _reshape_function(input, shape):
    """input in another shape: a view where the strides allow it, else a copy. One size may be -1."""
    return reshape(input, shape)


def view_as(self, Tensor other not None):
    """view(other.size())."""
    return view(self, shape_of(other))


def reshape_as(self, Tensor other not None):
    """reshape(other.size())."""
    return reshape(self, shape_of(other))


def flatten(input, start_dim=0, end_dim=-1):
    """Dimensions start_dim..end_dim as one."""
    cdef Tensor x = self_arg(input, "flatten")
    cdef int a = wrap_dim(start_dim, x.nd), b = wrap_dim(end_dim, x.nd), d, nd = 0
    cdef int64_t s[64]
    cdef int64_t n = 1
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if x.nd == 0:
        return reshape(x, (1,))
    if a == b:
        return x
    for d in range(a):
        s[nd] = x.sizes[d]
        nd += 1
    for d in range(a, b + 1):
        n *= x.sizes[d]
    s[nd] = n
    nd += 1
    for d in range(b + 1, x.nd):
        s[nd] = x.sizes[d]
        nd += 1
    return reshape(x, make_size(nd, s))


def ravel(input):
    """The elements as one dimension."""
    return reshape(input, (-1,))


def unflatten(input, dim, sizes):
    """Dimension dim split into `sizes`; one may be -1."""
    cdef Tensor x = self_arg(input, "unflatten")
    cdef int d = wrap_dim(dim, x.nd)
    sizes = tuple(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = 1
    for s in sizes:
        known *= s if s != -1 else 1
    total = x.sizes[d]
    if -1 in sizes and known and total % known == 0:
        sizes = tuple([total // known if s == -1 else s for s in sizes])
    prod = 1
    for s in sizes:
        prod *= s
    if prod != total:
        raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({total}) in the input tensor")
    shape = tuple(shape_of(x))
    return view(x, shape[:d] + sizes + shape[d + 1:])


# The methods as most calls want them: ints, or one tuple of them.
cdef object fast_view(object self, PyObject** args, Py_ssize_t n, PyObject* names):
    cdef int64_t s[64]
    cdef int nd = plain_ints(args, n, s) if names == NULL and n else -1
    if nd < 0:
        return call_general(view, self, args, n, names)
    return view_as_shape(<Tensor>self, nd, s)


cdef object fast_reshape(object self, PyObject** args, Py_ssize_t n, PyObject* names):
    cdef int64_t s[64]
    cdef int nd = plain_ints(args, n, s) if names == NULL and n and (<Tensor>self).contiguous else -1
    if nd < 0:
        return call_general(reshape, self, args, n, names)
    return view_as_shape(<Tensor>self, nd, s)


# ==== order of dimensions =========================================================================
def _permute_backward(FnNode node, Tensor g):
    return permute(g, node.ctx)


cdef Tensor permuted(Tensor x, int* order, str node):
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int d
    cdef Tensor v
    for d in range(x.nd):
        s[d] = x.sizes[order[d]]
        st[d] = x.strides[order[d]]
    v = as_view(x, x.nd, s, st, 0)
    make_view(x, v, VIEW_SINGLE)
    if grad_enabled() and x.requires() and dt_.is_float(x.dt):
        inverse = [0] * x.nd
        for d in range(x.nd):
            inverse[order[d]] = d
        attach(v, node, _permute_backward, (x,), None, tuple(inverse))
    return v


def permute(input, *dims):
    """Dimensions in the order `dims`."""
    cdef Tensor x = self_arg(input, "permute")
    cdef int64_t want[64]
    cdef int order[64]
    cdef bint seen[64]
    cdef int d, n = parse_sizes(dims, want)
    if n != x.nd:
        raise RuntimeError(f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
                           f"ordering of dimensions i.e. input.dim() = {x.nd} is not equal to len(dims) = {n}")
    for d in range(n):
        seen[d] = False
    for d in range(n):
        order[d] = wrap_dim(want[d], n)
        if seen[order[d]]:
            raise RuntimeError("permute(): duplicate dims are not allowed.")
        seen[order[d]] = True
    return permuted(x, order, "PermuteBackward0")


def _permute_function(input, dims):
    """Dimensions in the order `dims`."""
    return permute(input, dims)


def transpose(input, dim0, dim1):
    """Dimensions dim0 and dim1 swapped."""
    cdef Tensor x = self_arg(input, "transpose")
    cdef int a = wrap_dim(dim0, x.nd), b = wrap_dim(dim1, x.nd), d
    cdef int order[64]
    for d in range(x.nd):
        order[d] = d
    if x.nd:
        order[a], order[b] = b, a
    return permuted(x, order, "TransposeBackward0")


def t(input):
    """Transpose of a matrix; a tensor of fewer dimensions as it is."""
    cdef Tensor x = self_arg(input, "t")
    cdef int order[2]
    if x.nd > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.nd}D")
    order[0], order[1] = (0, 1) if x.nd < 2 else (1, 0)
    return permuted(x, order, "TBackward0")


cdef object reversed_dims(object self):
    cdef Tensor x = <Tensor?>self
    return permute(x, tuple(range(x.nd - 1, -1, -1)))


cdef object last_two(object self, str name):
    cdef Tensor x = <Tensor?>self
    if x.nd == 0:
        return x
    if x.nd == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return transpose(x, -2, -1)


cdef object matrix_transpose(object self):
    cdef Tensor x = <Tensor?>self
    if x.nd == 0:
        return x
    if x.nd != 2:
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {x.nd}-D tensor."
                           + (" For batches of matrices, consider using tensor.mH" if x.nd > 2 else ""))
    return transpose(x, 0, 1)


def movedim(input, source, destination):
    """Moves dimensions from `source` to `destination`; the others keep their order."""
    cdef Tensor x = self_arg(input, "movedim")
    src = (source,) if isinstance(source, int) else tuple(source)
    dst = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(src) != len(dst):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({list(src)} dims) should contain the same number "
                           f"of dims as destination ({list(dst)} dims)")
    src = [wrap_dim(s, x.nd) for s in src]
    dst = [wrap_dim(s, x.nd) for s in dst]
    if len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise RuntimeError("movedim: repeated dim")
    if x.nd == 0:
        return x
    order = [-1] * x.nd
    for s, d in zip(src, dst):
        order[d] = s
    rest = iter([d for d in range(x.nd) if d not in src])
    return permute(x, tuple([next(rest) if o < 0 else o for o in order]))


# ==== dimensions of size 1 ==========================================================================
def _squeeze_backward(FnNode node, Tensor g):
    return view(g, node.ctx) if g.contiguous else reshape(g, node.ctx)


cdef Tensor without_dims(Tensor x, object drop, str node):
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int d, nd = 0
    for d in range(x.nd):
        if d in drop and x.sizes[d] == 1:
            continue
        s[nd], st[nd] = x.sizes[d], x.strides[d]
        nd += 1
    return finish(x, as_view(x, nd, s, st, 0), node, _squeeze_backward, shape_of(x))


def squeeze(input, dim=None):
    """Without the dimensions of size 1, or without those named by `dim` if they are of size 1."""
    cdef Tensor x = self_arg(input, "squeeze")
    if dim is None:
        return without_dims(x, range(x.nd), "SqueezeBackward0")
    if isinstance(dim, (tuple, list)):
        drop = [wrap_dim(d, x.nd) for d in dim]
        if len(set(drop)) != len(drop):
            raise RuntimeError(f"dim {drop[0]} appears multiple times in the list of dims")
        return without_dims(x, drop, "SqueezeBackward2")
    return without_dims(x, (wrap_dim(dim, x.nd),), "SqueezeBackward1")


def unsqueeze(input, dim):
    """With a dimension of size 1 inserted at `dim`."""
    cdef Tensor x = self_arg(input, "unsqueeze")
    cdef int at = wrap_dim(dim, x.nd + 1), d
    cdef int64_t s[64]
    cdef int64_t st[64]
    for d in range(x.nd + 1):
        if d < at:
            s[d], st[d] = x.sizes[d], x.strides[d]
        elif d > at:
            s[d], st[d] = x.sizes[d - 1], x.strides[d - 1]
        else:
            s[d] = 1
            st[d] = x.sizes[d] * x.strides[d] if d < x.nd else 1
    return finish(x, as_view(x, x.nd + 1, s, st, 0), "UnsqueezeBackward0", _squeeze_backward, shape_of(x))


def _expand_backward(FnNode node, Tensor g):
    return sum_to_shape(g, node.ctx)


def expand(self, *sizes, bint implicit=False):
    """Dimensions of size 1 repeated to `sizes` without copying; -1 keeps a size.

    Raises:
        RuntimeError: the sizes do not fit.
    """
    cdef Tensor x = <Tensor?>self
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int nd = parse_sizes(sizes, s), d, e
    if nd < x.nd:
        raise RuntimeError(f"expand(torch.{TENSOR_TYPES[x.dt]}{{{list(shape_of(x))}}}, size={[s[i] for i in range(nd)]}): the number of sizes "
                           f"provided ({nd}) must be greater or equal to the number of dimensions in the tensor ({x.nd})")
    for d in range(nd):
        e = d - (nd - x.nd)
        if e < 0:
            if s[d] < 0:
                raise RuntimeError(f"The expanded size of the tensor ({s[d]}) isn't allowed in a leading, non-existing dimension {d}")
            st[d] = 0
            continue
        if s[d] == -1:
            s[d] = x.sizes[e]
        if s[d] != x.sizes[e] and x.sizes[e] != 1:
            raise RuntimeError(f"The expanded size of the tensor ({s[d]}) must match the existing size ({x.sizes[e]}) at non-singleton "
                               f"dimension {d}.  Target sizes: {[s[i] for i in range(nd)]}.  Tensor sizes: {list(shape_of(x))}")
        if s[d] < 0:
            raise RuntimeError(f"The expanded size of the tensor ({s[d]}) isn't allowed")
        st[d] = x.strides[e] if s[d] == x.sizes[e] else 0
    return finish(x, as_view(x, nd, s, st, 0), "ExpandBackward0", _expand_backward, shape_of(x))

TENSOR_TYPES = ["FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor"]


def expand_as(self, Tensor other not None):
    """expand(other.size())."""
    return expand(self, shape_of(other))


def broadcast_to(input, shape):
    """input expanded to `shape`."""
    return expand(input, shape)


# ==== the same in place: other geometry for this tensor ===================================================
# the nodes of the in-place forms are numbered on from those of the others
cdef dict IN_PLACE_NODES = {
    "TransposeBackward0": "TransposeBackward1", "TBackward0": "TBackward1", "UnsqueezeBackward0": "UnsqueezeBackward1",
    "AsStridedBackward0": "AsStridedBackward1", "SqueezeBackward0": "SqueezeBackward3", "SqueezeBackward1": "SqueezeBackward4",
    "SqueezeBackward2": "SqueezeBackward5"}


cdef object in_place(object fn, str name):
    """x.name_(...): x takes the geometry of fn(x, ...) and its history."""
    def op_(self, *args, **kwargs):
        cdef Tensor x = <Tensor?>self, v
        check_fill(x, x.requires())  # no element is written
        v = <Tensor>fn(x, *args, **kwargs)
        note_change(x)
        set_geometry(x, v.nd, v.sizes, v.strides)
        x.ptr = v.ptr
        x.bump()
        if v.grad_fn_ is not None:
            v.grad_fn_.node_name = IN_PLACE_NODES[v.grad_fn_.node_name]
            x.grad_fn_, x.output_nr, x.leaf_grad = v.grad_fn_, 0, False  # a gradient that is retained stays that of before
            x.view_version = x.version()  # of a view: its base, whose elements stay as they are, keeps its history
        return x
    op_.__name__ = op_.__qualname__ = name + "_"
    op_.__doc__ = f"In-place version of {name}()."
    add_method(name + "_", op_)
    return op_


# ==== parts ======================================================================================
cdef Tensor part_of(Tensor x, object ctx):
    """The part that `ctx` describes: ("select", dim, index), ("slice", dim, start, stop, step)."""
    if ctx[0] == "select":
        return select(x, ctx[1], ctx[2])
    return slice_dim(x, ctx[1], ctx[2], ctx[3], ctx[4])


def _embed_backward(FnNode node, Tensor g):
    return part_of(g, node.ctx)


def _part_backward(FnNode node, Tensor g):
    """Zeros of the input's shape with g in the part's place."""
    cdef Tensor z = empty_of(node.ctx[0], g.dt)
    fill_with(z, 0)
    copy_into(raw_part(z, node.ctx[1]), g)
    name = "SelectBackwardBackward0" if node.ctx[1][0] == "select" else "SliceBackwardBackward0"
    return record(z, name, _embed_backward, (g,), None, node.ctx[1])


cdef Tensor raw_part(Tensor x, object ctx):
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int d, nd = 0, dim = ctx[1]
    cdef int64_t start = ctx[2]
    for d in range(x.nd):
        if d == dim:
            if ctx[0] == "select":
                continue
            s[nd] = (ctx[3] - start + ctx[4] - 1) // ctx[4] if ctx[3] > start else 0
            st[nd] = x.strides[d] * <int64_t>ctx[4]
        else:
            s[nd], st[nd] = x.sizes[d], x.strides[d]
        nd += 1
    return as_view(x, nd, s, st, start * x.strides[dim])


cdef Tensor part(Tensor x, object ctx, str node):
    cdef Tensor v = raw_part(x, ctx)
    make_view(x, v, VIEW_SINGLE)
    if grad_enabled() and x.requires() and dt_.is_float(x.dt):
        attach(v, node, _part_backward, (x,), None, (shape_of(x), ctx))
    return v


def select(input, dim, index):
    """Slice `index` along `dim`, which is gone from the result: a view."""
    cdef Tensor x = self_arg(input, "select")
    cdef int d
    cdef int64_t i = index
    if x.nd == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, x.nd)
    if i < -x.sizes[d] or i >= x.sizes[d]:
        raise IndexError(f"select(): index {i} out of range for tensor of size {list(shape_of(x))} at dimension {d}")
    return part(x, ("select", d, i if i >= 0 else i + x.sizes[d]), "SelectBackward0")


cpdef Tensor slice_dim(Tensor x, int dim, start, stop, int64_t step):
    """x[start:stop:step] along dim, as Python cuts it (step > 0)."""
    cdef int64_t n = x.sizes[dim]
    cdef int64_t a = 0 if start is None else start, b = n if stop is None else min(stop, n)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    if a < 0:
        a = max(a + n, 0)
    if b < 0:
        b = max(b + n, 0)
    a = min(a, n)
    b = max(min(b, n), a)
    return part(x, ("slice", dim, a, b, step), "SliceBackward0")


def narrow(input, dim, start, length):
    """Elements start .. start + length along dim: a view."""
    cdef Tensor x = self_arg(input, "narrow")
    cdef int d
    cdef int64_t a, n
    if x.nd == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor):
        if (<Tensor>start).nd != 0 or not dt_.is_int((<Tensor>start).dt):
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.item()
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    d = wrap_dim(dim, x.nd)
    n = x.sizes[d]
    a = start
    if a < -n or a > n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {a})")
    if a < 0:
        a += n
    if a + length > n:
        raise RuntimeError(f"start ({a}) + length ({length}) exceeds dimension size ({n}).")
    return part(x, ("slice", d, a, a + <int64_t>length, 1), "SliceBackward0")


def _unbind_backward(FnNode node, *grads):
    cdef Tensor z = empty_of(node.ctx[0], node.out_dtype)
    fill_with(z, 0)
    if grad_enabled():
        parts = [g if g is not None else raw_part(z, ("select", node.ctx[1], i)) for i, g in enumerate(grads)]
        from tensotron._autograd.join import FUNCTIONS as join
        return join["stack"](parts, node.ctx[1])
    for i, g in enumerate(grads):
        if g is not None:
            copy_into(raw_part(z, ("select", node.ctx[1], i)), <Tensor>g)
    return z


def unbind(input, dim=0):
    """The slices along dim, as a tuple of views."""
    cdef Tensor x = self_arg(input, "unbind"), v
    cdef int d
    if x.nd == 0:
        raise RuntimeError("Dimension specified as 0 but tensor has no dimensions")
    d = wrap_dim(dim, x.nd)
    out = []
    for i in range(x.sizes[d]):
        v = raw_part(x, ("select", d, i))
        make_view(x, v, VIEW_MULTI)
        out.append(v)
    if out and grad_enabled() and x.requires():
        attach_all(out, "UnbindBackward0", _unbind_backward, (x,), None, (shape_of(x), d))
    return tuple(out)


def diagonal(input, int offset=0, dim1=0, dim2=1):
    """The diagonal of dimensions dim1 and dim2, as the last dimension: a view."""
    cdef Tensor x = self_arg(input, "diagonal")
    cdef int a = wrap_dim(dim1, x.nd), b = wrap_dim(dim2, x.nd), d, nd = 0
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int64_t n, skip
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if offset >= 0:
        n = max(min(x.sizes[a], x.sizes[b] - offset), 0)
        skip = offset * x.strides[b]
    else:
        n = max(min(x.sizes[a] + offset, x.sizes[b]), 0)
        skip = -offset * x.strides[a]
    for d in range(x.nd):
        if d != a and d != b:
            s[nd], st[nd] = x.sizes[d], x.strides[d]
            nd += 1
    s[nd] = n
    st[nd] = x.strides[a] + x.strides[b]
    return finish(x, as_view(x, nd + 1, s, st, skip if n else 0), "DiagonalBackward0", _diagonal_backward,
                  (shape_of(x), offset, a, b))


def _diagonal_backward(FnNode node, Tensor g):
    z = g.new_zeros(node.ctx[0])
    diagonal(z, node.ctx[1], node.ctx[2], node.ctx[3]).copy_(g)
    return z


include "view_history.pxi"


for fn in (flatten, ravel, unflatten, transpose, t, movedim, squeeze, unsqueeze, broadcast_to, select, narrow, unbind, diagonal,
           as_strided):
    expose(fn)
for fn in (view_as, reshape_as, expand, expand_as):
    expose(fn, False)
add_fast_method("view", fast_view, view, "$self, *shape, dtype=None")
add_fast_method("reshape", fast_reshape, reshape, "$self, *shape")
expose(permute, False)
_reshape_function.__name__, _permute_function.__name__ = "reshape", "permute"
expose(_reshape_function, True, False)
expose(_permute_function, True, False)
for name, fn in {"moveaxis": movedim, "swapaxes": transpose, "swapdims": transpose}.items():
    expose(fn, True, True, name)

for name, fn in {"transpose": transpose, "t": t, "squeeze": squeeze, "unsqueeze": unsqueeze, "swapaxes": transpose,
                 "swapdims": transpose, "as_strided": as_strided}.items():
    in_place(fn, name)

add_method("T", property(lambda self: reversed_dims(self)))
add_method("mT", property(lambda self: last_two(self, "mT")))
add_method("H", property(lambda self: matrix_transpose(self)))
add_method("mH", property(lambda self: last_two(self, "mH")))

cdef Hooks* h = hooks()
h.view_history = view_history
h.rebase_view = rebase_view
