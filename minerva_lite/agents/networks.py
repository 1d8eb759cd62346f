"""Torsos, policies and critics. A policy's `forward` returns distribution parameters, never samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..checks import require_count, require_one_of
from ..formulas.distributions import (
    categorical_entropy,
    categorical_kl,
    categorical_log_prob,
    categorical_sample,
    gaussian_entropy,
    gaussian_kl,
    gaussian_kl_mean_std,
    gaussian_log_prob,
    gaussian_sample,
    squashed_log_prob,
)

Params = tuple[Tensor, ...]
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
TORSOS = ("tanh", "layernorm")


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


class LayerNormMLP(nn.Sequential):
    """Linear, LayerNorm and tanh, then linear layers with ELU between them: [..., in] to [..., out].

    The first layer bounds what follows, whatever the scale of the observations. Hidden weights are uniform with
    variance 1 / (3 fan_in); those of the head are drawn from a normal distribution cut at two standard deviations,
    whose width is `head_scale` / sqrt(fan_in). All biases are zero.
    Raises ValueError: a size below 1, or no hidden layer to normalize.

    Source: the network of Abdolmaleki et al. 2018, arXiv:1812.02256, as its authors' Acme builds it.
    """

    def __init__(self, sizes: Sequence[int], head_scale: float, generator: Generator):
        require_count(**{f"sizes[{i}]": size for i, size in enumerate(sizes)})
        if len(sizes) < 3:
            raise ValueError(f"sizes: wanted at least one hidden layer, to be normalized; got {list(sizes)}")
        layers: list[nn.Module] = []
        for i, (fan_in, fan_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            last = i == len(sizes) - 2
            linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out)
            with torch.no_grad():
                unit = torch.rand(fan_out, fan_in, generator=generator, dtype=torch.float64)
                weight = _cut_normal(unit) * head_scale if last else 2.0 * unit - 1.0
                linear.weight.copy_(weight / math.sqrt(fan_in))
                linear.bias.zero_()
            layers.append(linear)
            if i == 0:
                layers += [nn.LayerNorm(fan_out), nn.Tanh()]
            elif not last:
                layers.append(nn.ELU())
        super().__init__(*layers)


def _cut_normal(unit: Tensor) -> Tensor:
    """Uniform numbers in [0, 1) as draws of a standard normal cut at +-2, by the inverse of its distribution."""
    low, high = (torch.special.ndtr(torch.tensor(edge, dtype=unit.dtype)) for edge in (-2.0, 2.0))
    return torch.special.ndtri(low + (high - low) * unit)


def _head(network: nn.Sequential) -> nn.Linear:
    """The last layer of a policy's network."""
    head = network[-1]
    assert isinstance(head, nn.Linear)
    return head


def _small(head: nn.Linear, generator: Generator) -> None:
    """Redraw the weights of a last layer uniformly from +-0.003: the first policy hardly depends on the state."""
    with torch.no_grad():
        unit = torch.rand(head.weight.shape, generator=generator, dtype=torch.float64)
        head.weight.copy_(0.003 * (2.0 * unit - 1.0))


class _ClampInward(torch.autograd.Function):
    """A clamp that lets through, outside the interval, the gradients whose descent leads back to it.

    torch's own lets none through there, and a network whose output has left the interval could never bring it back.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.low, ctx.high = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        outward = ((x > ctx.high) & (gradient < 0)) | ((x < ctx.low) & (gradient > 0))
        return gradient.masked_fill(outward, 0.0), None, None


class Policy(nn.Module):
    """A network from obs [..., O] to the parameters of a distribution over actions, and what to ask of the latter.

    Each method but `forward` is a plain function of the parameters, from `formulas.distributions`. An action [...] is
    int64 where the set is finite ([..., D] where it has several parts), else [..., D].
    Log-densities and entropies are those of actions in [-1, 1], not in the environment's own units: there an interval
    of length h in a dimension takes log(h / 2) off the one and adds it to the other.
    """

    discrete: bool

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        """log pi(a | s): [...], nats."""
        raise NotImplementedError

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        """The entropy [...], nats; by one draw from the generator where it has no closed form."""
        raise NotImplementedError

    def kl(self, old: Params, new: Params) -> Tensor:
        """KL(old || new): [...], nats."""
        raise NotImplementedError

    def kl_parts(self, old: Params, new: Params) -> tuple[Tensor, ...]:
        """The parts of KL(old || new) that MPO bounds one by one, each [..., D]; one if discrete."""
        raise NotImplementedError

    def noise(self, rows: int, generator: Generator) -> Tensor:
        """The random numbers that `sample` needs for so many states, [rows, D] or [rows, K]."""
        raise NotImplementedError

    def sample(self, params: Params, generator: Generator | None = None, noise: Tensor | None = None) -> Tensor:
        """An action per state; from the noise where it is given."""
        raise NotImplementedError

    def mode(self, params: Params) -> Tensor:
        """The most likely action per state; of a squashed Gaussian the mean before the tanh, whose tanh is no mode."""
        raise NotImplementedError

    def to_env(self, action: Tensor) -> Tensor:
        """The action that the environment gets, from the one that is stored."""
        return action

    def from_env(self, action: Tensor) -> Tensor:
        """The stored action whose `to_env` is `action`, in [-1, 1]."""
        return action

    def small_head(self, generator: Generator) -> None:
        """Redraw the last layer's weights uniformly from +-0.003."""
        raise NotImplementedError

    def project(self) -> None:
        """Put parameters that have left their range back on its edge, in place: after each optimizer step."""

    @property
    def encoder(self) -> nn.Module:
        """All but the last layer: [..., O] to [..., hidden[-1]]; a critic may share it."""
        raise NotImplementedError


