"""The page for those who come from another library: its settings are those of the code, with the true defaults."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from statistics import median

import pytest
import torch

from book.results.peers import language
from minerva_lite.agents import AGENTS
from minerva_lite.agents.networks import Policy
from tests.book.test_figures_page import make, rows_of_the_page
from tests.living import STEPPERS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "book/coming_from.md").read_text("utf8")
TITLES = {"ppo": "PPO", "a2c": "A2C", "trpo": "TRPO", "reinforce": "REINFORCE", "mpo": "MPO", "vmpo": "V-MPO"}
TITLES |= {"sequence": "RLOO, GRPO and PPO over tokens"}
SETTINGS = {name: {each.name: each.default for each in fields(config)} for name, (_, config) in AGENTS.items()}


SHARED = "What the on-policy agents share"
ON_POLICY = [name for name in STEPPERS if name != "mpo"]


def tables_of(page: str, title: str) -> list[dict[str, object]]:
    """The first columns of a section's tables: each setting with the default that the page tells."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", page, re.M | re.S)  # a second one might say something else
    tables = []
    for rows in re.findall(r"^\| this book \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, re.M):
        told = [re.fullmatch(r"`(\w+) = ([^`]+)`", row.split("|")[1].strip()) for row in rows.splitlines()]
        assert all(told), [row for row, one in zip(rows.splitlines(), told, strict=True) if not one]
        assert len({one[1] for one in told}) == len(told), "a setting stands once in a table"
        tables.append({one[1]: ast.literal_eval(one[2]) for one in told})
    return tables


def table_of(page: str, name: str) -> dict[str, object]:
    """What the page tells of an agent: the shared settings that it has, and in place of them those of its own table."""
    shared = tables_of(page, SHARED) if name in ON_POLICY else []
    (own,) = tables_of(page, TITLES[name])
    return {each: value for table in shared for each, value in table.items() if each in SETTINGS[name]} | own


def faults(page: str, name: str) -> list[str]:
    told, true = table_of(page, name), SETTINGS[name]
    wrong = [f"{each}: {told[each]!r}, not {true.get(each)!r}" for each in told if each not in true]
    wrong += [f"{each} is missing" for each in true if each not in told]
    for each in set(told) & set(true):
        if told[each] != true[each] or isinstance(told[each], bool) != isinstance(true[each], bool):
            wrong.append(f"{each}: {told[each]!r}, not {true[each]!r}")
    return wrong


@pytest.mark.parametrize("name", AGENTS)
def test_every_setting_stands_in_its_table_with_its_default(name):
    assert faults(TEXT, name) == []


def test_the_shared_tables_hold_what_the_page_says_they_do():
    """The first is what all five have, the second what a single loss has; V-MPO has four of these, TRPO none."""
    every, gradient = tables_of(TEXT, SHARED)
    assert set(every) == set.intersection(*(set(SETTINGS[name]) for name in ON_POLICY))
    assert set(gradient) == set.intersection(*(set(SETTINGS[name]) for name in ("reinforce", "a2c", "ppo"))) - set(
        every
    )
    assert [each for each in gradient if each in SETTINGS["vmpo"]][:4] == list(gradient)[:4]
    assert not set(gradient) & set(SETTINGS["trpo"])
    (ppo,) = tables_of(TEXT, "PPO")
    assert not set(ppo) & (every.keys() | gradient.keys()), "the shared defaults are PPO's"


def test_every_name_that_is_logged_here_is_a_figure():
    section = re.search(r"^## What it logs.*?\n(.*?)(?=^## )", TEXT, re.M | re.S)[1]
    ours = re.findall(r"^\| `([\w/]+)` \|", section, re.M)
    assert len(ours) > 15 and set(ours) <= set(rows_of_the_page())


def test_a_stored_step_is_drawn_as_often_as_the_page_says():
    config = AGENTS["mpo"][1]()
    drawn = config.learner_steps * config.minibatch_size * config.sequence_length / config.batch_size
    assert f"each stored step is drawn {drawn:.0f} times on average" in TEXT


def test_temperature_and_multipliers_of_mpo_are_clipped_apart(monkeypatch):
    """Each dual step clips the gradient of its own loss: the other parameters have none."""
    agent, env = make("mpo", "Pendulum-v1")
    clipped = []

    def clip(parameters, most):
        parameters = list(parameters)
        if len(parameters) == len(list(agent.duals.parameters())):
            clipped.append({name for name, raw in agent.duals.items() if raw.grad is not None})
        return torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in parameters if p.grad is not None]))

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
    rollout, _ = agent.collect(env, env.reset())
    agent.update(rollout)
    assert clipped == [{"raw_eta"}, {"raw_alpha_mean", "raw_alpha_std"}] and "clipped apart" in TEXT


