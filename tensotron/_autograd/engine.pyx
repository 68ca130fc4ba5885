"""Runs the graph backwards: one loop over ready nodes, latest first."""
cimport cython
from libc.stdint cimport int64_t, uint64_t
from libcpp.pair cimport pair
from libcpp.vector cimport vector
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF

from tensotron._core cimport dtype as dt_
from tensotron._core.tensor cimport (
    AccumulateGrad, Hooks, Node, Tensor, empty_like, fill_number, fill_with, grad_enabled, gradient_edge, hooks, maybe, node_view, same_shape,
    set_grad, shape_of)

import tensotron._core.tensor as _tensor


cdef struct Info:
    PyObject* node                    # kept alive by the roots
    PyObject* pending                 # owned: a Tensor, a list where the node has several outputs, or null
    int waiting                       # edges into the node that have not delivered yet
    bint needed                       # leads to something wanted
    bint summed                       # the pending gradient was made here and may be added to in place


cdef extern from *:
    """
    #include <algorithm>
    // Nodes that may run, by number and place, the latest made first. The first stands outside the heap: in most graphs
    // it is alone most of the time.
    struct tt_Ready {
      typedef std::pair<uint64_t, int> Entry;
      std::vector<Entry> heap;
      Entry first;
      bool any = false;
      bool empty() const { return !any; }
      void clear() { heap.clear(), any = false; }
      void push(uint64_t seq, int place) {
        Entry x(seq, place);
        if (!any) {
          first = x, any = true;
          return;
        }
        if (first < x) std::swap(first, x);
        heap.push_back(x);
        std::push_heap(heap.begin(), heap.end());
      }
      int pop() {
        const int place = first.second;
        if (heap.empty()) {
          any = false;
          return place;
        }
        first = heap.front();
        std::pop_heap(heap.begin(), heap.end());
        heap.pop_back();
        return place;
      }
    };
    """
    cdef cppclass Ready "tt_Ready":
        bint empty()
        void clear()
        void push(uint64_t seq, int place)
        int pop()

cdef extern from "Python.h":
    void Py_INCREF_ "Py_INCREF"(PyObject* o)
    PyObject* Py_None_ "Py_None"

cdef uint64_t run_count = 0
cdef vector[uint64_t] active_runs     # several with nested passes and with threads
cdef Run spare = None                 # a finished pass, to be used again
cdef PyObject* running = NULL         # node that a pass to all leaves runs at this moment, until it runs another


cdef bint is_running(Node node) noexcept:
    return running == <PyObject*>node


