"""A rollout as it lies in memory: [T, B], with the seams between episodes and what crosses them."""

from __future__ import annotations

from functools import partial

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle
from torch import Tensor

from minerva_lite.checks import require_bool, require_one_of, require_same_shape

from .drawings import INK, arrow, frame
from .style import BLUE, GRAY, GREEN, RED

FAULTS = ("limit taken for an end", "value leaks", "trace leaks", "flag one row off")
APART = 2.3  # from one environment's column to the next; a row is 1 high and 1 wide
_arrow = partial(arrow, linewidth=1.8, mutation_scale=12, zorder=6)


def draw_rollout(ax: Axes, terminated: Tensor, truncated: Tensor, *, fault: str = "", names: bool = True) -> None:
    """The rows of a rollout, time downward, one column an environment; flags [T, B] bool say where episodes end.

    A thick line is a seam. A blue arrow carries an advantage to the row above, times gamma lambda; a green one brings
    the value of the true successor, a circle beside the seam or below the last row. `fault` is one of `FAULTS`:
    what such a code does at each time limit is red. `names` writes the rows and columns.
    Raises ValueError: shapes differ, a flag is not bool, or the fault is none of these.
    """
    require_same_shape(terminated=terminated, truncated=truncated)
    require_bool(terminated=terminated, truncated=truncated)
    require_one_of(("", *FAULTS), fault=fault)
    steps, envs = terminated.shape
    for b in range(envs):
        _draw_column(ax, APART * b, terminated[:, b].tolist(), truncated[:, b].tolist(), fault)
        if names:
            ax.text(APART * b + 0.5, 0.12, f"env {b}", ha="center", va="bottom", fontsize=10, color=INK)
    if names:
        for t in range(steps):
            ax.text(-0.25, -t - 0.5, f"$t = {t}$", ha="right", va="center", fontsize=10, color=INK)
    frame(ax, (-1.3 if names else -0.3, APART * envs - 0.1), (-steps - 1.25, 0.7 if names else 0.2))


def _draw_column(ax: Axes, x: float, terminated: list[bool], truncated: list[bool], fault: str) -> None:
    """One environment: its rows, the traces from row to row, and what stands for the future at each end."""
    episode, last = 0, len(terminated) - 1
    off = fault == "flag one row off"
    for t, (over, cut) in enumerate(zip(terminated, truncated, strict=True)):
        shade = "#E3EEF6" if episode % 2 == 0 else "#FBF1DC"
        ax.add_patch(Rectangle((x, -t - 1), 1, 1, facecolor=shade, edgecolor="#999999", linewidth=0.8, zorder=1))
        ax.text(x + 0.64, -t - 0.5, rf"$\delta_{{{t}}}$", ha="center", va="center", fontsize=11, color=INK, zorder=3)
        below = t < last and truncated[t + 1]
        if t < last and not (over or cut):
            if off and below:  # cut one row early
                ax.plot([x + 0.12, x + 0.44], [-t - 0.92, -t - 1.08], color=RED, linewidth=2.0, zorder=4)
                ax.plot([x + 0.12, x + 0.44], [-t - 1.08, -t - 0.92], color=RED, linewidth=2.0, zorder=4)
            else:
                _arrow(ax, (x + 0.28, -t - 1.32), (x + 0.28, -t - 0.68), BLUE)
        if t < last and cut and fault in ("trace leaks", "flag one row off"):
            _arrow(ax, (x + 0.28, -t - 1.32), (x + 0.28, -t - 0.68), RED)
        if over or cut:
            ax.plot([x - 0.12, x + 1.12], [-t - 1, -t - 1], color=INK, linewidth=3.0, zorder=5)
            episode += 1
        if over:
            _future(ax, (x + 1.62, -t - 0.5), "0", GRAY)
        elif cut and fault == "limit taken for an end":
            _future(ax, (x + 1.62, -t - 0.5), "0", RED, (x + 0.95, -t - 0.5))
        elif cut and fault == "value leaks" and t < last:
            # From the first state of the next episode, round the end of the seam.
            _arrow(ax, (x + 0.9, -t - 1.5), (x + 0.9, -t - 0.5), RED, 1.1)
        elif cut:
            _future(ax, (x + 1.62, -t - 0.5), "$V$", GREEN, (x + 0.95, -t - 0.5))
        elif t == last:
            _future(ax, (x + 0.5, -t - 1.85), "$V$", GREEN, (x + 0.5, -t - 0.8))


