"""PPO: every option matters, every contradiction is refused, and an update starts where the data were collected."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch

from minerva_lite.agents.ppo import PPOAgent, PPOConfig
from minerva_lite.experience.rollout import collect
from minerva_lite.formulas.distributions import kl_estimates
from minerva_lite.formulas.objectives import normalize_advantage
from minerva_lite.worlds.envs import EnvSpec, make_env
from tests.living import (
    FAMILIES,
    FAMILY_NAMES,
    check_option_matters,
    check_restored,
    differ,
    learned,
    live,
    make_agent,
    through_a_file,
)

SMALL = {"num_envs": 4, "rollout_steps": 32, "minibatch_size": 32, "epochs": 3, "learning_rate": 3e-3, "hidden": (16,)}


def make(env_id: str = "Pendulum-v1", **options):
    return make_agent("ppo", env_id, **SMALL | options)


def snapshot(agent):
    """Everything that a refused batch must leave alone, cloned."""
    state = agent.state_dict()
    del state["skipped"], state["skipped_in_a_row"]  # the two counts of refusals are what it may change
    return copy.deepcopy(state)


# One row per option: what is set in both agents, and the two values of the option that must lead elsewhere.
OPTIONS = [
    ("num_envs", {"minibatch_size": 64}, 2, 4),
    ("rollout_steps", {}, 16, 32),
    ("minibatch_size", {}, 32, 64),
    ("epochs", {}, 1, 2),
    ("gamma", {}, 0.9, 0.99),
    ("gamma", {"estimator": "td"}, 0.9, 0.99),
    ("lam", {}, 0.9, 0.95),
    ("estimator", {}, "gae", "returns"),
    ("estimator", {}, "gae", "td"),
    ("objective", {}, "clip", "kl_penalty"),
    ("clip_eps", {}, 0.05, 0.2),
    ("clip_eps", {"objective": "kl_penalty", "clip_value": True}, 0.01, 1.0),
    ("kl_bound", {"objective": "kl_penalty"}, 1e-4, 1.0),
    ("kl_penalty_init", {"objective": "kl_penalty"}, 0.1, 10.0),
    ("target_kl", {}, 1e-4, None),
    ("stop_test", {"target_kl": 2e-4, "learning_rate": 1e-2}, "minibatch", "epoch"),
    ("clip_value", {"learning_rate": 1e-2}, True, False),
    ("recompute_advantage", {"learning_rate": 1e-2}, True, False),
    ("vf_coef", {"optimizer": "sgd"}, 0.1, 0.5),
    ("entropy_coef", {}, 0.0, 0.1),
    ("normalize_advantage", {}, True, False),
    ("normalize_obs", {}, True, False),
    ("normalize_reward", {}, True, False),
    ("optimizer", {}, "adam", "sgd"),
    ("momentum", {"optimizer": "sgd"}, 0.0, 0.9),
    ("learning_rate", {}, 1e-3, 3e-3),
    ("anneal_lr", {}, True, False),
    ("max_grad_norm", {}, 0.1, 0.5),
    ("hidden", {}, (16,), (16, 16)),
    ("critic_hidden", {}, None, (4,)),
    ("value_target", {}, "advantage", "returns"),
    ("head_init", {}, "orthogonal", "small"),
    ("log_std_init", {}, 0.0, -0.5),
    ("squash", {}, True, False),
]


@pytest.mark.parametrize(("option", "base", "one", "other"), OPTIONS, ids=lambda x: str(x))
def test_every_option_matters(option, base, one, other):
    check_option_matters(lambda **o: make(**base | o), option, one, other, updates=2)


def test_no_option_is_left_out():
    """`whole_episodes`, which PPO refuses, is among the contradictions below."""
    assert {row[0] for row in OPTIONS} | {"whole_episodes"} == {field.name for field in dataclasses.fields(PPOConfig)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"whole_episodes": True}, r"^whole_episodes: wanted False, PPO's minibatches.*; got True"),
        ({"minibatch_size": 129}, r"^minibatch_size: wanted at most rollout_steps \* num_envs = 128; got 129"),
        ({"minibatch_size": 127}, r"^minibatch_size: wanted no minibatch of one row.*; got 127 for a batch of 128"),
        ({"minibatch_size": 1}, r"^minibatch_size: wanted no minibatch of one row.*; got 1 for"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        PPOConfig(**SMALL | options)


def test_minibatches_of_one_row_are_fine_where_nothing_is_normalized():
    assert PPOConfig(**SMALL | {"minibatch_size": 1, "normalize_advantage": False}).minibatch_size == 1


def test_squash_needs_continuous_actions():
    with pytest.raises(
        ValueError, match=r"^squash: wanted False for CartPole-v1, whose actions are discrete; got True"
    ):
        make("CartPole-v1", squash=True)


def ratios_at_the_start_of_updates(agent, env, obs, updates: int) -> list[float]:
    """The largest |rho - 1| that the first loss of each update sees."""
    seen, loss = [], agent.loss

    def watched(rows):
        total, parts = loss(rows)
        if total.requires_grad:  # not what is only read, after the last step
            seen.append(parts["log_ratio"].expm1().abs().max().item())
        return total, parts

    agent.loss = watched
    firsts = []
    for _ in range(updates):
        seen.clear()
        _, obs = live(agent, env, obs, 1)
        firsts.append(seen[0])
        assert len(seen) == 12 and max(seen[1:]) > 1e-3, "later ratios do move"
    return firsts


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_the_first_ratio_of_every_update_is_one(env_id, options, normalize):
    agent, env, obs = make(env_id, **options, normalize_obs=normalize, normalize_reward=normalize)
    assert max(ratios_at_the_start_of_updates(agent, env, obs, 6)) <= 1e-5


def test_statistics_move_at_one_moment_only():
    """Not while acting, not while evaluating a mode, not in prepare; in update, once, by this rollout's rows."""
    agent, env, obs = make(normalize_obs=True, normalize_reward=True)
    live(agent, env, obs, 1)
    counts = agent.obs_normalizer.count.item(), agent.reward_scaler.stats.count.item()
    assert counts == (128, 128)
    rollout, _ = collect(agent, env, env.reset(), 32)
    agent.act(rollout.obs[0], deterministic=True)
    assert (agent.obs_normalizer.count.item(), agent.reward_scaler.stats.count.item()) == counts
    seen = []
    loss = agent.loss
    agent.loss = lambda rows: (seen.append(agent.obs_normalizer.count.item()), loss(rows))[1]
    mean = (agent.obs_normalizer.mean * 128 + rollout.obs.reshape(-1, 3).sum(0)) / 256
    agent.update(rollout)
    assert set(seen) == {128}, "frozen while it learns"
    assert agent.obs_normalizer.count.item() == agent.reward_scaler.stats.count.item() == 256
    torch.testing.assert_close(agent.obs_normalizer.mean, mean)


