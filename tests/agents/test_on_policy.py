"""What all on-policy agents share: rows that count, statistics, targets, networks, figures."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.agents.on_policy import OnPolicyAgent
from minerva_lite.experience.normalizer import RewardScaler
from minerva_lite.formulas.returns import discounted_returns, gae
from tests.living import OWN, SMALL, differ, everything, learned, live, numbers, refusal, small_agent

SOME = {"vmpo": {"top_k_frac": 1.0}}  # half of one row would be none
NAMES = [name for name, (agent, _) in AGENTS.items() if issubclass(agent, OnPolicyAgent)]


def make(name: str, env_id: str = "Pendulum-v1", **options):
    return small_agent(name, env_id, **{"rollout_steps": 32} | options)


def takes_whole_episodes(name: str) -> bool:
    try:
        AGENTS[name][1](**SMALL | OWN.get(name, {}) | {"whole_episodes": True})
    except ValueError as error:
        assert str(error).startswith("whole_episodes: wanted False")
        return False
    return True


EPISODIC = [name for name in NAMES if takes_whole_episodes(name)]
assert {"reinforce", "a2c", "trpo", "vmpo"} <= set(EPISODIC) < set(NAMES)


# Rows that count


def with_phantoms(rollout, at):
    """The rollout with one more row before each of the rows `at`, of restart weight 0 and full of nonsense."""

    def spread(tensor, fill):
        rows = list(tensor)
        for row in sorted(at, reverse=True):
            rows.insert(row, fill(tensor[0]))
        return torch.stack(rows)

    def nonsense(row):
        return torch.ones_like(row) if row.dtype in (torch.bool, torch.int64) else torch.full_like(row, 77.0)

    changed = {name: spread(tensor, nonsense) for name, tensor in rollout.tensors().items() if "[" not in name}
    params = tuple(spread(p, nonsense) for p in rollout.behavior_params)
    weight = spread(torch.ones_like(rollout.reward), torch.zeros_like)
    return dataclasses.replace(rollout, **changed, behavior_params=params, restart_weight=weight)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize(
    "options", [{}, {"normalize_obs": True, "normalize_reward": True}, {"estimator": "returns"}], ids=str
)
@pytest.mark.parametrize("name", NAMES)
def test_rows_of_restart_weight_zero_are_as_if_they_were_not_there(name, options, env_id, same):
    """All episodes end at rows 10 and 31; the rows after them, and the first, are no transitions."""
    plain, env, obs = make(name, env_id, **options)
    rollout, _ = plain.collect(env, obs)
    ended = torch.zeros_like(rollout.truncated)
    ended[[10, 31]] = True
    rollout = dataclasses.replace(rollout, truncated=ended)
    before, ours = learned(plain), plain.update(rollout)
    assert differ(before, learned(plain)) and "train/restart_fraction" not in ours
    for at in ([], [0, 11, 32]):  # weights of one everywhere change nothing either
        other, _, _ = make(name, env_id, **options | {"rollout_steps": 32 + len(at)})
        theirs = other.update(with_phantoms(rollout, at))
        assert theirs.pop("train/restart_fraction") == pytest.approx(len(at) / (32 + len(at)))
        assert not differ(learned(plain), learned(other)) and same(ours, theirs)
        assert same(plain.modules.state_dict(), other.modules.state_dict()), "statistics included"


@pytest.mark.parametrize("name", NAMES)
def test_two_rows_are_the_least_whose_advantages_can_be_normalized(name, same):
    normalized = {"normalize_advantage": True, "normalize_obs": True, "normalize_reward": True}
    agent, env, obs = make(name, **normalized, **SOME.get(name, {}))
    rollout, _ = agent.collect(env, obs)
    weight, before = torch.zeros_like(rollout.reward), everything(agent)
    weight[5, 2] = 1.0
    told = refusal(agent.update, dataclasses.replace(rollout, restart_weight=weight))
    assert re.fullmatch("restart_weight: wanted at least 2 rows to learn from, one.*; got 1", told)
    assert same(before, everything(agent))
    weight[7, 1] = 1.0
    figures = agent.update(dataclasses.replace(rollout, restart_weight=weight))
    assert all(figure.isfinite() for figure in figures.values()) and not same(before, everything(agent))
    plain, env, obs = make(name, normalize_advantage=False, **SOME.get(name, {}))
    weight[7, 1] = 0.0
    critic = learned(plain.critic)
    plain.update(dataclasses.replace(plain.collect(env, obs)[0], restart_weight=weight))
    assert differ(critic, learned(plain.critic)), "one row will do where nothing is normalized"
    assert all(p.isfinite().all() for p in learned(plain))


@pytest.mark.parametrize("name", EPISODIC)
def test_rollouts_of_whole_episodes_have_two_rows_or_more_and_as_many_in_every_tensor(name):
    options = {"whole_episodes": True, "rollout_steps": 200, "normalize_advantage": True}
    agent, env, obs = make(name, "CartPole-v1", **options)
    rollout, _ = agent.collect(env, obs)
    steps = len(rollout.reward)
    assert steps < 200
    agent.update(rollout)
    for change, message in (
        ({"behavior_log_prob": rollout.behavior_log_prob[1:]}, f"behavior_log_prob: wanted shape ({steps}, 4); got ("),
        ({"reward": rollout.reward[:, 1:]}, "reward: wanted shape (any, 4); got "),
    ):
        assert refusal(agent.update, dataclasses.replace(rollout, **change)).startswith(message)
    agent, env, _ = make(name, "ToyLottery-v0", num_envs=1, **options, **SOME.get(name, {}))
    rollout, _ = agent.collect(env, env.reset([0]))  # an episode of one step
    told = refusal(agent.update, rollout)
    assert re.fullmatch("whole_episodes: wanted at least 2 rows to learn from, one.*; got 1", told)


# Acting and statistics


@pytest.mark.parametrize("name", NAMES)
def test_statistics_move_once_an_update_and_after_their_last_use(name, monkeypatch):
    agent, env, obs = make(name, normalize_obs=True, normalize_reward=True)
    rollout, obs = agent.collect(env, obs)
    agent.update(rollout)
    counts = agent.obs_normalizer.count.item(), agent.reward_scaler.stats.count.item()
    assert counts == (128, 128)
    rollout, _ = agent.collect(env, obs)
    agent.act(rollout.obs[0])
    assert (agent.obs_normalizer.count.item(), agent.reward_scaler.stats.count.item()) == counts
    improve, seen = agent.improve, []
    monkeypatch.setattr(agent, "improve", lambda *a: (improve(*a), seen.append(agent.obs_normalizer.count.item()))[0])
    mean = (agent.obs_normalizer.mean * 128 + rollout.obs.reshape(-1, 3).sum(0)) / 256
    agent.update(rollout)
    assert seen == [128], "frozen while it learns"
    assert agent.obs_normalizer.count.item() == agent.reward_scaler.stats.count.item() == 256
    torch.testing.assert_close(agent.obs_normalizer.mean, mean)


@pytest.mark.parametrize("name", EPISODIC)
def test_the_reward_scaler_starts_anew_with_each_rollout_of_whole_episodes(name):
    """The scale of rewards after two rollouts, from running returns that start at 0 in each."""
    options = {"whole_episodes": True, "rollout_steps": 100, "normalize_reward": True, "gamma": 0.9}
    agent, env, obs = make(name, "CartPole-v1", **options)
    scaler = RewardScaler(0.9)
    for _ in range(2):
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
        assert not rollout.ended[-1].all(), "some second episode is cut, whose return must not go on"
        scaler.running = torch.zeros(4)
        scaler.absorb(rollout.reward, rollout.ended)
    torch.testing.assert_close(agent.reward_scaler.stats.var, scaler.stats.var)


# Targets


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("estimator", "lam", "value_target"),
    [("gae", 0.6, "returns"), ("gae", 0.6, "advantage"), ("returns", 1.0, "advantage"), ("td", 0.0, "advantage")],
)
def test_prepare_gives_gae_of_the_estimator_and_the_value_target(name, estimator, lam, value_target):
    """Of scaled rewards; returns bootstrap where the data end and let no trace decay."""
    options = {"estimator": estimator, "value_target": value_target, "lam": 0.6, "gamma": 0.9}
    agent, env, obs = make(name, dtype=torch.float64, normalize_reward=True, **options)
    rollout, obs = agent.collect(env, obs)
    rollout.terminated[2, 0] = rollout.truncated[4, 1] = True
    agent.absorb_rewards(rollout)
    batch, reward = agent.prepare(rollout), agent.reward_scaler.scale(rollout.reward)
    assert (reward - rollout.reward).abs().max() > 0.1
    value, next_value = agent.critic(rollout.obs).detach(), agent.critic(rollout.next_obs).detach()
    ends = rollout.terminated, rollout.truncated
    advantage = gae(reward, value, next_value, *ends, gamma=0.9, lam=lam).flatten()
    returns = discounted_returns(reward, next_value, *ends, gamma=0.9).flatten()
    wanted = returns if value_target == "returns" else advantage + value.flatten()
    torch.testing.assert_close(batch.advantage, advantage, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(batch.value_target, wanted, rtol=1e-10, atol=1e-12)
    for column in ("obs", "action", "behavior_log_prob"):  # a row is one step of one environment, in every column
        assert torch.equal(getattr(batch, column), getattr(rollout, column).flatten(0, 1))
    assert lam == 1.0 or (returns - advantage - value.flatten()).abs().max() > 1e-3, "the two targets differ here"


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_prepare_gives_the_same_twice_and_changes_nothing(name, env_id, same):
    """So do V-MPO's E-step and the preparation of a vine."""
    vine = name == "trpo" and env_id == "Pendulum-v1"
    options = {"sampling": "vine", "vine_states": 8, "vine_steps": 4} if vine else {"normalize_reward": True}
    options |= {"act_by": "online", "importance_clip": 1.5, "normalize_advantage": True} if name == "vmpo" else {}
    agent, env, obs = make(name, env_id, normalize_obs=True, **options)
    _, obs = live(agent, env, obs, 2)
    data, _ = agent.collect(env, obs)
    rollout, before = data.trunk if vine else data, everything(agent)

    def prepared():
        batch = agent.prepare(rollout)
        more = agent.prepare_vine(data) if vine else agent.estep(batch) if name == "vmpo" else batch
        return [vars(batch), vars(more), vars(agent.prepare(rollout))]

    first = prepared()
    assert same(first, prepared()) and same(first[0], first[2]) and same(before, everything(agent))
    if not vine:
        agent.absorb_rewards(rollout)
        assert not same(first, prepared()), "the scale of the rewards would be seen"


