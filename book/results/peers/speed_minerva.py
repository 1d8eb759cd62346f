"""Steps a second of this package's PPO or TRPO on one row of the throughput table, or of its preset for the task."""

from __future__ import annotations

from minerva_lite import PPOConfig, TRPOConfig, make_env, preset, train
from minerva_lite.agents import AGENTS

from .measure import Clock, report_speed, task
from .throughput_rows import TASKS, Task


def config_of(task: Task) -> PPOConfig | TRPOConfig:
    """The same numbers as everybody's."""
    shared = {
        "num_envs": task.num_envs,
        "rollout_steps": task.rollout_steps,
        "gamma": task.gamma,
        "lam": task.lam,
        "normalize_obs": task.normalize,
        "normalize_reward": task.normalize,
    }
    if task.algorithm == "ppo":
        own = {"minibatch_size": task.minibatch, "epochs": task.epochs, "learning_rate": task.learning_rate}
        return PPOConfig(**shared, **own, anneal_lr=False)
    own = {
        "value_minibatch": task.minibatch,
        "value_iterations": task.epochs,
        "value_learning_rate": task.learning_rate,
    }
    step = {"kl_bound": 0.01, "damping": 0.1, "cg_iterations": 15, "max_trials": 10, "backtrack": 0.8}
    return TRPOConfig(**shared, **own, **step, value_fit="adam")


def run(task: Task, backend: str, settings: str) -> tuple[int, float, float]:
    """Environment steps, seconds, CPU seconds; building is counted, the evaluation that ends a training is not."""
    config = config_of(task) if settings == "task" else preset(task.algorithm, task.env_id).config
    total = max(1, task.total_steps // config.batch_size) * config.batch_size
    done: list[tuple[int, float, float]] = []
    clock = Clock()
    env = make_env(task.env_id, config.num_envs, backend=backend)
    agent = AGENTS[task.algorithm][0](config, env.spec, device="cpu")

    def watch(row: dict[str, float]) -> None:
        if "eval/mean" not in row:
            done.append((row["steps"], *clock.seconds()))

    train(agent, env, total, eval_every=2 * total, eval_episodes=1, progress=False, callback=watch)
    return done[-1]


if __name__ == "__main__":
    args = task(task=TASKS, backend=str, settings=str)
    report_speed(run(TASKS[args.task], args.backend, args.settings))
