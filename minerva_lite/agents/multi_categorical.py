"""The policy where an action has several parts, each one of a few: `MultiDiscrete` and `MultiBinary`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from ..formulas.distributions import categorical_entropy, categorical_kl, categorical_log_prob, categorical_sample
from .networks import CategoricalPolicy, Params


class MultiCategoricalPolicy(CategoricalPolicy):
    """D independent categoricals, over K_1, …, K_D options, on one network. Parameters: their logits, side by side.

    An action is int64 [..., D]. Since the parts are drawn independently, log-probability, entropy and KL are the sums
    of those of the parts. choices: K_i of each part.
    """

    def __init__(
        self, obs_dim: int, choices: Sequence[int], hidden: Sequence[int], generator: Generator, torso: str = "tanh"
    ):
        super().__init__(obs_dim, sum(choices), hidden, generator, torso)
        self.choices = tuple(choices)

    def parts(self, joined: Tensor) -> tuple[Tensor, ...]:
        """What lies side by side, logits or noise [..., K_1 + … + K_D], part by part: each [..., K_i]."""
        return joined.split(self.choices, -1)

    def log_prob(self, params: Params, action: Tensor) -> Tensor:
        pairs = zip(action.unbind(-1), self.parts(*params), strict=True)
        return torch.stack([categorical_log_prob(each, logits) for each, logits in pairs]).sum(0)

    def entropy(self, params: Params, generator: Generator | None = None) -> Tensor:
        return torch.stack([categorical_entropy(logits) for logits in self.parts(*params)]).sum(0)

    def kl(self, old: Params, new: Params) -> Tensor:
        return self.kl_parts(old, new)[0].sum(-1)

    def kl_parts(self, old: Params, new: Params) -> tuple[Tensor]:
        """The KL of each part of the action, [..., D]."""
        pairs = zip(self.parts(*old), self.parts(*new), strict=True)
        return (torch.stack([categorical_kl(*pair) for pair in pairs], -1),)

    def sample(self, params: Params, generator: Generator | None = None, noise: Tensor | None = None) -> Tensor:
        (logits,) = params
        if noise is None:
            noise = torch.rand(logits.shape, generator=generator, dtype=logits.dtype, device=logits.device)
        pairs = zip(self.parts(logits), self.parts(noise), strict=True)
        return torch.stack([categorical_sample(each, noise=drawn) for each, drawn in pairs], -1)

    def mode(self, params: Params) -> Tensor:
        return torch.stack([logits.argmax(-1) for logits in self.parts(*params)], -1)
