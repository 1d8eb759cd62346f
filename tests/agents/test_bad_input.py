"""What the package is asked for and cannot do: one clear error that names it, and no file half-written.

Settings and data of the algorithms have files of their own (`test_ranges.py`, `test_door.py`).
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import errno
import multiprocessing
import os
import re
import sys
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from minerva_lite import History, __main__, evaluate, make_env
from minerva_lite.agents.base import pick_device
from minerva_lite.agents.ppo import PPOAgent
from minerva_lite.files import replacing
from minerva_lite.training.checkpoints import load, read, save
from tests.living import STEPPERS, refusal
from tests.runs import STEPS, at, contents, new, run

BOX = spaces.Box(-1.0, 1.0, (2,), np.float64)
PIXELS = spaces.Box(0, 255, (64, 48, 3), np.uint8)
OBSERVED = "Box, Discrete, MultiDiscrete or MultiBinary observations, or a Dict or Tuple of them"
ACTIONS = "Discrete, MultiDiscrete, MultiBinary or bounded Box actions"


# Environments


UNKNOWN = "a registered Gymnasium id; got"
FORMS = {
    "dm_control/<domain>/<task>, such as dm_control/cheetah/run": (
        "dm_control", "dm_control/", "dm_control/cheetah", "dm_control//run", "dm_control/cheetah/run/x", "dm_control/cheetah/run/",
    ),
    "a name, such as CartPole-v1 or dm_control/cheetah/run": ("", "  ", None, 3),
    "<module>:<id>, where one is to be imported, or an id alone": (":", ":CartPole-v1", "a:b:c", "module:", ".here:CartPole-v1"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Cartpole-v1", f"{UNKNOWN} 'Cartpole-v1'; did you mean CartPole-v1?"),
        ("pendulum-v1", f"{UNKNOWN} 'pendulum-v1'; did you mean Pendulum-v1?"),
        ("LUNARLANDER-V3", f"{UNKNOWN} 'LUNARLANDER-V3'; did you mean LunarLander-v3?"),
        ("CartPole-v7", f"{UNKNOWN} 'CartPole-v7'; did you mean CartPole-v1?"),
        ("HalfCheetah5", f"{UNKNOWN} 'HalfCheetah5'; did you mean HalfCheetah-v5?"),
        ("dm_control/cheeta/run", f"{UNKNOWN} 'dm_control/cheeta/run'; did you mean dm_control/cheetah/run?"),
        ("Zzzz-v0", f"{UNKNOWN} 'Zzzz-v0' (Environment `Zzzz` doesn't exist.)"),
        ("a/b/c", f"{UNKNOWN} 'a/b/c' (Malformed environment ID: a/b/c."),
        ("no_such_module:CartPole-v1", "<module>:<id> with a module that can be imported, or an id alone; got 'no_such_module:CartPole-v1' (No module named 'no_such_module')"),
        *((env_id, f"{form}; got {env_id!r}") for form, every in FORMS.items() for env_id in every),
    ],
)  # fmt: skip
def test_an_environment_that_is_none_is_refused_with_the_nearest_name_or_the_form(env_id, message):
    assert refusal(make_env, env_id).startswith(f"env_id: wanted {message}")


@pytest.mark.parametrize(
    ("observed", "actions", "wanted"),
    [
        (spaces.Text(5), BOX, f"{OBSERVED}; ToyAny-v0 has Text("),
        (spaces.Dict({"a": BOX, "b": spaces.Sequence(BOX)}), BOX, f"{OBSERVED}; ToyAny-v0 has Dict("),
        (spaces.Tuple((BOX, spaces.Text(5))), BOX, f"{OBSERVED}; ToyAny-v0 has Tuple("),
        (PIXELS, BOX, "observations that are measurements; ToyAny-v0 has pixels, Box(0, 255, (64, 48, 3), uint8), and the networks here have no convolutions: name a wrapper that makes features"),
        (BOX, spaces.Tuple((BOX, spaces.Discrete(2))), f"{ACTIONS}; ToyAny-v0 has Tuple("),
        (BOX, spaces.Dict({"a": BOX}), f"{ACTIONS}; ToyAny-v0 has Dict("),
    ],
)  # fmt: skip
def test_spaces_that_no_agent_can_handle_are_named_with_a_way_out(observed, actions, wanted, register):
    register(observed, actions)
    assert refusal(make_env, "ToyAny-v0", 2).startswith(f"env_id: wanted {wanted}")


def test_an_environment_refused_leaves_no_process_behind():
    before = set(multiprocessing.active_children())  # other tests' pools, whose order is chance
    told = refusal(make_env, "ToyNoBounds-v0", 2, backend="parallel")
    assert told.startswith(f"env_id: wanted {ACTIONS}; ToyNoBounds-v0 has Box")
    assert not set(multiprocessing.active_children()) - before


@pytest.mark.parametrize(
    ("observed", "obs_dim"),
    [
        (spaces.Dict({"a": BOX, "b": spaces.Dict({"c": BOX, "d": spaces.Discrete(3)})}), 7),
        (spaces.Tuple((BOX, spaces.Discrete(3), spaces.MultiBinary(2))), 7),
        (spaces.Discrete(5), 5),
        (spaces.MultiDiscrete([2, 3]), 5),
        (spaces.MultiBinary((2, 3)), 6),
        (spaces.Box(0, 255, (7, 7, 3), np.uint8), 147),  # the map of a grid, not a picture
        (spaces.Box(0, 255, (1_200,), np.uint8), 1_200),  # a memory
        (spaces.Box(0.0, 1.0, (30, 30), np.float32), 900),
    ],
)
def test_observations_of_these_kinds_are_one_vector(observed, obs_dim, register):
    register(observed, BOX)
    env = make_env("ToyAny-v0", 2)
    assert env.spec.obs_dim == obs_dim and env.reset().shape == (2, obs_dim)


@pytest.mark.parametrize(("action", "got"), [([0, 2, 1], "0 to 2"), ([0, -1, 1], "-1 to 1")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_action_that_does_not_exist_is_refused(action, got, dtype):
    env = make_env("CartPole-v1", 3, dtype=dtype)
    env.reset()
    before = env.state.clone()
    assert refusal(env.step, torch.tensor(action)) == f"action: wanted whole numbers from 0 to 1; got {got}"
    assert torch.equal(env.state, before) and not env.elapsed.any()


def test_episodes_of_exactly_the_allowed_length_are_evaluated():
    agent, _ = new("ppo")
    whole = evaluate(agent, episodes=2, max_steps=200)
    assert whole["eval/length"] == 200.0 and "eval/unfinished" not in whole
    with pytest.warns(UserWarning, match=r"^Pendulum-v1: evaluation cuts an episode that goes on after 199 steps"):
        cut = evaluate(agent, episodes=2, max_steps=199)
    assert cut["eval/length"] == 199.0 and cut["eval/unfinished"] == 1.0 and cut["eval/mean"] > whole["eval/mean"]


@pytest.mark.parametrize("name", ["cuda:77", "gpu", "cuda:x", "", "hpu", torch.device("cuda", 77)])
def test_a_device_that_is_not_here_is_named_with_those_that_are(name, tmp_path):
    save(new("ppo")[0], tmp_path / "agent.pt")
    wanted = f"device: wanted auto or one that is here, cpu.*; got {str(name)!r} \\("
    for ask in (pick_device, partial(load, tmp_path / "agent.pt")):
        assert re.match(wanted, refusal(ask, device=name))


# Checkpoints


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved["state"]["modules"].update({"policy.log_std": torch.zeros(3)}), "policy.log_std"),
        (lambda saved: saved["state"]["spec"].update(obs_dim=5), "size mismatch"),
        (lambda saved: saved["state"].pop("modules"), "modules"),
    ],
)
def test_a_checkpoint_of_other_shapes_is_named(change, message, tmp_path):
    path = tmp_path / "agent.pt"
    save(new("ppo", "CartPole-v1")[0], path)
    saved = read(path)
    change(saved)
    torch.save(saved, path)
    wanted = r"path: wanted a checkpoint of ppo as this version saves it; agent.pt differs \("
    assert re.match(f"(?s){wanted}.*{message}", refusal(load, path, device="cpu"))


def test_a_training_in_another_environment_does_not_go_on(tmp_path):
    """Nor does one with other settings: `training/test_resume.py`."""
    path = tmp_path / "run.pt"
    run(*new("ppo", "CartPole-v1"), path, 64)
    before = contents(tmp_path)
    message = "env_id='Pendulum-v1', obs_dim=3, action_dim=1, num_actions=0, own=.*; run.pt holds one with env_id='CartPole-v1', obs_dim=4, action_dim=0, num_actions=2, own=.*: "
    assert re.match(f"checkpoint: wanted a training with {message}", refusal(run, *new("ppo"), path, 64))
    assert before == contents(tmp_path)


# A full disk


@pytest.fixture
def small_disk():
    """No file of this process may grow beyond 256 KiB: what a full disk is to a program."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


