# The compiled function. Included by capture.pyx.

cdef extern from *:
    """
    static void tt_call_by_vector(PyTypeObject* t, Py_ssize_t offset) {
      t->tp_vectorcall_offset = offset;
      t->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }
    """
    void tt_call_by_vector(PyTypeObject* t, Py_ssize_t offset)
    Py_ssize_t PyVectorcall_NARGS(size_t n)

ctypedef object (*vectorcall)(object f, PyObject** args, size_t n, PyObject* names)


cdef class Compiled:
    """A function whose calls are recorded once per kind of arguments and then replayed. Made by compile()."""
    cdef readonly object function
    cdef readonly bint fullgraph
    cdef list captured, refused        # refused: [spec, inputs, how often]
    cdef list cells, names             # closure cells, and (globals, name), that the function and its helpers read
    cdef bint warned
    cdef readonly Py_ssize_t captures, replays, eager_calls
    cdef readonly str reason
    cdef vectorcall by_vector
    cdef dict __dict__
    cdef object __weakref__

    def __cinit__(self):
        self.by_vector = call_compiled

    def __init__(self, function, bint fullgraph=False):
        self.function, self.fullgraph = function, fullgraph
        self.captured, self.refused = [], []
        self.cells = self.names = None
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))
        self.__wrapped__ = function

    def __get__(self, obj, owner):
        return self if obj is None else types.MethodType(self, obj)

    # as functions: copies are the same, pickles hold a name
    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return self.__qualname__

    def stats(self):
        return {"captures": self.captures, "replays": self.replays, "eager_calls": self.eager_calls, "reason": self.reason}

    def reset(self):
        """Forgets all captures."""
        self.captured, self.refused = [], []

    def __call__(self, *args, **kwargs):
        return self.general(args, kwargs)

    cdef object general(self, tuple args, dict kwargs):
        cdef list spec, tensors
        cdef Captured c
        cdef Py_ssize_t i
        if watch.capturing and backend.recording_here():
            return self.function(*args, **kwargs)
        if self.cells is None:
            self.cells, self.names = surroundings_of(self.function)
        spec, tensors = self.described(args, kwargs)
        for i in range(len(self.captured)):
            c = <Captured>self.captured[i]
            if c.program.running:
                c.program.wait()
            if c.matches(spec, tensors):
                self.replays += 1
                return c.replay(tensors)
        return self.first(args, kwargs, spec, tensors)

    cdef tuple described(self, tuple args, dict kwargs):
        """(what has to be equal in a later call, tensors) of a call."""
        cdef list spec = [len(args)], tensors = []
        for x in args:
            flatten(x, spec, tensors)
        if kwargs:
            flatten(kwargs, spec, tensors)
        self.surroundings(spec, tensors)
        return spec, tensors

    cdef int surroundings(self, list spec, list tensors) except -1:
        """The values that the function takes from its closure and its globals."""
        for cell in self.cells:
            try:
                x = cell.cell_contents
            except ValueError:
                x = None
            self.surrounding(x, spec, tensors)
        for names, name in self.names:
            self.surrounding((<dict>names).get(name), spec, tensors)
        return 0

    cdef int surrounding(self, object x, list spec, list tensors) except -1:
        if isinstance(x, Tensor):
            spec.append(TENSOR)
            tensors.append(x)
        elif isinstance(x, tuple):
            flatten(x, spec, tensors)
        else:
            spec.append(x)
        return 0

    def first(self, args, kwargs, list spec, list tensors):
        """A call of a new kind: recorded if that is possible."""
        cdef Captured c
        cdef list refusal
        cdef tuple around = surroundings_of(self.function)
        if around != (self.cells, self.names):  # a helper is another one now
            self.reset()
            self.cells, self.names = around
            spec, tensors = self.described(args, kwargs)
        refusal = self.refusal_of(spec, tensors)
        self.captured = [c for c in self.captured if c.epoch == watch.epoch]
        reason = unsuitable(tensors, spec)
        if reason is None and refusal is not None and refusal[2] >= MAX_REFUSALS:
            reason = self.reason
        elif reason is None and len(self.captured) >= MAX_CAPTURES:
            if not self.warned:
                warnings.warn(f"{getattr(self.function, '__name__', 'a compiled function')}: captured for {MAX_CAPTURES} kinds of "
                              "arguments already; calls with others run eagerly. Pass numbers that change as tensors.", stacklevel=3)
                self.warned = True
            reason = f"more than {MAX_CAPTURES} kinds of arguments"
        if reason is None and watch.capturing:
            self.eager_calls += 1
            self.reason = "another thread is capturing a call"
            return self.function(*args, **kwargs)
        if reason is not None:
            self.refuse(reason)
            self.eager_calls += 1
            return self.function(*args, **kwargs)
        result, captured, reason, later = record_call(self.function, args, kwargs, spec, tensors)
        if captured is not None:
            c = captured
            if not kwargs and len(spec) == 1 + len(args) + len(self.cells) + len(self.names):
                c.plain = len(args)
            self.captured.append(captured)
            self.captures += 1
            self.reason = None
            return result
        self.eager_calls += 1
        if later:
            self.reason = reason
            return result
        if refusal is None:
            refusal = [spec, [describe(i, tensors) for i in range(len(tensors))], 0]
            self.refused.insert(0, refusal)
            del self.refused[16:]
        refusal[2] += 1
        self.refuse(reason)
        return result

    cdef int refuse(self, str reason) except -1:
        if self.fullgraph:
            raise RuntimeError(f"compile(fullgraph=True): the call cannot be captured: {reason}")
        self.reason = reason
        return 0

    cdef list refusal_of(self, list spec, list tensors):
        for refusal in self.refused:
            if len(refusal[1]) == len(tensors) and same_spec(refusal[0], spec):
                for i in range(len(tensors)):
                    if not (<Input>refusal[1][i]).fits(<Tensor>tensors[i], tensors):
                        break
                else:
                    return refusal
        return None


