"""The pictures of preferences show the laws of the small language, in words too."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures import preferences
from minerva_lite.language.answer_tree import rare_a, spell


@pytest.mark.parametrize("learned", [True, False])
def test_bars_are_the_reference_and_the_optimum_and_their_words_are_true(learned):
    tree, reference = rare_a()
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


def test_log_ratios_stand_on_the_left_the_share_right_on_the_right_and_other_seeds_are_thin():
    curves = [-torch.arange(3.0), -2 * torch.arange(3.0), torch.tensor([0.5, 0.3, 0.1])]
    axes = Figure().subplots(1, 2)
    preferences.plot_pair_fit(axes, *curves, [torch.stack([curve + 1, curve + 2]) for curve in curves])
    for ax, shown in zip(axes, (curves[:2], curves[2:]), strict=True):
        lines = [line for line in ax.lines if len(line.get_xdata()) == 3]
        thick = [line.get_ydata().tolist() for line in lines if line.get_linewidth() > 1]
        assert thick == [curve.tolist() for curve in shown]
        thin = [line.get_ydata().tolist() for line in lines if line.get_linewidth() < 1]
        assert thin == [(curve + i).tolist() for curve in shown for i in (1, 2)]


def test_a_departure_has_the_right_the_wrong_and_all_answers():
    ax, lengths = Figure().add_subplot(), torch.tensor([0.0, 1e-4, 2e-4])
    curves = torch.tensor([0.0, 1.0, -1.0]), torch.tensor([0.0, -1.0, -5.0]), torch.tensor([0.0, -0.5, -4.0])
    preferences.plot_departure(ax, lengths, *curves)
    named = {line.get_label(): line for line in ax.lines}
    for name, curve in zip(("its right answers", "its wrong answers", "all"), curves, strict=True):
        assert named[name].get_ydata().tolist() == curve.tolist()
        assert named[name].get_xdata().tolist() == pytest.approx([0.0, 1.0, 2.0])


def test_the_truth_of_all_curves_and_the_gain_of_those_that_share_a_reward():
    one, two = torch.tensor([[0.0, 1.0], [0.2, 0.4], [0.0, 3.0]]), torch.tensor([[0.0, 2.0], [0.2, 0.1], [0.0, 9.0]])
    axes, dots = Figure().subplots(1, 2), torch.tensor([[0.5], [0.3], [1.0]])
    preferences.plot_over_optimization(axes, {"one": one, "two": two}, dots, gains=["one"])
    best = "best of 2, 4, 8, …, learned reward"
    assert [line.get_ydata().tolist() for line in axes[0].lines] == [one[2].tolist(), [1.0]]
    assert [line.get_label() for line in axes[1].lines] == ["one", "two", best]
    assert [line.get_ydata().tolist() for line in axes[1].lines] == [one[1].tolist(), two[1].tolist(), dots[1].tolist()]
