"""What every on-policy agent shares: settings, acting, targets, the door for a batch, saving (floor 4).

An algorithm adds the `loss` of a batch, or replaces `improve(rollout, progress)`; `update` guards its two doors.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from .checks import (
    require_bool,
    require_count,
    require_dtype,
    require_non_negative,
    require_one_of,
    require_positive,
    require_shape,
    require_unit_interval,
)
from .diagnostics import explained_variance
from .envs import EnvSpec
from .learning import NonFiniteGuard, make_optimizer, pick_device
from .networks import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    CategoricalPolicy,
    GaussianPolicy,
    Params,
    SquashedGaussianPolicy,
    ValueNet,
)
from .normalizer import Normalizer, RewardScaler
from .returns import gae
from .rollout import Rollout, collect, collect_episodes


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


class OnPolicyAgent:
    """A policy and a critic; an algorithm gives `name`, and a `loss` to descend or an `improve` of its own."""

    name: str

    def __init__(
        self,
        config: Any,
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
        if config.head_init == "small":
            self.policy.small_head(weights)
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
        self.optimizer = self.make_optimizer()
        self.guard = NonFiniteGuard()
        self.generator = Generator(device=self.device).manual_seed(seed)

    def make_optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer of policy and critic, or None for an agent that has none."""
        c = self.config
        return make_optimizer(c.optimizer, self.parameters, c.learning_rate, momentum=c.momentum)

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

    def collect(self, env: Any, obs: Tensor) -> tuple[Any, Tensor]:
        """The data of one update, acting in `env` from obs [B, O]; and what to act on next."""
        if self.config.whole_episodes:
            return collect_episodes(self, env, self.config.rollout_steps)
        return collect(self, env, obs, self.config.rollout_steps)

    def update(self, rollout: Rollout, progress: float = 0.0) -> dict[str, Tensor]:
        """Improve on one rollout; `progress` in [0, 1] is the share of training done, by which a rate or a bound falls.

        Returns diagnostics as 0-d tensors. A rollout with a non-finite number changes nothing and is counted.
        Raises ValueError: a tensor of the rollout has the wrong shape or dtype, or progress lies outside [0, 1].
        """
        self.check(rollout)
        require_unit_interval(progress=progress)
        if self.guard.refuses(**rollout.tensors()):
            return {"train/skipped_batches": self.skipped_batches()}
        figures = self.improve(rollout, progress)
        # The one moment at which observation statistics move: after the last use of this rollout, before the next.
        if self.config.normalize_obs:
            self.obs_normalizer.absorb(rollout.obs)
        return figures | {"train/skipped_batches": self.skipped_batches()}

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
        return torch.tensor(self.optimizer.param_groups[0]["lr"])

    def skipped_batches(self) -> Tensor:
        """How many batches were refused so far because a number was not finite, 0-d."""
        return torch.tensor(float(sum(self.guard.skipped.values())))

    def check(self, rollout: Rollout) -> None:
        """Raise ValueError unless every tensor of the rollout has the shape and dtype that this agent learns from."""
        c, spec = self.config, self.spec
        rows = (None if c.whole_episodes else c.rollout_steps, c.num_envs)
        features = rollout.tensors()
        flags = {name: features.pop(name) for name in ("terminated", "truncated")}
        action = features.pop("action")
        require_bool(**flags)
        require_dtype(torch.int64 if self.policy.discrete else self.dtype, action=action)
        require_dtype(self.dtype, **features)
        require_shape(rows, reward=rollout.reward)
        rows = tuple(rollout.reward.shape)
        require_shape(rows, behavior_log_prob=rollout.behavior_log_prob, **flags)
        require_shape((*rows, spec.obs_dim), obs=rollout.obs, next_obs=rollout.next_obs)
        require_shape(rows if self.policy.discrete else (*rows, spec.action_dim), action=action)
        params = {name: tensor for name, tensor in features.items() if name.startswith("behavior_params")}
        require_shape((*rows, spec.num_actions or spec.action_dim), **params)

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> dict[str, Any]:
        """Advantages and value targets of a rollout; everything flattened to [N, ...], first episodes only if asked."""
        c = self.config
        obs, reward = self.normalized(rollout.obs), rollout.reward
        if c.normalize_reward:
            if c.whole_episodes:  # no episode of the rollout before goes on in this one
                self.reward_scaler.running = torch.zeros_like(reward[0])
            self.reward_scaler.absorb(reward, rollout.ended)
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
        return kept_rows(batch, rollout.first_episode.flatten()) if c.whole_episodes else batch

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
            group["lr"] = self.config.learning_rate * (1.0 - progress if self.config.anneal_lr else 1.0)

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
        """Everything that training changes, and the settings it was made with."""
        state = {
            "config": asdict(self.config),
            "spec": asdict(self.spec),
            "modules": self.modules.state_dict(),
            "generator": self.generator.get_state(),
            "skipped": dict(self.guard.skipped),
            "skipped_in_a_row": self.guard.in_a_row,
        }
        return state | ({"optimizer": self.optimizer.state_dict()} if self.optimizer else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state. Raises ValueError: it was saved under other settings."""
        if state["config"] != asdict(self.config) or state["spec"] != asdict(self.spec):
            raise ValueError("state: wanted one saved with this config and environment; got another")
        self.modules.load_state_dict(state["modules"])
        if self.optimizer:
            self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.guard.skipped = dict(state["skipped"])
        self.guard.in_a_row = state["skipped_in_a_row"]


def kept_rows(batch: dict[str, Any], mask: Tensor) -> dict[str, Any]:
    """The rows of a batch ([N, ...], or tuples of such) where mask [N] is true."""
    return {k: tuple(t[mask] for t in v) if isinstance(v, tuple) else v[mask] for k, v in batch.items()}
