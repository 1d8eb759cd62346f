"""The pictures of language models and of preferences show the laws of the small language, in words too."""

import pytest
import torch

from minerva_book.figures import answers, preferences
from minerva_book.worlds.answer_tree import paid_by_the_a, rare_a, spell
from minerva_lite.formulas import best_of_n_law
from tests.figures.test_drawn import draw


def test_bars_of_answers_are_the_three_laws_and_their_words_are_true():
    tree, reference = paid_by_the_a()
    law = tree.log_prob(reference).exp()
    laws = (law, tree.optimum(reference, 0.3), best_of_n_law(law, tree.reward, 8))
    ax = draw(answers.plot_answer_law, beta=0.3, n=8)
    names = [label.get_text() for label in ax.get_xticklabels()]
    order = [spell(tree).index(name) for name in names]
    assert tree.reward[order].diff().min() >= 0
    for bars, wanted in zip(ax.containers, laws, strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(wanted[order].tolist())
    words = answers.answer_law_words(beta=0.3, n=8)
    for wanted in laws:
        assert f"earns {wanted @ tree.reward:.2f}" in words


@pytest.mark.parametrize("learned", [True, False])
def test_bars_are_the_reference_and_the_optimum_and_their_words_are_true(learned):
    tree, reference = rare_a()
    law, names = tree.log_prob(reference).exp(), spell(tree)
    number = torch.tensor([name.count("a") for name in names]).double()
    weight = law * ((number if learned else (number == 1).double()) / 0.5).exp()
    optimum = weight / weight.sum()
    ax = draw(preferences.plot_learned_law, beta=0.5, learned=learned)
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
