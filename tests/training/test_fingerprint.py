"""A fingerprint: the same for the same run, another one for another setting, agent, estimator or environment."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from minerva_lite import MPOAgent, MPOConfig, PPOAgent, PPOConfig
from minerva_lite.agents import on_policy
from minerva_lite.training.fingerprint import fingerprint, same_fingerprint
from minerva_lite.worlds.torch_native import TORCH_ENVS, TorchCartPole

CONFIG = PPOConfig(num_envs=4, rollout_steps=32, minibatch_size=64, epochs=2)


def mark(config=CONFIG, agent=PPOAgent, env_id="CartPole-v1"):
    """Computed anew: a study keeps those that it has."""
    return fingerprint.__wrapped__(agent, config, env_id)


def test_the_same_run_has_the_same_fingerprint_whatever_was_drawn_before():
    first = mark()
    torch.manual_seed(7)
    torch.rand(3)
    assert mark() == first


def test_a_setting_that_two_updates_do_not_feel_changes_the_digest_alone():
    small = MPOConfig(num_envs=2, rollout_steps=8, learner_steps=2, minibatch_size=8)
    one, other = (mark(replace(small, replay_steps=steps), MPOAgent) for steps in (50_000, 60_000))
    assert one.split("-")[0] != other.split("-")[0] and one.split("-")[1] == other.split("-")[1]
    assert not same_fingerprint(one, other)


@pytest.mark.parametrize("changes", [{"learning_rate": 3.1e-4}, {"lam": 0.96}, {"anneal_lr": False}, {"epochs": 3}])
def test_a_setting_changes_the_fingerprint(changes):
    assert mark(replace(CONFIG, **changes)).split("-")[1] != mark().split("-")[1]


def test_changed_code_of_the_estimator_changes_the_number(monkeypatch):
    """Half of lambda: Adam's first steps have one length whatever the gradient, so that 1 % hardly shows."""
    before, gae = mark(), on_policy.gae
    monkeypatch.setattr(on_policy, "gae", lambda *data, gamma, lam: gae(*data, gamma=gamma, lam=0.5 * lam))
    assert not same_fingerprint(before, mark())


def test_a_changed_environment_changes_the_number(monkeypatch):
    class Heavier(TorchCartPole):
        def advance(self, state, action):
            successor, reward, terminated = super().advance(state, action)
            return successor.clone().mul_(1.01), reward, terminated

    before = mark()
    monkeypatch.setitem(TORCH_ENVS, "CartPole-v1", Heavier)
    assert not same_fingerprint(before, mark())


def test_rounding_on_another_processor_is_no_other_fingerprint():
    assert same_fingerprint("1f3a9c20-0.6214356", "1f3a9c20-0.6214401")
    assert not same_fingerprint("1f3a9c20-0.6214356", "1f3a9c20-0.6239")
    assert not same_fingerprint("1f3a9c20-0.6214356", "1f3a9c21-0.6214356")
