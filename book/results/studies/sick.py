"""Three figures of a run that is well, and of one that is not, and a picture of them.

PPO's preset on CartPole, and the same with 100 times its learning rate. The page of the figures shows the picture.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from book.results.studies.record import asked, read_rows
from minerva_book.figures import book_style
from minerva_book.figures.style import BLUE, RED
from minerva_lite import PPOAgent, make_env, preset, train

TASK, FACTOR = "CartPole-v1", 100.0
RUNS = {"the preset": (1.0, BLUE, "-"), f"{FACTOR:.0f} times its learning rate": (FACTOR, RED, "--")}
FIGURES = {"kl/exact": "nats", "train/entropy": "nats", "train/episode_return": "reward"}


class Row(NamedTuple):
    """A figure of one update."""

    run: str
    figure: str
    steps: int
    value: float


def run(name: str, steps: int | None = None) -> list[Row]:
    """Train from seed 0, for the preset's steps unless told otherwise, and read the figures of every update."""
    settings = preset("ppo", TASK)
    config = replace(settings.config, learning_rate=RUNS[name][0] * settings.config.learning_rate)
    env = make_env(TASK, config.num_envs, seed=0)
    agent = PPOAgent(config, env.spec, seed=0, device="cpu")
    history = train(agent, env, steps or settings.total_steps, eval_every=10**9, eval_episodes=1, progress=False)
    return [
        Row(name, figure, int(step), float(value))
        for figure in FIGURES
        for step, value in zip(history.steps(figure), history.column(figure), strict=True)
    ]


def picture(rows: list[dict[str, str]], target: Path) -> None:
    """Draw the figures, one beside the other, a line a run."""
    with mpl.rc_context(book_style()):
        figure = Figure(figsize=(9.0, 3.0))
        panels = figure.subplots(1, len(FIGURES))
        for ax, (name, unit) in zip(panels, FIGURES.items(), strict=True):
            for one, (_, color, line) in RUNS.items():
                here = [row for row in rows if (row["run"], row["figure"]) == (one, name)]
                steps, values = ([float(row[column]) for row in here] for column in ("steps", "value"))
                ax.plot(steps, values, color=color, linestyle=line, linewidth=1.4, label=one)
            ax.set(title=f"{name}, {unit}", xlabel="environment steps")
            ax.set_ylim(0, None)
            ax.set_xticks([0, 30_000, 60_000])
        panels[0].set_yscale("symlog", linthresh=0.01)  # of one run thousandths, of the other several nats
        panels[1].legend(loc="center right")
        figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    target = {"type": Path, "default": Path("book/_static/sick.svg")}
    record, options = asked(__spec__.name, __doc__, Row, digits=4, picture=target)
    record.fill(((name,), partial(run, name)) for name in RUNS)
    picture(read_rows(options.out), options.picture)
