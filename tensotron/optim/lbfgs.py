"""L-BFGS, with or without a line search."""

from typing import NamedTuple

import tensotron
from tensotron._core.tensor import Tensor
from tensotron.autograd.grad_mode import enable_grad, no_grad
from tensotron.optim.optimizer import Optimizer, check_rate, number, scalar

__all__ = ["LBFGS"]


class Point(NamedTuple):
    """A place on the line of a search."""

    t: object  # distance from its start
    loss: float
    grad: Tensor
    slope: Tensor  # along the line


def cubic_minimum(a, b, bounds=None):
    """Where the cubic through two points, with their slopes, is least; within the bounds, else between the points."""
    low, high = bounds if bounds is not None else (a.t, b.t) if a.t <= b.t else (b.t, a.t)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    if a.t > b.t:
        a, b = b, a
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(t, low), high)


def strong_wolfe(evaluate, t, direction, start, tolerance_change, max_steps, c1=1e-4, c2=0.9):
    """A point that meets the strong Wolfe conditions, or the best one found; and the number of evaluations.

    evaluate(t) gives loss and gradient at distance t; `start` is the point at 0, `max_steps` bounds the search.
    """

    def point(t):
        loss, grad = evaluate(t)
        return Point(t, loss, grad, grad.dot(direction))

    def too_high(p):
        return p.loss > start.loss + c1 * p.t * start.slope

    def flat(p):
        return abs(p.slope) <= -c2 * start.slope

    before, now, steps, done = start, point(t), 0, False
    bracket = None  # two points around a minimum, or the one sought
    while steps < max_steps and bracket is None:
        if too_high(now) or (steps > 1 and now.loss >= before.loss):
            bracket = [before, now]
        elif flat(now):
            bracket, done = [now], True
        elif now.slope >= 0:
            bracket = [before, now]
        else:  # further out
            bounds = now.t + 0.01 * (now.t - before.t), now.t * 10
            t = cubic_minimum(before, now, bounds)
            before, now, steps = now, point(t), steps + 1
    evaluations = 1 + steps
    if bracket is None:
        bracket, done = [start, now], True

    stuck = False
    best, other = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    size = direction.abs().max()
    while not done and steps < max_steps:
        if abs(bracket[1].t - bracket[0].t) * size < tolerance_change:
            break
        t = cubic_minimum(*bracket)
        low, high = min(p.t for p in bracket), max(p.t for p in bracket)
        margin = 0.1 * (high - low)
        near_end = min(high - t, t - low) < margin
        if near_end and (stuck or t >= high or t <= low):  # nearer to the middle
            t = high - margin if abs(t - high) < abs(t - low) else low + margin
            near_end = False
        stuck = near_end
        now, steps, evaluations = point(t), steps + 1, evaluations + 1
        if too_high(now) or now.loss >= bracket[best].loss:
            bracket[other] = now
            best, other = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if flat(now):
            done = True
        elif now.slope * (bracket[other].t - bracket[best].t) >= 0:
            bracket[other] = bracket[best]
        bracket[best] = now
    return bracket[best], evaluations


class LBFGS(Optimizer):
    """L-BFGS: Newton's method with a Hessian estimated from the last gradients. One group of parameters only.

    Args:
        params: parameters.
        lr: learning rate.
        max_iter: iterations of a step.
        max_eval: evaluations of the closure in a step; None for max_iter * 1.25.
        tolerance_grad: a step ends when no element of the gradient is larger.
        tolerance_change: a step ends when no parameter, or the loss, changes by more.
        history_size: gradients that are kept.
        line_search_fn: None or "strong_wolfe".
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        check_rate(lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # ---- parameters as one vector
    def _gradient(self):
        flat = [p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) for p in self._params]
        return tensotron.cat(flat, 0)

    def _move(self, distance, direction):
        start = 0
        for p in self._params:
            p.add_(direction[start : start + p.numel()].view(p.shape), alpha=number(distance))
            start += p.numel()

    def _evaluate(self, closure, places, distance, direction):
        """Loss and gradient at a distance from `places`, where the parameters stay."""
        self._move(distance, direction)
        loss = float(closure())
        grad = self._gradient()
        for p, place in zip(self._params, places):
            p.copy_(place)
        return loss, grad

    @no_grad()
    def step(self, closure):
        """One step; `closure` computes the loss and its gradients, and is called several times. Returns the first loss."""
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        lr, max_iter, max_eval = scalar(group["lr"]), group["max_iter"], group["max_eval"]
        tolerance_change = group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def small(grad):
            return grad.abs().max() <= group["tolerance_grad"]

        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        grad = self._gradient()
        end = small(grad)
        if end:
            return first_loss
        for iteration in range(1, max_iter + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            state["prev_loss"] = loss
            t = state["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction)
            if slope > -tolerance_change:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                places = [p.clone() for p in self._params]

                def evaluate(t, places=places, direction=direction):
                    return self._evaluate(closure, places, t, direction)

                start = Point(0, loss, grad, slope)
                found, calls = strong_wolfe(evaluate, t, direction, start, 1e-9, max_eval - evaluations)
                loss, grad, t = found.loss, found.grad, found.t
                state["t"] = t
                self._move(t, direction)
                end = small(grad)
            else:
                self._move(t, direction)
                if iteration != max_iter:  # the next step would evaluate it anyway
                    loss, calls = float(closure()), 1
                    grad = self._gradient()
                    end = small(grad)
            evaluations += calls
            state["func_evals"] += calls
            if (
                evaluations >= max_eval
                or end
                or direction.mul(t).abs().max() <= tolerance_change
                or abs(loss - state["prev_loss"]) < tolerance_change
            ):
                break
        return first_loss

    @staticmethod
    def _direction(state, grad, history_size):
        """Where to go from here; takes the gradient into the history."""
        if state["n_iter"] == 1:
            state.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1, prev_flat_grad=grad.clone())
            return state["d"]
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        ys = y.dot(s)
        if ys > 1e-10:
            if len(changes) == history_size:
                for kept in (changes, steps, inverses):
                    kept.pop(0)
            changes.append(y)
            steps.append(s)
            inverses.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)
        factors = state.setdefault("al", [None] * history_size)
        q = grad.neg()
        for k in reversed(range(len(changes))):
            factors[k] = steps[k].dot(q) * inverses[k]
            q.add_(changes[k], alpha=-factors[k].item())
        direction = q.mul(state["H_diag"])
        for k in range(len(changes)):
            direction.add_(steps[k], alpha=(factors[k] - changes[k].dot(direction) * inverses[k]).item())
        state["d"] = direction
        state["prev_flat_grad"].copy_(grad)
        return direction
