"""What a training did, and what its agent is worth: figures of every update, returns of whole episodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..checks import require_count, require_finite, require_one_of, require_seed
from ..files import as_csv, write_text
from ..formulas.statistics import stratified_bootstrap
from ..language.answering import AnsweringAgent
from ..language.tokens import TASKS
from ..worlds.envs import GymEnv, make_env
from .settings_file import nearest

EPISODES = "train/episode_return", "train/episode_length"  # of which a short training may have none


@dataclass
class History:
    """What happened: one row of figures an update, one an evaluation. Seconds leave evaluation out."""

    updates: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)

    def column(self, name: str) -> np.ndarray:
        """The figures under `name`, in order: [number of updates], or of evaluations for an `eval/` name.

        Raises ValueError: there are rows, and none of them has such a figure.
        """
        return np.array([row[name] for row in self._rows(name)])

    def steps(self, name: str) -> np.ndarray:
        """Environment steps done when each figure under `name` was read."""
        return np.array([row["steps"] for row in self._rows(name)])

    def _rows(self, name: str) -> list[dict[str, float]]:
        rows = self.evaluations if name.startswith("eval/") else self.updates
        known = dict.fromkeys(each for row in rows for each in row)
        if rows and name not in known and name not in EPISODES:
            raise ValueError(f"name: wanted a figure of this history; got {name!r}; {nearest(name, known)}")
        return [row for row in rows if name in row]

    def text(self) -> str:
        """One tidy table as CSV: steps, seconds, name, value."""
        figures = [
            (int(row["steps"]), row["seconds"], name, value)
            for row in self.updates + self.evaluations
            for name, value in row.items()
            if name not in ("steps", "seconds")
        ]
        return as_csv([("steps", "seconds", "name", "value"), *figures])

    def to_csv(self, path: str | Path) -> None:
        """Write the table. Raises OSError: it cannot be written."""
        write_text(path, self.text())


@torch.no_grad()
def evaluate(
    agent: Any,
    env_id: str | None = None,
    *,
    episodes: int = 10,
    seed: int = 10_000,
    max_steps: int = 100_000,
    watch: Callable[[np.ndarray], None] | None = None,
    interval: bool = False,
    copies: GymEnv | None = None,
) -> dict[str, float]:
    """Returns of `episodes` whole episodes on the official Gymnasium environment, acting by the policy's mode.

    One environment an episode, seeded `seed`, `seed` + 1, …; raw rewards; observation statistics are read, never
    moved; the agent's random numbers are not touched. An episode that goes on after `max_steps` steps is cut there; a
    warning says so, and `eval/unfinished` is the share of such episodes, where there are any. watch: called with the
    actions of every step as the environments take them, one an environment. interval: tell the 95 % interval of the
    mean too. copies: environments of `official` to play in again, without the warning. A task of tokens has prompts
    drawn from `seed` instead, an answer to each as an episode, and more figures (`AnsweringAgent.examine`); it reads
    neither `watch` nor `max_steps`.
    Raises ValueError: fewer than one episode, an environment that does not fit the agent, one that only the agent's
    file names and that would import a module, or a parameter, an observation or a reward that is not finite.
    """
    require_count(episodes=episodes, max_steps=max_steps)
    seed = require_seed(seed=seed)
    named = named_env(agent, env_id)
    require_finite(**agent.modules.state_dict())
    with official(agent, named, episodes) if copies is None else nullcontext(copies) as env:
        if env is None:
            total, length, figures = agent.examine(named, episodes, seed)
            return summary(total, length, interval) | figures
        obs = env.reset(range(seed, seed + episodes))
        total = torch.zeros(episodes, dtype=torch.float64)
        length, alive = torch.zeros_like(total), torch.ones_like(total, dtype=torch.bool)
        for steps in range(max_steps):
            _require_numbers(named, steps, obs=obs[alive])
            action, _ = agent.act(obs.to(agent.device), deterministic=True)
            action = agent.policy.to_env(action)
            if watch:
                watch(env.native(action))
            step = env.step(action)
            _require_numbers(named, steps + 1, reward=step.reward[alive])
            # Only the first episode of each environment counts; later ones would favor short episodes.
            total += step.reward.double().masked_fill(~alive, 0.0)
            length += alive
            alive &= ~(step.terminated | step.truncated)
            obs = step.obs
            if not alive.any():
                return summary(total, length, interval)
    if copies is None:
        warn_of_cut(named, max_steps)
    return summary(total, length, interval) | {"eval/unfinished": float(alive.double().mean())}


@contextmanager
def official(agent: Any, env_id: str, episodes: int) -> Iterator[GymEnv | None]:
    """The environments of an evaluation, one an episode, on the CPU wherever the agent is; None for a task of tokens.

    Raises ValueError: there is none of that name, or it does not fit the agent.
    """
    if answers := isinstance(agent, AnsweringAgent):
        require_one_of(tuple(TASKS), env_id=env_id)
    made = None if answers else make_env(env_id, episodes, backend="gymnasium", dtype=agent.dtype)
    with closing(made) if made else nullcontext():
        spec = made.spec if made else TASKS[env_id].spec
        if replace(spec, env_id=agent.spec.env_id) != agent.spec:
            raise ValueError(f"env_id: wanted one with the spaces of {agent.spec}; got {spec}")
        yield made


def warn_of_cut(env_id: str, max_steps: int) -> None:
    """Say that an evaluation did not wait for the end of an episode."""
    warnings.warn(
        f"{env_id}: evaluation cuts an episode that goes on after {max_steps} steps, and eval/unfinished is the share "
        "of such episodes; register the environment with max_episode_steps for another limit",
        stacklevel=4,
    )


def named_env(agent: Any, env_id: str | None) -> str:
    """The environment to act in: the one that is named here, else the agent's.

    Raises ValueError: the agent's would import a module, and it is a file that names it.
    """
    if env_id is None and agent.env_from_file and ":" in str(agent.spec.env_id):
        raise ValueError(
            f"env_id: wanted it named here, because {agent.spec.env_id!r} imports a module, which runs its code, and "
            "only the agent's file names it; got none"
        )
    return agent.spec.env_id if env_id is None else env_id


def _require_numbers(env_id: str, steps: int, **tensors: torch.Tensor) -> None:
    """Raise ValueError, which names environment and step, unless every entry of every tensor is finite."""
    try:
        require_finite(**tensors)
    except ValueError as error:
        raise ValueError(f"{error}, from {env_id} after {steps} steps") from None


def summary(total: torch.Tensor, length: torch.Tensor, interval: bool = False) -> dict[str, float]:
    """The figures of an evaluation, from the returns and lengths of its episodes.

    interval: also their number, and the ends of the 95 % bootstrap interval of the mean.
    """
    figures = {
        "eval/mean": float(total.mean()),
        "eval/median": float(total.quantile(0.5)),  # Tensor.median would take the lower of the two in the middle
        "eval/std": float(total.std(correction=0)),
        "eval/min": float(total.min()),
        "eval/max": float(total.max()),
        "eval/length": float(length.mean()),
    }
    if interval:
        returns = [total.cpu()[:, None]]
        low, high = stratified_bootstrap(torch.mean, returns, generator=torch.Generator().manual_seed(0))
        figures |= {"eval/low": float(low), "eval/high": float(high), "eval/episodes": float(len(total))}
    return figures
