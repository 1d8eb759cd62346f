"""One run of Stable-Baselines3 (for TRPO its contrib package) with the tuned settings of its zoo, in the peers' own
environment.

Settings: rl-baselines3-zoo, hyperparams/{ppo,trpo,a2c}.yml. A2C's budget is ours, since five times as many steps as
either side needs would measure nothing more.
"""

from __future__ import annotations

import numpy as np
from sb3_contrib import TRPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from .measure import EVAL_EPISODES, EVAL_EVERY, FINAL_EPISODES, Cadence, Clock, Row, evaluate, report, task

# Environments side by side, budget in environment steps, and the zoo's settings.
MODELS = {"ppo": PPO, "trpo": TRPO, "a2c": A2C}
ZOO = {
    ("ppo", "Pendulum-v1"): (4, 100_000, {
        "n_steps": 1024, "batch_size": 64, "n_epochs": 10, "gamma": 0.9, "gae_lambda": 0.95, "ent_coef": 0.0,
        "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4,
    }),
    ("ppo", "CartPole-v1"): (8, 100_000, {
        "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8, "ent_coef": 0.0,
        "learning_rate": lambda left: 1e-3 * left, "clip_range": lambda left: 0.2 * left,
    }),
    ("trpo", "Pendulum-v1"): (2, 100_000, {
        "n_steps": 1024, "gamma": 0.9, "n_critic_updates": 15, "use_sde": True, "sde_sample_freq": 4,
    }),
    ("trpo", "CartPole-v1"): (2, 100_000, {
        "n_steps": 512, "batch_size": 512, "cg_damping": 1e-3, "gae_lambda": 0.98, "gamma": 0.99,
        "learning_rate": 1e-3, "n_critic_updates": 20,
    }),
    ("a2c", "CartPole-v1"): (8, 200_000, {"ent_coef": 0.0}),
}  # fmt: skip


class Watch(BaseCallback):
    """Evaluates between two updates, off the clock."""

    def __init__(self, env_id: str, clock: Clock) -> None:
        super().__init__()
        self.env_id, self.clock, self.cadence = env_id, clock, Cadence(EVAL_EVERY)
        self.rows: list[Row] = []

    def policy(self, obs: np.ndarray) -> np.ndarray:
        return self.model.predict(obs, deterministic=True)[0]

    def _on_rollout_start(self) -> None:  # after the update on the rollout before
        if self.cadence.due(self.num_timesteps):
            self.look(EVAL_EPISODES)

    def _on_training_end(self) -> None:
        self.look(EVAL_EPISODES)
        self.look(FINAL_EPISODES)

    def _on_step(self) -> bool:
        return True

    def look(self, episodes: int) -> None:
        seconds, began = self.clock.seconds(), self.clock.now()
        mean = evaluate(self.policy, self.env_id, episodes)
        self.clock.leave_out(began)
        self.rows.append((self.num_timesteps, *seconds, episodes, mean))


def run(algorithm: str, env_id: str, seed: int) -> list[Row]:
    """Train to the end of the budget: a row an evaluation, the last over more episodes."""
    num_envs, total_steps, settings = ZOO[algorithm, env_id]
    clock = Clock()
    env = make_vec_env(env_id, n_envs=num_envs, seed=seed)
    model = MODELS[algorithm]("MlpPolicy", env, seed=seed, device="cpu", **settings)
    watch = Watch(env_id, clock)
    model.learn(total_steps, callback=watch)
    return watch.rows


if __name__ == "__main__":
    args = task(algorithm=str, env=str, seed=int)
    report({"rows": run(args.algorithm, args.env, args.seed)}, "stable-baselines3", "sb3-contrib")
