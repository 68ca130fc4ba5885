"""Matrix products: mm, bmm, mv, dot, outer, addmm, matmul, linear.

All are one kernel, `gemm`, on strided operands: transposes, broadcast batches and bias rows are not copied.
One node class serves them; what is no plain product (matmul of other than two matrices or vectors) is
composed of views and these, as in PyTorch.
"""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from tensotron._autograd.elementwise cimport checked_number, int_number, sum_to, sum_to_shape
from tensotron._core cimport dtype as dt_
from tensotron._core.arguments cimport old_number, refuse_out, resize_out
from tensotron._core.tensor cimport (
    Hooks, Node, NodeShells, Tensor, TypeWithDealloc, add_edge, add_method, as_view, attach, begin,
    begin_drop, check_inplace, contiguous, copy_into, destructor, drop_members, empty, empty_strided, end_drop, grad_enabled,
    hooks, make_size, next_seq, put_part, raise_freed_graph, rebase, save_input, set_arg, shape_of, take_node, take_part,
    unpack_saved)
from tensotron._cpu cimport backend
from tensotron._cpu.backend cimport BOOL, Record

cdef extern from *:
    """
    #include "tensotron/_cpu/record.h"
    """
    enum: K_gemm "tensotron::K_gemm"

FUNCTIONS = {}   # name -> public function
NN_FUNCTIONS = {}  # the same for nn.functional
cdef Hooks* the_hooks = hooks()

C_NAMES = ["float", "double", "long int", "int", "unsigned char", "bool"]
TITLES = ["Float", "Double", "Long", "Int", "Byte", "Bool"]


cdef Tensor tensor_arg(object x, str op, str name, int position):
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}(): argument '{name}' (position {position}) must be Tensor, not {type(x).__name__}")
    return <Tensor>x


include "matmul_node.pxi"


cdef inline bint wants_graph(Tensor added, Tensor a, Tensor b):
    return grad_enabled() and (a.requires() or b.requires() or (added is not None and added.requires()))


cdef int check_out_dtype(Tensor out, int dt) except -1:
    if out.dt != dt:
        raise RuntimeError(f"Expected out tensor to have dtype {C_NAMES[dt]}, but got {C_NAMES[out.dt]} instead")
    return 0


cdef int refuse_bool(Tensor t, str kernel) except -1:
    if t.dt == BOOL:
        raise NotImplementedError(f'"{kernel}" not implemented for \'Bool\'')
    return 0


cdef Tensor give(Tensor out, Tensor result):
    """Moves a result to where the caller wants it."""
    resize_out(out, result.nd, result.sizes, True)
    copy_into(out, result)
    rebase(out, None)
    return out


cdef inline object finish(object out, Tensor result, str op, bint wanted):
    if out is None:
        return result
    return give(<Tensor>out, result)


# ==== two matrices ==============================================================================
cdef int check_mm(Tensor a, Tensor b) except -1:
    if a.nd != 2:
        raise RuntimeError("self must be a matrix")
    if b.nd != 2:
        raise RuntimeError("mat2 must be a matrix")
    if a.sizes[1] != b.sizes[0]:
        refuse_shapes(a, b.sizes[0], b.sizes[1])
    return check_same(a, b)


cdef int refuse_shapes(Tensor a, int64_t rows, int64_t cols) except -1:
    raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a.sizes[0]}x{a.sizes[1]} and {rows}x{cols})")


cdef int check_same(Tensor a, Tensor b) except -1:
    if a.dt != b.dt:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {C_NAMES[a.dt]} != {C_NAMES[b.dt]}")
    return refuse_bool(a, "addmm_impl_cpu_")


cdef Tensor mm_of(Tensor a, Tensor b):
    cdef Tensor out
    check_mm(a, b)
    out = empty2(a.sizes[0], b.sizes[1], a.dt, False)
    product(out, as_rows(out), a, as_rows(a), b, as_rows(b), 1, a.sizes[0], b.sizes[1], a.sizes[1], 1)
    if wants_graph(None, a, b):
        out.grad_fn_ = make_node(MM, "MmBackward0", None, a, b, out, 1, 0)
    return out


