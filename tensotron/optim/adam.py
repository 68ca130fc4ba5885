"""Adam, with the weight decay of Adam or of AdamW."""

import tensotron
from tensotron._core.tensor import Tensor
from tensotron.optim.optimizer import (
    Optimizer,
    check_betas,
    check_fused,
    check_nonnegative,
    check_rate,
    counter,
    grouped_step,
    number,
    refuse_capturable,
    scalar,
    zeros_of,
)

__all__ = ["Adam"]


class Adam(Optimizer):
    """Adam: steps by the running mean of the gradient over the root of the running mean of its square.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: what is kept of the two means in a step.
        eps: added to the root.
        weight_decay: L2 penalty; with `decoupled_weight_decay`, parameters shrink by lr * weight_decay instead.
        amsgrad: the largest mean of squares so far is used.
        maximize: ascends.
        foreach, fused: accepted; the step is one kernel anyway.
        capturable: refused at the first step, as in PyTorch on the CPU.
        differentiable: autograd records the step.
    """

    _algorithm = "Adam"
    _absent = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_rate(lr)
        check_nonnegative(epsilon=eps)
        check_betas(betas)
        check_nonnegative(weight_decay=weight_decay)
        if not any(all(isinstance(beta, kind) for beta in betas[:2]) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")
        for k, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if not capturable and foreach:
                    raise ValueError(f"betas[{k}] as a Tensor is not supported for capturable=False and foreach=True")
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{k}] must be 1-element")
        defaults = {
            "lr": lr, "betas": tuple(map(scalar, betas)), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused(self, fused, foreach, differentiable)

    step = grouped_step

    def _init_state(self, group, p, state):
        state["step"] = counter()
        state["exp_avg"] = zeros_of(p)
        state["exp_avg_sq"] = zeros_of(p)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_of(p)

    def _update(self, group, p, grad, state):
        refuse_capturable(group)
        lr, eps, decay, differentiable = scalar(group["lr"]), group["eps"], group["weight_decay"], group["differentiable"]
        beta1, beta2 = (b.to(p.dtype) if isinstance(b, Tensor) else b for b in map(scalar, group["betas"]))
        mean, square, step = state["exp_avg"], state["exp_avg_sq"], state["step"]
        if not isinstance(step, Tensor):
            raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
        step += 1
        if decay != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * decay)
            elif differentiable and isinstance(decay, Tensor) and decay.requires_grad:
                grad = grad.addcmul(p.clone(), decay)
            else:
                grad = grad.add(p, alpha=number(decay))
        mean.lerp_(grad, 1 - beta1)
        if differentiable and isinstance(beta2, Tensor) and beta2.requires_grad:
            square.lerp_(grad.square(), 1 - beta2)
        else:
            square.mul_(beta2).addcmul_(grad, grad, value=number(1 - beta2))
        if not differentiable:
            count = step.item()
            rate, root = lr / (1 - beta1**count), (1 - beta2**count) ** 0.5
            if group["amsgrad"]:
                largest = state["max_exp_avg_sq"]
                square = tensotron.maximum(largest, square, out=largest)
            p.addcdiv_(mean, (square.sqrt() / root).add_(eps), value=-number(rate))
            return
        count = step.clone() if isinstance(beta1, Tensor) and beta1.requires_grad else step
        rate = -(lr / (1 - beta1**count))
        root = (1 - beta2**count).sqrt()
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            square = largest.copy_(tensotron.maximum(largest.clone(), square))
        p.addcdiv_(mean.clone(), (square.sqrt() / (root * rate)).add_(eps / rate))
