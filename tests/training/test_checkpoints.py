"""Checkpoints: everything comes back to the bit, nothing half-written stays, and a foreign file is refused."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import os
import pickle

import numpy as np
import pytest
import torch

from minerva_lite import PPOAgent, PPOConfig, evaluate, make_env, train
from minerva_lite.experience.rollout import collect
from minerva_lite.training.checkpoints import FORMAT, load, save

SMALL = {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32, "epochs": 2, "hidden": (8,)}


def trained(env_id="Pendulum-v1", dtype=torch.float32, **options):
    config = PPOConfig(**SMALL | {"normalize_obs": True, "normalize_reward": True} | options)
    env = make_env(env_id, 4, dtype=dtype)
    agent = PPOAgent(config, env.spec, device="cpu", dtype=dtype)
    obs = env.reset()
    for _ in range(3):
        rollout, obs = collect(agent, env, obs, 16)
        agent.update(rollout)
    return agent, env, obs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("env_id", "options"), [("Pendulum-v1", {"squash": True}), ("Pendulum-v1", {"objective": "kl_penalty"}), ("CartPole-v1", {})])  # fmt: skip
def test_a_loaded_agent_is_the_saved_one_and_continues_to_the_bit(tmp_path, env_id, options, dtype, same):
    agent, env, obs = trained(env_id, dtype, **options)
    save(agent, tmp_path / "agent.pt")
    twin = load(tmp_path / "agent.pt", device="cpu")
    assert twin.config == agent.config and twin.spec == agent.spec and twin.dtype == dtype
    assert same(twin.state_dict(), agent.state_dict())
    assert evaluate(twin, episodes=2) == evaluate(agent, episodes=2)
    twin_env, twin_obs = copy.deepcopy(env), obs.clone()
    for learner, world, first in ((agent, env, obs), (twin, twin_env, twin_obs)):
        for _ in range(2):
            rollout, first = collect(learner, world, first, 16)
            learner.update(rollout)
    assert same(twin.state_dict(), agent.state_dict())


def test_a_checkpoint_carries_the_observation_statistics(tmp_path):
    """Without them a good policy sees the world at another scale."""
    agent, *_ = trained()
    save(agent, tmp_path / "agent.pt")
    twin = load(tmp_path / "agent.pt", device="cpu")
    assert agent.obs_normalizer.count.item() == 192
    assert torch.equal(twin.obs_normalizer.mean, agent.obs_normalizer.mean)
    assert torch.equal(twin.obs_normalizer.var, agent.obs_normalizer.var)
    assert torch.equal(twin.reward_scaler.stats.var, agent.reward_scaler.stats.var)
    assert torch.equal(twin.reward_scaler.running, agent.reward_scaler.running)


def test_a_crash_while_writing_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    agent, *_ = trained()
    save(agent, tmp_path / "agent.pt")
    before = (tmp_path / "agent.pt").read_bytes()

    def crash(state, file):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", crash)
    with pytest.raises(OSError, match="disk full"):
        save(agent, tmp_path / "agent.pt")
    assert os.listdir(tmp_path) == ["agent.pt"]
    assert (tmp_path / "agent.pt").read_bytes() == before


class Bomb:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p: p.write_bytes(b"no checkpoint"), "cannot be read"),
        (lambda p: p.write_bytes(b""), "cannot be read"),
        (lambda p: p.write_bytes(pickle.dumps(Bomb())), "cannot be read"),
        (lambda p: torch.save({"agent": Bomb()}, p), "cannot be read"),
        (lambda p: torch.save([1, 2], p), "holds something else"),
        (lambda p: torch.save({"agent": "dqn", "format": 1}, p), "holds something else"),
        (lambda p: torch.save({"agent": "ppo"}, p), "holds something else"),
    ],
)
def test_a_foreign_file_is_refused_and_runs_nothing(tmp_path, monkeypatch, write, message):
    write(tmp_path / "agent.pt")
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("the file ran code"))
    with pytest.raises(ValueError, match=rf"^path: wanted a checkpoint of minerva_lite; agent.pt .*{message}"):
        load(tmp_path / "agent.pt")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (1, "of minerva_lite 0.1: train again with this version, or evaluate and film it with 0.1; its weights alone"),
        (2, "of minerva_lite 0.1: train again with this version, or evaluate and film it with 0.1; its weights alone"),
        (FORMAT + 1, "of a newer version: update minerva_lite$"),
    ],
)
def test_another_format_is_refused_with_what_to_do(tmp_path, other, message, same):
    agent, env, _ = trained()
    save(agent, tmp_path / "agent.pt", training={"total_steps": 640})
    saved = torch.load(tmp_path / "agent.pt", weights_only=True)
    torch.save(saved | {"format": other}, tmp_path / "other.pt")
    before = (tmp_path / "other.pt").read_bytes()
    for read_it in (
        lambda path: load(path),
        lambda path: train(agent, env, 640, checkpoint=path, resume=True, progress=False),
    ):
        with pytest.raises(ValueError, match=rf"^path: wanted format {FORMAT}; other.pt has format {other}, {message}"):
            read_it(tmp_path / "other.pt")
    assert (tmp_path / "other.pt").read_bytes() == before
    # The way to the weights that the message names.
    weights = torch.load(tmp_path / "other.pt")["state"]["modules"]
    assert same(dict(weights), dict(agent.state_dict()["modules"]))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.pt"):
        load(tmp_path / "nothing.pt")


def test_settings_travel_whole(tmp_path):
    options = {"hidden": (5, 6), "gamma": 0.9, "target_kl": 0.5, "optimizer": "sgd", "momentum": 0.5}
    agent, *_ = trained(**options)
    save(agent, tmp_path / "agent.pt")
    config = load(tmp_path / "agent.pt", device="cpu").config
    assert dataclasses.asdict(config) == dataclasses.asdict(agent.config)
    assert {k: getattr(config, k) for k in options} == options


def test_an_agent_saved_on_another_kind_of_device_is_read_and_draws_from_its_own_seed(tmp_path):
    """A generator's state has 5056 bytes on a CPU and 16 on a GPU, and neither takes the other's."""
    agent, *_ = trained()
    save(agent, tmp_path / "agent.pt")
    saved = torch.load(tmp_path / "agent.pt", weights_only=True)
    saved["state"]["generator"] = torch.zeros(16, dtype=torch.uint8)
    torch.save(saved, tmp_path / "elsewhere.pt")
    here, there = (load(tmp_path / name, device="cpu") for name in ("agent.pt", "elsewhere.pt"))
    for name, value in here.modules.state_dict().items():
        assert torch.equal(value, there.modules.state_dict()[name]), name
    for name in ("generator", "minibatch_generator"):
        assert not torch.equal(getattr(here, name).get_state(), getattr(there, name).get_state())


def test_numbers_of_numpy_and_lists_become_plain_and_are_read_again(tmp_path):
    agent, *_ = trained(learning_rate=np.float64(1e-3), epochs=np.int64(2), hidden=[np.int64(5), 6])
    assert repr(agent.config) == repr(dataclasses.replace(agent.config, learning_rate=1e-3, epochs=2, hidden=(5, 6)))
    save(agent, tmp_path / "agent.pt")
    assert load(tmp_path / "agent.pt", device="cpu").config == agent.config and hash(agent.config)
    with pytest.raises(ValueError, match="^hidden: wanted a tuple of whole numbers; got 64$"):
        PPOConfig(hidden=64)