cdef bint fits(Tensor out, int64_t m, int64_t n, Tensor a, Tensor b) noexcept:
    """Whether a kernel may write its result to out itself."""
    return out.nd == 2 and out.sizes[0] == m and out.sizes[1] == n and not shares_memory(out, a) and not shares_memory(out, b)


def mm(input, mat2, *, out=None):
    """Product of two matrices."""
    cdef Tensor a = tensor_arg(input, "mm", "input", 1), b = tensor_arg(mat2, "mm", "mat2", 2), c
    if out is None:
        return mm_of(a, b)
    c = <Tensor?>out
    refuse_out("mm", c, wants_graph(None, a, b))
    check_mm(a, b)
    check_out_dtype(c, a.dt)
    if not fits(c, a.sizes[0], b.sizes[1], a, b):
        return give(c, mm_of(a, b))
    product(c, as_rows(c), a, as_rows(a), b, as_rows(b), 1, c.sizes[0], c.sizes[1], a.sizes[1], 1)
    rebase(c, None)
    return c


cdef Tensor bmm_of(Tensor a, Tensor b):
    cdef Tensor out
    cdef int64_t s[3]
    if a.nd != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if b.nd != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if b.sizes[0] != a.sizes[0] or b.sizes[1] != a.sizes[2]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{a.sizes[0]}, {a.sizes[2]}] but "
                           f"got: [{b.sizes[0]}, {b.sizes[1]}].")
    refuse_bool(a, "bmm")
    if a.dt != b.dt:
        raise RuntimeError(f"expected scalar type {TITLES[a.dt]} but found {TITLES[b.dt]}")
    s[:] = [a.sizes[0], a.sizes[1], b.sizes[2]]
    out = empty(3, s, a.dt)
    product(out, as_rows(out), a, as_rows(a), b, as_rows(b), s[0], s[1], s[2], a.sizes[2], 1)
    if wants_graph(None, a, b):
        out.grad_fn_ = make_node(BMM, "BmmBackward0", None, a, b, out, 1, 0)
    return out


def bmm(input, mat2, *, out=None):
    """Products of the matrices of two batches."""
    cdef Tensor a = tensor_arg(input, "bmm", "input", 1), b = tensor_arg(mat2, "bmm", "mat2", 2)
    if out is None:
        return bmm_of(a, b)
    return into(bmm_of, "bmm", a, b, out)


cdef Tensor into(Tensor (*op)(Tensor, Tensor), str name, Tensor a, Tensor b, object out):
    """op(a, b) written to out."""
    cdef Tensor c = <Tensor?>out, result
    refuse_out(name, c, wants_graph(None, a, b))
    result = op(a, b)
    check_out_dtype(c, result.dt)
    return give(c, result)


# ==== vectors ===================================================================================
cdef int check_mv(Tensor a, Tensor v, int out_dt) except -1:
    if a.nd == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if a.nd != 2 or v.nd != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.nd}, {v.nd}")
    if a.sizes[1] != v.sizes[0]:
        raise RuntimeError(f"size mismatch, got input ({a.sizes[0]}), mat ({a.sizes[0]}x{a.sizes[1]}), vec ({v.sizes[0]})")
    if a.dt != v.dt or out_dt != v.dt:
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {TITLES[out_dt]}, {TITLES[a.dt]}, and "
                           f"{TITLES[v.dt]}")
    return refuse_bool(a, "addmv_impl_cpu")


cdef Tensor mv_of(Tensor a, Tensor v):
    cdef Tensor out
    check_mv(a, v, v.dt)
    out = empty(1, a.sizes, a.dt)
    product(out, column(out), a, as_rows(a), v, column(v), 1, a.sizes[0], 1, a.sizes[1], 1)
    if wants_graph(None, a, v):
        out.grad_fn_ = make_node(MV, "MvBackward0", None, a, v, out, 1, 0)
    return out


def mv(input, vec, *, out=None):
    """Product of a matrix and a vector."""
    cdef Tensor a = tensor_arg(input, "mv", "input", 1), v = tensor_arg(vec, "mv", "vec", 2)
    if out is None:
        return mv_of(a, v)
    refuse_out("mv", <Tensor?>out, wants_graph(None, a, v))
    check_mv(a, v, (<Tensor>out).dt)
    return give(<Tensor>out, mv_of(a, v))


