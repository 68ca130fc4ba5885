# The tensor, its storage and the base of graph nodes: the types that every other module uses.
cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint64_t

from tensotron._cpu.backend cimport Record

cdef extern from "tensotron/_core/trashcan.h":  # for the modules that define nodes
    pass

cdef enum:
    INLINE_DIMS = 5
    # how a view came to be; decides what an in-place op on it may do
    VIEW_NONE = 0
    VIEW_SINGLE = 1
    VIEW_MULTI = 2
    VIEW_NO_GRAD = 3
    VIEW_INFERENCE = 4

cdef class Storage:
    cdef char* data
    cdef size_t nbytes, capacity
    cdef int64_t version
    cdef bint watched          # a captured call relies on it: see note_change
    cdef bint fixed            # numpy or another library holds the address
    cdef object owner          # keeps foreign memory alive
    cdef object __weakref__

cdef class VersionCounter:
    cdef int64_t value

# A node of the autograd graph. `next_*` are the edges to the nodes of the inputs that need gradients:
# (None, 0) for the others.
cdef class Node:
    cdef Node next0, next1, next2
    cdef int nr0, nr1, nr2
    cdef list more             # further edges: (Node or None, int)
    cdef int n_next, n_out
    cdef uint64_t seq
    cdef uint8_t out_dtype     # of the forward output(s); 255: mixed
    cdef bint released
    cdef str node_name
    cdef dict tensor_hooks     # output number -> list of hooks
    cdef list pre_hooks, post_hooks
    cdef list retain           # (output number, weak reference to a tensor that retains its grad)
    cdef object metadata
    cdef void* view            # the Python view of this node, while it lives
    cdef uint64_t run_id       # last backward pass that met this node, and its place there
    cdef int run_index
    # gradients of the outputs -> gradients of the inputs. One output: a Tensor or None; several: a list.
    # One input: a Tensor or None; several: a tuple or list.
    cdef object apply(self, object grads)
    # The same for two or three inputs without a tuple: True, and new references (null: no gradient) in `parts`, which
    # holds nulls; or False, and nothing done.
    cdef bint apply_parts(self, object grads, PyObject** parts) except -1
    cdef int release_saved(self) except -1
    cdef object saved_values(self)
    cdef inline Node next_node(self, int i):
        if i == 0:
            return self.next0
        if i == 1:
            return self.next1
        if i == 2:
            return self.next2
        return <Node>(<tuple>self.more[i - 3])[0]
    cdef inline int next_nr(self, int i) except -1:
        if i == 0:
            return self.nr0
        if i == 1:
            return self.nr1
        if i == 2:
            return self.nr2
        return <int>(<tuple>self.more[i - 3])[1]

# Deallocation of a final class of nodes, into shells that wait to be taken again: see pool.h. Nothing may take a
# reference to an object that is being dropped.
cdef extern from "tensotron/_core/pool.h":
    ctypedef void (*destructor)(PyObject* o) noexcept
    ctypedef struct TypeWithDealloc "PyTypeObject":
        destructor tp_dealloc
    ctypedef struct NodeShells "tensotron::NodeShells":
        int n
    object take_node "tensotron::take_tracked"(NodeShells* s)
    bint begin_drop "tensotron::begin_drop"(NodeShells* s, PyObject* o)
    void end_drop "tensotron::end_drop"(NodeShells* s, PyObject* o)

cdef inline void put_part(PyObject** part, object g) noexcept:
    if g is not None:
        Py_INCREF(g)
        part[0] = <PyObject*>g

cdef inline object take_part(PyObject** part):
    cdef object g = None
    if part[0] != NULL:
        g = <object>part[0]
        part[0] = NULL
        Py_DECREF(g)
    return g

cdef inline void drop_members(Node node) noexcept:
    """The members that all nodes have, as in a new one; what every new node sets stays."""
    if node.next0 is not None:
        node.next0 = None
    if node.next1 is not None:
        node.next1 = None
    if node.next2 is not None:
        node.next2 = None
    if node.more is not None:
        node.more = None
    if node.tensor_hooks is not None:
        node.tensor_hooks = None
    if node.pre_hooks is not None:
        node.pre_hooks = None
    if node.post_hooks is not None:
        node.post_hooks = None
    if node.retain is not None:
        node.retain = None
    if node.metadata is not None:
        node.metadata = None
    node.n_next = node.nr0 = node.nr1 = node.nr2 = 0
    node.released = False
    node.run_id = 0

