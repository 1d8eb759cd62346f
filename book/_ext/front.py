"""Draw the pictures of the front page and of the README, in `book/_static`: `make front`.

`swing.svg` shows one agent before, during and after it learned. PPO trains on Pendulum by its preset and acts, by its
policy's mode, from the same start: the pole hanging down at rest. Below each stage stands the policy itself, the
density of its push in that first state. The picture moves by its style sheet alone, so that it needs no script, stands
still for readers who asked for less motion, and is stopped by a checkbox. `family.svg` is the family tree of the
algorithms, `learning.svg` shows PPO's recorded runs on CartPole.
"""

import copy
import math
from pathlib import Path
from xml.sax.saxutils import escape

import matplotlib as mpl
import torch
from matplotlib.figure import Figure

from minerva_book.figures import book_style, plot_family
from minerva_book.figures.style import BLUE, GRAY
from minerva_lite import PPOAgent, evaluate, make_env, preset, train
from minerva_lite.training.studies import read_study

MINUS = "\N{MINUS SIGN}"
BOOK = Path(__file__).resolve().parents[1]
STATIC = BOOK / "_static"
SECONDS = 10.0  # of one episode: 200 steps of 0.05 s
EVERY = 2  # steps between two of the picture's angles
PANEL, HEIGHT, POLE = 200, 380, 62
FLOOR, BELL, UNIT = 335, 62, 40  # of the policy's density: where it stands, how high 1 is, how wide a full push is


def stages(seed: int = 0) -> dict[str, PPOAgent]:
    """The agent untrained, after the first sixth of its preset's training, and after all of it."""
    settings = preset("ppo", "Pendulum-v1")
    env = make_env("Pendulum-v1", settings.config.num_envs, seed=seed)
    agent = PPOAgent(settings.config, env.spec, seed=seed, device="cpu")
    kept = {"0 steps": copy.deepcopy(agent)}

    def keep(row: dict[str, float]) -> None:
        if row["steps"] >= (1 if len(kept) > 1 else 1 / 6) * settings.total_steps:
            kept[f"{row['steps']:,.0f} steps"] = copy.deepcopy(agent)

    train(agent, env, settings.total_steps, eval_every=settings.total_steps, progress=False, callback=keep)
    return dict(list(kept.items())[:3])


def swing(agent: PPOAgent) -> tuple[list[float], float]:
    """Angles of an episode from rest below (degrees from upright, not wrapped) and its return."""
    env = make_env("Pendulum-v1", 1)
    env.reset()
    env.state = torch.tensor([[math.pi, 0.0]])
    angles, total = [180.0], 0.0
    for _ in range(env.max_steps):
        action, _ = agent.act(env.observe(env.state), deterministic=True)
        successor, reward, _ = env.advance(env.state, agent.policy.to_env(action))
        env.state, total = successor, total + reward.item()
        angles.append(math.degrees(successor[0, 0].item()))
    return angles, total


def push(agent: PPOAgent) -> tuple[float, float]:
    """Mean and standard deviation of the policy's push where the pole hangs at rest; a full push is 1."""
    env = make_env("Pendulum-v1", 1)
    env.reset()
    with torch.no_grad():
        mean, std = agent.policy(agent.normalized(env.observe(torch.tensor([[math.pi, 0.0]]))))
    return mean.item(), std.item()


