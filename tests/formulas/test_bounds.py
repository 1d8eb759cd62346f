"""Bounds: never broken by a random world, and attained by a world built for it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from minerva_book.worlds.tabular_trpo import error, random_walk, trap
from minerva_lite.formulas import bounds as b
from minerva_lite.worlds.tabular import TabularMDP

F64 = torch.float64


def tensor(rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=F64)


def gap(world, old, new) -> float:
    """|J(new) - J(old) - L(new)|, exactly."""
    return abs(float(error(world, old, new)))


def largest(tensor) -> float:
    return float(tensor.abs().max())


def odd_world(g: torch.Generator) -> tuple[TabularMDP, torch.Tensor, torch.Tensor]:
    """A world and two policies of one of four kinds: dense, deterministic, nearly so, or a chain with rare states."""
    kind, states, actions = (int(torch.randint(low, high, (), generator=g)) for low, high in ((0, 4), (2, 7), (2, 5)))
    gamma = 1.0 - 0.5 * 500.0 ** -torch.rand((), generator=g).item()  # from 0.5 to 0.999
    world = TabularMDP.random(states, actions, gamma, g)
    if kind == 1 or kind == 2:
        goal = torch.randint(states, (states, actions), generator=g)
        sure = torch.nn.functional.one_hot(goal, states).to(F64)
        world = replace(world, transition=sure if kind == 1 else 0.98 * sure + 0.02 * world.transition)
    if kind == 3:
        world, actions = TabularMDP.chain(states, gamma), 2
    sharpness = 4.0 * torch.rand((), generator=g).item()
    old = (sharpness * torch.randn(*world.reward.shape, generator=g, dtype=F64)).softmax(-1)
    apart = 10.0 ** (3.0 * torch.rand((), generator=g).item() - 2.0)
    new = (old.log() + apart * torch.randn(old.shape, generator=g, dtype=F64)).softmax(-1)
    return world, old, new


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_no_bound_is_broken_by_a_random_world(first):
    """Nor a lemma of thm-average-penalty: on 300 worlds of odd kinds; in the slow tier on 6000."""
    smaller = 0
    for seed in range(300 * first, 300 * (first + 1)):
        g = torch.Generator().manual_seed(seed)
        world, old, new = odd_world(g)
        gamma, advantage = world.gamma, world.advantage(old)
        before, after = ((1.0 - gamma) * world.visitation(policy) for policy in (old, new))
        kl, tv = (old * (old / new).log()).sum(-1), largest(b.total_variation(old, new))
        average, mean, size, top = float(before @ kl), (new * advantage).sum(-1), largest(advantage), largest(kl)
        # Lemma 1, by the chain rule of the KL.
        visited = before > 0
        # Of equal visitations rounding makes a KL below 0, and of its root a complex number.
        apart = max(float((before[visited] * (before[visited] / after[visited]).log()).sum()), 0.0)
        assert apart <= b.visitation_kl_bound(average, gamma) + 1e-10, seed
        # Lemma 2, for the function that the proof uses it for, and others: rare spikes are where it is nearly attained.
        for f in (mean, -mean, mean**2, *torch.eye(len(mean), dtype=F64)):
            least = largest(f) * apart + (2.0 * apart * float(before @ f**2)) ** 0.5
            assert float((after - before) @ f) <= least + 1e-7 * largest(f), seed
        found, bound, rounding = gap(world, old, new), b.average_kl_penalty(size, gamma) * average, 1e-9 * size
        ladder = (
            found, b.tv_bound(size, tv, gamma, sharp=True), b.tv_bound(size, tv, gamma),
            b.max_kl_bound(size, top, gamma, pinsker=True), b.max_kl_bound(size, top, gamma),
        )  # fmt: skip
        mixture = 10.0 ** (-2.0 * torch.rand((), generator=g).item())
        mixed = gap(world, old, (1.0 - mixture) * old + mixture * new)
        sharp, plain = (b.cpi_bound(largest(mean), mixture, gamma, sharp=each) for each in (True, False))
        first_order = largest(mean) * (2.0 * gamma * average / (1.0 - gamma) ** 3) ** 0.5
        others = b.average_kl_bound(largest(mean), average, gamma), b.walk_kl_bound(size, top, gamma)
        pairs = [*itertools.pairwise(ladder), (mixed, sharp), (sharp, plain)]
        pairs += [(found, each) for each in (bound, first_order, *others)]
        assert all(low <= high + rounding / (1.0 - gamma) ** 2 for low, high in pairs), (seed, pairs)
        smaller += bound < ladder[-1]
    assert smaller > 250  # beside the paper's bound, which has the largest KL


@pytest.mark.parametrize("gamma", [0.9, *(pytest.param(gamma, marks=pytest.mark.slow) for gamma in (0.7, 0.99))])
def test_a_search_for_the_worst_world_comes_near_the_penalty_and_not_beyond(gamma):
    """Random worlds stay far below the bound. Gradient ascent would break a constant that is half of it."""
    worst = 0.0
    for seed in range(3):
        g = torch.Generator().manual_seed(seed)
        logits, reward, before, change = (
            torch.randn(*shape, generator=g, dtype=F64) for shape in ((4, 2, 4), (4, 2), (4, 2), (4, 2))
        )
        found = [x.requires_grad_() for x in (logits, reward, before, 0.1 * change)]
        optimizer = torch.optim.Adam(found, lr=0.05)
        for _ in range(600):
            transition, reward, before, change = found
            world = TabularMDP(transition.softmax(-1), reward, torch.eye(4, dtype=F64)[0], gamma)
            old, new = before.softmax(-1), (before + change).softmax(-1)
            average = (1.0 - gamma) * world.visitation(old) @ (old * (old / new).log()).sum(-1)
            ratio = error(world, old, new).abs() / (world.advantage(old).abs().max() * average)
            worst = max(worst, ratio.item() / b.average_kl_penalty(1.0, gamma))
            optimizer.zero_grad()
            (-ratio.log()).backward()
            optimizer.step()
    assert 0.45 < worst <= 1.0


WORST = [(gamma, mixture) for gamma in (0.5, 0.9) for mixture in (0.5, 0.1, 0.01)]


@pytest.mark.parametrize(("gamma", "mixture"), WORST)
def test_a_world_attains_the_sharp_cpi_bound(gamma, mixture):
    """The other policy leaves at once for a state where its advantage has the other sign; old never leaves."""
    world = trap(tensor([[0.0, -2.0], [0.0, 2.0]]), gamma)
    old, other = tensor([[1.0, 0.0]] * 2), tensor([[0.0, 1.0]] * 2)
    found = gap(world, old, (1.0 - mixture) * old + mixture * other)
    size = largest((other * world.advantage(old)).sum(-1))
    assert found == pytest.approx(b.cpi_bound(size, mixture, gamma, sharp=True), rel=1e-9)


@pytest.mark.parametrize(("gamma", "tv"), WORST[1:])
def test_a_world_attains_the_sharp_tv_bound(gamma, tv):
    """The new policy trades the action of advantage +1 for the one of -1, which leaves for where signs are swapped."""
    rest = tv / (1.0 - tv)
    world = trap(tensor([[-rest, 1.0, -1.0], [rest, -1.0, 1.0]]), gamma)
    old, new = tensor([[1.0 - tv, tv, 0.0]] * 2), tensor([[1.0 - tv, 0.0, tv]] * 2)
    assert largest(b.total_variation(old, new)) == pytest.approx(tv, rel=1e-12)
    size = largest(world.advantage(old))
    assert gap(world, old, new) == pytest.approx(b.tv_bound(size, tv, gamma, sharp=True), rel=1e-9)


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99, 0.999])
def test_a_trap_with_a_state_that_nobody_visited_needs_a_quarter_of_the_papers_constant(gamma):
    """New leaves with a small chance for a state where it does the worst, at no price in the average KL."""
    world = trap(tensor([[0.0, 1.0], [0.0, -1.0]]), gamma)
    old, leave = tensor([[1.0, 0.0]] * 2), 1e-7
    average = -math.log1p(-leave)  # of state 0, the only one that old visits
    found = gap(world, old, tensor([[1.0 - leave, leave], [0.0, 1.0]]))
    quarter = b.penalty_constant(1.0, gamma) / 4.0
    assert found == pytest.approx(quarter * average, rel=2e-4)
    assert found <= b.average_kl_penalty(1.0, gamma) * average
    if gamma == 0.99:
        assert found > 0.83 * b.average_kl_penalty(1.0, gamma) * average


@pytest.mark.parametrize(("gamma", "reach"), [(0.9, 150), (0.99, 500)])
def test_a_random_walk_needs_the_power_of_the_horizon_in_the_walk_bound(gamma, reach):
    """A coin that becomes slightly unfair: the error tends to the bound over sqrt(2) as the horizon grows."""
    world, tilt = random_walk(reach, gamma), 1e-3
    coin, unfair = tensor([[0.5, 0.5]] * (2 * reach + 1)), tensor([[0.5 - tilt, 0.5 + tilt]] * (2 * reach + 1))
    kl = largest((coin * (coin / unfair).log()).sum(-1))
    ratio = gap(world, coin, unfair) / b.walk_kl_bound(1.0, kl, gamma)
    assert 0.68 < ratio < 2**-0.5 + 1e-3