def test_normalized_observations_are_what_the_networks_see():
    agent, env, obs = make("CartPole-v1", normalize_obs=True)
    _, obs = live(agent, env, obs, 2)
    _, (logits,) = agent.act(obs, deterministic=True)
    stats = agent.obs_normalizer
    seen = ((obs - stats.mean) / (stats.var + stats.eps).sqrt()).clamp(-10, 10)
    torch.testing.assert_close(logits, agent.policy(seen)[0])
    assert (logits - agent.policy(obs)[0]).abs().max() > 1e-5


def test_rewards_are_scaled_with_the_agents_own_gamma():
    agent, env, obs = make("CartPole-v1", gamma=0.5, normalize_reward=True)
    rollout, _ = collect(agent, env, obs, 32)
    agent.update(rollout)
    rows, running = [], torch.zeros(4)
    for t in range(32):
        running = 0.5 * running + rollout.reward[t]
        rows.append(running)
        running = torch.where(rollout.ended[t], 0.0, running)
    torch.testing.assert_close(agent.reward_scaler.stats.var, torch.stack(rows).var(correction=0))


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["obs", "action", "behavior_log_prob", "behavior_params", "reward", "next_obs"])
def test_a_non_finite_rollout_changes_nothing_and_is_counted_by_name(name, poison, same):
    agent, env, obs = make(normalize_obs=True, normalize_reward=True, objective="kl_penalty")
    _, obs = live(agent, env, obs, 1)
    rollout, _ = collect(agent, env, obs, 32)
    tensor = getattr(rollout, name)
    if name == "behavior_params":
        tensor = tensor[1].clone()
        tensor[5, 2] = poison
        bad, named = (
            dataclasses.replace(rollout, behavior_params=(rollout.behavior_params[0], tensor)),
            "behavior_params[1]",
        )
    else:
        tensor = tensor.clone()
        tensor[5, 2] = poison
        bad, named = dataclasses.replace(rollout, **{name: tensor}), name
    before = snapshot(agent)
    figures = agent.update(bad)
    assert same(before, snapshot(agent))
    assert agent.guard.skipped == {named: 1}
    assert {k: v.item() for k, v in figures.items()} == {"train/skipped_batches": 1.0}
    agent.update(rollout)
    assert not same(before, snapshot(agent)), "the same rollout, mended, does train"
    agent.update(bad), agent.update(bad)
    with pytest.raises(
        FloatingPointError, match=f"^{named.replace('[', '.').replace(']', '.')}: not finite in 3 batches in a row"
    ):
        agent.update(bad)


