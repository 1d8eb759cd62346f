"""`python -m tests.studies.memory`: how much memory each agent's training takes, beside what importing takes.

Every row is a process of its own, which trains a preset for `STEPS` steps on the CPU. Resident memory is read before
the agent is made and at its highest. So the difference holds networks, optimizers, rollouts or replay, and whatever
the first update loads; how full a replay buffer gets afterward does not matter, because its room is taken when it is
made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.studies.record import Record

PATH = Path(__file__).parents[2] / "book" / "results" / "memory.csv"
STEPS = 8_192
AGENTS = ("reinforce", "a2c", "trpo", "ppo", "mpo", "vmpo")
TASKS = ("Pendulum-v1", "HalfCheetah-v5")
# A process's highest resident memory is in units of 1024 bytes on Linux and of one on macOS; Windows has no `resource`.
WORKER = """
import json, resource, sys
import torch
from minerva_lite import make_env, preset, train
from minerva_lite.agents import AGENTS

def highest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6

torch.set_num_threads(1)
name, env_id, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
settings = preset(name, env_id)
env = make_env(env_id, settings.config.num_envs, seed=0)
before = highest()
agent = AGENTS[name][0](settings.config, env.spec, seed=0, device="cpu")
steps = max(steps, settings.config.batch_size)
train(agent, env, steps, progress=False, eval_every=10**9, eval_episodes=1)
networks = [part for part in vars(agent).values() if isinstance(part, torch.nn.Module)]
weights = {id(each): each.numel() for network in networks for each in network.parameters()}  # none is counted twice
print(json.dumps({"before": before, "highest": highest(), "weights": sum(weights.values())}))
"""


class Row(NamedTuple):
    """One process."""

    env_id: str
    agent: str
    before: float  # MB, resident, with everything imported and the environment made
    highest: float  # MB, of the whole process
    weights: int  # numbers in all networks of the agent, target networks too


def run(name: str, env_id: str, steps: int = STEPS) -> list[Row]:
    """Train in a process of its own; its one row. Raises CalledProcessError: it failed."""
    done = subprocess.run([sys.executable, "-c", WORKER, name, env_id, str(steps)], check=True, capture_output=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return [Row(env_id, name, told["before"], told["highest"], told["weights"])]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.studies.memory", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    record = Record(options.out, Row, "tests.studies.memory", digits=5)
    record.fill(((env_id, name), partial(run, name, env_id)) for env_id in TASKS for name in AGENTS)
