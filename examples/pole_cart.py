#!/usr/bin/env python3
"""A pole on a cart that is pushed with any force from -10 to 10 N: continuous PPO; draws an episode.

    python pole_cart.py --compile      with tensotron, the update recorded once and replayed
    python pole_cart.py --lib torch    the same program on PyTorch
"""

import numpy as np
from common import Picture, must, options
from continuous_ppo import drive, train


class PoleCart:
    """Cart of 1 kg, pole of 0.1 kg and 1 m; falls beyond 0.21 rad or 2.4 m; 500 steps of 0.02 s."""

    LIMIT = 500

    def __init__(self, count, seed):
        self.count, self.random = count, np.random.default_rng(seed)
        self.state, self.steps = np.zeros((count, 4)), np.zeros(count, int)
        self.reset(np.ones(count, bool))

    def reset(self, which):
        self.state[which] = self.random.uniform(-0.05, 0.05, (which.sum(), 4))
        self.steps[which] = 0

    def observe(self):
        return (self.state * (0.4, 0.5, 5, 0.5)).astype(np.float32)

    def step(self, actions):
        x, v, angle, spin = self.state.T
        sine, cosine = np.sin(angle), np.cos(angle)
        pushed = (10 * np.clip(actions, -1, 1) + 0.05 * spin**2 * sine) / 1.1
        spin_rate = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        speed_rate = pushed - 0.05 * spin_rate * cosine / 1.1
        self.state = self.state + 0.02 * np.stack([v, speed_rate, spin, spin_rate], 1)
        self.steps += 1
        fallen = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21)
        return fallen, ~fallen & (self.steps >= self.LIMIT)


torch, args = options(__doc__, steps=100, compiles=True)
agent, curve = train(torch, PoleCart(32, args.seed), args.steps, args.compile)
path, survived = drive(torch, agent, PoleCart(50, args.seed + 1), PoleCart.LIMIT)
print(f"greedy: {survived.mean():.1f} of {PoleCart.LIMIT} steps, mean of {len(survived)} episodes")

with Picture(args.plot, 2) as (left, right):
    left.plot(curve)
    left.set_xlabel("iteration")
    left.set_ylabel("steps survived")
    for i, state in enumerate(path[: survived[0] : 5, 0]):
        right.plot(
            [state[0], state[0] + np.sin(state[2])], [0, np.cos(state[2])], color=(0.1, 0.3, 0.6), alpha=0.1 + 0.4 * (i % 20 == 0)
        )
    right.set_aspect("equal", adjustable="datalim")
    right.set_title(f"an episode of {survived[0]} steps, every fifth pole")
must(survived.mean() > 450, f"{survived.mean():.1f} steps")
