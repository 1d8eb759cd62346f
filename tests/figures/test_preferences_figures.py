"""The pictures of preferences show the laws of the small language, in words too."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from minerva_lite.figures import preferences
from minerva_lite.worlds.answer_tree import spell


def test_the_reference_rarely_writes_an_a():
    tree, reference = preferences.rare_a()
    law = tree.log_prob(reference).exp()
    number = torch.tensor([name.count("a") for name in spell(tree)])
    chances = [law[number == count].sum().item() for count in range(4)]
    assert chances == pytest.approx([0.804, 0.174, 0.021, 0.001])


@pytest.mark.parametrize("learned", [True, False])
def test_bars_are_the_reference_and_the_optimum_and_their_words_are_true(learned):
    tree, reference = preferences.rare_a()
    law, names = tree.log_prob(reference).exp(), spell(tree)
    number = torch.tensor([name.count("a") for name in names]).double()
    weight = law * ((number if learned else (number == 1).double()) / 0.5).exp()
    optimum = weight / weight.sum()
    ax = Figure().add_subplot()
    preferences.plot_learned_law(ax, eta=0.5, learned=learned)
    shown = [label.get_text() for label in ax.get_xticklabels()]
    order = [names.index(name.rstrip("*")) for name in shown]
    assert [name.endswith("*") for name in shown] == [names[i].count("a") == 1 for i in order]
    assert number[order].diff().min() >= 0
    for bars, wanted in zip(ax.containers, (law, optimum), strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(wanted[order].tolist())
    words = preferences.learned_law_words(eta=0.5, learned=learned)
    nats = (optimum * (optimum / law).log()).sum()
    assert f"right with chance {optimum @ tree.reward:.2f} for {nats:.2f} nats" in words
    assert f"writes {optimum @ number:.2f} a's" in words


def test_the_share_right_is_written_where_it_was_measured():
    ax = Figure().add_subplot()
    preferences.plot_pair_fit(ax, -torch.arange(5.0), -2 * torch.arange(5.0), torch.tensor([0.5, 0.4, 0.3, 0.2, 0.1]))
    ax.figure.draw_without_rendering()
    told = [(text.xy, text.get_text()) for text in ax.texts]
    assert told == [((0, 0.0), "50 % right"), ((2, -2.0), "30 % right"), ((4, -4.0), "10 % right")]
    assert ax.lines[1].get_ydata().tolist() == [0.0, -1.0, -2.0, -3.0, -4.0]


def test_curves_of_truth_have_their_names_and_dots_only_where_there_are_some():
    nats, reward = torch.tensor([0.0, 1.0]), torch.tensor([0.2, 0.4])
    for dots, wanted in ((None, ["one"]), ((nats, reward), ["one", "best of 2, 4, 8, …, learned reward"])):
        ax = Figure().add_subplot()
        preferences.plot_over_optimization(ax, {"one": (nats, reward)}, dots)
        assert [line.get_label() for line in ax.lines] == wanted
        assert [line.get_ydata().tolist() for line in ax.lines] == [reward.tolist()] * len(wanted)
