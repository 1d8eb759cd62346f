"""The look of the book's pictures: colors, settings of Matplotlib, and a layout whose panels fit a phone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox, ScaledTranslation
from matplotlib_inline.config import InlineBackend

# Okabe and Ito's colors: told apart by color-blind readers, dark enough on white.
BLUE, ORANGE, GREEN, RED, GRAY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"
WIDEST = 335  # points of a panel: a phone has 342 pixels for it and its margins, so that letters of 9 pt have 9
POINTS = 72  # an inch
TRIES = 4  # to make a figure narrower
FEW, PLACES = 4, 60  # lines that are named on them; places of a line that are tried
NEAR = 6  # points between a line's name and another line, at least
RASTER = 144  # dots an inch of what a picture holds as a bitmap: 684 across the widest panel


def book_style() -> dict:
    """Matplotlib settings of the book: fonts of 9 pt or more, and a grid that lies below everything."""
    return {
        "figure.figsize": (6.4, 3.8), "figure.dpi": 100, "savefig.dpi": 160, "figure.facecolor": "white",
        "figure.constrained_layout.use": True, "savefig.facecolor": "white",
        "figure.hooks": ["minerva_book.figures.style:lay_out"],
        "font.size": 10, "axes.titlesize": 11, "axes.labelsize": 10,
        "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9, "legend.frameon": False,
        "axes.prop_cycle": mpl.cycler(color=[BLUE, RED, GREEN, ORANGE, GRAY]),
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
        "grid.color": "#E5E5E5", "grid.linewidth": 0.8, "lines.linewidth": 2.0,
        "svg.fonttype": "path", "svg.hashsalt": "minerva_lite",
    }  # fmt: skip


def use_book_style() -> None:
    """Draw every later figure of this process in the book's style."""
    mpl.rcParams.update(book_style())
    InlineBackend.instance().print_figure_kwargs = {"bbox_inches": "tight", "dpi": RASTER}


class Panels(ConstrainedLayoutEngine):
    """Constrained layout of panels that a page may lay below one another.

    No panel is wider than WIDEST: a figure that has one is made narrower. Each has its own axes' numbers. A legend
    beside a panel goes below it, and one of few lines gives way to their names on the lines where there is room.
    """

    def execute(self, fig: Figure) -> None:
        for ax in fig.axes:
            number_shared(ax)
        super().execute(fig)
        for ax in fig.axes:
            put_legend_below(ax)
        for _ in range(TRIES):  # letters keep their size, so that a panel shrinks less than its figure
            super().execute(fig)
            widest = max((box.width for box in panels(fig)), default=0.0)
            if widest * POINTS / fig.dpi <= WIDEST:
                break
            fig.set_figwidth(fig.get_figwidth() * WIDEST * fig.dpi / POINTS / widest)
        for ax in fig.axes:
            name_lines(ax)


def panels(figure: Figure) -> Iterable[Bbox]:
    """The box of each panel with its words, in dots. Axes in one place, as those of `twinx`, are one panel."""
    boxes: dict[tuple, list[Bbox]] = {}
    for ax in filter(Axes.get_visible, figure.axes):
        boxes.setdefault(ax.get_position().bounds, []).append(ax.get_tightbbox())
    return map(Bbox.union, boxes.values())


def number_shared(ax: Axes) -> None:
    """Show the numbers of an axis also where a neighbor has the same ones."""
    for axis, shared, side in (
        (ax.xaxis, ax.get_shared_x_axes(), "labelbottom"), (ax.yaxis, ax.get_shared_y_axes(), "labelleft"),
    ):  # fmt: skip
        if len(shared.get_siblings(ax)) > 1 and not axis.get_tick_params().get(side, True):
            axis.set_tick_params(**{side: True})


