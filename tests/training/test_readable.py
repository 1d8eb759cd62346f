"""A checkpoint that was written can be read; one that cannot be read says why, and runs nothing."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import os
import random
import sys
import zipfile
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite import A2CAgent, A2CConfig, __main__, evaluate, load, make_env, train
from minerva_lite.language.base_model import load_base
from minerva_lite.training import checkpoints, loop
from minerva_lite.training.checkpoints import read, save
from minerva_lite.training.video import film

KINDS = tuple(f"gymnasium.envs.{each}" for each in ("classic_control", "toy_text", "box2d", "mujoco"))
NOT = {"CarRacing-v3", "Pusher-v4"}  # pixels; a version of MuJoCo that is gone
VECTORS = [name for name, spec in gym.registry.items() if str(spec.entry_point).startswith(KINDS) and name not in NOT]
QUICK = {"MountainCar-v0", "Blackjack-v1", "LunarLander-v3"}
EVIL = "evil_world:X-v0"


def new(env_id="CartPole-v1", dtype=torch.float32, **settings):
    env = make_env(env_id, 2, backend="gymnasium", dtype=dtype)
    config = A2CConfig(**{"num_envs": 2, "rollout_steps": 8, "hidden": (4,)} | settings)
    return A2CAgent(config, env.spec, seed=2, device="cpu", dtype=dtype), env


def run(path=None, agent=None, callback=None, **how):
    made, env = new(**how)
    agent = agent or made
    return agent, train(agent, env, 96, eval_every=48, checkpoint=path, resume=True, progress=False, callback=callback)


def stopped(path, **how):
    """Half of such a run."""

    def stop(row):
        if row["steps"] > 48:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run(path, callback=stop, **how)


@pytest.fixture(autouse=True)
def no_evaluations_while_it_trains(monkeypatch):
    monkeypatch.setattr(loop, "evaluate", lambda agent, **how: {"eval/mean": 0.0})


@pytest.fixture
def saved(tmp_path):
    """The file of a training half-way, and its content."""
    stopped(tmp_path / "run.pt")
    return tmp_path / "run.pt", read(tmp_path / "run.pt")


@pytest.mark.filterwarnings("ignore:.*fresh episodes")
@pytest.mark.parametrize(
    "env_id", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in VECTORS]
)
def test_every_environment_is_trained_saved_loaded_and_resumed(env_id, tmp_path, same):
    path, (whole, _) = tmp_path / "run.pt", run(env_id=env_id)
    stopped(path, env_id=env_id)
    assert load(path, device="cpu").spec == whole.spec
    known = "box2d" not in gym.spec(env_id).entry_point
    assert (read(path)["training"]["env"] is not None) == known
    resumed, history = run(path, env_id=env_id)
    assert len(history.updates) == 6 and same(resumed.state_dict(), whole.state_dict()) == known


def test_there_are_37_of_them():
    assert len(VECTORS) == 37


Few, Word = enum.IntEnum("Few", "ONE TWO"), enum.StrEnum("Word", "ADAM")


@pytest.mark.parametrize(
    "config",
    [{"num_envs": Few.TWO}, {"optimizer": Word.ADAM}, {"optimizer": np.str_("adam")}, {"gamma": np.float64(0.5)}, {"anneal_lr": np.bool_(False)},
     {"hidden": collections.namedtuple("Widths", "one two")(4, Few.TWO)}],
    ids=str,
)  # fmt: skip
def test_numbers_and_words_of_all_kinds_are_read_again(config, tmp_path, monkeypatch):
    agent, _ = new(**config)
    own = dataclasses.replace(agent.spec.own, high=(np.int64(1),), action_dtype=np.str_("int64"))
    agent.spec = dataclasses.replace(agent.spec, own=own, obs_dim=np.int64(4))
    monkeypatch.setattr(agent, "around", lambda rollout, step: {"train/own": np.float64(0.5)})
    run(tmp_path / "run.pt", agent=agent)
    back = load(tmp_path / "run.pt", device="cpu")
    assert back.config == agent.config and back.spec.own == own
    assert [row["train/own"] for row in read(tmp_path / "run.pt")["training"]["updates"]] == [0.5] * 6


def test_what_a_callback_puts_into_a_row_costs_no_checkpoint(tmp_path):
    def callback(row):
        row |= {"mine": np.float64(1), np.str_("name"): Word.ADAM, "odd": object(), "row": row, "set": {1}}

    run(tmp_path / "run.pt", callback=callback)
    assert not {"odd", "set"} & set(read(tmp_path / "run.pt")["training"]["updates"][0])


@pytest.mark.parametrize("value", [object(), Fraction(1, 2), {1, 2}, np.array(["a"]), 1j])
def test_what_no_file_can_hold_is_refused_before_training(value, tmp_path, monkeypatch):
    agent, _ = new()
    state = agent.state_dict
    monkeypatch.setattr(agent, "state_dict", lambda: state() | {"own": [value]})
    with pytest.raises(
        ValueError, match=r"^state\.own\[0\]: wanted tensors, numbers, text, .*; got (builtins|fractions|numpy)"
    ):
        run(tmp_path / "run.pt", agent=agent, callback=lambda row: pytest.fail("it trained"))
    assert os.listdir(tmp_path) == []


class Strange(torch.Tensor):
    """A tensor that the loader does not know."""


@pytest.mark.parametrize("kind", [Strange, type("Local", (torch.Tensor,), {})])
def test_a_state_that_cannot_be_read_never_takes_the_agent_with_it(kind, tmp_path, monkeypatch, same):
    agent, env = new()
    monkeypatch.setattr(env, "state_dict", lambda: {"odd": torch.ones(2).as_subclass(kind)})
    with pytest.warns(
        UserWarning, match="^the state of the environments is not saved, a resumed run starts fresh episodes: "
    ):
        train(agent, env, 96, checkpoint=tmp_path / "run.pt", progress=False)
    assert same(load(tmp_path / "run.pt", device="cpu").state_dict(), agent.state_dict())
    assert read(tmp_path / "run.pt")["training"]["env"] is None


def test_a_file_is_read_back_where_it_lies_and_replaces_nothing_if_it_cannot_be(saved, monkeypatch):
    (path, _), write, read_back, asked = saved, torch.save, torch.load, []
    monkeypatch.setattr(
        checkpoints.torch, "load", lambda *file, **how: asked.append(how["mmap"]) or read_back(*file, **how)
    )
    save(new()[0], path)
    assert asked == [True], "no second copy in memory"
    before, files = path.read_bytes(), set(os.listdir(path.parent))
    monkeypatch.setattr(
        torch, "save", lambda state, file: [write(state, file), file.seek(5000), file.write(b"?" * 100)]
    )
    with pytest.raises(
        ValueError, match=r"^path: wanted a checkpoint that can be read, so nothing has changed; run\.pt"
    ):
        save(new()[0], path)
    assert path.read_bytes() == before and set(os.listdir(path.parent)) == files


def test_a_changed_bit_is_told(saved, tmp_path, same):
    (path, whole), draw, told = saved, random.Random(0), 0
    for _ in range(150):
        changed = bytearray(path.read_bytes())
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        (tmp_path / "bit.pt").write_bytes(changed)
        try:
            assert same(read(tmp_path / "bit.pt"), whole)  # a byte that nobody reads
        except ValueError as error:
            told += str(error).startswith("path: wanted a checkpoint of minerva_lite; bit.pt cannot be read: ")
    assert told > 75


class Bomb:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize("reader", [load, load_base])
@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda p: p.write_bytes(b""), "it is damaged, or was never written by torch.save"),
        (lambda p: p.write_text("101"), "it is damaged, or was never written by torch.save"),
        (lambda p: zipfile.ZipFile(p, "w").writestr("a", "b"), "it is damaged, or was never written by torch.save"),
        (lambda p: p.mkdir(), "Is a directory"),
        (
            lambda p: torch.save({"agent": Bomb()}, p),
            "it holds more than tensors and plain values, and such a file may run code",
        ),
    ],
)
def test_an_unreadable_file_is_told_in_words_of_our_own(reader, write, why, tmp_path):
    write(tmp_path / "file.pt")
    with pytest.raises(
        ValueError, match=rf"^path: wanted .*file.pt (cannot be read: {why}$|is none .*{why}\)$)"
    ) as told:
        reader(tmp_path / "file.pt")
    assert "weights_only" not in str(told.value)


@pytest.mark.parametrize(
    ("where", "value"),
    [("agent", ["a2c"]), ("format", "3"), ("training", 5), ("training", {}), ("state", 5), ("state.config", [1]), ("state.config.hidden", "wide"),
     ("state.spec", 5), ("state.spec.obs_dim", "4"), ("state.modules", 5), ("state.generator", 5), ("state.generator", torch.zeros(3)),
     ("training.steps", "many"), ("training.updates", 5), ("training.updates", [5]), ("training.obs", 5), ("training.env", 5), ("training.env", (1, 2, 3)),
     ("training.env.envs", [5, 5]), ("training.episodes", 5), ("training.total_steps", [1])],
)  # fmt: skip
def test_what_is_of_another_type_in_a_file_is_named(where, value, saved):
    path, content = saved
    *parts, last = where.split(".")
    inside = content
    for part in parts:
        inside = inside[part]
    inside[last] = value
    torch.save(content, path)
    with pytest.raises(ValueError, match=r"^(path|checkpoint|env): wanted "):
        run(path)


@pytest.mark.parametrize(
    ("how", "change", "message"),
    [
        ({"dtype": torch.float64}, {}, r"dtype=torch.float64; run.pt holds one with dtype=torch.float32"),
        ({}, {"device": "cuda"}, r"device='cpu'; run.pt holds one with device='cuda'"),
    ],
)
def test_another_dtype_or_kind_of_device_is_named_at_resume(how, change, message, saved):
    path, content = saved
    content["training"] |= change
    torch.save(content, path)
    with pytest.raises(ValueError, match=rf"^checkpoint: wanted a training with {message}: go on with its settings"):
        run(path, **how)


def test_only_what_a_killed_run_of_this_name_left_is_removed(tmp_path):
    own = [f"{name}.0123abcd.part" for name in ("run[0-9].pt", "run[0-9].best.pt")]
    others = [
        "run1.pt.0123abcd.part",
        "run[0-9].pt.old.0123abcd.part",
        "run[0-9].pt2.0123abcd.part",
        "run[0-9].pt.x.part",
    ]
    for name in own + others:
        (tmp_path / name).touch()
    run(tmp_path / "run[0-9].pt")
    assert set(os.listdir(tmp_path)) == {"run[0-9].pt", "run[0-9].best.pt", *others}


@pytest.fixture
def foreign(monkeypatch, saved):
    """A file that names an environment of a module in this folder."""
    path, content = saved
    text = "import gymnasium as gym\ngym.register('X-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=9)\n"
    (path.parent / "evil_world.py").write_text(text)
    (path.parent / "s.json").write_text(json.dumps({"algorithm": "a2c", "env": EVIL}))
    monkeypatch.chdir(path.parent)
    monkeypatch.syspath_prepend(path.parent)
    content["state"]["spec"]["env_id"] = EVIL
    torch.save(content, path)
    yield path
    sys.modules.pop("evil_world", None)
    gym.registry.pop("X-v0", None)


def test_an_environment_that_only_a_file_names_imports_nothing(foreign):
    agent = load(foreign, device="cpu")
    for act in (evaluate, lambda agent: film(agent, "film.gif")):
        with pytest.raises(ValueError, match=rf"^env_id: wanted it named here, because '{EVIL}' imports a module"):
            act(agent)
    assert "evil_world" not in sys.modules
    assert evaluate(agent, EVIL, episodes=2)["eval/mean"] > 0 and "evil_world" in sys.modules
    train(agent, make_env(EVIL, 2, backend="gymnasium"), 96, progress=False)
    assert evaluate(agent, episodes=2), "it was named, when its environments were made"
    foreign.with_name("run.best.pt").unlink()
    run(foreign, env_id=EVIL)


@pytest.mark.parametrize(
    "words", ["video run.pt --out film.gif", "evaluate run.pt", "train --config s.json --steps 640 --episodes 1"]
)
def test_on_the_command_line_it_has_to_be_typed(words, foreign, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["minerva", *words.split()])
    with pytest.raises(SystemExit, match=rf"--env: wanted it .*'{EVIL}' imports a module"):
        __main__.main()
    assert "evil_world" not in sys.modules
    if not words.startswith("video"):  # which has its own tests
        sys.argv += ["--env", EVIL]
        __main__.main()
        assert "evil_world" in sys.modules
