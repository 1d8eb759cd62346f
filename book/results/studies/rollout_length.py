"""`python -m book.results.studies.rollout_length`: what longer rollouts do to A2C at equal steps of the environment.

The preset on CartPole with other rollouts: T rows of B environments, lambda, and once the learning rate. A run is one
row of the table, with the mean return of its final policy.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from book.results.studies.record import asked
from minerva_lite import evaluate, make_env, preset, train
from minerva_lite.agents import AGENTS

ENV_ID, STEPS = "CartPole-v1", 65_536
# Agent, B, T, how many times the preset's learning rate. Each with both lambdas.
ROLLOUTS = [
    ("a2c", 8, 8, 1.0),
    ("a2c", 8, 32, 1.0),
    ("a2c", 8, 128, 1.0),
    ("a2c", 8, 128, 4.0),
]
LAMBDAS = (0.95, 1.0)


class Row(NamedTuple):
    """One run."""

    agent: str
    num_envs: int
    rollout_steps: int
    learning_rate: float
    lam: float
    seed: int
    rollouts: int
    gradient_steps: int
    mean: float  # return of the final policy, undiscounted, over 100 episodes


def run(
    name: str, num_envs: int, rollout_steps: int, rate: float, lam: float, seed: int, steps: int = STEPS
) -> list[Row]:
    """Train the preset with these rollouts for `steps` steps of the environment, all environments counted."""
    config = preset(name, ENV_ID).config
    rate *= config.learning_rate
    config = replace(config, num_envs=num_envs, rollout_steps=rollout_steps, lam=lam, learning_rate=rate)
    env = make_env(ENV_ID, num_envs, seed=seed)
    agent = AGENTS[name][0](config, env.spec, seed=seed, device="cpu")
    train(agent, env, steps, eval_every=steps, eval_episodes=1, progress=False)
    gradient_steps = steps // (num_envs * rollout_steps)  # one a rollout
    mean = round(evaluate(agent, episodes=100)["eval/mean"], 3)
    return [Row(name, num_envs, rollout_steps, rate, lam, seed, gradient_steps, gradient_steps, mean)]


if __name__ == "__main__":
    record, options = asked(__spec__.name, __doc__, Row, digits=6, seeds={"type": int, "default": 3})
    for (name, num_envs, steps, rate), lam, seed in itertools.product(ROLLOUTS, LAMBDAS, range(options.seeds)):
        cells = name, num_envs, steps, rate * preset(name, ENV_ID).config.learning_rate, lam, seed
        record.fill([(cells, partial(run, name, num_envs, steps, rate, lam, seed))])
