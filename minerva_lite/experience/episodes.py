"""Returns and lengths of the episodes that an agent plays while it learns, over the seams of its rollouts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..checks import widest
from .rollout import Rollout
from .vine import Vine


class RunningEpisodes:
    """Return and length so far of the episode in progress in each environment; raw rewards, undiscounted.

    whole: every rollout starts fresh episodes, of which an agent learns from the first in each environment. Only these
    are counted then, because of the second episodes those that finish in time are more often short.
    """

    def __init__(self, *, whole: bool = False):
        self.whole = whole
        self.running = torch.zeros(2, 0)  # [2, B]: return and length; NaN for an episode whose start nobody saw

    @torch.no_grad()
    def absorb(self, data: Any) -> dict[str, Tensor]:
        """Add a rollout [T, B]: means over the episodes that finished in it, 0-d on its device; NaN if none did.

        Of a vine only the trunk is counted, because its branches stop after a few steps. Data of another kind, none of
        whose episodes goes on in the next, count them in a method `episodes`, or give {}.
        """
        rollout = data.trunk if isinstance(data, Vine) else data
        if not isinstance(rollout, Rollout):
            return data.episodes() if hasattr(data, "episodes") else {}
        ended, played, reward = rollout.ended, rollout.real, rollout.reward
        if self.whole:
            ended, played = ended & rollout.first_episode, played & rollout.first_episode
        dtype = widest(reward.device)  # a long episode's sum loses digits in float32
        if self.whole or self.running.shape[1] != reward.shape[1]:
            self.running = torch.zeros(2, reward.shape[1], dtype=dtype, device=reward.device)
        running = self.running.to(reward.device, dtype)
        # Not a product with the flags: where a reward is NaN, 0 times it would be NaN in episodes it is not part of.
        steps = torch.stack([reward.to(dtype).masked_fill(~played, 0.0), played.to(dtype)])  # [2, T, B]
        # The mean needs the sum over all finished episodes alone: what came before the last end of each environment.
        finished = ended.flip(0).cumsum(0).flip(0) > 0
        total = running.masked_fill(~finished[0], 0.0) + steps.masked_fill(~finished, 0.0).sum(1)
        self.running = running.masked_fill(finished[0], 0.0) + steps.masked_fill(finished, 0.0).sum(1)
        returns, length = total.sum(1) / ended.sum()
        return {"train/episode_return": returns, "train/episode_length": length}

    def state_dict(self) -> dict[str, Tensor]:
        """What goes on in the next rollout."""
        return {"running": self.running}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.running = state["running"]


def finished_only(row: dict[str, float]) -> dict[str, float]:
    """The row; without the figures of `RunningEpisodes` where no episode finished, of which no mean can be taken."""
    if not math.isnan(row.get("train/episode_length", 0.0)):
        return row
    return {name: value for name, value in row.items() if not name.startswith("train/episode_")}
