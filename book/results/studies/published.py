"""`python -m book.results.studies.published CLONE`: what Tianshou's agents reached on MuJoCo's bodies, seed by seed.

CLONE is a clone of github.com/thu-ml/tianshou. Two of its commits hold the runs behind the tables of its
`examples/mujoco/README.md` (MIT license): ten seeds, the mean return of ten test episodes of the deterministic policy
at every evaluation, on version 3 of Gym's bodies. Kept is of each seed the last evaluation before every 50,000 steps up
to a million, which is how often and how long this book's agents are evaluated on version 5 of the same bodies. Of TRPO
only mean and standard deviation over the seeds are there: its files of single seeds are Ant's on every body.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from book.results.studies.record import asked

FOLDER = "examples/mujoco/benchmark/{body}-v3"
OF_SEEDS = f"beab227d:{FOLDER}/{{algorithm}}/test_rew_10seeds.csv"
OF_ALL = f"22c0b9bd:{FOLDER}/result.json"
BODIES = ("HalfCheetah", "Hopper", "Walker2d")
ALGORITHMS = ("reinforce", "a2c", "trpo", "ppo", "sac", "td3")
EVERY, UNTIL = 50_000, 1_000_000  # environment steps


class Row(NamedTuple):
    """One evaluation of one seed, or of all ten."""

    source: str
    env_id: str
    algorithm: str
    seed: str  # "all": mean and standard deviation are over the ten seeds
    steps: int  # of the environment
    mean: float  # return of ten episodes
    std: float  # over seeds; nan for one of them


def thinned(evaluations: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """The last evaluation in each `EVERY` steps up to `UNTIL`; evaluations: steps, and what was seen, in order."""
    kept = {-(-steps // EVERY): (steps, seen) for steps, seen in evaluations if 0 < steps <= UNTIL}
    return list(kept.values())


def shown(clone: Path, file: str) -> str:
    """A file of the clone, named by its commit. Raises CalledProcessError: there is none."""
    return subprocess.run(["git", "-C", clone, "show", file], check=True, capture_output=True, text=True).stdout


def of_seeds(text: str) -> Iterator[tuple[str, int, float, float]]:
    """Seed, steps, return and nan, of a file whose columns are steps, mean, standard deviation and a column a seed."""
    rows = list(csv.reader(text.splitlines()))[1:]
    evaluations = thinned((int(float(steps)), seeds) for steps, _, _, *seeds in rows)
    for seed in range(len(evaluations[0][1])):
        yield from ((str(seed), steps, float(seeds[seed]), math.nan) for steps, seeds in evaluations)


def of_all(text: str, algorithm: str) -> Iterator[tuple[str, int, float, float]]:
    """The word "all", steps, mean and standard deviation over the seeds, of a list of every agent's evaluations."""
    mine = [row for row in json.loads(text) if row["Agent"] == algorithm.upper()]
    for steps, row in thinned((int(row["env_step"]), row) for row in mine):
        yield "all", steps, row["rew"], row["rew_std"]


def read(clone: Path, body: str, algorithm: str) -> list[Row]:
    """All rows of one agent on one body."""
    if algorithm == "trpo":
        found = of_all(shown(clone, OF_ALL.format(body=body)), algorithm)
    else:
        found = of_seeds(shown(clone, OF_SEEDS.format(body=body, algorithm=algorithm)))
    return [Row(*named(body, algorithm), *each) for each in found]


def named(body: str, algorithm: str) -> tuple[str, str, str]:
    """The first cells of a row."""
    return f"Tianshou {(OF_ALL if algorithm == 'trpo' else OF_SEEDS).partition(':')[0]}", f"{body}-v3", algorithm


if __name__ == "__main__":
    record, options = asked(__spec__.name, __doc__, Row, digits=6, clone={"type": Path})
    record.fill((named(*each), partial(read, options.clone, *each)) for each in itertools.product(BODIES, ALGORITHMS))
