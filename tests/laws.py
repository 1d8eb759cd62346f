"""What each torch-native environment promises, one entry of `LAWS` each: `tests/worlds` checks both sides against it.

An entry states numbers, not code: where episodes start and end, and how to play one to its end. Gymnasium's own
environment is the oracle for transitions and rewards, and it is held to the entry too. To add an environment, add its
class to `TORCH_ENVS` and its entry here; the tests of environments then run on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Numbers = tuple[float, ...]
# What to do in a state [S]: an action in [-1, 1], or the number of one.
Player = Callable[[np.random.Generator, np.ndarray], float | int]


@dataclass(frozen=True)
class Laws:
    """One environment whose state is S numbers."""

    start: tuple[Numbers, Numbers]  # lowest and highest first state, each S numbers; uniform between them
    tried: tuple[Numbers, Numbers]  # states to compare transitions from, a little beyond what an episode visits
    time_limit: int  # steps
    ends: Player  # plays episodes to their end: that terminate, if any do
    # How far a state [N, S] is from terminating: at or below 0 it has, [N].
    margin: Callable[[Tensor], Tensor] | None = None
    state_of: Callable[[Tensor], Tensor] = lambda obs: obs  # [N, O] to [N, S]
    rounding: float = 0.0  # of one step of Gymnasium's own environment, where it keeps its state in float32
    same_in_envpool: Callable[[Tensor], Tensor] = lambda obs: obs[:, 0] == obs[:, 0]  # [N] bool: successors to compare


LAWS = {
    "Pendulum-v1": Laws(
        start=((-math.pi, -1.0), (math.pi, 1.0)),
        tried=((-4.0 * math.pi, -8.0), (4.0 * math.pi, 8.0)),
        time_limit=200,
        ends=lambda rng, state: float(rng.uniform(-1.0, 1.0)),
        state_of=lambda obs: torch.stack([torch.atan2(obs[:, 1], obs[:, 0]), obs[:, 2]], -1),
        # EnvPool turns by the speed before it is clipped at 8 rad/s, Gymnasium by the speed after.
        same_in_envpool=lambda obs: obs[:, 2].abs() < 8.0,
    ),
    "CartPole-v1": Laws(
        start=((-0.05,) * 4, (0.05,) * 4),
        tried=((-2.45, -3.0, -0.215, -3.5), (2.45, 3.0, 0.215, 3.5)),
        time_limit=500,
        ends=lambda rng, state: int(rng.integers(2)),
        margin=lambda state: torch.minimum(2.4 - state[:, 0].abs(), math.radians(12.0) - state[:, 2].abs()),
    ),
}


def random_actions(env, steps: int, seed: int = 0) -> Tensor:
    """Actions for every environment, [steps, B, ...]: in [-1, 1], or whole numbers."""
    generator = torch.Generator().manual_seed(seed)
    if env.spec.num_actions:
        return torch.randint(env.spec.num_actions, (steps, env.num_envs), generator=generator)
    return torch.rand(steps, env.num_envs, env.spec.action_dim, generator=generator, dtype=env.dtype) * 2 - 1


def same_action(env) -> Tensor:
    """The same action in every environment."""
    if env.spec.num_actions:
        return torch.ones(env.num_envs, dtype=torch.int64)
    return torch.full((env.num_envs, env.spec.action_dim), 0.3, dtype=env.dtype)


def choose(env, obs: Tensor) -> Tensor:
    """A deterministic policy that makes episodes of different lengths."""
    return (obs[:, -1] > 0).long() if env.spec.num_actions else obs[:, -env.spec.action_dim :]


def lived(env, steps: int) -> dict[str, Tensor | None]:
    """So many rows, acted by `choose`: each column [T, B, ...]; `phantom` is None in the same-step mode."""
    obs, rows = env.reset(), []
    for _ in range(steps):
        action = choose(env, obs)
        step = env.step(action)
        rows.append(step._asdict() | {"obs": obs, "action": action})
        obs = step.obs
    env.close()
    return {name: None if each is None else torch.stack([row[name] for row in rows]) for name, each in rows[0].items()}
