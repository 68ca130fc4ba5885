# Recording a call and making a Captured of it. Included by capture.pyx.


cdef object unsuitable(list tensors, list spec):
    """Why a call with these arguments cannot be captured, or None."""
    cdef Tensor t
    for t in tensors:
        if t.grad_fn_ is not None or (t.base_ is not None and t.requires()):
            return "an argument has a history (pass x.detach(), or compute it inside)"
        if t.hooks is not None or t.retains:
            return "an argument has hooks"
        if t.storage is None:
            return "an argument has no memory"
    for x in spec:
        if x is TOO_DEEP:
            return "the arguments are too many, or containers nested too deeply"
        if type(x).__module__ == "numpy":
            return "an argument is a numpy object (pass a tensor)"
    return None


cdef Storage proxy_of(Storage s):
    """Stands for the storage of an argument, so that records tell it from one reached otherwise."""
    cdef Storage p = Storage.__new__(Storage)
    p.data, p.nbytes, p.capacity, p.version, p.owner = s.data, s.nbytes, s.capacity, s.version, s
    return p


cdef tuple record_call(object fn, tuple args, dict kwargs, list spec, list tensors):
    """Runs the call and records it: (result, Captured or None, why not, whether a later call may do)."""
    cdef Recorder recorder = Recorder(True, False)
    cdef int default_float = dt_.default_float()
    cdef uint64_t epoch = watch.epoch, modes = watch.modes
    cdef bint grad = grad_enabled(), inference = inference_enabled()
    cdef list proxies = [], originals = []
    cdef dict stand_in = {}
    cdef Tensor t
    cdef Storage s, p
    cdef Py_ssize_t i
    for t in tensors:
        s = t.storage
        if id(s) not in stand_in:
            stand_in[id(s)] = proxy_of(s)
        originals.append(s)
        proxies.append(stand_in[id(s)])
    inputs = [describe(i, tensors) for i in range(len(tensors))]
    for i in range(len(tensors)):
        (<Tensor>tensors[i]).storage = <Storage>proxies[i]
    recorder.start()
    try:
        result = fn(*args, **kwargs)
    finally:
        recorder.stop()
        for i in range(len(tensors)):
            t, s, p = <Tensor>tensors[i], <Storage>originals[i], <Storage>proxies[i]
            if t.storage is p:
                t.storage = s
            s.version = max(s.version, p.version)
            p.data, p.nbytes, p.capacity = s.data, s.nbytes, s.capacity
            (<Input>inputs[i]).placed = p.watched
    back = {id(proxies[i]): originals[i] for i in range(len(tensors))}
    for t in tensors_in(result, []):
        while t is not None:
            if id(t.storage) in back:
                t.storage = <Storage>back[id(t.storage)]
            t = t.base_
    if recorder.reason is not None:
        return result, None, recorder.reason, recorder.later
    if watch.epoch != epoch or watch.modes != modes:
        return result, None, "members, hooks or modes of a module, or attributes of a tensor, change inside", True
    if grad != grad_enabled() or inference != inference_enabled() or default_float != dt_.default_float():
        return result, None, "the grad mode or the default dtype changes inside", False
    captured, reason = Recording(recorder, tensors, inputs, proxies, spec).captured(result)
    return result, captured, reason, False


cdef list tensors_in(object x, list out, int depth=0):
    """The tensors of a structure of results, each once."""
    if isinstance(x, Tensor):
        for t in out:
            if t is x:
                return out
        out.append(x)
    elif isinstance(x, (tuple, list)) and depth < MAX_DEPTH:
        for item in x:
            tensors_in(item, out, depth + 1)
    elif isinstance(x, dict) and depth < MAX_DEPTH:
        for item in x.values():
            tensors_in(item, out, depth + 1)
    return out


cdef list nodes_behind(list roots):
    """The nodes of the graph behind `roots`, those included, each once."""
    cdef list found = list(roots)
    cdef set seen = {id(node) for node in roots}
    cdef Node node, follower
    cdef int i, k = 0
    while k < len(found):
        node = <Node>found[k]
        k += 1
        for i in range(node.n_next):
            follower = node.next_node(i)
            if follower is not None and id(follower) not in seen:
                seen.add(id(follower))
                found.append(follower)
    return found


cdef bint graph_is_freed(Node root) except -1:
    """Whether backward has been through the graph behind a node and released it."""
    cdef Node node
    for node in nodes_behind([root]):
        if node.released:
            return True
    return False


class Refused(Exception):
    """A recorded call that cannot be replayed, with the reason."""


