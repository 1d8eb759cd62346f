"""Returns and lengths of training episodes, against a count by hand: seams, phantom rows, second episodes, vines."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from minerva_lite.experience.episodes import RunningEpisodes, finished_only
from minerva_lite.experience.rollout import Rollout, collect, collect_episodes
from minerva_lite.experience.vine import Vine
from minerva_lite.worlds.envs import make_env
from tests.living import make_agent
from tests.tape import Questions


def rollout_of(reward, ended, restart_weight=None):
    """Rows that hold nothing but what an episode's return is made of; every second end is a truncation."""
    nothing, even = torch.zeros_like(reward), torch.arange(len(reward)).unsqueeze(1) % 2 == 0
    return Rollout(
        nothing.unsqueeze(-1), nothing.long(), nothing, (), reward, nothing.unsqueeze(-1),
        ended & even, ended & ~even, restart_weight,
    )  # fmt: skip


def by_hand(reward, ended, weight, lengths):
    """Means over the episodes that end in each rollout of so many rows, one row and one environment at a time."""
    told, start = [], 0
    total, length = [0.0] * reward.shape[1], [0] * reward.shape[1]
    for rows in lengths:
        finished = []
        for t in range(start, start + rows):
            for b in range(reward.shape[1]):
                if weight[t, b] == 0:
                    continue
                total[b], length[b] = total[b] + reward[t, b].item(), length[b] + 1
                if ended[t, b]:
                    finished.append((total[b], length[b]))
                    total[b], length[b] = 0.0, 0
        start += rows
        count = len(finished) or math.nan
        told.append((sum(r for r, _ in finished) / count, sum(n for _, n in finished) / count))
    return told


def told_by(episodes, rows, lengths):
    told, start = [], 0
    for count in lengths:
        part = (None if column is None else column[start : start + count] for column in rows)
        told.append(tuple(figure.item() for figure in episodes.absorb(rollout_of(*part)).values()))
        start += count
    return told


@pytest.mark.parametrize("lengths", [(60,), (1,) * 60, (7, 13, 1, 1, 20, 18)], ids=len)
def test_means_are_those_of_a_count_by_hand_wherever_rollouts_are_cut(lengths):
    """With next-step autoreset; the last environment never ends."""
    draw = torch.Generator().manual_seed(0)
    reward, weight = torch.randn(60, 4, generator=draw), torch.ones(60, 4)
    ended = (torch.rand(60, 4, generator=draw) < 0.2) & (torch.arange(4) < 3)
    for t in range(1, 60):
        weight[t] = 1.0 - ended[t - 1].float()
        ended[t] &= weight[t] == 1
    rows = reward, ended, weight
    wanted, got = by_hand(*rows, lengths), told_by(RunningEpisodes(), rows, lengths)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert len(lengths) < 60 or any(math.isnan(length) for _, length in got), "in some no episode ends"


def test_a_sum_of_many_small_rewards_after_a_large_one_keeps_its_digits():
    reward = torch.full((1001, 1), 0.1)
    reward[0] = 1e6
    ended = torch.zeros(1001, 1, dtype=torch.bool)
    ended[-1] = True
    ((total, length),) = told_by(RunningEpisodes(), (reward, ended, None), (1001,))
    assert (total, length) == (pytest.approx(1e6 + 1000 * float(reward[1]), abs=1e-6), 1001.0)


def test_a_reward_that_is_nan_spoils_its_own_episode_alone():
    reward, ended = torch.ones(4, 2), torch.tensor([[0, 0], [1, 1], [0, 1], [1, 0]], dtype=torch.bool)
    reward[2, 0] = math.nan
    episodes = RunningEpisodes()
    assert told_by(episodes, (reward, ended, None), (2, 1)) == [(2.0, 2.0), (1.0, 1.0)]
    total, length = (x.item() for x in episodes.absorb(rollout_of(reward[3:], ended[3:])).values())
    assert math.isnan(total) and length == 2.0
    assert told_by(episodes, (torch.ones(2, 2), ended[:2], None), (2,)) == [(2.5, 2.5)]


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_of_whole_episodes_the_first_ones_count_and_each_rollout_starts_afresh(autoreset):
    """Lengths from 1 to 6, and rewards of 1: with second episodes the mean would be below 3.5."""
    agent, *_ = make_agent("a2c", "ToyLottery-v0", num_envs=6)
    env = make_env("ToyLottery-v0", 6, backend="gymnasium", seed=2, autoreset=autoreset)
    episodes = RunningEpisodes(whole=True)
    rollout, _ = collect_episodes(agent, env, 50)
    assert rollout.ended.sum() > 6, "some second episodes end too"
    assert [x.item() for x in episodes.absorb(rollout).values()] == [3.5, 3.5]
    cut, _ = collect_episodes(agent, env, 1)
    assert episodes.absorb(cut)["train/episode_length"].nan_to_num(nan=1.0) == 1.0
    assert [x.item() for x in episodes.absorb(rollout).values()] == [3.5, 3.5], "what was cut off does not go on"


def test_of_a_vine_the_trunk_counts():
    settings = {"sampling": "vine", "vine_states": 8, "vine_steps": 4, "num_envs": 4, "rollout_steps": 40}
    agent, env, obs = make_agent("trpo", "CartPole-v1", **settings)
    vine, _ = agent.collect(env, obs)
    assert isinstance(vine, Vine) and vine.trunk.ended.any()
    assert RunningEpisodes().absorb(vine) == RunningEpisodes().absorb(vine.trunk)


def test_data_of_another_kind_are_let_pass():
    assert RunningEpisodes().absorb("a recording") == {}


def test_a_row_loses_the_two_names_only_where_nothing_finished():
    row = {"steps": 1.0, "train/episode_return": 3.0, "train/episode_length": 2.0}
    assert finished_only(row) == row and finished_only({"steps": 1.0}) == {"steps": 1.0}
    assert finished_only(row | {"train/episode_return": math.nan}).keys() == row.keys(), "a reward was NaN"
    assert finished_only(row | {"train/episode_return": math.nan, "train/episode_length": math.nan}) == {"steps": 1.0}


def test_the_device_is_asked_for_nothing():
    agent, env, obs = make_agent("a2c", "CartPole-v1", num_envs=4)
    rollout, _ = collect(agent, env, obs, 30)
    with Questions() as questions:
        RunningEpisodes().absorb(rollout)
        RunningEpisodes(whole=True).absorb(rollout)
    assert questions.asked == []
