"""Adadelta."""

from tensotron.optim.optimizer import (
    Optimizer,
    check_nonnegative,
    check_rate,
    counter,
    grouped_step,
    number,
    refuse_capturable,
    scalar,
    zeros_of,
)

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """Steps by the gradient, scaled by the root mean square of the steps so far over that of the gradients.

    Args:
        params: parameters, or groups of them.
        lr: factor of the step.
        rho: what is kept of the means of squares in a step.
        eps: added to the means.
        weight_decay: L2 penalty.
        foreach: accepted, without effect.
        capturable: refused at the first step, as in PyTorch on the CPU.
        maximize: ascends.
        differentiable: autograd records the step.
    """

    _absent = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False,
                 differentiable=False):
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_nonnegative(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "capturable": capturable,
            "foreach": foreach, "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["square_avg"] = zeros_of(p)
        state["acc_delta"] = zeros_of(p)

    def _update(self, group, p, grad, state):
        refuse_capturable(group, xla=False)
        rho, eps = group["rho"], group["eps"]
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        square, steps = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = steps.add(eps).sqrt().div(square.add(eps).sqrt()).mul(grad)
        steps.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-number(scalar(group["lr"])))
