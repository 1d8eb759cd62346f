"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).

`improve` is the algorithm of chapter 5, `loss` its formulas in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..experience.rollout import Batch, Rollout
from ..formulas.distributions import kl_estimates
from ..formulas.objectives import (
    adapt_kl_penalty,
    clipped_value_loss,
    kl_penalty_loss,
    normalize_advantage,
    ppo_clip_fraction,
    ppo_clip_loss,
    value_loss,
)
from .base import GradientAgent
from .on_policy import GradientConfig, OnPolicyAgent
from .settings import count, one_of, positive

KL_PENALTY_MIN, KL_PENALTY_MAX = 1e-8, 1e8  # advantage units per nat


@dataclass(frozen=True)
class PPOConfig(GradientConfig):
    """Settings of PPO, beyond those of every agent with one loss; contradictions are refused when it is made."""

    minibatch_size: int = count(256)  # rows of one gradient step, out of the T * B of a rollout
    epochs: int = count(10)  # passes over each rollout
    objective: str = one_of("clip", "kl_penalty")  # "clip", or "kl_penalty", whose strength adapts to kl_bound
    clip_eps: float = positive(0.2)  # half-width of the interval to which "clip" clips ratios
    kl_bound: float = positive(0.01)  # mean KL(old || new) an update aims at under "kl_penalty", nats
    kl_penalty_init: float = positive(1.0)  # first strength of the penalty, advantage units per nat
    target_kl: float | None = None  # leave the update once k3 on a minibatch exceeds it, nats; None or <= 0: off
    stop_test: str = one_of("minibatch", "epoch")  # test target_kl before each step, or after an "epoch" on its last
    clip_value: bool = False  # clip the value loss too: by clip_eps, in units of the (normalized) return
    recompute_advantage: bool = False  # before each epoch, by the critic as it then is (Andrychowicz et al. 2021)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_kl is not None and not math.isfinite(self.target_kl):
            raise ValueError(f"target_kl: wanted None or a finite number; got {self.target_kl}")
        if self.whole_episodes:
            raise ValueError("whole_episodes: wanted False, PPO's minibatches need rollouts of one size; got True")
        if self.minibatch_size > self.batch_size:
            raise ValueError(
                f"minibatch_size: wanted at most rollout_steps * num_envs = {self.batch_size}; "
                f"got {self.minibatch_size}"
            )
        if self.normalize_advantage and 1 in (self.minibatch_size, self.batch_size % self.minibatch_size):
            raise ValueError(
                f"minibatch_size: wanted no minibatch of one row, whose advantage has no spread; got "
                f"{self.minibatch_size} for a batch of {self.batch_size}"
            )


