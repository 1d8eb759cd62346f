"""Exact steps beat what random search finds, keep what they promise, and sampled gradients are right on average."""

from __future__ import annotations

import pytest
import torch

from minerva_book.worlds import tabular_trpo as t
from minerva_lite.formulas.bounds import average_kl_penalty, penalty_constant
from minerva_lite.worlds.tabular import TabularMDP, random_policy, softmax_score

F64 = torch.float64


@pytest.fixture
def g():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def world(g):
    return TabularMDP.random(5, 3, 0.8, g)


@pytest.fixture
def old(g, world):
    return random_policy(5, 3, g)


def near(old, count, scale, g):
    noise = torch.randn(count, *old.shape, generator=g, dtype=F64)
    return (old.log() + scale * torch.rand(count, 1, 1, generator=g, dtype=F64) * noise).softmax(-1)


def test_surrogate_by_hand_and_with_leading_axes():
    world = TabularMDP.two_state(0.5)
    old = torch.tensor([[0.5, 0.5]] * 2, dtype=F64)
    # From V = r + P V / 2: V_0 = 0.25, V_1 = 0.75; d = (1.5, 0.5); A(0, switch) = 0.125, A(1, stay) = 0.625.
    new = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=F64)
    assert t.surrogate(world, old, new).item() == pytest.approx(1.5 * 0.125 + 0.5 * 0.625, abs=1e-12)
    assert t.gain(world, old, new).item() == pytest.approx(1.0 - 0.25, abs=1e-12)
    assert torch.allclose(t.surrogate(world, old, torch.stack([old, new])), torch.tensor([0.0, 0.5], dtype=F64))


def test_kl_by_hand_and_its_average(world, old):
    one, two = torch.tensor([[0.5, 0.5]], dtype=F64), torch.tensor([[0.25, 0.75]], dtype=F64)
    assert t.kl(one, two).item() == pytest.approx(0.5 * torch.tensor(4 / 3).log().item(), abs=1e-7)
    new = old.roll(1, 0)
    share = world.visitation(old) / world.visitation(old).sum()
    assert torch.isclose(t.average_kl(world, old, new), share @ t.kl(old, new))


@pytest.mark.parametrize("price", [0.03, 1.0, 40.0])
def test_best_response_is_stationary_and_beats_others(price, world, old, g):
    advantage = world.advantage(old)
    found = t.best_response(old, advantage, price)
    assert torch.allclose(found.sum(-1), torch.ones(5, dtype=F64))
    # A + price * old / pi is the same for all actions: the multiplier of the sum.
    slope = advantage + price * old / found
    assert torch.allclose(slope, slope[:, :1].expand_as(slope), rtol=1e-6)
    others = torch.cat([near(old, 500, 2.0, g), near(found, 500, 0.1, g)])
    worth = [(p * advantage).sum(-1) - price * t.kl(old, p) for p in (found, others)]
    assert (worth[0] >= worth[1]).all()


def test_best_response_at_its_ends(world, old):
    advantage = world.advantage(old)
    assert torch.allclose(t.best_response(old, advantage, 1e-7), t.greedy(world, old), atol=1e-5)
    assert torch.allclose(t.best_response(old, advantage, 1e7), old, atol=1e-5)


@pytest.mark.parametrize("kl_bound", [1e-3, 0.1])
def test_trust_region_step_spends_its_bound_and_beats_others(kl_bound, world, old, g):
    found = t.trust_region_step(world, old, kl_bound)
    assert t.average_kl(world, old, found).item() == pytest.approx(kl_bound, rel=1e-6)
    others = torch.cat([near(old, 2000, 2.0, g), near(found, 2000, 0.1, g)])
    inside = others[t.average_kl(world, old, others) <= kl_bound]
    assert len(inside) > 100
    assert t.surrogate(world, old, found) >= t.surrogate(world, old, inside).max()


@pytest.mark.parametrize("price", [penalty_constant, t.walk_price, average_kl_penalty])
def test_a_minorizing_step_keeps_its_promise_and_beats_others(price, world, old, g):
    """By the largest KL of a state, and by the average."""
    penalty = price(world.advantage(old).abs().max().item(), world.gamma)

    def promise(new):
        charge = t.average_kl(world, old, new) if price is average_kl_penalty else t.kl(old, new).amax(-1)
        return t.surrogate(world, old, new) - penalty * charge

    average = price is average_kl_penalty
    found = t.minorize_average(world, old) if average else t.minorize_maximize(world, old, price)
    assert t.gain(world, old, found) >= promise(found) > 0
    for scale in (0.3, 0.03, 0.003):
        others = torch.cat([near(old, 2000, scale, g), near(found, 1000, scale, g)])
        assert (promise(others) <= promise(found)).all()
    if not average:
        assert torch.isclose(t.minorizer(world, old, found, price), promise(found), rtol=1e-12)
        spent = t.kl(old, found)
        assert torch.allclose(spent, spent[:1].expand_as(spent), rtol=1e-3)


