"""`python -m book.results.peers.step_cost`: microseconds of PPO's parts as the agent really runs them, on one thread.

A minibatch step (loss, backward, clipping, Adam) is what an update takes longer when it makes more of them: the
difference between updates of `MANY` and of `FEW` epochs, per step between them. So it includes its share of the
shuffling, and follows whatever `PPOAgent.update` does. What is left of an update (checks, advantages, diagnostics)
is shown beside it. Every figure is CPU time, and of several repeats the least: the one that was disturbed least.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from minerva_lite import PPOAgent, make_env, preset
from minerva_lite.experience.rollout import Rollout, collect

ROWS = (64, 256, 512, 2048)
FEW, MANY, REPEATS = 1, 6, 9


def least(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """CPU microseconds of the fastest of `repeats` calls, after one that is not counted."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return 1e6 * min(taken)


def agent_with(env_id: str, epochs: int, rows: int) -> PPOAgent:
    """The preset's agent for 32 x 64 steps; by its tiny learning rate no update changes what the next one costs."""
    config = replace(
        preset("ppo", env_id).config,
        num_envs=32, rollout_steps=64, minibatch_size=rows, epochs=epochs, learning_rate=1e-9,
    )  # fmt: skip
    return PPOAgent(config, make_env(env_id).spec, device="cpu")


def some_rollout(agent: PPOAgent, env_id: str, backend: str = "torch") -> tuple[Rollout, Callable[[], Any]]:
    """A rollout of the agent, and the work of collecting one."""
    env = make_env(env_id, agent.config.num_envs, backend=backend)
    obs = env.reset()

    def work() -> Any:
        return collect(agent, env, obs, agent.config.rollout_steps)

    return work()[0], work


def top(work: Callable[[], Any], times: int) -> str:
    """The ten operators that `work` spends most of its own time in."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(times):
            work()
    return profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=10, max_name_column_width=40)


def main() -> None:
    torch.set_num_threads(1)
    for env_id in ("Pendulum-v1", "CartPole-v1"):
        agent = agent_with(env_id, FEW, 64)
        rollout, _ = some_rollout(agent, env_id)
        size = agent.config.batch_size
        print(f"{env_id}: updates on {size} rows, microseconds")
        print(f"{'rows':>6}{'minibatch step':>16}{'per row':>9}{'rest of an update':>19}")
        for rows in ROWS:
            few, many = (least(partial(agent_with(env_id, epochs, rows).update, rollout)) for epochs in (FEW, MANY))
            step = (many - few) / ((MANY - FEW) * size / rows)
            print(f"{rows:>6}{step:>16.0f}{step / rows:>9.2f}{few - FEW * size / rows * step:>19.0f}")
        for backend in ("torch", "gymnasium"):
            cost = least(some_rollout(agent, env_id, backend)[1], 5)
            print(
                f"collect on {backend:9} {agent.config.num_envs} environments: {cost / size:6.2f} an environment step"
            )
        print()
    agent = agent_with("Pendulum-v1", 5, 64)
    rollout, work = some_rollout(agent, "Pendulum-v1")
    print(f"Five epochs of 64-row steps on Pendulum-v1:\n{top(lambda: agent.update(rollout), 2)}")
    print(f"Collecting {size} steps of Pendulum-v1 on torch:\n{top(work, 2)}")


if __name__ == "__main__":
    main()
