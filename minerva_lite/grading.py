"""Checks for the exercises: they say which entry is wrong and by how much, not how to mend it (floor 8)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from .returns import discounted_returns, gae
from .tabular import TabularMDP, random_policy
from .trust_region import conjugate_gradient


def _compare(name: str, got: Tensor, wanted: Tensor, atol: float = 1e-9) -> None:
    """Raise AssertionError naming the worst entry unless `got` equals `wanted` within `atol`."""
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        raise AssertionError(f"{name}: wanted a tensor of shape {tuple(wanted.shape)}; got {shape}")
    error = (got.double() - wanted).abs()
    # NaN compares false with everything: ask for what is right, not for what is wrong.
    bad = ~(error <= atol)
    if bad.any():
        index = tuple(int(i) for i in bad.nonzero()[0])
        raise AssertionError(
            f"{name}: {int(bad.sum())} of {bad.numel()} entries are wrong; the first, at {index}, "
            f"is {got[index].item():.6g} and should be {wanted[index].item():.6g}"
        )


def check_gae(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function` computes GAE, called as `minerva_lite.returns.gae` is, [T, B] float64."""
    generator = Generator().manual_seed(seed)
    for steps, gamma, lam in ((1, 0.9, 0.8), (9, 0.9, 0.8), (9, 1.0, 1.0), (9, 0.97, 0.0)):
        reward, value, next_value = torch.randn(3, steps, 4, generator=generator, dtype=torch.float64)
        chance = torch.rand(2, steps, 4, generator=generator)
        flags = (chance < 0.25).unbind(0)
        arguments = (reward, value, next_value, *flags)
        wanted = gae(*arguments, gamma=gamma, lam=lam)
        _compare(f"T = {steps}, gamma = {gamma}, lam = {lam}", function(*arguments, gamma=gamma, lam=lam), wanted)


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
        # A lambda-return does not depend on V(s_t): whoever reads it finds no number there.
        arguments = (reward, torch.full_like(value, torch.nan), next_value, terminated, truncated)
        _compare(f"T = {steps}, gamma = {gamma}, lam = {lam}", function(*arguments, gamma=gamma, lam=lam), wanted)


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
        _compare(f"S = {states}, A = {actions}, n = {size}", got, wanted)


