"""Random float64 inputs for each function with markers: two or three cases, edges of its regime included.

A case is the arguments of a function by name. What its symbols (symbols.py) say of one, its axes, is enough to
draw it; OPTIONS adds what they do not say, and a function in CASES makes its cases itself. The sizes of the axes differ
from each other, so that a swapped axis shows; they are 2 or more, so that a mean over one entry hides nothing.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Generator, Tensor

from .latex import FormulaError
from .symbols import TABLES

T, B, D, K, S = 5, 3, 2, 4, 6  # steps, environments, action dimensions, discrete actions, observation entries
N = T * B  # rows of a minibatch
SIZES = {"t": T, "b": B, "i": 6, "j": K, "a": K, "n": 7, "k": K, "o": S, "s": T, "r": 7, "m": 8}
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


def uniform(g: Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=g, dtype=torch.float64)


def positive(g: Generator, *shape: int) -> Tensor:
    return 0.3 + 2.0 * uniform(g, *shape)


def wide(g: Generator, *shape: int) -> Tensor:
    return 2.0 * normal(g, *shape)


def coarse(g: Generator, *shape: int) -> Tensor:
    """Whole numbers, so that there are ties."""
    return torch.randint(5, shape, generator=g).double()


def tied(g: Generator, *shape: int) -> Tensor:
    """The first two are equal."""
    values = uniform(g, *shape)
    values[1] = values[0]
    return values


def law(g: Generator, *shape: int) -> Tensor:
    """Probabilities along the last axis."""
    return normal(g, *shape).softmax(-1)


def columns(g: Generator, *shape: int) -> Tensor:
    """Logarithms of probabilities along the first axis."""
    return normal(g, *shape).log_softmax(0)


def flag(g: Generator, *shape: int) -> Tensor:
    """Both values occur, the first and the last row included."""
    mask = torch.rand(shape, generator=g) < 0.4
    mask[0, 0], mask[0, 1] = True, False
    mask[-1, 0], mask[-1, 1] = False, True
    return mask


def ends(together: bool, g: Generator, *shape: int) -> Tensor:
    """Terminated (False) or truncated (True): apart in two places, together in one, neither in one."""
    mask = flag(g, *shape)
    mask[1, 0], mask[1, 1], mask[2, 2], mask[3, 2] = together, not together, True, False
    return mask


def log_ratio(g: Generator, *shape: int) -> Tensor:
    """Ratios inside the clip range, and outside on both sides, six of them at advantages of either sign."""
    ratio = 0.6 * normal(g, *shape)
    ratio.view(-1)[:6] = torch.tensor([0.02, 0.9, -0.9, -0.03, 0.8, -0.7])
    return ratio


def advantage(g: Generator, *shape: int) -> Tensor:
    advantage = normal(g, *shape)
    flat = advantage.view(-1)
    flat[:3], flat[3:6] = flat[:3].abs() + 0.1, -flat[3:6].abs() - 0.1
    return advantage


def answers(g: Generator, *shape: int) -> Tensor:
    """Which tokens of six answers of other lengths count."""
    return torch.arange(shape[0]).unsqueeze(1) < torch.tensor([5, 2, 4, 1, 3, 5])


def running(g: Generator, *shape: int) -> Tensor:
    """All run, none runs, one is alone."""
    mask = flag(g, *shape)
    mask[1], mask[2], mask[3] = True, False, False
    mask[3, 0] = True
    return mask


def drawn(draw: Callable[..., Tensor], *shape: int, scale: float = 1.0, shift: float = 0.0) -> Callable[..., Tensor]:
    """This draw stretched and moved; of this shape, if there is one, in place of that of the symbol."""
    return lambda g, *own: scale * draw(g, *(shape or own)) + shift


def tensor(*numbers: float) -> Callable[..., Tensor]:
    return lambda g, *_: torch.tensor(numbers if len(numbers) > 1 else numbers[0], dtype=torch.float64)


# How an argument is drawn, by its name; the others are normal.
DRAWS = {
    "std": positive, "std_old": positive, "kl": positive, "alpha": positive, "weights": positive, "logits": wide,
    "logits_old": wide, "policy": law, "policy_old": law, "log_prior": columns, "log_ratio": log_ratio,
    "advantage": advantage, "mask": answers, "ended": flag, "terminated": partial(ends, False),
    "truncated": partial(ends, True), "pre_squash": wide,
}  # fmt: skip
TRACE = {"gamma": (0.9, 0.7, 0.6), "lam": (0.8, 0.0, 1.0)}
GAMMA = {"gamma": (0.9, 0.6)}
EVERY = {"gamma": (0.9, 0.6, 0.9, 0.6), "size": (0.3, 0.8, 0.3, 0.8), "flag": (False, False, True, True)}
# Kept ones among which the largest advantage is not the first, and an unkept one far above.
SELECTED = {
    "advantage": lambda g, *_: torch.cat([normal(g, 1), torch.tensor([9.0]), normal(g, 4)]),
    "mask": lambda g, *_: torch.tensor([True, False, True, True, False, False]), "log_importance": drawn(normal, S),
    "eta": (tensor(0.7), tensor(2.0)),
}
ELIGIBLE = torch.tensor([True, False, True, True, False, True, True, True])
ANSWERED = {"log_ratio": drawn(normal, T, 6, scale=0.3), "mask": lambda g, *_: answers(g, T)}
# By function: arguments that its symbols do not tell. A tuple has one for each case; what can be called is drawn.
OPTIONS: dict[str, dict[str, Any]] = {
    "formulas.returns.discounted_returns": GAMMA,
    "formulas.returns.gae": TRACE,
    "formulas.returns.retrace_targets": TRACE,
    "formulas.returns.leave_one_out_baseline": {"mask": running},
    "formulas.distributions.categorical_log_prob": {"action": lambda g, *shape: torch.randint(K, shape, generator=g)},
    "formulas.distributions.categorical_sample": {"noise": uniform},
    "formulas.distributions.kl_estimates": {"log_ratio": (log_ratio, drawn(normal, scale=0.01))},
    "formulas.distributions.squashed_log_prob": {"pre_squash": (normal, drawn(normal, scale=12.0))},
    "formulas.objectives.ppo_clip_objective": {"clip_eps": (0.2, 0.1)},
    "formulas.objectives.ppo_clip_loss": {"clip_eps": (0.2, 0.1)},
    "formulas.objectives.ppo_clip_fraction": {"clip_eps": (0.2, 0.5)},
    "formulas.objectives.kl_penalty_loss": {"kl_penalty": (0.7, 3.0)},
    "formulas.objectives.adapt_kl_penalty": {  # above, below and inside the band, on both sides of each of its ends
        "kl": (0.05, 0.001, 0.01, 0.0149, 0.0151, 0.0066, 0.0067),
        "kl_penalty": (0.3, 1.7, 0.3, 0.3, 0.3, 0.3, 0.3),
        "kl_target": 0.01,
    },
    "formulas.objectives.clipped_value_loss": {"clip_range": (0.2, 1.0)},
    "formulas.objectives.normalize_advantage": {
        "advantage": (drawn(normal, shift=3.0), drawn(normal, scale=1e-3)), "eps": (1e-8, 0.1),
    },
    "formulas.objectives.rounding_alone": {  # around the spread that rounding can make
        "spread": (tensor(0.995 * 64.0 * 1e-3 * 1.7), tensor(1.005 * 64.0 * 1e-3 * 1.7)),
        "size": tensor(1.7),
        "eps": 1e-3,
    },
    "formulas.bounds.penalty_constant": GAMMA | {"max_advantage": (1.7, 0.3)},
    "formulas.bounds.cpi_bound": {
        "max_expected_advantage": 1.7,
        "mixture": EVERY["size"],
        "gamma": EVERY["gamma"],
        "sharp": EVERY["flag"],
    },  # fmt: skip
    "formulas.bounds.tv_bound": {
        "max_advantage": 1.7,
        "max_tv": EVERY["size"],
        "gamma": EVERY["gamma"],
        "sharp": EVERY["flag"],
    },  # fmt: skip
    "formulas.bounds.max_kl_bound": {
        "max_advantage": 1.7,
        "max_kl": EVERY["size"],
        "gamma": EVERY["gamma"],
        "pinsker": EVERY["flag"],
    },  # fmt: skip
    "formulas.bounds.average_kl_bound": GAMMA | {"max_expected_advantage": 1.7, "average_kl": (0.3, 1.6)},
    "formulas.bounds.visitation_kl_bound": GAMMA | {"average_kl": (0.3, 1.6)},
    "formulas.bounds.average_kl_penalty": GAMMA | {"max_advantage": 1.7},
    "formulas.bounds.walk_kl_bound": GAMMA | {"max_advantage": 1.7, "max_kl": (0.3, 1.6)},
    "formulas.trust_region.full_step": {"gradient": positive, "direction": positive, "kl_bound": (0.01, 0.7)},
    "formulas.trust_region.at_rounding_level": {"gain": tensor(0.3), "kl_bound": (0.01, 0.7)},
    "formulas.statistics.interquartile_mean": {  # a quarter is no whole number; is one; is less than one
        "scores": (drawn(normal, 11), drawn(normal, 8), drawn(normal, 3)),
    },
    "formulas.statistics.performance_profile": {"scores": coarse, "threshold": coarse},
    "formulas.statistics.probability_of_improvement": {"scores": coarse, "others": coarse},
    "formulas.statistics.welch_statistic": {
        "gap": normal, "squared_errors": drawn(positive, 2), "runs": (tensor(5.0, 10.0), tensor(3.0, 2.0)),
    },
    # In the first all are cut at 1, but for the largest before the correction.
    "formulas.statistics.holm": {"p_values": (drawn(tied, scale=-0.3, shift=1.0), drawn(tied, scale=0.1))},
    "formulas.statistics.stratified_bootstrap": {
        "statistic": lambda g: torch.mean, "scores": lambda g: [normal(g, T, B)], "level": (0.9, 0.6),
        "resamples": 2, "generator": lambda g: Generator().manual_seed(0),
    },
    "formulas.duals.positive": {"raw": (normal, drawn(normal, shift=-14.0))},  # where the floor counts
    "formulas.duals.project_raw": {"raw": (drawn(normal, shift=-18.0), normal)},
    "formulas.duals.raw_of": {"value": (1.7, 0.3, 1e-6)},
    "formulas.duals.estep_weights": {"eta": (tensor(0.7), tensor(2.0))},
    "formulas.duals.temperature_loss": {"eta": (tensor(0.7), tensor(2.0)), "eps_eta": 0.3},
    "formulas.duals.weights_kl": {"weights": lambda g, *shape: columns(g, *shape).exp()},
    "formulas.duals.exponential_weights": {"eta": (0.7, 2.0), "max_weight": (1.5, 20.0)},  # some are cut off; none is
    "formulas.duals.multiplier_loss": {"bound": 0.3},
    "formulas.duals.top_k_mask": {
        # With ties at the threshold; all; fractions that rounding would make one sample less, within the allowance.
        "advantage": (
            tensor(1.0, 5.0, 0.0, 1.0, 1.0, 1.0, -2.0, 1.0),
            drawn(normal, 8),
            drawn(normal, 8),
            drawn(normal, 8),
            drawn(normal, 100),
        ),
        "eligible": (ELIGIBLE, ELIGIBLE, ELIGIBLE, ELIGIBLE, torch.ones(100, dtype=torch.bool)),
        "top_k_frac": (0.5, 1.0, 0.35, (2.0 - 5e-10) / 6, 0.29),
    },  # fmt: skip
    "formulas.duals._kept_logits": SELECTED,
    "formulas.duals.vmpo_weights": SELECTED,
    "formulas.duals.vmpo_temperature_loss": SELECTED
    | {"eta": (tensor(0.7), tensor(0.7), tensor(2.0)), "eps_eta": 0.3, "normalizer": ("weights", "count", "weights")},
    "formulas.sequences.group_mean": {"value": drawn(normal, 12), "group": (2, 3)},
    "formulas.sequences.leave_one_out_advantage": {"reward": drawn(normal, 12), "group": (2, 3)},
    "formulas.sequences.group_advantage": {
        "reward": drawn(normal, 12),
        "group": (3, 4, 2),
        "scale": (True, True, False),
        "eps": (0.1, 0.7, 0.1),
    },  # fmt: skip
    "formulas.sequences.spread_weight": {"probability": uniform, "group": (2, 5)},
    "formulas.sequences.kl_rewards": {"beta": (0.3, 2.0)},
    "formulas.sequences.clipped_token_objective": {"low": (0.2, 0.4), "high": (0.35, 0.1)},
    "formulas.sequences.sequence_log_ratio": {"per_token": (True, False)},
    "formulas.sequences.clipped_sequence_objective": ANSWERED
    | {
        "advantage": tensor(1.0, -2.0, 0.5, -0.3, -1.0, 2.0), "per_token": (False, True, False),
        "low": (0.2, 0.1, 0.3), "high": (0.3, 0.02, 0.05),
    },
    "formulas.sequences.average_tokens": {"average": ("token", "sequence", "constant")},
    "formulas.sequences.normalize_tokens": {"mask": ANSWERED["mask"], "eps": (0.1, 0.7)},
    "formulas.preferences.dpo_loss": {"beta": (0.3, 2.0)},
    "formulas.preferences.dpo_weight": {"beta": (0.3, 2.0)},
    "formulas.preferences.best_of_n_law": {"probability": law, "reward": coarse, "n": (2, 5)},
    "formulas.preferences.best_of_n_kl": {"n": (2, 16)},
    "training.loop._passed": {"before": (0, 7, 10, 19, 3), "after": (7, 10, 19, 41, 9), "every": 10},
    "experience.normalizer.Normalizer.normalize": {
        "self": (lambda g: normalizer(g, 9.0, 10.0), lambda g: normalizer(g, 9.0, 0.7)),
    },
    # A fresh one per run: absorbing moves it.
    "experience.normalizer.Normalizer.absorb": {
        "self": (lambda g: normalizer(g, 0.0, 10.0), lambda g: normalizer(g, 9.0, 10.0)),
    },
    "experience.normalizer.RewardScaler.scale": {
        "self": (lambda g: reward_scaler(g, 10.0), lambda g: reward_scaler(g, 0.7)),
    },
    "experience.normalizer.RewardScaler.absorb": {"self": lambda g: reward_scaler(g, 10.0)},
    "agents.mpo.MPOAgent.set_learning_rate": {
        "self": lambda g: agent_of("mpo", anneal_lr=True), "progress": (0.2, 0.7),
    },
    "agents.base.GradientAgent.set_learning_rate": {
        "self": lambda g: agent_of("a2c", anneal_lr=True, learning_rate=0.3), "progress": (0.2, 0.7),
    },
    "agents.reinforce.REINFORCEAgent.state_weight": {
        "self": tuple(lambda g, x=gamma: agent_of("reinforce", discount_states=True, gamma=x) for gamma in (0.9, 0.5)),
    },
    "agents.networks.SquashedGaussianPolicy.to_env": {"self": lambda g: gaussian_policy(squash=True)},
}


def drawn_cases(key: str, g: Generator) -> Iterator[dict[str, Any]]:
    """The cases of a function that has none of its own."""
    options, table = OPTIONS.get(key, {}), TABLES[key]
    axes = {symbol.source: symbol.axes for symbol in table.declared.values() if not symbol.is_size}
    arguments = signature(pkgutil.resolve_name(f"minerva_lite.{key}")).parameters
    missing = [n for n, p in arguments.items() if n not in {*options, *axes} and p.default is p.empty]
    if missing:
        raise FormulaError(f"{key}: wanted an option in inputs.py that tells {', '.join(missing)}")
    for number in range(max([2, *(len(value) for value in options.values() if isinstance(value, tuple))])):
        case = {}
        for name in arguments:
            if name not in options and name not in axes:
                continue  # at its default
            shape = [SIZES[axis] for axis in axes.get(name, ())]
            value = options.get(name, DRAWS.get(name, normal))
            value = value[number % len(value)] if isinstance(value, tuple) else value
            case[name] = value(g, *shape) if callable(value) else value
        yield case


def trajectory(g: Generator) -> dict[str, Any]:
    """Rows of T steps by B environments, and how they ended."""
    data = {name: normal(g, T, B) for name in ("reward", "next_value")}
    return data | {name: DRAWS[name](g, T, B) for name in ("terminated", "truncated")}


def normalizer(g: Generator, count: float, clip: float) -> Any:
    """A normalizer that has seen `count` rows of width S."""
    from minerva_lite.experience.normalizer import Normalizer

    module = Normalizer((S,), clip=clip, eps=0.05).double()
    module.mean.copy_(normal(g, S)), module.var.copy_(positive(g, S)), module.count.fill_(count)
    return module


def reward_scaler(g: Generator, clip: float) -> Any:
    """A reward scaler in the middle of B episodes."""
    from minerva_lite.experience.normalizer import RewardScaler

    module = RewardScaler(0.9, clip=clip).double()
    module.stats.eps = 0.05
    module.stats.var.fill_(1.7)
    module.running = normal(g, B)
    return module


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


@cases("formulas.trust_region.line_search")
def _(g: Generator) -> Iterator[Any]:
    # Accepted at the third trial; then never, for want of gain.
    for gain, backtrack, accept_ratio in ((1.0, 0.6, 0.2), (-1.0, 0.5, 0.1)):
        yield {
            "evaluate": lambda f, gain=gain: (torch.tensor(gain * f), torch.tensor(0.05 * f * f)),
            "expected_gain": 1.3, "kl_bound": 0.01, "backtrack": backtrack, "max_trials": 4,
            "accept_ratio": accept_ratio,
        }


def agent_of(name: str, discrete: bool = False, **config: Any) -> Any:
    """A small agent in float64, whose options are not the values that hide a mistake."""
    from minerva_lite.agents import AGENTS
    from minerva_lite.worlds import EnvSpec

    kind, settings = AGENTS[name]
    shared = {"num_envs": B, "rollout_steps": T, "hidden": (4,), "gamma": 0.9}
    spec = EnvSpec("test", obs_dim=S, num_actions=K) if discrete else EnvSpec("test", obs_dim=S, action_dim=D)
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


@cases("agents.networks.SquashedGaussianPolicy.from_env")
def _(g: Generator) -> Iterator[Any]:
    # The ends, where nothing but the clip keeps the number finite, and what lies between them.
    for action in (normal(g, B, D).tanh(), torch.tensor([[-1.0, 1.0], [0.3, -0.9999995], [0.9999995, -0.2]]).double()):
        yield {"self": gaussian_policy(squash=True), "action": action}


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
        yield {"self": agent, "rollout": rollout}


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


def mpo(discrete: bool = False, **config: Any) -> Any:
    """MPO whose targets are not its networks."""
    return stirred(agent_of("mpo", discrete, **{"action_samples": K, "value_samples": 7} | config))


def stirred(agent: Any) -> Any:
    """The agent with all its networks moved away from where they start, and from one another."""
    g = Generator().manual_seed(5)
    with torch.no_grad():
        for name in ("policy", "target_policy", "critic", "target_critic"):
            module = getattr(agent, name, None)
            for p in module.parameters() if module else ():
                p.add_(0.5 * normal(g, *p.shape))
    return agent


def candidates(agent: Any, g: Generator) -> tuple[Tensor, tuple, Tensor, Tensor, Tensor]:
    """Six states, the old parameters there, and the actions to be weighed with their prior and Q."""
    states = normal(g, S, S)
    old = tuple(p.detach() for p in agent.target_policy(states))
    with torch.no_grad():
        return states, old, *agent.candidates(states, old)


@cases("agents.mpo.MPOAgent.critic_targets")
def _(g: Generator) -> Iterator[Any]:
    for discrete in (False, True):
        agent = mpo(discrete)
        batch = stepped(agent, g, discrete)
        yield {"self": agent, "batch": batch, "obs": batch.obs, "next_obs": batch.next_obs}


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
        agent = mpo(discrete)
        batch = stepped(agent, g, discrete)
        yield {"self": agent, "obs": batch.obs, "action": batch.action, "target": normal(g, T, B)}


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
    """V-MPO whose policy has left its target."""
    return stirred(agent_of("vmpo", discrete, **{"act_by": "online", "vf_coef": 0.4} | config))


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


@cases("language.sequence.SequenceAgent.token_advantage")
def _(g: Generator) -> Iterator[Any]:
    for lam in (0.9, 0.3):
        agent = writer(advantage="critic", lam=lam, gamma=0.8)
        rollout = written(agent, g)
        yield {"self": agent, "rollout": rollout, "reward": normal(g, *rollout.mask.shape)}


@cases("language.sequence.SequenceAgent.loss")
def _(g: Generator) -> Iterator[Any]:
    for config in (
        {"advantage": "critic", "kl": "loss", "beta": 0.7, "vf_coef": 0.3},
        {"advantage": "critic", "average": "token", "vf_coef": 0.8},
        {"objective": "sequence", "kl": "loss", "beta": 0.7},
        {"objective": "gspo", "advantage": "grpo"},
    ):
        agent = writer(**config)
        batch, _ = agent.prepare(written(agent, g))
        yield {"self": agent, "batch": batch}


@cases("language.sequence.SequenceAgent.kl_loss")
def _(g: Generator) -> Iterator[Any]:
    for estimate in ("k1", "k2"):
        agent = writer(objective="sequence", kl="loss", kl_estimate=estimate)
        log_prob, reference = -positive(g, T, S), -positive(g, T, S)
        yield {"self": agent, "log_prob": log_prob, "reference_log_prob": reference, "mask": answers(g, T)}


for key in TABLES:
    CASES.setdefault(key, partial(drawn_cases, key))
