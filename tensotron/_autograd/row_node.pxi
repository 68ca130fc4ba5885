# The graph node of a row of the elementwise table. Included by elementwise.pyx.
cdef RowNode make_node(int row, str name, Tensor a, Tensor b, Tensor c, double na, double nb, double nc, int n_in,
                       int compute, const double* p, Tensor out, bint inplace):
    cdef RowNode node = new_row_node()
    cdef int k
    cdef uint8_t uses = 0
    cdef Tensor t
    cdef const RowInfo* info = &tt_row(row)
    node.row = row
    node.n_in = n_in
    node.compute = compute
    node.node_name = name
    node.seq = next_seq()
    node.n_out = 1
    node.out_dtype = out.dt
    for k in range(4):
        node.p[k] = p[k]
    node.number[0] = na
    node.number[1] = nb
    node.number[2] = nc
    for k in range(n_in):
        t = a if k == 0 else b if k == 1 else c
        if t is None:
            node.is_scalar |= 1 << k
            node.in_dtype[k] = compute
        else:
            node.in_dtype[k] = t.dt
            if not dt_.is_float(t.dt):
                t = None
        add_edge(node, t)
        if node.next_node(k) is not None:
            uses |= info.uses[k]
            if not same_shape(t, out):
                if k == 0:
                    node.shape0 = shape_of(t)
                elif k == 1:
                    node.shape1 = shape_of(t)
                else:
                    node.shape2 = shape_of(t)
    node.uses = uses
    if uses & USES_A and a is not None:
        node.a = original(a) if inplace else save_input(a)
        node.va = node.a.version()
    if uses & USES_B and b is not None:
        node.b = save_input(b)  # if that is `out` too, its version tells that it was overwritten
        node.vb = node.b.version()
    if uses & USES_C and c is not None:
        node.c = save_input(c)
        node.vc = node.c.version()
    return node


cdef Tensor original(Tensor t):
    """What an in-place op is about to overwrite, with its history."""
    cdef Tensor s = save_input(t), v = empty_like(t, t.dt)
    copy_into(v, t)
    v.grad_fn_ = s.grad_fn_
    v.output_nr = s.output_nr
    v.leaf_grad = s.leaf_grad
    return v


cdef inline int save_result(RowNode node, Tensor out) except -1:
    if node.uses & USES_Y:
        node.y = save_output(out)
        node.vy = out.version()
    return 0