cdef Tensor dot_of(Tensor a, Tensor b):
    cdef Tensor out
    if a.nd != 1 or b.nd != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.nd}D and {b.nd}D tensors")
    if a.dt != b.dt:
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {TITLES[a.dt]} and {TITLES[b.dt]}")
    if a.n != b.n:
        raise RuntimeError(f"inconsistent tensor size, expected tensor [{a.n}] and src [{b.n}] to have the same number of "
                           f"elements, but got {a.n} and {b.n} elements respectively")
    refuse_bool(a, "dot")
    out = empty(0, NULL, a.dt)
    product(out, column(out), a, flipped(column(a)), b, column(b), 1, 1, 1, a.n, 1)
    if wants_graph(None, a, b):
        out.grad_fn_ = make_node(DOT, "DotBackward0", None, a, b, out, 1, 0)
    return out


def dot(input, tensor, *, out=None):
    """Sum of the products of the elements of two vectors."""
    cdef Tensor a = tensor_arg(input, "dot", "input", 1), b = tensor_arg(tensor, "dot", "tensor", 2), result
    if out is None:
        return dot_of(a, b)
    refuse_out("dot", <Tensor?>out, wants_graph(None, a, b))
    result = dot_of(a, b)
    if (<Tensor>out).dt != result.dt:
        raise RuntimeError(f"result dtype {TITLES[(<Tensor>out).dt]} does not match input dtype {TITLES[result.dt]}")
    return give(<Tensor>out, result)


def outer(input, vec2, *, out=None):
    """Products of every element of one vector with every element of another, as a matrix."""
    from tensotron._autograd.pointwise import FUNCTIONS as pointwise
    cdef Tensor a = tensor_arg(input, "outer", "input", 1), b = tensor_arg(vec2, "outer", "vec2", 2)
    for t, name in ((a, "self"), (b, "vec2")):
        if (<Tensor>t).nd != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {(<Tensor>t).nd}-D")
    return pointwise["mul"](a.reshape((a.n, 1)), b, out=out)


# ==== matrix product plus something =============================================================
cdef Operand broadcast_to(Tensor t, int64_t m, int64_t n) except *:
    """Strides that read t as an m x n matrix."""
    cdef Operand o
    cdef int64_t rows = t.sizes[0] if t.nd == 2 else 1, cols = t.sizes[t.nd - 1] if t.nd else 1
    if t.nd > 2 or (rows != m and rows != 1) or (cols != n and cols != 1):
        t.expand((m, n))  # raises what is wrong
    o.batch = 0
    o.row = t.strides[0] if t.nd == 2 and rows != 1 else 0
    o.col = t.strides[t.nd - 1] if t.nd and cols != 1 else 0
    return o


cdef int check_addmm(Tensor d, Tensor a, Tensor b, bint transposed) except -1:
    """b is transposed in a linear layer."""
    cdef int64_t rows, cols
    if d.dt != b.dt:
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {TITLES[d.dt]} and {TITLES[b.dt]}")
    if a.dt != b.dt:
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {TITLES[a.dt]} and {TITLES[b.dt]}")
    if a.nd != 2:
        raise RuntimeError(f"mat1 must be a matrix, got {a.nd}-D tensor")
    if b.nd != 2:
        if transposed and b.nd > 2:
            b.t()  # raises
        raise RuntimeError(f"mat2 must be a matrix, got {b.nd}-D tensor")
    rows, cols = b.sizes[0], b.sizes[1]
    if transposed:
        rows, cols = cols, rows
    if a.sizes[1] != rows:
        refuse_shapes(a, rows, cols)
    return 0


