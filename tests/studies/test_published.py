"""What is read of Tianshou's files: the evaluations that are compared, seed by seed."""

from __future__ import annotations

import json
import math
from pathlib import Path

from book.results.studies.published import ALGORITHMS, BODIES, of_all, of_seeds
from book.results.studies.record import read_rows

RECORDED = Path(__file__).resolve().parents[2] / "book" / "results" / "published.csv"


def test_of_each_seed_the_last_evaluation_before_every_fifty_thousand_steps_is_kept():
    steps = 0, 30_000, 50_000, 50_001, 90_000, 1_000_000, 1_000_001
    text = "env_step,rew,rew:shaded,rew:a,rew:b\n" + "\n".join(f"{n}.0,0,0,{n / 10},{-n}" for n in steps)
    kept = [(each[:3], math.isnan(each[3])) for each in of_seeds(text)]
    late = 50_000, 90_000, 1_000_000
    assert kept == [(("0", n, n / 10), True) for n in late] + [(("1", n, -n), True) for n in late]


def test_of_all_seeds_the_rows_of_the_agent_are_kept():
    told = [
        {"env_step": 10.0, "rew": rew, "rew_std": 0.5, "Agent": name} for name, rew in (("PPO", 9.0), ("TRPO", 1.5))
    ]
    assert list(of_all(json.dumps(told), "trpo")) == [("all", 10, 1.5, 0.5)]


def test_every_agent_has_ten_seeds_or_all_of_them_on_every_body_and_no_two_bodies_have_the_same_numbers():
    rows = read_rows(RECORDED)
    for algorithm in ALGORITHMS:
        ends = set()
        for body in BODIES:
            mine = [row for row in rows if (row["env_id"], row["algorithm"]) == (f"{body}-v3", algorithm)]
            seeds = [row["seed"] for row in mine]
            assert set(seeds) == ({"all"} if algorithm == "trpo" else set("0123456789"))
            assert {seeds.count(seed) for seed in seeds} == {20}, "every 50,000 steps to a million"
            ends.add(mine[-1]["mean"])
        assert len(ends) == len(BODIES)
