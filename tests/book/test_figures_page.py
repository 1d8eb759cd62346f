"""The page of the figures: it has a row for each figure that an agent logs, and none that no agent logs."""

import dataclasses
import math
import re
import statistics
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import pytest

from book.results.studies.healthy import CLOCK, FINAL, RUNS, SHOWN, table, table_file
from book.results.studies.record import read_rows
from minerva_lite import train
from minerva_lite.agents import AGENTS
from minerva_lite.formulas.trust_region import LineSearch
from minerva_lite.worlds.envs import make_env
from tests.living import ANSWERS, STEPPERS, make_agent, small_agent

BOOK = Path(__file__).parents[2] / "book"
PAGE = (BOOK / "figures_of_a_run.md").read_text(encoding="utf8")
OWN = {
    "reinforce": {"whole_episodes": True},
    "ppo": {"minibatch_size": 20, "epochs": 1},
    "mpo": {"minibatch_size": 8, "replay_steps": 4000},
}
OPTIONS = {
    "ppo": {'objective="kl_penalty"': {"objective": "kl_penalty"}},
    "mpo": {"action_penalty": {"action_penalty": True}},
    "vmpo": {"importance_clip": {"importance_clip": 1.5, "act_by": "online", "target_period": 2}},
}


def make(name: str, env_id: str, **options):
    """An agent whose rollout ends an episode of Pendulum in its last row, and its environment."""
    return small_agent(name, env_id, **{"num_envs": 2, "rollout_steps": 200} | OWN.get(name, {}) | options)[:2]


def logged(agent, env) -> set[str]:
    """The names of all figures of one update and one evaluation, as a tracker gets them."""
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
    discrete, continuous = logged(*make(name, "CartPole-v1")), logged(*make(name, "Pendulum-v1"))
    assert discrete == promised(name, "")
    assert continuous == promised(name, "") | promised(name, "continuous")
    conditions = {when for who in rows_of_the_page().values() if (when := who.get(SHOWN[name]))}
    resets = {"next-step autoreset"} if name != "mpo" else set()  # whose replay takes no rows of weight 0
    assert conditions == {"continuous", *resets, *OPTIONS.get(name, {})}
    for when, options in OPTIONS.get(name, {}).items():
        assert logged(*make(name, "Pendulum-v1", **options)) - continuous == promised(name, when)
    for when in resets:
        env = make_env("CartPole-v1", 4, backend="gymnasium", autoreset="next_step")
        config = make(name, "CartPole-v1", num_envs=4, rollout_steps=50)[0].config
        assert logged(AGENTS[name][0](config, env.spec, device="cpu"), env) - discrete == promised(name, when)


ANSWERED = re.search(r"^## Answers of a language model$(.*?)^\(", PAGE, re.M | re.S)[1]
ANSWERING = [
    {}, {"kl": "reward"}, {"kl": "loss"}, {"advantage": "critic"}, {"advantage": "grpo", "objective": "gspo"}
]  # fmt: skip


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
        found = logged(*make_agent("sequence", "tokens/copy", **ANSWERS | options)[:2])
        assert found == above | {figure for figure, condition in when.items() if told[condition]}


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


def told_moments(name: str, figures: set[str]) -> dict[str, int | None]:
    """The column of the table of moments that each figure of an agent stands in; of two patterns the longer counts."""
    told = PAGE.split("## When a figure is read")[1]
    rows = re.findall(r"^\| ([\w, -]+) \|(.*)\|$", told, re.M)
    (cells,) = [row.split("|") for who, row in rows if SHOWN[name] in who.split(", ")]
    columns = {p: column for column, cell in enumerate(cells) for p in re.findall("`([^`]+)`", cell)}
    fitting = {figure: [pattern for pattern in columns if fnmatch(figure, pattern)] for figure in figures}
    return {figure: columns[max(found, key=len)] if found else None for figure, found in fitting.items()}


