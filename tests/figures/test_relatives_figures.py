"""The family tree names every method once, and a curve over temperatures is the median of its seeds."""

import torch
from matplotlib.figure import Figure

from minerva_book.figures import plot_offline, plot_relatives
from minerva_book.figures.relatives import FAMILY
from tests.equations import ROOT, markdown


def test_the_tree_has_a_leaf_for_each_method_with_its_three_choices():
    axes = Figure().add_subplot()
    plot_relatives(axes)
    words = [text.get_text() for text in axes.texts]
    for way, methods in FAMILY.items():
        assert words.count(way) == 1
        for method, *choices in methods:
            assert words.count(method) == 1 and set(choices) <= set(words)
    names = {method for methods in FAMILY.values() for method, *_ in methods}
    heights = [text.get_position()[1] for text in axes.texts if text.get_text() in names]
    assert len(heights) == len(set(heights)) == sum(map(len, FAMILY.values()))


def test_the_tree_and_the_table_of_the_chapter_have_the_same_methods():
    table = markdown(ROOT / "book" / "07c_relatives.ipynb").partition("## One table")[2]
    for methods in FAMILY.values():
        for method, *_ in methods:
            plain = method.replace(" in a table", "").replace(" with a KL penalty", "").partition(" (")[0]
            assert all(name in table for name in plain.split(", ")), method


def test_a_curve_over_temperatures_is_the_median_of_its_seeds():
    axes = Figure().add_subplot()
    values = torch.tensor([[1.0, 5.0], [2.0, 4.0], [9.0, 0.0]])
    plot_offline(axes, [2.0, 0.5], {"fit": values}, "return", {"cloning": -1.0})
    curve, level = axes.lines
    assert curve.get_ydata().tolist() == [2.0, 4.0] and curve.get_xdata().tolist() == [2.0, 0.5]
    assert list(level.get_ydata()) == [-1.0, -1.0]
    assert axes.xaxis_inverted() and axes.get_xscale() == "log", "hot on the left"
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 9.0)
