"""The base of the schedules of the learning rate."""

import warnings
from contextlib import contextmanager
from functools import wraps
from weakref import ref

from tensotron._core.tensor import Tensor
from tensotron.optim.optimizer import Optimizer, scalar

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being "
    "deprecated where possible. Please use `scheduler.step()` to step the "
    "scheduler. During the deprecation, if epoch is different from None, the "
    "closed form is used instead of the new chainable form, where available. "
    "Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
ORDER_URL = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
REPLACED_WARNING = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make sure to "
    f"call `optimizer.step()` before `lr_scheduler.step()`. {ORDER_URL}"
)
ORDER_WARNING = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in "
    "the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in PyTorch "
    f"skipping the first value of the learning rate schedule. {ORDER_URL}"
)


# ---- parameter groups -----------------------------------------------------------------------------------
def copied(value):
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer, key):
    """The option `key` of every group."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_value(group, key, value):
    """Sets an option; a tensor is filled."""
    if isinstance(group[key], Tensor):
        group[key].fill_(scalar(value))
    else:
        group[key] = value


def one_per_group(name, optimizer, value):
    """A list with a value for each group, from such a list or from one value."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * groups
    elif len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {groups}."
        )
    return [copied(v) for v in value]


def check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _note_steps(optimizer):
    """Lets the optimiser's step leave a mark, by which a wrong order of calls is noticed."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    owner, step = ref(optimizer), optimizer.step.__func__  # no cycle through the instance

    @wraps(step)
    def noted_step(*args, **kwargs):
        opt = owner()
        opt._opt_called = True
        return step(opt, *args, **kwargs)

    noted_step._wrapped_by_lr_sched = True
    optimizer.step = noted_step


# ---- the base ---------------------------------------------------------------------------------------------
class LRScheduler:
    """Base of the schedules. `get_lr()` of a subclass gives the rates of the groups at `last_epoch`.

    Args:
        optimizer: whose rates are set.
        last_epoch: the epoch to go on from; -1 to start.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with "
                    "last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from a checkpoint "
                    "but haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a fresh training "
                    "run (not recommended)"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self):
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        raise NotImplementedError

    def step(self, epoch=None):
        """Goes on to the next epoch and sets the rates."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(REPLACED_WARNING, UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(ORDER_WARNING, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        with self._asking():
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._set(rates)

    def _set(self, rates):
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr = self._current()

    @contextmanager
    def _asking(self):
        """While get_lr() is called by a step, and may be."""
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    # ---- for get_lr()
    def _warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning, stacklevel=3
            )

    def _current(self):
        return values_of(self.optimizer, "lr")

    def _current_times(self, factor):
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The former name of the base."""
