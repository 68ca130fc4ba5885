# distutils: language = c++
"""Tensor.__getitem__ and __setitem__: views for basic indices, copies for index tensors."""
cimport cython
from libc.stdint cimport int64_t

from tensotron._autograd.index cimport index as index_by, index_put_inplace
from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    VIEW_SINGLE, Node, Tensor, add_edge, alias, as_view, check_inplace, copy_into, empty, empty_of, fill_with, grad_enabled,
    hooks, item_of, make_size, make_view, next_seq, rebase, same_shape, shape_of)
from tensotron._cpu.backend cimport BOOL, I64, U8, item_size

import numpy as _np

cdef extern from "Python.h":
    int PySlice_Unpack(object slice, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t length, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)
    bint PyIndex_Check(object o)
    bint PySequence_Check(object o)

TYPE_NAMES = ("FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "ByteTensor", "BoolTensor")


# ==== views along one dimension ===================================================================
cdef enum ViewKind:
    SELECT
    SLICE
    UNSQUEEZE
    SQUEEZE
    ALIAS

cdef tuple NODE_NAMES = ("SelectBackward0", "SliceBackward0", "UnsqueezeBackward0", "SqueezeBackward1", "AliasBackward0")


@cython.trashcan(True)  # a long chain is freed without recursion
cdef class DimNode(Node):
    """Node of a view that differs from its base along one dimension."""
    cdef int kind, dim
    cdef int64_t start, length, step
    cdef object shape  # of the base

    cdef object apply(self, object grads):
        return gradient_of_view(self, <Tensor>grads)


@cython.trashcan(True)
cdef class DimScatterNode(Node):
    """Node of the gradient of a select or a slice: zeros with the gradient in place."""
    cdef DimNode view

    cdef object apply(self, object grads):
        return view_again(self.view, <Tensor>grads)


cdef Tensor gradient_of_view(DimNode n, Tensor g):
    cdef Tensor out
    cdef DimScatterNode node
    if n.kind == UNSQUEEZE:
        return view_squeeze(g, n.dim)
    if n.kind == SQUEEZE:
        return view_unsqueeze(g, n.dim)
    if n.kind == ALIAS:
        return g
    out = empty_of(n.shape, g.dt)
    fill_with(out, 0)
    copy_into(bare_view(out, n.kind, n.dim, n.start, n.length, n.step), g)
    if grad_enabled() and g.requires():
        node = DimScatterNode.__new__(DimScatterNode)
        node.node_name = "SelectBackwardBackward0" if n.kind == SELECT else "SliceBackwardBackward0"
        node.n_out = 1
        node.out_dtype = out.dt
        node.seq = next_seq()
        node.view = n
        add_edge(node, g)
        out.grad_fn_ = node
    return out


cdef Tensor view_again(DimNode n, Tensor g):
    return view_select(g, n.dim, n.start) if n.kind == SELECT else view_slice(g, n.dim, n.start, n.length, n.step)


cdef Tensor bare_view(Tensor t, int kind, int dim, int64_t start, int64_t length, int64_t step):
    """The view without book-keeping."""
    cdef int64_t size[64]
    cdef int64_t stride[64]
    cdef int64_t offset = 0
    cdef int d, nd = 0
    for d in range(t.nd + 1):
        if d == dim:
            if kind == SELECT:
                offset = start * t.strides[d]
                continue
            if kind == SQUEEZE:
                continue
            if kind == SLICE:
                offset = start * t.strides[d]
                size[nd] = length
                stride[nd] = step * t.strides[d]
                nd += 1
                continue
            if kind == UNSQUEEZE:
                size[nd] = 1
                stride[nd] = t.sizes[d] * t.strides[d] if d < t.nd else 1
                nd += 1
        if d < t.nd:
            size[nd] = t.sizes[d]
            stride[nd] = t.strides[d]
            nd += 1
    return as_view(t, nd, size, stride, offset)


cdef Tensor make_dim_view(Tensor t, int kind, int dim, int64_t start, int64_t length, int64_t step):
    cdef Tensor v = alias(t) if kind == ALIAS else bare_view(t, kind, dim, start, length, step)
    cdef DimNode node
    make_view(t, v, VIEW_SINGLE)
    if grad_enabled() and t.requires():
        node = DimNode.__new__(DimNode)
        node.node_name = <str>NODE_NAMES[kind]
        node.n_out = 1
        node.out_dtype = t.dt
        node.seq = next_seq()
        node.kind = kind
        node.dim = dim
        node.start = start
        node.length = length
        node.step = step
        if kind <= SLICE:
            node.shape = make_size(t.nd, t.sizes)
        add_edge(node, t)
        v.grad_fn_ = node
        v.output_nr = 0
    return v


cdef Tensor view_select(Tensor t, int dim, int64_t i):
    return make_dim_view(t, SELECT, dim, i, 0, 0)


cdef Tensor view_slice(Tensor t, int dim, int64_t start, int64_t length, int64_t step):
    return make_dim_view(t, SLICE, dim, start, length, step)


cdef Tensor view_unsqueeze(Tensor t, int dim):
    return make_dim_view(t, UNSQUEEZE, dim, 0, 0, 0)


cdef Tensor view_squeeze(Tensor t, int dim):
    return make_dim_view(t, SQUEEZE, dim, 0, 0, 0)


# ==== parsing =====================================================================================
cdef Tensor select_int(Tensor t, int dim, int64_t i, int real_dim):
    cdef int64_t size
    if t.nd == 0:
        raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                         "convert a 0-dim tensor to a number")
    size = t.sizes[dim]
    if i < -size or i >= size:
        raise IndexError(f"index {i} is out of bounds for dimension {real_dim} with size {size}")
    return view_select(t, dim, i + size if i < 0 else i)


