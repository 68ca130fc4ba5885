"""Neural network building blocks."""

from tensotron.nn import functional

__all__ = ["functional"]
