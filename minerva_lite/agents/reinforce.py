"""REINFORCE (Williams 1992) with reward-to-go and baselines."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from ..experience.rollout import Batch, Rollout
from ..formulas.objectives import normalize_advantage, policy_gradient_loss, value_loss
from ..formulas.returns import discounted_returns, leave_one_out_baseline
from .base import GradientAgent
from .on_policy import GradientConfig, OnPolicyAgent, estimators
from .settings import count, one_of


@dataclass(frozen=True)
class REINFORCEConfig(GradientConfig):
    """Settings of REINFORCE, beyond those of every agent with one loss; contradictions are refused when it is made."""

    num_envs: int = count(16)  # episodes of one update, B
    rollout_steps: int = count(1000)  # wait at most so many steps for the episodes to end
    whole_episodes: bool = True  # Monte Carlo: restart at every rollout and keep each first episode
    estimator: str = estimators("returns", "gae", "td")  # with baseline "value": any; without a critic only "returns"
    baseline: str = one_of("value", "others", "none")  # off the return: critic's "value", mean of the "others", "none"
    reward_to_go: bool = True  # credit an action with what follows it; False: with the whole episode's return
    discount_states: bool = False  # weight step t by gamma^t, as the theorem does and practice does not

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline != "value" and not (self.whole_episodes and self.estimator == "returns"):
            raise ValueError(
                f"baseline: wanted 'value' where an episode is cut or the estimator is {self.estimator!r}: both need "
                f"a critic; got {self.baseline!r}"
            )
        for name, unread in (("critic_hidden", None), ("value_target", "advantage")):
            if self.baseline != "value" and getattr(self, name) != unread:
                raise ValueError(
                    f"{name}: wanted {unread!r} with baseline {self.baseline!r}, which reads no critic; "
                    f"got {getattr(self, name)!r}"
                )
        if not self.reward_to_go and self.baseline != "none":
            raise ValueError(f"reward_to_go: wanted True with baseline {self.baseline!r}; got False")
        if self.discount_states and not self.reward_to_go:
            raise ValueError(
                "discount_states: wanted False with the whole episode's return, which is discounted from the start "
                "already; got True"
            )
        if self.discount_states and not self.whole_episodes:
            raise ValueError("discount_states: wanted whole_episodes, which say how old a state is; got fixed rollouts")


@dataclass(frozen=True)
class WeightedBatch(Batch):
    """A batch whose states have weights."""

    weight: Tensor  # [N]  w_t: gamma^t where states are discounted, else 1


class REINFORCEAgent(GradientAgent, OnPolicyAgent):
    """A policy moved by one step of the plain policy gradient per batch of episodes."""

    name = "reinforce"
    config: REINFORCEConfig

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """One gradient step on all rows: one more would need data of the policy that it has moved to."""
        self.set_learning_rate(progress)
        batch = self.prepare(rollout)
        loss, parts = self.loss(batch)
        figures = parts | {"train/grad_norm": self.gradient_step(loss), "train/learning_rate": self.learning_rate}
        if self.config.whole_episodes:
            figures["train/cut_episodes"] = self.cut_episodes(rollout)
        return self.diagnose(batch) | figures

    def cut_episodes(self, rollout: Rollout) -> Tensor:
        """The share of episodes that the data end before, 0-d. It warns of them where no critic can stand in."""
        cut = ~rollout.ended.any(0)
        if self.config.baseline != "value" and bool(cut.any()):
            warnings.warn(
                f"rollout_steps: wanted enough for every episode to end, without a critic one that is cut counts as "
                f"over; got {self.config.rollout_steps} (train/cut_episodes is the share of those that are cut)",
                stacklevel=2,
            )
        return cut.to(rollout.reward.dtype).mean()

    def estimate(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Advantages and baselines, both [T, B], of a rollout as the networks see it: normalized, rewards scaled.

        A baseline may know the state and the other episodes, but not the action that it is taken off from: so it
        changes how much the gradient varies, and not what it is on average.
        """
        c = self.config
        if c.baseline == "value":
            return super().estimate(rollout)
        # Without a critic an episode is worth what it paid, also where a time limit ended it.
        nothing = torch.zeros_like(rollout.reward)
        returns = discounted_returns(rollout.reward, nothing, rollout.terminated, rollout.truncated, gamma=c.gamma)
        if not c.reward_to_go:
            returns = returns[:1].expand_as(returns)
        baseline = leave_one_out_baseline(returns, rollout.first_episode) if c.baseline == "others" else nothing
        # LaTeX: A_t = G_t - b_t
        advantage = returns - baseline
        return advantage, baseline

    def state_value(self, obs: Tensor) -> Tensor:
        if self.config.baseline != "value":
            raise ValueError(f"baseline: wanted 'value', whose critic learns; got {self.config.baseline!r}")
        return super().state_value(obs)

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> WeightedBatch:
        weight, eligible = self.state_weight(rollout.reward), self.eligible(rollout)
        rows = weight.flatten() if eligible is None else weight[eligible]
        return WeightedBatch(**vars(super().prepare(rollout)), weight=rows)

    def state_weight(self, reward: Tensor) -> Tensor:
        """The weight of the state in each row, [T, B]: an episode begins in row 0."""
        if not self.config.discount_states:
            return torch.ones_like(reward)
        t = torch.arange(len(reward), dtype=reward.dtype, device=reward.device).unsqueeze(-1)
        # LaTeX: w_t = \gamma^t
        return (self.config.gamma**t).expand_as(reward)

    def loss(self, batch: WeightedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend on N rows, and its parts."""
        c = self.config
        params = self.policy(batch.obs)
        log_prob = self.policy.log_prob(params, batch.action)
        advantage = normalize_advantage(batch.advantage) if c.normalize_advantage else batch.advantage
        # LaTeX: L = -\operatorname{mean}_t \left[ \mathrm{sg}(w_t A_t') \log \pi_\theta(a_t \mid s_t) \right]
        loss = policy_gradient_loss(log_prob, batch.weight * advantage)
        parts = {"loss/policy": loss.detach(), "loss/value": torch.zeros_like(loss)}
        if c.baseline == "value":
            critic_loss = value_loss(self.critic(batch.obs), batch.value_target)
            parts["loss/value"] = critic_loss.detach()
            # LaTeX: L := L + c_V L^V
            loss = loss + c.vf_coef * critic_loss
        if c.entropy_coef:
            entropy = self.policy.entropy(params, self.minibatch_generator)
            # LaTeX: L := L - c_H \operatorname{mean}_t H_t
            loss = loss - c.entropy_coef * entropy.mean()
        return loss, parts | {"loss/total": loss.detach()}