# Networks


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_a_small_head_is_small_and_touches_nothing_else(name, env_id):
    agent, twin = make(name, env_id, head_init="small")[0], make(name, env_id)[0]
    head = (agent.policy.logits if agent.policy.discrete else agent.policy.mean)[-1]
    assert 0.001 < head.weight.abs().max() <= 0.003 and head.bias.eq(0).all()
    other = dict(twin.modules.named_parameters())
    changed = [n for n, p in agent.modules.named_parameters() if not torch.equal(p, other[n])]
    [changed] = [n for n in changed if not n.startswith("target_")]  # V-MPO's target is a copy
    assert changed.endswith("weight")


# What a practitioner reads


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_figures_every_agent_gives(name, env_id):
    """Of the policy after the update, and of the critic before it."""
    layers = {"torso": "layernorm"} if name == "vmpo" else {}  # there the std depends on the state
    agent, env, obs = make(name, env_id, dtype=torch.float64, **layers)
    rollout, _ = agent.collect(env, obs)
    batch, value = agent.prepare(rollout), agent.critic(rollout.obs).detach()
    figures = numbers(agent.update(rollout))
    params = agent.policy(rollout.obs)
    advantage, target = batch.advantage, batch.value_target
    wanted = {
        "kl/exact": agent.policy.kl(rollout.behavior_params, params).mean(),
        "train/entropy": agent.policy.entropy(params).mean(),
        "value/explained_variance": 1 - (target - batch.value_old).var(correction=0) / target.var(correction=0),
        "value/mean": value.mean(),
        "value/pred_std": value.std(correction=0),
        "value/target_mean": target.mean(),
        "value/target_std": target.std(correction=0),
        "adv/raw_mean": advantage.mean(),
        "adv/raw_std": advantage.std(correction=0),
    }
    if env_id == "Pendulum-v1":
        low, high = params[1].aminmax()
        wanted |= {"train/std": params[1].mean(), "train/std_min": low, "train/std_max": high}
        wanted["train/abs_action"] = rollout.action.abs().mean()
        assert (low < high) == bool(layers)
    for key, figure in wanted.items():
        assert figures[key] == pytest.approx(figure.item(), rel=1e-6, abs=1e-9), key
    assert ("train/std" in figures) == (env_id == "Pendulum-v1")
    assert all(math.isfinite(v) for v in figures.values()) and figures["train/skipped_batches"] == 0
