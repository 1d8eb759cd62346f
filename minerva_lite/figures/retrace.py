"""Off-policy targets: what weighing costs, how fast each trace contracts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED

COLORS = {"importance sampling": GRAY, "tree backup": GREEN, "Q(lambda)": RED, "Retrace": BLUE}
STYLES = {"importance sampling": ":", "tree backup": "--", "Q(lambda)": "-.", "Retrace": "-"}
LABELS = {"Q(lambda)": r"Q($\lambda$)"}


def plot_ratio_products(ax: Axes, exact: Tensor, sampled: Tensor, median: Tensor) -> None:
    """Standard deviation of the product of n ratios, exact and in a sample, and the median product, each [n]."""
    steps = torch.arange(1, len(exact) + 1)
    ax.axhline(1.0, color="black", linewidth=1.0, label="mean, exact")
    ax.semilogy(steps, exact, color=RED, label="standard deviation, exact")
    ax.semilogy(steps, sampled, "--", color=ORANGE, label="standard deviation, in the sample")
    ax.semilogy(steps, median, "-.", color=BLUE, label="median, in the sample")
    ax.set(xlabel="steps $n$", ylabel=r"product of ratios $\rho_1 \cdots \rho_n$ (no unit)")
    ax.legend(loc="lower left")


def plot_contraction_factors(ax: Axes, distance: Tensor, factors: Mapping[str, Tensor], gamma: float) -> None:
    """Sup-norm factor [N] of each operator against the total variation [N] between the two policies."""
    for name, factor in factors.items():
        ax.plot(distance, factor, STYLES[name], color=COLORS[name], label=LABELS.get(name, name))
    ax.axhline(gamma, color="black", linewidth=0.8)
    ax.text(float(distance.max()), gamma + 0.02, r"$\gamma$", ha="right", va="bottom")
    ax.set(
        xlabel=r"total variation between $\pi$ and $\pi_b$ (probability)",
        ylabel="largest error after / before (no unit)",
        ylim=(-0.05, 1.6),
    )
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.55))


def plot_target_error(axes: tuple[Axes, Axes], lam: Tensor, curves: Mapping[str, Tensor]) -> None:
    """Squared bias (left) and variance (right) of one target against lambda [N]; each curve is [2, N]."""
    for ax, row, title in ((axes[0], 0, "bias²"), (axes[1], 1, "variance")):
        for name, curve in curves.items():
            ax.semilogy(lam, curve[row], STYLES[name], color=COLORS[name], label=LABELS.get(name, name))
        ax.set(xlabel=r"trace decay $\lambda$", ylabel=f"{title} (reward units²)", title=title, ylim=(0.02, 20.0))
    axes[0].legend(loc="lower left")
