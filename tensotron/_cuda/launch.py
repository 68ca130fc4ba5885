"""Launch records on the device.

A record names host memory; a `Program` gives every storage named by its records a twin on the device
and issues the records with their pointers moved there. Kernels take the record itself as parameter.
"""

import ctypes

from . import blas, module, record, runtime
from .record import F32, ITEM_SIZE, NUM_EXPRESSIONS, Arg, Record

BLOCK = 256
MAX_BLOCKS = 4096  # kernels loop over what remains


def _product(sizes):
    n = 1
    for size in sizes:
        n *= size
    return n


class Elementwise:
    @staticmethod
    def kernels(r):
        row, expression = divmod(r.op, NUM_EXPRESSIONS)
        return [("elementwise", record.ROWS[row], expression)]

    @staticmethod
    def shape(r, k):
        return r.size[: r.ndim]

    @staticmethod
    def launch(r, functions, stream):
        _launch(functions[0], r, _product(r.size[: r.ndim]), stream)


class Copy(Elementwise):
    @staticmethod
    def kernels(r):
        return [("copy",)]


class Reduce:
    @staticmethod
    def kernels(r):
        return [("reduce", record.REDUCTIONS[r.op])]

    @staticmethod
    def shape(r, k):
        # An output has no strides along what is reduced.
        return r.size[: r.ndim - r.ints[0] if k < r.nout else r.ndim]

    @staticmethod
    def launch(r, functions, stream):
        # a block per output
        _launch(functions[0], r, _product(Reduce.shape(r, 0)) * BLOCK, stream)


class Gemm:
    @staticmethod
    def kernels(r):
        return [("copy",)]

    @staticmethod
    def shape(r, k):
        batch, m, n, k_ = r.ints[:4]
        return ((batch, m, n), (batch, m, k_), (batch, k_, n), (batch, m, n))[k]

    @staticmethod
    def launch(r, functions, stream):
        batch, m, n, k = r.ints[:4]
        alpha, beta = r.reals[:2]
        if r.op:
            raise NotImplementedError("an activation in a CUDA matrix product")
        if r.nin < 3:
            beta = 0.0
        elif beta and (r.arg[3].data, *r.arg[3].stride[:3]) != (r.arg[0].data, *r.arg[0].stride[:3]):
            _launch(functions[0], _copy(r, 0, 3, (batch, m, n)), batch * m * n, stream)
        for i in range(batch):
            operands = [
                (a.data + i * a.stride[0] * ITEM_SIZE[F32], a.stride[1], a.stride[2])
                for a in r.arg[:3]
            ]
            blas.get().sgemm(m, n, k, alpha, operands[1], operands[2], beta, operands[0])


FAMILIES = {"elementwise": Elementwise, "copy": Copy, "reduce": Reduce, "gemm": Gemm}


def _copy(r, to, source, size):
    """A record that copies one argument of r into another."""
    copy = Record(nout=1, nin=1, ndim=len(size), compute=F32)
    copy.size[: len(size)] = size
    copy.arg[0], copy.arg[1] = r.arg[to], r.arg[source]
    return copy


def _launch(function, r, threads, stream):
    if threads == 0:
        return
    blocks = min(-(-threads // BLOCK), MAX_BLOCKS)
    function.prepared_async_call((blocks, 1), (BLOCK, 1, 1), stream, bytes(r))


class Storage:
    """The span of host memory that records touch under one buffer id, and its twin."""

    def __init__(self, start, end, is_input):
        self.start, self.end, self.is_input = start, end, is_input
        self.device = None


class Program:
    """Records (bytes of `struct Record`), bound to the device once and issued any number of times."""

    def __init__(self, records):
        self.runtime = runtime.get()
        self.records = [Record.from_buffer_copy(data) for data in records]
        for r in self.records:
            if r.family not in FAMILIES:
                raise NotImplementedError(f"the CUDA backend does not run {r.family} records")
            if r.compute != F32:
                raise NotImplementedError("the CUDA backend computes in float32 only")
        self.storages = self._find_storages()
        for storage in self.storages.values():
            storage.device = self.runtime.driver.mem_alloc(storage.end - storage.start)
        # Compiling and creating the cuBLAS handle allocate: not to be done inside a capture.
        kernels = {k for r in self.records for k in FAMILIES[r.family].kernels(r)}
        self.functions = module.functions(kernels)
        for function in self.functions.values():
            function.prepare([f"{ctypes.sizeof(Record)}s"])
        if any(r.family == "gemm" for r in self.records):
            blas.get()
        self.steps = [self._bind(r) for r in self.records]
        self.upload()

    def _find_storages(self):
        storages = {}
        for r in self.records:
            # inputs first: an in-place launch reads what it writes
            for k in [*range(r.nout, r.nout + r.nin), *range(r.nout)]:
                arg = r.arg[k]
                if not in_memory(arg):
                    continue
                start, end = span(r, k)
                known = storages.setdefault(arg.buffer, Storage(start, end, k >= r.nout))
                known.start, known.end = min(known.start, start), max(known.end, end)
        return storages

    def _bind(self, r):
        bound = Record.from_buffer_copy(bytes(r))
        for k in range(r.nout + r.nin):
            if in_memory(r.arg[k]):
                bound.arg[k].data = self.address(r.arg[k])
        family = FAMILIES[r.family]
        return bound, family.launch, [self.functions[k] for k in family.kernels(r)]

    def address(self, arg: Arg):
        storage = self.storages[arg.buffer]
        return int(storage.device) + arg.data - storage.start

    def upload(self):
        """Copies what the records read before they write it from the host."""
        for s in self.storages.values():
            if s.is_input:
                host = (ctypes.c_char * (s.end - s.start)).from_address(s.start)
                self.runtime.driver.memcpy_htod(s.device, host)

    def launch(self):
        for bound, launch, functions in self.steps:
            launch(bound, functions, self.runtime.stream)

    def download(self, r, k=0):
        """Bytes that argument k of the record spans, as they are on the device."""
        start, end = span(r, k)
        data = bytearray(end - start)
        storage = self.storages[r.arg[k].buffer]
        self.runtime.stream.synchronize()
        self.runtime.driver.memcpy_dtoh(data, int(storage.device) + start - storage.start)
        return bytes(data)


def in_memory(arg):
    """Not a constant in the record, nor an operand left out."""
    return arg.data != 0 and not arg.is_const


def span(r, k):
    """Host addresses of the first byte that argument k touches, and of the one behind the last."""
    arg = r.arg[k]
    low = high = 0
    for size, stride in zip(FAMILIES[r.family].shape(r, k), arg.stride):
        step = max(size - 1, 0) * stride
        low, high = low + min(step, 0), high + max(step, 0)
    item = ITEM_SIZE[arg.dtype]
    return arg.data + low * item, arg.data + (high + 1) * item
