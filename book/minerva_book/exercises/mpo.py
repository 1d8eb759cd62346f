"""MPO and Retrace: what chapters 6 to 6c ask for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from minerva_lite.formulas.distributions import gaussian_kl_mean_std
from minerva_lite.formulas.duals import estep_weights, temperature_loss, weights_kl
from minerva_lite.formulas.returns import retrace_targets
from minerva_lite.worlds.tabular import random_policy

from .answers import compare


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
            compare(f"{name}, {dtype}", got, wanted, atol)


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
        compare(f"N = {actions}, B = {states}, Q of size {scale:g}: the mean KL", got, wanted, 1e-6)


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
        compare(f"N = {actions}, B = {states}, eta = {eta}", function(q_value, log_prior, at), wanted, 1e-8)


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
        compare(name, function(action, weights, mean_old, std_old, eps_mean), wanted)


def check_bounded_fit(function: Callable[..., tuple[Tensor, Tensor]]) -> None:
    """Raise AssertionError unless `function(action, weights, mean_old, std_old, eps_mean, eps_std)` is the best M-step.

    Arguments as in `check_bounded_mean`, and a bound on the std's part of the KL. The answer is mean [D] and std [D].
    """
    check_bounded_mean(lambda *arguments: function(*arguments, 1e-3)[0])
    mean_old, std_old = torch.randn(2, 4, generator=Generator().manual_seed(0), dtype=torch.float64)
    std_old, std = std_old.exp(), torch.tensor([0.1, 0.99, 1.02, 90.0], dtype=torch.float64)
    for eps_std in (1e-3, 0.3, 3.0):
        action, weights = mean_old + std_old * std * torch.tensor([[1.0], [-1.0], [1.0]]), torch.tensor([1.0, 1.0, 2.0])
        got = function(action, weights.double(), mean_old, std_old, 0.01, eps_std)[1]
        compare(f"eps_std = {eps_std}, whether the std is wider", (got > std_old).double(), (std > 1.0).double())
        asked = gaussian_kl_mean_std(mean_old, std_old, mean_old, std_old * std)[1]
        kl = gaussian_kl_mean_std(mean_old, std_old, mean_old, got)[1]
        compare(f"eps_std = {eps_std}, the KL of the std", kl, asked.clamp(max=eps_std), 1e-8)


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
        compare(f"T = {steps}, gamma = {gamma}, lam = {lam}", function(*arguments, gamma=gamma, lam=lam), wanted)


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
        compare(f"T = {steps}, gamma = {gamma}, caps {ratio_cap} and {trace_cap}", got, wanted)
