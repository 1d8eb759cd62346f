"""The loop and the evaluation (floor 8)."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from .checks import require_count
from .envs import make_env


@dataclass
class History:
    """What happened: one row of figures an update, one an evaluation. Seconds leave evaluation out."""

    updates: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[dict[str, float]] = field(default_factory=list)

    def column(self, name: str) -> np.ndarray:
        """The figures under `name`, in order: [number of updates], or of evaluations for an `eval/` name."""
        rows = self.evaluations if name.startswith("eval/") else self.updates
        return np.array([row[name] for row in rows if name in row])

    def steps(self, name: str) -> np.ndarray:
        """Environment steps done when each figure under `name` was read."""
        rows = self.evaluations if name.startswith("eval/") else self.updates
        return np.array([row["steps"] for row in rows if name in row])

    def to_csv(self, path: str | Path) -> None:
        """Write one tidy table: steps, seconds, name, value."""
        with Path(path).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["steps", "seconds", "name", "value"])
            for row in self.updates + self.evaluations:
                for name, value in row.items():
                    if name not in ("steps", "seconds"):
                        writer.writerow([int(row["steps"]), row["seconds"], name, value])


@torch.no_grad()
def evaluate(agent: Any, env_id: str | None = None, *, episodes: int = 10, seed: int = 10_000) -> dict[str, float]:
    """Returns of `episodes` whole episodes on the official Gymnasium environment, acting by the policy's mode.

    One environment an episode, seeded `seed`, `seed` + 1, …; raw rewards; observation statistics are read, never
    moved; the agent's random numbers are not touched.
    Raises ValueError: fewer than one episode, or an environment that does not fit the agent.
    """
    require_count(episodes=episodes)
    env = make_env(
        env_id or agent.spec.env_id, episodes, backend="gymnasium", seed=seed, device=agent.device, dtype=agent.dtype
    )
    if replace(env.spec, env_id=agent.spec.env_id) != agent.spec:
        raise ValueError(f"env_id: wanted one with the spaces of {agent.spec}; got {env.spec}")
    obs = env.reset()
    total = torch.zeros(episodes, dtype=torch.float64, device=obs.device)
    length, alive = torch.zeros_like(total), torch.ones_like(total, dtype=torch.bool)
    while alive.any():
        action, _ = agent.act(obs, deterministic=True)
        step = env.step(agent.policy.to_env(action))
        # Only the first episode of each environment counts; later ones would favor short episodes.
        total += step.reward.double().masked_fill(~alive, 0.0)
        length += alive
        alive &= ~(step.terminated | step.truncated)
        obs = step.obs
    env.close()
    return {
        "eval/mean": float(total.mean()),
        "eval/median": float(total.quantile(0.5)),  # Tensor.median would take the lower of the two in the middle
        "eval/std": float(total.std(correction=0)),
        "eval/min": float(total.min()),
        "eval/max": float(total.max()),
        "eval/length": float(length.mean()),
    }


def train(
    agent: Any,
    env: Any,
    total_steps: int,
    *,
    eval_every: int | None = None,
    eval_episodes: int = 10,
    stop_at: float | None = None,
    progress: bool = True,
    callback: Callable[[dict[str, float]], None] | None = None,
) -> History:
    """Collect and update until `total_steps` environment steps are done, rounded up to whole rollouts.

    eval_every: evaluate after the first update past each multiple (None: total_steps / 20). stop_at: leave early
    once an evaluation's mean reaches it. callback: called with every row of figures.
    Raises ValueError: total_steps below one rollout, or an environment that does not fit the agent.
    """
    config = agent.config
    require_count(total_steps=total_steps, eval_episodes=eval_episodes)
    if eval_every is not None:
        require_count(eval_every=eval_every)
    if total_steps < config.batch_size:
        raise ValueError(
            f"total_steps: wanted at least one rollout, {config.rollout_steps} * {config.num_envs} = "
            f"{config.batch_size}; got {total_steps}"
        )
    if env.num_envs != config.num_envs or env.spec != agent.spec:
        raise ValueError(
            f"env: wanted {config.num_envs} of {agent.spec}, what the agent was made for; "
            f"got {env.num_envs} of {env.spec}"
        )
    if env.dtype != agent.dtype or env.device.type != agent.device.type:
        raise ValueError(
            f"env: wanted {agent.dtype} on {agent.device.type}, like the agent; got {env.dtype} on {env.device.type}"
        )
    eval_every = eval_every or max(1, total_steps // 20)
    history, steps, seconds, next_eval = History(), 0, 0.0, eval_every
    bar = tqdm(total=total_steps, unit="step", disable=not progress)
    obs = env.reset()
    while steps < total_steps:
        start = time.perf_counter()
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(rollout, progress=min(1.0, steps / total_steps))
        steps += rollout.num_steps
        seconds += time.perf_counter() - start
        row = {"steps": steps, "seconds": seconds} | {name: float(value) for name, value in figures.items()}
        row["train/reward_mean"] = float(rollout.reward.mean())
        row["train/steps_per_second"] = steps / seconds
        history.updates.append(row)
        if callback:
            callback(row)
        if steps >= next_eval or steps >= total_steps:
            next_eval = (steps // eval_every + 1) * eval_every
            row = {"steps": steps, "seconds": seconds} | evaluate(agent, episodes=eval_episodes)
            history.evaluations.append(row)
            if callback:
                callback(row)
            bar.set_postfix({"return": f"{row['eval/mean']:.1f}"})
            if stop_at is not None and row["eval/mean"] >= stop_at:
                break
        bar.update(rollout.num_steps)
    bar.close()
    return history
