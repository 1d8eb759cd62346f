"""What `collect` makes of next-step autoreset: weight 0 on the phantom rows, across the seams of rollouts too."""

from __future__ import annotations

import pytest
import torch

from minerva_lite import PPOAgent, PPOConfig, train
from minerva_lite.experience.rollout import collect, collect_episodes
from minerva_lite.worlds.envs import make_env


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


@pytest.mark.parametrize("lengths", [(60,), (1,) * 60, (7, 13, 1, 1, 20, 18)], ids=len)
@pytest.mark.parametrize(("env_id", "num_envs"), [("ToyLottery-v0", 6), ("CartPole-v1", 4)])
def test_weights_are_zero_exactly_after_ends_wherever_a_rollout_is_cut(env_id, num_envs, lengths):
    env = gym_env(env_id, num_envs)
    obs, parts = env.reset(), []
    for steps in lengths:
        rollout, obs = collect(Determined(), env, obs, steps)
        parts.append(rollout)
    ended, weight = (torch.cat([getattr(part, name) for part in parts]) for name in ("ended", "restart_weight"))
    assert weight.dtype == parts[0].reward.dtype and weight.shape == ended.shape and weight.eq(0).any()
    assert weight[0].eq(1).all() and torch.equal(weight[1:], 1.0 - ended[:-1].to(weight.dtype))
    if len(lengths) > 1:
        assert any(part.restart_weight[0].eq(0).any() for part in parts[1:]), "some end in the last row of a rollout"


def test_whole_episodes_are_the_same_in_both_modes():
    """Lengths 3, 4, 5, 6, 1, 2. Six rows hold every first episode, and the phantom rows lie behind them."""
    rollout, _ = collect_episodes(Determined(), gym_env("ToyLottery-v0", 6), 50)
    same, _ = collect_episodes(Determined(), gym_env("ToyLottery-v0", 6, "same_step"), 50)
    assert rollout.reward.shape == same.reward.shape == (6, 6)
    assert same.restart_weight is None and same.real.all()
    first = rollout.first_episode
    assert torch.equal(first, same.first_episode) and first.sum(0).tolist() == [3, 4, 5, 6, 1, 2]
    assert rollout.real[first].all() and rollout.restart_weight.eq(0).sum(0).tolist() == [1, 1, 1, 0, 3, 2]
    for name, column in same.tensors().items():
        assert torch.equal(rollout.tensors()[name][first], column[first]), name
    cut, _ = collect_episodes(Determined(), gym_env("ToyLottery-v0", 6), 4)
    assert cut.reward.shape == (4, 6) and cut.first_episode[:, 3].all(), "not longer than allowed"


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
