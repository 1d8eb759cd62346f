"""A checkpoint that was written can be read; one that cannot be read says why, and runs nothing."""

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
from minerva_lite.training import checkpoints, loop
from minerva_lite.training.base_model import load_base
from minerva_lite.training.checkpoints import read, save
from minerva_lite.training.video import film

KINDS = tuple(f"gymnasium.envs.{each}" for each in ("classic_control", "toy_text", "box2d", "mujoco"))
NOT = {"CarRacing-v3", "Pusher-v4"}  # pixels; a version of MuJoCo that is gone
VECTORS = [name for name, spec in gym.registry.items() if str(spec.entry_point).startswith(KINDS) and name not in NOT]
QUICK = {"MountainCar-v0", "Blackjack-v1", "LunarLander-v3"}
MODULE = "evil_world"
SMALL = {"num_envs": 2, "rollout_steps": 8, "hidden": (4,)}


def new(env_id="CartPole-v1", **how):
    config = A2CConfig(**SMALL | how.pop("config", {}))
    env = make_env(env_id, 2, **{"backend": "gymnasium"} | how)
    return A2CAgent(config, env.spec, seed=2, device="cpu", dtype=how.get("dtype", torch.float32)), env


def run(path=None, agent=None, steps=96, callback=None, **how):
    other, env = new(**how)
    agent = agent or other
    return agent, train(agent, env, steps, eval_every=48, checkpoint=path, resume=True, progress=False, callback=callback)  # fmt: skip


@pytest.fixture(autouse=True)
def no_evaluations_while_it_trains(monkeypatch):
    monkeypatch.setattr(loop, "evaluate", lambda agent, **how: {"eval/mean": 0.0})


@pytest.fixture
def saved(tmp_path):
    """A file of a training half-way, and its content."""
    path = tmp_path / "run.pt"

    def stop(row):
        if row["steps"] > 48:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, callback=stop)
    return path, read(path)


@pytest.mark.filterwarnings("ignore:.*fresh episodes")
@pytest.mark.parametrize("env_id", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VECTORS])  # fmt: skip
def test_every_environment_is_trained_saved_loaded_and_resumed(env_id, tmp_path, same):
    path, whole = tmp_path / "run.pt", run(env_id=env_id)

    def stop(row):
        if row["steps"] > 48:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, env_id=env_id, callback=stop)
    assert load(path, device="cpu").spec == whole[0].spec
    resumed, history = run(path, env_id=env_id)
    assert history.updates[-1]["steps"] == 96 and len(history.updates) == 6
    known = "box2d" not in gym.spec(env_id).entry_point
    assert (read(path)["training"]["env"] is not None) == known
    assert same(resumed.state_dict(), whole[0].state_dict()) or not known


def test_there_are_37_of_them():
    assert len(VECTORS) == 37


class Few(enum.IntEnum):
    TWO = 2


class Word(str, enum.Enum):
    ADAM = "adam"


Widths = collections.namedtuple("Widths", "one two")


@pytest.mark.parametrize(
    "config",
    [{"num_envs": Few.TWO}, {"optimizer": Word.ADAM}, {"optimizer": np.str_("adam")}, {"hidden": Widths(4, Few.TWO)},
     {"gamma": np.float64(0.5)}, {"anneal_lr": np.bool_(False)}],
    ids=str,
)  # fmt: skip
def test_numbers_and_words_of_all_kinds_are_read_again(config, tmp_path):
    agent, _ = run(tmp_path / "run.pt", config=config)
    assert load(tmp_path / "run.pt", device="cpu").config == agent.config
    assert type(read(tmp_path / "run.pt")["state"]["config"]["num_envs"]) is int


def test_numbers_of_the_spec_and_figures_of_an_update_are_read_again(tmp_path, monkeypatch):
    agent, _ = new()
    own = dataclasses.replace(agent.spec.own, high=(np.int64(1),), action_dtype=np.str_("int64"))
    agent.spec = dataclasses.replace(agent.spec, own=own, obs_dim=np.int64(4))
    monkeypatch.setattr(agent, "around", lambda rollout, step: {"train/own": np.float64(0.5)})
    run(tmp_path / "run.pt", agent=agent)
    assert load(tmp_path / "run.pt", device="cpu").spec.own == own
    assert [row["train/own"] for row in read(tmp_path / "run.pt")["training"]["updates"]] == [0.5] * 6