def check_dual_clip(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(log_ratio, advantage, clip_eps, c)` is dual-clip PPO's objective."""
    ratio = torch.tensor([0.1, 0.75, 0.95, 1.05, 1.25, 2.9, 3.1, 50.0], dtype=torch.float64)
    for sign in (2.0, -2.0, 0.0):
        for clip_eps, c in ((0.2, 3.0), (0.1, 1.5)):
            low, high = (min(r, 1 + clip_eps) for r in ratio.tolist()), (max(r, 1 - clip_eps) for r in ratio.tolist())
            kept = list(low) if sign >= 0 else [min(r, c) for r in high]
            wanted = sign * torch.tensor(kept, dtype=torch.float64)
            got = function(ratio.log(), torch.full_like(ratio, sign), clip_eps, c)
            _compare(f"A = {sign}, clip_eps = {clip_eps}, c = {c}", got, wanted)


def check_reward_to_go(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(reward, ended, gamma)` is the discounted sum of the episode's rewards.

    reward: [T, B] float64. ended: [T, B] bool, the last row of an episode; what follows belongs to another one.
    """
    generator = Generator().manual_seed(seed)
    for steps, gamma in ((1, 0.9), (7, 0.5), (7, 1.0), (7, 0.0)):
        reward = torch.randn(steps, 3, generator=generator, dtype=torch.float64)
        ended = torch.rand(steps, 3, generator=generator) < 0.3
        zero, never = torch.zeros_like(reward), torch.zeros_like(ended)
        wanted = discounted_returns(reward, zero, ended, never, gamma=gamma)
        _compare(f"T = {steps}, gamma = {gamma}", function(reward, ended, gamma), wanted)


def check_optimal_baseline(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(policy, q_value, score)` is each state's baseline of least variance, [S].

    policy: [S, A] probabilities. q_value: [S, A]. score: [S, A, n], gradients of log pi(a | s); all float64.
    """
    generator = Generator().manual_seed(seed)
    for states, actions, parameters in ((1, 2, 1), (4, 3, 5), (3, 6, 2)):
        policy = random_policy(states, actions, generator)
        q_value = 1.0 + torch.randn(states, actions, generator=generator, dtype=torch.float64)
        score = torch.randn(states, actions, parameters, generator=generator, dtype=torch.float64)
        weight = policy * score.square().sum(-1)
        wanted = (weight * q_value).sum(-1) / weight.sum(-1)
        _compare(f"S = {states}, A = {actions}, n = {parameters}", function(policy, q_value, score), wanted)


def _worlds(seed: int) -> list[tuple[str, TabularMDP, Tensor]]:
    """Named worlds with a policy each: random ones, the chain, the grid, one that looks no step ahead."""
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
        _compare(name, function(world, policy), world.value(policy))


def check_visitation(function: Callable[[TabularMDP, Tensor], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(world, policy)` is the discounted visitation [S], not normalized."""
    for name, world, policy in _worlds(seed):
        _compare(name, function(world, policy), world.visitation(policy))


def check_coupling(function: Callable[[Tensor, Tensor], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(p, q)` couples p [A] and q [A]: [A, A], P(a = b) as large as it can be."""
    generator = Generator().manual_seed(seed)
    p, q = random_policy(2, 5, generator)
    first, second = torch.eye(2, dtype=torch.float64)
    for name, old, new in (("random", p, q), ("p = q", p, p), ("nothing in common", first, second)):
        joint = function(old, new)
        square = isinstance(joint, Tensor) and joint.shape == (len(old), len(new))
        _compare(f"{name}, joint", joint, joint.clamp(min=0.0) if square else old[:, None] * new)
        _compare(f"{name}, probabilities of a", joint.sum(1), old)
        _compare(f"{name}, probabilities of b", joint.sum(0), new)
        _compare(f"{name}, probabilities of a = b", joint.diagonal(), torch.minimum(old, new))


def check_conjugate_gradient(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(product, target, iterations)` is conjugate gradient from a start at 0."""
    generator = Generator().manual_seed(0)
    for n, iterations in ((1, 1), (6, 6), (30, 5), (6, 9)):
        basis, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
        matrix = basis @ torch.diag(torch.linspace(1.0, 20.0, n, dtype=torch.float64)) @ basis.T
        target = torch.randn(n, generator=generator, dtype=torch.float64)
        products: list[Tensor] = []

        def product(vector: Tensor, matrix: Tensor = matrix, products: list[Tensor] = products) -> Tensor:
            products.append(vector)
            return matrix @ vector

        got = function(product, target, iterations)
        if len(products) > iterations:
            raise AssertionError(f"n = {n}: wanted at most {iterations} products; got {len(products)}")
        wanted = conjugate_gradient(lambda v, m=matrix: m @ v, target, iterations, tolerance=0.0)
        _compare(f"n = {n}, iterations = {iterations}", got, wanted, atol=1e-8)
    zero = torch.zeros(3, dtype=torch.float64)
    _compare("target 0", function(lambda v: v, zero, 3), zero)


def check_fisher_product(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(score, vector, damping)` is (mean of score score^T + damping) vector."""
    generator = Generator().manual_seed(0)
    for rows, n, damping in ((1, 3, 0.0), (50, 4, 0.0), (50, 4, 0.3)):
        score = torch.randn(rows, n, generator=generator, dtype=torch.float64)
        vector = torch.randn(n, generator=generator, dtype=torch.float64)
        fisher = sum(torch.outer(row, row) for row in score) / rows
        wanted = fisher @ vector + damping * vector
        _compare(f"N = {rows}, n = {n}, damping = {damping}", function(score, vector, damping), wanted)
    wide = torch.ones(2, 100_000, dtype=torch.float64)  # an n by n matrix of these would need 80 GB
    _compare("N = 2, n = 100 000", function(wide, wide[0], 0.0)[:2], torch.full((2,), 1e5, dtype=torch.float64))


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
            _compare(f"{name}, {dtype}", function(x), x.double().logsumexp(-1), atol)
    nothing = function(torch.full((2, 3), -torch.inf))
    if not isinstance(nothing, Tensor) or nothing.tolist() != [-torch.inf, -torch.inf]:
        raise AssertionError(f"-inf everywhere: wanted -inf for each row; got {nothing}")
