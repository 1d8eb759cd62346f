"""What agents share that descend one loss by one optimizer: the clipped step, the falling rate, and saving both."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from .base import Agent


class OneOptimizer(Agent):
    """An agent whose loss moves all its parameters together.

    An heir's `setup` makes `parameters` and `optimizer`; its config has the fields of `OptimizerSettings` and a
    `learning_rate`.
    """

    config: Any
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer

    def gradient_step(self, loss: Tensor) -> Tensor:
        """One step of the optimizer down `loss`, its gradient clipped; the norm before clipping, 0-d.

        Raises NonFiniteStep, which ends an update: loss or norm is not finite, and nothing has moved.
        """
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm)
        self.guard.admit("loss", loss, norm)
        self.optimizer.step()
        return norm

    @property
    def learning_rate(self) -> Tensor:
        """The optimizer's present learning rate, 0-d."""
        return torch.as_tensor(self.optimizer.param_groups[0]["lr"]).clone()

    def set_learning_rate(self, progress: float) -> None:
        """The learning rate of this update: constant, or falling linearly to 0 at progress 1."""
        left = self.config.rate_left(progress)
        for group in self.optimizer.param_groups:
            # LaTeX: \alpha_u = f_u \alpha_0
            group["lr"] = self.config.learning_rate * left

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))  # torch would share its tensors
