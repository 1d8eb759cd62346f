"""The two types that every environment shares with the agents: its description, and one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know to build its networks. Exactly one of action_dim and num_actions is above 0."""

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


class VectorEnv(Protocol):
    """B environments stepped side by side."""

    spec: EnvSpec
    num_envs: int
    dtype: torch.dtype
    device: torch.device

    def reset(self) -> Tensor:
        """Begin new episodes everywhere; the first observations [B, O]."""

    def step(self, action: Tensor) -> Step:
        """One step of each, by actions [B, D] in [-1, 1] or [B] int64."""

    def state_dict(self) -> dict[str, Any] | None:
        """Everything that the next step depends on; None where it cannot be saved."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""

    def close(self) -> None:
        """Let go of processes and windows."""
