"""A worked example of a task of one's own, for `train ppo --env tests.examples.thermostat:Thermostat-v0`.

Gymnasium imports the module before the colon, and importing it registers the task.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Thermostat(gym.Env[np.ndarray, np.int64]):
    """A room that loses heat to the weather, and a heater of four powers; 20 degrees are wanted, power has a price."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)  # room, weather
    action_space = gym.spaces.Discrete(4)  # 0, 1, 2 or 3 kilowatts

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.room, self.weather = self.np_random.uniform(5.0, 30.0), self.np_random.uniform(-10.0, 20.0)
        return self.observed(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.weather += self.np_random.normal(0.0, 0.3)
        self.room += 0.1 * (self.weather - self.room) + 1.5 * float(action)
        reward = -abs(self.room - 20.0) - 0.1 * float(action)
        return self.observed(), reward, False, False, {}

    def observed(self) -> np.ndarray:
        return np.array([self.room - 20.0, self.weather - 20.0], np.float32) / 10.0


gym.register("Thermostat-v0", entry_point=Thermostat, max_episode_steps=100)
