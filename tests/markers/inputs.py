"""Random float64 inputs for each function with markers: two cases or more, edges of its regime included.

A case is the arguments of a function by name. What its symbols (symbols.py) say of one, its axes, and its name are
often enough to draw it; OPTIONS adds what they do not say, and a function in CASES makes its cases itself. The sizes of
the axes differ from each other, so that a swapped axis shows; they are 2 or more, so that a mean over one entry hides
nothing.
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

from minerva_lite.agents import AGENTS
from minerva_lite.agents.networks import GaussianPolicy, SquashedGaussianPolicy
from minerva_lite.agents.trpo import VineBatch
from minerva_lite.experience.normalizer import Normalizer, RewardScaler
from minerva_lite.experience.rollout import Rollout
from minerva_lite.formulas.distributions import categorical_kl
from minerva_lite.language import SequenceAgent, SequenceConfig
from minerva_lite.language.answers import Answers
from minerva_lite.language.tokens import TASKS
from minerva_lite.worlds import EnvSpec
from tests.living import shake

from .latex import FormulaError
from .symbols import TABLES

T, B, D, K, S = 5, 3, 2, 4, 6  # steps, environments, action dimensions, discrete actions, observation entries
SIZES = {"t": T, "b": B, "i": 6, "j": K, "a": K, "n": 7, "k": K, "o": S, "s": T, "r": 7, "m": 8}
CASES: dict[str, Callable[[Generator], Iterator[Any]]] = {}


def cases(key: str, *values: Any) -> Callable:
    """Register what makes a case of this function from each of the values."""

    def register(make: Callable[[Generator, Any], dict[str, Any]]) -> None:
        CASES[key] = lambda g: (make(g, value) for value in values)

    return register


# Numbers


def normal(g: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=g, dtype=torch.float64)


def uniform(g: Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=g, dtype=torch.float64)


def drawn(
    draw: Callable[..., Tensor], *shape: int, scale: float = 1.0, shift: float = 0.0, then: Callable = torch.clone
) -> Callable[..., Tensor]:
    """This draw stretched, moved, and then changed; of this shape, if there is one, in place of that of the symbol."""
    return lambda g, *own: then(scale * draw(g, *(shape or own)) + shift)


positive, wide = drawn(uniform, scale=2.0, shift=0.3), drawn(normal, scale=2.0)
law = drawn(normal, then=lambda x: x.softmax(-1))  # probabilities along the last axis
shares = drawn(normal, then=lambda x: x.softmax(0))  # along the first axis
columns = drawn(normal, then=lambda x: x.log_softmax(0))  # their logarithms
coarse = drawn(uniform, scale=5.0, then=torch.floor)  # whole numbers, so that there are ties
choice = drawn(uniform, scale=float(K), then=torch.Tensor.long)  # actions of a finite set


def tensor(*numbers: float) -> Callable[..., Tensor]:
    return lambda g, *_: torch.tensor(numbers if len(numbers) > 1 else numbers[0], dtype=torch.float64)


def for_each(make: Callable[[Generator, Any], Any], *values: Any) -> tuple:
    """An argument that each case makes anew from one of the values."""
    return tuple(lambda g, *_, value=value: make(g, value) for value in values)


def tied(g: Generator, *shape: int) -> Tensor:
    """The first two are equal."""
    values = uniform(g, *shape)
    values[1] = values[0]
    return values


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
    return torch.arange(T).unsqueeze(1) < torch.tensor([5, 2, 4, 1, 3, 5])


def running(g: Generator, *shape: int) -> Tensor:
    """All run, none runs, one is alone."""
    mask = flag(g, *shape)
    mask[1], mask[2], mask[3] = True, False, False
    mask[3, 0] = True
    return mask


# Matrices, modules and agents, whose options are not the values that hide a mistake


class Product:
    """A map v -> M v that can be asked for M."""

    def __init__(self, matrix: Tensor):
        self.matrix = matrix

    def __call__(self, vector: Tensor) -> Tensor:
        return self.matrix @ vector


def definite(g: Generator) -> Product:
    """Six unknowns."""
    root = normal(g, 6, 6)
    return Product(root @ root.T + 0.5 * torch.eye(6, dtype=torch.float64))


def normalizer(g: Generator, count: float = 9.0, clip: float = 10.0) -> Normalizer:
    """A normalizer that has seen `count` rows of width S."""
    module = Normalizer((S,), clip=clip, eps=0.05).double()
    module.mean.copy_(normal(g, S)), module.var.copy_(positive(g, S)), module.count.fill_(count)
    return module


def reward_scaler(g: Generator, clip: float) -> RewardScaler:
    """A reward scaler in the middle of B episodes."""
    module = RewardScaler(0.9, clip=clip).double()
    module.stats.eps = 0.05
    module.stats.var.fill_(1.7)
    module.running = normal(g, B)
    return module


def gaussian_policy(log_std: float = -0.5, family: type = SquashedGaussianPolicy) -> GaussianPolicy:
    """A small policy in float64 whose std depends on the state."""
    policy = family(S, D, (4,), log_std, Generator().manual_seed(0), torso="layernorm").double()
    shake(policy, Generator().manual_seed(5), 0.5)
    return policy


def agent_of(name: str, discrete: bool = False, **config: Any) -> Any:
    """A small agent in float64."""
    kind, settings = AGENTS[name]
    shared = {"num_envs": B, "rollout_steps": T, "hidden": (4,), "gamma": 0.9}
    spec = EnvSpec("test", obs_dim=S, num_actions=K) if discrete else EnvSpec("test", obs_dim=S, action_dim=D)
    return kind(settings(**shared | config), spec, seed=0, device="cpu", dtype=torch.float64)


def stirred(agent: Any) -> Any:
    """The agent with all its networks moved away from where they start, and from one another."""
    g = Generator().manual_seed(5)
    for name in ("policy", "target_policy", "critic", "target_critic"):
        if hasattr(agent, name):
            shake(getattr(agent, name), g, 0.5)
    return agent


def stepped(agent: Any, g: Generator, discrete: bool = False) -> Rollout:
    """A rollout of T steps by B environments, as if `agent` had collected it."""
    obs, next_obs = normal(g, 2, T, B, S)
    action = choice(g, T, B) if discrete else normal(g, T, B, D)
    params = tuple(p.detach() for p in agent.policy(obs))
    numbers = normal(g, T, B), params, normal(g, T, B)
    return Rollout(obs, action, *numbers, next_obs, *(ends(together, g, T, B) for together in (False, True)))


def rows(agent: Any, g: Generator) -> Any:
    """A batch of any weight whose policy has moved since: advantages not centered, other old values."""
    batch = agent.prepare(stepped(agent, g))
    count = len(batch)
    params = (normal(g, count, D), positive(g, count, D))
    moved = {"advantage": batch.advantage + 0.5, "value_old": normal(g, count), "behavior_params": params}
    moved |= {"weight": positive(g, count)} if hasattr(batch, "weight") else {}
    return replace(batch, behavior_log_prob=agent.policy.log_prob(params, batch.action), **moved)


def on_rows(g: Generator, agent: Any) -> dict[str, Any]:
    return {"self": agent, "batch": rows(stirred(agent), g)}


def ppo(**config: Any) -> Any:
    made = agent_of("ppo", **{"minibatch_size": T, "clip_eps": 0.3} | config)
    made.kl_penalty = 0.7
    return made


def mpo(discrete: bool = False, **config: Any) -> Any:
    """MPO whose targets are not its networks."""
    return stirred(agent_of("mpo", discrete, **{"action_samples": K, "value_samples": 7} | config))


def vmpo(discrete: bool = False, **config: Any) -> Any:
    """V-MPO whose policy has left its target."""
    return stirred(agent_of("vmpo", discrete, **{"act_by": "online", "vf_coef": 0.4} | config))


def writer(**config: Any) -> SequenceAgent:
    """A small agent in float64 whose policy has left its reference, and whose critic says something."""
    small = {"num_envs": 3, "group": 2, "minibatch_prompts": 3, "width": 8, "heads": 2, "clip_high": 0.3}
    made = SequenceAgent(SequenceConfig(**small | config), COPY.spec, device="cpu", dtype=torch.float64)
    for module in (made.policy, made.critic):
        shake(module, Generator().manual_seed(0), 0.2)
    return made


def written(agent: SequenceAgent, g: Generator) -> Answers:
    """Answers of the agent to drawn prompts, as another policy sampled them."""
    prompt = COPY.draw(agent.config.num_envs, g)
    answer, log_prob, mask = agent.policy.sample(prompt, COPY.answer_length, g, group=agent.config.group)
    moved = log_prob + 0.4 * normal(g, *log_prob.shape) * mask
    return Answers(prompt, answer, moved, mask, normal(g, answer.shape[1]))


# How an argument is drawn, by its name; the others are normal.
DRAWS: dict[str, Any] = {
    "std": positive, "std_old": positive, "kl": positive, "alpha": positive, "weights": positive, "logits": wide,
    "logits_old": wide, "policy": law, "policy_old": law, "log_prior": columns, "log_ratio": log_ratio,
    "advantage": advantage, "mask": answers, "ended": flag, "terminated": partial(ends, False),
    "truncated": partial(ends, True), "pre_squash": wide, "obs": drawn(normal, T, B, S),
    "next_obs": drawn(normal, T, B, S),
    # A tuple has a value for each case.
    "gamma": (0.9, 0.6), "lam": (0.8, 0.0, 1.0), "clip_eps": (0.2, 0.5), "kl_bound": (0.01, 0.7), "eta": (0.3, 2.0),
    "beta": (0.3, 2.0),
    "max_advantage": 1.7, "max_expected_advantage": 1.7, "average_kl": (0.3, 1.6), "mixture": (0.3, 0.8),
    "max_tv": (0.3, 0.8), "max_kl": (0.3, 1.6), "sharp": (False, False, True, True), "eps": (0.1, 0.7),
    "pinsker": (False, False, True, True), "group": (2, 3), "low": (0.2, 0.4), "high": (0.35, 0.1), "eps_eta": 0.3,
}  # fmt: skip
ETA = {"eta": (tensor(0.7), tensor(2.0))}
# Kept ones among which the largest advantage is not the first, and an unkept one far above.
SELECTED = ETA | {
    "advantage": lambda g, *_: torch.cat([normal(g, 1), torch.tensor([9.0]), normal(g, 4)]),
    "mask": lambda g, *_: torch.tensor([True, False, True, True, False, False]), "log_importance": drawn(normal, S),
}  # fmt: skip
ELIGIBLE = torch.tensor([True, False, True, True, False, True, True, True])
GROUPS = {"reward": drawn(normal, 12), "value": drawn(normal, 12)}
# Of a state's action, continuous or of a finite set.
MPOS = for_each(lambda g, finite: mpo(finite), False, True)
PARAMS = (lambda g, *_: (normal(g, B, D), positive(g, B, D)), lambda g, *_: (normal(g, B, K),))
COPY = TASKS["tokens/copy"]
PROMPT = COPY.draw(5, Generator().manual_seed(0))
# By function: what neither symbols nor names tell. A tuple has a value for each case; what can be called is drawn.
OPTIONS: dict[str, dict[str, Any]] = {
    "formulas.returns.leave_one_out_baseline": {"mask": running},
    "formulas.distributions.categorical_log_prob": {"action": choice},
    "formulas.distributions.categorical_sample": {"noise": uniform},
    "formulas.distributions.kl_estimates": {"log_ratio": (log_ratio, drawn(normal, scale=0.01))},
    "formulas.distributions.squashed_log_prob": {"pre_squash": (normal, drawn(normal, scale=12.0))},
    "formulas.objectives.kl_penalty_loss": {"kl_penalty": (0.7, 3.0)},
    "formulas.objectives.adapt_kl_penalty": {  # above, below and inside the band, on both sides of each of its ends
        "kl": (0.05, 0.001, 0.01, 0.0149, 0.0151, 0.0066, 0.0067), "kl_penalty": (0.3, 1.7), "kl_target": 0.01,
    },
    "formulas.objectives.clipped_value_loss": {"clip_range": (0.2, 1.0)},
    "formulas.objectives.normalize_advantage": {
        "advantage": (drawn(normal, shift=3.0), drawn(normal, scale=1e-3)), "eps": (1e-8, 0.1),
    },
    "formulas.objectives.rounding_alone": {  # around the spread that rounding can make
        "spread": (tensor(0.995 * 64.0 * 1e-3 * 1.7), tensor(1.005 * 64.0 * 1e-3 * 1.7)), "size": tensor(1.7),
        "eps": 1e-3,
    },
    "formulas.trust_region.conjugate_gradient": {  # not enough iterations, so that no residual is rounding; enough
        "product": definite, "iterations": (3, 4), "tolerance": (1e-3, 0.3),
    },
    "formulas.trust_region.full_step": {"gradient": positive, "direction": positive},
    "formulas.trust_region.line_search": {  # accepted at the third trial; then never, for want of gain
        "evaluate": for_each(lambda g, x: lambda f: (torch.tensor(x * f), torch.tensor(0.05 * f * f)), 1.0, -1.0),
        "expected_gain": 1.3, "kl_bound": 0.01, "backtrack": (0.6, 0.5), "max_trials": 4, "accept_ratio": (0.2, 0.1),
    },
    "formulas.trust_region.at_rounding_level": {"gain": tensor(0.3)},
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
    "formulas.duals.estep_weights": ETA,
    "formulas.duals.temperature_loss": ETA,
    "formulas.duals.weights_kl": {"weights": shares},
    "formulas.duals.exponential_weights": {"max_weight": (1.5, 20.0)},  # some are cut off; none is
    "formulas.duals.multiplier_loss": {"bound": 0.3},
    "formulas.duals.top_k_mask": {
        # With ties at the threshold; all; fractions that rounding would make one sample less, within the allowance.
        "advantage": (tensor(1.0, 5.0, 0.0, 1.0, 1.0, 1.0, -2.0, 1.0), *3 * [drawn(normal, 8)], drawn(normal, 100)),
        "eligible": (*4 * [ELIGIBLE], torch.ones(100, dtype=torch.bool)),
        "top_k_frac": (0.5, 1.0, 0.35, (2.0 - 5e-10) / 6, 0.29),
    },
    "formulas.duals._kept_logits": SELECTED,
    "formulas.duals.vmpo_weights": SELECTED,
    "formulas.duals.vmpo_temperature_loss": SELECTED | {"normalizer": ("weights", "count", "weights")},
    "formulas.sequences.group_mean": GROUPS,
    "formulas.sequences.leave_one_out_advantage": GROUPS,
    "formulas.sequences.group_advantage": GROUPS | {"group": (3, 4, 2), "scale": (True, True, False)},
    "formulas.sequences.spread_weight": {"probability": uniform},
    "formulas.sequences.sequence_log_ratio": {"per_token": (True, False)},
    "formulas.sequences.clipped_sequence_objective": {
        "log_ratio": drawn(normal, T, 6, scale=0.3), "advantage": tensor(1.0, -2.0, 0.5, -0.3, -1.0, 2.0),
        "per_token": (False, True, False), "low": (0.2, 0.1, 0.3), "high": (0.3, 0.02, 0.05),
    },
    "formulas.sequences.average_tokens": {"average": ("token", "sequence", "constant")},
    "formulas.preferences.best_of_n_law": {"probability": law, "reward": coarse, "n": (2, 5)},
    "formulas.preferences.best_of_n_kl": {"n": (2, 16)},
    "training.loop._passed": {"before": (0, 7, 10, 19, 3), "after": (7, 10, 19, 41, 9), "every": 10},
    "experience.normalizer.Normalizer.normalize": {"self": for_each(lambda g, x: normalizer(g, clip=x), 10.0, 0.7)},
    # A fresh one per run: absorbing moves it.
    "experience.normalizer.Normalizer.absorb": {"self": for_each(normalizer, 0.0, 9.0)},
    "experience.normalizer.RewardScaler.scale": {"self": for_each(reward_scaler, 10.0, 0.7)},
    "experience.normalizer.RewardScaler.absorb": {"self": for_each(reward_scaler, 10.0)},
    "agents.networks.GaussianPolicy.forward": {  # some are cut from below, some from above
        "self": for_each(lambda g, x: gaussian_policy(x, GaussianPolicy), -20.0, 2.0), "obs": drawn(normal, 7, S),
    },
    "agents.networks.SquashedGaussianPolicy.entropy": {
        "self": lambda g: gaussian_policy(), "params": PARAMS[0], "generator": lambda g: g,
    },
    "agents.networks.SquashedGaussianPolicy.to_env": {"self": lambda g: gaussian_policy()},
    # The ends, where nothing but the clip keeps the number finite, and what lies between them.
    "agents.networks.SquashedGaussianPolicy.from_env": {
        "self": lambda g: gaussian_policy(),
        "action": (lambda g, *own: normal(g, *own).tanh(), tensor([-1.0, 1.0], [0.3, -0.9999995], [0.9999995, -0.2])),
    },
    "agents.base.GradientAgent.set_learning_rate": {
        "self": lambda g: agent_of("a2c", anneal_lr=True, learning_rate=0.3), "progress": (0.2, 0.7),
    },
    "agents.on_policy.OnPolicyAgent.prepare": {"self": lambda g: ppo(), "rollout": lambda g: stepped(ppo(), g)},
    "agents.reinforce.REINFORCEAgent.estimate": {
        "self": for_each(lambda g, x: agent_of("reinforce", baseline=x), "others", "none"),
        "rollout": lambda g: stepped(ppo(), g),
    },
    "agents.reinforce.REINFORCEAgent.state_weight": {
        "self": for_each(lambda g, x: agent_of("reinforce", discount_states=True, gamma=x), 0.9, 0.5),
    },
    "agents.mpo.MPOAgent.set_learning_rate": {
        "self": lambda g: agent_of("mpo", anneal_lr=True), "progress": (0.2, 0.7),
    },
    "agents.mpo.MPOAgent.critic_targets": {
        "self": MPOS, "batch": for_each(lambda g, finite: stepped(mpo(finite), g, finite), False, True),
    },
    "agents.mpo.MPOAgent.expected_value": {"self": MPOS},
    "agents.mpo.MPOAgent.candidates": {"self": MPOS, "states": drawn(normal, B, S), "old": PARAMS},
    "agents.mpo.MPOAgent.critic_step": {
        "self": MPOS, "action": (drawn(normal, T, B, D), lambda g, *_: choice(g, T, B)),
    },
    "agents.mpo.MPOAgent.estep": {
        "self": for_each(lambda g, x: mpo(action_penalty=x, eta_penalty_init=0.4, eps_penalty=0.3), True, False),
        "action": drawn(normal, 6, B, D, scale=3.0), "log_prior": drawn(columns, 6, B), "q_value": drawn(normal, 6, B),
    },
    "agents.mpo.MPOAgent.policy_loss": {
        "self": for_each(lambda g, finite: mpo(finite, alpha_mean_init=3.0), False, True), "old": PARAMS,
        "params": PARAMS, "weights": (shares, drawn(shares, K, B)),
        "action": (drawn(normal, 6, B, D), torch.arange(K).unsqueeze(1).expand(K, B)),
        "kl": (lambda g: {"mean": positive(g, D), "std": positive(g, D)}, lambda g: {"mean": positive(g, 1)}),
    },
    "language.answering.AnsweringAgent.pretrain_loss": {
        "self": lambda g: writer(), "prompt": PROMPT, "solution": COPY.solution(PROMPT),
    },
    "language.sequence.SequenceAgent.token_advantage": {
        "self": for_each(lambda g, x: writer(advantage="critic", lam=x, gamma=0.8), 0.9, 0.3),
        "rollout": lambda g: written(writer(), g), "reward": None,
    },
    "language.sequence.SequenceAgent.kl_loss": {
        "self": for_each(lambda g, x: writer(objective="sequence", kl="loss", kl_estimate=x), "k1", "k2"),
        "log_prob": drawn(positive, T, S, scale=-1.0), "reference_log_prob": drawn(positive, T, S, scale=-1.0),
    },
}  # fmt: skip


def drawn_cases(key: str, g: Generator) -> Iterator[dict[str, Any]]:
    """The cases of a function that makes none itself."""
    axes = {symbol.source: symbol.axes for symbol in TABLES[key].declared.values() if not symbol.is_size}
    options, values = OPTIONS.get(key, {}), {}
    for name, parameter in signature(pkgutil.resolve_name(f"minerva_lite.{key}")).parameters.items():
        if name in options or name in axes or name in DRAWS:
            values[name] = options.get(name, DRAWS.get(name, normal))
        elif parameter.default is parameter.empty:
            raise FormulaError(f"{key}: wanted an option in inputs.py that tells {name}")
    for number in range(max([2, *(len(value) for value in values.values() if isinstance(value, tuple))])):
        chosen = {name: v[number % len(v)] if isinstance(v, tuple) else v for name, v in values.items()}
        shapes = {name: [SIZES[axis] for axis in axes.get(name, ())] for name in chosen}
        yield {name: value(g, *shapes[name]) if callable(value) else value for name, value in chosen.items()}


@cases("formulas.trust_region.fisher_vector_product", 0.0, 0.3)
def _(g: Generator, distance: float) -> dict[str, Any]:
    """At the old parameters, where the gradient is zero, and away from them, where it is not."""
    obs, shapes = normal(g, T, D), ((D, K), (K,))
    old = [normal(g, *shape) for shape in shapes]
    parameters = [(p + distance * normal(g, *p.shape)).requires_grad_() for p in old]

    def kl(weight: Tensor, bias: Tensor) -> Tensor:
        return categorical_kl(obs @ old[0] + old[1], obs @ weight + bias).mean()

    gradient = torch.cat([p.flatten() for p in torch.autograd.grad(kl(*parameters), parameters, create_graph=True)])
    flat = torch.cat([p.detach().flatten() for p in parameters])
    gradient.hessian = torch.autograd.functional.hessian(lambda x: kl(x[: D * K].view(D, K), x[D * K :]), flat)
    return {"kl_gradient": gradient, "parameters": parameters, "vector": normal(g, len(flat)), "damping": 0.3}


# The agents that are asked about a batch of rows, one a case.
ON_ROWS = {
    "agents.ppo.PPOAgent.loss": [
        partial(ppo, objective=name, normalize_advantage=flag, clip_value=flag, entropy_coef=0.3 * flag)
        for name in ("clip", "kl_penalty") for flag in (True, False)
    ],
    "agents.a2c.A2CAgent.loss": [
        partial(agent_of, "a2c", normalize_advantage=flag, entropy_coef=0.3 * flag) for flag in (True, False)
    ],
    "agents.reinforce.REINFORCEAgent.loss": [
        partial(agent_of, "reinforce", normalize_advantage=flag, baseline=name, entropy_coef=0.3)
        for flag, name in ((True, "value"), (False, "others"))
    ],
    "agents.trpo.TRPOAgent.mean_kl": 2 * [partial(agent_of, "trpo")],
    "agents.vmpo.VMPOAgent.estep": [partial(vmpo, importance_clip=clip) for clip in (1.5, 0.2)],
}  # fmt: skip
for key, agents in ON_ROWS.items():
    CASES[key] = lambda g, agents=agents: (on_rows(g, make()) for make in agents)


@cases("agents.trpo.TRPOAgent.surrogate", False, True)
def _(g: Generator, branched: bool) -> dict[str, Any]:
    case, params = on_rows(g, agent_of("trpo")), (normal(g, T, D), positive(g, T, D))
    vine = VineBatch(normal(g, T, S), normal(g, T, K, D), normal(g, T, K), params, normal(g, T, K))
    return case | {"batch": vine} if branched else case


@cases("agents.vmpo.VMPOAgent.loss", *((discrete, over) for discrete in (False, True) for over in ("all", "kept")))
def _(g: Generator, case: tuple[bool, str]) -> dict[str, Any]:
    agent = vmpo(case[0], kl_over=case[1], alpha_mean_init=3.0)
    batch = agent.prepare(stepped(agent, g, case[0]))
    batch.advantage[0] = 9.0  # the first row is kept
    return {"self": agent, "batch": agent.estep(batch)}


@cases(
    "language.sequence.SequenceAgent.loss",
    {"advantage": "critic", "kl": "loss", "beta": 0.7, "vf_coef": 0.3},
    {"advantage": "critic", "average": "token", "vf_coef": 0.8},
    {"objective": "sequence", "kl": "loss", "beta": 0.7},
    {"objective": "gspo", "advantage": "grpo"},
)
def _(g: Generator, config: dict[str, Any]) -> dict[str, Any]:
    agent = writer(**config)
    return {"self": agent, "batch": agent.prepare(written(agent, g))[0]}


for key in TABLES:
    CASES.setdefault(key, partial(drawn_cases, key))
