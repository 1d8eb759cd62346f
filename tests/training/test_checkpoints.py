"""A checkpoint brings everything back to the bit; one that cannot be read says why, and runs nothing."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import collections
import enum
import json
import os
import pickle
import random
import re
import sys
import zipfile
from dataclasses import replace
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite import evaluate, load, make_env
from minerva_lite.language.base_model import load_base
from minerva_lite.training import checkpoints
from minerva_lite.training.checkpoints import FORMAT, read, save
from minerva_lite.training.video import film
from tests.living import live
from tests.runs import contents, new, run, stopped


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("env_id", "options"),
    [("Pendulum-v1", {"squash": True}), ("Pendulum-v1", {"objective": "kl_penalty"}), ("CartPole-v1", {})],
)
def test_a_loaded_agent_is_the_saved_one_with_its_statistics(tmp_path, env_id, options, dtype, same):
    """Without the statistics of observations a good policy sees the world at another scale."""
    agent, env = new("ppo", env_id, dtype=dtype, **options)
    live(agent, env, env.reset(), 3)
    save(agent, tmp_path / "agent.pt")
    twin = load(tmp_path / "agent.pt", device="cpu")
    assert twin.config == agent.config and twin.spec == agent.spec and twin.dtype == dtype
    assert twin.obs_normalizer.count.item() == agent.obs_normalizer.count.item() == 192
    assert same(twin.state_dict(), agent.state_dict())
    assert evaluate(twin, episodes=2) == evaluate(agent, episodes=2)


def test_an_agent_saved_on_another_kind_of_device_is_read_and_draws_from_its_own_seed(tmp_path, same):
    """A generator's state has 5056 bytes on a CPU and 16 on a GPU, and neither takes the other's."""
    agent, _ = new("ppo")
    save(agent, tmp_path / "agent.pt")
    saved = read(tmp_path / "agent.pt")
    saved["state"]["generator"] = torch.zeros(16, dtype=torch.uint8)
    torch.save(saved, tmp_path / "elsewhere.pt")
    here, there = (load(tmp_path / name, device="cpu") for name in ("agent.pt", "elsewhere.pt"))
    assert same(here.modules.state_dict(), there.modules.state_dict())
    for name in ("generator", "minibatch_generator"):
        assert not torch.equal(getattr(here, name).get_state(), getattr(there, name).get_state())


# What is written


Few, Word = enum.IntEnum("Few", "ONE TWO"), enum.StrEnum("Word", "ADAM")


@pytest.mark.parametrize(
    "config",
    [{"rollout_steps": Few.TWO}, {"optimizer": Word.ADAM}, {"optimizer": np.str_("adam")}, {"gamma": np.float64(0.5)}, {"anneal_lr": np.bool_(False)},
     {"hidden": collections.namedtuple("Widths", "one two")(4, Few.TWO)}, {"hidden": [np.int64(4), 4]}],
    ids=str,
)  # fmt: skip
def test_numbers_and_words_of_all_kinds_are_read_again(config, means, tmp_path, monkeypatch):
    agent, env = new("a2c", "CartPole-v1", **config)
    assert "np." not in repr(agent.config) and hash(agent.config)
    own = replace(agent.spec.own, high=(np.int64(1),), action_dtype=np.str_("int64"))
    agent.spec = env.spec = replace(agent.spec, own=own, obs_dim=np.int64(4))
    improve = agent.improve
    monkeypatch.setattr(agent, "improve", lambda *given: improve(*given) | {"train/own": np.float64(0.5)})
    run(agent, env, tmp_path / "run.pt", 64)
    back = load(tmp_path / "run.pt", device="cpu")
    assert back.config == agent.config and back.spec.own == own
    assert {row["train/own"] for row in read(tmp_path / "run.pt")["training"]["updates"]} == {0.5}


@pytest.mark.parametrize("value", [object(), Fraction(1, 2), {1, 2}, np.array(["a"]), 1j])
def test_what_no_file_can_hold_is_refused_before_training(value, tmp_path, monkeypatch):
    agent, env = new("a2c")
    state = agent.state_dict
    monkeypatch.setattr(agent, "state_dict", lambda: state() | {"own": [value]})
    wanted = r"^state\.own\[0\]: wanted tensors, numbers, text, .*; got (builtins|fractions|numpy)"
    with pytest.raises(ValueError, match=wanted):
        run(agent, env, tmp_path / "run.pt", callback=lambda row: pytest.fail("it trained"))
    assert os.listdir(tmp_path) == []


class Strange(torch.Tensor):
    """A tensor that the loader does not know."""


@pytest.mark.parametrize("kind", [Strange, type("Local", (torch.Tensor,), {})])
def test_a_state_that_cannot_be_read_never_takes_the_agent_with_it(kind, tmp_path, monkeypatch, same):
    agent, env = new("a2c", "CartPole-v1")
    monkeypatch.setattr(env, "state_dict", lambda: {"odd": torch.ones(2).as_subclass(kind)})
    fresh = "^the state of the environments is not saved, a resumed run starts fresh episodes: "
    with pytest.warns(UserWarning, match=fresh):
        run(agent, env, tmp_path / "run.pt", 64)
    assert same(load(tmp_path / "run.pt", device="cpu").state_dict(), agent.state_dict())
    assert read(tmp_path / "run.pt")["training"]["env"] is None


def full(state, file):
    file.write(b"half")
    raise OSError("disk full")


def damaged(state, file, write=torch.save):
    write(state, file)
    file.seek(5000), file.write(b"?" * 100)


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (full, pytest.raises(OSError, match="disk full")),
        (damaged, pytest.raises(ValueError, match=r"^path: wanted a checkpoint that can be read, so nothing has changed; run\.pt")),
    ],
)  # fmt: skip
def test_a_file_is_read_back_where_it_lies_and_replaces_nothing_if_it_cannot_be(write, error, tmp_path, monkeypatch):
    (agent, _), read_back, in_place = new("a2c"), torch.load, []
    monkeypatch.setattr(
        checkpoints.torch, "load", lambda *file, **how: in_place.append(how["mmap"]) or read_back(*file, **how)
    )
    save(agent, tmp_path / "run.pt")
    assert in_place == [True], "no second copy in memory"
    before = contents(tmp_path)
    monkeypatch.setattr(torch, "save", write)
    with error:
        save(agent, tmp_path / "run.pt")
    assert contents(tmp_path) == before


# What is read


def made():
    return new("a2c", "CartPole-v1", backend="gymnasium")


@pytest.fixture
def saved(means, tmp_path):
    """The file of a training half-way, and its content."""
    stopped(*made(), tmp_path / "run.pt")
    return tmp_path / "run.pt", read(tmp_path / "run.pt")


def test_a_changed_bit_is_told(saved, tmp_path, same):
    (path, whole), draw, refusals = saved, random.Random(0), 0
    for _ in range(150):
        changed = bytearray(path.read_bytes())
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        (tmp_path / "bit.pt").write_bytes(changed)
        try:
            assert same(read(tmp_path / "bit.pt"), whole)  # a byte that nobody reads
        except ValueError as error:
            refusals += str(error).startswith("path: wanted a checkpoint of minerva_lite; bit.pt cannot be read: ")
    assert refusals > 75


class Bomb:
    def __reduce__(self):
        return os.system, ("true",)


NEVER_WRITTEN = "it is damaged, or was never written by torch.save"


@pytest.mark.parametrize("reader", [load, load_base])
@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda path: path.write_bytes(b""), NEVER_WRITTEN),
        (lambda path: path.write_text("101"), NEVER_WRITTEN),
        (lambda path: path.write_bytes(pickle.dumps(Bomb())), NEVER_WRITTEN),
        (lambda path: zipfile.ZipFile(path, "w").writestr("a", "b"), NEVER_WRITTEN),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: torch.save({"agent": Bomb()}, path), "it holds more than tensors and plain values, and such a file may run code"),
    ],
)  # fmt: skip
def test_an_unreadable_file_is_told_in_words_of_our_own_and_runs_nothing(reader, write, why, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="file.pt"):
        reader(tmp_path / "file.pt")
    write(tmp_path / "file.pt")
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("the file ran code"))
    wanted = rf"^path: wanted .*file.pt (cannot be read: {why}$|is none .*{why}\)$)"
    with pytest.raises(ValueError, match=wanted) as refusal:
        reader(tmp_path / "file.pt")
    assert "weights_only" not in str(refusal.value)


OLDER = (
    r"of minerva_lite 0.1: train again with this version, or evaluate and film it with 0.1; its weights alone are in "
    r"torch.load\(path\)\['state'\]\['modules'\], under"
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: [1, 2], "a checkpoint of minerva_lite; run.pt holds something else$"),
        (lambda content: content | {"agent": "dqn"}, "a checkpoint of minerva_lite; run.pt holds something else$"),
        (lambda content: content | {"format": 1}, f"format {FORMAT}; run.pt has format 1, {OLDER}"),
        (lambda content: content | {"format": 2}, f"format {FORMAT}; run.pt has format 2, {OLDER}"),
        (lambda content: content | {"format": FORMAT + 1}, f"format {FORMAT}; run.pt has format {FORMAT + 1}, of a newer version: update minerva_lite$"),
    ],
)  # fmt: skip
def test_another_format_is_refused_with_what_to_do(change, message, saved):
    path, content = saved
    torch.save(change(content), path)
    before = path.read_bytes()
    for act in (lambda: load(path), lambda: run(*made(), path)):
        with pytest.raises(ValueError, match=f"^path: wanted {message}"):
            act()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("where", "value"),
    [("agent", ["a2c"]), ("format", "3"), ("training", 5), ("training", {}), ("state", 5), ("state.config", [1]), ("state.config.hidden", "wide"),
     ("state.config.critic_width", 8), ("state.spec", 5), ("state.spec.obs_dim", "4"), ("state.modules", 5), ("state.generator", 5),
     ("state.generator", torch.zeros(3)), ("training.steps", "many"), ("training.updates", 5), ("training.updates", [5]), ("training.obs", 5),
     ("training.env", 5), ("training.env", (1, 2, 3)), ("training.env.envs", [5, 5]), ("training.episodes", 5), ("training.total_steps", [1])],
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
        run(*made(), path)
    if where.startswith("state.") and "config" in where:
        with pytest.raises(
            ValueError, match="^path: wanted a checkpoint of a2c as this version saves it; run.pt differs"
        ):
            load(path)


# An environment that only a file names

EVIL = "evil_world:X-v0"


@pytest.fixture
def foreign(monkeypatch, saved):
    """A file that names an environment of a module in this folder."""
    path, content = saved
    text = "import gymnasium as gym\ngym.register('X-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=9)\n"
    (path.parent / "evil_world.py").write_text(text)
    (path.parent / "s.json").write_text(json.dumps({"algorithm": "a2c", "env": EVIL}))
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
    run(agent, make_env(EVIL, 4, backend="gymnasium"), None, 64)
    assert evaluate(agent, episodes=2), "it was named, when its environments were made"
    foreign.with_name("run.best.pt").unlink()
    run(*new("a2c", EVIL, backend="gymnasium"), foreign)


@pytest.mark.parametrize(
    "words", ["video run.pt --out film.gif", "evaluate run.pt", "train --config s.json --steps 640 --episodes 1"]
)
def test_on_the_command_line_it_has_to_be_typed(words, foreign, minerva):
    assert re.search(rf"--env: wanted it .*'{EVIL}' imports a module", minerva(words))
    assert "evil_world" not in sys.modules
    if not words.startswith("video"):  # which has its own tests
        assert minerva(f"{words} --env {EVIL}") is None
        assert "evil_world" in sys.modules
