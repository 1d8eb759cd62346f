"""What every environment shares with the agents: its description, and one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ..checks import require_shape


@dataclass(frozen=True)
class OwnSpaces:
    """The shapes, bounds and dtype in which an environment itself speaks, which agents never see."""

    obs_shape: tuple[int, ...]  # of one observation; after flattening where it is no array
    action_shape: tuple[int, ...]  # of one action, () for one number
    action_dtype: str  # NumPy's name of it
    low: tuple[float, ...]  # [D] smallest value of each entry of an action, in the environment's own units
    high: tuple[float, ...]  # [D] largest one


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know to build its networks, and to answer in the environment's own actions.

    Exactly one says what an action is: action_dim (D numbers in [-1, 1]), num_actions (one of K), or choices (one of
    K_i for each of D parts, all at once). own: not known of an environment that somebody described by hand, nor in a
    checkpoint of an older version. Two specs that differ in nothing else are equal. Raises ValueError: several of the
    three, or none.
    """

    env_id: str
    obs_dim: int
    action_dim: int = 0
    num_actions: int = 0
    choices: tuple[int, ...] = ()
    own: OwnSpaces | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        kinds = {"action_dim": self.action_dim, "num_actions": self.num_actions, "choices": self.choices}
        if sum(bool(kind) for kind in kinds.values()) != 1:
            given = ", ".join(f"{name}={kind!r}" for name, kind in kinds.items())
            raise ValueError(f"spec: wanted exactly one of action_dim, num_actions and choices; got {given}")
        if isinstance(self.own, dict):  # as a checkpoint has it
            object.__setattr__(self, "own", OwnSpaces(**self.own))

    @cached_property
    def discrete(self) -> bool:
        """Whether there are finitely many actions."""
        return bool(self.num_actions or self.choices)

    @cached_property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of one action as agents store it: () or (D,)."""
        return () if self.num_actions else (self.action_dim or len(self.choices),)

    @cached_property
    def params_dim(self) -> int:
        """How many numbers a policy gives for each of its parameters: D means, K logits, or those of all parts."""
        return self.num_actions or self.action_dim or sum(self.choices)

    def own_action(self, action: Tensor) -> np.ndarray:
        """Actions as the environment itself takes them: [B, *own.action_shape], its units and dtype.

        action: [B, D] in [-1, 1], clipped, each dimension mapped affinely onto its own bounds, and rounded where the
        environment wants whole numbers; or int64, from 0.
        Raises ValueError: another shape, or `own` is not known.
        """
        if self.own is None:
            raise ValueError(
                f"spec.own: wanted the bounds of {self.env_id}, which neither a checkpoint of an older version nor a "
                f"spec made by hand has; got None: set agent.spec = make_env({self.env_id!r}, "
                "backend='gymnasium').spec"
            )
        require_shape((None, *self.action_shape), action=action)
        low, high = np.array(self.own.low), np.array(self.own.high)
        if self.discrete:
            values = action.cpu().numpy().reshape(len(action), len(low)) + low
        else:
            width = high.astype(float) - low.astype(float)
            values = low + 0.5 * (action.clamp(-1.0, 1.0).cpu().double().numpy() + 1.0) * width
            if np.issubdtype(self.own.action_dtype, np.integer):
                values = np.rint(values).astype(object)  # Python's numbers: float64 does not hold every large bound
            values = np.clip(values, low, high)  # rounding may leave the bounds by the last bit
        own: np.ndarray = values.reshape(len(action), *self.own.action_shape).astype(self.own.action_dtype)
        return own


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
    seed: int  # of all that it draws

    def reset(self) -> Tensor:
        """Start new episodes everywhere: the first observations [B, O]."""

    def step(self, action: Tensor) -> Step:
        """Advance by `action`: [B, D] in [-1, 1], clipped, or int64: [B], or [B, D] where there are several choices."""

    def state_dict(self) -> dict[str, Any] | None:
        """All that the next steps depend on; None where it cannot be read."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that an environment of the same making saved."""

    def reseed(self, steps: int) -> None:
        """Draw from the next reset on what belongs to episodes that begin after so many steps of training."""

    def close(self) -> None:
        """Let go of processes and windows."""


@runtime_checkable
class BranchingEnv(VectorEnv, Protocol):
    """One whose state can be read and set, so that several futures of one state can be tried: what a vine needs."""

    state: Tensor  # [B, S] all that the next step depends on, besides time and random numbers
    elapsed: Tensor  # [B] int64, steps since the episode began

    def branch(self, state: Tensor, elapsed: Tensor, seed: int) -> BranchingEnv:
        """A copy with one environment a row of `state` [N, S] and `elapsed` [N], its random numbers from `seed`."""
