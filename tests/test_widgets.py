"""Figures that move without a kernel: every choice has its own picture, and the links lead to it."""

import io
import re
from base64 import b64decode

import ipywidgets
import numpy as np
import pytest
from PIL import Image

from minerva_lite.widgets import MAX_FRAMES, explore_ppo_clip, frames_figure

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def bar(ax, sign, height):
    ax.bar([0], [sign * height], color="black")
    ax.set(xlim=(-1, 1), ylim=(-5, 5))


def describe(sign, height):
    return f"a bar <of> {sign * height:g}"


def shown(widget):
    """The picture a reader sees: through every stack to the page it selects."""
    while isinstance(widget, ipywidgets.Stack):
        widget = widget.children[widget.selected_index]
    data = re.search(r"base64,([^\"]+)", widget.value).group(1)
    return np.asarray(Image.open(io.BytesIO(b64decode(data))).convert("L"), dtype=float), widget.value


@pytest.fixture(scope="module")
def figure():
    return frames_figure(bar, alt=describe, start={"height": 2}, size=(2, 2),
                         sign={"up": 1, "down": -1}, height=(1, 2, 4))  # fmt: skip


def test_a_mapping_becomes_buttons_and_a_sequence_a_slider(figure):
    buttons, slider, stack = figure.children
    assert isinstance(buttons, ipywidgets.ToggleButtons) and buttons.options == (("up", 1), ("down", -1))
    assert isinstance(slider, ipywidgets.SelectionSlider) and slider.value == 2 and slider.label == "2"
    assert figure.frames == 6 == sum(len(each.children) for each in stack.children)


def test_every_choice_shows_its_own_picture(figure):
    _, _, stack = figure.children
    for i, sign in enumerate((1, -1)):
        for j, height in enumerate((1, 2, 4)):
            picture, tag = shown(stack.children[i].children[j])
            middle = len(picture) / 2
            dark = np.nonzero(picture[:, picture.shape[1] * 6 // 10] < 60)[0]
            assert (dark.mean() < middle) == (sign > 0), "an upward bar lies above the middle"
            assert f"a bar &lt;of&gt; {sign * height}" in tag


def test_each_control_is_linked_to_the_stacks_it_chooses_in(figure):
    buttons, slider, stack = figure.children
    links = {(link.source, link.target) for link in ipywidgets.Widget.widgets.values()
             if isinstance(link, ipywidgets.widgets.widget_link.Link)}  # fmt: skip
    assert ((buttons, "index"), (stack, "selected_index")) in links
    for inner in stack.children:
        assert ((slider, "index"), (inner, "selected_index")) in links
        assert inner.selected_index == slider.index == 1


def test_readers_without_widgets_get_the_still_and_its_description(figure):
    bundle = figure._repr_mimebundle_()
    assert bundle["text/plain"] == "a bar <of> 2"
    assert Image.open(io.BytesIO(b64decode(bundle["image/png"]))).size == (200, 200)
    assert bundle[WIDGET_VIEW]["model_id"] == figure.model_id


@pytest.mark.parametrize(("grids", "message"), [
    ({}, f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got 0"),
    ({"sign": {}, "height": (1,)}, f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got 0"),
    ({"sign": range(5), "height": range(5)}, f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got 25"),
    ({"sign": (1, -1), "height": (1, 3)}, "start: wanted 'height' to be one of [1, 3], got 2"),
])  # fmt: skip
def test_bad_grids_are_refused_before_anything_is_drawn(grids, message):
    def never(*_, **__):
        raise AssertionError("drew a picture")

    with pytest.raises(ValueError, match=re.escape(message)):
        frames_figure(never, alt=describe, start={"height": 2}, **grids)


def test_explore_ppo_clip_fits_its_page():
    figure = explore_ppo_clip(clip_eps=(0.1, 0.2))
    buttons, slider, stack = figure.children
    assert figure.frames == 4 and slider.value == 0.2 and buttons.value == 1.0
    tags = [shown(page)[1] for inner in stack.children for page in inner.children]
    assert len(set(tags)) == 4
    assert all(len(tag) < 30_000 for tag in tags), "24 pictures of this size stay below 1 MB"