def test_minorize_maximize_goes_on_where_a_state_has_nothing_left_to_gain(world, old):
    """Its KL cannot reach the radius, and the search for a price at which it would must not end in 0 / 0."""
    steps = t.climb(world, old, lambda w, p: t.minorize_maximize(w, p, t.walk_price), 80)
    assert steps.min() > 0 and torch.allclose(steps.sum(-1), torch.ones(steps.shape[:-1], dtype=F64))
    assert (torch.stack([world.expected_return(policy) for policy in steps]).diff() > -1e-9).all()


def test_minorizer_charges_for_the_state_that_moves_most():
    world = TabularMDP.two_state(0.5)
    old = torch.tensor([[0.5, 0.5]] * 2, dtype=F64)
    new = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=F64)  # L = d_1 (0.75 - 0.25) 0.625 = 0.15625
    penalty = 4.0 * 0.625 * 0.5 / 0.25
    charge = penalty * 0.5 * (torch.tensor(2 / 3, dtype=F64).log() + torch.tensor(2.0, dtype=F64).log())
    assert torch.isclose(t.minorizer(world, old, new), 0.15625 - charge, rtol=1e-9)


def test_climb_is_policy_iteration_with_greedy(world, old):
    path = t.climb(world, old, t.greedy, 6)
    assert path.shape == (7, 5, 3) and torch.equal(path[0], old)
    returns = torch.stack([world.expected_return(policy) for policy in path])
    assert (returns.diff() >= -1e-12).all() and torch.equal(path[-1], path[-2])
    assert (world.advantage(path[-1]) < 1e-9).all()  # Bellman's optimality equation


def test_error_is_the_shift_of_the_visitation_times_the_expected_advantage(world, old, g):
    new = random_policy(5, 3, g)
    shift = world.visitation(new) - world.visitation(old)
    assert torch.isclose(t.error(world, old, new), shift @ (new * world.advantage(old)).sum(-1))
    flow = world.start + world.gamma * world.visitation(new) @ t.chain(world, new)
    assert torch.allclose(flow, world.visitation(new))