cdef object call_compiled(object f, PyObject** args, size_t nargs, PyObject* names):
    """Compiled.__call__ without a tuple and a dict for the arguments, where they are simple."""
    cdef Compiled self = <Compiled>f
    cdef Captured c
    cdef list tensors
    cdef dict keywords
    cdef Py_ssize_t i, n = PyVectorcall_NARGS(nargs)
    if names == NULL and not watch.capturing:
        for c in self.captured:
            if c.plain == n:
                if c.program.running:
                    c.program.wait()
                tensors = c.take_plain(args, n, self.cells, self.names)
                if tensors is not None and c.holds(tensors):
                    self.replays += 1
                    result = c.replay(tensors)
                    c.leave(tensors)
                    return result
    keywords = {}
    if names != NULL:
        for i in range(len(<tuple>names)):
            keywords[(<tuple>names)[i]] = <object>args[n + i]
    return self.general(tuple([<object>args[i] for i in range(n)]), keywords)


cdef Compiled _probe = Compiled(None)
tt_call_by_vector(<PyTypeObject*>Compiled, <char*>&_probe.by_vector - <char*><void*>_probe)
_probe = None


cdef class CompiledObject:
    """A base of classes whose instances are called by a Compiled."""
    cdef readonly Compiled _compiled
    cdef vectorcall by_vector

    def __cinit__(self, *args, **kwargs):
        self.by_vector = call_object

    def _call_by(self, Compiled compiled not None):
        self._compiled = compiled

    def __call__(self, *args, **kwargs):
        if self._compiled is None:
            raise_unfinished(self)
        return self._compiled.general(args, kwargs)


cdef object call_object(object f, PyObject** args, size_t nargs, PyObject* names):
    cdef Compiled compiled = (<CompiledObject>f)._compiled
    if compiled is None:
        raise_unfinished(f)
    return call_compiled(compiled, args, nargs, names)


cdef int raise_unfinished(object x) except -1:
    raise AttributeError(f"{type(x).__name__} object is called before its __init__")


def called_by_vector(type cls):
    """Decorates a class made of CompiledObject: its instances are called without a tuple of their arguments."""
    tt_call_by_vector(<PyTypeObject*>cls, <char*>&_object.by_vector - <char*><void*>_object)
    return cls


cdef CompiledObject _object = CompiledObject()


def surroundings_of(function):
    """(closure cells, [(globals, name)]) that a function reads, and plain functions and modules that it reaches by them."""
    from tensotron.nn import Module

    cells, names, seen, todo = [], [], set(), [function]
    while todo:
        f = todo.pop()
        owner = getattr(f, "__self__", f)
        if isinstance(owner, Module):
            todo += [type(m).forward for m in owner.modules() if not type(m).__module__.startswith("tensotron.")]
        f = getattr(f, "__func__", f)
        if not isinstance(f, types.FunctionType) or f in seen:
            continue
        seen.add(f)
        for cell in f.__closure__ or ():
            cells.append(cell)
            try:
                todo.append(cell.cell_contents)
            except ValueError:
                pass
        if not f.__globals__.get("__name__", "").startswith("tensotron."):
            for name in global_names(f.__code__):
                names.append((f.__globals__, name))
                todo.append(f.__globals__.get(name))
    return cells, names


@functools.lru_cache(maxsize=1024)  # asked for at every call that is not replayed
def global_names(code):
    """Names that a code object and those inside it look up among the globals."""
    names = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += global_names(constant)
    return tuple(dict.fromkeys(names))
