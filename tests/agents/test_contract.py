"""What each class of `AGENTS` promises: named arguments, its base's signatures, methods that work, a pure `prepare`."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.agents.base import Agent
from minerva_lite.agents.on_policy import GradientAgent, OnPolicyAgent
from minerva_lite.agents.one_optimizer import OneOptimizer
from minerva_lite.agents.stepwise import Stepwise
from tests.living import ANSWERS, OWN, SMALL, live, make_agent

CLASSES = {name: agent for name, (agent, _) in AGENTS.items()}
HALVES = (Agent, Stepwise)
FAMILIES = sorted({base for agent in CLASSES.values() for base in agent.__mro__ if issubclass(base, HALVES)}, key=str)
ON_POLICY = [name for name, agent in CLASSES.items() if issubclass(agent, OnPolicyAgent)]
WORLDS = ["Pendulum-v1", "CartPole-v1"]


def lived_in(name: str, env_id: str = "Pendulum-v1", **options):
    """An agent after two updates, its environment and the present observation."""
    small = SMALL | OWN.get(name, {})
    if name == "sequence":
        env_id, small = "tokens/sort", ANSWERS
    agent, env, obs = make_agent(name, env_id, **small | options)
    _, obs = live(agent, env, obs, 2)
    return agent, env, obs


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


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_an_heir_is_called_as_its_base_is(family):
    for method, function in vars(family).items():
        inherited = [vars(base)[method] for base in family.__mro__[1:] if method in vars(base)]
        if not inherited or method.startswith("__") or not (callable(function) or isinstance(function, property)):
            continue
        assert type(function) is type(inherited[0]), f"{method} is a property in one of them"
        if callable(function):
            assert shape_of(function) == shape_of(inherited[0]), method


def depth(family: type) -> int:
    """Steps up to the base that has none."""
    return max((1 + depth(base) for base in family.__bases__ if issubclass(base, HALVES)), default=0)


def emptied(family: type) -> list[str]:
    """The methods that a class overrides only in order to do nothing, to hand back what it gets, or to refuse."""
    found = []
    for node in ast.parse(textwrap.dedent(inspect.getsource(family))).body[0].body:
        if isinstance(node, ast.FunctionDef) and any(hasattr(base, node.name) for base in family.__mro__[1:-1]):
            body = node.body[bool(ast.get_docstring(node)) :]
            if all(isinstance(x, (ast.Pass, ast.Raise)) or ast.unparse(x).startswith("return ") for x in body):
                words = {name.id for x in body for name in ast.walk(x) if isinstance(name, ast.Name)}
                given = {arg.arg for arg in node.args.args[1:]}
                found += [node.name] if words <= given or any(isinstance(x, ast.Raise) for x in body) else []
    return found


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_bases_are_few_and_give_nothing_that_has_to_be_taken_away(family):
    assert depth(family) <= 3
    assert emptied(family) == []


def test_an_emptied_method_is_found():
    class Heir(Stepwise):
        def normalized(self, obs):
            """As it is."""
            return obs

        def absorb_obs(self, rollout):
            """Nothing."""

        def predict(self, obs, *, deterministic=True):
            raise TypeError("no")

        def rollout_shape(self):
            return self.config.rollout_steps, 1

        def of_its_own(self):
            pass

    assert emptied(Heir) == ["normalized", "absorb_obs", "predict"] and depth(Heir) == 1


def test_only_an_agent_with_an_optimizer_has_a_learning_rate():
    """TRPO takes its own step and fits its critic anew: it has neither, under no inherited name."""
    of_a_gradient = set(vars(GradientAgent) | vars(OneOptimizer)) - set(dir(OnPolicyAgent)) | {"optimizer"}
    assert {"learning_rate", "set_learning_rate", "gradient_step", "loss", "make_optimizer"} <= of_a_gradient
    trpo, *_ = lived_in("trpo")
    assert [each for each in of_a_gradient if each in dir(trpo)] == [] and not hasattr(trpo, "learning_rate")
    ppo, *_ = lived_in("ppo")
    assert [each for each in of_a_gradient if not hasattr(ppo, each)] == []


# Methods


def attributes_read(family: type) -> set[str]:
    """Every x that a class reads as `self.x`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(family)))
    reads = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    return {node.attr for node in reads if isinstance(node.value, ast.Name) and node.value.id == "self"}


@pytest.mark.parametrize("name", CLASSES)
def test_every_attribute_that_an_inherited_method_reads_is_there(name):
    agent, *_ = lived_in(name)
    for family in type(agent).__mro__:
        if issubclass(family, HALVES):
            assert [each for each in attributes_read(family) if not hasattr(agent, each)] == [], family


@pytest.mark.parametrize("name", CLASSES)
def test_what_takes_no_argument_can_be_asked(name):
    """Every public property, and every method without arguments of its own, inherited ones included."""
    agent, *_ = lived_in(name)
    asked = []
    for each in (each for each in dir(type(agent)) if not each.startswith("_")):
        value = getattr(agent, each)
        if callable(value) and not inspect.signature(value).parameters:
            value()
            asked.append(each)
    assert {"state_dict", "setup", "fresh_episodes"} <= set(asked)


# `prepare` changes nothing


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("name", ON_POLICY)
def test_prepare_gives_the_same_twice_and_changes_nothing(name, env_id, same):
    agent, env, obs = lived_in(name, env_id, normalize_obs=True, normalize_reward=True)
    assert agent.reward_scaler.stats.count == agent.obs_normalizer.count == 64
    rollout, _ = agent.collect(env, obs)
    before = copy.deepcopy(agent.state_dict())
    first, second = agent.prepare(rollout), agent.prepare(rollout)
    assert same(vars(first), vars(second)) and same(before, agent.state_dict())
    agent.absorb_rewards(rollout)
    assert not same(vars(first), vars(agent.prepare(rollout))), "the scale of the rewards would be seen"


@pytest.mark.parametrize("env_id", WORLDS)
def test_the_e_step_of_vmpo_gives_the_same_twice_and_changes_nothing(env_id, same):
    agent, env, obs = lived_in("vmpo", env_id, act_by="online", importance_clip=1.5, normalize_advantage=True)
    batch = agent.prepare(agent.collect(env, obs)[0])
    before = copy.deepcopy((vars(batch), agent.state_dict()))
    assert same(vars(agent.estep(batch)), vars(agent.estep(batch))) and same(before, (vars(batch), agent.state_dict()))


def test_a_vine_is_prepared_the_same_twice_and_changes_nothing(same):
    vine = {"sampling": "vine", "vine_states": 8, "vine_steps": 4, "normalize_obs": True}
    agent, env, obs = lived_in("trpo", **vine)
    sampled, _ = agent.collect(env, obs)
    before = copy.deepcopy(agent.state_dict())
    assert same(vars(agent.prepare_vine(sampled)), vars(agent.prepare_vine(sampled)))
    assert same(vars(agent.prepare(sampled.trunk)), vars(agent.prepare(sampled.trunk)))
    assert same(before, agent.state_dict())