# Nodes are passed as pointers here, without references: the roots keep all of them.
@cython.final
cdef class Run:
    """One backward pass: the nodes reachable from the roots, their pending gradients and dependencies."""
    cdef uint64_t id
    cdef vector[Info] info
    cdef vector[pair[int, int]] stack # node, next edge to look at
    cdef dict elsewhere               # places of nodes that another active pass has marked as its own
    cdef Ready ready

    cdef int end(self) except -1:
        global spare, running
        cdef size_t k
        running = NULL
        for k in range(active_runs.size()):
            if active_runs[k] == self.id:
                active_runs[k] = active_runs.back()
                active_runs.pop_back()
                break
        for k in range(self.info.size()):
            Py_XDECREF(self.info[k].pending)
        self.info.clear()
        self.stack.clear()
        self.elsewhere = None
        self.ready.clear()  # not empty after an exception
        spare = self
        return 0

    cdef inline int find(self, PyObject* node) except -2:
        """The node's place, or -1."""
        if (<Node>node).run_id == self.id:
            return (<Node>node).run_index
        if self.elsewhere is not None:
            return self.find_elsewhere(node)
        return -1

    cdef int find_elsewhere(self, PyObject* node) except -2:
        return self.elsewhere.get(<size_t>node, -1)

    cdef inline int add(self, PyObject* node) except -1:
        cdef int i = <int>self.info.size()
        cdef Info entry
        entry.node = node
        entry.pending = NULL
        entry.waiting = 0
        entry.needed = True
        entry.summed = False
        self.info.push_back(entry)
        if active_runs.size() > 1 and self.add_elsewhere(node, i):
            return i
        (<Node>node).run_id = self.id
        (<Node>node).run_index = i
        return i

    cdef bint add_elsewhere(self, PyObject* node, int i) except -1:
        """Notes the place here if another active pass relies on what the node says."""
        cdef size_t k
        for k in range(active_runs.size()):
            if active_runs[k] == (<Node>node).run_id:
                if self.elsewhere is None:
                    self.elsewhere = {}
                self.elsewhere[<size_t>node] = i
                return True
        return False

    cdef int discover(self, PyObject* root, bint only, set targets) except -1:
        """Finds all nodes behind the root, counts the edges into each, and if `only` marks those that
        lead to a target."""
        cdef int i, j, k = 0
        cdef PyObject* node = root
        cdef PyObject* follower
        if self.find(root) >= 0:
            return 0
        i = self.add(root)
        while True:
            if k == (<Node>node).n_next:
                if only:  # all nodes behind this one are done
                    self.info[i].needed = self.leads(node, targets)
                if self.stack.empty():
                    return 0
                i = self.stack.back().first
                k = self.stack.back().second
                self.stack.pop_back()
                node = self.info[i].node
                continue
            follower = next_of(<Node>node, k)
            k += 1
            if follower == Py_None_:
                continue
            j = self.find(follower)
            if j < 0:
                j = self.add(follower)
                if (<Node>follower).n_next or only:
                    self.info[j].waiting = 1
                    if only or k < (<Node>node).n_next:
                        self.stack.push_back(pair[int, int](i, k))
                    i = j
                    k = 0
                    node = follower
                    continue
            self.info[j].waiting += 1

    cdef bint leads(self, PyObject* node, set targets) except -1:
        """Whether the node or one behind it is a target."""
        cdef int k
        cdef PyObject* follower
        cdef bint hit = <Node>node in targets
        for k in range((<Node>node).n_next):
            follower = next_of(<Node>node, k)
            if follower != Py_None_ and self.info[self.find(follower)].needed:
                hit = True
        return hit

    cdef inline int deliver(self, int i, int nr, PyObject* g) except -1:
        """Adds g, a tensor or None, to what node i has received for its output nr."""
        cdef Info* entry = &self.info[i]
        if g == Py_None_:
            return 0
        if entry.pending == NULL and (<Node>entry.node).n_out == 1 and (<Node>entry.node).out_dtype == (<Tensor>g).dt:
            Py_INCREF_(g)
            entry.pending = g
            return 0
        return self.add_up(i, nr, <Tensor>g)

    cdef int add_up(self, int i, int nr, Tensor g) except -1:
        cdef Node node = <Node>self.info[i].node
        cdef list several
        if node.out_dtype != g.dt and node.out_dtype != 255 and dt_.is_float(node.out_dtype):
            g = g.to(dt_.of_code(node.out_dtype))
        if node.n_out == 1:
            if self.info[i].pending == NULL:
                self.put(i, g)
            elif self.info[i].summed and not grad_enabled():
                the_hooks.iadd(<object>self.info[i].pending, g)
            else:
                self.put(i, the_hooks.add(<object>self.info[i].pending, g))
                self.info[i].summed = True
            return 0
        if self.info[i].pending == NULL:
            self.put(i, [None] * node.n_out)
        several = <list>self.info[i].pending
        several[nr] = g if several[nr] is None else the_hooks.add(several[nr], g)
        return 0

    cdef int put(self, int i, object g) except -1:
        cdef PyObject* before = self.info[i].pending
        Py_INCREF_(<PyObject*>g)
        self.info[i].pending = <PyObject*>g
        Py_XDECREF(before)
        return 0

    cdef inline void arrived(self, int i) noexcept:
        cdef Info* entry = &self.info[i]
        entry.waiting -= 1
        if entry.waiting == 0:
            self.ready.push((<Node>entry.node).seq, i)


cdef inline PyObject* next_of(Node node, int i) noexcept:
    """node.next_node(i) without a reference."""
    if i == 0:
        return <PyObject*>node.next0
    if i == 1:
        return <PyObject*>node.next1
    if i == 2:
        return <PyObject*>node.next2
    return <PyObject*>(<tuple>node.more[i - 3])[0]