cdef Tensor addmm_of(Tensor d, Tensor a, Tensor b, object by, object keep, Tensor out, bint inplace):
    """keep * d + by * (a @ b)."""
    cdef Operand od
    cdef double alpha, beta
    cdef int64_t m, n
    cdef MatmulNode node = None
    cdef Tensor c
    check_addmm(d, a, b, False)
    m, n = a.sizes[0], b.sizes[1]
    if inplace and (d.nd != 2 or d.sizes[0] != m or d.sizes[1] != n):
        raise RuntimeError(f"Bad in-place call: input tensor size {list(shape_of(d))} and output tensor size [{m}, {n}] should "
                           "match")
    od = broadcast_to(d, m, n)
    refuse_bool(a, "addmm_impl_cpu_")
    alpha, beta = checked_number(by, a.dt), checked_number(keep, a.dt)
    if out is not None and fits(out, m, n, a, b) and (inplace or not shares_memory(out, d)):
        c = out
    else:
        c = empty2(m, n, a.dt, False)
    if wants_graph(d, a, b):
        node = make_node(ADDMM, "AddmmBackward0", d, a, b, c, alpha, beta)
    gemm(c, as_rows(c), a, as_rows(a), b, as_rows(b), d, od, 1, m, n, a.sizes[1], alpha, beta)
    if out is None:
        c.grad_fn_ = node
        return c
    if c is not out:
        if inplace:
            copy_into(out, c)
        else:
            return give(out, c)
    rebase(out, node)
    return out


ADDMM_NOW = "Tensor input, Tensor mat1, Tensor mat2, *, Number beta = 1, Number alpha = 1, Tensor out = None"
ADDMM_METHOD = "Tensor mat1, Tensor mat2, *, Number beta = 1, Number alpha = 1"


def addmm(input, mat1, mat2, fourth=None, fifth=None, *, beta=1, alpha=1, out=None):
    """beta * input + alpha * (mat1 @ mat2); input broadcasts, and is not read if beta is 0."""
    cdef Tensor d, a, b
    if fifth is not None:
        alpha = old_number("addmm", mat2, alpha is 1, 5, "Number beta, Tensor input, Number alpha, Tensor mat1, Tensor mat2, *, "
                           "Tensor out = None", ADDMM_NOW)
        mat2, fourth = fourth, fifth
    if fourth is not None:
        beta = old_number("addmm", input, beta is 1, 4, "Number beta, Tensor input, Tensor mat1, Tensor mat2, *, Tensor out = None", ADDMM_NOW)
        input, mat1, mat2 = mat1, mat2, fourth
    d, a = tensor_arg(input, "addmm", "input", 1), tensor_arg(mat1, "addmm", "mat1", 2)
    b = tensor_arg(mat2, "addmm", "mat2", 3)
    if out is not None:
        refuse_out("addmm", <Tensor?>out, wants_graph(d, a, b))
        check_addmm(d, a, b, False)
        check_out_dtype(<Tensor>out, a.dt)
    return addmm_of(d, a, b, alpha, beta, <Tensor>out, False)


cdef object addmm_method(str op, object input, object mat1, object mat2, object third, object fourth, object beta, object alpha,
                         bint inplace):
    """The method, which also takes (beta, alpha, mat1, mat2) and (beta, mat1, mat2)."""
    cdef Tensor d = tensor_arg(input, op, "input", 1), a, b
    if fourth is not None:
        alpha = old_number(op, mat2, alpha is 1, 4, "Number beta, Number alpha, Tensor mat1, Tensor mat2", ADDMM_METHOD)
        mat2, third = third, fourth
    if third is not None:
        beta = old_number(op, mat1, beta is 1, 3, "Number beta, Tensor mat1, Tensor mat2", ADDMM_METHOD)
        mat1, mat2 = mat2, third
    a, b = tensor_arg(mat1, op, "mat1", 1), tensor_arg(mat2, op, "mat2", 2)
    if inplace:
        check_inplace(d, wants_graph(d, a, b))
    return addmm_of(d, a, b, alpha, beta, d if inplace else None, inplace)


def _addmm(self, mat1, mat2, third=None, fourth=None, *, beta=1, alpha=1):
    """beta * self + alpha * (mat1 @ mat2); self broadcasts, and is not read if beta is 0."""
    return addmm_method("addmm", self, mat1, mat2, third, fourth, beta, alpha, False)


def addmm_(self, mat1, mat2, third=None, fourth=None, *, beta=1, alpha=1):
    """In-place version of addmm()."""
    return addmm_method("addmm_", self, mat1, mat2, third, fourth, beta, alpha, True)


