"""What every environment speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class EnvSpec:
    """What a network must know of an environment. Exactly one of action_dim and num_actions is above 0."""

    env_id: str
    obs_dim: int
    action_dim: int = 0
    num_actions: int = 0


class Step(NamedTuple):
    """One step of B environments."""

    next_obs: Tensor  # [B, O] true successor
    reward: Tensor  # [B]
    terminated: Tensor  # [B] bool
    truncated: Tensor  # [B] bool, never together with terminated
    obs: Tensor  # [B, O] what to act on next: next_obs, or the first one of a new episode
