"""CUDA graphs: the seven driver functions that PyCUDA does not bind."""

import contextlib
import ctypes

CAPTURE_GLOBAL = 0  # no thread may do what a capture cannot record


class CudaError(RuntimeError):
    def __init__(self, function, code, text):
        super().__init__(f"{function} failed: {text}")
        self.code = code


def _bind():
    library = ctypes.CDLL("libcuda.so.1")  # the one that PyCUDA has loaded
    pointer = ctypes.c_void_p
    signatures = {
        "cuStreamBeginCapture_v2": [pointer, ctypes.c_int],
        "cuStreamEndCapture": [pointer, ctypes.POINTER(pointer)],
        "cuStreamIsCapturing": [pointer, ctypes.POINTER(ctypes.c_int)],
        "cuGraphInstantiateWithFlags": [ctypes.POINTER(pointer), pointer, ctypes.c_ulonglong],
        "cuGraphLaunch": [pointer, pointer],
        "cuGraphExecDestroy": [pointer],
        "cuGraphDestroy": [pointer],
    }
    for name, argtypes in signatures.items():
        function = getattr(library, name)
        function.argtypes = argtypes
        function.restype = ctypes.c_int
    return library


_library = None


def _call(name, *arguments):
    global _library
    if _library is None:
        _library = _bind()
    code = getattr(_library, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        _library.cuGetErrorString(code, ctypes.byref(text))
        raise CudaError(name, code, (text.value or b"error %d" % code).decode())


def is_capturing(stream):
    status = ctypes.c_int()
    _call("cuStreamIsCapturing", stream.handle, ctypes.byref(status))
    return status.value != 0


class Graph:
    """An executable graph, launched on the stream it was captured from."""

    def __init__(self, stream):
        self._stream = stream
        self._executable = None

    def _instantiate(self, graph):
        executable = ctypes.c_void_p()
        _call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0)
        self._executable = executable

    def replay(self):
        if self._executable is None:
            raise RuntimeError("the graph has not been captured")
        _call("cuGraphLaunch", self._executable, self._stream.handle)

    def reset(self):
        if self._executable is not None:
            _call("cuGraphExecDestroy", self._executable)
            self._executable = None


@contextlib.contextmanager
def capture(stream):
    """Records what the body issues on the stream, without running it, into the graph it yields."""
    result = Graph(stream)
    graph = ctypes.c_void_p()
    _call("cuStreamBeginCapture_v2", stream.handle, CAPTURE_GLOBAL)
    try:
        yield result
    except BaseException:
        # The body's own error matters, not that the capture has become invalid.
        with contextlib.suppress(CudaError):
            _call("cuStreamEndCapture", stream.handle, ctypes.byref(graph))
            _call("cuGraphDestroy", graph)
        raise
    _call("cuStreamEndCapture", stream.handle, ctypes.byref(graph))
    try:
        result._instantiate(graph)
    finally:
        _call("cuGraphDestroy", graph)