# ==== linear ====================================================================================
cdef Tensor linear_of(Tensor x, Tensor w, Tensor bias):
    """x @ w^T + bias of a matrix x."""
    cdef Tensor out
    cdef Operand none
    cdef double one = 1 if dt_.is_float(x.dt) else int_number(1)
    if bias is not None:
        check_addmm(bias, x, w, True)
        none = broadcast_to(bias, x.sizes[0], w.sizes[0])
        refuse_bool(x, "addmm_impl_cpu_")
    else:
        if x.sizes[1] != w.sizes[1]:
            refuse_shapes(x, w.sizes[1], w.sizes[0])
        check_same(x, w)
        none = as_rows(x)
    out = empty2(x.sizes[0], w.sizes[0], x.dt, False)
    gemm(out, as_rows(out), x, as_rows(x), w, flipped(as_rows(w)), bias, none, 1, x.sizes[0], w.sizes[0], x.sizes[1], one, one)
    if wants_graph(bias, x, w):
        out.grad_fn_ = make_node(LINEAR, "MmBackward0" if bias is None else "AddmmBackward0", bias, x, w, out, 1, 1)
    return out


def linear(input, weight, bias=None):
    """input @ weight^T + bias, over the last dimension of input."""
    return linear_call(input, weight, bias)


cdef object linear_call(object input, object weight, object bias):
    cdef Tensor x = tensor_arg(input, "linear", "input", 1), w = tensor_arg(weight, "linear", "weight", 2), bt = None
    cdef int64_t rows
    if bias is not None:
        bt = tensor_arg(bias, "linear", "bias", 3)
    if x.nd == 2 and (bt is not None or w.nd == 2):
        return linear_of(x, w, bt)
    if x.nd == 0 or w.nd == 0:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {x.nd}D and {w.nd}D")
    if bt is None:
        return matmul_of(x, w if w.nd == 1 else w.t())
    if not x.contiguous or w.nd != 2:
        return matmul_of(x, w if w.nd == 1 else w.t()).add_(bt)
    rows = 1
    for d in range(x.nd - 1):
        rows *= x.sizes[d]
    out = linear_of(x.view((rows, x.sizes[x.nd - 1])), w, bt)
    return out.view(leading(x, 1) + (w.sizes[0],))


# ==== matmul ====================================================================================
def _unsafe_view_backward(node, g):
    return g.reshape(node.info)


cdef Tensor unsafe_view(Tensor t, tuple shape):
    """t, which nothing else refers to, in another shape: not a view."""
    cdef int64_t s[64]
    cdef int d
    cdef Tensor v
    for d in range(len(shape)):
        s[d] = shape[d]
    v = as_view(t, len(shape), s, NULL, 0)
    if t.grad_fn_ is not None:
        attach(v, "UnsafeViewBackward0", _unsafe_view_backward, (t,), None, shape_of(t))
    return v


def _squeeze_backward(node, g):
    return g.unsqueeze(0)


cdef tuple leading(Tensor t, int last):
    """Sizes of t without the `last` last ones."""
    return tuple([t.sizes[d] for d in range(t.nd - last)])


cdef bint folds(Tensor a, Tensor b):
    """Whether the batch of the operand of more dimensions is taken as more rows of one matrix."""
    cdef Tensor t
    cdef int d
    cdef bint larger = a.nd >= b.nd
    if (a.nd if larger else b.nd) < 3 or (b.nd if larger else a.nd) > 2:
        return False
    if grad_enabled() and (b.requires() if larger else a.requires()):
        return True
    if a.nd == 2:
        return False
    t = a if larger else b
    if t.n == 0:
        return True
    if not larger:
        t = t.mT
    for d in range(t.nd - 2):
        if t.strides[d] != t.strides[d + 1] * t.sizes[d + 1]:
            return False
    return True


cdef Tensor folded(Tensor a, Tensor b):
    cdef bint transposed = b.nd > a.nd
    cdef Tensor t1 = b.mT if transposed else a, t2 = b, rows, out
    cdef tuple shape = leading(t1, 1)
    cdef int64_t n = 1
    if transposed:
        t2 = a.t() if a.nd == 2 else a
    for s in shape:
        n *= s
    rows = t1.reshape((n, t1.sizes[t1.nd - 1]))
    if t2.nd == 1:
        return unsafe_view(mv_of(rows, t2), shape)
    out = unsafe_view(mm_of(rows, t2), shape + (t2.sizes[1],))
    return out.mT.contiguous() if transposed else out