def test_a_diverged_policy_is_refused_not_repaired():
    """Parameters at NaN make NaN actions; those are refused three times, and never trained on as zeros."""
    agent, env, obs = make()
    with torch.no_grad():
        agent.parameters[0].fill_(math.nan)
    rollout, _ = collect(agent, env, obs, 32)
    assert rollout.action.isnan().any()
    agent.update(rollout), agent.update(rollout)
    with pytest.raises(FloatingPointError, match="not finite in 3 batches in a row"):
        agent.update(rollout)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {"reward": r.reward[:16]}, r"^reward: wanted shape \(32, 4\); got \(16, 4\)"),
        (lambda r: {"reward": r.reward.double()}, r"^reward: wanted dtype torch.float32; got torch.float64"),
        (lambda r: {"behavior_log_prob": r.behavior_log_prob[..., None]}, r"^behavior_log_prob: wanted shape \(32, 4\); got \(32, 4, 1\)"),
        (lambda r: {"obs": r.obs[..., :2]}, r"^obs: wanted shape \(32, 4, 3\); got \(32, 4, 2\)"),
        (lambda r: {"next_obs": r.next_obs.flatten(0, 1)}, r"^next_obs: wanted shape \(32, 4, 3\); got \(128, 3\)"),
        (lambda r: {"action": r.action.squeeze(-1)}, r"^action: wanted shape \(32, 4, 1\); got \(32, 4\)"),
        (lambda r: {"action": r.action.long()}, r"^action: wanted dtype torch.float32; got torch.int64"),
        (lambda r: {"terminated": r.terminated.float()}, r"^terminated: wanted dtype torch.bool; got torch.float32"),
        (lambda r: {"truncated": r.truncated[0]}, r"^truncated: wanted shape \(32, 4\); got \(4,\)"),
        (lambda r: {"behavior_params": (r.behavior_params[0], r.behavior_params[1][..., 0])}, r"^behavior_params\[1\]: wanted shape \(32, 4, 1\); got \(32, 4\)"),
    ],
)  # fmt: skip
def test_a_misshapen_rollout_is_named_before_anything_moves(change, message, same):
    agent, env, obs = make(normalize_obs=True, normalize_reward=True)
    rollout, _ = collect(agent, env, obs, 32)
    before = snapshot(agent)
    with pytest.raises(ValueError, match=message):
        agent.update(dataclasses.replace(rollout, **change(rollout)))
    assert same(before, snapshot(agent))


def test_act_and_progress_are_checked():
    agent, env, obs = make()
    with pytest.raises(ValueError, match=r"^obs: wanted shape \(any, 3\); got \(3,\)"):
        agent.act(obs[0])
    rollout, _ = collect(agent, env, obs, 32)
    with pytest.raises(ValueError, match=r"^progress: wanted a number in \[0, 1\]; got 1.5"):
        agent.update(rollout, progress=1.5)


def k3_seen(agent):
    """Record the mean k3 of each minibatch that `loss` was asked about, in order."""
    asked, loss = [], agent.loss

    def watched(rows):
        total, parts = loss(rows)
        if total.requires_grad:  # not what is only read, after the last step
            asked.append(kl_estimates(parts["log_ratio"])[2].mean().item())
        return total, parts

    agent.loss = watched
    return asked


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_target_kl_stops_before_the_step(env_id, options):
    """Every minibatch but the last asked about was within the target; the last was not, and took no step."""
    target = 2e-4
    agent, env, obs = make(env_id, target_kl=target, learning_rate=1e-2, **options)
    asked = k3_seen(agent)
    figures, _ = live(agent, env, obs, 1)
    assert 1 < len(asked) < 12
    assert asked[-1] > target and max(asked[:-1]) <= target
    assert figures["train/gradient_steps"].item() == len(asked) - 1


