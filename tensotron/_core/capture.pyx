# distutils: language = c++
"""Captured calls: a run recorded once and replayed without Python. See docs/adr/0031-capture.md."""
import dis
import functools
import types
import warnings
from collections import OrderedDict

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.math cimport signbit
from libc.stdint cimport int64_t, uint64_t
from libcpp.vector cimport vector

from tensotron._core cimport dtype as dt_
from tensotron._core.geometry import Size, device
from tensotron._core.passes import optimise
from tensotron._core.program cimport Held, Program
from tensotron._core.tensor cimport (
    AccumulateGrad, Node, Storage, Tensor, add_edge, as_view, copy_into, empty, empty_of, fill_with, grad_enabled,
    inference_enabled, materialise, new_storage, next_seq, raise_freed_graph, same_shape, set_geometry,
    tensor_over)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport Recorder, Watch

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)
    void PyList_SET_ITEM(object items, Py_ssize_t i, PyObject* x)
    PyObject* PyList_GET_ITEM(object items, Py_ssize_t i)
    PyObject* PyCell_GET(object cell)
    PyObject* PyDict_GetItem(object d, object key)
    ctypedef struct PyTypeObject:
        pass

cdef Watch* watch = backend.watch_state()

cdef enum:
    MAX_CAPTURES = 8
    MAX_REFUSALS = 3
    MAX_DEPTH = 50             # of containers in containers
    MAX_SPEC = 1 << 16

cdef object TENSOR = object()    # stands for a tensor in a specification
cdef object TOO_DEEP = object()  # for what lies too deep to be compared


cdef inline void put(list items, Py_ssize_t i, object x) noexcept:
    """items[i] = x, of a list that is not None and long enough."""
    cdef PyObject* before = PyList_GET_ITEM(items, i)
    Py_INCREF(x)
    PyList_SET_ITEM(items, i, <PyObject*>x)
    Py_XDECREF(before)


# ==== what a call is given ======================================================================
cdef int flatten(object x, list spec, list tensors, int depth=0) except -1:
    """Appends to `spec` what has to be equal in a later call, and to `tensors` the tensors found."""
    cdef type kind = type(x)
    if isinstance(x, Tensor):
        spec.append(TENSOR)
        tensors.append(x)
    elif x is None or kind is float or kind is int or kind is bool or kind is str:
        spec.append(x)
    elif depth > MAX_DEPTH or len(spec) > MAX_SPEC:
        spec.append(TOO_DEEP)
    elif isinstance(x, (tuple, list)):
        spec.append((kind, len(x)))
        for item in x:
            flatten(item, spec, tensors, depth + 1)
    elif isinstance(x, dict):
        spec.append((kind, tuple(x)))
        for item in x.values():
            flatten(item, spec, tensors, depth + 1)
    elif kind is set or kind is frozenset:
        spec.append((kind, frozenset(x)))
    elif hasattr(kind, "__dataclass_fields__"):
        spec.append((kind, len(kind.__dataclass_fields__)))
        for name in kind.__dataclass_fields__:
            flatten(getattr(x, name, None), spec, tensors, depth + 1)
    else:
        spec.append(x)
    return 0


cdef bint is_record(object x) except -1:
    """Whether x is a named tuple, or the result of an operation that has named fields."""
    return isinstance(x, tuple) and (hasattr(x, "_fields") or hasattr(x, "n_fields"))


cdef bint same_value(object a, object b) except -1:
    cdef type kind
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is float:
        return same_float(a, b)
    if kind is complex:
        return same_float(a.real, b.real) and same_float(a.imag, b.imag)
    if kind is slice:
        return same_value(a.start, b.start) and same_value(a.stop, b.stop) and same_value(a.step, b.step)
    if kind is int or kind is str or kind is tuple or kind is bytes or kind is range or kind is device:
        return a == b
    return False


cdef bint same_float(double a, double b) noexcept:
    return signbit(a) == signbit(b) if a == b else a != a and b != b


