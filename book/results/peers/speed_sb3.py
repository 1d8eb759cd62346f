"""Steps a second of Stable-Baselines3's PPO, or its contrib package's TRPO, on one row of the throughput table."""

from __future__ import annotations

from sb3_contrib import TRPO
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from .measure import Clock, report_speed, task
from .throughput_rows import TASKS, Task


def run(task: Task) -> tuple[int, float, float]:
    """Environment steps, seconds, CPU seconds; building is counted."""
    clock = Clock()
    env = make_vec_env(task.env_id, n_envs=task.num_envs, seed=0)
    if task.normalize:
        env = VecNormalize(env, gamma=task.gamma)
    make, own = {
        "ppo": (PPO, {"n_epochs": task.epochs}),
        "trpo": (TRPO, {"n_critic_updates": task.epochs, "target_kl": 0.01, "cg_damping": 0.1, "cg_max_steps": 15}),
    }[task.algorithm]
    model = make(
        "MlpPolicy",
        env,
        n_steps=task.rollout_steps,
        batch_size=task.minibatch,
        gamma=task.gamma,
        gae_lambda=task.lam,
        learning_rate=task.learning_rate,
        seed=0,
        device="cpu",
        **own,
    )
    model.learn(task.total_steps)
    return model.num_timesteps, *clock.seconds()


if __name__ == "__main__":
    report_speed(run(TASKS[task(task=TASKS).task]), "stable-baselines3", "sb3-contrib")
