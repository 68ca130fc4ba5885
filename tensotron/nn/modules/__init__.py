"""Modules, by kind."""

from tensotron.nn.modules import (  # noqa: F401  (users look into the submodules)
    activation,
    batchnorm,
    channelshuffle,
    container,
    conv,
    distance,
    dropout,
    flatten,
    instancenorm,
    linear,
    loss,
    module,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    sparse,
    utils,
)
from tensotron.nn.modules.module import Module

_KINDS = (
    activation,
    batchnorm,
    channelshuffle,
    container,
    conv,
    distance,
    dropout,
    flatten,
    instancenorm,
    linear,
    loss,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    sparse,
)

__all__ = ["Module"]
for _kind in _KINDS:
    for _name in _kind.__all__:
        globals()[_name] = getattr(_kind, _name)
        __all__.append(_name)