WHY = {"while it is written": "File too large", "when it is flushed": "No space", "when it is renamed": "No space"}


@pytest.mark.parametrize("file", ["agent.pt", "figures.csv"])
@pytest.mark.parametrize("when", WHY)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(when, file, tmp_path, monkeypatch, request):
    (agent, _), row = new("ppo", hidden=(512, 512)), {"steps": 1, "seconds": 1.0, "loss/policy": 0.5}

    def write(rows: int = 20_000):
        if file == "agent.pt":
            return save(agent, tmp_path / file)
        return History(updates=[row] * rows).to_csv(tmp_path / file)

    write(rows=1)
    before = contents(tmp_path)
    if when == "while it is written":
        request.getfixturevalue("small_disk")
    else:
        monkeypatch.setattr(os, "fsync" if when == "when it is flushed" else "replace", no_space)
    with pytest.raises(OSError, match=f"^path: wanted to write .*{file}, where nothing has changed; got .*{WHY[when]}"):
        write()
    assert contents(tmp_path) == before


def test_a_training_on_a_disk_that_fills_up_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    fills_up = at(256, lambda: monkeypatch.setattr(os, "fsync", no_space))
    with pytest.raises(OSError, match=r"run\.pt, where nothing has changed; got .*No space"):
        run(*new("ppo"), tmp_path / "run.pt", callback=fills_up, eval_every=STEPS)
    assert os.listdir(tmp_path) == ["run.pt"] and read(tmp_path / "run.pt")["training"]["steps"] == 192


