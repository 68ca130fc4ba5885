"""The CPU as a device, and graphs of work on it in the manner of torch.cuda."""

from tensotron._core.capture import CPUGraph

__all__ = ["CPUGraph", "current_device", "device_count", "graph", "is_available", "set_device", "synchronize"]


class graph:
    """Records the work of a block into `cpu_graph`, without running it; `cpu_graph.replay()` runs it.

    Args:
        cpu_graph: a CPUGraph.
        pool, stream, capture_error_mode: accepted as by torch.cuda.graph.

    Raises:
        RuntimeError: at the end of the block, if the work cannot be replayed.
    """

    def __init__(self, cpu_graph, pool=None, stream=None, capture_error_mode="global"):
        self.cpu_graph = cpu_graph

    def __enter__(self):
        self.cpu_graph.capture_begin()

    def __exit__(self, kind, value, traceback):
        try:
            self.cpu_graph.capture_end()
        except RuntimeError:
            if kind is None:
                raise


def is_available():
    """True."""
    return True


def device_count():
    """1."""
    return 1


def current_device():
    """The name of the device."""
    return "cpu"


def set_device(device):
    """Accepted; there is one."""


def synchronize(device=None):
    """Does nothing: work on the CPU is done when its call returns."""
