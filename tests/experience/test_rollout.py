"""Collected data: who follows whom, which rows are phantoms, minibatches that miss no row, vines."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from minerva_lite import PPOAgent, PPOConfig, train
from minerva_lite.agents.trpo import TRPOAgent, TRPOConfig
from minerva_lite.experience.rollout import Batch, collect, collect_episodes
from minerva_lite.experience.vine import collect_vine
from minerva_lite.worlds import TabularEnv, make_env
from minerva_lite.worlds.tabular import TabularMDP
from tests.living import make_agent, say


def lived(env_id: str, steps: int, num_envs: int = 4, **options):
    agent, env, first = make_agent("a2c", env_id, seed=1, num_envs=num_envs, **options)
    return collect(agent, env, first, steps)


def test_next_obs_is_the_true_successor_where_episodes_end():
    rollout, obs = lived("ToyCount-v0", 7, num_envs=1)
    assert rollout.obs[:, 0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0]]
    assert rollout.next_obs[:, 0].tolist() == [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3], [2, 1]]
    assert rollout.reward[:, 0].tolist() == [1, 2, 3, 11, 12, 13, 21]
    assert rollout.terminated[:, 0].tolist() == [i == 2 for i in range(7)]
    assert rollout.truncated[:, 0].tolist() == [i == 5 for i in range(7)]
    assert rollout.ended[:, 0].tolist() == [i in (2, 5) for i in range(7)]
    assert obs.tolist() == [[2, 1]]


@pytest.mark.parametrize("squash", [True, False])
def test_the_environment_gets_the_squashed_or_clipped_action_and_the_rollout_the_raw_one(squash):
    rollout, _ = lived("ToyEcho-v0", 50, squash=squash, log_std_init=1.0)
    assert rollout.action.abs().max() > 1.5, "raw actions leave the unit interval"
    unit = rollout.action.tanh() if squash else rollout.action.clamp(-1, 1)
    arrived = torch.tensor([-1.0, 20.0]) + torch.tensor([2.0, 10.0]) * unit
    torch.testing.assert_close(rollout.next_obs, arrived, rtol=1e-5, atol=1e-5)


# Next-step autoreset: weight 0 on the phantom rows, across the seams of rollouts too


class Determined:
    """Acts by the observation alone, so that phantom rows take no random number from the others."""

    policy = SimpleNamespace(to_env=lambda action: action, log_prob=lambda params, action: 0.0 * params[0][..., 0])

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


# Minibatches

COLUMNS = ("obs", "action", "behavior_log_prob", "advantage", "value_old", "value_target")


def numbered(n: int) -> Batch:
    """A batch whose row i holds i times 1, 2, 3, … in its columns."""
    row = torch.arange(1.0, n + 1)
    columns = {name: factor * row for factor, name in enumerate(COLUMNS, 1)}
    return Batch(**columns, behavior_params=(7 * row, 8 * row.unsqueeze(-1) * torch.ones(n, 2)))


@pytest.mark.parametrize("size", [1, 4, 5, 12, 50])
def test_minibatches_cover_each_row_once_in_a_fresh_order_and_keep_rows_together(size, generator):
    generators = generator, generator, torch.Generator().manual_seed(0)
    passes = [list(numbered(12).minibatches(size, each)) for each in generators]
    first, second, repeated = (torch.cat([batch.obs for batch in each]).tolist() for each in passes)
    assert sorted(first) == list(range(1, 13)) != first == repeated != second
    assert [len(batch) for batch in passes[0]] == [size] * (12 // size) + ([12 % size] if 12 % size else [])
    for batch in passes[0]:
        for factor, name in enumerate(COLUMNS, 1):
            assert torch.equal(getattr(batch, name), factor * batch.obs), name
        wide, matrix = batch.behavior_params
        assert torch.equal(wide, 7 * batch.obs) and torch.equal(matrix, 8 * batch.obs.unsqueeze(-1).expand(-1, 2))


# Vines

F64 = torch.float64


def rooted(env, **options):
    """A TRPO agent in float64 for this environment, and the first observation."""
    config = TRPOConfig(num_envs=env.num_envs, rollout_steps=6, hidden=(4,), gamma=0.9, **options)
    return TRPOAgent(config, env.spec, seed=0, device="cpu", dtype=F64), env.reset()


def vine_of(agent, env, obs, **options):
    settings = {"trunk_steps": 6, "states": 10, "actions": 2, "branch_steps": 5}
    return collect_vine(agent, env, obs, **settings | options)


def sure(agent, action: int, value: float) -> None:
    """A policy that takes one action whatever it sees, and a critic that says one number."""
    say(agent.critic, value)
    with torch.no_grad():
        agent.policy.logits[-1].weight.zero_()
        agent.policy.logits[-1].bias.fill_(-1e3)[action] = 1e3


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_a_branch_return_by_hand(steps):
    """A corridor of four states without slip, whose policy always goes right, and a critic that says 7."""
    world = TabularMDP.chain(4, 0.9, slip=0.0)
    env = TabularEnv(world, 4, max_steps=100, seed=0)
    agent, obs = rooted(env)
    sure(agent, 1, 7.0)
    vine, _ = vine_of(agent, env, obs, branch_steps=steps)
    assert vine.action.tolist() == [[0, 1]] * 10 and vine.proposal_log_prob.eq(0).all(), "all actions, none drawn"
    for i, start in enumerate(vine.obs.argmax(-1).tolist()):
        for first in (0, 1):
            state, wanted = start, 0.9**steps * 7.0
            for t, action in enumerate([first] + [1] * (steps - 1)):
                wanted += 0.9**t * world.reward[state, action].item()
                state = max(0, min(3, state + (1 if action else -1)))
            assert vine.q_value[i, first].item() == pytest.approx(wanted)


def test_branches_with_the_same_first_action_are_the_same_branch(generator):
    """Three actions of which two are drawn: where both are one, the returns are equal to the bit, elsewhere not."""
    env = TabularEnv(TabularMDP.random(6, 3, 0.9, generator), 4, max_steps=50, seed=0)
    agent, obs = rooted(env)
    vine, _ = vine_of(agent, env, obs, states=24)
    same = vine.action[:, 0] == vine.action[:, 1]
    assert 2 < same.sum() < 22
    assert torch.equal(vine.q_value[same, 0], vine.q_value[same, 1])
    assert (vine.q_value[~same, 0] != vine.q_value[~same, 1]).all()
    assert len(vine.q_value.unique()) > 20, "states do differ"


@pytest.mark.parametrize("world", ["Pendulum-v1", "CartPole-v1", "tabular"])
def test_the_trunk_is_what_would_have_been_collected_without_branches(world):
    """The vine moves the environment exactly as far as its trunk: the episode goes on where it was."""
    tabular = TabularMDP.chain(4, 0.9)
    env, other = (
        TabularEnv(tabular, 4, max_steps=5) if world == "tabular" else make_env(world, 4, dtype=F64) for _ in range(2)
    )
    (agent, obs), (twin, other_obs) = rooted(env), rooted(other)
    vine, next_obs = vine_of(agent, env, obs)
    rollout, other_next = collect(twin, other, other_obs, 6)
    for mine, theirs in zip(vine.trunk.tensors().values(), rollout.tensors().values(), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(next_obs, other_next)
    assert torch.equal(env.state, other.state) and torch.equal(env.elapsed, other.elapsed)
    assert torch.equal(env.generator.get_state(), other.generator.get_state())
    assert vine.reward is vine.trunk.reward and vine.num_steps == 24 + 10 * vine.action.shape[1] * 5
    # Every state of the vine is one of the trunk, none twice, with the parameters that were acted on there.
    found = (vine.trunk.obs.flatten(0, 1).unsqueeze(1) == vine.obs).all(-1)
    assert found.any(0).all()
    for kept, seen in zip(vine.behavior_params, vine.trunk.behavior_params, strict=True):
        torch.testing.assert_close(kept, seen.flatten(0, 1)[found.int().argmax(0)])
    assert world == "tabular" or len(vine.obs.unique(dim=0)) == 10, "four states cannot give ten different ones"


def test_proposals_and_their_densities(generator):
    env = make_env("Pendulum-v1", 4, dtype=F64)
    for squash in (False, True):
        agent, obs = rooted(env, squash=squash)
        vine, obs = vine_of(agent, env, obs, actions=50)
        wide = tuple(p.unsqueeze(1).expand(10, 50, 1) for p in vine.behavior_params)
        torch.testing.assert_close(vine.proposal_log_prob, agent.policy.log_prob(wide, vine.action))
        vine, obs = vine_of(agent, env, obs, actions=50, proposal="uniform")
        arrived = agent.policy.to_env(vine.action)
        assert arrived.abs().max() <= 1 and arrived.min() < -0.98 and arrived.max() > 0.98
        assert abs(arrived.mean()) < 0.1
        assert vine.proposal_log_prob.unique().tolist() == pytest.approx([-math.log(2.0)])
    env = TabularEnv(TabularMDP.random(6, 3, 0.9, generator), 4, max_steps=50, seed=0)
    agent, obs = rooted(env)
    sure(agent, 1, 0.0)
    vine, obs = vine_of(agent, env, obs, actions=2, proposal="uniform")
    assert vine.proposal_log_prob.unique().tolist() == pytest.approx([math.log(1 / 3)])
    assert set(vine.action.flatten().tolist()) == {0, 1, 2}
    assert vine_of(agent, env, obs, actions=2)[0].action.eq(1).all(), "the policy would only propose the one"
    assert vine_of(agent, env, obs, actions=9)[0].action.shape == (10, 3), "no more than there are"


@pytest.mark.parametrize(
    ("ask", "options", "message"),
    [
        (collect, {"steps": 0}, r"steps: wanted a whole number of at least 1; got 0$"),
        (collect_episodes, {"max_steps": 0}, r"max_steps: wanted a whole number of at least 1; got 0$"),
        (vine_of, {"trunk_steps": 0}, r"trunk_steps: wanted a whole number of at least 1; got 0"),
        (vine_of, {"states": 0}, r"states: .*; got 0"),
        (vine_of, {"actions": 0}, r"actions: .*; got 0"),
        (vine_of, {"branch_steps": 0}, r"branch_steps: .*; got 0"),
        (vine_of, {"proposal": "greedy"}, r"proposal: wanted one of policy, uniform; got 'greedy'"),
        (vine_of, {"states": 25}, r"states: wanted at most the 24 states of the trunk; got 25"),
    ],
)
def test_what_cannot_be_collected_is_refused_by_name(ask, options, message):
    env = make_env("Pendulum-v1", 4, dtype=F64)
    agent, obs = rooted(env)
    with pytest.raises(ValueError, match=f"^{message}"):
        ask(agent, env, **options) if ask is collect_episodes else ask(agent, env, obs, **options)
