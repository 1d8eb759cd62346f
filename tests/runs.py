"""What the tests of training share: a small agent of every algorithm, and runs that end before their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from minerva_lite.agents import AGENTS
from minerva_lite.training.evaluation import History
from minerva_lite.training.loop import train
from minerva_lite.worlds.envs import make_env
from tests.living import ANSWERS

# Each agent takes those of these settings that it has. The replay is filled and written over within a run, and updates
# of V-MPO and MPO count to the copy of a target.
SMALL = {
    "num_envs": 4, "rollout_steps": 16, "hidden": (8,), "normalize_obs": True, "normalize_reward": True,
    "whole_episodes": False, "minibatch_size": 16, "epochs": 2, "warmup_steps": 64, "learner_steps": 2,
    "replay_steps": 320, "inner_steps": 3, "target_period": 2,
    **ANSWERS, "group": 16, "advantage": "critic", "kl": "loss",
}  # fmt: skip
ROLLOUT, STEPS = 64, 640  # of every agent; ten updates


def new(
    name: str, env_id: str = "Pendulum-v1", *, seed=2, env_seed=1, dtype=torch.float32, backend="auto", device="cpu",
    compile=False, **options,
):  # fmt: skip
    """A small agent of any algorithm and its environments, as a fresh process would make them.

    `stagger` and `autoreset` go to the environments, other options to the agent if it has them.
    """
    kind, settings = AGENTS[name]
    if kind.name == "sequence" and not env_id.startswith("tokens/"):
        env_id = "tokens/copy"
    where = {option: options[option] for option in ("stagger", "autoreset") if option in options}
    known = {field.name for field in fields(settings)}
    config = settings(**{option: value for option, value in (SMALL | options).items() if option in known})
    env = make_env(env_id, config.num_envs, seed=env_seed, dtype=dtype, device=device, backend=backend, **where)
    return kind(config, env.spec, seed=seed, device=device, dtype=dtype, compile=compile), env


class Stopped(BaseException):
    """The end of a process, in one that goes on."""


def run(agent, env, path: Path | None = None, steps: int = STEPS, *, die_at: int | None = None, callback=None, **how):
    """Train with a checkpoint after every rollout, from the one that is there; at `die_at` steps the process ends."""

    def watch(row: dict[str, float]) -> None:
        if callback:
            callback(row)
        if die_at is not None and row["steps"] >= die_at and "eval/mean" not in row:
            raise Stopped

    how = {"eval_every": 250, "eval_episodes": 1, "checkpoint_every": ROLLOUT, "progress": False, "resume": True} | how
    return train(agent, env, steps, callback=watch, checkpoint=path, **how)


def stopped(agent, env, path: Path, die_at: int = 320, **how) -> None:
    """A run that ended there, after the update and before its checkpoint."""
    try:
        run(agent, env, path, die_at=die_at, **how)
    except Stopped:
        return
    raise AssertionError("it came to its end")


def at(steps: int, act: Callable[[], Any]) -> Callable[[dict[str, float]], None]:
    """A callback that acts once, after the update that ends there."""
    return lambda row: act() if row["steps"] == steps and "eval/mean" not in row else None


def leaves(thing: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every tensor and number of a nested state: its path, and the container and key where it lies."""
    for key, value in thing.items() if isinstance(thing, dict) else enumerate(thing):
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, (dict, list, tuple)):
            yield from leaves(value, where)
        else:
            yield where, thing, key


def timeless(history: History) -> list[dict[str, str]]:
    """What a history tells, but for the clock, whose numbers no two runs share."""
    timed = ("seconds", "train/steps_per_second")
    return [{k: repr(v) for k, v in row.items() if k not in timed} for row in history.updates + history.evaluations]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