cdef bint same_spec(list a, list b) except -1:
    cdef Py_ssize_t i
    if len(a) != len(b):
        return False
    for i in range(len(a)):
        if not same_value(a[i], b[i]):
            return False
    return True


@cython.final
cdef class Input:
    """What a tensor given to the call has to be like."""
    cdef type kind
    cdef int nd, dt
    cdef bint requires, inference
    cdef int same, shares          # first input that is the same tensor; that has the same storage
    cdef int64_t distance          # from that one's first element, in bytes
    cdef vector[int64_t] geometry
    cdef bint placed               # the call depends on where in its storage the tensor is
    cdef int64_t offset
    cdef size_t nbytes             # of that storage

    cdef bint fits(self, Tensor t, list tensors) except -1:
        cdef int d
        cdef Tensor other
        if t.nd != self.nd or t.dt != self.dt or t.leaf_grad != self.requires or t.inference != self.inference:
            return False
        if t.grad_fn_ is not None or type(t) is not self.kind or t.hooks is not None or t.retains:
            return False
        if self.placed and (t.ptr - t.storage.data != self.offset or t.storage.nbytes < self.nbytes):
            return False
        for d in range(self.nd):
            if t.sizes[d] != self.geometry[d] or t.strides[d] != self.geometry[self.nd + d]:
                return False
        if t.base_ is not None and t.requires():
            return False
        if self.shares >= 0:
            other = <Tensor>tensors[self.shares]
            if other.storage is not t.storage or t.ptr - other.ptr != self.distance:
                return False
            if self.same >= 0 and tensors[self.same] is not t:
                return False
        return True


cdef Input describe(int i, list tensors):
    cdef Tensor t = <Tensor>tensors[i], other
    cdef Input g = Input.__new__(Input)
    cdef int d
    g.kind, g.nd, g.dt, g.requires, g.inference = type(t), t.nd, t.dt, t.leaf_grad, t.inference
    for d in range(t.nd):
        g.geometry.push_back(t.sizes[d])
    for d in range(t.nd):
        g.geometry.push_back(t.strides[d])
    g.same = g.shares = -1
    g.offset, g.nbytes = t.ptr - t.storage.data, t.storage.nbytes
    for d in range(i):
        other = <Tensor>tensors[d]
        if other is t and g.same < 0:
            g.same = d
        if other.storage is t.storage and g.shares < 0:
            g.shares = d
            g.distance = t.ptr - other.ptr
    return g


cdef bint alone(list tensors, list inputs) except -1:
    """Whether no two tensors share memory that did not when the call was captured."""
    cdef int i, j
    cdef Tensor a, b
    for i in range(1, len(tensors)):
        if (<Input>inputs[i]).shares >= 0:
            continue
        a = <Tensor>tensors[i]
        for j in range(i):
            b = <Tensor>tensors[j]
            if a.storage is b.storage:
                return False
    return True


# ==== one captured call =========================================================================
@cython.final
cdef class Leaf:
    """A tensor whose .grad the call reads or writes."""
    cdef Tensor tensor             # None: an input
    cdef int input
    cdef bint had                  # a gradient before the call
    cdef int before                # slot of that gradient, -1: not used
    cdef Tensor shape_before       # of that geometry
    cdef int after                 # slot of a new gradient; -1: none
    cdef bint unchanged
    cdef Tensor kept               # the new gradient that the last replay left
    cdef Tensor model              # its geometry as recorded
    cdef int64_t offset, nbytes    # from the start of its storage; of its storage
    cdef size_t version
    cdef Py_ssize_t since          # number of the record before which .grad was first touched
    cdef bint writes               # the gradient from before is written to

    cdef Tensor of(self, list tensors):
        """The tensor, in a call with these inputs."""
        return self.tensor if self.tensor is not None else <Tensor>tensors[self.input]


