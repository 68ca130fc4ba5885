"""Hooks of modules: their registration, and a call of a module that has some."""

import warnings
from collections import OrderedDict

from tensotron._core.tensor import Tensor
from tensotron._epoch import bump
from tensotron.nn.modules._members import Hooks
from tensotron.nn.modules._state import _WrappedHook
from tensotron.utils.hooks import BackwardHook, RemovableHandle

buffer_hooks, module_hooks, parameter_hooks = OrderedDict(), OrderedDict(), OrderedDict()
forward_pre_hooks, forward_hooks, backward_pre_hooks, backward_hooks = Hooks(), Hooks(), Hooks(), Hooks()
forward_always, forward_with_kwargs = OrderedDict(), OrderedDict()
_full_backward = None  # whether the global backward hooks are full ones


def any_global():
    """Whether any hook is common to all modules."""
    return forward_pre_hooks or forward_hooks or backward_pre_hooks or backward_hooks


def registered(hooks, module, name, value):
    """What the registration hooks make of a member."""
    for hook in hooks.values():
        new = hook(module, name, value)
        if new is not None:
            value = new
    return value


def _add(hooks, hook, *marks, prepend=False):
    """Registers a hook; `marks` are dicts that note its id."""
    handle = RemovableHandle(hooks, extra_dict=[m for m, _ in marks])
    hooks[handle.id] = hook
    for mark, wanted in marks:
        if wanted:
            mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    bump()
    return handle


# ---- common to all modules -------------------------------------------------------------------
def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) at every registration of a buffer; what it returns takes its place."""
    return _add(buffer_hooks, hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) at every registration of a submodule; what it returns takes its place."""
    return _add(module_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) at every registration of a parameter; what it returns takes its place."""
    return _add(parameter_hooks, hook)


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward of every module."""
    return _add(forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output) after the forward of every module."""
    return _add(forward_hooks, hook, (forward_with_kwargs, with_kwargs), (forward_always, always_call))


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) before the backward of every module."""
    return _add(backward_pre_hooks, hook)


def _set_global_kind(full):
    global _full_backward
    if _full_backward is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one of "
            "them."
        )
    _full_backward = full


