# as_strided, and the history of tensors that are views: AsStridedBackward0 and CopySlices.
# Included by views.pyx.

cdef class Geometry:
    """Shape, strides and offset (elements from the storage's start)."""
    cdef int nd
    cdef int64_t sizes[64]
    cdef int64_t strides[64]
    cdef int64_t offset

    @staticmethod
    cdef Geometry of(Tensor t):
        cdef Geometry g = Geometry.__new__(Geometry)
        g.nd = t.nd
        for d in range(t.nd):
            g.sizes[d], g.strides[d] = t.sizes[d], t.strides[d]
        g.offset = (t.ptr - t.storage.data) // backend.item_size(t.dt)
        return g

    cdef object shape(self):
        return make_size(self.nd, self.sizes)

    cdef int64_t extent(self):
        cdef int64_t e = 1
        for d in range(self.nd):
            if self.sizes[d] == 0:
                return 0
            e += (self.sizes[d] - 1) * self.strides[d]
        return e


def _as_strided_backward(FnNode node, Tensor g):
    """Adds g's elements where the view had them, over the memory that the input spans."""
    cdef Geometry base = node.ctx[0], v = node.ctx[1]
    import tensotron._core.creation as creation
    start = min(base.offset, v.offset)
    extent = max(base.offset + base.extent(), v.offset + v.extent()) - start
    where = creation.arange(extent)
    at_view = as_view(where, v.nd, v.sizes, v.strides, v.offset - start)
    at_base = as_view(where, base.nd, base.sizes, base.strides, base.offset - start)
    memory = g.new_zeros((extent,)).index_add(0, at_view.reshape(-1), g.reshape(-1))
    if overlapping(base):
        ones = g.new_zeros((extent,)).index_add(0, at_base.reshape(-1), g.new_ones((at_base.numel(),)))
        memory = memory / ones.clamp_min(1)
    return memory.index_select(0, at_base.reshape(-1)).reshape(base.shape())


cdef bint overlapping(Geometry g) noexcept:
    for d in range(g.nd):
        if g.sizes[d] > 1 and g.strides[d] == 0:
            return True
    return False


def as_strided(input, size, stride, storage_offset=None):
    """A view of the input's memory with the given sizes, strides and offset, in elements.

    Raises:
        RuntimeError: it would reach outside the storage.
    """
    cdef Tensor x = self_arg(input, "as_strided"), v
    cdef int64_t s[64]
    cdef int64_t st[64]
    cdef int nd = parse_sizes((size,), s), m = parse_sizes((stride,), st), d
    cdef int64_t item = backend.item_size(x.dt), now = (x.ptr - x.storage.data) // item
    cdef int64_t offset = now if storage_offset is None else storage_offset, need = 1
    if backend.recording_here():
        x.storage.watched = True  # the call depends on where x is in its storage
    if nd != m:
        raise RuntimeError(f"mismatch in length of strides and shape")
    for d in range(nd):
        if st[d] < 0:
            raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {[st[i] for i in range(nd)]}")
        if s[d] < 0:
            raise RuntimeError(f"as_strided: negative size {s[d]}")
        need = 0 if s[d] == 0 or need == 0 else need + (s[d] - 1) * st[d]
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if need and (offset + need) * item > <int64_t>x.storage.nbytes:
        raise RuntimeError(f"setStorage: sizes {[s[i] for i in range(nd)]}, strides {[st[i] for i in range(nd)]}, storage offset {offset}, and "
                           f"itemsize {item} requiring a storage size of {(offset + need) * item} are out of bounds for storage of size "
                           f"{x.storage.nbytes}")
    v = as_view(x, nd, s, st, offset - now)
    make_view(x, v, VIEW_SINGLE)
    if grad_enabled() and x.requires() and dt_.is_float(x.dt):
        attach(v, "AsStridedBackward0", _as_strided_backward, (x,), None, (Geometry.of(x), Geometry.of(v)))
    return v