def test_what_a_callback_puts_into_a_row_takes_no_checkpoint(tmp_path):
    def callback(row):
        row |= {"mine": np.float64(1), np.str_("name"): Word.ADAM, "odd": object(), "row": row, "set": {1}}

    run(tmp_path / "run.pt", callback=callback)
    row = read(tmp_path / "run.pt")["training"]["updates"][0]
    assert not {"odd", "set"} & set(row) and row.get("mine", 1.0) == 1.0


@pytest.mark.parametrize("value", [object(), Fraction(1, 2), {1, 2}, np.array(["a"]), 1j])
def test_what_no_file_can_hold_is_refused_before_training(value, tmp_path, monkeypatch):
    agent, _ = new()
    state = agent.state_dict
    monkeypatch.setattr(agent, "state_dict", lambda: state() | {"own": [value]})
    with pytest.raises(ValueError, match=r"^state\.own\[0\]: wanted tensors, numbers, text, .*; got (builtins|fractions|numpy)"):  # fmt: skip
        run(tmp_path / "run.pt", agent=agent, callback=lambda row: pytest.fail("it trained"))
    assert os.listdir(tmp_path) == []


class Strange(torch.Tensor):
    """A tensor that the loader does not know."""


@pytest.mark.parametrize("kind", [Strange, type("Local", (torch.Tensor,), {})])
def test_a_state_of_the_environments_that_cannot_be_read_never_takes_the_agent_with_it(
    kind, tmp_path, monkeypatch, same
):
    agent, env = new()
    monkeypatch.setattr(env, "state_dict", lambda: {"odd": torch.ones(2).as_subclass(kind)})
    with pytest.warns(
        UserWarning, match="^the state of the environments is not saved, a resumed run starts fresh episodes: "
    ):
        train(agent, env, 96, checkpoint=tmp_path / "run.pt", progress=False)
    assert same(load(tmp_path / "run.pt", device="cpu").state_dict(), agent.state_dict())
    assert read(tmp_path / "run.pt")["training"]["env"] is None


def test_a_file_that_cannot_be_read_replaces_nothing(saved, monkeypatch):
    path, _ = saved
    before, write = path.read_bytes(), torch.save

    def damaged(state, file):
        write(state, file)
        file.seek(5000)
        file.write(b"?" * 100)

    monkeypatch.setattr(torch, "save", damaged)
    with pytest.raises(
        ValueError, match=r"^path: wanted a checkpoint that can be read, so nothing has changed; run\.pt"
    ):
        save(new()[0], path)
    assert path.read_bytes() == before and set(os.listdir(path.parent)) == {"run.pt", "run.best.pt"}


def test_a_changed_bit_is_told(saved, tmp_path, same):
    path, whole = saved
    raw, draw, told = path.read_bytes(), random.Random(0), 0
    for _ in range(150):
        changed = bytearray(raw)
        changed[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
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
        (lambda p: torch.save({"agent": Bomb()}, p), "it holds more than tensors and plain values, and such a file may run code"),
    ],
)  # fmt: skip
def test_an_unreadable_file_is_told_in_words_of_our_own(reader, write, why, tmp_path):
    write(tmp_path / "file.pt")
    with pytest.raises(
        ValueError, match=rf"^path: wanted .*file.pt (cannot be read: {why}$|is none .*{why}\)$)"
    ) as told:
        reader(tmp_path / "file.pt")
    assert "weights_only" not in str(told.value)


