"""Recorded studies, read so that they can be compared: every curve with all its seeds, or an error with the file."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .fingerprint import same_fingerprint
from .studies import COLUMNS, read_study

Key = tuple[str, str, str]  # algorithm, environment, variant


@dataclass(frozen=True)
class Curve:
    """The runs of one algorithm on one environment in one variant: S seeds, K evaluations."""

    steps: Tensor  # [K] environment steps of each evaluation, the median over seeds
    steps_of_seeds: Tensor  # [S, K]; differs between seeds only for agents that collect whole episodes
    returns: Tensor  # [S, K] mean return of the episodes of each evaluation
    final: Tensor  # [S] mean return of the final policy over 100 episodes
    final_steps: int  # environment steps that it was trained for, the median over seeds


def read_curves(path: str | Path, *, seeds: int) -> dict[Key, Curve]:
    """The curves of a study's file, in its order.

    seeds: how many each curve must have, so that a band over three is never shown for one over five.
    Raises ValueError, which names the file: a column is missing, a seed stands there twice, the runs of a curve have
    different fingerprints or were evaluated at different steps, or a curve has another number of seeds. Steps count as
    different where a seed's evaluation comes no earlier than another's next one: agents that collect whole episodes
    cannot stop on the step.
    """
    path = Path(path)
    with path.open(newline="", encoding="utf8") as file:
        found = next(csv.reader(line for line in file if not line.startswith("#")), [])
    if missing := [name for name in COLUMNS if name not in found]:
        raise ValueError(f"{path.name}: wanted the columns of a study; {', '.join(missing)} missing")
    runs: dict[Key, dict[int, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for row in read_study(path):
        runs[row["algorithm"], row["env_id"], row["variant"]][int(row["seed"])].append(row)
    curves = {}
    for key, by_seed in runs.items():
        name = f"{path.name}: {' '.join(key)}"
        if len(by_seed) != seeds:
            raise ValueError(f"{name}: wanted {seeds} seeds; got {len(by_seed)}")
        curves[key] = _curve(name, by_seed)
    return curves


def _curve(name: str, by_seed: Mapping[int, list[dict]]) -> Curve:
    marks = [row["fingerprint"] for rows in by_seed.values() for row in rows]
    if other := next((mark for mark in marks if not same_fingerprint(mark, marks[0])), None):
        raise ValueError(f"{name}: wanted runs of one fingerprint; got {marks[0]} and {other}")
    finals, watched = [], []
    for seed, rows in by_seed.items():
        last = [row for row in rows if row["episodes"] == 100]
        if len(last) != 1:
            raise ValueError(f"{name}: wanted each seed once; got seed {seed} {len(last)} times")
        finals += last
        watched.append([row for row in rows if row["episodes"] != 100])
    steps = [[int(row["steps"]) for row in [*rows, last]] for rows, last in zip(watched, finals, strict=True)]
    if len({len(each) for each in steps}) != 1 or not _in_turn(torch.tensor(steps)):
        raise ValueError(f"{name}: wanted evaluations at the same steps for every seed; got different ones")
    taken = torch.tensor(steps)
    return Curve(
        steps=taken[:, :-1].median(0).values,
        steps_of_seeds=taken[:, :-1],
        returns=torch.tensor([[row["mean"] for row in rows] for rows in watched], dtype=torch.float64),
        final=torch.tensor([row["mean"] for row in finals], dtype=torch.float64),
        final_steps=int(taken[:, -1].median()),
    )


def _in_turn(steps: Tensor) -> bool:
    """Whether all seeds [S, K + 1] come to an evaluation before any comes to the next, and end that near, too.

    The last column is the final policy's.
    """
    watched, final = steps[:, :-1], steps[:, -1]
    in_turn = bool((watched[:, :-1].max(0).values < watched[:, 1:].min(0).values).all())
    apart = int(final.max() - final.min())
    between = watched.median(0).values.diff()
    return in_turn and (apart == 0 or apart < int(between.min()) if len(between) else apart == 0)
