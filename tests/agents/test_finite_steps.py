"""A step whose loss or gradient is not finite moves nothing, ends its update, is counted and named.

That three in a row end a training is in `training/test_divergence.py`.
"""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch

from tests.living import lived_in

COUNTS = ("generator", "minibatch_generator", "skipped", "skipped_in_a_row")
# How many steps one update takes.
SEVERAL = {
    "vmpo": {"inner_steps": 8, "target_period": 4},
    "mpo": {"learner_steps": 3, "policy_steps": 2, "replay_steps": 640},
}
STEPS = {"reinforce": 1, "a2c": 1, "ppo": 4, "vmpo": 8, "mpo": 3 * (1 + 1 + 2 * 2)}


def make(name: str, env_id: str = "Pendulum-v1", **options):
    """A small agent after two updates, and its next rollout."""
    agent, env, obs = lived_in(name, env_id, normalize_obs=True, **SEVERAL.get(name, {}) | options)
    return agent, agent.collect(env, obs)[0]


def learned(agent):
    """All that training changes, but for the generators and the counts of refusals."""
    return copy.deepcopy({key: value for key, value in agent.state_dict().items() if key not in COUNTS})


def infinite(loss, parameter):
    return loss * math.inf


def with_a_nan_gradient(loss, parameter):
    """A finite loss with a gradient that is not: that of the root of zero."""
    return loss + (0.0 * parameter.sum()).sqrt()


def spoil(agent, at: int, how, monkeypatch):
    """From now on the loss of step number `at` is spoiled; the list gets a state before every step."""
    step, before = agent.gradient_step, []

    def watched(*words_and_loss):
        *words, loss = words_and_loss
        before.append(learned(agent))
        network = getattr(agent, words[0]) if words else agent.policy
        return step(*words, how(loss, next(network.parameters())) if len(before) == at else loss)

    monkeypatch.setattr(agent, "gradient_step", watched)
    return before


PLACES = [(name, at) for name, steps in STEPS.items() for at in {1, min(3, steps), min(4, steps), steps}]
PLACES += [("mpo", 2), ("mpo", 7), ("mpo", 10)]  # a temperature, a critic and a policy


@pytest.mark.parametrize("how", [infinite, with_a_nan_gradient])
@pytest.mark.parametrize(("name", "at"), PLACES)
def test_a_step_that_is_not_finite_moves_nothing_and_ends_its_update(name, at, how, monkeypatch, same):
    agent, rollout = make(name)
    held = learned(agent).get("replay")
    with monkeypatch.context() as patch:
        before = spoil(agent, at, how, patch)
        figures = agent.update(rollout)
    assert len(before) == at, "no step came after it"
    after = learned(agent)
    if name == "mpo":
        assert [state.pop("replay") for state in before]
        assert after.pop("replay")["size"] == held["size"] + len(rollout.reward), "no row is to blame, and all stay"
    assert same(after, before[-1]) and (at == 1 or not same(before[-1], before[0]))
    assert {key: float(figure) for key, figure in figures.items()} == {"train/skipped_batches": 1.0}
    [told] = agent.guard.skipped
    assert told.startswith("gradient of loss" if how is with_a_nan_gradient else "loss") and agent.guard.in_a_row == 1
    figures = agent.update(rollout)
    assert figures["train/skipped_batches"] == 1 and agent.guard.in_a_row == 0 and len(figures) > 5
    assert not same(learned(agent)["modules"], before[-1]["modules"]), "it goes on"


@pytest.mark.parametrize(("how", "name"), [(infinite, "surrogate"), (with_a_nan_gradient, "gradient of surrogate")])
def test_trpo_takes_no_step_from_what_is_not_finite(how, name, monkeypatch, same):
    agent, rollout = make("trpo")
    surrogate, before, parameter = agent.surrogate, learned(agent), next(agent.policy.parameters())
    with monkeypatch.context() as patch:
        patch.setattr(agent, "surrogate", lambda batch: how(surrogate(batch), parameter))
        figures = agent.update(rollout)
    assert same(learned(agent), before) and agent.guard.skipped == {name: 1}
    assert list(figures) == ["train/skipped_batches"]
    assert len(agent.update(rollout)) > 5 and agent.guard.in_a_row == 0


@pytest.mark.parametrize("step_rule", ["trpo", "natural", "fixed"])
def test_trpo_walks_no_step_that_overflows(step_rule, monkeypatch, same):
    agent, rollout = make("trpo", step_rule=step_rule)
    monkeypatch.setattr("minerva_lite.agents.trpo.predicted_gain", lambda gradient, step: torch.tensor(math.inf))
    before = learned(agent)["modules"]
    agent.update(rollout)
    assert same(learned(agent)["modules"], before) and agent.guard.skipped == {"predicted gain": 1}


def test_both_doors_count_to_three_together():
    agent, rollout = make("ppo")
    absent = dataclasses.replace(rollout, reward=torch.full_like(rollout.reward, math.nan))
    huge = dataclasses.replace(rollout, reward=torch.full_like(rollout.reward, 1e26))
    agent.update(huge), agent.update(rollout)
    agent.update(absent), agent.update(huge)
    assert agent.guard.skipped == {"loss/value": 2, "reward": 1} and agent.guard.in_a_row == 2
    with pytest.raises(FloatingPointError, match="^reward: not finite in 3 batches in a row"):
        agent.update(absent)


def test_a_gradient_that_is_not_finite_is_named_by_its_parameter(monkeypatch):
    agent, rollout = make("ppo")
    log_std, loss = agent.policy.log_std, agent.loss
    monkeypatch.setattr(agent, "loss", lambda rows: (with_a_nan_gradient(loss(rows)[0], log_std), loss(rows)[1]))
    agent.update(rollout)
    assert agent.guard.skipped == {"gradient of policy.log_std": 1}


def test_an_agent_whose_loss_takes_something_else_is_told_of_the_loss(monkeypatch):
    """A name is looked for by evaluating again; where that fails, the refusal stands all the same."""
    agent, rollout = make("a2c")
    spoil(agent, 1, infinite, monkeypatch)
    monkeypatch.setattr(agent, "evidence", lambda rollout: rollout.nothing_of_the_kind)
    agent.update(rollout)
    assert agent.guard.skipped == {"loss": 1}


@pytest.mark.parametrize(("field", "told"), [("reward", "reward_scaler.stats.var"), ("obs", "obs_normalizer.var")])
def test_statistics_that_would_overflow_stay_as_they_were(field, told, same):
    """An infinite variance would turn whatever comes after it into zeros."""
    agent, rollout = make("a2c", normalize_reward=True)
    before = learned(agent)["modules"]
    agent.update(dataclasses.replace(rollout, **{field: torch.full_like(getattr(rollout, field), 1e26)}))
    after = learned(agent)["modules"]
    moved = {key for key in before if not same(before[key], after[key])}
    assert agent.guard.skipped == {told: 1} and not any(key.startswith(told.split(".")[0]) for key in moved)
    assert bool(moved) == (field == "obs"), "observations are let in after the step, rewards before it"
