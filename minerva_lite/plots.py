"""Pictures (floor 6): one style for the book, and one function a picture, drawn on axes it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from torch import Tensor

from .objectives import ppo_clip_objective

# Okabe and Ito's colors: told apart by color-blind readers, dark enough on white.
BLUE, ORANGE, GREEN, RED, GRAY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"


def book_style() -> dict:
    """Matplotlib settings of the book: white background (legible in the dark theme too), fonts of 9 pt or more."""
    return {
        "figure.figsize": (6.4, 3.8), "figure.dpi": 100, "savefig.dpi": 160, "figure.facecolor": "white",
        "figure.constrained_layout.use": True, "savefig.facecolor": "white",
        "font.size": 10, "axes.titlesize": 11, "axes.labelsize": 10,
        "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9, "legend.frameon": False,
        "axes.prop_cycle": mpl.cycler(color=[BLUE, RED, GREEN, ORANGE, GRAY]),
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#E5E5E5", "grid.linewidth": 0.8, "lines.linewidth": 2.0,
        "svg.fonttype": "path", "svg.hashsalt": "minerva_lite",
    }  # fmt: skip


def use_book_style() -> None:
    """Draw every later figure of this process in the book's style."""
    mpl.rcParams.update(book_style())


def plot_clip_objective(ax: Axes, *, advantage: float, clip_eps: float, max_ratio: float = 2.0) -> None:
    """PPO's clipped objective of one sample against its ratio; shaded: where its gradient is zero.

    The gradient is autograd's, so the shading is a fact about the code and not about the picture.
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
        title=rf"$A = {advantage:+.0f}$,  $\varepsilon = {clip_eps:.2f}$",
    )
    ax.legend(loc="upper left" if advantage > 0 else "lower left")


def plot_promise(ax: Axes, kl: Tensor, kept: Tensor) -> None:
    """Share of the surrogate's promise that the return kept, [N], against the KL of the step, [N], nats."""
    ax.semilogx(kl, kept, "o", color=BLUE, alpha=0.35, markersize=3.5, markeredgewidth=0, rasterized=True)
    ax.axhline(1.0, color="black", linewidth=1.0)
    ax.axhline(0.0, color=RED, linestyle="--", linewidth=1.0)
    ax.annotate("below: the return fell", (kl.min(), 0.0), (0, -12), textcoords="offset points", color=RED)
    ax.set(xlabel="KL(old || new) of the step (nats)", ylabel="improvement: kept / promised", ylim=(-1.2, 2.0))


def plot_drift(axes: Sequence[Axes], traces: Mapping[str, Tensor], clip_eps: float) -> None:
    """Largest ratio, KL and share of paid samples over gradient steps: a [3, N] trace a run, on three axes."""
    for (name, trace), style in zip(traces.items(), ("-", "--", ":"), strict=False):
        for ax, figure in zip(axes, trace, strict=True):
            ax.plot(figure, style, label=name)
    axes[0].axhline(1.0 + clip_eps, color=GRAY, linewidth=1.0, label=r"end of the interval, $1 + \varepsilon$")
    axes[0].set(xlabel="gradient steps", ylabel="largest ratio (dimensionless)")
    axes[1].set(xlabel="gradient steps", ylabel="KL(old || new) (nats)")
    axes[2].set(xlabel="gradient steps", ylabel="share of samples still paid", ylim=(0.0, 1.05))
    axes[0].legend()


def plot_kl_estimators(ax: Axes, shift: Tensor) -> None:
    """Noise of one sample of k1, k2, k3 relative to the KL, for N(0, 1) against N(m, 1), m = shift [N]."""
    m2, kl = shift.square(), 0.5 * shift.square()
    noise = {"k_1": m2, "k_2": 0.5 * m2.square() + 0.25 * m2.pow(3), "k_3": m2.expm1() - m2}
    for (name, variance), style, color in zip(noise.items(), ("-", ":", "--"), (RED, GREEN, BLUE), strict=True):
        ax.loglog(kl, variance.sqrt() / kl, linestyle=style, color=color, label=f"${name}$")
    ax.set(xlabel="KL(old || new) (nats)", ylabel="standard deviation of one sample / KL")
    ax.legend()


def plot_learning_curves(ax: Axes, histories: Mapping[str, Any], title: str, *, solved: float) -> None:
    """Mean evaluation return of several runs against environment steps."""
    styles = ("-", "--", ":", "-.")
    for i, (name, history) in enumerate(histories.items()):
        ax.plot(history.steps("eval/mean"), history.column("eval/mean"), styles[i % 4], label=name)
    ax.axhline(solved, color=GRAY, linewidth=1.0)
    ax.annotate("solved", (1.0, solved), (-2, 2), ("axes fraction", "data"), "offset points", ha="right", color=GRAY)
    ax.set(xlabel="environment steps", ylabel="mean return of 10 episodes", title=title)
    if len(histories) > 1:
        ax.legend(loc="lower right")


def plot_learning_curve(ax: Axes, history: Any, title: str, *, solved: float) -> None:
    """Mean evaluation return of one run against environment steps; its training time in the title."""
    seconds = history.updates[-1]["seconds"]
    plot_learning_curves(ax, {"": history}, f"{title}, {seconds:.1f} s of training", solved=solved)
    mean, std = history.column("eval/mean"), history.column("eval/std")
    ax.fill_between(history.steps("eval/mean"), mean - std, mean + std, alpha=0.2, linewidth=0)


LABELS = {
    "kl/k3": "KL(old || new), k3 (nats)",
    "kl/exact": "KL(old || new) (nats)",
    "train/clip_fraction": "clip fraction",
    "train/max_ratio": "largest ratio",
    "train/std": "std of the policy (action units)",
    "train/entropy": "entropy (nats)",
    "value/explained_variance": "explained variance",
}


def plot_diagnostics(axes: Any, history: Any, names: Sequence[str]) -> None:
    """One diagnostic an axis, against environment steps. Explained variance is cut at -1: below, it says no more."""
    for ax, name in zip(axes.flat, names, strict=True):
        ax.plot(history.steps(name), history.column(name), color=BLUE, linewidth=1.5)
        ax.set(ylabel=LABELS.get(name, name))
        if name == "value/explained_variance":
            ax.set_ylim(-1.0, 1.05)
    for ax in axes[-1]:
        ax.set(xlabel="environment steps")


def plot_ablations(ax: Axes, rows: Sequence[Mapping[str, Any]], *, solved: float) -> None:
    """Final return of every seed of every variant: a dot a seed, a bar at the median, `rows` from `read_study`."""
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    for y, variant in enumerate(variants):
        means = sorted(row["mean"] for row in rows if row["variant"] == variant)
        ax.plot(means, [y] * len(means), "o", color=BLUE, alpha=0.6, markersize=5, rasterized=True)
        ax.plot([means[len(means) // 2]], [y], "|", color="black", markersize=14, markeredgewidth=2)
    ax.axvline(solved, color=GRAY, linewidth=1.0)
    ax.set(xlabel="mean return of 100 episodes", title=rows[0]["env_id"], yticks=range(len(variants)))
    ax.set_yticklabels(variants)
    ax.set_ylim(len(variants) - 0.5, -0.5)
