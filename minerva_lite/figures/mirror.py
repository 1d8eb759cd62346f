"""Relatives of V-MPO's step, and a multiplier with the wrong sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED


def plot_projections(ax: Axes, action: Tensor, curves: Mapping[str, Tensor], value: Tensor) -> None:
    """Densities [N] over actions [N], the target filled; the action's value [N] on an axis of its own."""
    (name, target), *others = curves.items()
    ax.fill_between(action, target, color=GRAY, alpha=0.3, linewidth=0, label=name)
    for (name, density), (color, style) in zip(others, ((BLUE, "-"), (RED, "--"), (GREEN, ":")), strict=False):
        ax.plot(action, density, color=color, linestyle=style, label=name)
    ax.set(xlabel="action", ylabel="density (1 / action unit)", xlim=(-4.0, 4.0), ylim=(0.0, None))
    twin = ax.twinx()
    twin.plot(action, value, color=ORANGE, linewidth=1.0)
    twin.set_ylabel("value of the action (thin line)")
    twin.set_ylim(0.0, 2.5 * float(value.max()))
    twin.grid(visible=False)
    twin.spines["right"].set_visible(True)
    ax.legend(loc="upper left")


def plot_multiplier_sign(axes: Any, runs: Mapping[str, tuple[Tensor, Tensor]], fixed: float, bound: float) -> None:
    """Two axes over gradient steps: the multiplier [N] of each run with its fixed point, and KL over bound [N]."""
    left, right = axes
    colors = (BLUE, BLUE, RED, RED)
    for (name, (alpha, kl)), color, style in zip(runs.items(), colors, ("-", "--", "-", "--"), strict=True):
        left.semilogy(alpha, color=color, linestyle=style, label=name)
        right.semilogy(kl / bound, color=color, linestyle=style)
    left.axhline(fixed, color=GRAY, linewidth=1.0)
    right.axhline(1.0, color=GRAY, linewidth=1.0)
    left.set(xlabel="gradient steps", ylabel=r"multiplier $\alpha$ (1 / nat)")
    right.set(xlabel="gradient steps", ylabel="KL / bound")
    left.legend(loc="center right")
