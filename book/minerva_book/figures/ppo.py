"""PPO's objective, and what it does not bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import nan

import torch
from matplotlib.axes import Axes
from torch import Tensor

from minerva_lite.formulas.objectives import ppo_clip_objective

from .style import BLUE, GRAY, GREEN, ORANGE, RED


def plot_clip_objective(ax: Axes, *, advantage: float, clip_eps: float, max_ratio: float = 2.0) -> None:
    """PPO's clipped objective of one sample against its ratio; shaded: where its gradient is zero.

    The shading comes from autograd's gradient, so it shows what the code does.
    """
    log_ratio = torch.linspace(0.02, max_ratio, 397, dtype=torch.float64).log().requires_grad_()
    advantages = torch.full_like(log_ratio, advantage)
    objective = ppo_clip_objective(log_ratio, advantages, clip_eps)
    (slope,) = torch.autograd.grad(objective.sum(), log_ratio)
    ratio = log_ratio.detach().exp()
    clipped = ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps) * advantage

    flat = (slope == 0.0).numpy()
    ax.fill_between(
        ratio,
        0,
        1,
        where=flat,
        transform=ax.get_xaxis_transform(),
        color=ORANGE,
        alpha=0.25,
        linewidth=0,
        label="gradient is zero",
    )
    ax.plot(ratio, objective.detach(), color=BLUE, linewidth=5, alpha=0.55, label="objective: the smaller of the two")
    ax.plot(ratio, ratio * advantage, color=RED, linestyle="--", linewidth=1.5, label=r"unclipped, $\rho A$")
    ax.plot(ratio, clipped, color="black", linestyle=":", linewidth=1.8, label=r"clipped, $\mathrm{clip}(\rho)\,A$")
    ax.plot([1.0], [advantage], "o", color="black", markersize=5)
    for edge in (1.0 - clip_eps, 1.0 + clip_eps):
        ax.axvline(edge, color=GRAY, linewidth=0.8)
    span = abs(advantage) * max_ratio
    ax.set(
        xlim=(0.0, max_ratio),
        ylim=(-0.1 * span, 1.05 * span) if advantage > 0 else (-1.05 * span, 0.1 * span),
        xlabel=r"ratio $\rho = \pi_\theta(a\mid s) / \pi_b(a\mid s)$ (dimensionless)",
        ylabel="objective (advantage units)",
        title=rf"$A = {advantage:+.0f}$,  $\varepsilon = {f'{clip_eps:.3f}'.removesuffix('0')}$",
    )
    ax.legend(loc="upper left" if advantage > 0 else "lower left")


def plot_along_batch(
    ax: Axes, steps: Sequence[float], curves: Mapping[str, tuple[Tensor, str, str]], *, ylabel: str = ""
) -> None:
    """What gradient steps on one batch do: for each name runs [seeds, N], a color and a line style.

    The line is the mean over the seeds, the band goes from the least to the largest.
    """
    for name, (runs, color, style) in curves.items():
        ax.plot(steps, runs.mean(0), linestyle=style, color=color, label=name)
        ax.fill_between(steps, runs.amin(0), runs.amax(0), color=color, alpha=0.12, linewidth=0)
    ax.axhline(0.0, color="black", linewidth=0.8)
    ax.set_xscale("symlog", linthresh=4, base=2)  # the first steps decide
    ticks = [0, 4, 8, 16, 40, 160]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set(xlabel="gradient steps on one batch", ylabel=ylabel, xlim=(0, 170))
    ax.legend()


def plot_promise(ax: Axes, worlds: Mapping[str, tuple[Tensor, Tensor]], title: str = "") -> None:
    """The return's gain over the surrogate's against the KL of the step, name -> (KL [N] in nats, gain / promise [N]).

    By bins of half a decade of KL: the line is the median, the band holds eight in ten.
    """
    edges = torch.logspace(-3.5, 0.5, 9, dtype=torch.float64)
    styles = ((BLUE, "-", "o"), (ORANGE, "--", "s"), (RED, ":", "^"))
    for (name, (kl, kept)), (color, style, marker) in zip(worlds.items(), styles, strict=False):
        bins = [kept[(kl >= low) & (kl < high)] for low, high in pairwise(edges)]
        few = [len(inside) < 10 for inside in bins]
        parts = [
            inside.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=inside.dtype)) if not skip else torch.full((3,), nan)
            for inside, skip in zip(bins, few, strict=True)
        ]
        low, middle, high = torch.stack(parts).T
        center = (edges[:-1] * edges[1:]).sqrt()
        ax.semilogx(center, middle, linestyle=style, marker=marker, markersize=4, color=color, label=name)
        ax.fill_between(center, low, high, color=color, alpha=0.07, linewidth=0)
        for edge in (low, high):  # the bands cover each other, their edges do not
            ax.semilogx(center, edge, linestyle=style, color=color, linewidth=0.9, alpha=0.8)
    ax.axhline(1.0, color="black", linewidth=0.8)
    ax.axhline(0.0, color=GRAY, linestyle="--", linewidth=0.8)
    place = {"xycoords": ("axes fraction", "data"), "xytext": (0, -12), "textcoords": "offset points"}
    ax.annotate("below 0 the return fell", (0.02, 0.0), color=GRAY, fontsize=9, **place)
    ax.set(xlabel="KL(old || new) of the step (nats)", ylabel="gain: kept / promised", title=title, ylim=(-0.6, 2.6))
    ax.legend(loc="upper left")


def plot_drift(axes: Sequence[Axes], traces: Mapping[str, Tensor], clip_eps: float) -> None:
    """Largest ratio, KL and share of samples with a gradient over gradient steps, on three axes: [3, N] per run."""
    for (name, trace), style in zip(traces.items(), ("-", "--", ":"), strict=False):
        for ax, figure in zip(axes, trace, strict=True):
            ax.plot(figure, style, label=name)
    axes[0].axhline(1.0 + clip_eps, color=GRAY, linewidth=1.0, label=r"end of the interval, $1 + \varepsilon$")
    axes[0].set(xlabel="gradient steps", ylabel="largest ratio (dimensionless)")
    axes[1].set(xlabel="gradient steps", ylabel="KL(old || new) (nats)")
    axes[2].set(xlabel="gradient steps", ylabel="share of samples still paid", ylim=(0.0, 1.05))
    axes[0].legend()


def plot_kl_estimators(axes: Sequence[Axes], shift: Tensor) -> None:
    """Noise of one sample of k1, k2, k3 and their means, relative to the KL, for N(0, 1) against N(m, 1), m = shift."""
    m2, kl = shift.square(), 0.5 * shift.square()
    noise = {"k_1": m2, "k_2": 0.5 * m2.square() + 0.25 * m2.pow(3), "k_3": m2.expm1() - m2}
    styles = (("-", RED, 1.5), (":", GREEN, 3.0), ("--", BLUE, 1.5))
    for (name, variance), (style, color, width) in zip(noise.items(), styles, strict=True):
        axes[0].loglog(kl, variance.sqrt() / kl, linestyle=style, color=color, linewidth=width, label=f"${name}$")
        mean = 1.0 + 0.25 * m2 if name == "k_2" else torch.ones_like(m2)
        axes[1].semilogx(kl, mean, linestyle=style, color=color, linewidth=width, label=f"${name}$")
    for ax, label in zip(axes, ("standard deviation of one sample / KL", "mean / KL"), strict=True):
        ax.set(xlabel="KL(old || new) (nats)", ylabel=label)
        ax.legend()
