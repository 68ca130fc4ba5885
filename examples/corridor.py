#!/usr/bin/env python3
"""A car in a closed corridor feels the walls with five whiskers and earns +1 for each step that it survives.

    python corridor.py --compile      with tensotron, the update recorded once and replayed
    python corridor.py --lib torch    the same program on PyTorch

Continuous PPO learns to steer; the picture shows the lap that it drives.
"""

import numpy as np
from common import Picture, must, options
from continuous_ppo import drive, train

HALF_WIDTH, SPEED, TURN = 0.8, 0.12, 0.12  # the tightest circle, of radius 1, does not fit in the corridor
REACH, SAMPLES = 2.5, 25
WHISKERS = np.array([-1.2, -0.6, 0, 0.6, 1.2])


class Corridor:
    """state: x, y, heading of each car."""

    LIMIT = 400

    def __init__(self, count, seed):
        self.count, self.random = count, np.random.default_rng(seed)
        angle = np.linspace(0, 2 * np.pi, 720, endpoint=False)
        radius = 4 + 0.7 * np.cos(3 * angle) + 0.4 * np.sin(2 * angle)
        self.line = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
        ahead = np.roll(self.line, -1, 0) - np.roll(self.line, 1, 0)
        self.tangent = ahead / np.linalg.norm(ahead, axis=1, keepdims=True)
        # the distance to the middle of the corridor, on a grid of points 0.05 apart
        grid = np.arange(-7, 7, 0.05)
        middle = self.line[::4]
        squares = [((grid[:, None] - x) ** 2 + (grid[None, :] - y) ** 2) for x, y in middle]
        self.distance = np.sqrt(np.min(squares, 0))
        self.state, self.steps = np.zeros((count, 3)), np.zeros(count, int)
        self.reset(np.ones(count, bool))

    def reset(self, which):
        place = self.random.integers(0, len(self.line), which.sum())
        tangent = self.tangent[place]
        heading = np.arctan2(tangent[:, 1], tangent[:, 0]) + self.random.uniform(-0.3, 0.3, len(place))
        self.state[which] = np.concatenate([self.line[place], heading[:, None]], 1)
        self.steps[which] = 0

    def off(self, points):
        """How far points are from the middle."""
        cell = np.clip(((points + 7) / 0.05 + 0.5).astype(int), 0, len(self.distance) - 1)
        return self.distance[cell[..., 0], cell[..., 1]]

    def observe(self):
        """The share of each whisker that is free."""
        heading = self.state[:, 2, None] + WHISKERS
        direction = np.stack([np.cos(heading), np.sin(heading)], -1)
        reach = np.linspace(REACH / SAMPLES, REACH, SAMPLES)
        points = self.state[:, None, None, :2] + direction[:, :, None] * reach[:, None]
        wall = self.off(points) > HALF_WIDTH
        return np.where(wall.any(-1), wall.argmax(-1) / SAMPLES, 1).astype(np.float32)

    def step(self, actions):
        heading = self.state[:, 2] + TURN * np.clip(actions, -1, 1)
        self.state = np.stack(
            [self.state[:, 0] + SPEED * np.cos(heading), self.state[:, 1] + SPEED * np.sin(heading), heading], 1
        )
        self.steps += 1
        crashed = self.off(self.state[:, :2]) > HALF_WIDTH
        return crashed, ~crashed & (self.steps >= self.LIMIT)

    def walls(self):
        normal = np.stack([-self.tangent[:, 1], self.tangent[:, 0]], 1)
        return [np.concatenate([w, w[:1]]) for w in (self.line + side * HALF_WIDTH * normal for side in (-1, 1))]


torch, args = options(__doc__, steps=40, compiles=True)
agent, curve = train(torch, Corridor(32, args.seed), args.steps, args.compile)
corridor = Corridor(50, args.seed + 1)
path, survived = drive(torch, agent, corridor, Corridor.LIMIT)
car = path[: survived[0] + 1, 0]
turned = np.unwrap(np.arctan2(car[:, 1], car[:, 0]))
laps = (turned - turned[0]) / (2 * np.pi)
print(f"greedy: {survived.mean():.1f} of {Corridor.LIMIT} steps, mean of {len(survived)} cars; one drove {laps[-1]:.2f} laps")

with Picture(args.plot, 2) as (left, right):
    left.plot(curve)
    left.set_xlabel("iteration")
    left.set_ylabel("steps survived")
    for wall in corridor.walls():
        right.plot(*wall.T, color="black", linewidth=1.5)
    lap = car[: int(np.argmax(laps >= 1)) + 1] if laps[-1] >= 1 else car
    right.scatter(*lap[:, :2].T, c=np.arange(len(lap)), cmap="viridis", s=6)
    corridor.state = path[0]
    for reach, direction in zip(REACH * corridor.observe()[0], lap[0, 2] + WHISKERS):
        right.plot(*(lap[0, :2, None] + np.outer([np.cos(direction), np.sin(direction)], [0, reach])), color="C1", linewidth=0.8)
    right.set_aspect("equal")
    right.set_title(f"a lap in {len(lap)} steps" if laps[-1] >= 1 else f"{laps[-1]:.2f} of a lap")
must(survived.mean() > 0.9 * Corridor.LIMIT and laps[-1] >= 1, f"{survived.mean():.1f} steps, {laps[-1]:.2f} laps")