def register_module_backward_hook(hook):
    """Deprecated: hook(module, grad_input, grad_output) at the node of every module's output."""
    _set_global_kind(False)
    return _add(backward_hooks, hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) after the backward of every module."""
    _set_global_kind(True)
    return _add(backward_hooks, hook)


# ---- methods of Module -----------------------------------------------------------------------
def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
    """hook(module, args) before forward; what it returns replaces the arguments.

    With `with_kwargs` it is hook(module, args, kwargs), and returns None or (args, kwargs).
    """
    return _add(self._forward_pre_hooks, hook, (self._forward_pre_hooks_with_kwargs, with_kwargs), prepend=prepend)


def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
    """hook(module, args, output), or (module, args, kwargs, output), after forward; what it returns is the output.

    With `always_call` it also runs where forward raised.
    """
    return _add(
        self._forward_hooks,
        hook,
        (self._forward_hooks_with_kwargs, with_kwargs),
        (self._forward_hooks_always_called, always_call),
        prepend=prepend,
    )


def register_full_backward_pre_hook(self, hook, prepend=False):
    """hook(module, grad_output) before the gradients of the inputs are computed; may return a new grad_output."""
    return _add(self._backward_pre_hooks, hook, prepend=prepend)


def _set_kind(module, full):
    if module._is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
        )
    module._is_full_backward_hook = full


def register_backward_hook(self, hook):
    """Deprecated: hook(module, grad_input, grad_output) at the node of the output."""
    _set_kind(self, False)
    return _add(self._backward_hooks, hook)


def register_full_backward_hook(self, hook, prepend=False):
    """hook(module, grad_input, grad_output) when the gradients of the inputs are there; may return a new grad_input."""
    _set_kind(self, True)
    return _add(self._backward_hooks, hook, prepend=prepend)


# ---- the call --------------------------------------------------------------------------------
def call(module, args, kwargs):
    """module(*args, **kwargs) with all its hooks."""
    run = _Call(module, args, kwargs)
    try:
        return run.through()
    except Exception:
        run.after_failure()
        raise


class _Call:
    """One call of a module that has hooks."""

    def __init__(self, module, args, kwargs):
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result = None
        self.called = set()  # the always-called hooks that have run

    def through(self):
        module = self.module
        full, regular = [], []
        for kind, hooks in ((_full_backward, backward_hooks), (module._is_full_backward_hook, module._backward_hooks)):
            if kind is not None:
                (full if kind else regular).extend(hooks.values())
        pre = [*backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        self.before_forward()
        watch = BackwardHook(module, full, pre) if full or pre else None
        if watch:
            self.args = watch.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for key, hook in (*forward_hooks.items(), *module._forward_hooks.items()):
            if key in module._forward_hooks_always_called or key in forward_always:
                self.called.add(key)
            if key in module._forward_hooks_with_kwargs or key in forward_with_kwargs:
                new = hook(module, self.args, self.kwargs, self.result)
            else:
                new = hook(module, self.args, self.result)
            if new is not None:
                self.result = new
        if watch:
            if not isinstance(self.result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                    f"{type(self.result)}",
                    stacklevel=4,
                )
            self.result = watch.setup_output_hook(self.result)
        if regular:
            self.at_output_node(regular)
        return self.result

    def before_forward(self):
        module = self.module
        for key, hook in (*forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
            if key in module._forward_pre_hooks_with_kwargs:
                new = hook(module, self.args, self.kwargs)
                if new is None:
                    continue
                if not (isinstance(new, tuple) and len(new) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {new}."
                    )
                self.args, self.kwargs = new
            else:
                new = hook(module, self.args)
                if new is not None:
                    self.args = new if isinstance(new, tuple) else (new,)

    def at_output_node(self, hooks):
        out = self.result
        while not isinstance(out, Tensor):
            out = next(v for v in out.values() if isinstance(v, Tensor)) if isinstance(out, dict) else out[0]
        node = out.grad_fn
        if node is None:
            return
        for hook in hooks:
            node.register_hook(_WrappedHook(hook, self.module))
        message = _partial(self.args, self.result, node)
        if message:
            warnings.warn(
                message + " Please use register_full_backward_hook to get the documented behavior.",
                FutureWarning,
                stacklevel=5,
            )

    def after_failure(self):
        module = self.module
        for hooks, always, kwargs, what in (
            (forward_hooks, forward_always, (), "global module"),
            (module._forward_hooks, module._forward_hooks_always_called, module._forward_hooks_with_kwargs, "module"),
        ):
            for key, hook in hooks.items():
                if key not in always or key in self.called:
                    continue
                try:
                    if key in kwargs:
                        new = hook(module, self.args, self.kwargs, self.result)
                    else:
                        new = hook(module, self.args, self.result)
                    if new is not None:
                        self.result = new
                except Exception as e:
                    warnings.warn(
                        f"{what} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                        f"error was raised in forward: {e}",
                        stacklevel=4,
                    )


def _partial(args, result, node):
    """Why a regular backward hook at this node sees only some gradients; None if it sees all."""
    for value, what, which in ((result, "return", "grad_output"), (args, "take as input", "grad_input")):
        values = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(v, Tensor) for v in values):
            return (
                f"Using non-full backward hooks on a Module that does not {what} a single Tensor or a tuple of Tensors is "
                f"deprecated and will be removed in future versions. This hook will be missing some of the {which}."
            )
    nodes = {r.grad_fn for r in (result if isinstance(result, tuple) else (result,)) if r.grad_fn is not None}
    if not nodes or (len(nodes) == 1 and node not in nodes):
        return (
            "Using a non-full backward hook when outputs are nested in python data structure is deprecated and will be "
            "removed in future versions. This hook will be missing some grad_output."
        )
    if len(nodes) > 1:
        return (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and will "
            "be removed in future versions. This hook will be missing some grad_output."
        )
    if {i.grad_fn for i in args if i.grad_fn is not None} != {n for n, _ in node.next_functions}:
        return (
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will be "
            "removed in future versions. This hook will be missing some grad_input."
        )
    return None
