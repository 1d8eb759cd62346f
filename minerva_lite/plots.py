"""Pictures (floor 6): one style for the book, and one function a picture, drawn on axes it is given."""

from __future__ import annotations

import matplotlib as mpl
import torch
from matplotlib.axes import Axes

from .objectives import ppo_clip_objective

# Okabe and Ito's colors: told apart by color-blind readers, dark enough on white.
BLUE, ORANGE, GREEN, RED, GRAY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"


def book_style() -> dict:
    """Matplotlib settings of the book: white background (legible in the dark theme too), fonts of 9 pt or more."""
    return {
        "figure.figsize": (6.4, 3.8), "figure.dpi": 100, "figure.facecolor": "white",
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
