# Variance and standard deviation. Included by reduce.pyx.

cdef object var_gradient(object g, Tensor x, uint64_t mask, bint keepdim, double correction, bint whole):
    """torch's: with nothing to divide by, nan where the deviation is 0 and inf elsewhere (whole tensor), or as the
    division gives it (along dimensions)."""
    cdef double n = <double>reduced_count(x, mask), dof = n - correction
    dims = [d for d in range(x.nd) if mask >> d & 1]
    if whole or x.nd == 0:
        if dof <= 0:
            return g * where_equal(x, x.mean())
        return (g * (2.0 / dof)) * (x - x.mean())
    g = restore(<Tensor>g, x.nd, mask, keepdim)
    scale = 2.0 / dof if dof != 0 else <double>float("inf")
    return (g * scale) * (x - x.mean(dims, True))


cdef object where_equal(Tensor x, object m):
    from tensotron._autograd import pointwise
    return pointwise.FUNCTIONS["where"](x.detach() == m.detach(), float("nan"), float("inf")).to(x.dtype)


cdef object std_gradient(object g, object y, Tensor x, uint64_t mask, bint keepdim, double correction, bint whole):
    g = (g / (y * 2)).masked_fill(y.detach() == 0, 0.0)
    return var_gradient(g, x, mask, keepdim, correction, whole)


cdef object mean_gradient(object g, Tensor x, uint64_t mask, bint keepdim):
    return restore(<Tensor>g, x.nd, mask, keepdim).expand(x.shape) / reduced_count(x, mask)


def _var_backward(FnNode node, Tensor g):
    x = <Tensor>node.saved(0)
    mask, keepdim, correction, whole = node.ctx
    return var_gradient(g, x, mask, keepdim, correction, whole)


def _std_backward(FnNode node, Tensor g):
    x, y = <Tensor>node.saved(0), <Tensor>node.saved(1)
    mask, keepdim, correction, whole = node.ctx
    return std_gradient(g, y, x, mask, keepdim, correction, whole)


def _var_mean_backward(FnNode node, g, gm):
    x = <Tensor>node.saved(0)
    mask, keepdim, correction, whole = node.ctx
    out = None
    if g is not None:
        if node.node_name == "StdMeanBackward0":
            out = std_gradient(g, node.saved(1), x, mask, keepdim, correction, whole)
        else:
            out = var_gradient(g, x, mask, keepdim, correction, whole)
    if gm is not None:
        m = mean_gradient(gm, x, mask, keepdim)
        out = m if out is None else out + m
    return out


cdef object variance(int op, str name, object input, object dim, object unbiased, object keepdim, object correction, object out):
    cdef Tensor x = tensor_arg(input, name, "input", 1), y, m
    cdef bint keep = flag(keepdim, name)
    cdef bint both = op == REDUCE_var_mean or op == REDUCE_std_mean
    cdef uint64_t mask
    cdef double c = 1
    if isinstance(dim, bool):
        if unbiased is not None:
            raise TypeError(f"{name}(): argument 'dim' must be tuple of ints, not bool")
        dim, unbiased = None, dim
    if unbiased is not None:
        if correction is not None:
            raise TypeError(f"{name}() received an invalid combination of arguments - got both 'unbiased' and 'correction'")
        if not isinstance(unbiased, bool):
            raise TypeError(f"{name}(): argument 'unbiased' must be bool, not {type(unbiased).__name__}")
        c = 1 if unbiased else 0
    elif correction is not None:
        c = correction
    if not dt_.is_float(x.dt):
        subject = name if both else "std and var"
        raise RuntimeError(f"{subject} only support floating point and complex dtypes")
    mask = dim_mask(dim, x.nd)
    if reduced_count(x, mask) - c <= 0 and x.n > 0:
        warnings.warn(f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
                      "(input numel divided by output numel).", UserWarning, stacklevel=2)
    y = reduced_like(x, mask, keep, x.dt if out is None or both else (<Tensor?>out).dt)
    m = reduced_like(x, mask, keep, x.dt) if both else None
    reduce_into(op, x, mask, keep, y, m, F64, c)
    if wants_grad(x):
        whole = dim is None or x.nd == 0
        ctx = (mask, keep, c, whole)
        title = "".join([part.capitalize() for part in name.split("_")]) + "Backward0"
        if both:
            attach_all([y, m], title, _var_mean_backward, (x,), (x, y), ctx)
        else:
            attach(y, title, _var_backward if op == REDUCE_var else _std_backward, (x,), (x, y) if op == REDUCE_std else (x,), ctx)
    if both:
        return (y, m)
    return y if out is None else finish_out(out, y, name, (x,))


def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None, axis=None, keepdims=None):
    """Variance of the elements, all or along `dim`.

    Args:
        input: the tensor, floating point.
        dim: dimension or dimensions to reduce; None for all.
        unbiased: divide by n - 1 (the default) or n.
        keepdim: keep the dimensions with size 1.
        correction: divide by max(0, n - correction) instead.
    """
    return variance(REDUCE_var, "var", input, dim if axis is None else axis, unbiased, keepdim if keepdims is None else keepdims,
                    correction, out)


def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None, axis=None, keepdims=None):
    """Standard deviation of the elements, all or along `dim`. Args: as var()."""
    return variance(REDUCE_std, "std", input, dim if axis is None else axis, unbiased, keepdim if keepdims is None else keepdims,
                    correction, out)


def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=None):
    """(variance, mean) of the elements, all or along `dim`. Args: as var()."""
    return variance(REDUCE_var_mean, "var_mean", input, dim if axis is None else axis, unbiased,
                    keepdim if keepdims is None else keepdims, correction, None)


def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=None):
    """(standard deviation, mean) of the elements, all or along `dim`. Args: as var()."""
    return variance(REDUCE_std_mean, "std_mean", input, dim if axis is None else axis, unbiased,
                    keepdim if keepdims is None else keepdims, correction, None)
