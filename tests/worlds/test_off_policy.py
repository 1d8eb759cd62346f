"""Exact moments, error maps and fixed points of off-policy targets, against walks and against iteration."""

import pytest
import torch

from minerva_book.worlds.off_policy import (
    METHODS,
    error_map,
    target_moments,
    trace_of,
    uncorrected_fixed_point,
    uncorrected_moments,
)
from minerva_lite.worlds.tabular import TabularMDP, random_policy

STATES, ACTIONS, GAMMA = 3, 2, 0.8


@pytest.fixture
def judged():
    generator = torch.Generator().manual_seed(0)
    world = TabularMDP.random(STATES, ACTIONS, GAMMA, generator)
    policy, other = (random_policy(STATES, ACTIONS, generator) for _ in range(2))
    # Half a coin, so that no ratio exceeds 4: squares of targets need fourth moments for an error bar.
    behavior = 0.5 * other + 0.5 / ACTIONS
    critic = torch.randn(STATES, ACTIONS, generator=generator, dtype=torch.float64)
    return world, policy, behavior, critic, generator


def sampled_targets(judged, trace, sampled, paths=3000, steps=60):
    """The targets of `paths` walks from each pair, [paths, S, A]."""
    world, policy, behavior, critic, generator = judged
    pair = torch.arange(STATES * ACTIONS).repeat(paths)
    walk = world.paths(behavior, len(pair), steps, generator, state=pair // ACTIONS, action=pair % ACTIONS)
    value, q = (policy * critic).sum(-1)[walk.next_state], critic[walk.state, walk.action]
    correction = torch.zeros(len(pair), dtype=torch.float64)
    for t in reversed(range(steps - 1)):
        asked = (1.0 - sampled) * value[t] + sampled * q[t + 1]
        ahead = trace[walk.state[t + 1], walk.action[t + 1]] * correction
        correction = walk.reward[t] + GAMMA * asked - q[t] + GAMMA * ahead
    return (q[0] + correction).reshape(paths, STATES, ACTIONS)


def check_moments(found, mean, variance):
    """Of draws [N, S, A]: first and second moment, in standard errors."""
    assert ((found.mean(0) - mean) / (variance / len(found)).sqrt()).abs().max() < 4.5
    squares = (found - mean).square()
    assert ((squares.mean(0) - variance) / (squares.std(0) / len(found) ** 0.5)).abs().max() < 4.5


@pytest.mark.parametrize(("method", "lam"), [("importance sampling", 0.5), ("Retrace", 1.0), ("Peng's Q(lambda)", 0.7)])
def test_moments_of_a_target_are_those_of_walks(judged, method, lam):
    world, policy, behavior, critic, _ = judged
    trace, sampled = trace_of(method, policy, behavior, lam), lam if method.startswith("Peng") else 0.0
    exact = target_moments(world, policy, behavior, trace, critic, sampled=sampled)
    check_moments(sampled_targets(judged, trace, sampled), *exact)


def test_moments_of_the_uncorrected_return_are_those_of_walks(judged):
    world, policy, behavior, critic, generator = judged
    pair = torch.arange(STATES * ACTIONS).repeat(8000)
    walk = world.paths(behavior, len(pair), 3, generator, state=pair // ACTIONS, action=pair % ACTIONS)
    discount = GAMMA ** torch.arange(3, dtype=torch.float64)[:, None]
    found = (discount * walk.reward).sum(0) + GAMMA**3 * (policy * critic).sum(-1)[walk.next_state[-1]]
    check_moments(found.reshape(8000, STATES, ACTIONS), *uncorrected_moments(world, policy, behavior, 3, critic))


def test_the_error_map_is_what_one_application_does_to_an_error(judged):
    world, policy, behavior, critic, _ = judged
    truth = world.q_value(policy)
    for method in METHODS[:4]:
        trace = trace_of(method, policy, behavior, 0.6)
        after = target_moments(world, policy, behavior, trace, critic)[0] - truth
        mapped = error_map(world, policy, behavior, trace) @ (critic - truth).flatten()
        assert torch.allclose(after.flatten(), mapped, atol=1e-12)


def test_fixed_points_without_correction(judged):
    world, policy, behavior, critic, _ = judged
    q = critic
    for _ in range(200):
        q = target_moments(world, policy, behavior, torch.full_like(q, 0.7), q, sampled=0.7)[0]
    assert torch.allclose(q, world.q_value(0.3 * policy + 0.7 * behavior), atol=1e-9)
    fixed = uncorrected_fixed_point(world, policy, behavior, 3)
    assert torch.allclose(uncorrected_moments(world, policy, behavior, 3, fixed)[0], fixed, atol=1e-12)
    assert torch.allclose(uncorrected_fixed_point(world, policy, behavior, 1), world.q_value(policy), atol=1e-12)


def test_an_infinite_variance_is_called_infinite():
    world = TabularMDP.chain(6, 0.9)
    policy, behavior = torch.tensor([0.2, 0.8]).double().repeat(6, 1), torch.full((6, 2), 0.5).double()
    q = torch.zeros(6, 2, dtype=torch.float64)
    for lam, finite in ((0.94, True), (0.96, False)):  # 0.81 * 1.36 * lam**2 passes 1 at 0.953
        trace = trace_of("importance sampling", policy, behavior, lam)
        assert bool(target_moments(world, policy, behavior, trace, q)[1].isfinite().all()) == finite


def test_a_method_without_a_trace_is_refused():
    with pytest.raises(ValueError, match="^method: "):
        trace_of("uncorrected", torch.full((1, 2), 0.5), torch.full((1, 2), 0.5), 1.0)
