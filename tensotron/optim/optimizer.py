"""The base of optimisers: parameter groups, state, hooks, state dicts."""

import functools
import itertools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy

from tensotron._autograd.engine import is_grad_enabled, set_grad_enabled
from tensotron._core.creation import full, zeros_like
from tensotron._core.dtype import float32, float64, get_default_dtype
from tensotron._core.tensor import Tensor
from tensotron._epoch import bump
from tensotron._typename import typename
from tensotron.autograd.grad_mode import enable_grad
from tensotron.optim._fused import clear_grads, hold_numbers, step_groups
from tensotron.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

_global_pre_hooks = OrderedDict()
_global_post_hooks = OrderedDict()


class _RequiredParameter:
    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    bump()
    return handle


def register_optimizer_step_pre_hook(hook):
    """Calls hook(optimizer, args, kwargs) before the step of every optimiser; it may return new (args, kwargs).

    Returns a handle whose remove() takes the hook off.
    """
    return _add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Calls hook(optimizer, args, kwargs) after the step of every optimiser.

    Returns a handle whose remove() takes the hook off.
    """
    return _add_hook(_global_post_hooks, hook)


def grouped_step(self, closure=None):
    """One step; `closure` computes the loss anew, and its result is returned."""
    loss = None
    if closure is not None:
        with enable_grad():
            loss = closure()
    if self._algorithm is None:
        self._update_groups([(group, group["params"]) for group in self.param_groups])
    else:
        left = step_groups(self.param_groups, self._fused_steps, self._algorithm, self.state)
        if left is not None:
            self._update_groups(left)
    return loss


def _with_hooks(step):
    """The step of a class, with the hooks of the optimiser and of all optimisers around it."""
    grouped = step is grouped_step

    @functools.wraps(step)
    def hooked_step(self, *args, **kwargs):
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if not (before or after or _global_pre_hooks or _global_post_hooks):
            if grouped and not args and not kwargs and self._algorithm is not None:  # without a detour
                left = step_groups(self.param_groups, self._fused_steps, self._algorithm, self.state)
                if left is not None:
                    self._update_groups(left)
                return None
            return step(self, *args, **kwargs)
        args = (self, *args)
        for hook in itertools.chain(_global_pre_hooks.values(), before.values()):
            result = hook(self, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
            args, kwargs = result
        out = step(*args, **kwargs)
        for hook in itertools.chain(after.values(), _global_post_hooks.values()):
            hook(self, args, kwargs)
        return out

    hooked_step.hooked = True
    return hooked_step


class Optimizer:
    """Base of all optimisers.

    Args:
        params: tensors to optimise, (name, tensor) pairs, or dicts of groups with options of their own; in an
            order that is the same from run to run.
        defaults: options of the groups that do not give their own.

    Attributes:
        param_groups: list of dicts; their numbers may be changed at any time.
        state: what the optimiser keeps for each parameter.
    """

    _algorithm = None  # name of the fused kernel of the class, see _fused.pyx
    _absent = {}  # options that state dicts of older versions lack

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got {typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self):
        """What a new object has and a pickled one lacks."""
        self._fused_steps = []  # FusedStep of each group
        for name in (
            "_optimizer_step_pre_hooks",
            "_optimizer_step_post_hooks",
            "_optimizer_state_dict_pre_hooks",
            "_optimizer_state_dict_post_hooks",
            "_optimizer_load_state_dict_pre_hooks",
            "_optimizer_load_state_dict_post_hooks",
        ):
            self.__dict__.setdefault(name, OrderedDict())
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self._absent.items():
                group.setdefault(name, value)
            for p in group["params"]:
                own = self.state.get(p, {})
                if "step" in own and not isinstance(own["step"], Tensor):
                    own["step"] = counter(float(own["step"]))

    def __repr__(self):
        parts = [type(self).__name__ + " ("]
        for number, group in enumerate(self.param_groups):
            parts.append(f"\nParameter Group {number}\n")
            parts += [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
        return "".join(parts) + ")"

    # ---- hooks ---------------------------------------------------------------------------------
    def register_step_pre_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) before each step; it may return new (args, kwargs)."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer) before state_dict()."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) after state_dict(); it may return another dict."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) before load_state_dict(); it may return another dict."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer) after load_state_dict()."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- state dicts ----------------------------------------------------------------------------
    def state_dict(self):
        """{"state": state by number of the parameter, "param_groups": groups with such numbers for parameters}.

        The tensors are the optimiser's own, not copies.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers, start, groups = {}, 0, []
        for group in self.param_groups:
            for number, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), number)
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            start += len(packed["params"])
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        out = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            result = hook(self, out)
            if result is not None:
                out = result
        return out

    @staticmethod
    def _process_value_according_to_param_policy(param, value, param_id, param_groups, key=None):
        """A tensor of a state dict as the state of `param`: of its dtype, except for the step counter."""
        group = next((g for g in param_groups if param_id in g["params"]), {})
        if key == "step":
            if group.get("capturable", False) or group.get("fused", False):
                return value.to(dtype=float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    def load_state_dict(self, state_dict):
        """Takes over the state and the options of the groups; parameters are matched by their order.

        Raises:
            ValueError: the groups differ in number or in size.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            result = hook(self, state_dict)
            if result is not None:
                state_dict = result
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        params = {n: p for g, s in zip(groups, saved) for n, p in zip(s["params"], g["params"])}

        def adapted(number, value, key=None):
            param = params[number]
            if isinstance(value, Tensor):
                return self._process_value_according_to_param_policy(param, value, number, state_dict["param_groups"], key)
            if isinstance(value, dict):
                return {k: adapted(number, v, k) for k, v in value.items()}
            if isinstance(value, Iterable):
                return type(value)(adapted(number, v) for v in value)
            return value

        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = adapted(key, value)
            else:
                state[key] = value
        for group, new in zip(groups, saved):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        bump()
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # ---- gradients and steps ----------------------------------------------------------------------
    def zero_grad(self, set_to_none=True):
        """Forgets the gradients, or with set_to_none=False fills them with zeros."""
        if set_to_none:
            clear_grads(self.param_groups)
            return
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if p.grad.grad_fn is not None:
                        p.grad.detach_()
                    else:
                        p.grad.requires_grad_(False)
                    p.grad.zero_()

    def step(self, closure=None):
        """One step of optimisation. `closure` computes the loss anew; its result is returned."""
        raise NotImplementedError

    def _update_groups(self, left):
        """The composed step of (group, parameters): what the fused kernel does not take."""
        before = is_grad_enabled()
        set_grad_enabled(self.defaults["differentiable"])
        try:
            for group, params in left:
                hold_numbers(group)
                self._update_group(group, [p for p in params if p.grad is not None])
        finally:
            set_grad_enabled(before)

    def _update_group(self, group, params):
        for p in params:
            state = self.state[p]
            if not state:
                self._init_state(group, p, state)
            self._update(group, p, -p.grad if group["maximize"] else p.grad, state)

    def _init_state(self, group, p, state):
        """Fills the state of a parameter before its first step."""

    def _update(self, group, p, grad, state):
        """The step of one parameter in public operations: what the fused kernel has to reproduce."""
        raise NotImplementedError

    # ---- groups ---------------------------------------------------------------------------------------
    def add_param_group(self, param_group):
        """Adds a group: a dict with "params" and whatever options differ from the defaults.

        Raises:
            TypeError: no dict, a set of parameters, or something that is no tensor.
            ValueError: not a leaf, in another group already, or names for some only.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but "
                "the ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        params = [p[1] if isinstance(p, tuple) else p for p in params]
        param_group["params"] = params
        if names:
            if len(names) != len(params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {typename(p)}")
            if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; "
                "in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        taken = set()
        for group in self.param_groups:
            taken.update(group["params"])
            if ("param_names" in param_group) != ("param_names" in group):
                which = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {which} to the optimizer"
                )
        if not taken.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)
        bump()


# ---- shared by the optimisers ---------------------------------------------------------------------------
def counter(start=0.0):
    """A step counter."""
    return full((), start, dtype=float64 if get_default_dtype() == float64 else float32)


def zeros_of(p):
    return zeros_like(p)


def scalar(x):
    """A one-element tensor without its dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def number(x):
    """A Python number, where an operation takes no tensor."""
    return x.item() if isinstance(x, Tensor) else x


def check_nonnegative(**values):
    """ValueError for a value below 0 (or NaN)."""
    for name, value in values.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {name} value: {value}")


def check_rate(lr):
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_betas(betas):
    for k in (0, 1):
        if not 0.0 <= betas[k] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")


def check_fused(optimizer, fused, foreach, differentiable):
    """What PyTorch's fused steps refuse."""
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        optimizer._step_supports_amp_scaling = True


def refuse_capturable(group, what="params and state_steps", xla=True):
    """Nothing on the CPU is capturable in PyTorch's sense."""
    if group["capturable"]:
        devices = ["cuda", "xpu", "hpu", "privateuseone"] + ["xla"] * xla
        raise AssertionError(f"If capturable=True, {what} must be on supported devices: {devices}.")
