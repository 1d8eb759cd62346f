"""Advantage actor-critic, synchronous (Mnih et al. 2016, arXiv:1602.01783), readable top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..formulas.objectives import normalize_advantage, policy_gradient_loss, value_loss
from .on_policy import GradientConfig, OnPolicyAgent


@dataclass(frozen=True)
class A2CConfig(GradientConfig):
    """Settings of A2C: those of every on-policy agent, with short rollouts."""

    rollout_steps: int = 16  # steps of each environment between two updates, T
    normalize_advantage: bool = False  # shift and scale the advantages of each rollout


class A2CAgent(OnPolicyAgent):
    """A policy and a critic, one gradient step of `loss` a rollout. `act`, `update`, `state_dict`; see `A2CConfig`."""

    name = "a2c"

    def loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend, and its parts."""
        params = self.policy(batch["obs"])
        policy_loss = self.policy_loss(self.policy.log_prob(params, batch["action"]), batch["advantage"])
        critic_loss = value_loss(self.critic(batch["obs"]), batch["value_target"])
        entropy = self.policy.entropy(params, self.generator) if self.config.entropy_coef else None
        parts = {"loss/policy": policy_loss.detach(), "loss/value": critic_loss.detach()}
        return self.total_loss(policy_loss, critic_loss, entropy), parts

    def policy_loss(self, log_prob: Tensor, advantage: Tensor) -> Tensor:
        if self.config.normalize_advantage:  # else A' is A
            # LaTeX: A_t' = \frac{A_t - \operatorname{mean}_t A_t}{\operatorname{std}_t A_t + 10^{-8}}
            advantage = normalize_advantage(advantage)
        # LaTeX: L^\pi = -\operatorname{mean}_t \left[ \mathrm{sg}(A_t') \log \pi_\theta(a_t \mid s_t) \right]
        return policy_gradient_loss(log_prob, advantage)
