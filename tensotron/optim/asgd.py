"""Averaged stochastic gradient descent."""

from tensotron._core.tensor import Tensor
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

__all__ = ["ASGD"]


class ASGD(Optimizer):
    """Gradient descent with a falling rate; `state[p]["ax"]` is the average of the parameter from step t0 on.

    Args:
        params: parameters, or groups of them.
        lr: learning rate at the start.
        lambd: how fast the rate and the parameters decay.
        alpha: power of the decay of the rate.
        t0: step from which on the average is one.
        weight_decay: L2 penalty.
        foreach: accepted, without effect.
        maximize: ascends.
        differentiable: autograd records the step.
        capturable: refused at the first step, as in PyTorch on the CPU.
    """

    _absent = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        check_rate(lr)
        check_nonnegative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state):
        super().__setstate__(state)
        for own in self.state.values():
            for name in ("eta", "mu"):
                if name in own and not isinstance(own[name], Tensor):
                    own[name] = counter(own[name])

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["eta"] = counter(number(group["lr"]))
        state["mu"] = counter(1.0)
        state["ax"] = zeros_of(p)

    def _update(self, group, p, grad, state):
        refuse_capturable(group, "params, mus, etas, and state_steps")
        lr, lambd = number(scalar(group["lr"])), group["lambd"]
        average, mu, eta, step = state["ax"], state["mu"], state["eta"], state["step"]
        step += 1
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        rate = eta.item()
        p.mul_(1 - lambd * rate)
        p.add_(grad, alpha=-rate)
        if mu.item() != 1:
            average.add_(p.sub(average).mul_(mu))
        else:
            average.copy_(p)
        count = step.item()
        eta.fill_(lr / (1 + lambd * lr * count) ** group["alpha"])
        mu.fill_(1 / max(1, count - group["t0"]))
