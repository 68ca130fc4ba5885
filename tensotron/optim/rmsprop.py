"""RMSprop."""

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

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Steps by the gradient over the root of the running mean of its square.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        alpha: what is kept of the mean in a step.
        eps: added to the root.
        weight_decay: L2 penalty.
        momentum: what is kept of the buffer in a step; no buffer if 0.
        centered: the variance of the gradient takes the place of the mean of its square.
        capturable: refused at the first step, as in PyTorch on the CPU.
        foreach: accepted; the step is one kernel anyway.
        maximize: ascends.
        differentiable: autograd records the step.
    """

    _algorithm = "RMSprop"
    _absent = {
        "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False, "capturable": False,
    }

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False,
                 foreach=None, maximize=False, differentiable=False):
        check_rate(lr)
        check_nonnegative(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay,
            "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["square_avg"] = zeros_of(p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_of(p)
        if group["centered"]:
            state["grad_avg"] = zeros_of(p)

    def _update(self, group, p, grad, state):
        refuse_capturable(group)
        lr, alpha, square = scalar(group["lr"]), group["alpha"], state["square_avg"]
        state["step"] += 1
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square.sqrt()
        root = root.add(group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root)
            p.add_(buffer, alpha=-number(lr))
        else:
            p.addcdiv_(grad, root, value=-number(lr))