def test_a_file_appears_whole_and_may_be_read_by_others(tmp_path):
    with replacing(tmp_path / "file") as part:
        part.touch()
        assert not (tmp_path / "file").exists() and part.parent == tmp_path
    (tmp_path / "other").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


# Memory


@pytest.mark.parametrize("name", STEPPERS)
def test_a_full_gpu_is_told_with_what_to_make_smaller_and_the_last_checkpoint_stays(name, tmp_path, monkeypatch):
    def full(*args, **named):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    (agent, env), path = new(name, "CartPole-v1"), tmp_path / "run.pt"
    fills_up = at(256, lambda: monkeypatch.setattr(agent, "update", full))
    with pytest.raises(torch.OutOfMemoryError) as told:
        run(agent, env, path, callback=fills_up, eval_every=STEPS)
    sizes = ("minibatch_size", "replay_steps")
    extra = "".join(f", {size}={getattr(agent.config, size)}" for size in sizes if hasattr(agent.config, size))
    assert bool(extra) == (name in ("ppo", "mpo", "example_awr"))
    assert str(told.value) == (
        f"device: wanted room on cpu for num_envs=4, rollout_steps=16{extra}; make one of these smaller "
        "(CUDA out of memory. Tried to allocate 20.00 GiB.)"
    )
    assert os.listdir(tmp_path) == ["run.pt"] and read(path)["training"]["steps"] == 256


