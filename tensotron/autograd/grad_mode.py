"""Grad modes: context managers that are decorators too, with or without parentheses."""

from tensotron._autograd import engine as _engine
from tensotron._autograd.engine import enable_grad, no_grad, set_grad_enabled  # noqa: F401


class inference_mode(_engine.inference_mode):
    """No recording and no version counters: what is made inside can never take part in autograd."""

    __slots__ = ()

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return _engine.inference_mode.__new__(cls)
        return cls()(mode)
