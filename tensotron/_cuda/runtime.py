"""The device, its context and our stream: made on first use, one per process."""

import atexit
import os


class Unavailable(RuntimeError):
    """There is no CUDA here; the message says what is missing."""


class Runtime:
    def __init__(self):
        try:
            import pycuda
        except ImportError:
            raise Unavailable("PyCUDA is not installed (pip install tensotron[cuda])") from None
        try:
            import pycuda.driver as driver
        except ImportError as error:
            raise Unavailable(f"PyCUDA finds no CUDA driver: {error}") from None
        try:
            driver.init()
            count = driver.Device.count()
        except driver.Error as error:
            raise Unavailable(f"the CUDA driver does not start: {error}") from None
        if not count:
            raise Unavailable("no CUDA device is present")
        self.pycuda = pycuda
        self.driver = driver
        self.device = driver.Device(0)
        # The primary context is the one that cuBLAS and other libraries use.
        self.context = self.device.retain_primary_context()
        self.context.push()
        atexit.register(self._close)
        # Not the default stream: that one cannot be captured.
        self.stream = driver.Stream()
        self.pid = os.getpid()

    def _close(self):
        self.context.pop()
        self.context.detach()  # left to its destructor, PyCUDA takes it for one that it created


_runtime = None


def get():
    global _runtime
    if _runtime is None:
        _runtime = Runtime()
    if _runtime.pid != os.getpid():
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
    return _runtime
