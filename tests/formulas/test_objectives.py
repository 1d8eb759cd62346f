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


EDGES = [math.log(ratio) for ratio in (0.79, 0.81, 1.19, 1.21)]  # where an interval in log-ratios would differ


@given(st.lists(st.tuples(st.floats(-3, 3) | st.sampled_from(EDGES), st.floats(-5, 5)), min_size=1, max_size=6))
def test_clip_gradient_is_zero_exactly_past_the_favored_edge(pairs):
    log_ratio, advantage = vector(*(p[0] for p in pairs)), vector(*(p[1] for p in pairs))
    grad = gradient(lambda x: o.ppo_clip_loss(x, advantage, EPS), log_ratio)
    ratio = log_ratio.exp()
    past = ((advantage > 0) & (ratio > 1 + EPS)) | ((advantage < 0) & (ratio < 1 - EPS))
    wanted = torch.where(past, 0.0, -ratio * advantage / len(pairs))
    torch.testing.assert_close(grad, wanted, rtol=1e-12, atol=1e-15)


def test_importance_surrogate_by_hand():
    """Ratios 2 and 1/2, advantages 3 and -4: the mean of 6 and -2. The slope in log rho is rho A over the number."""
    log_ratio, advantage = logs(2.0, 0.5).requires_grad_(), vector(3.0, -4.0).requires_grad_()
    surrogate = o.importance_surrogate(log_ratio, advantage)
    assert surrogate.item() == pytest.approx((6.0 - 2.0) / 2, abs=1e-12)
    surrogate.backward()
    assert log_ratio.grad.tolist() == pytest.approx([3.0, -1.0], abs=1e-12)
    assert advantage.grad is None, "advantages are taken as given"


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


def test_normalize_advantage_uses_the_population_std():
    """(1, 3): mean 2, population std 1 (the sample std would be sqrt 2)."""
    assert o.normalize_advantage(vector(1.0, 3.0)).tolist() == pytest.approx([-1.0, 1.0], abs=1e-7)


def test_normalize_advantage_refuses_one_row():
    with pytest.raises(ValueError, match="advantage: wanted at least 2 entries to normalize; got 1"):
        o.normalize_advantage(vector(1.0))
