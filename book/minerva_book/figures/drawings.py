"""The book's worlds, drawn: the loop, the corridor, the grid, two states, backup diagrams, ways to sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.patches import Arc, Circle, FancyBboxPatch, Rectangle
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED

INK = "#222222"
# What a backup starts from and leads to: the letter says what stands on each level.
BACKUPS = {"V": "sas", "Q": "as", "V*": "sas", "TD": "sas", "MC": "sasas"}
ACROSS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # up, right, down, left, as the grid counts: rows downward


def draw_loop(ax: Axes) -> None:
    """Agent and environment: an action goes one way, a reward and the next state come back."""
    boxes = {}
    for y, name, text, color in (
        (1.55, "agent", r"agent:  $a_t \sim \pi(\cdot \mid s_t)$", BLUE),
        (0.0, "world", r"environment:  $s_{t+1} \sim P(\cdot \mid s_t, a_t)$", GREEN),
    ):
        boxes[name] = FancyBboxPatch((-2.1, y - 0.3), 4.2, 0.6, boxstyle="round,pad=0.08", facecolor="white",
                                     edgecolor=color, linewidth=2.0)  # fmt: skip
        ax.add_patch(boxes[name])
        ax.text(0.0, y, text, ha="center", va="center", fontsize=9.5, color=INK)
    line = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.6, "mutation_scale": 16}
    right = {**line, "connectionstyle": "angle,angleA=180,angleB=-90,rad=6"}
    left = {**line, "connectionstyle": "angle,angleA=0,angleB=90,rad=6"}
    for tail, head, style in (
        ((2.18, 1.55), (2.8, 0.7), {**line, "arrowstyle": "-", "connectionstyle": "angle,angleA=0,angleB=90,rad=6"}),
        ((2.8, 0.72), (2.18, 0.0), {**right, "connectionstyle": "angle,angleA=-90,angleB=0,rad=6"}),
        ((-2.18, 0.0), (-2.8, 0.85), {**line, "arrowstyle": "-", "connectionstyle": "angle,angleA=0,angleB=90,rad=6"}),
        ((-2.8, 0.83), (-2.18, 1.55), {**left, "connectionstyle": "angle,angleA=90,angleB=0,rad=6"}),
    ):
        ax.annotate("", head, tail, arrowprops={**style, "shrinkA": 0, "shrinkB": 0})
    ax.text(2.9, 0.78, "action $a_t$", va="center", fontsize=9.5, color=BLUE)
    ax.text(-2.9, 0.78, "reward $r_t$,\nnext state\n$s_{t+1}$", va="center", ha="right", fontsize=9.5, color=GREEN)
    frame(ax, (-4.7, 4.6), (-0.55, 2.1))


def draw_corridor(
    ax: Axes,
    states: int = 6,
    *,
    cells: Tensor | Sequence[float] | None = None,
    rewards: bool = True,
    start: int | None = 0,
) -> None:
    """The corridor of `TabularMDP.chain`: one square a state, numbers `cells` [S] in them.

    `rewards` draws what the two ends pay, `start` says under which square "start" is written.
    """
    shade = _shades(cells, states)
    for s in range(states):
        ax.add_patch(Rectangle((s, 0), 1, 1, facecolor=shade[s], edgecolor=INK, linewidth=1.2))
        ax.text(s + 0.08, 0.94, str(s), va="top", fontsize=9, color=GRAY)
        if cells is not None:
            ax.text(s + 0.5, 0.36, f"{float(cells[s]):.2f}", ha="center", va="center", fontsize=9, color=INK)
    if rewards:
        for x, way, text in ((0.0, -1, "left, here, pays 0.1"), (float(states), 1, "right, here, pays 1")):
            side = x - 0.02 * way
            arrow(ax, (side, 0.78), (side, 0.22), GREEN, -0.9 * way, mutation_scale=12, shrinkA=2, shrinkB=2)
            ax.text(x + 0.05 * way, 1.12, text, ha="left" if way < 0 else "right", fontsize=9.5, color=GREEN)
    if start is not None:
        ax.text(start + 0.5, -0.12, "start", ha="center", va="top", fontsize=9.5, color=BLUE)
    frame(ax, (-0.6, states + 0.6), (-0.4, 1.45 if rewards else 1.1))


def draw_grid(
    ax: Axes,
    cells: Tensor | None = None,
    *,
    policy: Tensor | None = None,
    color: str = "Blues",
    largest: float | None = None,
    home: bool = False,
) -> None:
    """The room of `TabularMDP.grid`: numbers `cells` [height, width], and in each cell the likeliest move of `policy`.

    `largest` is the number that gets the darkest shade, so that several pictures share one scale; `home` draws the
    way from the goal back to the start.
    """
    height, width = (4, 4) if cells is None else cells.shape
    shade = _shades(None if cells is None else cells.flatten(), height * width, color, largest)
    for s in range(height * width):
        row, column = divmod(s, width)
        ax.add_patch(Rectangle((column, row), 1, 1, facecolor=shade[s], edgecolor="#999999", linewidth=0.8))
        if cells is not None:
            lower = 0.5 if policy is None else 0.3
            text = f"{float(cells[row, column]):.2f}"
            ax.text(column + 0.5, row + lower, text, ha="center", va="center", fontsize=10, color=INK)
        if policy is not None and s != height * width - 1:
            x, y = column + 0.5, row + (0.5 if cells is None else 0.68)
            dx, dy = (0.2 * step for step in ACROSS[int(policy[s].argmax())])
            way = {"arrowstyle": "->", "color": RED, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (x + dx, y + dy), (x - dx, y - dy), arrowprops=way)
    ax.add_patch(Rectangle((0.04, 0.04), 0.92, 0.92, fill=False, edgecolor=BLUE, linewidth=2.0))
    ax.add_patch(Rectangle((width - 0.96, height - 0.96), 0.92, 0.92, fill=False, edgecolor=GREEN, linewidth=2.0))
    ax.text(0.5, -0.08, "start", ha="center", va="bottom", fontsize=9.5, color=BLUE)
    ax.text(width - 0.5, height + 0.08, "goal: pays 1", ha="center", va="top", fontsize=9.5, color=GREEN)
    if home:
        look = {"linewidth": 1.3, "linestyle": "--", "mutation_scale": 12, "shrinkA": 2, "shrinkB": 2}
        arrow(ax, (width - 0.72, height - 0.72), (0.75, 0.75), GREEN, 0.25, **look)
    frame(ax, (-0.25, width + 0.35), (height + 0.45, -0.4))


def draw_two_states(ax: Axes) -> None:
    """The world of `TabularMDP.two_state`: action 0 stays, action 1 switches, and only staying in state 1 pays."""
    arrows = (
        ((0.38, 0.26), (2.62, 0.26), INK, -0.25), ((2.62, -0.26), (0.38, -0.26), INK, -0.25),
        ((-0.36, 0.3), (-0.36, -0.3), INK, 1.9), ((3.36, -0.3), (3.36, 0.3), GREEN, 1.9),
    )  # fmt: skip
    words = (
        (1.5, 0.62, "switch: 0", INK, "center", "bottom"), (1.5, -0.62, "switch: 0", INK, "center", "top"),
        (-1.15, 0.0, "stay: 0", INK, "right", "center"), (4.15, 0.0, "stay: pays 1", GREEN, "left", "center"),
    )  # fmt: skip
    draw_two_places(ax, ("0", "1"), arrows, words, radius=0.45, fontsize=10.5)
    ax.text(0.0, -0.6, "start", ha="center", va="top", fontsize=9.5, color=BLUE)
    frame(ax, (-2.3, 5.9), (-1.0, 1.0))


def draw_two_places(
    ax: Axes, names: tuple[str, str], arrows: Sequence[tuple], words: Sequence[tuple], *, radius: float, fontsize: float
) -> None:
    """Two circles with their names, arrows as `arrow` takes them, and words: (x, y, text, color, ha, va)."""
    for x, name in zip((0.0, 3.0), names, strict=True):
        ax.add_patch(Circle((x, 0.0), radius, facecolor="white", edgecolor=INK, linewidth=1.6))
        ax.text(x, 0.0, name, ha="center", va="center", fontsize=10 if len(name) > 1 else 13, color=INK)
    for each in arrows:
        arrow(ax, *each)
    for x, y, text, color, ha, va in words:
        ax.text(x, y, text, ha=ha, va=va, fontsize=fontsize, color=color)


def draw_backup(ax: Axes, kind: str) -> None:
    """A backup diagram: circles are states, dots are actions, and a value at the root is made of those at the leaves.

    kind: "V" averages over the policy's actions and the successors, "Q" starts from a given action, "V*" takes the
    best action (the arc), "TD" follows one sampled step, "MC" one sampled path to its end (the square).
    """
    levels, sampled = BACKUPS[kind], kind in ("TD", "MC")
    nodes = [[0.0]]
    for depth in range(1, len(levels)):
        spread = 0.0 if sampled else 1.1 if depth == 1 else 0.5
        nodes.append([x + dx for x in nodes[-1] for dx in ((0.0,) if sampled else (-spread, spread))])
        for i, x in enumerate(nodes[-1]):
            up = nodes[-2][i if sampled else i // 2]
            ax.plot([up, x], [-(depth - 1), -depth], color=INK, linewidth=1.2, zorder=1)
    for depth, level in enumerate(levels):
        for x in nodes[depth]:
            last = kind == "MC" and depth == len(levels) - 1
            marker, size = ("s", 11) if last else ("o", 13) if level == "s" else ("o", 7)
            face = INK if level == "a" else "#BBBBBB" if last else "white"
            ax.plot([x], [-depth], marker, markersize=size, markerfacecolor=face, markeredgecolor=INK, zorder=2)
    if kind == "V*":
        ax.add_patch(Arc((0.0, 0.0), 1.2, 1.2, theta1=222, theta2=318, color=RED, linewidth=2.0))
        ax.text(0.0, -0.86, "max", ha="center", va="top", fontsize=10, color=RED)
    frame(ax, (-2.0, 2.0), (-len(levels) + 0.6, 0.4), equal=False)


def draw_vine(axes: Sequence[Axes], *, states: int = 3, actions: int = 2, branch_steps: int = 3) -> None:
    """TRPO's two ways to sample. Left a single path, whose every step is a sample; right a vine on the same path.

    Of a vine, `actions` branches start from each of `states` chosen states and end in squares. After the first action
    all branches of a state do the same, because they see the same random numbers.
    """
    gap = branch_steps + 1
    trunk = [(float(t), 0.3 * math.sin(0.9 * t)) for t in range(gap * states + 1)]
    chosen = trunk[1::gap]
    for ax, title in zip(axes, ("single path", "vine"), strict=True):
        ax.plot(*zip(*trunk, strict=True), "-", color=GRAY, linewidth=1.2, zorder=1)
        ax.set_title(title)
    path, vine = axes
    path.plot(*zip(*trunk, strict=True), "o", markersize=8, markerfacecolor=BLUE, markeredgecolor=INK, zorder=2)
    path.text(trunk[-1][0] / 2, -1.2, "every step is a sample", ha="center", va="top", fontsize=10, color=BLUE)
    vine.plot(*zip(*trunk, strict=True), "o", markersize=5, markerfacecolor="white", markeredgecolor=GRAY, zorder=2)
    for n, (x, y) in enumerate(chosen):
        luck = [0.0]
        for j in range(1, branch_steps):
            luck.append(luck[-1] + 0.25 * math.sin(2.1 * n + 1.7 * j))
        for k in range(actions):
            color, style = (GREEN, RED, ORANGE, BLUE)[k % 4], ("-", "--", ":", "-.")[k % 4]
            first = 0.0 if actions == 1 else 1.5 * (1.0 - 2.0 * k / (actions - 1))
            branch = [(x, y), *((x + 0.8 * (j + 1), y + first + drift) for j, drift in enumerate(luck))]
            vine.plot(*zip(*branch, strict=True), style, color=color, linewidth=1.6, zorder=1)
            vine.plot(*zip(*branch[1:-1], strict=True), "o", markersize=4, color=color, zorder=2)
            vine.plot(*branch[-1], "s", markersize=7, color=color, zorder=2)
            if n == 0:
                above = "bottom" if first >= 0 else "top"
                label = {"fontsize": 10, "color": color}
                vine.text(x + 0.3, y + 0.6 * first, f"$a_{{1{k + 1}}}$", ha="right", va=above, **label)
                vine.text(*branch[-1], f"  $\\hat Q_{{1{k + 1}}}$", va="center", **label)
        vine.plot([x], [y], "o", markersize=10, markerfacecolor=BLUE, markeredgecolor=INK, zorder=3)
        vine.text(x - 0.15, y - 0.22, f"$s_{n + 1}$", ha="right", va="top", fontsize=10, color=BLUE)
    for ax in axes:
        frame(ax, (-0.4, trunk[-1][0] + 0.4), (-2.6, 2.6), equal=False)


def arrow(
    ax: Axes, tail: tuple[float, float], head: tuple[float, float], color: str, bend: float = 0.0, *,
    zorder: float | None = None, **look: object,
) -> None:  # fmt: skip
    """An arrow from place to place, exactly; `look` is of its line."""
    line = {"arrowstyle": "-|>", "linewidth": 1.6, "mutation_scale": 14, "shrinkA": 0, "shrinkB": 0, "color": color}
    arc = {"connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", head, tail, arrowprops={**line, **arc, **look}, zorder=zorder)


def _shades(
    cells: Tensor | Sequence[float] | None, count: int, color: str = "Blues", largest: float | None = None
) -> list:
    """A light color for each number, white where there are none; letters on the darkest one stay legible."""
    if cells is None:
        return ["white"] * count
    values = torch.as_tensor(cells, dtype=torch.float64)
    low = min(0.0, float(values.min()))
    top = max(largest if largest is not None else float(values.max()), low + 1e-12)
    return [colormaps[color](0.55 * min(1.0, (float(v) - low) / (top - low))) for v in values]


def frame(ax: Axes, across: tuple[float, float], up: tuple[float, float], *, equal: bool = True) -> None:
    """Limits of a drawing without axes."""
    ax.set(xlim=across, ylim=up)
    if equal:
        ax.set_aspect("equal")
    ax.axis("off")
