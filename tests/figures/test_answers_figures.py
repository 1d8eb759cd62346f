"""The pictures of language models show the laws of the small language, in words too."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from minerva_book.figures import answers
from minerva_book.worlds.answer_tree import paid_by_the_a, spell
from minerva_lite.formulas import best_of_n_law


def test_bars_are_the_three_laws_and_their_words_are_true():
    tree, reference = paid_by_the_a()
    law = tree.log_prob(reference).exp()
    laws = (law, tree.optimum(reference, 0.3), best_of_n_law(law, tree.reward, 8))
    ax = Figure().add_subplot()
    answers.plot_answer_law(ax, beta=0.3, n=8)
    names = [label.get_text() for label in ax.get_xticklabels()]
    order = [spell(tree).index(name) for name in names]
    assert tree.reward[order].diff().min() >= 0
    for bars, wanted in zip(ax.containers, laws, strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(wanted[order].tolist())
    words = answers.answer_law_words(beta=0.3, n=8)
    for wanted in laws:
        assert f"earns {wanted @ tree.reward:.2f}" in words
