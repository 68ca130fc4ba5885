#!/usr/bin/env python3
"""PPO on gymnasium's CartPole-v1.

    python cartpole_ppo.py                    with tensotron
    python cartpole_ppo.py --compile          the update recorded once and replayed
    python cartpole_ppo.py --resume           goes on from the checkpoint, to the same weights bit for bit
    python cartpole_ppo.py --lib torch        the same program on PyTorch
"""

import argparse
import hashlib
import importlib
import os
import random
import sys
import time
from collections import deque

os.environ.setdefault("OMP_NUM_THREADS", "1")  # nets this small lose by threads, in either library

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--lib", default="tensotron", help="tensotron or torch")
parser.add_argument("--compile", action="store_true", help="compile() the update")
parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
parser.add_argument("--steps", type=int, default=98304, help="steps of all environments together")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--checkpoint", default="cartpole.pt", metavar="FILE")
parser.add_argument("--checkpoint-every", type=int, default=16, metavar="ITERATIONS")
parser.add_argument("--plot", default="cartpole.png", metavar="PNG")
parser.add_argument("--episodes", type=int, default=100, help="greedy episodes of the evaluation")
parser.add_argument("--target", type=float, default=475, help="the mean return it must reach")
args = parser.parse_args()

try:
    import gymnasium
    import matplotlib
    import numpy as np
    from tqdm import tqdm
except ImportError as e:
    sys.exit(f"{e}; the examples need: pip install 'tensotron[examples]'")

torch = importlib.import_module(args.lib)  # import tensotron as torch
nn = torch.nn
Categorical = torch.distributions.Categorical

ENVS, HORIZON, EPOCHS, MINIBATCH = 8, 32, 10, 64
BATCH = ENVS * HORIZON
GAMMA, LAMBDA, CLIP, ENTROPY = 0.98, 0.9, 0.2, 0.0
LEARNING_RATE = 1e-3


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        with torch.no_grad():
            self.actor[-1].weight.mul_(0.01)  # near uniform at first

    def policy(self, observations):
        return Categorical(logits=self.actor(observations), validate_args=False)

    def value(self, observations):
        return self.critic(observations).squeeze(-1)


class Environments:
    """CartPole several times, with a state that can be saved."""

    def __init__(self, count, seed):
        self.envs = [gymnasium.make("CartPole-v1", disable_env_checker=True) for _ in range(count)]
        self.observations = np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(self.envs)])
        self.returns = np.zeros(count)

    def step(self, actions):
        """(rewards, terminated, truncated, the last observations of episodes that ended)."""
        rewards = np.zeros(len(self.envs), np.float32)
        terminated, truncated = (np.zeros(len(self.envs), bool) for _ in range(2))
        last = {}
        for i, (env, action) in enumerate(zip(self.envs, actions.tolist())):
            observation, rewards[i], terminated[i], truncated[i], _ = env.step(action)
            if terminated[i] or truncated[i]:
                last[i] = observation
                observation, _ = env.reset()
            self.observations[i] = observation
        self.returns += rewards
        return rewards, terminated, truncated, last

    def state_dict(self):
        inner = [env.unwrapped for env in self.envs]
        return {
            "states": [[float(v) for v in env.state] for env in inner],
            "beyond": [env.steps_beyond_terminated for env in inner],
            "elapsed": [time_limit(env)._elapsed_steps for env in self.envs],
            "random": [env.np_random.bit_generator.state for env in inner],
            "observations": self.observations.tolist(),
            "returns": self.returns.tolist(),
        }

    def load_state_dict(self, saved):
        for i, env in enumerate(self.envs):
            env.unwrapped.state = np.array(saved["states"][i])
            env.unwrapped.steps_beyond_terminated = saved["beyond"][i]
            time_limit(env)._elapsed_steps = saved["elapsed"][i]
            env.unwrapped.np_random.bit_generator.state = saved["random"][i]
        self.observations[:] = saved["observations"]
        self.returns[:] = saved["returns"]


def time_limit(env):
    while not isinstance(env, gymnasium.wrappers.TimeLimit):
        env = env.env
    return env


class Clock:
    """Seconds since the last call, added to a named account."""

    def __init__(self):
        self.seconds = {"environment": 0.0, "policy": 0.0, "updates": 0.0, "checkpoints": 0.0}
        self.last = time.perf_counter()

    def __call__(self, account=None):
        now = time.perf_counter()
        if account:
            self.seconds[account] += now - self.last
        self.last = now


