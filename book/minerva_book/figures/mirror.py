"""Two ways back from an improved policy to a Gaussian, over the value of the actions."""

from __future__ import annotations

from collections.abc import Mapping

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
    ax.plot([], [], color=ORANGE, linewidth=1.0, label="value of the action (right)")
    twin.set_ylabel("value of the action")
    twin.set_ylim(0.0, 2.5 * float(value.max()))
    twin.grid(visible=False)
    twin.spines["right"].set_visible(True)
    ax.legend(loc="upper left")
