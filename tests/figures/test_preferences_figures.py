"""The pictures of preferences show the laws of the small language, in words too."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures import preferences
from minerva_book.worlds.answer_tree import rare_a, spell


@pytest.mark.parametrize("learned", [True, False])
def test_bars_are_the_reference_and_the_optimum_and_their_words_are_true(learned):
    tree, reference = rare_a()
    law, names = tree.log_prob(reference).exp(), spell(tree)
    number = torch.tensor([name.count("a") for name in names]).double()
    weight = law * ((number if learned else (number == 1).double()) / 0.5).exp()
    optimum = weight / weight.sum()
    ax = Figure().add_subplot()
    preferences.plot_learned_law(ax, beta=0.5, learned=learned)
    shown = [label.get_text() for label in ax.get_xticklabels()]
    order = [names.index(name.rstrip("*")) for name in shown]
    assert [name.endswith("*") for name in shown] == [names[i].count("a") == 1 for i in order]
    assert number[order].diff().min() >= 0
    for bars, wanted in zip(ax.containers, (law, optimum), strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(wanted[order].tolist())
    words = preferences.learned_law_words(beta=0.5, learned=learned)
    nats = (optimum * (optimum / law).log()).sum()
    assert f"right with chance {optimum @ tree.reward:.2f} for {nats:.2f} nats" in words
    assert f"writes {optimum @ number:.2f} a's" in words
