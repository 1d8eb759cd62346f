"""Checks for the exercises: they say which entry is wrong and by how much, not how to mend it (floor 9)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from .duals import estep_weights, temperature_loss, top_k_mask, weights_kl
from .returns import discounted_returns, gae, retrace_targets
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


def check_top_k(function: Callable[[Tensor, Tensor, float], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(advantage, eligible, kappa)` keeps the best floor(kappa n) of n eligible.

    advantage: [N] float64. eligible: [N] bool. Exactly k are kept, ties go to the lower index; the mask is bool [N].
    """
    generator = Generator().manual_seed(seed)
    everybody = torch.ones(100, dtype=torch.bool)
    score = torch.randn(100, generator=generator, dtype=torch.float64)
    some = torch.rand(100, generator=generator) < 0.6
    cases = {
        "no ties, everybody eligible": (score, everybody, 0.5),
        "no ties, 29 of 100": (score, everybody, 0.29),
        "no ties, some not eligible": (score.masked_fill(~some, 9.0), some, 0.5),
        "two values, many ties": ((score > -0.5).double(), everybody, 0.5),
        "all equal, some not eligible": (torch.full_like(score, -3.0), some, 0.3),
        "everybody kept": (score, some, 1.0),
    }
    for name, (advantage, eligible, kappa) in cases.items():
        got = function(advantage, eligible, kappa)
        wanted = top_k_mask(advantage, eligible, kappa)
        if not isinstance(got, Tensor) or got.dtype != torch.bool:
            raise AssertionError(f"{name}: wanted a bool tensor; got {getattr(got, 'dtype', type(got).__name__)}")
        if got.shape == wanted.shape and got.sum() != wanted.sum():
            raise AssertionError(f"{name}: wanted {int(wanted.sum())} kept; got {int(got.sum())}")
        _compare(name, got, wanted.double())