class PPOAgent(GradientAgent, OnPolicyAgent):
    """A policy and a critic trained by PPO."""

    name = "ppo"
    config: PPOConfig

    def setup(self) -> None:
        super().setup()
        self.kl_penalty = self.config.kl_penalty_init

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Several epochs of minibatch steps on one rollout.

        The old log-probabilities are those of the rollout, so that every ratio says how far the policy has moved from
        the one that acted. Advantages and targets are computed once, before the first step, unless the settings ask
        for them before every epoch. Each epoch shuffles the rows anew. The figures are read from the whole rollout at
        the end, because a minibatch is judged before its own step.
        """
        c = self.config
        self.set_learning_rate(progress)
        first = self.prepare(rollout)
        batch: Batch = first
        grad_norms: list[Tensor] = []
        stopped = False
        for epoch in range(c.epochs):
            if c.recompute_advantage and epoch > 0:
                batch = replace(self.prepare(rollout), value_old=first.value_old)  # around which `clip_value` clips
            for rows in batch.minibatches(c.minibatch_size, self.minibatch_generator):
                if c.normalize_advantage and len(rows.obs) == 1:
                    continue  # rows of restart weight 0 can leave one; alone it has no spread
                loss, parts = self.loss(rows)
                if c.target_kl is not None and c.target_kl > 0:
                    # By k3, since k1 can be negative and miss it.
                    stopped = bool(kl_estimates(parts["log_ratio"])[2].mean() > c.target_kl)
                if stopped and c.stop_test == "minibatch":
                    break
                grad_norms.append(self.gradient_step(loss))
            if stopped:
                break
        diagnostics = self.diagnose(first)
        if c.objective == "kl_penalty":
            diagnostics["loss/kl_penalty"] = self.kl_penalty * diagnostics["kl/exact"]
            diagnostics["kl/exact_relative"] = diagnostics["kl/exact"] / c.kl_bound
            adapted = adapt_kl_penalty(self.kl_penalty, float(diagnostics["kl/exact"]), c.kl_bound)
            # While the policy stands still the coefficient is halved at every update. Without a least value it would be
            # 0 after 1,075 of them, and 0 doubled stays 0; from this one, about 27 doublings lead back.
            self.kl_penalty = min(max(adapted, KL_PENALTY_MIN), KL_PENALTY_MAX)
        return diagnostics | {
            "train/grad_norm": torch.stack(grad_norms).mean() if grad_norms else torch.zeros(()),
            "train/gradient_steps": torch.tensor(float(len(grad_norms))),
            "train/learning_rate": self.learning_rate,
        }

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend on N rows, and its parts: losses, log-ratio [N], entropy [N] where it counts."""
        c = self.config
        params = self.policy(batch.obs)
        log_prob = self.policy.log_prob(params, batch.action)
        # LaTeX: \log \rho_t = \log \pi_\theta(a_t \mid s_t) - \log \pi_b(a_t \mid s_t)
        log_ratio = log_prob - batch.behavior_log_prob
        # In each minibatch and not once per rollout, as OpenAI baselines does it: then every step, whatever rows it
        # drew, weighs the same beside the critic's loss and the entropy, and pushes as much up as down.
        advantage = normalize_advantage(batch.advantage) if c.normalize_advantage else batch.advantage
        if c.objective == "clip":
            # LaTeX: L^\pi = -\operatorname{mean}_t \min\left(\rho_t A_t', \operatorname{clip}(\rho_t, 1 - \varepsilon_{\mathrm{clip}}, 1 + \varepsilon_{\mathrm{clip}}) A_t'\right)
            policy_loss = ppo_clip_loss(log_ratio, advantage, c.clip_eps)
        else:
            kl = self.policy.kl(batch.behavior_params, params)
            # The exact KL over all actions, because an estimate from the one that was taken is noisier.
            # LaTeX: L^\pi = -\operatorname{mean}_t \left[ \rho_t A_t' - \beta_{\mathrm{KL}}\, \mathrm{KL}_t \right]
            policy_loss = kl_penalty_loss(log_ratio, advantage, kl, self.kl_penalty)
        value = self.critic(batch.obs)
        if c.clip_value:
            critic_loss = clipped_value_loss(value, batch.value_old, batch.value_target, c.clip_eps)
        else:
            critic_loss = value_loss(value, batch.value_target)
        # LaTeX: L = L^\pi + c_V L^V
        loss = policy_loss + c.vf_coef * critic_loss
        parts = {"loss/policy": policy_loss, "loss/value": critic_loss, "log_ratio": log_ratio}
        if c.entropy_coef:
            entropy = parts["entropy"] = self.policy.entropy(params, self.minibatch_generator)
            # LaTeX: L' = L - c_H \operatorname{mean}_t H_t
            loss = loss - c.entropy_coef * entropy.mean()
        parts["loss/total"] = loss
        return loss, {name: part.detach() for name, part in parts.items()}

    @torch.no_grad()
    def diagnose(self, batch: Batch, entropy: Tensor | None = None) -> dict[str, Tensor]:
        """What a practitioner reads, over the whole rollout after the update; under `value/` the critic before it."""
        _, parts = self.loss(batch)
        log_ratio = parts["log_ratio"]
        k1, _, k3 = kl_estimates(log_ratio)
        return super().diagnose(batch, parts.get("entropy", entropy)) | {
            "loss/policy": parts["loss/policy"],
            "loss/value": parts["loss/value"],
            "loss/total": parts["loss/total"],
            "kl/k1": k1.mean(),
            "kl/k3": k3.mean(),
            "kl/penalty": torch.tensor(self.kl_penalty),
            "train/clip_fraction": ppo_clip_fraction(log_ratio, self.config.clip_eps),
            "train/max_ratio": log_ratio.max().exp(),
        }

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"kl_penalty": self.kl_penalty}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.kl_penalty = state["kl_penalty"]
