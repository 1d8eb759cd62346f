"""TRPO's theory computed exactly: gains, errors and steps on tabular worlds.

A policy is a tensor [S, A] of probabilities; where a function says so, leading axes hold several of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from ..checks import require_count, require_positive, require_shape
from ..formulas.bounds import penalty_constant
from ..formulas.objectives import importance_surrogate, vine_surrogate
from ..formulas.returns import discounted_returns
from .tabular import TabularMDP

# Worlds.


def trap(reward: Tensor, gamma: float) -> TabularMDP:
    """Two states, A actions, rewards [2, A]: in state 0, the start, the last action leads to state 1 for good.

    If the old policy's mean reward is zero in both states, the rewards are the advantages. The old policy never visits
    state 1, so the surrogate does not see it and errs as much as its bound allows. Raises ValueError: reward has not
    two rows.
    """
    require_shape((2, None), reward=reward)
    transition = torch.zeros(2, reward.shape[1], 2, dtype=reward.dtype)
    transition[0, :, 0] = transition[1, :, 1] = 1.0
    transition[0, -1] = transition[0, -1].flip(-1)
    return TabularMDP(transition, reward, torch.tensor([1.0, 0.0], dtype=reward.dtype), gamma)


def with_weather(world: TabularMDP, size: float) -> TabularMDP:
    """The same world in two weathers: at each step a coin decides whether all rewards are higher or lower by `size`.

    The state is weather * S + s. No action influences the weather, so it changes no advantage.
    """
    states, actions = world.reward.shape
    half = torch.full((2, 2), 0.5, dtype=world.reward.dtype)
    transition = torch.einsum("xy,san->xsayn", half, world.transition).reshape(2 * states, actions, 2 * states)
    reward = torch.cat([world.reward - size, world.reward + size])
    return TabularMDP(transition, reward, torch.cat([world.start, world.start]) / 2.0, world.gamma)


def two_parameter_world(seed: int = 0) -> dict[str, Any]:
    """A random world of 4 states with a softmax policy of two parameters, exact.

    Returns the surrogate and the mean KL as functions of a shift of the parameters [..., 2], the gradient [2] and the
    Fisher matrix [2, 2] at no shift.
    """
    generator = torch.Generator().manual_seed(seed)
    world = TabularMDP.random(4, 3, 0.9, generator)
    # The second parameter moves the policy less, and the two are correlated, so F is not a multiple of the identity.
    features = torch.randn(4, 3, 2, generator=generator, dtype=torch.float64)
    features = features @ torch.tensor([[1.0, 0.3], [0.0, 0.3]], dtype=torch.float64)
    offset = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    policy = offset.softmax(-1)
    score = features - (policy[..., None] * features).sum(1, keepdim=True)
    visits = (1.0 - world.gamma) * world.visitation(policy)
    advantage = world.advantage(policy)

    def log_policy(shift: Tensor) -> Tensor:
        return (offset + torch.einsum("san,...n->...sa", features, shift)).log_softmax(-1)

    return {
        "surrogate": lambda shift: (visits[:, None] * log_policy(shift).exp() * advantage).sum((-2, -1)),
        "kl": lambda shift: (visits[:, None] * policy * (policy.log() - log_policy(shift))).sum((-2, -1)),
        "gradient": (1.0 - world.gamma) * world.policy_gradient(policy, score),
        "fisher": world.fisher(policy, score),
    }


# The gain of a change of policy, and the surrogate's estimate of it.


def gain(world: TabularMDP, old: Tensor, new: Tensor) -> Tensor:
    """J(new) - J(old), scalar, return units."""
    return world.expected_return(new) - world.expected_return(old)


def surrogate(world: TabularMDP, old: Tensor, new: Tensor) -> Tensor:
    """L(new), [...], return units: the old policy's visitation (not normalized) and advantages; new [..., S, A]."""
    return (new * world.advantage(old)).sum(-1) @ world.visitation(old)


def error(world: TabularMDP, old: Tensor, new: Tensor) -> Tensor:
    """J(new) - J(old) - L(new), scalar, return units: the surrogate's error."""
    return gain(world, old, new) - surrogate(world, old, new)


def chain(world: TabularMDP, policy: Tensor) -> Tensor:
    """`P^pi(s' | s)`, [S, S]: the transitions with the policy's actions averaged out."""
    return world.averaged(policy)[0]


def kl(old: Tensor, new: Tensor) -> Tensor:
    """KL(old || new) in each state, nats: [..., S] from [..., S, A]. Every old probability must be above 0."""
    return (old * (old / new).log()).sum(-1)


def average_kl(world: TabularMDP, old: Tensor, new: Tensor) -> Tensor:
    """Mean of KL(old || new) over states from the old policy's normalized visitation, nats: [...]."""
    return kl(old, new) @ world.visitation(old) * (1.0 - world.gamma)


def minorizer(world: TabularMDP, old: Tensor, new: Tensor) -> Tensor:
    """L(new) - C max_s KL(old || new), [...], return units: a lower bound on the gain. Book: eq. trpo-minorize."""
    penalty = penalty_constant(world.advantage(old).abs().max().item(), world.gamma)
    return surrogate(world, old, new) - penalty * kl(old, new).amax(-1)


# Exact steps.


