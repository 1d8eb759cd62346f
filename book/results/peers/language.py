"""This package and TRL sort digits from the same base model, in turn, seed by seed.

Both have the same transformer with the same first weights, 32 prompts of 8 answers an update, one pass over them, Adam
with the same falling rate, float32, one thread, and a process of their own. TRL lives in `.venv-trl`, made on first
use. The clock starts with the training, and a row is an update. `--losses` instead records what TRL computes on given
numbers (`run_trl.py`), and `--read` prints the summary of a table written before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from minerva_lite.language.base_model import load_base
from minerva_lite.language.tokens import TASKS

from .bench import ROOT, THREADS, peers_python, speedup, told_by
from .language_task import ALGORITHMS, TOKENS
from .tables import Table

BASE = ROOT / "book/results/checkpoints/sort_base.pt"
RUNNERS = {"trl": "speed_trl", "torch": "speed_sequence"}
COLUMNS = ["algorithm", "runner", "seed", "update", "seconds", "cpu_seconds", "right"]
TABLE = Table(
    "book.results.peers.language",
    COLUMNS,
    text=frozenset({"algorithm", "runner"}),
    digits={"seconds": 3, "cpu_seconds": 3, "right": 5},
)
TARGET, WINDOW = 0.9, 10  # right, as the mean of so many updates


@dataclass(frozen=True)
class Run:
    """What one training came to. One that never reached the target: solve_updates and solve_seconds are infinite."""

    algorithm: str
    runner: str
    seed: int
    solve_updates: float  # the first update with which the mean of the last ten is at the target
    solve_seconds: float
    final: float  # mean of the last ten
    update_seconds: float
    tokens_per_second: float
    wall_over_cpu: float


def summarize_run(rows: list[dict[str, Any]]) -> Run:
    """One training from its rows in order."""
    right = [row["right"] for row in rows]
    means = [sum(right[end - WINDOW : end]) / WINDOW for end in range(WINDOW, len(rows) + 1)]
    # A mean of exactly 0.9 does not miss by rounding.
    crossing = next((i for i, mean in enumerate(means, WINDOW - 1) if mean >= TARGET - 1e-9), None)
    seconds = rows[-1]["seconds"]
    return Run(
        **{name: rows[-1][name] for name in ("algorithm", "runner", "seed")},
        solve_updates=inf if crossing is None else rows[crossing]["update"],
        solve_seconds=inf if crossing is None else rows[crossing]["seconds"],
        final=sum(right[-WINDOW:]) / len(right[-WINDOW:]),
        update_seconds=seconds / len(rows),
        tokens_per_second=TOKENS * len(rows) / seconds,
        wall_over_cpu=seconds / rows[-1]["cpu_seconds"],
    )


def runs_of(rows: list[dict[str, Any]]) -> list[Run]:
    """The trainings that the table holds, in its order."""
    return [summarize_run(list(group)) for _, group in groupby(rows, itemgetter("algorithm", "runner", "seed"))]


def ratios(runs: list[Run], algorithm: str) -> tuple[float, float]:
    """How many times TRL's seconds are ours, medians over seeds: of an update, and to the target."""
    of = {(run.runner, run.seed): run for run in runs if run.algorithm == algorithm}
    pairs = [(of["trl", seed], run) for (runner, seed), run in of.items() if runner == "torch" and ("trl", seed) in of]
    solved = [pair for pair in pairs if min(run.solve_seconds for run in pair) < inf]
    return (
        median([theirs.update_seconds / ours.update_seconds for theirs, ours in pairs] or [0.0]),
        median([speedup(theirs.solve_seconds, ours.solve_seconds) for theirs, ours in solved] or [0.0]),
    )


def summary(runs: list[Run]) -> str:
    """The table that the bench prints: medians over seeds, and the worst seed in parentheses."""
    lines = [
        f"{'':12}{'ms per update':>13}{'tokens/s':>10}{'seconds to 0.9':>19}{'updates to 0.9':>19}{'final':>7}"
        f"{'wall/CPU':>9}"
    ]
    for algorithm in dict.fromkeys(run.algorithm for run in runs):
        for name in RUNNERS:
            group = [run for run in runs if (run.algorithm, run.runner) == (algorithm, name)]
            if not group:
                continue
            seconds, updates = [run.solve_seconds for run in group], [run.solve_updates for run in group]
            lines.append(
                f"{f'{algorithm} {name}':12}"
                f"{1000 * median(run.update_seconds for run in group):>13.1f}"
                f"{median(run.tokens_per_second for run in group):>10.0f}"
                f"{f'{median(seconds):.2f} ({max(seconds):.2f})':>19}"
                f"{f'{median(updates):.0f} ({max(updates):.0f})':>19}"
                f"{median(run.final for run in group):>7.3f}"
                f"{max(run.wall_over_cpu for run in group):>9.2f}"
            )
        update, solve = ratios(runs, algorithm)
        lines.append(f"{algorithm}: TRL's seconds over ours, paired: {update:.2f} per update, {solve:.2f} to {TARGET}")
    return "\n".join(lines)


def save_base_for_trl(path: Path) -> None:
    """The base model's weights by name, and log-probabilities that a copy must have: 64 prompts, solutions, [64, L]."""
    base, sort = load_base(BASE), TASKS["tokens/sort"]
    prompt = sort.draw(64, torch.Generator().manual_seed(0))
    answer = sort.solution(prompt)
    with torch.no_grad():
        log_prob = base.log_prob(prompt, answer)
    arrays = {name: weight.numpy() for name, weight in base.state_dict().items()}
    np.savez(path, prompt=prompt.T, answer=answer.T, log_prob=log_prob.T, **arrays)


def run(python: str | Path, runner: str, options: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """One training: its rows, and the versions it ran on."""
    found = told_by(python, RUNNERS[runner], *(f"--{name}={value}" for name, value in options.items()))
    who = {"algorithm": options["algorithm"], "runner": runner, "seed": options["seed"]}
    return [who | dict(zip(COLUMNS[3:], row, strict=True)) for row in found["rows"]], found["versions"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, … up to this many")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--out", type=Path, default=ROOT / "book/results/peers_language.csv")
    parser.add_argument("--losses", action="store_true", help="record peers_trl.json instead, and run nothing else")
    parser.add_argument("--read", type=Path, metavar="CSV", help="run nothing; print the summary of this table")
    args = parser.parse_args()
    if args.read:
        print(summary(runs_of(TABLE.read(args.read))))
        return
    theirs = peers_python("trl")
    if args.losses:
        subprocess.run([theirs, "-m", "book.results.peers.run_trl"], cwd=ROOT, env=os.environ | THREADS, check=True)
        return
    rows, versions = [], {}
    with tempfile.TemporaryDirectory() as folder:
        bases = {"torch": BASE, "trl": Path(folder) / "base.npz"}
        save_base_for_trl(bases["trl"])
        for algorithm in args.algorithms:
            for seed in range(args.seeds):
                for runner in RUNNERS:
                    options = {"algorithm": algorithm, "seed": seed, "updates": args.updates, "base": bases[runner]}
                    new, used = run(theirs if runner == "trl" else sys.executable, runner, options)
                    versions |= used
                    rows += new
                    (last,) = runs_of(new)
                    print(
                        f"{algorithm} seed {seed} {runner:6} {1000 * last.update_seconds:.1f} ms per update, "
                        f"{last.solve_seconds:.2f} s to {TARGET}, final {last.final:.3f}",
                        flush=True,
                    )
                    TABLE.write(args.out, rows, versions)  # every time: a long bench may be interrupted
    print(summary(runs_of(rows)))


if __name__ == "__main__":
    main()
