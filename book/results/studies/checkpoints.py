"""Small trained agents for films and exercises, each by its preset, seed 0.

No seed is chosen: what seed 0 gives is what is kept, with what it reaches. A checkpoint that is there is left alone; a
change that makes the package refuse it (`tests/studies/test_trained_agents.py` loads each) removes file and row and
runs this command again.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from book.results.studies.record import asked
from minerva_lite import evaluate, make_env, train
from minerva_lite.agents import AGENTS
from minerva_lite.experience.replay import SequenceReplay
from minerva_lite.training.checkpoints import save
from minerva_lite.training.defaults import settings_for

FOLDER = Path("book/results/checkpoints")
EPISODES = 100
AGENTS_OF = {
    "CartPole-v1": ("reinforce", "a2c", "trpo", "ppo", "mpo", "vmpo"),
    "Pendulum-v1": ("trpo", "ppo", "mpo", "vmpo"),
}
LARGEST, IN_ALL = 200_000, 2_000_000  # bytes


class Row(NamedTuple):
    """One checkpoint."""

    file: str
    algorithm: str
    env_id: str
    seed: int
    steps: int  # of the environment
    mean: float  # return of the policy's mode over EPISODES episodes, undiscounted
    std: float  # of these returns


def name_of(algorithm: str, env_id: str) -> str:
    """`ppo_cartpole.pt`."""
    return f"{algorithm}_{env_id.rpartition('/')[2].rpartition('-')[0].lower()}.pt"


def trained(algorithm: str, env_id: str, folder: Path) -> list[Row]:
    """Train, save and evaluate one agent: its row. Raises ValueError: its file is too large."""
    kept = settings_for(algorithm, env_id)
    with closing(make_env(env_id, kept.config.num_envs, seed=0)) as env:
        agent = AGENTS[algorithm][0](kept.config, env.spec, seed=0, device="cpu")
        history = train(agent, env, kept.total_steps, eval_every=kept.total_steps, progress=False)
    if hasattr(agent, "replay"):  # many times the size of the networks, and nothing that acts reads it
        agent.replay = SequenceReplay(agent.replay.capacity)
    path = folder / name_of(algorithm, env_id)
    save(agent, path)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path.name}: wanted at most {LARGEST} bytes; got {path.stat().st_size}")
    told = evaluate(agent, episodes=EPISODES)
    steps = int(history.updates[-1]["steps"])
    return [Row(path.name, algorithm, env_id, 0, steps, told["eval/mean"], told["eval/std"])]


if __name__ == "__main__":
    record, _ = asked(__spec__.name, __doc__, Row, digits=6, usual="checkpoints/checkpoints.csv")
    runs = [(algorithm, env_id) for env_id, algorithms in AGENTS_OF.items() for algorithm in algorithms]
    record.fill(((name_of(*each),), partial(trained, *each, record.path.parent)) for each in runs)
