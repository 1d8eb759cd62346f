"""Pictures of the whole book: which algorithm comes from which."""

from __future__ import annotations

from matplotlib.axes import Axes

from .style import BLUE, GRAY, GREEN, RED

# Name: column, row, what stands in the box, color. Years are those of the papers in the
# bibliography; A2C is code of 2017.
FAMILY = {
    "actor-critic": (0, 3, "actor-critic\n1983 · chapter 3", BLUE),
    "theorem": (1, 3, "policy gradient\nwith a critic\n2000 · chapters 2, 3", BLUE),
    "A2C": (2, 3, "A3C, A2C\n2016, 2017\nchapter 3", BLUE),
    "GAE": (3, 3, "GAE\n2016 · chapter 3", GREEN),
    "REINFORCE": (0, 2, "REINFORCE\n1992 · chapter 2", BLUE),
    "natural": (1, 2, "natural gradient\n2001 · chapter 4b", BLUE),
    "TRPO": (2, 2, "TRPO\n2015 · chapters 4, 4b", BLUE),
    "PPO": (3, 2, "PPO\n2017 · chapter 5", BLUE),
    "RWR": (0, 1, "reward-weighted\nregression\n1997, 2007", RED),
    "REPS": (1, 1, "REPS\n2010 · chapter 6", RED),
    "MPO": (2, 1, "MPO\n2018 · chapters 6, 6b", RED),
    "V-MPO": (3, 1, "V-MPO\n2020 · chapters 7, 7b", RED),
    "EM": (0, 0, "EM\n1977 · chapter 6", RED),
    "Retrace": (2, 0, "Retrace\n2016 · chapter 6c", GREEN),
}
# From, to, what was added.
DESCENT = (
    ("actor-critic", "theorem", "a proof"),
    ("REINFORCE", "theorem", "a critic"),
    ("theorem", "A2C", "many\nworkers"),
    ("REINFORCE", "natural", "steps\nmeasured\nin KL"),
    ("natural", "TRPO", "a bound,\na line\nsearch"),
    ("TRPO", "PPO", "clipping\nfor the\nbound"),
    ("natural", "REPS", "a bound on the\ninformation lost"),
    ("EM", "RWR", "return as\nlikelihood"),
    ("RWR", "REPS", "a bound\nsets the\ntemperature"),
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
    place = {name: (3.3 * column, 1.6 * row) for name, (column, row, _, _) in FAMILY.items()}
    boxes = {}
    for name, (_, _, text, color) in FAMILY.items():
        box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": color, "linewidth": 1.6}
        drawn = ax.text(*place[name], text, ha="center", va="center", fontsize=10, bbox=box, zorder=3)
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
            # Above a level arrow, beside an upright one, and above the one that slopes.
            dx, dy = (0.0, 0.06) if y0 == y1 else (0.9, 0.0) if x0 == x1 else (-0.55, 0.1)
            ax.text((x0 + x1) / 2 + dx, (y0 + y1) / 2 + dy, added, ha="center", va="bottom" if y0 == y1 else "center",
                    fontsize=10.5, color="#444444")  # fmt: skip
    for x, y, text, color in (
        (-1.1, 5.75, "climb the gradient of the return", BLUE), (2.2, 0.0, "match a better policy", RED)
    ):  # fmt: skip
        ax.text(x, y, text, color=color, fontsize=11.5, style="italic", va="center")
    dotted = "dotted: an estimator\nthat this book's\nagents use"
    ax.text(9.6, 0.0, dotted, color=GREEN, fontsize=10.5, ha="center", va="center")
    ax.set(xlim=(-1.25, 11.35), ylim=(-0.45, 5.95))
    ax.axis("off")