# The command line


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    """A folder with `agent.pt`, an agent, `run.pt`, a training, and `other.pt`, which is neither."""
    folder = tmp_path_factory.mktemp("agents")
    agent, env = new("ppo", "CartPole-v1")
    save(agent, folder / "agent.pt")
    run(agent, env, folder / "run.pt", 64)
    (folder / "run.best.pt").unlink()
    (folder / "other.pt").write_bytes(b"nothing")
    (folder / "folder").mkdir()
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train ppo --env Cartpole-v1", r"--env: wanted a registered Gymnasium id; got 'Cartpole-v1'; did you mean CartPole-v1\?"),
        ("train ppo --env CartPole-v1 --device gpu", "--device: wanted auto or one that is here, cpu.*; got 'gpu' .*"),
        ("train ppo --env CartPole-v1 --backend fast", "--backend: wanted one of auto, .*; got 'fast'"),
        ("train ppo --env CartPole-v1 --steps 0", "--steps: wanted a whole number of at least 1; got 0"),
        ("train ppo --env CartPole-v1 --out none/run.pt", "--out: wanted a file in a folder that exists and may be written to; got none/run.pt"),
        ("train ppo --env CartPole-v1 --out folder", "--out: wanted a file in a folder that exists and may be written to; got folder"),
        ("train ppo --env CartPole-v1 --history none/run.csv", "--history: wanted a file in a folder that exists and may be written to; got none/run.csv"),
        ("train ppo --env CartPole-v1 --out run.pt", "--out: run.pt exists; wanted --resume to go on from it, or another name"),
        ("train ppo --env CartPole-v1 --resume", "--resume: wanted --out, the checkpoint to go on from; got none"),
        ("train a2c --env CartPole-v1 --out run.pt --resume --steps 64", "--out: wanted a training of a2c over 64 steps; run.pt holds one of ppo over 64 steps: go on with that, or under another name"),
        ("train ppo --env CartPole-v1 --out agent.pt --resume", "--out: wanted a training of ppo over 65536 steps; agent.pt holds ppo alone: nothing to go on from; take another name"),
        ("train ppo --env CartPole-v1 --out other.pt --resume", "--out: wanted a checkpoint of minerva_lite; other.pt cannot be read.*"),
        ("evaluate none.pt", ".*No such file or directory: 'none.pt'"),
        ("evaluate other.pt", "path: wanted a checkpoint of minerva_lite; other.pt cannot be read.*"),
        ("evaluate agent.pt --episodes 0", "--episodes: wanted a whole number of at least 1; got 0"),
        ("video agent.pt --out film.avi", "the suffix of path: wanted one of .mp4, .gif; got '.avi'"),
        ("video agent.pt --out none/film.mp4", "--out: wanted a file in a folder that exists and may be written to; got none/film.mp4"),
        ("video agent.pt --out film.mp4 --env Pendulum-v1", "--env: wanted one with the spaces of .*; got .*"),
        ("video agent.pt --out film.mp4 --max-steps 3", "--max-steps: wanted episodes of CartPole-v1 to end within 3 steps; 1 of 1 did not: .*"),
    ],
)  # fmt: skip
def test_the_command_line_tells_it_in_one_line(words, message, agents, monkeypatch, capsys):
    monkeypatch.chdir(agents)
    before = contents(agents)
    monkeypatch.setattr(PPOAgent, "collect", lambda *data: pytest.fail("training began"))
    monkeypatch.setattr(sys, "argv", ["minerva_lite", *words.split()])
    with pytest.raises(SystemExit) as left:
        __main__.main()
    assert "\n" not in left.value.code
    assert re.fullmatch(message, left.value.code), left.value.code
    assert capsys.readouterr() == ("", "")
    assert before == contents(agents)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("full"), OSError("full"), FloatingPointError("nan"), ImportError("none"), gym.error.DependencyNotInstalled("none"), KeyError("ours")]
)  # fmt: skip
def test_errors_at_run_time_are_one_line_too_but_bugs_keep_their_traceback(error, agents, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(__main__, "evaluate", fail)
    monkeypatch.setattr(sys, "argv", ["minerva_lite", "evaluate", str(agents / "agent.pt")])
    with pytest.raises(KeyError if isinstance(error, KeyError) else SystemExit, match=str(error)):
        __main__.main()
