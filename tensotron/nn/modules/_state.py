"""State dicts of modules: methods of Module."""

import functools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

from tensotron._autograd.engine import no_grad
from tensotron._core.tensor import Tensor
from tensotron._epoch import bump
from tensotron.nn.parameter import Parameter
from tensotron.utils.hooks import RemovableHandle

_EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict found different."""

    __slots__ = ()

    def __repr__(self):
        if self.missing_keys or self.unexpected_keys:
            return super().__repr__()
        return "<All keys matched successfully>"

    __str__ = __repr__


class _WrappedHook:
    """A hook that gets its module, which it does not keep alive, as first argument."""

    def __init__(self, hook, module=None):
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


def _add(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


# ---- hooks -------------------------------------------------------------------------------------
def _register_state_dict_hook(self, hook):
    """hook(module, state_dict, prefix, local_metadata) after state_dict; what it returns counts at the root."""
    if getattr(hook, "_from_public_api", False):
        raise RuntimeError(
            "Cannot register the same function as the state dict post hook that was previously registered via "
            "register_state_dict_post_hook"
        )
    return _add(self._state_dict_hooks, hook)


def register_state_dict_post_hook(self, hook):
    """hook(module, state_dict, prefix, local_metadata) after state_dict; it modifies the dict in place."""
    hook._from_public_api = True
    return _add(self._state_dict_hooks, hook)


def register_state_dict_pre_hook(self, hook):
    """hook(module, prefix, keep_vars) before state_dict."""
    return _add(self._state_dict_pre_hooks, hook)


def _register_load_state_dict_pre_hook(self, hook, with_module=False):
    return _add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))


def register_load_state_dict_pre_hook(self, hook):
    """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) before loading."""
    return self._register_load_state_dict_pre_hook(hook, with_module=True)


def register_load_state_dict_post_hook(self, hook):
    """hook(module, incompatible_keys) after loading; it may modify the lists in place."""
    return _add(self._load_state_dict_post_hooks, hook)


# ---- extra state -------------------------------------------------------------------------------
def _unreachable(name):
    raise RuntimeError(
        f"Reached a code path in Module.{name}() that should never be called. Please file an issue at "
        "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
    )


def get_extra_state(self):
    """State besides parameters and buffers; define it, and set_extra_state, to have some."""
    _unreachable("get_extra_state")


def set_extra_state(self, state):
    """Takes in what get_extra_state gave."""
    _unreachable("set_extra_state")


def _defines(module, name, default):
    return getattr(type(module), name, default) is not default


# ---- saving ------------------------------------------------------------------------------------
def _save_to_state_dict(self, destination, prefix, keep_vars):
    """Puts the state of this module, without that of submodules, into destination."""
    for name, param in self._parameters.items():
        if param is not None:
            destination[prefix + name] = param if keep_vars else param.detach()
    for name, buffer in self._buffers.items():
        if buffer is not None and name not in self._non_persistent_buffers_set:
            destination[prefix + name] = buffer if keep_vars else buffer.detach()
    if _defines(self, "get_extra_state", get_extra_state):
        destination[prefix + _EXTRA] = self.get_extra_state()


def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
    """Parameters and persistent buffers by path, detached (unless `keep_vars`) but not copied."""
    if args:
        warnings.warn(
            "Positional args are being deprecated, use kwargs instead. Refer to https://pytorch.org/docs/main/generated/"
            "torch.nn.Module.html#torch.nn.Module.state_dict for details.",
            FutureWarning,
            stacklevel=2,
        )
        if destination is None:
            destination = args[0]
        if len(args) > 1 and prefix == "":
            prefix = args[1]
        if len(args) > 2 and keep_vars is False:
            keep_vars = args[2]
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    local_metadata = {"version": self._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = local_metadata
    for hook in self._state_dict_pre_hooks.values():
        hook(self, prefix, keep_vars)
    self._save_to_state_dict(destination, prefix, keep_vars)
    for name, module in self._modules.items():
        if module is not None:
            module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in self._state_dict_hooks.values():
        result = hook(self, destination, prefix, local_metadata)
        if result is not None:
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = result
    return destination


# ---- loading -----------------------------------------------------------------------------------
def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    """Loads the state of this module, without that of submodules; notes what does not fit."""
    for hook in self._load_state_dict_pre_hooks.values():
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    local = {k: v for k, v in self._parameters.items() if v is not None}
    local.update(
        (k, v) for k, v in self._buffers.items() if v is not None and k not in self._non_persistent_buffers_set
    )
    assign = local_metadata.get("assign_to_params_buffers", False)
    for name, own in local.items():
        key = prefix + name
        if key in state_dict:
            message = _load_one(self, name, own, key, state_dict[key], assign)
            if message:
                error_msgs.append(message)
        elif strict:
            missing_keys.append(key)

    extra = prefix + _EXTRA
    if _defines(self, "set_extra_state", set_extra_state):
        if extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif strict:
            missing_keys.append(extra)
    elif strict and extra in state_dict:
        unexpected_keys.append(extra)

    if strict:
        for key in state_dict:
            if key.startswith(prefix) and key != extra:
                first, dot, _ = key[len(prefix):].partition(".")
                if first not in (self._modules if dot else local):
                    unexpected_keys.append(key)


def _load_one(module, name, own, key, value, assign):
    """Copies (or assigns) one value; returns what is wrong, or None."""
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but '
            f"received {type(value)}"
        )
    if own.dim() == 0 and tuple(value.shape) == (1,):  # what 0.3 saved for scalars
        value = value[0]
    if value.shape != own.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current model "
            f"is {own.shape}."
        )
    try:
        with no_grad():
            if not assign:
                own.copy_(value)
                return None
            if isinstance(own, Parameter):
                if isinstance(value, Parameter):
                    value.requires_grad_(own.requires_grad)
                else:
                    value = Parameter(value, requires_grad=own.requires_grad)
            setattr(module, name, value)
    except Exception as e:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {own.size()} and whose dimensions '
            f"in the checkpoint are {value.size()}, an exception occurred : {e.args}."
        )
    return None


def load_state_dict(self, state_dict, strict=True, assign=False):
    """Copies (with `assign`: puts) the values of a state dict into this module and those below it.

    Returns (missing_keys, unexpected_keys); with `strict` raises RuntimeError unless both are empty.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing, unexpected, errors = [], [], []
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)  # hooks may modify it
    if metadata is not None:
        state_dict._metadata = metadata

    def load(module, state, prefix):
        local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local_metadata["assign_to_params_buffers"] = assign
        module._load_from_state_dict(state, prefix, local_metadata, True, missing, unexpected, errors)
        for name, child in module._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                load(child, {k: v for k, v in state.items() if k.startswith(path)}, path)
        keys = _IncompatibleKeys(missing, unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                    "if incompatible_keys need to be modified, it should be done inplace."
                )

    load(self, state_dict, "")
    bump()
    if strict:
        for keys, what in ((unexpected, "Unexpected"), (missing, "Missing")):
            if keys:
                errors.insert(0, f"{what} key(s) in state_dict: " + ", ".join(f'"{k}"' for k in keys) + ". ")
    if errors:
        lines = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
    return _IncompatibleKeys(missing, unexpected)
