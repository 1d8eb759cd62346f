"""PPO: every option matters, an update starts where the data were collected, and when it stops; its loss by hand."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from minerva_lite.formulas.distributions import kl_estimates
from minerva_lite.formulas.objectives import clipped_value_loss, normalize_advantage, ppo_clip_loss, value_loss
from tests.living import FAMILIES, FAMILY_NAMES, every_option, live, numbers, small_agent

BATCH = {"rollout_steps": 32, "minibatch_size": 32, "epochs": 3, "learning_rate": 3e-3}  # 12 steps an update
BY_KL = {"objective": "kl_penalty"}
OPTIONS = {
    "num_envs": [({}, 2, 4)],
    "epochs": [({}, 1, 2)],
    "gamma": [({}, 0.9, 0.99), ({"estimator": "td"}, 0.9, 0.99)],
    "objective": [({}, "clip", "kl_penalty")],
    "clip_eps": [({}, 1e-4, 0.2), (BY_KL | {"clip_value": True}, 1e-4, 1.0)],
    "kl_bound": [(BY_KL, 1e-9, 1.0)],
    "kl_penalty_init": [(BY_KL, 0.1, 10.0)],
    "target_kl": [({}, 1e-9, None)],
    "stop_test": [({"target_kl": 1e-9}, "minibatch", "epoch")],
    "clip_value": [({"learning_rate": 1e-2, "clip_eps": 1e-3}, True, False)],
    "recompute_advantage": [({}, True, False)],
}
# `whole_episodes` is refused: `test_door.py`.
test_every_option_matters = every_option("ppo", OPTIONS, refused=("whole_episodes",))


def make(env_id: str = "Pendulum-v1", **options):
    return small_agent("ppo", env_id, **BATCH | options)


def watched(agent) -> list[torch.Tensor]:
    """The log-ratios that each loss sees, in order; not what is only read, after the last step."""
    seen, loss = [], agent.loss

    def watch(rows):
        total, parts = loss(rows)
        if total.requires_grad:
            seen.append(parts["log_ratio"])
        return total, parts

    agent.loss = watch
    return seen


def k3(log_ratio: torch.Tensor) -> float:
    return kl_estimates(log_ratio)[2].mean().item()


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_the_first_ratio_of_every_update_is_one(env_id, options, normalize):
    agent, env, obs = make(env_id, **options, normalize_obs=normalize, normalize_reward=normalize)
    seen = watched(agent)
    for _ in range(6):
        seen.clear()
        _, obs = live(agent, env, obs, 1)
        first, *later = (log_ratio.expm1().abs().max() for log_ratio in seen)
        assert first <= 1e-5 and len(later) == 11 and max(later) > 1e-3, "later ratios do move"


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
@pytest.mark.parametrize("stop_test", ["minibatch", "epoch"])
def test_target_kl_stops_before_the_step(env_id, options, stop_test):
    """All but the last that were asked about were within the target; the last was not, and took no step.

    Asked about are all minibatches, or the last ones of the epochs, which take their steps all the same.
    """
    target = 2e-4
    agent, env, obs = make(env_id, target_kl=target, learning_rate=1e-2, stop_test=stop_test, epochs=5, **options)
    seen = watched(agent)
    figures, _ = live(agent, env, obs, 1)
    met = [k3(log_ratio) for log_ratio in seen]
    asked = met if stop_test == "minibatch" else met[3::4]
    assert asked[-1] == met[-1] > target and max(asked[:-1], default=0.0) <= target and 1 < len(met) < 20
    assert figures["train/gradient_steps"].item() == len(met) - (stop_test == "minibatch")
    assert stop_test == "minibatch" or max(met[:-1]) > target, "an earlier minibatch was over already"


@pytest.mark.parametrize(("log_ratio", "drifted"), [(0.5, True), (0.1, False), (-0.5, True), (-0.1, False)])
def test_target_kl_reads_k3_not_k1(log_ratio, drifted):
    """Ratios above one everywhere: k1 is negative, yet the policy has drifted. At 0.1 k3 is 0.0052."""
    agent, env, obs = make(target_kl=0.01)
    loss = agent.loss
    agent.loss = lambda rows: (loss(rows)[0], loss(rows)[1] | {"log_ratio": torch.full((len(rows.obs),), log_ratio)})
    assert (live(agent, env, obs, 1)[0]["train/gradient_steps"] == 0) == drifted


@pytest.mark.parametrize("off", [None, 0.0, -1.0])
def test_target_kl_none_or_not_above_zero_is_off(off):
    agent, env, obs = make(target_kl=off, learning_rate=1e-2)
    assert live(agent, env, obs, 1)[0]["train/gradient_steps"] == 12


@pytest.mark.parametrize(("stop_test", "steps"), [("minibatch", 1), ("epoch", 2)])
def test_a_minibatch_of_one_row_is_passed_over_and_the_stop_goes_by_the_others(stop_test, steps):
    """Five rows of eight are real: minibatches of four and one, and after the first step the policy has drifted."""
    agent, env, obs = make(rollout_steps=2, minibatch_size=4, target_kl=1e-9, stop_test=stop_test)
    seen = watched(agent)
    rollout, _ = agent.collect(env, obs)
    weight = torch.ones_like(rollout.reward)
    weight[1, :3] = 0.0
    figures = agent.update(dataclasses.replace(rollout, restart_weight=weight))
    assert figures["train/gradient_steps"].item() == steps and len(seen) == 2
    assert k3(seen[0]) <= 1e-9 < k3(seen[1])


@pytest.mark.parametrize(
    ("options", "start", "after"),
    [
        ({"objective": "clip"}, 3.0, 3.0),
        ({"kl_bound": 1e-6}, 3.0, 6.0),
        ({"kl_bound": 1e3}, 3.0, 1.5),
        # Halved at each of 1,075 updates that stand still it would be 0 for good, and the next update refused.
        *(({"kl_bound": 1e3}, start, 1e-8) for start in (1.5e-8, 1e-8, 1e-8 / 1.5)),
        *(({"kl_bound": 1e-9}, start, 1e8) for start in (1.5e8, 1e8, 1e8 / 1.5)),
    ],
)
def test_kl_penalty_adapts_by_the_exact_kl_of_the_update_within_limits_and_is_left_alone_under_clip(
    options, start, after
):
    agent, env, obs = make(**BY_KL | options)
    agent.kl_penalty = start
    figures = numbers(live(agent, env, obs, 1)[0])
    assert figures["kl/exact"] > 1e-6 and agent.kl_penalty == after
    assert figures["kl/penalty"] == pytest.approx(start, rel=1e-6)
    if "objective" not in options:
        assert figures["loss/kl_penalty"] == pytest.approx(start * figures["kl/exact"], rel=1e-6)
        assert figures["kl/exact_relative"] == pytest.approx(figures["kl/exact"] / options["kl_bound"], rel=1e-6)


@pytest.mark.parametrize("again", [True, False])
def test_advantages_and_targets_are_those_of_the_critic_before_each_epoch_only_where_asked_for(again):
    """One step an epoch, so that the critic before the epoch is the critic at its step.

    V before the update, around which `clip_value` clips, and the old log-probabilities are never others.
    """
    agent, env, obs = make(recompute_advantage=again, epochs=3, learning_rate=1e-2, minibatch_size=128)
    rollout, _ = agent.collect(env, obs)
    first, loss, values = agent.prepare(rollout), agent.loss, []

    def watch(rows):
        now = agent.prepare(rollout)
        wanted = dict.fromkeys(("advantage", "value_target"), now if again else first)
        wanted |= dict.fromkeys(("value_old", "behavior_log_prob"), first)
        for name, batch in wanted.items() if len(values) < 3 else ():  # afterward `diagnose` looks once more
            assert torch.equal(getattr(rows, name).sort().values, getattr(batch, name).sort().values), name
        values.append(now.value_old)
        return loss(rows)

    agent.loss = watch
    figures = agent.update(rollout)
    assert len(values) == 4 and not torch.equal(values[0], values[1]), "the critic did move"
    assert figures["value/mean"] == pytest.approx(first.value_old.mean().item(), abs=1e-6), "of the rollout's V"


@pytest.mark.parametrize("clip_value", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
def test_loss_adds_its_parts_with_their_weights(normalize, clip_value):
    """A clipped value stays within `clip_eps` of V before the update."""
    weights = {"vf_coef": 0.3, "entropy_coef": 0.2, "normalize_advantage": normalize, "clip_value": clip_value}
    agent, env, obs = make("CartPole-v1", dtype=torch.float64, learning_rate=3e-2, **weights)
    rollout, obs = agent.collect(env, obs)
    rows = agent.prepare(rollout)
    figures = agent.update(rollout)
    total, parts = agent.loss(rows)
    params = agent.policy(rows.obs)
    entropy, log_ratio = agent.policy.entropy(params), agent.policy.log_prob(params, rows.action)
    log_ratio = log_ratio - rows.behavior_log_prob
    policy = ppo_clip_loss(log_ratio, normalize_advantage(rows.advantage) if normalize else rows.advantage, 0.2)
    value, old, target = agent.critic(rows.obs), rows.value_old, rows.value_target
    plain, clipped = value_loss(value, target), clipped_value_loss(value, old, target, 0.2)
    critic = clipped if clip_value else plain
    wanted = {"loss/policy": policy, "loss/value": critic, "entropy": entropy, "log_ratio": log_ratio}
    wanted["loss/total"] = total
    torch.testing.assert_close(total, policy + 0.3 * critic - 0.2 * entropy.mean(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(parts, {name: part.detach() for name, part in wanted.items()}, rtol=1e-10, atol=1e-12)
    assert log_ratio.abs().max() > 1e-3 and clipped > plain
    assert not any(part.requires_grad for part in parts.values())
    for name in ("loss/policy", "loss/value", "loss/total"):  # of the whole rollout, after the update
        assert figures[name].item() == pytest.approx(wanted[name].item(), rel=1e-9)


def test_figures_over_the_rollout():
    agent, env, obs = make(normalize_reward=False, normalize_obs=True)
    _, obs = live(agent, env, obs, 1)
    rollout, _ = agent.collect(env, obs)
    batch, seen_obs = agent.prepare(rollout), agent.normalized(rollout.obs)
    figures, spread = numbers(agent.update(rollout)), batch.advantage.std(correction=0).item()
    assert figures["adv/raw_std"] == pytest.approx(spread, rel=1e-5)
    assert abs(figures["adv/raw_std"] - 1) > 0.1, "not the normalized ones"
    log_ratio = agent.policy.log_prob(agent.policy(seen_obs), rollout.action) - rollout.behavior_log_prob
    assert figures["kl/k1"] == pytest.approx(-log_ratio.mean().item(), rel=1e-3, abs=1e-6)
    assert figures["kl/k3"] == pytest.approx((log_ratio.expm1() - log_ratio).mean().item(), rel=1e-3, abs=1e-6)
    outside = ((log_ratio.exp() - 1).abs() > 0.2).float().mean().item()
    assert figures["train/clip_fraction"] == pytest.approx(outside, abs=1e-6) and outside > 0