class GaussianPolicy(Policy):
    """Diagonal Gaussian. Parameters: mean, std [..., D], log-std clamped to [-20, 2].

    Log-densities and entropies are those of actions in [-1, 1], before the environment rescales them to its bounds. In
    its own units log-densities are lower, and entropies higher, by the sum of log((high - low) / 2) over dimensions.
    torso "tanh": an `MLP` gives the mean, the log-std does not depend on the state. "layernorm": a `LayerNormMLP`
    gives both, the log-std as what it adds to log_std_init.
    """

    discrete = False

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden: Sequence[int],
        log_std_init: float,
        generator: Generator,
        torso: str = "tanh",
    ):
        super().__init__()
        require_one_of(TORSOS, torso=torso)
        self.state_std = torso == "layernorm"
        self.mean = _body(torso, [obs_dim, *hidden, (1 + self.state_std) * action_dim], generator)
        start = torch.full((action_dim,), float(log_std_init))
        if self.state_std:
            self.register_buffer("log_std", start)
        else:
            self.log_std = nn.Parameter(start)

    @property
    def encoder(self) -> nn.Module:
        return nn.Sequential(*list(self.mean)[:-1])

    def small_head(self, generator: Generator) -> None:
        _small(_head(self.mean), generator)

    def forward(self, obs: Tensor) -> Params:
        output = self.mean(obs)
        mean, shift = output.chunk(2, -1) if self.state_std else (output, torch.zeros_like(output))
        # Clamped, so that neither a density nor its gradient overflows. A parameter is kept inside by `project`.
        clamp = _ClampInward.apply if self.state_std else torch.clamp
        # LaTeX: \sigma_i = \exp \left( \operatorname{clip}(\ell^\sigma_i + x^\sigma_i, -20, 2) \right)
        std = clamp(self.log_std + shift, LOG_STD_MIN, LOG_STD_MAX).exp()
        return mean, std

    @torch.no_grad()
    def project(self) -> None:
        if not self.state_std:
            self.log_std.clamp_(LOG_STD_MIN, LOG_STD_MAX)

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        return gaussian_log_prob(action, *params)

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        return gaussian_entropy(params[1])

    def kl(self, old: Params, new: Params) -> Tensor:
        return gaussian_kl(*old, *new).sum(-1)

    def kl_parts(self, old: Params, new: Params) -> tuple[Tensor, Tensor]:
        """What moving the mean alone and the std alone costs, two [..., D]."""
        return gaussian_kl_mean_std(*old, *new)

    def noise(self, rows: int, generator: Generator) -> Tensor:
        like = self.log_std
        return torch.randn(rows, len(like), generator=generator, dtype=like.dtype, device=like.device)

    def sample(self, params: Params, generator: Generator | None = None, noise: Tensor | None = None) -> Tensor:
        mean, std = params
        return gaussian_sample(mean, std, generator, noise)

    def mode(self, params: Params) -> Tensor:
        return params[0]

    def to_env(self, action: Tensor) -> Tensor:
        return action  # the environment clips it to [-1, 1]


