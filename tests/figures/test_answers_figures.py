"""The pictures of language models show the laws of the small language, in words too."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures import answers
from minerva_lite.formulas import best_of_n_law
from minerva_lite.language.answer_tree import paid_by_the_a, spell


def test_bars_are_the_three_laws_and_their_words_are_true():
    tree, reference = paid_by_the_a()
    law = tree.log_prob(reference).exp()
    laws = (law, tree.optimum(reference, 0.3), best_of_n_law(law, tree.reward, 8))
    ax = Figure().add_subplot()
    answers.plot_answer_law(ax, eta=0.3, n=8)
    names = [label.get_text() for label in ax.get_xticklabels()]
    order = [spell(tree).index(name) for name in names]
    assert tree.reward[order].diff().min() >= 0
    for bars, wanted in zip(ax.containers, laws, strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(wanted[order].tolist())
    words = answers.answer_law_words(eta=0.3, n=8)
    for wanted in laws:
        assert f"earns {wanted @ tree.reward:.2f}" in words


def test_a_learning_curve_is_a_mean_of_so_many_updates():
    ax = Figure().add_subplot()
    answers.plot_sorting(ax, {"RLOO": torch.arange(20.0)}, {"level": 0.5})
    assert ax.lines[0].get_xdata().tolist() == [5.0, 15.0]
    assert ax.lines[0].get_ydata().tolist() == [4.5, 14.5]


def test_each_seed_of_a_rate_is_a_line_and_the_rate_is_named_once():
    ax = Figure().add_subplot()
    right = torch.tensor([[0.2, 0.4], [0.6, 0.5]])
    answers.plot_rates(ax, torch.tensor([50.0, 100.0]), {"0.001": right})
    assert [line.get_ydata().tolist() for line in ax.lines] == [pytest.approx(seed.tolist()) for seed in right]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0.001"]


def test_a_small_rise_of_the_pay_fills_its_panel():
    axes = Figure().subplots(1, 2)
    answers.plot_hacking(axes, torch.tensor([0.98, 1.0]), torch.tensor([0.5, 0.0]))
    low, high = axes[0].get_ylim()
    assert low > 0.97 and high < 1.01
    assert axes[1].lines[0].get_ydata().tolist() == [0.5, 0.0]


def test_the_parts_of_an_update_stand_side_by_side_in_units_of_the_first():
    ax = Figure().add_subplot()
    answers.plot_update_time(ax, {"fast": {"write": 1.0, "learn": 4.0}, "slow": {"write": 3.0, "learn": 4.0}})
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert bars == [pytest.approx(bar) for bar in ((0.0, 0.2), (0.0, 0.6), (0.2, 0.8), (0.6, 0.8))]


def test_every_dot_of_the_network_lies_within_the_axes():
    ax = Figure().add_subplot()
    nats, right = torch.tensor([0.2, 12.0]), torch.tensor([0.7, 0.3])
    answers.plot_network_frontier(ax, {"DPO": (nats, right)}, (torch.tensor([0.1, 1.0]), torch.tensor([0.5, 1.0])))
    low, high = ax.get_xlim()
    assert low <= nats.min() and nats.max() <= high
    assert ax.lines[1].get_ydata().tolist() == right.tolist() and ax.lines[1].get_linestyle() == "None"