@cython.final
cdef class Result:
    """A tensor among the results."""
    cdef int slot, input, leaf, live
    cdef int number, made          # among the results; of the memory made for it
    cdef int64_t offset
    cdef Tensor like               # its geometry; for one from outside: itself
    cdef str freed                 # name of the node of a result whose graph is gone
    cdef FreedNode spare           # that of the last result


@cython.final
cdef class FreedNode(Node):
    """History of a result whose backward has run already."""

    cdef object apply(self, object grads):
        raise_freed_graph()


cdef class Sweep:
    """Many replays in one: tensors whose address moves on from step to step, and where results go."""
    cdef Py_ssize_t first, count
    cdef vector[int64_t] strides   # bytes from step to step, of each tensor given
    cdef list outs                 # tensors of all steps, by number of the memory made
    cdef vector[int] slots
    cdef vector[char*] bases
    cdef vector[int64_t] moves     # of the slots

    cdef int place(self, int slot, char* base, int64_t stride) except -1:
        self.slots.push_back(slot)
        self.bases.push_back(base)
        self.moves.push_back(stride)
        return 0


@cython.final
cdef class Captured:
    """A recorded call, the conditions under which it may be replayed, and its results."""
    cdef list spec, inputs, leaves, steps, states, written_inputs
    cdef vector[PyObject*] state_at, written  # the storages of `states`; those that records write to
    cdef Program program
    cdef CapturedBackward backward # of results that may be differentiated outside
    cdef uint64_t epoch, modes
    cdef bint grad, inference
    cdef int default_float
    cdef object output             # the structure of the results, with Result objects in it
    cdef vector[int] input_slots   # slot of each input, -1: unused
    cdef vector[int] state_slots
    cdef vector[int] fresh_slots   # of results, and of what a history of theirs keeps
    cdef vector[int64_t] fresh_sizes
    cdef list results              # the Result objects in it
    cdef Result single             # the only result, a tensor made anew without a history to be differentiated; or None
    cdef Py_ssize_t plain          # number of arguments if `take_plain` may be used, else -1
    cdef list room, room_made      # lists of None, as long as `inputs` and `fresh_slots`, for the next replay; or None

    cdef bint matches(self, list spec, list tensors) except -1:
        return len(tensors) == len(self.inputs) and same_spec(self.spec, spec) and self.holds(tensors)

    cdef bint take(self, Py_ssize_t at, object x, list tensors, Py_ssize_t* filled) except -1:
        """Whether x is what the specification has there; a tensor goes to `tensors`."""
        cdef object expected = self.spec[at]
        if expected is TENSOR:
            if not isinstance(x, Tensor):
                return False
            put(tensors, filled[0], x)
            filled[0] += 1
            return True
        return x is expected or same_value(x, expected)

    cdef list take_plain(self, PyObject** args, Py_ssize_t n, list cells, list names):
        """The tensors of a call without keywords and containers; None: it is of another kind."""
        cdef Py_ssize_t i, at = 1, filled = 0
        cdef list tensors = self.room
        cdef PyObject* x
        cdef tuple place
        self.room = None
        if tensors is None:
            tensors = [None] * len(self.inputs)
        for i in range(n):
            if not self.take(at, <object>args[i], tensors, &filled):
                return None
            at += 1
        for cell in cells:
            x = PyCell_GET(cell)
            if not self.take(at, None if x == NULL else <object>x, tensors, &filled):
                return None
            at += 1
        for place in names:
            x = PyDict_GetItem(place[0], place[1])
            if not self.take(at, None if x == NULL else <object>x, tensors, &filled):
                return None
            at += 1
        return tensors

    cdef int leave(self, list tensors) except -1:
        """Takes the list of a replay that is over back."""
        cdef Py_ssize_t i
        for i in range(len(tensors)):
            put(tensors, i, None)
        self.room = tensors
        return 0

    cdef bint holds(self, list tensors) except -1:
        """Whether everything but the specification is as it was recorded."""
        cdef Py_ssize_t i
        cdef Leaf leaf
        cdef Tensor t, g
        if self.epoch != watch.epoch or self.modes != watch.modes:
            return False
        if self.grad != grad_enabled() or self.inference != inference_enabled() or self.default_float != dt_.default_float():
            return False
        for i in range(len(tensors)):
            if not (<Input>self.inputs[i]).fits(<Tensor>tensors[i], tensors):
                return False
        if not alone(tensors, self.inputs):
            return False
        for leaf in self.leaves:
            t = leaf.of(tensors)
            g = t.grad_
            if (g is not None) != leaf.had:
                return False
            if leaf.before >= 0 and not (same_form(g, leaf.shape_before) and g.grad_fn_ is None):
                return False
        return guards_hold(self.steps)

    cdef bint repeats(self) except -1:
        """Whether a replay leaves everything as the next one expects it, and no history behind."""
        cdef Leaf leaf
        cdef Result r
        cdef Py_ssize_t fresh = 0
        for leaf in self.leaves:
            if not leaf.unchanged and (not leaf.had or leaf.before >= 0 or leaf.after < 0):
                return False
        for r in self.results:
            if r.slot < 0 or r.input >= 0 or r.live >= 0 or r.leaf >= 0 or not r.like.contiguous or r.offset != 0:
                return False
            fresh += 1
            if self.fresh_sizes[r.made] != max(r.like.n, 1) * backend.item_size(r.like.dt):
                return False
        return fresh == <Py_ssize_t>self.fresh_sizes.size()

    cdef object replay(self, list tensors, Sweep sweep=None):
        cdef Py_ssize_t i
        cdef Tensor t, g
        cdef Leaf leaf
        cdef Storage s
        cdef list made = self.room_made
        cdef Program program = self.program
        cdef list held = None
        cdef int status
        if sweep is not None or program.alone():  # what another thread might drop meanwhile
            program.wait()
            held = [(<Tensor>x).storage for x in tensors]
        for i in range(<Py_ssize_t>self.input_slots.size()):
            if self.input_slots[i] >= 0:
                program.point(self.input_slots[i], (<Tensor>tensors[i]).ptr)
                if sweep is not None and sweep.strides[i]:
                    sweep.place(self.input_slots[i], (<Tensor>tensors[i]).ptr, sweep.strides[i])
        for i in range(<Py_ssize_t>self.state_slots.size()):
            program.point(self.state_slots[i], (<Storage>self.state_at[i]).data)
        for leaf in self.leaves:
            if leaf.before < 0 and leaf.after < 0:
                continue
            t = leaf.of(tensors)
            if leaf.before >= 0:
                program.point(leaf.before, t.grad_.ptr)
                if held is not None:
                    held.append(t.grad_.storage)
            if leaf.after >= 0:
                g = leaf.kept
                # the gradient of the last replay is written again if nobody else holds it
                if (leaf.before >= 0 or Py_REFCNT(<PyObject*>g) > 2 + (t.grad_ is g) or Py_REFCNT(<PyObject*>g.storage) > 1
                        or not untouched(g, leaf)):
                    g = leaf.kept = made_like(leaf)
                g.storage.version = leaf.version
                program.point(leaf.after, g.storage.data)
        self.room_made = None
        if made is None:
            made = [None] * <Py_ssize_t>self.fresh_slots.size()
        for i in range(<Py_ssize_t>self.fresh_slots.size()):
            if sweep is not None:
                t = <Tensor>sweep.outs[i]
                sweep.place(self.fresh_slots[i], t.ptr + sweep.first * self.fresh_sizes[i], self.fresh_sizes[i])
                continue
            s = new_storage(self.fresh_sizes[i])
            put(made, i, s)
            program.point(self.fresh_slots[i], s.data)
        if sweep is None:
            status = program.go_once()
        else:
            status = program.go(sweep.count, sweep.slots, sweep.bases, sweep.moves)
        if status:
            self.bump(tensors)
            for leaf in self.leaves:
                if leaf.after >= 0 and leaf.before < 0 and program.failed >= leaf.since:  # forgotten, and not made anew
                    t = leaf.of(tensors)
                    t.grad_ = None
            program.complain(status)
        for i in range(1 if sweep is None else sweep.count):
            self.bump(tensors)
        for leaf in self.leaves:
            if leaf.unchanged and not leaf.writes:
                continue
            t = leaf.of(tensors)
            if leaf.writes:
                t.grad_.bump()
            if not leaf.unchanged:
                t.grad_ = leaf.kept
        if sweep is not None:
            return None
        if self.single is not None:
            t = self.tensor(self.single, tensors, made, None)
            for i in range(len(made)):
                put(made, i, None)
            self.room_made = made
            return t
        return self.build(self.output, tensors, made, [None] * (len(self.results) + 1))

    cdef int bump(self, list tensors) except -1:
        """Moves the versions of what the records write to on."""
        cdef size_t k
        for k in range(self.written.size()):
            (<Storage>self.written[k]).version += 1
        for i in self.written_inputs:
            (<Tensor>tensors[i]).bump()
        return 0

    cdef object build(self, object x, list tensors, list made, list done):
        """The results of a replay. `done`: those that exist already, and last the node of their history."""
        cdef Result r
        cdef Leaf leaf
        cdef type kind = type(x)
        if kind is Result:
            r = <Result>x
            if r.input >= 0 and r.slot < 0:
                return tensors[r.input]
            if r.leaf >= 0:
                leaf = <Leaf>self.leaves[r.leaf]
                return leaf.of(tensors).grad_
            if r.slot < 0:
                return r.like
            if done[r.number] is None:
                done[r.number] = self.tensor(r, tensors, made, done)
            return done[r.number]
        if kind is tuple:
            return tuple([self.build(item, tensors, made, done) for item in <tuple>x])
        if kind is Size:
            return x
        if kind is list:
            return [self.build(item, tensors, made, done) for item in <list>x]
        if kind is dict or kind is OrderedDict:
            return kind([(key, self.build(item, tensors, made, done)) for key, item in (<dict>x).items()])
        if is_record(x):
            return rebuilt(x, [self.build(item, tensors, made, done) for item in x])
        return x

    cdef Tensor tensor(self, Result r, list tensors, list made, list done):
        cdef Tensor t
        cdef Storage s
        if r.input >= 0:
            t = <Tensor>tensors[r.input]
            t = tensor_over(t.storage, t.ptr + r.offset, r.like.dt)
        else:
            s = <Storage>made[r.made]
            t = tensor_over(s, s.data + r.offset, r.like.dt)
        set_geometry(t, r.like.nd, r.like.sizes, r.like.strides)
        t.inference = r.like.inference
        if r.freed is not None:
            if r.spare is None or Py_REFCNT(<PyObject*>r.spare) > 1 or not is_blank(r.spare):
                r.spare = freed_node(r.freed, t.dt)
            t.grad_fn_ = r.spare
        elif r.live >= 0:
            if done[len(self.results)] is None:
                done[len(self.results)] = self.backward.node(tensors, made)
            t.grad_fn_ = <Node>done[len(self.results)]
            t.output_nr = r.live
        return t


