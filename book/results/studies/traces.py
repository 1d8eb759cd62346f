"""`python -m book.results.studies.traces`: which off-policy target is nearest to the truth, when.

Random worlds of six states, a random behavior policy, and a policy to be judged that is mixed from it and another one.
The critic is the truth with noise as large as the spread of the true values. The error of a target that averages N
paths is squared bias + variance / N, both exact, as a share of the critic's own squared error, a mean over all pairs.
A row is one world; `knob` (lambda, or the steps of the uncorrected return) is tuned on the mean over all worlds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from book.results.studies.record import asked
from minerva_book.worlds.off_policy import METHODS, target_moments, trace_of, uncorrected_moments
from minerva_lite.worlds.tabular import TabularMDP, random_policy

STATES, GAMMA, WORLDS = 6, 0.95, 15
ACTIONS, MIXTURES, COUNTS = (2, 5, 10), (0.1, 0.3, 0.6, 1.0), (1, 30, 1000)
LAMBDAS, STEPS = tuple(i / 10 for i in range(11)), (1, 2, 3, 4, 5, 6, 8, 10)
SHARED_LAMBDA, SHARED_STEPS = 0.8, 5  # on average lambda 0.8 looks five steps far on data of one's own


class Row(NamedTuple):
    """One method in one world."""

    actions: int
    mixture: float  # weight of the other policy in the one that is judged
    count: int  # N
    method: str
    world: int
    knob: float
    tuned: float  # share of the critic's squared error that is left, with the knob
    shared: float  # the same with lambda 0.8, or five steps


def knobs_of(method: str) -> tuple[float, ...]:
    return STEPS if method == "uncorrected" else LAMBDAS


def errors(actions: int, mixture: float, seed: int, method: str) -> Tensor:
    """Squared bias and variance of a target for each knob, [2, knobs], as shares of the critic's squared error."""
    generator = Generator().manual_seed(1000 * actions + seed)
    world = TabularMDP.random(STATES, actions, GAMMA, generator)
    behavior, other = (random_policy(STATES, actions, generator) for _ in range(2))
    policy = (1.0 - mixture) * behavior + mixture * other
    truth = world.q_value(policy)
    noise = torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    critic = truth + truth.std() * noise
    own = (critic - truth).square().mean()
    found = []
    for knob in knobs_of(method):
        if method == "uncorrected":
            mean, variance = uncorrected_moments(world, policy, behavior, int(knob), critic)
        else:
            trace, sampled = trace_of(method, policy, behavior, knob), knob if method == "Peng's Q(lambda)" else 0.0
            mean, variance = target_moments(world, policy, behavior, trace, critic, sampled=sampled)
        found.append(torch.stack([(mean - truth).square().mean(), variance.mean()]) / own)
    return torch.stack(found, -1)


def cell(actions: int, mixture: float, method: str) -> Iterator[Row]:
    """The rows of a method at one number of actions and one mixture, for every N and world."""
    bias, variance = torch.stack([errors(actions, mixture, seed, method) for seed in range(WORLDS)]).unbind(1)
    knobs = knobs_of(method)
    shared = knobs.index(SHARED_STEPS if method == "uncorrected" else SHARED_LAMBDA)
    for count in COUNTS:
        error = bias + variance / count  # [worlds, knobs]
        best = int(error.mean(0).argmin())
        for seed in range(WORLDS):
            tuned, same = float(error[seed, best]), float(error[seed, shared])
            yield Row(actions, mixture, count, method, seed, float(knobs[best]), tuned, same)


if __name__ == "__main__":
    record, _ = asked(__spec__.name, __doc__, Row, digits=4)
    record.fill(
        ((actions, mixture), partial(chain.from_iterable, map(partial(cell, actions, mixture), METHODS)))
        for actions in ACTIONS
        for mixture in MIXTURES
    )
