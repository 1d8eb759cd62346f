"""`python -m book.results.peers.bench`: this package and Stable-Baselines3 in turn, seed by seed, one thread each.

Every run is a process of its own; Stable-Baselines3 lives in `.venv-peers`, made on first use. Both sides are
evaluated every 4096 environment steps (MPO, which has no peer here and needs few steps, every 512) on the same 20
episodes of the official environment, off the clock. The clock starts after torch's first optimizer step and holds
everything else, the building of the environments too. The table written has a row an evaluation, the last of a run
over 100 episodes; `--read` prints the summary of one written before. Nothing else should run on the machine
meanwhile: where wall seconds exceed CPU seconds (the summary shows the worst run), something did.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from .tables import Table

ROOT = Path(__file__).resolve().parents[3]
TARGETS = {"Pendulum-v1": -200.0, "CartPole-v1": 475.0}
ALGORITHMS = {
    "ppo": ("Pendulum-v1", "CartPole-v1"),
    "trpo": ("Pendulum-v1", "CartPole-v1"),
    "a2c": ("CartPole-v1",),
    "mpo": ("Pendulum-v1",),
    "vmpo": ("Pendulum-v1", "CartPole-v1"),
}
PEER = "sb3"
RUNNERS = {
    PEER: ["run_sb3"],
    "torch": ["run_minerva", "--backend=torch", "--variant=preset"],
    "gymnasium": ["run_minerva", "--backend=gymnasium", "--variant=preset"],
    "retrace": ["run_minerva", "--backend=torch", "--variant=retrace"],
}
# Stable-Baselines3 has neither MPO nor V-MPO. What others' code needed was measured once, elsewhere, and is not paired.
RUNNERS_OF = {"mpo": ("torch", "retrace"), "vmpo": ("torch",)}
RECORDED = {
    ("mpo", "Pendulum-v1"): "Tonic's MPO (1 environment, 256x256): 151 s, 8k to 20k steps",
    ("vmpo", "Pendulum-v1"): "JORDLY's V-MPO: 33 s, 143k steps, retuned, one seed of two; with its own settings never",
    ("vmpo", "CartPole-v1"): "JORDLY's V-MPO: 2.4 s, 15k to 21k steps",
}
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
COLUMNS = ["env_id", "runner", "seed", "steps", "seconds", "cpu_seconds", "episodes", "mean"]
TABLE = Table(
    "book.results.peers.bench",
    COLUMNS,
    text=frozenset({"env_id", "runner"}),
    digits={"seconds": 3, "cpu_seconds": 3, "mean": 3},
)


@dataclass(frozen=True)
class Run:
    """What one seed of one runner came to. Unsolved: solve_steps and solve_seconds are infinite."""

    env_id: str
    runner: str
    seed: int
    solve_steps: float  # at the first evaluation that reached the target
    solve_seconds: float
    relapses: int  # evaluations after it that fell below the target again
    final: float  # mean return of the last policy, over 100 episodes
    steps: int
    seconds: float
    cpu_seconds: float

    @property
    def solved(self) -> bool:
        return self.solve_steps < inf


def summarize_run(rows: list[dict[str, Any]], target: float) -> Run:
    """One run from its rows in order: the evaluations of the cadence, then the final one."""
    *curve, final = rows
    crossing = next((i for i, row in enumerate(curve) if row["mean"] >= target), None)
    return Run(
        **{name: final[name] for name in ("env_id", "runner", "seed", "steps", "seconds", "cpu_seconds")},
        solve_steps=inf if crossing is None else curve[crossing]["steps"],
        solve_seconds=inf if crossing is None else curve[crossing]["seconds"],
        relapses=0 if crossing is None else sum(row["mean"] < target for row in curve[crossing:]),
        final=final["mean"],
    )


def runs_of(rows: Iterable[dict[str, Any]]) -> list[Run]:
    """The runs that the table holds, in its order."""
    grouped = groupby(rows, itemgetter("env_id", "runner", "seed"))
    return [summarize_run(list(group), TARGETS[env_id]) for (env_id, _, _), group in grouped]


def speedup(theirs: float, ours: float) -> float:
    """How many times faster we solved; 0 if we did not."""
    return 0.0 if ours == inf else theirs / ours


def paired_speedup(runs: list[Run], peers: list[Run]) -> float:
    """Median over seeds of the peer's seconds to solve over ours. A pair that neither solved says nothing."""
    theirs = {run.seed: run for run in peers}
    pairs = [(run, theirs[run.seed]) for run in runs if run.seed in theirs]
    told = [(peer, run) for run, peer in pairs if run.solved or peer.solved]
    return median([speedup(peer.solve_seconds, run.solve_seconds) for peer, run in told] or [0.0])


