"""`python -m book.results.studies.memory`: how much memory each agent's training takes, beside what importing takes.

Every row is a process of its own, which trains a preset for `STEPS` steps on the CPU. Resident memory is read before
the agent is made and at its highest. So the difference holds networks, optimizers, rollouts or replay, and whatever
the first update loads; how full a replay buffer gets afterward does not matter, because its room is taken when it is
made.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import NamedTuple

import torch

from book.results.studies.record import asked
from minerva_lite import make_env, preset, train
from minerva_lite.agents import AGENTS
from minerva_lite.agents.base import Agent

STEPS = 8_192
NAMES = ("reinforce", "a2c", "trpo", "ppo", "mpo", "vmpo")
TASKS = ("Pendulum-v1", "HalfCheetah-v5")


class Row(NamedTuple):
    """One process."""

    env_id: str
    agent: str
    before: float  # MB, resident, with everything imported and the environment made
    highest: float  # MB, of the whole process
    weights: int  # numbers in all networks of the agent, target networks too


def highest() -> float:
    """The highest resident memory of this process so far, MB. Windows has no `resource`."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def weights_of(agent: Agent) -> int:
    """Numbers in all networks of an agent, each counted once."""
    networks = [part for part in vars(agent).values() if isinstance(part, torch.nn.Module)]
    return sum({id(each): each.numel() for network in networks for each in network.parameters()}.values())


def train_here(name: str, env_id: str, steps: int) -> None:
    """Train in this process, and print what it took as JSON."""
    torch.set_num_threads(1)
    settings = preset(name, env_id)
    env = make_env(env_id, settings.config.num_envs, seed=0)
    before = highest()
    agent = AGENTS[name][0](settings.config, env.spec, seed=0, device="cpu")
    train(agent, env, max(steps, settings.config.batch_size), progress=False, eval_every=10**9, eval_episodes=1)
    print(json.dumps({"before": before, "highest": highest(), "weights": weights_of(agent)}))


def run(name: str, env_id: str, steps: int = STEPS) -> list[Row]:
    """Train in a process of its own; its one row. Raises CalledProcessError: it failed."""
    work = f"from book.results.studies.memory import train_here; train_here({name!r}, {env_id!r}, {steps})"
    done = subprocess.run([sys.executable, "-c", work], check=True, capture_output=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return [Row(env_id, name, told["before"], told["highest"], told["weights"])]


if __name__ == "__main__":
    record, _ = asked(__spec__.name, __doc__, Row, digits=5)
    record.fill(((env_id, name), partial(run, name, env_id)) for env_id in TASKS for name in NAMES)