def climb(world: TabularMDP, start: Tensor, step: Callable[[TabularMDP, Tensor], Tensor], count: int) -> Tensor:
    """The policies [count + 1, S, A] that `count` steps lead through, the start included."""
    policies = [start]
    for _ in range(count):
        policies.append(step(world, policies[-1]))
    return torch.stack(policies)


def greedy(world: TabularMDP, old: Tensor) -> Tensor:
    """The policy [S, A] that takes an action of largest advantage in every state: a step of policy iteration."""
    return torch.eye(old.shape[1], dtype=old.dtype)[world.advantage(old).argmax(-1)]


def best_response(old: Tensor, advantage: Tensor, price: Tensor | float, halvings: int = 60) -> Tensor:
    """The policy [..., A] that maximizes E_pi[A] - price * KL(old || pi) in every state.

    old and advantage: [..., A]; price: return units per nat, above 0, a number or [..., 1].

    Book: eq. trpo-tilt. Raises ValueError: fewer than one halving.
    """
    require_count(halvings=halvings)
    top = advantage.amax(-1, keepdim=True)
    # Between these two values of nu, the sum of price * old / (nu - A) over the actions falls from above 1 to below 1.
    low, high = top + price * old.amin(-1, keepdim=True), top + price
    for _ in range(halvings):
        middle = (low + high) / 2.0
        too_much = (price * old / (middle - advantage)).sum(-1, keepdim=True) > 1.0
        low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
    policy = old / (high - advantage)
    return policy / policy.sum(-1, keepdim=True)


def minorize_maximize(world: TabularMDP, old: Tensor) -> Tensor:
    """The policy [S, A] with the largest minorizer on a grid of radii.

    Every state moves by the same KL, the radius; the best of 61 radii from 1e-8 to 1e-2 nats is taken.
    """
    advantage = world.advantage(old)
    radius = torch.logspace(-8, -2, 61, dtype=old.dtype)[:, None, None]
    price = advantage.abs().max() / radius.sqrt() * torch.ones(len(old), 1, dtype=old.dtype)
    # The KL of a best response falls about as 1 / price^2, so this fixed-point iteration converges quickly.
    for _ in range(12):
        price = price * (kl(old, best_response(old, advantage, price)).unsqueeze(-1) / radius).sqrt()
    policies = best_response(old, advantage, price)
    return policies[minorizer(world, old, policies).argmax()]


def trust_region_step(world: TabularMDP, old: Tensor, kl_bound: float) -> Tensor:
    """The policy [S, A] with the largest L among those whose average KL(old || new) is at most `kl_bound`, nats.

    One price for all states, found by bisection of its logarithm. Book: eq. trpo-problem.
    Raises ValueError: the bound is not above 0.
    """
    require_positive(kl_bound=kl_bound)
    advantage = world.advantage(old)
    low, high = torch.tensor([-20.0, 20.0], dtype=old.dtype)
    for _ in range(50):
        middle = (low + high) / 2.0
        far = average_kl(world, old, best_response(old, advantage, middle.exp())) > kl_bound
        low, high = (middle, high) if far else (low, middle)
    return best_response(old, advantage, high.exp())


# Sampled gradients of the surrogate at the old policy, to compare with the exact one.


def path_gradient(
    world: TabularMDP, logits: Tensor, paths: int, steps: int, generator: Generator, *, baseline: Tensor
) -> Tensor:
    """Estimate of the surrogate's gradient at the old policy from `paths` paths of `steps` steps: like logits [S, A].

    Returns minus the baseline [S] take the place of the advantages.
    """
    logits = logits.detach().requires_grad_()
    policy = logits.softmax(-1)
    data = world.paths(policy.detach(), paths, steps, generator)
    none = torch.zeros_like(data.reward)
    returns = discounted_returns(data.reward, none, none.bool(), none.bool(), gamma=world.gamma)
    # The mean over rows becomes the sum over time with weights gamma^t, which is what L is.
    weight = steps * world.gamma ** torch.arange(steps, dtype=none.dtype).unsqueeze(-1)
    log_prob = policy.log()[data.state, data.action]
    sampled = importance_surrogate(log_prob - log_prob.detach(), weight * (returns - baseline[data.state]))
    return torch.autograd.grad(sampled, logits)[0]


def vine_gradient(
    world: TabularMDP, logits: Tensor, states: int, steps: int, generator: Generator, *, common: bool
) -> Tensor:
    """Estimate of the surrogate's gradient at the old policy from `states` visited states: like logits [S, A].

    Every action is tried once in each of them, for `steps` steps. common: all branches of a state see the same random
    numbers.
    """
    logits = logits.detach().requires_grad_()
    policy = logits.softmax(-1)
    start = world.visits(policy.detach(), states, generator)
    seed = int(torch.randint(2**31, (), generator=generator))
    discount, returns = world.gamma ** torch.arange(steps, dtype=policy.dtype), []
    for a in range(policy.shape[1]):
        noise = Generator().manual_seed(seed if common else seed + a)
        first = torch.full((states,), a)
        returns.append(discount @ world.paths(policy.detach(), states, steps, noise, state=start, action=first).reward)
    sampled = vine_surrogate(policy.log()[start], torch.stack(returns, 1)) / (1.0 - world.gamma)
    return torch.autograd.grad(sampled, logits)[0]
