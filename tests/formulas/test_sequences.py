"""Formulas of answers: hand-worked columns, and what their gradients estimate in a language that is enumerated."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F

from minerva_lite.formulas import sequences as s
from minerva_lite.formulas.distributions import categorical_kl
from minerva_lite.formulas.objectives import ppo_clip_objective
from minerva_lite.language.answer_tree import AnswerTree
from tests.living import vector

F64 = torch.float64
NAN = math.nan
MASK = torch.tensor([[1, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=torch.bool)  # answers of 3, 1 and 2 tokens


def rows(*numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=F64)


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


# Log-probabilities


def test_sequence_log_prob_by_hand_ignores_what_stands_behind_the_end():
    log_prob = rows([-1.0, -2.0, -3.0], [-0.5, NAN, -0.25], [-0.125, -math.inf, NAN])
    leaf = log_prob.clone().requires_grad_()
    total = s.sequence_log_prob(leaf, MASK)
    assert total.tolist() == [-1.625, -2.0, -3.25]
    total.sum().backward()
    assert torch.equal(leaf.grad, MASK.to(F64))


def test_sequence_log_ratio_by_hand():
    log_ratio = rows([0.3, 0.2, -0.4], [0.1, NAN, 0.2], [-0.1, NAN, NAN])
    assert s.sequence_log_ratio(log_ratio, MASK, per_token=False).tolist() == pytest.approx([0.3, 0.2, -0.2])
    assert s.sequence_log_ratio(log_ratio, MASK, per_token=True).tolist() == pytest.approx([0.1, 0.2, -0.1])


# Advantages


def test_advantages_of_two_groups_by_hand():
    """Rewards 1, 0, 0, 1 and 1, 1, 0, 1: means 1/2 and 3/4, sample deviations 1/sqrt(3) and 1/2."""
    reward = vector(1, 0, 0, 1, 1, 1, 0, 1).requires_grad_()
    assert s.group_mean(reward, 4).tolist() == [0.5] * 4 + [0.75] * 4
    loo, centered = s.leave_one_out_advantage(reward, 4), s.group_advantage(reward, 4, scale=False)
    assert loo.tolist() == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3, 1 / 3, 1 / 3, -1, 1 / 3])
    assert centered.tolist() == [0.5, -0.5, -0.5, 0.5, 0.25, 0.25, -0.75, 0.25]
    scaled, root = s.group_advantage(reward, 4, scale=True, eps=1e-12), math.sqrt(3) / 2
    assert scaled.tolist() == pytest.approx([root, -root, -root, root, 0.5, 0.5, -1.5, 0.5])
    softened = s.group_advantage(reward, 4, scale=True, eps=0.5)
    assert softened.tolist()[4:] == pytest.approx([0.25, 0.25, -0.75, 0.25])
    assert not any(advantage.requires_grad for advantage in (loo, centered, scaled))


def test_the_spread_is_the_standard_deviation_that_torch_computes(generator):
    reward = torch.rand(12, generator=generator, dtype=F64)
    grouped = reward.reshape(3, 4)
    wanted = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)
    assert near(s.group_advantage(reward, 4, scale=True), wanted.flatten())


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


@pytest.mark.parametrize("group", [2, 3])
def test_dividing_by_the_spread_turns_the_gradient_of_a_prompt(small, group):
    """Where one answer is far better than the rest, the mean gradient points elsewhere, whatever its length."""
    tree, policy = small
    tree = dataclasses.replace(tree, reward=tree.reward**8)
    truth = tree.gradient(tree.expected_reward, policy)
    mean, _ = policy_gradient(tree, policy, lambda r: s.group_advantage(r, group, scale=True, eps=1e-12), group)
    angle = F.cosine_similarity(mean.flatten(), truth.flatten(), dim=0).arccos()
    assert angle > math.radians(5)


def test_of_two_answers_divided_by_their_spread_only_the_order_counts(small):
    """Advantages are +-1 / sqrt(2): the mean gradient is that of beating, less often than losing to, a held policy."""
    tree, policy = small
    mean, _ = policy_gradient(tree, policy, lambda r: s.group_advantage(r, 2, scale=True, eps=1e-14), 2)
    score = (tree.reward.unsqueeze(1) - tree.reward).sign() @ tree.log_prob(policy).exp()
    wanted = tree.gradient(lambda x: tree.log_prob(x).exp() @ score / math.sqrt(2), policy)
    assert wanted.abs().max() > 0.01 and near(mean, wanted)


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


def test_the_spread_weight_favors_prompts_that_are_nearly_solved_or_nearly_hopeless():
    p = vector(1e-7, 0.05, 0.2, 0.5)
    for group in (2, 3):  # of 2 or 3 answers, the spread of a mixed group can have one value only
        assert near(s.spread_weight(p, group), torch.full_like(p, (group - 1) / math.sqrt(group)), 1e-6)
    for group in (4, 8, 64):
        weight = s.spread_weight(p, group)
        assert (weight.diff() < 0).all()
        assert weight[0].item() == pytest.approx((group - 1) / math.sqrt(group), rel=1e-4)
        assert near(weight, s.spread_weight(1.0 - p, group), 1e-6), "as many right as wrong"
    large = s.spread_weight(p[1:], 1000)
    torch.testing.assert_close(large, (p[1:] * (1 - p[1:])).rsqrt(), rtol=0.01, atol=0)


# The reference


def test_kl_rewards_by_hand():
    log_prob, reference = rows([-1.0, -2.0, -3.0], [-1.0, NAN, -1.0], [-1.0, NAN, NAN]), torch.full((3, 3), -2.0)
    reward = s.kl_rewards(log_prob.requires_grad_(), reference.to(F64), MASK, vector(1.0, 0.5, -1.0), 0.1)
    assert reward.flatten().tolist() == pytest.approx([-0.1, 0.5, 0.1, -0.1, 0.0, -1.1, 0.9, 0.0, 0.0])
    assert not reward.requires_grad


def test_the_policy_gradient_of_kl_rewards_is_that_of_the_regularized_objective(world):
    """Every token with what comes after it, as GAE with lambda = 1 and no critic has it."""
    tree, policy, reference = world
    reference_log_prob, eta = tree.token_log_prob(reference), 0.3

    def objective(answers, log_prob):
        mask = tree.mask[:, answers]
        reward = s.kl_rewards(log_prob, reference_log_prob[:, answers], mask, tree.reward[answers], eta)
        return (reward.flip(0).cumsum(0).flip(0) * log_prob).sum()

    mean, _ = tree.gradient_moments(policy, objective)
    truth = tree.gradient(lambda x: tree.regularized(x, reference, eta), policy)
    assert truth.abs().max() > 0.01 and near(mean, truth)


def kl_gradients(tree, policy, reference):
    """The gradients of KL(pi || ref) and of KL(ref || pi)."""
    forward = tree.gradient(lambda x: tree.kl(x, reference), policy)
    backward = tree.gradient(lambda x: tree.kl(reference, x), policy)
    assert forward.abs().max() > 0.1 and backward.abs().max() > 0.1
    assert not near(forward, backward, 0.05)
    return forward, backward


def test_in_the_loss_k1_pulls_nowhere_k2_to_the_kl_and_k3_to_the_kl_of_the_other_side(world):
    tree, policy, reference = world
    forward, backward = kl_gradients(tree, policy, reference)
    reference_log_prob = tree.log_prob(reference)
    for k, wanted in enumerate((torch.zeros_like(forward), forward, backward)):
        mean, variance = tree.gradient_moments(
            policy,
            lambda answers, log_prob, k=k: s.kl_loss_terms(
                s.sequence_log_prob(log_prob, tree.mask[:, answers]), reference_log_prob[answers]
            )[k].sum(),
        )
        assert near(mean, wanted), f"k{k + 1}"
        assert variance.sum() > 0.1, "one answer says little"


def test_the_values_of_k1_and_k3_are_the_kl_and_that_of_k2_is_not(world):
    tree, policy, reference = world
    reference_log_prob, log_prob = tree.log_prob(reference), tree.log_prob(policy)
    k1, k2, k3 = s.kl_loss_terms(log_prob, reference_log_prob)
    kl, law = tree.kl(policy, reference).item(), log_prob.exp()
    assert ((law @ k1).item(), (law @ k3).item()) == pytest.approx((kl, kl), rel=1e-12)
    assert (law @ k2).item() != pytest.approx(kl, rel=0.02)


def test_terms_of_tokens_take_the_prefixes_as_given(world):
    """Their mean gradient is that of the KL of the next token, over prefixes that the gradient does not see."""
    tree, policy, reference = world
    forward, backward = kl_gradients(tree, policy, reference)
    reference_log_prob, law = tree.token_log_prob(reference), tree.log_prob(policy).exp()
    visits = torch.zeros(tree.shape[0], dtype=F64)
    visits.index_put_((tree.prefix,), law * tree.mask, accumulate=True)
    held = [
        torch.zeros_like(forward),
        tree.gradient(lambda x: visits @ categorical_kl(x, reference), policy),
        tree.gradient(lambda x: visits @ categorical_kl(reference, x), policy),
    ]
    for k, wanted in enumerate(held):
        mean, _ = tree.gradient_moments(
            policy,
            lambda answers, log_prob, k=k: (
                s.kl_loss_terms(log_prob, reference_log_prob[:, answers])[k] * tree.mask[:, answers]
            ).sum(),
        )
        assert near(mean, wanted), f"k{k + 1}"
    assert not near(held[1], forward, 0.01) and not near(held[2], backward, 0.01)


def test_no_gradient_enters_the_reference():
    log_prob, reference = vector(-1.0, -2.0).requires_grad_(), vector(-1.5, -1.0).requires_grad_()
    for term in s.kl_loss_terms(log_prob, reference):
        term.sum().backward()
    assert reference.grad is None and log_prob.grad is not None


# The clip

CLIPS = [  # ratio, advantage, objective between 0.8 and 1.4, does the gradient live
    (1.5, 2.0, 2.8, False), (1.3, 2.0, 2.6, True), (1.5, -2.0, -3.0, True),
    (0.7, -2.0, -1.6, False), (0.85, -2.0, -1.7, True), (0.7, 2.0, 1.4, True),
]  # fmt: skip


@pytest.mark.parametrize(("ratio", "advantage", "wanted", "alive"), CLIPS)
def test_the_clip_has_two_sides_by_hand(ratio, advantage, wanted, alive):
    log_ratio = rows([ratio], [ratio]).log().requires_grad_()
    objective = s.clipped_token_objective(log_ratio, vector(advantage), 0.2, 0.4)
    assert objective.flatten().tolist() == pytest.approx([wanted, wanted])
    objective.sum().backward()
    slope = ratio * advantage if alive else 0.0
    assert log_ratio.grad.flatten().tolist() == pytest.approx([slope, slope])


def test_with_equal_sides_it_is_the_clip_of_ppo(generator):
    log_ratio, advantage = 0.4 * torch.randn(5, 4, generator=generator), torch.randn(4, generator=generator)
    wanted = ppo_clip_objective(log_ratio, advantage.expand(5, 4), 0.2)
    assert torch.equal(s.clipped_token_objective(log_ratio, advantage, 0.2, 0.2), wanted)
    assert torch.equal(s.clipped_token_objective(log_ratio, advantage.expand(5, 4), 0.2, 0.2), wanted)


def test_one_ratio_for_the_whole_answer_by_hand():
    """Tokens of ratio 1.1: three make 1.331, clipped at 1.3; their geometric mean 1.1 is not clipped."""
    log_ratio, advantage = torch.where(MASK, math.log(1.1), NAN).to(F64), vector(1.0, 2.0, -1.0)
    whole = s.clipped_sequence_objective(log_ratio, MASK, advantage, 0.2, 0.3, per_token=False)
    assert whole.tolist() == pytest.approx([1.3, 2.2, -1.21])
    mean = s.clipped_sequence_objective(log_ratio, MASK, advantage, 0.2, 0.3, per_token=True)
    assert mean.tolist() == pytest.approx([1.1, 2.2, -1.1])


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


def test_three_averages_by_hand():
    value = rows([1.0, 6.0, 2.0], [2.0, NAN, 4.0], [3.0, NAN, NAN])
    averages = {name: s.average_tokens(value, MASK, name).item() for name in s.AVERAGES}
    assert averages == pytest.approx({"token": 18 / 6, "sequence": (2 + 6 + 3) / 3, "constant": 18 / 9})


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


def test_averaging_over_each_answer_makes_right_answers_short_and_wrong_ones_long():
    """Answers of 1 and 3 tokens, equally good: without the division none gains; with it the short one, if r > J."""
    tree = AnswerTree.build(2, 3, lambda token, mask: (mask.sum(0) != 2).to(F64))  # answers 0, 10, 110 and 111
    policy = torch.zeros(tree.shape, dtype=F64)
    for sign, lengthens in ((1.0, -1.0), (-1.0, 1.0)):
        signed = dataclasses.replace(tree, reward=sign * tree.reward)
        step = averaged(signed, policy, "sequence", 2)
        law = signed.log_prob(policy).exp()
        # The rates at which the answer 0 and the answers of three tokens gain, relative to their chances.
        gain = torch.einsum("tnsv,sv->n", signed.score(policy), step)
        three = signed.mask.sum(0) == 3
        short, long = gain[0], (law * gain)[three].sum() / law[three].sum()
        assert torch.sign(long - short).item() == lengthens
        plain = torch.einsum("tnsv,sv->n", signed.score(policy), averaged(signed, policy, "constant", 2))
        assert abs((long - short).item()) > abs((plain[0] - (law * plain)[three].sum() / law[three].sum()).item())


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


def test_the_last_token_of_each_answer_by_hand():
    """Answers of 3, 1 and 2 tokens."""
    assert s.last_token(MASK).int().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_advantages_of_tokens_get_mean_zero_and_spread_one_by_hand():
    """Tokens 1, 3 and 5 count, the rest does not: mean 3, mean square of the differences 8 / 3."""
    mask = torch.tensor([[1, 1], [1, 0]], dtype=torch.bool)
    normal = s.normalize_tokens(rows([1.0, 5.0], [3.0, 900.0]), mask, eps=0.0)
    assert normal[mask].tolist() == pytest.approx([-math.sqrt(1.5), math.sqrt(1.5), 0.0])
    small = s.normalize_tokens(rows([1.0, 1.0], [1.0, 7.0]), mask)
    assert small[mask].tolist() == [0.0, 0.0, 0.0], "equal advantages teach nothing, and divide by no zero"


# Bad input


TOKENS = torch.zeros(3, 3)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: s.leave_one_out_advantage(torch.zeros(4), 1), "group: wanted at least 2 answers to each prompt; got 1"),
    (lambda: s.group_advantage(torch.zeros(4), 1, scale=True), "group: wanted at least 2 answers to each prompt"),
    (lambda: s.group_mean(torch.zeros(4), 1), "group: wanted at least 2"),
    (lambda: s.spread_weight(torch.tensor(0.5), 1), "group: wanted at least 2"),
    (lambda: s.leave_one_out_advantage(torch.zeros(4), True), "group: wanted a whole number of at least 1; got True"),
    (lambda: s.leave_one_out_advantage(torch.zeros(10), 4), "reward: wanted a multiple of group = 4 answers; got 10"),
    (lambda: s.group_advantage(torch.zeros(0), 2, scale=False), "reward: wanted a multiple of group = 2 answers"),
    (lambda: s.group_mean(torch.zeros(2, 2), 2), r"value: wanted shape \(any,\); got \(2, 2\)"),
    (lambda: s.leave_one_out_advantage(vector(1, NAN), 2), "reward: wanted finite numbers; got 1 that are NaN"),
    (lambda: s.group_advantage(vector(1, math.inf), 2, scale=True), "reward: wanted finite numbers; got 1"),
    (lambda: s.group_advantage(vector(1, 0), 2, scale=True, eps=0.0), "eps: wanted a finite number above 0; got 0.0"),
    (lambda: s.spread_weight(vector(0.5, 1.0), 4), r"probability: wanted numbers inside \(0, 1\); got \[0.5, 1.0\]"),
    (lambda: s.sequence_log_prob(TOKENS, MASK & MASK.new_tensor([True, False, True])),
     "mask: wanted at least one token in every answer; got none in answer 1"),
    (lambda: s.average_tokens(TOKENS, MASK ^ MASK, "token"), "got none in answer 0"),
    (lambda: s.sequence_log_prob(TOKENS, MASK.flip(0)),
     "mask: wanted every answer to begin in row 0 and go on without a gap; answer 1 does not"),
    (lambda: s.sequence_log_prob(TOKENS, MASK | torch.tensor([[False] * 3, [False] * 3, [False, True, False]])),
     "without a gap; answer 1 does not"),
    (lambda: s.sequence_log_prob(TOKENS, MASK.float()), "mask: wanted dtype torch.bool; got torch.float32"),
    (lambda: s.sequence_log_prob(torch.zeros(3, 2), MASK), r"log_prob: wanted shape \(3, 3\), the shape of mask; got"),
    (lambda: s.sequence_log_prob(torch.zeros(3), MASK[0]), r"mask: wanted shape \(any, any\); got \(3,\)"),
    (lambda: s.sequence_log_ratio(torch.zeros(2, 3), MASK, per_token=True), "log_ratio: wanted shape"),
    (lambda: s.kl_rewards(TOKENS, TOKENS, MASK, torch.zeros(2), 0.1), r"reward: wanted shape \(3,\); got \(2,\)"),
    (lambda: s.kl_rewards(TOKENS, TOKENS, MASK, vector(1, NAN, 1), 0.1), "reward: wanted finite numbers; got 1"),
    (lambda: s.kl_rewards(TOKENS, TOKENS, MASK, torch.zeros(3), -0.1), "eta: wanted a finite number of at least 0"),
    (lambda: s.kl_rewards(TOKENS, torch.zeros(2, 3), MASK, torch.zeros(3), 0.1), "reference_log_prob: wanted shape"),
    (lambda: s.kl_loss_terms(TOKENS, torch.zeros(2, 3)), "reference_log_prob: wanted shape"),
    (lambda: s.clipped_token_objective(TOKENS, torch.zeros(2), 0.2, 0.2), r"advantage: wanted shape \(3,\); got"),
    (lambda: s.clipped_token_objective(TOKENS, torch.zeros(2, 3), 0.2, 0.2), r"advantage: wanted shape \(3, 3\)"),
    (lambda: s.clipped_token_objective(TOKENS, torch.zeros(3), 1.5, 0.2), r"low: wanted a number in \[0, 1\]"),
    (lambda: s.clipped_token_objective(TOKENS, torch.zeros(3), 0.2, 0.0), "high: wanted a finite number above 0"),
    (lambda: s.average_tokens(TOKENS, MASK, "mean"), "average: wanted one of token, sequence, constant; got 'mean'"),
])  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
