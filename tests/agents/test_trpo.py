"""TRPO: every option matters, what a step is and says, vines on every world, and when a step is left out, by name.

What an update promises is in test_trpo_promise.py.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from minerva_lite.agents.optimizers import flatten
from minerva_lite.agents.trpo import SKIPS, TRPOAgent, TRPOConfig
from minerva_lite.experience.vine import Vine
from minerva_lite.formulas.objectives import normalize_advantage
from minerva_lite.formulas.trust_region import conjugate_gradient, full_step
from minerva_lite.training.loop import train
from minerva_lite.worlds import TabularEnv, make_env
from minerva_lite.worlds.tabular import TabularMDP
from tests.living import (
    FAMILIES,
    FAMILY_NAMES,
    differ,
    every_option,
    everything,
    learned,
    live,
    make_agent,
    numbers,
    say,
    small_agent,
)

VINE = {"sampling": "vine", "vine_states": 16, "vine_steps": 8}
WORLDS = ["Pendulum-v1", "CartPole-v1", "tabular"]
HARD = {"env_id": "CartPole-v1", "rollout_steps": 32, "kl_bound": 0.3, "damping": 1e-4}  # full steps, refused at first
OPTIONS = {
    "normalize_advantage": [({"step_rule": "fixed"}, True, False)],
    "kl_bound": [({}, 0.01, 0.02)],
    "anneal_kl": [({}, False, True)],
    "damping": [({}, 0.1, 0.01)],
    "cg_iterations": [({}, 1, 10)],
    "cg_tolerance": [({}, 0.5, 1e-10)],
    "step_rule": [({}, "fixed", "natural"), (HARD, "trpo", "natural")],
    "natural_step": [({"step_rule": "fixed"}, 0.1, 0.2)],
    "backtrack": [(HARD, 0.5, 0.8)],
    "max_trials": [(HARD, 1, 10)],
    "accept_ratio": [(HARD, 0.1, 0.99)],
    "sampling": [({"vine_states": 16, "vine_steps": 8}, "vine", "single_path")],
    "vine_states": [(VINE, 8, 16)],
    "vine_actions": [(VINE, 3, 4)],
    "vine_steps": [(VINE, 4, 8)],
    "vine_proposal": [(VINE, "policy", "uniform")],
    "value_fit": [({}, "lbfgs", "adam")],
    "value_iterations": [({}, 3, 5)],
    "value_l2": [({}, 0.0, 1e-2)],
    "value_learning_rate": [({"value_fit": "adam"}, 1e-3, 2e-3)],
    "value_minibatch": [({"value_fit": "adam"}, 8, 16)],
}
test_every_option_matters = every_option("trpo", OPTIONS)


def make(env_id: str = "Pendulum-v1", **options):
    return small_agent("trpo", env_id, **{"rollout_steps": 32} | options)


def reasons(figures) -> list[str]:
    return [reason for reason in SKIPS if figures[f"train/skip_{reason}"]]


def seen_by_the_step(agent, rollout):
    """The batch whose surrogate a step climbs."""
    batch = agent.prepare(rollout)
    assert agent.config.normalize_advantage
    return dataclasses.replace(batch, advantage=normalize_advantage(batch.advantage))


@pytest.mark.parametrize("anneal", [False, True])
def test_the_bound_falls_with_progress_only_where_that_is_asked_for(anneal):
    agent, env, obs = make(anneal_kl=anneal, kl_bound=0.02, damping=0.001)
    for progress in (0.0, 0.25, 0.9, 1.0):
        rollout, obs = agent.collect(env, obs)
        figures = numbers(agent.update(rollout, progress=progress))
        bound = 0.02 * max(1.0 - progress, 1e-6) if anneal else 0.02
        assert figures["kl/bound"] == pytest.approx(bound) and figures["kl/exact"] <= bound + 1e-8
        assert figures["kl/exact_relative"] == pytest.approx(figures["kl/exact"] / bound, rel=1e-5)


@pytest.mark.parametrize("rule", ["fixed", "natural", "trpo"])
@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_step_rules_walk_along_one_direction_as_far_as_each_says(env_id, options, rule):
    """ "fixed" walks natural_step * F^-1 g, "natural" scales it to the bound, "trpo" a fraction of that."""
    agent, env, obs = make(env_id, dtype=torch.float64, step_rule=rule, natural_step=0.05, damping=0.02, **options)
    rollout, _ = agent.collect(env, obs)
    parameters, batch = list(agent.policy.parameters()), seen_by_the_step(agent, rollout)
    gradient = flatten(torch.autograd.grad(agent.surrogate(batch), parameters)).detach()
    # Solved for the unit gradient, as the agent does: rounding costs ten iterations some conjugacy.
    product, norm = agent.fisher_product(batch, parameters), gradient.norm()
    direction = norm * conjugate_gradient(product, gradient / norm, 10, tolerance=1e-10)
    before = flatten(learned(agent.policy))
    figures = agent.update(rollout)
    step, fraction = flatten(learned(agent.policy)) - before, figures["train/step_fraction"].item()
    whole = 0.05 * direction if rule == "fixed" else full_step(gradient, direction, 0.01)
    torch.testing.assert_close(step, fraction * whole, rtol=1e-6, atol=1e-9)
    assert figures["train/step_norm"].item() == pytest.approx(step.norm().item(), rel=1e-6)
    assert (figures["train/trials"] == 0) == (rule != "trpo")
    assert fraction == 1 or (rule == "trpo" and fraction > 0)


def test_figures_of_a_step():
    agent, env, obs = make("CartPole-v1", dtype=torch.float64)
    _, obs = live(agent, env, obs, 2)
    rollout, _ = agent.collect(env, obs)
    batch = seen_by_the_step(agent, rollout)
    start = agent.surrogate(batch).item()
    figures = numbers(agent.update(rollout))
    wanted = {
        "loss/gain": agent.surrogate(batch).item() - start,
        "kl/exact": agent.mean_kl(batch).item(),
        "loss/value": 0.5 * (agent.critic(batch.obs) - batch.value_target).square().mean().item(),
        "value/fit_failed": 0,
    }
    assert {name: figures[name] for name in wanted} == pytest.approx(wanted, rel=1e-9)
    assert figures["loss/surrogate"] == pytest.approx(start, abs=1e-12)
    assert 0 < figures["kl/exact"] <= 0.01
    assert 0.1 * figures["loss/expected_gain"] * figures["train/step_fraction"] <= figures["loss/gain"]


def test_a_failed_fit_is_said_and_keeps_the_old_critic():
    agent, env, obs = make("CartPole-v1", value_fit="adam", value_learning_rate=1e3)  # which throws the critic far off
    critic, policy = learned(agent.critic), learned(agent.policy)
    assert live(agent, env, obs, 1)[0]["value/fit_failed"] == 1
    assert not differ(critic, learned(agent.critic)) and differ(policy, learned(agent.policy))


# Vines


UNIFORM, FEW = {"vine_proposal": "uniform"}, {"vine_actions": 2, "normalize_obs": True}
VINES = [(env_id, options) for env_id in WORLDS for options in ({}, UNIFORM, FEW)]
VINES += [("Pendulum-v1", {"squash": True} | options) for options in ({}, UNIFORM)]


@pytest.mark.parametrize(("env_id", "options"), VINES, ids=str)
def test_a_step_climbs_the_surrogate_of_the_branches_within_the_bound(env_id, options):
    """What is climbed are the branches' returns above the mean of their state, as the networks see it."""
    agent, env, obs = make(env_id, dtype=torch.float64, normalize_advantage=False, **VINE | options)
    _, obs = live(agent, env, obs, 1)
    vine, _ = agent.collect(env, obs)
    assert isinstance(vine, Vine) and vine.num_steps == 128 + 16 * vine.action.shape[1] * 8
    batch = agent.prepare_vine(vine)
    assert torch.equal(batch.obs, agent.normalized(vine.obs))
    assert torch.allclose(batch.advantage, vine.q_value - vine.q_value.mean(1, keepdim=True))
    before, policy = agent.surrogate(batch).item(), learned(agent.policy)
    figures = agent.update(vine)
    assert reasons(figures) == [] and differ(policy, learned(agent.policy))
    assert figures["loss/surrogate"].item() == pytest.approx(before, rel=1e-9, abs=1e-12)
    gain = agent.surrogate(batch).item() - before
    assert figures["loss/gain"].item() == pytest.approx(gain, rel=1e-6) and gain > 0
    assert 0 < agent.mean_kl(batch) <= 0.01, "on the states from which it branched"


