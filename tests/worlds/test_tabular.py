"""The exact worlds against power series, hand-worked chains and finite differences."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import pytest
import scipy.stats
import torch

from minerva_lite.formulas.returns import gae
from minerva_lite.worlds import TabularEnv
from minerva_lite.worlds.tabular import TabularMDP, inverse_cdf, random_policy, softmax_score

F64 = torch.float64


@pytest.fixture
def world(generator):
    return TabularMDP.random(5, 3, 0.8, generator)


@pytest.fixture
def policy(generator):
    return torch.rand(5, 3, generator=torch.Generator().manual_seed(7), dtype=F64).softmax(-1)


def test_random_worlds_and_policies_are_uniform_on_the_simplex(generator):
    """Of two probabilities the first is uniform on [0, 1]."""
    world = TabularMDP.random(2, 2000, 0.8, generator)
    for rows in (world.transition[0], random_policy(2000, 2, generator)):
        torch.testing.assert_close(rows.sum(-1), torch.ones(2000, dtype=F64))
        assert scipy.stats.kstest(rows[:, 0].numpy(), "uniform").pvalue > 0.001
    again = TabularMDP.random(2, 2000, 0.8, torch.Generator().manual_seed(0))
    assert torch.equal(again.transition, world.transition) and torch.equal(again.reward, world.reward)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.95])
def test_the_best_policy_is_the_best_of_all_in_every_state(gamma, generator):
    """Against the brute force of all 2 ** 6 and 3 ** 4 policies that choose one action a state."""
    for world in (TabularMDP.chain(6, gamma), TabularMDP.random(4, 3, gamma, generator)):
        states, actions = world.reward.shape
        every = torch.cartesian_prod(*[torch.arange(actions)] * states)
        values = torch.stack([world.value(torch.eye(actions, dtype=F64)[choice]) for choice in every])
        best = world.best_policy()
        assert ((best == 0) | (best == 1)).all() and (best.sum(-1) == 1).all()
        torch.testing.assert_close(world.value(best), values.max(0).values)


def test_the_best_policy_of_a_world_full_of_ties_is_found():
    world = TabularMDP.grid(5, 5, 0.9, slip=0.0)
    assert world.advantage(world.best_policy()).max() < 1e-10


# What is true of an estimator.


@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_gae_moments_of_a_rollout_are_those_of_paths_cut_where_it_ends(world, policy, lam, generator):
    """Means and squares of 2000 first rows from each pair, in standard errors."""
    critic = world.value(policy) + torch.randn(len(policy), generator=generator, dtype=F64)
    mean, variance = world.gae_moments(policy, critic, lam, rows=3)
    pair = torch.arange(15).repeat(2000)
    for k in (1, 3):
        path = world.paths(policy, len(pair), k, generator, state=pair // 3, action=pair % 3)
        never = torch.zeros_like(path.reward, dtype=torch.bool)
        values = critic[path.state], critic[path.next_state]
        sampled = gae(path.reward, *values, never, never, gamma=0.8, lam=lam)[0].reshape(2000, 5, 3)
        error = (sampled - mean[k - 1]) / variance[k - 1].sqrt()
        for moment, expected in ((error, 0.0), (error.square(), 1.0)):
            assert ((moment.mean(0) - expected) / (moment.std(0) / 2000**0.5)).abs().max() < 4.5


def test_long_rollouts_come_to_the_moments_of_endless_paths_and_errors_average_over_rows(world, policy):
    critic = torch.arange(5, dtype=F64).square()
    mean, variance = world.gae_moments(policy, critic, 0.9, rows=400)
    torch.testing.assert_close((mean[-1], variance[-1]), world.gae_moments(policy, critic, 0.9))
    weight = (1 - world.gamma) * world.visitation(policy).unsqueeze(-1) * policy
    bias = mean[:4] - world.advantage(policy)
    bias = bias - (policy * bias).sum(-1, keepdim=True)
    wanted = [(weight * x).sum((1, 2)).mean() for x in (bias.square(), variance[:4])]
    torch.testing.assert_close(world.gae_error(policy, critic, 0.9, rows=4), tuple(wanted))
    one = world.gae_error(policy, critic, 1.0, rows=1)
    torch.testing.assert_close(one, world.gae_error(policy, critic, 0.0))  # one row is one step, whatever lambda is


# Worlds with a shape


def test_chain_by_hand():
    """Three states, slip 1/10: right from the middle arrives right in 9 of 10; walls hold; the ends pay."""
    world = TabularMDP.chain(3, 0.9, slip=0.1)
    left, right = [[9, 1, 0], [9, 0, 1], [0, 9, 1]], [[1, 9, 0], [1, 0, 9], [0, 1, 9]]  # in tenths
    torch.testing.assert_close(world.transition, torch.tensor([left, right], dtype=F64).transpose(0, 1) / 10)
    assert world.reward.tolist() == [[0.1, 0.0], [0.0, 0.0], [0.0, 1.0]]
    assert world.start.tolist() == [1.0, 0.0, 0.0]
    single = TabularMDP.chain(1, 0.9)
    assert single.transition.tolist() == [[[1.0], [1.0]]] and single.reward.tolist() == [[0.1, 1.0]]


def test_grid_by_hand():
    """Two rows, three columns: 0 1 2 / 3 4 5, goal 5. Actions up, right, down, left."""
    world = TabularMDP.grid(2, 3, 0.9, slip=0.0)
    wanted = [[0, 1, 3, 0], [1, 2, 4, 0], [2, 2, 5, 1], [0, 4, 3, 3], [1, 5, 4, 3], [0, 0, 0, 0]]
    assert world.transition.argmax(-1).tolist() == wanted and world.transition.max(-1).values.eq(1.0).all()
    assert world.reward[:5].eq(-0.04).all() and world.reward[5].eq(1.0).all()
    assert world.start.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    slippery = TabularMDP.grid(2, 3, 0.9, slip=0.2)
    # Right from 0: 8 of 10 at once, and of the 2 of 10 a quarter each way, up and left against the wall.
    assert slippery.transition[0, 1].tolist() == pytest.approx([0.1, 0.85, 0.0, 0.05, 0.0, 0.0])
    assert slippery.transition[5].tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]] * 4


def test_two_state_by_hand():
    """Stay with 1/2 in state 0 and 3/4 in state 1, gamma 1/2: visitation (10, 4)/7, values (3, 9)/7."""
    world = TabularMDP.two_state(0.5)
    policy = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=F64)
    assert world.visitation(policy).tolist() == pytest.approx([10 / 7, 4 / 7])
    assert world.value(policy).tolist() == pytest.approx([3 / 7, 9 / 7])
    assert world.q_value(policy).flatten().tolist() == pytest.approx([3 / 14, 9 / 14, 23 / 14, 3 / 14])
    assert world.advantage(policy).flatten().tolist() == pytest.approx([-3 / 14, 3 / 14, 5 / 14, -15 / 14])
    assert world.expected_return(policy).item() == pytest.approx(3 / 7)


# Gradients


def test_policy_gradient_is_the_autograd_of_the_return(world, policy):
    logits = policy.log().requires_grad_()
    (wanted,) = torch.autograd.grad(world.expected_return(logits.softmax(-1)), logits)
    got = world.policy_gradient(policy, softmax_score(policy))
    assert wanted.abs().max() > 0.01
    assert (got - wanted.flatten()).abs().max() <= 1e-10


def test_fisher_is_the_curvature_of_the_kl(world, policy):
    weight = 0.2 * world.visitation(policy).unsqueeze(-1)

    def kl(logits):
        return (weight * policy * (policy / logits.softmax(-1)).log()).sum()

    hessian = torch.autograd.functional.hessian(kl, policy.log()).reshape(15, 15)
    assert (world.fisher(policy, softmax_score(policy)) - hessian).abs().max() <= 1e-12


# Samples. A count of N independent trials of chance p has z = (count - N p) / sqrt(N p (1 - p)).


def largest_z(counts, chance, number):
    spread = (number * chance * (1 - chance)).sqrt()
    exact = spread == 0
    assert torch.equal(counts[exact], (number * chance)[exact])
    return ((counts - number * chance)[~exact] / spread[~exact]).abs().max().item()


def test_paths_follow_the_exact_distributions(world, policy):
    episodes, steps = 20_000, 4
    paths = world.paths(policy, episodes, steps, torch.Generator().manual_seed(3))
    assert all(column.shape == (steps, episodes) for column in paths)
    assert torch.equal(paths.state[1:], paths.next_state[:-1])
    assert torch.equal(paths.reward, world.reward[paths.state, paths.action])
    p, reach = world.averaged(policy)[0], world.start
    for t in range(steps):
        counts = torch.zeros(5, 3, 5, dtype=F64)
        index = (paths.state[t], paths.action[t], paths.next_state[t])
        counts.index_put_(index, torch.ones(episodes, dtype=F64), accumulate=True)
        chance = reach[:, None, None] * policy[:, :, None] * world.transition
        assert largest_z(counts, chance, episodes) < 5
        reach = reach @ p


def test_visits_follow_the_normalized_visitation(world, policy):
    visits = world.visits(policy, 20_000, torch.Generator().manual_seed(3)).bincount(minlength=5).to(F64)
    assert largest_z(visits, 0.2 * world.visitation(policy), 20_000) < 5
    assert largest_z(visits, world.start, 20_000) > 10, "the start is another"
    assert TabularMDP.two_state(0.0).visits(torch.full((2, 2), 0.5, dtype=F64), 50, torch.Generator()).sum() == 0


def test_equal_generators_mean_common_random_numbers(world, policy):
    """Forcing what would have been drawn anyway changes nothing; another first action changes its own path alone."""

    def paths(**first):
        return world.paths(policy, 6, 8, torch.Generator().manual_seed(1), **first)

    free = paths()
    again = paths(state=free.state[0], action=free.action[0])
    assert all(torch.equal(a, b) for a, b in zip(free, again, strict=True))
    other = free.action[0].clone()
    other[2] = (other[2] + 1) % 3
    branched = paths(action=other)
    assert torch.equal(branched.action[0], other)
    rest = torch.arange(6) != 2
    assert all(torch.equal(a[:, rest], b[:, rest]) for a, b in zip(free, branched, strict=True))
    assert not torch.equal(free.action[:, 2], branched.action[:, 2])


def test_inverse_cdf_by_hand():
    row = torch.tensor([0.25, 0.0, 0.5, 0.25], dtype=F64)
    uniform = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999], dtype=F64)
    assert inverse_cdf(row.expand(6, 4), uniform).tolist() == [0, 0, 2, 2, 3, 3]
    assert inverse_cdf(torch.tensor([0.0, 1.0], dtype=F64), torch.tensor(0.0, dtype=F64)).item() == 1


# What is refused


def made(**changes):
    even = torch.full((2, 2, 2), 0.5, dtype=F64)
    sound = {"transition": even, "reward": torch.zeros(2, 2, dtype=F64), "start": even[0, 0], "gamma": 0.9}
    return TabularMDP(**sound | changes)


def of_gae(w, p, **changes):
    return w.gae_moments(**{"policy": p, "value": w.value(p), "lam": 0.5} | changes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, p, g: made(gamma=1.0), r"gamma: wanted a number below 1.*; got 1.0"),
        (lambda w, p, g: made(gamma=-0.1), r"gamma: wanted a number in \[0, 1\]; got -0.1"),
        (lambda w, p, g: made(transition=torch.full((2, 2, 3), 1 / 3, dtype=F64)), r"transition: wanted shape \(2, 2, 2\); got \(2, 2, 3\)"),
        (lambda w, p, g: made(start=torch.ones(3, dtype=F64) / 3), r"start: wanted shape \(2,\); got \(3,\)"),
        (lambda w, p, g: made(start=torch.tensor([0.5, 0.4], dtype=F64)), "start: wanted probabilities that sum to 1"),
        (lambda w, p, g: made(transition=torch.tensor([1.5, -0.5], dtype=F64).expand(2, 2, 2)), "transition: wanted probabilities"),
        (lambda w, p, g: w.value(torch.full((3, 5), 0.2, dtype=F64)), r"policy: wanted shape \(5, 3\); got \(3, 5\)"),
        (lambda w, p, g: TabularMDP.chain(0, 0.9), "states: wanted a whole number of at least 1; got 0"),
        (lambda w, p, g: TabularMDP.chain(3, 0.9, slip=1.5), r"slip: wanted a number in \[0, 1\]; got 1.5"),
        (lambda w, p, g: TabularMDP.grid(2, 0, 0.9), "width: .*; got 0"),
        (lambda w, p, g: TabularMDP.grid(2, 2, 0.9, slip=-0.1), "slip: .*; got -0.1"),
        (lambda w, p, g: TabularMDP.random(0, 2, 0.9, g), "states: .*; got 0"),
        (lambda w, p, g: random_policy(2, 0, g), "actions: .*; got 0"),
        (lambda w, p, g: of_gae(w, p, lam=1.1), "lam: "),
        (lambda w, p, g: of_gae(w, p, value=torch.zeros(2)), "value: "),
        (lambda w, p, g: of_gae(w, p, policy=torch.ones(2, 2)), "policy: "),
        (lambda w, p, g: of_gae(w, p, rows=0), "rows: "),
        (lambda w, p, g: w.paths(p, 0, 3, g), "episodes: wanted a whole number of at least 1; got 0"),
        (lambda w, p, g: w.paths(p, 3, 0, g), "steps: .*; got 0"),
        (lambda w, p, g: w.paths(p, 3, 3, g, state=torch.zeros(2, dtype=torch.long)), r"state: wanted shape \(3,\); got \(2,\)"),
        (lambda w, p, g: w.paths(p, 3, 3, g, action=torch.zeros(3, 1, dtype=torch.long)), r"action: wanted shape \(3,\); got \(3, 1\)"),
        (lambda w, p, g: w.visits(p, 0, g), "count: .*; got 0"),
        (lambda w, p, g: TabularEnv(w, 2, max_steps=0), "max_steps: wanted a whole number of at least 1; got 0"),
        (lambda w, p, g: TabularEnv(w, 0, max_steps=3), "num_envs: .*; got 0"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message, world, policy, generator):
    assert made().transition.shape == (2, 2, 2) and of_gae(world, policy)[0].shape == (5, 3)
    with pytest.raises(ValueError, match=f"^{message}"):
        call(world, policy, generator)
