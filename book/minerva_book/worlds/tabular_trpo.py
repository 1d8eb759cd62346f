"""TRPO's theory computed exactly: gains, errors and steps on tabular worlds.

A policy is a tensor [S, A] of probabilities; where a function says so, leading axes hold several of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from minerva_lite.checks import require_count, require_positive, require_shape
from minerva_lite.formulas.bounds import average_kl_penalty, penalty_constant, walk_kl_bound
from minerva_lite.formulas.objectives import importance_surrogate, vine_surrogate
from minerva_lite.formulas.returns import gae
from minerva_lite.worlds.tabular import TabularMDP, inverse_cdf

# Worlds.


def ledge() -> TabularMDP:
    """A safe place, state 0, and a ledge, state 1; action 0 leads to safety, 1 is bold and leads to the ledge.

    The bold action pays 1 in the safe place and costs 3 on the ledge. The discount is 0.3.
    """
    moves = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)  # the action is the next state
    reward = torch.tensor([[0.0, 1.0], [0.0, -3.0]], dtype=torch.float64)
    return TabularMDP(moves, reward, torch.tensor([1.0, 0.0], dtype=torch.float64), 0.3)


def same_everywhere(chance: Tensor, states: int = 2) -> Tensor:
    """The policy [..., S, 2] that takes action 1 with probability `chance` [...] in every state."""
    policy = torch.stack([1.0 - chance, chance], -1).unsqueeze(-2)
    return policy.expand(*chance.shape, states, 2)


def trap(reward: Tensor, gamma: float) -> TabularMDP:
    """Two states, A actions, rewards [2, A]: in state 0, the start, the last action leads to state 1 for good.

    If the old policy's mean reward is zero in both states, the rewards are the advantages. The old policy never visits
    state 1, so the surrogate does not see it. If the last action pays in state 0 and costs as much in state 1, the
    surrogate promises a gain and errs by as much as its bound allows. With the signs changed it warns of a gain.
    Raises ValueError: reward has not two rows.
    """
    require_shape((2, None), reward=reward)
    transition = torch.zeros(2, reward.shape[1], 2, dtype=reward.dtype)
    transition[0, :, 0] = transition[1, :, 1] = 1.0
    transition[0, -1] = transition[0, -1].flip(-1)
    return TabularMDP(transition, reward, torch.tensor([1.0, 0.0], dtype=reward.dtype), gamma)


def random_walk(reach: int, gamma: float) -> TabularMDP:
    """2 * reach + 1 places in a row, the start in the middle; action 0 goes left, 1 right, against a wall nowhere.

    A step away from the middle pays 1, a step toward it costs 1, and in the middle nothing pays. A policy that tosses
    a coin is worth 0 everywhere, so the rewards are its advantages.
    """
    require_count(reach=reach)
    place = torch.arange(2 * reach + 1)
    side = torch.sign(place - reach).to(torch.float64)
    transition = torch.zeros(len(place), 2, len(place), dtype=torch.float64)
    transition[place, 0, (place - 1).clamp(min=0)] = 1.0
    transition[place, 1, (place + 1).clamp(max=2 * reach)] = 1.0
    return TabularMDP(transition, torch.stack([-side, side], 1), (place == reach).to(torch.float64), gamma)


def with_weather(world: TabularMDP, size: float) -> TabularMDP:
    """The same world in two weathers: at each step a coin decides whether all rewards are higher or lower by `size`.

    The state is weather * S + s. No action influences the weather, so it changes no advantage.
    """
    states, actions = world.reward.shape
    half = torch.full((2, 2), 0.5, dtype=world.reward.dtype)
    transition = torch.einsum("xy,san->xsayn", half, world.transition).reshape(2 * states, actions, 2 * states)
    reward = torch.cat([world.reward - size, world.reward + size])
    return TabularMDP(transition, reward, torch.cat([world.start, world.start]) / 2.0, world.gamma)


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


Price = Callable[[float, float], float]  # largest advantage, gamma -> return units per nat of the largest KL


def minorizer(world: TabularMDP, old: Tensor, new: Tensor, price: Price = penalty_constant) -> Tensor:
    """L(new) - price * max_s KL(old || new), [...], return units: below the gain. Book: eq. trpo-minorize."""
    penalty = price(world.advantage(old).abs().max().item(), world.gamma)
    return surrogate(world, old, new) - penalty * kl(old, new).amax(-1)


def walk_price(max_advantage: float, gamma: float) -> float:
    """What a nat costs by comparing whole walks, in return units. Book: eq. trpo-walk-bound."""
    return walk_kl_bound(max_advantage, 1.0, gamma)


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


def best_response(old: Tensor, advantage: Tensor, price: Tensor | float) -> Tensor:
    """The policy [..., A] that maximizes E_pi[A] - price * KL(old || pi) in every state.

    old and advantage: [..., A], old above 0; price: return units per nat, above 0, a number or [..., 1].

    Book: eq. trpo-tilt.
    """
    top = advantage.amax(-1, keepdim=True)
    # Between these two values of nu, the sum of price * old / (nu - A) over the actions falls from above 1 to below 1.
    low, high = top + price * old.amin(-1, keepdim=True), top + price
    for _ in range(60):  # halvings of the interval
        middle = (low + high) / 2.0
        too_much = (price * old / (middle - advantage)).sum(-1, keepdim=True) > 1.0
        low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
    policy = old / (high - advantage)
    return policy / policy.sum(-1, keepdim=True)


def minorize_maximize(world: TabularMDP, old: Tensor, price: Price = penalty_constant) -> Tensor:
    """The policy [S, A] with the largest minorizer at this price of a nat, on a grid of radii.

    Every state moves by the same KL, the radius; the best of 61 radii from 1e-8 to 1e-2 nats is taken.
    """
    advantage = world.advantage(old)
    radius = torch.logspace(-8, -2, 61, dtype=old.dtype)[:, None, None]
    charge = advantage.abs().max() / radius.sqrt() * torch.ones(len(old), 1, dtype=old.dtype)
    # The KL of a best response falls about as 1 / price^2, so this fixed-point iteration converges quickly. It does not
    # in a state with nothing left to gain, whose KL cannot reach the radius. There the price falls on and on, so the
    # actions that it drops keep a trace of probability: what is 0 once could never be weighed again.
    for _ in range(12):
        moved = kl(old, best_response(old, advantage, charge)).unsqueeze(-1) / radius
        charge = charge * moved.clamp(1e-2, 1e2).sqrt()
    policies = best_response(old, advantage, charge).clamp(min=1e-12)
    policies = policies / policies.sum(-1, keepdim=True)
    return policies[minorizer(world, old, policies, price).argmax()]


def minorize_average(world: TabularMDP, old: Tensor) -> Tensor:
    """The policy [S, A] with the largest L - C' times the average KL: one price, the same for all states.

    Book: eq. trpo-average-penalty.
    """
    advantage = world.advantage(old)
    # L and the average KL weigh the states alike, but for the factor 1 - gamma of the normalized visitation.
    price = (1.0 - world.gamma) * average_kl_penalty(advantage.abs().max().item(), world.gamma)
    return best_response(old, advantage, price)


def trust_region_step(
    world: TabularMDP, old: Tensor, kl_bound: float | Tensor, *, advantage: Tensor | None = None
) -> Tensor:
    """The policy [S, A] with the largest L among those whose average KL(old || new) is at most `kl_bound`, nats.

    Several bounds [N] give several policies [N, S, A]. `advantage` [S, A] takes the place of the exact one in L.
    One price for all states, found by bisection of its logarithm. Book: eq. trpo-problem.
    Raises ValueError: a bound is not above 0.
    """
    bounds = torch.as_tensor(kl_bound, dtype=old.dtype)
    require_positive(kl_bound=float(bounds.min()))
    advantage = world.advantage(old) if advantage is None else advantage
    weight = world.visitation(old) * (1.0 - world.gamma)
    low, high = torch.full_like(bounds, -20.0), torch.full_like(bounds, 20.0)
    for _ in range(50):
        middle = (low + high) / 2.0
        far = kl(old, best_response(old, advantage, middle.exp()[..., None, None])) @ weight > bounds
        low, high = torch.where(far, middle, low), torch.where(far, high, middle)
    return best_response(old, advantage, high.exp()[..., None, None])


def estimated_advantage(world: TabularMDP, old: Tensor, rows: int, steps: int, generator: Generator) -> Tensor:
    """Advantages [S, A] estimated from `rows` independent samples; 0 for a pair that no sample tried.

    A sample is a state that the old policy visits, its action there, and the return of the next `steps` steps less
    the exact value of the state. Pairs take the mean of their samples.
    """
    state = world.visits(old, rows, generator)
    uniform = torch.rand(rows, generator=generator, dtype=torch.float64)
    action = inverse_cdf(old[state], uniform)
    reward = world.paths(old, rows, steps, generator, state=state, action=action).reward
    value = world.value(old)
    sampled = world.gamma ** torch.arange(steps, dtype=value.dtype) @ reward - value[state]
    pair = state * old.shape[1] + action
    total, count = (torch.bincount(pair, w, minlength=old.numel()) for w in (sampled, torch.ones_like(sampled)))
    return (total / count.clamp(min=1.0)).reshape(old.shape)


# Sampled gradients of the surrogate at the old policy, to compare with the exact one.


def path_gradient(
    world: TabularMDP,
    logits: Tensor,
    paths: int,
    steps: int,
    generator: Generator,
    *,
    critic: Tensor,
    lam: float = 1.0,
) -> Tensor:
    """Estimate of the surrogate's gradient at the old policy from `paths` paths of `steps` steps: like logits [S, A].

    GAE with the critic [S] takes the place of the advantages; at lam = 1 it is the return less the critic.
    """
    logits = logits.detach().requires_grad_()
    policy = logits.softmax(-1)
    data = world.paths(policy.detach(), paths, steps, generator)
    never = torch.zeros_like(data.reward, dtype=torch.bool)
    value, next_value = critic[data.state], critic[data.next_state]
    advantage = gae(data.reward, value, next_value, never, never, gamma=world.gamma, lam=lam)
    # The mean over rows becomes the sum over time with weights gamma^t, which is what L is.
    weight = steps * world.gamma ** torch.arange(steps, dtype=value.dtype).unsqueeze(-1)
    log_prob = policy.log()[data.state, data.action]
    sampled = importance_surrogate(log_prob - log_prob.detach(), weight * advantage)
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
