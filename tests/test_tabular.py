"""The exact worlds against power series, hand-worked chains and finite differences."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import pytest
import scipy.stats
import torch

from minerva_lite.tabular import TabularMDP

F64 = torch.float64


@pytest.fixture
def world(generator):
    return TabularMDP.random(5, 3, 0.8, generator)


@pytest.fixture
def policy(generator):
    return torch.rand(5, 3, generator=torch.Generator().manual_seed(7), dtype=F64).softmax(-1)


def chain(world, policy):
    """P^pi and r^pi, entry by entry."""
    states, actions = policy.shape
    p = torch.zeros(states, states, dtype=F64)
    r = torch.zeros(states, dtype=F64)
    for s in range(states):
        for a in range(actions):
            p[s] += policy[s, a] * world.transition[s, a]
            r[s] += policy[s, a] * world.reward[s, a]
    return p, r


def test_random_worlds_are_worlds(world):
    assert world.transition.dtype == F64
    torch.testing.assert_close(world.transition.sum(-1), torch.ones(5, 3, dtype=F64))
    assert (world.transition >= 0).all() and world.start.sum().item() == pytest.approx(1)
    again = TabularMDP.random(5, 3, 0.8, torch.Generator().manual_seed(0))
    assert torch.equal(again.transition, world.transition) and torch.equal(again.reward, world.reward)


def test_random_transitions_are_uniform_on_the_simplex(generator):
    """With two successors, the first probability is uniform on [0, 1]."""
    world = TabularMDP.random(2, 2000, 0.8, generator)
    assert scipy.stats.kstest(world.transition[0, :, 0].numpy(), "uniform").pvalue > 0.001


def test_values_and_visitation_are_their_power_series(world, policy):
    p, r = chain(world, policy)
    value, visitation, reach, weight = torch.zeros(5, dtype=F64), torch.zeros(5, dtype=F64), world.start.clone(), 1.0
    power = torch.eye(5, dtype=F64)
    for _ in range(300):
        value += weight * power @ r
        visitation += weight * reach
        power, reach, weight = power @ p, reach @ p, weight * world.gamma
    torch.testing.assert_close(world.value(policy), value, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(world.visitation(policy), visitation, rtol=1e-10, atol=1e-12)
    assert world.visitation(policy).sum().item() == pytest.approx(1 / (1 - 0.8))
    assert world.expected_return(policy).item() == pytest.approx((world.start @ value).item())
    assert world.expected_return(policy).item() == pytest.approx((world.visitation(policy) @ r).item())


def test_two_states_by_hand():
    """State 0 pays 1 for action 0 and moves to state 1, which pays nothing for ever; gamma 1/2."""
    transition = torch.tensor([[[0, 1], [1, 0]], [[0, 1], [0, 1]]], dtype=F64)
    world = TabularMDP(transition, torch.tensor([[1, 0], [0, 0]], dtype=F64), torch.tensor([1, 0], dtype=F64), 0.5)
    even = torch.full((2, 2), 0.5, dtype=F64)
    # V(0) = 1/2 * 1 + 1/2 * (1/2) V(0), so V(0) = 2/3.
    assert world.value(even).tolist() == pytest.approx([2 / 3, 0])
    assert world.q_value(even).flatten().tolist() == pytest.approx([1, 1 / 3, 0, 0])
    assert world.advantage(even).flatten().tolist() == pytest.approx([1 / 3, -1 / 3, 0, 0])
    assert world.visitation(even).tolist() == pytest.approx([4 / 3, 2 / 3])


def test_advantages_average_to_zero_and_bellman_holds(world, policy):
    value, q_value = world.value(policy), world.q_value(policy)
    torch.testing.assert_close((policy * q_value).sum(-1), value)
    assert (policy * world.advantage(policy)).sum(-1).abs().max() < 1e-12
    for s in range(5):
        for a in range(3):
            backup = world.reward[s, a] + 0.8 * world.transition[s, a] @ value
            assert q_value[s, a].item() == pytest.approx(backup.item())


def test_performance_difference(world, policy, generator):
    """J(new) - J(old) is the new visitation times the new policy times the OLD advantage."""
    new = torch.rand(5, 3, generator=generator, dtype=F64).softmax(-1)
    difference = world.expected_return(new) - world.expected_return(policy)
    terms = world.visitation(new).unsqueeze(-1) * new * world.advantage(policy)
    assert difference.abs() > 1e-3
    assert terms.sum().item() == pytest.approx(difference.item(), rel=1e-10)


def test_policy_gradient_theorem_by_autograd(world, policy):
    """dJ/dlogits = d(s) pi(a|s) A(s, a) for a softmax policy."""
    logits = policy.log().requires_grad_()
    grad = torch.autograd.grad(world.expected_return(logits.softmax(-1)), logits)[0]
    wanted = world.visitation(policy).unsqueeze(-1) * policy * world.advantage(policy)
    torch.testing.assert_close(grad, wanted, rtol=1e-9, atol=1e-12)


def arguments(**changes):
    even = torch.full((2, 2, 2), 0.5, dtype=F64)
    return {"transition": even, "reward": torch.zeros(2, 2, dtype=F64), "start": even[0, 0], "gamma": 0.9} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 1.0}, r"^gamma: wanted a number below 1.*; got 1.0"),
        ({"gamma": -0.1}, r"^gamma: wanted a number in \[0, 1\]; got -0.1"),
        ({"transition": torch.full((2, 2, 3), 1 / 3, dtype=F64)}, r"^transition: wanted shape \(2, 2, 2\); got \(2, 2, 3\)"),
        ({"start": torch.ones(3, dtype=F64) / 3}, r"^start: wanted shape \(2,\); got \(3,\)"),
        ({"start": torch.tensor([0.5, 0.4], dtype=F64)}, r"^start: wanted probabilities that sum to 1"),
        ({"transition": torch.tensor([1.5, -0.5], dtype=F64).expand(2, 2, 2)}, r"^transition: wanted probabilities"),
    ],
)  # fmt: skip
def test_what_is_no_world_is_refused_by_name(changes, message):
    TabularMDP(**arguments())
    with pytest.raises(ValueError, match=message):
        TabularMDP(**arguments(**changes))


def test_a_misshapen_policy_is_refused(world):
    with pytest.raises(ValueError, match=r"^policy: wanted shape \(5, 3\); got \(3, 5\)"):
        world.value(torch.full((3, 5), 0.2, dtype=F64))
