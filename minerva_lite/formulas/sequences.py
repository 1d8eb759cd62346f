"""Answers of a language model: sequences of tokens that one reward judges at the end.

Rows are tokens and columns are answers, [L, B]. `mask` is true up to and including an answer's last token. A *group* is
`group` answers to one prompt in adjacent columns: column i answers prompt i // group.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import (
    can_ask,
    require_bool,
    require_count,
    require_finite,
    require_non_negative,
    require_one_of,
    require_positive,
    require_same_shape,
    require_shape,
    require_unit_interval,
)
from .distributions import kl_estimates
from .objectives import rounding_alone

AVERAGES = ("token", "sequence", "constant")  # what `average_tokens` can divide by


def sequence_log_prob(log_prob: Tensor, mask: Tensor) -> Tensor:
    r"""Log-probability of each answer, the sum over its tokens: [B], nats, differentiable.

    log_prob: [L, B] of each token given those before it, nats; what stands behind an answer's end is ignored.
    mask: [L, B] bool.

    Raises ValueError: shapes differ, the mask is not bool, an answer has no token, does not begin in row 0 (padding
    on the left) or has a gap.
    """
    _require_answers(mask, log_prob=log_prob)
    # LaTeX: \log \pi_\theta(y) = \sum_t m_t \log \pi_\theta(a_t \mid s_t)
    return log_prob.masked_fill(~mask, 0.0).sum(0)


def group_mean(value: Tensor, group: int) -> Tensor:
    r"""For each answer the mean over its group, itself included: [B] to [B], in the unit of `value`.

    Raises ValueError: `value` is no vector, it does not divide into groups, or a group has fewer than two answers.
    """
    _require_groups(group, value=value)
    # LaTeX: \bar{x}_i = \frac{1}{G} \sum_j x_j\, \mathbf{1}\left[ \lfloor \frac{j}{G} \rfloor = \lfloor \frac{i}{G} \rfloor \right]
    return value.reshape(-1, group).mean(1).repeat_interleave(group)


def leave_one_out_advantage(reward: Tensor, group: int) -> Tensor:
    r"""Each answer's reward less the mean of the others in its group: [B], reward units, detached.

    reward: [B]. The baseline does not depend on the answer it is taken off, so the gradient is unbiased. This is
    REINFORCE Leave-One-Out (RLOO).

    Source: Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!"; Ahmadian et al. 2024,
    arXiv:2402.14740. Raises ValueError: as `group_mean`, or a reward is not finite.
    """
    _require_groups(group, reward=reward)
    reward = reward.detach()
    mean = group_mean(reward, group)
    # The group's mean holds 1 / G of the answer's own reward: taken off, what is left is too small by (G - 1) / G.
    # LaTeX: A_i = \frac{G}{G - 1} (r_i - \bar{r}_i)
    return (reward - mean) * (group / (group - 1))


def group_advantage(reward: Tensor, group: int, *, scale: bool, eps: float = 1e-4) -> Tensor:
    r"""Each answer's reward less its group's mean, with `scale` divided by the group's spread: [B], detached.

    reward: [B]. The spread is the sample standard deviation, whose variance is divided by G - 1, as in TRL; eps is
    added to it. A group of equal rewards gives 0. With scale the unit is lost, and `spread_weight` says what else.
    Without it the mean gradient is (G - 1) / G of the true one, because an answer's own reward is in its baseline.

    Source: Shao et al. 2024 (GRPO), arXiv:2402.03300, section 4.1.2, which does not say which standard deviation.
    Raises ValueError: as `group_mean`, a reward is not finite, or eps is not above 0.
    """
    _require_groups(group, reward=reward)
    require_positive(eps=eps)
    reward = reward.detach()
    mean = group_mean(reward, group)
    # LaTeX: c_i = r_i - \bar{r}_i
    centered = reward - mean
    if not scale:
        return centered
    mean_square = group_mean(centered.square(), group)
    # LaTeX: \sigma^{\mathrm{grp}}_i = \sqrt{\frac{G}{G - 1} \nu_i}
    spread = (mean_square * (group / (group - 1))).sqrt()
    # LaTeX: A_i = \frac{c_i}{\sigma^{\mathrm{grp}}_i + \varepsilon}
    return centered / (spread + eps)


def spread_weight(probability: Tensor, group: int) -> Tensor:
    r"""Weight of a prompt's gradient under `group_advantage` with scale, if answers are right or wrong: [...], no unit.

    probability: [...] chance p of a right answer (reward 1, any other 0), inside (0, 1). The mean of the sampled
    gradient is this weight times the gradient of p, if eps is 0. Up to G = 3 it is the same for all p. From G = 4 on it
    is smallest at p = 1/2 and grows to (G - 1) / sqrt(G) at both ends, so prompts that are nearly solved or nearly
    hopeless count more. Its limit for large G, 1 / sqrt(p (1 - p)), is the slope of 2 arcsin(sqrt(p)). Without scale
    the weight is (G - 1) / G, and 1 for `leave_one_out_advantage`.

    Raises ValueError: group is below 2, or a chance lies outside (0, 1).
    """
    _require_groups(group)
    if can_ask(probability) and not bool(((probability > 0) & (probability < 1)).all()):
        raise ValueError(f"probability: wanted numbers inside (0, 1); got {probability.tolist()}")
    right = torch.arange(group + 1, dtype=probability.dtype, device=probability.device)
    law: Tensor = torch.distributions.Binomial(group, probability.unsqueeze(-1)).log_prob(right).exp()
    # LaTeX: \bar{\sigma}^{\mathrm{grp}} = \sum_{m=1}^{G} \left( \prod_{j=1}^{m} \frac{G - j + 1}{j} \right) p^m (1 - p)^{G - m} \sqrt{\frac{m (G - m)}{G (G - 1)}}
    spread = (law * (right * (group - right) / (group * (group - 1))).sqrt()).sum(-1)
    # LaTeX: w = \frac{G - 1}{G} \frac{\bar{\sigma}^{\mathrm{grp}}}{p (1 - p)}
    return (group - 1) / group * spread / (probability * (1.0 - probability))


def last_token(mask: Tensor) -> Tensor:
    """The last token of each answer, where its mask [L, B] ends: [L, B] bool, one true entry per column.

    Raises ValueError: as `sequence_log_prob`.
    """
    _require_answers(mask)
    # LaTeX: e_t = m_t (1 - m_{t+1})
    return mask & ~torch.cat([mask[1:], torch.zeros_like(mask[:1])])


def kl_rewards(log_prob: Tensor, reference_log_prob: Tensor, mask: Tensor, reward: Tensor, beta: float) -> Tensor:
    r"""Rewards of the tokens: the task's on the last one, and on each the price of leaving the reference: [L, B].

    Detached. log_prob, reference_log_prob: [L, B], nats, of the sampled tokens. mask: [L, B] bool. reward: [B], the
    task's. beta: price of KL(pi || pi_ref), reward units per nat, at least 0. An answer's tokens sum to
    r - beta (log pi - log pi_ref), and behind its end all is 0. The policy gradient with these rewards is that of
    E r - beta KL(pi || pi_ref), because the terms are k1, and the gradient of k1 itself has mean 0.

    Source: Ziegler et al. 2019, arXiv:1909.08593; Ouyang et al. 2022, arXiv:2203.02155.
    Raises ValueError: as `sequence_log_prob`, a reward is not finite, or beta is below 0.
    """
    _require_answers(mask, log_prob=log_prob, reference_log_prob=reference_log_prob)
    _require_rewards(mask, reward)
    require_non_negative(beta=beta)
    with torch.no_grad():
        last = last_token(mask)
        # LaTeX: k_t = m_t \left( \log \pi_\theta(a_t \mid s_t) - \log \pi_{\mathrm{ref}}(a_t \mid s_t) \right)
        kl_to_reference = (log_prob - reference_log_prob).masked_fill(~mask, 0.0)
        # LaTeX: r_t = e_t r(y) - \beta k_t
        return last.to(log_prob.dtype) * reward - beta * kl_to_reference


def kl_loss_terms(log_prob: Tensor, reference_log_prob: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""k1, k2, k3 of KL(pi || pi_ref) for answers drawn from pi, as terms of a loss: three tensors shaped as log_prob.

    log_prob, reference_log_prob: [...] nats, of tokens or of whole answers; no gradient enters the reference. The value
    estimates KL(pi || pi_ref); what is descended is another matter. The mean gradient of k1 is 0, that of k2 is the
    gradient of KL(pi || pi_ref), and that of k3 the gradient of KL(pi_ref || pi), the KL of the other side. This holds
    for whole answers. Terms of tokens give the same with the prefixes taken as given: how pi changes which prefixes
    occur is left out, and k3's prefixes are pi's and not the reference's. It holds while the answers are pi's own.

    Source: Schulman 2020, "Approximating KL divergence". Raises ValueError: shapes differ.
    """
    require_same_shape(log_prob=log_prob, reference_log_prob=reference_log_prob)
    # LaTeX: \log \rho^{\mathrm{ref}} = \log \pi_{\mathrm{ref}} - \log \pi_\theta
    log_ratio = reference_log_prob.detach() - log_prob
    return kl_estimates(log_ratio)


