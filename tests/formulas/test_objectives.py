"""Losses: hand-worked cases, gradients by autograd, and the properties the book derives."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minerva_lite.formulas import objectives as o
from tests.living import vector

F64 = torch.float64
EPS = 0.2


def logs(*ratios: float) -> torch.Tensor:
    return torch.tensor(ratios, dtype=F64).log()


def gradient(loss, at: torch.Tensor) -> torch.Tensor:
    leaf = at.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]


# ratio, advantage, clipped objective at eps 0.2, and whether the gradient lives
CLIP_CASES = [
    (1.5, 2.0, 2.4, False),  # good action, already far more likely: stop
    (1.5, -2.0, -3.0, True),  # bad action, more likely: pull back, without limit
    (0.5, 2.0, 1.0, True),  # good action, less likely: pull back
    (0.5, -2.0, -1.6, False),  # bad action, already far less likely: stop
    (1.1, 2.0, 2.2, True),  # inside
    (0.9, -2.0, -1.8, True),  # inside
    (1.0, 3.0, 3.0, True),
    (1.0, -3.0, -3.0, True),
    (7.0, 0.0, 0.0, False),  # no advantage, no gradient
]


@pytest.mark.parametrize(("ratio", "advantage", "wanted", "alive"), CLIP_CASES)
def test_clip_by_hand_in_value_and_gradient(ratio, advantage, wanted, alive):
    objective = o.ppo_clip_objective(logs(ratio), vector(advantage), EPS)
    assert objective.item() == pytest.approx(wanted, abs=1e-12)
    assert o.ppo_clip_loss(logs(ratio), vector(advantage), EPS).item() == pytest.approx(-wanted, abs=1e-12)
    # d(-rho A)/d log rho = -rho A where the gradient lives.
    grad = gradient(lambda x: o.ppo_clip_loss(x, vector(advantage), EPS), logs(ratio))
    assert grad.item() == pytest.approx(-ratio * advantage if alive else 0.0, abs=1e-12)


def test_clip_loss_is_the_mean_over_samples():
    ratio, advantage = (vector(*column) for column in list(zip(*CLIP_CASES, strict=True))[:2])
    wanted = -sum(case[2] for case in CLIP_CASES) / len(CLIP_CASES)
    assert o.ppo_clip_loss(ratio.log(), advantage, EPS).item() == pytest.approx(wanted, abs=1e-12)


@given(st.floats(-3, 3), st.floats(-5, 5), st.floats(0.01, 0.9))
def test_clipped_objective_is_a_lower_bound_tight_at_ratio_one(log_ratio, advantage, eps):
    x, a = vector(log_ratio), vector(advantage)
    assert o.ppo_clip_objective(x, a, eps).item() <= (x.exp() * a).item()
    assert o.ppo_clip_objective(0 * x, a, eps).item() == pytest.approx(advantage, abs=1e-15)
    # It never exceeds what the edge of the interval earns: the bound that makes it pessimistic.
    assert o.ppo_clip_objective(x, a, eps).item() <= advantage + eps * abs(advantage) + 1e-12


EDGES = [math.log(ratio) for ratio in (0.79, 0.81, 1.19, 1.21)]  # where an interval in log-ratios would differ


@given(st.lists(st.tuples(st.floats(-3, 3) | st.sampled_from(EDGES), st.floats(-5, 5)), min_size=1, max_size=6))
def test_clip_gradient_is_zero_exactly_past_the_favored_edge(pairs):
    log_ratio, advantage = vector(*(p[0] for p in pairs)), vector(*(p[1] for p in pairs))
    grad = gradient(lambda x: o.ppo_clip_loss(x, advantage, EPS), log_ratio)
    ratio = log_ratio.exp()
    past = ((advantage > 0) & (ratio > 1 + EPS)) | ((advantage < 0) & (ratio < 1 - EPS))
    wanted = torch.where(past, 0.0, -ratio * advantage / len(pairs))
    torch.testing.assert_close(grad, wanted, rtol=1e-12, atol=1e-15)


def test_at_ratio_one_the_gradient_is_the_policy_gradient(generator):
    logits = torch.randn(20, 4, generator=generator, dtype=F64)
    action = torch.randint(4, (20, 1), generator=generator)
    advantage = torch.randn(20, generator=generator, dtype=F64)

    def log_prob(x):
        return x.log_softmax(-1).gather(-1, action).squeeze(-1)

    old = log_prob(logits)
    wanted = gradient(lambda x: o.policy_gradient_loss(log_prob(x), advantage), logits)
    clipped = gradient(lambda x: o.ppo_clip_loss(log_prob(x) - old, advantage, EPS), logits)
    zero = torch.zeros(20, dtype=F64)
    penalized = gradient(lambda x: o.kl_penalty_loss(log_prob(x) - old, advantage, zero, 3.0), logits)
    assert wanted.abs().max() > 1e-3
    torch.testing.assert_close(clipped, wanted, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(penalized, wanted, rtol=1e-12, atol=1e-15)


def test_policy_gradient_loss_by_hand_sends_no_gradient_into_the_advantage():
    log_prob, advantage = vector(-1.0, -2.0).requires_grad_(), vector(3.0, -4.0).requires_grad_()
    loss = o.policy_gradient_loss(log_prob, advantage)
    assert loss.item() == -((3.0 * -1.0) + (-4.0 * -2.0)) / 2
    loss.backward()
    assert log_prob.grad.tolist() == [-1.5, 2.0]
    assert advantage.grad is None


def test_importance_surrogate_by_hand():
    """Ratios 2 and 1/2, advantages 3 and -4: the mean of 6 and -2. The slope in log rho is rho A over the number."""
    log_ratio, advantage = logs(2.0, 0.5).requires_grad_(), vector(3.0, -4.0).requires_grad_()
    surrogate = o.importance_surrogate(log_ratio, advantage)
    assert surrogate.item() == pytest.approx((6.0 - 2.0) / 2, abs=1e-12)
    surrogate.backward()
    assert log_ratio.grad.tolist() == pytest.approx([3.0, -1.0], abs=1e-12)
    assert advantage.grad is None, "advantages are taken as given"


def test_importance_surrogate_at_ratio_one_has_the_policy_gradient(generator):
    log_prob, advantage = (torch.randn(6, 2, generator=generator, dtype=F64) for _ in "pa")
    assert o.importance_surrogate(log_prob * 0, advantage).item() == pytest.approx(advantage.mean().item())
    wanted = -gradient(lambda x: o.policy_gradient_loss(x, advantage), log_prob)
    torch.testing.assert_close(gradient(lambda x: o.importance_surrogate(x - log_prob, advantage), log_prob), wanted)


def test_vine_surrogate_by_hand():
    """Two states with ratios (3, 1) and (1, 1): weights (3/4, 1/4) and (1/2, 1/2), state values 4 and -1, mean 3/2."""
    log_ratio = torch.stack([logs(3.0, 1.0), logs(1.0, 1.0)]).requires_grad_()
    advantage = torch.stack([vector(6.0, -2.0), vector(2.0, -4.0)]).requires_grad_()
    surrogate = o.vine_surrogate(log_ratio, advantage)
    assert surrogate.item() == pytest.approx(1.5, abs=1e-12)
    surrogate.backward()
    # w_k (A_k - sum_j w_j A_j) / N: 3/4 (6 - 4) / 2 and so on; a state's slopes cancel.
    assert log_ratio.grad.flatten().tolist() == pytest.approx([0.75, -0.75, 0.75, -0.75], abs=1e-12)
    assert advantage.grad is None, "advantages are taken as given"


def test_vine_surrogate_of_an_enumerated_action_set_is_the_mean_q_value(generator):
    """With log q = 0 and all actions tried, the weights are the policy itself: sum_a pi(a|s) Q(s, a)."""
    logits, q_value = (torch.randn(5, 3, generator=generator, dtype=F64) for _ in "lq")
    wanted = (logits.softmax(-1) * q_value).sum(-1).mean()
    assert o.vine_surrogate(logits.log_softmax(-1), q_value).item() == pytest.approx(wanted.item(), rel=1e-12)


def test_vine_surrogate_ignores_a_states_log_ratio_offset_and_its_gradient_the_advantage_offset(generator):
    log_ratio, advantage = (torch.randn(5, 3, generator=generator, dtype=F64) for _ in "ra")
    level = torch.randn(5, 1, generator=generator, dtype=F64)
    base = o.vine_surrogate(log_ratio, advantage).item()
    assert o.vine_surrogate(log_ratio + level, advantage).item() == pytest.approx(base, rel=1e-12)
    slopes = [gradient(lambda x, a=a: o.vine_surrogate(x, a), log_ratio) for a in (advantage, advantage + level)]
    assert slopes[0].abs().max() > 0.01
    torch.testing.assert_close(slopes[0], slopes[1])
    assert o.vine_surrogate(log_ratio, advantage + level).item() == pytest.approx(base + level.mean().item())


def test_clip_fraction_counts_both_sides_and_carries_no_gradient():
    log_ratio = logs(1.0, 1.19, 1.21, 0.81, 0.79, 3.0).requires_grad_()
    fraction = o.ppo_clip_fraction(log_ratio, EPS)
    assert fraction.item() == 3 / 6
    assert not fraction.requires_grad


def test_kl_penalty_loss_by_hand():
    """-(mean of (2*3 - 0.5*0.4, 0.5*(-1) - 0.5*0.2)) = -(5.8 - 0.6) / 2."""
    loss = o.kl_penalty_loss(logs(2.0, 0.5), vector(3.0, -1.0), vector(0.4, 0.2), 0.5)
    assert loss.item() == pytest.approx(-(5.8 - 0.6) / 2, abs=1e-12)


@pytest.mark.parametrize(
    ("kl", "wanted"),
    [(0.0151, 6.0), (0.0149, 3.0), (0.01, 3.0), (0.0067, 3.0), (0.0066, 1.5), (0.0, 1.5), (9.0, 6.0)],
)
def test_adapt_kl_penalty_around_both_thresholds(kl, wanted):
    """Target 0.01: doubled above 0.015, halved below 0.00667."""
    assert o.adapt_kl_penalty(3.0, kl, 0.01) == wanted


def test_weighted_nll_by_hand():
    """Two columns: -(0.25 * 2 + 0.75 * 4) and -(1 * -1 + 0 * 9), their mean; no gradient to the weights."""
    log_prob = torch.tensor([[2.0, -1.0], [4.0, 9.0]], dtype=F64, requires_grad=True)
    weights = torch.tensor([[0.25, 1.0], [0.75, 0.0]], dtype=F64, requires_grad=True)
    loss = o.weighted_nll(log_prob, weights)
    assert loss.item() == pytest.approx((-3.5 + 1.0) / 2, abs=1e-15)
    loss.backward()
    assert log_prob.grad.tolist() == [[-0.125, -0.5], [-0.375, 0.0]] and weights.grad is None
    assert o.weighted_nll(log_prob[:, 0], weights[:, 0]).item() == pytest.approx(-3.5, abs=1e-15)


def test_value_loss_by_hand():
    assert o.value_loss(vector(1.0, 5.0), vector(3.0, 4.0)).item() == 0.5 * (4.0 + 1.0) / 2


# value, old value, target, 2 * clipped loss at range 1, gradient of the loss
VALUE_CASES = [
    (0.5, 0.0, 3.0, 2.5**2, -2.5),  # inside the range
    (2.0, 0.0, 3.0, 2.0**2, 0.0),  # moved past the range toward the target: stop
    (-2.0, 0.0, 3.0, 5.0**2, -5.0),  # moved past the range away from it: come back
    (-2.0, 0.0, -3.0, 2.0**2, 0.0),  # toward the target on the other side: stop
    (9.0, 0.0, 3.0, 6.0**2, 6.0),  # overshot so far that the plain error is the worse one
]


@pytest.mark.parametrize(("value", "old", "target", "twice", "slope"), VALUE_CASES)
def test_clipped_value_loss_by_hand_in_value_and_gradient(value, old, target, twice, slope):
    def loss(v):
        return o.clipped_value_loss(v, vector(old), vector(target), 1.0)

    assert loss(vector(value)).item() == pytest.approx(twice / 2, abs=1e-12)
    assert gradient(loss, vector(value)).item() == pytest.approx(slope, abs=1e-12)


@given(st.lists(st.tuples(*[st.floats(-5, 5)] * 3), min_size=1, max_size=5), st.floats(0.01, 3))
def test_clipped_value_loss_is_never_below_the_plain_one(rows, clip_range):
    value, old, target = (vector(*column) for column in zip(*rows, strict=True))
    assert o.clipped_value_loss(value, old, target, clip_range) >= o.value_loss(value, target) - 1e-12


def test_normalize_advantage_uses_the_population_std():
    """(1, 3): mean 2, population std 1 (the sample std would be sqrt 2)."""
    assert o.normalize_advantage(vector(1.0, 3.0)).tolist() == pytest.approx([-1.0, 1.0], abs=1e-7)
    shifted = o.normalize_advantage(vector(4.0, -1.0, 7.0, 7.5))
    assert shifted.mean().item() == pytest.approx(0, abs=1e-12)
    assert shifted.std(correction=0).item() == pytest.approx(1, abs=1e-7)


def test_normalize_advantage_without_spread_stays_finite():
    assert o.normalize_advantage(vector(5.0, 5.0, 5.0)).tolist() == [0.0, 0.0, 0.0]


def test_normalize_advantage_refuses_one_row():
    with pytest.raises(ValueError, match="advantage: wanted at least 2 entries to normalize; got 1"):
        o.normalize_advantage(vector(1.0))


ONE, TWO = torch.zeros(3), torch.zeros(3, 1)


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (o.policy_gradient_loss, (ONE, TWO), "advantage"),
        (o.importance_surrogate, (ONE, TWO), "advantage"),
        (o.vine_surrogate, (TWO, ONE), "advantage"),
        (o.ppo_clip_objective, (ONE, TWO, EPS), "advantage"),
        (o.ppo_clip_loss, (TWO, ONE, EPS), "advantage"),
        (o.ppo_clip_loss, (ONE, ONE, 0.0), "clip_eps"),
        (o.ppo_clip_loss, (ONE, ONE, math.nan), "clip_eps"),
        (o.ppo_clip_fraction, (ONE, -0.1), "clip_eps"),
        (o.kl_penalty_loss, (ONE, TWO, ONE, 1.0), "advantage"),
        (o.kl_penalty_loss, (ONE, ONE, TWO, 1.0), "kl"),
        (o.adapt_kl_penalty, (0.0, 1.0, 1.0), "kl_penalty"),
        (o.adapt_kl_penalty, (1.0, 1.0, 0.0), "kl_target"),
        (o.weighted_nll, (ONE, TWO), "weights"),
        (o.value_loss, (ONE, TWO), "value_target"),
        (o.clipped_value_loss, (ONE, TWO, ONE, 1.0), "value_old"),
        (o.clipped_value_loss, (ONE, ONE, TWO, 1.0), "value_target"),
        (o.clipped_value_loss, (ONE, ONE, ONE, 0.0), "clip_range"),
    ],
)
def test_wrong_arguments_are_named(function, arguments, name):
    with pytest.raises(ValueError, match=rf"^{name}: wanted .*; got"):
        function(*arguments)
