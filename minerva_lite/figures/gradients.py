"""Policy gradients, their noise and their baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED


def plot_direction_cosine(ax: Axes, gamma: Tensor, cosines: Mapping[str, Tensor]) -> None:
    """Cosine of two directions against the horizon 1 / (1 - gamma), gamma [G]: median and 10 to 90% of each [N, G]."""
    horizon = 1.0 / (1.0 - gamma)
    for (name, cosine), style in zip(cosines.items(), ("-", "--", ":"), strict=False):
        low, middle, high = cosine.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=cosine.dtype), dim=0)
        (line,) = ax.semilogx(horizon, middle, style, label=name)
        ax.fill_between(horizon, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.axhline(0.0, color="black", linewidth=1.0)
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
    right.legend(loc="upper left", fontsize=8)


def plot_gradient_noise(ax: Axes, noise: Mapping[str, float]) -> None:
    """Standard deviation of a batch's gradient, relative to the first estimator's: a bar per estimator."""
    ax.barh(list(noise), list(noise.values()), color=BLUE, height=0.6)
    ax.axvline(1.0, color=GRAY, linewidth=1.0)
    ax.invert_yaxis()
    ax.set(xlabel="noise of one batch, relative to the first (dimensionless)")
