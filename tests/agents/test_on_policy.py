"""What all on-policy agents share, asked of each of them: the door, the statistics, the targets, the state."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.agents.on_policy import GradientAgent, GradientConfig, OnPolicyAgent, OnPolicyConfig
from minerva_lite.experience.rollout import collect
from minerva_lite.training import checkpoints
from minerva_lite.worlds.envs import EnvSpec, make_env
from tests import living
from tests.living import OWN, differ, learned, live, make_agent

SMALL = living.SMALL | {"rollout_steps": 32}
SOME = {"vmpo": {"top_k_frac": 1.0}}  # half of one row would be none
NAMES = [name for name, (agent, _) in AGENTS.items() if issubclass(agent, OnPolicyAgent)]


def takes_whole_episodes(name: str) -> bool:
    try:
        AGENTS[name][1](**SMALL | OWN.get(name, {}) | {"whole_episodes": True})
    except ValueError as error:
        assert str(error).startswith("whole_episodes: wanted False")
        return False
    return True


EPISODIC = [name for name in NAMES if takes_whole_episodes(name)]


def make(name: str, env_id: str = "Pendulum-v1", **options):
    return make_agent(name, env_id, **SMALL | OWN.get(name, {}) | options)


def everything(agent):
    """All that a refused batch must leave alone, cloned."""
    state = agent.state_dict()
    del state["skipped"], state["skipped_in_a_row"]
    return copy.deepcopy(state)


def test_each_agent_is_known_by_its_name():
    for name, (agent, config) in AGENTS.items():
        assert agent.name == name and issubclass(config, OnPolicyConfig) == (name in NAMES)
        assert issubclass(agent, GradientAgent) >= issubclass(config, GradientConfig)
    assert set(AGENTS) - set(NAMES) >= {"mpo"}, "it learns from a replay"
    assert {"reinforce", "a2c", "trpo", "vmpo"} <= set(EPISODIC) and "ppo" not in EPISODIC


def test_an_algorithm_has_to_say_how_it_improves():
    class Nothing(OnPolicyAgent):
        name = "nothing"

    agent = Nothing(GradientConfig(**SMALL), EnvSpec("Pendulum-v1", 3, action_dim=1), device="cpu")
    env = make_env("Pendulum-v1", 4)
    rollout, _ = agent.collect(env, env.reset())
    with pytest.raises(NotImplementedError):
        agent.update(rollout)


# The door


@pytest.mark.parametrize("poison", [math.nan, -math.inf])
@pytest.mark.parametrize("field", ["obs", "action", "behavior_log_prob", "reward", "next_obs"])
@pytest.mark.parametrize("name", NAMES)
def test_a_non_finite_rollout_changes_nothing_and_is_counted_by_name(name, field, poison, same):
    agent, env, obs = make(name, normalize_obs=True, normalize_reward=True)
    rollout, _ = agent.collect(env, obs)
    tensor = getattr(rollout, field).clone()
    tensor[5, 2] = poison
    bad, before = dataclasses.replace(rollout, **{field: tensor}), everything(agent)
    figures = agent.update(bad)
    assert same(before, everything(agent))
    assert {k: v.item() for k, v in figures.items()} == {"train/skipped_batches": 1.0}
    assert agent.guard.skipped == {field: 1}
    agent.update(rollout)
    assert not same(before, everything(agent)), "the same rollout, mended, does train"
    agent.update(bad), agent.update(bad)
    with pytest.raises(FloatingPointError, match=f"^{field}: not finite in 3 batches in a row"):
        agent.update(bad)


@pytest.mark.parametrize("name", NAMES)
def test_a_misshapen_rollout_is_named_before_anything_moves(name, same):
    agent, env, obs = make(name, normalize_obs=True, normalize_reward=True)
    r, _ = agent.collect(env, obs)
    before = everything(agent)
    for change, message in [
        ({"reward": r.reward[:16]}, r"^reward: wanted shape \(32, 4\); got \(16, 4\)"),
        ({"reward": r.reward.double()}, r"^reward: wanted dtype torch.float32; got torch.float64"),
        ({"behavior_log_prob": r.behavior_log_prob[..., None]}, r"^behavior_log_prob: wanted shape \(32, 4\); got \(32, 4, 1\)"),
        ({"obs": r.obs[..., :2]}, r"^obs: wanted shape \(32, 4, 3\); got \(32, 4, 2\)"),
        ({"action": r.action.squeeze(-1)}, r"^action: wanted shape \(32, 4, 1\); got \(32, 4\)"),
        ({"terminated": r.terminated.float()}, r"^terminated: wanted dtype torch.bool; got torch.float32"),
        ({"behavior_params": (r.behavior_params[0][0], r.behavior_params[1])}, r"^behavior_params\[0\]: wanted shape \(32, 4, 1\); got \(4, 1\)"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            agent.update(dataclasses.replace(r, **change))
    with pytest.raises(ValueError, match=r"^progress: wanted a number in \[0, 1\]; got -0.5"):
        agent.update(r, progress=-0.5)
    with pytest.raises(ValueError, match=r"^obs: wanted shape \(any, 3\); got \(3,\)"):
        agent.act(r.obs[0, 0])
    assert same(before, everything(agent))


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
    other, _, _ = make(name, env_id, **options | {"rollout_steps": 35})
    theirs = other.update(with_phantoms(rollout, [0, 11, 32]))
    before, ours = learned(plain), plain.update(rollout)
    assert differ(before, learned(plain))
    assert theirs.pop("train/restart_fraction") == pytest.approx(3 / 35)
    assert not differ(learned(plain), learned(other)) and same(ours, theirs)
    assert same(plain.modules.state_dict(), other.modules.state_dict()), "statistics included"


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_one_everywhere_change_nothing(name, same):
    twins = [make(name) for _ in range(2)]
    rollout, _ = twins[0][0].collect(*twins[0][1:])
    ours = twins[0][0].update(rollout)
    theirs = twins[1][0].update(dataclasses.replace(rollout, restart_weight=torch.ones_like(rollout.reward)))
    assert theirs.pop("train/restart_fraction") == 0
    assert same(ours, theirs) and not differ(*(learned(agent) for agent, *_ in twins))


@pytest.mark.parametrize("name", NAMES)
def test_restart_weights_other_than_zero_and_one_are_refused(name, same):
    agent, env, obs = make(name, normalize_obs=True)
    rollout, _ = agent.collect(env, obs)
    before = everything(agent)
    ones = torch.ones_like(rollout.reward)
    for weight in (0.0 * ones, 0.5 * ones, -ones, 2.0 * ones, math.nan * ones):
        with pytest.raises(ValueError, match="^restart_weight: wanted only 0 and 1, and not only 0"):
            agent.update(dataclasses.replace(rollout, restart_weight=weight))
    for weight, message in (
        (ones[1:], r"wanted shape \(32, 4\); got \(31, 4\)"),
        (ones.double(), "wanted dtype torch.float32"),
    ):
        with pytest.raises(ValueError, match=f"^restart_weight: {message}"):
            agent.update(dataclasses.replace(rollout, restart_weight=weight))
    assert same(before, everything(agent))


@pytest.mark.parametrize("name", NAMES)
def test_two_rows_are_the_least_whose_advantages_can_be_normalized(name, same):
    agent, env, obs = make(
        name, normalize_advantage=True, normalize_obs=True, normalize_reward=True, **SOME.get(name, {})
    )
    rollout, _ = agent.collect(env, obs)
    weight, before = torch.zeros_like(rollout.reward), everything(agent)
    weight[5, 2] = 1.0
    with pytest.raises(
        ValueError, match=r"^restart_weight: wanted at least 2 rows to learn from, one.* no spread; got 1$"
    ):
        agent.update(dataclasses.replace(rollout, restart_weight=weight))
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
def test_an_episode_of_one_step_has_no_spread_to_normalize_by(name, same):
    """The lottery's first episode lasts one step."""
    agent, env, obs = make(
        name, "ToyLottery-v0", num_envs=1, whole_episodes=True, normalize_advantage=True, **SOME.get(name, {})
    )
    env = make_env("ToyLottery-v0", 1)
    rollout, _ = agent.collect(env, env.reset([0]))
    assert int(rollout.first_episode.sum()) == 1
    before = everything(agent)
    with pytest.raises(
        ValueError, match=r"^whole_episodes: wanted at least 2 rows to learn from, one.* no spread; got 1$"
    ):
        agent.update(rollout)
    assert same(before, everything(agent))