cdef class RowNode(Node):
    """Node of a row of the elementwise table."""

    cdef object apply(self, object grads):
        cdef Tensor g = <Tensor>grads
        cdef bint create = grad_enabled()
        if self.released:
            raise_freed_graph()
        if self.n_in == 1:
            if self.next0 is None:  # of a view that was made without grad mode
                return None
            return self.symbolic(0, g) if create else self.gradient(0, g)
        if self.n_in == 2 and not create:
            return (self.gradient(0, g) if self.next0 is not None else None,
                    self.gradient(1, g) if self.next1 is not None else None)
        out = []
        for i in range(self.n_in):
            if self.next_node(i) is None:
                out.append(None)
            else:
                out.append(self.symbolic(i, g) if create else self.gradient(i, g))
        return out

    cdef bint apply_parts(self, object grads, PyObject** parts) except -1:
        cdef Tensor g0 = None, g1 = None
        if self.released or self.n_in != 2 or grad_enabled():
            return False
        if self.next0 is not None:
            g0 = self.gradient(0, <Tensor>grads)
        if self.next1 is not None:
            g1 = self.gradient(1, <Tensor>grads)
        put_part(parts, g0)
        put_part(parts + 1, g1)
        return True

    cdef int release_saved(self) except -1:
        if self.uses:
            self.released = True
            self.a = self.b = self.c = self.y = self.masked = None
        return 0

    cdef object saved_values(self):
        out = {}
        for use, name in ((USES_A, "self"), (USES_B, "other"), (USES_C, "third"), (USES_Y, "result")):
            if self.uses & use:
                if self.released:
                    raise_freed_graph()
                out[name] = self.saved_operand(use)
        return out

    cdef Tensor saved_operand(self, int use):
        if use == USES_A:
            return unpack_saved(self, self.a, self.va, -1) if self.a is not None else None
        if use == USES_B:
            return unpack_saved(self, self.b, self.vb, -1) if self.b is not None else None
        if use == USES_C:
            return unpack_saved(self, self.c, self.vc, -1) if self.c is not None else None
        return unpack_saved(self, self.y, self.vy, 0)

    cdef Tensor gradient(self, int i, Tensor g):
        """Gradient of input i without a graph."""
        if identity[self.row * 3 + i] and self.masked is None and (
                self.shape0 if i == 0 else self.shape1 if i == 1 else self.shape2) is None:
            return g
        return self.computed(i, g)

    cdef Tensor computed(self, int i, Tensor g):
        """The same by the row's own kernel."""
        cdef uint8_t uses = tt_row(self.row).uses[i]
        cdef Tensor x1 = None, x2 = None, x3 = None, t, out
        cdef double n1 = 0, n2 = 0, n3 = 0, number
        cdef int n = 1, bit
        shape = self.shape0 if i == 0 else self.shape1 if i == 1 else self.shape2
        if self.masked is not None:
            done = g is self.masked
            self.masked = None
            if done:
                check_saved(self, self.y, self.vy)
                return g
        if identity[self.row * 3 + i]:
            out = g
        else:
            for bit in range(4):
                if not uses >> bit & 1:
                    continue
                number = 0
                if bit == 0:
                    t = check_saved(self, self.a, self.va)
                    number = self.number[0]
                elif bit == 1:
                    t = check_saved(self, self.b, self.vb)
                    number = self.number[1]
                elif bit == 2:
                    t = check_saved(self, self.c, self.vc)
                    number = self.number[2]
                else:
                    t = check_saved(self, self.y, self.vy)
                if n == 1:
                    x1, n1 = t, number
                elif n == 2:
                    x2, n2 = t, number
                else:
                    x3, n3 = t, number
                n += 1
            # references to g: the engine's and apply's
            if self.n_in == 1 and self.post_hooks is None and g.dt == self.in_dtype[i] and g.dt == self.compute and is_temporary(g, 2):
                out = alias(g)
            else:
                out = empty_like(g, self.in_dtype[i])
            launch_row(self.row * 4 + i + 1, out, g, x1, x2, x3, 0, n1, n2, n, self.compute, self.p)
        if shape is not None:
            out = sum_to_shape(out, shape)
        return out

    cdef object symbolic(self, int i, Tensor g):
        """The same, composed of public ops, so that it can be differentiated itself."""
        cdef Tensor x
        derived = ROWS.get(ROW_NAMES[self.row] + "_backward")
        if derived is not None:
            x = self.saved_operand(tt_row(self.row).uses[0])
            return apply_row(derived, DERIVED_NODES[derived], g, x, None, 0, 0, 0, 2, self.compute,
                             self.in_dtype[0], None, False, self.p[0], self.p[1], self.p[2])
        cdef int result = trace(self.row, i + 1)
        cdef Tape* steps = &tape()
        cdef uint8_t uses = tt_row(self.row).uses[i]
        cdef int k, n = steps.n
        # copied: executing the ops may trace other rows
        program = [(steps.step[k].kind, steps.step[k].name.decode() if steps.step[k].name != NULL else None,
                    (steps.step[k].arg[0], steps.step[k].arg[1], steps.step[k].arg[2]), steps.step[k].value)
                   for k in range(n)]
        inputs = [g]
        for k in range(4):
            if uses >> k & 1:
                t = self.saved_operand(1 << k)
                inputs.append(self.number[k] if t is None else t)
        value = run_program(program, result, inputs, [self.p[0], self.p[1], self.p[2], self.p[3]])
        if not isinstance(value, Tensor):
            value = g.new_full(g.shape, value)
        shape = self.shape0 if i == 0 else self.shape1 if i == 1 else self.shape2
        if shape is not None:
            return sum_to_shape(<Tensor>value, shape)
        if (<Tensor>value).nd < g.nd or not same_shape(<Tensor>value, g):
            value = value.expand(g.shape)
        return value


cdef NodeShells shells


cdef inline RowNode new_row_node():
    if shells.n:
        return <RowNode>take_node(&shells)
    return RowNode.__new__(RowNode)


cdef void drop_row(RowNode node) noexcept:
    if not begin_drop(&shells, <PyObject*>node):
        return
    if node.a is not None:
        node.a = None
    if node.b is not None:
        node.b = None
    if node.c is not None:
        node.c = None
    if node.y is not None:
        node.y = None
    if node.masked is not None:
        node.masked = None
    if node.shape0 is not None:
        node.shape0 = None
    if node.shape1 is not None:
        node.shape1 = None
    if node.shape2 is not None:
        node.shape2 = None
    node.is_scalar = 0
    drop_members(node)
    end_drop(&shells, <PyObject*>node)

(<TypeWithDealloc*>RowNode).tp_dealloc = <destructor>drop_row


cdef Tensor check_saved(RowNode node, Tensor t, int64_t version):
    if t is not None and t.version() != version:
        unpack_saved(node, t, version, 0 if t is node.y else -1)
    return t


cdef object run_program(list program, int result, list inputs, list params):
    """Executes the steps that the result needs."""
    from tensotron._autograd import pointwise
    needed = {result}
    for k in range(len(program) - 1, -1, -1):
        if k in needed and program[k][1] is not None:
            needed.update([x for x in program[k][2] if x >= 0])
    values = {}
    for k in range(len(program)):
        if k not in needed:
            continue
        kind, name, args, constant = program[k]
        if kind == STEP_INPUT:
            values[k] = inputs[args[0]]
        elif kind == STEP_PARAM:
            values[k] = params[args[0]]
        elif kind == STEP_CONST:
            values[k] = constant
        else:
            values[k] = pointwise.call(name, [values[x] for x in args if x >= 0])
    return values[result]
