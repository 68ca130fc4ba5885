# Results that may be differentiated outside: the backward pass behind them is recorded too, without running it,
# and becomes the node of the results of a replay. Included by capture.pyx.


cdef list leaves_behind(list roots):
    """Leaves of the graphs behind the nodes. Raises Refused where Python runs in the backward pass."""
    cdef list found = []
    cdef Node node
    for node in nodes_behind(roots):
        if (node.tensor_hooks is not None or node.pre_hooks is not None or node.post_hooks is not None
                or node.retain is not None):
            raise Refused("a result with hooks on its history is differentiated outside")
        if isinstance(node, AccumulateGrad):
            found.append((<AccumulateGrad>node).variable)
    return found


@cython.final
cdef class CapturedBackward:
    """The backward pass of a captured call: from gradients of its live results to those of the leaves."""
    cdef Program program
    cdef list leaves               # (tensor, -1), or (None, number of the input)
    cdef list results              # per leaf: None, or a Result; its `input` is the number of a gradient given
    cdef vector[int] given_slots   # of the gradients given, -1: unused
    cdef list given                # their geometry
    cdef list saved                # (slot here, number of the memory made in a replay)
    cdef list inputs               # (slot, number of the input)
    cdef list states               # (slot, storage)
    cdef dict fresh

    cdef CapturedNode node(self, list tensors, list made):
        """The node of the results of one replay."""
        cdef CapturedNode n = CapturedNode.__new__(CapturedNode)
        cdef Storage s
        cdef Tensor t
        n.how = self
        n.node_name = "CompiledFunctionBackward"
        n.seq = next_seq()
        n.n_out = len(self.given)
        n.out_dtype = (<Tensor>self.given[0]).dt if n.n_out == 1 else 255
        for leaf, i in self.leaves:
            add_edge(n, leaf if leaf is not None else <Tensor>tensors[i])
        n.places = []
        for slot, source in self.saved:
            s = <Storage>made[source]
            n.places.append((slot, s, 0, s.version))
        for slot, i in self.inputs:
            t = <Tensor>tensors[i]
            n.places.append((slot, t.storage, t.ptr - t.storage.data, t.storage.version))
        for slot, storage in self.states:
            s = <Storage>storage
            n.places.append((slot, s, 0, s.version))
        return n


@cython.trashcan(True)
cdef class CapturedNode(Node):
    """History of the results of a replay: owns what the backward pass needs of that call."""
    cdef CapturedBackward how
    cdef list places               # (slot, storage, offset in bytes, version)

    cdef object apply(self, object grads):
        cdef CapturedBackward how = self.how
        cdef Program program = how.program
        cdef Storage s
        cdef Tensor g
        cdef Result r
        cdef int64_t offset
        cdef int slot, i
        cdef dict made = {}
        if self.places is None:
            raise_freed_graph()
        if grad_enabled():
            raise NotImplementedError("compile: second derivatives through a result of a captured call are not supported; take "
                                      "the first derivative inside the compiled function")
        given = [grads] if self.n_out == 1 else list(grads)
        for i in range(self.n_out):
            g = <Tensor>how.given[i]
            if given[i] is None:
                given[i] = empty(g.nd, g.sizes, g.dt)
                fill_with(<Tensor>given[i], 0)
            given[i] = materialise(<Tensor>given[i], g.dt)
        places = self.places  # kept, whatever another thread does
        program.wait()
        for i in range(self.n_out):
            if how.given_slots[i] >= 0:
                program.point(how.given_slots[i], (<Tensor>given[i]).ptr)
        for place in places:
            slot, s, offset, version = place
            if s.version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: memory of "
                    f"{s.nbytes} bytes is at version {s.version}; expected version {version} instead.")
            program.point(slot, s.data + offset)
        for key, size in how.fresh.items():
            slot = key
            s = made[key] = new_storage(size)
            program.point(slot, s.data)
        program.run()
        return tuple([self.gradient(<Result>x, given, made) if x is not None else None for x in how.results])

    cdef Tensor gradient(self, Result r, list given, dict made):
        cdef Tensor t, g
        cdef Storage s
        if r.input >= 0:
            g = <Tensor>given[r.input]
            t = tensor_over(g.storage, g.ptr + r.offset, r.like.dt)
        else:
            s = <Storage>made[r.slot]
            t = tensor_over(s, s.data + r.offset, r.like.dt)
        set_geometry(t, r.like.nd, r.like.sizes, r.like.strides)
        return t

    cdef int release_saved(self) except -1:
        self.released = True
        self.places = None
        return 0


