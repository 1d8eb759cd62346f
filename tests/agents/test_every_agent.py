"""What each agent of `AGENTS` promises: named arguments, its base's signatures, a whole state, its rates."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import textwrap

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.agents.base import Agent, GradientAgent
from minerva_lite.agents.on_policy import OnPolicyAgent
from minerva_lite.agents.stepwise import Stepwise
from minerva_lite.worlds.envs import make_env
from tests.agents import test_multi_categorical  # noqa: F401 - registers ToyDials
from tests.living import (
    FAMILIES,
    OWN,
    SMALL,
    STEPPERS,
    check_restored,
    differ,
    everything,
    learned,
    live,
    lived_in,
    refusal,
    small_agent,
    with_statistics,
)

CLASSES = {name: agent for name, (agent, _) in AGENTS.items()}
HALVES = (Agent, Stepwise)
KINDS = sorted({base for agent in CLASSES.values() for base in agent.__mro__ if issubclass(base, HALVES)}, key=str)
kinds = pytest.mark.parametrize("family", KINDS, ids=lambda family: family.__name__)
ON_POLICY = [name for name, agent in CLASSES.items() if issubclass(agent, OnPolicyAgent)]
WORLDS = ["Pendulum-v1", "CartPole-v1"]
RETRACE = {"critic_target": "retrace", "sequence_length": 4}


# Signatures


@pytest.mark.parametrize("name", CLASSES)
def test_an_agent_is_made_by_arguments_that_help_shows(name):
    """No `**where`: an editor and `help` know them, and each is described."""
    found = inspect.signature(CLASSES[name]).parameters
    defaults = {each: p.default for each, p in found.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert [each for each in found if each not in defaults] == ["config", "spec"]
    assert defaults == {"seed": 0, "device": "auto", "dtype": torch.float32, "compile": False}
    assert all(f"{each}: " in Agent.__doc__ for each in found)


def shape_of(function) -> list[tuple[str, object, object]]:
    """Names, kinds and defaults of a function's parameters; not their types, which an heir may narrow."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@kinds
def test_an_heir_is_called_as_its_base_is(family):
    for method, function in vars(family).items():
        inherited = [vars(base)[method] for base in family.__mro__[1:] if method in vars(base)]
        if inherited and not method.startswith("__") and (callable(function) or isinstance(function, property)):
            assert type(function) is type(inherited[0]), f"{method} is a property in one of them"
            assert not callable(function) or shape_of(function) == shape_of(inherited[0]), method


def depth(family: type) -> int:
    """Steps up to the base that has none."""
    return max((1 + depth(base) for base in family.__bases__ if issubclass(base, HALVES)), default=0)


def emptied(family: type) -> list[str]:
    """The methods that a class overrides only in order to do nothing, to hand back what it gets, or to refuse."""
    found = []
    for node in ast.parse(textwrap.dedent(inspect.getsource(family))).body[0].body:
        if isinstance(node, ast.FunctionDef) and any(hasattr(base, node.name) for base in family.__mro__[1:-1]):
            body = [x.value if isinstance(x, ast.Return) else x for x in node.body[bool(ast.get_docstring(node)) :]]
            nothing = (ast.Pass, ast.Raise, ast.Constant, ast.Name, type(None))
            found += [node.name] if all(isinstance(x, nothing) for x in body) else []
    return found


@kinds
def test_bases_are_few_and_give_nothing_that_has_to_be_taken_away(family):
    assert depth(family) <= 2
    assert emptied(family) == []


def test_trpo_which_takes_its_own_step_inherits_nothing_of_a_gradients():
    of_a_gradient = set(vars(GradientAgent)) - set(dir(OnPolicyAgent)) | {"optimizer", "learning_rate"}
    assert {"set_learning_rate", "gradient_step", "loss", "projected"} <= of_a_gradient
    assert not of_a_gradient & set(dir(lived_in("trpo")[0]))


# A state that is complete

