"""Schedules made of schedules, and the one that follows a metric."""

import warnings
from bisect import bisect_right

from tensotron.optim._scheduler import EPOCH_DEPRECATION_WARNING, LRScheduler, check_optimizer, set_value, values_of


class _Composite(LRScheduler):
    """Schedules made of others, all of one optimiser."""

    def _check_members(self, optimizer, schedulers):
        name = type(self).__name__
        for number, member in enumerate(schedulers):
            if not hasattr(member, "optimizer"):
                raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
            if isinstance(member, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified "
                    f"when calling `step`, but got one at index {number} in the given schedulers sequence."
                )
            if optimizer != member.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(member).__name__} at index {number} has {member.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )

    def state_dict(self):
        """Everything but the optimiser; of the members their state dicts."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [member.state_dict() for member in self._schedulers]
        return state

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update((key, value) for key, value in state_dict.items() if key != "_schedulers")
        for member, state in zip(self._schedulers, state_dict["_schedulers"]):
            member.load_state_dict(state)


class SequentialLR(_Composite):
    """One schedule after the other, each from its milestone on.

    Args:
        optimizer: whose rates are set.
        schedulers: the schedules.
        milestones: the epochs at which the second, third, ... takes over.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check_members(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                f"{len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # every member has made its first step when it was made: undo them all, repeat that of the first
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched=None):
        """Takes one epoch back in every member, or in those of `sched`."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for member in sched._schedulers:
                self.recursive_undo(member)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self):
        """Goes on to the next epoch and sets the rates."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        member = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            member._update_lr(0)
        else:
            member.step()
        self._last_lr = member.get_last_lr()


class ChainedScheduler(_Composite):
    """All schedules at once, each changing the rate that those before it have left.

    Args:
        schedulers: the schedules.
        optimizer: whose rates are set; that of the first schedule if None.
    """

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        self._check_members(optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = values_of(schedulers[-1].optimizer, "lr")

    def step(self):
        """Goes on to the next epoch and sets the rates."""
        for member in self._schedulers:
            member.step()
        self._last_lr = values_of(self._schedulers[-1].optimizer, "lr")


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a metric has stopped to improve.

    Args:
        optimizer: whose rates are set.
        mode: "min" or "max": what improvement means.
        factor: below 1.
        patience: epochs without improvement that are let pass.
        threshold: what counts as improvement.
        threshold_mode: "rel" or "abs": the threshold is a share of the best value, or a difference.
        cooldown: epochs after a reduction that are not counted.
        min_lr: the lowest rate, or a list of one for each group.
        eps: a smaller change of the rate is not made.
    """

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0,
                 min_lr=0, eps=1e-8):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self):
        """Forgets the metrics so far."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics, epoch=None):
        """Takes the metric of an epoch and sets the rates."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    def _reduce_lr(self, epoch):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when `ReduceLROnPlateau` was "
                    f"initialized ({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. "
                    "Please modify the `min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            before = float(group["lr"])
            after = max(before * self.factor, least)
            if before - after > self.eps:
                set_value(group, "lr", after)

    @property
    def in_cooldown(self):
        """Whether epochs are not counted now."""
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return a > (best * (self.threshold + 1.0) if self.threshold_mode == "rel" else best + self.threshold)

    def _init_is_better(self, mode, threshold, threshold_mode):
        if mode not in {"min", "max"}:
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in {"rel", "abs"}:
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.mode_worse = float("inf") if mode == "min" else -float("inf")
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
