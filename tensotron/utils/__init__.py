"""Utilities: torch.utils' names."""

from tensotron.utils import hooks

__all__ = ["hooks"]
