"""The page for those who come from another library: its settings are those of the code, with the true defaults."""

import ast
import re
from dataclasses import fields
from statistics import median

import pytest
import torch

from book._ext.settings_table import defaults, table, written
from book.results.peers import language
from minerva_lite.agents import AGENTS
from minerva_lite.agents.networks import Policy
from tests.book.test_figures_page import rows_of_the_page
from tests.equations import ROOT
from tests.living import STEPPERS, small_agent

TEXT = (ROOT / "book/coming_from.md").read_text("utf8")
SETTINGS = {name: defaults(name) for name in AGENTS}
TABLES = re.findall(r"^```\{settings\} (\w+)\n(.*?)^```$", TEXT, re.M | re.S)


def shown(agent: str, body: str) -> list[str]:
    """The settings of a table of the page, as `name = default`."""
    options = dict(re.findall(r"^:(\w+): (.*)$", body, re.M))
    options.pop("class", None)
    rows = table(agent, [line for line in body.splitlines() if not line.startswith(":")], **options)[2:]
    return [row.split(" | ")[0].strip("| `") for row in rows]


@pytest.mark.parametrize("name", AGENTS)
def test_every_setting_stands_in_a_table_of_the_page_with_its_default(name):
    """In the agent's own or, for an on-policy agent, in PPO's with PPO's default."""
    on_policy = name in STEPPERS and name != "mpo"
    read = {name, "ppo"} if on_policy else {name}
    rows = {row for agent, body in TABLES if agent in read for row in shown(agent, body)}
    assert {f"{each} = {written(default)}" for each, default in SETTINGS[name].items()} <= rows


def test_a_table_shows_what_the_code_has_by_itself_and_refuses_what_it_has_not():
    assert shown("a2c", ":against: ppo\nthis book | there\nlam | `x`\n") == [
        "rollout_steps = 16", "lam = 0.95", "normalize_advantage = False"
    ]  # fmt: skip
    everywhere = shown("ppo", ":shared: mpo\nthis book | there\n")
    assert "gamma = 0.99" in everywhere and "clip_eps = 0.2" not in everywhere
    assert "clip_eps = 0.2" in shown("ppo", ":beyond: a2c\nthis book | there\n")
    (row,) = [row for row in table("mpo", ["ours | a | b", "lam | `x` | `y`"]) if "`lam =" in row]
    assert row == "| `lam = 1.0` | `x` | `y` |"
    assert "| `eps_std = 1e-4` | — | — |" in table("mpo", ["ours | a | b"])
    for wrong in ("lamm | `x`", "lam | `x` | `y`"):
        with pytest.raises(ValueError, match=r"^mpo: \w+ is no setting of this table, or has not 1 columns$"):
            table("mpo", ["ours | theirs", wrong])
    assert [written(value) for value in (1e-10, 0.01, 2.5e-3, 1_000, "td", None, (64, 64))] == [
        "1e-10", "0.01", "2.5e-3", "1_000", '"td"', "None", "(64, 64)"
    ]  # fmt: skip


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
    agent, env, obs = small_agent("mpo")
    clipped = []

    def clip(parameters, most):
        parameters = list(parameters)
        if len(parameters) == len(list(agent.duals.parameters())):
            clipped.append({name for name, raw in agent.duals.items() if raw.grad is not None})
        return torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in parameters if p.grad is not None]))

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
    rollout, _ = agent.collect(env, obs)
    agent.update(rollout)
    assert clipped == [{"raw_eta"}, {"raw_alpha_mean", "raw_alpha_std"}] and "clipped apart" in TEXT


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
