"""Presets: found by name, refused by name, and fit to be trained."""

from __future__ import annotations

import pytest

from minerva_lite import make_env, preset
from minerva_lite.agents import AGENTS
from minerva_lite.presets import PRESETS


@pytest.mark.parametrize("key", sorted(PRESETS), ids="-".join)
def test_each_preset_fits_its_environment(key):
    settings, (agent, config) = preset(*key), AGENTS[key[0]]
    assert settings is PRESETS[key] and type(settings.config) is config
    assert settings.total_steps >= settings.config.batch_size
    if not getattr(settings.config, "whole_episodes", False):  # an off-policy agent has no such thing
        assert settings.total_steps % settings.config.batch_size == 0, "the budget is whole rollouts"
    env = make_env(key[1], settings.config.num_envs)
    assert agent(settings.config, env.spec, device="cpu").act(env.reset())[0].shape[0] == settings.config.num_envs


def test_the_two_tasks_of_the_book_are_kept():
    assert {("ppo", "Pendulum-v1"), ("ppo", "CartPole-v1")} <= set(PRESETS)


@pytest.mark.parametrize("key", [("ppo", "Pong-v0"), ("sac", "Pendulum-v1")])
def test_a_missing_preset_lists_those_kept(key):
    with pytest.raises(ValueError, match=rf"^preset: wanted one of: .*ppo on Pendulum-v1.*; got {key[0]} on {key[1]}$"):
        preset(*key)
