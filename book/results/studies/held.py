"""The mountain car with every push held for some steps: `book.results.studies.held:HeldMountainCar-v0`.

`python -m book.results.studies.search ALGORITHM held` trains an agent on it. To the agent a step is a decision: it
sees the car when a push has ended, and is paid what the steps of the push paid together.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

HOLD = 4  # steps of the car
CAR = "MountainCarContinuous-v0"


class Held(gym.Wrapper):
    """Each action is taken `hold` times, or until the episode ends."""

    def __init__(self, env: gym.Env, hold: int = HOLD) -> None:
        super().__init__(env)
        self.hold = hold

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One decision: the last observation, the sum of the rewards, and how the episode stands."""
        total = 0.0
        for _ in range(self.hold):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


def made() -> gym.Env:
    """The environment with its own time limit, in steps of the car."""
    return Held(gym.make(CAR))


gym.register("HeldMountainCar-v0", entry_point=f"{__name__}:made")
