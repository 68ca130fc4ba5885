"""NAdam: Adam with Nesterov's momentum."""

from tensotron._core.tensor import Tensor
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

__all__ = ["NAdam"]


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, whose factor rises with the steps.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: what is kept of the two means in a step.
        eps: added to the root.
        weight_decay: L2 penalty; with `decoupled_weight_decay`, parameters shrink by lr * weight_decay instead.
        momentum_decay: how fast the factor of the momentum rises.
        foreach: accepted, without effect.
        maximize: ascends.
        capturable: refused at the first step, as in PyTorch on the CPU.
        differentiable: autograd records the step.
    """

    _absent = {
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False, "decoupled_weight_decay": False,
    }

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False):
        check_rate(lr)
        check_nonnegative(epsilon=eps)
        check_betas(betas)
        check_nonnegative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state):
        super().__setstate__(state)
        for own in self.state.values():
            if "mu_product" in own and not isinstance(own["mu_product"], Tensor):
                own["mu_product"] = counter(own["mu_product"])

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["mu_product"] = counter(1.0)
        state["exp_avg"] = zeros_of(p)
        state["exp_avg_sq"] = zeros_of(p)

    def _update(self, group, p, grad, state):
        refuse_capturable(group, "params, mu_products and state_steps")
        lr, (beta1, beta2), decay = scalar(group["lr"]), group["betas"], group["weight_decay"]
        mean, square, step, product = state["exp_avg"], state["exp_avg_sq"], state["step"], state["mu_product"]
        step += 1
        count = step.item()
        if decay != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * decay)
            else:
                grad = grad.add(p, alpha=decay)
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (count, count + 1))
        product *= mu
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = square.div(1 - beta2**count).sqrt().add(group["eps"])
        if group["differentiable"]:
            p.addcdiv_(grad * (-lr * (1.0 - mu) / (1.0 - product)), root)
            p.addcdiv_(mean * (-lr * mu_next / (1.0 - product * mu_next)), root)
        else:
            done = product.item()
            p.addcdiv_(grad, root, value=number(-lr * (1.0 - mu) / (1.0 - done)))
            p.addcdiv_(mean, root, value=number(-lr * mu_next / (1.0 - done * mu_next)))
