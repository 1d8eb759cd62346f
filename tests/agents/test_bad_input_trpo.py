"""What TRPO must refuse: a clear error, or an update left out by name with every bit of the policy as it was."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch

from minerva_lite.agents.trpo import SKIPS, TRPOAgent, TRPOConfig
from minerva_lite.experience.rollout import collect
from minerva_lite.formulas.trust_region import (
    CurvatureError,
    conjugate_gradient,
    fisher_vector_product,
    full_step,
    line_search,
)
from minerva_lite.training.loop import train
from minerva_lite.worlds.envs import TabularEnv, make_env
from minerva_lite.worlds.tabular import TabularMDP

ENVS = ["Pendulum-v1", "CartPole-v1"]
# One step of TD with a critic that says 0: the advantage is the reward, to the bit.
REWARD_IS_ADVANTAGE = {"estimator": "td", "num_envs": 4, "rollout_steps": 16, "hidden": (16,)}


def make(env_id: str, critic: float | None = 0.0, seed: int = 0, **options):
    """An agent whose critic says `critic` everywhere (None: as drawn), its environment, and one rollout."""
    config = TRPOConfig(**REWARD_IS_ADVANTAGE | options)
    env = make_env(env_id, config.num_envs, seed=seed)
    agent = TRPOAgent(config, env.spec, seed=seed, device="cpu")
    if critic is not None:
        with torch.no_grad():
            agent.critic.value[-1].weight.zero_()
            agent.critic.value[-1].bias.fill_(critic)
    rollout, _ = collect(agent, env, env.reset(), config.rollout_steps)
    return agent, rollout


def state(agent) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in agent.modules.state_dict().items()}


def moved(agent, before: dict[str, torch.Tensor], part: str) -> bool:
    after = agent.modules.state_dict()
    return any(not torch.equal(before[name], after[name]) for name in before if name.startswith(part))


def left_out(figures: dict[str, torch.Tensor]) -> list[str]:
    return [name for name in SKIPS if figures[f"train/skip_{name}"]]


def meaningless(env_id: str, damping: float):
    """One state and one action throughout, with advantages of mean 0: the exact gradient is 0.

    The computed one is what rounding left of it. Scaled to the bound it would be a full step, in no direction at all.
    """
    agent, rollout = make(env_id, damping=damping, rollout_steps=15)

    def repeat(x: torch.Tensor) -> torch.Tensor:
        return x[:1, :1].expand_as(x).contiguous()

    fields = {name: repeat(getattr(rollout, name)) for name in ("obs", "action", "behavior_log_prob", "next_obs")}
    fields["behavior_params"] = tuple(repeat(p) for p in rollout.behavior_params)
    fields["reward"] = torch.randn(rollout.reward.shape, generator=agent.generator)
    return agent, dataclasses.replace(rollout, **fields)


# Settings that contradict the method, refused when they are made, with the name and the number.


@pytest.mark.parametrize(("options", "message"), [
    ({"num_envs": 1, "rollout_steps": 1}, "normalize_advantage: wanted a batch of at least 2 rows"),
])  # fmt: skip
def test_a_setting_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TRPOConfig(**options)


def test_the_pure_functions_refuse_the_same():
    one = torch.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="damping: wanted a finite number of at least 0; got -1.0"):
        fisher_vector_product(2.0 * one, [one], torch.ones(1), damping=-1.0)
    with pytest.raises(ValueError, match="iterations: wanted a whole number of at least 1; got 0"):
        conjugate_gradient(lambda v: v, torch.ones(2), 0)
    for bound in (0.0, -0.01):
        with pytest.raises(ValueError, match=f"kl_bound: wanted a finite number above 0; got {bound}"):
            full_step(torch.ones(2), torch.ones(2), bound)
        with pytest.raises(ValueError, match=f"kl_bound: wanted a finite number above 0; got {bound}"):
            line_search(lambda fraction: (torch.ones(()), torch.zeros(())), 1.0, kl_bound=bound)


# Curvature that is not positive.


@pytest.mark.parametrize(("diagonal", "target", "curvature"), [
    ([1.0, 0.0], [1.0, 1.0], "0"),  # singular, and the right side leaves its range
    ([0.0, 0.0], [1.0, 0.0], "0"),
    ([2.0, -1.0], [0.0, 1.0], "-1"),
    ([1.0, float("nan")], [1.0, 1.0], "nan"),
])  # fmt: skip
def test_conjugate_gradient_names_a_direction_without_curvature(diagonal, target, curvature):
    with pytest.raises(CurvatureError, match=re.escape(f"wanted positive curvature p^T M p; got {curvature}")):
        conjugate_gradient(lambda v: torch.tensor(diagonal) * v, torch.tensor(target), 10)


def test_a_singular_matrix_is_no_trouble_where_it_has_a_solution():
    assert conjugate_gradient(lambda v: torch.tensor([2.0, 0.0]) * v, torch.tensor([4.0, 0.0]), 10).tolist() == [
        2.0,
        0.0,
    ]


@pytest.mark.parametrize("slope", [-1.0, 0.0])
def test_a_direction_that_does_not_rise_is_named(slope):
    with pytest.raises(CurvatureError, match="direction: wanted a rising one, g.T x above 0"):
        full_step(torch.tensor([1.0]), torch.tensor([slope]), 0.01)


@pytest.mark.parametrize("env_id", ENVS)
def test_without_damping_a_singular_fisher_matrix_is_stepped_on_safely_or_left_out(env_id):
    # Two rows know a handful of directions of some hundred parameters: the matrix is singular. The gradient lies in
    # its range, so iterations that stop in time find a step; those that do not stop divide rounding by rounding.
    rows = {"num_envs": 2, "rollout_steps": 1, "estimator": "gae", "cg_iterations": 50, "damping": 0.0}
    why = {1e-10: [], 0.0: []}
    for tolerance, reasons in why.items():
        for seed in range(8):
            agent, rollout = make(env_id, None, seed, cg_tolerance=tolerance, **rows)
            before = state(agent)
            figures = agent.update(rollout)
            reasons += left_out(figures)
            assert moved(agent, before, "policy") is not bool(left_out(figures))
            assert all(tensor.isfinite().all() for tensor in state(agent).values())
            assert figures["kl/exact"] <= agent.config.kl_bound
    assert why[1e-10] == [] and "curvature" in why[0.0]


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("factor", [-1.0, 0.0, float("nan")])
def test_an_update_without_positive_curvature_is_left_out_by_name(env_id, factor, monkeypatch):
    agent, rollout = make(env_id)
    monkeypatch.setattr(TRPOAgent, "fisher_product", lambda self, batch, parameters: lambda vector: factor * vector)
    before = state(agent)
    rollout = dataclasses.replace(rollout, reward=torch.randn(rollout.reward.shape, generator=agent.generator))
    figures = agent.update(rollout)
    assert left_out(figures) == ["curvature"] and not moved(agent, before, "policy")
    assert figures["train/step_fraction"] == 0 and figures["kl/exact"] == 0
    assert moved(agent, before, "critic")  # the critic learns all the same


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
    rollout = dataclasses.replace(rollout, reward=constant(rollout.reward, value, ulps))
    before = state(agent)
    figures = agent.update(rollout)
    assert left_out(figures) == ["equal_advantages"] and not moved(agent, before, "policy")
    assert figures["train/step_fraction"] == 0 and figures["train/trials"] == 0 and figures["kl/exact"] == 0


@pytest.mark.parametrize("env_id", ENVS)
def test_the_critic_learns_from_a_batch_that_leaves_the_policy_alone(env_id):
    agent, rollout = make(env_id)
    rollout = dataclasses.replace(rollout, reward=torch.full_like(rollout.reward, 0.1))
    before = state(agent)
    figures = agent.update(rollout)
    assert left_out(figures) == ["equal_advantages"]
    assert moved(agent, before, "critic") and figures["loss/value"] < 0.5 * 0.1**2
    assert figures["value/fit_failed"] == 0


def test_small_but_real_differences_of_advantages_are_stepped_on():
    agent, rollout = make("CartPole-v1", value_l2=0.0)
    reward = 1e3 + torch.randn(rollout.reward.shape, generator=agent.generator)
    figures = agent.update(dataclasses.replace(rollout, reward=reward))
    assert left_out(figures) == [] and figures["train/step_fraction"] > 0


# Gradients that say nothing.


@pytest.mark.parametrize("normalize_advantage", [True, False])
def test_a_policy_beyond_doubt_has_no_gradient(normalize_advantage):
    # Probability 1 of one action in every digit: no reward moves it, and the Fisher matrix is zero as well.
    agent, rollout = make("CartPole-v1", normalize_advantage=normalize_advantage)
    with torch.no_grad():
        agent.policy.logits[-1].bias.copy_(torch.tensor([500.0, -500.0]))
    env = make_env("CartPole-v1", 4, seed=0)
    rollout, _ = collect(agent, env, env.reset(), 16)
    rollout = dataclasses.replace(rollout, reward=torch.randn(rollout.reward.shape, generator=agent.generator))
    before = state(agent)
    figures = agent.update(rollout)
    assert left_out(figures) == ["zero_gradient"] and figures["train/grad_norm"] == 0
    assert not moved(agent, before, "policy") and moved(agent, before, "critic")


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("damping", [0.1, 1e-3])
def test_a_gradient_at_rounding_level_is_left_out_and_never_scaled_up(env_id, damping):
    agent, rollout = meaningless(env_id, damping)
    before = state(agent)
    figures = agent.update(rollout)
    assert 0 < figures["train/grad_norm"] < 1e-5
    assert left_out(figures) == ["rounding"] and not moved(agent, before, "policy")
    assert figures["train/step_fraction"] == 0 and figures["kl/exact"] == 0 and moved(agent, before, "critic")


@pytest.mark.parametrize("env_id", ENVS)
def test_without_damping_such_a_gradient_is_left_out_too(env_id):
    # Rounding does not stay in the range of a singular matrix, whose inverse blows it up: then it is the curvature or
    # the line search that says no.
    agent, rollout = meaningless(env_id, 0.0)
    before = state(agent)
    figures = agent.update(rollout)
    assert len(left_out(figures)) == 1 and not moved(agent, before, "policy") and figures["kl/exact"] == 0


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e12])
def test_the_unit_of_the_reward_does_not_make_a_gradient_small(scale):
    agent, rollout = make("CartPole-v1", normalize_advantage=False)
    reward = scale * torch.randn(rollout.reward.shape, generator=agent.generator)
    figures = agent.update(dataclasses.replace(rollout, reward=reward))
    assert left_out(figures) == [] and figures["train/step_fraction"] > 0


# Worlds and batches.


def test_a_vine_wants_a_world_whose_state_can_be_set():
    config = TRPOConfig(**REWARD_IS_ADVANTAGE, sampling="vine", vine_states=8)
    env = make_env("CartPole-v1", 4, backend="gymnasium", seed=0)
    agent = TRPOAgent(config, env.spec, seed=0, device="cpu")
    before, draws = state(agent), agent.generator.get_state()
    for attempt in (lambda: agent.collect(env, env.reset()), lambda: train(agent, env, 64, progress=False)):
        with pytest.raises(ValueError, match="env: wanted an environment whose state can be set.*GymEnv has none"):
            attempt()
    assert not moved(agent, before, "") and torch.equal(agent.generator.get_state(), draws)
    env.close()


def test_a_vine_agent_wants_a_vine():
    agent, rollout = make("CartPole-v1", sampling="vine", vine_states=8)
    before = state(agent)
    with pytest.raises(ValueError, match="rollout: wanted a Vine"):
        agent.update(rollout)
    assert not moved(agent, before, "")


def test_a_vine_wants_states_that_its_trunk_has():
    with pytest.raises(ValueError, match="vine_states: wanted at most the 64 states of a trunk"):
        TRPOConfig(**REWARD_IS_ADVANTAGE, sampling="vine", vine_states=65)
    with pytest.raises(ValueError, match="vine_states: wanted .* of a trunk of fixed length.*whole_episodes True"):
        TRPOConfig(**REWARD_IS_ADVANTAGE, sampling="vine", vine_states=8, whole_episodes=True)


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("name", ["obs", "reward", "behavior_log_prob", "next_obs"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_moves_nothing(env_id, name, bad):
    agent, rollout = make(env_id)
    tensor = getattr(rollout, name).clone()
    tensor.view(-1)[3] = bad
    before = state(agent)
    figures = agent.update(dataclasses.replace(rollout, **{name: tensor}))
    assert figures["train/skipped_batches"] == 1 and agent.guard.skipped == {name: 1}
    assert not moved(agent, before, "")


@pytest.mark.parametrize("name", ["obs", "proposal_log_prob", "q_value"])
def test_a_vine_with_a_number_that_is_not_finite_moves_nothing(name):
    config = TRPOConfig(**REWARD_IS_ADVANTAGE, sampling="vine", vine_states=8, vine_steps=4)
    env = make_env("CartPole-v1", 4, seed=0)
    agent = TRPOAgent(config, env.spec, seed=0, device="cpu")
    vine, _ = agent.collect(env, env.reset())
    tensor = getattr(vine, name).clone()
    tensor.view(-1)[3] = float("nan")
    before = state(agent)
    figures = agent.update(dataclasses.replace(vine, **{name: tensor}))
    assert figures["train/skipped_batches"] == 1 and agent.guard.skipped == {name: 1}
    assert not moved(agent, before, "")


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
    vine, _ = agent.collect(env, env.reset())
    before = state(agent)
    figures = agent.update(vine)
    assert len(left_out(figures)) == 1 and not moved(agent, before, "policy") and moved(agent, before, "critic")
