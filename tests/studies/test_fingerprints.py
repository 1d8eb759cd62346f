"""Which recorded studies are of agents, settings and environments that the tree no longer has."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from book.results.studies import memory, search, sensitivity
from book.results.studies.record import read_rows
from minerva_lite import make_env
from minerva_lite.agents import AGENTS
from minerva_lite.training.defaults import settings_for
from minerva_lite.training.fingerprint import fingerprint, same_fingerprint, settings_digest
from minerva_lite.training.presets import PRESETS
from minerva_lite.training.studies import SEEDING_LINE, read_study
from minerva_lite.training.variants import ABLATIONS, varied

RESULTS = Path(__file__).resolve().parents[2] / "book" / "results"


def marked() -> list[Path]:
    """The recorded files whose rows carry a fingerprint."""
    found = []
    for path in sorted(RESULTS.rglob("*.csv")):
        with path.open(newline="", encoding="utf8") as file:
            if "fingerprint" in next(csv.reader(line for line in file if not line.startswith("#")), []):
                found.append(path)
    return found


def settings_of(path: Path, algorithm: str, env_id: str, variant: str) -> Any:
    """The configuration that a row's name stands for today. Raises KeyError: it is a name of nothing."""
    if path.parent.name == "search":
        group = path.stem.split("_")[1]
        return replace(search.start(algorithm, group), **search.settings(algorithm, group)[variant])
    kept = settings_for(algorithm, env_id).config  # the preset; where there is none, the defaults of the family
    if path.parent.name == "sensitivity":
        return varied(kept, sensitivity.variants(algorithm)[variant])
    return varied(kept, ABLATIONS[algorithm][variant])


@pytest.mark.parametrize("updates", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["settings", "updates"])
@pytest.mark.parametrize("path", marked(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recorded_curve_has_the_settings_that_its_name_stands_for_and_is_of_todays_agent(path, updates):
    """With `updates` its agent and environment are today's, too, unless the file is of the former seeding."""
    updates = updates and SEEDING_LINE in path.read_text("utf8").splitlines()[:4]
    marks = {(r["algorithm"], r["env_id"], r["variant"]): r["fingerprint"] for r in read_study(path)}
    stale = []
    for name, mark in marks.items():
        config = settings_of(path, *name)
        now = fingerprint(AGENTS[name[0]][0], config, name[1]) if updates else settings_digest(config)
        if not same_fingerprint(mark, now) if updates else mark.partition("-")[0] != now:
            stale.append(f"{' '.join(name)} was {mark} and is {now}")
    assert stale == []


WON = [("ppo", "pendulum", 1)]  # and the last rung of each
WON += [(algorithm, "hill", 1) for algorithm in ("reinforce", "a2c", "trpo", "vmpo")]
WON += [("ppo", "halfcheetah-million", 1), ("trpo", "halfcheetah", 2), ("mpo", "walker", 1)]
WON += [(algorithm, "moon", 1) for algorithm in ("trpo", "vmpo")]
WON += [(algorithm, "flight", 1) for algorithm in ("trpo", "ppo", "vmpo")]
WON += [(algorithm, group, 2) for algorithm in ("ppo", "trpo") for group in ("hopper", "walker2d")]


@pytest.mark.parametrize(("algorithm", "group", "rung"), WON)
def test_the_winner_of_a_recorded_search_is_the_preset(algorithm, group, rung):
    ranks = search.scores(read_study(RESULTS / "search" / f"{algorithm}_{group}_{rung}.csv"))
    winner = min(ranks, key=ranks.__getitem__)
    found = search.whole(algorithm, group, search.settings(algorithm, group)[winner])
    (env_id,) = search.GROUPS[group]
    assert vars(PRESETS[algorithm, env_id].config) == found


@pytest.mark.parametrize("row", read_rows(RESULTS / "memory.csv"), ids=lambda row: f"{row['agent']}-{row['env_id']}")
def test_memory_was_measured_with_networks_of_todays_size(row):
    agent = AGENTS[row["agent"]][0](PRESETS[row["agent"], row["env_id"]].config, make_env(row["env_id"]).spec)
    assert memory.weights_of(agent) == int(row["weights"])
