"""What `collect` makes of next-step autoreset: weight 0 on the phantom rows, across the seams of rollouts too."""

from __future__ import annotations

import pytest
import torch

from minerva_lite import MPOAgent, MPOConfig, PPOAgent, PPOConfig, train
from minerva_lite.experience.rollout import collect, collect_episodes
from minerva_lite.worlds.envs import make_env

ENVS = [("ToyLottery-v0", 6), ("CartPole-v1", 4)]


class Determined:
    """Acts by the observation alone, so that phantom rows take no random number from the others."""

    class policy:
        @staticmethod
        def to_env(action):
            return action

        @staticmethod
        def log_prob(params, action):
            return params[0][..., 0] * 0.0 - 1.0

    def act(self, obs):
        return (obs[:, 0] > 0).long(), (obs + 1.0,)  # CartPole falls within ten steps or so


def gym_env(env_id, num_envs, autoreset="next_step"):
    env = make_env(env_id, num_envs, backend="gymnasium", autoreset=autoreset)
    env.reset(range(2, 2 + num_envs))  # which the lengths of a lottery go by
    return env


def rollouts(env, lengths):
    """Rollouts of these lengths, one after the other, and joined: each column [T, B, ...]."""
    obs, parts = env.reset(), []
    for steps in lengths:
        rollout, obs = collect(Determined(), env, obs, steps)
        parts.append(rollout.tensors())
    return parts, {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("lengths", [(60,), (1,) * 60, (7, 13, 1, 1, 20, 18)], ids=len)
@pytest.mark.parametrize(("env_id", "num_envs"), ENVS)
def test_weights_are_zero_exactly_after_ends_wherever_a_rollout_is_cut(env_id, num_envs, lengths):
    parts, rows = rollouts(gym_env(env_id, num_envs), lengths)
    ended, weight = rows["terminated"] | rows["truncated"], rows["restart_weight"]
    assert weight.dtype == rows["reward"].dtype and weight.shape == ended.shape
    assert weight[0].eq(1).all() and torch.equal(weight[1:], 1.0 - ended[:-1].to(weight.dtype))
    assert weight.eq(0).any()
    if len(lengths) > 1:
        assert any(part["restart_weight"][0].eq(0).any() for part in parts[1:]), "some end in the last row of a rollout"


@pytest.mark.parametrize(("env_id", "num_envs"), ENVS)
def test_the_real_rows_are_those_of_the_same_step_mode(env_id, num_envs):
    _, rows = rollouts(gym_env(env_id, num_envs), (37, 23))
    _, same = rollouts(gym_env(env_id, num_envs, "same_step"), (37, 23))
    assert "restart_weight" not in same and same.keys() == rows.keys() - {"restart_weight"}
    for b in range(num_envs):
        real = rows["restart_weight"][:, b] == 1
        for name, column in same.items():
            assert torch.equal(rows[name][real, b], column[: int(real.sum()), b]), (b, name)


def test_a_rollout_without_an_end_has_weights_of_one_and_one_that_knows_no_phantoms_has_none():
    env = gym_env("CartPole-v1", 2)
    rollout, _ = collect(Determined(), env, env.reset(), 3)
    assert not rollout.ended.any() and rollout.restart_weight.eq(1).all() and rollout.real.all()
    env = make_env("CartPole-v1", 2)
    assert collect(Determined(), env, env.reset(), 3)[0].restart_weight is None


def test_whole_episodes_are_the_same_in_both_modes():
    """Lengths 3, 4, 5, 6, 1, 2. Six rows hold every first episode, and the phantom rows lie behind them."""
    rollout, _ = collect_episodes(Determined(), gym_env("ToyLottery-v0", 6), 50)
    same, _ = collect_episodes(Determined(), gym_env("ToyLottery-v0", 6, "same_step"), 50)
    assert rollout.reward.shape == same.reward.shape == (6, 6)
    first = rollout.first_episode
    assert torch.equal(first, same.first_episode) and first.sum(0).tolist() == [3, 4, 5, 6, 1, 2]
    assert rollout.real[first].all() and rollout.restart_weight.eq(0).sum(0).tolist() == [1, 1, 1, 0, 3, 2]
    for name, column in same.tensors().items():
        assert torch.equal(rollout.tensors()[name][first], column[first]), name
    # The next rollout begins with a reset of its own, and so without a phantom row.
    env = gym_env("ToyLottery-v0", 6)
    collect_episodes(Determined(), env, 50)
    assert collect_episodes(Determined(), env, 50)[0].real[0].all()


def test_an_agent_trains_on_them_and_the_phantom_rows_are_seen_as_such():
    config = PPOConfig(num_envs=4, rollout_steps=16, minibatch_size=16, epochs=1, hidden=(8,), normalize_obs=True)
    env = gym_env("CartPole-v1", 4)
    agent = PPOAgent(config, env.spec, device="cpu")
    history = train(agent, env, 640, eval_every=640, eval_episodes=1, progress=False)
    rows = [row["train/restart_fraction"] for row in history.updates]
    assert max(rows) > 0, "there are resets, which pay nothing and are no steps"
    assert history.column("train/reward_mean") == pytest.approx(1.0)
    assert history.updates[-1]["train/skipped_batches"] == 0
    assert 600 < agent.obs_normalizer.count.item() < 640, "statistics of the rows that were lived"


def test_an_agent_with_a_replay_refuses_them_and_names_the_way_out():
    config = MPOConfig(num_envs=4, rollout_steps=16, warmup_steps=0, hidden=(8,))
    env = gym_env("CartPole-v1", 4)
    agent = MPOAgent(config, env.spec, device="cpu")
    with pytest.raises(ValueError, match=r'^restart_weight: .* take environments with autoreset="same_step"'):
        train(agent, env, 640, progress=False)
    assert agent.replay.size == 0
