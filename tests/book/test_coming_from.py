"""The page for those who come from another library: its settings are those of the code, with the true defaults."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from minerva_lite.agents import AGENTS
from minerva_lite.agents.networks import Policy

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "book/coming_from.md").read_text("utf8")
TITLES = {"ppo": "PPO", "a2c": "A2C", "trpo": "TRPO", "reinforce": "REINFORCE", "mpo": "MPO", "vmpo": "V-MPO"}
TITLES |= {"sequence": "RLOO, GRPO and PPO over tokens"}
SETTINGS = {name: {each.name: each.default for each in fields(config)} for name, (_, config) in AGENTS.items()}


def table_of(page: str, name: str) -> dict[str, object]:
    """The first column of an agent's table: each setting with the default that the page tells."""
    section = re.search(rf"^## {TITLES[name]}\n(.*?)(?=^## )", page, re.M | re.S)[1]
    rows = re.search(r"^\| this book \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, re.M)[1].splitlines()
    told = [re.fullmatch(r"`(\w+) = ([^`]+)`", row.split("|")[1].strip()) for row in rows]
    assert all(told), [row for row, one in zip(rows, told, strict=True) if not one]
    assert len({one[1] for one in told}) == len(told), "a setting stands once"
    return {one[1]: ast.literal_eval(one[2]) for one in told}


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


def test_a_wrong_default_a_lost_setting_and_a_foreign_one_are_seen():
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
