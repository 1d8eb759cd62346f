"""Trust region policy optimization (Schulman et al. 2015, arXiv:1502.05477).

`improve` and `trust_region_step` are the algorithm of chapter 4b, `surrogate` and `mean_kl` its formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import require_dtype, require_shape
from ..experience.rollout import Batch, Rollout
from ..experience.vine import Vine, collect_vine
from ..formulas.objectives import importance_surrogate, normalize_advantage, rounding_alone, value_loss, vine_surrogate
from ..formulas.trust_region import (
    CurvatureError,
    LineSearch,
    at_rounding_level,
    conjugate_gradient,
    fisher_vector_product,
    full_step,
    line_search,
    predicted_gain,
)
from .critic_fit import fit_adam, fit_lbfgs
from .networks import LOG_STD_MAX, LOG_STD_MIN
from .on_policy import OnPolicyAgent, OnPolicyConfig
from .optimizers import flatten
from .settings import count, non_negative, one_of, positive, unit_interval


@dataclass(frozen=True)
class TRPOConfig(OnPolicyConfig):
    """Settings of TRPO, beyond those of every on-policy agent; contradictions are refused when it is made."""

    kl_bound: float = positive(0.01)  # delta, nats: no step of "trpo" exceeds this mean KL(old || new)
    anneal_kl: bool = False  # let that bound fall linearly to 0 over training
    damping: float = non_negative(0.1)  # added to the diagonal of the Fisher matrix, omega
    cg_iterations: int = count(10)  # Fisher-vector products spent on a direction
    cg_tolerance: float = non_negative(1e-10)  # stop earlier once the squared residual has fallen to this share
    step_rule: str = one_of("trpo", "natural", "fixed")  # "natural": scaled to the bound; "fixed": a multiple
    natural_step: float = positive(0.1)  # 1 / lambda_KL of "fixed": the multiple of F^-1 g
    backtrack: float = 0.5  # factor between two trials of the line search, beta
    max_trials: int = count(10)  # trials before the line search gives up
    accept_ratio: float = unit_interval(0.1)  # share of the predicted gain that a trial must realize
    sampling: str = one_of("single_path", "vine")  # "single_path", or "vine" where the state can be set
    vine_states: int = count(64)  # states of the trunk from which "vine" branches
    vine_actions: int = count(4)  # branches of each state
    vine_steps: int = count(64)  # steps of each branch
    vine_proposal: str = one_of("policy", "uniform")  # where first actions come from
    value_fit: str = one_of("lbfgs", "adam")  # "lbfgs" or "adam"
    value_iterations: int = count(25)  # at most so many iterations of L-BFGS, or passes of Adam, at each update
    value_l2: float = non_negative(1e-3)  # penalty on the critic's squared weights
    value_learning_rate: float = positive(1e-3)  # of "adam"
    value_minibatch: int = count(256)  # rows of one step of "adam"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.backtrack < 1.0:
            raise ValueError(f"backtrack: wanted a factor between 0 and 1, both excluded; got {self.backtrack}")
        if self.sampling == "vine" and (self.whole_episodes or self.vine_states > self.batch_size):
            raise ValueError(
                f"vine_states: wanted at most the {self.batch_size} states of a trunk of fixed length; "
                f"got {self.vine_states} with whole_episodes {self.whole_episodes}"
            )
        if self.sampling == "vine" and self.vine_actions < 2:
            raise ValueError("vine_actions: wanted at least 2, one branch has nothing to be compared with; got 1")
        if self.sampling == "vine" and self.normalize_reward:
            raise ValueError(
                "normalize_reward: wanted False with vine sampling, whose branches add rewards as they come to the "
                "critic's values; got True"
            )


@dataclass(frozen=True)
class VineBatch:
    """K branches from each of N states, as TRPO's surrogate reads them."""

    obs: Tensor  # [N, O]  as the networks see it
    action: Tensor  # [N, K, D] float or [N, K] int64
    proposal_log_prob: Tensor  # [N, K]  log q(a_nk | s_n), nats
    behavior_params: tuple[Tensor, ...]  # each [N, ...]: the parameters of pi_b(. | s_n)
    advantage: Tensor  # [N, K]  each branch's return less the mean over the branches of its state


