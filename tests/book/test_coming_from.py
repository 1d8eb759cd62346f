"""The page for those who come from another library: its settings are those of the code, with the true defaults."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from statistics import median

import pytest

from book.results.peers import language
from minerva_lite.agents import AGENTS
from minerva_lite.agents.networks import Policy
from tests.book.test_figures_page import rows_of_the_page
from tests.living import STEPPERS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "book/coming_from.md").read_text("utf8")
TITLES = {"ppo": "PPO", "a2c": "A2C", "trpo": "TRPO", "reinforce": "REINFORCE", "mpo": "MPO", "vmpo": "V-MPO"}
TITLES |= {"sequence": "RLOO, GRPO and PPO over tokens"}
SETTINGS = {name: {each.name: each.default for each in fields(config)} for name, (_, config) in AGENTS.items()}


SHARED = "What the on-policy agents share"
ON_POLICY = [name for name in STEPPERS if name != "mpo"]


def tables_of(title: str) -> list[dict[str, object]]:
    """The first columns of a section's tables: each setting with the default that the page tells."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", TEXT, re.M | re.S)  # a second one might say something else
    tables = []
    for rows in re.findall(r"^\| this book \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, re.M):
        told = [re.fullmatch(r"`(\w+) = ([^`]+)`", row.split("|")[1].strip()) for row in rows.splitlines()]
        assert all(told), [row for row, one in zip(rows.splitlines(), told, strict=True) if not one]
        assert len({one[1] for one in told}) == len(told), "a setting stands once in a table"
        tables.append({one[1]: ast.literal_eval(one[2]) for one in told})
    return tables


def table_of(name: str) -> dict[str, object]:
    """What the page tells of an agent: the shared settings that it has, and in place of them those of its own table."""
    shared = tables_of(SHARED) if name in ON_POLICY else []
    (own,) = tables_of(TITLES[name])
    return {each: value for table in shared for each, value in table.items() if each in SETTINGS[name]} | own


@pytest.mark.parametrize("name", AGENTS)
def test_every_setting_stands_in_its_table_with_its_default(name):
    told, true = table_of(name), SETTINGS[name]
    assert told == true
    assert [each for each in told if isinstance(told[each], bool) != isinstance(true[each], bool)] == []


def test_the_shared_tables_hold_what_the_page_says_they_do():
    """The first is what all five have, the second what a single loss has; V-MPO has four of these, TRPO none."""
    every, gradient = tables_of(SHARED)
    assert set(every) == set.intersection(*(set(SETTINGS[name]) for name in ON_POLICY))
    assert set(gradient) == set.intersection(*(set(SETTINGS[name]) for name in ("reinforce", "a2c", "ppo"))) - set(
        every
    )
    assert [each for each in gradient if each in SETTINGS["vmpo"]][:4] == list(gradient)[:4]
    assert not set(gradient) & set(SETTINGS["trpo"])
    (ppo,) = tables_of("PPO")
    assert not set(ppo) & (every.keys() | gradient.keys()), "the shared defaults are PPO's"


def test_every_name_that_is_logged_here_is_a_figure():
    section = re.search(r"^## What it logs.*?\n(.*?)(?=^## )", TEXT, re.M | re.S)[1]
    ours = re.findall(r"^\| `([\w/]+)` \|", section, re.M)
    assert len(ours) > 15 and set(ours) <= set(rows_of_the_page())


def test_a_stored_step_is_drawn_as_often_as_the_page_says():
    config = AGENTS["mpo"][1]()
    drawn = config.learner_steps * config.minibatch_size * config.sequence_length / config.batch_size
    assert f"each stored step is drawn {drawn:.0f} times on average" in TEXT


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
    """As the text around the tables writes them: `name=value`, without spaces."""
    told = {(name, ast.literal_eval(value)) for name, value in re.findall(r"`(\w+)=([^`\s]+)`", TEXT)}
    assert {("learn_from", "all"), ("stop_test", "epoch"), ("action_penalty", True)} <= told
    assert [name for name, value in told if not accepted(name, value)] == []


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
