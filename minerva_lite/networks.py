"""Torsos, policies and critics (floor 2). A policy returns distribution parameters, never samples.

Every policy has the same five questions asked of it, each answered by a plain function of floor 1:
`log_prob(params, action)`, `entropy(params, generator)`, `kl(old, new)`, `sample(params, generator)`,
`mode(params)`, and `to_env(action)`, which turns the stored action into the one the environment gets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from .checks import require_count
from .distributions import (
    categorical_entropy,
    categorical_kl,
    categorical_log_prob,
    categorical_sample,
    gaussian_entropy,
    gaussian_kl,
    gaussian_log_prob,
    gaussian_sample,
    squashed_log_prob,
)

Params = tuple[Tensor, ...]
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


def _orthogonal(rows: int, cols: int, gain: float, generator: Generator) -> Tensor:
    """A [rows, cols] matrix with orthonormal rows or columns, times `gain`, from `generator` alone."""
    # In float64 whatever the agent's dtype, so that a seed names the same network everywhere.
    wide = torch.randn(max(rows, cols), min(rows, cols), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(wide)
    # The sign of r's diagonal is a convention of the factorization; without it q is not uniformly distributed.
    q = q * r.diagonal().sign()
    return gain * (q if rows >= cols else q.T)


class MLP(nn.Sequential):
    """Linear layers with tanh between them, orthogonal weights and zero biases: [..., in] to [..., out].

    Hidden layers have gain sqrt(2), the last one `head_gain`. Raises ValueError: a size below 1.
    """

    def __init__(self, sizes: Sequence[int], head_gain: float, generator: Generator):
        require_count(**{f"sizes[{i}]": size for i, size in enumerate(sizes)})
        layers: list[nn.Module] = []
        for i, (fan_in, fan_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            last = i == len(sizes) - 2
            linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out)
            with torch.no_grad():
                linear.weight.copy_(_orthogonal(fan_out, fan_in, head_gain if last else math.sqrt(2.0), generator))
                linear.bias.zero_()
            layers += [linear] if last else [linear, nn.Tanh()]
        super().__init__(*layers)


def _small(head: nn.Linear, generator: Generator) -> None:
    """Redraw the weights of a last layer uniformly from +-0.003: the first policy hardly depends on the state."""
    with torch.no_grad():
        unit = torch.rand(head.weight.shape, generator=generator, dtype=torch.float64)
        head.weight.copy_(0.003 * (2.0 * unit - 1.0))


class GaussianPolicy(nn.Module):
    """Diagonal Gaussian with a state-independent log-std, clamped to [-20, 2]. Parameters: mean, std [..., D]."""

    discrete = False

    def __init__(self, obs_dim: int, action_dim: int, hidden: Sequence[int], log_std_init: float, generator: Generator):
        super().__init__()
        self.mean = MLP([obs_dim, *hidden, action_dim], 0.01, generator)
        self.log_std = nn.Parameter(torch.full((action_dim,), float(log_std_init)))

    def small_head(self, generator: Generator) -> None:
        _small(self.mean[-1], generator)

    def forward(self, obs: Tensor) -> Params:
        mean = self.mean(obs)
        std = self.log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()
        return mean, std.expand_as(mean)

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        return gaussian_log_prob(action, *params)

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        return gaussian_entropy(params[1])

    def kl(self, old: Params, new: Params) -> Tensor:
        return gaussian_kl(*old, *new).sum(-1)

    def sample(self, params: Params, generator: Generator | None = None) -> Tensor:
        return gaussian_sample(*params, generator)

    def mode(self, params: Params) -> Tensor:
        return params[0]

    def to_env(self, action: Tensor) -> Tensor:
        return action  # the environment clips it to [-1, 1]

    def from_env(self, action: Tensor) -> Tensor:
        """The stored action whose `to_env` is `action`, in [-1, 1]."""
        return action


class SquashedGaussianPolicy(GaussianPolicy):
    """Gaussian through tanh. The stored action is the pre-squash one; the environment gets its tanh.

    The KL is unchanged by the squashing; the entropy is not and has no closed form, so `entropy` is estimated from
    one draw: the Gaussian's entropy plus the log-slope of tanh at that draw.
    """

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        return squashed_log_prob(action, *params)

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        mean, std = params
        # The noise is drawn, the path through mean and std is kept: the estimate is differentiable.
        pre_squash = mean + std * torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return -squashed_log_prob(pre_squash, mean, std)

    def to_env(self, action: Tensor) -> Tensor:
        return action.tanh()

    def from_env(self, action: Tensor) -> Tensor:
        return action.clamp(-0.999999, 0.999999).atanh()  # the ends lie infinitely far out


class CategoricalPolicy(nn.Module):
    """Softmax over K actions. Parameters: logits [..., K]."""

    discrete = True

    def __init__(self, obs_dim: int, num_actions: int, hidden: Sequence[int], generator: Generator):
        super().__init__()
        self.logits = MLP([obs_dim, *hidden, num_actions], 0.01, generator)

    def small_head(self, generator: Generator) -> None:
        _small(self.logits[-1], generator)

    def forward(self, obs: Tensor) -> Params:
        return (self.logits(obs),)

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        return categorical_log_prob(action, *params)

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        return categorical_entropy(*params)

    def kl(self, old: Params, new: Params) -> Tensor:
        return categorical_kl(*old, *new)

    def sample(self, params: Params, generator: Generator | None = None) -> Tensor:
        return categorical_sample(*params, generator)

    def mode(self, params: Params) -> Tensor:
        return params[0].argmax(-1)

    def to_env(self, action: Tensor) -> Tensor:
        return action


class ValueNet(nn.Module):
    """State value V(s): [..., obs_dim] to [...], return units."""

    def __init__(self, obs_dim: int, hidden: Sequence[int], generator: Generator):
        super().__init__()
        self.value = MLP([obs_dim, *hidden, 1], 1.0, generator)

    def forward(self, obs: Tensor) -> Tensor:
        return self.value(obs).squeeze(-1)