class SquashedGaussianPolicy(GaussianPolicy):
    """Gaussian through tanh. The stored action is the pre-squash one; the environment gets its tanh.

    The KL is unchanged by the squashing; the entropy is not and has no closed form, so `entropy` is estimated from
    one draw: the log-slope of tanh less the Gaussian's log-density, both at that draw.
    """

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        return squashed_log_prob(action, *params)

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        mean, std = params
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        # The noise is drawn, the path through mean and std is kept: the estimate is differentiable.
        # LaTeX: u_i = \mu_i + \sigma_i \xi_i
        pre_squash = mean + std * noise
        log_prob = squashed_log_prob(pre_squash, mean, std)
        # LaTeX: \hat{H} = -\log \pi(a \mid s)
        return -log_prob

    def to_env(self, action: Tensor) -> Tensor:
        # LaTeX: a_i = \tanh u_i
        return action.tanh()

    def from_env(self, action: Tensor) -> Tensor:
        # The inverse of tanh is infinite at -1 and 1.
        # LaTeX: u_i = \operatorname{arctanh}(\operatorname{clip}(a_i, -0.999999, 0.999999))
        return action.clamp(-0.999999, 0.999999).atanh()


class CategoricalPolicy(Policy):
    """Softmax over K actions, on an `MLP` (torso "tanh") or a `LayerNormMLP`. Parameters: logits [..., K]."""

    discrete = True

    def __init__(
        self, obs_dim: int, num_actions: int, hidden: Sequence[int], generator: Generator, torso: str = "tanh"
    ):
        super().__init__()
        require_one_of(TORSOS, torso=torso)
        self.logits = _body(torso, [obs_dim, *hidden, num_actions], generator)

    @property
    def encoder(self) -> nn.Module:
        return nn.Sequential(*list(self.logits)[:-1])

    def small_head(self, generator: Generator) -> None:
        _small(_head(self.logits), generator)

    def forward(self, obs: Tensor) -> Params:
        return (self.logits(obs),)

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        return categorical_log_prob(action, *params)

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        return categorical_entropy(*params)

    def kl(self, old: Params, new: Params) -> Tensor:
        return categorical_kl(*old, *new)

    def kl_parts(self, old: Params, new: Params) -> tuple[Tensor]:
        """The whole KL as the only part, [..., 1]."""
        return (self.kl(old, new).unsqueeze(-1),)

    def noise(self, rows: int, generator: Generator) -> Tensor:
        like = _head(self.logits).bias
        return torch.rand(rows, len(like), generator=generator, dtype=like.dtype, device=like.device)

    def sample(self, params: Params, generator: Generator | None = None, noise: Tensor | None = None) -> Tensor:
        (logits,) = params
        return categorical_sample(logits, generator, noise)

    def mode(self, params: Params) -> Tensor:
        return params[0].argmax(-1)


def _body(torso: str, sizes: Sequence[int], generator: Generator) -> nn.Sequential:
    """The network of a policy, with a small last layer."""
    return (MLP if torso == "tanh" else LayerNormMLP)(sizes, 0.01, generator)


class ValueNet(nn.Module):
    """State value V(s): [..., obs_dim] to [...], return units."""

    def __init__(self, obs_dim: int, hidden: Sequence[int], generator: Generator, torso: str = "tanh"):
        super().__init__()
        require_one_of(TORSOS, torso=torso)
        sizes = [obs_dim, *hidden, 1]
        self.value = MLP(sizes, 1.0, generator) if torso == "tanh" else LayerNormMLP(sizes, 0.01, generator)

    def forward(self, obs: Tensor) -> Tensor:
        return self.value(obs).squeeze(-1)


class ValueHead(nn.Module):
    """State value V(s) as one linear layer on an encoder that belongs to the policy: [..., obs_dim] to [...].

    The encoder's weights count as the policy's, not as this module's; the value loss moves them too.
    """

    def __init__(self, encoder: nn.Module, width: int, generator: Generator):
        super().__init__()
        self.head = MLP([width, 1], 1.0, generator)
        self.shared = (encoder,)  # in a tuple, so that its parameters are not listed twice

    def forward(self, obs: Tensor) -> Tensor:
        return self.head(self.shared[0](obs)).squeeze(-1)


class QNet(nn.Module):
    """Action value Q(s, a) on a `LayerNormMLP`, return units.

    Continuous actions [..., D] enter clipped to [-1, 1], as the environment gets them, and the value is [...]. With
    num_actions = K the values of all actions come at once, [..., K].
    """

    def __init__(self, obs_dim: int, action_dim: int, num_actions: int, hidden: Sequence[int], generator: Generator):
        super().__init__()
        self.num_actions = num_actions
        self.value = LayerNormMLP([obs_dim + action_dim, *hidden, num_actions or 1], 0.01, generator)

    def forward(self, obs: Tensor, action: Tensor | None = None) -> Tensor:
        """Values [...] of `action`; with a finite action set those of all actions [..., K] if none is named."""
        if self.num_actions:
            values = self.value(obs)
            return values if action is None else values.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        if action is None:
            raise ValueError("action: wanted one, no set of actions can be listed here; got None")
        return self.value(torch.cat([obs, action.clamp(-1.0, 1.0)], -1)).squeeze(-1)
