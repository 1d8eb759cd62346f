"""Agents beside one another, every number with what other seeds might have given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Generator, Tensor

from minerva_book.live import counted
from minerva_lite.formulas.statistics import (
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)

from .style import BLUE, GRAY, RED

STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
RESAMPLES = 1_000


def plot_bands(
    ax: Axes,
    curves: Mapping[str, Any],
    title: str,
    *,
    generator: Generator,
    best: float | None = None,
    colors: Mapping[str, str] | None = None,
) -> None:
    """Learning curves by name: the interquartile mean over seeds, and its 95 % bootstrap interval as a band.

    curves: with `steps` [K] and `returns` [S, K] each, as `read_curves` gives them. best: the most that an episode can
    bring; bands end there, and a line marks it. colors: by name, instead of the axes' own.
    """
    for (name, curve), style in zip(counted(curves.items(), "bands"), cycle(STYLES), strict=False):
        middle = _middle_of_columns(curve.returns)
        low, high = stratified_bootstrap(_middle_of_columns, [curve.returns], generator=generator, resamples=RESAMPLES)
        if best is not None:
            high = high.clamp(max=best)
        label, color = f"{name} ({len(curve.returns)} seeds)", colors[name] if colors else None
        (line,) = ax.plot(curve.steps, middle, linestyle=style, color=color, label=label)
        ax.fill_between(curve.steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    if best is not None:
        ax.axhline(best, color=GRAY, linewidth=1.0)
    ax.set(xlabel="environment steps", ylabel="return (interquartile mean, 95 % band)", title=title)
    ax.legend(loc="lower right")


def plot_intervals(ax: Axes, scores: Mapping[str, Tensor], *, generator: Generator, unit: str) -> None:
    """Interquartile mean of each agent's scores [S, K], a point in its 95 % bootstrap interval. unit: of a score."""
    for y, each in enumerate(scores.values()):
        low, high = stratified_bootstrap(interquartile_mean, [each], generator=generator, resamples=RESAMPLES)
        (line,) = ax.plot([low, high], [y, y], linewidth=6.0, alpha=0.35, solid_capstyle="butt")
        ax.plot([interquartile_mean(each)], [y], "o", color=line.get_color())
    ax.set(xlabel=f"interquartile mean and its 95 % interval ({unit})")
    ax.set(yticks=range(len(scores)), ylim=(len(scores) - 0.5, -0.5))
    ax.set_yticklabels(scores)


def plot_profiles(ax: Axes, scores: Mapping[str, Tensor], *, generator: Generator, unit: str) -> None:
    """Share of each agent's runs above every score, with 95 % bootstrap bands. scores: [S, K] by name."""
    together = torch.cat([each.flatten() for each in scores.values()])
    threshold = torch.linspace(float(together.min()), float(together.max()), 101, dtype=together.dtype)
    for (name, each), style in zip(scores.items(), cycle(STYLES), strict=False):

        def profile(drawn: Tensor) -> Tensor:
            return performance_profile(drawn, threshold)

        low, high = stratified_bootstrap(profile, [each], generator=generator, resamples=RESAMPLES)
        (line,) = ax.plot(threshold, profile(each), linestyle=style, label=name)
        ax.fill_between(threshold, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.set(xlabel=f"score ({unit})", ylabel="share of runs above it, 95 % band", ylim=(-0.02, 1.02))
    ax.legend()


def plot_improvements(ax: Axes, pairs: Sequence[tuple[str, Tensor, str, Tensor]], *, generator: Generator) -> None:
    """How often a run of one agent beats one of another, pair by pair, with 95 % bootstrap intervals.

    pairs: one agent's name and scores [S, K], the other's name and scores [R, K].
    """
    for y, (_, scores, _, others) in enumerate(pairs):
        low, high = stratified_bootstrap(
            probability_of_improvement, [scores, others], generator=generator, resamples=RESAMPLES
        )
        (line,) = ax.plot([low, high], [y, y], linewidth=6.0, alpha=0.35, solid_capstyle="butt")
        ax.plot([probability_of_improvement(scores, others)], [y], "o", color=line.get_color())
    ax.axvline(0.5, color=GRAY, linewidth=1.0)
    ax.set(xlabel="P(the first beats the second), 95 % interval", xlim=(-0.02, 1.02), yticks=range(len(pairs)))
    ax.set_yticklabels([f"{one} against {other}" for one, _, other, _ in pairs])
    ax.set_ylim(len(pairs) - 0.5, -0.5)


def plot_sensitivity(ax: Axes, knobs: Mapping[str, Mapping[float, Tensor]], title: str) -> None:
    """What runs end at if a setting is another one: a dot for each run, a line through their interquartile means.

    knobs: by setting, and by the factor that it was multiplied with, final returns [S]; the factor 1 is the preset.
    """
    markers = cycle("osD^")
    for i, (name, by_factor) in enumerate(knobs.items()):
        factors = sorted(by_factor)
        middle = [float(interquartile_mean(by_factor[factor])) for factor in factors]
        style = STYLES[i % len(STYLES)]
        (line,) = ax.plot(factors, middle, linestyle=style, marker=next(markers), markersize=5, label=name)
        for factor in factors:
            if factor != 1.0 or i == 0:
                at = torch.full_like(by_factor[factor], factor * 1.06 ** (i - (len(knobs) - 1) / 2))
                color = GRAY if factor == 1.0 else line.get_color()
                ax.plot(at, by_factor[factor], ".", color=color, alpha=0.5, markersize=5)
    ax.axvline(1.0, color=GRAY, linewidth=1.0)
    ax.set(xscale="log", xlabel="setting, as a multiple of the preset's", ylabel="final return", title=title)
    ax.legend(loc="lower center")


def plot_order(ax: Axes, gap: float, seeds: int) -> None:
    """Where the difference of two agents' means falls, for normal scores: shaded the part that orders them wrongly.

    gap: between the true means, in standard deviations of a run. seeds: runs of each agent. The gray bar holds 95 %
    of all comparisons, so where it reaches zero a comparison may well leave the order open.
    """
    spread = math.sqrt(2.0 / seeds)
    difference = torch.linspace(-3.0, 4.0, 701, dtype=torch.float64)
    density = torch.exp(-0.5 * ((difference - gap) / spread) ** 2)
    ax.plot(difference, density, color=BLUE)
    wrong = difference <= 0.0
    ax.fill_between(difference[wrong], 0.0, density[wrong], color=RED, alpha=0.5, linewidth=0)
    ax.plot([gap - 1.96 * spread, gap + 1.96 * spread], [-0.06, -0.06], color=GRAY, linewidth=5.0)
    ax.text(gap, 0.02, "95 % of comparisons", ha="center", va="bottom", fontsize="small")
    ax.axvline(0.0, color=GRAY, linewidth=1.0)
    ax.set(xlabel="difference of the two means (standard deviations of a run)", ylabel="density (of its peak)")
    ax.set(xlim=(-3.0, 4.0), ylim=(-0.12, 1.05), xticks=range(-3, 5))
    share = 0.5 * math.erfc(gap / spread / math.sqrt(2.0))
    ax.set_title(f"ordered wrongly: {100 * share:.1f} %")


def _middle_of_columns(returns: Tensor) -> Tensor:
    """The interquartile mean of each column of returns [S, K]: [K]."""
    return torch.stack([interquartile_mean(column) for column in returns.T])
