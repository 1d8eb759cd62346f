"""E-steps and multipliers: numbers by hand, optima by brute force, and the extremes at which float32 gives out."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from minerva_lite.formulas import duals
from tests.living import vector

F64, F32 = torch.float64, torch.float32
# At 1e4 float32 steps by 2^-10: the first two differ by one step, 0.98 temperatures of 1e-3; the third is far below.
NEIGHBORS = [1e4, 1e4 - 2**-10, -1e4]
NEAR = math.exp(-(2**-10) / 1e-3)
SCALES = [1e-3, 1.0, 1e2, 1e4]  # of Q and of advantages
TEMPERATURES = [1e-6, 1e-4, 1e-2, 1.0, 1e3]


def column(*numbers: float, dtype=F64) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype).unsqueeze(-1)


def flags(*ones: int) -> torch.Tensor:
    return torch.tensor(ones, dtype=torch.bool)


def uniform(n: int, b: int, dtype=F64) -> torch.Tensor:
    return torch.full((n, b), -math.log(n), dtype=dtype)


def slope(loss, at: float, dtype=F64) -> float:
    """d loss / d x at x."""
    x = torch.tensor(at, dtype=dtype, requires_grad=True)
    return torch.autograd.grad(loss(x), x)[0].item()


def kl(weights: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    """sum q log(q / p) over the first axis, in float64."""
    weights, prior = weights.double(), prior.double()
    return torch.where(weights > 0, weights * (weights.log() - prior.log()), 0.0).sum(0)


# Multipliers and their raw parameters


@pytest.mark.parametrize("value", [3e-8, 1e-6, 1e-3, 0.1, 1.0, 5.0, 1e3, 1e4])
@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-9), (F32, 2e-6)])
def test_a_multiplier_starts_at_its_value(value, dtype, tolerance):
    raw = torch.tensor(duals.raw_of(value), dtype=dtype)
    assert duals.positive(raw).item() == pytest.approx(value, rel=tolerance)
    assert raw >= duals.RAW_MIN, "projecting does not move a start"


def test_a_projected_multiplier_comes_back():
    """Far below -18 the slope of softplus is 0 in float32: a multiplier that slid there would stay there for ever."""
    raw = torch.nn.Parameter(torch.tensor([-120.0, -18.0, -17.0, 3.0]))
    (gradient,) = torch.autograd.grad(duals.positive(raw).sum(), raw)
    assert gradient[0] == 0
    duals.project_raw(raw.data)
    assert raw.tolist() == [-18.0, -18.0, -17.0, 3.0]
    (gradient,) = torch.autograd.grad(duals.positive(raw).sum(), raw)
    torch.testing.assert_close(gradient, raw.detach().sigmoid())
    assert (gradient > 0).all()


# The E-step of MPO


def test_estep_weights_by_hand():
    """Odds are prior odds times exp(Q / eta); float32 tells neighbors at 1e4 apart because the maximum goes first."""
    got = duals.estep_weights(column(0.0, 2 * math.log(3)), uniform(2, 1), vector(2.0)[0])
    assert got.flatten().tolist() == pytest.approx([1 / 4, 3 / 4], abs=1e-15)
    got = duals.estep_weights(column(*NEIGHBORS, dtype=F32), uniform(3, 1, F32), torch.tensor(1e-3))
    assert got.flatten().tolist() == pytest.approx([1 / (1 + NEAR), NEAR / (1 + NEAR), 0.0], rel=1e-5)


def test_temperature_loss_by_hand():
    """Its slope is eps - KL, at neighbors in float32 too."""
    q_value, weights = column(*NEIGHBORS, dtype=F32), vector(1 / (1 + NEAR), NEAR / (1 + NEAR), 0.0)
    wanted = 0.1 - kl(weights, vector(1 / 3, 1 / 3, 1 / 3)).item()
    got = slope(lambda eta: duals.temperature_loss(q_value, uniform(3, 1, F32), eta, 0.1), 1e-3, F32)
    assert got == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_estep_at_its_duals_minimum_is_the_best_within_the_bound(seed, eps):
    """No duality gap: the weights keep the bound, and earn what the dual says; no other weights can earn more."""
    g = torch.Generator().manual_seed(seed)
    q_value, prior = torch.randn(4, generator=g, dtype=F64), torch.randn(4, generator=g, dtype=F64).softmax(0)
    both = q_value.unsqueeze(1), prior.log().unsqueeze(1)
    loss = partial(duals.temperature_loss, *both, eps_eta=eps)
    # Where the slope of the convex dual changes its sign.
    eta = torch.tensor(brentq(lambda eta: slope(loss, eta), 1e-4, 1e4, xtol=1e-14), dtype=F64)
    weights = duals.estep_weights(*both, eta)
    assert duals.weights_kl(weights, both[1]).item() == pytest.approx(eps, abs=1e-9), "the constraint binds"
    earned = (weights[:, 0] * q_value).sum().item()
    assert loss(eta).item() == pytest.approx(earned, abs=1e-9)


def hard_values(scale: float, n: int = 16, b: int = 64) -> torch.Tensor:
    """float32 values of this size: random ones, ties at the top, neighbors one step apart, all equal."""
    g = torch.Generator().manual_seed(0)
    values = (scale * (2 * torch.rand(n, b, generator=g) - 1)).float()
    values[:2, 0] = scale  # two share the maximum
    values[0, 1], values[1, 1] = scale, torch.tensor(scale).nextafter(torch.tensor(0.0))
    values[:, 2] = scale
    values[0, 3], values[1:, 3] = scale, -scale
    return values


def check_slope(got: float, eps: float, realized: float, raw: torch.Tensor, tolerance: float) -> None:
    """(bound - realized divergence) times the slope of softplus. What cancels in the bracket cannot come back."""
    scale = torch.sigmoid(raw.double()).item()
    assert got == pytest.approx((eps - realized) * scale, rel=tolerance, abs=tolerance * scale * max(1.0, realized))


@pytest.mark.parametrize("eta", TEMPERATURES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(F32, 1e-5), (F64, 1e-9)])
def test_the_slope_of_the_estep_dual_is_the_bound_less_the_realized_kl(scale, eta, finite, dtype, tolerance):
    """To the uniform prior of samples, or to the one that a finite set of actions has."""
    log_prior = uniform(16, 64, F64)
    if finite:
        log_prior = (3 * torch.randn(16, 64, generator=torch.Generator().manual_seed(0), dtype=F64)).log_softmax(0)
    q_value, log_prior = hard_values(scale).to(dtype), log_prior.to(dtype)
    raw = torch.tensor(duals.raw_of(eta), dtype=dtype, requires_grad=True)
    duals.temperature_loss(q_value, log_prior, duals.positive(raw), 0.1).backward()
    exact = (q_value.double() - q_value.double().max(0).values) / duals.positive(raw.detach()).double()
    exact = (log_prior.double() + exact).softmax(0)
    realized = kl(exact, log_prior.double().exp()).mean().item()
    check_slope(raw.grad.item(), 0.1, realized, raw.detach(), tolerance)
    weights = duals.estep_weights(q_value, log_prior, duals.positive(raw))
    assert weights.dtype == dtype and weights.isfinite().all() and (weights >= 0).all()
    assert (weights.double().sum(0) - 1).abs().max() < 1e-6
    torch.testing.assert_close(weights.double(), exact, rtol=0, atol=2e-6)
    said = duals.weights_kl(weights, log_prior).mean().item()
    assert said == pytest.approx(realized, rel=tolerance, abs=tolerance)


# Multipliers of the M-step


def test_multiplier_loss_by_hand():
    """2 (0.1 - 0.4) + 3 (0.1 - 0.05); slope bound - KL of each; none into the KL."""
    alpha, part = vector(2.0, 3.0).requires_grad_(), vector(0.4, 0.05).requires_grad_()
    loss = duals.multiplier_loss(alpha, part, 0.1)
    assert loss.item() == pytest.approx(-0.45, abs=1e-15)
    loss.backward()
    assert alpha.grad.tolist() == pytest.approx([-0.3, 0.05], abs=1e-15) and part.grad is None


# V-MPO


def test_top_k_mask_by_hand():
    """Half of four eligible are two, whatever the fifth has; ties go to the lower index."""
    advantage = vector(1.0, 9.0, 3.0, 3.0, 3.0)
    eligible = flags(1, 0, 1, 1, 1)
    assert duals.top_k_mask(advantage, eligible, 0.5).tolist() == [False, False, True, True, False]
    assert duals.top_k_mask(advantage, eligible, 0.5).dtype == torch.bool
    assert duals.top_k_mask(advantage, eligible, 0.25).tolist() == [False, False, True, False, False]
    assert duals.top_k_mask(advantage, eligible, 1.0).tolist() == eligible.tolist()


@given(st.integers(0, 2**31), st.integers(1, 60), st.floats(0.01, 1.0), st.integers(1, 4))
def test_top_k_keeps_exactly_k_and_the_best_of_them(seed, n, fraction, levels):
    """Few levels, so that ties stand at the threshold nearly always."""
    g = torch.Generator().manual_seed(seed)
    advantage = torch.randint(levels, (n,), generator=g).float()
    eligible = torch.rand(n, generator=g) < 0.7
    k = math.floor(fraction * int(eligible.sum()) + 1e-9)
    if k < 1:
        with pytest.raises(
            ValueError, match=r"^top_k_frac: wanted one that keeps at least one sample; .* eligible samples is none"
        ):
            duals.top_k_mask(advantage, eligible, fraction)
        return
    kept = duals.top_k_mask(advantage, eligible, fraction)
    ranking = sorted((i for i in range(n) if eligible[i]), key=lambda i: (-advantage[i].item(), i))
    assert kept.nonzero().flatten().tolist() == sorted(ranking[:k])


@pytest.mark.parametrize("eta", TEMPERATURES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("off_policy", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(F32, 2e-5), (F64, 1e-9)])
def test_vmpo_at_the_extremes(scale, eta, off_policy, dtype, tolerance):
    """Weights finite, of sum 1, 0 where not kept; the dual's slope is the bound less KL(psi || w over its sum)."""
    # Ties and neighbors, half of them kept; unkept ones that are far above, or not finite.
    advantage = hard_values(scale, 64, 4)[:, 1].to(dtype, copy=True)
    mask = duals.top_k_mask(advantage, torch.arange(64) % 5 != 0, 0.5)
    advantage[(~mask).nonzero()[:2, 0]] = torch.tensor([1e30, torch.inf], dtype=dtype)
    log_w = torch.randn(64, generator=torch.Generator().manual_seed(1)).to(dtype) * off_policy
    raw = torch.tensor(duals.raw_of(eta), dtype=dtype, requires_grad=True)
    psi = duals.vmpo_weights(advantage, mask, log_w, duals.positive(raw))
    assert psi.dtype == dtype and psi.isfinite().all() and (psi >= 0).all() and not psi[~mask].any()
    assert abs(psi.double().sum().item() - 1) < 1e-6
    kept, prior = advantage[mask].double(), log_w[mask].double()
    exact = ((kept - kept.max()) / duals.positive(raw.detach()).double() + prior).softmax(0)
    torch.testing.assert_close(psi[mask].double(), exact, rtol=0, atol=2e-6)
    duals.vmpo_temperature_loss(advantage, mask, log_w, duals.positive(raw), 0.05).backward()
    check_slope(raw.grad.item(), 0.05, kl(exact, prior.softmax(0)).item(), raw.detach(), tolerance)


