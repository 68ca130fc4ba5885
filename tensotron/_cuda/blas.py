"""cuBLAS through scikit-cuda: matrix products of row-major operands with strides."""

import ctypes

from . import _skcuda, runtime

# Inside a capture cuBLAS may not allocate: it is given a workspace of the size it takes on Hopper.
WORKSPACE = 32 << 20

_blas = None


class Blas:
    def __init__(self):
        cuda = runtime.get()
        self.cublas = _skcuda.cublas()
        self.handle = self.cublas.cublasCreate()
        self.cublas.cublasSetStream(self.handle, cuda.stream.handle)
        # After the stream, which resets it.
        self.workspace = cuda.driver.mem_alloc(WORKSPACE)
        set_workspace = self.cublas._libcublas.cublasSetWorkspace_v2
        set_workspace.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        self.cublas.cublasCheckStatus(
            set_workspace(self.handle, int(self.workspace), WORKSPACE)
        )

    def sgemm(self, m, n, k, alpha, a, b, beta, c):
        """C = alpha A B + beta C; a, b, c are (device address, row stride, column stride)."""
        # Column-major as cuBLAS is, it computes the transpose: C' = B' A'.
        if c[2] != 1 and n > 1:
            (m, n), (a, b), c = (n, m), (_transposed(b), _transposed(a)), _transposed(c)
        a, lda, opa = _operand(a, m, k)
        b, ldb, opb = _operand(b, k, n)
        c, ldc, opc = _operand(c, m, n)
        if opc == "t":
            raise NotImplementedError("a matrix product into a tensor without a contiguous dimension")
        self.cublas.cublasSgemm(
            self.handle, opb, opa, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc
        )


def _transposed(operand):
    address, row, column = operand
    return address, column, row


def _operand(operand, rows, columns):
    """Address, leading dimension and operation of a rows x columns operand."""
    address, row, column = operand
    if (column == 1 or columns == 1) and (row >= columns or rows == 1):
        return address, max(row, columns, 1), "n"
    if (row == 1 or rows == 1) and (column >= rows or columns == 1):
        return address, max(column, rows, 1), "t"
    raise NotImplementedError("a matrix product of a tensor without a contiguous dimension")


def get():
    global _blas
    if _blas is None:
        _blas = Blas()
    return _blas
