"""Calls of modules without frames of Python: the base of Module, and in C the forward of some classes.

A call runs what Python would: `forward` of the instance or of its class. Where that is a function that `know` has been
told of, where nothing stands in the way (no class in between defines a name that the function reads, nobody has replaced
the operator in its namespace), the operator is called at once.
"""
from cpython.object cimport PyObject, PyTypeObject

from tensotron._autograd.matmul cimport linear_call
from tensotron._autograd.pointwise cimport relu_of, sigmoid_of, tanh_of

cdef extern from "Python.h":
    ctypedef PyObject* (*ternaryfunc)(PyObject*, PyObject*, PyObject*)
    ctypedef struct Type "PyTypeObject":
        unsigned int tp_version_tag
        unsigned long tp_flags
        ternaryfunc tp_call
    unsigned long Py_TPFLAGS_VALID_VERSION_TAG
    PyObject* _PyType_Lookup(PyTypeObject* t, object name)
    PyObject* PyDict_GetItemWithError(object d, object key) except? NULL
    object PyObject_GenericGetDict(object o, void* context)
    object PyObject_Call(object f, object args, PyObject* kwargs)
    object PyObject_VectorcallMethod(object name, PyObject** args, size_t n, PyObject* names)
    Py_ssize_t PyTuple_GET_SIZE(object t)
    PyObject* PyTuple_GET_ITEM(object t, Py_ssize_t i)
    Py_ssize_t PyDict_GET_SIZE "PyDict_Size"(PyObject* d)
    bint PyDict_Check(object o)
    int Py_EnterRecursiveCall(const char* where) except -1
    void Py_LeaveRecursiveCall()

cdef extern from *:
    """
    // A class of objects without members that are called by `call`.
    static PyObject* tt_callable(void* call) {
      static PyType_Slot slots[] = {{Py_tp_call, nullptr}, {Py_tp_doc, (void*)"What is called like a module."}, {0, nullptr}};
      slots[0].pfunc = call;
      static PyType_Spec spec = {"tensotron.nn.modules._dispatch.Callable", int(sizeof(PyObject)), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
      return PyType_FromSpec(&spec);
    }
    """
    object tt_callable(void* call)

cdef enum Kind:
    PLAIN        # whatever forward is
    OVERRIDDEN   # the class has a _call_impl of its own
    LINEAR
    RELU
    TANH
    SIGMOID
    SEQUENTIAL

cdef struct Known:
    PyObject* function     # the forward; this and the others live forever
    Kind kind
    PyObject* space        # namespace in which the function finds its operator, or null
    PyObject* name
    PyObject* operator

cdef struct Entry:
    Type* type             # kept by nobody: a version is never given twice
    unsigned int version
    Kind kind
    int known

cdef enum:
    ROOM = 256

cdef Known[8] known
cdef int n_known = 0
cdef Entry[ROOM] entries
cdef list kept = []
cdef dict KINDS = {"linear": LINEAR, "relu": RELU, "tanh": TANH, "sigmoid": SIGMOID, "sequential": SEQUENTIAL}
cdef dict READS = {LINEAR: ("weight", "bias"), RELU: ("inplace",), TANH: (), SIGMOID: (), SEQUENTIAL: ("_modules",)}
cdef bint look = False     # whether a call has to look for hooks: false until any module in the process has had one
cdef object general = None # Module._call_impl
cdef object numbered_iter = None


def look_from_now_on():
    """Calls look for hooks from now on."""
    global look
    look = True


def serve(call_impl):
    """`call_impl`: the call of a module that may have hooks."""
    global general
    general = call_impl


def know(forward, str kind, space=None, str name=None):
    """Tells that the function `forward` calls the operator `name` of the namespace `space` on its one argument."""
    global n_known
    cdef Known* k = &known[n_known]
    import sys
    kept.append((forward, space, name))
    k.function = <PyObject*>forward
    k.kind = KINDS[kind]
    k.space = k.name = k.operator = NULL
    if space is not None:
        name = sys.intern(name)
        operator = space[name]
        kept.append((name, operator))
        k.space, k.name, k.operator = <PyObject*>space, <PyObject*>name, <PyObject*>operator
    n_known += 1


def iterates_by(iterator):
    """`iterator`: the __iter__ of containers that gives their members in order."""
    global numbered_iter
    numbered_iter = iterator


