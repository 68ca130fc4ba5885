"""Adagrad."""

from tensotron._core.creation import full_like
from tensotron.optim.optimizer import (
    Optimizer,
    check_fused,
    check_nonnegative,
    check_rate,
    counter,
    grouped_step,
    number,
    scalar,
)

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Steps by the gradient over the root of the sum of its squares so far.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        lr_decay: the rate of step t is lr / (1 + (t - 1) * lr_decay).
        weight_decay: L2 penalty.
        initial_accumulator_value: where the sums start.
        eps: added to the root.
        foreach, fused: accepted, without effect.
        maximize: ascends.
        differentiable: autograd records the step.
    """

    _absent = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *,
                 maximize=False, differentiable=False, fused=None):
        check_rate(lr)
        check_nonnegative(
            lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, epsilon=eps
        )
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(self, fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self._init_state(group, p, self.state[p])

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["sum"] = full_like(p, self.defaults["initial_accumulator_value"])

    def _update(self, group, p, grad, state):
        step = state["step"]
        step += 1
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        rate = scalar(group["lr"]) / (1 + (step.item() - 1) * group["lr_decay"])
        root = state["sum"].addcmul_(grad, grad, value=1).sqrt().add(group["eps"])
        p.addcdiv_(grad, root, value=-number(rate))
