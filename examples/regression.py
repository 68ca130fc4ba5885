#!/usr/bin/env python3
"""Fits a noisy curve with a small net and plots the fit.

    python regression.py --plot fit.png         with tensotron
    python regression.py --lib torch            the same program on PyTorch
"""

import argparse
import importlib
import sys
import time


def train(torch, steps, progress):
    """``(xs, ys, fit, losses)`` after ``steps`` of full-batch gradient descent with momentum."""
    torch.manual_seed(0)
    x = torch.rand(256, 1) * 6 - 3
    y = (2 * x).sin() + 0.3 * x + 0.1 * torch.randn(256, 1)

    def weights(*shape):
        return (torch.randn(*shape) / shape[0] ** 0.5).requires_grad_()

    params = [
        weights(1, 64),
        torch.zeros(64, requires_grad=True),
        weights(64, 64),
        torch.zeros(64, requires_grad=True),
        weights(64, 1),
        torch.zeros(1, requires_grad=True),
    ]
    momenta = [torch.zeros_like(p) for p in params]

    def net(inputs):
        w1, b1, w2, b2, w3, b3 = params
        hidden = (inputs @ w1 + b1).tanh()
        hidden = (hidden @ w2 + b2).tanh()
        return hidden @ w3 + b3

    losses = []
    for step in range(steps):
        loss = (net(x) - y).square().mean()
        loss.backward()
        rate = 0.02 * (1 - step / steps)
        with torch.no_grad():
            for p, m in zip(params, momenta):
                m.mul_(0.9).add_(p.grad)
                p.sub_(rate * m)
                p.grad = None
        losses.append(loss.item())
        progress(step + 1, losses[-1])
    with torch.no_grad():
        grid = torch.arange(-3.0, 3.0, 0.02).reshape(-1, 1)
        fit = net(grid)
    return (x, y), (grid, fit), losses


def plot(path, data, curve, losses):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    left.scatter(*(t.reshape(-1).tolist() for t in data), s=6, alpha=0.5, label="data")
    left.plot(*(t.reshape(-1).tolist() for t in curve), color="C1", label="fit")
    left.legend()
    right.plot(losses)
    right.set_yscale("log")
    right.set_xlabel("step")
    right.set_ylabel("mean squared error")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", default="tensotron", help="tensotron or torch")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--plot", metavar="PNG", help="where to write the picture")
    args = parser.parse_args()
    torch = importlib.import_module(args.lib)
    began = time.perf_counter()

    def progress(step, loss):
        if step % 100 == 0 or step == args.steps:
            rate = step / (time.perf_counter() - began)
            text = f"{step:5d}  loss {loss:.5f}  {rate:7.0f} steps/s"
            end = "\n" if step == args.steps or not sys.stdout.isatty() else "\r"
            print(f"[{'#' * (30 * step // args.steps):30}] {text}", end=end, flush=True)

    data, curve, losses = train(torch, args.steps, progress)
    if args.plot:
        plot(args.plot, data, curve, losses)
        print(f"plot: {args.plot}")
    if not losses[-1] < 0.05:
        sys.exit(f"the net did not learn: loss {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
