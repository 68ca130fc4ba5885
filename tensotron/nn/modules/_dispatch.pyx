"""Calls of modules without frames of Python: the base of Module, and in C the forward of some classes.

A call runs what Python would: `forward` of the instance or of its class. Where that is a function that `know` has been
told of, where nothing stands in the way (no class in between defines a name that the function reads, nobody has replaced
the operator in its namespace), the operator is called at once.
"""
from cpython.object cimport PyObject, PyTypeObject

from tensotron._autograd.conv cimport conv2d_relu
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
    int PyDict_Next(object d, Py_ssize_t* at, PyObject** key, PyObject** value)
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
    CONV2D
    MAX_POOL2D

# Where a dict mostly has a name: looking there costs half of a look-up.
cdef struct Place:
    Py_ssize_t at
    int misses

cdef struct Known:
    PyObject* function     # the forward; this and the others live forever
    Kind kind
    PyObject* space        # namespace in which the function finds its operator, or null
    PyObject* name
    PyObject* operator
    Place place

cdef struct Entry:
    Type* type             # kept by nobody: a version is never given twice
    unsigned int version
    Kind kind
    int known
    Place first, second    # of members of the instance that the function reads

cdef enum:
    ROOM = 256
    MISSES = 64            # after so many a place is learnt no more

cdef Known[8] known
cdef int n_known = 0
cdef Entry[ROOM] entries
cdef list kept = []
cdef dict KINDS = {"linear": LINEAR, "relu": RELU, "tanh": TANH, "sigmoid": SIGMOID, "sequential": SEQUENTIAL, "conv2d": CONV2D,
                   "max_pool2d": MAX_POOL2D}
