"""Advantage actor-critic, synchronous (Mnih et al. 2016, arXiv:1602.01783)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..experience.rollout import Batch, Rollout
from ..formulas.objectives import normalize_advantage, policy_gradient_loss, value_loss
from .base import GradientAgent
from .on_policy import GradientConfig, OnPolicyAgent
from .settings import count


@dataclass(frozen=True)
class A2CConfig(GradientConfig):
    """Settings of A2C: those of every agent with one loss, and short rollouts."""

    rollout_steps: int = count(16)  # steps of each environment between two updates, T
    normalize_advantage: bool = False  # shift and scale the advantages of each rollout


class A2CAgent(GradientAgent, OnPolicyAgent):
    """A policy and a critic that take one gradient step per rollout."""

    name = "a2c"
    config: A2CConfig

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """One gradient step on all of a rollout: the data are used once, while they are on-policy."""
        self.set_learning_rate(progress)
        batch = self.prepare(rollout)
        loss, parts = self.loss(batch)
        grad_norm = self.gradient_step(loss)
        return self.diagnose(batch) | parts | {"train/grad_norm": grad_norm, "train/learning_rate": self.learning_rate}

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend on N rows, and its parts.

        To the policy the advantage is a number: no gradient flows through it into the critic, which learns by its own
        loss alone. Their networks share no weight, but one clipped gradient moves both: there c_V weighs them.
        """
        c = self.config
        params = self.policy(batch.obs)
        log_prob = self.policy.log_prob(params, batch.action)
        advantage = normalize_advantage(batch.advantage) if c.normalize_advantage else batch.advantage
        # LaTeX: L^\pi = -\operatorname{mean}_t \left[ \mathrm{sg}(A_t') \log \pi_\theta(a_t \mid s_t) \right]
        policy_loss = policy_gradient_loss(log_prob, advantage)
        critic_loss = value_loss(self.critic(batch.obs), batch.value_target)
        # LaTeX: L = L^\pi + c_V L^V
        loss = policy_loss + c.vf_coef * critic_loss
        if c.entropy_coef:
            entropy = self.policy.entropy(params, self.minibatch_generator)
            # LaTeX: L' = L - c_H \operatorname{mean}_t H_t
            loss = loss - c.entropy_coef * entropy.mean()
        parts = {"loss/policy": policy_loss, "loss/value": critic_loss, "loss/total": loss}
        return loss, {name: part.detach() for name, part in parts.items()}
