"""PPO with a normal policy, for pole_cart.py and corridor.py.

An environment is several at once, in numpy: `observe()` gives [count, features], `step(actions)` (terminated, truncated)
with +1 for each step survived, `reset(which)` begins some of them anew.
"""

import math

import numpy as np
from common import progress

HORIZON, EPOCHS, MINIBATCH = 64, 8, 128
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


def make_agent(torch, features):
    nn = torch.nn

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
            self.critic = nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
            self.log_std = nn.Parameter(torch.full((1,), math.log(0.5)))
            with torch.no_grad():
                self.actor[-1].weight.mul_(0.01)  # begin by doing little

        def policy(self, observations):
            return torch.distributions.Normal(self.actor(observations), self.log_std.exp(), validate_args=False)

        def value(self, observations):
            return self.critic(observations).squeeze(-1)

    return Agent()


def train(torch, env, iterations, compiled=False):
    """(agent, mean lengths of episodes after each iteration)."""
    agent = make_agent(torch, env.observe().shape[1])
    parameters = list(agent.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-3, eps=1e-5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 - i / iterations)

    def update(index, observations, actions, old_log_probs, advantages, returns):
        optimizer.zero_grad()
        observations, advantages = observations[index], advantages[index]
        log_probs = agent.policy(observations).log_prob(actions[index]).sum(-1)
        ratio = (log_probs - old_log_probs[index]).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()
        loss = policy_loss + 0.5 * torch.nn.functional.mse_loss(agent.value(observations), returns[index])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return loss.detach()

    if compiled:
        update = torch.compile(update)
    lengths, finished, curve = np.zeros(env.count), [], []
    for _, show in progress(iterations):
        steps = []
        for _ in range(HORIZON):
            observations = torch.from_numpy(env.observe())
            with torch.no_grad():
                policy = agent.policy(observations)
                actions = policy.sample()
                log_probs, values = policy.log_prob(actions).sum(-1), agent.value(observations)
            terminated, truncated = env.step(actions.numpy()[:, 0])
            lengths += 1
            ends = terminated | truncated
            rewards = torch.ones(env.count)
            if truncated.any():  # the time was up, nothing went wrong: what would have come
                with torch.no_grad():
                    rewards += GAMMA * agent.value(torch.from_numpy(env.observe())) * torch.from_numpy(truncated)
            if ends.any():
                finished += lengths[ends].tolist()
                lengths[ends] = 0
                env.reset(ends)
            steps.append((observations, actions, log_probs, values, rewards, torch.from_numpy(ends).float()))
        observations, actions, log_probs, values, rewards, ends = (torch.stack(s) for s in zip(*steps))
        with torch.no_grad():
            following = agent.value(torch.from_numpy(env.observe()))
            advantages, running = torch.zeros_like(values), torch.zeros(env.count)
            for t in reversed(range(HORIZON)):
                going = GAMMA * (1 - ends[t])
                running = rewards[t] + going * following - values[t] + LAMBDA * going * running
                advantages[t], following = running, values[t]
            batch = [t.flatten(0, 1) for t in (observations, actions, log_probs, advantages, advantages + values)]
        for _ in range(EPOCHS):
            for index in torch.randperm(HORIZON * env.count).split(MINIBATCH):
                update(index, *batch)
        scheduler.step()
        finished = finished[-100:]
        curve.append(float(np.mean(finished)) if finished else 0.0)
        show(length=curve[-1])
    return agent, curve


def drive(torch, agent, env, steps):
    """Greedy steps, without new episodes: ([steps, count, state], how many steps each survived)."""
    alive, survived, path = np.ones(env.count, bool), np.zeros(env.count, int), []
    for _ in range(steps):
        path.append(env.state.copy())
        with torch.no_grad():
            actions = agent.actor(torch.from_numpy(env.observe())).numpy()[:, 0]
        terminated, _ = env.step(actions)
        alive &= ~terminated
        survived += alive
    return np.stack(path), survived