@pytest.mark.parametrize("height", [60.0, 1e4])
@pytest.mark.parametrize("normalizer", ["weights", "count"])
def test_an_unkept_sample_far_above_costs_the_kept_no_digit_in_float32(height, normalizer):
    """Whatever it is, to the bit: subtracted from the kept before the largest of them, it would leave few of their digits.

    In float64 so many are left that a maximum over all samples would pass for the one over the kept.
    """
    g = torch.Generator().manual_seed(0)
    advantage, log_w = torch.randn(2, 16, generator=g)
    log_w = 0.3 * log_w
    eligible = torch.arange(16) != 5

    def answers(above: float, dtype=F32):
        values = advantage.clone().to(dtype)
        values[5] = above
        mask = duals.top_k_mask(values, eligible, 0.5)
        raw = torch.tensor(duals.raw_of(0.25), dtype=dtype, requires_grad=True)
        loss = duals.vmpo_temperature_loss(values, mask, log_w.to(dtype), duals.positive(raw), 0.1, normalizer)
        loss.backward()
        psi = duals.vmpo_weights(values, mask, log_w.to(dtype), duals.positive(raw))
        return psi, loss.detach(), raw.grad

    alone, above = answers(-3.0), answers(height)
    assert alone[0].count_nonzero() == 7 and not alone[0][5]
    for one, other, exact in zip(alone, above, answers(-3.0, F64), strict=True):
        assert torch.equal(one, other)
        torch.testing.assert_close(other.double(), exact, rtol=1e-6, atol=5e-7)
