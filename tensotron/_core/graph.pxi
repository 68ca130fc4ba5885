# Nodes of the autograd graph and what an op does to record one. Included by tensor.pyx.

cdef uint64_t next_seq() noexcept:
    global sequence
    sequence += 1
    return sequence


@cython.trashcan(True)
cdef class Node:
    """Base of the nodes of the autograd graph."""

    cdef object apply(self, object grads):
        raise NotImplementedError(f"derivative for {self.node_name} is not implemented")

    cdef bint apply_parts(self, object grads, PyObject** parts) except -1:
        return False

    cdef int release_saved(self) except -1:
        return 0

    cdef object saved_values(self):
        return {}


cdef class FnNode(Node):
    """Node whose backward is a Python-callable function."""

    cdef object apply(self, object grads):
        if self.n_out == 1:
            return self.backward(self, grads)
        return self.backward(self, *grads)

    cdef int release_saved(self) except -1:
        if self.saved_tensors is not None:
            self.released = True
            self.saved_tensors = None
        return 0

    cdef object saved_values(self):
        if self.saved_tensors is None:
            return {}
        return {str(i): self.saved(i) for i in range(len(self.saved_tensors))}

    cpdef object saved(self, int i):
        """The i-th saved tensor, with its place in the graph; None if None was saved.

        Raises:
            RuntimeError: the graph has been freed, or the tensor was modified in place since.
        """
        if self.saved_tensors is None:
            raise_freed_graph()
        t = self.saved_tensors[i]
        if t is None:
            return None
        if i < 4:
            return unpack_saved(self, <Tensor>t, self.versions[i], self.numbers[i])
        return unpack_saved(self, <Tensor>t, self.more_versions[2 * i - 8], self.more_versions[2 * i - 7])

    cpdef bint needs(self, int i):
        """Whether input i needs a gradient."""
        return self.next_node(i) is not None

    @property
    def info(self):
        return self.ctx


cdef int raise_freed_graph() except -1:
    raise RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have "
        "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
        "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if "
        "you need to access saved tensors after calling backward.")


cdef dict TYPE_NAMES = {F32: "FloatTensor", F64: "DoubleTensor", I64: "LongTensor", I32: "IntTensor", U8: "ByteTensor",
                        BOOL: "BoolTensor"}


cdef Tensor save_input(Tensor t):
    """t, or if it has a history an alias that keeps this moment's: a later in-place op on t must not
    change what was saved, nor close a cycle through this node."""
    cdef Tensor v
    if t.inference:
        raise RuntimeError("Inference tensors cannot be saved for backward. Please do not use Tensors created in "
                           "inference mode in computation tracked by autograd. To work around this, you can make a "
                           "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
                           "`torch.inference_mode()`.")
    if t.base_ is not None:
        refresh_view(t)
    if t.grad_fn_ is None:
        return t
    v = alias(t)
    v.grad_fn_ = t.grad_fn_
    v.output_nr = t.output_nr
    return v


cdef Tensor save_output(Tensor t):
    return alias(t)


cdef str op_name(Node node):
    """Name of a node without the Backward0 at its end."""
    return node.node_name.rpartition("Backward")[0] or node.node_name


cdef Tensor unpack_saved(Node node, Tensor saved, int64_t version, int output_nr):
    """output_nr: -1 for an input, else the number of the node's output that was saved."""
    cdef Tensor v
    cdef str origin = ""
    if saved.version() != version:
        if output_nr >= 0:
            origin = f", which is output {output_nr} of {op_name(node)},"
        elif saved.grad_fn_ is not None:
            origin = f", which is output {saved.output_nr} of {op_name(saved.grad_fn_)},"
        raise RuntimeError(
            f"one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[torch.{TYPE_NAMES[saved.dt]} {list(shape_of(saved))}]{origin} is at version {saved.version()}; expected "
            f"version {version} instead. Hint: enable anomaly detection to find the operation that failed to compute "
            f"its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).")
    if output_nr < 0:
        return saved
    v = alias(saved)
    v.grad_fn_ = node
    v.output_nr = output_nr
    return v


