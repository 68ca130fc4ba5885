"""Module: the base of everything that has parameters."""

from collections import OrderedDict

from tensotron._autograd.engine import no_grad
from tensotron._core import geometry
from tensotron._core.dtype import dtype as dtype_type
from tensotron._core.tensor import Tensor
from tensotron._epoch import bump, flip
from tensotron._typename import typename
from tensotron.nn.modules import _calls, _dispatch, _state
from tensotron.nn.modules._calls import (  # noqa: F401  (torch's place for them)
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from tensotron.nn.modules._dispatch import Callable, look_from_now_on
from tensotron.nn.modules._members import REGISTRIES, Hooks, Members, note, on_first
from tensotron.nn.modules._state import _IncompatibleKeys, _WrappedHook  # noqa: F401
from tensotron.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_CALL_HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
_OTHER_HOOKS = (
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_ABSENT = object()
_PLAIN = frozenset((bool, int, float, str, tuple))  # types of values that are never members

on_first(look_from_now_on)


def _forward_unimplemented(self, *input):
    """What forward is until a subclass defines it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def _signature(function):
    from inspect import signature  # rarely wanted, and slow to import

    return signature(function)


def _indent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line if line.strip() else "" for line in rest])


class Module(Callable):
    """Base class of modules: assign parameters and modules as attributes, define forward, call the instance."""

    dump_patches = False
    call_super_init = False
    _version = 1
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        space = self.__dict__
        space["training"] = True
        for name in REGISTRIES:
            if isinstance(space.get(name), Members):  # a second call of __init__
                space[name].release(self)
            space[name] = members = Members()
            members.adopt(self)
        space["_non_persistent_buffers_set"] = set()
        space["_is_full_backward_hook"] = None
        for name in _CALL_HOOKS:
            space[name] = Hooks()
        for name in _OTHER_HOOKS:
            space[name] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # ---- calls: by _dispatch ------------------------------------------------------------------
    def _call_impl(self, *args, **kwargs):
        if (self._backward_hooks or self._backward_pre_hooks or self._forward_hooks or self._forward_pre_hooks
                or _calls.any_global()):
            return _calls.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def compile(self, *args, **kwargs):
        """Compiles the call of this module; the arguments are those of `tensotron.compile`."""
        import tensotron

        self._compiled_call_impl = tensotron.compile(self._call_impl, *args, **kwargs)
        note()

    # ---- attributes --------------------------------------------------------------------------
    def __getattr__(self, name):
        space = self.__dict__
        for registry in REGISTRIES:
            members = space.get(registry)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        space = self.__dict__
        old = space.get(name, _ABSENT)
        if type(value) in _PLAIN and type(old) in _PLAIN:  # no member, before or after
            if old is not value:
                if name == "training" and type(old) is type(value) is bool:
                    flip(self)
                else:
                    bump()
            super().__setattr__(name, value)
            return
        params, modules, buffers = space.get("_parameters"), space.get("_modules"), space.get("_buffers")
        is_tensor = isinstance(value, Tensor)
        if is_tensor and isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, params)
            self.register_parameter(name, value)
        elif params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, modules)
            modules[name] = _calls.registered(_calls.module_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = _calls.registered(_calls.module_hooks, self, name, value)
        elif (buffers is not None and name in buffers) or (is_tensor and isinstance(value, Buffer)):
            if value is not None and not is_tensor:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
                )
            self._assign_buffer(name, value)
        elif name in REGISTRIES:
            old = space.get(name)
            if isinstance(old, Members):
                old.release(self)
            members = value if isinstance(value, Members) else Members(value)
            members.adopt(self)
            super().__setattr__(name, members)
            bump()
        else:
            if old is not value:
                bump()
            super().__setattr__(name, value)

    def _forget(self, name, keep):
        """Removes an attribute from everywhere but `keep`."""
        for registry in REGISTRIES:
            members = self.__dict__[registry]
            if members is not keep and name in members:
                del members[name]
        if name not in keep:
            self.__dict__.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _assign_buffer(self, name, value):
        persistent = value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set
        register = self.register_buffer
        if getattr(register, "__func__", None) is Module.register_buffer:
            register(name, value, persistent)
        elif "persistent" in _signature(register).parameters:
            register(name, value, persistent)
        elif persistent:
            register(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without the "
                "persistent argument is not allowed."
            )

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            bump()
            super().__delattr__(name)

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(n for n in names if not n[0].isdigit())

    def __getstate__(self):
        state = self.__dict__.copy()
        for registry in REGISTRIES:
            for name, value in state.get(registry, {}).items():
                if state.get(name, _ABSENT) is value:
                    del state[name]
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state):
        space = self.__dict__
        space.update(state)
        for name in REGISTRIES:
            members = space.get(name, {})
            if not isinstance(members, Members):
                space[name] = members = Members(members)
            members.adopt(self)
        space.setdefault("_non_persistent_buffers_set", set())
        space.setdefault("_is_full_backward_hook", None)
        for name in _CALL_HOOKS:
            hooks = space.get(name, {})
            if not isinstance(hooks, Hooks):
                space[name] = hooks = Hooks(hooks)
            if hooks:
                note()
        for name in _OTHER_HOOKS:
            space.setdefault(name, OrderedDict())

    # ---- registration ------------------------------------------------------------------------
    def _check_name(self, kind, name, registry):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but no parameter; in the state dict unless `persistent` is false."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _calls.registered(_calls.buffer_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Adds a parameter, or None in the place of one."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                    f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
            param = _calls.registered(_calls.parameter_hooks, self, name, param)
        self._parameters[name] = param

    def add_module(self, name, module):
        """Adds a submodule, or None in the place of one."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if name not in self._modules and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = _calls.registered(_calls.module_hooks, self, name, module)

    def register_module(self, name, module):
        """The same as add_module."""
        self.add_module(name, module)

    # ---- members by path ---------------------------------------------------------------------
    def _attribute(self, name):
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        return getattr(self, name)

    def get_submodule(self, target):
        """The submodule at a dotted path; AttributeError where there is none."""
        module = self
        for name in target.split(".") if target else ():
            module = module._attribute(name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts a module at a dotted path; with `strict` there has to be one already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(parent._attribute(name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at a dotted path; AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        param = self.get_submodule(path)._attribute(name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target):
        """The buffer at a dotted path; AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        buffer = module._attribute(name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    # ---- iteration ---------------------------------------------------------------------------
    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def parameters(self, recurse=True):
        """Iterates over the parameters, each once."""
        found = _all_parameters(self) if recurse else None
        if found is not None:
            yield from found
        else:
            for _, param in self.named_parameters(recurse=recurse):
                yield param

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Iterates over (name, parameter)."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """Iterates over the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Iterates over (name, buffer)."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        """Iterates over the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """Iterates over (name, direct submodule)."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate=True):
        """Iterates over this module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Iterates over (path, module), this one first."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    # ---- modes and conversions ---------------------------------------------------------------
    def train(self, mode=True):
        """Sets the mode of this module and all below it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Sets requires_grad of every parameter."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients of all parameters, or fills them with zeros."""
        for param in self.parameters():
            grad = param.grad
            if grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    def apply(self, fn):
        """Calls fn(module) for every submodule, this module last."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            grad = param.grad
            with no_grad():
                new = fn(param)
                if new is not param:
                    param.data = new
                if grad is not None:
                    grad.data = fn(grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        bump()
        return self

    def to(self, *args, **kwargs):
        """Moves or converts parameters and buffers: to(device, dtype, non_blocking), to(dtype), to(tensor).

        A dtype has to be a floating-point one, and only floating-point tensors are converted.
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(t):
            to = dtype if t.is_floating_point() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, to, non_blocking, memory_format=memory_format)
            return t.to(device, to, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device, recurse=True):
        """Moves to a device without copying values."""
        from tensotron import empty_like

        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def cuda(self, device=None):
        """Moves parameters and buffers to the GPU."""
        return self._apply(lambda t: t.cuda(device))

    def cpu(self):
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type):
        """Converts all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Converts floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Converts floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """float16: NotImplementedError."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """bfloat16: NotImplementedError."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self):
        """Moves parameters and buffers to memory shared between processes."""
        return self._apply(lambda t: t.share_memory_())

    # ---- text --------------------------------------------------------------------------------
    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What repr says of this module besides its submodules."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(module), 2)}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        lines += children
        body = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({body})"

    # ---- hooks -------------------------------------------------------------------------------
    register_forward_pre_hook = _calls.register_forward_pre_hook
    register_forward_hook = _calls.register_forward_hook
    register_full_backward_pre_hook = _calls.register_full_backward_pre_hook
    register_full_backward_hook = _calls.register_full_backward_hook
    register_backward_hook = _calls.register_backward_hook
    _register_state_dict_hook = _state._register_state_dict_hook
    register_state_dict_post_hook = _state.register_state_dict_post_hook
    register_state_dict_pre_hook = _state.register_state_dict_pre_hook
    _register_load_state_dict_pre_hook = _state._register_load_state_dict_pre_hook
    register_load_state_dict_pre_hook = _state.register_load_state_dict_pre_hook
    register_load_state_dict_post_hook = _state.register_load_state_dict_post_hook

    # ---- state -------------------------------------------------------------------------------
    get_extra_state = _state.get_extra_state
    set_extra_state = _state.set_extra_state
    _save_to_state_dict = _state._save_to_state_dict
    state_dict = _state.state_dict
    _load_from_state_dict = _state._load_from_state_dict
    load_state_dict = _state.load_state_dict


_OWN_ITERATION = tuple(vars(Module)[n] for n in ("named_parameters", "_named_members", "named_modules"))


_dispatch.serve(Module._call_impl)


def _all_parameters(root):
    """What named_parameters would give, without the names; None where a class has an iteration of its own."""
    found, params, modules, todo = [], set(), set(), [root]
    while todo:
        module = todo.pop()
        if module is None or module in modules:
            continue
        modules.add(module)
        kind = type(module)
        if (kind.named_parameters, kind._named_members, kind.named_modules) != _OWN_ITERATION:
            return None
        for param in module._parameters.values():
            if param is not None and param not in params:
                params.add(param)
                found.append(param)
        todo.extend(reversed(module._modules.values()))
    return found


def _parse_to(*args, **kwargs):
    """Arguments of Module.to -> (device, dtype, non_blocking, memory_format)."""
    memory_format = kwargs.pop("memory_format", None)
    out = {"device": None, "dtype": None, "non_blocking": False, "copy": False}
    names = list(out)
    if args and isinstance(args[0], Tensor):
        out["device"], out["dtype"] = args[0].device, args[0].dtype
        args, names = args[1:], names[2:]
    elif args and isinstance(args[0], dtype_type):
        names = names[1:]
    if "tensor" in kwargs:
        other = kwargs.pop("tensor")
        out["device"], out["dtype"] = other.device, other.dtype
    for name, value in [*zip(names, args), *kwargs.items()]:
        if name not in out or len(args) > len(names):
            raise TypeError("to() received an invalid combination of arguments")
        out[name] = value
    device = out["device"]
    if device is not None and not isinstance(device, geometry.device):
        device = geometry.device(device)
    if out["dtype"] is not None and not isinstance(out["dtype"], dtype_type):
        raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(out['dtype']).__name__}")
    return device, out["dtype"], bool(out["non_blocking"]), memory_format
