"""Pictures of chapter 4 say what the worlds are, and draw what is computed exactly."""

import re

import pytest
import torch

from minerva_book.figures import draw_ledge, draw_trap, plot_trap
from minerva_lite.worlds import tabular_trpo as exact
from tests.figures.test_drawn import draw as axes_of
from tests.figures.test_widgets import made, pages

F64 = torch.float64


def curves(axes):
    return {line.get_label(): torch.tensor(line.get_xydata()) for line in axes.lines}


@pytest.mark.parametrize(("draw", "reward"), [
    (draw_ledge, exact.ledge().reward), (draw_trap, torch.tensor([[0.0, 1.0], [0.0, -1.0]])),
])  # fmt: skip
def test_a_drawn_world_pays_what_the_world_pays(draw, reward):
    words = " ".join(text.get_text() for text in axes_of(draw).texts).replace("\n", " ")
    drawn = [int(n) for n in re.findall(r"pays (\d)", words)] + [-int(n) for n in re.findall(r"costs (\d)", words)]
    assert sorted(drawn) == sorted(reward[reward != 0].int().tolist())
    assert words.count(": 0") == (reward == 0).sum()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
def test_the_curves_of_the_trap_are_those_of_the_exact_world(gamma):
    drawn = curves(axes_of(plot_trap, gamma=gamma))
    world = exact.trap(torch.tensor([[0.0, 1.0], [0.0, -1.0]], dtype=F64), gamma)
    stay = torch.tensor([[1.0, 0.0]] * 2, dtype=F64)
    for row in (0, 10, 55, 100):
        mixture = float(drawn["surrogate"][row, 0])
        mixed = exact.same_everywhere(torch.tensor(mixture, dtype=F64))
        gain, promise = exact.gain(world, stay, mixed), exact.surrogate(world, stay, mixed)
        for name, value in (("surrogate", promise), ("true gain", gain), ("surrogate less sharp bound", gain)):
            assert drawn[name][row, 1].item() == pytest.approx((1.0 - gamma) * value.item(), abs=1e-9)
    plain = drawn["surrogate less plain bound"][:, 1]
    assert (plain <= drawn["true gain"][: len(plain), 1] + 1e-9).all()


def test_the_trap_says_where_the_gain_turns():
    told = [re.search("aria-label='([^']*)'", page)[1] for page in pages(made("trap").children[1])]
    assert ["nowhere negative" in words for words in told] == [True, False, False]
    assert "negative at a mixture of 0.111" in told[1] and "negative at a mixture of 0.010" in told[2]