def test_target_kl_reads_k3_not_k1():
    """Ratios above one everywhere: k1 is negative, yet the policy has drifted."""
    agent, *_ = make(target_kl=0.01)
    log_ratio = torch.full((8,), 0.5)
    assert kl_estimates(log_ratio)[0].mean() < 0
    assert agent.drifted(log_ratio)
    assert not agent.drifted(torch.full((8,), 0.1)), "k3 = 0.0052"
    assert agent.drifted(torch.full((8,), -0.5)) and not agent.drifted(torch.full((8,), -0.1))


@pytest.mark.parametrize("off", [None, 0.0, -1.0])
def test_target_kl_none_or_not_above_zero_is_off(off):
    agent, env, obs = make(target_kl=off, learning_rate=1e-2)
    figures, _ = live(agent, env, obs, 1)
    assert figures["train/gradient_steps"].item() == 12
    reference, env, obs = make(learning_rate=1e-2)
    live(reference, env, obs, 1)
    assert not differ(learned(agent), learned(reference))


def test_epoch_stop_tests_the_last_minibatch_of_an_epoch():
    target = 2e-4
    agent, env, obs = make(target_kl=target, learning_rate=1e-2, stop_test="epoch", epochs=5)
    asked = k3_seen(agent)
    figures, _ = live(agent, env, obs, 1)
    epochs = len(asked) // 4
    assert len(asked) % 4 == 0 and 1 <= epochs < 5, "whole epochs, and it did stop"
    assert max(asked[:-1]) > target, "an earlier minibatch was over already"
    assert asked[-1] > target and all(k <= target for k in asked[3:-1:4])
    assert figures["train/gradient_steps"].item() == len(asked)


@pytest.mark.parametrize(("stop_test", "steps"), [("minibatch", 1), ("epoch", 2)])
def test_a_minibatch_of_one_row_is_passed_over_and_the_stop_goes_by_the_others(stop_test, steps):
    """Five rows of eight are real: minibatches of four and one, and after the first step the policy has drifted."""
    agent, env, obs = make(rollout_steps=2, minibatch_size=4, target_kl=1e-9, stop_test=stop_test)
    asked = k3_seen(agent)
    rollout, _ = agent.collect(env, obs)
    weight = torch.ones_like(rollout.reward)
    weight[1, :3] = 0.0
    figures = agent.update(dataclasses.replace(rollout, restart_weight=weight))
    assert figures["train/gradient_steps"].item() == steps and len(asked) == 2
    assert asked[0] <= 1e-9 < asked[1]


@pytest.mark.parametrize(("anneal", "progress", "factor"), [(True, 0.0, 1.0), (True, 0.25, 0.75), (True, 1.0, 0.0), (False, 0.25, 1.0)])  # fmt: skip
def test_learning_rate_anneals_linearly(anneal, progress, factor):
    agent, env, obs = make(anneal_lr=anneal)
    before = learned(agent)
    figures, _ = live(agent, env, obs, 1, progress=progress)
    assert figures["train/learning_rate"].item() == pytest.approx(3e-3 * factor, rel=1e-6)
    assert differ(before, learned(agent)) == (factor > 0)


def test_kl_penalty_adapts_by_the_exact_kl_of_the_update():
    agent, env, obs = make(objective="kl_penalty", kl_bound=1e-6, kl_penalty_init=3.0)
    figures, obs = live(agent, env, obs, 1)
    assert figures["kl/exact"] > 1.5e-6 and figures["kl/penalty"] == 3.0 and agent.kl_penalty == 6.0
    agent, env, obs = make(objective="kl_penalty", kl_bound=1e3, kl_penalty_init=3.0)
    live(agent, env, obs, 1)
    assert agent.kl_penalty == 1.5
    agent, env, obs = make(kl_penalty_init=3.0)
    live(agent, env, obs, 1)
    assert agent.kl_penalty == 3.0, "left alone under clip"


