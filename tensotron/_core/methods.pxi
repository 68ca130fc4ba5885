# The Tensor class: slots, properties and the methods that need the type itself. Everything else is
# attached by the op modules with add_method. Included by tensor.pyx.

_repr = None  # set to _tensor_str._str at first use


cdef class Tensor:
    """Multi-dimensional array with a dtype, a device and a place in the autograd graph."""

    def __init__(self, *args, **kwargs):
        cdef Tensor t
        if self.storage is not None:  # made by _make_subclass or a factory
            return
        from tensotron._core import data
        t = <Tensor>data.legacy(dt_.default_float(), True, args, kwargs)
        self.storage, self.ptr, self.dt, self.counter, self.inference = t.storage, t.ptr, t.dt, t.counter, t.inference
        self.grad_fn_, self.output_nr = t.grad_fn_, t.output_nr
        set_geometry(self, t.nd, t.sizes, t.strides)

    cdef bint requires_base(self) noexcept:
        return self.requires()

    # ---- arithmetic slots -------------------------------------------------------------------
    def __add__(self, other):
        return the_hooks.add(self, other)

    def __radd__(self, other):
        return the_hooks.radd(self, other)

    def __iadd__(self, other):
        return the_hooks.iadd(self, other)

    def __sub__(self, other):
        return the_hooks.sub(self, other)

    def __rsub__(self, other):
        return the_hooks.rsub(self, other)

    def __isub__(self, other):
        return the_hooks.isub(self, other)

    def __mul__(self, other):
        return the_hooks.mul(self, other)

    def __rmul__(self, other):
        return the_hooks.rmul(self, other)

    def __imul__(self, other):
        return the_hooks.imul(self, other)

    def __truediv__(self, other):
        return the_hooks.div(self, other)

    def __rtruediv__(self, other):
        out = the_hooks.rdiv(self, other)
        if out is NotImplemented and is_array(other):
            return self.reciprocal() * other
        return out

    def __itruediv__(self, other):
        return the_hooks.idiv(self, other)

    def __ifloordiv__(self, other):
        return in_place(self, "floor_divide_", other)

    def __imod__(self, other):
        return in_place(self, "remainder_", other)

    def __ipow__(self, other):
        return in_place(self, "pow_", other)

    def __iand__(self, other):
        return in_place(self, "bitwise_and_", other)

    def __ior__(self, other):
        return in_place(self, "bitwise_or_", other)

    def __ixor__(self, other):
        return in_place(self, "bitwise_xor_", other)

    def __floordiv__(self, other):
        return the_hooks.floordiv(self, other)

    def __rfloordiv__(self, other):
        return the_hooks.rfloordiv(self, other)

    def __mod__(self, other):
        return the_hooks.mod(self, other)

    def __rmod__(self, other):
        return the_hooks.rmod(self, other)

    def __pow__(self, other, modulo):
        return the_hooks.pow(self, other)

    def __rpow__(self, other, modulo):
        return the_hooks.rpow(self, other)

    def __matmul__(self, other):
        return the_hooks.matmul(self, other)

    def __rmatmul__(self, other):
        return the_hooks.rmatmul(self, other)

    def __and__(self, other):
        return the_hooks.and_(self, other)

    def __rand__(self, other):
        return the_hooks.rand_(self, other)

    def __or__(self, other):
        return the_hooks.or_(self, other)

    def __ror__(self, other):
        return the_hooks.ror(self, other)

    def __xor__(self, other):
        return the_hooks.xor(self, other)

    def __rxor__(self, other):
        return the_hooks.rxor(self, other)

    def __neg__(self):
        return the_hooks.neg(self)

    def __pos__(self):
        if self.dt == BOOL:
            raise RuntimeError("positive does not support bool tensors.")
        return self

    def __abs__(self):
        return self.abs()

    def __invert__(self):
        return the_hooks.invert(self)

    def __eq__(self, other):
        out = the_hooks.eq(self, other)
        return out if out is not NotImplemented else equals_array(self, other)

    def __ne__(self, other):
        return the_hooks.ne(self, other)

    def __lt__(self, other):
        return the_hooks.lt(self, other)

    def __le__(self, other):
        return the_hooks.le(self, other)

    def __gt__(self, other):
        return the_hooks.gt(self, other)

    def __ge__(self, other):
        return the_hooks.ge(self, other)

    def __hash__(self):
        return <Py_ssize_t>(<size_t><void*>self >> 4)

    def __getitem__(self, index):
        return the_hooks.getitem(self, index)

    def __setitem__(self, index, value):
        the_hooks.setitem(self, index, value)

    # ---- conversions to Python ---------------------------------------------------------------
    def __len__(self):
        if self.nd == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.sizes[0]

    def __bool__(self):
        if self.n == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        if self.n > 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(item_of(self))

    def __float__(self):
        return float(only_element(self))

    def __int__(self):
        return int(only_element(self))

    def __complex__(self):
        return complex(only_element(self))

    def __index__(self):
        if self.n != 1 or dt_.is_float(self.dt):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(item_of(self))

    def __contains__(self, element):
        if not isinstance(element, (Tensor, int, float)):
            raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
        return bool((self == element).any())

    def item(self):
        """The value of a tensor of one element, as a Python number."""
        return item_of(self)

    def tolist(self):
        """The values as nested lists of Python numbers; a number for a 0-dim tensor."""
        if self.nd == 0:
            return item_of(self)
        return numpy_view(self).tolist()

    def numpy(self, *, bint force=False):
        """A numpy array that shares this tensor's memory.

        Raises:
            RuntimeError: the tensor requires grad (use detach(), or force=True).
        """
        if self.requires() and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        fix_storage(self)
        return numpy_view(self)

    def __array__(self, dtype=None, copy=None):
        if self.requires():
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        fix_storage(self)
        a = numpy_view(self)
        if dtype is not None and a.dtype != dtype:
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            return a.astype(dtype)
        return a.copy() if copy else a

    __array_priority__ = 1000

    def __array_wrap__(self, array, context=None, return_scalar=False):
        from tensotron._core import data
        return data.from_numpy(array.astype("uint8") if array.dtype == bool else array)

    def __iter__(self):
        if self.nd == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self):
        return self if self.nd == 0 else self.flip(0)

    def __repr__(self):
        global _repr
        if _repr is None:
            from tensotron._tensor_str import _str as _repr
        return _repr(self)

    def __format__(self, spec):
        if self.nd == 0 and type(self) is Tensor:
            return format(item_of(self), spec)
        if spec:  # object.__format__ would name the module too
            raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__")
        return repr(self)

    # ---- shape -----------------------------------------------------------------------------
    @property
    def shape(self):
        """Size of the tensor."""
        return make_size(self.nd, self.sizes)

    def size(self, dim=None):
        """The shape, or the size of one dimension."""
        if dim is None:
            return make_size(self.nd, self.sizes)
        if self.nd == 0:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        return self.sizes[wrap_dim(dim, self.nd)]

    def stride(self, dim=None):
        """Step in elements along each dimension, or along one."""
        if dim is None:
            return tuple([self.strides[d] for d in range(self.nd)])
        if self.nd == 0:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        return self.strides[wrap_dim(dim, self.nd)]

    def storage_offset(self):
        """Elements between the start of the storage and the first element."""
        if watch.capturing:
            note_place(self)
        return (self.ptr - self.storage.data) // item_size(self.dt)

    def dim(self):
        return self.nd

    ndimension = dim

    @property
    def ndim(self):
        return self.nd

    def numel(self):
        return self.n

    nelement = numel

    def element_size(self):
        return item_size(self.dt)

    @property
    def itemsize(self):
        return item_size(self.dt)

    @property
    def nbytes(self):
        return self.n * item_size(self.dt)

    def is_contiguous(self, memory_format=geometry.contiguous_format):
        """Whether the elements lie in row-major order (or that of channels_last) without gaps."""
        if memory_format is geometry.channels_last or memory_format is geometry.channels_last_3d:
            return channels_last_order(self, 4 if memory_format is geometry.channels_last else 5)
        return self.contiguous

    def data_ptr(self):
        """Address of the first element; 0 if there is none."""
        backend.expose(self.storage.data)
        return <size_t>self.ptr if self.n else 0

    def untyped_storage(self):
        if watch.capturing:
            note_place(self)
        return self.storage

    # ---- type ------------------------------------------------------------------------------
    @property
    def dtype(self):
        return dt_.of_code(self.dt)

    @property
    def device(self):
        return CPU

    @property
    def layout(self):
        return strided

    def get_device(self):
        return -1

    is_cpu = property(lambda self: True)
    is_cuda = property(lambda self: False)
    is_mps = property(lambda self: False)
    is_meta = property(lambda self: False)
    is_sparse = property(lambda self: False)
    is_quantized = property(lambda self: False)
    is_nested = property(lambda self: False)

    def is_floating_point(self):
        return dt_.is_float(self.dt)

    def is_complex(self):
        return False

    def is_signed(self):
        return dt_.of_code(self.dt).is_signed

    def is_conj(self):
        return False

    def is_neg(self):
        return False

    # ---- autograd --------------------------------------------------------------------------
    @property
    def requires_grad(self):
        return self.requires()

    @requires_grad.setter
    def requires_grad(self, bint value):
        set_requires_grad(self, value)
        if self.grad_fn_ is not None:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")

    def requires_grad_(self, bint requires_grad=True):
        """Sets whether autograd records operations on this leaf; returns it."""
        if requires_grad and not dt_.is_float(self.dt):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        set_requires_grad(self, requires_grad)
        return self

    @property
    def is_leaf(self):
        if self.base_ is not None:
            refresh_view(self)
        return self.grad_fn_ is None

    @property
    def grad_fn(self):
        if self.base_ is not None:
            refresh_view(self)
        return node_view(self.grad_fn_)

    @property
    def grad(self):
        if self.grad_ is None and self.grad_fn_ is not None and not self.retains:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
                "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
                "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
                "you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more informations.",
                UserWarning, stacklevel=2)
        if watch.capturing and self.grad_fn_ is None:
            backend.note_leaf(self)
        return self.grad_

    @grad.setter
    def grad(self, value):
        cdef Tensor g
        if watch.capturing:
            backend.note_leaf(self)
        if value is None:
            self.grad_ = None
            return
        if not isinstance(value, Tensor):
            raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type '{type(value).__name__}'")
        g = <Tensor>value
        if g is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if g.dt != self.dt:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{DT_NAMES[g.dt]}' to a tensor with grad_dtype "
                f"'{DT_NAMES[self.dt]}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). "
                "You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
                "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems "
                "that assume they match.")
        if not same_shape(g, self):
            raise RuntimeError(
                f"assigned grad has data of a different size")
        self.grad_ = g

    @grad.deleter
    def grad(self):
        if watch.capturing:
            backend.note_leaf(self)
        self.grad_ = None

    @property
    def data(self):
        """The same memory without history, and with a version counter of its own."""
        cdef Tensor v = alias(self)
        v.counter = VersionCounter.__new__(VersionCounter)
        return v

    @data.setter
    def data(self, Tensor value not None):
        if value.dt != self.dt and (self.grad_fn_ is not None or self.leaf_grad) and not dt_.is_float(value.dt):
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        note_change(self)
        cdef int64_t version = self.version()
        self.storage, self.ptr, self.dt = value.storage, value.ptr, value.dt
        set_geometry(self, value.nd, value.sizes, value.strides)
        if self.counter is None:  # keeps its own version, whatever the new storage's is
            self.counter = VersionCounter.__new__(VersionCounter)
            self.counter.value = version

    def detach(self):
        """The same memory and version counter, without history."""
        return alias(self)

    def detach_(self):
        """Forgets the history of this tensor, in place."""
        if self.base_ is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel "
                               "(DDP) for training, and gradient_as_bucket_view is set as True, gradients are views of DDP "
                               "buckets, and hence detach_() cannot be called on these gradients. To fix this error, please "
                               "refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.")
        self.grad_fn_ = None
        self.output_nr = 0
        self.leaf_grad = self.retains = False
        return self

    def retain_grad(self):
        """Keeps the gradient of this non-leaf in .grad."""
        if not self.requires():
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        retain(self)

    @property
    def retains_grad(self):
        return self.retains

    def register_hook(self, hook):
        """Calls hook(grad) with each gradient computed for this tensor; a tensor returned replaces it.

        Returns a handle whose remove() takes the hook off.
        """
        if not self.requires():
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return add_tensor_hook(self, hook)

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Accumulates the gradient of this tensor into the .grad of the leaves (or of `inputs`)."""
        the_hooks.backward(self, gradient, retain_graph, create_graph, inputs)

    def is_inference(self):
        return self.inference

    @property
    def _version(self):
        if self.inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self.version()

    @property
    def _base(self):
        if watch.capturing and self.base_ is not None:
            backend.uncapturable("the base of a view is read")
        return self.base_

    def _is_view(self):
        return self.base_ is not None


cdef list DT_NAMES = ["torch.float32", "torch.float64", "torch.int64", "torch.int32", "torch.uint8", "torch.bool"]


cdef bint channels_last_order(Tensor t, int nd):
    cdef int64_t expect = 1
    if t.nd != nd:
        return False
    for d in (1, *range(nd - 1, 1, -1), 0):
        if t.sizes[d] != 1:
            if t.strides[d] != expect:
                return False
            expect *= t.sizes[d]
    return True


cdef int set_requires_grad(Tensor t, bint value) except -1:
    if t.base_ is not None:
        refresh_view(t)
    if t.grad_fn_ is not None:
        if not value:
            raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a computed "
                               "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().")
        return 0
    if value and not dt_.is_float(t.dt):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if value and t.inference and not tt_inference:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    if t.leaf_grad != value:
        note_change(t)
        t.leaf_grad = value
    return 0


cdef int retain(Tensor t) except -1:
    if t.base_ is not None:
        refresh_view(t)
    if t.grad_fn_ is None or t.retains:
        return 0
    t.retains = True
    return note_retained(t)


cdef object in_place(Tensor t, str name, object other):
    """An operator that assigns, by its method."""
    if isinstance(other, Tensor) or dt_.scalar_code(other) >= 0:
        return getattr(t, name)(other)
    return NotImplemented


cdef object add_tensor_hook(Tensor t, object hook):
    cdef Node node = gradient_edge(t)
    cdef int nr = t.output_nr if t.grad_fn_ is not None else 0
    if node is None:  # a view made without grad mode: no gradient arrives there
        return HookHandle([], hook, None)
    if t.grad_fn_ is None and t.hooks is None:
        t.hooks = {"node": node}  # the accumulator must live as long as its hooks
    if node.tensor_hooks is None:
        node.tensor_hooks = {}
    return HookHandle(node.tensor_hooks.setdefault(nr, []), hook, t if t.grad_fn_ is None else None)


cdef object only_element(Tensor t):
    if t.n != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return item_of(t)


cdef bint is_array(object x):
    import numpy
    return isinstance(x, numpy.ndarray)


cdef object equals_array(Tensor t, object other):
    """t == other for an ndarray: the only operator that takes one, as in PyTorch."""
    from tensotron._core import data
    if not is_array(other):
        return NotImplemented
    try:
        other = data.as_tensor(other)
    except (TypeError, NotImplementedError):
        return NotImplemented
    return the_hooks.eq(t, other)


cdef int NUMPY_TYPES[6]
NUMPY_TYPES[:] = [np_.NPY_FLOAT, np_.NPY_DOUBLE, np_.NPY_INT64, np_.NPY_INT32, np_.NPY_UINT8, np_.NPY_BOOL]


cdef object numpy_view(Tensor t):
    import numpy
    cdef np_.npy_intp strides[64]
    cdef int64_t size = item_size(t.dt)
    cdef int d
    if t.n == 0:
        return numpy.empty([t.sizes[d] for d in range(t.nd)], TO_NUMPY[t.dt])
    for d in range(t.nd):
        strides[d] = t.strides[d] * size
    backend.expose(t.storage.data)
    array = np_.PyArray_New(&np_.PyArray_Type, t.nd, <np_.npy_intp*>t.sizes, NUMPY_TYPES[t.dt], strides, t.ptr, 0,
                            np_.NPY_ARRAY_ALIGNED | np_.NPY_ARRAY_WRITEABLE, NULL)
    Py_INCREF(t.storage)  # the next line takes that
    np_.PyArray_SetBaseObject(<np_.Array*><void*>array, <PyObject*>t.storage)
    return array


def _make_subclass(cls, Tensor data not None, bint require_grad=False):
    """A tensor of Python class `cls` on the memory of `data`, without its history."""
    cdef Tensor t = <Tensor?>cls.__new__(cls) if cls is Tensor else <Tensor?>Tensor.__new__(cls)
    t.storage, t.ptr, t.dt, t.dev = data.storage, data.ptr, data.dt, data.dev
    t.counter = data.counter
    set_geometry(t, data.nd, data.sizes, data.strides)
    if require_grad:
        set_requires_grad(t, True)
    return t


cdef int add_method(str name, object fn) except -1:
    """Attaches a function as a method of Tensor."""
    cdef PyTypeObject* t = <PyTypeObject*>Tensor
    (<dict>(<PyTypeWithDict*>t).tp_dict)[name] = fn
    PyType_Modified(t)
    return 0


cdef extern from *:
    """
    static int tt_add_fast(PyTypeObject* t, const char* name, void* fn, const char* doc) {
      PyMethodDef* def = new PyMethodDef{name, (PyCFunction)fn, METH_FASTCALL | METH_KEYWORDS, doc};  // lives forever
      PyObject* d = PyDescr_NewMethod(t, def);
      if (!d) return -1;
      const int rc = PyDict_SetItemString(t->tp_dict, name, d);
      Py_DECREF(d);
      PyType_Modified(t);
      return rc;
    }
    """
    int tt_add_fast(PyTypeObject* t, const char* name, void* fn, const char* doc) except -1

cdef list method_texts = []  # names and docstrings that method definitions point to


cdef int add_fast_method(str name, fast_method fn, object general, str signature) except -1:
    """Attaches a C function as a method of Tensor; name, docstring as of `general`."""
    cdef bytes title = name.encode(), text = f"{name}({signature})\n--\n\n{general.__doc__ or ''}".encode()
    method_texts.append((title, text))
    return tt_add_fast(<PyTypeObject*>Tensor, title, <void*>fn, text)


cdef int plain_ints(PyObject** args, Py_ssize_t n, int64_t* out) noexcept:
    """Arguments that are ints, or one tuple of them: their number. -1: something else, or not this simple."""
    cdef Py_ssize_t i
    cdef PyObject* item
    cdef PyObject* only = args[0] if n == 1 else NULL
    if only != NULL and isinstance(<object>only, tuple):
        n = PyTuple_GET_SIZE(<object>only)
    else:
        only = NULL
    if n > 8:
        return -1
    for i in range(n):
        item = args[i] if only == NULL else PyTuple_GET_ITEM_(only, i)
        if not PyLong_CheckExact(<object>item):
            return -1
        out[i] = PyLong_AsLongLong_(item)
        if out[i] == -1:  # also what an overflow gives
            PyErr_Clear()
            if <object>item != -1:
                return -1
    return <int>n


cdef object call_general(object fn, object self, PyObject** args, Py_ssize_t n, PyObject* names):
    """fn(self, *args, **kwargs) for arguments in the form of METH_FASTCALL."""
    cdef Py_ssize_t i
    given = [self]
    for i in range(n):
        given.append(<object>args[i])
    if names == NULL:
        return fn(*given)
    keywords = {}
    for i in range(len(<tuple>names)):
        keywords[(<tuple>names)[i]] = <object>args[n + i]
    return fn(*given, **keywords)