# Node of an op whose backward is a function: backward(node, *grads) -> gradients of the inputs.
@cython.final
cdef class FnNode(Node):
    cdef object backward
    cdef object ctx            # whatever the backward wants to know
    cdef list saved_tensors
    cdef int64_t versions[4]   # of the first four of them
    cdef int numbers[4]        # the output of this node that each is, -1: none
    cdef list more_versions    # version, number, ... of the others
    cpdef object saved(self, int i)
    cpdef bint needs(self, int i)

@cython.final
cdef class AccumulateGrad(Node):
    cdef Tensor variable

cdef class ViewedNode(Node):
    cdef object python_view(self)

cdef class Tensor:
    cdef Storage storage
    cdef char* ptr             # first element
    cdef int64_t* sizes
    cdef int64_t* strides      # in elements
    cdef int64_t inline_geometry[10]
    cdef int64_t n             # number of elements
    cdef int nd
    cdef uint8_t dt, dev
    cdef bint contiguous
    # autograd
    cdef bint leaf_grad        # requires_grad of a leaf
    cdef bint retains
    cdef bint inference
    cdef uint8_t view_kind
    cdef readonly int output_nr
    cdef Node grad_fn_
    cdef Tensor grad_
    cdef Tensor base_          # of a differentiable view
    cdef int64_t view_version  # version that grad_fn_ of a view belongs to; of a saved alias: version when saved
    cdef VersionCounter counter  # None: the storage's
    cdef void* accumulator     # AccumulateGrad node; owned only while it is parked here, in no graph
    cdef bint parked
    cdef dict hooks
    cdef object heap_geometry  # bytearray holding sizes and strides of many dimensions
    cdef PyObject* attributes  # the instance's __dict__, made on first use
    cdef object __weakref__

    cdef inline int64_t version(self) noexcept:
        return self.counter.value if self.counter is not None else self.storage.version
    cdef inline void bump(self) noexcept:
        if self.counter is not None:
            self.counter.value += 1
        else:
            self.storage.version += 1
    cdef inline bint requires(self) noexcept:
        return self.leaf_grad or self.grad_fn_ is not None or (self.base_ is not None and self.base_.requires_base())
    cdef bint requires_base(self) noexcept

# To be called before a tensor gets other memory, another shape or another requires_grad in place.
cdef int note_change(Tensor t) except -1

# Marks the storage of t, whose address is given away, as one that stays where it is.
cdef int fix_storage(Tensor t) except -1

cdef inline Tensor maybe(object x):
    """x, a Tensor or None; TypeError otherwise."""
    return x

# ---- grad mode ---------------------------------------------------------------------------
cdef bint grad_enabled() noexcept
cdef bint inference_enabled() noexcept
cdef bint set_grad(bint on) noexcept            # returns the mode before
cdef bint set_inference(bint on) noexcept

# ---- making tensors ------------------------------------------------------------------------
cdef Storage new_storage(size_t nbytes)
cdef Storage foreign_storage(char* data, size_t nbytes, object owner)  # memory that `owner` keeps
cdef Tensor tensor_over(Storage s, char* ptr, int dt)                  # whose geometry is still to be set
cdef Tensor empty(int nd, const int64_t* sizes, int dt)
cdef Tensor empty_strided(int nd, const int64_t* sizes, const int64_t* strides, int dt)
cdef Tensor empty_like(Tensor t, int dt)        # dense, strides kept where they are dense
cdef Tensor empty_of(object sizes, int dt)      # a sequence of ints
cdef Tensor alias(Tensor t)                     # same memory and version counter, no history
cdef Tensor as_view(Tensor t, int nd, const int64_t* sizes, const int64_t* strides, int64_t offset_delta)
cdef int set_geometry(Tensor t, int nd, const int64_t* sizes, const int64_t* strides) except -1
cdef object shape_of(Tensor t)                  # Size
cdef object make_size(int nd, const int64_t* v)
cdef int parse_sizes(object args, int64_t* out) except -1  # a Size, sequence or tuple of ints -> nd
cdef int wrap_dim(int64_t dim, int nd) except -1
cdef Tensor as_tensor(object x, str what)       # TypeError if x is no tensor
cdef inline bint same_shape(Tensor a, Tensor b) noexcept:
    cdef int d
    if a.nd != b.nd:
        return False
    for d in range(a.nd):
        if a.sizes[d] != b.sizes[d]:
            return False
    return True

cdef bint is_dense(Tensor t) noexcept           # the elements fill a block of memory, in whatever order of dimensions

# ---- launches ------------------------------------------------------------------------------
cdef inline void set_arg(Record* r, int k, Tensor t) noexcept:
    """Pointer and dtype; the strides are the caller's."""
    r.arg[k].data = t.ptr
    r.arg[k].buffer = <void*>t.storage
    r.arg[k].dtype = t.dt
    r.arg[k].is_const = 0