def figures_without(name: str, left_out: Callable[[str, int, int], bool], monkeypatch) -> dict[str, float]:
    """The figures of one update from which gradient steps were taken away.

    left_out: of which optimizer, which of its steps, and how many it takes.
    """
    more = {
        "ppo": {"learning_rate": 0.02},
        "vmpo": {"inner_steps": 3},
        "mpo": {"learner_steps": 2, "eta_init": 0.01},
    }.get(name, {})
    agent, env = make(name, "Pendulum-v1", **more)
    rollout, _ = agent.collect(env, env.reset())
    if name == "trpo" and left_out("", 0, 1):
        agent.search = lambda *arguments: LineSearch(0.0, 1, "kl")
        monkeypatch.setattr("minerva_lite.agents.trpo.fit_lbfgs", lambda *arguments, **how: True)
    optimizers = getattr(agent, "optimizers", {"": agent.optimizer} if hasattr(agent, "optimizer") else {})
    takes = {"": {"ppo": 20, "vmpo": 3}.get(name, 1), "critic": 2, "policy": 2, "duals": 4}
    taken = dict.fromkeys(optimizers, 0)

    def stepping(kind: str, step: Callable[[], None]) -> None:
        taken[kind] += 1
        if not left_out(kind, taken[kind], takes[kind]):
            step()

    for kind, optimizer in optimizers.items():
        optimizer.step = partial(stepping, kind, optimizer.step)
    figures = {figure: float(value) for figure, value in agent.update(rollout).items()}
    assert all(taken[kind] == takes[kind] for kind in optimizers), "the test knows how many steps there are"
    return figures


@pytest.mark.parametrize("name", STEPPERS)
def test_every_figure_is_read_when_the_page_says(name, monkeypatch):
    """What is read after a step changes where the step is left out, and what is read before it does not."""
    whole = figures_without(name, lambda *step: False, monkeypatch)

    def changed(left_out: Callable[[str, int, int], bool]) -> set[str]:
        found = figures_without(name, left_out, monkeypatch)
        return {figure for figure, value in found.items() if value != whole.get(figure) and value == value}

    table = told_moments(name, set(whole))
    parts = ("loss/", "kl/", "adv/", "value/", "dual/")
    assert [figure for figure, moment in table.items() if moment is None and figure.startswith(parts)] == []
    first, at_last, after = ({figure for figure in table if table[figure] == moment} for moment in range(3))
    if name == "mpo":  # temperature and multipliers step before the policy, whose own step is the last
        assert not at_last & changed(lambda kind, i, of: kind in ("critic", "policy") and i == of)
        by_the_duals = changed(lambda kind, i, of: kind == "duals" and i > of - 2)
        assert after <= by_the_duals
        assert {figure for figure in at_last & by_the_duals if not figure.startswith("loss/")} == set()
        return
    by_the_last = changed(lambda kind, i, of: i in (0, of))
    assert not (first | at_last) & by_the_last
    assert after - {"value/fit_failed"} <= by_the_last
    if name in ("ppo", "vmpo"):
        by_the_first = changed(lambda kind, i, of: i == 1)
        assert not first & by_the_first and at_last <= by_the_first


HEALTHY = {(row["env_id"], row["agent"], row["figure"]): row for row in read_rows(BOOK / "results/healthy.csv")}


def middle(run: tuple[str, str], figure: str, column: str = "middle") -> float:
    """What half of a healthy run's updates lie below; nan, which no comparison holds of, if it does not log it."""
    row = HEALTHY.get((*run, figure))
    return float(row[column]) if row else math.nan


def highest(run: tuple[str, str], figure: str) -> float:
    return middle(run, figure, "high")


