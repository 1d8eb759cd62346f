"""What the on-policy agents share: collecting, rollouts turned into batches, the diagnostics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..experience.normalizer import RewardScaler
from ..experience.rollout import Batch, Rollout, collect, collect_episodes
from ..formulas.diagnostics import explained_variance
from ..formulas.returns import discounted_returns, gae
from ..worlds.spec import VectorEnv
from .base import Agent
from .networks import Policy, ValueNet
from .settings import CollectSettings, OptimizerSettings, non_negative, one_of, positive, unit_interval
from .stepwise import Stepwise


def estimators(default: str, *others: str) -> str:
    """One of these names of an estimator. For names that it has elsewhere the error says which one is meant."""
    return one_of(default, *others, elsewhere={"dae": "td", "td0": "td", "n_step": "returns", "monte_carlo": "returns"})


@dataclass(frozen=True)
class OnPolicyConfig(CollectSettings):
    """Settings of every on-policy agent; contradictions are refused when the object is made."""

    whole_episodes: bool = False  # restart at every rollout and keep each first episode; T is then the longest wait
    lam: float = unit_interval(0.95)  # trace decay of GAE; read only by estimator "gae"
    estimator: str = estimators("gae", "returns", "td")  # "gae", "returns" (lambda 1: n-step returns), "td" (lambda 0)
    value_target: str = one_of("advantage", "returns")  # what V is fitted to: "advantage" + V, or "returns"
    normalize_reward: bool = False  # scale rewards by the spread of the discounted return, clipped at 10
    normalize_advantage: bool = True  # shift and scale the advantages that a loss averages
    head_init: str = one_of("orthogonal", "small")  # policy's last layer: gain 0.01, or uniform in +-0.003
    squash: bool = False  # send Gaussian actions through tanh instead of clipping them at the bounds

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.normalize_advantage and self.batch_size == 1:
            raise ValueError("normalize_advantage: wanted a batch of at least 2 rows, one has no spread; got 1")


@dataclass(frozen=True)
class GradientConfig(OnPolicyConfig, OptimizerSettings):
    """Settings of the agents that descend the gradient of one loss for policy and critic together."""

    vf_coef: float = non_negative(0.5)  # weight of the value loss; read where there is a critic
    entropy_coef: float = non_negative(0.0)  # weight of the entropy bonus
    learning_rate: float = positive(3e-4)  # at the start


class OnPolicyAgent(Stepwise, Agent):
    """A policy and a critic that learn from what the policy has just done."""

    config: OnPolicyConfig
    critic: nn.Module
    reward_scaler: RewardScaler

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        policy, critic = self.make_networks(weights)
        if self.config.head_init == "small":
            policy.small_head(weights)
        return {"policy": policy, "critic": critic, "reward_scaler": RewardScaler(self.config.gamma)}

    def make_networks(self, weights: Generator) -> tuple[Policy, nn.Module]:
        """The policy and the critic."""
        policy = self.make_policy(weights, torso="tanh", squash=self.config.squash)
        return policy, ValueNet(self.spec.obs_dim, self.config.critic_widths, weights)

    def collect(self, env: VectorEnv, obs: Tensor) -> tuple[Any, Tensor]:
        if self.config.whole_episodes:
            return collect_episodes(self, env, self.config.rollout_steps)
        return collect(self, env, obs, self.config.rollout_steps)

    def check(self, rollout: Rollout) -> None:
        c = self.config
        rollout.require(self.spec, self.dtype, None if c.whole_episodes else c.rollout_steps, c.num_envs)
        eligible = self.eligible(rollout)
        if eligible is None or not c.normalize_advantage:
            return
        rows = int(eligible.sum())
        if rows < 2:
            name = "whole_episodes" if c.whole_episodes else "restart_weight"
            raise ValueError(f"{name}: wanted at least 2 rows to learn from, one advantage has no spread; got {rows}")

    def state_value(self, obs: Tensor) -> Tensor:
        value = self.critic(obs)
        return self.reward_scaler.unscale(value) if self.config.normalize_reward else value

    def fresh_episodes(self) -> None:
        self.reward_scaler.running.zero_()

    @torch.no_grad()
    def absorb_rewards(self, rollout: Rollout) -> None:
        """Let the rewards of a rollout into their running statistics."""
        scaler, real = self.reward_scaler, None if rollout.restart_weight is None else rollout.real
        with self.all_or_nothing("reward_scaler.stats.var", scaler, scaler.stats):
            if self.config.whole_episodes:  # no episode of the rollout before goes on in this one
                self.fresh_episodes()
            scaler.absorb(rollout.reward, rollout.ended, real)

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> Batch:
        """Advantages and value targets of a rollout, as a batch of its N rows; it changes nothing.

        All is computed before the first step, by the critic as it is: targets that moved with every step would never
        be reached. Rows of restart weight 0 are left out, and those of second episodes where whole episodes were asked
        for.
        """
        c = self.config
        if c.normalize_obs:
            rollout = replace(rollout, obs=self.normalized(rollout.obs), next_obs=self.normalized(rollout.next_obs))
        if c.normalize_reward:
            rollout = replace(rollout, reward=self.reward_scaler.scale(rollout.reward))
        advantage, value = self.estimate(rollout)
        if c.value_target == "returns":
            value_target = self.returns(rollout)
        else:
            # LaTeX: R_t = A_t + V(s_t)
            value_target = advantage + value
        batch = Batch(
            obs=rollout.obs.flatten(0, 1),
            action=rollout.action.flatten(0, 1),
            behavior_log_prob=rollout.behavior_log_prob.flatten(),
            behavior_params=tuple(p.flatten(0, 1) for p in rollout.behavior_params),
            advantage=advantage.flatten(),
            value_old=value.flatten(),
            value_target=value_target.flatten(),
        )
        eligible = self.eligible(rollout)
        return batch if eligible is None else batch[eligible.flatten()]

    def eligible(self, rollout: Rollout) -> Tensor | None:
        """[T, B] bool: the rows to learn from. None: all of them, which is known without a look at the numbers."""
        if self.config.whole_episodes:
            return rollout.real & rollout.first_episode
        return None if rollout.restart_weight is None else rollout.real

    def estimate(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Advantages and values, both [T, B], of a rollout as the networks see it: normalized, rewards scaled."""
        c, r = self.config, rollout
        value, next_value = self.critic(r.obs), self.critic(r.next_obs)
        lam = {"gae": c.lam, "returns": 1.0, "td": 0.0}[c.estimator]  # all three are GAE
        return gae(r.reward, value, next_value, r.terminated, r.truncated, gamma=c.gamma, lam=lam), value

    def returns(self, rollout: Rollout) -> Tensor:
        """Returns [T, B] of such a rollout, with the critic's value where the data end: no trace decays."""
        next_value, r = self.critic(rollout.next_obs), rollout
        return discounted_returns(r.reward, next_value, r.terminated, r.truncated, gamma=self.config.gamma)

    @torch.no_grad()
    def diagnose(self, batch: Batch, entropy: Tensor | None = None) -> dict[str, Tensor]:
        """What a practitioner reads of any agent over a batch, 0-d each: the policy after the update, V before it.

        entropy: [N] of the policy as it is now, if it is known already; an estimate by samples is not drawn twice.
        """
        params = self.policy(batch.obs)
        entropy = self.policy.entropy(params, self.minibatch_generator) if entropy is None else entropy
        figures = {
            "kl/exact": self.policy.kl(batch.behavior_params, params).mean(),
            "train/entropy": entropy.mean(),
            "value/explained_variance": explained_variance(batch.value_old, batch.value_target),
            "value/mean": batch.value_old.mean(),
            "value/pred_std": batch.value_old.std(correction=0),
            "value/target_mean": batch.value_target.mean(),
            "value/target_std": batch.value_target.std(correction=0),
            "adv/raw_mean": batch.advantage.mean(),
            "adv/raw_std": batch.advantage.std(correction=0),
        }
        if not self.policy.discrete:
            low, high = params[1].aminmax()
            figures |= {"train/std": params[1].mean(), "train/std_min": low, "train/std_max": high}
            figures["train/abs_action"] = self.policy.to_env(batch.action).abs().mean()
        return figures
