"""`python -m book.results.studies.healthy`: where each figure of a run lies while a preset learns its task.

One run of every preset of CartPole and Pendulum but two long ones. The page `figures_of_a_run` shows its two tables.
"""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from book.results.studies.record import asked, read_rows
from minerva_lite import evaluate, make_env, preset, train
from minerva_lite.agents import AGENTS
from minerva_lite.training.evaluation import History
from minerva_lite.training.presets import PRESETS

# The other two need half a million steps and more.
RUNS = [(agent, "CartPole-v1") for agent in AGENTS if (agent, "CartPole-v1") in PRESETS]
RUNS += [(agent, "Pendulum-v1") for agent in ("trpo", "ppo", "mpo", "vmpo")]
FINAL = "final return"
SHOWN = {"reinforce": "REINFORCE", "a2c": "A2C", "trpo": "TRPO", "ppo": "PPO", "mpo": "MPO", "vmpo": "V-MPO"}
CLOCK = "train/steps_per_second"  # says more of the machine than of the run


class Row(NamedTuple):
    """A figure of a run: 5 %, 50 % and 95 % of its updates lie below these."""

    env_id: str
    agent: str
    figure: str
    low: float
    middle: float
    high: float


def ranges(history: History) -> dict[str, list[float]]:
    """The three quantiles of every figure of the updates, in the order of the names; what is not finite is left out."""
    names = sorted({name for row in history.updates for name in row if "/" in name} - {CLOCK})
    columns = {name: history.column(name) for name in names}
    finite = {name: column[np.isfinite(column)] for name, column in columns.items()}
    return {name: np.quantile(column, [0.05, 0.5, 0.95]).tolist() for name, column in finite.items() if len(column)}


def run(name: str, env_id: str, steps: int | None = None) -> list[Row]:
    """Train the preset from seed 0, for `steps` steps where they are given; its figures, and what it reached."""
    settings = preset(name, env_id)
    env = make_env(env_id, settings.config.num_envs, seed=0)
    agent = AGENTS[name][0](settings.config, env.spec, seed=0, device="cpu")
    history = train(agent, env, steps or settings.total_steps, eval_every=10**9, eval_episodes=1, progress=False)
    final = evaluate(agent, episodes=100)["eval/mean"]
    found = {FINAL: [final] * 3} | ranges(history)
    return [Row(env_id, name, figure, *numbers) for figure, numbers in found.items()]


def table(rows: list[dict[str, str]], env_id: str) -> list[list[str]]:
    """One line a figure, one column an agent: the range from low to high, or one number where they are the same."""
    here = {(row["figure"], row["agent"]): row for row in rows if row["env_id"] == env_id}
    agents = [name for name in AGENTS if any(agent == name for _, agent in here)]
    figures = sorted({figure for figure, _ in here} - {FINAL})
    lines = [["figure", *(SHOWN[name] for name in agents)]]
    for figure in [FINAL, *figures]:
        found = [here.get((figure, agent)) for agent in agents]
        lines.append([figure, *("" if row is None else shown(row) for row in found)])
    return lines


def shown(row: dict[str, str]) -> str:
    """`low to high`, in two significant digits, or in whole numbers from 99.5 on."""
    low, high = (f"{x:.2g}" if abs(x) < 99.5 else f"{x:.0f}" for x in (float(row["low"]), float(row["high"])))
    return low if low == high else f"{low} to {high}"


def table_file(record: Path, env_id: str) -> Path:
    """Where the table of a task lies, beside the record."""
    return record.with_name(f"{record.stem}_{env_id.split('-')[0].lower()}.csv")


if __name__ == "__main__":
    record, options = asked(__spec__.name, __doc__, Row, digits=4)
    record.fill(((env_id, name), partial(run, name, env_id)) for name, env_id in RUNS)
    for env_id in dict.fromkeys(env_id for _, env_id in RUNS):
        with table_file(options.out, env_id).open("w", newline="", encoding="utf8") as file:
            csv.writer(file, lineterminator="\n").writerows(table(read_rows(options.out), env_id))