class TRPOAgent(OnPolicyAgent):
    """A policy moved by TRPO's step, and a critic fitted after it."""

    name = "trpo"
    config: TRPOConfig

    def collect(self, env: Any, obs: Tensor) -> tuple[Any, Tensor]:
        c = self.config
        if c.sampling == "single_path":
            return super().collect(env, obs)
        return collect_vine(
            self,
            env,
            obs,
            trunk_steps=c.rollout_steps,
            states=c.vine_states,
            actions=c.vine_actions,
            branch_steps=c.vine_steps,
            proposal=c.vine_proposal,
        )

    def improve(self, rollout: Rollout | Vine, progress: float) -> dict[str, Tensor]:
        """One step of the policy by `step_rule`, then the critic: advantages never see the new critic."""
        trunk = self.prepare(rollout.trunk if isinstance(rollout, Vine) else rollout)
        batch = self.prepare_vine(rollout) if isinstance(rollout, Vine) else trunk
        share = max(1.0 - progress, 1e-6) if self.config.anneal_kl else 1.0  # a bound of 0 has no step
        figures = self.trust_region_step(batch, self.config.kl_bound * share)
        fitted = self.fit_value(trunk)
        figures = self.diagnose(trunk) | figures | fitted
        if "kl/bound" in figures:
            figures["kl/exact_relative"] = figures["kl/exact"] / figures["kl/bound"]
        return figures

    def trust_region_step(self, batch: Batch | VineBatch, kl_bound: float) -> dict[str, Tensor]:
        """Move the policy, or leave it as it was to the bit and say why (`train/skip_…` is then 1)."""
        c, parameters = self.config, list(self.policy.parameters())
        skipped = {f"train/skip_{reason}": torch.zeros(()) for reason in SKIPS}
        figures = {"train/step_fraction": torch.zeros(()), "train/trials": torch.zeros(()), **skipped}
        self.guard.admit("advantage", batch.advantage.abs().max())
        if not self.informative(batch.advantage):
            return figures | {"train/skip_equal_advantages": torch.ones(())}
        if c.normalize_advantage:
            batch = replace(batch, advantage=normalize_advantage(batch.advantage))
        surrogate = self.surrogate(batch)
        gradient = flatten(torch.autograd.grad(surrogate, parameters, materialize_grads=True)).detach()
        norm = gradient.norm()
        self.guard.admit("surrogate", surrogate, norm)
        figures |= {"loss/surrogate": surrogate.detach(), "train/grad_norm": norm}
        if not norm > 0:
            return figures | {"train/skip_zero_gradient": torch.ones(())}
        product = self.fisher_product(batch, parameters)
        try:
            # Solved for the unit gradient, so that no squared residual underflows: in float32 the square of a norm of
            # 1e-23 is 0, and the solver would stop before its first step. The system is linear, so that its solution
            # is scaled back by the norm.
            unit = conjugate_gradient(product, gradient / norm, c.cg_iterations, tolerance=c.cg_tolerance)
            direction = norm * unit
            scaled = self.inside(parameters, full_step(gradient, direction, kl_bound))
        except CurvatureError:
            return figures | {"train/skip_curvature": torch.ones(())}
        if at_rounding_level(predicted_gain(gradient, scaled), batch.advantage, kl_bound):
            return figures | {"train/skip_rounding": torch.ones(())}
        step = self.inside(parameters, c.natural_step * direction) if c.step_rule == "fixed" else scaled
        gain = predicted_gain(gradient, step)
        self.guard.admit("predicted gain", gain, step.norm())
        found = self.search(batch, parameters, step, surrogate.detach(), float(gain), kl_bound)
        if not found.fraction:
            figures[f"train/skip_{found.reason}"] = torch.ones(())
        return figures | {
            "train/step_fraction": torch.tensor(found.fraction),
            "train/trials": torch.tensor(float(found.trials)),
            "kl/bound": torch.tensor(kl_bound),
            "train/step_norm": found.fraction * step.norm(),
            "loss/expected_gain": gain,
            "loss/gain": self.surrogate(batch).detach() - surrogate.detach(),
        }

    def informative(self, advantage: Tensor) -> bool:
        """Whether the advantages tell actions apart: their spread is above the rounding of their size."""
        spread = (advantage - advantage.mean()).abs().max()
        return not bool(rounding_alone(spread, advantage.abs().max(), torch.finfo(spread.dtype).eps))

    @torch.no_grad()
    def inside(self, parameters: list[nn.Parameter], step: Tensor) -> Tensor:
        """The step [n], cut where it would take a log-std out of its range: what is cut gains nothing."""
        moves = step.split([p.numel() for p in parameters])
        log_std = getattr(self.policy, "log_std", None)
        cut = [
            m.clamp(LOG_STD_MIN - p, LOG_STD_MAX - p) if p is log_std else m
            for p, m in zip(parameters, moves, strict=True)
        ]
        return torch.cat(cut)

    def surrogate(self, batch: Batch | VineBatch) -> Tensor:
        """The scalar to climb, 0-d, as a function of the policy's present parameters."""
        params = self.policy(batch.obs)
        if isinstance(batch, VineBatch):
            # The branches of a state share its distribution, [N, ...] repeated along K.
            shared = tuple(p.unsqueeze(1).expand(-1, batch.action.shape[1], *p.shape[1:]) for p in params)
            branch_log_prob = self.policy.log_prob(shared, batch.action)
            # LaTeX: \log w_{nk} = \log \pi_\theta(a_{nk} \mid s_n) - \log q(a_{nk} \mid s_n)
            log_weight = branch_log_prob - batch.proposal_log_prob
            return vine_surrogate(log_weight, batch.advantage)
        log_prob = self.policy.log_prob(params, batch.action)
        # LaTeX: \log \rho_t = \log \pi_\theta(a_t \mid s_t) - \log \pi_b(a_t \mid s_t)
        log_ratio = log_prob - batch.behavior_log_prob
        return importance_surrogate(log_ratio, batch.advantage)

    def mean_kl(self, batch: Batch | VineBatch) -> Tensor:
        """KL(old || new) averaged over the states of the batch, 0-d, nats; analytic, old first."""
        kl = self.policy.kl(batch.behavior_params, self.policy(batch.obs))
        # LaTeX: \overline{\mathrm{KL}} = \operatorname{mean}_t \mathrm{KL}_t
        return kl.mean()

    def fisher_product(self, batch: Batch | VineBatch, parameters: list[nn.Parameter]) -> Callable[[Tensor], Tensor]:
        """The map v -> (F + omega I) v of [n] to [n] on the states of the batch, by differentiating the KL twice.

        The first derivative is taken once and keeps its graph; each product then costs one more backward pass. At the
        old policy it is zero, and what is left of the second is the Fisher matrix.
        """
        gradient = flatten(
            torch.autograd.grad(self.mean_kl(batch), parameters, create_graph=True, materialize_grads=True)
        )
        return lambda vector: fisher_vector_product(gradient, parameters, vector, damping=self.config.damping)

    @torch.no_grad()
    def search(
        self,
        batch: Batch | VineBatch,
        parameters: list[nn.Parameter],
        step: Tensor,
        start: Tensor,
        gain: float,
        kl_bound: float,
    ) -> LineSearch:
        """Walk the largest acceptable fraction of `step`; without one the parameters are restored bit for bit.

        A step rule other than "trpo" walks all of it, untested.
        """
        # Cloned, because `copy_` writes into the parameters, and whatever only refers to them would move along. Every
        # trial starts from the clones: a way back by subtraction would round.
        c, before = self.config, [p.clone() for p in parameters]

        def walk(fraction: float) -> None:
            moves = (fraction * step).split([p.numel() for p in parameters])
            for parameter, old, move in zip(parameters, before, moves, strict=True):
                parameter.copy_(old + move.view_as(old))
            self.policy.project()

        def evaluate(fraction: float) -> tuple[Tensor, Tensor]:
            walk(fraction)
            return self.surrogate(batch) - start, self.mean_kl(batch)

        if c.step_rule != "trpo":
            walk(1.0)
            return LineSearch(1.0, 0, "accepted")
        found = line_search(
            evaluate,
            gain,
            kl_bound=kl_bound,
            backtrack=c.backtrack,
            max_trials=c.max_trials,
            accept_ratio=c.accept_ratio,
        )
        if not found.fraction:
            for parameter, old in zip(parameters, before, strict=True):
                parameter.copy_(old)
        return found

    def fit_value(self, batch: Batch) -> dict[str, Tensor]:
        """Regress the critic on the value targets; a fit that fails or worsens its loss keeps the old critic.

        It comes after the policy's step, so that the advantages of a rollout come from a critic that has not seen it.
        """
        c, critic, obs, target = self.config, self.critic, batch.obs, batch.value_target
        if c.value_fit == "lbfgs":
            fitted = fit_lbfgs(critic, obs, target, iterations=c.value_iterations, l2=c.value_l2)
        else:
            fitted = fit_adam(
                critic,
                obs,
                target,
                passes=c.value_iterations,
                l2=c.value_l2,
                learning_rate=c.value_learning_rate,
                minibatch=c.value_minibatch,
                generator=self.minibatch_generator,
            )
        with torch.no_grad():
            loss = value_loss(critic(obs), target)
            self.guard.admit("loss/value", loss)
            return {"loss/value": loss, "value/fit_failed": torch.tensor(float(not fitted))}

    @torch.no_grad()
    def prepare_vine(self, vine: Vine) -> VineBatch:
        """The states and branches of a vine; a state's mean return is taken off, which moves no gradient."""
        return VineBatch(
            obs=self.normalized(vine.obs),
            action=vine.action,
            proposal_log_prob=vine.proposal_log_prob,
            behavior_params=vine.behavior_params,
            advantage=vine.q_value - vine.q_value.mean(1, keepdim=True),
        )

    def check(self, rollout: Rollout | Vine) -> None:
        if not isinstance(rollout, Vine):
            if self.config.sampling == "vine":
                raise ValueError("rollout: wanted a Vine, what this agent collects; got a Rollout")
            return super().check(rollout)
        if self.config.sampling != "vine":
            raise ValueError("rollout: wanted a Rollout, what this agent collects; got a Vine")
        super().check(rollout.trunk)
        shape = tuple(rollout.q_value.shape)
        require_shape((None, None), q_value=rollout.q_value)
        require_shape(shape, proposal_log_prob=rollout.proposal_log_prob)
        require_shape((*shape, *self.spec.action_shape), action=rollout.action)
        require_shape((shape[0], self.spec.obs_dim), obs=rollout.obs)
        require_dtype(self.dtype, q_value=rollout.q_value, proposal_log_prob=rollout.proposal_log_prob)


# Why a step may be left out, by name.
SKIPS = ("equal_advantages", "zero_gradient", "curvature", "rounding", "kl", "surrogate")
