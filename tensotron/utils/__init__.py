"""Utilities: torch.utils' names."""

from tensotron.utils import data, hooks

__all__ = ["data", "hooks"]