cdef class AccumulateGrad(Node):
    """Adds what it receives to the .grad of a leaf. A graph keeps it, and it keeps the leaf; once no graph
    does, the leaf keeps it, emptied, for the next one (see park)."""

    def __dealloc__(self):
        if self.variable is not None and self.variable.accumulator == <void*>self:
            self.variable.accumulator = NULL

    cdef object apply(self, object grads):
        if self.variable.leaf_grad:  # not frozen since
            accumulate(self.variable, <Tensor>grads)
        return None

    cdef object saved_values(self):
        return {"variable": self.variable}

    @property
    def leaf(self):
        return self.variable


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)
    void Py_SET_REFCNT(PyObject* o, Py_ssize_t n)

cdef destructor free_accumulator


cdef void park(PyObject* o) noexcept:
    """Deallocation of an AccumulateGrad: one whose leaf lives on is kept by the leaf, which needs it again at its
    next use."""
    Py_SET_REFCNT(o, 2)  # alive while it is looked at
    if parked(<AccumulateGrad>o):
        Py_SET_REFCNT(o, 1)
        return
    Py_SET_REFCNT(o, 0)
    free_accumulator(o)


cdef bint parked(AccumulateGrad node) noexcept:
    cdef Tensor t = node.variable
    if (t is None or t.accumulator != <void*>node or Py_REFCNT(<PyObject*>t) < 3  # node, t and one more
            or node.tensor_hooks is not None or node.pre_hooks is not None or node.post_hooks is not None
            or node.retain is not None or node.metadata is not None):
        return False
    t.parked = True
    node.variable = None
    return True

free_accumulator = (<TypeWithDealloc*>AccumulateGrad).tp_dealloc
(<TypeWithDealloc*>AccumulateGrad).tp_dealloc = park


cdef int accumulate(Tensor v, Tensor g) except -1:
    """v.grad += g, torch's way: the first gradient is kept itself if nobody else can see it."""
    if watch.capturing:
        backend.note_leaf(v)
    if v.storage.nbytes < 1 << 16:
        return add_gradient(v, g)
    backend.keep_gil(True)  # gradients from several threads add up
    try:
        add_gradient(v, g)
    finally:
        backend.keep_gil(False)
    return 0


cdef int add_gradient(Tensor v, Tensor g) except -1:
    cdef Tensor kept
    if v.grad_ is None:
        if tt_grad and g.requires():
            v.grad_ = g.clone()
        elif (Py_REFCNT(<PyObject*>g) == 1
                and Py_REFCNT(<PyObject*>g.storage) == 1 + (backend.references_to(g.storage) if watch.capturing else 0)
                and g.contiguous == v.contiguous and g.base_ is None and same_strides(g, v)):
            # the storage belongs to this tensor only, and no hook has kept the tensor
            v.grad_ = alias(g)
        else:
            kept = empty_like(v, v.dt)
            copy_into(kept, g)
            v.grad_ = kept
    elif tt_grad and (g.requires() or v.grad_.requires()):
        v.grad_ = v.grad_ + g
    else:
        the_hooks.iadd(v.grad_, g)
    return 0


def accumulate_grad(Tensor t not None, Tensor g not None):
    """t.grad += g."""
    accumulate(t, g)


def _set_inference(bint on):
    """Switches inference mode; what it was."""
    return set_inference(on)


def is_inference_mode_enabled():
    """Whether inference mode is on in this thread."""
    return tt_inference


cdef bint same_strides(Tensor a, Tensor b) noexcept:
    cdef int d
    if a.contiguous and b.contiguous:
        return True
    for d in range(a.nd):
        if a.strides[d] != b.strides[d] and a.sizes[d] != 1:
            return False
    return True