VINE = {"sampling": "vine", "vine_states": 8, "vine_steps": 4, "normalize_reward": False}
LAYERS = {"shared_encoder": True, "torso": "layernorm", "normalize_reward": False}
# What else of an agent than networks, statistics and generators goes from one update to the next.
MORE = [
    ("reinforce", "CartPole-v1", {"baseline": "others", "whole_episodes": True, "rollout_steps": 200}),
    ("a2c", "Pendulum-v1", {"squash": True, "entropy_coef": 0.01}),  # whose entropy is drawn
    ("ppo", "Pendulum-v1", {"objective": "kl_penalty"}),
    ("trpo", "CartPole-v1", VINE),
    ("trpo", "Pendulum-v1", {"value_fit": "adam"}),
    ("vmpo", "Pendulum-v1", {"target_period": 2, "temperature_learning_rate": 3e-2}),  # an odd count when it is saved
    ("vmpo", "Pendulum-v1", LAYERS),
    ("vmpo", "CartPole-v1", LAYERS),
    ("mpo", "Pendulum-v1", RETRACE | {"target_period": 5}),
    ("mpo", "Pendulum-v1", {"action_penalty": True, "temperature_learning_rate": 3e-2}),
    ("mpo", "CartPole-v1", {"replay_steps": 40}),  # a ring that closes
]
FAMILY_OF = [
    (name, env_id, options)
    for name in STEPPERS
    for env_id, options in [*FAMILIES, ("ToyDials-v0", {})]
    if name != "mpo" or not (options or "Dials" in env_id)
]


@pytest.mark.parametrize(("name", "env_id", "options"), [*FAMILY_OF, *MORE], ids=str)
def test_a_restored_agent_goes_on_to_the_bit(name, env_id, options, same):
    """Whatever is missing shows within two updates: moments, multipliers, counters, statistics, replay, generators."""
    dtype = torch.float64 if (name, env_id, options) in MORE else torch.float32
    check_restored(*with_statistics(name, env_id, dtype=dtype, **options), same)


NEW = {"critic_hidden", "temperature_learning_rate", "value_target"}


@pytest.mark.parametrize("name", STEPPERS)
def test_a_state_from_before_a_setting_is_taken_and_a_foreign_one_is_not(name, same):
    """What a state of before lacks stands at its default: where it is set otherwise, the state is foreign."""
    state = lived_in(name)[0].state_dict()
    kept = {setting: value for setting, value in state["config"].items() if setting not in NEW}
    assert len(kept) < len(state["config"])
    before, twin = state | {"config": kept}, small_agent(name)[0]
    twin.load_state_dict(before)
    assert same(twin.state_dict(), state)
    for other in ({"gamma": 0.5}, {"env_id": "CartPole-v1"}, {"critic_hidden": (8,)}):
        agent, *_ = small_agent(name, **other)
        held = everything(agent)
        wanted = "state: wanted one saved with this config and environment; got another"
        assert refusal(agent.load_state_dict, before).startswith(wanted) and same(held, everything(agent))


