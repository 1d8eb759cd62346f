"""Distributions as plain functions of their parameters.

Gaussians are diagonal: parameters are [..., D], log-densities [...] in nats. KL is always old first, new second.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ..checks import require_same_shape

LOG_2PI = math.log(2.0 * math.pi)


def gaussian_log_prob(action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    r"""Log-density of `action` [..., D] under N(mean, std^2): [...], nats, differentiable.

    Raises ValueError: shapes differ.
    """
    require_same_shape(action=action, mean=mean, std=std)
    # LaTeX: z_i = \frac{a_i - \mu_i}{\sigma_i}
    z = (action - mean) / std
    # LaTeX: \log \pi(a \mid s) = -\sum_i \left[ \tfrac{1}{2} z_i^2 + \log \sigma_i + \tfrac{1}{2} \log(2\pi) \right]
    return -(0.5 * z * z + std.log() + 0.5 * LOG_2PI).sum(-1)


def gaussian_entropy(std: Tensor) -> Tensor:
    r"""Differential entropy of N(., std^2), std [..., D]: [...], nats; it can be negative."""
    # LaTeX: H = \sum_i \left[ \log \sigma_i + \tfrac{1}{2} \log(2\pi) + \tfrac{1}{2} \right]
    return (std.log() + 0.5 * LOG_2PI + 0.5).sum(-1)


def gaussian_kl(mean_old: Tensor, std_old: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    r"""KL(old || new) of each dimension of two diagonal Gaussians: [..., D], nats. Sum over D for the whole KL.

    Raises ValueError: shapes differ.
    """
    require_same_shape(mean_old=mean_old, std_old=std_old, mean=mean, std=std)
    # LaTeX: \Delta_i = \frac{\mu^{\mathrm{old}}_i - \mu_i}{\sigma_i}
    shift = (mean_old - mean) / std
    # LaTeX: r_i = \frac{\sigma^{\mathrm{old}}_i}{\sigma_i}
    scale = std_old / std
    # LaTeX: \mathrm{KL}_i = \tfrac{1}{2} \left[ r_i^2 + \Delta_i^2 - 1 \right] - \log r_i
    return 0.5 * (scale * scale + shift * shift - 1.0) - scale.log()


def gaussian_kl_mean_std(mean_old: Tensor, std_old: Tensor, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    r"""The KL of moving the mean alone, and the KL of moving the standard deviation alone: two [..., D], nats.

    The first is KL(old || N(mean, std_old^2)), the second KL(old || N(mean_old, std^2)). Their sum is KL(old || new)
    only where the mean or the std is unchanged. The exact split is not used, because its mean part is divided by the
    new std: a policy that becomes wider would loosen the bound on its mean.

    Source: Abdolmaleki et al. 2018, arXiv:1812.02256. Book: eq. mpo-kl-parts. Raises ValueError: shapes differ.
    """
    require_same_shape(mean_old=mean_old, std_old=std_old, mean=mean, std=std)
    # LaTeX: \Delta_i = \frac{\mu_i - \mu^{\mathrm{old}}_i}{\sigma^{\mathrm{old}}_i}
    shift = (mean - mean_old) / std_old
    # LaTeX: r_i = \frac{\sigma^{\mathrm{old}}_i}{\sigma_i}
    scale = std_old / std
    # LaTeX: \mathrm{KL}^\mu_i = \tfrac{1}{2} \Delta_i^2
    kl_mean = 0.5 * shift * shift
    # LaTeX: \mathrm{KL}^\sigma_i = \tfrac{1}{2} \left[ r_i^2 - 1 \right] - \log r_i
    kl_std = 0.5 * (scale * scale - 1.0) - scale.log()
    return kl_mean, kl_std


def gaussian_sample(
    mean: Tensor, std: Tensor, generator: Generator | None = None, noise: Tensor | None = None
) -> Tensor:
    r"""One draw from N(mean, std^2), [..., D], detached. The standard normal noise is `generator`'s, or given."""
    if noise is None:
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
    # LaTeX: a_i = \mu_i + \sigma_i \xi_i
    action = mean + std * noise
    return action.detach()


