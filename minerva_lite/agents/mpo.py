"""Maximum a posteriori policy optimization (Abdolmaleki et al. 2018, arXiv:1806.06920 and 1812.02256).

`learner_step` is the algorithm of chapters 6 and 6b: a step of the critic, the E-step, the M-step.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..experience.replay import SequenceReplay
from ..experience.rollout import Rollout, collect
from ..formulas.diagnostics import effective_sample_size
from ..formulas.distributions import gaussian_log_prob
from ..formulas.duals import estep_weights, kl_price, multiplier_loss, temperature_loss, weights_kl
from ..formulas.objectives import value_loss, weighted_nll
from ..formulas.returns import retrace_targets
from ..worlds.spec import VectorEnv
from .base import Agent, NonFiniteStep
from .multipliers import Multipliers
from .networks import Params, Policy, QNet
from .optimizers import make_optimizer
from .settings import (
    BoundSettings,
    CollectSettings,
    OptimizerSettings,
    count,
    non_negative,
    one_of,
    positive,
    unit_interval,
)
from .stepwise import Stepwise


@dataclass(frozen=True)
class MPOConfig(CollectSettings, OptimizerSettings, BoundSettings):
    """Settings of MPO; contradictions are refused when the object is made."""

    rollout_steps: int = count(8)  # steps of each environment between two updates
    learner_steps: int = count(32)  # batches drawn and learned from in one update
    warmup_steps: int = non_negative(1_000)  # environment steps to hold before the first learner step
    replay_steps: int = count(100_000)  # environment steps held at most
    minibatch_size: int = count(128)  # sequences of one batch
    sequence_length: int = count(1)  # steps of one sequence
    critic_target: str = one_of("one_step", "retrace")  # "one_step" (expected SARSA), "retrace" along the sequence
    learn_from: str = one_of("all", "first")  # steps of a sequence to learn from: "all", or only the "first"
    lam: float = unit_interval(1.0)  # trace decay of Retrace; read only by critic_target "retrace"
    action_samples: int = count(16)  # N: actions tried in each state of the E-step; a finite set is enumerated instead
    value_samples: int = count(16)  # actions over which Q is averaged in the successor; a finite set is enumerated
    eps_std: float = positive(1e-4)  # M-step: bound on the standard deviation's part of the KL, nats
    per_dimension: bool = True  # bound each action dimension by itself, with a multiplier of its own
    action_penalty: bool = False  # a second E-step that pulls sampled actions back inside [-1, 1]
    eps_penalty: float = positive(1e-3)  # its bound, nats; read only with action_penalty
    eta_penalty_init: float = positive(1.0)  # first temperature of the action penalty, action units
    policy_steps: int = count(1)  # gradient steps of one M-step: the weights stay, the policy moves on
    target_period: int = count(32)  # learner steps between two copies of the networks to their targets
    critic_learning_rate: float = positive(1e-3)
    policy_learning_rate: float = positive(1e-3)
    anneal_lr: bool = False  # let the learning rates of policy and critic fall linearly to 0 over training
    max_grad_norm: float = positive(40.0)  # clip the gradient norm of each step

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, widths in (("hidden", self.hidden), ("critic_hidden", self.critic_widths)):
            if not widths:
                raise ValueError(f"{name}: wanted at least one layer, which MPO's networks normalize; got ()")
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
    def first_learning(self) -> int:
        """Environment steps to hold before the first learner step."""
        return max(self.warmup_steps, self.sequence_length * self.num_envs)

    @property
    def capacity(self) -> int:
        """Steps that the replay holds of each environment."""
        return self.replay_steps // self.num_envs


class MPOAgent(Stepwise, Agent):
    """A policy that is fitted to its own actions, weighted by exp(Q / eta); its three parts have an optimizer each."""

    name = "mpo"
    config: MPOConfig
    critic: QNet
    target_policy: Policy
    target_critic: QNet
    duals: Multipliers

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        c, spec = self.config, self.spec
        if spec.choices:
            raise ValueError(
                f"env_id: wanted Discrete or Box actions for MPO, whose critic lists all values; {spec.env_id} has "
                f"{len(spec.choices)} choices at once: take an on-policy agent, such as ppo"
            )
        policy = self.make_policy(weights, torso="layernorm", squash=False)
        critic = QNet(spec.obs_dim, spec.action_dim, spec.num_actions, c.critic_widths, weights)
        starts, each = {"eta": c.eta_init, "alpha_mean": c.alpha_mean_init}, (1,)
        if spec.action_dim:
            starts["alpha_std"] = c.alpha_std_init
            each = (spec.action_dim,) if c.per_dimension else (1,)
        if c.action_penalty and spec.num_actions:
            raise ValueError(f"action_penalty: wanted False for {spec.env_id}, whose actions are discrete; got True")
        if c.action_penalty:
            starts["eta_penalty"] = c.eta_penalty_init
        return {
            "policy": policy,
            "critic": critic,
            "target_policy": copy.deepcopy(policy).requires_grad_(False),
            "target_critic": copy.deepcopy(critic).requires_grad_(False),
            "duals": Multipliers(starts, {"alpha_mean": each, "alpha_std": each}),
        }

    def setup(self) -> None:
        c = self.config
        self.replay = SequenceReplay(c.capacity)
        rates = {"critic": c.critic_learning_rate, "policy": c.policy_learning_rate, "duals": c.dual_learning_rate}
        groups = {
            name: [{"params": list(getattr(self, name).parameters()), "lr": rate}] for name, rate in rates.items()
        }
        if c.temperature_learning_rate is not None:  # the temperatures get a rate of their own
            groups["duals"] = self.duals.groups(c.temperature_learning_rate, c.dual_learning_rate)
        self.optimizers = {
            name: make_optimizer(c.optimizer, groups[name], rate, momentum=c.momentum) for name, rate in rates.items()
        }
        self.learned = 0  # learner steps so far

    def state_value(self, obs: Tensor) -> Tensor:
        """Q of the policy's mode, which `predict` returns: no average over draws, which would take random numbers."""
        return self.critic(obs, self.policy.mode(self.policy(obs)))

    def collect(self, env: VectorEnv, obs: Tensor) -> tuple[Rollout, Tensor]:
        return collect(self, env, obs, self.config.rollout_steps)

    def check(self, rollout: Rollout) -> None:
        rollout.require(self.spec, self.dtype, self.config.rollout_steps, self.config.num_envs)

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Store the rollout, then learn from batches of what is stored; the diagnostics of the last batch.

        Raises NonFiniteStep: a step was refused. Steps whose numbers are too large to learn from then leave the replay,
        where they would go on to spoil updates.
        """
        c = self.config
        self.replay.insert(rollout, self.replay.starts_of(rollout))
        figures: dict[str, Tensor] = {}
        if self.replay.num_steps >= c.warmup_steps and self.replay.size >= c.sequence_length:
            self.set_learning_rate(progress)
            try:
                for _ in range(c.learner_steps):
                    batch = self.replay.sample(c.minibatch_size, c.sequence_length, self.minibatch_generator)
                    figures = self.learner_step(batch)
            except NonFiniteStep:
                self.replay.drop_huge()
                raise
            figures |= self.sums_and_shares(figures)
        return figures | {"train/replay_steps": torch.tensor(float(self.replay.num_steps))}

    def set_learning_rate(self, progress: float) -> None:
        """The learning rates of this update: constant, or policy's and critic's falling linearly to 0 at progress 1."""
        c, left = self.config, 1.0
        if c.anneal_lr:
            # LaTeX: f_u = 1 - p_u
            left = 1.0 - progress
        for name, rate in (("critic", c.critic_learning_rate), ("policy", c.policy_learning_rate)):
            self.optimizers[name].param_groups[0]["lr"] = left * rate

    def sums_and_shares(self, figures: dict[str, Tensor]) -> dict[str, Tensor]:
        """From the diagnostics of a learner step: what the duals lose together, and each KL over its bound."""
        c = self.config
        dual = sum(figures[name] for name in figures if name.startswith("loss/temperature"))
        bounds = {"estep": c.eps_eta, "mean": c.eps_mean, "std": c.eps_std}
        return {"loss/dual": dual + figures["loss/alpha"]} | {
            f"kl/{name}_relative": figures[f"kl/{name}"] / bound
            for name, bound in bounds.items()
            if f"kl/{name}" in figures
        }

    def learner_step(self, batch: Rollout) -> dict[str, Tensor]:
        """One learner step on sequences [L, B]: the critic, then the E-step, then the M-step; its diagnostics.

        E-step and bounds ask the target networks, which stand still between two copies, so that the policy is fitted
        to a distribution that does not flee from it. The critic's own step is seen at the next copy.
        """
        c = self.config
        if self.learned % c.target_period == 0:
            self.synchronize()
        obs, next_obs = self.normalized(batch.obs), self.normalized(batch.next_obs)
        steps = slice(1) if c.learn_from == "first" else slice(None)
        target = self.critic_targets(batch, obs, next_obs)[steps]
        figures = self.critic_step(obs[steps], batch.action[steps], target)
        states = obs[steps].flatten(0, 1)
        with torch.no_grad():
            old = self.target_policy(states)
            action, log_prior, q_value = self.candidates(states, old)
        weights, more = self.estep(action, log_prior, q_value)
        figures |= more | self.mstep(states, old, action, weights)
        self.learned += 1
        return figures

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
            # Only behind a terminal state is nothing to come: at a time limit the successor's value counts.
            # LaTeX: Q^{\mathrm{target}}_t = r_t + \gamma (1 - d_t) V(s_{t+1})
            return batch.reward + c.gamma * next_value.masked_fill(batch.terminated, 0.0)
        q_value = self.target_critic(obs, batch.action)
        log_ratio = self.policy.log_prob(self.target_policy(obs), batch.action) - batch.behavior_log_prob
        return retrace_targets(batch.reward, q_value, next_value, log_ratio, *ends, gamma=c.gamma, lam=c.lam)

    def expected_value(self, obs: Tensor) -> Tensor:
        """The mean of `Q'` over the target policy's actions, for obs [..., O]: [...]; exact for a finite set."""
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
        return self.policy.sample(tuple(p.expand(samples, *p.shape) for p in params), self.minibatch_generator)

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
        """One step of the critic towards its targets: obs [L, B, O], action [L, B, ...], target [L, B]."""
        q_value = self.critic(obs, action)
        # LaTeX: L^Q = \tfrac{1}{2}\, \operatorname{mean}_t \left[ (Q(s_t, a_t) - Q^{\mathrm{target}}_t)^2 \right]
        loss = value_loss(q_value, target)
        return {
            "loss/critic": loss.detach(),
            "value/q_mean": q_value.detach().mean(),
            "value/q_min": q_value.detach().min(),
            "value/q_max": q_value.detach().max(),
            "value/pred_std": q_value.detach().std(correction=0),
            "value/target_std": target.std(correction=0),
            "train/critic_grad_norm": self.gradient_step("critic", loss),
        }

    def estep(self, action: Tensor, log_prior: Tensor, q_value: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Step the temperature, then weigh the candidates by the new one: weights [N, B] and diagnostics.

        The weights are numbers to the M-step. They carry no gradient, neither to the temperature nor to the critic.
        action: [N, B, ...]. log_prior and q_value: [N, B], as `candidates` gives them.
        """
        c, duals = self.config, self.duals
        loss = by_value = temperature_loss(q_value, log_prior, duals.value("eta"), c.eps_eta)
        if c.action_penalty:
            # LaTeX: x_{ib} = -\lVert a_{ib} - \operatorname{clip}(a_{ib}, -1, 1) \rVert
            overshoot = -(action - action.clamp(-1.0, 1.0)).norm(dim=-1)
            by_penalty = temperature_loss(overshoot, log_prior, duals.value("eta_penalty"), c.eps_penalty)
            # LaTeX: g = g^Q + g^x
            loss = by_value + by_penalty
        self.gradient_step("duals", loss)
        eta = duals.value("eta").detach()
        weights = estep_weights(q_value, log_prior, eta)
        figures = {
            "dual/eta": eta,
            "loss/temperature": by_value.detach(),
            "kl/estep": weights_kl(weights, log_prior).mean(),
            "train/effective_samples": effective_sample_size(weights).mean(),
            "train/weights_entropy": -torch.xlogy(weights, weights).sum(0).mean(),
        }
        if not c.action_penalty:
            return weights, figures
        figures["loss/temperature_penalty"] = by_penalty.detach()
        eta_penalty = figures["dual/eta_penalty"] = duals.value("eta_penalty").detach()
        pull = estep_weights(overshoot, log_prior, eta_penalty)
        # The two sets of weights are added: each state's sum to 2, and both pull with full strength.
        # LaTeX: q_{ib} = q^Q_{ib} + q^x_{ib}
        both = weights + pull
        return both, figures

    def mstep(self, states: Tensor, old: Params, action: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """Fit the policy to the weighted actions within the bounds, in `policy_steps` steps; diagnostics of the last.

        states: [B, O]. old: the target policy's parameters there. action: [N, B, ...]. weights: [N, B].
        """
        figures: dict[str, Tensor] = {}
        for _ in range(self.config.policy_steps):
            figures = self.policy_step(states, old, action, weights)
        if not self.policy.discrete:
            figures["train/abs_action"] = action.abs().mean()
        return figures

    def policy_step(self, states: Tensor, old: Params, action: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """One step of the multipliers, then one of the policy at their new values; arguments as in `mstep`.

        The multipliers step first, so that a KL over its bound is dearer in this very step of the policy, and not only
        in the next. Both steps read the same KL, that of the policy before them.
        """
        params = self.policy(states)
        kl = self.mean_kl(old, params)
        bounds = {"mean": self.config.eps_mean, "std": self.config.eps_std}
        slack = [multiplier_loss(self.duals.value(f"alpha_{name}"), kl[name], bounds[name]) for name in kl]
        slack_loss = sum(slack[1:], slack[0])
        self.gradient_step("duals", slack_loss)
        loss, parts = self.policy_loss(action, weights, old, params, kl)
        figures = parts | {
            "loss/alpha": slack_loss.detach(),
            "train/policy_grad_norm": self.gradient_step("policy", loss),
            "train/entropy": self.policy.entropy(params, self.minibatch_generator).mean().detach(),
        }
        for name, part in kl.items():
            alpha, realized = self.duals.value(f"alpha_{name}").detach(), part.detach()
            figures |= {f"dual/alpha_{name}": alpha.mean(), f"kl/{name}": realized.mean()}
            figures[f"loss/kl_{name}_penalty"] = kl_price(alpha, realized)
        if not self.policy.discrete:
            std = params[1].detach()
            figures |= {"train/std": std.mean(), "train/std_min": std.min(), "train/std_max": std.max()}
        return figures

    def mean_kl(self, old: Params, params: Params) -> dict[str, Tensor]:
        """Each part of KL(target || policy), averaged over states: [D] where each dimension has a bound, else [1]."""
        parts = dict(zip(("mean", "std"), self.policy.kl_parts(old, params), strict=False))  # discrete: no std
        if self.config.per_dimension:
            return {name: part.mean(0) for name, part in parts.items()}
        return {name: part.sum(-1).mean(0, keepdim=True) for name, part in parts.items()}

    def policy_loss(
        self, action: Tensor, weights: Tensor, old: Params, params: Params, kl: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The policy's loss, its fit to the weighted actions plus multiplier times KL; and that beside the fit alone.

        A Gaussian's mean is fitted with the old std, and its std with the old mean. Each then has a KL and a bound of
        its own, so that the std can be held tighter than the mean and does not collapse early.

        params: the policy's, at the B states. kl: as `mean_kl` gives it. The other arguments are those of `mstep`.
        """
        if self.policy.discrete:
            log_prob = self.policy.log_prob((params[0].expand(*action.shape, -1),), action)
            # LaTeX: L^\pi = -\operatorname{mean}_b \sum_i q_{ib} \log \pi_\theta(a_i \mid s_b)
            fit = weighted_nll(log_prob, weights)
        else:
            (mean_old, std_old), (mean, std) = ((p.expand_as(action) for p in pair) for pair in (old, params))
            # LaTeX: L^\mu = -\operatorname{mean}_b \sum_i q_{ib} \log \mathcal{N}(a_{ib} \mid \mu_b, (\sigma^{\mathrm{old}}_b)^2)
            by_mean = weighted_nll(gaussian_log_prob(action, mean, std_old), weights)
            # LaTeX: L^\sigma = -\operatorname{mean}_b \sum_i q_{ib} \log \mathcal{N}(a_{ib} \mid \mu^{\mathrm{old}}_b, (\sigma_b)^2)
            by_std = weighted_nll(gaussian_log_prob(action, mean_old, std), weights)
            # LaTeX: L^\pi = L^\mu + L^\sigma
            fit = by_mean + by_std
        price = sum(kl_price(self.duals.value(f"alpha_{name}"), kl[name]) for name in kl)
        # LaTeX: L = L^\pi + L^{\mathrm{KL}}
        loss = fit + price
        return loss, {"loss/policy": fit.detach(), "loss/total": loss.detach()}

    def gradient_step(self, name: str, loss: Tensor) -> Tensor:
        """One step of "critic", "policy" or "duals" down `loss`; the norm of its gradient before clipping, 0-d.

        A dual that is not in `loss` has no gradient, and the optimizer leaves it as it is.
        Raises NonFiniteStep, which ends an update: loss or norm is not finite, and this step has moved nothing.
        """
        optimizer = self.optimizers[name]
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(getattr(self, name).parameters(), self.config.max_grad_norm)
        self.guard.admit(f"loss/{name}", loss, norm)
        optimizer.step()
        if name == "duals":
            self.duals.project()
        return norm

    def evidence(self, rollout: Rollout) -> dict[str, Tensor]:
        obs, next_obs = self.normalized(rollout.obs), self.normalized(rollout.next_obs)
        target = self.critic_targets(rollout, obs, next_obs)
        q_value = self.critic(obs, rollout.action)
        return {"target": target, "q_value": q_value, "loss/critic": value_loss(q_value, target)}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "replay": self.replay.state_dict(),
            "learned": self.learned,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(copy.deepcopy(state["optimizers"][name]))  # torch would share its tensors
        self.replay.load_state_dict(state["replay"], self.device)
        self.learned = state["learned"]