cdef object rebuilt(object x, list items):
    """A named tuple or result tuple like x of these items."""
    make = getattr(type(x), "_make", None)
    return make(items) if make is not None else type(x)(items)


cdef FreedNode freed_node(str name, int dt):
    cdef FreedNode node = FreedNode.__new__(FreedNode)
    node.node_name = name
    node.n_out = 1
    node.out_dtype = dt
    node.released = True
    return node


cdef bint is_blank(FreedNode node) noexcept:
    """Whether nobody has hung anything on the node."""
    return (node.tensor_hooks is None and node.pre_hooks is None and node.post_hooks is None and node.retain is None
            and node.metadata is None and node.view == NULL)


cdef list guards_of(list held):
    """(object, what a replay takes for granted of it) of those that have a guard, each once."""
    cdef list guards = []
    for x in held:
        if isinstance(x, Held) and not any([x is step for step, _ in guards]):
            guards.append((x, x.guard()))
    return guards


cdef bint guards_hold(list guards) except -1:
    cdef tuple pair
    for pair in guards:
        if not (<Held>pair[0]).as_before(pair[1]):
            return False
    return True


cdef bint same_form(Tensor a, Tensor b) noexcept:
    """Whether shape, strides and dtype are the same."""
    cdef int d
    if a.dt != b.dt or not same_shape(a, b):
        return False
    for d in range(a.nd):
        if a.strides[d] != b.strides[d]:
            return False
    return True


