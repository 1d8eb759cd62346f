"""Preferences between two answers, and the best of n: what can be learned from rewards without a policy gradient.

The optimum of the regularized objective E r - beta KL(pi || pi_ref) is pi_ref exp(r / beta) / Z, which is MPO's E-step:
`estep_weights(reward, reference_log_prob, beta)`, with answers instead of actions. Solved for the reward, this reads
r = beta log(pi / pi_ref) + beta log Z, and a difference of two answers to one prompt does not know Z.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checks import can_ask, require_count, require_finite, require_positive, require_same_shape, require_shape


def bradley_terry_loss(score_chosen: Tensor, score_rejected: Tensor) -> Tensor:
    r"""Negative log-likelihood of the preferences, if scores decide them by a logistic function: scalar, nats.

    score_chosen, score_rejected: [B], nats, of two answers to one prompt each. What is added to all scores of a prompt
    changes nothing, so preferences determine a score only up to a constant for each prompt.

    Source: Bradley & Terry 1952; Christiano et al. 2017, arXiv:1706.03741. Raises ValueError: shapes differ.
    """
    require_same_shape(score_chosen=score_chosen, score_rejected=score_rejected)
    # LaTeX: L^{\mathrm{BT}} = -\operatorname{mean}_i \log(\operatorname{sigmoid}(f(y^+) - f(y^-)))
    return -F.logsigmoid(score_chosen - score_rejected).mean()


def dpo_loss(
    chosen: Tensor,  # [B]  log pi_theta of the preferred answers, nats
    rejected: Tensor,  # [B]  log pi_theta of the others, nats
    reference_chosen: Tensor,  # [B]  the same under the reference
    reference_rejected: Tensor,  # [B]
    beta: float,  # price of KL(pi || pi_ref), reward units per nat
) -> Tensor:
    r"""Direct preference optimization: the Bradley-Terry loss of the reward whose optimum the policy is: scalar, nats.

    No gradient enters the reference.

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7.
    Raises ValueError: shapes differ or beta is not above 0.
    """
    _require_pairs(chosen, rejected, reference_chosen, reference_rejected, beta)
    # LaTeX: f(y^+) = \beta \left( \log \pi_\theta(y^+) - \log \pi_{\mathrm{ref}}(y^+) \right)
    score_chosen = beta * (chosen - reference_chosen.detach())
    # LaTeX: f(y^-) = \beta \left( \log \pi_\theta(y^-) - \log \pi_{\mathrm{ref}}(y^-) \right)
    score_rejected = beta * (rejected - reference_rejected.detach())
    return bradley_terry_loss(score_chosen, score_rejected)


def dpo_weight(
    chosen: Tensor, rejected: Tensor, reference_chosen: Tensor, reference_rejected: Tensor, beta: float
) -> Tensor:
    r"""How much each pair counts in the gradient of `dpo_loss`: [B], between 0 and beta, detached.

    The gradient is minus the mean of weight * (gradient of log pi(chosen) - gradient of log pi(rejected)): weighted
    likelihood up for the one and down for the other, most where the implicit rewards order the pair wrongly. Arguments
    and errors as in `dpo_loss`.

    Source: Rafailov et al. 2023, arXiv:2305.18290, section 4.
    """
    _require_pairs(chosen, rejected, reference_chosen, reference_rejected, beta)
    with torch.no_grad():
        # LaTeX: h = \log \pi_\theta(y^+) - \log \pi_{\mathrm{ref}}(y^+) - \log \pi_\theta(y^-) + \log \pi_{\mathrm{ref}}(y^-)
        margin = chosen - reference_chosen - rejected + reference_rejected
        # LaTeX: v = \beta \operatorname{sigmoid}(-\beta h)
        return beta * torch.sigmoid(-beta * margin)


def best_of_n_law(probability: Tensor, reward: Tensor, n: int) -> Tensor:
    r"""Law of the best of n independent answers, ties broken at random: [N], sums to 1, detached.

    probability, reward: [N], of every answer there is. It is the law of the answer that `top_k_mask` keeps of n, and
    what rejection sampling fine-tuning learns. Memory grows with N squared.

    Source: Beirami et al. 2024, arXiv:2401.01879, there without ties.
    Raises ValueError: shapes differ, a reward is not finite, or n is not a whole number of at least 1.
    """
    require_shape((None,), probability=probability)
    require_same_shape(probability=probability, reward=reward)
    require_count(n=n)
    if can_ask(reward):
        require_finite(reward=reward)
    with torch.no_grad():
        # LaTeX: F_i = \sum_j p_j\, \mathbf{1}[r_j \le r_i]
        below = (probability * (reward <= reward.unsqueeze(1))).sum(1)
        # LaTeX: f_i = \sum_j p_j\, \mathbf{1}[r_j = r_i]
        level = (probability * (reward == reward.unsqueeze(1))).sum(1)
        # The share of its level is F^n - (F - f)^n, written so that a tiny f keeps all its digits.
        # LaTeX: q_i = \frac{p_i}{f_i} F_i^n \left( 1 - (1 - f_i / F_i)^n \right)
        law = probability / level * below**n * -torch.expm1(n * torch.log1p(-level / below))
        return law.masked_fill(probability == 0, 0.0)


def best_of_n_kl(n: int) -> float:
    r"""Upper bound on KL(best of n || one answer), whatever the rewards: nats.

    It is attained at n = 1, and approached where no two answers share a reward and no answer is likely: then the rank
    of an answer is uniform on [0, 1], and the best of n has density n u^(n - 1).

    Source: Stiennon et al. 2020, arXiv:2009.01325, appendix G.3, as the KL; Beirami et al. 2024, arXiv:2401.01879, as a
    bound.
    Raises ValueError: n is not a whole number of at least 1.
    """
    require_count(n=n)
    # LaTeX: \mathrm{KL} = \log n - \frac{n - 1}{n}
    return math.log(n) - (n - 1) / n


def _require_pairs(
    chosen: Tensor, rejected: Tensor, reference_chosen: Tensor, reference_rejected: Tensor, beta: float
) -> None:
    """Raise ValueError unless the four have one shape and beta is above 0."""
    require_same_shape(
        chosen=chosen, rejected=rejected, reference_chosen=reference_chosen, reference_rejected=reference_rejected
    )
    require_positive(beta=beta)
