# Free lists of tensors and storages. Included by tensor.pyx; free_shells() is called once the types are complete.

cdef extern from "tensotron/_core/pool.h":
    ctypedef struct Shells "tensotron::Shells":
        PyObject* items[512]
        int n
    enum: SHELLS "tensotron::Shells::ROOM"
    object tt_take "tensotron::take"(Shells* s)
    object tt_take_tracked "tensotron::take_tracked"(Shells* s)
    void clear_weak_references "tensotron::clear_weak_references"(PyObject* o)
    cdef cppclass Accumulators "tensotron::Pool":
        @staticmethod
        void serve(PyTypeObject* t)

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void* o)

cdef Shells tensor_shells, storage_shells
cdef destructor free_tensor, free_storage


cdef inline Tensor new_tensor():
    if tensor_shells.n:
        return <Tensor>tt_take_tracked(&tensor_shells)
    return Tensor.__new__(Tensor)


cdef inline Storage new_shell():
    return <Storage>tt_take(&storage_shells) if storage_shells.n else Storage.__new__(Storage)


# The arguments of these two have no references any more, and none must be taken: only members are touched.
cdef void drop_tensor(Tensor t) noexcept:
    if (<PyObject*>t).ob_type != <PyTypeObject*>Tensor or tensor_shells.n == SHELLS or t.parked or t.attributes != NULL:
        free_tensor(<PyObject*>t)
        return
    PyObject_GC_UnTrack(<PyObject*>t)
    clear_weak_references(<PyObject*>t)
    t.storage = None
    if t.grad_fn_ is not None:
        t.grad_fn_ = None
    if t.grad_ is not None:
        t.grad_ = None
    if t.base_ is not None:
        t.base_ = None
    if t.counter is not None:
        t.counter = None
    if t.hooks is not None:
        t.hooks = None
    if t.heap_geometry is not None:
        t.heap_geometry = None
    t.dev = 0
    t.leaf_grad = t.retains = t.inference = False
    t.view_kind = VIEW_NONE
    t.output_nr = 0
    t.view_version = 0
    t.accumulator = NULL
    if tensor_shells.n == SHELLS:  # freed in the meantime: what the members held
        free_tensor(<PyObject*>t)
        return
    tensor_shells.items[tensor_shells.n] = <PyObject*>t
    tensor_shells.n += 1


cdef void drop_storage(Storage s) noexcept:
    if (<PyObject*>s).ob_type != <PyTypeObject*>Storage or storage_shells.n == SHELLS:
        free_storage(<PyObject*>s)
        return
    clear_weak_references(<PyObject*>s)
    if s.owner is not None:
        s.data = NULL
        s.owner = None
    elif s.data != NULL:
        active[0].release(s.data, s.capacity)
    s.data = NULL
    s.nbytes = s.capacity = 0
    s.version = 0
    s.watched = s.fixed = False
    if storage_shells.n == SHELLS:  # freed in the meantime: what the owner held
        free_storage(<PyObject*>s)
        return
    storage_shells.items[storage_shells.n] = <PyObject*>s
    storage_shells.n += 1


cdef NodeShells fn_shells


cdef inline FnNode new_fn_node():
    if fn_shells.n:
        return <FnNode>take_node(&fn_shells)
    return FnNode.__new__(FnNode)


cdef void drop_fn(FnNode node) noexcept:
    if not begin_drop(&fn_shells, <PyObject*>node):
        return
    node.backward = None
    node.ctx = None
    if node.saved_tensors is not None:
        node.saved_tensors = None
    if node.more_versions is not None:
        node.more_versions = None
    drop_members(node)
    end_drop(&fn_shells, <PyObject*>node)


cdef int free_shells() except -1:
    global free_tensor, free_storage
    free_tensor = (<TypeWithDealloc*>Tensor).tp_dealloc
    (<TypeWithDealloc*>Tensor).tp_dealloc = <destructor>drop_tensor
    free_storage = (<TypeWithDealloc*>Storage).tp_dealloc
    (<TypeWithDealloc*>Storage).tp_dealloc = <destructor>drop_storage
    (<TypeWithDealloc*>FnNode).tp_dealloc = <destructor>drop_fn
    Accumulators.serve(<PyTypeObject*>AccumulateGrad)
    return 0
