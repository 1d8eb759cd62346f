"""What the pictures of chapter 1 claim: which policy looks better, and up to which limit."""

import pytest
from matplotlib.figure import Figure

from minerva_book.figures import plot_start_values, plot_time_limit


def test_the_bars_are_the_values_and_the_better_one_is_dark():
    axes = Figure().add_subplot()
    plot_start_values(axes, {"left": 0.54, "right": 0.31}, "learned")
    assert [bar.get_width() for bar in axes.patches] == [0.54, 0.31]
    assert [bar.get_alpha() for bar in axes.patches] == [1.0, 0.35]
    assert [text.get_text().strip() for text in axes.texts] == ["0.54", "0.31"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["left", "right"]


@pytest.mark.parametrize("crossing", [3, 6])
def test_the_shade_ends_where_the_order_turns(crossing):
    limits = range(2, 9)
    right = [0.5 if limit < crossing else 2.0 for limit in limits]
    axes = Figure().add_subplot()
    plot_time_limit(axes, limits, {"left": [1.0] * 7, "right": right}, [1.8, 11.6])
    shade = axes.patches[0].get_bbox() if hasattr(axes.patches[0], "get_bbox") else axes.patches[0].get_extents()
    assert (shade.x0, shade.x1) == (2, crossing)
    dashed = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
    assert dashed == [1.8, 11.6] and axes.get_xscale() == "linear"
