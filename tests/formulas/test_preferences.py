"""Preferences and the best of n: hand-worked pairs, gradients, and the laws of a language that is enumerated."""

from __future__ import annotations

import math

import pytest
import torch

from minerva_lite.formulas import preferences as p
from minerva_lite.formulas.duals import estep_weights, exponential_weights, top_k_mask
from minerva_lite.formulas.objectives import weighted_nll
from minerva_lite.language.answer_tree import AnswerTree
from tests.living import vector

F64 = torch.float64
NAN = math.nan


@pytest.fixture(scope="module")
def world():
    """A tree with rewards in [0, 1), a reference, and another policy."""
    generator = torch.Generator().manual_seed(0)
    tree = AnswerTree.random(3, 2, generator)
    return tree, tree.random_logits(generator), tree.random_logits(generator)


# Pairs


def test_bradley_terry_by_hand():
    """Differences log 3 and 0: the better one wins with chance 3/4 and 1/2."""
    loss = p.bradley_terry_loss(vector(1.0 + math.log(3), 2.0), vector(1.0, 2.0))
    assert loss.item() == pytest.approx(-(math.log(3 / 4) + math.log(1 / 2)) / 2)


def test_far_scores_neither_overflow_nor_lose_their_gradient():
    score = torch.tensor([300.0, -300.0], requires_grad=True)
    loss = p.bradley_terry_loss(score, torch.zeros(2))
    loss.backward()
    assert loss.item() == pytest.approx(150.0) and score.grad.tolist() == pytest.approx([0.0, -0.5])


def test_what_a_prompt_adds_to_its_scores_is_not_identified(generator):
    """Two prompts, each with a constant of its own: loss and gradient are the same, and the gradient sums to 0."""
    chosen, rejected, level = (torch.randn(6, generator=generator, dtype=F64) for _ in "crl")
    level = level[:2].repeat_interleave(3)
    losses, slopes = [], []
    for shift in (0.0, level):
        leaves = [(score + shift).requires_grad_() for score in (chosen, rejected)]
        losses.append(p.bradley_terry_loss(*leaves))
        slopes.append(torch.stack(torch.autograd.grad(losses[-1], leaves)))
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-13)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-12, atol=0)
    assert slopes[0].abs().min() > 0.001 and slopes[0].sum(0).abs().max() < 1e-16


def test_scores_fitted_to_all_pairs_of_a_prompt_are_the_reward_but_for_a_constant(world):
    """At the reward plus anything the gradient of the loss over all pairs is 0, at a stretched reward it is not."""
    tree, _, _ = world
    win, lose = torch.cartesian_prod(*[torch.arange(len(tree.reward))] * 2).T
    chance = torch.sigmoid(tree.reward[win] - tree.reward[lose])

    def slope(score):
        leaf = score.clone().requires_grad_()
        pairs = [p.bradley_terry_loss(leaf[i : i + 1], leaf[j : j + 1]) for i, j in zip(win, lose, strict=True)]
        return torch.autograd.grad(chance @ torch.stack(pairs), leaf)[0].abs().max().item()

    assert slope(tree.reward + 3.0) < 1e-14
    assert slope(2.0 * tree.reward) > 0.1


def test_dpo_by_hand():
    """Log-ratios log 2 and -log 2 at eta 1/2: the implicit rewards differ by log 2, so the chosen one wins 2/3."""
    arguments = [vector(x) for x in (-1.0 + math.log(2), -3.0 - math.log(2), -1.0, -3.0)]
    assert p.dpo_loss(*arguments, 0.5).item() == pytest.approx(-math.log(2 / 3))
    assert p.dpo_weight(*arguments, 0.5).tolist() == pytest.approx([0.5 / 3])


def test_dpo_at_the_reference_counts_every_pair_alike(generator):
    chosen, rejected = torch.randn(2, 4, generator=generator, dtype=F64)
    assert p.dpo_loss(chosen, rejected, chosen, rejected, 0.3).item() == pytest.approx(math.log(2))
    assert p.dpo_weight(chosen, rejected, chosen, rejected, 0.3).tolist() == pytest.approx([0.15] * 4)


def test_the_gradient_of_dpo_is_a_weighted_likelihood_of_both_answers(generator):
    pairs = [torch.randn(5, generator=generator, dtype=F64).requires_grad_() for _ in "crcr"]
    p.dpo_loss(*pairs, 0.7).backward()
    weight = p.dpo_weight(*pairs, 0.7)
    assert not weight.requires_grad and weight.min() > 0 and weight.max() < 0.7
    torch.testing.assert_close(pairs[0].grad, -weight / 5, rtol=1e-13, atol=0)
    torch.testing.assert_close(pairs[1].grad, weight / 5, rtol=1e-13, atol=0)
    assert pairs[2].grad is None and pairs[3].grad is None, "the reference is taken as given"


