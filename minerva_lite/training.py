"""The loop and the evaluation (floor 8)."""

from __future__ import annotations

import csv
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from .checkpoints import read, save
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
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
) -> History:
    """Collect and update until `total_steps` environment steps are done, rounded up to whole rollouts.

    eval_every: evaluate after the first update past each multiple (None: total_steps / 20). stop_at: leave early
    once an evaluation's mean reaches it. callback: called with every row of figures.
    checkpoint: a file written after the first update past each multiple of checkpoint_every (None: at every
    evaluation), at the end, and on Ctrl-C, which waits for the update in progress; beside it, under the same name with
    `.best` before the suffix, the agent of the best evaluation. resume: go on from that file if it exists; with the
    same agent, environment and arguments the run ends as if it had never stopped, to the bit, where the environment's
    state can be saved, and with fresh episodes, and a warning, where not.
    Raises ValueError: total_steps below one rollout, an environment that does not fit the agent, a checkpoint that
    exists without `resume`, or one of another run.
    """
    require_count(total_steps=total_steps, eval_episodes=eval_episodes)
    for name, every in (("eval_every", eval_every), ("checkpoint_every", checkpoint_every)):
        if every is not None:
            require_count(**{name: every})
    _require_fit(agent, env, total_steps)
    eval_every = eval_every or max(1, total_steps // 20)
    run = _Run(checkpoint, agent, env, total_steps)
    obs, history = run.begin(resume), run.history
    bar = tqdm(total=total_steps, initial=run.steps, unit="step", disable=not progress)
    with bar, _finish_the_update() as interrupted:
        while run.steps < total_steps and not run.stopped:
            start = time.perf_counter()
            rollout, obs = agent.collect(env, obs)
            figures = agent.update(rollout, progress=min(1.0, run.steps / total_steps))
            before, run.steps = run.steps, run.steps + rollout.num_steps
            run.seconds += time.perf_counter() - start
            row = {"steps": run.steps, "seconds": run.seconds} | {name: float(x) for name, x in figures.items()}
            row["train/reward_mean"] = float(rollout.reward.mean())
            row["train/steps_per_second"] = run.steps / run.seconds
            history.updates.append(row)
            if callback:
                callback(row)
            last = run.steps >= total_steps
            evaluated = _passed(before, run.steps, eval_every) or last
            if evaluated:
                row = {"steps": run.steps, "seconds": run.seconds} | evaluate(agent, episodes=eval_episodes)
                run.keep_best(row)
                history.evaluations.append(row)
                if callback:
                    callback(row)
                bar.set_postfix({"return": f"{row['eval/mean']:.1f}"})
                run.stopped = stop_at is not None and row["eval/mean"] >= stop_at
            bar.update(rollout.num_steps)
            due = evaluated if checkpoint_every is None else _passed(before, run.steps, checkpoint_every)
            if due or last or run.stopped or interrupted:
                run.save(obs)
            if interrupted:
                raise KeyboardInterrupt
    return history


def _require_fit(agent: Any, env: Any, total_steps: int) -> None:
    """Raise ValueError unless the budget holds a rollout and the environment is the one the agent was made for."""
    config = agent.config
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


def _passed(before: int, after: int, every: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    return after // every > before // every


class _Run:
    """Where a training stands, and its files."""

    def __init__(self, path: str | Path | None, agent: Any, env: Any, total_steps: int):
        self.path, self.agent, self.env, self.total_steps = Path(path) if path else None, agent, env, total_steps
        self.history, self.steps, self.seconds, self.stopped = History(), 0, 0.0, False

    def save(self, obs: torch.Tensor) -> None:
        if self.path:
            told = {name: getattr(self, name) for name in ("total_steps", "steps", "seconds", "stopped")}
            told |= {"updates": self.history.updates, "evaluations": self.history.evaluations}
            save(self.agent, self.path, told | {"obs": obs, "env": self.env.state_dict()})

    def keep_best(self, row: dict[str, float]) -> None:
        """Save the agent by itself if no evaluation so far was as good."""
        if self.path and all(row["eval/mean"] > other["eval/mean"] for other in self.history.evaluations):
            save(self.agent, self.path.with_name(f"{self.path.stem}.best{self.path.suffix}"))

    def begin(self, resume: bool) -> torch.Tensor:
        """Start, or take over what the file says; what to act on first, [B, O]."""
        if not (self.path and self.path.exists()):
            return self.env.reset()
        if not resume:
            raise ValueError(
                f"checkpoint: {self.path.name} exists; wanted resume=True to go on from it, or another name"
            )
        saved = read(self.path)
        told = saved.get("training")
        if saved["agent"] != self.agent.name or told is None or told["total_steps"] != self.total_steps:
            raise ValueError(
                f"checkpoint: wanted a training of {self.agent.name} over {self.total_steps} steps; "
                f"{self.path.name} holds another"
            )
        self.agent.load_state_dict(saved["state"])
        for leftover in self.path.parent.glob(f"{self.path.name}*.part"):  # of a process killed while it wrote
            leftover.unlink()
        self.steps, self.seconds, self.stopped = told["steps"], told["seconds"], told["stopped"]
        self.history.updates, self.history.evaluations = told["updates"], told["evaluations"]
        if told["env"] is None:
            warnings.warn(
                f"{self.env.spec.env_id} goes on with fresh episodes: its state cannot be saved", stacklevel=3
            )
            return self.env.reset()
        self.env.load_state_dict(told["env"])
        return told["obs"].to(self.agent.device)


@contextmanager
def _finish_the_update() -> Iterator[list[int]]:
    """Ctrl-C fills the list instead of stopping in the middle of an update; a second one stops at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
