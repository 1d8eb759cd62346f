"""REINFORCE (Williams 1992) with reward-to-go and baselines, readable top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..checks import require_one_of
from ..experience.rollout import Rollout
from ..formulas.objectives import normalize_advantage, policy_gradient_loss, value_loss
from ..formulas.returns import discounted_returns, leave_one_out_baseline
from .on_policy import GradientConfig, OnPolicyAgent


@dataclass(frozen=True)
class REINFORCEConfig(GradientConfig):
    """Settings of REINFORCE, beyond those of every on-policy agent; contradictions are refused when it is made."""

    num_envs: int = 16  # episodes of one update, B
    rollout_steps: int = 1000  # wait at most so many steps for the episodes to end
    whole_episodes: bool = True  # Monte Carlo: restart at every rollout and keep each first episode
    estimator: str = "returns"  # with baseline "value": "returns", "gae" or "td"; without a critic only "returns"
    baseline: str = "value"  # taken off the return: "none", "others" (mean of the other episodes) or "value" (critic)
    reward_to_go: bool = True  # credit an action with what follows it; False: with the whole episode's return
    discount_states: bool = False  # weight step t by gamma^t, as the theorem does and practice does not

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(("none", "others", "value"), baseline=self.baseline)
        if self.baseline != "value" and not (self.whole_episodes and self.estimator == "returns"):
            raise ValueError(
                f"baseline: wanted 'value' where an episode is cut or the estimator is {self.estimator!r}: both need "
                f"a critic; got {self.baseline!r}"
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


class REINFORCEAgent(OnPolicyAgent):
    """A policy moved by one step of the plain policy gradient a batch of episodes; see `REINFORCEConfig`."""

    name = "reinforce"

    def estimate(self, rollout: Rollout, reward: Tensor, obs: Tensor) -> tuple[Tensor, Tensor]:
        c = self.config
        if c.baseline == "value":
            return super().estimate(rollout, reward, obs)
        # Without a critic an episode is worth what it paid, also where a time limit ended it.
        nothing = torch.zeros_like(reward)
        returns = discounted_returns(reward, nothing, rollout.terminated, rollout.truncated, gamma=c.gamma)
        if not c.reward_to_go:
            returns = returns[:1].expand_as(returns)
        baseline = leave_one_out_baseline(returns, rollout.first_episode) if c.baseline == "others" else nothing
        return self.centered(returns, baseline), baseline

    def centered(self, returns: Tensor, baseline: Tensor) -> Tensor:
        # LaTeX: A_t = G_t - b_t
        return returns - baseline

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> dict[str, Any]:
        weight = self.state_weight(rollout.reward) if self.config.discount_states else torch.ones_like(rollout.reward)
        kept = weight.flatten() if self.keeps_all(rollout) else weight[self.kept(rollout)]
        return super().prepare(rollout) | {"weight": kept}

    def state_weight(self, reward: Tensor) -> Tensor:
        """The theorem's weight of the state in each row, [T, B]: an episode begins in row 0."""
        t = torch.arange(len(reward), dtype=reward.dtype, device=reward.device).unsqueeze(-1)
        # LaTeX: w_t = \gamma^t
        return (self.config.gamma**t).expand_as(reward)

    def loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend, and its parts."""
        params, critic_loss = self.policy(batch["obs"]), torch.zeros((), dtype=self.dtype, device=self.device)
        log_prob = self.policy.log_prob(params, batch["action"])
        policy_loss = self.policy_loss(log_prob, batch["advantage"], batch["weight"])
        if self.config.baseline == "value":
            critic_loss = value_loss(self.critic(batch["obs"]), batch["value_target"])
        entropy = self.policy.entropy(params, self.generator) if self.config.entropy_coef else None
        parts = {"loss/policy": policy_loss.detach(), "loss/value": critic_loss.detach()}
        return self.total_loss(policy_loss, critic_loss, entropy), parts

    def policy_loss(self, log_prob: Tensor, advantage: Tensor, weight: Tensor) -> Tensor:
        if self.config.normalize_advantage:  # else A' is A
            # LaTeX: A_t' = \frac{A_t - \operatorname{mean}_t A_t}{\operatorname{std}_t A_t + 10^{-8}}
            advantage = normalize_advantage(advantage)
        # LaTeX: L^\pi = -\operatorname{mean}_t \left[ \mathrm{sg}(w_t A_t') \log \pi_\theta(a_t \mid s_t) \right]
        return policy_gradient_loss(log_prob, weight * advantage)
