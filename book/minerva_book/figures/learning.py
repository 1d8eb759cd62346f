"""How agents learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GRAY, ORANGE

LABELS = {
    "kl/exact": "KL(old || new) (nats)",
    "train/clip_fraction": "clip fraction",
    "train/std": "std of the policy (action units)",
    "value/explained_variance": "explained variance",
    "adv/raw_std": "spread of the raw advantages",
    "eval/mean": "mean return of 10 episodes",
}


def plot_diagnostics(axes: Any, history: Any, names: Sequence[str], *, marked: str | None = None) -> None:
    """One diagnostic per axis, against environment steps. Explained variance is cut at -1; lower values say no more.

    marked: a diagnostic; lines in all axes mark the updates in which it is negative.
    """
    negative = history.steps(marked)[history.column(marked) < 0] if marked else ()
    for ax, name in zip(axes.flat, names, strict=True):
        for step in negative:
            ax.axvline(step, color=ORANGE, linewidth=2.5, alpha=0.35)
        ax.plot(history.steps(name), history.column(name), color=BLUE, linewidth=1.5)
        ax.set(ylabel=LABELS.get(name, name))
        if name == "value/explained_variance":
            ax.set_ylim(-1.0, 1.05)
        if name == "adv/raw_std":
            ax.set_yscale("log")
    for ax in axes[-1]:
        ax.set(xlabel="environment steps")


def plot_quartiles(
    ax: Axes,
    runs: Mapping[str, tuple[Any, Tensor]],
    title: str,
    *,
    solved: float,
    ylim: tuple[float, float] | None = None,
) -> None:
    """Learning curves, name -> (steps [K], returns [seeds, K]): the median over seeds, the quartiles as a band."""
    for (name, (steps, returns)), style in zip(runs.items(), ("-", "--", ":", "-."), strict=False):
        low, middle, high = returns.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=returns.dtype), 0)
        (line,) = ax.plot(steps, middle, style, label=name)
        ax.fill_between(steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    ax.axhline(solved, color=GRAY, linewidth=1.0)
    ax.set(xlabel="environment steps", ylabel="mean return of 10 episodes", title=title, ylim=ylim)
    ax.legend(loc="lower right")


def plot_ablations(ax: Axes, rows: Sequence[Mapping[str, Any]], *, solved: float) -> None:
    """Final return of every seed of every variant: a dot per seed, a bar at the median.

    rows: those of one environment and over 100 episodes from `read_study`.
    """
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    for y, variant in enumerate(variants):
        means = sorted(row["mean"] for row in rows if row["variant"] == variant)
        ax.plot(means, [y] * len(means), "o", color=BLUE, alpha=0.6, markersize=5)
        ax.plot([means[len(means) // 2]], [y], "|", color="black", markersize=14, markeredgewidth=2)
    ax.axvline(solved, color=GRAY, linewidth=1.0)
    ax.set(xlabel="mean return of 100 episodes", title=rows[0]["env_id"], yticks=range(len(variants)))
    ax.set_yticklabels(variants)
    ax.locator_params(axis="x", nbins=4)
    ax.set_ylim(len(variants) - 0.5, -0.5)


def plot_exact_returns(ax: Axes, curves: Mapping[str, Tensor], best: float) -> None:
    """Exact return after each update: mean and range over seeds, [seeds, N], of several learners."""
    for (name, runs), style in zip(curves.items(), ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1))), strict=False):
        at = torch.arange(1, runs.shape[1] + 1)
        (line,) = ax.plot(at, runs.mean(0), linestyle=style, label=name)
        ax.fill_between(at, runs.amin(0), runs.amax(0), color=line.get_color(), alpha=0.12, linewidth=0)
    ax.axhline(best, color=GRAY, linewidth=1.0)
    ax.annotate("best policy", (1.0, best), (-2, 2), ("axes fraction", "data"), "offset points", ha="right", color=GRAY)
    ax.set(xlabel="updates", ylabel=r"exact return $J(\pi)$ (reward units)", ylim=(0.0, 1.15 * best))
    ax.legend()
