"""Sentences of texts that are wrong, each beside the right one, on worlds small enough for fractions.

Those on TRPO come first, and share one world:

`TabularMDP.two_state(1/2)`: action 0 stays, 1 switches; staying in state 1 pays 1. OLD tosses a coin, NEW goes to
state 1 and stays. By hand: V^OLD = (1/4, 3/4), A^OLD = ((-1/8, 1/8), (5/8, -5/8)), d^OLD = (3/2, 1/2),
d^NEW = (1, 1), J(OLD) = 1/4, J(NEW) = 1.
"""

import math

import pytest
import torch
from scipy.stats import t as student

from minerva_lite.agents import AGENTS
from minerva_lite.agents.critic_fit import fit_lbfgs
from minerva_lite.agents.networks import GaussianPolicy, ValueNet
from minerva_lite.formulas.bounds import penalty_constant, total_variation, tv_bound
from minerva_lite.formulas.duals import estep_weights
from minerva_lite.formulas.trust_region import CurvatureError, conjugate_gradient
from minerva_lite.worlds import EnvSpec
from minerva_lite.worlds.tabular import TabularMDP
from tests.equations import ROOT


def tensor(rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


GAMMA = 0.5
WORLD = TabularMDP.two_state(GAMMA)
OLD, NEW = tensor([[0.5, 0.5], [0.5, 0.5]]), tensor([[0.0, 1.0], [1.0, 0.0]])


def weighted(visitation: torch.Tensor, policy: torch.Tensor, advantage: torch.Tensor) -> float:
    """Sum over states and actions of visitation, probability and advantage."""
    return float((visitation.unsqueeze(-1) * policy * advantage).sum())


def rise(old: torch.Tensor, new: torch.Tensor) -> float:
    return float(WORLD.expected_return(new) - WORLD.expected_return(old))


def test_the_surrogate_weighs_states_by_the_old_policys_visitation():
    """Said: L(new) = J(old) + sum_s d^new(s) sum_a new(a | s) A^old(s, a)."""
    advantage = WORLD.advantage(OLD)
    right = weighted(WORLD.visitation(OLD), NEW, advantage)
    wrong = weighted(WORLD.visitation(NEW), NEW, advantage)
    assert right == pytest.approx(0.5)
    # The wrong one is no approximation: it is the rise of J itself, and asks how often NEW visits each state.
    assert wrong == pytest.approx(0.75) and wrong == pytest.approx(rise(OLD, NEW))


def test_the_performance_difference_uses_the_old_policys_advantage():
    """Said: J(new) - J(old) = sum_s d^new(s) sum_a new(a | s) A^new(s, a)."""
    assert weighted(WORLD.visitation(NEW), NEW, WORLD.advantage(OLD)) == pytest.approx(rise(OLD, NEW))
    # A policy has no advantage over itself: whatever the two policies are, the wrong sum is 0.
    for policy in (OLD, NEW, 0.3 * OLD + 0.7 * NEW):
        assert weighted(WORLD.visitation(policy), policy, WORLD.advantage(policy)) == pytest.approx(0.0, abs=1e-12)


def test_total_variation_is_half_a_sum_over_actions_not_a_maximum():
    """Said: TV(p, q) = max_a |p(a) - q(a)|."""
    p, q = tensor([0.5, 0.5, 0.0, 0.0]), tensor([0.0, 0.0, 0.5, 0.5])
    # What it means is the largest difference in the probability of any set of actions; these two share none.
    assert float(total_variation(p, q)) == 1.0 and float((p - q).abs().max()) == 0.5
    # With two actions the maximum happens to be right, which is why it survives.
    p, q = tensor([0.9, 0.1]), tensor([0.3, 0.7])
    assert float(total_variation(p, q)) == pytest.approx(float((p - q).abs().max())) == pytest.approx(0.6)


@pytest.mark.parametrize("mixture", [0.02, 0.05, 0.1, 0.2])
def test_the_penalty_constant_holds_no_distance(mixture):
    """Said: J(new) >= L(new) - C alpha^2 with C = 4 eps gamma alpha^2 / (1 - gamma)^2, alpha the largest TV."""
    policy = (1.0 - mixture) * OLD + mixture * NEW
    advantage = WORLD.advantage(OLD)
    surrogate = weighted(WORLD.visitation(OLD), policy, advantage)
    gap = abs(rise(OLD, policy) - surrogate)
    alpha, eps = float(total_variation(OLD, policy).max()), float(advantage.abs().max())
    assert alpha == pytest.approx(mixture / 2) and eps == pytest.approx(0.625)
    constant = 4 * eps * GAMMA / (1 - GAMMA) ** 2
    assert penalty_constant(eps, GAMMA) == pytest.approx(constant) == pytest.approx(5.0)
    # The gap falls with alpha^2; a bound that falls with alpha^4 is passed by it.
    assert constant * alpha**2 * alpha**2 < gap <= tv_bound(eps, alpha, GAMMA)


def test_a_value_function_minimizes_its_squared_error(generator):
    """Said: V = arg max sum (V(s) - G)^2."""
    returns = tensor([0.0, 1.0, 2.0, 5.0])  # of episodes from one state: the minimizer is their mean

    def error(value: float) -> float:
        return float((value - returns).square().mean())

    assert all(error(2.0) < error(2.0 + shift) for shift in (-0.1, -0.01, 0.01, 0.1))
    # There is no maximizer: the error exceeds whatever one likes.
    for bound in (1e2, 1e6, 1e12):
        assert error(2.0 + bound**0.5) > bound
    critic, obs = ValueNet(2, (4,), generator).double(), tensor([1.0, 0.0]).expand(4, 2)
    assert fit_lbfgs(critic, obs, returns, iterations=50, l2=0.0)
    assert float(critic(obs[:1]).detach()) == pytest.approx(2.0, abs=1e-3)


def sampled_hessian(policy: GaussianPolicy, rows: int, generator: torch.Generator) -> torch.Tensor:
    """The Hessian at pi_old of the mean of log pi_old - log pi, on drawn states and pi_old's own actions: [n, n]."""
    weight = torch.cat([p.detach().reshape(-1) for p in policy.parameters()])
    shapes = {name: p.shape for name, p in policy.named_parameters()}
    obs = torch.randn(rows, policy.mean[0].in_features, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        action = policy.sample(policy(obs), generator)

    def k1(weight: torch.Tensor) -> torch.Tensor:
        parts = weight.split([shape.numel() for shape in shapes.values()])
        moved = {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
        return -policy.log_prob(torch.func.functional_call(policy, moved, (obs,)), action).mean()

    return torch.autograd.functional.hessian(k1, weight)


def test_the_sampled_hessian_is_indefinite_for_a_network_and_not_for_two_parameters(generator):
    """Said: as a rule the Hessian of k1 on a sample is indefinite, the parameters being mean and log-std."""
    # By hand, for actions a in standard deviations from the mean: ((1, 2 mean a), (2 mean a, 2 mean a^2)).
    action = torch.randn(100_000, 8, generator=generator, dtype=torch.float64)
    mean, square = action.mean(1), action.square().mean(1)
    by_hand = torch.stack([torch.ones_like(mean), 2 * mean, 2 * mean, 2 * square], 1).view(-1, 2, 2)
    indefinite = torch.linalg.eigvalsh(by_hand)[:, 0] < 0
    assert torch.equal(indefinite, mean.square() > square / 2)
    share = {n: 2 * student.sf(math.sqrt(n - 1), n - 1) for n in (2, 4, 8, 16, 64)}
    assert abs(float(indefinite.double().mean()) - share[8]) < 5 * math.sqrt(share[8] / 100_000)
    assert [f"{share[n]:.2g}" for n in share] == ["0.5", "0.18", "0.033", "0.0015", "4.6e-11"]
    # The policy's own code agrees with the hand, at mean 0 and std 1, where the network is a bias alone.
    policy = GaussianPolicy(1, 1, (), 0.0, generator).double()
    for p in policy.mean.parameters():
        p.data.zero_()
    assert [name for name, _ in policy.named_parameters()] == ["log_std", "mean.0.weight", "mean.0.bias"]
    hessian = sampled_hessian(policy, 2000, generator)[0::2, 0::2].flip(0, 1)
    assert float(hessian[0, 0]) == pytest.approx(1.0) and bool((torch.linalg.eigvalsh(hessian) > 0).all())
    # A network of 22 parameters: the numbers of the errata, over ten of them.
    negative = []
    for seed in range(10):
        seeded = torch.Generator().manual_seed(seed)
        network = GaussianPolicy(3, 1, (4,), 0.0, seeded).double()
        hessian = sampled_hessian(network, 2000, seeded)
        values = torch.linalg.eigvalsh(hessian)
        assert len(values) == 22
        negative.append(int((values < -1e-9).sum()))
        # Conjugate gradient tells without damping; the default damping hides it.
        target = torch.randn(22, generator=seeded, dtype=torch.float64)
        with pytest.raises(CurvatureError):
            conjugate_gradient(hessian.mv, target, 10)
        assert float(values[0]) > -0.1 == -AGENTS["trpo"][1]().damping
    told = " ".join((ROOT / "book" / "errata.md").read_text("utf8").split())
    assert f"Of the 22 eigenvalues {min(negative)} to {max(negative)} were negative" in told
    assert "50 % for $N = 2$, 18 % for 4, 3.3 % for 8, 0.15 % for 16, and $5 \\cdot 10^{-11}$ for 64" in told


def mpo(**options):
    agent, config = AGENTS["mpo"]
    return agent(config(hidden=(4,), **options), EnvSpec("any", 3, action_dim=2), device="cpu", dtype=torch.float64)


def action_penalty(action: torch.Tensor) -> torch.Tensor:
    """The penalty of N candidates [N, 1, D], the first inside the bounds: [N], read off MPO's weights.

    Where Q says nothing, its own weights are equal, and the rest is softmax(penalty / eta).
    """
    agent, zero = mpo(action_penalty=True), torch.zeros(len(action), 1, dtype=torch.float64)
    weights, figures = agent.estep(action, zero - math.log(len(action)), zero)
    pull = (weights - 1 / len(action)).flatten()
    return figures["dual/eta_penalty"] * (pull / pull[0]).log()


def test_the_action_penalty_is_a_distance_not_its_square():
    """Said: the penalty grows with the square of how far an action lies outside its bounds."""
    # 0, 1 and 2 outside [-1, 1], the last one by (6/5, 8/5): three candidates in one state.
    action = tensor([[0.5, -0.5], [2.0, 0.0], [2.2, -2.6]]).unsqueeze(1)
    penalty = action_penalty(action).unsqueeze(1)
    assert penalty.flatten().tolist() == pytest.approx([0.0, -1.0, -2.0])
    prior, eta = torch.full((3, 1), -math.log(3.0), dtype=torch.float64), tensor(1.0 / math.log(2.0))
    by_distance, by_square = (estep_weights(x, prior, eta).flatten() for x in (penalty, -penalty.square()))
    assert torch.allclose(by_distance, tensor([4.0, 2.0, 1.0]) / 7)
    assert torch.allclose(by_square, tensor([16.0, 8.0, 1.0]) / 25)
    # No temperature turns one into the other: the first halves from each to the next, the second cannot.
    assert torch.allclose(by_distance[1:] / by_distance[:-1], tensor([0.5, 0.5]))
    for eta in torch.logspace(-2, 2, 50, dtype=torch.float64):
        weights = estep_weights(-penalty.square(), prior, eta).flatten()
        assert float(weights[2] / weights[1]) == pytest.approx(float(weights[1] / weights[0]) ** 3)
    # Near the bounds the square hardly pulls.
    assert action_penalty(tensor([[0.0, 0.0], [1.1, 0.0]]).unsqueeze(1)).tolist() == pytest.approx([0.0, -0.1])


@pytest.mark.parametrize("inner_steps", [1, 4, 9])
def test_inner_steps_divide_no_learning_rate(inner_steps):
    """Said: with M steps on one batch the learning rate is divided by sqrt(M)."""
    agent = mpo(policy_steps=inner_steps, optimizer="sgd", max_grad_norm=1e9, policy_learning_rate=0.1)
    weight = agent.policy.mean[-1].bias
    start, rates = weight.detach().clone(), []
    for _ in range(inner_steps):  # the steps that one M-step takes, on a slope that stays 1
        agent.gradient_step("policy", agent.policy.mean[-1].bias.sum())
        rates.append(agent.optimizers["policy"].param_groups[0]["lr"])
    assert rates == [0.1] * inner_steps
    # Not the square root of their number: what the sentence promises is right for one step alone.
    assert float((start - weight.detach()).mean()) == pytest.approx(0.1 * inner_steps)


def test_the_decoupled_parts_sum_to_the_kl_only_for_an_unchanged_std(generator):
    """Said: KL(old || new) is the mean's part with the OLD variance plus the variance's part."""
    policy = GaussianPolicy(1, 1, (2,), 0.0, generator)
    old = (tensor([0.0]), tensor([1.0]))
    halved = (tensor([0.5]), tensor([0.5]))  # the mean moves by half a standard deviation, and that is halved
    parts, whole = float(sum(policy.kl_parts(old, halved)).sum()), float(policy.kl(old, halved))
    assert parts == pytest.approx(0.125 + 1.5 - math.log(2.0)) and round(parts, 2) == 0.93
    assert whole == pytest.approx(0.5 + 1.5 - math.log(2.0)) and round(whole, 2) == 1.31
    # With a wider new policy the sum is too large instead; only an unchanged variance makes it right.
    doubled, moved = (tensor([0.5]), tensor([2.0])), (tensor([0.5]), tensor([1.0]))
    assert float(sum(policy.kl_parts(old, doubled)).sum()) > float(policy.kl(old, doubled))
    assert float(sum(policy.kl_parts(old, moved)).sum()) == float(policy.kl(old, moved)) == 0.125