@pytest.mark.parametrize(("name", "env_id", "options"), FAMILY_OF, ids=str)
def test_seeds_decide_everything_and_more_digits_nothing(name, env_id, options):
    """The same seed and as many digits: the same end. The first weights and modes are those of either precision."""
    ends, firsts, modes = [], [], []
    for seed, dtype in ((0, torch.float32), (0, torch.float32), (1, torch.float32), (0, torch.float64)):
        agent, env, obs = with_statistics(name, env_id, seed=seed, dtype=dtype, **options)
        firsts.append([p.float() for p in learned(agent)])
        some = torch.linspace(-1, 1, 4 * agent.spec.obs_dim, dtype=dtype).view(4, -1)
        modes.append(agent.act(some, deterministic=True)[0])
        figures, _ = live(agent, env, obs, 2)
        ends.append(learned(agent))
        assert differ(firsts[-1], [p.float() for p in ends[-1]])
        for figure in figures.values():  # numbers, of no graph
            assert figure.dim() == 0 and not figure.requires_grad and figure.isfinite()
    assert not differ(ends[0], ends[1]) and differ(ends[0], ends[2])
    assert not differ(firsts[0], firsts[3]) and differ(firsts[0], firsts[2])
    torch.testing.assert_close(modes[0], modes[3].to(modes[0].dtype), rtol=1e-5, atol=1e-6)
    assert {p.dtype for p in ends[3]} == {torch.float64} and all(p.isfinite().all() for p in ends[3])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(
    ("name", "env_id", "options"), [*(row for row in FAMILY_OF if "Toy" not in row[1]), *MORE], ids=str
)
def test_everything_stays_on_a_cuda_device(name, env_id, options, same):
    agent_class, config_class = AGENTS[name]
    statistics = {"normalize_obs": True} | ({"normalize_reward": True} if name in ON_POLICY else {})
    config = config_class(**SMALL | OWN.get(name, {}) | statistics | options)
    env = make_env(env_id, config.num_envs, device="cuda")
    agent, cpu = (agent_class(config, env.spec, device=device) for device in ("cuda", "cpu"))
    assert not differ([p.cpu() for p in learned(agent)], learned(cpu))
    rollout, obs = agent.collect(env, env.reset())
    assert {t.device.type for t in rollout.tensors().values()} == {"cuda"} == {obs.device.type}
    agent.update(rollout)
    figures, obs = live(agent, env, obs, 2)
    assert all(math.isfinite(v) for v in figures.values())
    twin = agent_class(config, env.spec, seed=1, device="cuda")
    twin.load_state_dict(agent.state_dict())
    assert same(live(twin, copy.deepcopy(env), obs.clone(), 1)[0], live(agent, env, obs, 1)[0])
    if name == "mpo":
        assert {column.device.type for column in agent.replay.columns.values()} == {"cuda"}


# Rates and norms

DESCENT = [name for name in ON_POLICY if issubclass(CLASSES[name], GradientAgent)]
RATED = [name for name, (_, config) in AGENTS.items() if name in STEPPERS and hasattr(config, "anneal_lr")]


def rates_of(agent) -> tuple[list[float], list[float]]:
    """The present learning rates of policy and critic, and those of the multipliers, which never fall."""
    optimizers = agent.optimizers.values() if hasattr(agent, "optimizers") else [agent.optimizer]
    duals, rates = {id(p) for p in getattr(agent, "duals", torch.nn.ParameterDict()).parameters()}, ([], [])
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        rates[all(id(p) in duals for p in group["params"])].append(group["lr"])
    return rates


@pytest.mark.parametrize("anneal", [True, False])
@pytest.mark.parametrize("name", RATED)
def test_learning_rates_fall_linearly_only_where_that_is_wanted(name, anneal):
    rates = {"temperature_learning_rate": 7e-2} if name in ("mpo", "vmpo") else {}
    agent, env, obs = small_agent(name, anneal_lr=anneal, **rates)
    first, prices = rates_of(agent)
    assert bool(prices) == bool(rates)
    for progress in (0.0, 0.25, 1.0):
        before = learned(agent.policy) + learned(agent.critic)
        figures, obs = live(agent, env, obs, 1, progress=progress)
        left = 1.0 - progress * anneal
        now = rates_of(agent)
        assert now[0] == pytest.approx([left * rate for rate in first]) and now[1] == prices
        assert float(figures.get("train/learning_rate", now[0][0])) == pytest.approx(now[0][0])
        assert differ(before, learned(agent.policy) + learned(agent.critic)) == (left > 0)