@pytest.mark.parametrize("name", EPISODIC)
def test_rollouts_of_whole_episodes_have_any_length_but_the_same_in_every_tensor(name):
    agent, env, obs = make(name, "CartPole-v1", whole_episodes=True, rollout_steps=200)
    rollout, _ = agent.collect(env, obs)
    steps = len(rollout.reward)
    assert steps < 200
    agent.update(rollout)
    with pytest.raises(ValueError, match=rf"^behavior_log_prob: wanted shape \({steps}, 4\); got \({steps - 1}, 4\)"):
        agent.update(dataclasses.replace(rollout, behavior_log_prob=rollout.behavior_log_prob[1:]))
    with pytest.raises(ValueError, match=r"^reward: wanted shape \(any, 4\); got "):
        agent.update(dataclasses.replace(rollout, reward=rollout.reward[:, 1:]))


@pytest.mark.parametrize("name", NAMES)
def test_squash_needs_continuous_actions(name):
    with pytest.raises(
        ValueError, match=r"^squash: wanted False for CartPole-v1, whose actions are discrete; got True"
    ):
        make(name, "CartPole-v1", squash=True)


# Acting and statistics


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_acting_draws_from_the_policy_and_its_mode_draws_nothing(name, env_id):
    agent, env, obs = make(name, env_id)
    state = agent.generator.get_state()
    action, params = agent.act(obs, deterministic=True)
    assert torch.equal(agent.generator.get_state(), state) and not params[0].requires_grad
    assert torch.equal(action, params[0] if env_id == "Pendulum-v1" else params[0].argmax(-1))
    wide = obs[:1].expand(500, -1)
    assert len(agent.act(wide)[0].unique()) >= 2, "drawn"
    agent.generator.set_state(state)
    first = agent.act(wide)[0]
    agent.generator.set_state(state)
    assert torch.equal(first, agent.act(wide)[0])


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
    agent, env, obs = make(
        name, "CartPole-v1", whole_episodes=True, rollout_steps=100, normalize_reward=True, gamma=0.9
    )
    rows = []
    for _ in range(2):
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
        running = torch.zeros(4)
        assert not rollout.ended[-1].all(), "some second episode is cut, whose return must not go on"
        for reward, ended in zip(rollout.reward, rollout.ended, strict=True):
            running = 0.9 * running + reward
            rows.append(running)
            running = torch.where(ended, 0.0, running)
    torch.testing.assert_close(agent.reward_scaler.stats.var, torch.stack(rows).var(correction=0))


