"""Off-policy data: sequences drawn uniformly from the steps that were kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from ..checks import require_count, require_dtype, require_shape
from .rollout import Rollout

FIELDS = ("obs", "action", "behavior_log_prob", "reward", "next_obs", "terminated", "truncated")


class SequenceReplay:
    """A ring of the last `capacity` steps of each of B environments, on one device.

    It takes rollouts and returns a `Rollout`: sequences of `length` steps side by side, each from one environment and
    in the order in which they happened. A sequence may contain the end of an episode; its flags say so, and next_obs
    is the true successor there. A row counts as truncated too where the next one held does not follow it: after a
    reset, or where rows are missing. behavior_log_prob is kept, behavior_params are not.
    """

    def __init__(self, capacity: int):
        require_count(capacity=capacity)
        self.capacity = capacity
        self.columns: dict[str, Tensor] = {}  # each [capacity, B, ...], made when the first rollout gives the shapes
        self.position, self.size = 0, 0  # where the next step goes; steps held, of each environment

    def insert(self, rollout: Rollout, starts: Tensor | None = None) -> None:
        """Add the T steps of a rollout; once the ring is full they replace the oldest T. The work is O(T).

        starts: [T, B] bool, the rows that do not follow the row before them; None: all do.
        Raises ValueError: the rollout is longer than the ring, its shapes differ from those held, or it has rows that
        are no real transitions.
        """
        steps = len(rollout.reward)
        if rollout.restart_weight is not None:
            raise ValueError(
                "restart_weight: wanted none, a replay holds real transitions only; got rows that may be none: drop "
                'them first, or take environments with autoreset="same_step"'
            )
        if steps > self.capacity:
            raise ValueError(f"rollout: wanted at most the replay's capacity, {self.capacity} steps; got {steps}")
        rows = {name: getattr(rollout, name) for name in FIELDS}
        rows["starts"] = torch.zeros_like(rollout.terminated) if starts is None else starts
        if not self.columns:
            self.columns = {
                name: torch.zeros(self.capacity, *t.shape[1:], dtype=t.dtype, device=t.device)
                for name, t in rows.items()
            }
        for name, column in self.columns.items():
            require_shape((steps, *column.shape[1:]), **{name: rows[name]})
            require_dtype(column.dtype, **{name: rows[name]})
        index = (self.position + torch.arange(steps, device=rollout.reward.device)) % self.capacity
        for name, column in self.columns.items():
            column[index] = rows[name]
        self.position = (self.position + steps) % self.capacity
        self.size = min(self.size + steps, self.capacity)

    def starts_of(self, rollout: Rollout) -> Tensor:
        """`starts` of a rollout that comes next, [T, B]: row 0 may begin elsewhere than where the newest step led."""
        starts = torch.zeros_like(rollout.terminated)
        if self.size:
            starts[0] = (rollout.obs[0] != self.columns["next_obs"][self.position - 1]).any(-1)
        return starts

    def withdraw(self, steps: int) -> None:
        """Take back the last `steps` steps that were inserted. What they replaced in a full ring does not come back."""
        self.position = (self.position - steps) % self.capacity
        self.size -= steps

    def drop_huge(self) -> None:
        """Take out every step that holds a number whose square nearly overflows: no update can learn from it."""
        held = self.state_dict()["columns"]
        floats = [column.flatten(1) for column in held.values() if column.is_floating_point()]
        # "Nearly" is by a factor of 1000: a loss adds up squares, and a target the rewards of a sequence.
        small = torch.stack([(x.abs() < torch.finfo(x.dtype).max ** 0.5 / 1e3).all(1) for x in floats]).all(0)
        held["starts"][1:] |= ~small[:-1, None]
        columns = {name: column[small] for name, column in held.items()}
        self.load_state_dict({"size": int(small.sum()), "columns": columns}, small.device)

    @property
    def num_steps(self) -> int:
        """Environment steps held, over all environments."""
        return self.size * self.columns["reward"].shape[1] if self.columns else 0

    def sample(self, sequences: int, length: int, generator: Generator | None = None) -> Rollout:
        """`sequences` runs of `length` steps, [length, sequences, ...], uniform over all that lie in the ring.

        Drawn with replacement; no run crosses the place where new steps overwrite old ones.
        Raises ValueError: a count below 1, or fewer than `length` steps are held of each environment.
        """
        require_count(sequences=sequences, length=length)
        if self.size < length:
            raise ValueError(
                f"length: wanted at most the {self.size} steps held of each environment (capacity {self.capacity}); "
                f"got {length}"
            )
        reward = self.columns["reward"]
        starts, envs = self.size - length + 1, reward.shape[1]
        draw = torch.randint(starts * envs, (sequences,), generator=generator, device=reward.device)
        oldest = self.position - self.size
        steps = torch.arange(length, device=reward.device).unsqueeze(1)
        row = (oldest + draw // envs + steps) % self.capacity
        drawn = {name: column[row, draw % envs] for name, column in self.columns.items()}
        drawn["truncated"][:-1] |= drawn.pop("starts")[1:] & ~drawn["terminated"][:-1]
        return Rollout(**drawn, behavior_params=())

    def state_dict(self) -> dict[str, Any]:
        """What is held, oldest step first: tensors and plain numbers."""
        row = (self.position - self.size + torch.arange(self.size)) % self.capacity
        return {"size": self.size, "columns": {name: c[row.to(c.device)] for name, c in self.columns.items()}}

    def load_state_dict(self, state: dict[str, Any], device: torch.device | str = "cpu") -> None:
        """Take over what another replay held; this one must have room for it. Raises ValueError: it has not."""
        self.columns, self.position, self.size = {}, 0, 0
        if state["size"]:
            held = {name: column.to(device) for name, column in state["columns"].items()}
            starts = held.pop("starts", None)  # older files have none
            self.insert(Rollout(**held, behavior_params=()), starts)