def clipped_token_objective(log_ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    r"""PPO's clipped surrogate of each token, to be maximized, between 1 - low and 1 + high: [L, B], advantage units.

    log_ratio: [L, B] log pi_theta - log pi_b of each token, nats. advantage: [B], one for all tokens of an answer, or
    [L, B]; not detached here. low: in (0, 1]. high: above 0; above `low` it leaves rare tokens more room to grow.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.1; low = high is `ppo_clip_objective`.
    Raises ValueError: shapes do not fit, or a bound is outside its range.
    """
    require_shape(tuple(log_ratio.shape[-advantage.dim() :]), advantage=advantage)
    _require_clip(low, high)
    # LaTeX: \rho_t = \exp(\log \rho_t)
    ratio = log_ratio.exp()
    # LaTeX: \bar{\rho}_t = \operatorname{clip}\left(\rho_t, 1 - \varepsilon_-, 1 + \varepsilon_+\right)
    clipped_ratio = ratio.clamp(1.0 - low, 1.0 + high)
    # LaTeX: L_t = \min\left(\rho_t A_t, \bar{\rho}_t A_t\right)
    return torch.minimum(ratio * advantage, clipped_ratio * advantage)


def sequence_log_ratio(log_ratio: Tensor, mask: Tensor, *, per_token: bool) -> Tensor:
    r"""Log-ratio of each answer, the sum over its tokens, or with `per_token` their mean: [B], nats.

    log_ratio: [L, B] of each token, nats. mask: [L, B] bool. The exponential of the sum is the importance weight of the
    answer. That of the mean is not; it is GSPO's, which keeps long answers within the same clip range.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071. Raises ValueError: as `sequence_log_prob`.
    """
    _require_answers(mask, log_ratio=log_ratio)
    # LaTeX: \log \rho(y) = \sum_t m_t \log \rho_t
    total = log_ratio.masked_fill(~mask, 0.0).sum(0)
    if not per_token:
        return total
    # LaTeX: \log \tilde{\rho}(y) = \frac{\log \rho(y)}{\sum_t m_t}
    return total / mask.sum(0)


def clipped_sequence_objective(
    log_ratio: Tensor, mask: Tensor, advantage: Tensor, low: float, high: float, *, per_token: bool
) -> Tensor:
    r"""The clipped surrogate of each answer, to be maximized, from one ratio for the whole of it: [B], advantage units.

    log_ratio: [L, B] of each token, nats. mask: [L, B] bool. advantage: [B], not detached here. per_token: as in
    `sequence_log_ratio`. low, high: as in `clipped_token_objective`.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071. Raises ValueError: as those two.
    """
    whole = sequence_log_ratio(log_ratio, mask, per_token=per_token)
    # LaTeX: L_i = \min\left(\rho_i A_i, \operatorname{clip}\left(\rho_i, 1 - \varepsilon_-, 1 + \varepsilon_+\right) A_i\right)
    return clipped_token_objective(whole, advantage, low, high)


def average_tokens(value: Tensor, mask: Tensor, average: str) -> Tensor:
    r"""Scalar from one number a token, [L, B], in its unit.

    value, mask: [L, B], the mask bool, with as many rows as the longest answer may have. What the mean gradient is if
    the value is A log pi:
    "constant", the sum over tokens divided by B and by the number L of rows: the gradient of E r, divided by L;
    "sequence", the mean over each answer's tokens, then over answers: the gradient of E (r - J) / length, J held. It
    favors short right answers and long wrong ones;
    "token", the mean over all tokens: biased, because the number of tokens depends on the answers, as 1 / B.

    Source: "token" Yu et al. 2025 (DAPO), arXiv:2503.14476; "sequence" Shao et al. 2024 (GRPO), arXiv:2402.03300;
    "constant" Liu et al. 2025 (Dr. GRPO), arXiv:2503.20783.
    Raises ValueError: as `sequence_log_prob`, or an unknown average.
    """
    _require_answers(mask, value=value)
    require_one_of(AVERAGES, average=average)
    counted = value.masked_fill(~mask, 0.0)
    if average == "token":
        # LaTeX: L = \frac{\sum_i \sum_t m_t x_t}{\sum_i \sum_t m_t}
        return counted.sum() / mask.sum()
    if average == "sequence":
        # LaTeX: L = \operatorname{mean}_i \frac{\sum_t m_t x_t}{\sum_t m_t}
        return (counted.sum(0) / mask.sum(0)).mean()
    # LaTeX: L = \operatorname{mean}_i \operatorname{mean}_t \left[ m_t x_t \right]
    return counted.mean()


def normalize_tokens(advantage: Tensor, mask: Tensor, eps: float = 1e-8, size: Tensor | None = None) -> Tensor:
    r"""Advantages shifted to mean 0 and scaled to standard deviation 1 over all tokens of a batch: [L, B], no unit.

    advantage, mask: [L, B], the mask bool. Entries behind an answer's end are shifted too, and nothing reads them.
    `normalize_advantage` does the same where every row counts. Where only rounding tells the tokens apart, all are 0.
    size: 0-d, the largest number that the advantages were made of, by which rounding is judged; None: of themselves.

    Raises ValueError: as `average_tokens`.
    """
    mean = average_tokens(advantage, mask, "token")
    # LaTeX: c_t = A_t - \bar{A}
    centered = advantage - mean
    mean_square = average_tokens(centered.square(), mask, "token")
    size = (advantage * mask).abs().max() if size is None else size
    centered = centered.masked_fill(rounding_alone(mean_square.sqrt(), size, torch.finfo(advantage.dtype).eps), 0.0)
    # LaTeX: \hat{A}_t = \frac{c_t}{\sqrt{\nu} + \varepsilon}
    return centered / (mean_square.sqrt() + eps)


def _require_answers(mask: Tensor, **values: Tensor) -> None:
    """Raise ValueError unless every tensor is shaped as the bool mask [L, B], true on each answer's first rows."""
    require_shape((None, None), mask=mask)
    require_same_shape(mask=mask, **values)
    require_bool(mask=mask)
    if not can_ask(mask):
        return
    if not bool(mask.any(0).all()):
        empty = int((~mask.any(0)).nonzero()[0])
        raise ValueError(f"mask: wanted at least one token in every answer; got none in answer {empty}")
    late = ~mask[0] | (mask[1:] & ~mask[:-1]).any(0)
    if bool(late.any()):
        first = int(late.nonzero()[0])
        raise ValueError(
            f"mask: wanted every answer to begin in row 0 and go on without a gap; answer {first} does not"
        )


def _require_rewards(mask: Tensor, reward: Tensor) -> None:
    """Raise ValueError unless there is one finite reward [B] for each answer."""
    require_shape((mask.shape[1],), reward=reward)
    if can_ask(reward):
        require_finite(reward=reward)


def _require_groups(group: int, **values: Tensor) -> None:
    """Raise ValueError unless every tensor [B] divides into groups of at least two, and is finite."""
    require_count(group=group)
    if group < 2:
        raise ValueError(f"group: wanted at least 2 answers to each prompt; got {group}")
    for name, value in values.items():
        require_shape((None,), **{name: value})
        if len(value) == 0 or len(value) % group:
            raise ValueError(f"{name}: wanted a multiple of group = {group} answers; got {len(value)}")
        if can_ask(value):
            require_finite(**{name: value})


def _require_clip(low: float, high: float) -> None:
    """Raise ValueError unless 0 < low <= 1 and high > 0."""
    require_positive(low=low, high=high)
    require_unit_interval(low=low)
