"""Tasks for which no preset is kept, each trained from the shell with one line.

Nothing is tuned: `train ALGORITHM --env ID --steps N` takes the settings of the task's family. Beside each final policy
stands the random one, whose actions are drawn from the environment's own space.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np

from book.results.studies.record import asked, read_rows
from minerva_lite.worlds.numpy_backed import registered_id

EPISODES = 100
STEPS = {
    "Acrobot-v1": 100_000,
    "MountainCar-v0": 100_000,
    "MountainCarContinuous-v0": 100_000,
    "tests.examples.thermostat:Thermostat-v0": 100_000,
    "BipedalWalker-v3": 300_000,
    "InvertedPendulum-v5": 200_000,
    "InvertedDoublePendulum-v5": 200_000,
    "Reacher-v5": 200_000,
    "Swimmer-v5": 200_000,
    "dm_control/cartpole/swingup": 200_000,
    "dm_control/reacher/easy": 200_000,
    "dm_control/walker/stand": 200_000,
}
T_TWO = 2.919985580353726  # the 95 % point of Student's t with two degrees of freedom: a 90 % interval of three seeds


class Row(NamedTuple):
    """One final policy, or the random one."""

    env_id: str
    policy: str  # the algorithm that trained it, or "random"
    seed: int
    steps: int  # of the environment that it was trained for
    mean: float  # return over 100 episodes, undiscounted
    std: float  # of these returns


def trained(env_id: str, algorithm: str, seed: int, steps: int) -> list[Row]:
    """The row of a run of the command as a user would run it. Raises SystemExit: it failed."""
    line = ["train", algorithm, "--env", env_id, "--seed", str(seed), "--steps", str(steps), "--device", "cpu"]
    line += ["--eval-every", str(steps)]  # evaluations change nothing that is learned, and take as long
    done = subprocess.run([sys.executable, "-m", "minerva_lite", *line], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}: {done.stderr.splitlines()[-1]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return [Row(env_id, algorithm, seed, steps, told["eval/mean"], told["eval/std"])]


def random(env_id: str, seed: int, episodes: int = EPISODES) -> list[Row]:
    """The row of a policy that draws each action uniformly."""
    env = gym.make(registered_id(env_id))
    env.action_space.seed(seed)
    returns = np.zeros(episodes)
    for episode in range(episodes):
        env.reset(seed=10_000 + seed * episodes + episode)
        ended = False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            returns[episode] += float(reward)
            ended = terminated or truncated
    env.close()
    return [Row(env_id, "random", seed, 0, float(returns.mean()), float(returns.std()))]


def interval(means: Iterable[float]) -> tuple[float, float]:
    """The 90 % interval of the expectation of three independent means, by Student's t. Raises ValueError: not three."""
    three = np.array(list(means))
    if len(three) != 3:
        raise ValueError(f"means: wanted those of three seeds; got {len(three)}")
    half = T_TWO * three.std(ddof=1) / np.sqrt(3)
    return three.mean() - half, three.mean() + half


def table(path: Path) -> list[tuple[str, str, float, float, float, float, bool]]:
    """Task, algorithm, its mean, the interval's ends, the random policy's mean; does the interval lie above its own?"""
    found: dict[tuple[str, str], list[float]] = {}
    for row in read_rows(path):
        found.setdefault((row["env_id"], row["policy"]), []).append(float(row["mean"]))
    lines = []
    for (env_id, policy), means in found.items():
        rand = found.get((env_id, "random"), [])
        if policy != "random" and len(means) == len(rand) == 3:
            low, high = interval(means)
            lines.append(
                (env_id, policy, float(np.mean(means)), low, high, float(np.mean(rand)), low > interval(rand)[1])
            )
    return lines


if __name__ == "__main__":
    algorithms, seeds = {"nargs": "+", "default": ["ppo"]}, {"type": int, "nargs": "+", "default": [0, 1, 2]}
    record, options = asked(__spec__.name, __doc__, Row, digits=6, algorithms=algorithms, seeds=seeds)
    for seed in options.seeds:
        for env_id, steps in STEPS.items():
            record.fill([((env_id, "random", seed), partial(random, env_id, seed))])
            for algorithm in options.algorithms:
                record.fill([((env_id, algorithm, seed), partial(trained, env_id, algorithm, seed, steps))])
    for line in table(options.out):
        print(*line)
