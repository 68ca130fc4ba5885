"""RAdam: Adam with a rectified start."""

from tensotron.optim.optimizer import (
    Optimizer,
    check_betas,
    check_nonnegative,
    check_rate,
    counter,
    grouped_step,
    refuse_capturable,
    scalar,
    zeros_of,
)

__all__ = ["RAdam"]


class RAdam(Optimizer):
    """Adam that goes by the mean of the gradient alone until the variance of its second moment is tractable.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: what is kept of the two means in a step.
        eps: added to the root.
        weight_decay: L2 penalty; with `decoupled_weight_decay`, parameters shrink by lr * weight_decay instead.
        foreach: accepted, without effect.
        maximize: ascends.
        capturable: refused at the first step, as in PyTorch on the CPU.
        differentiable: autograd records the step.
    """

    _absent = {
        "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False, "capturable": False,
    }

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        check_rate(lr)
        check_nonnegative(epsilon=eps)
        check_betas(betas)
        check_nonnegative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["exp_avg"] = zeros_of(p)
        state["exp_avg_sq"] = zeros_of(p)

    def _update(self, group, p, grad, state):
        refuse_capturable(group)
        lr, (beta1, beta2), decay = scalar(group["lr"]), group["betas"], group["weight_decay"]
        mean, square, step = state["exp_avg"], state["exp_avg_sq"], state["step"]
        step += 1
        count = step.item()
        if decay != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * decay)
            else:
                grad = grad.add(p, alpha=decay)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction = 1 - beta2**count
        most = 2 / (1 - beta2) - 1  # length of the average in the limit, and now
        length = most - 2 * count * (beta2**count) / correction
        update = mean / (1 - beta1**count) * lr
        if length > 5.0:
            rectifier = ((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) ** 0.5
            update = update * (correction**0.5 / square.sqrt().add(group["eps"])) * rectifier
        p.add_(update, alpha=-1.0)