cdef int refresh_view(Tensor t) except -1:
    """Brings the grad_fn of a view up to date with in-place ops on its base or its other views."""
    if t.view_version != t.version() and t.base_.requires():
        if t.view_kind == VIEW_NO_GRAD:
            raise RuntimeError("A view was created in no_grad mode and its base or another view of its base has been modified "
                               "inplace with grad mode enabled. Given that this use case is ambiguous and error-prone, it is "
                               "forbidden. You can clarify your code by moving both the view and the inplace either both inside "
                               "the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the "
                               "inplace to be tracked).")
        t.grad_fn_ = the_hooks.view_history(t)
        t.output_nr = 0
        t.view_version = t.version()
    return 0


cdef Node gradient_edge(Tensor t):
    cdef AccumulateGrad acc
    if t.base_ is not None:
        refresh_view(t)
    if t.grad_fn_ is not None:
        return t.grad_fn_
    if not t.leaf_grad:
        return None
    if t.accumulator != NULL:
        acc = <AccumulateGrad>t.accumulator
        if t.parked:
            t.parked = False
            acc.variable = t
            Py_DECREF(acc)  # the reference that t held
        return acc
    acc = AccumulateGrad.__new__(AccumulateGrad)
    acc.variable = t
    acc.node_name = "AccumulateGrad"
    acc.n_out = 1
    acc.out_dtype = t.dt
    acc.seq = ~<uint64_t>0  # before all others once its gradients are in
    t.accumulator = <void*>acc
    return acc


cdef int add_edge(Node node, Tensor t) except -1:
    """Appends the edge to t's history (None: to nothing)."""
    cdef Node e
    cdef int nr, i = node.n_next
    node.n_next = i + 1
    if t is None or not (t.leaf_grad or t.grad_fn_ is not None or t.base_ is not None):
        if i > 2:
            add_late_edge(node, None, 0)
        return 0
    e = gradient_edge(t)
    nr = t.output_nr if t.grad_fn_ is not None else 0
    if i == 0:
        node.next0 = e
        node.nr0 = nr
    elif i == 1:
        node.next1 = e
        node.nr1 = nr
    elif i == 2:
        node.next2 = e
        node.nr2 = nr
    else:
        add_late_edge(node, e, nr)
    return 0


cdef int add_late_edge(Node node, Node e, int nr) except -1:
    if node.more is None:
        node.more = []
    node.more.append((e, nr))
    return 0


cdef bint requires_any(object tensors):
    for t in tensors:
        if t is not None and (<Tensor>t).requires():
            return True
    return False


cdef bint any_requires(tuple tensors):
    return requires_any(tensors)


cdef int note_version(FnNode node, int64_t version, int nr) except -1:
    if node.more_versions is None:
        node.more_versions = []
    node.more_versions += [version, nr]
    return 0


cdef int keep_saved(FnNode node, Tensor only, list outs, tuple save) except -1:
    """Saves tensors for the backward; `only` is the one output, or None and `outs` are all."""
    cdef Tensor t
    cdef int i, k, nr, n = <int>len(save)
    cdef list kept = []
    for i in range(n):
        x = save[i]
        if x is None:
            kept.append(None)
            if i >= 4:
                note_version(node, 0, -1)
            continue
        t = <Tensor>x
        nr = -1
        if only is not None:
            nr = 0 if t is only else -1
        else:
            for k in range(len(outs)):
                if outs[k] is t:
                    nr = k
        kept.append(save_output(t) if nr >= 0 else save_input(t))
        if i < 4:
            node.versions[i] = t.version()
            node.numbers[i] = nr
        else:
            note_version(node, t.version(), nr)
    node.saved_tensors = kept
    return 0


cdef FnNode attach_all(list outs, str name, object backward, tuple inputs, tuple save, object ctx):
    """One node for several outputs; an output of an integer dtype stays without a gradient."""
    cdef FnNode node = new_fn_node()
    cdef Tensor t
    cdef int nr
    node.node_name = name
    node.backward = backward
    node.ctx = ctx
    node.seq = next_seq()
    node.n_out = len(outs)
    node.out_dtype = (<Tensor>outs[0]).dt if outs else 255
    for x in inputs:
        add_edge(node, <Tensor>x)
    if save:
        keep_saved(node, None, outs, save)
    nr = 0
    for x in outs:
        t = <Tensor>x
        if dt_.is_float(t.dt):
            t.grad_fn_ = node
            t.output_nr = nr
            t.leaf_grad = False
        nr += 1
    return node


