"""Runs a function of a library on tensotron and on PyTorch and compares what comes out."""

import warnings

import numpy as np
import torch

import tensotron


def outcome(fn, lib):
    """Plain data that describes the result, or the exception, of ``fn(lib)``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return describe(fn(lib))
        except Exception as exc:
            return ("raised", *error(exc, lib))


def error(exc, lib):
    # the nearest builtin class stands for a class of the library's own
    builtin = next(c for c in type(exc).__mro__ if c.__module__ == "builtins")
    return builtin.__name__, str(exc).split("\n")[0].replace(lib.__name__ + ".", "torch.")


def describe(value):
    if isinstance(value, (torch.Tensor, tensotron.Tensor)):
        dtype = str(value.dtype).rpartition(".")[2]
        array = value.detach().numpy()
        return ("tensor", dtype, tuple(value.shape), value.requires_grad, bits(array))
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, bits(value))
    if isinstance(value, np.generic):
        return ("scalar", str(value.dtype), bits(np.asarray(value)))
    if isinstance(value, (torch.dtype, type(tensotron.float32))):
        return ("dtype", str(value).rpartition(".")[2])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [describe(v) for v in value])
    if isinstance(value, float):
        return ("float", bits(np.asarray(value)))
    return (type(value).__name__, value)


def bits(array):
    """Bit patterns, with every NaN alike."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)
    return np.ascontiguousarray(array).tobytes()


def same(fn):
    """Asserts that ``fn`` gives in tensotron what it gives in PyTorch, bit for bit, messages of
    exceptions included (their first line). Warnings are not compared: many of PyTorch's come once
    for each process."""
    theirs = outcome(fn, torch)
    if torch.version.cuda and theirs[0] == "raised" and "driver" in theirs[2]:
        return  # a PyTorch built with CUDA, on a machine without: it has other words than the build for CPUs
    assert outcome(fn, tensotron) == theirs
