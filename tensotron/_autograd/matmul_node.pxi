# The launch of the GEMM kernel and the graph node of a product. Included by matmul.pyx.

# ==== launch ====================================================================================
# A matrix or a batch of them: a tensor read with these strides.
cdef struct Operand:
    int64_t batch, row, col


cdef inline Operand as_rows(Tensor t) noexcept:
    """A matrix, or a batch of matrices."""
    cdef Operand o
    o.batch = t.strides[0] if t.nd == 3 else 0
    o.row = t.strides[t.nd - 2]
    o.col = t.strides[t.nd - 1]
    return o


cdef inline Operand flipped(Operand o) noexcept:
    o.row, o.col = o.col, o.row
    return o


cdef inline Operand column(Tensor t) noexcept:
    """A vector as a matrix of one column."""
    cdef Operand o
    o.batch = 0
    o.row = t.strides[0] if t.nd else 1
    o.col = 1
    return o


cdef inline void set_matrix(Record* r, int k, Tensor t, Operand o) noexcept:
    set_arg(r, k, t)
    r.arg[k].stride[0] = o.batch
    r.arg[k].stride[1] = o.row
    r.arg[k].stride[2] = o.col


cdef int gemm(Tensor c, Operand oc, Tensor a, Operand oa, Tensor b, Operand ob, Tensor d, Operand od,
              int64_t batch, int64_t m, int64_t n, int64_t k, double alpha, double beta) except -1:
    """c = alpha * a @ b + beta * d, with d None left out; alpha and beta are int_number's where c holds integers."""
    cdef Record r
    begin(&r, K_gemm, 0, 1, 2 if d is None else 3, c.dt)
    r.ndim = 0
    r.ints[0] = batch
    r.ints[1] = m
    r.ints[2] = n
    r.ints[3] = k
    r.reals[0] = alpha
    r.reals[1] = beta
    if not dt_.is_float(c.dt):
        memcpy(&r.ints[4], &alpha, sizeof(alpha))
        memcpy(&r.ints[5], &beta, sizeof(beta))
    set_matrix(&r, 0, c, oc)
    set_matrix(&r, 1, a, oa)
    set_matrix(&r, 2, b, ob)
    if d is not None:
        set_matrix(&r, 3, d, od)
    return backend.launch(&r)


cdef inline int product(Tensor c, Operand oc, Tensor a, Operand oa, Tensor b, Operand ob,
                        int64_t batch, int64_t m, int64_t n, int64_t k, double alpha) except -1:
    return gemm(c, oc, a, oa, b, ob, None, oa, batch, m, n, k, alpha if dt_.is_float(c.dt) else int_number(<int64_t>alpha), 0)


cdef inline Tensor empty2(int64_t m, int64_t n, int dt, bint by_columns):
    cdef int64_t s[2]
    cdef int64_t st[2]
    s[0] = m
    s[1] = n
    if not by_columns:
        return empty(2, s, dt)
    st[0] = 1
    st[1] = m
    return empty_strided(2, s, st, dt)


cdef inline bint by_columns(Tensor t) noexcept:
    return not t.contiguous and t.strides[0] == 1 and t.strides[1] == t.sizes[0]


cdef Tensor upright(Tensor t):
    """A vector as a matrix of one column."""
    cdef int64_t s[2]
    cdef int64_t st[2]
    s[:] = [t.sizes[0], 1]
    st[:] = [t.strides[0], 1]
    return as_view(t, 2, s, st, 0)


cdef inline bint shares_memory(Tensor out, Tensor t) noexcept:
    return t is not None and out.storage is t.storage


# ==== graph =====================================================================================
cdef enum Kind:
    MM      # a @ b, matrices
    BMM     # batches of matrices
    MV      # matrix, vector
    DOT     # vectors
    ADDMM   # beta * self + alpha * a @ b
    LINEAR  # a @ b^T, plus a bias if there are three inputs