def bell(x: float, mean: float, std: float) -> str:
    """The policy's density around `x` on the picture, with marks at a full push to either side."""
    pushes = [-2.2 + 0.05 * i for i in range(89)]
    heights = [math.exp(-0.5 * ((each - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi)) for each in pushes]
    points = " ".join(f"{x + UNIT * each:.1f},{FLOOR - BELL * h:.1f}" for each, h in zip(pushes, heights, strict=True))
    marks = "".join(
        f'<line x1="{x + UNIT * each:g}" x2="{x + UNIT * each:g}" y1="{FLOOR}" y2="{FLOOR + 5}"/>'
        for each in (-1, 0, 1)
    )
    return (
        f'<polyline class="bell" points="{points}"/><g class="axis">'
        f'<line x1="{x - 2.2 * UNIT:g}" x2="{x + 2.2 * UNIT:g}" y1="{FLOOR}" y2="{FLOOR}"/>{marks}</g>'
        f'<text x="{x - UNIT:g}" y="{FLOOR + 25}" class="small">left</text>'
        f'<text x="{x + UNIT:g}" y="{FLOOR + 25}" class="small">right</text>'
    )


def picture(
    episodes: dict[str, tuple[list[float], float]], policies: list[tuple[float, float]], means: list[float]
) -> str:
    """The SVG: a panel an episode, above it the policy's density; `means` are returns from a hundred random starts."""
    frames, panels, words = [], [], []
    for number, ((steps, (angles, total)), policy, mean) in enumerate(
        zip(episodes.items(), policies, means, strict=True)
    ):
        shown = angles[::EVERY]
        told = f"return {total:.0f}".replace("-", MINUS)
        # The y axis of a picture points down, and the environment's angle grows counterclockwise.
        keys = "".join(
            f"{100 * i / (len(shown) - 1):.3g}%{{transform:rotate({-angle:.1f}deg)}}" for i, angle in enumerate(shown)
        )
        frames.append(f"@keyframes swing{number}{{{keys}}}.swing .pole{number}{{animation-name:swing{number}}}")
        x, y = PANEL * (number + 0.5), 96
        panels.append(
            f'<circle cx="{x:g}" cy="{y}" r="{POLE + 16}" class="rim"/>'
            f'<g transform="translate({x:g} {y})"><g class="pole pole{number}" transform="rotate({-shown[-1]:.1f})">'
            f'<line y2="{-POLE}"/><circle cy="{-POLE}" r="9"/></g><circle r="4" class="pin"/></g>'
            f'<text x="{x:g}" y="204">{escape(steps)}</text>'
            f'<text x="{x:g}" y="229" class="small">{told}</text>'
            f'<text x="{x:g}" y="252" class="small">{f"on average {mean:.0f}".replace("-", MINUS)}</text>'
            + bell(x, *policy)
        )
        upright = sum(abs((a + 180) % 360 - 180) < 20 for a in angles) / len(angles)
        words.append(
            f"after {steps} it is within 20 degrees of upright {upright:.0%} of the time ({told}); its first push has "
            f"mean {policy[0]:.1f} and standard deviation {policy[1]:.1f} of a full one".replace("-", MINUS)
        )
    width = PANEL * len(episodes)
    described = "A pendulum hangs down, and PPO's policy turns it for 10 seconds: " + "; ".join(words) + "."
    style = "".join(frames)
    return (
        f'<svg class="swing" viewBox="0 0 {width} {HEIGHT}" role="img" aria-labelledby="swing-words" '
        'xmlns="http://www.w3.org/2000/svg">'
        f'<title id="swing-words">{described}</title>'
        f"<style>.swing .pole{{animation:{SECONDS:g}s linear infinite}}{style}</style>{''.join(panels)}</svg>\n"
    )


def family(target: Path) -> None:
    """Write the family tree."""
    with mpl.rc_context(book_style()):
        figure = Figure(figsize=(9.6, 6.2))
        plot_family(figure.add_subplot())
        figure.savefig(target, metadata={"Date": None})


def learning(target: Path) -> None:
    """Write the returns of the five runs that `book/results/ppo_ablations.csv` holds of PPO's preset on CartPole."""
    rows = read_study(BOOK / "results" / "ppo_ablations.csv")
    rows = [row for row in rows if (row["env_id"], row["variant"]) == ("CartPole-v1", "preset")]
    evaluations = [row for row in rows if row["episodes"] == 10]  # the last evaluation, of 100 episodes, comes again
    runs = {seed: [row for row in evaluations if row["seed"] == seed] for seed in {row["seed"] for row in rows}}
    with mpl.rc_context(book_style()):
        figure = Figure(figsize=(6.4, 2.8))
        ax = figure.add_subplot()
        for run in runs.values():
            ax.plot([row["steps"] for row in run], [row["mean"] for row in run], color=BLUE, linewidth=1.0, alpha=0.7)
        ax.axhline(475.0, color=GRAY, linewidth=1.0, linestyle="--")
        ax.annotate(
            "solved: 475", (65_536, 475.0), (0, -4), textcoords="offset points", color=GRAY, ha="right", va="top"
        )
        ax.set(xlabel="environment steps", ylabel="mean return of 10 episodes", ylim=(0, 520), xlim=(0, None))
        ax.set_title(f"PPO on CartPole-v1 by its preset: {len(runs)} seeds", fontsize=10)
        figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    torch.set_num_threads(1)
    agents = stages()
    moving = picture(
        {name: swing(agent) for name, agent in agents.items()},
        [push(agent) for agent in agents.values()],
        [evaluate(agent, episodes=100)["eval/mean"] for agent in agents.values()],
    )
    STATIC.joinpath("swing.svg").write_text(moving, "utf8")
    family(STATIC / "family.svg")
    learning(STATIC / "learning.svg")
