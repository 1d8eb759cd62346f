"""`python -m book.results.studies.steps`: four ways to use a rollout on the same tasks: what each one costs and gains.

The plain gradient, the natural gradient and TRPO differ in the step alone: rollouts, advantages and the critic's fit
are those of TRPO's preset. PPO runs by its own preset. The seeds are the same. The KL of every update is judged by
`promise.py`, in float64 NumPy from saved parameters, on the states of the batch and on as many fresh ones
that the old policy met elsewhere. The same command on the same file goes on where it stopped.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from book.results.studies.promise import watched
from book.results.studies.record import asked, read_rows
from minerva_lite.agents.ppo import PPOAgent
from minerva_lite.agents.trpo import TRPOAgent
from minerva_lite.training.evaluation import evaluate
from minerva_lite.training.presets import preset

TASKS = ("Pendulum-v1", "CartPole-v1")
RATES = (0.3, 1.0, 3.0)  # tried for the plain gradient, on seeds that the comparison does not use
TRIED, COMPARED = (100,), (5, 6, 7, 8)
EVERY = 5  # updates between two evaluations of 20 episodes
Name = tuple[str, str, int]  # of a run: task, method, seed


class PlainAgent(TRPOAgent):
    """The plain gradient at a rate that falls to 0: TRPO with the identity for F, and nothing scaled or tested."""

    def fisher_product(self, batch: Any, parameters: Any) -> Any:
        return lambda vector: vector

    def improve(self, rollout: Any, progress: float) -> dict[str, Tensor]:
        kept = self.config
        self.config = replace(kept, natural_step=kept.natural_step * max(1.0 - progress, 1e-6))
        try:
            return super().improve(rollout, progress)
        finally:
            self.config = kept


class Method(NamedTuple):
    agent_class: type
    algorithm: str  # whose preset it starts from
    changes: dict[str, Any]


PLAIN = {
    f"plain {rate:g}": Method(PlainAgent, "trpo", {"step_rule": "fixed", "natural_step": rate, "cg_iterations": 1})
    for rate in RATES
}
METHODS = PLAIN | {
    # One product of conjugate gradient finds the gradient's direction, and the scaling its length on the ellipsoid.
    "plain scaled": Method(TRPOAgent, "trpo", {"step_rule": "natural", "cg_iterations": 1}),
    "natural": Method(TRPOAgent, "trpo", {"step_rule": "natural"}),
    "TRPO": Method(TRPOAgent, "trpo", {}),
    "PPO": Method(PPOAgent, "ppo", {}),
    "TRPO factor 0.8": Method(TRPOAgent, "trpo", {"backtrack": 0.8}),
    "TRPO damping 0.1": Method(TRPOAgent, "trpo", {"damping": 0.1}),  # CartPole's preset has this one
}


class Row(NamedTuple):
    """One update."""

    env_id: str
    method: str
    seed: int
    steps: int  # of the environment, after this update
    kl: float  # mean KL(old || new) over the states of the batch, nats
    fresh_kl: float  # the same over as many states that the old policy met elsewhere, nats
    bound: float  # of this update, nats; 0 where the method has none
    seconds: float  # CPU seconds of all updates so far, on one thread, without collecting
    episodes: int  # of the evaluation after this update, 0 where there was none
    mean: float  # their mean return


def run(env_id: str, name: str, seed: int, updates: int | None = None) -> list[Row]:
    """Train one seed of a method; `updates`: stop after so many."""
    method = METHODS[name]
    settings = preset(method.algorithm, env_id)
    config = replace(settings.config, **method.changes)
    total = -(-settings.total_steps // config.batch_size)
    rows, seconds = [], 0.0
    seen = watched(method.agent_class, config, env_id, min(total, updates or total), seed=seed, total=total)
    for update, (agent, _, figures, taken, _, (kl, fresh_kl)) in enumerate(seen, start=1):
        seconds += taken
        episodes = 100 if update == total else 20 if update % EVERY == 0 else 0
        rows.append(
            Row(
                env_id=env_id,
                method=name,
                seed=seed,
                steps=update * config.batch_size,
                kl=kl,
                fresh_kl=fresh_kl,
                bound=0.0 if method.agent_class is PlainAgent else float(figures.get("kl/bound", 0.0)),
                seconds=seconds,
                episodes=episodes,
                mean=evaluate(agent, episodes=episodes)["eval/mean"] if episodes else 0.0,
            )
        )
    return rows


def trials() -> list[Name]:
    """The runs that decide which rate the plain gradient is compared with."""
    return list(itertools.product(TASKS, PLAIN, TRIED))


def best_rate(env_id: str, final: Mapping[Name, float]) -> str:
    """The plain gradient's method whose worst trial was best, `final` being each run's mean return."""
    return max(PLAIN, key=lambda name: min(final[env_id, name, seed] for seed in TRIED))


def comparison(final: Mapping[Name, float]) -> list[Name]:
    """The runs that are compared, seed by seed, once the trials are done."""
    rest = [name for name in METHODS if name not in PLAIN]
    names = {env_id: [best_rate(env_id, final), *rest] for env_id in TASKS}
    names["CartPole-v1"] = names["CartPole-v1"][:-2]  # the last two are about what Pendulum's preset leaves unspent
    return [(env_id, name, seed) for seed in COMPARED for env_id in TASKS for name in names[env_id]]


def finals(path: Path) -> dict[Name, float]:
    """The final mean return of each run that the file holds."""
    rows = [row for row in read_rows(path) if row["episodes"] == "100"]
    return {(row["env_id"], row["method"], int(row["seed"])): float(row["mean"]) for row in rows}


if __name__ == "__main__":
    most = {"type": int, "default": sys.maxsize, "help": "runs of this call; the next one goes on"}
    record, options = asked(__spec__.name, __doc__, Row, digits=4, most=most)
    run(TASKS[0], "TRPO", 0, updates=1)  # what PyTorch does once should not count
    for _ in range(options.most):
        held = finals(options.out)
        left = [each for each in trials() if each not in held]
        left = left or [each for each in comparison(held) if each not in held]
        if not left:
            break
        start, rows = time.perf_counter(), run(*left[0])
        record.add(rows)
        told = f"{rows[-1].mean:.0f}, {rows[-1].seconds:.1f} CPU s of updates"
        print(*left[0], told, f"{time.perf_counter() - start:.0f} s", flush=True)
