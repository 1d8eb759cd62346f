"""On-policy maximum a posteriori policy optimization (Song et al. 2019, arXiv:1909.12238).

`improve` is the algorithm of chapters 7 and 7b: `estep` fixes the weights, `loss` has its formulas in order.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..checks import require_positive
from ..experience.rollout import Batch, Rollout
from ..formulas.diagnostics import effective_sample_size
from ..formulas.duals import (
    kl_price,
    multiplier_loss,
    top_k_mask,
    vmpo_temperature_loss,
    vmpo_weights,
    weights_kl,
)
from ..formulas.objectives import normalize_advantage, value_loss, weighted_nll
from .base import GradientAgent
from .multipliers import Multipliers
from .networks import Params, Policy, ValueHead, ValueNet
from .on_policy import OnPolicyAgent, OnPolicyConfig
from .settings import BoundSettings, OptimizerSettings, count, non_negative, one_of, positive


@dataclass(frozen=True)
class VMPOConfig(OnPolicyConfig, OptimizerSettings, BoundSettings):
    """Settings of V-MPO, beyond those of every on-policy agent; contradictions are refused when the object is made."""

    inner_steps: int = count(20)  # gradient steps on one rollout, the weights fixed
    top_k_frac: float = 0.5  # kappa in (0, 1]: share of the samples, those of the largest advantages, that are kept
    normalize_advantage: bool = False  # shift and scale the advantages before they are weighed
    eps_eta: float = positive(0.1)  # bound on KL(psi || kept samples), nats; from log k on it never binds
    eta_init: float = positive(1.0)  # first temperature, advantage units
    kl_over: str = one_of("all", "kept")  # states over which the KL is averaged: "all", or those of the "kept" samples
    log_normalizer: str = one_of("weights", "count")  # what the temperature's log-sum is measured against
    target_period: int = count(1)  # updates between two copies of the policy to the target that centers the bounds
    act_by: str = one_of("target", "online")  # the policy that acts: the "target", or the "online" one
    importance_clip: float | None = None  # weigh samples by pi_target / pi_b, at most this; None: do not
    torso: str = one_of("tanh", "layernorm")  # "layernorm": ELU, and a std that depends on the state
    shared_encoder: bool = False  # let the critic be one linear layer on the policy's last hidden layer
    policy_learning_rate: float = positive(1e-3)
    value_learning_rate: float = positive(1e-3)
    vf_coef: float = non_negative(1.0)  # weight of the value loss
    max_grad_norm: float = positive(10.0)  # clip the gradient's norm over policy and critic together

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.top_k_frac <= 1.0:
            raise ValueError(f"top_k_frac: wanted a number in (0, 1]; got {self.top_k_frac}")
        self.require_kept(self.batch_size, "samples of a batch")
        if self.shared_encoder and not self.hidden:
            raise ValueError("hidden: wanted at least one layer, which shared_encoder lets the critic use; got ()")
        if self.shared_encoder and self.critic_hidden is not None:
            raise ValueError(
                f"critic_hidden: wanted None with shared_encoder, whose critic has the policy's layers; "
                f"got {self.critic_hidden}"
            )
        for name, widths in (("hidden", self.hidden), ("critic_hidden", self.critic_widths)):
            if self.torso == "layernorm" and not widths:
                raise ValueError(f"{name}: wanted at least one layer, which torso 'layernorm' normalizes; got ()")
        if self.importance_clip is not None:
            require_positive(importance_clip=self.importance_clip)
            if self.act_by == "target":
                raise ValueError(
                    "importance_clip: wanted None where the target acts, every ratio is 1 there; got a number"
                )

    def require_kept(self, eligible: int, what: str) -> None:
        """Raise ValueError unless top_k_frac keeps at least one of so many samples."""
        if math.floor(self.top_k_frac * eligible + 1e-9) < 1:
            raise ValueError(
                f"top_k_frac: wanted one that keeps at least one sample; {self.top_k_frac} of {eligible} {what} is none"
            )


@dataclass(frozen=True)
class WeighedBatch(Batch):
    """A batch after the E-step: what stays fixed while the policy is fitted to it."""

    old: Params  # each [N, ...]: the target policy's parameters
    scaled_advantage: Tensor  # [N]  normalized where that is asked for
    log_importance: Tensor  # [N]  log w_t, nats; 0 where samples are not reweighed
    kept: Tensor  # [N] bool  m_t, the top k
    psi: Tensor  # [N]  the weights, 0 where not kept; they sum to 1


class VMPOAgent(GradientAgent, OnPolicyAgent):
    """A policy that is fitted to those of its actions that turned out best, weighted by exp(A / eta)."""

    name = "vmpo"
    config: VMPOConfig
    target_policy: Policy
    duals: Multipliers

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        c = self.config
        modules = super().make_modules(weights)
        starts = {"eta": c.eta_init, "alpha_mean": c.alpha_mean_init}
        if not self.spec.discrete:
            starts["alpha_std"] = c.alpha_std_init
        target_policy = copy.deepcopy(modules["policy"]).requires_grad_(False)
        return modules | {"target_policy": target_policy, "duals": Multipliers(starts)}

    def make_networks(self, weights: Generator) -> tuple[Policy, nn.Module]:
        c = self.config
        policy = self.make_policy(weights, torso=c.torso, squash=c.squash)
        if c.shared_encoder:
            return policy, ValueHead(policy.encoder, c.hidden[-1], weights)
        return policy, ValueNet(self.spec.obs_dim, c.critic_widths, weights, c.torso)

    def setup(self) -> None:
        c = self.config
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        groups = [
            {"params": list(self.policy.parameters()), "lr": c.policy_learning_rate},
            {"params": list(self.critic.parameters()), "lr": c.value_learning_rate},
            {"params": list(self.duals.parameters()), "lr": c.dual_learning_rate},
        ]
        if c.temperature_learning_rate is not None:  # the temperature gets a rate of its own
            groups[-1:] = self.duals.groups(c.temperature_learning_rate, c.dual_learning_rate)
        self.make_optimizer(groups, c.policy_learning_rate, c.value_learning_rate)  # those of the duals never fall
        self.projected = (self.duals,) if self.policy.discrete else (self.policy, self.duals)
        self.updates = 0  # since the start; the target moves at every target_period-th

    @property
    def acting_policy(self) -> Policy:
        return self.target_policy if self.config.act_by == "target" else self.policy

    def check(self, rollout: Rollout) -> None:
        super().check(rollout)
        eligible = self.eligible(rollout)
        if eligible is not None:  # else every row is eligible, and the config holds top_k_frac to that many
            self.config.require_kept(int(eligible.sum()), "eligible steps")

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Weigh the best samples once, then take several gradient steps of one loss for networks and multipliers.

        The weights stay as they are while the temperature steps, so that all steps fit one distribution. The target
        follows after the last step: within an update the KL is measured from one policy.
        """
        self.set_learning_rate(progress)
        batch = self.estep(self.prepare(rollout))
        figures: dict[str, Tensor] = {}
        for _ in range(self.config.inner_steps):
            loss, parts = self.loss(batch)
            figures = parts | {"train/grad_norm": self.gradient_step(loss)}
        figures = self.diagnose(batch) | self.divergences(batch, figures) | {"train/learning_rate": self.learning_rate}
        self.updates += 1
        if self.updates % self.config.target_period == 0:
            self.target_policy.load_state_dict(self.policy.state_dict())
        return figures

    @torch.no_grad()
    def estep(self, batch: Batch) -> WeighedBatch:
        """The batch with what stays fixed over the inner steps: the top k of its samples, and their weights psi."""
        c = self.config
        old = self.target_policy(batch.obs)
        advantage = normalize_advantage(batch.advantage) if c.normalize_advantage else batch.advantage
        log_importance = torch.zeros_like(advantage)
        if c.importance_clip is not None:
            log_prob = self.policy.log_prob(old, batch.action)
            # LaTeX: \log \rho_t = \log \pi_{\mathrm{old}}(a_t \mid s_t) - \log \pi_b(a_t \mid s_t)
            log_ratio = log_prob - batch.behavior_log_prob
            # LaTeX: \log w_t = \min(\log \rho_t, \log w_{\max})
            log_importance = log_ratio.clamp(max=math.log(c.importance_clip))
        kept = top_k_mask(advantage, torch.ones_like(advantage, dtype=torch.bool), c.top_k_frac)
        psi = vmpo_weights(advantage, kept, log_importance, self.duals.value("eta"))
        return WeighedBatch(
            **vars(batch), old=old, scaled_advantage=advantage, log_importance=log_importance, kept=kept, psi=psi
        )

    def loss(self, batch: WeighedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend, for policy, critic, temperature and multipliers at once, and its parts.

        Among the parts is each KL by state and dimension, `kl_mean` and `kl_std` [N, D].
        """
        c = self.config
        params = self.policy(batch.obs)
        log_prob = self.policy.log_prob(params, batch.action)
        # LaTeX: L^\pi = -\sum_t \psi_t \log \pi_\theta(a_t \mid s_t)
        fit = weighted_nll(log_prob, batch.psi)
        critic_loss = value_loss(self.critic(batch.obs), batch.value_target)
        temperature = vmpo_temperature_loss(
            batch.scaled_advantage,
            batch.kept,
            batch.log_importance,
            self.duals.value("eta"),
            c.eps_eta,
            c.log_normalizer,
        )
        # LaTeX: L = L^\pi + c_V L^V + g
        loss = fit + c.vf_coef * critic_loss + temperature
        figures = {"loss/policy": fit, "loss/value": critic_loss, "loss/temperature": temperature}
        slacks: list[Tensor] = []
        # A discrete policy's KL has one part, bounded by eps_mean.
        for (name, bound), part in zip(
            (("mean", c.eps_mean), ("std", c.eps_std)), self.policy.kl_parts(batch.old, params), strict=False
        ):
            if c.kl_over == "kept":
                # LaTeX: \mathrm{KL} = \frac{\sum_t m_t \sum_i \mathrm{KL}_{ti}}{\sum_t m_t}
                kl = (batch.kept * part.sum(-1)).sum() / batch.kept.sum()
            else:
                # LaTeX: \mathrm{KL} = \operatorname{mean}_t \sum_i \mathrm{KL}_{ti}
                kl = part.sum(-1).mean()
            alpha = self.duals.value(f"alpha_{name}")
            price, slack = kl_price(alpha, kl), multiplier_loss(alpha, kl, bound)
            # LaTeX: L := L + L^{\mathrm{KL}} + L^\alpha
            loss = loss + price + slack
            slacks.append(slack)
            figures |= {f"kl/{name}": kl, f"dual/alpha_{name}": alpha, f"loss/kl_{name}_penalty": price}
            figures[f"kl_{name}"] = part
        figures |= {"loss/alpha": sum(slacks[1:], slacks[0]), "loss/total": loss}
        return loss, {name: figure.detach() for name, figure in figures.items()}

    def evidence(self, rollout: Rollout) -> dict[str, Tensor]:
        batch = self.estep(self.prepare(rollout))
        loss, parts = self.loss(batch)
        return {"advantage": batch.advantage, "value_target": batch.value_target} | parts | {"loss": loss}

    @torch.no_grad()
    def divergences(self, batch: WeighedBatch, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        """The parts of a loss as figures, 0-d: each KL over its bound, over all states and over those of the kept."""
        c, kept = self.config, batch.kept
        figures = {name: part for name, part in parts.items() if not name.startswith("kl_")}
        figures["loss/dual"] = figures["loss/temperature"] + figures["loss/alpha"]
        for name, bound in (("mean", c.eps_mean), ("std", c.eps_std)):
            if f"kl_{name}" in parts:  # a discrete policy's KL has one part
                by_state = parts[f"kl_{name}"].sum(-1)
                figures |= {
                    f"kl/{name}_all": by_state.mean(),
                    f"kl/{name}_kept": (kept * by_state).sum() / kept.sum(),
                    f"kl/{name}_relative": figures[f"kl/{name}"] / bound,
                }
        return figures

    @torch.no_grad()
    def diagnose(self, batch: Batch, entropy: Tensor | None = None) -> dict[str, Tensor]:
        """What a practitioner reads, and after an E-step which samples are kept and how unequal their weights are."""
        figures = super().diagnose(batch, entropy)
        if not isinstance(batch, WeighedBatch):
            return figures
        psi, kept, advantage, eta = batch.psi, batch.kept, batch.scaled_advantage, self.duals.value("eta")
        log_prior = batch.log_importance.masked_fill(~kept, -torch.inf).log_softmax(0)
        to_the_kept = weights_kl(psi, log_prior)
        if self.config.importance_clip is not None:
            figures["train/importance_mean"] = batch.log_importance.exp().mean()
        return figures | {
            "dual/eta": eta,
            "kl/psi_kept": to_the_kept,
            "kl/psi_kept_relative": to_the_kept / self.config.eps_eta,
            "kl/psi_batch": (torch.xlogy(psi, psi)).sum() + math.log(len(psi)),
            "train/effective_samples": effective_sample_size(psi),
            "train/selected_fraction": kept.to(psi.dtype).mean(),
            "adv/threshold": advantage.masked_fill(~kept, torch.inf).min(),
            "adv/std_over_eta": advantage.std(correction=0) / eta,
        }

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.updates = state["updates"]