cdef dict READS = {LINEAR: ("weight", "bias"), RELU: ("inplace",), TANH: (), SIGMOID: (), SEQUENTIAL: ("_modules",),
                   CONV2D: ("weight", "bias", "stride", "padding", "dilation", "groups", "padding_mode"),
                   MAX_POOL2D: ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")}
cdef bint look = False     # whether a call has to look for hooks: false until any module in the process has had one
cdef object general = None # Module._call_impl
cdef object numbered_iter = None
cdef object conv_forward = None


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
    k.place.at = k.place.misses = 0
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


def convolves_by(method):
    """`method`: the _conv_forward that the forward of convolutions calls."""
    global conv_forward
    conv_forward = method


cdef inline PyObject* of_class(Type* t, object name):
    return _PyType_Lookup(<PyTypeObject*>t, name)


cdef inline PyObject* find(object space, object name, Place* place) except? NULL:
    """The value that the dict has for an interned name, or null."""
    cdef Py_ssize_t at = place.at
    cdef PyObject* key
    cdef PyObject* value
    if PyDict_Next(space, &at, &key, &value) and key == <PyObject*>name:
        return value
    return find_anew(space, name, place)


cdef PyObject* find_anew(object space, object name, Place* place) except? NULL:
    cdef PyObject* found = PyDict_GetItemWithError(space, name)
    cdef Py_ssize_t at = 0, before = 0
    cdef PyObject* key
    cdef PyObject* value
    if found != NULL and place.misses < MISSES:
        place.misses += 1
        while PyDict_Next(space, &at, &key, &value):
            if key == <PyObject*>name:
                place.at = before
                break
            before = at
    return found


cdef inline bint is_replaced(Known* k) except -1:
    """Whether the namespace has another operator by now."""
    return k.space != NULL and find(<object>k.space, <object>k.name, &k.place) != k.operator


cdef Entry* classify(Type* t, Entry* e) except NULL:
    """Fills the entry of a class."""
    cdef PyObject* forward = of_class(t, "forward")
    cdef int i
    e.kind = PLAIN
    e.first.at = e.first.misses = e.second.at = e.second.misses = 0
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
    if kind == CONV2D:
        return of_class(t, "_conv_forward") == <PyObject*>conv_forward
    return kind != SEQUENTIAL or of_class(t, "__iter__") == <PyObject*>numbered_iter


cdef inline object call_forward(object self, object x):
    cdef PyObject* args[2]
    args[0], args[1] = <PyObject*>self, <PyObject*>x
    return PyObject_VectorcallMethod("forward", args, 2, NULL)


cdef inline Entry* entry_of(object module) except NULL:
    """The entry of the module's class, up to date."""
    cdef Type* t = <Type*>(<PyObject*>module).ob_type
    cdef Entry* e = &entries[(<size_t>t >> 5 ^ <size_t>t >> 12) % ROOM]
    if e.type != t or e.version != t.tp_version_tag or not t.tp_flags & Py_TPFLAGS_VALID_VERSION_TAG:
        e = classify(t, e)
    return e


cdef object call_one(object self, object x, Entry* e):
    """self(x) while nothing looks for hooks; `e`: the entry of its class."""
    cdef Known* k
    cdef PyObject* a
    cdef PyObject* b
    if e.kind == PLAIN:
        return call_forward(self, x)
    if e.kind == OVERRIDDEN:
        return self._call_impl(x)
    k = &known[e.known]
    space = PyObject_GenericGetDict(self, NULL)
    if PyDict_GetItemWithError(space, "forward") != NULL or is_replaced(k):
        return call_forward(self, x)
    if k.kind == LINEAR:
        a = find(space, "weight", &e.first)
        b = find(space, "bias", &e.second)
        if a != NULL and b != NULL:
            return linear_call(x, <object>a, <object>b)
    elif k.kind == TANH:
        return tanh_of(x)
    elif k.kind == SIGMOID:
        return sigmoid_of(x)
    elif k.kind == RELU:
        a = find(space, "inplace", &e.first)
        if a != NULL and <object>a is False:
            return relu_of(x)
    elif k.kind == SEQUENTIAL:
        a = find(space, "_modules", &e.first)
        if a != NULL and PyDict_Check(<object>a):
            return call_in_turn(<dict><object>a, x)
    return call_forward(self, x)


cdef inline bint is_plain(object module) noexcept:
    """Whether call_one is for this module."""
    return not look and (<Type*>(<PyObject*>module).ob_type).tp_call == <ternaryfunc>module_call


cdef bint does(object module, Kind kind) except -1:
    """Whether a call of the module is exactly what the functions of this kind do."""
    cdef Entry* e
    cdef Known* k
    if not is_plain(module):
        return False
    e = entry_of(module)
    if e.kind != kind:
        return False
    k = &known[e.known]
    space = PyObject_GenericGetDict(module, NULL)
    if PyDict_GetItemWithError(space, "forward") != NULL or is_replaced(k):
        return False
    if kind == RELU:
        return (<dict>space).get("inplace") is False
    return has_members(<dict>space, kind)


cdef bint has_members(dict space, Kind kind) except -1:
    """Whether a convolution or a pooling, of which the instance has these members, is one that conv2d_relu does."""
    for name in <tuple>READS[kind]:
        if name not in space:
            return False
    if kind == CONV2D:
        mode = space["padding_mode"]
        return "_conv_forward" not in space and type(mode) is str and mode == "zeros"
    return (is_two(space["kernel_size"]) and is_two(space["stride"]) and is_int(space["padding"], 0)
            and is_int(space["dilation"], 1) and space["ceil_mode"] is False and space["return_indices"] is False)


cdef inline bint is_int(object x, int n) except -1:
    return type(x) is int and x == n


cdef bint is_two(object x) except -1:
    return is_int(x, 2) or (type(x) is tuple and len(x) == 2 and is_int(x[0], 2) and is_int(x[1], 2))


cdef object convolve(object conv, object relu, object pool, object x):
    """pool(relu(conv(x))), in one pass if it can be; pool, or both, may be None."""
    cdef dict space
    if relu is not None:
        space = <dict>PyObject_GenericGetDict(conv, NULL)
        y = conv2d_relu(x, space["weight"], space["bias"], space["stride"], space["padding"], space["dilation"],
                        space["groups"], pool is not None)
        if y is not None:
            return y
    for module in (conv, relu, pool):
        if module is not None:
            x = call_one(module, x, entry_of(module)) if is_plain(module) else module(x)
    return x


cdef object call_in_turn(object members, object x):
    # a convolution, and the relu after it, that wait for what follows: nothing runs between them that could see it
    cdef object conv = None, relu = None
    cdef Entry* e
    Py_EnterRecursiveCall(" while calling a Python object")
    try:
        for module in (<dict>members).values():
            if conv is not None:
                if relu is None and does(module, RELU):
                    relu = module
                    continue
                if relu is not None and does(module, MAX_POOL2D):
                    x = convolve(conv, relu, module, x)
                    conv = relu = None
                    continue
                x = convolve(conv, relu, None, x)
                conv = relu = None
            if not is_plain(module):
                x = module(x)
                continue
            e = entry_of(module)
            if e.kind == CONV2D and does(module, CONV2D):
                conv = module
            else:
                x = call_one(module, x, e)
        return x if conv is None else convolve(conv, relu, None, x)
    finally:
        Py_LeaveRecursiveCall()


cdef object module_call(object self, object args, PyObject* kwargs):
    """self(*args, **kwargs), in the form of a type's tp_call."""
    if look:
        compiled = self._compiled_call_impl
        return PyObject_Call(self._call_impl if compiled is None else compiled, args, kwargs)
    if PyTuple_GET_SIZE(args) == 1 and (kwargs == NULL or PyDict_GET_SIZE(kwargs) == 0):
        return call_one(self, <object>PyTuple_GET_ITEM(args, 0), entry_of(self))
    if of_class(<Type*>(<PyObject*>self).ob_type, "_call_impl") != <PyObject*>general:
        return PyObject_Call(self._call_impl, args, kwargs)
    return PyObject_Call(self.forward, args, kwargs)


Callable = tt_callable(<void*>module_call)