@pytest.mark.parametrize("name", NAMES)
def test_rewards_are_scaled_before_they_become_targets(name):
    agent, env, obs = make(name, dtype=torch.float64, normalize_reward=True, estimator="td", gamma=0.9)
    rollout, _ = collect(agent, env, obs, 32)
    value, next_value = agent.critic(rollout.obs), agent.critic(rollout.next_obs)
    batch = agent.prepare(rollout)
    stats = agent.reward_scaler.stats
    scaled = (rollout.reward / (stats.var + stats.eps).sqrt()).clamp(-10, 10)
    assert (scaled - rollout.reward).abs().max() > 0.1
    torch.testing.assert_close(batch.value_target, (scaled + 0.9 * next_value).flatten().detach())
    torch.testing.assert_close(batch.advantage, (scaled + 0.9 * next_value - value).flatten().detach())


# Targets


@pytest.mark.parametrize(("estimator", "decay"), [("gae", 0.7), ("returns", 1.0), ("td", 0.0)])
def test_the_estimator_stands_for_a_trace_decay(estimator, decay):
    assert OnPolicyConfig(estimator=estimator, lam=0.7).trace_decay == decay
    assert OnPolicyConfig(num_envs=3, rollout_steps=5).batch_size == 15


def test_what_prepare_flattens_stays_together():
    """A row of the batch is one step of one environment: every column tells the same (t, b)."""
    agent, env, obs = make("a2c", dtype=torch.float64)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    t, b = 7, 2
    row = t * 4 + b
    assert torch.equal(batch.obs[row], rollout.obs[t, b]) and torch.equal(batch.action[row], rollout.action[t, b])
    assert batch.behavior_log_prob[row] == rollout.behavior_log_prob[t, b]
    assert all(
        torch.equal(k[row], p[t, b]) for k, p in zip(batch.behavior_params, rollout.behavior_params, strict=True)
    )
    torch.testing.assert_close(batch.value_old[row], agent.critic(rollout.obs[t, b]).detach())
    torch.testing.assert_close(batch.value_target, batch.advantage + batch.value_old)
    assert not any(v.requires_grad for v in vars(batch).values() if torch.is_tensor(v))


# Networks


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_a_small_head_is_small_and_touches_nothing_else(name, env_id):
    agent, twin = make(name, env_id, head_init="small")[0], make(name, env_id)[0]
    head = (agent.policy.logits if agent.policy.discrete else agent.policy.mean)[-1]
    assert 0.001 < head.weight.abs().max() <= 0.003 and head.bias.eq(0).all()
    changed = [n for (n, p), (_, q) in zip(agent.modules.named_parameters(), twin.modules.named_parameters(), strict=True) if not torch.equal(p, q)]  # fmt: skip
    changed = [n for n in changed if not n.startswith("target_")]  # V-MPO's target is a copy
    assert len(changed) == 1 and changed[0].endswith("weight")


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_without_hidden_layers_policy_and_critic_are_linear(name, env_id):
    agent, env, obs = make(name, env_id, hidden=())
    one, other = torch.randn(2, 5, agent.spec.obs_dim, generator=agent.generator)
    for network in (lambda x: agent.policy(x)[0], agent.critic):
        torch.testing.assert_close(network((one + other) / 2), (network(one) + network(other)) / 2)
    before = learned(agent)
    live(agent, env, obs, 2)
    assert differ(before, learned(agent))