cdef tuple broadcast_batch(tuple a, tuple b):
    cdef int nd = max(len(a), len(b))
    out = []
    for d in range(nd):
        x = a[len(a) - nd + d] if len(a) - nd + d >= 0 else 1
        y = b[len(b) - nd + d] if len(b) - nd + d >= 0 else 1
        if x != y and x != 1 and y != 1:
            raise RuntimeError(f"The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {d}")
        out.append(y if x == 1 else x)
    return tuple(out)


cdef Tensor as_batch(Tensor t, tuple shape, int64_t count, int64_t rows, int64_t cols):
    """t with its batch dimensions expanded to `shape`, as a batch of `count` matrices."""
    cdef int64_t s[3]
    cdef int64_t st[3]
    cdef int d
    cdef bint single
    if not (grad_enabled() and t.requires()):
        # a batch that is one matrix, repeated, needs no copy
        single = True
        for d in range(t.nd - 2):
            single = single and t.sizes[d] == 1
        if single:
            s[:] = [count, rows, cols]
            st[:] = [0, t.strides[t.nd - 2], t.strides[t.nd - 1]]
            return as_view(t, 3, s, st, 0)
    if leading(t, 2) != shape:
        t = t.expand(shape + (rows, cols))
    return t if t.nd == 3 else t.reshape((count, rows, cols))


cdef Tensor matmul_of(Tensor a, Tensor b):
    cdef Tensor out
    cdef tuple batch, shape
    cdef int64_t count = 1, n
    if a.nd == 2 and b.nd == 2:
        return mm_of(a, b)
    if a.nd == 0 or b.nd == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a.nd}D and {b.nd}D")
    if a.nd == 1 and b.nd == 1:
        return dot_of(a, b)
    if a.nd == 2 and b.nd == 1:
        return mv_of(a, b)
    if a.nd == 1 and b.nd == 2:
        out = mm_of(a.unsqueeze(0), b)
        result = as_view(out, 1, &out.sizes[1], NULL, 0)
        if out.grad_fn_ is not None:
            attach(result, "SqueezeBackward4", _squeeze_backward, (out,), None, None)
        return result
    if folds(a, b):
        return folded(a, b)
    vector_a, vector_b = a.nd == 1, b.nd == 1
    if vector_a:
        a = a.unsqueeze(0)
    if vector_b:
        b = b.unsqueeze(1)
    batch = broadcast_batch(leading(a, 2), leading(b, 2))
    for s in batch:
        count *= s
    out = bmm_of(as_batch(a, batch, count, a.sizes[a.nd - 2], a.sizes[a.nd - 1]),
                 as_batch(b, batch, count, b.sizes[b.nd - 2], b.sizes[b.nd - 1]))
    shape = batch
    if not vector_a:
        shape = shape + (out.sizes[1],)
    if not vector_b:
        shape = shape + (out.sizes[2],)
    return unsafe_view(out, shape)


def matmul(input, other, *, out=None):
    """Matrix product of tensors of any number of dimensions; leading dimensions broadcast, vectors are rows
    on the left and columns on the right."""
    cdef Tensor a = tensor_arg(input, "matmul", "input", 1), b = tensor_arg(other, "matmul", "other", 2)
    if out is None:
        return matmul_of(a, b)
    return into(matmul_of, "matmul", a, b, out)


cdef object matmul_slot(object a, object b):
    if not isinstance(b, Tensor):
        if type(b).__module__ != "numpy":
            return NotImplemented
        from tensotron._core.data import from_numpy
        b = from_numpy(b)
    return matmul_of(<Tensor>a, <Tensor>b)


cdef object rmatmul_slot(object a, object b):
    if not isinstance(b, Tensor):
        return NotImplemented
    return matmul_of(<Tensor>b, <Tensor>a)


the_hooks.matmul = matmul_slot
the_hooks.rmatmul = rmatmul_slot
for fn in (matmul, mm, bmm, mv, dot, outer, addmm):
    fn.__qualname__ = fn.__name__
    FUNCTIONS[fn.__name__] = fn
    add_method(fn.__name__, fn)
_addmm.__name__ = "addmm"
for fn in (_addmm, addmm_):
    fn.__qualname__ = fn.__name__
    add_method(fn.__name__, fn)
FUNCTIONS["ger"] = outer
add_method("ger", outer)
NN_FUNCTIONS["linear"] = linear