def check_vmpo_weights(function: Callable[[Tensor, Tensor, float], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(advantage, mask, eta)` gives V-MPO's weights [N], also in float32.

    advantage: [N]. mask: [N] bool, the kept samples. Weights sum to 1 and are 0 where nothing was kept.
    """
    generator = Generator().manual_seed(seed)
    spread = torch.randn(40, generator=generator, dtype=torch.float64)
    mask = torch.rand(40, generator=generator) < 0.5
    cases = {
        "ordinary": (spread, 1.0),
        "a large one that is not kept": (torch.where(mask, spread - 900.0, 0.0), 1.0),
        "advantages of 1e4": (1e4 * spread, 3.0),
        "temperature 1e-6": (spread, 1e-6),
        "advantages around -1e4": (spread - 1e4, 0.3),
    }
    for name, (advantage, eta) in cases.items():
        for dtype, atol in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
            rounded = advantage.to(dtype)
            logits = (rounded - rounded[mask].max()).double() / eta
            wanted = logits.masked_fill(~mask, -torch.inf).softmax(0)
            _compare(f"{name}, {dtype}", function(rounded, mask, eta), wanted, atol)


def check_retrace(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function` computes Retrace targets, called as `retrace_targets` is, [T, B] float64.

    The ratio of the first row is NaN: nothing may depend on it.
    """
    generator = Generator().manual_seed(seed)
    for steps, gamma, lam in ((1, 0.9, 0.8), (9, 0.9, 0.8), (9, 1.0, 1.0), (9, 0.97, 0.0)):
        reward, q_value, next_value, log_ratio = torch.randn(4, steps, 4, generator=generator, dtype=torch.float64)
        log_ratio[0] = torch.nan
        terminated, truncated = (torch.rand(2, steps, 4, generator=generator) < 0.2).unbind(0)
        arguments = (reward, q_value, next_value, log_ratio, terminated, truncated)
        wanted = retrace_targets(*arguments, gamma=gamma, lam=lam)
        _compare(f"T = {steps}, gamma = {gamma}, lam = {lam}", function(*arguments, gamma=gamma, lam=lam), wanted)


def check_vtrace(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function` computes V-trace targets of V(s_t), [T, B] float64.

    Called as `function(reward, value, next_value, log_ratio, terminated, truncated, gamma=, ratio_cap=, trace_cap=)`.
    """
    generator = Generator().manual_seed(seed)
    for steps, gamma, ratio_cap, trace_cap in ((1, 0.9, 1.0, 1.0), (9, 0.9, 1.0, 1.0), (9, 1.0, 2.0, 0.7)):
        reward, value, next_value, log_ratio = torch.randn(4, steps, 4, generator=generator, dtype=torch.float64)
        terminated, truncated = (torch.rand(2, steps, 4, generator=generator) < 0.2).unbind(0)
        td_error = reward + gamma * next_value.masked_fill(terminated, 0.0) - value
        wanted, ratio = value.clone(), log_ratio.exp()
        for t in range(steps):
            reach = torch.ones_like(value[0])
            for u in range(t, steps):
                wanted[t] += reach * ratio[u].clamp(max=ratio_cap) * td_error[u]
                reach = gamma * reach * ratio[u].clamp(max=trace_cap) * ~(terminated | truncated)[u]
        arguments = (reward, value, next_value, log_ratio, terminated, truncated)
        got = function(*arguments, gamma=gamma, ratio_cap=ratio_cap, trace_cap=trace_cap)
        _compare(f"T = {steps}, gamma = {gamma}, caps {ratio_cap} and {trace_cap}", got, wanted)


def check_estep(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError unless `function(q_value, log_prior, eta)` gives MPO's weights [N, B], in float32 too.

    q_value and log_prior: [N, B]. eta: a scalar tensor, above 0, down to 1e-6 beside values of 1e4.
    """
    cases = {
        "small numbers": ([[0.0, 1.0], [1.0, 1.0], [0.5, -2.0]], 0.7, 1e-6),
        "large numbers": ([[1e4, -1e4], [-1e4, 9999.0], [0.0, 1e4]], 1e-6, 1e-6),
        "a tie at the top": ([[1e4, 3.0], [1e4, 3.0], [-1e4, 3.0]], 1e-6, 1e-6),
    }
    for name, (numbers, eta, atol) in cases.items():
        for dtype in (torch.float32, torch.float64):
            q_value = torch.tensor(numbers, dtype=dtype)
            prior = torch.tensor([[0.5, 0.2], [0.25, 0.3], [0.25, 0.5]], dtype=dtype)
            got = function(q_value, prior.log(), torch.tensor(eta, dtype=dtype))
            wanted = estep_weights(q_value.double(), prior.double().log(), torch.tensor(eta, dtype=torch.float64))
            _compare(f"{name}, {dtype}", got, wanted, atol)


def check_binding_temperature(function: Callable[[Tensor, Tensor, float], Tensor]) -> None:
    """Raise AssertionError unless `function(q_value, log_prior, eps_eta)` is the temperature whose mean KL is eps_eta.

    q_value and log_prior: [N, B] float64, one temperature for all B states; the bound is one that can bind.
    """
    generator = Generator().manual_seed(0)
    for actions, states, scale, eps_eta in ((5, 1, 1.0, 0.1), (5, 8, 1.0, 0.5), (3, 4, 1e4, 0.1), (16, 2, 1e-3, 1.0)):
        q_value = scale * torch.randn(actions, states, generator=generator, dtype=torch.float64)
        log_prior = random_policy(states, actions, generator).T.log()
        eta = torch.as_tensor(function(q_value, log_prior, eps_eta))
        got = weights_kl(estep_weights(q_value, log_prior, eta), log_prior).mean() if eta.ndim == 0 and eta > 0 else eta
        wanted = torch.tensor(eps_eta, dtype=torch.float64)
        _compare(f"N = {actions}, B = {states}, Q of size {scale:g}: the mean KL", got, wanted, 1e-6)


def check_dual_curvature(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError unless `function(q_value, log_prior, eta)` is the dual's second derivative by eta, scalar.

    q_value and log_prior: [N, B] float64. eta: a scalar tensor, above 0.
    """
    generator = Generator().manual_seed(0)
    for actions, states, eta in ((2, 1, 1.0), (4, 6, 0.5), (4, 6, 3.0)):
        q_value = torch.randn(actions, states, generator=generator, dtype=torch.float64)
        log_prior = random_policy(states, actions, generator).T.log()
        at = torch.tensor(eta, dtype=torch.float64)
        wanted = torch.autograd.functional.hessian(lambda x, q=q_value, p=log_prior: temperature_loss(q, p, x, 0.1), at)
        _compare(f"N = {actions}, B = {states}, eta = {eta}", function(q_value, log_prior, at), wanted, 1e-8)


def check_bounded_mean(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(action, weights, mean_old, std_old, eps_mean)` is the M-step's best mean.

    action: [N, D]. weights: [N], above 0, not necessarily of sum 1. mean_old, std_old: [D]. eps_mean: bound on the
    mean's part of the KL of each dimension, nats. The answer is [D].
    """
    generator = Generator().manual_seed(0)
    for name, spread, total, eps_mean in (
        ("everything within the bound", 0.05, 1.0, 0.1),
        ("everything beyond the bound", 9.0, 1.0, 0.01),
        ("some dimensions beyond", 1.0, 1.0, 0.01),
        ("weights that sum to 2", 0.3, 2.0, 0.02),
    ):
        mean_old = torch.randn(4, generator=generator, dtype=torch.float64)
        std_old = torch.tensor([0.1, 0.5, 1.0, 3.0], dtype=torch.float64)
        shift = spread * torch.tensor([1.0, -0.6, 0.05, -1.5], dtype=torch.float64)
        noise = 0.01 * torch.randn(8, 4, generator=generator, dtype=torch.float64)
        action = mean_old + std_old * (shift + noise)
        weights = total * torch.rand(8, generator=generator, dtype=torch.float64).softmax(0)
        fit = (weights.unsqueeze(-1) * action).sum(0) / total
        reach = std_old * (2.0 * eps_mean) ** 0.5
        wanted = torch.maximum(torch.minimum(fit, mean_old + reach), mean_old - reach)
        _compare(name, function(action, weights, mean_old, std_old, eps_mean), wanted)


def check_mirror_step(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(policy, advantage, eta)` is policy * exp(advantage / eta), normalized.

    policy, advantage: [S, A] float64, the policy with zeros here and there; eta: a number above 0.
    """
    generator = Generator().manual_seed(seed)
    policy = random_policy(5, 4, generator)
    holes = policy.clone()
    holes[0, 1] = holes[3, 0] = 0.0
    holes = holes / holes.sum(-1, keepdim=True)
    draw = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    for name, old, advantage, eta in (
        ("plain", policy, draw, 0.7),
        ("zeros in the policy", holes, draw, 0.7),
        ("a huge advantage where the policy is zero", holes, draw + 1e6 * (holes == 0), 0.1),
        ("A = 1e4, eta = 1e-6", policy, 1e4 * draw, 1e-6),
    ):
        possible = torch.where(old > 0, advantage, -torch.inf)
        weight = old * ((possible - possible.max(-1, keepdim=True).values) / eta).exp()
        _compare(name, function(old, advantage, eta), weight / weight.sum(-1, keepdim=True))


def check_risk_worth(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(outcome, chance, eta)` is eta log E exp(outcome / eta), scalar float64."""
    half, coin = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.tensor([1.0, -1.0], dtype=torch.float64)
    uneven, never = torch.tensor([0.1, 0.9], dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    log_cosh = torch.tensor(1.0, dtype=torch.float64).cosh().log()
    for name, outcome, chance, eta, wanted in (
        ("a fair coin, eta = 1", coin, half, 1.0, log_cosh),
        ("a sure 0.2", torch.full_like(coin, 0.2), uneven, 0.3, torch.tensor(0.2, dtype=torch.float64)),
        ("uneven chances", coin, uneven, 2.0, 2.0 * (0.1 * (coin[0] / 2).exp() + 0.9 * (coin[1] / 2).exp()).log()),
        ("outcomes of 1000, eta = 0.001", 1000.0 * coin, uneven, 1e-3, 1000.0 + 1e-3 * uneven[0].log()),
        ("an outcome of chance 0", coin, never, 1e-3, coin[1]),
    ):
        _compare(name, function(outcome, chance, eta), wanted)
