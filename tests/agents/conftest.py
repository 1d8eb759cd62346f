"""What the tests of agents share: an environment with any spaces."""

from __future__ import annotations

import gymnasium as gym
import pytest


class AnyEnv(gym.Env):
    """Observations and actions of any kind."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.fixture
def register(monkeypatch):
    """Gives ToyAny-v0 its spaces."""

    def register(observed, actions):
        spec = gym.envs.registration.EnvSpec("ToyAny-v0", entry_point=lambda: AnyEnv(observed, actions))
        monkeypatch.setitem(gym.registry, "ToyAny-v0", spec)

    return register