cdef Tensor slice_dim(Tensor t, int dim, object s, bint skip_whole):
    cdef Py_ssize_t start, stop, step, length
    PySlice_Unpack(s, &start, &stop, &step)
    if step < 1:
        raise ValueError("step must be greater than zero")
    if t.nd == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if skip_whole and start == 0 and stop >= t.sizes[dim] and step == 1:
        return t
    length = PySlice_AdjustIndices(t.sizes[dim], &start, &stop, step)
    return view_slice(t, dim, start, length, step)


cdef int64_t long_of(object i) except? -1:
    try:
        return <int64_t>i
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None


cdef Tensor bool_index(bint value):
    """What True and False index a new dimension with."""
    cdef int64_t n = 1 if value else 0
    cdef Tensor t = empty(1, &n, I64)
    fill_with(t, 0)
    return t


cdef Tensor tensor_of_sequence(object seq):
    """A list, range or numpy array as an index tensor: bool and uint8 stay, the rest becomes int64."""
    from tensotron._core import data
    cdef Tensor t
    if isinstance(seq, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(seq).__name__}'")
    try:
        t = <Tensor>data.tensor(seq)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None
    if t.dt == BOOL or t.dt == U8 or t.dt == I64:
        return t
    return <Tensor>t.to(dt_.of_code(I64))


cdef bint integer_like(object i):
    """An int (but no bool), or a numpy integer."""
    if isinstance(i, bool):
        return False
    if isinstance(i, int):
        return True
    return type(i).__module__ == "numpy" and PyIndex_Check(i) and not PySequence_Check(i)


cdef bint is_tuple_like(object index) except -1:
    """numpy's old rule for lists that stand for a tuple of indices."""
    if isinstance(index, Tensor) or isinstance(index, (str, bytes)) or not PySequence_Check(index):
        return False
    if type(index).__module__ == "numpy" or isinstance(index, range):
        return False
    if len(index) >= 32:
        return False
    for i in index:
        if isinstance(i, (Tensor, slice)) or i is Ellipsis or i is None or PySequence_Check(i):
            import warnings
            warnings.warn(
                "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
                "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], "
                "which will result either in an error or a different result", UserWarning, stacklevel=2)
            return True
    return False


cdef tuple as_tuple(object index):
    if isinstance(index, tuple):
        return <tuple>index
    if is_tuple_like(index):
        return tuple(index)
    return (index,)


cdef Tensor basic(Tensor t, tuple indices, list tensors):
    """Applies the basic indices as views; `tensors` receives the index tensors, None for other dimensions."""
    cdef Tensor result = t, i
    cdef int dim = 0, specified = 0, n = 0, filled = 0
    for o in indices:
        if isinstance(o, Tensor):
            i = <Tensor>o
            specified += i.nd if i.dt == BOOL or i.dt == U8 else 1
        elif not (o is None or o is Ellipsis or o is True or o is False):
            specified += 1
    if specified > t.nd:
        raise IndexError(f"too many indices for tensor of dimension {t.nd}")
    for n in range(len(indices)):
        o = indices[n]
        if isinstance(o, slice):
            result = slice_dim(result, dim, o, True)
            dim += 1
            continue
        if o is Ellipsis:
            dim += t.nd - specified
            continue
        if o is None:
            result = view_unsqueeze(result, dim)
            dim += 1
            continue
        if integer_like(o):
            result = select_int(result, dim, long_of(o), n)
            continue
        if o is True or o is False:
            result = view_unsqueeze(result, dim)
            i = bool_index(o)
        elif isinstance(o, Tensor) or PySequence_Check(o):
            i = <Tensor>o if isinstance(o, Tensor) else tensor_of_sequence(o)
            if i.nd == 0 and not dt_.is_float(i.dt):
                if i.dt == BOOL or i.dt == U8:
                    result = view_unsqueeze(result, dim)
                    i = bool_index(item_of(i) != 0)
                else:
                    result = select_int(result, dim, item_of(i), n)
                    continue
        elif PyIndex_Check(o) and not isinstance(o, float):
            result = select_int(result, dim, long_of(o.__index__()), n)
            continue
        else:
            kind = type(o).__name__
            if type(o).__module__ == "numpy":
                kind = "numpy." + kind
            raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                             f"(got {kind})")
        for _ in range(filled, dim):
            tensors.append(None)
        tensors.append(i)
        dim += i.nd if i.dt == BOOL or i.dt == U8 else 1
        filled = dim
    return result


