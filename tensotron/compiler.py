"""Captured functions: what torch.compile is to PyTorch. See `compile`."""

import functools

from tensotron._core.capture import Compiled, CompiledSteps

__all__ = ["compile", "is_compiling", "reset", "stats"]

_made = []


def compile(  # noqa: A001
    model=None, *, fullgraph=False, dynamic=None, backend="capture", mode=None, options=None, disable=False, name=None,
    recompile_limit=None, steps=None,
):
    """A function that records a call of `model` once per kind of arguments and replays the recording after that.

    The first call of a kind runs as usual and is recorded: forward, backward, clipping, the optimiser's step, random
    numbers, state changed in place. Later calls run the recorded operations on the new arguments, with the same
    results bit for bit, and without running the body: Python side effects (print, counters, appending) happen only
    when the body runs. Numbers in an optimiser's param_groups are read again at each replay. Shapes, dtypes, strides
    and Python values among the arguments (inside containers and dataclasses too), and the globals and closure variables
    that the function and the functions it names read, are compared before each replay, as are training modes and
    members of modules; Python values that are reached in other ways (attributes of your own objects, elements of
    containers that are no arguments) are not seen.

    What cannot be recorded (item(), numpy arrays, shapes that depend on values) runs eagerly; `stats` gives the
    reason. At most 8 kinds of arguments are recorded.

    Args:
        model: a function or a Module. None: returns a decorator.
        fullgraph: raise instead of running eagerly.
        disable: return `model` itself.
        steps: N. The result takes tensors of N elements in their first dimension (other arguments stay the same for all
            steps), calls `model` with one element of each after the other, and returns its results stacked, without
            history. Steps that replay run in one go, without Python between them and without holding the interpreter's
            lock. `steps` is not in PyTorch: it is what a scan is elsewhere.
        dynamic, backend, mode, options, name, recompile_limit: accepted, without effect.

    Raises:
        RuntimeError: with fullgraph=True, at a call that cannot be recorded; with steps, at arguments or results that do
            not fit.
    """
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, disable=disable, steps=steps)
    if disable and steps is None:
        return model
    if not callable(model):
        raise RuntimeError(f"compile() expects a function or a Module, not {type(model).__name__}")
    if steps is not None:
        return CompiledSteps(Compiled(model, fullgraph), steps)
    from tensotron.nn import Module

    if isinstance(model, Module):
        return _compiled_module(model, fullgraph)
    return Compiled(model, fullgraph)


def _compiled_module(module, fullgraph):
    from tensotron._compiled_module import OptimizedModule

    return OptimizedModule(module, fullgraph)


def stats(fn):
    """Figures of a compiled function: {"captures", "replays", "eager_calls", "reason"}.

    `reason` says why the last call that could not be captured ran eagerly, or is None.
    """
    fn = getattr(fn, "_compiled", fn)
    if not isinstance(fn, Compiled):
        raise TypeError(f"stats() expects a compiled function, not {type(fn).__name__}")
    return fn.stats()


def is_compiling():
    """False: the body of a compiled function runs as ordinary Python."""
    return False


def reset():
    """Accepted for PyTorch's sake; each compiled function forgets its captures by `fn.reset()`."""