cdef class Recording:
    """What a recorded call was made of, on the way to a Captured."""
    cdef Recorder recorder
    cdef list tensors, inputs, spec
    cdef dict created              # address -> storage made inside
    cdef dict input_of             # address of a stand-in -> first input with it
    cdef dict slot_of, base_of     # address -> slot; -> where its memory starts
    cdef int n_slots
    cdef list leaves, results
    cdef list live                 # results that may be differentiated outside
    cdef dict fresh, memo

    def __init__(self, recorder, tensors, inputs, proxies, spec):
        cdef Py_ssize_t i
        self.recorder, self.tensors, self.inputs, self.spec = recorder, tensors, inputs, spec
        self.created = {id(s): s for s in recorder.created}
        self.input_of = {}
        for i in range(len(tensors)):
            self.input_of.setdefault(id(proxies[i]), i)
        self.slot_of, self.base_of = {}, {}
        self.leaves, self.results, self.live, self.fresh, self.memo = [], [], [], {}, {}

    def captured(self, result):
        """(Captured, None), or (None, the reason why not)."""
        try:
            return self.make(result), None
        except Refused as e:
            return None, str(e)

    cdef int new_slot(self, size_t address, char* base) except -1:
        self.slot_of[address] = self.n_slots
        self.base_of[address] = <size_t>base
        self.n_slots += 1
        return self.n_slots - 1

    cdef Captured make(self, object result):
        cdef Captured c = Captured.__new__(Captured)
        cdef Storage s
        cdef Leaf leaf
        cdef Result r
        cdef Py_ssize_t i
        cdef int slot
        cdef dict temporaries = {}, slots = {}, index
        cdef set written
        c.spec, c.inputs = self.spec, self.inputs
        c.epoch, c.modes = watch.epoch, watch.modes
        c.grad, c.inference, c.default_float = grad_enabled(), inference_enabled(), dt_.default_float()
        self.find_leaves()
        c.output = self.template(result)
        if self.live:
            c.backward = record_backward(self, self.live)
        self.nothing_escapes(result)
        # what nothing sees after the call may be computed otherwise
        for address in self.recorder.buffers:
            if address in self.created and address not in self.slot_of:
                temporaries[address] = (<Storage>self.created[address]).nbytes
        constants, launches = optimise(self.recorder.records, self.created, temporaries)
        touched = set()
        for x in constants + launches:
            touched |= x.touched()
        # slots of everything that records touch
        c.states = []
        c.input_slots.resize(len(self.tensors), -1)
        for address, storage in self.recorder.buffers.items():
            s = <Storage>storage
            if address in self.slot_of:
                continue
            if address in self.input_of:
                i = self.input_of[address]
                c.input_slots[i] = self.new_slot(address, (<Tensor>self.tensors[i]).ptr)
            elif address in self.created:
                if address in touched:
                    slots[self.new_slot(address, s.data)] = s.nbytes
            elif Py_REFCNT(<PyObject*>s) <= 3:  # the recorder's dict, `storage` and `s`
                raise Refused("memory from outside, or of another thread, is read and gone after the call")
            else:
                c.state_slots.push_back(self.new_slot(address, s.data))
                c.states.append(s)
                s.watched = True
        c.program = Program([x.record_now() for x in constants + launches], self.slot_of, self.base_of, self.n_slots)
        c.program.held = list(self.recorder.held)
        filled = [self.slot_of[address] for x in constants for address in x.touched()]
        sizes = [slots.pop(slot) for slot in filled]
        c.program.plan(slots)
        c.program.run_constants(len(constants), filled, sizes)
        for leaf in self.leaves:  # counted as in the program
            leaf.since = len(constants) + len([x for x in launches if x.number < leaf.since])
        c.steps = guards_of(self.recorder.held)
        written = c.program.written()
        for i in range(len(c.states)):
            c.state_at.push_back(<PyObject*>c.states[i])
            if c.state_slots[i] in written:
                c.written.push_back(c.state_at[i])
        c.written_inputs = [i for i in range(len(self.tensors)) if c.input_slots[i] in written]
        for leaf in self.leaves:
            leaf.writes = leaf.before >= 0 and leaf.before in written
        c.leaves = self.leaves
        index = {}
        for slot, size in self.fresh.items():
            index[slot] = len(index)
            c.fresh_slots.push_back(slot)
            c.fresh_sizes.push_back(size)
        for r in self.results:
            if r.slot >= 0 and r.input < 0:
                r.made = index[r.slot]
        if c.backward is not None:
            c.backward.saved = [(slot, index[source]) for slot, source in c.backward.saved]
        c.results = self.results
        c.plain = -1
        if type(c.output) is Result:
            r = <Result>c.output
            if r.slot >= 0 and r.leaf < 0 and r.live < 0:
                c.single = r
        return c

    cdef int find_leaves(self) except -1:
        cdef Leaf leaf
        cdef Tensor t, initial, final
        cdef Storage s
        for t, initial, since in self.recorder.leaves:
            leaf = Leaf.__new__(Leaf)
            leaf.since = since
            leaf.input = leaf.before = leaf.after = -1
            for i in range(len(self.tensors)):
                if self.tensors[i] is t:
                    leaf.input = i
                    break
            else:
                if id(t.storage) in self.created:
                    # a leaf made inside: its entry in the recorder and `t` are all that is left of it
                    if Py_REFCNT(<PyObject*>t) > 2:
                        raise Refused("a tensor with a gradient, made inside, outlives the call")
                    continue
                leaf.tensor = t
                t.storage.watched = True
            final = t.grad_
            leaf.had = initial is not None
            leaf.unchanged = final is initial
            if initial is not None and id(initial.storage) in self.recorder.buffers:
                s = initial.storage
                if id(s) in self.slot_of:
                    raise Refused("gradients share memory")
                if initial.grad_fn_ is not None:
                    raise Refused("a gradient has a history")
                leaf.before = self.new_slot(id(s), initial.ptr)
                leaf.shape_before = initial
            if final is not None and not leaf.unchanged:
                s = final.storage
                if id(s) not in self.created:
                    raise Refused("a gradient is assigned from outside")
                if final.grad_fn_ is not None or id(s) in self.slot_of:
                    raise Refused("a gradient with a history, or that shares memory")
                leaf.after = self.new_slot(id(s), s.data)
                leaf.kept, leaf.model = final, geometry_of(final)
                leaf.offset, leaf.nbytes, leaf.version = final.ptr - s.data, s.nbytes, s.version
            self.leaves.append(leaf)
        return 0

    cdef object template(self, object x, int depth=0):
        """The structure of the results with Result in place of tensors."""
        if isinstance(x, Tensor):
            if id(x) not in self.memo:
                self.memo[id(x)] = self.result(<Tensor>x)
            return self.memo[id(x)]
        cdef type kind = type(x)
        if depth > MAX_DEPTH:
            raise Refused("the results are nested too deeply")
        if kind is tuple or kind is list or kind is Size:
            return kind([self.template(item, depth + 1) for item in x])
        if kind is dict or kind is OrderedDict:
            return kind([(key, self.template(item, depth + 1)) for key, item in x.items()])
        if is_record(x):
            return rebuilt(x, [self.template(item, depth + 1) for item in x])
        if x is None or isinstance(x, (bool, int, float, complex, str, bytes, type, dt_.dtype, device)):
            return x
        raise Refused(f"a result is of type {kind.__name__}")

    cdef Result result(self, Tensor t):
        cdef Result r = Result.__new__(Result)
        cdef Storage s = t.storage
        cdef Leaf leaf
        cdef Result other
        cdef Py_ssize_t i
        r.slot = r.input = r.leaf = r.live = -1
        r.like = t
        r.number = len(self.results)
        self.results.append(r)
        for i in range(len(self.tensors)):
            if self.tensors[i] is t:
                r.input = i
                return r
        for i in range(len(self.leaves)):
            leaf = <Leaf>self.leaves[i]
            if leaf.of(self.tensors).grad_ is t:
                r.leaf = i
                return r
        if type(t) is not Tensor and id(s) in self.created:
            raise Refused("a result is of a subclass of Tensor")
        if t.grad_fn_ is not None:
            if graph_is_freed(t.grad_fn_):
                r.freed = t.grad_fn_.node_name
            elif id(s) in self.created:
                r.live = len(self.live)
                self.live.append(t)
            else:
                raise Refused("a result that may be differentiated outside shares memory with what the call was given")
        if id(s) in self.created:
            if t.leaf_grad:
                raise Refused("a result is a new leaf that requires grad")
            if id(s) in self.slot_of and self.slot_of[id(s)] not in self.fresh:
                raise Refused("a result shares memory with a gradient")
            if id(s) not in self.slot_of:
                self.new_slot(id(s), s.data)
            r.slot = self.slot_of[id(s)]
            for other in self.results:  # a change of one in place would be missing in the other's history
                if other is not r and other.slot == r.slot and other.input < 0 and (r.live >= 0 or other.live >= 0):
                    raise Refused("results that may be differentiated outside share memory")
            self.fresh[r.slot] = s.nbytes
            r.offset = t.ptr - s.data
        else:
            for i in range(len(self.tensors)):
                if (<Tensor>self.tensors[i]).storage is s:
                    r.input, r.slot, r.offset = i, 0, t.ptr - (<Tensor>self.tensors[i]).ptr
                    break
            else:
                s.watched = True
                return r
        r.like = geometry_of(t)
        return r

    cdef int nothing_escapes(self, object result) except -1:
        """Raises unless what was made inside is reached from the results and gradients alone: something else
        that keeps it would see it change at every replay."""
        cdef dict known = {}
        cdef Tensor t
        cdef Storage s
        cdef Leaf leaf
        cdef list seen = []
        for t in tensors_in(result, []) + [leaf.kept for leaf in self.leaves if leaf.kept is not None]:
            while t is not None and not any([t is x for x in seen]):
                seen.append(t)
                known[id(t.storage)] = known.get(id(t.storage), 0) + 1
                t = t.base_
        t = None
        for address in self.created:
            s = <Storage>self.created[address]
            if self.live and address in self.slot_of:  # made anew in each replay; the history of a result keeps it
                continue
            # held by the list and the dict of this recording and by `s`, and by the recorder's operands
            if Py_REFCNT(<PyObject*>s) > 3 + (address in self.recorder.buffers) + known.get(address, 0):
                raise Refused("a tensor made inside is kept by something other than the results")
        return 0


cdef Tensor geometry_of(Tensor t):
    """t without its memory and history."""
    cdef Tensor out = as_view(t, t.nd, t.sizes, t.strides, 0)
    out.storage = None
    out.ptr = NULL
    out.counter = None
    return out