cdef object getitem(object a, object index):
    cdef Tensor t = <Tensor>a, result
    cdef list tensors
    if type(index) is int:
        return select_int(t, 0, long_of(index), 0)
    if type(index) is slice:
        return slice_dim(t, 0, index, False)
    if index is None:
        return view_unsqueeze(t, 0)
    tensors = []
    result = basic(t, as_tuple(index), tensors)
    if tensors:
        return index_by(result, tensors)
    return make_dim_view(t, ALIAS, 0, 0, 0, 0) if result is t else result


# ==== assignment ==================================================================================
cdef Tensor value_tensor(Tensor t, object value):
    cdef Tensor v
    if isinstance(value, Tensor):
        return <Tensor>value
    if isinstance(value, complex):
        raise RuntimeError("value cannot be converted to type float without overflow")
    if isinstance(value, int):
        long_of(value)
    # of numpy's scalars only integers and float64, which is a Python float
    if dt_.scalar_code(value) < 0 or isinstance(value, (_np.floating, _np.bool_)) and not isinstance(value, float):
        module = type(value).__module__
        name = type(value).__name__ if module == "builtins" else f"{module}.{type(value).__name__}"
        raise TypeError(f"can't assign a {name} to a torch.{TYPE_NAMES[t.dt]}")
    v = empty(0, NULL, t.dt)
    fill_with(v, value)
    return v


cdef Tensor without_leading_ones(Tensor v):
    cdef int skip = 0
    while skip < v.nd and v.sizes[skip] == 1:
        skip += 1
    if skip == 0:
        return v
    return <Tensor>v.view(make_size(v.nd - skip, v.sizes + skip))


cdef bint dense(Tensor t) noexcept:
    """Whether the elements fill their memory without gaps, in whatever order."""
    cdef int64_t extent = 1
    cdef int d
    for d in range(t.nd):
        extent += (t.sizes[d] - 1) * t.strides[d]
    return t.n > 0 and extent == t.n


cdef int check_overlap(Tensor a, Tensor b) except -1:
    cdef int d
    if a.storage is not b.storage or not dense(a) or not dense(b):
        return 0
    if a.ptr == b.ptr and a.n == b.n and a.nd == b.nd:
        for d in range(a.nd):
            if a.strides[d] != b.strides[d]:
                break
        else:
            return 0
    if a.ptr < b.ptr + b.n * item_size(b.dt) and b.ptr < a.ptr + a.n * item_size(a.dt):
        raise RuntimeError("unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                           "memory location. Please clone() the tensor before performing the operation.")
    return 0


cdef int assign(Tensor dst, Tensor v) except -1:
    """dst[...] = v."""
    cdef int d, e
    if grad_enabled() and (dst.requires() or v.requires()):
        if same_shape(dst, v):
            check_overlap(dst, v)
            dst.copy_(v)
        elif v.nd == 0:
            dst.fill_(v)
        else:
            for d in range(v.nd):
                if v.sizes[d] != 1:
                    break
            else:
                d = v.nd
            v = <Tensor>v.view(make_size(v.nd - d, v.sizes + d))
            dst.copy_(v if same_shape(dst, v) else v.expand(shape_of(dst)))
        return 0
    if v.nd > 0:
        v = without_leading_ones(v)
        for d in range(v.nd - 1, -1, -1):
            e = d + dst.nd - v.nd
            if v.nd > dst.nd:
                raise RuntimeError(f"expand(torch.{TYPE_NAMES[v.dt]}{{{list(shape_of(v))}}}, size={list(shape_of(dst))}): the number of "
                                   f"sizes provided ({dst.nd}) must be greater or equal to the number of dimensions in the tensor ({v.nd})")
            if v.sizes[d] != 1 and v.sizes[d] != dst.sizes[e]:
                raise RuntimeError(f"The expanded size of the tensor ({dst.sizes[e]}) must match the existing size ({v.sizes[d]}) at "
                                   f"non-singleton dimension {e}.  Target sizes: {list(shape_of(dst))}.  Tensor sizes: {list(shape_of(v))}")
        if v.storage is dst.storage:
            check_overlap(dst, v)
            v = <Tensor>v.clone()
    check_inplace(dst, False)
    copy_into(dst, v)
    return rebase(dst, None)


cdef int setitem(object a, object index, object value) except -1:
    cdef Tensor t = <Tensor>a, dst, v = value_tensor(t, value)
    cdef list tensors
    if index is False:
        return 0
    if index is True or index is Ellipsis:
        return assign(t, v)
    if index is None:
        return assign(view_unsqueeze(t, 0), v)
    if type(index) is int:
        return assign(select_int(t, 0, long_of(index), 0), v)
    if type(index) is slice:
        return assign(slice_dim(t, 0, index, True), v)
    tensors = []
    dst = basic(t, as_tuple(index), tensors)
    if not tensors:
        return assign(dst, v)
    index_put_inplace(dst, tensors, without_leading_ones(v), False)
    return 0


hooks().getitem = getitem
hooks().setitem = setitem
