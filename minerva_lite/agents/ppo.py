"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347), readable top to bottom (floor 4)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..checks import (
    require_bool,
    require_count,
    require_dtype,
    require_non_negative,
    require_one_of,
    require_positive,
    require_shape,
    require_unit_interval,
)
from ..diagnostics import explained_variance
from ..distributions import kl_estimates
from ..envs import EnvSpec
from ..learning import NonFiniteGuard, make_optimizer, pick_device
from ..networks import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    CategoricalPolicy,
    GaussianPolicy,
    Params,
    SquashedGaussianPolicy,
    ValueNet,
)
from ..normalizer import Normalizer, RewardScaler
from ..objectives import (
    adapt_kl_penalty,
    clipped_value_loss,
    kl_penalty_loss,
    normalize_advantage,
    ppo_clip_fraction,
    ppo_clip_loss,
    value_loss,
)
from ..returns import gae
from ..rollout import Rollout, minibatches


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO; contradictions are refused when the object is made."""

    num_envs: int = 8  # environments stepped side by side, B
    rollout_steps: int = 128  # steps of each environment between two updates, T
    minibatch_size: int = 256  # rows of one gradient step, out of the T * B of a rollout
    epochs: int = 10  # passes over each rollout
    gamma: float = 0.99  # discount
    lam: float = 0.95  # trace decay of GAE; read only by estimator "gae"
    estimator: str = "gae"  # advantage: "gae", "returns" (lambda 1: n-step returns) or "td" (lambda 0: one step)
    objective: str = "clip"  # policy objective: "clip", or "kl_penalty", whose strength adapts to kl_bound
    clip_eps: float = 0.2  # half-width of the interval of ratios in which "clip" keeps the gradient
    kl_bound: float = 0.01  # mean KL(old || new) an update aims at under "kl_penalty", nats
    kl_penalty_init: float = 1.0  # first strength of the penalty, advantage units per nat
    target_kl: float | None = None  # leave the update once k3 on a minibatch exceeds it, nats; None or <= 0: off
    stop_test: str = "minibatch"  # test target_kl before each "minibatch" step, or on the last one of an "epoch"
    clip_value: bool = False  # clip the value loss too, by clip_eps in (scaled) return units
    vf_coef: float = 0.5  # weight of the value loss
    entropy_coef: float = 0.0  # weight of the entropy bonus
    normalize_advantage: bool = True  # shift and scale the advantages of each minibatch
    normalize_obs: bool = False  # shift and scale observations by running statistics, clipped at 10
    normalize_reward: bool = False  # scale rewards by the spread of the discounted return, clipped at 10
    optimizer: str = "adam"  # "adam" or "sgd"
    momentum: float = 0.0  # of "sgd"
    learning_rate: float = 3e-4  # at the start
    anneal_lr: bool = True  # let the learning rate fall linearly to 0 over training
    max_grad_norm: float = 0.5  # clip the gradient's norm over all parameters
    hidden: tuple[int, ...] = (64, 64)  # widths of the tanh layers of policy and critic
    log_std_init: float = 0.0  # log of the first standard deviation of a Gaussian policy
    squash: bool = False  # send Gaussian actions through tanh instead of clipping them at the bounds

    def __post_init__(self) -> None:
        require_count(
            num_envs=self.num_envs,
            rollout_steps=self.rollout_steps,
            minibatch_size=self.minibatch_size,
            epochs=self.epochs,
            **{f"hidden[{i}]": width for i, width in enumerate(self.hidden)},
        )
        require_unit_interval(gamma=self.gamma, lam=self.lam)
        require_one_of(("gae", "returns", "td"), estimator=self.estimator)
        require_one_of(("clip", "kl_penalty"), objective=self.objective)
        require_one_of(("minibatch", "epoch"), stop_test=self.stop_test)
        require_one_of(("adam", "sgd"), optimizer=self.optimizer)
        require_positive(
            clip_eps=self.clip_eps,
            kl_bound=self.kl_bound,
            kl_penalty_init=self.kl_penalty_init,
            learning_rate=self.learning_rate,
            max_grad_norm=self.max_grad_norm,
        )
        require_non_negative(vf_coef=self.vf_coef, entropy_coef=self.entropy_coef, momentum=self.momentum)
        if not LOG_STD_MIN <= self.log_std_init <= LOG_STD_MAX:
            raise ValueError(
                f"log_std_init: wanted a number in [{LOG_STD_MIN}, {LOG_STD_MAX}], where the policy clamps it; "
                f"got {self.log_std_init}"
            )
        if self.target_kl is not None and not math.isfinite(self.target_kl):
            raise ValueError(f"target_kl: wanted None or a finite number; got {self.target_kl}")
        if self.optimizer == "adam" and self.momentum:
            raise ValueError(f"momentum: wanted 0 with adam, which has its own; got {self.momentum}")
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

    @property
    def batch_size(self) -> int:
        """Rows of a rollout, T * B."""
        return self.rollout_steps * self.num_envs

    @property
    def trace_decay(self) -> float:
        """The lambda that the estimator stands for: all three are GAE."""
        return {"gae": self.lam, "returns": 1.0, "td": 0.0}[self.estimator]


class PPOAgent:
    """A policy and a critic trained by PPO. `act`, `update`, `state_dict`; see `PPOConfig` for the settings."""

    name = "ppo"

    def __init__(
        self,
        config: PPOConfig,
        spec: EnvSpec,
        *,
        seed: int = 0,
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float32,
    ):
        if spec.num_actions and config.squash:
            raise ValueError(f"squash: wanted False for {spec.env_id}, whose actions are discrete; got True")
        self.config, self.spec, self.dtype = config, spec, dtype
        self.device = pick_device(device)
        weights = Generator().manual_seed(seed)  # on the CPU, so that every device starts from the same weights
        if spec.num_actions:
            self.policy: nn.Module = CategoricalPolicy(spec.obs_dim, spec.num_actions, config.hidden, weights)
        else:
            family = SquashedGaussianPolicy if config.squash else GaussianPolicy
            self.policy = family(spec.obs_dim, spec.action_dim, config.hidden, config.log_std_init, weights)
        self.critic = ValueNet(spec.obs_dim, config.hidden, weights)
        self.obs_normalizer = Normalizer((spec.obs_dim,))
        self.reward_scaler = RewardScaler(config.gamma)
        self.modules = nn.ModuleDict(
            {
                "policy": self.policy,
                "critic": self.critic,
                "obs_normalizer": self.obs_normalizer,
                "reward_scaler": self.reward_scaler,
            }
        ).to(self.device, dtype)
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = make_optimizer(
            config.optimizer, self.parameters, config.learning_rate, momentum=config.momentum
        )
        self.kl_penalty = config.kl_penalty_init
        self.guard = NonFiniteGuard()
        self.generator = Generator(device=self.device).manual_seed(seed)

    @torch.no_grad()
    def act(self, obs: Tensor, *, deterministic: bool = False) -> tuple[Tensor, Params]:
        """Actions for obs [B, O] as the policy stores them, and the parameters they were drawn from."""
        require_shape((None, self.spec.obs_dim), obs=obs)
        params = self.policy(self.normalized(obs))
        action = self.policy.mode(params) if deterministic else self.policy.sample(params, self.generator)
        return action, params

    def normalized(self, obs: Tensor) -> Tensor:
        """Observations as the networks see them."""
        return self.obs_normalizer.normalize(obs) if self.config.normalize_obs else obs

    def update(self, rollout: Rollout, progress: float = 0.0) -> dict[str, Tensor]:
        """Improve on one rollout; `progress` in [0, 1] is the share of training done, for the learning rate.

        Returns diagnostics as 0-d tensors. A rollout with a non-finite number changes nothing and is counted.
        Raises ValueError: a tensor of the rollout has the wrong shape or dtype, or progress lies outside [0, 1].
        """
        c = self.config
        self.check(rollout)
        require_unit_interval(progress=progress)
        if self.guard.refuses(**rollout.tensors()):
            return {"train/skipped_batches": torch.tensor(float(sum(self.guard.skipped.values())))}
        for group in self.optimizer.param_groups:
            group["lr"] = c.learning_rate * (1.0 - progress if c.anneal_lr else 1.0)
        batch = self.prepare(rollout)
        grad_norms, stopped = [], False
        for _ in range(c.epochs):
            for rows in minibatches(batch, c.minibatch_size, self.generator):
                loss, log_ratio = self.loss(rows)
                if c.stop_test == "minibatch" and self.drifted(log_ratio):
                    stopped = True
                    break
                self.optimizer.zero_grad()
                loss.backward()
                grad_norms.append(nn.utils.clip_grad_norm_(self.parameters, c.max_grad_norm))
                self.optimizer.step()
            if stopped or (c.stop_test == "epoch" and self.drifted(log_ratio)):
                break
        diagnostics = self.diagnose(batch, grad_norms)
        if c.objective == "kl_penalty":
            self.kl_penalty = adapt_kl_penalty(self.kl_penalty, float(diagnostics["kl/exact"]), c.kl_bound)
        # The one moment at which observation statistics move: after the last use of this rollout, before the next.
        if c.normalize_obs:
            self.obs_normalizer.absorb(rollout.obs)
        return diagnostics

    def check(self, rollout: Rollout) -> None:
        """Raise ValueError unless every tensor of the rollout has the shape and dtype that this agent learns from."""
        rows = (self.config.rollout_steps, self.config.num_envs)
        features, spec = rollout.tensors(), self.spec
        flags = {name: features.pop(name) for name in ("terminated", "truncated")}
        action = features.pop("action")
        require_bool(**flags)
        require_dtype(torch.int64 if self.policy.discrete else self.dtype, action=action)
        require_dtype(self.dtype, **features)
        require_shape(rows, reward=rollout.reward, behavior_log_prob=rollout.behavior_log_prob, **flags)
        require_shape((*rows, spec.obs_dim), obs=rollout.obs, next_obs=rollout.next_obs)
        require_shape(rows if self.policy.discrete else (*rows, spec.action_dim), action=action)
        params = {name: tensor for name, tensor in features.items() if name.startswith("behavior_params")}
        require_shape((*rows, spec.num_actions or spec.action_dim), **params)

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> dict[str, Any]:
        """Advantages and value targets of a rollout; everything flattened to [T * B, ...]."""
        c = self.config
        obs, reward = self.normalized(rollout.obs), rollout.reward
        if c.normalize_reward:
            self.reward_scaler.absorb(reward, rollout.ended)
            reward = self.reward_scaler.scale(reward)
        value, next_value = self.critic(obs), self.critic(self.normalized(rollout.next_obs))
        advantage = gae(
            reward, value, next_value, rollout.terminated, rollout.truncated, gamma=c.gamma, lam=c.trace_decay
        )
        # LaTeX: R_t = A_t + V(s_t)
        value_target = advantage + value
        return {
            "obs": obs.flatten(0, 1),
            "action": rollout.action.flatten(0, 1),
            "behavior_log_prob": rollout.behavior_log_prob.flatten(),
            "behavior_params": tuple(p.flatten(0, 1) for p in rollout.behavior_params),
            "advantage": advantage.flatten(),
            "value_old": value.flatten(),
            "value_target": value_target.flatten(),
        }

    def loss(self, rows: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """The scalar to descend on a minibatch, and the log-ratio [N] it was computed from."""
        params = self.policy(rows["obs"])
        log_ratio = self.log_ratio(self.policy.log_prob(params, rows["action"]), rows["behavior_log_prob"])
        kl = self.policy.kl(rows["behavior_params"], params) if self.config.objective == "kl_penalty" else None
        entropy = self.policy.entropy(params, self.generator) if self.config.entropy_coef else None
        policy_loss = self.policy_loss(log_ratio, rows["advantage"], kl)
        critic_loss = self.critic_loss(self.critic(rows["obs"]), rows["value_old"], rows["value_target"])
        return self.total_loss(policy_loss, critic_loss, entropy), log_ratio.detach()

    def log_ratio(self, log_prob: Tensor, behavior_log_prob: Tensor) -> Tensor:
        # LaTeX: \log \rho_t = \log \pi_\theta(a_t \mid s_t) - \log \pi_b(a_t \mid s_t)
        return log_prob - behavior_log_prob

    def policy_loss(self, log_ratio: Tensor, advantage: Tensor, kl: Tensor | None) -> Tensor:
        c = self.config
        if c.normalize_advantage:
            # LaTeX: A_t' = \frac{A_t - \operatorname{mean}_t A_t}{\operatorname{std}_t A_t + 10^{-8}}
            advantage = normalize_advantage(advantage)
        if c.objective == "kl_penalty":
            # LaTeX: L^\pi = -\operatorname{mean}_t \left[ \rho_t A_t' - \beta_{\mathrm{KL}} \mathrm{KL}_t \right]
            return kl_penalty_loss(log_ratio, advantage, kl, self.kl_penalty)
        # LaTeX: L^\pi = -\operatorname{mean}_t \min\left(\rho_t A_t', \operatorname{clip}(\rho_t, 1 - \varepsilon, 1 + \varepsilon) A_t'\right)
        return ppo_clip_loss(log_ratio, advantage, c.clip_eps)

    def critic_loss(self, value: Tensor, value_old: Tensor, value_target: Tensor) -> Tensor:
        if self.config.clip_value:
            # LaTeX: L^V = \tfrac{1}{2} \operatorname{mean}_t \max\left( (V(s_t) - R_t)^2, (V_{\mathrm{old}}(s_t) + \operatorname{clip}(V(s_t) - V_{\mathrm{old}}(s_t), -\varepsilon, \varepsilon) - R_t)^2 \right)
            return clipped_value_loss(value, value_old, value_target, self.config.clip_eps)
        # LaTeX: L^V = \tfrac{1}{2} \operatorname{mean}_t (V(s_t) - R_t)^2
        return value_loss(value, value_target)

    def total_loss(self, policy_loss: Tensor, critic_loss: Tensor, entropy: Tensor | None) -> Tensor:
        c = self.config
        # LaTeX: L = L^\pi + c_V L^V
        loss = policy_loss + c.vf_coef * critic_loss
        if entropy is not None:
            # LaTeX: L' = L - c_H \operatorname{mean}_t H_t
            loss = loss - c.entropy_coef * entropy.mean()
        return loss

    def drifted(self, log_ratio: Tensor) -> bool:
        """Whether the policy has moved further than target_kl, by k3: k1 can be negative and miss it."""
        target = self.config.target_kl
        return target is not None and target > 0 and bool(kl_estimates(log_ratio)[2].mean() > target)

    @torch.no_grad()
    def diagnose(self, batch: dict[str, Any], grad_norms: list[Tensor]) -> dict[str, Tensor]:
        """What a practitioner reads, over the whole rollout: policy figures after the update, critic before it."""
        c = self.config
        params = self.policy(batch["obs"])
        log_ratio = self.policy.log_prob(params, batch["action"]) - batch["behavior_log_prob"]
        k1, _, k3 = kl_estimates(log_ratio)
        advantage = batch["advantage"]
        figures = {
            "loss/policy": self.policy_loss(log_ratio, advantage, self.policy.kl(batch["behavior_params"], params)),
            "loss/value": value_loss(self.critic(batch["obs"]), batch["value_target"]),
            "kl/exact": self.policy.kl(batch["behavior_params"], params).mean(),
            "kl/k1": k1.mean(),
            "kl/k3": k3.mean(),
            "kl/penalty": torch.tensor(self.kl_penalty),
            "train/clip_fraction": ppo_clip_fraction(log_ratio, c.clip_eps),
            "train/max_ratio": log_ratio.max().exp(),
            "train/entropy": self.policy.entropy(params, self.generator).mean(),
            "train/grad_norm": torch.stack(grad_norms).mean() if grad_norms else torch.zeros(()),
            "train/gradient_steps": torch.tensor(float(len(grad_norms))),
            "train/learning_rate": torch.tensor(self.optimizer.param_groups[0]["lr"]),
            "train/skipped_batches": torch.tensor(float(sum(self.guard.skipped.values()))),
            "value/explained_variance": explained_variance(batch["value_old"], batch["value_target"]),
            "value/mean": batch["value_old"].mean(),
            "value/target_mean": batch["value_target"].mean(),
            "value/target_std": batch["value_target"].std(correction=0),
            "adv/raw_mean": advantage.mean(),
            "adv/raw_std": advantage.std(correction=0),
        }
        if not self.policy.discrete:
            figures["train/std"] = params[1].mean()
            figures["train/abs_action"] = self.policy.to_env(batch["action"]).abs().mean()
        return figures

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes, and the settings it was made with."""
        return {
            "config": asdict(self.config),
            "spec": asdict(self.spec),
            "modules": self.modules.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "kl_penalty": self.kl_penalty,
            "generator": self.generator.get_state(),
            "skipped": dict(self.guard.skipped),
            "skipped_in_a_row": self.guard.in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state. Raises ValueError: it was saved under other settings."""
        if state["config"] != asdict(self.config) or state["spec"] != asdict(self.spec):
            raise ValueError("state: wanted one saved with this config and environment; got another")
        self.modules.load_state_dict(state["modules"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.kl_penalty = state["kl_penalty"]
        self.generator.set_state(state["generator"])
        self.guard.skipped = dict(state["skipped"])
        self.guard.in_a_row = state["skipped_in_a_row"]