cdef Run new_run():
    global run_count, spare
    cdef Run run = spare
    spare = None
    if run is None:
        run = Run.__new__(Run)
        run.info.reserve(64)
        run.stack.reserve(16)
    run_count += 1
    run.id = run_count
    active_runs.push_back(run.id)
    return run


cdef Hooks* the_hooks = hooks()


cdef object run_hooks(list entries, object g):
    for entry in list(entries):
        out = entry[0](g)
        if out is not None:
            if not isinstance(out, Tensor):
                raise TypeError(f"hook '{getattr(entry[0], '__name__', entry[0])}' has returned an invalid value: "
                                f"expected Tensor or None, got {type(out).__name__}")
            g = out
    return g


cdef object before_node(Node node, object grads):
    """Hooks on the node's output tensors, and gradients that are to be retained."""
    cdef Tensor t
    many = grads if node.n_out > 1 else [grads]
    if node.tensor_hooks is not None:
        for nr, entries in node.tensor_hooks.items():
            if many[nr] is not None:
                many[nr] = run_hooks(entries, many[nr])
    if node.pre_hooks is not None:
        for entry in list(node.pre_hooks):
            out = entry[0](tuple(many))
            if out is not None:
                many = list(out) if isinstance(out, (tuple, list)) else [out]
    if node.retain is not None:
        for nr, ref in node.retain:
            t = ref()
            if t is not None and many[nr] is not None:
                g = many[nr] if grad_enabled() else (<Tensor>many[nr]).detach()
                t.grad_ = g if t.grad_ is None else t.grad_ + g
    return many if node.n_out > 1 else many[0]


cdef list execute(list roots, list grads, bint keep, bint create, list targets):
    """Backward from roots [(node, nr)] with gradients. targets: None (all leaves), or [(node, nr)] whose
    gradients are wanted: returned as a list, the rest of the graph left alone."""
    cdef Run run = new_run()
    cdef bint before = set_grad(create)
    cdef int i, k
    cdef Node node
    cdef Tensor g
    cdef dict wanted = None
    cdef list captured = None
    cdef set goals = None
    try:
        if targets is not None:
            wanted = {}
            captured = [None] * len(targets)
            for k in range(len(targets)):
                wanted.setdefault(<size_t><void*>targets[k][0], []).append((targets[k][1], k))
            goals = {t[0] for t in targets}
        for root in roots:
            node = <Node>root[0]
            run.discover(<PyObject*>node, targets is not None, goals)
        for k in range(len(roots)):
            node = <Node>roots[k][0]
            i = run.find(<PyObject*>node)
            if run.info[i].pending == NULL and run.info[i].waiting == 0:
                run.ready.push(node.seq, i)
            g = <Tensor>grads[k]
            run.deliver(i, roots[k][1], <PyObject*>g)
        g = None
        run_all(run, keep, wanted, captured)
    finally:
        set_grad(before)
        run.end()
    return captured


cdef int execute_one(Node root, int nr, Tensor g, bint keep, bint create) except -1:
    """Backward from one root to all leaves."""
    cdef Run run = new_run()
    cdef bint before = set_grad(create)
    cdef int i
    try:
        run.discover(<PyObject*>root, False, None)
        i = run.find(<PyObject*>root)
        run.ready.push(root.seq, i)
        run.deliver(i, nr, <PyObject*>g)
        run_all(run, keep, None, None)
    finally:
        set_grad(before)
        run.end()
    return 0


