"""Schedules of the learning rate."""

import math
import types
from bisect import bisect_right
from collections import Counter

from tensotron.optim._cyclic import CyclicLR, OneCycleLR
from tensotron.optim._scheduler import LRScheduler, _LRScheduler  # noqa: F401  (its former name)
from tensotron.optim._schedules import ChainedScheduler, ReduceLROnPlateau, SequentialLR

__all__ = [
    "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "SequentialLR",
    "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR", "CosineAnnealingWarmRestarts", "OneCycleLR",
    "PolynomialLR", "LRScheduler",
]


class _ByFunction(LRScheduler):
    """Schedules by a function of the epoch, one for all groups or one for each."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            self.lr_lambdas = [lr_lambda] * groups
        elif len(lr_lambda) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self):
        pass

    def state_dict(self):
        """Everything but the optimiser and plain functions; of callable objects their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(fn, types.FunctionType) else fn.__dict__.copy() for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update((key, value) for key, value in state_dict.items() if key != "lr_lambdas")
        for fn, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if attributes is not None:
                fn.__dict__.update(attributes)


class LambdaLR(_ByFunction):
    """The initial rate times lr_lambda(epoch).

    Args:
        optimizer: whose rates are set.
        lr_lambda: the function, or a list of one for each group.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunction):
    """The rate before times lr_lambda(epoch).

    Args:
        optimizer: whose rates are set.
        lr_lambda: the function, or a list of one for each group.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def _check_functions(self):
        for fn in self.lr_lambdas:
            if not callable(fn):
                raise TypeError(f"lr_lambda should be a function, but got {type(fn).__name__}")

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        groups = self.optimizer.param_groups
        return [group["lr"] * fn(self.last_epoch) for fn, group in zip(self.lr_lambdas, groups, strict=True)]


class StepLR(LRScheduler):
    """The rate times gamma every `step_size` epochs.

    Args:
        optimizer: whose rates are set.
        step_size: epochs between two changes.
        gamma: the factor.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._current()
        return self._current_times(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times gamma at each milestone.

    Args:
        optimizer: whose rates are set.
        milestones: epochs; one that occurs twice counts twice.
        gamma: the factor.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._current()
        return self._current_times(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times `factor` until epoch `total_iters`.

    Args:
        optimizer: whose rates are set.
        factor: between 0 and 1.
        total_iters: the epoch at which the rate is restored.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._current_times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._current()
        return self._current_times(1.0 / self.factor)

    def _get_closed_form_lr(self):
        over = self.last_epoch >= self.total_iters
        return [base * (self.factor + over * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes linearly from `start_factor` to `end_factor` in `total_iters` epochs.

    Args:
        optimizer: whose rates are set.
        start_factor: above 0, at most 1.
        end_factor: between 0 and 1.
        total_iters: epochs from one to the other.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._current_times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        return self._current_times(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self):
        done = min(self.total_iters, self.last_epoch)
        rise = self.end_factor - self.start_factor
        return [base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times gamma every epoch.

    Args:
        optimizer: whose rates are set.
        gamma: the factor.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        return self._current() if self._is_initial else self._current_times(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate times (1 - epoch / total_iters) ** power.

    Args:
        optimizer: whose rates are set.
        total_iters: the epoch at which the rate is 0.
        power: of the polynomial.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._current_times((now / before) ** self.power)

    def _get_closed_form_lr(self):
        done = min(self.total_iters, self.last_epoch)
        return [base * (1.0 - done / self.total_iters) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate along half a cosine, from the initial one to `eta_min` in `T_max` epochs, and back.

    Args:
        optimizer: whose rates are set.
        T_max: epochs from the highest to the lowest rate.
        eta_min: the lowest rate.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        low, groups = self.eta_min, self.optimizer.param_groups
        if self._step_count == 1 and self.last_epoch > 0:
            angle = self.last_epoch * math.pi / self.T_max
            return [
                low + (base - low) * (1 + math.cos(angle)) / 2 for base, _ in zip(self.base_lrs, groups, strict=True)
            ]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the quotient below would be by 0
            rise = 1 - math.cos(math.pi / self.T_max)
            return [g["lr"] + (base - low) * rise / 2 for base, g in zip(self.base_lrs, groups, strict=True)]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self):
        cosine = math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * (1 + cosine) / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate along half a cosine from the initial one to `eta_min`, again and again.

    Args:
        optimizer: whose rates are set.
        T_0: epochs of the first time.
        T_mult: how many times longer the next one is.
        eta_min: the lowest rate.
        last_epoch: the epoch to go on from; -1 to start.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rates of the groups at `last_epoch`."""
        self._warn_outside_step()
        cosine = math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * (1 + cosine) / 2 for base in self.base_lrs]

    def step(self, epoch=None):
        """Goes on to the next epoch, or to any (also within an epoch, as a fraction), and sets the rates."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i = self.T_0
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts
        self.last_epoch = math.floor(epoch)
        with self._asking():
            rates = self.get_lr()
        self._set(rates)
