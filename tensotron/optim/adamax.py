"""Adamax."""

import tensotron
from tensotron.optim.optimizer import (
    Optimizer,
    check_betas,
    check_nonnegative,
    check_rate,
    counter,
    grouped_step,
    number,
    refuse_capturable,
    scalar,
    zeros_of,
)

__all__ = ["Adamax"]


class Adamax(Optimizer):
    """Adam with the largest recent gradient in the place of the root mean square.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: what is kept of the mean and of the maximum in a step.
        eps: added to the magnitude of the gradient.
        weight_decay: L2 penalty.
        foreach: accepted, without effect.
        maximize: ascends.
        differentiable: autograd records the step.
        capturable: refused at the first step, as in PyTorch on the CPU.
    """

    _absent = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        check_rate(lr)
        check_nonnegative(epsilon=eps)
        check_betas(betas)
        check_nonnegative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }
        super().__init__(params, defaults)

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["exp_avg"] = zeros_of(p)
        state["exp_inf"] = zeros_of(p)

    def _update(self, group, p, grad, state):
        refuse_capturable(group)
        beta1, beta2 = group["betas"]
        mean, largest, step = state["exp_avg"], state["exp_inf"], state["step"]
        step += 1
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(tensotron.maximum(largest.mul_(beta2), grad.abs().add(group["eps"])))
        rate = scalar(group["lr"]) / (1 - beta1 ** step.item())
        p.addcdiv_(mean, largest, value=-number(rate))