cdef int run_all(Run run, bint keep, dict wanted, list captured) except -1:
    global running
    cdef Node node
    cdef PyObject* follower
    cdef PyObject* parts[3]
    cdef Info* entry
    cdef int j, k
    cdef bint divided, on
    cdef object g, out
    parts[0] = parts[1] = parts[2] = NULL
    while not run.ready.empty():
        entry = &run.info[run.ready.pop()]
        node = <Node>entry.node
        out = None
        divided = False
        if entry.pending != NULL:
            g = <object>entry.pending
            Py_DECREF(g)  # the list of pending gradients lets go of it
            entry.pending = NULL
            if entry.needed:
                on = wanted is None or leads_on(run, node)
                if wanted is not None and on:  # as in PyTorch, before the hooks where the backward goes on from here
                    capture(node, g, wanted, captured)
                if node.tensor_hooks is not None or node.pre_hooks is not None or node.retain is not None:
                    g = before_node(node, g)
                if not on:
                    capture(node, g, wanted, captured)
                else:
                    running = <PyObject*>node if wanted is None else NULL
                    if 2 <= node.n_next <= 3 and node.post_hooks is None:
                        divided = node.apply_parts(g, parts)
                    if not divided:
                        out = node.apply(g)
                    running = NULL
                    if node.post_hooks is not None:
                        out = after_node(node, out, g)
                    if not keep:
                        node.release_saved()
            g = None
        if node.n_next == 1:
            follower = <PyObject*>node.next0
            if follower != Py_None_:
                j = run.find(follower)
                if type(out) is tuple or type(out) is list:
                    out = out[0]
                maybe(out)
                run.deliver(j, node.nr0, <PyObject*>out)
                out = None
                run.arrived(j)
        elif divided:
            deliver_parts(run, node, parts)
        else:
            for k in range(node.n_next):
                follower = next_of(node, k)
                if follower == Py_None_:
                    continue
                j = run.find(follower)
                if out is not None:
                    g = maybe((<tuple>out)[k] if type(out) is tuple else out[k])
                    run.deliver(j, node.next_nr(k), <PyObject*>g)
                    g = None
                run.arrived(j)
    return 0


cdef int deliver_parts(Run run, Node node, PyObject** parts) except -1:
    """Passes the gradients in `parts` on, and leaves nulls there."""
    cdef PyObject* follower
    cdef int j, k
    try:
        for k in range(node.n_next):
            follower = next_of(node, k)
            if follower == Py_None_:
                continue
            j = run.find(follower)
            if parts[k] != NULL:
                run.deliver(j, node.next_nr(k), parts[k])
            run.arrived(j)
    finally:
        for k in range(3):
            Py_XDECREF(parts[k])
            parts[k] = NULL
    return 0


cdef int capture(Node node, object g, dict wanted, list captured) except -1:
    """Notes the gradients that were asked for at this node."""
    places = wanted.get(<size_t><void*>node)
    if places is not None:
        for nr, k in places:
            captured[k] = g if node.n_out == 1 else g[nr]
    return 0


cdef bint leads_on(Run run, Node node) except -1:
    """Whether anything behind the node is wanted (a target itself need not run)."""
    cdef int k
    cdef PyObject* follower
    for k in range(node.n_next):
        follower = next_of(node, k)
        if follower != Py_None_ and run.info[run.find(follower)].needed:
            return True
    return False


cdef object after_node(Node node, object out, object g):
    results = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    given = tuple(g) if isinstance(g, list) else (g,)
    for entry in list(node.post_hooks):
        new = entry[0](results, given)
        if new is not None:
            results = tuple(new) if isinstance(new, (tuple, list)) else (new,)
    return results if len(results) > 1 else results[0]


# ==== the public surface ==========================================================================
cdef object as_tuple(object x):
    if x is None:
        return ()
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


cdef list root_gradients(tuple outputs, tuple given):
    """Gradients to start from; ones for scalars where None is given."""
    cdef Tensor t, g
    grads = []
    for i in range(len(outputs)):
        t = <Tensor>outputs[i]
        x = given[i]
        if x is None:
            if not t.requires():
                grads.append(None)
                continue
            if t.n != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if not dt_.is_float(t.dt):
                raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dt_.of_code(t.dt)}")
            g = empty_like(t, t.dt)
            fill_with(g, 1)
        elif isinstance(x, Tensor):
            g = <Tensor>x
            if not same_shape(g, t):
                raise RuntimeError(f"Mismatch in shape: grad_output[{i}] has a shape of {shape_of(g)} and output[{i}] has a "
                                   f"shape of {shape_of(t)}.")
        else:
            raise TypeError(f"gradients can be either Tensors or None, but got {type(x).__name__}")
        grads.append(g)
    return grads