@pytest.mark.parametrize("name", NAMES)
def test_log_std_init_is_the_first_standard_deviation(name):
    agent, _, obs = make(name, log_std_init=-0.7)
    torch.testing.assert_close(agent.act(obs)[1][1], torch.full((4, 1), math.exp(-0.7)))


# What a practitioner reads


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_figures_every_agent_gives(name, env_id):
    agent, env, obs = make(name, env_id, dtype=torch.float64)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    figures = {k: v.item() for k, v in agent.update(rollout).items()}
    params = agent.policy(rollout.obs)
    assert figures["kl/exact"] == pytest.approx(
        agent.policy.kl(rollout.behavior_params, params).mean().item(), rel=1e-6
    )
    assert figures["train/entropy"] == pytest.approx(agent.policy.entropy(params).mean().item(), rel=1e-9)
    advantage, target = batch.advantage, batch.value_target
    error = target - batch.value_old
    explained = 1 - error.var(correction=0) / target.var(correction=0)
    wanted = {
        "value/explained_variance": explained,
        "value/mean": batch.value_old.mean(),
        "value/target_mean": target.mean(),
        "value/target_std": target.std(correction=0),
        "adv/raw_mean": advantage.mean(),
        "adv/raw_std": advantage.std(correction=0),
    }
    for key, value in wanted.items():
        assert figures[key] == pytest.approx(value.item(), rel=1e-6, abs=1e-9), key
    assert ("train/std" in figures) == (env_id == "Pendulum-v1")
    assert all(math.isfinite(v) for v in figures.values()) and figures["train/skipped_batches"] == 0


# Saved and restored


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_brings_back_the_agent_to_the_bit(name, tmp_path, same):
    agent, env, obs = make(name, normalize_obs=True, normalize_reward=True)
    for _ in range(2):
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
    agent.update(dataclasses.replace(rollout, reward=rollout.reward * math.nan))
    checkpoints.save(agent, tmp_path / "agent.pt")
    twin = checkpoints.load(tmp_path / "agent.pt", device="cpu")
    assert type(twin) is type(agent) and twin.config == agent.config and twin.spec == agent.spec
    assert twin.guard.skipped == {"reward": 1} and twin.guard.in_a_row == 1
    assert same(agent.state_dict(), twin.state_dict())
    twin_env = copy.deepcopy(env)
    (mine, _), (theirs, _) = agent.collect(env, obs), twin.collect(twin_env, obs)
    assert same(agent.update(mine), twin.update(theirs)) and same(agent.state_dict(), twin.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_a_foreign_state_is_not_taken(name):
    agent = make(name)[0]
    for other in (make(name, gamma=0.5)[0], make(name, "CartPole-v1")[0]):
        before = learned(other)
        with pytest.raises(ValueError, match="^state: wanted one saved with this config and environment; got another"):
            other.load_state_dict(agent.state_dict())
        assert not differ(before, learned(other))


@pytest.mark.parametrize("name", NAMES)
def test_seeds_decide_the_first_weights_whatever_the_precision(name):
    single, double, other = make(name)[0], make(name, dtype=torch.float64)[0], make(name, seed=1)[0]
    assert not differ(learned(single), [p.float() for p in learned(double)]) and differ(learned(single), learned(other))
    assert all(p.dtype == torch.float64 for p in learned(double))


def test_one_row_has_no_spread_to_normalize_by():
    with pytest.raises(
        ValueError, match=r"^normalize_advantage: wanted a batch of at least 2 rows, one has no spread; got 1"
    ):
        OnPolicyConfig(num_envs=1, rollout_steps=1)
    assert OnPolicyConfig(num_envs=1, rollout_steps=1, normalize_advantage=False).batch_size == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("options", [{}, {"sampling": "vine", "vine_states": 16, "vine_steps": 4}])
@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", NAMES)
def test_everything_stays_on_a_cuda_device(name, env_id, options):
    if options and name != "trpo":
        pytest.skip("only TRPO samples vines")
    agent, config = AGENTS[name]
    config = config(**SMALL | OWN.get(name, {}) | {"normalize_obs": True, "normalize_reward": not options} | options)
    env = make_env(env_id, 4, device="cuda")
    agent = agent(config, env.spec, device="cuda")
    rollout, obs = agent.collect(env, env.reset())
    assert {t.device.type for t in rollout.tensors().values()} == {"cuda"} == {obs.device.type}
    before = learned(agent)
    figures = agent.update(rollout)
    assert differ(before, learned(agent)) and all(math.isfinite(v) for v in figures.values())
