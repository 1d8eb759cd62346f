"""Scalar losses, and the terms of single samples that they average. A loss is minimized, an objective maximized."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import require_positive, require_same_shape


def policy_gradient_loss(log_prob: Tensor, advantage: Tensor) -> Tensor:
    r"""Scalar whose gradient is minus the sampled policy gradient. Both [...]; no gradient enters `advantage`.

    Source: Williams 1992. Book: eq. ac-policy-loss. Raises ValueError: shapes differ.
    """
    require_same_shape(log_prob=log_prob, advantage=advantage)
    # LaTeX: L^{\mathrm{PG}} = -\operatorname{mean}_t \left[ \mathrm{sg}(A_t) \log \pi_\theta(a_t \mid s_t) \right]
    return -(advantage.detach() * log_prob).mean()


def importance_surrogate(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    r"""TRPO's surrogate by importance sampling, to be maximized: scalar, advantage units.

    log_ratio: log pi_theta - log pi_b at a_t, [...], nats, attached to theta. advantage: [...]; no gradient enters it.

    Source: Schulman et al. 2015, arXiv:1502.05477, eq. 14. Book: eq. trpo-surrogate. Raises ValueError: shapes differ.
    """
    require_same_shape(log_ratio=log_ratio, advantage=advantage)
    # LaTeX: \hat{L} = \operatorname{mean}_t \left[ \exp(\log \rho_t)\, \mathrm{sg}(A_t) \right]
    return (log_ratio.exp() * advantage.detach()).mean()


def vine_surrogate(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    r"""Vine sampling's self-normalized surrogate, to be maximized: scalar, advantage units.

    log_ratio: log pi_theta - log q of the K actions tried in each of N states, [N, K], nats; for an enumerated
    action set log q is 0. advantage: [N, K]; no gradient enters it, and a constant added to a state's row changes none.

    Source: Schulman et al. 2015, arXiv:1502.05477, section 5.2. Book: eq. vine-surrogate.
    Raises ValueError: shapes differ.
    """
    require_same_shape(log_ratio=log_ratio, advantage=advantage)
    # LaTeX: w_{nk} = \frac{\exp(\log \rho_{nk})}{\sum_j \exp(\log \rho_{nj})}
    weights = log_ratio.softmax(1)
    # LaTeX: \hat{L} = \operatorname{mean}_n \sum_k w_{nk}\, \mathrm{sg}(A_{nk})
    return (weights * advantage.detach()).sum(1).mean()


def ppo_clip_objective(log_ratio: Tensor, advantage: Tensor, clip_eps: float) -> Tensor:
    r"""PPO's clipped surrogate of each sample, to be maximized: [...], advantage units.

    log_ratio: log pi_theta - log pi_b at a_t, [...], nats. advantage: [...], not detached here: pass it without a
    gradient. clip_eps: above 0.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7. Book: eq. ppo-clip.
    Raises ValueError: shapes differ or clip_eps is not above 0.
    """
    require_same_shape(log_ratio=log_ratio, advantage=advantage)
    require_positive(clip_eps=clip_eps)
    # LaTeX: \rho_t = \exp(\log \rho_t)
    ratio = log_ratio.exp()
    # LaTeX: \bar{\rho}_t = \operatorname{clip}\left(\rho_t, 1 - \varepsilon_{\mathrm{clip}}, 1 + \varepsilon_{\mathrm{clip}}\right)
    clipped_ratio = ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps)
    # LaTeX: L_t = \min\left(\rho_t A_t, \bar{\rho}_t A_t\right)
    return torch.minimum(ratio * advantage, clipped_ratio * advantage)


def ppo_clip_loss(log_ratio: Tensor, advantage: Tensor, clip_eps: float) -> Tensor:
    r"""Scalar loss of PPO's clipped surrogate. Arguments and errors as in `ppo_clip_objective`.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7. Book: eq. ppo-clip.
    """
    # LaTeX: L_t = \min\left(\rho_t A_t, \operatorname{clip}(\rho_t, 1 - \varepsilon_{\mathrm{clip}}, 1 + \varepsilon_{\mathrm{clip}}) A_t\right)
    objective = ppo_clip_objective(log_ratio, advantage, clip_eps)
    # LaTeX: L^{\mathrm{clip}} = -\operatorname{mean}_t L_t
    return -objective.mean()


def ppo_clip_fraction(log_ratio: Tensor, clip_eps: float) -> Tensor:
    r"""Fraction of samples whose ratio lies outside [1 - eps, 1 + eps]: scalar in [0, 1], detached.

    Not every one of them has a zero gradient, because clipping acts only on the side that the advantage favors.
    Raises ValueError: clip_eps is not above 0.
    """
    require_positive(clip_eps=clip_eps)
    # LaTeX: \rho_t - 1 = \exp(\log \rho_t) - 1
    excess = torch.expm1(log_ratio.detach())
    # LaTeX: f = \operatorname{mean}_t \mathbf{1}\left[ \lvert \rho_t - 1 \rvert > \varepsilon_{\mathrm{clip}} \right]
    return (excess.abs() > clip_eps).to(log_ratio.dtype).mean()


def kl_penalty_loss(log_ratio: Tensor, advantage: Tensor, kl: Tensor, kl_penalty: float) -> Tensor:
    r"""Scalar loss of PPO's penalized surrogate. All tensors [...]; kl is KL(old || new) of each state, nats.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 8. Book: eq. ppo-penalty.
    Raises ValueError: shapes differ.
    """
    require_same_shape(log_ratio=log_ratio, advantage=advantage, kl=kl)
    # LaTeX: \rho_t = \exp(\log \rho_t)
    ratio = log_ratio.exp()
    # LaTeX: L^{\mathrm{pen}} = -\operatorname{mean}_t \left[ \rho_t A_t - \beta_{\mathrm{KL}}\, \mathrm{KL}_t \right]
    return -(ratio * advantage - kl_penalty * kl).mean()


def adapt_kl_penalty(kl_penalty: float, kl: float, kl_target: float) -> float:
    r"""The next penalty: doubled when the realized KL is over 1.5 targets, halved when under target / 1.5.

    Source: Schulman et al. 2017, arXiv:1707.06347, section 4. Book: eq. ppo-adapt.
    Raises ValueError: the penalty or the target is not above 0.
    """
    require_positive(kl_penalty=kl_penalty, kl_target=kl_target)
    # LaTeX: n = \mathbf{1}\left[ \mathrm{KL} > 1.5\, \delta_{\mathrm{KL}} \right] - \mathbf{1}\left[ 1.5\, \mathrm{KL} < \delta_{\mathrm{KL}} \right]
    direction = int(kl > 1.5 * kl_target) - int(1.5 * kl < kl_target)
    # LaTeX: \beta'_{\mathrm{KL}} = \beta_{\mathrm{KL}}\, 2^n
    return kl_penalty * 2.0**direction


def weighted_nll(log_prob: Tensor, weights: Tensor) -> Tensor:
    r"""Negative log-likelihood of weighted samples: scalar, nats. Minimizing it is the M-step of MPO and V-MPO.

    log_prob, weights: [N, B] (or [N] for one set of samples); no gradient enters the weights.

    Source: Abdolmaleki et al. 2018, arXiv:1806.06920, section 3.3. Book: eq. mpo-mstep.
    Raises ValueError: shapes differ.
    """
    require_same_shape(log_prob=log_prob, weights=weights)
    # LaTeX: L^\pi = -\operatorname{mean}_b \sum_i \mathrm{sg}(q_{ib}) \log \pi_{ib}
    return -(weights.detach() * log_prob).sum(0).mean()


def value_loss(value: Tensor, value_target: Tensor) -> Tensor:
    r"""Half the mean squared error of V(s_t) against its target, both [...]: scalar, squared return units.

    Raises ValueError: shapes differ.
    """
    require_same_shape(value=value, value_target=value_target)
    # LaTeX: L^V = \tfrac{1}{2}\, \operatorname{mean}_t \left[ (V(s_t) - R_t)^2 \right]
    return 0.5 * (value - value_target).square().mean()


def clipped_value_loss(value: Tensor, value_old: Tensor, value_target: Tensor, clip_range: float) -> Tensor:
    r"""Value loss without a gradient for a V(s_t) that left the range around its old value toward its target: scalar.

    It counts as that if V is nearer to the target than the edge of the range that it crossed; otherwise the gradient
    remains. All [...]; clip_range is in return units, so a good one depends on the scale of the rewards.

    Source: the PPO2 code of OpenAI baselines; not in the paper. Book: eq. value-clip.
    Raises ValueError: shapes differ or clip_range is not above 0.
    """
    require_same_shape(value=value, value_old=value_old, value_target=value_target)
    require_positive(clip_range=clip_range)
    # LaTeX: \bar{V}_t = V_{\mathrm{old}}(s_t) + \operatorname{clip}\left(V(s_t) - V_{\mathrm{old}}(s_t), -\varepsilon_V, \varepsilon_V\right)
    clipped = value_old + (value - value_old).clamp(-clip_range, clip_range)
    # LaTeX: m_t = \max\left( (V(s_t) - R_t)^2, (\bar{V}_t - R_t)^2 \right)
    worst = torch.maximum((value - value_target).square(), (clipped - value_target).square())
    # LaTeX: L^V = \tfrac{1}{2}\, \operatorname{mean}_t m_t
    return 0.5 * worst.mean()


def rounding_alone(spread: Tensor, size: Tensor, eps: float) -> Tensor:
    r"""Whether equal numbers of this size could be so far apart by rounding; all 0-d, the answer bool.

    eps: the spacing of numbers at 1, `torch.finfo(dtype).eps`.
    """
    # LaTeX: \mathrm{alone} = \mathbf{1}\left[ s \le 64\, \epsilon\, m \right]
    return spread <= 64.0 * eps * size


def normalize_advantage(advantage: Tensor, eps: float = 1e-8) -> Tensor:
    r"""Advantages shifted to mean 0 and scaled to population standard deviation 1: [...], no unit.

    Where only rounding tells them apart, all are 0.
    Raises ValueError: fewer than two advantages, which have no spread.
    """
    if advantage.numel() < 2:
        raise ValueError(f"advantage: wanted at least 2 entries to normalize; got {advantage.numel()}")
    # LaTeX: c_t = A_t - \operatorname{mean}_t A_t
    centered = advantage - advantage.mean()
    alone = rounding_alone(centered.abs().max(), advantage.abs().max(), torch.finfo(advantage.dtype).eps)
    centered = centered.masked_fill(alone, 0.0)
    # LaTeX: \hat{A}_t = \frac{c_t}{\sqrt{\operatorname{mean}_t c_t^2} + \varepsilon}
    return centered / (centered.square().mean().sqrt() + eps)