@pytest.mark.parametrize(("kl_bound", "at"), [(1e3, 1e-8), (1e-9, 1e8)])
def test_a_policy_that_stands_still_leaves_a_kl_penalty_that_can_come_back(kl_bound, at):
    """Halved at each of 1,075 updates it would be 0 for good, and the next update refused."""
    agent, env, obs = make(objective="kl_penalty", kl_bound=kl_bound, learning_rate=1e-3)
    for start in (1.5 * at, at, at / 1.5):
        agent.kl_penalty = start
        _, obs = live(agent, env, obs, 1)
        assert agent.kl_penalty == at


@pytest.mark.parametrize("again", [True, False])
def test_advantages_and_targets_are_those_of_the_critic_before_each_epoch_only_where_asked_for(again):
    """One step an epoch, so that the critic before the epoch is the critic at its step."""
    agent, env, obs = make(recompute_advantage=again, epochs=3, learning_rate=1e-2, minibatch_size=128)
    rollout, _ = agent.collect(env, obs)
    names, seen, now, loss = ("advantage", "value_target", "value_old", "behavior_log_prob"), [], [], agent.loss

    def watched(rows):
        assert len(rows) == rollout.reward.numel()
        for kept, batch in ((seen, rows), (now, agent.prepare(rollout))):
            kept.append(torch.stack([getattr(batch, name).sort().values for name in names]))
        return loss(rows)

    agent.loss = watched
    figures = agent.update(rollout)
    seen, now = seen[:3], now[:3]  # afterward `diagnose` looks once more
    assert len(seen) == 3
    for before, current in zip(seen, now, strict=True):
        assert torch.equal(before[[0, 1, 3]], (current if again else now[0])[[0, 1, 3]])
        assert torch.equal(before[2], now[0][2]), "V before the update, around which `clip_value` clips"
    assert not torch.equal(now[0], now[1]), "the critic did move"
    assert torch.equal(seen[0][3], seen[2][3]), "the old log-probabilities are never others"
    assert figures["value/mean"] == pytest.approx(now[0][2].mean().item(), abs=1e-6), "figures are of the rollout's V"


