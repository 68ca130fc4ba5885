"""Modules, by kind."""

from tensotron.nn.modules import (  # noqa: F401  (users look into the submodules)
    activation,
    batchnorm,
    container,
    conv,
    dropout,
    flatten,
    linear,
    loss,
    module,
    normalization,
    pooling,
    sparse,
    utils,
)
from tensotron.nn.modules.module import Module

_KINDS = (activation, batchnorm, container, conv, dropout, flatten, linear, loss, normalization, pooling, sparse)

__all__ = ["Module"]
for _kind in _KINDS:
    for _name in _kind.__all__:
        globals()[_name] = getattr(_kind, _name)
        __all__.append(_name)