def put_legend_below(ax: Axes) -> None:
    """Where it stands to the right of its axes, in a figure that is higher by it."""
    legend, figure = ax.get_legend(), ax.figure
    if legend is None or legend.get_window_extent().x0 < ax.bbox.x1:
        return
    legend.set_in_layout(False)
    down = (ax.get_tightbbox().y0 - ax.bbox.y0) / figure.dpi  # inches
    legend.set_in_layout(True)
    legend.set_loc("upper left")
    legend.set_bbox_to_anchor((0.0, 0.0), ax.transAxes + ScaledTranslation(0.0, down, figure.dpi_scale_trans))
    figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)


def name_lines(ax: Axes) -> None:
    """Write the names of a legend's lines, if they are few, on the lines; unless one has no place that is its alone."""
    legend = ax.get_legend()
    lines, names = ax.get_legend_handles_labels()
    if (
        legend is None or len(lines) > FEW or not all(isinstance(line, Line2D) for line in lines)
        or names != [text.get_text() for text in legend.get_texts()] or legend.get_title().get_text()
    ):  # fmt: skip
        return
    point = ax.figure.dpi / POINTS
    courses = {line: course(line, point) for line in ax.lines}
    taken = [text.get_window_extent() for text in ax.texts]
    places = []
    for line, text in zip(lines, legend.get_texts(), strict=True):
        others = [points for other, points in courses.items() if other is not line]
        thick = max(line.get_linewidth(), line.get_markersize() if line.get_marker() != "None" else 0.0)
        place = free_place(ax.bbox, courses[line], others, taken, text.get_window_extent(), point, 1 + thick / 2)
        if place is None:
            return
        taken.append(place)
        places.append(place)
    for line, name, place in zip(lines, names, places, strict=True):
        middle = ax.transAxes.inverted().transform(((place.x0 + place.x1) / 2, (place.y0 + place.y1) / 2))
        look = {"color": line.get_color(), "fontsize": mpl.rcParams["legend.fontsize"], "ha": "center", "va": "center"}
        ax.text(*middle, name, transform=ax.transAxes, **look)
    legend.remove()


def course(line: Line2D, point: float) -> np.ndarray:
    """Where a line runs, in dots: [N, 2], a point or less apart."""
    drawn = STEP_LOOKUP_MAP[line.get_drawstyle()](*line.get_xydata().T)
    corners = line.get_transform().transform(np.stack(drawn, 1))
    corners = corners[np.isfinite(corners).all(1)]
    if len(corners) < 2:
        return corners
    far = np.append(0.0, np.abs(np.diff(corners, axis=0)).max(1).cumsum())
    at = np.linspace(0.0, far[-1], 2 + int(far[-1] / point))
    return np.stack([np.interp(at, far, each) for each in corners.T], 1)


def free_place(
    frame: Bbox, own: np.ndarray, others: list[np.ndarray], taken: list[Bbox], size: Bbox, point: float, away: float
) -> Bbox | None:
    """The box beside a line, `away` points from it, that is farthest from other lines; None if none is far enough."""
    best, room = None, NEAR * point
    rest = np.concatenate([np.empty((0, 2)), *others])
    for x, y in own[:: max(1, len(own) // PLACES)]:
        for right, up in product((-1.0, 0.0, 1.0), repeat=2):  # of this place
            low = np.array([x + (right - 1) * size.width / 2, y + (up - 1) * size.height / 2])
            low += away * point * np.array([right, up])
            box = Bbox.from_bounds(*low, size.width, size.height)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            beside = not any(box.padded(2 * point).overlaps(other) for other in taken)
            if not inside or not beside or gap(box, own) < 0.7 * away * point:
                continue
            if (free := gap(box, rest)) > room:
                best, room = box, free
    return best


def gap(box: Bbox, points: np.ndarray) -> float:
    """From a box to the nearest of some points."""
    middle, half = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2, np.array([box.width, box.height]) / 2
    return np.hypot(*np.maximum(np.abs(points - middle) - half, 0.0).T).min(initial=np.inf)


def lay_out(figure: Figure) -> None:
    """Give a new figure its layout; Matplotlib calls this (``figure.hooks``)."""
    figure.set_layout_engine(Panels())
