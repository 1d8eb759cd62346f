"""A training that was killed goes on as if it had not been: parameters equal to the bit."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.training.checkpoints import load, read
from minerva_lite.training.evaluation import evaluate
from minerva_lite.training.loop import train
from minerva_lite.worlds.envs import make_env
from tests.living import ANSWERS

OTHERS = {"num_envs": 3, "rollout_steps": 16}
SMALL = {
    "reinforce": {"num_envs": 3, "rollout_steps": 20, "whole_episodes": False},
    "a2c": {"num_envs": 3, "rollout_steps": 8},
    "trpo": OTHERS | {"normalize_obs": True},
    "ppo": OTHERS | {"minibatch_size": 16, "epochs": 2, "normalize_obs": True, "normalize_reward": True},
    "mpo": {"num_envs": 3, "rollout_steps": 4, "warmup_steps": 24, "minibatch_size": 8, "learner_steps": 3, "replay_steps": 120, "normalize_obs": True},
    "vmpo": OTHERS | {"inner_steps": 3, "target_period": 2, "normalize_reward": True},
    "sequence": ANSWERS | {"group": 10, "advantage": "critic", "kl": "loss"},
}  # fmt: skip
STEPS = 600


def new(name: str, env_id: str = "Pendulum-v1", backend: str = "auto"):
    """An agent and its environments, as a fresh process would make them."""
    kind, settings = AGENTS[name]
    small = {"hidden": (8,)} | SMALL.get(name, OTHERS)
    if kind.name == "sequence":
        env_id, small = "tokens/copy", SMALL[name]
    env = make_env(env_id, small["num_envs"], backend=backend, seed=1)
    return kind(settings(**small), env.spec, seed=2, device="cpu"), env


def leaves(thing, path=""):
    """Every tensor and number of a nested state, by its path."""
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(thing, (list, tuple)):
        for i, value in enumerate(thing):
            yield from leaves(value, f"{path}[{i}]")
    else:
        yield path, thing


def same(one, other) -> list[str]:
    """Where two states differ."""
    left, right = dict(leaves(one)), dict(leaves(other))
    assert left.keys() == right.keys()
    equal = {k: torch.equal(v, right[k]) if isinstance(v, torch.Tensor) else v == right[k] for k, v in left.items()}
    return [path for path, alike in equal.items() if not alike]


def told(history) -> list[dict]:
    """What a history says, but for the clock, whose numbers no two runs share."""
    timed = ("seconds", "train/steps_per_second")
    return [{k: repr(v) for k, v in row.items() if k not in timed} for row in history.updates + history.evaluations]


class Killed(BaseException):
    """The end of a process, told in one."""


def run(name: str, path: Path | None, die_at: int | None = None, **where):
    agent, env = new(name, **where)

    def callback(row):
        if die_at is not None and row["steps"] >= die_at:
            raise Killed

    history = train(
        agent, env, STEPS, eval_every=250, eval_episodes=1, progress=False, callback=callback,
        checkpoint=path, checkpoint_every=agent.config.batch_size, resume=True,
    )  # fmt: skip
    return agent, history


@pytest.mark.parametrize("name", list(AGENTS))
def test_a_run_that_died_twice_ends_as_if_it_had_not(name, tmp_path):
    agent, history = run(name, None)
    for die_at in (150, 400):
        with pytest.raises(Killed):
            run(name, tmp_path / "run.pt", die_at)
    died, again = run(name, tmp_path / "run.pt")
    assert same(agent.state_dict(), died.state_dict()) == []
    assert told(history) == told(again)
    assert len({row["steps"] for row in again.updates}) == len(again.updates) == -(-STEPS // agent.config.batch_size)


@pytest.mark.parametrize(
    ("env_id", "backend"),
    [("CartPole-v1", "auto"), ("CartPole-v1", "gymnasium"), ("Pendulum-v1", "gymnasium"), ("Acrobot-v1", "auto"),
     ("Hopper-v5", "auto"), pytest.param("Ant-v5", "auto", marks=pytest.mark.slow),
     ("dm_control/cartpole/swingup", "auto"), pytest.param("dm_control/cheetah/run", "auto", marks=pytest.mark.slow)],
)  # fmt: skip
def test_environments_go_on_where_they_stood(env_id, backend, tmp_path):
    agent, history = run("a2c", None, env_id=env_id, backend=backend)
    with pytest.raises(Killed):
        run("a2c", tmp_path / "run.pt", 300, env_id=env_id, backend=backend)
    died, again = run("a2c", tmp_path / "run.pt", env_id=env_id, backend=backend)
    assert same(agent.state_dict(), died.state_dict()) == []
    assert told(history) == told(again)


@pytest.mark.parametrize("backend", ["parallel", "envpool"])
def test_a_run_resumed_without_environment_state_starts_fresh_episodes_and_warns(backend, tmp_path):
    where = {"env_id": "CartPole-v1", "backend": backend}
    with pytest.raises(Killed):
        run("a2c", tmp_path / "run.pt", 300, **where)
    assert read(tmp_path / "run.pt")["training"]["env"] is None
    with pytest.warns(UserWarning, match="^CartPole-v1 goes on with fresh episodes: its state cannot be saved$"):
        _, history = run("a2c", tmp_path / "run.pt", **where)
    assert history.updates[-1]["steps"] == STEPS


def test_a_file_without_the_running_episodes_gives_no_row_that_counts_half_of_one(tmp_path):
    """Written before they were kept: a row is as in the whole run, or lacks the episodes, and then it goes on."""
    _, history = run("a2c", None, env_id="CartPole-v1")
    with pytest.raises(Killed):
        run("a2c", tmp_path / "run.pt", 300, env_id="CartPole-v1")
    saved = read(tmp_path / "run.pt")
    assert saved["training"].pop("episodes")["running"].any()
    torch.save(saved, tmp_path / "run.pt")
    _, again = run("a2c", tmp_path / "run.pt", env_id="CartPole-v1")
    name = "train/episode_return"
    pairs = [
        (whole[name], row.get(name))
        for whole, row in zip(history.updates, again.updates, strict=True)
        if row["steps"] > saved["training"]["steps"] and name in whole
    ]
    assert {row for _, row in pairs} - {whole for whole, _ in pairs} == {None}
    assert all(row in (whole, None) for whole, row in pairs) and any(row is not None for _, row in pairs)


def test_another_back_end_is_refused_by_name(tmp_path):
    with pytest.raises(Killed):
        run("a2c", tmp_path / "run.pt", 300, env_id="CartPole-v1")
    with pytest.raises(
        ValueError, match=r"^checkpoint: wanted .*backend='EnvPoolEnv.*; run.pt holds one with backend='TorchCartPole'"
    ):
        run("a2c", tmp_path / "run.pt", env_id="CartPole-v1", backend="envpool")


def test_the_best_agent_of_another_run_is_not_written_over(tmp_path):
    run("a2c", tmp_path / "run.pt", env_id="CartPole-v1")
    (tmp_path / "run.pt").unlink()
    kept = (tmp_path / "run.best.pt").read_bytes()
    agent, env = new("a2c", "CartPole-v1")
    with pytest.raises(ValueError, match=r"^checkpoint: run.best.pt exists, the best agent of another run; wanted"):
        train(agent, env, STEPS, checkpoint=tmp_path / "run.pt", progress=False)
    assert (tmp_path / "run.best.pt").read_bytes() == kept and not (tmp_path / "run.pt").exists()


def test_the_best_agent_is_kept_beside_the_last(tmp_path):
    agent, history = run("a2c", tmp_path / "run.pt", env_id="CartPole-v1")
    best = load(tmp_path / "run.best.pt", device="cpu")
    assert same(load(tmp_path / "run.pt", device="cpu").state_dict(), agent.state_dict()) == []
    means = history.column("eval/mean")
    assert evaluate(best, episodes=1)["eval/mean"] == means.max()
    assert len(means) == 3 and means.argmax() != 2 and same(best.state_dict(), agent.state_dict()) != []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resume": False}, r"^checkpoint: run.pt exists; wanted resume=True to go on from it, or another name$"),
        (
            {"total_steps": 1200},
            r"^checkpoint: wanted .* ppo over 1200 steps; run.pt holds one of ppo over 600 steps: go on with that, or under ",
        ),
        (
            {"name": "a2c"},
            r"^checkpoint: wanted .* a2c over 600 steps; run.pt holds one of ppo over 600 steps: go on with that, or under ",
        ),
    ],
)
def test_another_run_is_refused_and_its_file_left_alone(change, message, tmp_path):
    run("ppo", tmp_path / "run.pt")
    before = (tmp_path / "run.pt").read_bytes()
    agent, env = new(change.pop("name", "ppo"))
    arguments = {"total_steps": STEPS, "resume": True, "checkpoint": tmp_path / "run.pt", "progress": False} | change
    with pytest.raises(ValueError, match=message):
        train(agent, env, arguments.pop("total_steps"), **arguments)
    assert (tmp_path / "run.pt").read_bytes() == before


@pytest.fixture
def terminal():
    """Ctrl-C as in a terminal: a shell starts its background jobs, and so perhaps these tests, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_finishes_the_update_and_leaves_a_checkpoint(times, terminal, tmp_path):
    """A second one does not wait."""
    agent, env = new("ppo")

    def press(row):
        if row["steps"] == 240 and "eval/mean" not in row:
            for _ in range(times):
                handler, deadline = signal.getsignal(signal.SIGINT), time.monotonic() + 10
                signal.raise_signal(signal.SIGINT)
                # Another thread may put off the handling, and two signals that wait are one.
                while signal.getsignal(signal.SIGINT) is handler and time.monotonic() < deadline:
                    time.sleep(0.001)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(agent, env, STEPS, callback=press, checkpoint=tmp_path / "run.pt", checkpoint_every=STEPS, progress=False)
    assert signal.getsignal(signal.SIGINT) is before
    if times == 2:
        assert not (tmp_path / "run.pt").exists()
        return
    saved = read(tmp_path / "run.pt")
    assert saved["training"]["steps"] == 240
    assert same(saved["state"], agent.state_dict()) == []


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
import tests.training.test_resume as t
if {torn}:
    replace, count = os.replace, [0]
    def torn(source, target):
        count[0] += 1
        if count[0] == {torn}:
            os.kill(os.getpid(), signal.SIGKILL)  # written, not yet renamed
        replace(source, target)
    os.replace = torn
