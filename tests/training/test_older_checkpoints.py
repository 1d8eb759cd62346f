"""Files from before a setting existed: loaded, resumed, and refused where the setting is not its default."""

from __future__ import annotations

import pytest
import torch

from minerva_lite import VMPOAgent, VMPOConfig, make_env, train
from minerva_lite.training.checkpoints import load

SMALL = {"num_envs": 4, "rollout_steps": 16, "inner_steps": 2, "hidden": (8,)}
NEW = {"critic_hidden", "temperature_learning_rate", "value_target"}


def make(**options):
    env = make_env("Pendulum-v1", 4, seed=0)
    return VMPOAgent(VMPOConfig(**SMALL | options), env.spec, seed=0, device="cpu"), env


def run(path, **options):
    agent, env = make(**options)
    quiet = {"eval_every": 10_000, "eval_episodes": 1, "checkpoint_every": 64, "progress": False}
    return agent, train(agent, env, 256, checkpoint=path, **quiet, resume=path.exists())


class Stopped(Exception):
    """A run that ends before its time."""


@pytest.fixture
def older(tmp_path):
    """A file of a run that stopped half-way, as it was written before the settings in `NEW`."""
    path = tmp_path / "older.pt"
    agent, env = make()

    def stop(row):
        if row["steps"] > 128:
            raise Stopped

    with pytest.raises(Stopped):
        train(agent, env, 256, checkpoint=path, checkpoint_every=64, progress=False, callback=stop)
    saved = torch.load(path, weights_only=True)
    assert saved["training"]["steps"] == 128 and set(saved["state"]["config"]) > NEW
    for name in NEW:
        del saved["state"]["config"][name]
    torch.save(saved, path)
    return path


def test_an_older_run_is_resumed_and_ends_as_if_it_had_never_stopped(older, tmp_path, same):
    whole, _ = run(tmp_path / "whole.pt")
    resumed, _ = run(older)
    assert same(resumed.state_dict(), whole.state_dict())


def test_an_older_file_is_loaded_with_the_defaults(older):
    config = load(older, device="cpu").config
    assert {name: getattr(config, name) for name in NEW} == {
        "critic_hidden": None, "temperature_learning_rate": None, "value_target": "advantage"
    }  # fmt: skip


def test_a_run_with_one_of_the_new_settings_says_which_one_differs(older):
    message = (
        r"^checkpoint: wanted a training with temperature_learning_rate=0.1; older.pt holds one with "
        r"temperature_learning_rate=None: go on with its settings, or under another name$"
    )
    with pytest.raises(ValueError, match=message):
        run(older, temperature_learning_rate=0.1)


def test_a_setting_that_no_version_knows_is_refused(older):
    saved = torch.load(older, weights_only=True)
    saved["state"]["config"]["critic_width"] = 8
    torch.save(saved, older)
    with pytest.raises(
        ValueError, match=r"^path: wanted a checkpoint of vmpo as this version saves it; .*critic_width"
    ):
        load(older, device="cpu")
