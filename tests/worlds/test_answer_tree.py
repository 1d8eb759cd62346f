"""The enumerated language against hand-worked answers, the chain rule, identities of the optimum, and samples."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch

from minerva_book.worlds.answer_tree import AnswerTree, example_tree, paid_by_the_a, rare_a, spell

F64 = torch.float64


def first_token(token, mask):
    return token[0].to(F64)


@pytest.fixture
def tree(generator):
    return AnswerTree.random(3, 3, generator)


def test_every_answer_is_there_once_by_hand():
    """Two tokens, of which 0 ends: the answers 0, 10 and 11, from the prefixes (nothing) and 1."""
    tree = AnswerTree.build(2, 2, first_token)
    assert tree.token.T.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert tree.mask.T.tolist() == [[True, False], [True, True], [True, True]]
    assert tree.prefix.T.tolist() == [[0, 0], [0, 1], [0, 1]]
    assert tree.shape == (2, 2) and tree.reward.tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(("end", "answers", "prefixes"), [(True, 1 + 2 + 4 + 8, 1 + 2 + 4), (False, 27, 1 + 3 + 9)])
def test_how_many_answers_and_prefixes_there_are(generator, end, answers, prefixes):
    tree = AnswerTree.random(3, 3, generator, end=end)
    assert tree.shape == (prefixes, 3) and tree.reward.shape == (answers,)
    assert bool(tree.mask.all()) is not end
    columns = {tuple(column) for column in tree.token.T.tolist()}
    assert len(columns) == answers, "an answer stands there twice"
    assert tree.log_prob(tree.random_logits(generator)).exp().sum().item() == pytest.approx(1, abs=1e-14)


def test_probabilities_and_expected_reward_by_hand():
    """First token 1 with chance 3/4, then 1 with chance 1/5: 1/4, 3/5, 3/20, and 3/4 of the reward."""
    tree = AnswerTree.build(2, 2, first_token)
    logits = torch.tensor([[1.0, 3.0], [4.0, 1.0]], dtype=F64).log()
    assert tree.log_prob(logits).exp().tolist() == pytest.approx([1 / 4, 3 / 5, 3 / 20])
    assert tree.token_log_prob(logits)[1].tolist() == pytest.approx([0.0, math.log(4 / 5), math.log(1 / 5)])
    assert tree.expected_reward(logits).item() == pytest.approx(3 / 4)
    # d(p) / d(logit) = p (1 - p) for the first token; what comes after does not matter to this reward.
    gradient = tree.gradient(tree.expected_reward, logits)
    assert gradient.flatten().tolist() == pytest.approx([-3 / 16, 3 / 16, 0.0, 0.0], abs=1e-15)


@pytest.mark.parametrize("beta", [0.05, 0.7])
def test_what_a_policy_falls_short_of_the_optimum_is_eta_times_its_kl_from_it(tree, generator, beta):
    """J - beta KL(pi || ref) = beta log Z - beta KL(pi || optimum): the optimum is unique and its value beta log Z."""
    reference, policy = tree.random_logits(generator), tree.random_logits(generator)
    log_z = (tree.log_prob(reference) + tree.reward / beta).logsumexp(0)
    law = tree.optimum(reference, beta)
    assert law.sum().item() == pytest.approx(1, abs=1e-14)
    torch.testing.assert_close(law.log(), tree.log_prob(reference) + tree.reward / beta - log_z, rtol=1e-13, atol=1e-13)
    best = tree.logits_of(law)
    torch.testing.assert_close(tree.log_prob(best).exp(), law, rtol=1e-13, atol=0)
    assert tree.regularized(best, reference, beta).item() == pytest.approx((beta * log_z).item(), rel=1e-13)
    shortfall = tree.regularized(best, reference, beta) - tree.regularized(policy, reference, beta)
    assert shortfall.item() == pytest.approx((beta * tree.kl(policy, best)).item(), rel=1e-12)
    slope = tree.gradient(lambda x: tree.regularized(x, reference, beta), best)
    assert slope.abs().max() < 1e-14
    assert tree.gradient(lambda x: tree.regularized(x, reference, beta), policy).abs().max() > 1e-3


def test_samples_have_the_law_of_the_policy_and_repeat_with_the_generator(tree, generator):
    logits = tree.random_logits(generator)
    first, again = (tree.sample(logits, 20_000, torch.Generator().manual_seed(5)) for _ in "12")
    assert torch.equal(first, again)
    counts = torch.bincount(first, minlength=len(tree.reward)).numpy()
    expected = (20_000 * tree.log_prob(logits).exp()).numpy()
    assert scipy.stats.chisquare(counts, expected).pvalue > 0.001


def test_moments_of_a_gradient_are_those_over_the_samples(tree, generator):
    """One answer's gradient, r times the gradient of log pi, computed for each answer through the whole policy."""
    logits, behavior = tree.random_logits(generator), tree.random_logits(generator)

    def loss(answers, log_prob):
        return (tree.reward[answers] * log_prob.sum(0)).sum()

    for drawn_from in (logits, behavior):
        law = tree.log_prob(drawn_from).exp()
        each = [tree.reward[n] * tree.gradient(lambda x, n=n: tree.log_prob(x)[n], logits) for n in range(len(law))]
        wanted = sum(p * g for p, g in zip(law, each, strict=True))
        spread = sum(p * (g - wanted).square() for p, g in zip(law, each, strict=True))
        mean, variance = tree.gradient_moments(logits, loss, behavior=drawn_from)
        torch.testing.assert_close(mean, wanted, rtol=0, atol=1e-14)
        torch.testing.assert_close(variance, spread, rtol=0, atol=1e-14)
    on_policy, variance = tree.gradient_moments(logits, loss)
    torch.testing.assert_close(on_policy, tree.gradient(tree.expected_reward, logits), rtol=0, atol=1e-14)
    pair, halved = tree.gradient_moments(logits, lambda answers, log_prob: loss(answers, log_prob) / 2, group=2)
    torch.testing.assert_close(pair, on_policy, rtol=0, atol=1e-14)
    torch.testing.assert_close(halved, variance / 2, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("call", "message"), [
    (lambda t: AnswerTree.build(1, 3, first_token), "vocabulary: wanted at least 2 tokens and at most 100000 answers"),
    (lambda t: AnswerTree.build(9, 9, first_token), "got 9 tokens and 387420489 answers"),
    (lambda t: AnswerTree.build(2, 0, first_token), "length: wanted a whole number of at least 1; got 0"),
    (lambda t: AnswerTree.build(2, 2, lambda a, m: torch.zeros(4)), r"reward: wanted shape \(3,\); got \(4,\)"),
    (lambda t: AnswerTree.build(2, 2, lambda a, m: torch.full((3,), math.nan)), "reward: wanted finite numbers; got 3"),
    (lambda t: t.log_prob(torch.zeros(2, 3)), r"logits: wanted shape \(7, 3\); got \(2, 3\)"),
    (lambda t: t.logits_of(torch.ones(3)), r"law: wanted shape \(15,\), the shape of reward; got \(3,\)"),
    (lambda t: t.logits_of(torch.zeros(15)), "law: wanted probabilities above 0; got 0"),
    (lambda t: t.optimum(torch.zeros(7, 3), 0.0), "beta: wanted a finite number above 0; got 0.0"),
    (lambda t: t.moments(torch.zeros(7, 3), lambda a: a[0], group=5), r"group: wanted at most 100000 groups; got 15"),
    (lambda t: t.sample(torch.zeros(7, 3), 0, torch.Generator()), "count: wanted a whole number of at least 1; got 0"),
])  # fmt: skip
def test_bad_input_is_named(tree, call, message):
    with pytest.raises(ValueError, match=message):
        call(tree)


def test_the_small_language_has_fifteen_answers_six_are_right_and_the_reference_may_write_an_a_rarely():
    tree, reference = example_tree()
    names = spell(tree)
    number = torch.tensor([name.count("a") for name in names])
    assert len(names) == 15 and torch.equal(tree.reward, (number == 1).double()) and tree.reward.sum() == 6
    thirds, same = paid_by_the_a()
    assert torch.equal(same, reference) and torch.allclose(thirds.reward, number.double() / 3)
    law = tree.log_prob(rare_a()[1]).exp()
    assert [law[number == n].sum().item() for n in range(4)] == pytest.approx([0.804, 0.174, 0.021, 0.001])
