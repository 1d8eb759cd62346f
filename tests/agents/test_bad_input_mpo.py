"""What MPO and V-MPO refuse: settings, data and numbers, each by name, and none of them moves a parameter."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import math
import re

import pytest
import torch

from minerva_lite.agents import AGENTS, MPOConfig, VMPOConfig
from minerva_lite.experience.replay import SequenceReplay
from tests.living import live, make_agent

SMALL = {
    "mpo": {"num_envs": 4, "rollout_steps": 8, "learner_steps": 2, "warmup_steps": 32, "replay_steps": 64, "minibatch_size": 8, "hidden": (8,)},
    "vmpo": {"num_envs": 4, "rollout_steps": 8, "inner_steps": 2, "hidden": (8,)},
}  # fmt: skip
WORLDS = ["Pendulum-v1", "CartPole-v1"]
BOTH = [(name, env_id) for name in SMALL for env_id in WORLDS]
SHARED = [
]
MPO_ONLY = [
    ({"hidden": ()}, "hidden: wanted at least one layer, which MPO's networks normalize; got ()"),
    ({"critic_hidden": ()}, "critic_hidden: wanted at least one layer, which MPO's networks normalize; got ()"),
    ({"critic_target": "retrace"}, "sequence_length: wanted at least 2 for Retrace; got 1"),
    ({"sequence_length": 17}, "replay_steps: wanted room for sequence_length and rollout_steps in each environment, 68 in all; got 64"),
    ({"replay_steps": 31}, "replay_steps: wanted room for sequence_length and rollout_steps in each environment, 32 in all; got 31"),
    ({"warmup_steps": 65}, "warmup_steps: wanted at most what the replay holds, 64; got 65"),
    ({"replay_steps": 67, "warmup_steps": 66}, "warmup_steps: wanted at most what the replay holds, 64; got 66"),
]  # fmt: skip
VMPO_ONLY = [
    (
        {"top_k_frac": 0.03},
        "top_k_frac: wanted one that keeps at least one sample; 0.03 of 32 samples of a batch is none",
    ),
    (
        {"shared_encoder": True, "hidden": ()},
        "hidden: wanted at least one layer, which shared_encoder lets the critic use; got ()",
    ),
    (
        {"torso": "layernorm", "hidden": ()},
        "hidden: wanted at least one layer, which torso 'layernorm' normalizes; got ()",
    ),
    (
        {"torso": "layernorm", "critic_hidden": ()},
        "critic_hidden: wanted at least one layer, which torso 'layernorm' normalizes; got ()",
    ),
    (
        {"shared_encoder": True, "critic_hidden": (8,)},
        "critic_hidden: wanted None with shared_encoder, whose critic has the policy's layers; got (8,)",
    ),
    (
        {"importance_clip": 1.5},
        "importance_clip: wanted None where the target acts, every ratio is 1 there; got a number",
    ),
    ({"act_by": "online", "importance_clip": 0.0}, "importance_clip: wanted a finite number above 0; got 0.0"),
]


def make(name: str, env_id: str = "Pendulum-v1", **options):
    return make_agent(name, env_id, **SMALL[name] | options)


def everything(agent):
    """All that a refused batch must leave alone, cloned: networks, targets, multipliers, optimizers, replay, generator."""
    state = agent.state_dict()
    del state["skipped"], state["skipped_in_a_row"]
    return copy.deepcopy(state)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [(name, *row) for name in SMALL for row in SHARED + (MPO_ONLY if name == "mpo" else VMPO_ONLY)],
)
def test_a_setting_is_refused_by_name(name, options, message):
    AGENTS[name][1](**SMALL[name])
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        AGENTS[name][1](**SMALL[name] | options)


def test_settings_that_are_not_read_are_accepted():
    assert MPOConfig(lam=0.5, eps_penalty=3.0).capacity == 12_500
    assert VMPOConfig(act_by="online").importance_clip is None
    assert VMPOConfig(**SMALL["vmpo"], top_k_frac=1 / 32).top_k_frac == 1 / 32, "one of 32"


@pytest.mark.parametrize("value", [1e-9, 1e-8])
@pytest.mark.parametrize(
    ("name", "field"), [(n, f) for n in SMALL for f in ("eta_init", "alpha_mean_init", "alpha_std_init")]
)
def test_a_multiplier_that_could_not_start_at_its_value_is_refused(name, field, value):
    with pytest.raises(ValueError, match="wanted a multiplier above"):
        make(name, **{field: value})


def test_a_squashed_policy_needs_continuous_actions():
    with pytest.raises(ValueError, match="^squash: wanted False for CartPole-v1, whose actions are discrete; got True"):
        make("vmpo", "CartPole-v1", squash=True)


# The list


@pytest.mark.parametrize("fraction", [0.04, 0.5])
def test_a_top_k_that_keeps_no_eligible_sample_is_refused(fraction, same):
    """Of 32 rows it keeps at least one; of the one or twenty that are real it keeps none."""
    agent, env, obs = make("vmpo", top_k_frac=fraction, normalize_reward=True)
    rollout, _ = agent.collect(env, obs)
    weight = torch.zeros_like(rollout.reward)
    real = 1 if fraction == 0.5 else 20
    weight.view(-1)[:real] = 1.0
    before = everything(agent)
    with pytest.raises(
        ValueError,
        match=rf"^top_k_frac: wanted one that keeps at least one sample; {fraction} of {real} eligible steps is none",
    ):
        agent.update(dataclasses.replace(rollout, restart_weight=weight))
    assert same(before, everything(agent))


@pytest.mark.parametrize(("name", "env_id"), BOTH)
@pytest.mark.parametrize("value", [0.0, 0.5, -1.0, 2.0, math.nan])
def test_restart_weights_all_zero_or_neither_0_nor_1_are_refused(name, env_id, value, same):
    agent, env, obs = make(name, env_id, normalize_obs=True)
    rollout, _ = agent.collect(env, obs)
    before = everything(agent)
    with pytest.raises(ValueError, match="^restart_weight: wanted"):
        agent.update(dataclasses.replace(rollout, restart_weight=torch.full_like(rollout.reward, value)))
    assert same(before, everything(agent))


@pytest.mark.parametrize("env_id", WORLDS)
def test_the_replay_of_mpo_takes_no_rows_that_are_no_transitions(env_id, same):
    agent, env, obs = make("mpo", env_id, normalize_obs=True)
    rollout, _ = agent.collect(env, obs)
    weight = torch.ones_like(rollout.reward)
    weight[3, 1] = 0.0
    before = everything(agent)
    with pytest.raises(ValueError, match="^restart_weight: wanted none, a replay holds real transitions only"):
        agent.update(dataclasses.replace(rollout, restart_weight=weight))
    assert same(before, everything(agent))


def test_a_sequence_longer_than_the_buffer_is_refused_when_it_is_asked_for():
    with pytest.raises(ValueError, match="^replay_steps: wanted room for sequence_length"):
        MPOConfig(num_envs=4, rollout_steps=4, replay_steps=32, warmup_steps=0, sequence_length=9)
    agent, env, obs = make("mpo")
    replay = SequenceReplay(16)
    replay.insert(agent.collect(env, obs)[0])
    with pytest.raises(
        ValueError, match=r"^length: wanted at most the 8 steps held of each environment \(capacity 16\); got 17"
    ):
        replay.sample(1, 17)


def test_sampling_before_enough_was_stored_is_refused_and_the_agent_waits():
    agent, env, obs = make("mpo", sequence_length=10, warmup_steps=0)
    with pytest.raises(ValueError, match="^length: wanted at most the 0 steps held"):
        agent.replay.sample(8, 10)
    before = [p.clone() for p in agent.modules.parameters()]
    figures, obs = live(agent, env, obs, 1)
    assert set(figures) == {"train/param_step_norm", "train/replay_steps", "train/skipped_batches"}
    assert figures["train/param_step_norm"] == 0
    assert all(torch.equal(a, b) for a, b in zip(before, agent.modules.parameters(), strict=True))
    with pytest.raises(ValueError, match="^length: wanted at most the 8 steps held"):
        agent.replay.sample(8, 10)
    figures, _ = live(agent, env, obs, 1)
    assert "loss/critic" in figures


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["obs", "action", "behavior_log_prob", "reward", "next_obs"])
@pytest.mark.parametrize(("name", "env_id"), BOTH)
def test_a_non_finite_batch_moves_nothing_and_is_counted_by_name(name, env_id, field, poison, same):
    agent, env, obs = make(name, env_id, normalize_obs=True)
    if field == "action" and agent.policy.discrete:
        pytest.skip("an action of a finite set is a whole number")
    _, obs = live(agent, env, obs, 2)
    rollout, _ = agent.collect(env, obs)
    tensor = getattr(rollout, field).clone()
    tensor[5, 2] = poison
    bad, before = dataclasses.replace(rollout, **{field: tensor}), everything(agent)
    figures = agent.update(bad)
    assert same(before, everything(agent)), "replay, multipliers and generator included"
    assert {k: v.item() for k, v in figures.items()} == {"train/skipped_batches": 1.0}
    assert agent.guard.skipped == {field: 1}
    agent.update(bad)
    with pytest.raises(FloatingPointError, match=f"^{field}: not finite in 3 batches in a row"):
        agent.update(bad)
    assert same(before, everything(agent))
    agent.update(rollout)
    assert not same(before, everything(agent)), "the same rollout, mended, does train"


@pytest.mark.parametrize(("name", "env_id"), BOTH)
def test_a_misshapen_rollout_is_named_before_anything_moves(name, env_id, same):
    agent, env, obs = make(name, env_id, normalize_obs=True)
    r, _ = agent.collect(env, obs)
    before = everything(agent)
    width = agent.spec.obs_dim
    for change, message in [
        ({"reward": r.reward[:5]}, r"reward: wanted shape \(8, 4\); got \(5, 4\)"),
        ({"reward": r.reward.double()}, r"reward: wanted dtype torch.float32; got torch.float64"),
        ({"behavior_log_prob": r.behavior_log_prob[..., None]}, r"behavior_log_prob: wanted shape \(8, 4\); got \(8, 4, 1\)"),
        ({"obs": r.obs[..., :2]}, rf"obs: wanted shape \(8, 4, {width}\); got \(8, 4, 2\)"),
        ({"next_obs": r.next_obs[1:]}, rf"next_obs: wanted shape \(8, 4, {width}\); got \(7, 4, {width}\)"),
        ({"terminated": r.terminated.float()}, r"terminated: wanted dtype torch.bool; got torch.float32"),
        ({"truncated": r.truncated[:, :2]}, r"truncated: wanted shape \(8, 4\); got \(8, 2\)"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=f"^{message}"):
            agent.update(dataclasses.replace(r, **change))
    with pytest.raises(ValueError, match=r"^progress: wanted a number in \[0, 1\]; got 1.5"):
        agent.update(r, progress=1.5)
    assert same(before, everything(agent))


@pytest.mark.parametrize(("name", "env_id"), BOTH)
def test_a_diverged_policy_is_refused_not_repaired(name, env_id):
    """Weights of NaN give data of NaN: counted, then an error; nothing turns them into numbers."""
    agent, env, obs = make(name, env_id)
    with torch.no_grad():
        next(agent.policy.parameters()).fill_(math.nan)
        next(getattr(agent, "target_policy", agent.policy).parameters()).fill_(math.nan)
    with pytest.raises(FloatingPointError, match="not finite in 3 batches in a row"):
        for _ in range(3):
            live(agent, env, obs, 1)


@pytest.mark.parametrize(("name", "env_id"), BOTH)
def test_a_diverged_critic_is_not_hidden(name, env_id):
    """What a critic of NaN teaches is NaN: every step of it is refused, and nothing trains on as if it were well."""
    agent, env, obs = make(name, env_id)
    with torch.no_grad():
        next(agent.critic.parameters()).fill_(math.nan)
    for _ in range(2):
        _, obs = live(agent, env, obs, 1)
    with pytest.raises(FloatingPointError, match="not finite in 3 batches in a row"):
        live(agent, env, obs, 1)
    assert all(p.isfinite().all() for p in agent.policy.parameters())
