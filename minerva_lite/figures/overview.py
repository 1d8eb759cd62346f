"""Pictures of the whole book: which algorithm comes from which."""

from __future__ import annotations

from matplotlib.axes import Axes

from .style import BLUE, GRAY, GREEN, RED

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
    ("GAE", "V-MPO", ""),
    ("Retrace", "MPO", ""),
)


def plot_family(ax: Axes) -> None:
    """The family tree of the book's algorithms: boxes, arrows for what was added, dotted ones for estimators."""
    place = {name: (3.3 * column, 1.25 * row) for name, (column, row, _, _) in FAMILY.items()}
    boxes = {}
    for name, (_, _, text, color) in FAMILY.items():
        box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": color, "linewidth": 1.6}
        drawn = ax.text(*place[name], text, ha="center", va="center", fontsize=9.5, bbox=box, zorder=3)
        boxes[name] = drawn.get_bbox_patch()
    for parent, child, added in DESCENT:
        helps = FAMILY[parent][3] == GREEN
        style = {"arrowstyle": "-|>", "color": GREEN if helps else GRAY, "linestyle": ":" if helps else "-"}
        if (parent, child) == ("GAE", "V-MPO"):  # PPO's box stands between them
            style["connectionstyle"] = "arc3,rad=-0.65"
        # From center to center, cut at the two boxes: the gaps are even, however wide a box is.
        ends = {"patchA": boxes[parent], "patchB": boxes[child], "shrinkA": 4, "shrinkB": 4}
        ax.annotate("", place[child], place[parent], arrowprops={**style, **ends, "lw": 1.4})
        if added:
            (x0, y0), (x1, y1) = place[parent], place[child]
            # Above a level arrow, and below a sloping one, out of its way.
            dx, dy = (0.0, 0.27) if y0 == y1 else (-0.75, -0.4)
            ax.text((x0 + x1) / 2 + dx, (y0 + y1) / 2 + dy, added, ha="center", va="center", fontsize=8.5,
                    color="#444444")  # fmt: skip
    for y, text, color in ((4.5, "climb the gradient of the return", BLUE), (-0.65, "match a better policy", RED)):
        ax.text(-1.1, y, text, color=color, fontsize=10, style="italic", va="center")
    ax.text(9.4, 1.25, "dotted: an estimator\nthat others use", color=GREEN, fontsize=9, ha="center", va="center")
    ax.set(xlim=(-1.25, 11.35), ylim=(-0.85, 4.7))
    ax.axis("off")