@cython.final
cdef class MatmulNode(Node):
    """Node of a product of `a` and `b`; what was added to it, if anything, is input 0."""
    cdef int kind
    cdef Tensor a, b               # saved if the other one needs a gradient
    cdef int64_t va, vb
    cdef double alpha, beta
    cdef bint a_columns, b_columns  # memory order of the gradients
    cdef bint has_added
    cdef int added_nd
    cdef int64_t added_sizes[2]

    cdef object apply(self, object grads):
        cdef PyObject* parts[3]
        parts[0] = parts[1] = parts[2] = NULL
        self.compute(<Tensor>grads, grad_enabled(), parts)
        if self.has_added:
            return take_part(parts), take_part(parts + 1), take_part(parts + 2)
        return take_part(parts), take_part(parts + 1)

    cdef bint apply_parts(self, object grads, PyObject** parts) except -1:
        self.compute(<Tensor>grads, grad_enabled(), parts)
        return True

    cdef int compute(self, Tensor g, bint create, PyObject** parts) except -1:
        cdef Tensor a = None, b = None
        cdef object ga = None, gb = None, added = None
        cdef int k = self.has_added
        if self.released:
            raise_freed_graph()
        if self.a is not None:
            a = unpack_saved(self, self.a, self.va, -1)
        if self.b is not None:
            b = unpack_saved(self, self.b, self.vb, -1)
        if b is not None:
            ga = self.composed_a(g, b) if create else self.gradient_a(g, b)
        if a is not None:
            gb = self.composed_b(g, a) if create else self.gradient_b(g, a)
        if k and self.next0 is not None:
            if self.beta != 1:
                g = the_hooks.mul(g, self.beta)
            if create:
                added = sum_to_shape(g, make_size(self.added_nd, self.added_sizes))
            else:
                added = sum_to(g, self.added_nd, self.added_sizes)
            put_part(parts, added)
        put_part(parts + k, ga)
        put_part(parts + k + 1, gb)
        return 0

    cdef int release_saved(self) except -1:
        self.released = True
        self.a = self.b = None
        return 0

    cdef object saved_values(self):
        names = ("mat1", "mat2") if self.kind >= ADDMM else ("self", "vec" if self.kind == MV else "tensor" if self.kind == DOT else "mat2")
        return {name: None if t is None else unpack_saved(self, <Tensor>t, v, -1)
                for name, t, v in ((names[0], self.a, self.va), (names[1], self.b, self.vb))}

    cdef Tensor gradient_a(self, Tensor g, Tensor b):
        cdef Tensor out
        cdef int64_t s[3]
        if self.kind == DOT:
            out = the_hooks.mul(g, b)
        elif self.kind == MV:
            out = the_hooks.mul(upright(g), b)
        elif self.kind == BMM:
            s[:] = [g.sizes[0], g.sizes[1], b.sizes[1]]
            out = empty(3, s, g.dt)
            product(out, as_rows(out), g, as_rows(g), b, flipped(as_rows(b)), s[0], s[1], s[2], g.sizes[2], 1)
        elif self.kind == LINEAR:
            out = empty2(g.sizes[0], b.sizes[1], g.dt, self.a_columns)
            product(out, as_rows(out), g, as_rows(g), b, as_rows(b), 1, g.sizes[0], b.sizes[1], g.sizes[1], 1)
        else:
            out = empty2(g.sizes[0], b.sizes[0], g.dt, self.a_columns)
            product(out, as_rows(out), g, as_rows(g), b, flipped(as_rows(b)), 1, g.sizes[0], b.sizes[0], g.sizes[1],
                    self.alpha)
        return out

    cdef Tensor gradient_b(self, Tensor g, Tensor a):
        cdef Tensor out
        cdef int64_t s[3]
        if self.kind == DOT:
            out = the_hooks.mul(g, a)
        elif self.kind == MV:
            out = empty(1, &a.sizes[1], g.dt)
            product(out, column(out), a, flipped(as_rows(a)), g, column(g), 1, a.sizes[1], 1, a.sizes[0], 1)
        elif self.kind == BMM:
            s[:] = [g.sizes[0], a.sizes[2], g.sizes[2]]
            out = empty(3, s, g.dt)
            product(out, as_rows(out), a, flipped(as_rows(a)), g, as_rows(g), s[0], s[1], s[2], g.sizes[1], 1)
        elif self.kind == LINEAR:
            out = empty2(g.sizes[1], a.sizes[1], g.dt, self.b_columns)
            product(out, as_rows(out), g, flipped(as_rows(g)), a, as_rows(a), 1, g.sizes[1], a.sizes[1], g.sizes[0], 1)
        else:
            out = empty2(a.sizes[1], g.sizes[1], g.dt, self.b_columns)
            product(out, as_rows(out), a, flipped(as_rows(a)), g, as_rows(g), 1, a.sizes[1], g.sizes[1], g.sizes[0],
                    self.alpha)
        return out

    cdef object composed_a(self, Tensor g, Tensor b):
        """The same of public ops, for derivatives of derivatives."""
        if self.kind == DOT:
            return g * b
        if self.kind == MV:
            return outer(g, b)
        if self.kind == BMM:
            return bmm(g, b.transpose(1, 2))
        if self.kind == LINEAR:
            return mm(g, b)
        out = mm(g, b.t())
        return out if self.alpha == 1 else out * self.alpha

    cdef object composed_b(self, Tensor g, Tensor a):
        if self.kind == DOT:
            return g * a
        if self.kind == MV:
            return mv(a.t(), g)
        if self.kind == BMM:
            return bmm(a.transpose(1, 2), g)
        if self.kind == LINEAR:
            return mm(g.t(), a)
        out = mm(a.t(), g)
        return out if self.alpha == 1 else out * self.alpha


cdef NodeShells shells


cdef inline MatmulNode new_node():
    if shells.n:
        return <MatmulNode>take_node(&shells)
    return MatmulNode.__new__(MatmulNode)


cdef void drop_node(MatmulNode node) noexcept:
    if not begin_drop(&shells, <PyObject*>node):
        return
    if node.a is not None:
        node.a = None
    if node.b is not None:
        node.b = None
    node.a_columns = node.b_columns = node.has_added = False
    drop_members(node)
    end_drop(&shells, <PyObject*>node)

(<TypeWithDealloc*>MatmulNode).tp_dealloc = <destructor>drop_node


cdef MatmulNode make_node(int kind, str name, Tensor added, Tensor a, Tensor b, Tensor out, double alpha, double beta):
    cdef MatmulNode node = new_node()
    cdef int first = 0, d
    node.kind = kind
    node.node_name = name
    node.seq = next_seq()
    node.n_out = 1
    node.out_dtype = out.dt
    node.alpha = alpha
    node.beta = beta
    if added is not None:
        add_edge(node, added)
        node.has_added = True
        node.added_nd = added.nd
        for d in range(added.nd):
            node.added_sizes[d] = added.sizes[d]
        first = 1
    add_edge(node, a)
    add_edge(node, b)
    if node.next_node(first + 1) is not None:
        node.a = save_input(a)
        node.va = a.version()
    if node.next_node(first) is not None:
        node.b = save_input(b)
        node.vb = b.version()
    if a.nd == 2:
        node.a_columns = by_columns(a)
    if b.nd == 2:
        node.b_columns = by_columns(b)
    return node
