"""Collected data: who follows whom, whose log-probability it is, and minibatches that miss no row."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import pytest
import torch

from minerva_lite.agents.ppo import PPOAgent, PPOConfig
from minerva_lite.envs import make_env
from minerva_lite.rollout import Rollout, collect, minibatches


def lived(env_id: str, steps: int, num_envs: int = 4, backend: str = "auto", **options):
    config = PPOConfig(num_envs=num_envs, rollout_steps=steps, minibatch_size=num_envs * steps, **options)
    env = make_env(env_id, num_envs, backend=backend, seed=1)
    agent = PPOAgent(config, env.spec, device="cpu")
    first = env.reset()
    return agent, env, first, *collect(agent, env, first, steps)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1", "ToyCount-v0", "Acrobot-v1"])
def test_each_row_starts_where_the_one_before_left_off(env_id):
    agent, _, first, rollout, obs = lived(env_id, 60)
    starts = torch.cat([rollout.obs, obs.unsqueeze(0)])
    assert torch.equal(starts[0], first)
    goes_on = ~rollout.ended
    assert torch.equal(starts[1:][goes_on], rollout.next_obs[goes_on])
    if env_id in ("CartPole-v1", "ToyCount-v0"):
        ended = rollout.ended
        assert ended.any()
        assert (starts[1:][ended] != rollout.next_obs[ended]).any(-1).all()
    assert not (rollout.terminated & rollout.truncated).any()
    assert rollout.obs.shape == rollout.next_obs.shape == (60, 4, agent.spec.obs_dim)
    assert rollout.reward.shape == rollout.terminated.shape == rollout.behavior_log_prob.shape == (60, 4)


def test_next_obs_is_the_true_successor_where_episodes_end():
    *_, rollout, obs = lived("ToyCount-v0", 7, num_envs=1)
    assert rollout.obs[:, 0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0]]
    assert rollout.next_obs[:, 0].tolist() == [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3], [2, 1]]
    assert rollout.reward[:, 0].tolist() == [1, 2, 3, 11, 12, 13, 21]
    assert rollout.terminated[:, 0].tolist() == [i == 2 for i in range(7)]
    assert rollout.truncated[:, 0].tolist() == [i == 5 for i in range(7)]
    assert rollout.ended[:, 0].tolist() == [i in (2, 5) for i in range(7)]
    assert obs.tolist() == [[2, 1]]


@pytest.mark.parametrize(("env_id", "options"), [("Pendulum-v1", {}), ("Pendulum-v1", {"squash": True}), ("CartPole-v1", {}), ("Pendulum-v1", {"normalize_obs": True})])  # fmt: skip
def test_behavior_log_prob_is_the_log_prob_of_its_params_at_its_action(env_id, options):
    agent, _, _, rollout, _ = lived(env_id, 20, **options)
    wanted = agent.policy.log_prob(rollout.behavior_params, rollout.action)
    assert torch.equal(rollout.behavior_log_prob, wanted)
    fresh = agent.policy(agent.normalized(rollout.obs))
    for kept, now in zip(rollout.behavior_params, fresh, strict=True):
        torch.testing.assert_close(kept, now, rtol=1e-5, atol=1e-6)
    assert not rollout.behavior_log_prob.requires_grad


def test_the_environment_gets_the_squashed_action_and_the_rollout_the_raw_one():
    _, _, _, rollout, _ = lived("ToyEcho-v0", 50, squash=True, log_std_init=1.0)
    assert rollout.action.abs().max() > 1.5, "raw actions leave the unit interval"
    arrived = torch.tensor([-1.0, 20.0]) + torch.tensor([2.0, 10.0]) * rollout.action.tanh()
    torch.testing.assert_close(rollout.next_obs, arrived, rtol=1e-5, atol=1e-5)
    _, _, _, rollout, _ = lived("ToyEcho-v0", 50, log_std_init=1.0)
    assert rollout.action.abs().max() > 1.5
    arrived = torch.tensor([-1.0, 20.0]) + torch.tensor([2.0, 10.0]) * rollout.action.clamp(-1, 1)
    torch.testing.assert_close(rollout.next_obs, arrived, rtol=1e-5, atol=1e-5)


def test_tensors_names_every_tensor():
    *_, rollout, _ = lived("Pendulum-v1", 3)
    names = rollout.tensors()
    assert set(names) == {"obs", "action", "behavior_log_prob", "behavior_params[0]", "behavior_params[1]", "reward", "next_obs", "terminated", "truncated"}  # fmt: skip
    assert names["behavior_params[1]"] is rollout.behavior_params[1]
    assert isinstance(rollout, Rollout)


@pytest.mark.parametrize("size", [1, 4, 5, 12, 50])
def test_minibatches_cover_each_row_once_and_keep_rows_together(size, generator):
    row = torch.arange(12)
    rows = {"a": row, "pair": (row * 10.0, row.unsqueeze(-1) * torch.ones(12, 3))}
    batches = list(minibatches(rows, size, generator))
    assert [len(b["a"]) for b in batches] == [size] * (12 // size) + ([12 % size] if 12 % size else [])
    assert sorted(torch.cat([b["a"] for b in batches]).tolist()) == list(range(12))
    for batch in batches:
        assert torch.equal(batch["pair"][0], batch["a"] * 10.0)
        assert torch.equal(batch["pair"][1], batch["a"].unsqueeze(-1) * torch.ones(1, 3))


def test_minibatches_are_shuffled_anew_by_the_generator(generator):
    rows = {"a": torch.arange(50)}

    def order(g):
        return torch.cat([b["a"] for b in minibatches(rows, 50, g)]).tolist()

    first, second = order(generator), order(generator)
    assert first != sorted(first) and first != second
    assert first == order(torch.Generator().manual_seed(0))


def test_collect_refuses_no_steps():
    agent, env, first, *_ = lived("Pendulum-v1", 3)
    with pytest.raises(ValueError, match="^steps: wanted a whole number of at least 1; got 0$"):
        collect(agent, env, first, 0)
