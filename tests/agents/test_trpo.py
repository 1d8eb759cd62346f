"""TRPO: every option matters, what a step is and says, vines on every world.

What an update promises is in test_trpo_promise.py, when it stands still in test_bad_input_trpo.py.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from minerva_lite.agents.optimizers import flatten
from minerva_lite.agents.trpo import SKIPS
from minerva_lite.experience.vine import Vine
from minerva_lite.formulas.objectives import normalize_advantage
from tests.living import FAMILIES, FAMILY_NAMES, differ, every_option, everything, learned, live, numbers, small_agent

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


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_step_rules_walk_along_one_direction_as_far_as_each_says(env_id, options):
    """ "fixed" walks natural_step * F^-1 g, "natural" scales it to the bound, "trpo" a fraction of that."""
    steps = {}
    for rule in ("fixed", "natural", "trpo"):
        agent, env, obs = make(env_id, dtype=torch.float64, step_rule=rule, natural_step=0.05, damping=0.02, **options)
        rollout, _ = agent.collect(env, obs)
        parameters, batch = list(agent.policy.parameters()), seen_by_the_step(agent, rollout)
        if rule == "fixed":
            gradient = flatten(torch.autograd.grad(agent.surrogate(batch), parameters)).detach()
            product = agent.fisher_product(batch, parameters)
            matrix = torch.stack([product(v) for v in torch.eye(len(gradient), dtype=torch.float64)], 1)
        before = flatten(learned(agent.policy))
        figures = agent.update(rollout)
        steps[rule] = flatten(learned(agent.policy)) - before
        assert figures["train/step_norm"].item() == pytest.approx(steps[rule].norm().item(), rel=1e-6)
        assert (figures["train/trials"] == 0) == (rule != "trpo")
    fixed, natural, exact = steps["fixed"], steps["natural"], torch.linalg.solve(matrix, gradient)
    assert torch.cosine_similarity(exact, fixed, dim=0) > 0.99, "ten iterations come close to the damped inverse"
    assert fixed.norm() / exact.norm() == pytest.approx(0.05, rel=0.05)
    torch.testing.assert_close(natural / natural.norm(), fixed / fixed.norm(), rtol=1e-6, atol=1e-9)
    # The quadratic model of the KL, damping included, is the bound at the natural step (up to the conjugacy that
    # rounding costs ten iterations).
    assert 0.5 * natural @ matrix @ natural == pytest.approx(0.01, rel=1e-4)
    fraction = (steps["trpo"].norm() / natural.norm()).item()
    assert fraction == pytest.approx(figures["train/step_fraction"].item(), rel=1e-6) and fraction > 0


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
    """A learning rate that throws the critic far off."""
    agent, env, obs = make("CartPole-v1", value_fit="adam", value_learning_rate=1e3)
    critic, policy = learned(agent.critic), learned(agent.policy)
    assert live(agent, env, obs, 1)[0]["value/fit_failed"] == 1
    assert not differ(critic, learned(agent.critic)) and differ(policy, learned(agent.policy))


# Vines


UNIFORM, FEW = {"vine_proposal": "uniform"}, {"vine_actions": 2, "normalize_obs": True}
VINES = [(env_id, options) for env_id in WORLDS for options in ({}, UNIFORM, FEW)]
VINES += [("Pendulum-v1", {"squash": True} | options) for options in ({}, UNIFORM)]


@pytest.mark.parametrize(("env_id", "options"), VINES, ids=str)
def test_a_step_climbs_the_surrogate_of_the_branches_within_the_bound(env_id, options):
    """Weights are ratios to the proposal, shared out within each state; what is climbed are the branches' returns."""
    agent, env, obs = make(env_id, dtype=torch.float64, normalize_advantage=False, **VINE | options)
    _, obs = live(agent, env, obs, 1)
    vine, _ = agent.collect(env, obs)
    assert isinstance(vine, Vine) and vine.num_steps == 128 + 16 * vine.action.shape[1] * 8
    seen, batch = agent.normalized(vine.obs), agent.prepare_vine(vine)

    def surrogate():
        total = 0.0
        for n in range(16):
            params = tuple(p[0] for p in agent.policy(seen[n : n + 1]))
            log_prob = [agent.policy.log_prob(params, action).item() for action in vine.action[n]]
            weight = [math.exp(p - q) for p, q in zip(log_prob, vine.proposal_log_prob[n].tolist(), strict=True)]
            advantage = (vine.q_value[n] - vine.q_value[n].mean()).tolist()
            total += sum(w * a for w, a in zip(weight, advantage, strict=True)) / sum(weight) / 16
        return total

    before, policy = surrogate(), learned(agent.policy)
    figures = agent.update(vine)
    assert reasons(figures) == [] and differ(policy, learned(agent.policy))
    assert figures["loss/surrogate"].item() == pytest.approx(before, rel=1e-9, abs=1e-12)
    assert figures["loss/gain"].item() == pytest.approx(surrogate() - before, rel=1e-6) and figures["loss/gain"] > 0
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