def test_trap_leaves_by_its_last_action_only():
    world = t.trap(torch.tensor([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]], dtype=F64), 0.9)
    assert world.transition[:, :, 1].tolist() == [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    with pytest.raises(ValueError, match=r"reward: wanted shape \(2, any\); got \(3, 2\)"):
        t.trap(torch.zeros(3, 2), 0.9)


def test_on_the_ledge_the_surrogate_points_over_the_edge():
    """By hand: V_0 - V_1 = 4 p, so L has the slope d_0 (1 - 1.2 p) + d_1 (-3 - 1.2 p), and J = d_0 p - 3 d_1 p."""
    world, old = t.ledge(), t.same_everywhere(torch.tensor(0.15, dtype=F64))
    on_ledge = 0.3 * 0.15 / 0.7
    visits = torch.tensor([1 / 0.7 - on_ledge, on_ledge], dtype=F64)
    assert torch.allclose(world.visitation(old), visits)
    assert world.expected_return(old).item() == pytest.approx(0.15 * (visits[0] - 3 * visits[1]).item())
    slope = visits @ torch.tensor([1 - 1.2 * 0.15, -3 - 1.2 * 0.15], dtype=F64)
    bold = torch.tensor([0.5, 0.999], dtype=F64)
    assert torch.allclose(t.surrogate(world, old, t.same_everywhere(bold)), slope * (bold - 0.15))
    assert slope > 0 > t.gain(world, old, t.same_everywhere(bold[1]))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_trap_promises_and_loses_or_warns_of_a_gain(sign):
    """Mixture 0.5, discount 0.9, by hand: L = 5 and the gain 1 / 0.55 - 5 = -3.18, or both with the other sign."""
    world = t.trap(sign * torch.tensor([[0.0, 1.0], [0.0, -1.0]], dtype=F64), 0.9)
    old, new = torch.tensor([[1.0, 0.0]] * 2, dtype=F64), torch.tensor([[0.5, 0.5]] * 2, dtype=F64)
    assert t.surrogate(world, old, new).item() == pytest.approx(5.0 * sign)
    assert t.gain(world, old, new).item() == pytest.approx((1.0 / 0.55 - 5.0) * sign)


def test_a_coin_is_worth_nothing_in_the_random_walk():
    world = t.random_walk(3, 0.8)
    coin = t.same_everywhere(torch.tensor(0.5, dtype=F64), 7)
    assert world.value(coin).abs().max() < 1e-12
    assert world.advantage(coin)[:, 1].tolist() == pytest.approx([-1.0] * 3 + [0.0] + [1.0] * 3)
    right = t.same_everywhere(torch.tensor(1.0, dtype=F64), 7)
    assert torch.allclose(world.visitation(right), torch.tensor([0, 0, 0, 1, 0.8, 0.64, 0.512 / 0.2], dtype=F64))


def test_several_bounds_give_several_trust_region_steps(world, old):
    bounds = torch.tensor([1e-3, 0.1], dtype=F64)
    together = t.trust_region_step(world, old, bounds)
    apart = torch.stack([t.trust_region_step(world, old, bound) for bound in bounds.tolist()])
    assert torch.allclose(together, apart) and together.shape == (2, 5, 3)
    astray = t.trust_region_step(world, old, bounds, advantage=-world.advantage(old))
    assert torch.allclose(t.average_kl(world, old, astray), bounds) and (t.surrogate(world, old, astray) < 0).all()
    with pytest.raises(ValueError, match="kl_bound"):
        t.trust_region_step(world, old, torch.tensor([0.1, 0.0]))


def test_estimated_advantages_are_right_on_average(world, old, g):
    found = t.estimated_advantage(world, old, 400_000, 60, g)
    assert (found - world.advantage(old)).abs().max() < 0.1 * world.advantage(old).abs().max()
    few = t.estimated_advantage(world, old, 3, 60, g)
    assert (few != 0).sum() <= 3


def test_weather_changes_no_advantage(world, old):
    stormy = t.with_weather(world, 7.0)
    advantage = stormy.advantage(torch.cat([old, old]))
    assert torch.allclose(advantage, torch.cat([world.advantage(old)] * 2), atol=1e-9)
    assert torch.isclose(stormy.expected_return(torch.cat([old, old])), world.expected_return(old))
    assert stormy.reward[5, 0] - stormy.reward[0, 0] == 14.0


@pytest.mark.parametrize("rule", ["path", "path less V", "GAE", "vine", "vine common"])
def test_sampled_gradients_are_right_on_average(rule, world, old, g):
    logits, zero = old.log(), torch.zeros(5, dtype=F64)
    draw = {
        "path": lambda: t.path_gradient(world, logits, 50, 60, g, critic=zero),
        "path less V": lambda: t.path_gradient(world, logits, 50, 60, g, critic=world.value(old)),
        "GAE": lambda: t.path_gradient(world, logits, 50, 60, g, critic=world.value(old), lam=0.5),
        "vine": lambda: t.vine_gradient(world, logits, 50, 60, g, common=False),
        "vine common": lambda: t.vine_gradient(world, logits, 50, 60, g, common=True),
    }[rule]
    draws = torch.stack([draw() for _ in range(200)]).flatten(1)
    truth = world.policy_gradient(old, softmax_score(old))
    error = (draws.mean(0) - truth) / (draws.std(0) / 200**0.5)
    assert error.abs().max() < 4.5  # 15 entries; the cut at 60 steps costs 1e-6 of the return
    assert (draws.mean(0) - truth).norm() < 0.1 * truth.norm()


def test_a_baseline_of_values_reduces_the_variance_of_path_gradients(world, old):
    # Every reward is 3 higher, which is all that the baseline has to know.
    rich = TabularMDP(world.transition, world.reward + 3.0, world.start, world.gamma)

    def noise(baseline):
        g = torch.Generator().manual_seed(1)
        draws = [t.path_gradient(rich, old.log(), 50, 60, g, critic=baseline) for _ in range(40)]
        return torch.stack(draws).var(0).sum()

    assert noise(rich.value(old)) < 0.5 * noise(torch.zeros(5, dtype=F64))


def test_common_random_numbers_reduce_the_variance_of_vine_gradients(world, old):
    def noise(place, policy, common):
        g = torch.Generator().manual_seed(1)
        draws = [t.vine_gradient(place, policy.log(), 50, 30, g, common=common) for _ in range(60)]
        return torch.stack(draws).var(0).sum()

    both = torch.cat([old, old])
    assert noise(world, old, True) < 0.8 * noise(world, old, False)
    calm, stormy = (noise(t.with_weather(world, size), both, True) for size in (0.0, 10.0))
    assert torch.isclose(calm, stormy, rtol=1e-9)
    assert noise(t.with_weather(world, 10.0), both, False) > 5.0 * stormy
