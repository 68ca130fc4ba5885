"""Padding."""

from tensotron.nn import functional as F
from tensotron.nn.modules.batchnorm import _need_dim
from tensotron.nn.modules.module import Module
from tensotron.nn.modules.utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _PadNd(Module):
    """Pads the last _dims dimensions; padding is one number, or a pair for each, last dimension first."""

    __constants__ = ["padding"]
    _dims = 1
    _mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads with a value."""


class ConstantPad2d(_ConstantPadNd):
    """Pads two dimensions with a value."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads three dimensions with a value."""

    _dims = 3




class ZeroPad1d(ConstantPad1d):
    """Pads with zeros."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ZeroPad2d(ConstantPad2d):
    """Pads two dimensions with zeros."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ZeroPad3d(ConstantPad3d):
    """Pads three dimensions with zeros."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads with the mirror image, the edge not repeated."""


class ReflectionPad2d(_ReflectionPadNd):
    """Pads two dimensions with the mirror image."""

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads three dimensions with the mirror image."""

    _dims = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads with the edge."""


class ReplicationPad2d(_ReplicationPadNd):
    """Pads two dimensions with the edge."""

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads three dimensions with the edge."""

    _dims = 3


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input):
        _need_dim(input, self._dims + 1, self._dims + 2)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads with the opposite end."""


class CircularPad2d(_CircularPadNd):
    """Pads two dimensions with the opposite ends."""

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads three dimensions with the opposite ends."""

    _dims = 3