# By a part of the symptom's own text: what it says, of the middle of a run.
SYMPTOMS = {
    "`train/clip_fraction` near 1": lambda run: middle(run, "train/clip_fraction") > 0.5,
    "`train/clip_fraction` is 0 and `train/max_ratio` is 1": lambda run: middle(run, "train/max_ratio") == 1,
    "stays above 1, not in single updates": lambda run: any(
        middle(run, f"kl/{part}_relative") > 1.5 for part in ("mean", "std")),
    "`kl/psi_kept_relative` stays far above 1": lambda run: any(
        middle(run, f"kl/{part}_relative") > 3 for part in ("estep", "psi_kept")),
    "with a finite set MPO's is near 1": lambda run: middle(run, "train/effective_samples") < 2
    and (run[1] == "vmpo" or middle(run, "train/std") > 0),
    "while `value/target_std` is not small": lambda run: middle(run, "value/explained_variance") < 0
    and middle(run, "value/target_std") > 0.5 * highest(run, "value/target_std"),
    "stays there after the first updates": lambda run: middle(run, "value/pred_std")
    < 0.1 * middle(run, "value/target_std"),
    "`train/std_max` stays at its clamp": lambda run: middle(run, "train/std_max") > 0.9 * math.e**2,
    "spikes a hundred times its median": lambda run: any(
        highest(run, f"train/{part}grad_norm") > 100 * middle(run, f"train/{part}grad_norm")
        for part in ("", "critic_", "policy_")),
    "though a critic learns": lambda run: math.isnan(middle(run, "train/episode_return")),
    "Pendulum's cannot": lambda run: run[0] != "Pendulum-v1" and middle(run, FINAL) < 475,
    "`train/skipped_batches` is above 0": lambda run: highest(run, "train/skipped_batches") > 0,
    "`train/step_fraction` is 0 in many updates": lambda run: middle(run, "train/step_fraction") == 0,
    "`adv/raw_std` is 1 in every update": lambda run: middle(run, "adv/raw_std") == highest(run, "adv/raw_std") == 1,
}  # fmt: skip


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_no_healthy_run_has_a_symptom_of_the_page(symptom):
    symptoms = PAGE.split("(figures-symptoms)=")[1].split("\n## Episodes")[0]
    assert symptom in symptoms
    assert [(agent, env_id) for agent, env_id in RUNS if SYMPTOMS[symptom]((env_id, agent))] == []


def test_what_the_page_calls_healthy_though_it_looks_ill_is_measured():
    """MPO's wide spread and high values, gradients above their clip, no critic's loss in REINFORCE, samples near 1."""
    mpo, cartpole = ("Pendulum-v1", "mpo"), "CartPole-v1"
    assert highest(mpo, "train/std_max") > 5 and middle(mpo, "train/abs_action") > 1
    assert 130 < highest((cartpole, "mpo"), "value/q_max") < 150, "of a return of at most 100, discounted"
    assert middle((cartpole, "ppo"), "train/grad_norm") > 2 * 0.5
    assert middle((cartpole, "mpo"), "train/effective_samples") < 1.2
    assert highest((cartpole, "reinforce"), "loss/value") == 0


def test_the_blocks_of_the_page_run_and_print_what_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(compile(block, "figures_of_a_run.md", "exec"), names)
    assert capsys.readouterr().out == re.search(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)[1]


def test_the_picture_shows_what_the_page_says_of_it():
    rows = read_rows(BOOK / "results/sick.csv")
    assert "the first update moves the policy by 13 nats" in PAGE
    well, ill = dict.fromkeys(row["run"] for row in rows)

    def column(run: str, figure: str) -> list[float]:
        return [float(row["value"]) for row in rows if (row["run"], row["figure"]) == (run, figure)]

    assert round(column(ill, "kl/exact")[0]) == 13 and max(column(ill, "kl/exact")[1:]) < 1e-3
    assert max(column(ill, "train/entropy")[1:]) < 0.005 and max(column(ill, "train/episode_return")[3:]) < 15
    assert max(column(well, "kl/exact")) < 0.015 and column(well, "train/episode_return")[-1] == 500
    assert statistics.median(column(well, "train/entropy")) > 0.4
    assert "figure} _static/sick.svg" in PAGE and (BOOK / "_static/sick.svg").exists()