cdef list root_edges(tuple outputs):
    cdef Tensor t
    cdef Node e
    edges = []
    for i in range(len(outputs)):
        t = <Tensor>outputs[i]
        e = gradient_edge(t)
        if e is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        edges.append((e, t.output_nr if t.grad_fn_ is not None else 0))
    return edges


def backward(tensors, grad_tensors=None, retain_graph=None, bint create_graph=False, grad_variables=None, inputs=None):
    """Accumulates the gradients of `tensors` into the .grad of the leaves, or of `inputs` alone.

    Raises:
        RuntimeError: a tensor has no graph, is no scalar and has no gradient given, or its graph is freed.
    """
    cdef Tensor t, g
    tensors = as_tuple(tensors)
    given = as_tuple(grad_tensors) if grad_tensors is not None else (None,) * len(tensors)
    if inputs is not None and len(as_tuple(inputs)) == 0:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    for t in tensors:
        if not isinstance(t, Tensor):
            raise TypeError(f"backward() expects Tensors, not {type(t).__name__}")
    grads = root_gradients(tensors, given)
    edges = root_edges(tensors)
    keep = create_graph if retain_graph is None else bool(retain_graph)
    if inputs is None:
        execute(edges, grads, keep, create_graph, None)
        return
    wanted = as_tuple(inputs)
    found = execute(edges, grads, keep, create_graph, target_edges(wanted))
    before = set_grad(create_graph)
    try:
        for x, g in zip(wanted, found):
            if g is not None:
                t = <Tensor>x
                _tensor.accumulate_grad(t, g)
    finally:
        set_grad(before)


cdef list target_edges(tuple inputs):
    cdef Tensor t
    edges = []
    for x in inputs:
        if not isinstance(x, Tensor):
            raise TypeError(f"inputs must be Tensors, not {type(x).__name__}")
        t = <Tensor>x
        if not t.requires():
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        e = gradient_edge(t)
        edges.append((e, t.output_nr if t.grad_fn_ is not None else 0))
    return edges


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, bint create_graph=False, allow_unused=None,
         bint is_grads_batched=False, bint materialize_grads=False):
    """Gradients of the sum of `outputs` (weighted by grad_outputs) with respect to `inputs`, as a tuple.

    Raises:
        RuntimeError: an input does not require grad, or is unused and allow_unused is not set.
    """
    if is_grads_batched:
        raise NotImplementedError("autograd.grad: is_grads_batched=True is not supported")
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    outputs, inputs = as_tuple(outputs), as_tuple(inputs)
    given = as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outputs)
    grads = root_gradients(outputs, given)
    edges = root_edges(outputs)
    targets = target_edges(inputs)
    keep = create_graph if retain_graph is None else bool(retain_graph)
    found = execute(edges, grads, keep, create_graph, targets)
    if not (allow_unused or materialize_grads) and any([g is None for g in found]):
        at = [g is None for g in found].index(True)
        raise RuntimeError(f"The differentiated Tensor at index {at} appears to not have been used in the graph. Set "
                           "allow_unused=True if this is the desired behavior.")
    if materialize_grads:
        found = [inputs[i].new_zeros(inputs[i].shape, requires_grad=True) if g is None else g for i, g in enumerate(found)]
    return tuple([x if create_graph else (<Tensor>x).detach() if x is not None else None for x in found])


cdef int tensor_backward(Tensor t, object gradient, object retain_graph, object create_graph, object inputs) except -1:
    cdef Tensor g
    cdef Node e
    if gradient is None and inputs is None and t.n == 1 and dt_.is_float(t.dt):
        e = gradient_edge(t)
        if e is None:
            raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
        g = empty_like(t, t.dt)
        fill_number(g, 1)
        execute_one(e, t.output_nr if t.grad_fn_ is not None else 0, g, create_graph if retain_graph is None else retain_graph,
                    create_graph)
        return 0
    backward((t,), (gradient,), retain_graph, create_graph, None, inputs)
    return 0

the_hooks.backward = tensor_backward


include "grad_mode.pxi"
