"""What the backends can do on this machine."""

from tensotron.backends import cpu

__all__ = ["cpu"]
