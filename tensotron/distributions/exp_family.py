"""Exponential families, under PyTorch's module name."""

from tensotron.distributions.distribution import ExponentialFamily

__all__ = ["ExponentialFamily"]
