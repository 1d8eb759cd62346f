"""Multi-step targets from another policy's data in a finite world: their operators, fixed points and moments, exactly.

Each of `METHODS` adds up TD errors along a path of the behavior policy. They differ in two places: the trace, by which
the TD error after the next action is multiplied, and what the TD error asks about the successor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minerva_lite.checks import require_count, require_shape, require_unit_interval
from minerva_lite.worlds.tabular import TabularMDP, endless_sum

# The first four ask the policy that is judged. Peng's Q(lambda) and the uncorrected return also ask the data's action.
METHODS = ("importance sampling", "tree backup", "Q(lambda)", "Retrace", "Peng's Q(lambda)", "uncorrected")


def trace_of(method: str, policy: Tensor, behavior: Tensor, lam: float) -> Tensor:
    """The trace c(s, a) [S, A] of a method; `policy` and `behavior` are [S, A] of probabilities, the latter positive.

    Raises ValueError: a method without a trace of this form (the uncorrected return) or without a name here.
    """
    ratio = policy / behavior
    traces = {
        "importance sampling": ratio, "tree backup": policy, "Q(lambda)": torch.ones_like(ratio),
        "Retrace": ratio.clamp(max=1.0), "Peng's Q(lambda)": torch.ones_like(ratio),
    }  # fmt: skip
    if method not in traces:
        raise ValueError(f"method: wanted one of {tuple(traces)}; got {method!r}")
    return lam * traces[method]


def pair_matrix(world: TabularMDP, policy: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """From pair to pair, [S A, S A]: P(s' | s, a) policy(a' | s') weight(s', a')."""
    require_shape(tuple(world.reward.shape), policy=policy)
    steps = torch.einsum("san,nb->sanb", world.transition, policy * weight)
    return steps.reshape(policy.numel(), policy.numel())


def error_map(world: TabularMDP, policy: Tensor, behavior: Tensor, trace: Tensor) -> Tensor:
    """The matrix K [S A, S A] by which one application of a trace's operator changes Q - Q^pi."""
    traced = pair_matrix(world, behavior, trace)
    return world.gamma * endless_sum(world.gamma * traced, pair_matrix(world, policy) - traced)


def target_moments(
    world: TabularMDP, policy: Tensor, behavior: Tensor, trace: Tensor, q_value: Tensor, *, sampled: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mean and variance, each [S, A], of Q + sum_t gamma^t C_t delta_t on an endless path of `behavior` from (s, a).

    The TD error asks (1 - sampled) E_pi Q(s', .) + sampled Q(s', a'), with a' the data's action: sampled is lambda for
    Peng's Q(lambda) and 0 for the others. Both moments obey linear equations. Where the squared weights of the sum do
    not die out, the variance is infinite.

    Source: Sobel 1982, the variance of a discounted return; here of discounted, traced TD errors.
    """
    require_shape(tuple(world.reward.shape), policy=policy, behavior=behavior, trace=trace, q_value=q_value)
    require_unit_interval(sampled=sampled)
    gamma, shape = world.gamma, q_value.shape
    looked_up = (1.0 - sampled) * (policy * q_value).sum(-1, keepdim=True) + sampled * q_value  # [S', A']
    # The moments of r + gamma x(s', a') - Q(s, a) over the successor and its action.
    plain, traced = pair_matrix(world, behavior), pair_matrix(world, behavior, trace)
    base = (world.reward - q_value).flatten()
    first = base + gamma * plain @ looked_up.flatten()
    mean = endless_sum(gamma * traced, first)
    growth = gamma**2 * pair_matrix(world, behavior, trace.square())
    dies_out = bool(growth.sum(-1).max() < 1.0) or bool(torch.linalg.eigvals(growth).abs().max() < 1.0)
    if not dies_out:
        return q_value + mean.reshape(shape), torch.full_like(q_value, torch.inf)
    looked_up, rest = looked_up.flatten(), gamma * trace.flatten() * mean
    squared = base.square() + 2.0 * base * (gamma * plain @ looked_up) + gamma**2 * plain @ looked_up.square()
    squared = squared + 2.0 * (base * (plain @ rest) + gamma * plain @ (looked_up * rest))
    second = endless_sum(growth, squared)
    return q_value + mean.reshape(shape), (second - mean.square()).reshape(shape)


def uncorrected_moments(
    world: TabularMDP, policy: Tensor, behavior: Tensor, steps: int, q_value: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and variance, each [S, A], of `steps` rewards of the behavior policy and then E_pi Q, without any ratio."""
    require_shape(tuple(world.reward.shape), policy=policy, behavior=behavior, q_value=q_value)
    require_count(steps=steps)
    gamma, shape, reward = world.gamma, q_value.shape, world.reward.flatten()
    moved = pair_matrix(world, behavior)
    value = (policy * q_value).sum(-1)
    ahead, ahead_squared = (world.transition @ value).flatten(), (world.transition @ value.square()).flatten()
    for step in range(steps):
        mean = reward + gamma * ahead
        second = reward.square() + 2.0 * gamma * reward * ahead + gamma**2 * ahead_squared
        if step < steps - 1:
            ahead, ahead_squared = moved @ mean, moved @ second
    return mean.reshape(shape), (second - mean.square()).reshape(shape)


def uncorrected_fixed_point(world: TabularMDP, policy: Tensor, behavior: Tensor, steps: int) -> Tensor:
    """What the uncorrected return learns, [S, A]: `behavior` for steps - 1 steps, then `policy` for one, and again."""
    require_count(steps=steps)
    moved, reward = world.gamma * pair_matrix(world, behavior), world.reward.flatten()
    power, total = torch.eye(len(moved), dtype=moved.dtype), torch.zeros_like(reward)
    for _ in range(steps):
        total = total + power @ reward
        last, power = power, power @ moved
    around = world.gamma * last @ pair_matrix(world, policy)
    return endless_sum(around, total).reshape(policy.shape)