def summary(runs: list[Run]) -> str:
    """The table that the bench prints: medians over seeds, and the worst seed in parentheses."""
    lines = []
    for env_id in dict.fromkeys(run.env_id for run in runs):
        of = {name: [r for r in runs if (r.env_id, r.runner) == (env_id, name)] for name in RUNNERS}
        lines += [
            f"{env_id}, target {TARGETS[env_id]:.0f}: median over seeds (worst)",
            f"{'':10}{'solved':>7}{'seconds to solve':>19}{'steps to solve':>19}{'relapses':>9}{'final return':>19}"
            f"{'steps/s':>9}{'SB3 / it':>9}{'paired':>8}{'wall/CPU':>9}",
        ]
        for name, group in of.items():
            if not group:
                continue
            finals = [run.final for run in group]
            seconds, steps = [run.solve_seconds for run in group], [run.solve_steps for run in group]
            ratios = ("-", "-")  # nobody to race
            if of[PEER]:
                ratio = speedup(median(run.solve_seconds for run in of[PEER]), median(seconds))
                ratios = (f"{ratio:.2f}", f"{paired_speedup(group, of[PEER]):.2f}")
            lines.append(
                f"{name:10}{f'{sum(run.solved for run in group)}/{len(group)}':>7}"
                f"{f'{median(seconds):.2f} ({max(seconds):.2f})':>19}"
                f"{f'{median(steps):.0f} ({max(steps):.0f})':>19}"
                f"{sum(run.relapses for run in group):>9}"
                f"{f'{median(finals):.1f} ({min(finals):.1f})':>19}"
                f"{median(run.steps / run.seconds for run in group):>9.0f}"
                f"{ratios[0]:>9}{ratios[1]:>8}"
                f"{max(run.seconds / run.cpu_seconds for run in group):>9.2f}"
            )
    return "\n".join(lines)


def peers_python(name: str = "peers") -> Path:
    """The interpreter of `.venv-peers` or `.venv-trl`, which is made, or brought up to date with its requirements.

    name: peers or trl, which differ too much in what they need to live in one environment.
    """
    place = ROOT / f".venv-{name}"
    requirements = Path(__file__).with_name({"peers": "requirements.txt", "trl": "requirements_trl.txt"}[name])
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ready = place / ".ready"  # holds the requirements that were installed
    if not ready.is_file() or ready.read_text() != requirements.read_text():
        print(f"making {place.name}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
        ready.write_text(requirements.read_text())
    return python


def told_by(python: str | Path, module: str, *options: str) -> dict[str, Any]:
    """What a run in a process of its own, on one thread, told. Raises RuntimeError: it failed."""
    command = [python, "-m", f"book.results.peers.{module}", *options]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | THREADS, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(options)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run(
    python: str | Path, algorithm: str, env_id: str, runner: str, seed: int
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """One training: its rows, and the versions it ran on."""
    found = told_by(python, *RUNNERS[runner], f"--algorithm={algorithm}", f"--env={env_id}", f"--seed={seed}")
    named = {"env_id": env_id, "runner": runner, "seed": seed}
    return [named | dict(zip(COLUMNS[3:], row, strict=True)) for row in found["rows"]], found["versions"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS))
    parser.add_argument("--envs", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0, 1, … up to this many")
    parser.add_argument("--out", type=Path, default=ROOT / "book/results", help="folder of the tables peers_….csv")
    parser.add_argument("--read", type=Path, metavar="CSV", help="run nothing; print the summary of this table")
    args = parser.parse_args()
    if args.read:
        print(summary(runs_of(TABLE.read(args.read))))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    pythons: dict[str, str | Path] = dict.fromkeys(RUNNERS, sys.executable)
    if any(PEER in runners_of(algorithm) for algorithm in args.algorithms):
        pythons[PEER] = peers_python()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 0.5:
        print(f"The machine is busy (load {load:.1f}): the seconds will not be worth keeping.", flush=True)
    for algorithm in args.algorithms:
        envs = [env_id for env_id in ALGORITHMS[algorithm] if env_id in args.envs]
        if envs:
            print(f"{algorithm}\n{race(algorithm, envs, args.seeds, pythons, args.out)}", flush=True)


def race(algorithm: str, env_ids: list[str], seeds: int, pythons: dict[str, str | Path], folder: Path) -> str:
    """Every runner of an algorithm on every environment and seed; writes its table and returns the summary."""
    rows, versions = [], {}
    for env_id in env_ids:
        for seed in range(seeds):
            for runner in runners_of(algorithm):
                new, used = run(pythons[runner], algorithm, env_id, runner, seed)
                versions |= used
                rows += new
                (last,) = runs_of(new)
                print(
                    f"{env_id} seed {seed} {runner:10} solved at {last.solve_steps:.0f} steps, "
                    f"{last.solve_seconds:.2f} s; final {last.final:.1f} at {last.steps} steps, {last.seconds:.2f} s",
                    flush=True,
                )
                # Every time: a long bench may be interrupted.
                TABLE.write(folder / f"peers_{algorithm}.csv", rows, versions)
    recorded = [f"{e}, recorded, not paired: {RECORDED[algorithm, e]}" for e in env_ids if (algorithm, e) in RECORDED]
    return "\n".join([summary(runs_of(rows)), *recorded])


def runners_of(algorithm: str) -> tuple[str, ...]:
    """Who races an algorithm."""
    return RUNNERS_OF.get(algorithm, (PEER, "torch", "gymnasium"))


if __name__ == "__main__":
    main()
