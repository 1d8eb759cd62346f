"""Values, returns and policy gradients: what chapters 1 to 3 and the appendix ask for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from minerva_lite.formulas.returns import gae
from minerva_lite.worlds.tabular import TabularMDP, random_policy

from .answers import Wrong, compare


def _worlds(seed: int) -> list[tuple[str, TabularMDP, Tensor]]:
    """Worlds by name, each with a policy: random ones, one of them with gamma = 0, the chain, the grid."""
    generator = Generator().manual_seed(seed)
    worlds = {
        "random world": TabularMDP.random(5, 3, 0.9, generator),
        "random world, gamma = 0": TabularMDP.random(4, 2, 0.0, generator),
        "chain": TabularMDP.chain(6, 0.95),
        "grid": TabularMDP.grid(3, 4, 0.8),
    }
    return [(name, world, random_policy(*world.reward.shape, generator)) for name, world in worlds.items()]


def check_policy_evaluation(function: Callable[[TabularMDP, Tensor], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(world, policy)` is the value V [S] of `policy` [S, A] in `world`."""
    for name, world, policy in _worlds(seed):
        compare(name, function(world, policy), world.value(policy))


def check_visitation(function: Callable[[TabularMDP, Tensor], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(world, policy)` is the discounted visitation [S], not normalized."""
    for name, world, policy in _worlds(seed):
        compare(name, function(world, policy), world.visitation(policy))


def check_turning_point(function: Callable[[int, float], float]) -> None:
    """Raise AssertionError unless `function(state, slip)` is the discount at which the best action turns, to 8 digits.

    state: a square of the corridor of six. The answer is 0 for a square whose best action is right at any discount.
    """
    for slip in (0.0, 0.1, 0.25):
        for state in range(6):

            def goes_right(step: int, state: int = state, slip: float = slip) -> bool:
                return bool(TabularMDP.chain(6, step / 1e9, slip=slip).best_policy()[state, 1] == 1)

            turn = bisect_left(range(990_000_000), True, lo=10_000_000, key=goes_right)
            wanted = torch.tensor(0.0 if turn == 10_000_000 else turn / 1e9, dtype=torch.float64)
            compare(f"square {state}, slip = {slip}", function(state, slip), wanted, 1e-8)


def check_path_gradient(function: Callable[[TabularMDP, Tensor, int], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(world, policy, T)` is the gradient of the return of T steps, [S, A].

    It is by the logits of a softmax, one for each state and action, whose probabilities are `policy` [S, A].
    """
    generator = Generator().manual_seed(seed)
    for states, actions, steps in ((2, 2, 1), (2, 2, 4), (2, 3, 3), (3, 2, 2)):
        world = TabularMDP.random(states, actions, 0.8, generator)
        logits = torch.randn(states, actions, generator=generator, dtype=torch.float64).requires_grad_()
        policy, value = logits.softmax(-1), torch.zeros(states, dtype=torch.float64)
        for _ in range(steps):
            value = (policy * (world.reward + world.gamma * world.transition @ value)).sum(-1)
        wanted = torch.autograd.grad(world.start @ value, logits)[0]
        compare(f"S = {states}, A = {actions}, T = {steps}", function(world, policy.detach(), steps), wanted)


def check_best_baseline(function: Callable[[Tensor, Tensor], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(score, returns)` is each sample's estimate [N] of the best baseline.

    score: [N, n]. returns: [N]. A sample is left out of its own estimate.
    """
    generator = Generator().manual_seed(seed)
    for rows, n in ((2, 1), (5, 3), (40, 5)):
        score, returns = (torch.randn(*shape, generator=generator).double() for shape in ((rows, n), (rows,)))
        wanted = torch.empty_like(returns)
        for i in range(rows):
            others = torch.arange(rows) != i
            push = score[others].square().sum(-1)
            wanted[i] = (push * returns[others]).sum() / push.sum()
        compare(f"N = {rows}, n = {n}", function(score, returns), wanted)


def check_lambda_return(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function` computes lambda-returns, called as `gae` is, [T, B] float64."""
    generator = Generator().manual_seed(seed)
    for steps, gamma, lam in ((1, 0.9, 0.8), (9, 0.9, 0.8), (9, 1.0, 1.0), (9, 0.97, 0.0)):
        reward, value = torch.randn(2, steps, 4, generator=generator, dtype=torch.float64)
        terminated, truncated = (torch.rand(2, steps, 4, generator=generator) < 0.25).unbind(0)
        # The value of the true successor is that of the next row, except where an episode ends.
        next_value = torch.randn(steps, 4, generator=generator, dtype=torch.float64)
        goes_on = ~(terminated | truncated)[:-1]
        next_value[:-1] = torch.where(goes_on, value[1:], next_value[:-1])
        wanted = gae(reward, value, next_value, terminated, truncated, gamma=gamma, lam=lam) + value
        # A lambda-return does not depend on V(s_t), so V(s_t) is NaN here: an answer that reads it is wrong.
        arguments = (reward, torch.full_like(value, torch.nan), next_value, terminated, truncated)
        compare(f"T = {steps}, gamma = {gamma}, lam = {lam}", function(*arguments, gamma=gamma, lam=lam), wanted)


def check_compatible(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(q_value, policy, visits, score)` gives the compatible critic's w [n].

    q_value, policy: [S, A]. visits: [S], the normalized visitation. score: [S, A, n].
    """
    generator = Generator().manual_seed(seed)
    for states, actions, size in ((5, 3, 4), (4, 2, 1), (6, 4, 7)):
        world = TabularMDP.random(states, actions, 0.9, generator)
        features = torch.randn(states, actions, size, generator=generator, dtype=torch.float64)
        policy = (features @ torch.randn(size, generator=generator, dtype=torch.float64)).softmax(-1)
        score = features - (policy.unsqueeze(-1) * features).sum(1, keepdim=True)
        gradient = (1.0 - world.gamma) * world.policy_gradient(policy, score)
        wanted = torch.linalg.solve(world.fisher(policy, score), gradient)
        got = function(world.q_value(policy), policy, (1.0 - world.gamma) * world.visitation(policy), score)
        compare(f"S = {states}, A = {actions}, n = {size}", got, wanted)


def check_logsumexp(function: Callable[[Tensor], Tensor]) -> None:
    """Raise AssertionError unless `function(x)` is the logarithm of the sum of exponentials over the last dimension."""
    rows = {
        "small numbers": [[0.0, 1.0, -2.0], [0.5, 0.5, 0.5]],
        "large numbers": [[1e4, 1e4 - 1.0, -1e4], [-1e4, -1e4, -1e4 - 2.0]],
        "-inf among them": [[-torch.inf, 3.0, 2.0], [-torch.inf, -torch.inf, -1e4]],
    }
    for name, numbers in rows.items():
        for dtype, atol in ((torch.float32, 2e-3), (torch.float64, 1e-9)):
            x = torch.tensor(numbers, dtype=dtype)
            compare(f"{name}, {dtype}", function(x), x.double().logsumexp(-1), atol)
    nothing = function(torch.full((2, 3), -torch.inf))
    if not isinstance(nothing, Tensor) or nothing.tolist() != [-torch.inf, -torch.inf]:
        raise Wrong(f"-inf everywhere: wanted -inf for each row; got {nothing}")