cdef Node view_history(Tensor t):
    """New node of a view whose base has another history by now."""
    cdef FnNode node = FnNode.__new__(FnNode)
    node.node_name = "AsStridedBackward0"
    node.backward = _as_strided_backward
    node.ctx = (Geometry.of(t.base_), Geometry.of(t))
    node.seq = next_seq()
    node.n_out = 1
    node.out_dtype = t.dt
    add_edge(node, t.base_)
    return node


@cython.trashcan(True)  # a long chain is freed without recursion
cdef class CopySlices(Node):
    """History of a base one of whose views was written in place: inside the view the gradient passes
    through the op's node, outside it stays."""
    cdef Node fn
    cdef Geometry base, part

    cdef object apply(self, object grads):
        cdef Tensor g = <Tensor>grads, result, piece
        result = empty_of(self.base.shape(), g.dt)
        before = grad_enabled()
        if before:
            result.copy_(g)
            piece = as_strided(result, make_size(self.part.nd, self.part.sizes), self.packed(), self.start())
        else:
            copy_into(result, g)
            piece = as_view(result, self.part.nd, self.part.sizes, self.packed_strides(), self.start())
        found = self.fn.apply(piece.clone())
        if self.fn.n_next == 1 and not isinstance(found, (tuple, list)):
            found = (found,)
        if self.next0 is not None:
            first = found[0] if found is not None else None
            if first is None:
                piece.zero_()
            else:
                piece.copy_(first)
        return [result if self.next0 is not None else None] + (list(found[1:]) if found is not None else [])

    cdef int64_t start(self):
        """Offset of the part in a packed copy of the base."""
        return offset_in(self.base, self.part.offset - self.base.offset)

    cdef int64_t* packed_strides(self):
        return self.packed_memory()

    cdef int64_t packed_buffer[64]

    cdef int64_t* packed_memory(self):
        for d in range(self.part.nd):
            self.packed_buffer[d] = offset_in(self.base, self.part.strides[d]) if self.part.sizes[d] > 1 else 1
        return self.packed_buffer

    cdef object packed(self):
        self.packed_memory()
        return tuple([self.packed_buffer[d] for d in range(self.part.nd)])

    cdef int release_saved(self) except -1:
        return self.fn.release_saved()

    cdef object saved_values(self):
        return self.fn.saved_values()


cdef int64_t offset_in(Geometry base, int64_t offset):
    """The offset that a step of `offset` elements in the base's memory has in a packed copy of it."""
    cdef int order[64]
    cdef int64_t packed[64]
    cdef int64_t n = 1, out = 0
    cdef int i, j, d
    for d in range(base.nd - 1, -1, -1):
        packed[d] = n
        n *= base.sizes[d]
    for i in range(base.nd):
        order[i] = i
        j = i
        while j > 0 and base.strides[order[j - 1]] < base.strides[order[j]]:
            order[j - 1], order[j] = order[j], order[j - 1]
            j -= 1
    for i in range(base.nd):
        d = order[i]
        if base.sizes[d] > 1 and base.strides[d] > 0:
            out += offset // base.strides[d] * packed[d]
            offset = offset % base.strides[d]
    return out


cdef int rebase_view(Tensor t, Node node) except -1:
    """t, a view, was written by the op of `node` (whose first input is t)."""
    cdef CopySlices cs = CopySlices.__new__(CopySlices)
    cdef Tensor base = t.base_
    cdef int i
    cs.node_name = "CopySlices"
    cs.fn = node
    cs.base = Geometry.of(base)
    cs.part = Geometry.of(t)
    cs.seq = next_seq()
    cs.n_out = 1
    cs.out_dtype = base.dt
    add_edge(cs, base)
    for i in range(1, node.n_next):
        push_edge(cs, node.next_node(i), node.next_nr(i))
    return set_history(base, cs)


cdef int push_edge(Node node, Node e, int nr) except -1:
    cdef int i = node.n_next
    if i == 1:
        node.next1, node.nr1 = e, nr
    elif i == 2:
        node.next2, node.nr2 = e, nr
    else:
        if node.more is None:
            node.more = []
        node.more.append((e, nr))
    node.n_next = i + 1
    return 0
