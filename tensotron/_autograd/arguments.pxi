# Arguments, out= and in-place results of the family files that include this.
from tensotron._core.arguments cimport refuse_out, resize_out

cdef Tensor tensor_arg(object x, str op, str name, int position):
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}(): argument '{name}' (position {position}) must be Tensor, not {type(x).__name__}")
    return <Tensor>x


cdef int64_t int_arg(object x, str op, str name, int position) except? -1:
    if isinstance(x, int) and not isinstance(x, bool):
        return x
    if isinstance(x, (bool, float, str)) or not hasattr(x, "__index__"):
        raise TypeError(f"{op}(): argument '{name}' (position {position}) must be int, not {type(x).__name__}")
    return x.__index__()


cdef int dim_arg(object dim, int nd, str op, int position) except -1:
    return wrap_dim(int_arg(dim, op, "dim", position), nd)


cdef Tensor zeros(object shape, int dt):
    cdef Tensor t = empty_of(tuple(shape), dt) if len(shape) != 1 else empty_of((int(shape[0]),), dt)
    fill_with(t, 0)
    return t


cdef Tensor copy_of(Tensor t):
    cdef Tensor out = empty_like(t, t.dt)
    copy_into(out, t)
    return out


C_TYPE_NAMES = ("float", "double", "long int", "int", "unsigned char", "bool")
TITLES = ("Float", "Double", "Long", "Int", "Byte", "Bool")


cdef object finish_out(object out, Tensor result, str op, tuple inputs):
    """Moves a result into `out`, if one was given."""
    cdef Tensor o
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise TypeError(f"{op}(): argument 'out' must be Tensor, not {type(out).__name__}")
    o = <Tensor>out
    refuse_out(op, o, any_requires(inputs))
    if o.dt != result.dt:
        raise RuntimeError(f"Expected out tensor to have dtype {C_TYPE_NAMES[result.dt]}, but got {C_TYPE_NAMES[o.dt]} instead")
    for x in inputs:
        if share_memory(o, <Tensor>x):
            raise RuntimeError("unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                               "single memory location. Please clone() the tensor before performing the operation.")
    check_inplace(o, False)
    resize_out(o, result.nd, result.sizes, True)
    copy_into(o, result)
    rebase(o, None)
    return o


cdef bint share_memory(Tensor a, Tensor b) noexcept:
    """Whether two contiguous tensors overlap."""
    if a.storage is not b.storage or not a.contiguous or not b.contiguous or a.n == 0 or b.n == 0:
        return False
    return a.ptr < b.ptr + b.n * backend.item_size(b.dt) and b.ptr < a.ptr + a.n * backend.item_size(a.dt)


cdef Tensor finish_inplace(Tensor t, str name, object backward, tuple inputs, tuple save, object ctx):
    """After t was written in place: its version, and its history if an input requires grad."""
    cdef FnNode node = None
    if grad_enabled() and any_requires(inputs):
        node = attach(alias(t), name, backward, inputs, save, ctx)
    rebase(t, node)
    return t


cdef object define(object fn, str name, object namespace, bint method=False):
    """Makes fn public: in `namespace` (a dict or None), and as a method."""
    fn.__name__ = fn.__qualname__ = name
    if namespace is not None:
        (<dict>namespace)[name] = fn
    if method:
        add_method(name, fn)
    return fn