@pytest.mark.parametrize("name", DESCENT)
def test_the_gradients_norm_is_clipped_over_policy_and_critic_together(name):
    """Plain SGD at rate 1: a step is the gradient, so its norm over all parameters is the bound."""
    rates = {"learning_rate": 1.0}
    if name == "vmpo":
        rates = {"policy_learning_rate": 1.0, "value_learning_rate": 1.0, "dual_learning_rate": 1e-9}
    agent, env, obs = small_agent(name, optimizer="sgd", max_grad_norm=0.01, **rates)
    batch = agent.prepare(agent.collect(env, obs)[0])
    before = learned(agent.policy) + learned(agent.critic)
    norm = agent.gradient_step(agent.loss(agent.estep(batch) if name == "vmpo" else batch)[0])
    after = learned(agent.policy) + learned(agent.critic)
    step = torch.cat([(a - b).flatten() for a, b in zip(after, before, strict=True)])
    assert norm > 0.01 and step.norm().item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("name", STEPPERS)
def test_the_step_norm_says_how_far_the_policys_parameters_moved(name, env_id):
    agent, env, obs = lived_in(name, env_id, dtype=torch.float64)
    before = learned(agent.policy)
    figures, _ = live(agent, env, obs, 1)
    moved = sum((new - old).square().sum() for new, old in zip(learned(agent.policy), before, strict=True))
    assert 0 < moved.sqrt().item() == pytest.approx(figures["train/param_step_norm"].item(), rel=1e-12)


PENALTY = {"mpo": {"action_penalty": True, "log_std_init": 0.5}, "vmpo": {"inner_steps": 1}}


def dual_rates(agent) -> list[dict[str, float]]:
    """The rate of each multiplier, group by group."""
    names = {id(raw): each.removeprefix("raw_") for each, raw in agent.duals.items()}
    optimizer = agent.optimizers["duals"] if agent.name == "mpo" else agent.optimizer
    groups = [{names[id(p)]: g["lr"] for p in g["params"] if id(p) in names} for g in optimizer.param_groups]
    return [group for group in groups if group]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["mpo", "vmpo"])
def test_a_temperature_has_its_own_rate_and_one_that_is_equal_is_one_to_the_bit(name, optimizer):
    """In a group of its own only where it is set: a checkpoint of before has one group for all duals.

    Of one optimizer: the gradient's norm is still clipped over all duals together.
    """
    plain, ends = {"dual_learning_rate": 2e-2, "max_grad_norm": 0.05, **PENALTY[name]}, []
    temperatures = ["eta", "eta_penalty"] if name == "mpo" else ["eta"]
    alphas = dict.fromkeys(["alpha_mean", "alpha_std"], 2e-2)
    for rate in (None, 2e-2, 3e-2):
        options = {"dtype": torch.float64, "optimizer": optimizer, "temperature_learning_rate": rate}
        agent, env, obs = small_agent(name, **plain | options)
        own = dict.fromkeys(temperatures, rate or 2e-2)
        assert dual_rates(agent) == ([own, alphas] if rate else [own | alphas])
        live(agent, env, obs, 4)
        ends.append(learned(agent))
    assert not differ(ends[0], ends[1]) and differ(ends[0], ends[2])


# Networks


def widths(network: torch.nn.Module) -> list[int]:
    """Outputs of a network's layers but the last."""
    return [layer.out_features for layer in network.modules() if isinstance(layer, torch.nn.Linear)][:-1]


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("name", STEPPERS)
def test_policy_and_critic_have_their_own_widths(name, env_id):
    """Targets have the widths of what they copy, a torso those of its network, and none is a linear critic."""
    torsos = [{"torso": "layernorm"}, {}] if name == "vmpo" else [{}]
    for options in torsos:
        for critic in [(5, 4, 3), None] + ([()] if name != "mpo" and not options else []):
            agent, *_ = small_agent(name, env_id, hidden=(8, 6), critic_hidden=critic, **options)
            for network in ("policy", "target_policy", "critic", "target_critic"):
                wanted = [8, 6] if critic is None or "policy" in network else list(critic)
                assert not hasattr(agent, network) or widths(getattr(agent, network)) == wanted
