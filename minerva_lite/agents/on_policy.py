"""What every on-policy agent shares: settings, collecting, targets, the step of a gradient.

An algorithm adds the `loss` of a batch, or replaces `improve(rollout, progress)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..checks import require_count, require_non_negative, require_one_of, require_positive, require_unit_interval
from ..experience.normalizer import RewardScaler
from ..experience.rollout import Rollout, collect, collect_episodes
from ..formulas.diagnostics import explained_variance
from ..formulas.returns import gae
from ..worlds.spec import EnvSpec
from .base import Agent
from .networks import LOG_STD_MAX, LOG_STD_MIN, ValueNet
from .optimizers import load_optimizer, make_optimizer, moments, rates_on_device, set_rate


@dataclass(frozen=True)
class OnPolicyConfig:
    """Settings of every on-policy agent; contradictions are refused when the object is made."""

    num_envs: int = 8  # environments stepped side by side, B
    rollout_steps: int = 128  # steps of each environment between two updates, T
    whole_episodes: bool = False  # restart at every rollout and keep each first episode; T is then the longest wait
    gamma: float = 0.99  # discount
    lam: float = 0.95  # trace decay of GAE; read only by estimator "gae"
    estimator: str = "gae"  # advantage: "gae", "returns" (lambda 1: n-step returns) or "td" (lambda 0: one step)
    normalize_obs: bool = False  # shift and scale observations by running statistics, clipped at 10
    normalize_reward: bool = False  # scale rewards by the spread of the discounted return, clipped at 10
    normalize_advantage: bool = True  # shift and scale the advantages that a loss averages
    hidden: tuple[int, ...] = (64, 64)  # widths of the tanh layers of policy and critic
    head_init: str = "orthogonal"  # last layer of the policy: "orthogonal" (gain 0.01) or "small" (uniform +-0.003)
    log_std_init: float = 0.0  # log of the first standard deviation of a Gaussian policy
    squash: bool = False  # send Gaussian actions through tanh instead of clipping them at the bounds

    def __post_init__(self) -> None:
        require_count(
            num_envs=self.num_envs,
            rollout_steps=self.rollout_steps,
            **{f"hidden[{i}]": width for i, width in enumerate(self.hidden)},
        )
        require_unit_interval(gamma=self.gamma, lam=self.lam)
        require_one_of(("gae", "returns", "td"), estimator=self.estimator)
        require_one_of(("orthogonal", "small"), head_init=self.head_init)
        if not LOG_STD_MIN <= self.log_std_init <= LOG_STD_MAX:
            raise ValueError(
                f"log_std_init: wanted a number in [{LOG_STD_MIN}, {LOG_STD_MAX}], where the policy clamps it; "
                f"got {self.log_std_init}"
            )
        if self.normalize_advantage and self.batch_size == 1:
            raise ValueError("normalize_advantage: wanted a batch of at least 2 rows, one has no spread; got 1")

    @property
    def batch_size(self) -> int:
        """Rows of a rollout, T * B; with whole episodes the most it can hold."""
        return self.rollout_steps * self.num_envs

    @property
    def trace_decay(self) -> float:
        """The lambda that the estimator stands for: all three are GAE."""
        return {"gae": self.lam, "returns": 1.0, "td": 0.0}[self.estimator]


@dataclass(frozen=True)
class GradientConfig(OnPolicyConfig):
    """Settings of the agents that descend the gradient of one loss for policy and critic together."""

    vf_coef: float = 0.5  # weight of the value loss
    entropy_coef: float = 0.0  # weight of the entropy bonus
    optimizer: str = "adam"  # "adam" or "sgd"
    momentum: float = 0.0  # of "sgd"
    learning_rate: float = 3e-4  # at the start
    anneal_lr: bool = True  # let the learning rate fall linearly to 0 over training
    max_grad_norm: float = 0.5  # clip the gradient's norm over all parameters

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(("adam", "sgd"), optimizer=self.optimizer)
        require_positive(learning_rate=self.learning_rate, max_grad_norm=self.max_grad_norm)
        require_non_negative(vf_coef=self.vf_coef, entropy_coef=self.entropy_coef, momentum=self.momentum)
        if self.optimizer == "adam" and self.momentum:
            raise ValueError(f"momentum: wanted 0 with adam, which has its own; got {self.momentum}")


class OnPolicyAgent(Agent):
    """A policy and a critic; an algorithm gives `name`, and a `loss` to descend or an `improve` of its own."""

    critic: nn.Module
    reward_scaler: RewardScaler

    def __init__(self, config: Any, spec: EnvSpec, **where: Any):
        super().__init__(config, spec, **where)
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = self.make_optimizer()
        if self.loop and self.loop.record:
            rates_on_device(self.optimizer, self.device)

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        policy, critic = self.make_networks(weights)
        if self.config.head_init == "small":
            policy.small_head(weights)
        return {"policy": policy, "critic": critic, "reward_scaler": RewardScaler(self.config.gamma)}

    def make_networks(self, weights: Generator) -> tuple[nn.Module, nn.Module]:
        """The policy and the critic."""
        policy = self.make_policy(weights, torso="tanh", squash=self.config.squash)
        return policy, ValueNet(self.spec.obs_dim, self.config.hidden, weights)

    def make_optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer of policy and critic, or None for an agent that has none."""
        c = self.config
        return make_optimizer(c.optimizer, self.parameters, c.learning_rate, momentum=c.momentum)

    def collect(self, env: Any, obs: Tensor) -> tuple[Any, Tensor]:
        """The data of one update, acting in `env` from obs [B, O]; and what to act on next."""
        if self.config.whole_episodes:
            return collect_episodes(self, env, self.config.rollout_steps)
        return self.loop.collect(env, obs) if self.loop else self.walk(env, obs)

    def walk(self, env: Any, obs: Tensor) -> tuple[Rollout, Tensor]:
        return collect(self, env, obs, self.config.rollout_steps)

    @property
    def asks(self) -> bool:
        return self.config.whole_episodes  # how long they are is asked at every step

    @property
    def recordable(self) -> bool:
        return not self.asks and self.config.optimizer == "adam"  # SGD's learning rate is a number

    def compile_parts(self) -> None:
        super().compile_parts()
        self.loss = torch.compile(self.loss)  # traced when it is first called, so one that has none loses nothing

    def learned_state(self) -> dict[str, Tensor]:
        return super().learned_state() | moments("optimizer", self.optimizer)

    def rollout_shape(self) -> tuple[int | None, int]:
        return None if self.config.whole_episodes else self.config.rollout_steps, self.config.num_envs

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Learn from a checked rollout and return diagnostics: here by one gradient step of `loss` on all of it.

        The data are used once, while they are on-policy. REINFORCE and A2C differ in `loss` and in their advantages;
        an algorithm that does more with a rollout has an `improve` of its own.
        """
        self.set_learning_rate(progress)
        batch = self.prepare(rollout)
        loss, parts = self.loss(batch)
        grad_norm = self.gradient_step(loss)
        return self.diagnose(batch) | parts | {"train/grad_norm": grad_norm, "train/learning_rate": self.learning_rate}

    def loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend on a batch, and its parts under the names they are logged by."""
        raise NotImplementedError

    @property
    def learning_rate(self) -> Tensor:
        """The optimizer's present learning rate, 0-d."""
        rate = self.optimizer.param_groups[0]["lr"]
        return rate.clone() if isinstance(rate, Tensor) else torch.tensor(rate)

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> dict[str, Any]:
        """Advantages and value targets of a rollout; everything flattened to [N, ...].

        Rows of restart weight 0 are left out, and those of second episodes where whole episodes were asked for.
        """
        c = self.config
        obs, reward = self.normalized(rollout.obs), rollout.reward
        if c.normalize_reward:
            if c.whole_episodes:  # no episode of the rollout before goes on in this one
                self.reward_scaler.running = torch.zeros_like(reward[0])
            real = None if rollout.restart_weight is None else rollout.real
            self.reward_scaler.absorb(reward, rollout.ended, real)
            reward = self.reward_scaler.scale(reward)
        advantage, value = self.estimate(rollout, reward, obs)
        batch = {
            "obs": obs.flatten(0, 1),
            "action": rollout.action.flatten(0, 1),
            "behavior_log_prob": rollout.behavior_log_prob.flatten(),
            "behavior_params": tuple(p.flatten(0, 1) for p in rollout.behavior_params),
            "advantage": advantage.flatten(),
            "value_old": value.flatten(),
            "value_target": self.value_target(advantage, value).flatten(),
        }
        return batch if self.keeps_all(rollout) else kept_rows(batch, self.kept(rollout).flatten())

    def keeps_all(self, rollout: Rollout) -> bool:
        """Whether every row is one to learn from, by what is known without asking."""
        return not self.config.whole_episodes and rollout.restart_weight is None

    def kept(self, rollout: Rollout) -> Tensor:
        """[T, B] bool: the rows to learn from."""
        return rollout.real & rollout.first_episode if self.config.whole_episodes else rollout.real

    def estimate(self, rollout: Rollout, reward: Tensor, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Advantages and values, both [T, B], from (scaled) rewards [T, B] and normalized obs [T, B, O]."""
        c = self.config
        value, next_value = self.critic(obs), self.critic(self.normalized(rollout.next_obs))
        ends = (rollout.terminated, rollout.truncated)
        return gae(reward, value, next_value, *ends, gamma=c.gamma, lam=c.trace_decay), value

    def value_target(self, advantage: Tensor, value: Tensor) -> Tensor:
        # LaTeX: R_t = A_t + V(s_t)
        return advantage + value

    def log_ratio(self, log_prob: Tensor, behavior_log_prob: Tensor) -> Tensor:
        # LaTeX: \log \rho_t = \log \pi_\theta(a_t \mid s_t) - \log \pi_b(a_t \mid s_t)
        return log_prob - behavior_log_prob

    def total_loss(self, policy_loss: Tensor, critic_loss: Tensor, entropy: Tensor | None) -> Tensor:
        c = self.config
        # LaTeX: L = L^\pi + c_V L^V
        loss = policy_loss + c.vf_coef * critic_loss
        if entropy is not None:
            # LaTeX: L' = L - c_H \operatorname{mean}_t H_t
            loss = loss - c.entropy_coef * entropy.mean()
        return loss

    def gradient_step(self, loss: Tensor) -> Tensor:
        """One step of the optimizer down `loss`, its gradient clipped; the norm before clipping."""
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm)
        self.optimizer.step()
        return norm

    def set_learning_rate(self, progress: float) -> None:
        """The learning rate of this update: constant, or falling linearly to 0 at progress 1."""
        for group in self.optimizer.param_groups:
            set_rate(group, self.config.learning_rate * (1.0 - progress if self.config.anneal_lr else 1.0))

    @torch.no_grad()
    def diagnose(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """What a practitioner reads of any agent, over the whole batch: the policy after the update, V before it."""
        params = self.policy(batch["obs"])
        advantage, value_target = batch["advantage"], batch["value_target"]
        figures = {
            "kl/exact": self.policy.kl(batch["behavior_params"], params).mean(),
            "train/entropy": self.policy.entropy(params, self.generator).mean(),
            "value/explained_variance": explained_variance(batch["value_old"], value_target),
            "value/mean": batch["value_old"].mean(),
            "value/target_mean": value_target.mean(),
            "value/target_std": value_target.std(correction=0),
            "adv/raw_mean": advantage.mean(),
            "adv/raw_std": advantage.std(correction=0),
        }
        if not self.policy.discrete:
            figures["train/std"] = params[1].mean()
            figures["train/abs_action"] = self.policy.to_env(batch["action"]).abs().mean()
        return figures

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | ({"optimizer": self.optimizer.state_dict()} if self.optimizer else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.optimizer:
            load_optimizer(self.optimizer, state["optimizer"])


def kept_rows(batch: dict[str, Any], mask: Tensor) -> dict[str, Any]:
    """The rows of a batch ([N, ...], or tuples of such) where mask [N] is true."""
    return {k: tuple(t[mask] for t in v) if isinstance(v, tuple) else v[mask] for k, v in batch.items()}