def squashed_log_prob(pre_squash: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    r"""Log-density of a = tanh(u) where u ~ N(mean, std^2), from the stored u [..., D]: [...], nats.

    It is computed from u and not from a, because in float32 an inverse tanh loses everything past |u| = 9. It is exact
    for |u| up to 300.

    Source: change of variables; Haarnoja et al. 2018, arXiv:1801.01290, appendix C.
    Raises ValueError: shapes differ.
    """
    # LaTeX: \ell_i = 2 \left[ \log 2 - u_i - \operatorname{softplus}(-2 u_i) \right]
    log_slope = 2.0 * (math.log(2.0) - pre_squash - F.softplus(-2.0 * pre_squash))
    # LaTeX: \log \pi(a \mid s) = \log \mathcal{N}(u \mid \mu, \sigma^2) - \sum_i \ell_i
    return gaussian_log_prob(pre_squash, mean, std) - log_slope.sum(-1)


def categorical_log_prob(action: Tensor, logits: Tensor) -> Tensor:
    r"""Log-probability of `action` [...] (int64) under softmax(logits [..., K]): [...], nats.

    Raises ValueError: `action` is not shaped as `logits` without its last axis.
    """
    require_same_shape(logits_without_last_axis=logits[..., 0], action=action)
    # LaTeX: \log p_j = \ell_j - \operatorname{logsumexp}_k \ell_k
    log_prob = logits.log_softmax(-1)
    # LaTeX: \log \pi(a \mid s) = \sum_j \mathbf{1}[j = a] \log p_j
    return log_prob.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def categorical_entropy(logits: Tensor) -> Tensor:
    r"""Entropy of softmax(logits [..., K]): [...], nats. A logit of -inf rules an action out."""
    # LaTeX: \log p_j = \ell_j - \operatorname{logsumexp}_k \ell_k
    log_prob = logits.log_softmax(-1)
    probability = log_prob.exp()
    log_prob = log_prob.masked_fill(probability == 0, 0.0)  # it may be -inf, and such an action counts 0
    # LaTeX: H = -\sum_j \exp(\log p_j) \log p_j
    return -(probability * log_prob).sum(-1)


def categorical_kl(logits_old: Tensor, logits: Tensor) -> Tensor:
    r"""KL(old || new) of two categoricals, logits [..., K]: [...], nats.

    Raises ValueError: shapes differ.
    """
    require_same_shape(logits_old=logits_old, logits=logits)
    # LaTeX: \log p^{\mathrm{old}}_j = \ell^{\mathrm{old}}_j - \operatorname{logsumexp}_k \ell^{\mathrm{old}}_k
    log_prob_old = logits_old.log_softmax(-1)
    # LaTeX: \log p_j = \ell_j - \operatorname{logsumexp}_k \ell_k
    log_prob = logits.log_softmax(-1)
    old = log_prob_old.exp()
    log_ratio = (log_prob_old - log_prob).masked_fill(old == 0, 0.0)
    # LaTeX: \mathrm{KL} = \sum_j \exp(\log p^{\mathrm{old}}_j) \left[ \log p^{\mathrm{old}}_j - \log p_j \right]
    return (old * log_ratio).sum(-1)


def categorical_sample(logits: Tensor, generator: Generator | None = None, noise: Tensor | None = None) -> Tensor:
    r"""One action a [...] (int64) from softmax(logits [..., K]) by the Gumbel-max trick.

    The noise, uniform on [0, 1) and shaped as the logits, comes from `generator`, or is given.
    """
    if noise is None:
        noise = torch.rand(logits.shape, generator=generator, dtype=logits.dtype, device=logits.device)
    # torch.rand gives 0 for all that lies below its spacing, eps / 2; half of that, or 0 would beat every logit.
    noise = noise.masked_fill(noise == 0, torch.finfo(noise.dtype).eps / 4)
    # The action whose exponential draw divided by exp(logit) is smallest has the softmax's probability: this is the
    # Gumbel-max trick, written with exponentials.
    # LaTeX: \xi_j = -\log(1 - u_j)
    exponential = -torch.log1p(-noise)
    # LaTeX: a = \operatorname{argmax}_j \left[ \ell_j - \log \xi_j \right]
    return (logits - exponential.log()).argmax(-1)


def kl_estimates(log_ratio: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Three estimates of KL(old || new) from each sample of old: k1, k2, k3, shaped as `log_ratio`, nats.

    log_ratio is log pi_new - log pi_old at actions drawn from old. k1 and k3 are unbiased; k2 and k3 are never
    negative.

    Source: Schulman 2020, "Approximating KL divergence" (his r is our ratio). Book: eq. k-estimators.
    """
    # LaTeX: k_1 = -\log \rho_t
    k1 = -log_ratio
    # LaTeX: k_2 = \tfrac{1}{2} (\log \rho_t)^2
    k2 = 0.5 * log_ratio * log_ratio
    # expm1 keeps all digits where the policies are close, and there the estimate is used most.
    # LaTeX: k_3 = \exp(\log \rho_t) - 1 - \log \rho_t
    k3 = torch.expm1(log_ratio) - log_ratio
    return k1, k2, k3