def _future(ax: Axes, at: tuple[float, float], text: str, color: str, head: tuple[float, float] | None = None) -> None:
    """A circle for what is said of the future, and the arrow by which it comes in."""
    ax.add_patch(Circle(at, 0.3, facecolor="white", edgecolor=color, linewidth=1.6, zorder=4))
    ax.text(*at, text, ha="center", va="center", fontsize=10, color=color, zorder=5)
    if head is not None:
        along = (at[0] - 0.3, at[1]) if at[1] == head[1] else (at[0], at[1] + 0.3)
        _arrow(ax, along, head, color)


def draw_rollout_key(ax: Axes) -> None:
    """What the arrows of `draw_rollout` mean, in words, below one another."""
    for y, color, text in (
        (3.0, BLUE, "trace: $\\gamma\\lambda A_{t+1}$\nof the row below"),
        (2.0, GREEN, "bootstrap: $\\gamma V$ of\nthe true successor"),
        (1.0, INK, "seam: an episode\nends in this row"),
        (0.0, GRAY, "terminated: the\nfuture is worth 0"),
    ):
        if color == INK:
            ax.plot([0.0, 0.9], [y, y], color=INK, linewidth=3.0)
        elif color == GRAY:
            ax.plot([0.45], [y], "o", markersize=15, markerfacecolor="white", markeredgecolor=GRAY, markeredgewidth=1.6)
            ax.text(0.45, y, "0", ha="center", va="center", fontsize=10, color=GRAY)
        else:
            _arrow(ax, (0.0, y), (0.9, y), color)
        ax.text(1.2, y, text, va="center", fontsize=10, color=INK)
    frame(ax, (-0.1, 4.2), (-0.6, 3.6), equal=False)


def example_flags() -> tuple[Tensor, Tensor]:
    """Flags of six rows of three environments: one episode goes on, one terminates, one meets its time limit."""
    terminated, truncated = torch.zeros(2, 6, 3, dtype=torch.bool)
    terminated[1, 1] = truncated[3, 2] = True
    return terminated, truncated


def draw_truncated_backups(ax: Axes, rows: int) -> None:
    """Backup diagrams of all k-step estimates that `rows` rows allow, with the weight that GAE gives to each.

    Circles are states, dots are actions; the red circle is where the critic speaks. The longest one takes what is left.
    """
    for k in range(1, rows + 1):
        x = 1.55 * (k - 1)
        ax.plot([x, x], [0.0, -k], color=INK, linewidth=1.2, zorder=1)
        for step in range(k):
            ax.plot([x], [-step], "o", markersize=12, markerfacecolor="white", markeredgecolor=INK, zorder=2)
            ax.plot([x], [-step - 0.5], "o", markersize=6, color=INK, zorder=2)
        ax.plot(
            [x], [-k], "o", markersize=15, markerfacecolor="white", markeredgecolor=RED, markeredgewidth=1.8, zorder=2
        )
        ax.text(x, -k - 0.02, "$V$", ha="center", va="center", fontsize=9, color=RED, zorder=3)
        power = {1: "", 2: r"\lambda"}.get(k, rf"\lambda^{{{k - 1}}}")
        weight = (power or "1") if k == rows else rf"(1-\lambda){power}"
        ax.text(x, 0.4, f"${weight}$", ha="center", va="bottom", fontsize=11, color=RED if k == rows else INK)
    ax.plot([-0.9, 1.55 * rows - 0.4], [-rows, -rows], color=INK, linewidth=3.0, zorder=0)
    ax.text(-0.9, -rows + 0.08, "the rollout ends", ha="left", va="bottom", fontsize=10, color=INK)
    frame(ax, (-1.0, 1.55 * rows - 0.3), (-rows - 0.5, 0.9), equal=False)
