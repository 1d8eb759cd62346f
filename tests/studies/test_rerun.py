"""A short recorded study, run again: its curves lie where the recorded ones lie."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from minerva_lite.training.studies import read_study, study

RESULTS = Path(__file__).resolve().parents[2] / "book" / "results"


def heights(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """The mean return of all evaluations of a run, its curve's height, by seed."""
    by_seed = defaultdict(list)
    for row in rows:
        by_seed[row["seed"]].append(row["mean"])
    return [sum(each) / len(each) for each in by_seed.values()]


@pytest.mark.slow
def test_trpo_on_cartpole_run_again_lies_within_what_was_recorded(tmp_path):
    """The same seeds on another machine are other draws; on one like the recorder's they are the recorded numbers."""
    recorded = [
        row
        for row in read_study(RESULTS / "classic.csv")
        if (row["algorithm"], row["env_id"], row["variant"]) == ("trpo", "CartPole-v1", "preset")
    ]
    study("trpo", ["CartPole-v1"], [200, 201], {"preset": {}}, tmp_path / "again.csv", jobs=1, progress=False)
    again = read_study(tmp_path / "again.csv")
    # Where the mean of two further normal draws lies in 999 of 1000 cases, if the recorded ones are normal.
    known, new = heights(recorded), heights(again)
    spread = stats.sem(known) * math.sqrt(1 + len(known) / len(new))
    low, high = stats.t.interval(0.999, len(known) - 1, loc=sum(known) / len(known), scale=spread)
    assert low <= sum(new) / len(new) <= high
