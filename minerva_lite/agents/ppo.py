"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347), readable top to bottom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..checks import require_count, require_one_of, require_positive
from ..experience.rollout import Rollout, minibatches
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
from .on_policy import GradientConfig, OnPolicyAgent


@dataclass(frozen=True)
class PPOConfig(GradientConfig):
    """Settings of PPO, beyond those of every on-policy agent; contradictions are refused when the object is made."""

    minibatch_size: int = 256  # rows of one gradient step, out of the T * B of a rollout
    epochs: int = 10  # passes over each rollout
    objective: str = "clip"  # policy objective: "clip", or "kl_penalty", whose strength adapts to kl_bound
    clip_eps: float = 0.2  # half-width of the interval to which "clip" clips ratios
    kl_bound: float = 0.01  # mean KL(old || new) an update aims at under "kl_penalty", nats
    kl_penalty_init: float = 1.0  # first strength of the penalty, advantage units per nat
    target_kl: float | None = None  # leave the update once k3 on a minibatch exceeds it, nats; None or <= 0: off
    stop_test: str = "minibatch"  # test target_kl before each "minibatch" step, or on the last one of an "epoch"
    clip_value: bool = False  # clip the value loss too, by clip_eps in (scaled) return units

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(minibatch_size=self.minibatch_size, epochs=self.epochs)
        require_one_of(("clip", "kl_penalty"), objective=self.objective)
        require_one_of(("minibatch", "epoch"), stop_test=self.stop_test)
        require_positive(clip_eps=self.clip_eps, kl_bound=self.kl_bound, kl_penalty_init=self.kl_penalty_init)
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


class PPOAgent(OnPolicyAgent):
    """A policy and a critic trained by PPO. `act`, `update`, `state_dict`; see `PPOConfig` for the settings."""

    name = "ppo"

    def __init__(self, config: PPOConfig, spec: Any, **where: Any):
        super().__init__(config, spec, **where)
        self.kl_penalty = config.kl_penalty_init

    @property
    def asks(self) -> bool:
        c = self.config
        return super().asks or c.objective == "kl_penalty" or (c.target_kl is not None and c.target_kl > 0)

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Several epochs of minibatch steps on one rollout."""
        c = self.config
        self.set_learning_rate(progress)
        batch = self.prepare(rollout)
        grad_norms, stopped = [], False
        for _ in range(c.epochs):
            for rows in minibatches(batch, c.minibatch_size, self.generator):
                if c.normalize_advantage and len(rows["advantage"]) == 1:
                    continue  # the rest after rows of restart weight 0 were left out; alone it has no spread
                loss, log_ratio = self.loss(rows)
                if c.stop_test == "minibatch" and self.drifted(log_ratio):
                    stopped = True
                    break
                grad_norms.append(self.gradient_step(loss))
            if stopped or (c.stop_test == "epoch" and self.drifted(log_ratio)):
                break
        diagnostics = self.diagnose(batch, grad_norms)
        if c.objective == "kl_penalty":
            self.kl_penalty = adapt_kl_penalty(self.kl_penalty, float(diagnostics["kl/exact"]), c.kl_bound)
        return diagnostics

    def loss(self, rows: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """The scalar to descend on a minibatch, and the log-ratio [N] it was computed from."""
        params = self.policy(rows["obs"])
        log_ratio = self.log_ratio(self.policy.log_prob(params, rows["action"]), rows["behavior_log_prob"])
        kl = self.policy.kl(rows["behavior_params"], params) if self.config.objective == "kl_penalty" else None
        entropy = self.policy.entropy(params, self.generator) if self.config.entropy_coef else None
        policy_loss = self.policy_loss(log_ratio, rows["advantage"], kl)
        critic_loss = self.critic_loss(self.critic(rows["obs"]), rows["value_old"], rows["value_target"])
        return self.total_loss(policy_loss, critic_loss, entropy), log_ratio.detach()

    def policy_loss(self, log_ratio: Tensor, advantage: Tensor, kl: Tensor | None) -> Tensor:
        c = self.config
        if c.normalize_advantage:  # else A' is A
            # LaTeX: A_t' = \frac{A_t - \operatorname{mean}_t A_t}{\operatorname{std}_t A_t + 10^{-8}}
            advantage = normalize_advantage(advantage)
        if c.objective == "kl_penalty":
            # LaTeX: L^\pi = -\operatorname{mean}_t \left[ \rho_t A_t' - \beta_{\mathrm{KL}}\, \mathrm{KL}_t \right]
            return kl_penalty_loss(log_ratio, advantage, kl, self.kl_penalty)
        # LaTeX: L^\pi = -\operatorname{mean}_t \min\left(\rho_t A_t', \operatorname{clip}(\rho_t, 1 - \varepsilon_{\mathrm{clip}}, 1 + \varepsilon_{\mathrm{clip}}) A_t'\right)
        return ppo_clip_loss(log_ratio, advantage, c.clip_eps)

    def critic_loss(self, value: Tensor, value_old: Tensor, value_target: Tensor) -> Tensor:
        if self.config.clip_value:
            # LaTeX: L^V = \tfrac{1}{2}\, \operatorname{mean}_t \max\left( (V(s_t) - R_t)^2, (V_{\mathrm{old}}(s_t) + \operatorname{clip}(V(s_t) - V_{\mathrm{old}}(s_t), -\varepsilon_{\mathrm{clip}}, \varepsilon_{\mathrm{clip}}) - R_t)^2 \right)
            return clipped_value_loss(value, value_old, value_target, self.config.clip_eps)
        # LaTeX: L^V = \tfrac{1}{2}\, \operatorname{mean}_t \left[ (V(s_t) - R_t)^2 \right]
        return value_loss(value, value_target)

    def drifted(self, log_ratio: Tensor) -> bool:
        """Whether the policy has moved further than target_kl, by k3: k1 can be negative and miss it."""
        target = self.config.target_kl
        return target is not None and target > 0 and bool(kl_estimates(log_ratio)[2].mean() > target)

    @torch.no_grad()
    def diagnose(self, batch: dict[str, Any], grad_norms: list[Tensor]) -> dict[str, Tensor]:
        """What a practitioner reads, over the whole rollout after the update; under `value/` the critic before it."""
        params = self.policy(batch["obs"])
        log_ratio = self.log_ratio(self.policy.log_prob(params, batch["action"]), batch["behavior_log_prob"])
        k1, _, k3 = kl_estimates(log_ratio)
        kl = self.policy.kl(batch["behavior_params"], params)
        return super().diagnose(batch) | {
            "loss/policy": self.policy_loss(log_ratio, batch["advantage"], kl),
            "loss/value": value_loss(self.critic(batch["obs"]), batch["value_target"]),
            "kl/k1": k1.mean(),
            "kl/k3": k3.mean(),
            "kl/penalty": torch.tensor(self.kl_penalty),
            "train/clip_fraction": ppo_clip_fraction(log_ratio, self.config.clip_eps),
            "train/max_ratio": log_ratio.max().exp(),
            "train/grad_norm": torch.stack(grad_norms).mean() if grad_norms else torch.zeros(()),
            "train/gradient_steps": torch.tensor(float(len(grad_norms))),
            "train/learning_rate": self.learning_rate,
        }

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"kl_penalty": self.kl_penalty}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.kl_penalty = state["kl_penalty"]
