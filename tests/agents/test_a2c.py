"""A2C: one step of the whole loss on each short rollout, by hand; every option, every contradiction."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import dataclasses

import pytest
import torch

from minerva_lite.agents.a2c import A2CConfig
from tests.living import (
    FAMILIES,
    FAMILY_NAMES,
    check_option_matters,
    check_restored,
    differ,
    learned,
    live,
    make_agent,
    vector,
)

SMALL = {"num_envs": 4, "rollout_steps": 16, "hidden": (16,), "learning_rate": 3e-3}
F64 = torch.float64


def make(env_id: str = "CartPole-v1", **options):
    return make_agent("a2c", env_id, **SMALL | options)


def test_policy_loss_by_hand():
    """Log-probabilities (-1, -3), advantages (3, -4): minus the mean of -3 and 12; normalized, of -1 and 3."""
    log_prob = vector(-1.0, -3.0).requires_grad_()
    for normalize, wanted, slopes in ((False, -4.5, [-1.5, 2.0]), (True, -1.0, [-0.5, 0.5])):
        agent, env, obs = make(dtype=F64, normalize_advantage=normalize, vf_coef=0.0)
        batch = dataclasses.replace(agent.prepare(agent.collect(env, obs)[0])[:2], advantage=vector(3.0, -4.0))
        agent.policy.log_prob = lambda params, action: log_prob
        loss, parts = agent.loss(batch)
        assert loss.item() == parts["loss/policy"].item() == pytest.approx(wanted, abs=1e-8)
        assert torch.autograd.grad(loss, log_prob)[0].tolist() == pytest.approx(slopes, abs=1e-8)


@pytest.mark.parametrize(("env_id", "options"), FAMILIES[::2], ids=FAMILY_NAMES[::2])
def test_one_step_down_the_whole_loss_for_each_rollout(env_id, options):
    """Plain SGD at rate 1 without clipping: the step is minus the gradient, of all parts with their weights."""
    agent, env, obs = make(env_id, dtype=F64, optimizer="sgd", learning_rate=1.0, max_grad_norm=1e9, vf_coef=0.3, entropy_coef=0.2, **options)  # fmt: skip
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    params = agent.policy(batch.obs)
    policy = -(batch.advantage * agent.policy.log_prob(params, batch.action)).mean()
    critic = 0.5 * (agent.critic(batch.obs) - batch.value_target).square().mean()
    loss = policy + 0.3 * critic - 0.2 * agent.policy.entropy(params).mean()
    gradient = torch.autograd.grad(loss, agent.parameters)
    before = learned(agent)
    figures = agent.update(rollout)
    for a, b, g in zip(learned(agent), before, gradient, strict=True):
        torch.testing.assert_close(b - a, g, rtol=1e-9, atol=1e-12)
    assert figures["loss/policy"].item() == pytest.approx(policy.item(), rel=1e-9)
    assert figures["loss/value"].item() == pytest.approx(critic.item(), rel=1e-9)
    norm = torch.cat([g.flatten() for g in gradient]).norm()
    assert figures["train/grad_norm"].item() == pytest.approx(norm.item(), rel=1e-9) and norm > 0


def test_the_gradients_norm_is_clipped_over_all_parameters():
    agent, env, obs = make(optimizer="sgd", learning_rate=1.0, max_grad_norm=0.01)
    before = learned(agent)
    figures, _ = live(agent, env, obs, 1)
    step = torch.cat([(a - b).flatten() for a, b in zip(learned(agent), before, strict=True)])
    assert figures["train/grad_norm"] > 0.01 and step.norm().item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(("anneal", "progress", "factor"), [(True, 0.0, 1.0), (True, 0.25, 0.75), (True, 1.0, 0.0), (False, 0.25, 1.0)])  # fmt: skip
def test_learning_rate_anneals_linearly(anneal, progress, factor):
    agent, env, obs = make(anneal_lr=anneal)
    before = learned(agent)
    figures, _ = live(agent, env, obs, 1, progress=progress)
    assert figures["train/learning_rate"].item() == pytest.approx(3e-3 * factor, rel=1e-6)
    assert differ(before, learned(agent)) == (factor > 0)


OPTIONS = [
    ("num_envs", {}, 2, 4),
    ("rollout_steps", {}, 8, 16),
    ("whole_episodes", {"rollout_steps": 100}, True, False),
    ("gamma", {}, 0.9, 0.99),
    ("lam", {}, 0.9, 0.95),
    ("estimator", {}, "gae", "returns"),
    ("estimator", {}, "gae", "td"),
    ("value_target", {}, "advantage", "returns"),
    ("normalize_obs", {}, True, False),
    ("normalize_reward", {}, True, False),
    ("normalize_advantage", {}, True, False),
    ("hidden", {}, (16,), (16, 16)),
    ("critic_hidden", {}, None, (4,)),
    ("head_init", {}, "orthogonal", "small"),
    ("log_std_init", {"env_id": "Pendulum-v1"}, 0.0, -0.5),
    ("squash", {"env_id": "Pendulum-v1"}, True, False),
    ("vf_coef", {"optimizer": "sgd"}, 0.1, 0.5),
    ("entropy_coef", {}, 0.0, 0.1),
    ("optimizer", {}, "adam", "sgd"),
    ("momentum", {"optimizer": "sgd"}, 0.0, 0.9),
    ("learning_rate", {}, 1e-3, 3e-3),
    ("anneal_lr", {}, True, False),
    ("max_grad_norm", {}, 0.01, 0.5),
]


@pytest.mark.parametrize(("option", "base", "one", "other"), OPTIONS, ids=lambda x: str(x))
def test_every_option_matters(option, base, one, other):
    check_option_matters(lambda **o: make(**base | o), option, one, other, updates=2)


def test_no_option_is_left_out():
    assert {row[0] for row in OPTIONS} == {field.name for field in dataclasses.fields(A2CConfig)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 1, "rollout_steps": 1, "normalize_advantage": True}, r"^normalize_advantage: wanted a batch of at least 2 rows.*; got 1"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        A2CConfig(**SMALL | options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_a_restored_agent_continues_to_the_bit(env_id, options, dtype, same):
    options = options | {"normalize_obs": True, "normalize_reward": True, "entropy_coef": 0.01}
    check_restored(*make(env_id, dtype=dtype, **options), same)
