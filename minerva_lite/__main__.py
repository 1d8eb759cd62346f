"""The command line: `python -m minerva_lite train|evaluate|study …` (floor 10)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .agents import AGENTS
from .checkpoints import load
from .checks import require_one_of
from .envs import make_env
from .learning import pick_device
from .presets import preset
from .studies import ABLATIONS, study
from .training import evaluate, train

Algorithm = Annotated[Literal["reinforce", "a2c", "trpo", "ppo", "mpo", "vmpo"], tyro.conf.Positional]


def train_command(
    algorithm: Algorithm,
    env: str,
    seed: int = 0,
    steps: int | None = None,
    device: str = "auto",
    backend: str = "auto",
    out: Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    history: Path | None = None,
) -> None:
    """Train by the preset and print the final evaluation over 100 episodes.

    out: the checkpoint, written at every evaluation (or every so many steps), at the end, and on Ctrl-C; --resume
    goes on from it. history: a CSV file for every figure of the run. backend: as in `make_env`.
    """
    settings, where = preset(algorithm, env), pick_device(device)
    worlds = make_env(env, settings.config.num_envs, seed=seed, device=where, backend=backend)
    agent = AGENTS[algorithm][0](settings.config, worlds.spec, seed=seed, device=where)
    try:
        told = train(
            agent,
            worlds,
            steps or settings.total_steps,
            checkpoint=out,
            checkpoint_every=checkpoint_every,
            resume=resume,
        )
    except KeyboardInterrupt:
        sys.exit(f"stopped; {f'{out} is where --resume goes on' if out else 'nothing is saved without --out'}")
    if history:
        told.to_csv(history)
    print(json.dumps(evaluate(agent, episodes=100)))


def evaluate_command(path: Annotated[Path, tyro.conf.Positional], episodes: int = 100) -> None:
    """Evaluate a saved agent on the official environment."""
    print(json.dumps(evaluate(load(path), episodes=episodes)))


def study_command(
    algorithm: Algorithm,
    env: tuple[str, ...],
    out: Path,
    seeds: int = 5,
    first_seed: int = 0,
    variants: tuple[str, ...] = ("preset",),
    ablations: bool = False,
    jobs: int = 2,
) -> None:
    """Run some variants of the preset, or with --ablations all of them, over many seeds; write a CSV."""
    known = ABLATIONS[algorithm]
    require_one_of(tuple(known), **{f"variants[{i}]": name for i, name in enumerate(variants)})
    chosen = known if ablations else {name: known[name] for name in variants}
    study(algorithm, env, range(first_seed, first_seed + seeds), chosen, out, jobs=jobs)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"train": train_command, "evaluate": evaluate_command, "study": study_command})
