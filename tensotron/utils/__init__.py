"""Utilities: torch.utils' names."""

from importlib import import_module as _import_module

from tensotron.utils import hooks

__all__ = ["data", "hooks"]


def __getattr__(name):
    if name == "data":  # imported when first used
        return _import_module("tensotron.utils.data")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
