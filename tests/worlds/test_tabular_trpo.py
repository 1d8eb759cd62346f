"""Exact steps beat what random search finds, keep what they promise, and sampled gradients are right on average."""

from __future__ import annotations

import pytest
import torch

from minerva_book.worlds import tabular_trpo as t
from minerva_lite.formulas.bounds import average_kl_penalty, penalty_constant
from minerva_lite.worlds.tabular import TabularMDP, random_policy, softmax_score

F64 = torch.float64


@pytest.fixture
def world(generator):
    return TabularMDP.random(5, 3, 0.8, generator)


@pytest.fixture
def old(generator, world):
    return random_policy(5, 3, generator)


def near(old, count, scale, generator):
    noise = torch.randn(count, *old.shape, generator=generator, dtype=F64)
    return (old.log() + scale * torch.rand(count, 1, 1, generator=generator, dtype=F64) * noise).softmax(-1)


@pytest.mark.parametrize("price", [0.03, 1.0, 40.0])
def test_best_response_is_stationary_and_beats_others(price, world, old, generator):
    advantage = world.advantage(old)
    found = t.best_response(old, advantage, price)
    assert torch.allclose(found.sum(-1), torch.ones(5, dtype=F64))
    # A + price * old / pi is the same for all actions: the multiplier of the sum.
    slope = advantage + price * old / found
    assert torch.allclose(slope, slope[:, :1].expand_as(slope), rtol=1e-6)
    others = torch.cat([near(old, 500, 2.0, generator), near(found, 500, 0.1, generator)])
    worth = [(p * advantage).sum(-1) - price * t.kl(old, p) for p in (found, others)]
    assert (worth[0] >= worth[1]).all()


def test_best_response_at_its_ends(world, old):
    advantage = world.advantage(old)
    assert torch.allclose(t.best_response(old, advantage, 1e-7), t.greedy(world, old), atol=1e-5)
    assert torch.allclose(t.best_response(old, advantage, 1e7), old, atol=1e-5)


def test_trust_region_steps_spend_their_bounds_and_beat_others(world, old, generator):
    """Several bounds give several steps; another advantage leads elsewhere."""
    bounds = torch.tensor([1e-3, 0.1], dtype=F64)
    steps = t.trust_region_step(world, old, bounds)
    for bound, step in zip(bounds.tolist(), steps, strict=True):
        assert torch.allclose(step, t.trust_region_step(world, old, bound))
        assert t.average_kl(world, old, step).item() == pytest.approx(bound, rel=1e-6)
        others = torch.cat([near(old, 2000, 2.0, generator), near(step, 2000, 0.1, generator)])
        inside = others[t.average_kl(world, old, others) <= bound]
        assert len(inside) > 100
        assert t.surrogate(world, old, step) >= t.surrogate(world, old, inside).max()
    astray = t.trust_region_step(world, old, bounds, advantage=-world.advantage(old))
    assert torch.allclose(t.average_kl(world, old, astray), bounds) and (t.surrogate(world, old, astray) < 0).all()
    with pytest.raises(ValueError, match="kl_bound"):
        t.trust_region_step(world, old, torch.tensor([0.1, 0.0]))


@pytest.mark.parametrize("price", [penalty_constant, t.walk_price, average_kl_penalty])
def test_a_minorizing_step_keeps_its_promise_and_beats_others(price, world, old, generator):
    """By the largest KL of a state, and by the average."""
    penalty = price(world.advantage(old).abs().max().item(), world.gamma)

    def promise(new):
        charge = t.average_kl(world, old, new) if price is average_kl_penalty else t.kl(old, new).amax(-1)
        return t.surrogate(world, old, new) - penalty * charge

    average = price is average_kl_penalty
    found = t.minorize_average(world, old) if average else t.minorize_maximize(world, old, price)
    assert t.gain(world, old, found) >= promise(found) > 0
    for scale in (0.3, 0.03, 0.003):
        others = torch.cat([near(old, 2000, scale, generator), near(found, 1000, scale, generator)])
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


def test_kl_its_average_and_a_minorizer_that_charges_for_the_state_that_moves_most():
    world = TabularMDP.two_state(0.5)
    old = torch.tensor([[0.5, 0.5]] * 2, dtype=F64)
    new = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=F64)  # L = d_1 (0.75 - 0.25) 0.625 = 0.15625, d = (1.5, 0.5)
    moved = 0.5 * (torch.tensor(2 / 3, dtype=F64).log() + torch.tensor(2.0, dtype=F64).log())
    assert torch.allclose(t.kl(old, new), torch.stack([0.0 * moved, moved]))
    assert torch.isclose(t.average_kl(world, old, new), 0.5 * 0.5 * moved)
    assert torch.isclose(t.minorizer(world, old, new), 0.15625 - 4.0 * 0.625 * 0.5 / 0.25 * moved, rtol=1e-9)


def test_climb_is_policy_iteration_with_greedy(world, old):
    path = t.climb(world, old, t.greedy, 6)
    assert path.shape == (7, 5, 3) and torch.equal(path[0], old)
    returns = torch.stack([world.expected_return(policy) for policy in path])
    assert (returns.diff() >= -1e-12).all() and torch.equal(path[-1], path[-2])
    assert (world.advantage(path[-1]) < 1e-9).all()  # Bellman's optimality equation