cdef FnNode attach(Tensor out, str name, object backward, tuple inputs, tuple save, object ctx):
    cdef FnNode node = new_fn_node()
    node.node_name = name
    node.backward = backward
    node.ctx = ctx
    node.seq = next_seq()
    node.n_out = 1
    node.out_dtype = out.dt
    for x in inputs:
        add_edge(node, <Tensor>x)
    if save:
        keep_saved(node, out, None, save)
    if dt_.is_float(out.dt):
        out.grad_fn_ = node
        out.output_nr = 0
        out.leaf_grad = False
    return node


cdef Tensor record(Tensor out, str name, object backward, tuple inputs, tuple save, object ctx):
    if tt_grad and requires_any(inputs):
        attach(out, name, backward, inputs, save, ctx)
    return out


cdef Tensor make_view(Tensor t, Tensor view, int kind):
    """Book-keeping of a view; call it before the node is attached."""
    if tt_inference or t.inference:
        return view
    view.base_ = t.base_ if t.base_ is not None else t
    if not tt_grad:
        view.view_kind = VIEW_NO_GRAD
    elif kind == VIEW_SINGLE and t.base_ is not None:
        view.view_kind = t.view_kind
    else:
        view.view_kind = kind
    view.view_version = t.version()
    return view


cdef int check_inplace(Tensor t, bint inputs_require) except -1:
    """Raises if t may not be written in place. `inputs_require`: whether t or an operand requires grad."""
    if not t.contiguous and overlaps_itself(t):
        raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single "
                           "memory location. Please clone() the tensor before performing the operation.")
    return check_fill(t, inputs_require)


cdef int check_fill(Tensor t, bint inputs_require) except -1:
    """The same where all elements get one value, so that some may be one in memory."""
    if t.inference and not tt_inference:
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone "
                           "to get a normal tensor before doing inplace update.See "
                           "https://github.com/pytorch/rfcs/pull/17 for more details.")
    if not inputs_require or not tt_grad:
        return 0
    if t.base_ is not None:
        if t.view_kind == VIEW_NO_GRAD:
            raise RuntimeError("A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
                               "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
                               "your code by moving both the view and the inplace either both inside the no_grad block "
                               "(if you don't want the inplace to be tracked) or both outside (if you want the inplace "
                               "to be tracked).")
        if t.view_kind == VIEW_MULTI:
            fn = gradient_edge(t)
            name = op_name(<Node>fn) if fn is not None else "a function"
            raise RuntimeError(f"Output {t.output_nr} of {name} is a view and is being modified inplace. This view is the "
                               "output of a function that returns multiple views. Such functions do not allow the output "
                               "views to be modified inplace. You should replace the inplace operation by an out-of-place "
                               "one.")
        if t.base_.leaf_grad:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if t.leaf_grad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    return 0


cdef bint overlaps_itself(Tensor t) noexcept:
    """Whether two indices of t surely name one element (a stride of 0, as after expand)."""
    cdef int d
    if t.n < 2:
        return False
    for d in range(t.nd):
        if t.sizes[d] > 1 and t.strides[d] == 0:
            return True
    return False


cdef int rebase(Tensor t, Node node) except -1:
    t.bump()
    if node is None:
        return 0
    if t.base_ is not None:
        return the_hooks.rebase_view(t, node)
    return set_history(t, node)


cdef int set_history(Tensor t, Node node) except -1:
    """t is the result of `node` from now on; where t retains its gradient, it is that of what it is now."""
    cdef Node before = t.grad_fn_
    if t.retains and before is not None and before.retain is not None:
        before.retain = [(nr, ref) for nr, ref in before.retain if ref() is not t] or None
    t.grad_fn_ = node
    t.output_nr = 0
    t.leaf_grad = False
    if t.retains:
        note_retained(t)
    return 0


