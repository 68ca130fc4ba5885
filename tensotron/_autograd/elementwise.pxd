cimport cython
from libc.stdint cimport int64_t, uint8_t

from tensotron._core.tensor cimport Node, Tensor

# Node of every row of the elementwise table.
@cython.final
cdef class RowNode(Node):
    cdef int row, n_in
    cdef uint8_t uses                 # what was saved: USES_A ...
    cdef uint8_t is_scalar            # bit i: operand i was a Python number
    cdef uint8_t compute
    cdef uint8_t in_dtype[3]
    cdef Tensor a, b, c, y            # saved
    cdef Tensor masked                # of a relu: the gradient in which another node has zeroed what it would
    cdef int64_t va, vb, vc, vy       # their versions
    cdef double p[4]
    cdef double number[3]
    cdef object shape0, shape1, shape2  # of inputs that were broadcast, else None
    cdef Tensor gradient(self, int i, Tensor g)
    cdef Tensor computed(self, int i, Tensor g)
    cdef object symbolic(self, int i, Tensor g)
    cdef Tensor saved_operand(self, int use)

cdef int row_id(str name) except -1

# ops on up to three operands; `node`: name of the graph node, None where there is no gradient.
# compute / result: dtypes; out: None, or where to write; inplace: out is also the first operand.
# Numbers (na, p0 ...) are int_number's where compute is I64.
cdef Tensor apply_row(int row, str node, Tensor a, Tensor b, Tensor c, double na, double nb, double nc,
                      int n_in, int compute, int result, Tensor out, bint inplace,
                      double p0, double p1, double p2)
# out = expression of a row (4 * row, + 1 + i for the derivative of input i) of the operands; None is a number. No checks, no graph.
cdef int launch_row(int op, Tensor out, Tensor a, Tensor b, Tensor c, Tensor d, double na, double nb, double nc, int n_in,
                    int compute, const double* p) except -1
# The graph of a relu whose result was computed with what comes before it. x stands for its operand.
cdef int attach_relu(Tensor x, Tensor out) except -1
# The result of the node, a relu's, if nobody sees the gradient that arrives there, so that who makes it may zero what
# the relu's backward would; else None. note_masked then tells the node that g is such a gradient.
cdef Tensor mask_of(Node node)
cdef int note_masked(Node node, Tensor g) except -1
cdef Tensor sum_to(Tensor g, int nd, const int64_t* sizes)
cdef object sum_to_shape(Tensor g, object shape)
cdef int result_type_of(object a, object b) except -1
cdef int result_type_of_three(object a, object b, object c) except -1
cdef bint is_number(object x) noexcept
cdef double int_number(int64_t v) noexcept
cdef double checked_number(object value, int dt) except? -1
cdef bint dense_overlap(Tensor out, Tensor t) noexcept
cdef int check_range(Tensor number, int dt) except -1
