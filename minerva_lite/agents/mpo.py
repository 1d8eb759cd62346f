"""Maximum a posteriori policy optimization (Abdolmaleki et al. 2018, arXiv:1806.06920 and 1812.02256; floor 6)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..checks import require_count, require_non_negative, require_one_of, require_positive, require_unit_interval
from ..experience.replay import SequenceReplay
from ..experience.rollout import Rollout, collect
from ..formulas.diagnostics import effective_sample_size
from ..formulas.distributions import gaussian_log_prob
from ..formulas.duals import (
    estep_weights,
    kl_price,
    multiplier_loss,
    positive,
    project_raw,
    raw_of,
    temperature_loss,
    weights_kl,
)
from ..formulas.objectives import value_loss, weighted_nll
from ..formulas.returns import retrace_targets
from .base import Agent
from .networks import LOG_STD_MAX, LOG_STD_MIN, Params, QNet
from .optimizers import load_optimizer, make_optimizer, moments


@dataclass(frozen=True)
class MPOConfig:
    """Settings of MPO; contradictions are refused when the object is made."""

    num_envs: int = 8  # environments stepped side by side, B
    rollout_steps: int = 8  # steps of each environment between two updates
    learner_steps: int = 32  # batches drawn and learned from in one update
    warmup_steps: int = 1_000  # environment steps to hold before the first learner step
    replay_steps: int = 100_000  # environment steps held at most
    minibatch_size: int = 128  # sequences of one batch
    sequence_length: int = 1  # steps of one sequence
    critic_target: str = "one_step"  # targets of Q: "one_step" (expected SARSA) or "retrace" along the sequence
    learn_from: str = "all"  # steps of a sequence to learn from: "all", or only the "first"
    gamma: float = 0.99  # discount
    lam: float = 1.0  # trace decay of Retrace; read only by critic_target "retrace"
    action_samples: int = 16  # N: actions tried in each state of the E-step; a finite set is enumerated instead
    value_samples: int = 16  # actions over which Q is averaged in the successor; a finite set is enumerated instead
    eps_eta: float = 0.1  # E-step: bound on KL(weights || target policy), nats
    eps_mean: float = 0.01  # M-step: bound on the mean's part of the KL, nats; discrete: on the whole KL
    eps_std: float = 1e-4  # M-step: bound on the standard deviation's part of the KL, nats
    per_dimension: bool = True  # bound each action dimension by itself, with a multiplier of its own
    action_penalty: bool = False  # a second E-step that pulls sampled actions back inside [-1, 1]
    eps_penalty: float = 1e-3  # its bound, nats; read only with action_penalty
    eta_init: float = 1.0  # first temperature, return units
    eta_penalty_init: float = 1.0  # first temperature of the action penalty, action units
    alpha_mean_init: float = 1.0  # first multiplier of eps_mean
    alpha_std_init: float = 1.0  # first multiplier of eps_std
    policy_steps: int = 1  # gradient steps of one M-step: the weights stay, the policy moves up to so many times as far
    target_period: int = 32  # learner steps between two copies of the networks to their targets
    optimizer: str = "adam"  # "adam" or "sgd"
    momentum: float = 0.0  # of "sgd"
    critic_learning_rate: float = 1e-3
    policy_learning_rate: float = 1e-3
    dual_learning_rate: float = 1e-2
    anneal_lr: bool = False  # let the learning rates of policy and critic fall linearly to 0 over training
    max_grad_norm: float = 40.0  # clip the gradient norms of policy, critic and multipliers, each by itself
    normalize_obs: bool = False  # shift and scale observations by running statistics, clipped at 10
    hidden: tuple[int, ...] = (64, 64)  # widths of the layers of policy and critic
    log_std_init: float = 0.0  # log of the first standard deviation of a Gaussian policy

    def __post_init__(self) -> None:
        require_count(
            num_envs=self.num_envs,
            rollout_steps=self.rollout_steps,
            learner_steps=self.learner_steps,
            replay_steps=self.replay_steps,
            minibatch_size=self.minibatch_size,
            sequence_length=self.sequence_length,
            action_samples=self.action_samples,
            value_samples=self.value_samples,
            policy_steps=self.policy_steps,
            target_period=self.target_period,
            **{f"hidden[{i}]": width for i, width in enumerate(self.hidden)},
        )
        require_non_negative(warmup_steps=self.warmup_steps, momentum=self.momentum)
        require_unit_interval(gamma=self.gamma, lam=self.lam)
        require_one_of(("one_step", "retrace"), critic_target=self.critic_target)
        require_one_of(("all", "first"), learn_from=self.learn_from)
        require_one_of(("adam", "sgd"), optimizer=self.optimizer)
        require_positive(
            eps_eta=self.eps_eta,
            eps_mean=self.eps_mean,
            eps_std=self.eps_std,
            eps_penalty=self.eps_penalty,
            eta_init=self.eta_init,
            eta_penalty_init=self.eta_penalty_init,
            alpha_mean_init=self.alpha_mean_init,
            alpha_std_init=self.alpha_std_init,
            critic_learning_rate=self.critic_learning_rate,
            policy_learning_rate=self.policy_learning_rate,
            dual_learning_rate=self.dual_learning_rate,
            max_grad_norm=self.max_grad_norm,
        )
        if self.optimizer == "adam" and self.momentum:
            raise ValueError(f"momentum: wanted 0 with adam, which has its own; got {self.momentum}")
        if not LOG_STD_MIN <= self.log_std_init <= LOG_STD_MAX:
            raise ValueError(
                f"log_std_init: wanted a number in [{LOG_STD_MIN}, {LOG_STD_MAX}], where the policy clamps it; "
                f"got {self.log_std_init}"
            )
        if self.critic_target == "retrace" and self.sequence_length < 2:
            raise ValueError(f"sequence_length: wanted at least 2 for Retrace; got {self.sequence_length}")
        if self.capacity < max(self.sequence_length, self.rollout_steps):
            raise ValueError(
                f"replay_steps: wanted room for sequence_length and rollout_steps in each environment, "
                f"{max(self.sequence_length, self.rollout_steps) * self.num_envs} in all; got {self.replay_steps}"
            )
        if self.warmup_steps > self.capacity * self.num_envs:
            raise ValueError(
                f"warmup_steps: wanted at most what the replay holds, {self.capacity * self.num_envs}; "
                f"got {self.warmup_steps}"
            )

    @property
    def batch_size(self) -> int:
        """Environment steps of one rollout, T * B."""
        return self.rollout_steps * self.num_envs

    @property
    def capacity(self) -> int:
        """Steps that the replay holds of each environment."""
        return self.replay_steps // self.num_envs


class MPOAgent(Agent):
    """A policy that is fitted to its own actions, weighted by exp(Q / eta). `act`, `update`, `state_dict`."""

    name = "mpo"
    asks = recordable = False  # where the next rollout goes in the replay is a number, and another one every time
    counted = ("learned", "replay.position", "replay.size")
    critic: nn.Module
    target_policy: nn.Module
    target_critic: nn.Module
    duals: nn.ParameterDict

    def __init__(self, config: MPOConfig, spec: Any, **where: Any):
        super().__init__(config, spec, **where)
        c = config
        self.replay = SequenceReplay(c.capacity)
        rates = {"critic": c.critic_learning_rate, "policy": c.policy_learning_rate, "duals": c.dual_learning_rate}
        self.optimizers = {
            name: make_optimizer(c.optimizer, getattr(self, name).parameters(), rate, momentum=c.momentum)
            for name, rate in rates.items()
        }
        self.learned = 0  # learner steps so far

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        c, spec = self.config, self.spec
        policy = self.make_policy(weights, torso="layernorm", squash=False)
        critic = QNet(spec.obs_dim, spec.action_dim, spec.num_actions, c.hidden, weights)
        shape = (spec.action_dim,) if c.per_dimension and spec.action_dim else (1,)
        raw = {"eta": torch.tensor(raw_of(c.eta_init)), "alpha_mean": torch.full(shape, raw_of(c.alpha_mean_init))}
        if spec.action_dim:
            raw["alpha_std"] = torch.full(shape, raw_of(c.alpha_std_init))
        if c.action_penalty and spec.num_actions:
            raise ValueError(f"action_penalty: wanted False for {spec.env_id}, whose actions are discrete; got True")
        if c.action_penalty:
            raw["eta_penalty"] = torch.tensor(raw_of(c.eta_penalty_init))
        return {
            "policy": policy,
            "critic": critic,
            "target_policy": copy.deepcopy(policy).requires_grad_(False),
            "target_critic": copy.deepcopy(critic).requires_grad_(False),
            "duals": nn.ParameterDict({f"raw_{name}": nn.Parameter(value) for name, value in raw.items()}),
        }

    def compile_parts(self) -> None:
        super().compile_parts()
        for network in (self.policy, self.critic, self.target_policy, self.target_critic):
            network.compile()

    def collect(self, env: Any, obs: Tensor) -> tuple[Rollout, Tensor]:
        """The next steps of every environment, acting by the current policy from obs [B, O]; what to act on next."""
        return collect(self, env, obs, self.config.rollout_steps)

    def learned_state(self) -> dict[str, Tensor]:
        # Not the replay: rows of a refused rollout are written over by the next one before any batch is drawn.
        state = super().learned_state()
        for name, optimizer in self.optimizers.items():
            state |= moments(f"optimizers.{name}", optimizer)
        return state

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Store the rollout, then learn from batches of what is stored; the figures of the last batch."""
        c = self.config
        self.replay.insert(rollout)
        figures: dict[str, Tensor] = {}
        if self.replay.num_steps >= c.warmup_steps and self.replay.size >= c.sequence_length:
            for name, rate in (("critic", c.critic_learning_rate), ("policy", c.policy_learning_rate)):
                self.optimizers[name].param_groups[0]["lr"] = rate * (1.0 - progress if c.anneal_lr else 1.0)
            for _ in range(c.learner_steps):
                figures = self.learn(self.replay.sample(c.minibatch_size, c.sequence_length, self.generator))
        return figures | {"train/replay_steps": torch.tensor(float(self.replay.num_steps))}

    def learn(self, batch: Rollout) -> dict[str, Tensor]:
        """One learner step on sequences [L, B]: the critic, then the E-step's dual, then the M-step."""
        c = self.config
        if self.learned % c.target_period == 0:
            self.synchronize()
        self.learned += 1
        obs, next_obs = self.normalized(batch.obs), self.normalized(batch.next_obs)
        kept = slice(1) if c.learn_from == "first" else slice(None)
        target = self.critic_targets(batch, obs, next_obs)[kept]
        figures = self.critic_step(obs[kept], batch.action[kept], target)
        states = obs[kept].flatten(0, 1)
        with torch.no_grad():
            old = self.target_policy(states)
            action, log_prior, q_value = self.candidates(states, old)
        weights, more = self.estep(action, log_prior, q_value)
        return figures | more | self.mstep(states, old, action, weights)

    def synchronize(self) -> None:
        """Copy policy and critic to their targets: a new prior for the E-step, a new center for the M-step's bounds."""
        with torch.no_grad():
            for target, source in ((self.target_policy, self.policy), (self.target_critic, self.critic)):
                for old, new in zip(target.parameters(), source.parameters(), strict=True):
                    old.copy_(new)

    @torch.no_grad()
    def critic_targets(self, batch: Rollout, obs: Tensor, next_obs: Tensor) -> Tensor:
        """Targets of Q(s_t, a_t), [L, B], by the target networks."""
        c = self.config
        next_value = self.expected_value(next_obs)
        ends = (batch.terminated, batch.truncated)
        if c.critic_target == "one_step":
            # LaTeX: Q^{\mathrm{target}}_t = r_t + \gamma (1 - d_t) V(s_{t+1})
            return batch.reward + c.gamma * next_value.masked_fill(batch.terminated, 0.0)
        q_value = self.target_critic(obs, batch.action)
        log_ratio = self.policy.log_prob(self.target_policy(obs), batch.action) - batch.behavior_log_prob
        return retrace_targets(batch.reward, q_value, next_value, log_ratio, *ends, gamma=c.gamma, lam=c.lam)

    def expected_value(self, obs: Tensor) -> Tensor:
        """`E_{a ~ target policy} Q'(s, a)` of obs [..., O]: [...], exact for finite action sets, else a sample mean."""
        params = self.target_policy(obs)
        if self.policy.discrete:
            values = self.target_critic(obs)
            # LaTeX: V(s) = \sum_a \operatorname{softmax}_a(\ell_a)\, Q'(s, a)
            return (params[0].softmax(-1) * values).sum(-1)
        action = self.draw(params, self.config.value_samples)
        q_value = self.target_critic(obs.expand(len(action), *obs.shape), action)
        # LaTeX: V(s) = \operatorname{mean}_i Q'(s, a_i)
        return q_value.mean(0)

    def draw(self, params: Params, samples: int) -> Tensor:
        """Actions [samples, ...] from the policy's parameters."""
        return self.policy.sample(tuple(p.expand(samples, *p.shape) for p in params), self.generator)

    def candidates(self, states: Tensor, old: Params) -> tuple[Tensor, Tensor, Tensor]:
        """What the E-step reweights: actions [N, B, ...], their log-weights before, [N, B], and their `Q'`, [N, B]."""
        if self.policy.discrete:
            # LaTeX: \log p_{ab} = \ell_{ba} - \operatorname{logsumexp}_j \ell_{bj}
            log_prior = old[0].log_softmax(-1).T
            action = torch.arange(len(log_prior), device=states.device).unsqueeze(1).expand_as(log_prior)
            return action, log_prior, self.target_critic(states).T
        action = self.draw(old, self.config.action_samples)
        q_value = self.target_critic(states.expand(len(action), *states.shape), action)
        # LaTeX: \log p_{ib} = -\log N
        log_prior = torch.full_like(q_value, -math.log(len(action)))
        return action, log_prior, q_value

    def critic_step(self, obs: Tensor, action: Tensor, target: Tensor) -> dict[str, Tensor]:
        q_value = self.critic(obs, action)
        # LaTeX: L^Q = \tfrac{1}{2}\, \operatorname{mean}_t \left[ (Q(s_t, a_t) - Q^{\mathrm{target}}_t)^2 \right]
        loss = value_loss(q_value, target)
        return {
            "loss/critic": loss.detach(),
            "value/q_mean": q_value.detach().mean(),
            "value/q_min": q_value.detach().min(),
            "value/q_max": q_value.detach().max(),
            "value/target_std": target.std(correction=0),
            "train/critic_grad_norm": self.step("critic", loss),
        }

    def estep(self, action: Tensor, log_prior: Tensor, q_value: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Step the temperature, then weigh the candidates by it: weights [N, B] and figures."""
        c = self.config
        loss = by_value = temperature_loss(q_value, log_prior, self.multiplier("eta"), c.eps_eta)
        if c.action_penalty:
            penalty = self.overshoot(action)
            by_penalty = temperature_loss(penalty, log_prior, self.multiplier("eta_penalty"), c.eps_penalty)
            # LaTeX: g = g^Q + g^x
            loss = by_value + by_penalty
        self.step("duals", loss)
        eta = self.multiplier("eta").detach()
        weights = estep_weights(q_value, log_prior, eta)
        figures = {
            "dual/eta": eta,
            "kl/estep": weights_kl(weights, log_prior).mean(),
            "train/effective_samples": effective_sample_size(weights).mean(),
            "train/weights_entropy": -torch.xlogy(weights, weights).sum(0).mean(),
        }
        if not c.action_penalty:
            return weights, figures
        eta_penalty = figures["dual/eta_penalty"] = self.multiplier("eta_penalty").detach()
        pull = estep_weights(penalty, log_prior, eta_penalty)
        # The two sets of weights are added: each state's sum to 2, and both pull with full strength.
        # LaTeX: q_{ib} = q^Q_{ib} + q^x_{ib}
        both = weights + pull
        return both, figures

    def overshoot(self, action: Tensor) -> Tensor:
        """Minus how far each action [N, B, D] lies outside [-1, 1]: [N, B], action units."""
        # LaTeX: x_{ib} = -\lVert a_{ib} - \operatorname{clip}(a_{ib}, -1, 1) \rVert
        return -(action - action.clamp(-1.0, 1.0)).norm(dim=-1)

    def mstep(self, states: Tensor, old: Params, action: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """Fit the policy to the weighted actions within the bounds; multipliers step first, as a price must."""
        c = self.config
        bounds = {"alpha_mean": c.eps_mean, "alpha_std": c.eps_std}
        for _ in range(c.policy_steps):
            params = self.policy(states)
            parts = dict(zip(bounds, self.policy.kl_parts(old, params), strict=False))
            kl = {
                name: part.mean(0) if c.per_dimension else part.sum(-1).mean(0, keepdim=True)
                for name, part in parts.items()
            }
            self.step("duals", sum(multiplier_loss(self.multiplier(name), kl[name], bounds[name]) for name in kl))
            fit = self.fit_loss(action, weights, old, params)
            price = sum(kl_price(self.multiplier(name), kl[name]) for name in kl)
            # LaTeX: L = L^\pi + P
            loss = fit + price
            grad_norm = self.step("policy", loss)
        figures = {
            "loss/policy": fit.detach(),
            "train/policy_grad_norm": grad_norm,
            "train/entropy": self.policy.entropy(params, self.generator).mean().detach(),
        }
        for name in kl:
            figures["dual/" + name] = self.multiplier(name).detach().mean()
            figures["kl/" + name.removeprefix("alpha_")] = kl[name].detach().mean()
        if not self.policy.discrete:
            figures |= {"train/std": params[1].detach().mean(), "train/std_min": params[1].detach().min()}
            figures["train/abs_action"] = action.abs().mean()
        return figures

    def fit_loss(self, action: Tensor, weights: Tensor, old: Params, params: Params) -> Tensor:
        """The M-step's weighted negative log-likelihood; a Gaussian's mean with the old std, std with the old mean."""
        if self.policy.discrete:
            wide = params[0].expand(*action.shape, -1)
            log_prob = self.policy.log_prob((wide,), action)
            # LaTeX: L^\pi = -\operatorname{mean}_b \sum_i q_{ib} \log \pi_\theta(a_i \mid s_b)
            return weighted_nll(log_prob, weights)
        (mean_old, std_old), (mean, std) = ((p.expand_as(action) for p in pair) for pair in (old, params))
        # LaTeX: L^\mu = -\operatorname{mean}_b \sum_i q_{ib} \log \mathcal{N}(a_{ib} \mid \mu_b, (\sigma^{\mathrm{old}}_b)^2)
        by_mean = weighted_nll(gaussian_log_prob(action, mean, std_old), weights)
        # LaTeX: L^\sigma = -\operatorname{mean}_b \sum_i q_{ib} \log \mathcal{N}(a_{ib} \mid \mu^{\mathrm{old}}_b, (\sigma_b)^2)
        by_std = weighted_nll(gaussian_log_prob(action, mean_old, std), weights)
        # LaTeX: L^\pi = L^\mu + L^\sigma
        return by_mean + by_std

    def multiplier(self, name: str) -> Tensor:
        """The value of a multiplier, differentiable in its raw parameter."""
        return positive(self.duals[f"raw_{name}"])

    def step(self, name: str, loss: Tensor) -> Tensor:
        """One step of "critic", "policy" or "duals" down `loss`; the norm of its gradient before clipping."""
        optimizer = self.optimizers[name]
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(getattr(self, name).parameters(), self.config.max_grad_norm)
        optimizer.step()
        if name == "duals":
            for raw in self.duals.values():
                project_raw(raw.data)
        return norm

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "replay": self.replay.state_dict(),
            "learned": self.learned,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for name, optimizer in self.optimizers.items():
            load_optimizer(optimizer, state["optimizers"][name])
        self.replay.load_state_dict(state["replay"], self.device)
        self.learned = state["learned"]
