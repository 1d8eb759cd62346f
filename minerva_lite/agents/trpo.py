"""Trust region policy optimization (Schulman et al. 2015, arXiv:1502.05477), readable top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import (
    require_count,
    require_dtype,
    require_non_negative,
    require_one_of,
    require_positive,
    require_shape,
    require_unit_interval,
)
from ..experience.rollout import Rollout
from ..experience.vine import Vine, collect_vine
from ..formulas.objectives import importance_surrogate, normalize_advantage, value_loss, vine_surrogate
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
from .on_policy import OnPolicyAgent, OnPolicyConfig
from .optimizers import flatten


@dataclass(frozen=True)
class TRPOConfig(OnPolicyConfig):
    """Settings of TRPO, beyond those of every on-policy agent; contradictions are refused when it is made."""

    kl_bound: float = 0.01  # delta, nats: mean KL(old || new) that no step of "trpo" exceeds; "natural" is scaled to it
    anneal_kl: bool = False  # let that bound fall linearly to 0 over training
    damping: float = 0.1  # added to the diagonal of the Fisher matrix, omega
    cg_iterations: int = 10  # Fisher-vector products spent on a direction
    cg_tolerance: float = 1e-10  # stop earlier once the squared residual has fallen to this share
    step_rule: str = "trpo"  # "trpo", "natural" (scaled to the bound, no line search) or "fixed" (a set multiple)
    natural_step: float = 0.1  # 1 / lambda_KL of "fixed": the multiple of F^-1 g
    backtrack: float = 0.5  # factor between two trials of the line search, beta
    max_trials: int = 10  # trials before the line search gives up
    accept_ratio: float = 0.1  # share of the predicted gain that a trial must realize
    sampling: str = "single_path"  # "single_path", or "vine" where the state can be set
    vine_states: int = 64  # states of the trunk from which "vine" branches
    vine_actions: int = 4  # branches of each state
    vine_steps: int = 64  # steps of each branch
    vine_proposal: str = "policy"  # who proposes first actions: "policy" or "uniform"
    value_fit: str = "lbfgs"  # "lbfgs" or "adam"
    value_iterations: int = 25  # iterations of L-BFGS, or passes of Adam, at each update
    value_l2: float = 1e-3  # penalty on the critic's squared weights
    value_learning_rate: float = 1e-3  # of "adam"
    value_minibatch: int = 256  # rows of one step of "adam"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(kl_bound=self.kl_bound, natural_step=self.natural_step)
        require_positive(value_learning_rate=self.value_learning_rate)
        require_non_negative(damping=self.damping, cg_tolerance=self.cg_tolerance, value_l2=self.value_l2)
        require_one_of(("trpo", "natural", "fixed"), step_rule=self.step_rule)
        require_one_of(("single_path", "vine"), sampling=self.sampling)
        require_one_of(("policy", "uniform"), vine_proposal=self.vine_proposal)
        require_one_of(("lbfgs", "adam"), value_fit=self.value_fit)
        require_unit_interval(accept_ratio=self.accept_ratio)
        require_count(
            cg_iterations=self.cg_iterations,
            max_trials=self.max_trials,
            vine_states=self.vine_states,
            vine_actions=self.vine_actions,
            vine_steps=self.vine_steps,
            value_iterations=self.value_iterations,
            value_minibatch=self.value_minibatch,
        )
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


class TRPOAgent(OnPolicyAgent):
    """A policy moved by TRPO's step and a critic fitted after it. `act`, `update`, `state_dict`; see `TRPOConfig`."""

    name = "trpo"

    def make_optimizer(self) -> torch.optim.Optimizer | None:
        """None: the policy takes TRPO's own step, and the critic is fitted anew at every update."""
        return None

    @property
    def asks(self) -> bool:
        return True  # the line search goes by the numbers it sees

    def compile_parts(self) -> None:
        super().compile_parts()
        self.critic.compile()  # not the policy, whose KL is differentiated twice

    def collect(self, env: Any, obs: Tensor) -> tuple[Rollout | Vine, Tensor]:
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
        vine = isinstance(rollout, Vine)
        trunk = self.prepare(rollout.trunk if vine else rollout)
        batch = self.prepare_vine(rollout) if vine else trunk
        share = max(1.0 - progress, 1e-6) if self.config.anneal_kl else 1.0  # a bound of 0 has no step
        figures = self.policy_step(batch, self.config.kl_bound * share)
        fitted = self.fit_value(trunk)
        return self.diagnose(trunk) | figures | fitted

    def policy_step(self, batch: dict[str, Any], kl_bound: float) -> dict[str, Tensor]:
        """Move the policy, or leave it as it was to the bit and say why (`train/skip_…` is then 1)."""
        c, parameters = self.config, list(self.policy.parameters())
        skipped = {f"train/skip_{reason}": torch.zeros(()) for reason in SKIPS}
        figures = {"train/step_fraction": torch.zeros(()), "train/trials": torch.zeros(()), **skipped}
        if not self.informative(batch["advantage"]):
            return figures | {"train/skip_equal_advantages": torch.ones(())}
        batch = batch | {"advantage": self.scaled(batch["advantage"])}
        surrogate = self.surrogate(batch)
        gradient = flatten(torch.autograd.grad(surrogate, parameters, materialize_grads=True)).detach()
        norm = gradient.norm()
        figures |= {"loss/surrogate": surrogate.detach(), "train/grad_norm": norm}
        if not norm > 0:
            return figures | {"train/skip_zero_gradient": torch.ones(())}
        product = self.fisher_product(batch, parameters)
        try:
            # Solved for the unit gradient, so that no squared residual underflows.
            unit = conjugate_gradient(product, gradient / norm, c.cg_iterations, tolerance=c.cg_tolerance)
            direction = norm * unit
            scaled = full_step(gradient, direction, kl_bound)
        except CurvatureError:
            return figures | {"train/skip_curvature": torch.ones(())}
        if at_rounding_level(predicted_gain(gradient, scaled), batch["advantage"], kl_bound):
            return figures | {"train/skip_rounding": torch.ones(())}
        step = c.natural_step * direction if c.step_rule == "fixed" else scaled
        gain = predicted_gain(gradient, step)
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
        return bool(spread > 64.0 * torch.finfo(advantage.dtype).eps * advantage.abs().max())

    def scaled(self, advantage: Tensor) -> Tensor:
        return normalize_advantage(advantage) if self.config.normalize_advantage else advantage

    def surrogate(self, batch: dict[str, Any]) -> Tensor:
        """The scalar to climb, as a function of the policy's present parameters."""
        params, action, advantage = self.policy(batch["obs"]), batch["action"], batch["advantage"]
        if "proposal_log_prob" not in batch:
            return self.path_surrogate(self.policy.log_prob(params, action), batch["behavior_log_prob"], advantage)
        log_prob = self.policy.log_prob(tuple(spread(p, action, 1) for p in params), action)
        return self.branch_surrogate(log_prob, batch["proposal_log_prob"], advantage)

    def path_surrogate(self, log_prob: Tensor, behavior_log_prob: Tensor, advantage: Tensor) -> Tensor:
        """Along a path: every ratio counts by itself."""
        log_ratio = self.log_ratio(log_prob, behavior_log_prob)
        # LaTeX: L = \operatorname{mean}_t \left[ \rho_t\, \mathrm{sg}(A_t) \right]
        return importance_surrogate(log_ratio, advantage)

    def branch_surrogate(self, log_prob: Tensor, proposal_log_prob: Tensor, advantage: Tensor) -> Tensor:
        """From the branches of a vine: the ratios of one state share a weight of 1."""
        # LaTeX: \log w_{nk} = \log \pi_\theta(a_{nk} \mid s_n) - \log q(a_{nk} \mid s_n)
        log_weight = log_prob - proposal_log_prob
        # LaTeX: L = \operatorname{mean}_n \frac{\sum_k w_{nk}\, \mathrm{sg}(A_{nk})}{\sum_k w_{nk}}
        return vine_surrogate(log_weight, advantage)

    def mean_kl(self, batch: dict[str, Any]) -> Tensor:
        """KL(old || new) averaged over the states of the batch, nats; analytic, old first."""
        kl = self.policy.kl(batch["behavior_params"], self.policy(batch["obs"]))
        # LaTeX: \overline{\mathrm{KL}} = \operatorname{mean}_t \mathrm{KL}_t
        return kl.mean()

    def fisher_product(self, batch: dict[str, Any], parameters: list[nn.Parameter]) -> Any:
        """The map v -> (F + omega I) v on the states of the batch, by differentiating the KL twice."""
        gradient = flatten(
            torch.autograd.grad(self.mean_kl(batch), parameters, create_graph=True, materialize_grads=True)
        )
        return lambda vector: fisher_vector_product(gradient, parameters, vector, damping=self.config.damping)

    @torch.no_grad()
    def search(
        self,
        batch: dict[str, Any],
        parameters: list[nn.Parameter],
        step: Tensor,
        start: Tensor,
        gain: float,
        kl_bound: float,
    ) -> LineSearch:
        """Walk the largest acceptable fraction of `step`; without one the parameters are restored bit for bit.

        A step rule other than "trpo" walks all of it, untested.
        """
        c, before = self.config, [p.clone() for p in parameters]

        def walk(fraction: float) -> None:
            moves = (fraction * step).split([p.numel() for p in parameters])
            for parameter, old, move in zip(parameters, before, moves, strict=True):
                parameter.copy_(old + move.view_as(old))

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

    def fit_value(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Regress the critic on the value targets; a fit that fails or worsens its loss keeps the old critic."""
        c, critic, obs, target = self.config, self.critic, batch["obs"], batch["value_target"]
        if c.value_fit == "lbfgs":
            kept = fit_lbfgs(critic, obs, target, iterations=c.value_iterations, l2=c.value_l2)
        else:
            kept = fit_adam(
                critic,
                obs,
                target,
                passes=c.value_iterations,
                l2=c.value_l2,
                learning_rate=c.value_learning_rate,
                minibatch=c.value_minibatch,
                generator=self.generator,
            )
        with torch.no_grad():
            return {
                "loss/value": value_loss(critic(obs), target),
                "value/fit_failed": torch.tensor(float(not kept)),
            }

    @torch.no_grad()
    def prepare_vine(self, vine: Vine) -> dict[str, Any]:
        """The states and branches of a vine; a state's mean return is taken off, which moves no gradient."""
        return {
            "obs": self.normalized(vine.obs),
            "action": vine.action,
            "proposal_log_prob": vine.proposal_log_prob,
            "behavior_params": vine.behavior_params,
            "advantage": vine.q_value - vine.q_value.mean(1, keepdim=True),
        }

    def check(self, rollout: Rollout | Vine) -> None:
        if not isinstance(rollout, Vine):
            if self.config.sampling == "vine":
                raise ValueError("rollout: wanted a Vine, what this agent collects; got a Rollout")
            return super().check(rollout)
        super().check(rollout.trunk)
        shape = tuple(rollout.q_value.shape)
        require_shape((None, None), q_value=rollout.q_value)
        require_shape(shape, proposal_log_prob=rollout.proposal_log_prob)
        require_shape(shape if self.policy.discrete else (*shape, self.spec.action_dim), action=rollout.action)
        require_shape((shape[0], self.spec.obs_dim), obs=rollout.obs)
        require_dtype(self.dtype, q_value=rollout.q_value, proposal_log_prob=rollout.proposal_log_prob)


def spread(params: Tensor, action: Tensor, axis: int) -> Tensor:
    """Distribution parameters [N, ...] repeated along a new axis of branches, to go with action [N, K, ...]."""
    return params.unsqueeze(axis).expand(params.shape[0], action.shape[axis], *params.shape[1:])


# Why a step may be left out, by name.
SKIPS = ("equal_advantages", "zero_gradient", "curvature", "rounding", "kl", "surrogate")