cdef inline int begin(Record* r, int kernel, int op, int nout, int nin, int compute) noexcept:
    r.kernel = kernel
    r.op = op
    r.nout = nout
    r.nin = nin
    r.compute = compute
    r.device = 0
    r.flags = 0
    r.nlist = 0
    r.list = NULL
    r.state = NULL
    return 0

cdef int copy_into(Tensor dst, Tensor src) except -1       # no autograd; src broadcasts to dst
cdef int refuse_huge(object value) except -1
cdef int64_t as_integer(object value, int dt) except? -1
cdef double as_real(object value, int dt) except? -1
cdef object as_element(object value, int dt)
cdef int fill_with(Tensor dst, object value) except -1
cdef int fill_number(Tensor dst, double value) except -1   # of a contiguous floating-point tensor
cdef Tensor contiguous(Tensor t)                           # no autograd
cdef Tensor cast(Tensor t, int dt)                         # no autograd; t itself if it has the dtype
cdef Tensor materialise(Tensor t, int dt)                  # contiguous and of the dtype
# set_arg with strides; None: no operand, of dtype `compute`. Operand 0 gives the record its sizes.
cdef void set_operand(Record* r, int k, Tensor t, int compute) noexcept
# Any kernel on contiguous operands: outputs, then inputs (None allowed), parameters in order.
cdef int run(int kernel, int op, tuple outs, tuple ins, tuple ints, tuple reals, int compute) except -1
cdef object item_of(Tensor t)

# ---- graph -----------------------------------------------------------------------------------
cdef int raise_freed_graph() except -1
cdef Node gradient_edge(Tensor t)               # grad_fn, or the accumulator of a leaf; None if no grad
cdef uint64_t next_seq() noexcept
cdef int add_edge(Node node, Tensor t) except -1
cdef bint any_requires(tuple tensors)
cdef Tensor save_input(Tensor t)
cdef Tensor save_output(Tensor t)
cdef Tensor unpack_saved(Node node, Tensor saved, int64_t version, int output_nr)
cdef object node_view(Node node)
cdef Node node_of(object view)
# Makes `out` the result of an op: FnNode named `name`, with edges to `inputs` (Tensor or None).
# `save`: tensors the backward needs; `out` itself may be among them. Call only if grad is enabled and an
# input requires grad, or use `record`, which checks.
cdef FnNode attach(Tensor out, str name, object backward, tuple inputs, tuple save, object ctx)
cdef Tensor record(Tensor out, str name, object backward, tuple inputs, tuple save, object ctx)
cdef FnNode attach_all(list outs, str name, object backward, tuple inputs, tuple save, object ctx)
cdef int check_inplace(Tensor t, bint inputs_require) except -1
cdef int check_fill(Tensor t, bint inputs_require) except -1  # raises torch's refusals
# After a write in place: bumps the version and rebases the history on `node` (None: no gradient).
cdef int rebase(Tensor t, Node node) except -1
cdef int set_history(Tensor t, Node node) except -1
cdef Tensor make_view(Tensor t, Tensor view, int kind)    # view bookkeeping of a differentiable view

ctypedef object (*binary_fn)(object a, object b)
cdef struct Hooks:
    # filled by the op modules, so that the tensor's slots reach them without a Python lookup
    binary_fn add, radd, sub, rsub, mul, rmul, div, rdiv, matmul, rmatmul, pow, rpow
    binary_fn floordiv, rfloordiv, mod, rmod
    binary_fn eq, ne, lt, le, gt, ge, and_, or_, xor, rand_, ror, rxor
    binary_fn iadd, isub, imul, idiv, getitem
    object (*neg)(object a)
    int (*setitem)(object a, object index, object value) except -1
    int (*backward)(Tensor t, object gradient, object retain_graph, object create_graph, object inputs) except -1
    object (*invert)(object a)
    Node (*view_history)(Tensor t)
    int (*rebase_view)(Tensor t, Node node) except -1
cdef Hooks* hooks() noexcept
cdef int add_method(str name, object fn) except -1
# Methods without the cost of collecting *args: METH_FASTCALL | METH_KEYWORDS.
ctypedef object (*fast_method)(object self, PyObject** args, Py_ssize_t n, PyObject* names)
cdef int add_fast_method(str name, fast_method fn, object general, str signature) except -1
cdef int plain_ints(PyObject** args, Py_ssize_t n, int64_t* out) noexcept
cdef object call_general(object fn, object self, PyObject** args, Py_ssize_t n, PyObject* names)
