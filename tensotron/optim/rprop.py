"""Resilient backpropagation."""

from tensotron._core.creation import full_like
from tensotron.optim.optimizer import Optimizer, check_rate, counter, grouped_step, number, refuse_capturable, zeros_of

__all__ = ["Rprop"]


class Rprop(Optimizer):
    """Steps by the sign of the gradient; the size of each element's step grows while the sign stays.

    Args:
        params: parameters, or groups of them.
        lr: size of the first step.
        etas: factors of the size, where the sign has changed and where it has not.
        step_sizes: the least and the greatest size.
        capturable: refused at the first step, as in PyTorch on the CPU.
        foreach: accepted, without effect.
        maximize: ascends.
        differentiable: autograd records the step.
    """

    _absent = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }
        super().__init__(params, defaults)

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["prev"] = zeros_of(p)
        state["step_size"] = full_like(p.grad, number(group["lr"]))

    def _update(self, group, p, grad, state):
        refuse_capturable(group)
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        before, size = state["prev"], state["step_size"]
        state["step"] += 1
        sign = grad.mul(before).sign()
        factor = sign.masked_fill(sign > 0, grow).masked_fill(sign < 0, shrink).masked_fill(sign == 0, 1)  # NaN stays
        size.mul_(factor).clamp_(least, most)
        grad = grad.masked_fill(sign < 0, 0.0)
        p.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)
