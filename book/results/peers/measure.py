"""What both sides of the race share: threads, clock, cadence and evaluation. Imports neither side's library."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

EVAL_EVERY = 4096  # environment steps
EVAL_EPISODES = 20
FINAL_EPISODES = 100
EVAL_SEED = 10_000  # of the first episode; the next ones count up, as in `minerva_lite.evaluate`

Row = tuple[int, float, float, int, float]  # environment steps, seconds, CPU seconds, episodes, mean return


def task(**wanted: Any) -> argparse.Namespace:
    """The command line of one run, whole: each option's type, or what it may be; one thread from here on."""
    parser = argparse.ArgumentParser()
    for name, kind in wanted.items():
        parser.add_argument(f"--{name}", required=True, **{"type" if callable(kind) else "choices": kind})
    torch.set_num_threads(1)
    return parser.parse_args()


def report(told: Mapping[str, Any], *packages: str, always: tuple[str, ...] = ("torch", "gymnasium", "numpy")) -> None:
    """Print what a run told, and the versions it ran on, as the one line of JSON that the bench reads."""
    versions = {name: version(name) for name in (*always, *packages)}
    print(json.dumps({"versions": {"python": platform.python_version()} | versions} | told), flush=True)


def report_speed(run: tuple[int, float, float], *packages: str) -> None:
    """The same of a run of the throughput table: its steps, seconds and CPU seconds."""
    report(dict(zip(("steps", "seconds", "cpu_seconds"), run, strict=True)), *packages)


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
