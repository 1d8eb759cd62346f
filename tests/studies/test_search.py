"""The search for settings: what is drawn, how it is judged, and that its files are what it would write."""

from __future__ import annotations

import math
import re
from ast import literal_eval
from dataclasses import fields, replace

import pytest

from book.results.studies import search
from book.results.studies.search import FIRST_SEED, GRIDS, GROUPS, PUBLISHED, RUNGS, TUNED, drawn, scores, start
from minerva_lite.agents import AGENTS
from tests.equations import ROOT, markdown


@pytest.mark.parametrize("group", ["halfcheetah", "hopper"])
@pytest.mark.parametrize("algorithm", GRIDS)
def test_what_is_drawn_begins_with_the_start_and_is_the_same_whenever_it_is_drawn(algorithm, group):
    first, again = (drawn(algorithm, group, 12) for _ in range(2))
    assert first == again and len(first) == 12
    known = [*PUBLISHED.get(algorithm, {}), *TUNED.get((algorithm, GROUPS[group][0]), {})]
    assert list(first)[: 1 + len(known)] == ["preset", *known] and first["preset"] == {}
    kept = start(algorithm, group)
    assert len({replace(kept, **changes) for changes in first.values()}) == 12, "no setting is there twice"
    assert set(GRIDS[algorithm]) <= {each.name for each in fields(AGENTS[algorithm][1])}
    longer = drawn(algorithm, group, 13)
    assert list(longer)[:12] == list(first), "more settings are added behind"


def row(variant, seed, mean, env_id="A", episodes=100):
    return {"variant": variant, "seed": seed, "mean": mean, "env_id": env_id, "episodes": episodes}


def test_a_score_is_the_mean_rank_over_tasks():
    """On A, x is first by its mean over seeds; on B, whose scale is a thousandth, last: (1 + 3) / 2."""
    rows = [row("x", 0, 900.0), row("x", 1, 500.0), row("y", 0, 600.0), row("y", 1, 600.0)]
    rows += [row("z", 0, 100.0), row("z", 1, 100.0), row("z", 0, 1e6, episodes=10)]  # no final policy
    rows += [row(name, seed, mean, "B") for seed in (0, 1) for name, mean in (("x", 0.1), ("y", 0.3), ("z", 0.2))]
    assert scores(rows) == {"x": 2.0, "y": 1.5, "z": 2.5}
    assert list(scores([row("x", 0, 1.0), row("y", 0, 1.0)]).values()) == [1.0, 1.0], "equal ones share a rank"
    with pytest.raises(ValueError, match=r"same seeds; A lacks \{\('z', 1\)\}"):
        scores([each for each in rows if (each["variant"], each["seed"], each["env_id"]) != ("z", 1, "A")])


def test_the_better_half_climbs_and_no_seed_is_used_on_two_rungs_or_in_a_report(monkeypatch, tmp_path):
    """Settings are worth their place in the order drawn, except that the first rung thinks the preset worst."""
    asked = []

    def pretend(algorithm, tasks, seeds, variants, path, *, total_steps, **how):
        asked.append((list(variants), list(seeds), total_steps, path.name))
        order = list(drawn("ppo", "body", RUNGS["ppo"][0].settings))
        worth = {name: -1 if name == "preset" else len(order) - order.index(name) for name in variants}
        read[path.name] = [row(name, seed, worth[name], task) for name in variants for seed in seeds for task in tasks]

    read: dict[str, list] = {}
    monkeypatch.setattr(search, "study", pretend)
    monkeypatch.setattr(search, "read_study", lambda path: read[path.name])
    best = search.search("ppo", "body", folder=tmp_path)
    order = list(drawn("ppo", "body", RUNGS["ppo"][0].settings))
    assert [names for names, *_ in asked] == [order, *(order[1 : 1 + rung.settings] for rung in RUNGS["ppo"][1:])]
    assert best == order[1 : 1 + RUNGS["ppo"][-1].settings]
    used = [seed for _, seeds, *_ in asked for seed in seeds]
    assert len(set(used)) == len(used) and min(used) >= FIRST_SEED
    assert [name for *_, name in asked] == ["ppo_body_1.csv", "ppo_body_2.csv"]


def test_the_chapter_prints_the_grid_and_the_rungs_of_ppo():
    text = markdown(ROOT / "book" / "08_which_one_when.ipynb")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text.partition("| PPO's setting |")[2].partition("\n\n")[0], re.M)
    assert {name: literal_eval(f"({values},)") for name, values in rows} == GRIDS["ppo"]
    assert f"from {math.prod(map(len, GRIDS['ppo'].values())):,} settings" in text
    first, second = RUNGS["ppo"]
    assert f"PPO's rungs are {first.settings} settings for {first.steps:,} steps on one seed each" in text
    assert f"and {second.settings} for {second.steps:,} on two." in text
    assert (first.seeds, second.seeds) == (1, 2)
