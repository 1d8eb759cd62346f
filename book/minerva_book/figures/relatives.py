"""The family of exp(x / eta) as a tree, and what weighted regression makes of recorded data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED

# Way back to the policy class -> (method, exponent x, reference, who sets the temperature).
FAMILY = {
    "no projection:\nq is the policy": (
        ("mirror descent in a table", r"$A^{\pi_k}$, exact", r"$\pi_k$", "fixed"),
        ("natural gradient, TRPO", r"$A$, to first order", r"$\pi_{\mathrm{old}}$", "step size; KL bound"),
        ("DPO", r"$\beta\, \log(\pi_\theta / \pi_{\mathrm{ref}})$", r"$\pi_{\mathrm{ref}}$", r"fixed $\beta$"),
    ),
    "forward KL:\nweighted rows": (
        ("REPS", r"$\delta_V$", r"$\pi_b$ (pairs)", "dual, with $V$"),
        ("MPO", r"$Q$", r"$\pi_{\mathrm{old}}$", "dual"),
        ("V-MPO", r"$A_t$, best half", r"$\pi_b$", "dual"),
        ("AWR, MARWIL", r"$G_t - V$", "the data", "fixed; scale of $A_t$"),
        ("AWAC, CRR", r"$Q - V$, bootstrapped", "the data", "fixed"),
        ("IQL", r"$Q - V$, $V$ an expectile", "the data", "fixed"),
        ("Gumbel MuZero", "the planner's $Q$", "network", "visit counts"),
    ),
    "reverse KL:\nclimb": (
        ("MDPO", r"$A$ or $Q$", r"$\pi_{\mathrm{old}}$", "annealed"),
        ("SAC", r"soft $Q$", "uniform", "fixed; entropy bound"),
        ("RLHF, GRPO", "reward of an answer", r"$\pi_{\mathrm{ref}}$", r"fixed $\beta$"),
    ),
    "reference first:\nno exponential": (
        ("PPO with a KL penalty", r"$A_t$", r"$\pi_b$", r"$\beta_{\mathrm{KL}}$, adapted"),
        ("AlphaZero (after Grill)", "search $Q$", "network", "visit counts"),
    ),
}


def plot_relatives(ax: Axes, family: Mapping[str, Sequence[tuple[str, str, str, str]]] = FAMILY) -> None:
    """A tree from left to right: the trunk, a branch for each way back, a leaf for each method with its choices."""
    ax.figure.set_layout_engine("constrained")  # its words need the width: a phone scrolls it
    columns, rows = (0.335, 0.585, 0.785, 0.885), sum(map(len, family.values())) + len(family)
    box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": GRAY, "linewidth": 1.2}
    trunk, y = (0.0, 0.5), 1.0
    ax.text(*trunk, r"$q = \dfrac{\pi_{\mathrm{ref}}\; e^{x / \eta}}{Z}$", fontsize=15, va="center", bbox=box)
    for name, at in zip(("method", "exponent $x$", "reference", "temperature"), columns, strict=True):
        ax.text(at, 1.0 + 0.9 / rows, name, color=GRAY, va="center", fontsize=10)
    for (way, methods), color in zip(family.items(), (GREEN, BLUE, RED, GRAY), strict=True):
        middle = y - (len(methods) - 1) / 2 / rows
        ax.plot([0.1, 0.14, 0.168], [0.5, middle, middle], color=color, linewidth=2.5, solid_joinstyle="round")
        ax.text(0.175, middle, way, color=color, va="center", fontsize=9.5)
        for method, *choices in methods:
            ax.plot([0.302, 0.328], [middle, y], color=color, linewidth=1.0)
            ax.text(columns[0], y, method, va="center", color=color, fontsize=9.5)
            for at, choice in zip(columns[1:], choices, strict=True):
                ax.text(at, y, choice, va="center", fontsize=9.5)
            y -= 1 / rows
        y -= 1 / rows
    ax.set(xlim=(-0.02, 1.08), ylim=(-0.03, 1.09))
    ax.axis("off")


def plot_offline(
    ax: Axes, eta: Sequence[float], curves: Mapping[str, Tensor], ylabel: str, levels: Mapping[str, float] | None = None
) -> None:
    """Median and range over seeds of each curve [seeds, temperatures], hot on the left; levels are dashed lines."""
    looks = ((BLUE, "-", "o"), (RED, "--", "s"), (GREEN, ":", "^"), (ORANGE, "-.", "D"))
    for (name, values), (color, style, marker) in zip(curves.items(), looks, strict=False):
        ax.plot(eta, values.quantile(0.5, 0), color=color, linestyle=style, marker=marker, markersize=4, label=name)
        ax.fill_between(eta, values.amin(0), values.amax(0), color=color, alpha=0.15, linewidth=0)
    for name, level in (levels or {}).items():
        ax.axhline(level, color=GRAY, linewidth=1.2, linestyle=(0, (4, 2)))
        ax.annotate(name, (eta[len(eta) // 2], level), (3, 3), textcoords="offset points", color=GRAY, fontsize=9)
    ax.set(xscale="log", xlabel=r"temperature $\eta$ (spreads of the advantage)", ylabel=ylabel)
    ax.set_xticks(eta, [f"{each:g}" for each in eta], rotation=30)
    ax.minorticks_off()
    ax.invert_xaxis()
    if len(curves) > 1:
        ax.legend()