cdef int note_retained(Tensor t) except -1:
    """Has the node of t write t's gradient to t.grad."""
    if t.grad_fn_.retain is None:
        t.grad_fn_.retain = []
    t.grad_fn_.retain.append((t.output_nr, weakref.ref(t)))
    return 0


# ---- the Python view of a node ---------------------------------------------------------------
cdef class NodeView:
    """What `tensor.grad_fn` shows: one Python type per kind of node, named as torch's."""
    cdef Node node
    cdef object __weakref__

    def __dealloc__(self):
        if self.node is not None and self.node.view == <void*>self:
            self.node.view = NULL

    def name(self):
        """Name of the node's kind, as "MulBackward0"."""
        return self.node.node_name

    @property
    def next_functions(self):
        """((node or None, output number), ...) of the inputs."""
        out = []
        for i in range(self.node.n_next):
            out.append((node_view(self.node.next_node(i)), self.node.next_nr(i)))
        return tuple(out)

    @property
    def metadata(self):
        if self.node.metadata is None:
            self.node.metadata = {}
        return self.node.metadata

    @property
    def variable(self):
        if isinstance(self.node, AccumulateGrad):
            return (<AccumulateGrad>self.node).variable
        raise AttributeError(f"'{type(self).__name__}' object has no attribute 'variable'")

    def _sequence_nr(self):
        return self.node.seq

    def register_hook(self, fn):
        """Calls fn(grad_inputs, grad_outputs) after the node has run; a tuple returned replaces grad_inputs."""
        if self.node.post_hooks is None:
            self.node.post_hooks = []
        return HookHandle(self.node.post_hooks, fn, leaf_of(self.node))

    def register_prehook(self, fn):
        """Calls fn(grad_outputs) before the node runs; a tuple returned replaces grad_outputs."""
        if self.node.pre_hooks is None:
            self.node.pre_hooks = []
        return HookHandle(self.node.pre_hooks, fn, leaf_of(self.node))

    def __call__(self, *grads):
        return self.node.apply(grads[0] if self.node.n_out == 1 else list(grads))

    def __repr__(self):
        return f"<{type(self).__name__} object at {id(self):#x}>"


cdef Tensor leaf_of(Node node):
    return (<AccumulateGrad>node).variable if isinstance(node, AccumulateGrad) else None


class HookHandle:
    """Removes a hook: `remove()`, or leaving it as a context. `leaf`: the leaf tensor that it belongs to, or None."""

    def __init__(self, hooks, fn, leaf=None):
        self.hooks, self.entry = hooks, [fn]
        self.leaf = None if leaf is None else weakref.ref(leaf)
        hooks.append(self.entry)
        self.note()

    def note(self):
        leaf = None if self.leaf is None else self.leaf()
        if leaf is not None:
            note_change(leaf)

    def remove(self):
        for i, e in enumerate(self.hooks):
            if e is self.entry:
                del self.hooks[i]
                self.note()
                return

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


cdef dict view_types = {}


cdef object node_view(Node node):
    cdef NodeView v
    if node is None:
        return None
    if node.view != NULL:
        return <object>node.view
    if isinstance(node, ViewedNode):
        return (<ViewedNode>node).python_view()
    cls = view_types.get(node.node_name)
    if cls is None:
        cls = view_types[node.node_name] = type(node.node_name, (NodeView,), {"__module__": "torch.autograd.graph"})
    v = NodeView.__new__(cls)
    v.node = node
    node.view = <void*>v
    return v


@cython.trashcan(True)
cdef class ViewedNode(Node):
    """A node that is its own Python view (custom functions)."""

    cdef object python_view(self):
        return self


cdef Node node_of(object view):
    """The node behind its Python view."""
    if isinstance(view, NodeView):
        return (<NodeView>view).node
    return <Node?>view
