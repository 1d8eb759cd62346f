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


def interval(recorded: list[float], again: int) -> tuple[float, float]:
    """Where the mean of `again` further normal draws lies in 999 of 1000 cases, if the recorded ones are normal."""
    count = len(recorded)
    mean = sum(recorded) / count
    spread = math.sqrt(sum((each - mean) ** 2 for each in recorded) / (count - 1))
    reach = stats.t.ppf(0.9995, count - 1) * spread * math.sqrt(1 / again + 1 / count)
    return mean - reach, mean + reach


def test_the_interval_of_new_means_by_hand_and_by_draws():
    """Heights of 0 and 2 have mean 1 and variance 2; Student's law with one degree of freedom is Cauchy's."""
    low, high = interval([0.0, 2.0], again=2)
    reach = math.tan(math.pi * 0.4995) * math.sqrt(2) * math.sqrt(1 / 2 + 1 / 2)
    assert (low, high) == pytest.approx((1 - reach, 1 + reach))
    draws = stats.norm.rvs(size=(20_000, 12), random_state=0)
    missed = sum(not low <= row[10:].mean() <= high for row in draws for low, high in [interval(list(row[:10]), 2)])
    assert 2 <= missed <= 45, "a thousandth of 20,000 is 20"


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
    low, high = interval(heights(recorded), again=2)
    assert low <= sum(heights(again)) / 2 <= high
