"""Preferences: what a comparison does to both answers, and a learned reward that is climbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GREEN, RED

LOOKS = ((BLUE, "-"), (RED, "--"), (GREEN, ":"))


def plot_preferences(axes: Sequence[Axes], steps: Tensor, told: Tensor) -> None:
    """A training by preferences: log-probabilities of both answers of a pair, and what is ranked and answered rightly.

    steps: [K]. told: [K, 5]: share of pairs in order, mean log-probability of the preferred and of the other answers
    in nats, share of right answers, nats from the reference (not drawn).
    """
    ordered, chosen, rejected, right, _ = told.T
    for ax, curves, label in (
        (axes[0], {"preferred": chosen, "other": rejected}, "mean log-probability (nats)"),
        (axes[1], {"pairs in order": ordered, "right answers": right}, "share"),
    ):
        for (name, curve), (color, style) in zip(curves.items(), LOOKS, strict=False):
            ax.plot(steps, curve, color=color, linestyle=style, label=name)
        ax.set(xlabel="gradient steps", ylabel=label)
        ax.legend()
    axes[1].set_ylim(-0.02, 1.02)


def plot_overoptimization(ax: Axes, curves: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    """True reward over nats from the reference while a learned one is climbed: (nats [n], reward [n]) by its model."""
    for (name, (nats, true)), (color, style) in zip(curves.items(), LOOKS, strict=False):
        ax.plot(nats, true, color=color, linestyle=style, label=f"a reward of {name}")
    ax.set(xlabel="KL to the reference (nats)", ylabel="true reward", ylim=(-0.02, 1.02))
    ax.legend(loc="center right")
