"""Grad modes: context managers that are decorators too, with or without parentheses."""

from tensotron._autograd import engine as _engine


class no_grad(_engine.no_grad):
    """Turns the recording of operations off."""

    __slots__ = ()

    def __new__(cls, orig_func=None):
        self = _engine.no_grad.__new__(cls)
        return self if orig_func is None else self(orig_func)

    def __init__(self, orig_func=None):
        pass


class enable_grad(_engine.enable_grad):
    """Turns the recording of operations on."""

    __slots__ = ()

    def __new__(cls, orig_func=None):
        self = _engine.enable_grad.__new__(cls)
        return self if orig_func is None else self(orig_func)

    def __init__(self, orig_func=None):
        pass


class inference_mode(_engine.inference_mode):
    """No recording and no version counters: what is made inside can never take part in autograd."""

    __slots__ = ()

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return _engine.inference_mode.__new__(cls)
        return cls()(mode)


set_grad_enabled = _engine.set_grad_enabled
