"""Stochastic gradient descent."""

from tensotron._core.tensor import Tensor
from tensotron.optim.optimizer import Optimizer, check_fused, grouped_step, number, scalar

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent, with momentum where `momentum` is not 0.

    The buffer of the momentum starts as the first gradient, to which `dampening` does not apply.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        momentum: what is kept of the buffer in a step.
        dampening: share of a gradient that does not enter the buffer.
        weight_decay: L2 penalty.
        nesterov: Nesterov's momentum.
        maximize: ascends.
        foreach, fused: accepted; the step is one kernel anyway.
        differentiable: autograd records the step.
    """

    _algorithm = "SGD"
    _absent = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(self, fused, foreach, differentiable)

    step = grouped_step

    def _update_group(self, group, params):
        for p in params:  # there is no state without momentum
            self._update(group, p, -p.grad if group["maximize"] else p.grad, None)

    def _update(self, group, p, grad, state):
        lr, decay, momentum = scalar(group["lr"]), group["weight_decay"], group["momentum"]
        if decay != 0:
            if isinstance(decay, Tensor) and decay.requires_grad:
                grad = grad.addcmul(p.clone(), decay)
            else:
                grad = grad.add(p, alpha=number(decay))
        if momentum != 0:
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        if isinstance(lr, Tensor) and lr.requires_grad:
            p.addcmul_(grad, lr, value=-1)
        else:
            p.add_(grad, alpha=-number(lr))
