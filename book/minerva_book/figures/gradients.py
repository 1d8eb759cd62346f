"""Policy gradients, their noise and their baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED

STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))


def draw_seen_once(ax: Axes, *, later: float) -> None:
    """The world of two states: state 0 is seen once and pays 1 for action 0, state 1 pays `later` for action 1."""
    ax.axis("off")
    ax.set(xlim=(-0.7, 3.0), ylim=(-1.1, 1.3), aspect="equal")
    for x, name in ((0.0, "0"), (1.9, "1")):
        ax.add_patch(Circle((x, 0.0), 0.32, facecolor="white", edgecolor="black", linewidth=1.5))
        ax.text(x, 0.0, name, ha="center", va="center", fontsize=12)
    arrow = {"arrowstyle": "-|>", "mutation_scale": 14, "linewidth": 1.5}
    ways = (
        ((0.26, 0.2), (1.64, 0.2), -0.35, BLUE, "action 0 pays 1", (0.95, 0.62)),
        ((0.26, -0.2), (1.64, -0.2), 0.35, GRAY, "action 1 pays 0", (0.95, -0.72)),
        ((2.14, 0.22), (2.14, -0.22), -2.6, RED, f"action 1\npays {later:g},\nfor ever", (2.52, 0.72)),
    )
    for begin, end, bend, color, words, place in ways:
        ax.add_patch(FancyArrowPatch(begin, end, connectionstyle=f"arc3,rad={bend}", color=color, **arrow))
        ax.text(*place, words, ha="center", va="center", color=color, fontsize=9)
    ax.text(0.0, -0.55, "start", ha="center", va="center", fontsize=9)


def plot_climbs(ax: Axes, climbs: Mapping[str, Sequence[float]], *, worst: float, best: float) -> None:
    """Expected return along the steps of several climbs, between the worst and the best policy of a world."""
    for (name, climb), style, color in zip(climbs.items(), STYLES, (BLUE, RED, GREEN), strict=False):
        ax.plot(climb, linestyle=style, color=color, label=name)
    for level, name, up in ((best, "best policy", 3), (worst, "worst policy", -11)):
        ax.axhline(level, color=GRAY, linewidth=1.0)
        ax.annotate(name, (1.0, level), (-2, up), ("axes fraction", "data"), "offset points", ha="right", color=GRAY)
    ax.set(xlabel="steps of the climb", ylabel="$J$ (reward units)", ylim=(0.38, 1.09))
    ax.legend(loc="center right")


def plot_dropped_factor(ax: Axes, *, gamma: float, later: float) -> None:
    """The world of `draw_seen_once` under two directions: what its states pull with, and where two climbs end.

    Left: shares of the weight of each state times the difference of its two actions' values, with the factor gamma^t
    and without. Right: J along steps of equal length, as a share of the best policy's.
    """
    ax.axis("off")
    left, right = ax.inset_axes((0.09, 0.0, 0.36, 1.0)), ax.inset_axes((0.6, 0.0, 0.4, 1.0))
    best, ahead = max(1.0, later * gamma / (1.0 - gamma)), later * gamma / (1.0 - gamma)
    ways = {"with $\\gamma^t$": (1.0 - gamma, -gamma * later), "without": (0.0, -later)}
    for row, (name, pulls) in enumerate(ways.items()):
        words = ("state 0", "state 1") if row == 0 else (None, None)
        for pull, color, word in zip(pulls, (BLUE, RED), words, strict=True):
            left.barh([row], [pull], height=0.5, color=color, label=word)
        left.plot([sum(pulls)], [row], "D", color="black", markersize=7, label=None if row else "sum")
        logit, worth = 0.0, []
        for _ in range(60):
            chance = 1.0 / (1.0 + math.exp(-logit))
            worth.append((chance + ahead * (1.0 - chance)) / best)
            logit += math.copysign(0.1, sum(pulls))
        right.plot(worth, linestyle=STYLES[row], color=(BLUE, RED)[row], linewidth=2.5 - row, label=name)
    left.axvline(0.0, color="black", linewidth=1.0)
    left.set(yticks=(0, 1), yticklabels=("with\n$\\gamma^t$", "without"), xlim=(-0.23, 0.23), ylim=(2.3, -0.6))
    left.set(xlabel="pull toward action 0", title=rf"$\gamma = {gamma:g}$,  $r_1 = {later:g}$")
    left.legend(loc="lower right")
    right.set(xlabel="steps of the climb", ylabel="$J$ / best policy's $J$", ylim=(0.0, 1.4))
    right.legend(loc="upper left")


def plot_push(axes: Sequence[Axes], bars: Mapping[str, Tensor], bells: Mapping[str, tuple[float, float]]) -> None:
    """One sample and its score move a distribution.

    bars: name -> probabilities [A] of a softmax, the sample is action 2. bells: name -> mean and std of a Gaussian,
    the sample is at 1.5.
    """
    colors = (GRAY, BLUE, RED)
    for i, ((name, probability), color) in enumerate(zip(bars.items(), colors, strict=True)):
        at = torch.arange(len(probability)) + 0.27 * (i - 1)
        axes[0].bar(at, probability, width=0.25, color=color, label=name, hatch=("", "//", "..")[i], edgecolor="white")
    axes[0].annotate("sampled", (1.0, 0.6), ha="center")
    axes[0].set(xticks=(0, 1, 2), xticklabels=("action 1", "action 2", "action 3"), ylim=(0.0, 0.9))
    axes[0].set(ylabel="probability", title="softmax")
    axes[0].legend(loc="upper right")
    grid = torch.linspace(-3.5, 4.0, 301, dtype=torch.float64)
    for (name, (mean, std)), color, style in zip(bells.items(), colors, ("-", "-", "--"), strict=True):
        density = torch.exp(-0.5 * ((grid - mean) / std) ** 2) / (std * math.sqrt(2.0 * math.pi))
        axes[1].plot(grid, density, style, color=color, label=name)
    axes[1].plot([1.5], [0.0], "v", color="black", markersize=8, clip_on=False, zorder=3)
    axes[1].axvline(1.5, color="black", linewidth=0.8, linestyle=":")
    axes[1].annotate("sampled", (1.5, 0.61), (5, 0), textcoords="offset points")
    axes[1].set(xlabel="action (its own units)", ylabel="density", title="Gaussian", ylim=(0.0, 0.65))


def draw_cart_pole(ax: Axes) -> None:
    """What CartPole is: a cart pushed left or right, and a pole that must not fall."""
    ax.axis("off")
    ax.set(xlim=(-2.6, 2.6), ylim=(-0.7, 2.9), aspect="equal")
    ax.plot([-2.4, 2.4], [0.0, 0.0], color=GRAY, linewidth=1.5)
    for x in (-2.4, 2.4):
        ax.plot([x, x], [-0.12, 0.12], color=GRAY, linewidth=1.5)
    ax.add_patch(Rectangle((-0.45, 0.05), 0.9, 0.4, facecolor=BLUE, edgecolor="none"))
    for degrees, color, style, width in ((7.0, ORANGE, "-", 6.0), (12.0, GRAY, "--", 1.2), (-12.0, GRAY, "--", 1.2)):
        angle = math.radians(degrees)
        ax.plot([0.0, 2.1 * math.sin(angle)], [0.45, 0.45 + 2.1 * math.cos(angle)], linestyle=style, color=color,
                linewidth=width, solid_capstyle="round")  # fmt: skip
    for side in (-1.0, 1.0):
        arrow = FancyArrowPatch(
            (0.5 * side, 0.25), (1.3 * side, 0.25), arrowstyle="-|>", mutation_scale=14, color="black"
        )
        ax.add_patch(arrow)
    ax.text(0.0, 2.68, "12° either way", ha="center", fontsize=9, color=GRAY)
    ax.text(0.0, -0.45, "4.8 units of track", ha="center", fontsize=9, color=GRAY)


def plot_seeds(
    ax: Axes,
    runs: Mapping[str, tuple[Any, Tensor]],
    title: str,
    *,
    solved: float,
    ylim: tuple[float, float] = (0.0, 520.0),
) -> None:
    """Learning curves, name -> (steps [K], returns [seeds, K]): the mean over seeds and the band from worst to best."""
    colors = (BLUE, RED, GREEN, ORANGE, GRAY)
    for (name, (steps, returns)), style, color in zip(runs.items(), STYLES, colors, strict=False):
        ax.plot(steps, returns.mean(0), linestyle=style, color=color, label=name)
        ax.fill_between(steps, returns.amin(0), returns.amax(0), color=color, alpha=0.15, linewidth=0)
    ax.axhline(solved, color=GRAY, linewidth=1.0)
    ax.set(xlabel="environment steps", ylabel="return, undiscounted", title=title, ylim=ylim)
    if len(runs) > 1:
        ax.legend(loc="upper left", bbox_to_anchor=(-0.05, -0.2), ncol=2)


def plot_escape(ax: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """Probability of the better of two arms along exact gradient ascent, name -> (time, probability)."""
    for (name, (time, probability)), style, color in zip(curves.items(), STYLES, (BLUE, BLUE, RED, RED), strict=False):
        ax.semilogx(time, probability, linestyle=style, color=color, label=name)
    ax.axhline(0.5, color=GRAY, linewidth=1.0)
    ax.set(
        xlabel=r"time (steps times step size, $\Delta = 1$)", ylabel="probability of the better arm", ylim=(0.0, 0.8)
    )
    ax.legend(loc="upper center", ncol=2)


def plot_direction_cosine(ax: Axes, gamma: Tensor, cosines: Mapping[str, Tensor]) -> None:
    """Cosine of two directions against the horizon 1 / (1 - gamma), gamma [G]: the median of each [N, G].

    Thin lines of the same color: the tenth of the policies for which it is lowest lies below.
    """
    horizon = 1.0 / (1.0 - gamma)
    for (name, cosine), style in zip(cosines.items(), STYLES, strict=False):
        low, middle = cosine.quantile(torch.tensor([0.1, 0.5], dtype=cosine.dtype), dim=0)
        (line,) = ax.semilogx(horizon, middle, linestyle=style, label=name)
        ax.plot(horizon, low, linestyle=style, color=line.get_color(), linewidth=0.9)
    ax.axhline(0.0, color="black", linewidth=1.0)
    ax.annotate("below: a step lowers $J$", (1.0, 0.0), (-2, -4), ("axes fraction", "data"), "offset points",
                ha="right", va="top", color=GRAY)  # fmt: skip
    lowest = min((float(cosine.quantile(0.1, dim=0).min()), name) for name, cosine in cosines.items())
    at = int(cosines[lowest[1]].quantile(0.1, dim=0).argmin())
    ax.annotate(f"worst tenth of\n{lowest[1]}", (float(horizon[at]), lowest[0]), (28, -4), textcoords="offset points",
                va="center", arrowprops={"arrowstyle": "-", "color": GRAY})  # fmt: skip
    ax.set(xlabel=r"horizon $1 / (1 - \gamma)$ (steps)", ylabel=r"cosine with $\nabla J$", ylim=(-1.05, 1.05))
    ax.legend(loc="lower right")


def plot_baseline(ax: Axes, *, baseline: float, chance: float, q_value: tuple[float, float] = (2.0, 1.0)) -> None:
    """A bandit with two arms, the better one pulled with probability `chance`: what a baseline does to one sample.

    Left: the noise of the one-sample gradient against the baseline, exact. Right: the two values it can take.
    """
    better, worse = q_value
    gradient = chance * (1.0 - chance) * (better - worse)

    def sample(b: float | Tensor) -> tuple:
        return (1.0 - chance) * (better - b), -chance * (worse - b)

    def noise(b: float | Tensor) -> Any:
        first, second = sample(b)
        return (chance * (first - gradient) ** 2 + (1.0 - chance) * (second - gradient) ** 2) ** 0.5 / gradient

    ax.axis("off")
    left, right = ax.inset_axes((0.0, 0.0, 0.44, 1.0)), ax.inset_axes((0.57, 0.0, 0.43, 1.0))
    grid = torch.linspace(-0.1, 2.6, 541, dtype=torch.float64)
    left.plot(grid, noise(grid), color=BLUE)
    value, best = chance * better + (1.0 - chance) * worse, (1.0 - chance) * better + chance * worse
    left.axvline(value, color=GREEN, linestyle="--", linewidth=1.5, label=f"$V$ = {value:.2f}")
    left.axvline(best, color=RED, linestyle=":", linewidth=1.8, label=f"$b^*$ = {best:.2f}")
    left.plot([baseline], [noise(baseline)], "o", color="black", markersize=7)
    left.set(xlim=(-0.1, 2.6), ylim=(-0.3, 8.5), xlabel="baseline $b$ (return units)")
    left.set(ylabel="noise of one sample / gradient", title=rf"$\pi_1 = {chance:g}$,  $b = {baseline:g}$")
    left.legend(loc="upper left")

    chances, colors = (chance, 1.0 - chance), (BLUE, ORANGE)
    names = (f"arm 1 ($Q$ = {better:g})", f"arm 2 ($Q$ = {worse:g})")
    values = sample(baseline)
    floors = (0.0, chance if abs(values[0] - values[1]) < 1e-9 else 0.0)  # two values at the same place are stacked
    for at, height, floor, color, name in zip(values, chances, floors, colors, names, strict=True):
        right.bar([at], [height], width=0.06, bottom=floor, color=color, label=name, zorder=2)
    right.axvline(gradient, color="black", linestyle="--", linewidth=1.0, label="mean: the gradient")
    right.set(xlim=(-1.2, 1.6), ylim=(0.0, 1.45), yticks=(0.0, 0.5, 1.0))
    right.set(xlabel="gradient from one sample (return units)", ylabel="probability")
    right.legend(loc="upper left")


def plot_gradient_noise(ax: Axes, noise: Mapping[str, float]) -> None:
    """Standard deviation of a batch's gradient, relative to the first estimator's: a bar per estimator."""
    ax.barh(list(noise), list(noise.values()), color=BLUE, height=0.6)
    ax.set_axisbelow(True)
    ax.axvline(1.0, color=GRAY, linewidth=1.0)
    ax.invert_yaxis()
    ax.set(xlabel="noise of one batch, relative to the first\n(dimensionless)")
