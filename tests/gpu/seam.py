"""Runs in a process of its own, over the stand-in driver: `python seam.py CHECK`."""

import ctypes
import os
import sys

import numpy as np

import tensotron
from tensotron._cpu import backend
from tensotron._cuda import graph, launch, runtime
from tensotron._cuda.record import F32, Record


def body(x, w, b, v, p):
    """Ops of every family that the device runs. All results are kept: a record names host memory."""
    product = x @ w
    hidden = tensotron.addmm(b, x, w)
    product_of_views = w.t() @ x.t()
    y = tensotron.sigmoid(hidden)
    scaled = y * v  # broadcast
    positive = hidden > 0  # a bool result of a float32 row
    chosen = tensotron.where(positive, scaled, hidden.abs())
    turned = chosen.t().contiguous()
    clamped = tensotron.clamp(hidden, -0.5, 0.25)  # a row with parameters
    total = chosen.sum(1)
    mean = chosen.mean(0)
    largest = chosen.amax()
    activated = tensotron.nn.functional.gelu(p)
    (gradient,) = tensotron.autograd.grad(activated, p, y)
    return [product, hidden, product_of_views, y, scaled, positive, chosen, turned, clamped, total,
            mean, largest, activated, gradient]


def inputs(seed):
    rng = np.random.default_rng(seed)
    shapes = {"x": (37, 19), "w": (19, 23), "b": (23,), "v": (37, 1), "p": (37, 23)}
    tensors = {
        name: tensotron.from_numpy(rng.standard_normal(shape, dtype=np.float32))
        for name, shape in shapes.items()
    }
    tensors["p"].requires_grad_()
    return tensors


def record(seed):
    tensors = inputs(seed)
    with backend.recording() as records:
        results = body(**tensors)
    return [Record.from_buffer_copy(data) for data in records], (tensors, results)


def outline(r):
    shape = launch.FAMILIES[r.family].shape
    return r.kernel, r.op, [list(shape(r, k)) for k in range(r.nout + r.nin)]


def host_bytes(r, k):
    start, end = launch.span(r, k)
    return ctypes.string_at(start, end - start)


def compare(program, expected):
    """The first output of every record on the device against the same launch on the host."""
    for r, e in zip(program.records, expected):
        device, host = program.download(r), host_bytes(e, 0)
        if r.arg[0].dtype == F32:
            np.testing.assert_allclose(
                np.frombuffer(device, np.float32), np.frombuffer(host, np.float32),
                rtol=1e-5, atol=1e-6, err_msg=f"{r.family}, op {r.op}")
        else:
            assert device == host, (r.family, r.op)


def check_replay():
    records, alive = record(seed=0)
    assert {r.family for r in records} >= {"gemm", "elementwise", "reduce", "copy"}
    program = launch.Program(map(bytes, records))

    # eagerly
    program.launch()
    compare(program, records)

    # captured: nothing runs, and the replay sees new inputs
    again, alive_too = record(seed=1)
    assert list(map(outline, again)) == list(map(outline, records))
    with graph.capture(program.runtime.stream) as captured:
        assert graph.is_capturing(program.runtime.stream)
        program.launch()
    compare(program, records)
    for name, tensor in alive[0].items():
        tensor.detach().copy_(alive_too[0][name].detach())
    program.upload()
    captured.replay()
    compare(program, again)
    captured.reset()


def check_capture_errors():
    cuda = runtime.get()
    records, alive = record(seed=0)
    program = launch.Program(map(bytes, records))
    refused = {
        "allocation": (lambda: cuda.driver.mem_alloc(16), "900"),
        "a synchronous copy": (lambda: program.download(records[0]), "900"),
        "waiting for the stream": (cuda.stream.synchronize, "900"),
        "work on the default stream": (lambda: cuda.driver.memset_d32(program.address(records[0].arg[0]), 0, 1), "906"),
    }
    for what, (call, code) in refused.items():
        try:
            with graph.capture(cuda.stream):
                call()
        except cuda.driver.Error as error:
            assert f" {code}:" in str(error), (what, error)
        else:
            raise AssertionError(f"{what} was allowed during capture")
        assert not graph.is_capturing(cuda.stream)

    # an error that the body swallows is found at the end of the capture
    try:
        with graph.capture(cuda.stream):
            try:
                cuda.driver.mem_alloc(16)
            except cuda.driver.Error:
                pass
    except graph.CudaError as error:
        assert error.code == 901
    else:
        raise AssertionError("an invalid capture gave a graph")

    # and the stream is as good as before
    program.launch()
    compare(program, records)


def custom_kernel(source, name):
    runtime.get()
    from pycuda.compiler import SourceModule

    return SourceModule(source, nvcc=os.environ["TENSOTRON_NVCC"]).get_function(name)


def check_divergence():
    cuda = runtime.get()
    kernel = custom_kernel(
        """
        __global__ void early(float* x, int n) {
          if (threadIdx.x >= n) return;
          __syncthreads();
          x[threadIdx.x] = 1;
        }
        """, "early")
    memory = cuda.driver.mem_alloc(64 * 4)
    kernel(memory, np.int32(10), block=(64, 1, 1), stream=cuda.stream)
    try:
        cuda.stream.synchronize()
    except cuda.driver.Error as error:
        assert " 719:" in str(error), error
    else:
        raise AssertionError("threads that left before a barrier were not noticed")


def check_out_of_bounds():
    """Does not return: the write is a segmentation fault."""
    cuda = runtime.get()
    kernel = custom_kernel("__global__ void write(float* x) { x[threadIdx.x] = 1; }", "write")
    memory = cuda.driver.mem_alloc(63 * 16)
    kernel(memory, block=(256, 1, 1), stream=cuda.stream)
    cuda.stream.synchronize()


if __name__ == "__main__":
    globals()["check_" + sys.argv[1]]()
