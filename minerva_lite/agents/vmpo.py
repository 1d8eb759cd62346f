"""On-policy maximum a posteriori policy optimization (Song et al. 2019, arXiv:1909.12238), top to bottom."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..checks import require_count, require_non_negative, require_one_of, require_positive
from ..experience.rollout import Rollout
from ..formulas.diagnostics import effective_sample_size
from ..formulas.duals import (
    kl_price,
    multiplier_loss,
    positive,
    project_raw,
    raw_of,
    top_k_mask,
    vmpo_temperature_loss,
    vmpo_weights,
    weights_kl,
)
from ..formulas.objectives import normalize_advantage, value_loss, weighted_nll
from .networks import TORSOS, Params, ValueHead, ValueNet
from .on_policy import OnPolicyAgent, OnPolicyConfig
from .optimizers import make_optimizer, set_rate


@dataclass(frozen=True)
class VMPOConfig(OnPolicyConfig):
    """Settings of V-MPO, beyond those of every on-policy agent; contradictions are refused when the object is made."""

    inner_steps: int = 20  # gradient steps on one rollout, the weights fixed
    top_k_frac: float = 0.5  # kappa: share of the samples, those of the largest advantages, that are kept
    normalize_advantage: bool = False  # shift and scale the advantages before they are weighed
    eps_eta: float = 0.1  # bound on KL(psi || kept samples), nats; from log k on it never binds
    eps_mean: float = 0.01  # bound on the mean's part of the KL, nats; discrete: on the whole KL
    eps_std: float = 1e-3  # bound on the standard deviation's part of the KL, nats
    eta_init: float = 1.0  # first temperature, advantage units
    alpha_mean_init: float = 1.0  # first multiplier of eps_mean
    alpha_std_init: float = 1.0  # first multiplier of eps_std
    kl_over: str = "all"  # states over which the KL is averaged: "all" of them, or those of the "kept" samples
    log_normalizer: str = "weights"  # in the temperature's loss: log of the kept "weights"' sum, or of their "count"
    target_period: int = 1  # updates between two copies of the policy to the target that the bounds are centered on
    act_by: str = "target"  # who acts: the "target" policy, or the "online" one
    importance_clip: float | None = None  # weigh samples by pi_target / pi_b, at most this; None: do not
    torso: str = "tanh"  # "tanh" (orthogonal, state-independent std) or "layernorm" (ELU, state-dependent std)
    shared_encoder: bool = False  # let the critic be one linear layer on the policy's last hidden layer
    optimizer: str = "adam"  # "adam" or "sgd"
    momentum: float = 0.0  # of "sgd"
    policy_learning_rate: float = 1e-3
    value_learning_rate: float = 1e-3
    dual_learning_rate: float = 1e-2
    anneal_lr: bool = True  # let the learning rates of policy and critic fall linearly to 0 over training
    vf_coef: float = 1.0  # weight of the value loss
    max_grad_norm: float = 10.0  # clip the gradient's norm over policy and critic together

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(inner_steps=self.inner_steps, target_period=self.target_period)
        require_one_of(("all", "kept"), kl_over=self.kl_over)
        require_one_of(("weights", "count"), log_normalizer=self.log_normalizer)
        require_one_of(("target", "online"), act_by=self.act_by)
        require_one_of(TORSOS, torso=self.torso)
        require_one_of(("adam", "sgd"), optimizer=self.optimizer)
        require_non_negative(momentum=self.momentum, vf_coef=self.vf_coef)
        require_positive(
            eps_eta=self.eps_eta,
            eps_mean=self.eps_mean,
            eps_std=self.eps_std,
            eta_init=self.eta_init,
            alpha_mean_init=self.alpha_mean_init,
            alpha_std_init=self.alpha_std_init,
            policy_learning_rate=self.policy_learning_rate,
            value_learning_rate=self.value_learning_rate,
            dual_learning_rate=self.dual_learning_rate,
            max_grad_norm=self.max_grad_norm,
        )
        if self.optimizer == "adam" and self.momentum:
            raise ValueError(f"momentum: wanted 0 with adam, which has its own; got {self.momentum}")
        if not 0.0 < self.top_k_frac <= 1.0:
            raise ValueError(f"top_k_frac: wanted a number in (0, 1]; got {self.top_k_frac}")
        if math.floor(self.top_k_frac * self.batch_size + 1e-9) < 1:
            raise ValueError(
                f"top_k_frac: wanted one that selects somebody; {self.top_k_frac} of a batch of {self.batch_size} is "
                "nobody"
            )
        if self.importance_clip is not None:
            require_positive(importance_clip=self.importance_clip)
            if self.act_by == "target":
                raise ValueError(
                    "importance_clip: wanted None where the target acts, every ratio is 1 there; got a number"
                )


class VMPOAgent(OnPolicyAgent):
    """A policy that is fitted to its own luckiest half, weighted by exp(A / eta). `act`, `update`, `state_dict`."""

    name = "vmpo"
    counted = ("updates",)
    target_policy: nn.Module
    duals: nn.ParameterDict

    def __init__(self, config: VMPOConfig, spec: Any, **where: Any):
        super().__init__(config, spec, **where)
        self.updates = 0  # since the start; the target moves at every target_period-th

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        c = self.config
        modules = super().make_modules(weights)
        raw = {"eta": c.eta_init, "alpha_mean": c.alpha_mean_init, "alpha_std": c.alpha_std_init}
        if self.spec.num_actions:
            raw.pop("alpha_std")
        return modules | {
            "target_policy": copy.deepcopy(modules["policy"]).requires_grad_(False),
            "duals": nn.ParameterDict({f"raw_{k}": nn.Parameter(torch.tensor(raw_of(v))) for k, v in raw.items()}),
        }

    def make_networks(self, weights: Generator) -> tuple[nn.Module, nn.Module]:
        c = self.config
        policy = self.make_policy(weights, torso=c.torso, squash=c.squash)
        if c.shared_encoder:
            return policy, ValueHead(policy.encoder, c.hidden[-1], weights)
        return policy, ValueNet(self.spec.obs_dim, c.hidden, weights, c.torso)

    def make_optimizer(self) -> torch.optim.Optimizer:
        c = self.config
        groups = [
            {"params": list(self.policy.parameters()), "lr": c.policy_learning_rate},
            {"params": list(self.critic.parameters()), "lr": c.value_learning_rate},
            {"params": list(self.duals.parameters()), "lr": c.dual_learning_rate},
        ]
        return make_optimizer(c.optimizer, groups, c.policy_learning_rate, momentum=c.momentum)

    @property
    def recordable(self) -> bool:
        return super().recordable and self.config.target_period == 1  # else some updates move the target, others not

    @property
    def acting_policy(self) -> nn.Module:
        return self.target_policy if self.config.act_by == "target" else self.policy

    def set_learning_rate(self, progress: float) -> None:
        """The learning rates of this update: constant, or policy's and critic's falling linearly to 0 at progress 1."""
        c = self.config
        left = 1.0 - progress if c.anneal_lr else 1.0
        set_rate(self.optimizer.param_groups[0], c.policy_learning_rate * left)
        set_rate(self.optimizer.param_groups[1], c.value_learning_rate * left)

    def check(self, rollout: Rollout) -> None:
        super().check(rollout)
        if self.keeps_all(rollout):
            return  # every row is eligible, and the config holds top_k_frac to that many
        eligible = int(self.kept(rollout).sum())
        if math.floor(self.config.top_k_frac * eligible + 1e-9) < 1:
            raise ValueError(
                f"top_k_frac: wanted one that selects somebody; {self.config.top_k_frac} of {eligible} eligible steps "
                "is nobody"
            )

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Weigh the best samples once, then take several gradient steps of one loss for policy, critic and prices."""
        self.set_learning_rate(progress)
        batch = self.prepare(rollout)
        batch |= self.estep(batch)
        for _ in range(self.config.inner_steps):
            loss, parts = self.loss(batch)
            grad_norm = self.gradient_step(loss)
        figures = (
            self.diagnose(batch) | parts | {"train/grad_norm": grad_norm, "train/learning_rate": self.learning_rate}
        )
        self.updates += 1
        if self.updates % self.config.target_period == 0:
            self.target_policy.load_state_dict(self.policy.state_dict())
        return figures

    @torch.no_grad()
    def estep(self, batch: dict[str, Any]) -> dict[str, Any]:
        """What stays fixed over the inner steps: the target's parameters, who is kept, and the weights psi [N]."""
        c = self.config
        old = self.target_policy(batch["obs"])
        advantage = normalize_advantage(batch["advantage"]) if c.normalize_advantage else batch["advantage"]
        log_importance = torch.zeros_like(advantage)
        if c.importance_clip is not None:
            log_ratio = self.log_ratio(self.policy.log_prob(old, batch["action"]), batch["behavior_log_prob"])
            # LaTeX: \log w_t = \min(\log \rho_t, \log w_{\max})
            log_importance = log_ratio.clamp(max=math.log(c.importance_clip))
        kept = top_k_mask(advantage, torch.ones_like(advantage, dtype=torch.bool), c.top_k_frac)
        psi = vmpo_weights(advantage, kept, log_importance, self.multiplier("eta"))
        return {"old": old, "scaled": advantage, "log_importance": log_importance, "kept": kept, "psi": psi}

    def loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend, for policy, critic, temperature and multipliers at once, and its parts."""
        c = self.config
        params = self.policy(batch["obs"])
        log_prob = self.policy.log_prob(params, batch["action"])
        # LaTeX: L^\pi = -\sum_t \psi_t \log \pi_\theta(a_t \mid s_t)
        fit = weighted_nll(log_prob, batch["psi"])
        value = self.critic(batch["obs"])
        # LaTeX: L^V = \tfrac{1}{2}\, \operatorname{mean}_t \left[ (V(s_t) - R_t)^2 \right]
        critic_loss = value_loss(value, batch["value_target"])
        temperature = vmpo_temperature_loss(
            batch["scaled"], batch["kept"], batch["log_importance"], self.multiplier("eta"), c.eps_eta, c.log_normalizer
        )
        # LaTeX: L = L^\pi + c_V L^V + g
        loss = fit + c.vf_coef * critic_loss + temperature
        figures = {"loss/policy": fit, "loss/value": critic_loss, "loss/temperature": temperature}
        for name, bound, kl in self.kl_parts(batch, params):
            alpha = self.multiplier(f"alpha_{name}")
            price, slack = kl_price(alpha, kl), multiplier_loss(alpha, kl, bound)
            # LaTeX: L := L + P + L^\alpha
            loss = loss + price + slack
            figures |= {f"kl/{name}": kl, f"dual/alpha_{name}": alpha}
        return loss, {name: figure.detach() for name, figure in figures.items()}

    def kl_parts(self, batch: dict[str, Any], params: Params) -> list[tuple[str, float, Tensor]]:
        """Name, bound and realized value of each part of KL(target || policy); the mean over states, nats."""
        c = self.config
        found = []
        bounds = (("mean", c.eps_mean), ("std", c.eps_std))
        for (name, bound), part in zip(bounds, self.policy.kl_parts(batch["old"], params), strict=False):
            if c.kl_over == "kept":
                # LaTeX: \mathrm{KL} = \frac{\sum_t m_t \sum_i \mathrm{KL}_{ti}}{\sum_t m_t}
                kl = (batch["kept"] * part.sum(-1)).sum() / batch["kept"].sum()
            else:
                # LaTeX: \mathrm{KL} = \operatorname{mean}_t \sum_i \mathrm{KL}_{ti}
                kl = part.sum(-1).mean()
            found.append((name, bound, kl))
        return found

    def multiplier(self, name: str) -> Tensor:
        """The value of a multiplier, differentiable in its raw parameter."""
        return positive(self.duals[f"raw_{name}"])

    def gradient_step(self, loss: Tensor) -> Tensor:
        norm = super().gradient_step(loss)
        for raw in self.duals.values():
            project_raw(raw.data)
        return norm

    @torch.no_grad()
    def diagnose(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """What a practitioner reads: beside every agent's figures who was kept, and how unequal the weights are."""
        psi, kept, advantage = batch["psi"], batch["kept"], batch["scaled"]
        log_prior = batch["log_importance"].masked_fill(~kept, -torch.inf).log_softmax(0)
        eta = self.multiplier("eta")
        figures = {
            "dual/eta": eta,
            "kl/psi_kept": weights_kl(psi, log_prior),
            "kl/psi_batch": (torch.xlogy(psi, psi)).sum() + math.log(len(psi)),
            "train/effective_samples": effective_sample_size(psi),
            "train/selected_fraction": kept.to(psi.dtype).mean(),
            "adv/threshold": advantage.masked_fill(~kept, torch.inf).min(),
            "adv/std_over_eta": advantage.std(correction=0) / eta,
        }
        return super().diagnose(batch) | figures

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.updates = state["updates"]