cdef inline PyObject* of_class(Type* t, object name):
    return _PyType_Lookup(<PyTypeObject*>t, name)


cdef Entry* classify(Type* t, Entry* e) except NULL:
    """Fills the entry of a class."""
    cdef PyObject* forward = of_class(t, "forward")
    cdef int i
    e.kind = PLAIN
    if of_class(t, "_call_impl") != <PyObject*>general:
        e.kind = OVERRIDDEN
    elif of_class(t, "__getattribute__") == <PyObject*>PLAIN_GETATTRIBUTE:
        for i in range(n_known):
            if known[i].function == forward and reads_members(t, known[i].kind):
                e.kind = known[i].kind
                e.known = i
    e.type = NULL
    if t.tp_flags & Py_TPFLAGS_VALID_VERSION_TAG and t.tp_version_tag:
        e.type = t
        e.version = t.tp_version_tag
    return e


cdef object PLAIN_GETATTRIBUTE = object.__dict__["__getattribute__"]


cdef bint reads_members(Type* t, Kind kind) except -1:
    """Whether the names that the function reads are the instance's, not the class's."""
    for name in READS[kind]:
        if of_class(t, name) != NULL:
            return False
    return kind != SEQUENTIAL or of_class(t, "__iter__") == <PyObject*>numbered_iter


cdef inline object call_forward(object self, object x):
    cdef PyObject* args[2]
    args[0], args[1] = <PyObject*>self, <PyObject*>x
    return PyObject_VectorcallMethod("forward", args, 2, NULL)


cdef object call_one(object self, object x):
    """self(x) while nothing looks for hooks."""
    cdef Type* t = <Type*>(<PyObject*>self).ob_type
    cdef Entry* e = &entries[(<size_t>t >> 5 ^ <size_t>t >> 12) % ROOM]
    cdef Known* k
    cdef PyObject* a
    cdef PyObject* b
    if e.type != t or e.version != t.tp_version_tag or not t.tp_flags & Py_TPFLAGS_VALID_VERSION_TAG:
        e = classify(t, e)
    if e.kind == PLAIN:
        return call_forward(self, x)
    if e.kind == OVERRIDDEN:
        return self._call_impl(x)
    k = &known[e.known]
    space = PyObject_GenericGetDict(self, NULL)
    if (PyDict_GetItemWithError(space, "forward") != NULL
            or (k.space != NULL and PyDict_GetItemWithError(<object>k.space, <object>k.name) != k.operator)):
        return call_forward(self, x)
    if k.kind == LINEAR:
        a = PyDict_GetItemWithError(space, "weight")
        b = PyDict_GetItemWithError(space, "bias")
        if a != NULL and b != NULL:
            return linear_call(x, <object>a, <object>b)
    elif k.kind == TANH:
        return tanh_of(x)
    elif k.kind == SIGMOID:
        return sigmoid_of(x)
    elif k.kind == RELU:
        if PyDict_GetItemWithError(space, "inplace") == <PyObject*>False:
            return relu_of(x)
    else:
        a = PyDict_GetItemWithError(space, "_modules")
        if a != NULL and PyDict_Check(<object>a):
            return call_in_turn(<dict><object>a, x)
    return call_forward(self, x)


cdef object call_in_turn(object members, object x):
    Py_EnterRecursiveCall(" while calling a Python object")
    try:
        for module in (<dict>members).values():
            if not look and (<Type*>(<PyObject*>module).ob_type).tp_call == <ternaryfunc>module_call:
                x = call_one(module, x)
            else:
                x = module(x)
        return x
    finally:
        Py_LeaveRecursiveCall()


cdef object module_call(object self, object args, PyObject* kwargs):
    """self(*args, **kwargs), in the form of a type's tp_call."""
    if look:
        compiled = self._compiled_call_impl
        return PyObject_Call(self._call_impl if compiled is None else compiled, args, kwargs)
    if PyTuple_GET_SIZE(args) == 1 and (kwargs == NULL or PyDict_GET_SIZE(kwargs) == 0):
        return call_one(self, <object>PyTuple_GET_ITEM(args, 0))
    if of_class(<Type*>(<PyObject*>self).ob_type, "_call_impl") != <PyObject*>general:
        return PyObject_Call(self._call_impl, args, kwargs)
    return PyObject_Call(self.forward, args, kwargs)


Callable = tt_callable(<void*>module_call)