cdef CapturedBackward record_backward(Recording rec, list live):
    """Records the backward pass behind the results `live`; what it reads of the forward pass gets slots there."""
    cdef CapturedBackward b = CapturedBackward.__new__(CapturedBackward)
    cdef Recorder recorder = Recorder(True, True)
    cdef Storage s
    cdef Tensor t, g
    cdef Result r
    cdef Py_ssize_t i
    cdef int slot, n_slots = 0
    cdef dict slot_of = {}, base_of = {}, temporaries = {}, given_at = {}, input_at = {}
    from tensotron._autograd import engine
    leaves = leaves_behind([(<Tensor>t).grad_fn_ for t in live])
    b.leaves, b.given = [], []
    for t in leaves:
        for i in range(len(rec.tensors)):
            if rec.tensors[i] is t:
                b.leaves.append((None, i))
                break
        else:
            if id(t.storage) in rec.created:
                raise Refused("a leaf made inside is differentiated outside")
            t.storage.watched = True
            b.leaves.append((t, -1))
    for t in live:
        b.given.append(empty(t.nd, t.sizes, t.dt))
        given_at[id((<Tensor>b.given[len(b.given) - 1]).storage)] = len(b.given) - 1
    if watch.capturing:
        raise Refused("another thread is capturing a call")
    recorder.start()
    try:
        grads = engine.grad(live, leaves, b.given, retain_graph=True, allow_unused=True)
    finally:
        recorder.stop()
    if recorder.reason is not None:
        raise Refused("in the backward pass, " + recorder.reason)
    created = {id(s): s for s in recorder.created}
    for address, i in rec.input_of.items():
        input_at[address] = i
    for i in range(len(rec.tensors)):
        input_at.setdefault(id((<Tensor>rec.tensors[i]).storage), i)
    b.saved, b.inputs, b.states, b.fresh, b.results = [], [], [], {}, []
    b.given_slots.resize(len(live), -1)
    for address, storage in recorder.buffers.items():
        s = <Storage>storage
        slot, n_slots = n_slots, n_slots + 1
        slot_of[address], base_of[address] = slot, <size_t>s.data
        if address in given_at:
            b.given_slots[given_at[address]] = slot
        elif address in created:
            temporaries[slot] = s.nbytes
        elif address in rec.created:
            if address not in rec.slot_of:
                rec.new_slot(address, s.data)
            elif rec.slot_of[address] not in rec.fresh:
                raise Refused("a gradient is needed by the backward pass of a result")
            rec.fresh[rec.slot_of[address]] = s.nbytes
            b.saved.append((slot, rec.slot_of[address]))
        elif address in input_at:
            i = input_at[address]
            base_of[address] = <size_t>(<Tensor>rec.tensors[i]).ptr
            b.inputs.append((slot, i))
        else:
            s.watched = True
            b.states.append((slot, s))
    for g in grads:
        if g is None:
            b.results.append(None)
            continue
        r = Result.__new__(Result)
        r.slot = r.input = r.leaf = -1
        s = g.storage
        if id(s) in given_at:
            r.input = given_at[id(s)]
            r.offset = g.ptr - (<Tensor>b.given[r.input]).ptr
        elif id(s) in created:
            if id(s) not in slot_of:
                slot_of[id(s)], base_of[id(s)] = n_slots, <size_t>s.data
                n_slots += 1
            r.slot = slot_of[id(s)]
            temporaries.pop(r.slot, None)
            b.fresh[r.slot] = s.nbytes
            r.offset = g.ptr - s.data
        else:
            raise Refused("a gradient shares memory with what the call was given")
        r.like = geometry_of(g)
        b.results.append(r)
    b.program = Program(recorder.records, slot_of, base_of, n_slots)
    b.program.held = list(recorder.held)
    b.program.plan(temporaries)
    b.given = [geometry_of(<Tensor>t) for t in b.given]
    return b
