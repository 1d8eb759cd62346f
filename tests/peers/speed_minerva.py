"""Steps a second of this package's PPO on one row of the throughput table, or of its preset for the row's task."""

from __future__ import annotations

from minerva_lite import PPOAgent, PPOConfig, make_env, preset, train

from .measure import Clock, report_speed, speed_task
from .throughput_rows import TASKS, Task


def config_of(task: Task) -> PPOConfig:
    """The same numbers as everybody's."""
    return PPOConfig(
        num_envs=task.num_envs,
        rollout_steps=task.rollout_steps,
        minibatch_size=task.minibatch,
        epochs=task.epochs,
        gamma=task.gamma,
        lam=task.lam,
        learning_rate=task.learning_rate,
        anneal_lr=False,
        normalize_obs=task.normalize,
        normalize_reward=task.normalize,
    )


def run(task: Task, backend: str, settings: str) -> tuple[int, float, float]:
    """Environment steps, seconds, CPU seconds; building is counted, the evaluation that ends a training is not."""
    config = config_of(task) if settings == "task" else preset("ppo", task.env_id).config
    total = max(1, task.total_steps // config.batch_size) * config.batch_size
    done: list[tuple[int, float, float]] = []
    clock = Clock()
    env = make_env(task.env_id, config.num_envs, backend=backend)
    agent = PPOAgent(config, env.spec, device="cpu")

    def watch(row: dict[str, float]) -> None:
        if "eval/mean" not in row:
            done.append((row["steps"], *clock.seconds()))

    train(agent, env, total, eval_every=2 * total, eval_episodes=1, progress=False, callback=watch)
    return done[-1]


if __name__ == "__main__":
    args = speed_task("--backend", "--settings")
    report_speed(run(TASKS[args.task], args.backend, args.settings))
