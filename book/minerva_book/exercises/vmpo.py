"""V-MPO and its relatives: what chapters 7 to 7c ask for."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.distributions import Categorical

from minerva_lite.formulas.duals import kl_price, multiplier_loss, top_k_mask, vmpo_temperature_loss, vmpo_weights
from minerva_lite.worlds.tabular import random_policy

from .answers import Wrong, compare


def check_top_k(function: Callable[[Tensor, Tensor, float], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(advantage, eligible, kappa)` keeps the best floor(kappa n) of n eligible.

    advantage: [N] float64. eligible: [N] bool. Exactly k are kept, ties go to the lower index; the mask is bool [N].
    """
    generator = Generator().manual_seed(seed)
    every = torch.ones(100, dtype=torch.bool)
    score = torch.randn(100, generator=generator, dtype=torch.float64)
    some = torch.rand(100, generator=generator) < 0.6
    cases = {
        "no ties, all eligible": (score, every, 0.5),
        "no ties, 29 of 100": (score, every, 0.29),
        "no ties, some not eligible": (score.masked_fill(~some, 9.0), some, 0.5),
        "two values, many ties": ((score > -0.5).double(), every, 0.5),
        "all equal, some not eligible": (torch.full_like(score, -3.0), some, 0.3),
        "all eligible samples kept": (score, some, 1.0),
    }
    for name, (advantage, eligible, kappa) in cases.items():
        got = function(advantage, eligible, kappa)
        wanted = top_k_mask(advantage, eligible, kappa)
        if not isinstance(got, Tensor) or got.dtype != torch.bool:
            raise Wrong(f"{name}: wanted a bool tensor; got {getattr(got, 'dtype', type(got).__name__)}")
        if got.shape == wanted.shape and got.sum() != wanted.sum():
            raise Wrong(f"{name}: wanted {int(wanted.sum())} kept; got {int(got.sum())}")
        compare(name, got, wanted.double())


def check_refusing_temperature(function: Callable[..., float | None], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(A, mask, eps_eta)` is the temperature that spends eps_eta, or None.

    A: [N] float64. mask: [N] bool, the kept samples. None: no temperature spends as much.
    """
    A = torch.randn(64, generator=Generator().manual_seed(seed), dtype=torch.float64)
    best = top_k_mask(A, torch.ones_like(A, dtype=torch.bool), 0.5)
    tied = A.clamp(max=float(A.sort().values[-4]))  # four share the top
    for name, x, mask, eps_eta in (
        ("the best half", A, best, 0.2), ("the worst half", 1e4 * A, ~best, 0.1), ("small A", 1e-3 * A, best, 1.0),
        ("nearly log k", A, best, 3.4), ("more than log k", A, best, 3.5), ("all equal", 0.0 * A, best, 0.01),
        ("four at the top", tied, best, 2.0), ("four at the top", tied, best, 2.1),
    ):  # fmt: skip
        eta, gap = function(x, mask, eps_eta), x[mask] - x[mask].max()
        endless = math.log(len(gap) / int((gap == 0).sum())) <= eps_eta
        if endless is not (eta is None):
            raise Wrong(f"{name}, eps_eta = {eps_eta}: wanted {'None' if endless else 'a number'}; got {eta}")
        if eta is not None:
            spent = math.log(len(gap)) - Categorical(logits=gap / eta).entropy()
            compare(f"{name}, the KL at your temperature", spent, torch.tensor(eps_eta, dtype=torch.float64), 1e-6)


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
        compare(name, function(old, advantage, eta), weight / weight.sum(-1, keepdim=True))


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
        compare(name, function(outcome, chance, eta), wanted)


def check_batch_loss(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function` is V-MPO's loss of one batch without the critic, scalar, with its slopes.

    Called as `function(log_old, log_new, action, advantage, eta, alpha, kappa, eps_eta, eps)`: [N, A], [N, A], [N]
    int64, [N], two scalar tensors, three numbers.
    """
    generator = Generator().manual_seed(seed)
    old, new = (random_policy(40, 3, generator).log() for _ in range(2))
    action, A = torch.randint(3, (40,), generator=generator), torch.randn(40, generator=generator, dtype=torch.float64)
    eta, alpha, none = torch.tensor(0.7).double(), torch.tensor(2.0).double(), torch.zeros_like(A)
    leaves = [leaf.requires_grad_() for leaf in (new, eta, alpha)]
    for kappa, eps in ((0.5, 0.01), (1.0, 0.5)):
        kept, kl = top_k_mask(A, none == 0, kappa), (old.exp() * (old - new)).sum(1).mean()
        fit = -vmpo_weights(A, kept, none, eta) @ new[torch.arange(40), action]
        dual = vmpo_temperature_loss(A, kept, none, eta, 0.1)
        wanted = fit + dual + kl_price(alpha, kl) + multiplier_loss(alpha, kl, eps)
        loss = function(old, new, action, A, eta, alpha, kappa, 0.1, eps)
        compare(f"kappa = {kappa}, the loss", loss, wanted)
        slopes = (torch.autograd.grad(each, leaves, materialize_grads=True) for each in (loss, wanted))
        for name, slope, due in zip(("log_new", "eta", "alpha"), *slopes, strict=True):
            compare(f"kappa = {kappa}, the slope in {name}", slope, due)