def test_a_vine_that_does_not_fit_is_named_before_anything_moves(same):
    agent, env, obs = make(**VINE)
    vine, _ = agent.collect(env, obs)
    before = everything(agent)
    for change, message in [
        ({"q_value": vine.q_value[0]}, r"^q_value: wanted shape \(any, any\)"),
        ({"proposal_log_prob": vine.proposal_log_prob[:, :1]}, r"^proposal_log_prob: wanted shape \(16, 4\); got \(16, 1\)"),
        ({"action": vine.action[..., 0]}, r"^action: wanted shape \(16, 4, 1\); got \(16, 4\)"),
        ({"obs": vine.obs[:, :2]}, r"^obs: wanted shape \(16, 3\); got \(16, 2\)"),
        ({"q_value": vine.q_value.double()}, r"^q_value: wanted dtype torch.float32; got torch.float64"),
        ({"trunk": dataclasses.replace(vine.trunk, reward=vine.trunk.reward[:5])}, r"^reward: wanted shape \(32, 4\)"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            agent.update(dataclasses.replace(vine, **change))
    for name in ("obs", "proposal_log_prob", "q_value"):
        tensor = getattr(vine, name).clone()
        tensor.view(-1)[3] = math.nan
        agent.guard.skipped, agent.guard.in_a_row = {}, 0
        agent.update(dataclasses.replace(vine, **{name: tensor}))
        assert agent.guard.skipped == {name: 1}
    assert same(before, everything(agent))


def test_who_samples_vines_learns_from_vines_and_who_walks_from_rollouts(same):
    for first, second, message in ((VINE, {}, "a Rollout.*got a Vine"), ({}, VINE, "a Vine.*got a Rollout")):
        agent, (other, env, obs) = make(**second)[0], make(**first)
        before = everything(agent)
        with pytest.raises(ValueError, match=f"^rollout: wanted {message}"):
            agent.update(other.collect(env, obs)[0])
        assert same(before, everything(agent))


# When it stands still: every bit of the policy is as it was, and the critic learns on

# One step of TD with a critic that says 0: the advantage is the reward, to the bit.
REWARD_IS_ADVANTAGE = {"estimator": "td", "num_envs": 4, "rollout_steps": 16, "hidden": (16,)}


def begun(env_id: str, **options):
    """An agent whose critic says 0 everywhere, and one rollout."""
    agent, env, obs = make_agent("trpo", env_id, **REWARD_IS_ADVANTAGE | options)
    say(agent.critic, 0.0)
    return agent, agent.collect(env, obs)[0]


def paid_at_random(agent, rollout, scale: float = 1.0, mean: float = 0.0):
    reward = mean + scale * torch.randn(rollout.reward.shape, generator=agent.generator)
    return dataclasses.replace(rollout, reward=reward)


def updated(agent, rollout):
    """Why the step was left out, the figures, and whether the critic learned; the policy moves where it was not."""
    policy, critic = learned(agent.policy), learned(agent.critic)
    figures = agent.update(rollout)
    why = reasons(figures)
    assert differ(policy, learned(agent.policy)) == (why == []) == bool(figures["train/step_fraction"] > 0)
    assert figures["kl/exact"] == 0 if why else 0 < figures["kl/exact"] <= agent.config.kl_bound
    return why, figures, differ(critic, learned(agent.critic))


@pytest.mark.parametrize("env_id", WORLDS[:2])
def test_without_damping_a_singular_fisher_matrix_is_stepped_on_safely_or_left_out(env_id):
    # Two rows know a handful of directions of some hundred parameters: the matrix is singular. The gradient lies in
    # its range, so iterations that stop in time find a step; those that do not stop divide rounding by rounding.
    rows = {"num_envs": 2, "rollout_steps": 1, "cg_iterations": 50, "damping": 0.0}
    found = {1e-10: [], 0.0: []}
    for tolerance, why in found.items():
        for seed in range(8):
            agent, env, obs = small_agent("trpo", env_id, seed=seed, cg_tolerance=tolerance, hidden=(16,), **rows)
            why += updated(agent, agent.collect(env, obs)[0])[0]
            assert all(p.isfinite().all() for p in learned(agent))
    assert found[1e-10] == [] and "curvature" in found[0.0]


@pytest.mark.parametrize("env_id", WORLDS[:2])
@pytest.mark.parametrize("factor", [-1.0, 0.0, float("nan")])
def test_an_update_without_positive_curvature_is_left_out_by_name(env_id, factor, monkeypatch):
    agent, rollout = begun(env_id)
    monkeypatch.setattr(TRPOAgent, "fisher_product", lambda self, batch, parameters: lambda vector: factor * vector)
    why, _, critic_learned = updated(agent, paid_at_random(agent, rollout))
    assert why == ["curvature"] and critic_learned


# Advantages that say nothing.


@pytest.mark.parametrize("env_id", WORLDS[:2])
@pytest.mark.parametrize("normalize_advantage", [True, False])
@pytest.mark.parametrize(
    ("value", "ulps"), [(0.0, 0), (0.1, 0), (-1 / 3, 0), (1e6 / 7, 0), (1e-30, 0), (0.1, 2), (-16.27, 3)]
)
def test_equal_advantages_are_left_out_by_name(env_id, normalize_advantage, value, ulps):
    # The mean of 64 equal float32 numbers need not be that number: what is left, over a spread of nothing, is not 0.
    # Nor need the numbers be equal: some lie up to `ulps` steps of float32 above the others.
    agent, rollout = begun(env_id, normalize_advantage=normalize_advantage, rollout_steps=15)
    reward = torch.full_like(rollout.reward, value)
    for i in range(ulps):
        reward.view(-1)[i::3] = reward.view(-1)[i::3].nextafter(torch.tensor(math.inf))
    why, figures, _ = updated(agent, dataclasses.replace(rollout, reward=reward))
    assert why == ["equal_advantages"] and figures["train/trials"] == 0


@pytest.mark.parametrize(
    ("scale", "mean", "options"),
    [(1.0, 1e3, {"value_l2": 0.0}), *((scale, 0.0, {"normalize_advantage": False}) for scale in (1e-12, 1e-3, 1e12))],
)
def test_small_but_real_differences_of_advantages_are_stepped_on(scale, mean, options):
    """Small beside their mean, or in another unit of the reward."""
    agent, rollout = begun("CartPole-v1", **options)
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
    why, figures, critic_learned = updated(agent, paid_at_random(agent, agent.collect(env, obs)[0]))
    assert why == ["zero_gradient"] and figures["train/grad_norm"] == 0 and critic_learned


@pytest.mark.parametrize("env_id", WORLDS[:2])
@pytest.mark.parametrize("damping", [0.1, 1e-3, 0.0])
def test_a_gradient_at_rounding_level_is_left_out_and_never_scaled_up(env_id, damping):
    """One state and one action throughout, with advantages of mean 0: the exact gradient is 0.

    The computed one is what rounding left of it. Scaled to the bound it would be a full step, in no direction at all.
    Without damping rounding does not stay in the range of a singular matrix, whose inverse blows it up. Then it is the
    curvature or the line search that says no.
    """
    agent, rollout = begun(env_id, damping=damping, rollout_steps=15)

    def repeat(x: torch.Tensor) -> torch.Tensor:
        return x[:1, :1].expand_as(x).contiguous()

    fields = {name: repeat(getattr(rollout, name)) for name in ("obs", "action", "behavior_log_prob", "next_obs")}
    fields["behavior_params"] = tuple(repeat(p) for p in rollout.behavior_params)
    why, figures, critic_learned = updated(agent, paid_at_random(agent, dataclasses.replace(rollout, **fields)))
    assert 0 < figures["train/grad_norm"] < 1e-5 and critic_learned
    assert why == ["rounding"] if damping else len(why) == 1


def test_a_vine_wants_a_world_whose_state_can_be_set(same):
    env = make_env("CartPole-v1", 4, backend="gymnasium", seed=0)
    agent = TRPOAgent(TRPOConfig(**REWARD_IS_ADVANTAGE, sampling="vine", vine_states=8), env.spec, device="cpu")
    before = everything(agent)
    with pytest.raises(ValueError, match="env: wanted an environment whose state can be set.*GymEnv has none"):
        train(agent, env, 64, progress=False)
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
    why, _, critic_learned = updated(agent, agent.collect(env, env.reset())[0])
    assert len(why) == 1 and critic_learned
