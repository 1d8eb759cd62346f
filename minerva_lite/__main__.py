"""The command line: `python -m minerva_lite train|evaluate|video|study …`."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import gymnasium as gym
import torch
import tyro

from .agents import AGENTS
from .agents.base import pick_device
from .training.checkpoints import load, require_place
from .training.defaults import announcement, settings_for
from .training.evaluation import evaluate
from .training.loop import train
from .training.studies import read_failures, study
from .training.trackers import TensorBoard, WeightsAndBiases, same_run
from .training.video import film
from .worlds.envs import make_env

Algorithm = Literal[tuple(AGENTS)]


def train_command(
    algorithm: Annotated[Algorithm, tyro.conf.Positional],
    env: str,
    seed: int = 0,
    steps: int | None = None,
    device: str = "auto",
    backend: str = "auto",
    compile: bool = False,
    out: Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    num_envs: int | None = None,
    eval_every: int | None = None,
    episodes: int = 100,
    history: Path | None = None,
    tensorboard: Path | None = None,
    wandb: str | None = None,
) -> None:
    """Train by the preset and print the final evaluation.

    out: the checkpoint, written at every evaluation (or every so many steps), at the end, and on Ctrl-C; --resume
    goes on from it. history: a CSV file for every figure of the run. tensorboard: a folder, and wandb: a project, that
    get them while it runs. num_envs: another number of environments than the preset's. backend: as in `make_env`.
    compile: trace the agent's functions into fused kernels, and on a GPU record walk and update. eval_every: steps
    between two evaluations (a twentieth of them all unless named). episodes: of the final one.
    """
    where = pick_device(device)
    require_place(out=out, history=history)
    settings = settings_for(algorithm, env, backend=backend)
    if settings.family:
        print(announcement(algorithm, env, settings), file=sys.stderr)
    config = settings.config if num_envs is None else replace(settings.config, num_envs=num_envs)
    worlds = make_env(env, config.num_envs, seed=seed, device=where, backend=backend)
    agent = AGENTS[algorithm][0](config, worlds.spec, seed=seed, device=where, compile=compile)
    with ExitStack() as opened:
        trackers = [opened.enter_context(TensorBoard(tensorboard))] if tensorboard else []
        if wandb:
            about = {"algorithm": algorithm, "env": env, "seed": seed} | asdict(config)
            trackers.append(opened.enter_context(WeightsAndBiases(wandb, config=about, **same_run(out, resume))))

        def track(row: dict[str, float]) -> None:
            for tracker in trackers:
                tracker(row)

        try:
            told = train(
                agent,
                worlds,
                settings.total_steps if steps is None else steps,
                eval_every=eval_every,
                callback=track,
                checkpoint=out,
                checkpoint_every=checkpoint_every,
                resume=resume,
            )
        except KeyboardInterrupt:
            sys.exit(f"stopped; {f'{out} is where --resume goes on' if out else 'nothing is saved without --out'}")
    if history:
        told.to_csv(history)
    print(json.dumps(evaluate(agent, episodes=episodes)))


def evaluate_command(
    path: Annotated[Path, tyro.conf.Positional], episodes: int = 100, max_steps: int = 100_000
) -> None:
    """Evaluate a saved agent on the official environment. max_steps: the longest episode allowed."""
    print(json.dumps(evaluate(load(path), episodes=episodes, max_steps=max_steps)))


def video_command(
    path: Annotated[Path, tyro.conf.Positional],
    out: Path,
    episodes: int = 1,
    env: str | None = None,
    seed: int = 10_000,
    fps: float | None = None,
    max_steps: int = 100_000,
) -> None:
    """Film a saved agent, as an .mp4 or a .gif, and print the figures of the episodes.

    env: another environment with the same spaces. seed: of the first episode; that of `evaluate` unless named. fps:
    pictures a second, if not the environment's own. max_steps: the longest episode allowed.
    """
    told = film(load(path), out, env_id=env, episodes=episodes, seed=seed, fps=fps, max_steps=max_steps)
    print(json.dumps(told))


def study_command(
    algorithms: Annotated[tuple[Algorithm, ...], tyro.conf.Positional],
    env: tuple[str, ...],
    out: Path,
    seeds: int = 5,
    first_seed: int = 0,
    variants: tuple[str, ...] = ("preset",),
    ablations: bool = False,
    jobs: int = 2,
    address: str | None = None,
) -> None:
    """Run some variants of the preset, or with --ablations all of them, over many seeds; write a CSV.

    out: the CSV file; the same command goes on where a stopped one was, and tries again what failed. jobs: runs at a
    time. address: of a Ray cluster that does them (host:port or auto; local starts one here).
    """
    chosen = None if ablations else variants
    try:
        study(algorithms, env, range(first_seed, first_seed + seeds), chosen, out, jobs=jobs, address=address)
    except KeyboardInterrupt:
        sys.exit(f"stopped; the same command goes on from {out}")
    if failures := read_failures(out):
        sys.exit("\n".join(["failed; the same command tries again:", *failures]))


def main() -> None:
    """Run what the command line says. What cannot be done as asked is one line on stderr and exit code 1.

    `python -X dev -m minerva_lite …` shows where it was found.
    """
    commands = {"train": train_command, "evaluate": evaluate_command, "video": video_command, "study": study_command}
    try:
        tyro.extras.subcommand_cli_from_dict(commands)
    except (ValueError, ImportError, OSError, FloatingPointError, torch.OutOfMemoryError, gym.error.Error) as error:
        if sys.flags.dev_mode:
            raise
        sys.exit(" ".join(str(error).split()))


if __name__ == "__main__":
    main()