@pytest.mark.parametrize(
    ("where", "value"),
    [("agent", ["a2c"]), ("format", "3"), ("training", 5), ("training", {}), ("state", 5), ("state.config", [1]),
     ("state.config.hidden", "wide"), ("state.spec", 5), ("state.spec.obs_dim", "4"), ("state.modules", 5),
     ("state.generator", 5), ("state.generator", torch.zeros(3)), ("training.steps", "many"), ("training.updates", 5),
     ("training.updates", [5]), ("training.obs", 5), ("training.env", 5), ("training.env", (1, 2, 3)),
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
        ({"dtype": torch.float64}, {}, r"with dtype=torch.float64; run.pt holds one with dtype=torch.float32"),
        ({}, {"generator": torch.zeros(16, dtype=torch.uint8)}, r"with device='cpu'; run.pt holds one with device='cuda'"),
    ],
)  # fmt: skip
def test_another_dtype_or_kind_of_device_is_named_at_resume(how, change, message, saved):
    path, content = saved
    content["state"] |= change
    torch.save(content, path)
    with pytest.raises(ValueError, match=rf"^checkpoint: wanted a training {message}: go on with its settings"):
        run(path, **how)


def test_only_what_a_killed_run_of_this_name_left_is_removed(tmp_path):
    path = tmp_path / "run[0-9].pt"
    own = [f"{name}.0123abcd.part" for name in ("run[0-9].pt", "run[0-9].best.pt")]
    others = [f"{name}.0123abcd.part" for name in ("run1.pt", "run[0-9].pt.old", "run[0-9].pt2")] + [
        "run[0-9].pt.x.part"
    ]
    for name in own + others:
        (tmp_path / name).touch()
    run(path)
    assert set(os.listdir(tmp_path)) == {path.name, "run[0-9].best.pt", *others}


@pytest.fixture
def foreign(tmp_path, monkeypatch, saved):
    """A file that names an environment of a module in this folder, which tells when it is imported."""
    text = "import gymnasium\ngymnasium.register('X-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=500)\n"
    (tmp_path / f"{MODULE}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path, content = saved
    content["state"]["spec"]["env_id"] = f"{MODULE}:X-v0"
    torch.save(content, path)
    yield path
    sys.modules.pop(MODULE, None)
    gym.registry.pop("X-v0", None)


def test_an_environment_that_only_a_file_names_imports_nothing(foreign, tmp_path):
    agent = load(foreign, device="cpu")
    for act in (evaluate, lambda agent: film(agent, tmp_path / "film.gif")):
        with pytest.raises(
            ValueError, match=rf"^env_id: wanted it named here, because '{MODULE}:X-v0' imports a module"
        ):
            act(agent)
    assert MODULE not in sys.modules
    assert evaluate(agent, f"{MODULE}:X-v0", episodes=2)["eval/mean"] > 0 and MODULE in sys.modules
    train(agent, make_env(f"{MODULE}:X-v0", 2, backend="gymnasium"), 96, progress=False)
    assert evaluate(agent, episodes=2), "named, when its environments were made"
    run(foreign, env_id=f"{MODULE}:X-v0")


@pytest.mark.parametrize(
    "words", ["evaluate run.pt", "video run.pt --out film.gif", "train --config s.json --steps 640 --episodes 1"]
)
def test_on_the_command_line_it_has_to_be_typed(words, foreign, tmp_path, monkeypatch):
    (tmp_path / "s.json").write_text(json.dumps({"algorithm": "a2c", "env": f"{MODULE}:X-v0"}))
    monkeypatch.setattr(sys, "argv", ["minerva", *words.split()])
    with pytest.raises(SystemExit, match=rf"--env: wanted it .*'{MODULE}:X-v0' imports a module"):
        __main__.main()
    assert MODULE not in sys.modules
    if not words.startswith("video"):  # which has its own tests
        monkeypatch.setattr(sys, "argv", ["minerva", *words.split(), "--env", f"{MODULE}:X-v0"])
        __main__.main()
        assert MODULE in sys.modules


def test_the_read_back_keeps_tensors_in_the_file(saved, monkeypatch):
    path, _ = saved
    asked, read_all = [], torch.load
    monkeypatch.setattr(checkpoints.torch, "load", lambda *file, **how: asked.append(how) or read_all(*file, **how))
    save(new()[0], path)
    assert [how["mmap"] for how in asked] == [True]