def test_error_is_the_shift_of_the_visitation_times_the_expected_advantage(world, old, generator):
    new = random_policy(5, 3, generator)
    shift = world.visitation(new) - world.visitation(old)
    assert torch.isclose(t.error(world, old, new), shift @ (new * world.advantage(old)).sum(-1))
    flow = world.start + world.gamma * world.visitation(new) @ t.chain(world, new)
    assert torch.allclose(flow, world.visitation(new))


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
    """Mixture 0.5, discount 0.9, by hand: L = 5 and the gain 1 / 0.55 - 5 = -3.18, or both with the other sign.

    Only the last action leads away, and nothing back.
    """
    world = t.trap(sign * torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], dtype=F64), 0.9)
    old, new = torch.tensor([[[1.0, 0.0, 0.0]] * 2, [[0.2, 0.3, 0.5]] * 2], dtype=F64)
    assert t.surrogate(world, old, new).item() == pytest.approx(5.0 * sign)
    assert t.gain(world, old, new).item() == pytest.approx((1.0 / 0.55 - 5.0) * sign)
    with pytest.raises(ValueError, match=r"reward: wanted shape \(2, any\); got \(3, 2\)"):
        t.trap(torch.zeros(3, 2), 0.9)


def test_a_coin_is_worth_nothing_in_the_random_walk():
    world = t.random_walk(3, 0.8)
    coin = t.same_everywhere(torch.tensor(0.5, dtype=F64), 7)
    assert world.value(coin).abs().max() < 1e-12
    assert world.advantage(coin)[:, 1].tolist() == pytest.approx([-1.0] * 3 + [0.0] + [1.0] * 3)
    right = t.same_everywhere(torch.tensor(1.0, dtype=F64), 7)
    assert torch.allclose(world.visitation(right), torch.tensor([0, 0, 0, 1, 0.8, 0.64, 0.512 / 0.2], dtype=F64))


def test_estimated_advantages_are_right_on_average(world, old, generator):
    found = t.estimated_advantage(world, old, 400_000, 60, generator)
    assert (found - world.advantage(old)).abs().max() < 0.1 * world.advantage(old).abs().max()
    few = t.estimated_advantage(world, old, 3, 60, generator)
    assert (few != 0).sum() <= 3


def test_weather_changes_no_advantage(world, old):
    stormy = t.with_weather(world, 7.0)
    advantage = stormy.advantage(torch.cat([old, old]))
    assert torch.allclose(advantage, torch.cat([world.advantage(old)] * 2), atol=1e-9)
    assert torch.isclose(stormy.expected_return(torch.cat([old, old])), world.expected_return(old))
    assert stormy.reward[5, 0] - stormy.reward[0, 0] == 14.0


@pytest.mark.parametrize("rule", ["path", "path less V", "GAE", "vine", "vine common"])
def test_sampled_gradients_are_right_on_average(rule, world, old, generator):
    logits, zero = old.log(), torch.zeros(5, dtype=F64)
    draw = {
        "path": lambda: t.path_gradient(world, logits, 50, 60, generator, critic=zero),
        "path less V": lambda: t.path_gradient(world, logits, 50, 60, generator, critic=world.value(old)),
        "GAE": lambda: t.path_gradient(world, logits, 50, 60, generator, critic=world.value(old), lam=0.5),
        "vine": lambda: t.vine_gradient(world, logits, 50, 60, generator, common=False),
        "vine common": lambda: t.vine_gradient(world, logits, 50, 60, generator, common=True),
    }[rule]
    draws = torch.stack([draw() for _ in range(200)]).flatten(1)
    truth = world.policy_gradient(old, softmax_score(old))
    error = (draws.mean(0) - truth) / (draws.std(0) / 200**0.5)
    assert error.abs().max() < 4.5  # 15 entries; the cut at 60 steps costs 1e-6 of the return
    assert (draws.mean(0) - truth).norm() < 0.1 * truth.norm()


def noise(estimate, count: int) -> torch.Tensor:
    """The variance of so many draws of a gradient, `estimate(generator)`."""
    g = torch.Generator().manual_seed(1)
    return torch.stack([estimate(g) for _ in range(count)]).var(0).sum()


def test_a_baseline_of_values_reduces_the_variance_of_path_gradients(world, old):
    # Every reward is 3 higher, which is all that the baseline has to know.
    rich = TabularMDP(world.transition, world.reward + 3.0, world.start, world.gamma)
    baselines = rich.value(old), torch.zeros(5, dtype=F64)
    with_values, without = (
        noise(lambda g, critic=critic: t.path_gradient(rich, old.log(), 50, 60, g, critic=critic), 40)
        for critic in baselines
    )
    assert with_values < 0.5 * without


def test_common_random_numbers_reduce_the_variance_of_vine_gradients(world, old):
    def vine(place, policy, common):
        return noise(lambda g: t.vine_gradient(place, policy.log(), 50, 30, g, common=common), 60)

    both = torch.cat([old, old])
    assert vine(world, old, True) < 0.8 * vine(world, old, False)
    calm, stormy = (vine(t.with_weather(world, size), both, True) for size in (0.0, 10.0))
    assert torch.isclose(calm, stormy, rtol=1e-9)
    assert vine(t.with_weather(world, 10.0), both, False) > 5.0 * stormy
