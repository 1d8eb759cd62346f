"""A stored picture, written into a page: its panels, its colors, and what it shares with others."""

import io
import re

import inline_figures
import matplotlib as mpl
import numpy as np
from lxml import etree
from matplotlib.figure import Figure

from minerva_book.figures import book_style
from minerva_book.figures.vector import smaller


def stored(fill, rows=1, columns=2, size=(9.0, 3.4)) -> str:
    """What a chapter stores of a figure; fill(axes) draws on its panels."""
    with mpl.rc_context(book_style()):
        figure, file = Figure(figsize=size), io.BytesIO()
        fill(figure.subplots(rows, columns, squeeze=False).ravel())
        figure.savefig(file, format="svg")
    return smaller(file.getvalue().decode())


def labeled(axes):
    for ax in axes:
        ax.plot([0, 1], [0, 1], label="a line")
        ax.set(xlabel="steps", ylabel="height", title="up")


def boxes(svg):
    return [box for box, _ in inline_figures.panels(etree.fromstring(svg))]


def test_each_panel_has_a_box_of_its_own_in_reading_order():
    found = boxes(stored(labeled, 2, 2, (9.0, 6.0)))
    assert len(found) == 4
    (first, second), (third, fourth) = found[:2], found[2:]
    assert first[2] < second[0] and third[2] < fourth[0] and first[3] < third[1] and second[3] < fourth[1]
    assert min(box[0] for box in found) >= 0 and max(box[2] for box in found) <= 9 * 72


def test_a_legend_of_all_panels_has_a_box_above_them():
    def fill(axes):
        labeled(axes)
        axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center")

    legend, *panels = boxes(stored(fill))
    assert len(panels) == 2 and legend[3] < min(box[1] for box in panels)


def test_what_overlaps_and_what_a_phone_has_room_for_stay_together():
    def twin(axes):
        labeled(axes)
        axes[0].twinx().plot([0, 1], [5, 3])

    assert len(boxes(stored(twin))) == 2
    assert len(boxes(stored(labeled, size=(4.6, 2.4)))) == 1


def test_colors_are_variables_and_one_without_a_name_has_a_second_value():
    def fill(axes):
        labeled(axes)
        axes[1].bar([0], [1], color="#DEEBF7")

    pictures = inline_figures.Pictures()
    markup = pictures.markup(stored(fill), 'says "what"')
    assert "stroke:var(--blue)" in markup and "fill:var(--cdeebf7,#deebf7)" in markup
    assert not re.search(r"(fill|stroke):#", markup) and 'aria-label="says &quot;what&quot;"' in markup
    (value,) = re.findall(r'html\[data-theme="dark"\]\{--cdeebf7:(#\w{6})\}', pictures.common())
    brightness = [sum(int(color[at : at + 2], 16) for at in (1, 3, 5)) / 765 for color in ("#deebf7", value)]
    assert brightness[0] > 0.9 and brightness[1] < 0.25


def test_a_bitmap_has_a_second_one_for_the_dark():
    def fill(axes):
        labeled(axes)
        axes[0].imshow(np.eye(3), cmap="Blues", aspect="auto")

    markup = inline_figures.Pictures().markup(stored(fill), "two panels")
    light, dark = (re.findall(rf'href="([^"]*)"[^>]*class="{kind}"', markup) for kind in ("in-light", "in-dark"))
    assert len(light) == len(dark) == 1 and light != dark


def test_pictures_of_a_page_share_their_letters_and_every_reference_is_there():
    pictures, svg = inline_figures.Pictures(), stored(labeled)
    first, before = pictures.markup(svg, "one"), len(pictures.common())
    second = pictures.markup(stored(lambda axes: (labeled(axes), axes[0].plot([1, 0]))), "other")
    assert len(pictures.common()) < 1.5 * before and first != second
    names = re.findall(r' id="(\w+)"', pictures.common())
    referred = set(re.findall(r'(?:href="#|url\(#)(\w+)', first + second + pictures.common()))
    assert len(names) == len(set(names)) and referred <= set(names)
