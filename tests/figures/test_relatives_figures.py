"""The family tree names every method once, and a curve over temperatures is the median of its seeds."""

from minerva_book.figures import plot_relatives
from minerva_book.figures.relatives import FAMILY
from tests.equations import ROOT, markdown
from tests.figures.test_drawn import draw


def test_the_tree_has_a_leaf_for_each_method_with_its_three_choices():
    axes = draw(plot_relatives)
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
