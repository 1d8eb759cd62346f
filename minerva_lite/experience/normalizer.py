"""Running statistics that change at one defined moment, can be frozen, and are saved with the agent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..checks import require_positive, require_unit_interval


class Normalizer(nn.Module):
    """Running mean and variance of [..., *shape] data; a module, so `state_dict` carries its statistics.

    `normalize` only reads the statistics. Only `absorb` changes them, and never in eval mode (`normalizer.eval()`).
    Before the first `absorb`, `normalize` only clips.
    """

    mean: Tensor  # [*shape]
    var: Tensor  # [*shape]
    count: Tensor  # [] rows absorbed so far

    def __init__(self, shape: tuple[int, ...] = (), clip: float = 10.0, eps: float = 1e-8):
        super().__init__()
        require_positive(clip=clip, eps=eps)
        self.clip, self.eps = clip, eps
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("count", torch.zeros(()))

    def normalize(self, x: Tensor) -> Tensor:
        # LaTeX: \hat{x} = \operatorname{clip}\left( \frac{x - \mu}{\sqrt{\nu + \varepsilon}}, -c, c \right)
        return ((x - self.mean) / (self.var + self.eps).sqrt()).clamp(-self.clip, self.clip)

    def absorb(self, x: Tensor) -> None:
        """Add a batch [..., *shape]; the result is as if all data had come at once (Chan et al. 1979)."""
        if not self.training:
            return
        rows = x.reshape(-1, *self.mean.shape)
        count = self.count + len(rows)
        # LaTeX: \Delta = \operatorname{mean}_t x_t - \mu
        shift = rows.mean(0) - self.mean
        # LaTeX: \nu' = \frac{n \nu + m \operatorname{Var}_t[x_t] + \frac{n m}{n + m} \Delta^2}{n + m}
        var = (
            self.count * self.var
            + len(rows) * rows.var(0, correction=0)
            + self.count * len(rows) / count * shift.square()
        ) / count
        # LaTeX: \mu' = \mu + \frac{m}{n + m} \Delta
        mean = self.mean + len(rows) / count * shift
        self.mean.copy_(mean), self.var.copy_(var), self.count.copy_(count)


class RewardScaler(nn.Module):
    """Rewards divided by the standard deviation of the running discounted return, clipped; never shifted.

    The running return starts at 0 with each episode and uses the agent's own gamma.
    """

    running: Tensor  # [B] discounted return of the episode in progress, one an environment

    def __init__(self, gamma: float, clip: float = 10.0):
        super().__init__()
        require_unit_interval(gamma=gamma)
        self.gamma = gamma
        self.stats = Normalizer(clip=clip)
        self.register_buffer("running", torch.zeros(0))

    def scale(self, reward: Tensor) -> Tensor:
        stats = self.stats
        # LaTeX: \hat{r} = \operatorname{clip}\left( \frac{r}{\sqrt{\nu + \varepsilon}}, -c, c \right)
        return (reward / (stats.var + stats.eps).sqrt()).clamp(-stats.clip, stats.clip)

    def unscale(self, value: Tensor) -> Tensor:
        """Returns of scaled rewards in the units of raw ones; what `scale` has clipped stays clipped."""
        return value * (self.stats.var + self.stats.eps).sqrt()

    def absorb(self, reward: Tensor, ended: Tensor, real: Tensor | None = None) -> None:
        """Fold one rollout in: reward [T, B], ended [T, B] bool; real [T, B] bool, rows to count (None: all)."""
        if not self.stats.training:
            return
        if len(self.running) != reward.shape[1]:
            self.running = torch.zeros_like(reward[0])
        if real is not None:  # such a row stands after the end of an episode, where nothing is running
            reward = reward.masked_fill(~real, 0.0)
        returns = torch.empty_like(reward)
        running = self.running
        for t in range(len(reward)):
            # LaTeX: g_t = \gamma g'_{t-1} + r_t
            running = self.gamma * running + reward[t]
            returns[t] = running
            # LaTeX: g'_t = (1 - e_t) g_t
            running = running.masked_fill(ended[t], 0.0)
        self.running.copy_(running)
        self.stats.absorb(returns if real is None else returns[real])

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        # The number of environments is a property of the run, so the buffer takes the saved length.
        saved = state_dict.get(prefix + "running")
        if saved is not None:
            self.running = torch.zeros_like(saved, device=self.running.device)
        super()._load_from_state_dict(state_dict, prefix, *args)
