# The grad modes. Included by engine.pyx.
cdef int CO_GENERATOR = 0x20  # as in module inspect, which is slow to import


cdef class _Mode:
    """A grad mode as a context manager and a decorator."""
    cdef bint before

    def __call__(self, fn):
        import functools
        inner_fn = fn
        while isinstance(inner_fn, functools.partial):
            inner_fn = inner_fn.func
        if isinstance(fn, type):
            raise RuntimeError(f"decorating classes with {type(self).__name__} is not supported")
        if getattr(getattr(inner_fn, "__code__", None), "co_flags", 0) & CO_GENERATOR:
            @functools.wraps(fn)
            def generator(*args, **kwargs):
                inner = fn(*args, **kwargs)
                value = None
                while True:
                    with self.clone():
                        try:
                            item = inner.send(value)
                        except StopIteration as stop:
                            return stop.value
                    value = yield item
            return generator

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            with self.clone():
                return fn(*args, **kwargs)
        return wrapper

    def clone(self):
        return type(self)()

    def __exit__(self, exc_type, exc_value, traceback):
        set_grad(self.before)


cdef class no_grad(_Mode):
    """Turns the recording of operations off."""

    def __enter__(self):
        self.before = set_grad(False)


cdef class enable_grad(_Mode):
    """Turns the recording of operations on."""

    def __enter__(self):
        self.before = set_grad(True)


cdef class set_grad_enabled(_Mode):
    """Sets the recording of operations, at once; as a context, until its end."""
    cdef bint mode

    def __init__(self, bint mode):
        self.mode = mode
        self.before = set_grad(mode)

    def __enter__(self):
        set_grad(self.mode)

    def __call__(self, fn):
        set_grad(self.before)  # a decorator changes nothing until the function runs
        return _Mode.__call__(self, fn)

    def clone(self):
        return set_grad_enabled(self.mode)


cdef class inference_mode(_Mode):
    """No recording, no version counters: tensors made inside can never take part in autograd."""
    cdef bint mode, inference_before

    def __init__(self, mode=True):
        self.mode = mode

    def __enter__(self):
        from tensotron._core.tensor import _set_inference
        self.inference_before = _set_inference(self.mode)
        self.before = set_grad(not self.mode and grad_enabled())

    def __exit__(self, exc_type, exc_value, traceback):
        from tensotron._core.tensor import _set_inference
        _set_inference(self.inference_before)
        set_grad(self.before)

    def clone(self):
        return inference_mode(self.mode)


# no_grad(function) is the function decorated: what tp_new returns, if it is no instance, is not initialised
cdef extern from *:
    """
    static newfunc tt_new_mode;
    static PyObject* tt_new_or_decorated(PyTypeObject* t, PyObject* args, PyObject* kwargs) {
      PyObject *given = nullptr, *none = nullptr;
      if (PyTuple_GET_SIZE(args) || kwargs) {
        static const char* names[] = {"orig_func", nullptr};
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", (char**)names, &given)) return nullptr;
        if (!(none = PyTuple_New(0))) return nullptr;
      }
      PyObject* mode = tt_new_mode(t, none ? none : args, nullptr);
      Py_XDECREF(none);
      if (!mode || !given || given == Py_None) return mode;
      PyObject* out = PyObject_CallFunctionObjArgs(mode, given, nullptr);
      Py_DECREF(mode);
      return out;
    }
    static void tt_decorate(PyTypeObject* t, const char* name) {
      tt_new_mode = t->tp_new;
      t->tp_new = tt_new_or_decorated;
      t->tp_vectorcall = nullptr;
      t->tp_name = name;
      PyType_Modified(t);
    }
    """
    void tt_decorate(PyTypeObject* t, const char* name)

tt_decorate(<PyTypeObject*>no_grad, "tensotron.autograd.grad_mode.no_grad")
tt_decorate(<PyTypeObject*>enable_grad, "tensotron.autograd.grad_mode.enable_grad")


def is_grad_enabled():
    """Whether operations are recorded for autograd in this thread."""
    return grad_enabled()