def test_a_wrong_default_a_lost_setting_and_a_foreign_one_are_seen():
    lost = re.sub(r"^\| `lam = 0.95` \| `gae_lambda = 0.95.*\n", "", TEXT, flags=re.M)
    assert faults(lost, "vmpo") == faults(lost, "ppo")[:1] == ["lam is missing"]
    lost = re.sub(r"^\| `clip_eps = .*\n", "", TEXT, flags=re.M)
    assert faults(lost, "ppo") == ["clip_eps is missing"]
    assert faults(TEXT.replace("`kl_bound = 0.01`", "`kl_bound = 0.02`"), "trpo") == ["kl_bound: 0.02, not 0.01"]
    assert faults(TEXT.replace("`per_dimension = True`", "`per_dimension = 1`"), "mpo") == [
        "per_dimension: 1, not True"
    ]
    renamed = faults(TEXT.replace("`kl_over = ", "`kl_over_all = "), "vmpo")
    assert sorted(renamed) == ["kl_over is missing", "kl_over_all: 'all', not None"]


def written(page: str) -> set[tuple[str, object]]:
    """Settings with a value, as the text around the tables writes them: `name=value`, without spaces."""
    return {(name, ast.literal_eval(value)) for name, value in re.findall(r"`(\w+)=([^`\s]+)`", page)}


def accepted(name: str, value: object) -> bool:
    """Whether some agent has this setting, and lets it have this value where its other settings fit."""
    found = False
    for _, config in AGENTS.values():
        for each in fields(config):
            if each.name == name:
                found = True
                each.metadata.get("check", lambda **named: None)(**{name: value})
    return found


def test_every_setting_that_the_text_gives_a_value_exists_and_takes_it():
    told = written(TEXT)
    assert {("learn_from", "all"), ("stop_test", "epoch"), ("action_penalty", True)} <= told
    assert [name for name, value in told if not accepted(name, value)] == []
    assert not accepted("learning_form", "first")
    with pytest.raises(ValueError, match="^estimator: wanted one of"):
        accepted("estimator", "dae")


def test_each_setting_that_another_name_stands_for_is_the_one_of_the_error():
    """The page tells a reader of Minerva what "dae" is here; the error says the same."""
    assert re.search(r'estimator `"dae"` is \{src\}`"td" <', TEXT)
    with pytest.raises(ValueError, match=r"got 'dae', which is 'td' here$"):
        AGENTS["vmpo"][1](estimator="dae")


def test_the_page_says_in_which_units_densities_are_and_so_does_the_code():
    said = "log-densities and entropies are those of actions in $[-1, 1]$, not of the environment's own units"
    assert said in " ".join(TEXT.split())
    assert "Log-densities and entropies are those of actions in [-1, 1]" in " ".join(Policy.__doc__.split())


def test_the_page_stands_after_the_one_on_training():
    assert "      - file: book/train\n      - file: book/coming_from\n" in (ROOT / "_toc.yml").read_text("utf8")


def test_the_race_with_trl_is_told_as_it_was_recorded():
    """Medians over seeds, to the digits of the table; the chapter says "between two and four times"."""
    rows = language.runs_of(language.TABLE.read(ROOT / "book/results/peers_language.csv"))
    for way in ("grpo", "rloo"):
        told = re.search(rf"^\| {way.upper()} \|(.* ms .*)\|$", TEXT, re.M)[1]
        sides = [[run for run in rows if (run.algorithm, run.runner) == (way, side)] for side in ("trl", "torch")]
        update = [1000 * median(run.update_seconds for run in side) for side in sides]
        solved = [median(run.solve_seconds for run in side) for side in sides]
        ratio, _ = language.ratios(rows, way)
        assert told == (
            f" {update[0]:.0f} ms | {update[1]:.0f} ms | {ratio:.1f} | {solved[0]:.1f} s | {solved[1]:.1f} s "
        )
        assert 2 < ratio < 4
    assert "between two and four times" in (ROOT / "book/09_language_models.ipynb").read_text("utf8")
