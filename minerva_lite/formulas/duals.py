"""E-steps and Lagrange multipliers of MPO and V-MPO.

Functions take a multiplier by its value. The agent holds its raw parameter, the input of a softplus, and an optimizer
moves that.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checks import can_ask, require_bool, require_one_of, require_positive, require_same_shape, require_shape, wide

FLOOR = 1e-8  # added to the softplus; with RAW_MIN it keeps every multiplier at 2.5e-8 or above
RAW_MIN = -18.0  # softplus(-18) = 1.5e-8; below it the slope is smaller than what Adam by default adds to its divisor


def positive(raw: Tensor) -> Tensor:
    r"""The multiplier that belongs to a raw parameter: above 0, same shape, differentiable."""
    # LaTeX: \eta = \operatorname{softplus}(\tilde{\eta}) + 10^{-8}
    return F.softplus(raw) + FLOOR


def raw_of(value: float) -> float:
    r"""The raw parameter whose multiplier is `value`: the inverse of `positive`.

    Raises ValueError: the value is not above 1e-8, or so small that its raw parameter lies below -18.
    """
    require_positive(value=value)
    if value <= FLOOR + math.log1p(math.exp(RAW_MIN)):
        raise ValueError(f"value: wanted a multiplier above {FLOOR + math.log1p(math.exp(RAW_MIN)):.1e}; got {value}")
    # LaTeX: y = \eta - 10^{-8}
    y = value - FLOOR
    # LaTeX: \tilde{\eta} = y + \log(1 - \exp(-y))
    return y + math.log(-math.expm1(-y))


@torch.no_grad()
def project_raw(raw: Tensor) -> None:
    """Raise a raw parameter below -18 to -18, in place. Call it after the optimizer's step, never inside the graph.

    Inside the graph a maximum has no gradient below its threshold, so a multiplier that fell below would stay there.
    """
    # LaTeX: \tilde{\eta}' = \max(\tilde{\eta}, -18)
    projected = raw.clamp(min=RAW_MIN)
    raw.copy_(projected)


def estep_weights(q_value: Tensor, log_prior: Tensor, eta: Tensor) -> Tensor:
    r"""MPO's improved distribution over the candidate actions of each state: [N, B], sums to 1 over N, detached.

    q_value: [N, B], return units. log_prior: [N, B] log-weight of each candidate before the reweighting, nats:
    -log N for N samples from the prior, log pi(a | s) where all N actions of a finite set are candidates.
    eta: scalar temperature, return units, above 0.

    Source: Abdolmaleki et al. 2018, arXiv:1806.06920, section 3.2. Book: eq. mpo-estep.
    Raises ValueError: shapes differ.
    """
    require_same_shape(q_value=q_value, log_prior=log_prior)
    with torch.no_grad():
        # The maximum goes first: in float32, Q / eta at Q = 1e4 and eta = 1e-6 has lost every digit that matters.
        # LaTeX: c_b = \max_i Q_{ib}
        best = q_value.max(0).values
        # LaTeX: q_{ib} = \operatorname{softmax}_i\left( \log p_{ib} + \frac{Q_{ib} - c_b}{\eta} \right)
        return (log_prior + (q_value - best) / eta).softmax(0)


def temperature_loss(q_value: Tensor, log_prior: Tensor, eta: Tensor, eps_eta: float) -> Tensor:
    r"""MPO's dual of the E-step, to be minimized over eta: scalar, return units, differentiable in eta.

    Its slope is eps_eta - mean_b KL(q_b || prior_b). Arguments as in `estep_weights`; eps_eta: nats, above 0.

    Source: Abdolmaleki et al. 2018, arXiv:1806.06920, section 3.2. Book: eq. mpo-dual.
    Raises ValueError: shapes differ or eps_eta is not above 0.
    """
    require_same_shape(q_value=q_value, log_prior=log_prior)
    require_positive(eps_eta=eps_eta)
    q_value, log_prior = q_value.detach(), log_prior.detach()
    # LaTeX: c_b = \max_i Q_{ib}
    best = q_value.max(0).values
    # LaTeX: \log Z_b = \operatorname{logsumexp}_i\left[ \log p_{ib} + \frac{Q_{ib} - c_b}{\eta} \right]
    log_normalizer = (log_prior + (q_value - best) / eta).logsumexp(0)
    # LaTeX: g = \operatorname{mean}_b c_b + \eta \left( \varepsilon_\eta + \operatorname{mean}_b \log Z_b \right)
    return best.mean() + eta * (eps_eta + log_normalizer.mean())


def weights_kl(weights: Tensor, log_prior: Tensor) -> Tensor:
    r"""KL(q || prior) of each state's weights: [B], nats, detached. Both [N, B].

    Raises ValueError: shapes differ.
    """
    require_same_shape(weights=weights, log_prior=log_prior)
    with torch.no_grad():
        # LaTeX: \mathrm{KL}_b = \sum_i \left[ q_{ib} \log q_{ib} - q_{ib} \log p_{ib} \right]
        return (torch.xlogy(weights, weights) - _times(weights, log_prior)).sum(0)


def multiplier_loss(alpha: Tensor, kl: Tensor, bound: float) -> Tensor:
    r"""Loss of one multiplier, or of one per dimension: scalar, differentiable in alpha alone.

    Its slope is bound - KL. So minimizing it raises the multiplier while the KL exceeds its bound, and lowers it while
    the KL is below.

    alpha and kl: [...], one KL per multiplier, nats. bound: nats, above 0.

    Source: Abdolmaleki et al. 2018, arXiv:1812.02256. Book: eq. mpo-multiplier.
    Raises ValueError: shapes differ or the bound is not above 0.
    """
    require_same_shape(kl=kl, alpha=alpha)
    require_positive(bound=bound)
    # LaTeX: L^\alpha = \sum_i \alpha_i \left( \varepsilon - \mathrm{sg}(\mathrm{KL}_i) \right)
    return (alpha * (bound - kl.detach())).sum()


def kl_price(alpha: Tensor, kl: Tensor) -> Tensor:
    r"""The term by which a KL enters the policy's loss: multiplier times KL, scalar, differentiable in the KL alone.

    alpha and kl: [...], as in `multiplier_loss`, which is the loss that moves the multiplier.
    Raises ValueError: shapes differ.
    """
    require_same_shape(kl=kl, alpha=alpha)
    # LaTeX: L^{\mathrm{KL}} = \sum_i \mathrm{sg}(\alpha_i)\, \mathrm{KL}_i
    return (alpha.detach() * kl).sum()


def top_k_mask(advantage: Tensor, eligible: Tensor, top_k_frac: float) -> Tensor:
    r"""The k = floor(kappa * n) best of n eligible samples: bool [n_all], exactly k true, ties to the lower index.

    advantage: [n_all]. eligible: [n_all] bool. top_k_frac: kappa in (0, 1].

    Source: Song et al. 2019, arXiv:1909.12238, section 3.2 (top half). Book: eq. vmpo-top-k.
    Raises ValueError: shapes differ, `eligible` is not bool, kappa outside (0, 1], or no sample would be kept.
    """
    require_shape((None,), advantage=advantage)
    require_same_shape(advantage=advantage, eligible=eligible)
    require_bool(eligible=eligible)
    if not 0.0 < top_k_frac <= 1.0:
        raise ValueError(f"top_k_frac: wanted a number in (0, 1]; got {top_k_frac}")
    # LaTeX: n = \sum_t w^{\mathrm{res}}_t
    count = eligible.sum()
    # The 1e-9 is there because 0.29 * 100 is 28.999999999999996 in floating point, and 29 samples are meant.
    # LaTeX: k = \left\lfloor \kappa n + 10^{-9} \right\rfloor
    k = (top_k_frac * wide(count) + 1e-9).floor()
    if can_ask(k) and k < 1:
        raise ValueError(
            f"top_k_frac: wanted one that keeps at least one sample; {top_k_frac} of {count} eligible samples is none"
        )
    order = advantage.masked_fill(~eligible, -torch.inf).sort(descending=True, stable=True).indices
    rank = torch.arange(len(order), device=order.device)
    # An eligible sample with advantage -inf would tie with the ineligible ones; the agent refuses such a batch before.
    # LaTeX: m_t = \mathbf{1}\left[ t \in \mathrm{top}_k(A_t + \log w^{\mathrm{res}}_t) \right]
    return torch.empty_like(eligible).scatter(0, order, rank < k)


def vmpo_weights(advantage: Tensor, mask: Tensor, log_importance: Tensor, eta: Tensor) -> Tensor:
    r"""V-MPO's posterior over the kept samples: [n], sums to 1, 0 where not kept, detached.

    advantage: [n]. mask: [n] bool, the kept ones. log_importance: [n] log importance weight, nats, 0 on-policy.
    eta: scalar temperature, advantage units, above 0.

    Source: Song et al. 2019, arXiv:1909.12238. Book: eq. vmpo-weights.
    Raises ValueError: shapes differ, the mask is not bool, or it keeps no sample.
    """
    with torch.no_grad():
        logits, _ = _kept_logits(advantage, mask, log_importance, eta)
        # LaTeX: \psi_t = \operatorname{softmax}_t \ell_t
        return logits.softmax(0)


def vmpo_temperature_loss(
    advantage: Tensor, mask: Tensor, log_importance: Tensor, eta: Tensor, eps_eta: float, normalizer: str = "weights"
) -> Tensor:
    r"""V-MPO's dual of the E-step, to be minimized over eta: scalar, advantage units, differentiable in eta.

    Its slope is eps_eta - KL(psi || w / sum of w), both over the kept samples. Arguments as in `vmpo_weights`; eps_eta:
    nats, above 0. normalizer: what is subtracted from the log-sum. "weights" subtracts the log of the sum of w over the
    kept samples. "count" subtracts log k, as the paper prints it; this adds the log of the mean w of the kept samples
    to the slope. Both are the same when every w is 1. With "count" the loss is unbounded below as soon as the mean w
    of the kept samples is under exp(-eps_eta).

    Source: Song et al. 2019, arXiv:1909.12238. Book: eq. vmpo-dual.
    Raises ValueError: shapes differ, the mask is not bool or keeps no sample, an unknown normalizer, or eps_eta is not
    above 0.
    """
    require_positive(eps_eta=eps_eta)
    require_one_of(("weights", "count"), normalizer=normalizer)
    logits, best = _kept_logits(advantage, mask, log_importance, eta)
    if normalizer == "weights":
        # LaTeX: \log W = \operatorname{logsumexp}_t \left[ \log w_t + \log m_t \right]
        total = log_importance.detach().masked_fill(~mask, -torch.inf).logsumexp(0)
    else:
        # LaTeX: \log W = \log \left( \sum_t m_t \right)
        total = mask.sum().to(logits.dtype).log()
    # LaTeX: g = c + \eta \left( \varepsilon_\eta + \operatorname{logsumexp}_t \ell_t - \log W \right)
    return best + eta * (eps_eta + logits.logsumexp(0) - total)


def exponential_weights(advantage: Tensor, eta: float, max_weight: float) -> Tensor:
    r"""Weights of recorded actions for regression, exp(A / eta), cut off at max_weight: [...], no unit, not normalized.

    advantage: [...], less a value of the state, or rows are weighted by how good their state was. eta: temperature,
    in units of the advantage, above 0. max_weight: above 0; infinity cuts nothing off.

    Source: Peng et al. 2019, arXiv:1910.00177, section 3; Wang et al. 2018 (MARWIL). Book: eq. relatives-weights.
    Raises ValueError: eta or max_weight is not above 0.
    """
    require_positive(eta=eta)
    if not max_weight > 0:
        raise ValueError(f"max_weight: wanted a number above 0, or infinity; got {max_weight}")
    # LaTeX: w_t = \exp\left(\min\left(A_t / \eta, \log w_{\max}\right)\right)
    return (advantage / eta).clamp(max=math.log(max_weight)).exp()


def _kept_logits(advantage: Tensor, mask: Tensor, log_importance: Tensor, eta: Tensor) -> tuple[Tensor, Tensor]:
    """(A - c) / eta + log w of the kept samples, -inf elsewhere: [n]; and c, the largest advantage kept."""
    require_same_shape(advantage=advantage, mask=mask, log_importance=log_importance)
    require_bool(mask=mask)
    if can_ask(mask) and not bool(mask.any()):
        raise ValueError("mask: wanted at least one sample kept; got none")
    advantage, log_importance = advantage.detach(), log_importance.detach()
    # The maximum is taken over the kept samples only: a sample far above them that is not kept would make the
    # exponentials of all kept ones underflow.
    # LaTeX: c = \max_t \left[ A_t + \log m_t \right]
    best = advantage.masked_fill(~mask, -torch.inf).max()
    # The fill comes before the division, because an infinity divided by eta would turn the gradient of eta into NaN.
    scaled = (advantage - best).masked_fill(~mask, 0.0) / eta
    # LaTeX: \ell_t = \frac{A_t - c}{\eta} + \log w_t + \log m_t
    logits = (scaled + log_importance).masked_fill(~mask, -torch.inf)
    return logits, best


def _times(weights: Tensor, log_prior: Tensor) -> Tensor:
    """weights * log_prior; 0 where the weight is 0, even if the prior is 0 there and its logarithm -inf."""
    return (weights * log_prior).masked_fill(weights == 0, 0.0)
