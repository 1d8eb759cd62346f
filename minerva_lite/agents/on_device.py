"""How an agent learns on a GPU without waiting for it. On a CPU none of this is needed."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from .guard import Answer
from .recorded import Recorded, copied


class DeviceLoop:
    """An agent's walk and update where asking for a number would stop the queue of work on the device.

    A rollout that is not finite is learned from all the same, and then everything is put back as it was: a masked step.
    With `record`, walk and update are each recorded as a CUDA graph, which needs an update that is the same every time.
    """

    def __init__(self, agent: Any, *, record: bool):
        self.agent, self.record = agent, record
        self.recorded_update = Recorded(self.masked_update, [agent.generator])
        self.recorded_walk: Recorded | None = None
        self.env: Any = None
        self.unsettled: tuple[Answer, dict[str, int]] | None = None

    def update(self, rollout: Any, progress: float) -> dict[str, Tensor]:
        """What `Agent.update` does with a checked rollout; the count of refusals is a tensor here."""
        self.settle()
        self.kind, self.progress = type(rollout), progress
        if not self.record:
            counts = {name: attrgetter(name)(self.agent) for name in self.agent.counted}
            figures = self.masked_update(vars(rollout))
            self.unsettled = (Answer(self.finite), counts) if counts else None
            return figures
        self.agent.set_learning_rate(progress)  # in place, where the recorded update reads it
        return self.recorded_update(vars(rollout))

    def settle(self) -> None:
        """Take back what Python counted in an update that was refused: by now the device has long said so."""
        if self.unsettled:
            was_finite, counts = self.unsettled
            if not was_finite:
                for name, count in counts.items():
                    *owner, last = name.split(".")
                    setattr(attrgetter(*owner)(self.agent) if owner else self.agent, last, count)
            self.unsettled = None

    def masked_update(self, fields: dict[str, Any]) -> dict[str, Tensor]:
        agent, rollout = self.agent, self.kind(**fields)
        finite = self.finite = agent.guard.finite(**rollout.tensors())
        before = copied(agent.learned_state())
        figures = agent.digest(rollout, self.progress)
        for name, tensor in agent.learned_state().items():
            old = before.get(name)
            if old is None or old.shape != tensor.shape:  # made by this very update
                old = torch.zeros_like(tensor)
            tensor.copy_(torch.where(finite, tensor, old))
        return figures | {"train/skipped_batches": agent.guard.total}

    def collect(self, env: Any, obs: Tensor) -> tuple[Any, Tensor]:
        """What `agent.walk` does, recorded where the environment lives on the device too."""
        if not (self.record and hasattr(env, "arrive")):
            return self.agent.walk(env, obs)
        if env is not self.env:
            self.env = env
            self.recorded_walk = Recorded(self.walk, [self.agent.generator, env.generator])
        done = self.recorded_walk({"obs": obs, "state": env.state, "elapsed": env.elapsed})
        env.state, env.elapsed = done["state"], done["elapsed"]
        return self.kind(**done["rollout"]), done["obs"]

    def walk(self, start: dict[str, Tensor]) -> dict[str, Any]:
        """The walk as a function of tensors alone."""
        self.env.state, self.env.elapsed = start["state"], start["elapsed"]
        rollout, obs = self.agent.walk(self.env, start["obs"])
        self.kind = type(rollout)
        return {"rollout": vars(rollout), "obs": obs, "state": self.env.state, "elapsed": self.env.elapsed}
