"""Presets: found by name, refused by name, complete, and fit to be trained."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import gymnasium as gym
import pytest

from minerva_lite import make_env, preset
from minerva_lite.agents import AGENTS
from minerva_lite.training.defaults import FAMILIES, defaults_for, facts, settings_for
from minerva_lite.training.presets import BODY, HUMANOID, PRESETS
from minerva_lite.training.presets import TASKS as TABLE
from minerva_lite.training.reached import reached
from tests.living import STEPPERS

# What is promised: every algorithm of the book on each of these. All but the first three share a family of settings.
BOOK = ("reinforce", "a2c", "trpo", "ppo", "mpo", "vmpo")
TASKS = [
    *("Pendulum-v1", "CartPole-v1", "LunarLander-v3"),
    *("HalfCheetah-v5", "Walker2d-v5", "Hopper-v5", "Humanoid-v5", "Ant-v5"),
    *("dm_control/cheetah/run", "dm_control/walker/walk", "dm_control/walker/run"),
    *("dm_control/humanoid/stand", "dm_control/humanoid/walk", "dm_control/humanoid/run"),
]


@cache
def one(env_id: str):
    """The spec of an environment, and one of its observations."""
    env = make_env(env_id)
    return env.spec, env.reset()


def test_the_promised_table_is_complete():
    assert {(algorithm, env_id) for algorithm in BOOK for env_id in TASKS} - set(PRESETS) == set()


def test_the_table_is_sorted_by_task_and_then_as_the_agents_are_listed():
    assert list(PRESETS) == [(name, env_id) for env_id in TABLE for name in AGENTS if name in TABLE[env_id]]


def test_a_preset_is_untrained_exactly_where_no_run_of_it_is_recorded():
    assert {pair for pair, settings in PRESETS.items() if settings.untrained} == set(PRESETS) - set(reached())


FREE = [(name, env_id) for env_id in ("Acrobot-v1", "MountainCarContinuous-v0", "Swimmer-v5") for name in STEPPERS]


@pytest.mark.parametrize("key", dict.fromkeys([*PRESETS, *FREE]), ids="-".join)
def test_each_preset_fits_its_environment(key):
    """So do the defaults of a family where there is none."""
    settings, (agent, config) = settings_for(*key), AGENTS[key[0]]
    assert type(settings.config) is config and settings.total_steps >= settings.config.batch_size
    if settings.family or not getattr(settings.config, "whole_episodes", False):
        assert settings.total_steps % settings.config.batch_size == 0, "the budget is whole rollouts"
    if settings.family and key[0] == "ppo":
        assert settings.config.batch_size % settings.config.minibatch_size == 0, "no minibatch is a remainder"
    spec, obs = one(key[1])
    agent(settings.config, spec, device="cpu").act(obs)


@pytest.mark.parametrize("key", [("ppo", "Pong-v0"), ("sac", "Pendulum-v1")])
def test_a_missing_preset_lists_those_kept(key):
    told = rf"^preset: wanted one of: .*ppo on Pendulum-v1.*; got {key[0]} on {key[1]}, for which "
    with pytest.raises(ValueError, match=told):
        preset(*key)


# Environments without one: which family is taken, and that it fits the episodes


@pytest.fixture
def own(registries):
    """Some of a user's own: bodies without a preset, and what nobody registered is how long an episode lasts."""
    for name, limit in (("Own-v0", None), ("Own50-v0", 50), ("Own9000-v0", 9000)):
        gym.register(name, gym.registry["Swimmer-v5"].entry_point, max_episode_steps=limit)


@pytest.mark.parametrize(
    ("env_id", "family", "time_limit", "rollout", "num_envs"),
    [
        ("Own50-v0", "body", 50, 64, 32),
        ("Acrobot-v1", "discrete", 500, 64, 32),
        ("MountainCarContinuous-v0", "control", 999, 128, 16),
        ("Own-v0", "body", None, 128, 16),
        ("HumanoidStandup-v5", "humanoid", 1000, 128, 16),
        ("BipedalWalker-v3", "body", 1600, 256, 8),
        ("Own9000-v0", "body", 9000, 512, 4),
    ],
)
def test_spaces_and_time_limit_choose_the_family_and_a_rollout_holds_a_good_part_of_an_episode(
    env_id, family, time_limit, rollout, num_envs, own
):
    assert facts(env_id) == (family, time_limit)
    settings = {algorithm: defaults_for(algorithm, env_id) for algorithm in STEPPERS}
    assert {each.family for each in settings.values()} == {family}
    lengths = {algorithm: (each.config.rollout_steps, each.config.num_envs) for algorithm, each in settings.items()}
    assert lengths["trpo"] == lengths["ppo"] == lengths["vmpo"] == (rollout, num_envs)
    assert settings["reinforce"].config.whole_episodes and lengths["reinforce"][0] == (time_limit or 1000)
    assert lengths["a2c"][0] == lengths["mpo"][0] == 8


def test_every_family_has_every_algorithm_and_bodies_are_those_of_the_presets():
    steps = {name: family for name, family in FAMILIES.items() if name != "tokens"}
    assert list(FAMILIES["tokens"]) == ["sequence"], "which no other agent can act in"
    assert all(list(family) == list(STEPPERS) for family in steps.values())
    assert FAMILIES["body"] is BODY and FAMILIES["humanoid"] is HUMANOID
    assert all(PRESETS[algorithm, "Ant-v5"].config == BODY[algorithm].config for algorithm in BODY), "as it is told"
    ours = settings_for("ppo", "Swimmer-v5")
    assert replace(ours, family="") == BODY["ppo"], "at the time limit of the ant nothing differs"
    for name in ("discrete", "control"):
        configs = {algorithm: settings.config for algorithm, settings in FAMILIES[name].items()}
        assert {algorithm for algorithm, config in configs.items() if not config.normalize_obs} == {"mpo"}
        assert {config.gamma for config in configs.values()} == {0.99}


def test_a_preset_comes_first_and_makes_no_environment(monkeypatch):
    monkeypatch.setattr("minerva_lite.training.defaults.make_env", None)
    for pair, kept in PRESETS.items():
        assert settings_for(*pair) is preset(*pair) is kept and not kept.family


def test_the_defaults_of_a_family_are_to_be_had_where_a_preset_is_kept_too():
    kept, ours = (make("trpo", "MountainCarContinuous-v0") for make in (settings_for, defaults_for))
    assert ours.family == "control" and (kept.config.log_std_init, ours.config.log_std_init) == (2.0, 0.0)
    assert replace(kept.config, log_std_init=0.0) == ours.config, "which is all that the search changed"


def test_an_algorithm_of_ones_own_has_its_own_defaults(monkeypatch):
    monkeypatch.setitem(AGENTS, "mine", AGENTS["trpo"])
    settings = settings_for("mine", "Acrobot-v1")
    assert settings.config == AGENTS["trpo"][1]() and settings.family == "TRPOConfig's own"
    with pytest.raises(ValueError, match="algorithm: wanted one of reinforce, .*; got 'yours'"):
        settings_for("yours", "Acrobot-v1")
