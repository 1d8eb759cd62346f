"""The page of the figures: it has a row for each figure that an agent logs, and none that no agent logs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from minerva_lite import train
from minerva_lite.agents import AGENTS
from minerva_lite.worlds.envs import make_env
from tests.living import ANSWERS, STEPPERS, make_agent
from tests.studies.healthy import CLOCK, FINAL, RUNS, SHOWN, table, table_file
from tests.studies.record import read_rows

BOOK = Path(__file__).parents[2] / "book"
PAGE = (BOOK / "figures_of_a_run.md").read_text(encoding="utf8")
# A rollout that ends an episode of Pendulum in its last row.
SMALL = {"num_envs": 2, "rollout_steps": 200, "hidden": (8,)}
OWN = {
    "ppo": {"minibatch_size": 20, "epochs": 1},
    "trpo": {"value_iterations": 3},
    "vmpo": {"inner_steps": 2},
    "mpo": {"warmup_steps": 0, "learner_steps": 1, "minibatch_size": 8},
}
OPTIONS = {
    "ppo": {'objective="kl_penalty"': {"objective": "kl_penalty"}},
    "mpo": {"action_penalty": {"action_penalty": True}},
    "vmpo": {"importance_clip": {"importance_clip": 1.5, "act_by": "online", "target_period": 2}},
}


def make(name: str, env_id: str, **options):
    agent_class, config_class = AGENTS[name]
    autoreset = options.pop("autoreset", "same_step")
    where = {"backend": "gymnasium", "autoreset": autoreset} if autoreset != "same_step" else {}
    config = config_class(**SMALL | OWN.get(name, {}) | options)
    env = make_env(env_id, config.num_envs, **where)
    return agent_class(config, env.spec, device="cpu"), env


def logged(name: str, env_id: str, **options) -> set[str]:
    """The names of all figures of one update and one evaluation, as a tracker gets them."""
    agent, env = make(name, env_id, **options)
    rows: list[dict] = []
    train(agent, env, agent.config.batch_size, eval_episodes=1, progress=False, callback=rows.append)
    assert "eval/mean" in rows[-1]
    return {figure for row in rows for figure in row if "/" in figure}


def rows_of_the_page(page: str = PAGE) -> dict[str, dict[str, str]]:
    """Of each figure: under what condition ("" if none) each agent logs it."""
    found: dict[str, dict[str, str]] = {}
    for figure, who in re.findall(r"^\| `(\w+/\w+)` \|[^|]*\| ([^|]*) \|[^|]*\|[^|]*\|$", page, re.M):
        assert figure not in found, f"{figure} has two rows"
        told = re.findall(r"([\w-]+)(?: \(([^)]*)\))?(?:, |$)", who)
        assert ", ".join(agent + (f" ({when})" if when else "") for agent, when in told) == who, figure
        every = dict.fromkeys(SHOWN.values(), told[0][1]) if told[0][0] == "all" else dict(told)
        found[figure] = every
    return found


def promised(name: str, when: str) -> set[str]:
    """The figures that the page promises of an agent under a condition."""
    return {figure for figure, who in rows_of_the_page().items() if who.get(SHOWN[name]) == when}


def test_the_page_knows_every_agent():
    assert SHOWN.keys() == STEPPERS.keys()
    assert {agent for who in rows_of_the_page().values() for agent in who} == set(SHOWN.values())


@pytest.mark.parametrize("name", STEPPERS)
def test_every_figure_that_an_agent_logs_is_a_row_and_every_row_is_logged(name):
    discrete, continuous = logged(name, "CartPole-v1"), logged(name, "Pendulum-v1")
    assert discrete == promised(name, "")
    assert continuous == promised(name, "") | promised(name, "continuous")
    conditions = {when for who in rows_of_the_page().values() if (when := who.get(SHOWN[name]))}
    resets = {"next-step autoreset"} if name != "mpo" else set()  # whose replay takes no rows of weight 0
    assert conditions == {"continuous", *resets, *OPTIONS.get(name, {})}
    for when, options in OPTIONS.get(name, {}).items():
        assert logged(name, "Pendulum-v1", **options) - continuous == promised(name, when)
    for when in resets:
        reset = logged(name, "CartPole-v1", autoreset="next_step", num_envs=4, rollout_steps=50)
        assert reset - discrete == promised(name, when)


ANSWERED = re.search(r"^## Answers of a language model$(.*?)^\(", PAGE, re.M | re.S)[1]
ANSWERING = [
    {},
    {"kl": "reward"},
    {"kl": "loss"},
    {"advantage": "critic"},
    {"advantage": "grpo", "objective": "gspo"},
]


def answered(**options) -> set[str]:
    """The names of all figures of one update and one evaluation of the sequence agent."""
    agent, env, _ = make_agent("sequence", "tokens/copy", **ANSWERS | options)
    rows: list[dict] = []
    train(agent, env, agent.config.batch_size, eval_episodes=1, progress=False, callback=rows.append)
    return {figure for row in rows for figure in row if "/" in figure}


def test_every_figure_of_answers_is_a_row_and_every_row_is_logged_when_it_says():
    when = dict(re.findall(r"^\| `(\w+/\w+)` \|[^|]*\| ([^|]*) \|$", ANSWERED, re.M))
    above = set(re.findall(r"`((?:train|eval)/\w+)`", ANSWERED.split("| figure |")[0])) | {
        figure for figure in rows_of_the_page() if figure.startswith("eval/")
    }
    for options in ANSWERING:
        told = {
            "always": True,
            "evaluation": True,
            'kl="loss"': options.get("kl") == "loss",
            'kl="reward" or "loss"': "kl" in options,
            'advantage="critic"': options.get("advantage") == "critic",
        }
        assert answered(**options) == above | {figure for figure, condition in when.items() if told[condition]}


def others(config_class: type, field: dataclasses.Field) -> list:
    """Other values of a setting: every word that it takes, the other flag, a number or widths instead of None."""
    if isinstance(field.default, bool):
        return [not field.default]
    if isinstance(field.default, str):
        with pytest.raises(ValueError, match="wanted one of") as refused:
            config_class(**{field.name: "none of them"})
        words = str(refused.value).split("wanted one of ")[1].split(";")[0].split(", ")
        return [word for word in words if word != field.default]
    return [] if field.default is not None else [(4,)] if "tuple" in field.type else [1.5]


@pytest.mark.parametrize("name", STEPPERS)
def test_no_other_setting_adds_a_figure_that_is_no_row(name):
    """Each with the others at their defaults; what needs a partner is among `OPTIONS`, or refused."""
    rows, tried = set(rows_of_the_page()), 0
    for field in dataclasses.fields(AGENTS[name][1]):
        for value in others(AGENTS[name][1], field):
            for env_id in ("Pendulum-v1", "CartPole-v1"):
                try:
                    agent, env = make(name, env_id, rollout_steps=20, **{field.name: value})
                except ValueError:
                    continue
                if field.name == "whole_episodes" and value and env_id == "Pendulum-v1":
                    continue  # twenty rows hold no whole one
                rollout, _ = agent.collect(env, env.reset())
                assert set(agent.update(rollout)) <= rows, (field.name, value)
                tried += 1
    assert tried > 6


def test_every_symptom_names_figures_of_the_page_and_faults_of_the_errata():
    symptoms = PAGE.split("(figures-symptoms)=")[1].split("\n## Episodes")[0]
    known = set(rows_of_the_page())
    told = set(re.findall(r"`((?:train|eval|loss|kl|dual|adv|value)/\w+)`", symptoms))
    assert told <= known and len(told) > 20
    faults = re.findall(r"\[(\d+)\]\(#fault-(\d+)\)", symptoms)
    assert faults and all(number == anchor for number, anchor in faults)
    anchors = set(re.findall(r"^\(fault-(\d+)\)=$", (BOOK / "errata.md").read_text(encoding="utf8"), re.M))
    assert {anchor for _, anchor in faults} <= anchors
    assert re.findall(r"#fault", symptoms) == ["#fault"] * len(faults)


def test_the_tables_of_the_page_are_those_of_the_record():
    record = BOOK / "results/healthy.csv"
    rows = read_rows(record)
    assert {(row["agent"], row["env_id"]) for row in rows} == set(RUNS)
    assert {row["figure"] for row in rows} - {FINAL} <= set(rows_of_the_page()) - {CLOCK}
    for env_id in dict.fromkeys(env_id for _, env_id in RUNS):
        shown = table_file(record, env_id)
        assert [line.split(",") for line in shown.read_text(encoding="utf8").splitlines()] == table(rows, env_id)
        assert f":file: results/{shown.name}" in PAGE


def test_every_run_of_the_record_learned():
    """A healthy range is one of a run that learned: above what the tests of the presets ask for."""
    solved = {"CartPole-v1": 475.0, "Pendulum-v1": -200.0}
    for row in read_rows(BOOK / "results/healthy.csv"):
        if row["figure"] == FINAL:
            assert float(row["middle"]) >= solved[row["env_id"]], row
