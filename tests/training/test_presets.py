"""Presets: found by name, refused by name, complete, and fit to be trained."""

from __future__ import annotations

from functools import cache

import pytest

from minerva_lite import make_env, preset
from minerva_lite.agents import AGENTS
from minerva_lite.training.presets import PRESETS
from minerva_lite.training.presets import TASKS as TABLE
from minerva_lite.training.reached import reached

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


@pytest.mark.parametrize("key", sorted(PRESETS), ids="-".join)
def test_each_preset_fits_its_environment(key):
    settings, (agent, config) = preset(*key), AGENTS[key[0]]
    assert settings is PRESETS[key] and type(settings.config) is config
    assert settings.total_steps >= settings.config.batch_size
    if not getattr(settings.config, "whole_episodes", False):  # an off-policy agent has no such thing
        assert settings.total_steps % settings.config.batch_size == 0, "the budget is whole rollouts"
    spec, obs = one(key[1])
    agent(settings.config, spec, device="cpu").act(obs)


@pytest.mark.parametrize("key", [("ppo", "Pong-v0"), ("sac", "Pendulum-v1")])
def test_a_missing_preset_lists_those_kept(key):
    with pytest.raises(ValueError, match=rf"^preset: wanted one of: .*ppo on Pendulum-v1.*; got {key[0]} on {key[1]}$"):
        preset(*key)