def random_states():
    kind, key, *rest = np.random.get_state()
    return {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": (kind, key.tolist(), *rest)}


def set_random_states(saved):
    torch.set_rng_state(saved["torch"])
    random.setstate(saved["python"])
    kind, key, *rest = saved["numpy"]
    np.random.set_state((kind, np.array(key, np.uint32), *rest))


def rollout(agent, envs, finished, clock):
    """HORIZON steps in every environment: (observations, actions, rewards, ends), time first."""
    observations = np.zeros((HORIZON, ENVS, 4), np.float32)
    actions = np.zeros((HORIZON, ENVS), np.int64)
    rewards, ends = (np.zeros((HORIZON, ENVS), np.float32) for _ in range(2))
    for t in range(HORIZON):
        observations[t] = envs.observations
        with torch.no_grad():
            actions[t] = agent.policy(torch.from_numpy(observations[t])).sample().numpy()
        clock("policy")
        rewards[t], terminated, truncated, last = envs.step(actions[t])
        ends[t] = terminated | truncated
        clock("environment")
        for i, observation in last.items():
            finished.append(float(envs.returns[i]))
            envs.returns[i] = 0
            if truncated[i]:  # the time was up, the pole was not down: what would have come
                with torch.no_grad():
                    rewards[t, i] += GAMMA * agent.value(torch.from_numpy(observation)).item()
    return tuple(torch.from_numpy(a) for a in (observations, actions, rewards, ends))


@torch.no_grad()
def advantages_of(rewards, ends, values, last_value):
    """Generalised advantage estimation."""
    advantages = torch.zeros_like(rewards)
    following, running = last_value, torch.zeros(ENVS)
    for t in reversed(range(HORIZON)):
        going = GAMMA * (1 - ends[t])
        running = rewards[t] + going * following - values[t] + LAMBDA * going * running
        advantages[t] = running
        following = values[t]
    return advantages


def evaluate(agent, episodes, seed=1_000_000):
    """The return of each greedy episode."""
    envs = [gymnasium.make("CartPole-v1", disable_env_checker=True) for _ in range(episodes)]
    observations = np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(envs)])
    returns = np.zeros(episodes)
    running = list(range(episodes))
    while running:
        with torch.no_grad():
            actions = agent.actor(torch.from_numpy(observations[running])).argmax(-1).tolist()
        going = []
        for i, action in zip(running, actions):
            observations[i], reward, terminated, truncated, _ = envs[i].step(action)
            returns[i] += reward
            if not (terminated or truncated):
                going.append(i)
        running = going
    return returns


def plot(path, history):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5))
    axes.plot([h[0] for h in history], [h[1] for h in history])
    axes.axhline(475, color="gray", linestyle="--", linewidth=1, label="solved: 475")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return, mean of the last 100 episodes")
    axes.set_title("CartPole-v1, PPO")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    iterations = max(args.steps // BATCH, 1)
    agent = Agent()
    parameters = list(agent.parameters())
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 - i / iterations)
    envs = Environments(ENVS, 1000 * args.seed)
    finished, history, clock, iteration = deque(maxlen=100), [], Clock(), 0

    def update(index, observations, actions, old_log_probs, advantages, returns):
        optimizer.zero_grad()
        observations, advantages = observations[index], advantages[index]
        policy = agent.policy(observations)
        ratio = (policy.log_prob(actions[index]) - old_log_probs[index]).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()
        value_loss = nn.functional.mse_loss(agent.value(observations), returns[index])
        loss = policy_loss + 0.5 * value_loss - ENTROPY * policy.entropy().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return loss.detach()

    if args.compile:
        update = torch.compile(update)

    def save():
        state = {
            "settings": {"steps": args.steps, "seed": args.seed},
            "agent": agent.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "environments": envs.state_dict(),
            "random": random_states(),
            "iteration": iteration,
            "finished": list(finished),
            "history": history,
            "seconds": clock.seconds,
        }
        torch.save(state, args.checkpoint + ".new")
        os.replace(args.checkpoint + ".new", args.checkpoint)

    if args.resume and os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint)
        if saved["settings"] != {"steps": args.steps, "seed": args.seed}:
            sys.exit(f"{args.checkpoint} belongs to a run with {saved['settings']}")
        agent.load_state_dict(saved["agent"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        envs.load_state_dict(saved["environments"])
        set_random_states(saved["random"])
        iteration, history, clock.seconds = saved["iteration"], saved["history"], saved["seconds"]
        finished.extend(saved["finished"])
        print(f"resumed at step {iteration * BATCH}")

    began = time.perf_counter()
    bar = tqdm(total=iterations * BATCH, initial=iteration * BATCH, unit=" steps", mininterval=0.5)
    clock()
    while iteration < iterations:
        observations, actions, rewards, ends = rollout(agent, envs, finished, clock)
        with torch.no_grad():
            values = agent.value(observations)
            last_value = agent.value(torch.from_numpy(envs.observations))
            log_probs = agent.policy(observations).log_prob(actions)
        clock("policy")
        advantages = advantages_of(rewards, ends, values, last_value)
        returns = advantages + values
        batch = (observations.flatten(0, 1), *(t.flatten() for t in (actions, log_probs, advantages, returns)))
        for _ in range(EPOCHS):
            for index in torch.randperm(BATCH).split(MINIBATCH):
                update(index, *batch)
        scheduler.step()
        clock("updates")
        iteration += 1
        mean = sum(finished) / max(len(finished), 1)
        history.append([iteration * BATCH, mean])
        bar.update(BATCH)
        bar.set_postfix({"return": f"{mean:.1f}"}, refresh=False)
        if iteration % args.checkpoint_every == 0 or iteration == iterations:
            save()
            clock("checkpoints")
    bar.close()

    print(f"trained for {time.perf_counter() - began:.1f} s with {args.lib}; in all: "
          + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in clock.seconds.items()))
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in parameters)).hexdigest()
    print(f"checkpoint: {args.checkpoint}, weights sha256 {digest[:16]}")
    plot(args.plot, history)
    print(f"plot: {args.plot}")
    mean = evaluate(agent, args.episodes).mean()
    print(f"greedy evaluation: mean return {mean:.1f} over {args.episodes} episodes")
    if mean < args.target:
        sys.exit(f"not solved: the mean return is below {args.target}")


if __name__ == "__main__":
    main()
