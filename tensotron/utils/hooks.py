"""Handles of hooks, and the machinery of modules' backward hooks."""

import warnings
import weakref
from collections import OrderedDict

from tensotron._autograd.engine import is_grad_enabled
from tensotron._core.tensor import Tensor
from tensotron.autograd.function import Function

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class RemovableHandle:
    """Removes a hook from the dict that holds it (and its marks from `extra_dict`, a dict or a list of dicts)."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def remove(self):
        """Takes the hook off; a second call does nothing."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __getstate__(self):
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state):
        hooks, self.id = state[0], state[1]
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)  # the former is dead at once
        self.extra_dict_ref = tuple(weakref.ref(d) for d in (state[2] if len(state) > 2 else None) or ())
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.remove()


def unserializable_hook(f):
    """Marks a hook, so that saving its tensor does not warn."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor):
    """Warns of hooks that saving the tensor would drop. Hooks of tensors are not visible here: never."""


class _Boundary(Function):
    """The identity: its node marks where gradients enter or leave a module."""

    @staticmethod
    def forward(ctx, *args):
        ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
        return args

    @staticmethod
    def backward(ctx, *grads):
        return grads


_Boundary.__name__ = "BackwardHookFunction"


class BackwardHook:
    """One call of a module that has full backward hooks.

    The tensors among its inputs and its outputs go through an identity each; the node of the latter catches the
    gradients of the outputs (pre-hooks run there), the node of the former those of the inputs (hooks run there).
    """

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.inputs = None  # (places of the tensors among the inputs, number of inputs)
        self.n_inputs = 0
        self.outputs = None

    def _through_boundary(self, args, on_node):
        """args with their tensors through the identity, and (places, count); (args, None) if none needs gradients."""
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        if not (is_grad_enabled() and any(args[i].requires_grad for i in places)):
            return args, None
        passed = _Boundary.apply(*(args[i] for i in places))
        if isinstance(passed, Tensor):
            passed = (passed,)
        on_node(next(t.grad_fn for t in passed if t.grad_fn is not None))
        out = list(args)
        for i, t in zip(places, passed):
            out[i] = t
        return tuple(out) if type(args) is tuple else type(args)(*out), (places, len(args))

    @staticmethod
    def _spread(layout, values):
        """The values at their places, None elsewhere."""
        places, n = layout
        out = [None] * n
        for i, v in zip(places, values):
            out[i] = v
        return tuple(out)

    def setup_input_hook(self, args):
        """args, watched."""
        self.n_inputs = len(args)
        out, self.inputs = self._through_boundary(args, lambda node: node.register_hook(self._at_inputs))
        return out

    def setup_output_hook(self, result):
        """The result of forward, watched."""
        if isinstance(result, tuple):
            out, self.outputs = self._through_boundary(result, self._watch_outputs)
            return out
        out, self.outputs = self._through_boundary((result,), self._watch_outputs)
        return out[0]

    def _watch_outputs(self, node):
        node.register_hook(self._at_outputs)

    def _at_inputs(self, grad_inputs, _):
        if self.grad_outputs is None:  # reached without going through the outputs, as in double backward
            return None
        grads = self._spread(self.inputs, grad_inputs)
        for hook in self.user_hooks:
            new = hook(self.module, grads, self.grad_outputs)
            if new is None:
                continue
            if len(new) != len(grads):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(new)}, but expected {len(grads)}"
                )
            grads = new
        self.grad_outputs = None
        return tuple(grads[i] for i in self.inputs[0])

    def _at_outputs(self, _, grad_outputs):
        self.grad_outputs = grads = self._spread(self.outputs, grad_outputs)
        expected = len(grads)
        for hook in self.user_pre_hooks:
            new = hook(self.module, self.grad_outputs)
            if new is None:
                continue
            if len(new) != expected:
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(new)}, but expected {expected}"
                )
            self.grad_outputs = grads = new
        if self.inputs is None:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
                "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_full_backward_hook for more details.",
                stacklevel=5,
            )
            for hook in self.user_hooks:
                new = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
                if new is not None and not (isinstance(new, tuple) and all(g is None for g in new)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None for "
                        "all gradients."
                    )
            self.grad_outputs = None
        return tuple(grads[i] for i in self.outputs[0])
