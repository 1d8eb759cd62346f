"""Panels that a phone shows whole, and names that stand on their lines."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from minerva_book.figures import book_style
from minerva_book.figures.style import POINTS, course, gap, lay_out

ROOM = 342  # pixels of a picture's place on a phone 390 wide, two margins included: as many points of 9 pt a 9 pixels


@pytest.fixture
def drawn():
    """drawn(fill, rows, columns, size) -> figure in the book's style, laid out; fill(axes) draws on its panels."""

    def draw(fill, rows=1, columns=1, size=(7.4, 3.4), **options):
        with mpl.rc_context(book_style()):
            figure = Figure(figsize=size)
            lay_out(figure)
            fill(figure.subplots(rows, columns, squeeze=False, **options).ravel())
            figure.draw_without_rendering()
        return figure

    return draw


def waves(axes, names=("slow", "fast"), **legend):
    x = np.linspace(0.0, 6.0, 80)
    for ax in axes:
        for k, name in enumerate(names):
            ax.plot(x, 3 * k + np.sin((k + 1) * x), label=name)
        ax.set(xlabel="steps", ylabel="height")
        ax.legend(**legend)


@pytest.mark.parametrize(("columns", "size"), [(1, (7.4, 3.4)), (1, (4.0, 3.0)), (2, (9.0, 3.4)), (2, (12.0, 3.4))])
def test_no_panel_is_wider_than_a_phone_has_room_for(drawn, columns, size):
    figure = drawn(waves, 1, columns, size)
    widths = [ax.get_tightbbox().width * POINTS / figure.dpi for ax in figure.axes]
    assert max(widths) + 6 <= ROOM
    assert (figure.get_figwidth() < size[0]) == (size[0] / columns > 5)
    assert figure.get_figheight() == size[1]


def test_axes_in_one_place_are_one_panel(drawn):
    def two_scales(axes):
        axes[0].plot([0, 1])
        axes[0].twinx().set_ylabel("another height")

    figure = drawn(two_scales)
    widths = [ax.get_tightbbox().x1 - figure.axes[0].get_tightbbox().x0 for ax in figure.axes]
    assert ROOM - 12 < max(widths) * POINTS / figure.dpi + 6 <= ROOM


def test_each_panel_has_its_own_numbers(drawn):
    figure = drawn(waves, 2, 2, (9.0, 5.0), sharex=True, sharey=True)
    for ax in figure.axes:
        assert all(any(label.get_visible() for label in axis.get_ticklabels()) for axis in (ax.xaxis, ax.yaxis))


def test_a_legend_beside_its_panel_goes_below(drawn):
    figure = drawn(lambda axes: waves(axes, "abcde", loc="center left", bbox_to_anchor=(1.02, 0.5)))
    (ax,) = figure.axes
    assert ax.get_legend().get_window_extent().y1 < ax.xaxis.label.get_window_extent().y0
    assert ax.bbox.width * POINTS / figure.dpi > 0.8 * ROOM and ax.bbox.height > 0.65 * 3.4 * figure.dpi


def level(axes, *heights, slope=0.0):
    """Lines through these heights at the left, the axes' height being 1; each falls by its height times the slope."""
    for height in heights:
        axes[0].plot([0, 1], [height, height * (1 - slope)], label=f"from {height}")
    axes[0].set(ylim=(0, 1))
    axes[0].legend()


def test_few_lines_have_their_names_on_them(drawn):
    (ax,) = drawn(lambda axes: level(axes, 0.3, 0.8, slope=0.95)).axes
    assert ax.get_legend() is None and [text.get_text() for text in ax.texts] == ["from 0.3", "from 0.8"]
    for text, own, other in zip(ax.texts, ax.lines, ax.lines[::-1], strict=True):
        near, far = (gap(text.get_window_extent(), course(line, 1.0)) for line in (own, other))
        assert text.get_color() == own.get_color() and 0.0 < near < 5.0 and far > 50.0


@pytest.mark.parametrize("fill", [
    lambda axes: waves(axes, "abcde"),  # too many
    lambda axes: waves(axes, title="speed"),  # says more than names
    lambda axes: level(axes, 0.5, 0.58, 0.66),  # a name between two of them would be both's
], ids=["many", "title", "no place"])  # fmt: skip
def test_a_legend_stays_where_names_would_not_do(drawn, fill):
    (ax,) = drawn(fill).axes
    assert ax.get_legend() is not None and not ax.texts


def test_the_grid_lies_below_bars(drawn):
    (ax,) = drawn(lambda axes: axes[0].bar([0, 1], [1, 2])).axes
    assert ax.xaxis.get_zorder() < min(bar.get_zorder() for bar in ax.patches)