print("ready", flush=True)
t.torch.set_num_threads(1)
t.run({name!r}, Path({path!r}))
"""
ROOT = str(Path(__file__).parents[2])


def spawn(name: str, path: Path, torn: int = 0) -> subprocess.Popen:
    program = CHILD.format(root=ROOT, name=name, path=str(path), torn=torn)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_a_kill_between_writing_and_renaming_harms_nothing(tmp_path):
    agent, _ = run("ppo", None)
    child = spawn("ppo", tmp_path / "run.pt", torn=3)
    assert child.wait() == -signal.SIGKILL
    assert list(tmp_path.glob("*.part")), "killed at the right moment"
    died, _ = run("ppo", tmp_path / "run.pt")
    assert same(agent.state_dict(), died.state_dict()) == [] and not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["ppo", *(pytest.param(n, marks=pytest.mark.slow) for n in AGENTS if n != "ppo")])
def test_killed_at_random_moments(name, kills, tmp_path):
    """Each process gets a random time to live; whatever it left, the next one goes on from."""
    agent, _ = run(name, None)
    clock, landed = random.Random(0), 0
    for _ in range(kills):
        child = spawn(name, tmp_path / "run.pt")
        child.stdout.readline()
        time.sleep(clock.uniform(0.0, 0.4))
        child.kill()
        landed += child.wait() == -signal.SIGKILL
    died, _ = run(name, tmp_path / "run.pt")
    assert landed > 0, "every process was faster than its killer"
    assert same(agent.state_dict(), died.state_dict()) == []
