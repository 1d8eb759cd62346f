"""Random float64 inputs for each function with markers: two or three cases, edges of its regime included.

A case is the keyword arguments of the function, or something to call that runs it. The sizes of the axes differ from
each other, so that a swapped axis shows; they are 2 or more, so that a mean over one entry hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

T, B, D, K, S = 5, 3, 2, 4, 6  # steps, environments, action dimensions, discrete actions, observation entries
N = T * B  # rows of a minibatch
CASES: dict[str, Callable[[Generator], Iterator[Any]]] = {}


def cases(*keys: str) -> Callable:
    """Register a generator of cases for these functions."""

    def register(function: Callable[[Generator], Iterator[Any]]) -> Callable:
        for key in keys:
            CASES[key] = function
        return function

    return register


def normal(g: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=g, dtype=torch.float64)


def positive(g: Generator, *shape: int) -> Tensor:
    return 0.3 + 2.0 * torch.rand(shape, generator=g, dtype=torch.float64)


def flag(g: Generator, *shape: int) -> Tensor:
    """Both values occur, the first and the last row included, unless there are fewer than two entries."""
    mask = torch.rand(shape, generator=g) < 0.4
    mask[0, 0], mask[0, 1] = True, False
    mask[-1, 0], mask[-1, 1] = False, True
    return mask


def flags(g: Generator) -> tuple[Tensor, Tensor]:
    """Terminated and truncated: apart in most places, together in one (termination beats truncation)."""
    terminated, truncated = flag(g, T, B), flag(g, T, B)
    truncated[1, 0], terminated[1, 0] = True, False
    truncated[1, 1], terminated[1, 1] = False, True
    truncated[2, 2], terminated[2, 2] = True, True
    truncated[3, 2], terminated[3, 2] = False, False
    return terminated, truncated


def trajectory(g: Generator) -> dict[str, Any]:
    terminated, truncated = flags(g)
    return {"reward": normal(g, T, B), "next_value": normal(g, T, B), "terminated": terminated, "truncated": truncated}


@cases("formulas.returns.discounted_returns")
def _(g: Generator) -> Iterator[Any]:
    for gamma in (0.9, 0.5):
        yield trajectory(g) | {"gamma": gamma}


@cases("formulas.returns.gae")
def _(g: Generator) -> Iterator[Any]:
    for gamma, lam in ((0.9, 0.8), (0.7, 0.0), (0.6, 1.0)):
        yield trajectory(g) | {"value": normal(g, T, B), "gamma": gamma, "lam": lam}


@cases("formulas.returns.leave_one_out_baseline")
def _(g: Generator) -> Iterator[Any]:
    mask = flag(g, T, B)
    mask[1], mask[2] = True, False  # all run, none runs
    mask[3, 0], mask[3, 1:] = True, False  # one is alone
    for _ in range(2):
        yield {"returns": normal(g, T, B), "mask": mask}


@cases("formulas.distributions.gaussian_log_prob")
def _(g: Generator) -> Iterator[Any]:
    for scale in (1.0, 8.0):
        yield {"action": scale * normal(g, T, B, D), "mean": normal(g, T, B, D), "std": positive(g, T, B, D)}


@cases("formulas.distributions.gaussian_entropy")
def _(g: Generator) -> Iterator[Any]:
    for scale in (1.0, 0.05):
        yield {"std": scale * positive(g, T, B, D)}


@cases("formulas.distributions.gaussian_kl")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {
            "mean_old": normal(g, T, B, D),
            "std_old": positive(g, T, B, D),
            "mean": normal(g, T, B, D),
            "std": positive(g, T, B, D),
        }


@cases("formulas.distributions.gaussian_sample")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"mean": normal(g, T, B, D), "std": positive(g, T, B, D), "noise": normal(g, T, B, D)}


@cases("formulas.distributions.squashed_log_prob")
def _(g: Generator) -> Iterator[Any]:
    for scale in (1.0, 12.0):
        yield {"pre_squash": scale * normal(g, T, B, D), "mean": normal(g, T, B, D), "std": positive(g, T, B, D)}


def logits(g: Generator) -> Tensor:
    return 2.0 * normal(g, T, B, K)


@cases("formulas.distributions.categorical_log_prob")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"action": torch.randint(K, (T, B), generator=g), "logits": logits(g)}


@cases("formulas.distributions.categorical_entropy")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"logits": logits(g)}


@cases("formulas.distributions.categorical_kl")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"logits_old": logits(g), "logits": logits(g)}


@cases("formulas.distributions.categorical_sample")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"logits": logits(g), "noise": torch.rand(T, B, K, generator=g, dtype=torch.float64)}


def log_ratio(g: Generator) -> Tensor:
    """Ratios inside the clip range, and outside on both sides."""
    ratio = 0.6 * normal(g, T, B)
    ratio[0] = torch.tensor([0.02, 0.9, -0.9])
    ratio[1] = torch.tensor([-0.03, 0.8, -0.7])
    return ratio


def advantage(g: Generator) -> Tensor:
    """Advantages of both signs, at ratios on every side."""
    advantage = normal(g, T, B)
    advantage[0], advantage[1] = advantage[0].abs() + 0.1, -advantage[1].abs() - 0.1
    return advantage


@cases("formulas.distributions.kl_estimates")
def _(g: Generator) -> Iterator[Any]:
    yield {"log_ratio": log_ratio(g)}
    yield {"log_ratio": 0.01 * normal(g, T, B)}


@cases("formulas.objectives.policy_gradient_loss")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"log_prob": normal(g, T, B), "advantage": advantage(g)}


@cases("formulas.objectives.importance_surrogate", "formulas.objectives.vine_surrogate")
def _(g: Generator) -> Iterator[Any]:
    for scale in (1.0, 3.0):
        yield {"log_ratio": scale * log_ratio(g), "advantage": advantage(g)}


@cases("formulas.objectives.ppo_clip_objective", "formulas.objectives.ppo_clip_loss")
def _(g: Generator) -> Iterator[Any]:
    for clip_eps in (0.2, 0.1):
        yield {"log_ratio": log_ratio(g), "advantage": advantage(g), "clip_eps": clip_eps}


@cases("formulas.objectives.ppo_clip_fraction")
def _(g: Generator) -> Iterator[Any]:
    for clip_eps in (0.2, 0.5):
        yield {"log_ratio": log_ratio(g), "clip_eps": clip_eps}


@cases("formulas.objectives.kl_penalty_loss")
def _(g: Generator) -> Iterator[Any]:
    for kl_penalty in (0.7, 3.0):
        yield {
            "log_ratio": log_ratio(g),
            "advantage": advantage(g),
            "kl": positive(g, T, B),
            "kl_penalty": kl_penalty,
        }


@cases("formulas.objectives.adapt_kl_penalty")
def _(g: Generator) -> Iterator[Any]:
    # Above, below and inside the band, and on both sides of each of its ends.
    for kl in (0.05, 0.001, 0.01, 0.0149, 0.0151, 0.0066, 0.0067):
        yield {"kl_penalty": 0.3, "kl": kl, "kl_target": 0.01}
    yield {"kl_penalty": 1.7, "kl": 0.9, "kl_target": 0.02}


@cases("formulas.objectives.value_loss")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"value": normal(g, T, B), "value_target": normal(g, T, B)}


@cases("formulas.objectives.clipped_value_loss")
def _(g: Generator) -> Iterator[Any]:
    for clip_range in (0.2, 1.0):
        yield {
            "value": normal(g, T, B),
            "value_old": normal(g, T, B),
            "value_target": normal(g, T, B),
            "clip_range": clip_range,
        }


@cases("formulas.objectives.normalize_advantage")
def _(g: Generator) -> Iterator[Any]:
    yield {"advantage": 3.0 + normal(g, T, B)}
    yield {"advantage": 1e-3 * normal(g, T, B), "eps": 0.1}


@cases("formulas.bounds.total_variation")
def _(g: Generator) -> Iterator[Any]:
    for scale in (1.0, 0.1):
        policy_old = normal(g, T, B, K).softmax(-1)
        yield {"policy_old": policy_old, "policy": (policy_old.log() + scale * normal(g, T, B, K)).softmax(-1)}


@cases("formulas.bounds.penalty_constant")
def _(g: Generator) -> Iterator[Any]:
    for max_advantage, gamma in ((1.7, 0.9), (0.3, 0.6)):
        yield {"max_advantage": max_advantage, "gamma": gamma}


@cases("formulas.bounds.cpi_bound")
def _(g: Generator) -> Iterator[Any]:
    for mixture, gamma, sharp in ((0.3, 0.9, False), (0.8, 0.6, False), (0.3, 0.9, True), (0.8, 0.6, True)):
        yield {"max_expected_advantage": 1.7, "mixture": mixture, "gamma": gamma, "sharp": sharp}


@cases("formulas.bounds.tv_bound")
def _(g: Generator) -> Iterator[Any]:
    for max_tv, gamma, sharp in ((0.3, 0.9, False), (0.8, 0.6, False), (0.3, 0.9, True), (0.8, 0.6, True)):
        yield {"max_advantage": 1.7, "max_tv": max_tv, "gamma": gamma, "sharp": sharp}


@cases("formulas.bounds.max_kl_bound")
def _(g: Generator) -> Iterator[Any]:
    for max_kl, gamma, pinsker in ((0.3, 0.9, False), (1.6, 0.6, False), (0.3, 0.9, True), (1.6, 0.6, True)):
        yield {"max_advantage": 1.7, "max_kl": max_kl, "gamma": gamma, "pinsker": pinsker}


@cases("formulas.bounds.average_kl_bound")
def _(g: Generator) -> Iterator[Any]:
    for average_kl, gamma in ((0.3, 0.9), (1.6, 0.6)):
        yield {"max_expected_advantage": 1.7, "average_kl": average_kl, "gamma": gamma}


@cases("formulas.bounds.visitation_kl_bound")
def _(g: Generator) -> Iterator[Any]:
    for average_kl, gamma in ((0.3, 0.9), (1.6, 0.6)):
        yield {"average_kl": average_kl, "gamma": gamma}


@cases("formulas.bounds.average_kl_penalty")
def _(g: Generator) -> Iterator[Any]:
    for gamma in (0.9, 0.6):
        yield {"max_advantage": 1.7, "gamma": gamma}


@cases("formulas.bounds.walk_kl_bound")
def _(g: Generator) -> Iterator[Any]:
    for max_kl, gamma in ((0.3, 0.9), (1.6, 0.6)):
        yield {"max_advantage": 1.7, "max_kl": max_kl, "gamma": gamma}


@cases("formulas.diagnostics.explained_variance")
def _(g: Generator) -> Iterator[Any]:
    yield {"value": normal(g, T, B), "returns": 2.0 + normal(g, T, B)}
    returns = normal(g, T, B)
    yield {"value": returns + 0.1 * normal(g, T, B), "returns": returns}


def normalizer(g: Generator, count: float, clip: float) -> Any:
    """A normalizer that has seen `count` rows of width S."""
    from minerva_lite.experience.normalizer import Normalizer

    module = Normalizer((S,), clip=clip, eps=0.05).double()
    module.mean.copy_(normal(g, S)), module.var.copy_(positive(g, S)), module.count.fill_(count)
    return module


@cases("experience.normalizer.Normalizer.normalize")
def _(g: Generator) -> Iterator[Any]:
    for clip in (10.0, 0.7):
        yield {"self": normalizer(g, 9.0, clip), "x": normal(g, T, B, S)}


@cases("experience.normalizer.Normalizer.absorb")
def _(g: Generator) -> Iterator[Any]:
    # A fresh one per run: absorbing moves it.
    for count in (0.0, 9.0):
        yield {"self": normalizer(g, count, 10.0), "x": normal(g, T, B, S)}


def reward_scaler(g: Generator, clip: float) -> Any:
    """A reward scaler in the middle of B episodes."""
    from minerva_lite.experience.normalizer import RewardScaler

    module = RewardScaler(0.9, clip=clip).double()
    module.stats.eps = 0.05
    module.stats.var.fill_(1.7)
    module.running = normal(g, B)
    return module


@cases("experience.normalizer.RewardScaler.scale")
def _(g: Generator) -> Iterator[Any]:
    for clip in (10.0, 0.7):
        yield {"self": reward_scaler(g, clip), "reward": normal(g, T, B)}


@cases("experience.normalizer.RewardScaler.absorb")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"self": reward_scaler(g, 10.0), "reward": normal(g, T, B), "ended": flag(g, T, B)}


class Product:
    """A map v -> M v that can be asked for M."""

    def __init__(self, matrix: Tensor):
        self.matrix = matrix

    def __call__(self, vector: Tensor) -> Tensor:
        return self.matrix @ vector


@cases("formulas.trust_region.conjugate_gradient")
def _(g: Generator) -> Iterator[Any]:
    # Six unknowns: three iterations are not enough, so that no residual is rounding; then one that stops by itself.
    for iterations, tolerance in ((3, 1e-3), (4, 0.3)):
        root = normal(g, 6, 6)
        matrix = root @ root.T + 0.5 * torch.eye(6, dtype=torch.float64)
        yield {"product": Product(matrix), "target": normal(g, 6), "iterations": iterations, "tolerance": tolerance}


@cases("formulas.trust_region.fisher_vector_product")
def _(g: Generator) -> Iterator[Any]:
    from minerva_lite.formulas.distributions import categorical_kl

    # At the old parameters, where the gradient is zero, and away from them, where it is not.
    for distance in (0.0, 0.3):
        obs, shapes = normal(g, T, D), ((D, K), (K,))
        old = [normal(g, *shape) for shape in shapes]
        parameters = [(p + distance * normal(g, *p.shape)).requires_grad_() for p in old]

        def kl(weight: Tensor, bias: Tensor, old: list = old, obs: Tensor = obs) -> Tensor:
            return categorical_kl(obs @ old[0] + old[1], obs @ weight + bias).mean()

        def of_vector(x: Tensor, kl: Any = kl) -> Tensor:
            return kl(x[: D * K].reshape(D, K), x[D * K :])

        gradient = torch.cat([p.flatten() for p in torch.autograd.grad(kl(*parameters), parameters, create_graph=True)])
        flat = torch.cat([p.detach().flatten() for p in parameters])
        gradient.hessian = torch.autograd.functional.hessian(of_vector, flat)
        yield {"kl_gradient": gradient, "parameters": parameters, "vector": normal(g, len(flat)), "damping": 0.3}


@cases("formulas.trust_region.full_step")
def _(g: Generator) -> Iterator[Any]:
    for kl_bound in (0.01, 0.7):
        gradient = normal(g, 6)
        yield {"gradient": gradient, "direction": gradient + 0.3 * normal(g, 6), "kl_bound": kl_bound}


@cases("formulas.trust_region.line_search")
def _(g: Generator) -> Iterator[Any]:
    # Accepted at the third trial; then never, for want of gain.
    for gain, backtrack, accept_ratio in ((1.0, 0.6, 0.2), (-1.0, 0.5, 0.1)):
        yield {
            "evaluate": lambda f, gain=gain: (torch.tensor(gain * f), torch.tensor(0.05 * f * f)),
            "expected_gain": 1.3,
            "kl_bound": 0.01,
            "backtrack": backtrack,
            "max_trials": 4,
            "accept_ratio": accept_ratio,
        }


@cases("formulas.trust_region.predicted_gain")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"gradient": normal(g, 6), "step": normal(g, 6)}


@cases("formulas.trust_region.at_rounding_level")
def _(g: Generator) -> Iterator[Any]:
    for kl_bound in (0.01, 0.7):
        yield {"gain": normal(g).abs(), "advantage": normal(g, N), "kl_bound": kl_bound}


def agent_of(name: str, **config: Any) -> Any:
    """A small agent in float64, whose options are not the values that hide a mistake."""
    from minerva_lite.agents import AGENTS
    from minerva_lite.worlds.envs import EnvSpec

    kind, settings = AGENTS[name]
    shared = {"num_envs": B, "rollout_steps": T, "hidden": (4,), "gamma": 0.9}
    spec = EnvSpec("test", obs_dim=S, action_dim=D)
    return kind(settings(**shared | config), spec, seed=0, device="cpu", dtype=torch.float64)


def ppo(**config: Any) -> Any:
    made = agent_of("ppo", **{"minibatch_size": T, "clip_eps": 0.3} | config)
    made.kl_penalty = 0.7
    return made


def stepped(agent: Any, g: Generator, discrete: bool = False) -> Any:
    """A rollout of T steps by B environments, as if `agent` had collected it."""
    from minerva_lite.experience.rollout import Rollout

    data = trajectory(g)
    obs, action = normal(g, T, B, S), torch.randint(K, (T, B), generator=g) if discrete else normal(g, T, B, D)
    with torch.no_grad():
        params = tuple(p.detach() for p in agent.policy(obs))
    ends = (data["terminated"], data["truncated"])
    return Rollout(obs, action, normal(g, T, B), params, data["reward"], normal(g, T, B, S), *ends)


def rows(agent: Any, g: Generator) -> Any:
    """A batch of N rows whose policy has moved since: its advantages are not centered, its old values are others."""
    batch = agent.prepare(stepped(agent, g))
    params = (normal(g, N, D), positive(g, N, D))
    moved = {"advantage": batch.advantage + 0.5, "value_old": normal(g, N), "behavior_params": params}
    return replace(batch, behavior_log_prob=agent.policy.log_prob(params, batch.action), **moved)


@cases("agents.on_policy.OnPolicyAgent.prepare")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"self": ppo(), "rollout": stepped(ppo(), g)}


@cases("agents.settings.OptimizerSettings.rate_left")
def _(g: Generator) -> Iterator[Any]:
    for progress in (0.2, 0.7):
        yield {"self": agent_of("a2c", anneal_lr=True).config, "progress": progress}


@cases("agents.one_optimizer.OneOptimizer.set_learning_rate")
def _(g: Generator) -> Iterator[Any]:
    for progress in (0.2, 0.7):
        yield {"self": agent_of("a2c", anneal_lr=True, learning_rate=0.3), "progress": progress}


@cases("agents.ppo.PPOAgent.loss")
def _(g: Generator) -> Iterator[Any]:
    for objective in ("clip", "kl_penalty"):
        for flag in (True, False):
            agent = ppo(objective=objective, normalize_advantage=flag, clip_value=flag, entropy_coef=0.3 * flag)
            yield {"self": agent, "batch": rows(stirred(agent), g)}


def gaussian_policy(log_std: float = -0.5, squash: bool = False) -> Any:
    """A small policy in float64 whose std depends on the state."""
    from minerva_lite.agents.networks import GaussianPolicy, SquashedGaussianPolicy

    family = SquashedGaussianPolicy if squash else GaussianPolicy
    return family(S, D, (4,), log_std, Generator().manual_seed(0), torso="layernorm").double()


@cases("agents.networks.GaussianPolicy.forward")
def _(g: Generator) -> Iterator[Any]:
    for log_std in (-20.0, 2.0):  # some are cut from below, some from above
        policy = gaussian_policy(log_std)
        with torch.no_grad():
            for p in policy.parameters():
                p.add_(0.5 * normal(g, *p.shape))
        yield {"self": policy, "obs": normal(g, 7, S)}


@cases("agents.networks.SquashedGaussianPolicy.entropy")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        params = (normal(g, B, D), normal(g, B, D).exp())
        yield {"self": gaussian_policy(squash=True), "params": params, "generator": g}


@cases("agents.networks.SquashedGaussianPolicy.to_env")
def _(g: Generator) -> Iterator[Any]:
    yield {"self": gaussian_policy(squash=True), "action": normal(g, B, D)}


@cases("agents.networks.SquashedGaussianPolicy.from_env")
def _(g: Generator) -> Iterator[Any]:
    # The ends, where nothing but the clip keeps the number finite, and what lies between them.
    for action in (normal(g, B, D).tanh(), torch.tensor([[-1.0, 1.0], [0.3, -0.9999995], [0.9999995, -0.2]]).double()):
        yield {"self": gaussian_policy(squash=True), "action": action}


@cases("formulas.objectives.rounding_alone")
def _(g: Generator) -> Iterator[Any]:
    for factor in (0.995, 1.005):  # of the spread that rounding can make
        size = normal(g, 1).abs().squeeze()
        yield {"spread": factor * 64.0 * 1e-3 * size, "size": size, "eps": 1e-3}


@cases("training.loop._passed")
def _(g: Generator) -> Iterator[Any]:
    for before, after in ((0, 7), (7, 10), (10, 19), (19, 41), (3, 9)):
        yield {"before": before, "after": after, "every": 10}


@cases("agents.a2c.A2CAgent.loss")
def _(g: Generator) -> Iterator[Any]:
    for normalize in (True, False):
        agent = agent_of("a2c", normalize_advantage=normalize, entropy_coef=0.3 * normalize)
        yield {"self": agent, "batch": rows(stirred(agent), g)}


@cases("agents.reinforce.REINFORCEAgent.estimate")
def _(g: Generator) -> Iterator[Any]:
    for baseline in ("others", "none"):
        agent = agent_of("reinforce", baseline=baseline)
        rollout = stepped(agent, g)
        yield {"self": agent, "rollout": rollout, "reward": rollout.reward, "obs": rollout.obs}


@cases("agents.reinforce.REINFORCEAgent.state_weight")
def _(g: Generator) -> Iterator[Any]:
    for gamma in (0.9, 0.5):
        yield {"self": agent_of("reinforce", discount_states=True, gamma=gamma), "reward": normal(g, T, B)}


@cases("agents.reinforce.REINFORCEAgent.loss")
def _(g: Generator) -> Iterator[Any]:
    for normalize, baseline in ((True, "value"), (False, "others")):
        agent = agent_of("reinforce", normalize_advantage=normalize, baseline=baseline, entropy_coef=0.3)
        batch = agent.prepare(stepped(stirred(agent), g))
        weight = positive(g, len(batch))
        yield {"self": agent, "batch": replace(batch, advantage=batch.advantage + 0.5, weight=weight)}


@cases("agents.trpo.TRPOAgent.surrogate")
def _(g: Generator) -> Iterator[Any]:
    from minerva_lite.agents.trpo import VineBatch

    agent = stirred(agent_of("trpo"))
    yield {"self": agent, "batch": rows(agent, g)}
    params = (normal(g, T, D), positive(g, T, D))
    vine = VineBatch(normal(g, T, S), normal(g, T, K, D), normal(g, T, K), params, normal(g, T, K))
    yield {"self": agent, "batch": vine}


@cases("agents.trpo.TRPOAgent.mean_kl")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        agent = stirred(agent_of("trpo"))
        yield {"self": agent, "batch": rows(agent, g)}


@cases("formulas.returns.retrace_targets")
def _(g: Generator) -> Iterator[Any]:
    for gamma, lam in ((0.9, 0.8), (0.7, 0.0), (0.6, 1.0)):
        yield trajectory(g) | {"q_value": normal(g, T, B), "log_ratio": log_ratio(g), "gamma": gamma, "lam": lam}


@cases("formulas.distributions.gaussian_kl_mean_std")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        names = ("mean_old", "std_old", "mean", "std")
        yield {name: (positive if "std" in name else normal)(g, T, B, D) for name in names}


@cases("formulas.objectives.weighted_nll")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"log_prob": normal(g, K, B), "weights": positive(g, K, B)}


@cases("formulas.duals.exponential_weights")
def _(g: Generator) -> Iterator[Any]:
    for eta, max_weight in ((0.7, 1.5), (2.0, 20.0)):  # some rows are cut off; none is
        yield {"advantage": normal(g, T, B), "eta": eta, "max_weight": max_weight}


@cases("formulas.diagnostics.effective_sample_size")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"weights": positive(g, K, B)}


@cases("formulas.statistics.interquartile_mean")
def _(g: Generator) -> Iterator[Any]:
    for runs in (11, 8, 3):  # a quarter is no whole number; is one; is less than one
        yield {"scores": normal(g, runs)}


@cases("formulas.statistics.performance_profile")
def _(g: Generator) -> Iterator[Any]:
    scores = normal(g, T, B)
    yield {"scores": scores, "threshold": torch.cat([normal(g, K), scores[:1, 0]])}  # one score is a threshold


@cases("formulas.statistics.probability_of_improvement")
def _(g: Generator) -> Iterator[Any]:
    scores, others = normal(g, T, B), normal(g, K, B)
    others[0, 0] = scores[1, 0]  # a tie
    yield {"scores": scores, "others": others}


@cases("formulas.statistics.welch_statistic")
def _(g: Generator) -> Iterator[Any]:
    for runs in ([5.0, 10.0], [3.0, 2.0]):
        yield {"gap": normal(g), "squared_errors": normal(g, 2).exp(), "runs": torch.tensor(runs, dtype=torch.float64)}


@cases("formulas.statistics.holm")
def _(g: Generator) -> Iterator[Any]:
    p = torch.rand(T, generator=g, dtype=torch.float64)
    p[1] = p[0]  # a tie
    yield {"p_values": 1 - 0.3 * p}  # all are cut at 1, but for the largest before the correction
    yield {"p_values": 0.1 * p}


@cases("formulas.statistics.stratified_bootstrap")
def _(g: Generator) -> Iterator[Any]:
    for level in (0.9, 0.6):
        drawn = {"generator": Generator().manual_seed(0), "resamples": 2}
        yield {"statistic": torch.mean, "scores": [normal(g, T, B)], "level": level} | drawn


@cases("formulas.duals.positive")
def _(g: Generator) -> Iterator[Any]:
    yield {"raw": normal(g, T)}
    yield {"raw": normal(g, T) - 14.0}  # where the floor counts


@cases("formulas.duals.project_raw")
def _(g: Generator) -> Iterator[Any]:
    for shift in (-18.0, 0.0):
        yield {"raw": normal(g, T) + shift}


@cases("formulas.duals.raw_of")
def _(g: Generator) -> Iterator[Any]:
    for value in (1.7, 0.3, 1e-6):
        yield {"value": value}


def weighing(g: Generator) -> Iterator[dict[str, Any]]:
    """K candidate actions of B states: samples of one log-weight, and a finite set of unequal ones."""
    for log_prior, eta in ((torch.full((K, B), -1.3862943611198906), 0.7), (normal(g, K, B).log_softmax(0), 2.0)):
        yield {"q_value": normal(g, K, B), "log_prior": log_prior.double(), "eta": torch.tensor(eta).double()}


@cases("formulas.duals.estep_weights")
def _(g: Generator) -> Iterator[Any]:
    yield from weighing(g)


@cases("formulas.duals.temperature_loss")
def _(g: Generator) -> Iterator[Any]:
    for case in weighing(g):
        yield case | {"eps_eta": 0.3}


@cases("formulas.duals.weights_kl")
def _(g: Generator) -> Iterator[Any]:
    for scale in (1.0, 3.0):
        yield {"weights": (scale * normal(g, K, B)).softmax(0), "log_prior": normal(g, K, B).log_softmax(0)}


@cases("formulas.duals.multiplier_loss", "formulas.duals.kl_price")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"alpha": positive(g, D), "kl": positive(g, D)}


CASES["formulas.duals.multiplier_loss"] = lambda g, priced=CASES["formulas.duals.kl_price"]: (
    c | {"bound": 0.3} for c in priced(g)
)


@cases("formulas.duals.top_k_mask")
def _(g: Generator) -> Iterator[Any]:
    # With ties at the threshold; then a fraction that rounding would make one sample less, and one of all.
    eligible = torch.tensor([True, False, True, True, False, True, True, True])
    tied = torch.tensor([1.0, 5.0, 0.0, 1.0, 1.0, 1.0, -2.0, 1.0]).double()
    for advantage, fraction in ((tied, 0.5), (normal(g, 8), 1.0), (normal(g, 8), 0.35)):
        yield {"advantage": advantage, "eligible": eligible, "top_k_frac": fraction}
    yield {"advantage": normal(g, 100), "eligible": torch.ones(100, dtype=torch.bool), "top_k_frac": 0.29}
    yield {"advantage": normal(g, 8), "eligible": eligible, "top_k_frac": (2.0 - 5e-10) / 6}  # within the allowance


def kept_samples(g: Generator) -> Iterator[dict[str, Any]]:
    """Kept ones among which the largest advantage is not the first, and an unkept one far above."""
    for eta in (0.7, 2.0):
        advantage, mask = normal(g, S), torch.tensor([True, False, True, True, False, False])
        advantage[1] = 9.0
        yield {
            "advantage": advantage,
            "mask": mask,
            "log_importance": normal(g, S),
            "eta": torch.tensor(eta).double(),
        }


@cases("formulas.duals._kept_logits", "formulas.duals.vmpo_weights")
def _(g: Generator) -> Iterator[Any]:
    yield from kept_samples(g)


@cases("formulas.duals.vmpo_temperature_loss")
def _(g: Generator) -> Iterator[Any]:
    for case in kept_samples(g):
        for normalizer in ("weights", "count"):
            yield case | {"eps_eta": 0.3, "normalizer": normalizer}


def mpo(discrete: bool = False, **config: Any) -> Any:
    """A small MPO agent in float64 whose targets are not its networks."""
    from minerva_lite.agents import MPOAgent, MPOConfig
    from minerva_lite.worlds.envs import EnvSpec

    shared = {"num_envs": B, "rollout_steps": T, "hidden": (4,), "gamma": 0.9, "action_samples": K, "value_samples": 7}
    spec = EnvSpec("test", obs_dim=S, num_actions=K) if discrete else EnvSpec("test", obs_dim=S, action_dim=D)
    made = MPOAgent(MPOConfig(**shared | config), spec, seed=0, device="cpu", dtype=torch.float64)
    return stirred(made)


def stirred(agent: Any) -> Any:
    """The agent with all its networks moved away from where they start, and from one another."""
    g = Generator().manual_seed(5)
    with torch.no_grad():
        for name in ("policy", "target_policy", "critic", "target_critic"):
            module = getattr(agent, name, None)
            for p in module.parameters() if module else ():
                p.add_(0.5 * normal(g, *p.shape))
    return agent


def sequences(g: Generator, discrete: bool) -> Any:
    from minerva_lite.experience.rollout import Rollout

    data = trajectory(g)
    action = torch.randint(K, (T, B), generator=g) if discrete else normal(g, T, B, D)
    ends = (data["terminated"], data["truncated"])
    return Rollout(normal(g, T, B, S), action, normal(g, T, B), (), data["reward"], normal(g, T, B, S), *ends)


def candidates(agent: Any, g: Generator) -> tuple[Tensor, tuple, Tensor, Tensor, Tensor]:
    """Six states, the old parameters there, and the actions to be weighed with their prior and Q."""
    states = normal(g, S, S)
    old = tuple(p.detach() for p in agent.target_policy(states))
    with torch.no_grad():
        return states, old, *agent.candidates(states, old)


@cases("agents.mpo.MPOAgent.critic_targets")
def _(g: Generator) -> Iterator[Any]:
    for discrete in (False, True):
        batch = sequences(g, discrete)
        yield {"self": mpo(discrete), "batch": batch, "obs": batch.obs, "next_obs": batch.next_obs}


@cases("agents.mpo.MPOAgent.expected_value")
def _(g: Generator) -> Iterator[Any]:
    for discrete in (False, True):
        yield {"self": mpo(discrete), "obs": normal(g, T, B, S)}


@cases("agents.mpo.MPOAgent.candidates")
def _(g: Generator) -> Iterator[Any]:
    for discrete in (False, True):
        agent, states = mpo(discrete), normal(g, S, S)
        yield {"self": agent, "states": states, "old": tuple(p.detach() for p in agent.target_policy(states))}


@cases("agents.mpo.MPOAgent.critic_step")
def _(g: Generator) -> Iterator[Any]:
    for discrete in (False, True):
        batch = sequences(g, discrete)
        yield {"self": mpo(discrete), "obs": batch.obs, "action": batch.action, "target": normal(g, T, B)}


@cases("agents.mpo.MPOAgent.estep")
def _(g: Generator) -> Iterator[Any]:
    for penalty in (True, False):
        agent = mpo(action_penalty=penalty, eta_penalty_init=0.4, eps_penalty=0.3)
        _, _, action, log_prior, q_value = candidates(agent, g)
        yield {"self": agent, "action": 2.0 * action, "log_prior": log_prior, "q_value": q_value}


@cases("agents.mpo.MPOAgent.policy_loss")
def _(g: Generator) -> Iterator[Any]:
    for discrete in (False, True):
        agent = mpo(discrete, alpha_mean_init=3.0)
        states, old, action, log_prior, q_value = candidates(agent, g)
        weights, params = (log_prior + q_value).softmax(0), agent.policy(states)
        kl = agent.mean_kl(old, params)
        yield {"self": agent, "action": action, "weights": weights, "old": old, "params": params, "kl": kl}


def vmpo(discrete: bool = False, **config: Any) -> Any:
    """A small V-MPO agent in float64 whose policy has left its target."""
    from minerva_lite.agents import VMPOAgent, VMPOConfig
    from minerva_lite.worlds.envs import EnvSpec

    shared = {"num_envs": B, "rollout_steps": T, "hidden": (4,), "act_by": "online", "vf_coef": 0.4}
    spec = EnvSpec("test", obs_dim=S, num_actions=K) if discrete else EnvSpec("test", obs_dim=S, action_dim=D)
    return stirred(VMPOAgent(VMPOConfig(**shared | config), spec, seed=0, device="cpu", dtype=torch.float64))


@cases("agents.vmpo.VMPOAgent.estep")
def _(g: Generator) -> Iterator[Any]:
    for clip in (1.5, 0.2):
        agent = vmpo(importance_clip=clip)
        yield {"self": agent, "batch": rows(agent, g)}


@cases("agents.vmpo.VMPOAgent.loss")
def _(g: Generator) -> Iterator[Any]:
    for discrete in (False, True):
        for kl_over in ("all", "kept"):
            agent = vmpo(discrete, kl_over=kl_over, alpha_mean_init=3.0)
            batch = agent.prepare(stepped(agent, g, discrete))
            batch.advantage[0] = 9.0  # the first row is kept
            yield {"self": agent, "batch": agent.estep(batch)}


def answers(g: Generator) -> dict[str, Any]:
    """Tokens of six answers of other lengths, numbers behind the ends too."""
    lengths = torch.tensor([5, 2, 4, 1, 3, 5])
    return {"log_prob": -positive(g, T, len(lengths)), "mask": torch.arange(T).unsqueeze(1) < lengths}


@cases("formulas.sequences.sequence_log_prob")
def _(g: Generator) -> Iterator[Any]:
    yield answers(g)
    yield answers(g)


@cases("formulas.sequences.group_mean")
def _(g: Generator) -> Iterator[Any]:
    for group in (2, 3):
        yield {"value": normal(g, 12), "group": group}


@cases("formulas.sequences.leave_one_out_advantage")
def _(g: Generator) -> Iterator[Any]:
    for group in (2, 3):
        yield {"reward": normal(g, 12), "group": group}


@cases("formulas.sequences.group_advantage")
def _(g: Generator) -> Iterator[Any]:
    for group, eps in ((3, 0.1), (4, 0.7)):
        yield {"reward": normal(g, 12), "group": group, "scale": True, "eps": eps}
    yield {"reward": normal(g, 12), "group": 2, "scale": False}


@cases("formulas.sequences.spread_weight")
def _(g: Generator) -> Iterator[Any]:
    for group in (2, 5):
        yield {"probability": normal(g, T, B).sigmoid(), "group": group}


@cases("formulas.sequences.kl_rewards")
def _(g: Generator) -> Iterator[Any]:
    for eta in (0.3, 2.0):
        tokens = answers(g)
        reference, reward = -positive(g, *tokens["mask"].shape), normal(g, tokens["mask"].shape[1])
        yield tokens | {"reference_log_prob": reference, "reward": reward, "eta": eta}


@cases("formulas.sequences.last_token")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"mask": answers(g)["mask"]}


@cases("formulas.sequences.kl_loss_terms")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"log_prob": -positive(g, T, B), "reference_log_prob": -positive(g, T, B)}


@cases("formulas.sequences.clipped_token_objective")
def _(g: Generator) -> Iterator[Any]:
    for low, high in ((0.2, 0.35), (0.4, 0.1)):
        yield {"log_ratio": log_ratio(g), "advantage": advantage(g)[0], "low": low, "high": high}


def ratios(g: Generator) -> dict[str, Any]:
    mask = answers(g)["mask"]
    return {"log_ratio": 0.3 * normal(g, *mask.shape), "mask": mask}


@cases("formulas.sequences.sequence_log_ratio")
def _(g: Generator) -> Iterator[Any]:
    for per_token in (True, False):
        yield ratios(g) | {"per_token": per_token}


@cases("formulas.sequences.clipped_sequence_objective")
def _(g: Generator) -> Iterator[Any]:
    advantage = torch.tensor([1.0, -2.0, 0.5, -0.3, -1.0, 2.0], dtype=torch.float64)
    for per_token, low, high in ((False, 0.2, 0.3), (True, 0.1, 0.02), (False, 0.3, 0.05)):
        yield ratios(g) | {"advantage": advantage, "low": low, "high": high, "per_token": per_token}


@cases("formulas.sequences.average_tokens")
def _(g: Generator) -> Iterator[Any]:
    for average in ("token", "sequence", "constant"):
        tokens = answers(g)
        yield {"value": tokens["log_prob"], "mask": tokens["mask"], "average": average}


@cases("formulas.preferences.bradley_terry_loss")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        yield {"score_chosen": normal(g, N), "score_rejected": normal(g, N)}


@cases("formulas.preferences.dpo_loss", "formulas.preferences.dpo_weight")
def _(g: Generator) -> Iterator[Any]:
    names = ("chosen", "rejected", "reference_chosen", "reference_rejected")
    for eta in (0.3, 2.0):
        yield {name: -3.0 * positive(g, N) for name in names} | {"eta": eta}


@cases("formulas.preferences.best_of_n_law")
def _(g: Generator) -> Iterator[Any]:
    for n in (2, 5):
        probability = normal(g, K + S).softmax(0)
        yield {"probability": probability, "reward": torch.randint(5, (K + S,), generator=g).double(), "n": n}


@cases("formulas.preferences.best_of_n_kl")
def _(g: Generator) -> Iterator[Any]:
    for n in (2, 16):
        yield {"n": n}


def writer(**config: Any) -> Any:
    """A small agent in float64 whose policy has left its reference, and whose critic says something."""
    from minerva_lite.language import SequenceAgent, SequenceConfig
    from minerva_lite.language.tokens import TASKS

    small = {"num_envs": 3, "group": 2, "minibatch_prompts": 3, "width": 8, "heads": 2, "clip_high": 0.3}
    made = SequenceAgent(SequenceConfig(**small | config), TASKS["tokens/copy"].spec, device="cpu", dtype=torch.float64)
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in [*made.policy.parameters(), *made.critic.parameters()]:
            parameter += 0.2 * torch.randn(parameter.shape, generator=g, dtype=parameter.dtype)
    return made


def written(agent: Any, g: Generator) -> Any:
    """Answers of the agent to drawn prompts, as another policy sampled them."""
    from minerva_lite.language.answers import Answers

    prompt = agent.task.draw(agent.config.num_envs, g)
    length, group = agent.task.answer_length, agent.config.group
    answer, log_prob, mask = agent.policy.sample(prompt, length, g, group=group)
    moved = log_prob + 0.4 * normal(g, *log_prob.shape) * mask
    return Answers(prompt, answer, moved, mask, normal(g, answer.shape[1]))


@cases("language.answering.AnsweringAgent.pretrain_loss")
def _(g: Generator) -> Iterator[Any]:
    for _ in range(2):
        agent = writer()
        prompt = agent.task.draw(5, g)
        yield {"self": agent, "prompt": prompt, "solution": agent.task.solution(prompt)}


@cases("formulas.sequences.normalize_tokens")
def _(g: Generator) -> Iterator[Any]:
    for eps in (0.1, 0.7):
        mask = answers(g)["mask"]
        yield {"advantage": normal(g, *mask.shape), "mask": mask, "eps": eps}


@cases("language.sequence.SequenceAgent.token_advantage")
def _(g: Generator) -> Iterator[Any]:
    for lam in (0.9, 0.3):
        agent = writer(advantage="critic", lam=lam, gamma=0.8)
        rollout = written(agent, g)
        yield {"self": agent, "rollout": rollout, "reward": normal(g, *rollout.mask.shape)}


@cases("language.sequence.SequenceAgent.loss")
def _(g: Generator) -> Iterator[Any]:
    for config in (
        {"advantage": "critic", "kl": "loss", "eta": 0.7, "vf_coef": 0.3},
        {"advantage": "critic", "average": "token", "vf_coef": 0.8},
        {"objective": "sequence", "kl": "loss", "eta": 0.7},
        {"objective": "gspo", "advantage": "grpo"},
    ):
        agent = writer(**config)
        batch, _ = agent.prepare(written(agent, g))
        yield {"self": agent, "batch": batch}


@cases("language.sequence.SequenceAgent.kl_loss")
def _(g: Generator) -> Iterator[Any]:
    for estimate in ("k1", "k2"):
        agent = writer(objective="sequence", kl="loss", kl_estimate=estimate)
        tokens = answers(g)
        yield {"self": agent} | tokens | {"reference_log_prob": -positive(g, *tokens["mask"].shape)}