cdef bint untouched(Tensor g, Leaf leaf) except -1:
    """Whether a gradient is still what it was when recorded, but for its values."""
    cdef Tensor m = leaf.model
    return (same_form(g, m) and g.ptr - g.storage.data == leaf.offset and <int64_t>g.storage.nbytes == leaf.nbytes
            and g.counter is None and g.grad_fn_ is None and not g.leaf_grad)


cdef Tensor made_like(Leaf leaf):
    """A new gradient of that geometry and dtype."""
    cdef Tensor m = leaf.model, out = as_view(m, m.nd, m.sizes, m.strides, 0)
    out.storage = new_storage(leaf.nbytes)
    out.ptr = out.storage.data + leaf.offset
    out.counter = None
    return out


include "capture_grad.pxi"
include "capture_record.pxi"


include "capture_call.pxi"
include "capture_steps.pxi"


# ==== the explicit form =========================================================================
cdef class CPUGraph:
    """Work recorded between capture_begin() and capture_end(), without being run, for replay().

    As torch.cuda.CUDAGraph: the tensors that the work reads and writes stay where they are, so new inputs are copied
    into the old ones, and results are read from the tensors that the recorded code returned.
    """
    cdef Recorder recorder
    cdef Program program
    cdef list storages, steps
    cdef list written              # of the storages

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Starts to record the calling thread's work.

        Raises:
            RuntimeError: the graph holds a recording already, or another one is under way.
        """
        if self.program is not None or self.recorder is not None:
            raise RuntimeError("This CPUGraph instance already owns a captured graph. To capture a new graph, create a new instance "
                               "or call reset().")
        if backend.recording_here():
            raise RuntimeError("a capture is under way already; end it first")
        self.recorder = Recorder(True, True)
        self.recorder.start()

    def capture_end(self):
        """Ends the recording.

        Raises:
            RuntimeError: the work cannot be replayed; the message says why.
        """
        cdef Storage s
        cdef Recorder recorder = self.recorder
        if recorder is None:
            raise RuntimeError("capture_end() without capture_begin()")
        self.recorder = None
        recorder.stop()
        if recorder.reason is not None:
            raise RuntimeError(f"operation not permitted during capture: {recorder.reason}")
        self.storages = list(recorder.buffers.values())
        slot_of = {id(x): i for i, x in enumerate(self.storages)}
        base_of = {}
        for x in self.storages:
            s = <Storage>x
            base_of[id(x)] = <size_t>s.data
        self.program = Program(recorder.records, slot_of, base_of, len(self.storages))
        self.program.held = list(recorder.held)
        self.steps = guards_of(recorder.held)
        self.written = [self.storages[i] for i in self.program.written()]

    def replay(self):
        """Runs the recorded work.

        Raises:
            RuntimeError: nothing is recorded, or an optimiser's flags have changed since.
        """
        cdef int i
        cdef Storage s
        if self.program is None:
            raise RuntimeError("Called CPUGraph.replay without a preceding successful capture.")
        if not guards_hold(self.steps):
            raise RuntimeError("an option of an optimizer has changed since the capture; capture again")
        self.program.wait()
        for i in range(len(self.storages)):
            self.program.point(i, (<Storage>self.storages[i]).data)
        for s in self.written:
            s.version += 1
        self.program.run()

    def reset(self):
        """Forgets the recording."""
        self.program, self.storages, self.steps, self.written = None, None, None, None
