"""The rows of the throughput table: what every library does alike. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """PPO or TRPO on one task: two networks of two tanh layers of 64 units, Adam, advantages normalized, one thread.

    Of TRPO minibatch and epochs are those of its critic's fit; its step has a bound of 0.01, a damping of 0.1, 15
    iterations of conjugate gradient and at most 10 trials, each 0.8 of the one before.
    """

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
    algorithm: str = "ppo"

    @property
    def total_steps(self) -> int:
        return self.rollout * self.updates

    @property
    def rollout_steps(self) -> int:
        """Steps of each environment."""
        return self.rollout // self.num_envs


BODIES = ("HalfCheetah-v5", "Hopper-v5")
TASKS = {
    **{
        f"pendulum-{n}": Task("Pendulum-v1", n, 2048, 64, 10, gamma=0.9, lam=0.95, learning_rate=1e-3)
        for n in (4, 16, 64)
    },
    "cartpole-8": Task("CartPole-v1", 8, 256, 256, 20, gamma=0.98, lam=0.8, learning_rate=1e-3, updates=100),
    **{
        f"{env_id.partition('-')[0].lower()}-4": Task(
            env_id, 4, 2048, 64, 10, gamma=0.99, lam=0.95, learning_rate=3e-4, normalize=True
        )
        for env_id in BODIES
    },
    **{
        f"trpo-{env_id.partition('-')[0].lower()}-2": Task(
            env_id, 2, 2048, 128, 20, gamma=0.99, lam=0.95, learning_rate=1e-3, normalize=True, algorithm="trpo"
        )
        for env_id in BODIES
    },
}
