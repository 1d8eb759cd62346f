"""Preferences and the best of n: hand-worked pairs, gradients, and the laws of a language that is enumerated."""

from __future__ import annotations

import pytest
import torch

from minerva_book.worlds.answer_tree import AnswerTree
from minerva_lite.formulas import preferences as p
from tests.living import vector

F64 = torch.float64


@pytest.fixture(scope="module")
def world():
    """A tree with rewards in [0, 1), a reference, and another policy."""
    generator = torch.Generator().manual_seed(0)
    tree = AnswerTree.random(3, 2, generator)
    return tree, tree.random_logits(generator), tree.random_logits(generator)


def test_rare_answers_keep_their_digits():
    """A chance of 1e-18 disappears beside 1; the best of n has it n times as often if it is the best, never lost."""
    law = p.best_of_n_law(vector(1.0, 1e-18), vector(0.0, 1.0), 4)
    assert law[1].item() == pytest.approx(4e-18, rel=1e-12, abs=0.0)


def kl(law, probability):
    return torch.xlogy(law, law / probability).sum().item()


@pytest.mark.parametrize("n", [2, 4, 16])
def test_the_kl_of_the_best_of_n_stays_below_its_bound_and_reaches_it_among_many_unlikely_answers(world, n):
    tree, reference, other = world
    bound = p.best_of_n_kl(n)
    for logits in (reference, other):
        for reward in (tree.reward, (3.0 * tree.reward).round(), torch.zeros_like(tree.reward)):
            probability = tree.log_prob(logits).exp()
            assert -1e-15 <= kl(p.best_of_n_law(probability, reward, n), probability) < bound
    short = []
    for answers in (20, 200, 2000):
        uniform = torch.full((answers,), 1.0 / answers, dtype=F64)
        rank = torch.arange(answers, dtype=F64)
        short.append(bound - kl(p.best_of_n_law(uniform, rank, n), uniform))
        tied = kl(p.best_of_n_law(uniform, (rank >= answers // 2).to(F64), n), uniform)
        assert tied < 0.9 * bound, "with two rewards the bound stays out of reach"
    assert short[0] > short[1] > short[2] > 0 and short[2] < 1e-3 * bound
