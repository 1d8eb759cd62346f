"""Settings for environments without a preset: which family is taken, and that it fits the episodes."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import pytest

from minerva_lite import make_env
from minerva_lite.agents import AGENTS
from minerva_lite.training.defaults import FAMILIES, defaults_for, facts, settings_for
from minerva_lite.training.presets import BODY, HUMANOID, PRESETS
from tests.living import STEPPERS


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


@pytest.mark.parametrize("env_id", ["Acrobot-v1", "MountainCarContinuous-v0", "Swimmer-v5"])
@pytest.mark.parametrize("algorithm", STEPPERS)
def test_an_agent_by_defaults_acts_and_its_budget_is_whole_rollouts(algorithm, env_id):
    settings, (agent, config) = settings_for(algorithm, env_id), AGENTS[algorithm]
    assert type(settings.config) is config and settings.total_steps % settings.config.batch_size == 0
    if algorithm == "ppo":
        assert settings.config.batch_size % settings.config.minibatch_size == 0, "no minibatch is a remainder"
    env = make_env(env_id, 2)
    action, _ = agent(settings.config, env.spec, device="cpu").act(env.reset())
    assert len(action) == 2


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
        assert settings_for(*pair) is kept and not kept.family


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
