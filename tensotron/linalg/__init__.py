"""Linear algebra."""

from tensotron._autograd.vector_norm import vector_norm

__all__ = ["vector_norm"]
