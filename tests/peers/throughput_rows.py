"""The rows of the throughput table: what every library does alike. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """PPO on one task: networks of two tanh layers of 64 units, Adam, advantages normalized, one thread."""

    env_id: str
    num_envs: int
    rollout: int  # environment steps of an update, over all environments
    minibatch: int
    epochs: int
    gamma: float
    lam: float
    learning_rate: float
    normalize: bool = False  # observations (and rewards, where the library can) by running statistics
    updates: int = 10

    @property
    def total_steps(self) -> int:
        return self.rollout * self.updates

    @property
    def rollout_steps(self) -> int:
        """Steps of each environment."""
        return self.rollout // self.num_envs


TASKS = {
    **{
        f"pendulum-{n}": Task("Pendulum-v1", n, 2048, 64, 10, gamma=0.9, lam=0.95, learning_rate=1e-3)
        for n in (4, 16, 64)
    },
    "cartpole-8": Task("CartPole-v1", 8, 256, 256, 20, gamma=0.98, lam=0.8, learning_rate=1e-3, updates=100),
    "halfcheetah-4": Task("HalfCheetah-v5", 4, 2048, 64, 10, gamma=0.99, lam=0.95, learning_rate=3e-4, normalize=True),
}
