"""Pictures of the whole: who comes from whom (floor 8)."""

from __future__ import annotations

from matplotlib.axes import Axes

from ..style import BLUE, GRAY, GREEN, RED

# Name: column, row, what stands in the box, color. Years are those of the papers in the bibliography.
FAMILY = {
    "REINFORCE": (0, 3, "REINFORCE\n1992 · chapter 2", BLUE),
    "actor-critic": (1, 3, "actor-critic\n2000 · chapter 3", BLUE),
    "A2C": (2, 3, "A2C\n2016 · chapter 3", BLUE),
    "natural": (1, 2, "natural gradient\n2001 · chapter 4b", BLUE),
    "TRPO": (2, 2, "TRPO\n2015 · chapters 4, 4b", BLUE),
    "PPO": (3, 2, "PPO\n2017 · chapter 5", BLUE),
    "EM": (0, 0, "EM\n1977 · chapter 6", RED),
    "REPS": (1, 0, "REPS\n2010 · chapter 6", RED),
    "MPO": (2, 0, "MPO\n2018 · chapters 6, 6b", RED),
    "V-MPO": (3, 0, "V-MPO\n2020 · chapters 7, 7b", RED),
    "GAE": (3, 3, "GAE\n2016 · chapter 3", GREEN),
    "Retrace": (2, 1, "Retrace\n2016 · chapter 6c", GREEN),
}
# From, to, what was added.
DESCENT = (
    ("REINFORCE", "actor-critic", "a critic"),
    ("REINFORCE", "natural", "steps measured\nin KL"),
    ("actor-critic", "A2C", "many workers,\nin step"),
    ("natural", "TRPO", "a bound,\na line search"),
    ("TRPO", "PPO", "clipping for\nthe bound"),
    ("EM", "REPS", "return as\nlikelihood"),
    ("REPS", "MPO", "a network's\nM-step"),
    ("MPO", "V-MPO", "V for Q,\ntop-k"),
    ("GAE", "A2C", ""),
    ("GAE", "PPO", ""),
    ("GAE", "TRPO", ""),
    ("Retrace", "MPO", ""),
)


def plot_family(ax: Axes) -> None:
    """The family tree of the book's algorithms: a box each, an arrow for what was added, dotted for an estimator."""
    place = {name: (3.3 * column, 1.25 * row) for name, (column, row, _, _) in FAMILY.items()}
    for name, (_, _, text, color) in FAMILY.items():
        box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": color, "linewidth": 1.6}
        ax.text(*place[name], text, ha="center", va="center", fontsize=9.5, bbox=box, zorder=3)
    for parent, child, added in DESCENT:
        helps = FAMILY[parent][3] == GREEN
        style = {"arrowstyle": "-|>", "color": GREEN if helps else GRAY, "linestyle": ":" if helps else "-"}
        (x0, y0), (x1, y1) = place[parent], place[child]
        level = y0 == y1
        along = 1.05 if x1 > x0 else -1.05
        start = (x0 + along, y0) if level else (x0, y0 - 0.33)
        end = (x1 - along, y1) if level or parent == "REINFORCE" else (x1, y1 + 0.33)
        ax.annotate("", end, start, arrowprops={**style, "lw": 1.4, "shrinkA": 2, "shrinkB": 2})
        if added:
            middle = (x0 + x1) / 2, (y0 + y1) / 2
            shift = (0.0, 0.27) if level else (-0.85, -0.28)
            ax.text(middle[0] + shift[0], middle[1] + shift[1], added, ha="center", va="center", fontsize=8.5,
                    color="#444444")  # fmt: skip
    for y, text, color in ((4.5, "climb the gradient of the return", BLUE), (-0.65, "match a better policy", RED)):
        ax.text(-1.1, y, text, color=color, fontsize=10, style="italic", va="center")
    ax.text(9.9 + 1.1, 1.25, "dotted: an estimator\nthat others use", color=GREEN, fontsize=9, ha="right", va="center")
    ax.set(xlim=(-1.25, 11.15), ylim=(-0.85, 4.7))
    ax.axis("off")
