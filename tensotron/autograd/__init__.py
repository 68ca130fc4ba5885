"""Automatic differentiation: backward, grad, grad modes, custom functions."""

from tensotron._autograd.engine import backward, grad
from tensotron.autograd.function import Function, once_differentiable
from tensotron.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
]
