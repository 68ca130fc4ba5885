"""The CPU backend: which instruction set its kernels use."""

from tensotron._cpu.backend import get_cpu_capability

__all__ = ["get_cpu_capability"]
