"""When TRPO stands still: an update left out by name, with every bit of the policy as it was; the critic learns on."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from minerva_lite.agents.trpo import SKIPS, TRPOAgent, TRPOConfig
from minerva_lite.training.loop import train
from minerva_lite.worlds import TabularEnv, make_env
from minerva_lite.worlds.tabular import TabularMDP
from tests.living import differ, everything, learned, make_agent, say

ENVS = ["Pendulum-v1", "CartPole-v1"]
# One step of TD with a critic that says 0: the advantage is the reward, to the bit.
REWARD_IS_ADVANTAGE = {"estimator": "td", "num_envs": 4, "rollout_steps": 16, "hidden": (16,)}


def make(env_id: str, critic: float | None = 0.0, seed: int = 0, **options):
    """An agent whose critic says `critic` everywhere (None: as drawn), and one rollout."""
    agent, env, obs = make_agent("trpo", env_id, seed=seed, **REWARD_IS_ADVANTAGE | options)
    if critic is not None:
        say(agent.critic, critic)
    return agent, agent.collect(env, obs)[0]


def paid_at_random(agent, rollout, scale: float = 1.0, mean: float = 0.0):
    reward = mean + scale * torch.randn(rollout.reward.shape, generator=agent.generator)
    return dataclasses.replace(rollout, reward=reward)


def updated(agent, rollout):
    """Why the step was left out, the figures, and whether the critic learned; the policy moves where it was not."""
    policy, critic = learned(agent.policy), learned(agent.critic)
    figures = agent.update(rollout)
    reasons = [name for name in SKIPS if figures[f"train/skip_{name}"]]
    assert differ(policy, learned(agent.policy)) == (reasons == []) == bool(figures["train/step_fraction"] > 0)
    assert figures["kl/exact"] == 0 if reasons else 0 < figures["kl/exact"] <= agent.config.kl_bound
    return reasons, figures, differ(critic, learned(agent.critic))


def meaningless(env_id: str, damping: float):
    """One state and one action throughout, with advantages of mean 0: the exact gradient is 0.

    The computed one is what rounding left of it. Scaled to the bound it would be a full step, in no direction at all.
    """
    agent, rollout = make(env_id, damping=damping, rollout_steps=15)

    def repeat(x: torch.Tensor) -> torch.Tensor:
        return x[:1, :1].expand_as(x).contiguous()

    fields = {name: repeat(getattr(rollout, name)) for name in ("obs", "action", "behavior_log_prob", "next_obs")}
    fields["behavior_params"] = tuple(repeat(p) for p in rollout.behavior_params)
    return agent, paid_at_random(agent, dataclasses.replace(rollout, **fields))


@pytest.mark.parametrize("env_id", ENVS)
def test_without_damping_a_singular_fisher_matrix_is_stepped_on_safely_or_left_out(env_id):
    # Two rows know a handful of directions of some hundred parameters: the matrix is singular. The gradient lies in
    # its range, so iterations that stop in time find a step; those that do not stop divide rounding by rounding.
    rows = {"num_envs": 2, "rollout_steps": 1, "estimator": "gae", "cg_iterations": 50, "damping": 0.0}
    why = {1e-10: [], 0.0: []}
    for tolerance, reasons in why.items():
        for seed in range(8):
            agent, rollout = make(env_id, None, seed, cg_tolerance=tolerance, **rows)
            reasons += updated(agent, rollout)[0]
            assert all(p.isfinite().all() for p in learned(agent))
    assert why[1e-10] == [] and "curvature" in why[0.0]


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("factor", [-1.0, 0.0, float("nan")])
def test_an_update_without_positive_curvature_is_left_out_by_name(env_id, factor, monkeypatch):
    agent, rollout = make(env_id)
    monkeypatch.setattr(TRPOAgent, "fisher_product", lambda self, batch, parameters: lambda vector: factor * vector)
    reasons, _, critic_learned = updated(agent, paid_at_random(agent, rollout))
    assert reasons == ["curvature"] and critic_learned


# Advantages that say nothing.


def constant(reward: torch.Tensor, value: float, ulps: int) -> torch.Tensor:
    """A reward that is `value` everywhere, but for rounding: up to `ulps` steps of float32 above it."""
    flat = torch.full((reward.numel(),), value, dtype=reward.dtype)
    for i in range(ulps):
        flat[i::3] = flat[i::3].nextafter(torch.tensor(float("inf")))
    return flat.reshape(reward.shape)


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("normalize_advantage", [True, False])
@pytest.mark.parametrize(
    ("value", "ulps"), [(0.0, 0), (0.1, 0), (-1 / 3, 0), (1e6 / 7, 0), (1e-30, 0), (0.1, 2), (-16.27, 3)]
)
def test_equal_advantages_are_left_out_by_name(env_id, normalize_advantage, value, ulps):
    # The mean of 64 equal float32 numbers need not be that number: what is left, over a spread of nothing, is not 0.
    agent, rollout = make(env_id, normalize_advantage=normalize_advantage, rollout_steps=15)
    reasons, figures, _ = updated(agent, dataclasses.replace(rollout, reward=constant(rollout.reward, value, ulps)))
    assert reasons == ["equal_advantages"] and figures["train/trials"] == 0


@pytest.mark.parametrize(
    ("scale", "mean", "options"),
    [(1.0, 1e3, {"value_l2": 0.0}), *((scale, 0.0, {"normalize_advantage": False}) for scale in (1e-12, 1e-3, 1e12))],
)
def test_small_but_real_differences_of_advantages_are_stepped_on(scale, mean, options):
    """Small beside their mean, or in another unit of the reward."""
    agent, rollout = make("CartPole-v1", **options)
    assert updated(agent, paid_at_random(agent, rollout, scale, mean))[0] == []


# Gradients that say nothing.


@pytest.mark.parametrize("normalize_advantage", [True, False])
def test_a_policy_beyond_doubt_has_no_gradient(normalize_advantage):
    # Probability 1 of one action in every digit: no reward moves it, and the Fisher matrix is zero as well.
    options = REWARD_IS_ADVANTAGE | {"normalize_advantage": normalize_advantage}
    agent, env, obs = make_agent("trpo", "CartPole-v1", **options)
    say(agent.critic, 0.0)
    with torch.no_grad():
        agent.policy.logits[-1].bias.copy_(torch.tensor([500.0, -500.0]))
    reasons, figures, critic_learned = updated(agent, paid_at_random(agent, agent.collect(env, obs)[0]))
    assert reasons == ["zero_gradient"] and figures["train/grad_norm"] == 0 and critic_learned


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("damping", [0.1, 1e-3, 0.0])
def test_a_gradient_at_rounding_level_is_left_out_and_never_scaled_up(env_id, damping):
    """Without damping rounding does not stay in the range of a singular matrix, whose inverse blows it up.

    Then it is the curvature or the line search that says no.
    """
    agent, rollout = meaningless(env_id, damping)
    reasons, figures, critic_learned = updated(agent, rollout)
    assert 0 < figures["train/grad_norm"] < 1e-5 and critic_learned
    assert reasons == ["rounding"] if damping else len(reasons) == 1


# Vines.


def test_a_vine_wants_a_world_whose_state_can_be_set(same):
    env = make_env("CartPole-v1", 4, backend="gymnasium", seed=0)
    agent = TRPOAgent(TRPOConfig(**REWARD_IS_ADVANTAGE, sampling="vine", vine_states=8), env.spec, device="cpu")
    before = everything(agent)
    for attempt in (lambda: agent.collect(env, env.reset()), lambda: train(agent, env, 64, progress=False)):
        with pytest.raises(ValueError, match="env: wanted an environment whose state can be set.*GymEnv has none"):
            attempt()
    assert same(before, everything(agent))
    env.close()


@pytest.mark.parametrize("normalize_advantage", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_vine_in_a_world_where_no_action_matters_is_left_out(normalize_advantage, dtype, generator):
    # With common random numbers all branches of a state are worth the same, to the bit; their mean need not be.
    transition = torch.rand(5, 1, 5, generator=generator, dtype=torch.float64).expand(5, 3, 5)
    reward = torch.randn(5, 1, generator=generator, dtype=torch.float64).expand(5, 3)
    world = TabularMDP(transition / transition.sum(-1, keepdim=True), reward, torch.full((5,), 0.2).double(), 0.9)
    options = {"sampling": "vine", "vine_states": 32, "vine_actions": 3, "vine_steps": 7}
    config = TRPOConfig(**REWARD_IS_ADVANTAGE, **options, normalize_advantage=normalize_advantage)
    env = TabularEnv(world, 4, max_steps=20, dtype=dtype)
    agent = TRPOAgent(config, env.spec, seed=0, device="cpu", dtype=dtype)
    reasons, _, critic_learned = updated(agent, agent.collect(env, env.reset())[0])
    assert len(reasons) == 1 and critic_learned
