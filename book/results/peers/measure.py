"""What both sides of the race share: threads, clock, cadence and evaluation. Imports neither side's library."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import torch

EVAL_EVERY = 4096  # environment steps
EVAL_EPISODES = 20
FINAL_EPISODES = 100
EVAL_SEED = 10_000  # of the first episode; the next ones count up, as in `minerva_lite.evaluate`

Row = tuple[int, float, float, int, float]  # environment steps, seconds, CPU seconds, episodes, mean return


def task(*options: str) -> argparse.Namespace:
    """The command line of one run: --algorithm, --env, --seed and `options`; one thread from here on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--seed", type=int, required=True)
    for option in options:
        parser.add_argument(option, required=True)
    torch.set_num_threads(1)
    return parser.parse_args()


def report(rows: list[Row], *packages: str) -> None:
    """Print the run as the one line of JSON that the bench reads."""
    versions = {name: version(name) for name in ("torch", "gymnasium", "numpy", *packages)}
    print(json.dumps({"versions": {"python": platform.python_version()} | versions, "rows": rows}), flush=True)


def speed_task(*options: str) -> argparse.Namespace:
    """The command line of one run of the throughput table: --task and `options`; one thread from here on."""
    parser = argparse.ArgumentParser()
    for option in ("--task", *options):
        parser.add_argument(option, required=True)
    torch.set_num_threads(1)
    return parser.parse_args()


def report_speed(run: tuple[int, float, float], *packages: str) -> None:
    """Print steps, seconds and CPU seconds as the one line of JSON that the bench reads."""
    versions = {name: version(name) for name in ("torch", "gymnasium", "numpy", *packages)}
    told = dict(zip(("steps", "seconds", "cpu_seconds"), run, strict=True))
    print(json.dumps({"versions": {"python": platform.python_version()} | versions} | told), flush=True)


class Clock:
    """Seconds and CPU seconds since it was made, less what it was told to leave out.

    Torch imports a second's worth of modules at its first optimizer step: that is done before the clock starts.
    """

    def __init__(self) -> None:
        parameter = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.Adam([parameter])
        parameter.sum().backward()
        optimizer.step()
        self.start = self.now()

    @staticmethod
    def now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        return tuple(now - start for now, start in zip(self.now(), self.start, strict=True))

    def leave_out(self, since: tuple[float, float]) -> None:
        """Forget what has passed since `since`, a reading of `now`: the start moves by as much."""
        passed = (now - then for now, then in zip(self.now(), since, strict=True))
        self.start = tuple(start + gap for start, gap in zip(self.start, passed, strict=True))


class Cadence:
    """Due after the first update past each multiple of `every` steps, as in `minerva_lite.train`."""

    def __init__(self, every: int) -> None:
        self.every, self.next = every, every

    def due(self, steps: int) -> bool:
        if steps < self.next:
            return False
        self.next = (steps // self.every + 1) * self.every
        return True


def evaluate(policy: Callable[[np.ndarray], np.ndarray], env_id: str, episodes: int) -> float:
    """Mean return of `episodes` whole episodes on the official environment; policy: obs [N, O] to actions [N, ...].

    What `minerva_lite.evaluate` measures, without its package: the test beside this file holds them equal.
    """
    import gymnasium as gym  # here, because the environment of the race on language models has none

    envs = [gym.make(env_id) for _ in range(episodes)]
    obs = [env.reset(seed=EVAL_SEED + i)[0] for i, env in enumerate(envs)]
    total, alive = np.zeros(episodes), list(range(episodes))
    while alive:
        actions = policy(np.stack([obs[i] for i in alive]))
        going = []
        for i, action in zip(alive, actions, strict=True):
            obs[i], reward, terminated, truncated, _ = envs[i].step(action)
            total[i] += reward
            if not (terminated or truncated):
                going.append(i)
        alive = going
    for env in envs:
        env.close()
    return float(total.mean())