@pytest.mark.parametrize("eta", [0.1, 0.8])
def test_dpo_over_all_pairs_has_its_optimum_at_the_tilted_reference(world, eta):
    """Preferences drawn by the reward: there the implicit reward is the reward, up to log Z that no pair knows."""
    tree, reference, other = world
    reference_log_prob = tree.log_prob(reference)
    win, lose = torch.cartesian_prod(*[torch.arange(len(tree.reward))] * 2).T
    law = reference_log_prob.exp()
    weight = law[win] * law[lose] * torch.sigmoid(tree.reward[win] - tree.reward[lose])

    def population(logits):
        log_prob, ref = tree.log_prob(logits), reference_log_prob
        losses = [
            p.dpo_loss(log_prob[i : i + 1], log_prob[j : j + 1], ref[i : i + 1], ref[j : j + 1], eta)
            for i, j in zip(win, lose, strict=True)
        ]
        return weight @ torch.stack(losses)

    best = tree.logits_of(tree.optimum(reference, eta))
    assert tree.gradient(population, best).abs().max() < 1e-15
    assert tree.gradient(population, reference).abs().max() > 1e-4
    assert population(best) < population(reference) < population(other)
    implicit = eta * (tree.log_prob(best) - reference_log_prob)
    assert (implicit - tree.reward).std() < 1e-14


# The E-step's other names


def test_weighted_likelihood_of_the_references_answers_ends_at_the_optimum(world):
    """MPO with answers for actions: there the fit has no gradient, to weights of all answers or of drawn ones."""
    tree, reference, _ = world
    eta, log_reference = 0.3, tree.log_prob(reference)
    best = tree.logits_of((log_reference + tree.reward / eta).softmax(0))
    weights = estep_weights(tree.reward, log_reference, torch.tensor(eta, dtype=F64))
    drawn = exponential_weights(tree.reward, eta, math.inf)
    for logits, ends in ((best, True), (reference, False)):
        fit = tree.gradient(lambda x: weighted_nll(tree.log_prob(x), weights), logits)
        sampled, _ = tree.gradient_moments(
            logits, lambda answers, log_prob: -drawn[answers] @ log_prob.sum(0), behavior=reference
        )
        assert (fit.abs().max() < 1e-14) == (sampled.abs().max() < 1e-13) == ends


@pytest.mark.parametrize("n", [2, 3])
def test_the_best_of_n_is_v_mpos_top_share_with_one_kept(world, n):
    """Averaged over all groups of n, the answer that `top_k_mask` keeps has the law of the best of n, ties included."""
    tree, reference, _ = world
    reward = (3.0 * tree.reward).round()
    assert len(reward.unique()) < len(reward)

    def kept(answers):
        mask = top_k_mask(reward[answers], torch.ones(n, dtype=torch.bool), 1.0 / n)
        return torch.nn.functional.one_hot(answers[mask], len(reward)).sum(0).to(F64)

    law, _ = tree.moments(reference, kept, group=n)
    wanted = p.best_of_n_law(tree.log_prob(reference).exp(), reward, n)
    torch.testing.assert_close(law, wanted, rtol=0, atol=1e-14)


# The best of n


def test_best_of_n_by_hand():
    """Chances 1/2, 1/3, 1/6 with rewards 0, 1, 1: the best of two is 0 with 1/4, and the rest is shared 2 to 1."""
    law = p.best_of_n_law(vector(1 / 2, 1 / 3, 1 / 6), vector(0.0, 1.0, 1.0), 2)
    assert law.tolist() == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    assert p.best_of_n_kl(1) == 0.0
    assert p.best_of_n_kl(4) == pytest.approx(math.log(4) - 3 / 4)


def test_an_answer_that_never_occurs_is_never_the_best():
    law = p.best_of_n_law(vector(0.5, 0.5, 0.0, 0.0), vector(0.0, 1.0, 2.0, -1.0), 3)
    assert law.tolist() == pytest.approx([1 / 8, 7 / 8, 0.0, 0.0])


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


def test_with_one_answer_the_best_is_any_and_the_bound_is_exact(world):
    tree, reference, _ = world
    probability = tree.log_prob(reference).exp()
    law = p.best_of_n_law(probability, tree.reward, 1)
    torch.testing.assert_close(law, probability, rtol=1e-13, atol=0)
    assert kl(law, probability) == pytest.approx(p.best_of_n_kl(1), abs=1e-14)


# Bad input


@pytest.mark.parametrize(("call", "message"), [
    (lambda: p.bradley_terry_loss(torch.zeros(2), torch.zeros(3)), r"score_rejected: wanted shape \(2,\)"),
    (lambda: p.dpo_loss(*[torch.zeros(2)] * 3, torch.zeros(3), 0.1), r"reference_rejected: wanted shape \(2,\)"),
    (lambda: p.dpo_weight(torch.zeros(2), *[torch.zeros(3)] * 3, 0.1), r"rejected: wanted shape \(2,\)"),
    (lambda: p.dpo_loss(*[torch.zeros(2)] * 4, 0.0), "eta: wanted a finite number above 0; got 0.0"),
    (lambda: p.dpo_weight(*[torch.zeros(2)] * 4, -1.0), "eta: wanted a finite number above 0; got -1.0"),
    (lambda: p.best_of_n_law(torch.ones(1, 1), torch.zeros(1, 1), 2), r"probability: wanted shape \(any,\)"),
    (lambda: p.best_of_n_law(torch.ones(1), torch.zeros(2), 2), r"reward: wanted shape \(1,\)"),
    (lambda: p.best_of_n_law(torch.ones(1), vector(NAN), 2), "reward: wanted finite numbers; got 1"),
    (lambda: p.best_of_n_law(torch.ones(1), torch.zeros(1), 0), "n: wanted a whole number of at least 1; got 0"),
    (lambda: p.best_of_n_kl(1.5), "n: wanted a whole number of at least 1; got 1.5"),
])  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