def test_prepare_gives_gae_targets_of_the_estimator():
    for estimator, lam in (("gae", 0.7), ("returns", 1.0), ("td", 0.0)):
        agent, env, obs = make("CartPole-v1", dtype=torch.float64, estimator=estimator, lam=0.7, gamma=0.9)
        rollout, _ = collect(agent, env, obs, 32)
        batch = agent.prepare(rollout)
        value, next_value = agent.critic(rollout.obs), agent.critic(rollout.next_obs)
        running, rows = torch.zeros(4, dtype=torch.float64), []
        for t in reversed(range(32)):
            td_error = rollout.reward[t] + 0.9 * torch.where(rollout.terminated[t], 0.0, next_value[t]) - value[t]
            running = td_error + 0.9 * lam * torch.where(rollout.ended[t], 0.0, running)
            rows.insert(0, running)
        advantage = torch.stack(rows).detach()
        torch.testing.assert_close(batch.advantage, advantage.flatten(), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(batch.value_target, (advantage + value.detach()).flatten(), rtol=1e-10, atol=1e-12)
        assert torch.equal(batch.action, rollout.action.flatten())


def test_loss_adds_its_parts_with_their_weights(generator):
    agent, env, obs = make("CartPole-v1", dtype=torch.float64, vf_coef=0.3, entropy_coef=0.2)
    live(agent, env, obs, 1)
    rollout, _ = collect(agent, env, obs, 32)
    live(agent, env, obs, 1)
    rows = agent.prepare(rollout)
    total, parts = agent.loss(rows)
    logits = agent.policy(rows.obs)[0].log_softmax(-1)
    wanted_ratio = logits.gather(-1, rows.action.unsqueeze(-1)).squeeze(-1) - rows.behavior_log_prob
    torch.testing.assert_close(parts["log_ratio"], wanted_ratio.detach())
    a, rho = normalize_advantage(rows.advantage), wanted_ratio.exp()
    clip = torch.minimum(rho * a, rho.clamp(0.8, 1.2) * a).mean()
    critic = 0.5 * (agent.critic(rows.obs) - rows.value_target).square().mean()
    entropy = -(logits.exp() * logits).sum(-1).mean()
    torch.testing.assert_close(total, -clip + 0.3 * critic - 0.2 * entropy, rtol=1e-10, atol=1e-12)
    assert (rho - 1).abs().max() > 1e-3
    assert parts["loss/policy"].item() == pytest.approx(-clip.item(), rel=1e-10)
    assert parts["loss/value"].item() == pytest.approx(critic.item(), rel=1e-10)
    assert parts["entropy"].mean().item() == pytest.approx(entropy.item(), rel=1e-10)
    assert not any(part.requires_grad for part in parts.values())


def test_the_value_loss_that_is_told_is_the_one_that_is_descended():
    """Clipped: at most 0.2 from V before the update, and the worse of the two errors counts."""
    agent, env, obs = make(dtype=torch.float64, clip_value=True, vf_coef=0.3, learning_rate=3e-2)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    figures = agent.update(rollout)
    value, old, target = agent.critic(batch.obs), batch.value_old, batch.value_target
    clipped = old + (value - old).clamp(-0.2, 0.2)
    wanted = 0.5 * torch.maximum((value - target).square(), (clipped - target).square()).mean()
    plain = 0.5 * (value - target).square().mean()
    assert figures["loss/value"].item() == pytest.approx(wanted.item(), rel=1e-9) and wanted > 1.01 * plain
    total, parts = agent.loss(batch)
    assert total.item() == pytest.approx((parts["loss/policy"] + 0.3 * wanted).item(), rel=1e-9)


def test_advantages_are_normalized_per_minibatch():
    agent, env, obs = make(dtype=torch.float64)
    rollout, _ = collect(agent, env, obs, 32)
    rows, log_ratio = agent.prepare(rollout)[:20], torch.zeros(20, dtype=torch.float64)
    log_ratio[0] = 0.05
    log_prob = agent.policy.log_prob(agent.policy(rows.obs), rows.action).detach()
    rows = dataclasses.replace(rows, behavior_log_prob=log_prob - log_ratio)
    advantage = rows.advantage
    centered = advantage - advantage.mean()
    normalized = centered / centered.square().mean().sqrt()
    wanted = -(log_ratio.exp() * normalized).mean()
    torch.testing.assert_close(agent.loss(rows)[1]["loss/policy"], wanted, rtol=1e-6, atol=1e-9)
    plain, *_ = make(dtype=torch.float64, normalize_advantage=False)
    torch.testing.assert_close(plain.loss(rows)[1]["loss/policy"], -(log_ratio.exp() * advantage).mean())


def test_gradient_norm_is_clipped_over_all_parameters():
    """Plain SGD at rate 1: a step is the gradient, so its norm over all parameters is the bound."""
    agent, env, obs = make(optimizer="sgd", learning_rate=1.0, max_grad_norm=0.01, epochs=1, minibatch_size=128)
    before = learned(agent)
    figures, _ = live(agent, env, obs, 1)
    step = torch.cat([(a - b).flatten() for a, b in zip(learned(agent), before, strict=True)])
    assert figures["train/grad_norm"] > 0.01
    assert step.norm().item() == pytest.approx(0.01, rel=1e-3)


def test_figures_over_the_rollout():
    agent, env, obs = make(normalize_reward=False, normalize_obs=True)
    _, obs = live(agent, env, obs, 1)
    rollout, _ = collect(agent, env, obs, 32)
    batch = agent.prepare(rollout)
    seen_obs = agent.normalized(rollout.obs)
    figures = {k: v.item() for k, v in agent.update(rollout).items()}
    advantage = batch.advantage
    assert figures["adv/raw_mean"] == pytest.approx(advantage.mean().item(), rel=1e-5)
    assert figures["adv/raw_std"] == pytest.approx(advantage.std(correction=0).item(), rel=1e-5)
    assert abs(figures["adv/raw_std"] - 1) > 0.1, "not the normalized ones"
    log_ratio = agent.policy.log_prob(agent.policy(seen_obs), rollout.action) - rollout.behavior_log_prob
    assert figures["kl/k1"] == pytest.approx(-log_ratio.mean().item(), rel=1e-3, abs=1e-6)
    assert figures["kl/k3"] == pytest.approx((log_ratio.expm1() - log_ratio).mean().item(), rel=1e-3, abs=1e-6)
    kl = agent.policy.kl(rollout.behavior_params, agent.policy(seen_obs)).mean().item()
    assert figures["kl/exact"] == pytest.approx(kl, rel=1e-3) and kl > 0
    outside = ((log_ratio.exp() - 1).abs() > 0.2).float().mean().item()
    assert figures["train/clip_fraction"] == pytest.approx(outside, abs=1e-6) and outside > 0
    error = batch.value_target - batch.value_old
    explained = 1 - error.var(correction=0) / batch.value_target.var(correction=0)
    assert figures["value/explained_variance"] == pytest.approx(explained.item(), abs=1e-5)
    assert figures["train/abs_action"] == pytest.approx(rollout.action.abs().mean().item(), rel=1e-6)
    assert all(math.isfinite(v) for v in figures.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_a_restored_agent_continues_to_the_bit(env_id, options, dtype, same):
    options = options | {"normalize_obs": True, "normalize_reward": True, "objective": "kl_penalty"}
    check_restored(*make(env_id, dtype=dtype, **options), same)


def test_refusals_are_restored_and_a_foreign_state_is_not_taken():
    agent, env, obs = make()
    rollout, _ = collect(agent, env, obs, 32)
    agent.update(dataclasses.replace(rollout, reward=rollout.reward * math.nan))
    twin, *_ = make(seed=5)
    twin.load_state_dict(through_a_file(agent.state_dict()))
    assert twin.guard.skipped == {"reward": 1} and twin.guard.in_a_row == 1
    for other in (make(gamma=0.5)[0], make("CartPole-v1")[0]):
        with pytest.raises(ValueError, match="^state: wanted one saved with this config and environment; got another"):
            other.load_state_dict(agent.state_dict())


def test_float64_is_the_same_agent_with_more_digits():
    """The same weights, acting greedily on the same observations; float64 rollouts train."""
    single, _, obs = make()
    double, env64, obs64 = make(dtype=torch.float64)
    assert all(p.dtype == torch.float64 for p in double.parameters)
    for a, b in zip(learned(single), learned(double), strict=True):
        torch.testing.assert_close(a, b.float(), rtol=0, atol=0)
    torch.testing.assert_close(
        single.act(obs, deterministic=True)[0], double.act(obs.double(), deterministic=True)[0].float()
    )
    before = learned(double)
    figures, _ = live(double, env64, obs64, 1)
    assert differ(before, learned(double)) and figures["kl/exact"].dtype == torch.float64


def test_seeds_decide_everything():
    first, again, other = make(seed=0)[0], make(seed=0)[0], make(seed=1)[0]
    assert not differ(learned(first), learned(again)) and differ(learned(first), learned(other))
    obs = torch.zeros(4, 3)
    assert torch.equal(first.act(obs)[0], again.act(obs)[0])
    assert not torch.equal(first.act(obs)[0], first.act(obs)[0]), "actions are drawn"
    assert torch.equal(first.act(obs, deterministic=True)[0], first.policy(obs)[0])


def test_wide_actions_and_observations_and_hidden_layers():
    config = PPOConfig(**SMALL | {"hidden": (6, 9)})
    agent = PPOAgent(config, EnvSpec("any", obs_dim=7, action_dim=5), device="cpu")
    for network, outputs in ((agent.policy, 5), (agent.critic, 1)):
        widths = [m.out_features for m in network.modules() if isinstance(m, torch.nn.Linear)]
        assert widths == [6, 9, outputs]
    action, (mean, std) = agent.act(torch.zeros(4, 7))
    assert action.shape == mean.shape == std.shape == (4, 5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_everything_stays_on_a_cuda_device(env_id, options):
    config = PPOConfig(**SMALL | options, normalize_obs=True, normalize_reward=True)
    env = make_env(env_id, config.num_envs, device="cuda")
    agent = PPOAgent(config, env.spec, device="cuda")
    cpu = PPOAgent(config, env.spec, device="cpu")
    assert all(torch.equal(a.cpu(), b) for a, b in zip(learned(agent), learned(cpu), strict=True))
    rollout, obs = collect(agent, env, env.reset(), 32)
    assert {t.device.type for t in rollout.tensors().values()} == {"cuda"}
    before = learned(agent)
    figures = agent.update(rollout)
    assert differ(before, learned(agent)) and obs.device.type == "cuda"
    assert all(math.isfinite(v) for v in figures.values())
