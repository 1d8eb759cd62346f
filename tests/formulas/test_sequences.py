"""Formulas of answers: hand-worked columns, and what their gradients estimate in a language that is enumerated."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from minerva_book.worlds.answer_tree import AnswerTree
from minerva_lite.formulas import sequences as s

F64 = torch.float64


@pytest.fixture(scope="module")
def world():
    """A tree with rewards in [0, 1), a policy in it, and a reference."""
    generator = torch.Generator().manual_seed(0)
    tree = AnswerTree.random(3, 3, generator)
    return tree, tree.random_logits(generator), tree.random_logits(generator)


@pytest.fixture(scope="module")
def small():
    """Answers of at most two tokens, few enough for groups of three; a policy."""
    generator = torch.Generator().manual_seed(3)
    tree = AnswerTree.random(3, 2, generator)
    return tree, tree.random_logits(generator)


def near(first: torch.Tensor, second: torch.Tensor, within: float = 1e-12) -> bool:
    return (first - second).abs().max().item() < within


# Advantages


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
def test_a_group_of_equal_rewards_teaches_nothing(dtype, value):
    reward = torch.full((6,), value, dtype=dtype)
    for advantage in (s.leave_one_out_advantage(reward, 3), s.group_advantage(reward, 3, scale=False)):
        assert advantage.abs().max() < 1e-7
    assert s.group_advantage(reward, 3, scale=True).abs().max() < 1e-3
    if value in (0.0, 1.0):
        assert not s.group_advantage(reward, 3, scale=True).any(), "right or wrong: 0 and nothing else"


def policy_gradient(tree, policy, advantage_of, group):
    """Mean and variance of the gradient of mean_b A_b log pi_b, ascended."""
    return tree.gradient_moments(
        policy,
        lambda answers, log_prob: (
            advantage_of(tree.reward[answers]) * s.sequence_log_prob(log_prob, tree.mask[:, answers])
        ).mean(),
        group=group,
    )


@pytest.mark.parametrize("group", [2, 3])
def test_leaving_one_out_is_unbiased_and_its_own_reward_in_the_baseline_shrinks_the_gradient(small, group):
    tree, policy = small
    truth = tree.gradient(tree.expected_reward, policy)
    out, spread = policy_gradient(tree, policy, lambda r: s.leave_one_out_advantage(r, group), group)
    own, less = policy_gradient(tree, policy, lambda r: s.group_advantage(r, group, scale=False), group)
    assert truth.abs().max() > 0.01
    assert near(out, truth) and near(own, truth * (group - 1) / group)
    assert near(less, spread * ((group - 1) / group) ** 2), "nothing but a factor"
    _, plain = policy_gradient(tree, policy, lambda r: r, group)
    assert spread.sum() < plain.sum(), "the baseline is there for the variance"


@pytest.mark.parametrize(("group", "chance"), [(2, 0.84), (3, 0.84), (3, 0.2)])
def test_the_spread_weight_is_what_right_or_wrong_answers_give_in_the_exact_world(small, group, chance):
    tree, policy = small
    order = tree.log_prob(policy).argsort(descending=chance > 0.5)
    law = tree.log_prob(policy).exp()[order]
    right = torch.empty_like(law).scatter(0, order, (law.cumsum(0) <= chance).to(F64))
    tree = dataclasses.replace(tree, reward=right)
    p = tree.expected_reward(policy)
    assert 0.1 < p < 0.9
    mean, _ = policy_gradient(tree, policy, lambda r: s.group_advantage(r, group, scale=True, eps=1e-14), group)
    assert near(mean, s.spread_weight(p, group) * tree.gradient(tree.expected_reward, policy))


# The reference


def test_the_policy_gradient_of_kl_rewards_is_that_of_the_regularized_objective(world):
    """Every token with what comes after it, as GAE with lambda = 1 and no critic has it."""
    tree, policy, reference = world
    reference_log_prob, beta = tree.token_log_prob(reference), 0.3

    def objective(answers, log_prob):
        mask = tree.mask[:, answers]
        reward = s.kl_rewards(log_prob, reference_log_prob[:, answers], mask, tree.reward[answers], beta)
        return (reward.flip(0).cumsum(0).flip(0) * log_prob).sum()

    mean, _ = tree.gradient_moments(policy, objective)
    truth = tree.gradient(lambda x: tree.regularized(x, reference, beta), policy)
    assert truth.abs().max() > 0.01 and near(mean, truth)


# The clip


def test_off_policy_the_ratio_of_answers_is_exact_and_the_ratios_of_tokens_and_their_mean_are_not(world):
    tree, policy, behavior = world
    truth, behavior_log_prob = tree.gradient(tree.expected_reward, policy), tree.token_log_prob(behavior)
    level = tree.expected_reward(policy)

    def followed(weight_of):
        """Mean gradient of the surrogate without a clip (nothing reaches bounds this wide)."""

        def objective(answers, log_prob):
            return weight_of(log_prob - behavior_log_prob[:, answers], tree.mask[:, answers], tree.reward[answers])

        return tree.gradient_moments(policy, objective, behavior=behavior)[0]

    wide = {"low": 1.0, "high": 1e9}
    whole, mean = (
        followed(lambda x, m, r, each=each: s.clipped_sequence_objective(x, m, r - level, **wide, per_token=each).sum())
        for each in (False, True)
    )
    token = followed(lambda x, m, r: (s.clipped_token_objective(x, r - level, **wide) * m).sum())
    assert near(whole, truth)
    assert not near(token, truth, 0.01) and not near(mean, truth, 0.01)


# Averages


def averaged(tree, policy, average, answers):
    """Mean gradient of an average of A log pi with the others' mean taken off."""
    return tree.gradient_moments(
        policy,
        lambda columns, log_prob: s.average_tokens(
            s.leave_one_out_advantage(tree.reward[columns], answers) * log_prob, tree.mask[:, columns], average
        ),
        group=answers,
    )[0]


def test_a_constant_keeps_the_gradient_and_an_answers_length_changes_what_is_maximized(world):
    tree, policy, _ = world
    truth = tree.gradient(tree.expected_reward, policy)
    assert near(averaged(tree, policy, "constant", 2), truth / len(tree.mask))
    level, length = tree.expected_reward(policy), tree.mask.sum(0)
    shortened = tree.gradient(lambda x: tree.log_prob(x).exp() @ ((tree.reward - level) / length), policy)
    mean = averaged(tree, policy, "sequence", 2)
    assert near(mean, shortened)
    assert F.cosine_similarity(mean.flatten(), truth.flatten(), dim=0) < 0.95


def test_the_bias_of_the_mean_over_all_tokens_falls_with_the_batch():
    generator = torch.Generator().manual_seed(1)
    tree = AnswerTree.random(2, 2, generator)
    policy = tree.random_logits(generator)
    truth = tree.gradient(tree.expected_reward, policy)
    tokens = tree.log_prob(policy).exp() @ tree.mask.sum(0).to(F64)
    bias = [((averaged(tree, policy, "token", n) * tokens - truth).norm() / truth.norm()).item() for n in (2, 3, 6)]
    assert bias[0] > 0.02
    assert bias[0] > bias[1] > bias[2]
    assert 1.6 < bias[1] / bias[2] < 2.6, "as 1 / B: half as much from twice as many"


def test_no_gradient_enters_the_reference():
    log_prob, reference = (torch.randn(3, 2, dtype=F64).requires_grad_() for _ in range(2))
    for terms in s.kl_loss_terms(log_prob, reference):
        terms.sum().backward()
    assert reference.grad is None and log_prob.grad is not None
