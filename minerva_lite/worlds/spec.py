"""The two types that every environment shares with the agents: its description, and one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

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
    # [B] bool: no transition but the reset after an end; the action was ignored, next_obs is the first observation of
    # the new episode. None: this environment makes no such rows.
    phantom: Tensor | None = None


@runtime_checkable
class VectorEnv(Protocol):
    """B environments stepped side by side, with an end and a new beginning for each on its own."""

    spec: EnvSpec
    num_envs: int  # B
    dtype: torch.dtype  # of observations, rewards and continuous actions
    device: torch.device  # of everything that goes in and comes out

    def reset(self) -> Tensor:
        """Start new episodes everywhere: the first observations [B, O]."""
        ...

    def step(self, action: Tensor) -> Step:
        """Advance by `action`: [B, D] in [-1, 1], clipped, or [B] int64."""
        ...

    def state_dict(self) -> dict[str, Any] | None:
        """All that the next steps depend on; None where it cannot be read."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that an environment of the same making saved."""
        ...

    def close(self) -> None:
        """Let go of processes and windows."""
        ...


@runtime_checkable
class BranchingEnv(VectorEnv, Protocol):
    """One whose state can be read and set, so that several futures of one state can be tried: what a vine needs."""

    state: Tensor  # [B, S] all that the next step depends on, besides time and random numbers
    elapsed: Tensor  # [B] int64, steps since the episode began

    def branch(self, state: Tensor, elapsed: Tensor, seed: int) -> BranchingEnv:
        """A copy with one environment a row of `state` [N, S] and `elapsed` [N], its random numbers from `seed`."""
        ...
