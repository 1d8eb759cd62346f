"""Nothing that a run draws is drawn twice: neither by two parts of a run, nor by two runs, nor after a resume."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from minerva_lite import make_env, train
from minerva_lite.agents import AGENTS
from minerva_lite.training.checkpoints import load
from minerva_lite.worlds.seeding import generator, seeds_of_worlds, stream
from tests.living import ANSWERS, STEPPERS
from tests.runs import new, stopped

CHECKPOINTS = Path(__file__).resolve().parents[2] / "book" / "results" / "checkpoints"
# Streams


def words(generator: torch.Generator) -> np.ndarray:
    """27 bits of each of the next 1001 words, two neighbors a number: shared streams show at whatever place."""
    drawn = torch.randint(2**27, (1001,), generator=generator, device=generator.device).numpy()
    return drawn[:-1] * 2**27 + drawn[1:]


def streams_of(name: str, env_id: str, seed: int) -> dict[str, torch.Generator]:
    """All generators of an agent and its environment, made with one seed, as they stand at the start."""
    kind, settings = AGENTS[name]

    class Watched(kind):
        def make_modules(self, generator):
            self.weights = generator.clone_state()
            return super().make_modules(generator)

    env = make_env(env_id, 2, seed=seed)
    small = ANSWERS | {"num_envs": 2} if kind.name == "sequence" else {"num_envs": 2, "hidden": (4,)}
    agent = Watched(settings(**small), env.spec, seed=seed, device="cpu")
    found = {"weights": agent.weights, "acting": agent.generator, "world": env.generator}
    return found | {"updates": getattr(agent, "minibatch_generator", agent.generator)}


CASES = [(name, env_id) for name in STEPPERS for env_id in ("CartPole-v1", "Pendulum-v1")]


@pytest.mark.parametrize(("name", "env_id"), [*CASES, ("sequence", "tokens/sort")])
def test_the_parts_of_a_run_and_of_its_neighbors_share_no_number(name, env_id):
    drawn = [words(g) for seed in (0, 1, 2, 2**32, 2**40 + 1) for g in streams_of(name, env_id, seed).values()]
    assert len(np.unique(np.concatenate(drawn))) == len(drawn) * 1000
    unit = np.stack(drawn) / 2**54
    assert np.abs(np.corrcoef(unit) - np.eye(len(drawn))).max() < 5.5 / math.sqrt(1000)  # 190 pairs


def test_a_generator_on_the_cpu_draws_numpys_numbers():
    """Also behind the 624 words that it is set to. NumPy's first number is the last of those; torch has it not."""
    for place in ((0, 3, 0), (7, 1), (2**40, 2)):
        theirs = np.random.MT19937(stream(*place)).random_raw(3000)[1:]
        ours = torch.randint(2**27, (2999,), generator=generator(stream(*place)))
        assert (ours.numpy() == theirs % 2**27).all()


# Seeds of environments


def test_seeds_of_environments_differ_also_in_what_short_seeds_keep_of_them():
    run = [seeds_of_worlds(seed, 16, steps) for seed in range(1000) for steps in (0, 4096)]
    assert all(len({seed % 2**31 for seed in seeds}) == 16 for seeds in run)
    assert len({seed for seeds in run for seed in seeds}) == 32_000
    assert max(seed.bit_length() for seeds in run for seed in seeds) == 128


def starts(env) -> list[tuple[float, ...]]:
    """First states of two episodes of each environment: only the first reset is seeded, or the second repeated it."""
    found = [tuple(row) for _ in range(2) for row in env.reset().tolist()]
    env.close()
    return found


@pytest.mark.parametrize(
    ("env_id", "backend"),
    [
        ("CartPole-v1", "auto"), ("CartPole-v1", "gymnasium"), ("HalfCheetah-v5", "auto"),
        ("CartPole-v1", "envpool"), ("dm_control/cartpole/swingup", "auto"),  # which take 31 bits of a seed, and 32
    ],
)  # fmt: skip
def test_neighboring_runs_start_nowhere_alike(env_id, backend):
    runs = [starts(make_env(env_id, 4, backend=backend, seed=seed)) for seed in (200, 201, 204, 201 + 2**32)]
    assert len({state for run in runs for state in run}) == 32


# Files


def three_lives(backend: str, path: Path) -> torch.Tensor:
    """First observations of a run that stops after one more update twice, in a world whose state cannot be saved."""
    seen = []
    for steps in (128, 192, 256):
        agent, env = new("ppo", "CartPole-v1", backend=backend)
        env.state_dict = lambda: None  # as `parallel` has it, without its processes
        reset = env.reset
        env.reset = lambda reset=reset: (seen.append(reset()), seen[-1])[1]
        stopped(agent, env, path, steps)
    return torch.stack(seen)


@pytest.mark.filterwarnings("ignore:.*fresh episodes")
@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_fresh_episodes_after_a_resume_are_new_ones_and_the_same_in_every_repetition(backend, tmp_path):
    first, again = (three_lives(backend, tmp_path / name) for name in ("a.pt", "b.pt"))
    assert torch.equal(first, again) and first.flatten(0, 1).unique(dim=0).shape == (12, 4)


def test_a_checkpoint_of_the_former_seeding_serves_but_does_not_go_on(tmp_path):
    """One of the book's own, as it would have stood in the middle of a run before streams were told apart."""
    path = tmp_path / "former.pt"
    saved = torch.load(CHECKPOINTS / "ppo_cartpole.pt", weights_only=True)
    for name in ("seeding", "minibatch_generator"):
        del saved["state"][name]
    torch.save(saved | {"training": {"total_steps": 10**6}}, path)
    before, agent = path.read_bytes(), load(path, device="cpu")
    assert agent.predict(np.zeros(4)) in (0, 1)
    env = make_env("CartPole-v1", agent.config.num_envs)
    with pytest.raises(ValueError, match="^checkpoint: wanted one with seeding 'streams'; former.pt is of the former"):
        train(agent, env, 10**6, checkpoint=path, resume=True, progress=False)
    assert path.read_bytes() == before
