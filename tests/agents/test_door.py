"""What no agent lets in: numbers that are not finite, tensors of other shapes, weights that are none; each by name.

All that an update would change is as it was: networks, targets, multipliers, optimizers, replay, generators. A step
whose loss or gradient is not finite moves nothing either, ends its update, is counted and named. That three in a row
end a training is in `training/test_divergence.py`.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import math
import re

import pytest
import torch

from tests.agents.test_multi_categorical import TOYS
from tests.living import (
    STEPPERS,
    everything,
    learned,
    live,
    lived_in,
    numbers,
    refusal,
    small_agent,
    through_a_file,
    with_statistics,
)

NAMES = [name for name in STEPPERS if name != "mpo"]
WORLDS = [(name, env_id) for env_id in ("Pendulum-v1", "CartPole-v1") for name in STEPPERS]
WORLDS += [(name, env_id) for env_id in TOYS for name in NAMES]


def replaced(rollout, field: str, tensor):
    """The rollout with another tensor under a name of `tensors()`, such as "behavior_params[1]"."""
    name, _, place = field.partition("[")
    if not place:
        return dataclasses.replace(rollout, **{name: tensor})
    several = list(getattr(rollout, name))
    several[int(place[:-1])] = tensor
    return dataclasses.replace(rollout, **{name: tuple(several)})


@pytest.mark.parametrize(("name", "env_id"), WORLDS)
def test_a_non_finite_rollout_changes_nothing_and_three_in_a_row_end_training(name, env_id, same):
    agent, env, obs = with_statistics(name, env_id)
    _, obs = live(agent, env, obs, 1)
    rollout, _ = agent.collect(env, obs)
    before = everything(agent)
    floats = {field: tensor for field, tensor in rollout.tensors().items() if tensor.is_floating_point()}
    assert {"obs", "behavior_log_prob", "behavior_params[0]", "reward", "next_obs"} <= set(floats)
    for field, tensor in floats.items():
        agent.guard.skipped, agent.guard.in_a_row = {}, 0
        bad = []
        for poison in (math.nan, math.inf, -math.inf):
            bad.append(tensor.clone())
            bad[-1][5, 2] = poison
        for i in (1, 2):
            assert numbers(agent.update(replaced(rollout, field, bad[i]))) == {"train/skipped_batches": i}
            assert agent.guard.skipped == {field: i} and same(before, everything(agent))
        # The count goes through a file, and the third is the third wherever it comes.
        twin = type(agent)(agent.config, agent.spec, seed=5, device="cpu")
        twin.load_state_dict(through_a_file(agent.state_dict()))
        for each in (agent, twin):
            with pytest.raises(FloatingPointError, match=f"^{re.escape(field)}: not finite in 3 batches in a row"):
                each.update(replaced(rollout, field, bad[0]))
        assert same(before, everything(agent))
    agent.guard.in_a_row = 0
    agent.update(rollout)
    assert not same(before, everything(agent)), "the same rollout, mended, does train"


def misfits(field: str, tensor: torch.Tensor):
    """The tensor in other shapes and another dtype, and what is said of each."""
    shape = tuple(tensor.shape)
    for other in (tensor[:5], tensor[:, :2], tensor[..., None], *((tensor[..., 0],) if len(shape) > 2 else ())):
        # How many rows there are is said by the reward: where whole episodes are collected there may be any number.
        yield other, f"wanted shape {shape}; got {tuple(other.shape)}"
    dtype = torch.float32 if tensor.dtype in (torch.bool, torch.int64) else torch.float64
    yield tensor.to(dtype), f"wanted dtype {tensor.dtype}; got {dtype}"


@pytest.mark.parametrize(("name", "env_id"), WORLDS)
def test_a_misshapen_rollout_is_named_before_anything_moves(name, env_id, same):
    agent, env, obs = with_statistics(name, env_id)
    rollout, _ = agent.collect(env, obs)
    before = everything(agent)
    for field, tensor in rollout.tensors().items():
        for other, message in misfits(field, tensor):
            assert refusal(agent.update, replaced(rollout, field, other)).startswith(f"{field}: {message}")
    for progress in (-0.5, 1.5):
        told = refusal(agent.update, rollout, progress=progress)
        assert told == f"progress: wanted a number in [0, 1]; got {progress}"
    assert same(before, everything(agent))


@pytest.mark.parametrize("name", STEPPERS)
def test_restart_weights_other_than_zero_and_one_are_refused(name, same):
    agent, env, obs = with_statistics(name, "Pendulum-v1")
    rollout, _ = agent.collect(env, obs)
    before, ones = everything(agent), torch.ones_like(rollout.reward)
    numbers_only = "wanted only 0 and 1, and not only 0"
    table = [(factor * ones, numbers_only) for factor in (0.0, 0.5, -1.0, 2.0, math.nan)]
    table += [(ones[1:], r"wanted shape \(8, 4\); got \(7, 4\)"), (ones.double(), "wanted dtype torch.float32")]
    if name == "mpo":
        table.append((ones.index_fill(0, torch.tensor(3), 0.0), "wanted none, a replay holds real transitions only"))
    for weight, message in table:
        told = refusal(agent.update, dataclasses.replace(rollout, restart_weight=weight))
        assert re.match(f"restart_weight: {message}", told)
    assert same(before, everything(agent))


@pytest.mark.parametrize("network", ["policy", "critic"])
@pytest.mark.parametrize(("name", "env_id"), WORLDS)
def test_a_diverged_policy_does_not_train_on(name, env_id, network, same):
    """Nor does a critic: what either gives is refused, not made into numbers, and the third time training ends."""
    agent, env, obs = with_statistics(name, env_id)
    live(agent, env, obs, 1)
    for each in (network, f"target_{network}"):
        if hasattr(agent, each):
            torch.nn.init.constant_(list(getattr(agent, each).parameters())[-1], math.nan)
    before = [p.nan_to_num(1.0) for p in learned(agent)]
    for skipped in (1, 2):
        assert numbers(agent.update(agent.collect(env, env.reset())[0])) == {"train/skipped_batches": skipped}
        assert same(before, [p.nan_to_num(1.0) for p in learned(agent)])
    with pytest.raises(FloatingPointError, match="not finite in 3 batches in a row"):
        agent.update(agent.collect(env, env.reset())[0])


# Steps whose loss or gradient is not finite

COUNTS = ("generator", "minibatch_generator", "skipped", "skipped_in_a_row")
# How many steps one update takes.
SEVERAL = {
    "vmpo": {"inner_steps": 8, "target_period": 4},
    "mpo": {"learner_steps": 3, "policy_steps": 2, "replay_steps": 640},
}
STEPS = {"reinforce": 1, "a2c": 1, "ppo": 4, "vmpo": 8, "mpo": 3 * (1 + 1 + 2 * 2)}


def with_a_rollout(name: str, **options):
    """A small agent after two updates, and its next rollout."""
    agent, env, obs = lived_in(name, normalize_obs=True, **SEVERAL.get(name, {}) | options)
    return agent, agent.collect(env, obs)[0]


def trained(agent):
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
        before.append(trained(agent))
        network = getattr(agent, words[0]) if words else agent.policy
        return step(*words, how(loss, next(network.parameters())) if len(before) == at else loss)

    monkeypatch.setattr(agent, "gradient_step", watched)
    return before


PLACES = [(name, at) for name, steps in STEPS.items() for at in {1, min(3, steps), min(4, steps), steps}]
PLACES += [("mpo", 2), ("mpo", 7), ("mpo", 10)]  # a temperature, a critic and a policy


@pytest.mark.parametrize("how", [infinite, with_a_nan_gradient])
@pytest.mark.parametrize(("name", "at"), PLACES)
def test_a_step_that_is_not_finite_moves_nothing_and_ends_its_update(name, at, how, monkeypatch, same):
    agent, rollout = with_a_rollout(name)
    held = trained(agent).get("replay")
    with monkeypatch.context() as patch:
        before = spoil(agent, at, how, patch)
        figures = agent.update(rollout)
    assert len(before) == at, "no step came after it"
    after = trained(agent)
    if name == "mpo":
        assert [state.pop("replay") for state in before]
        assert after.pop("replay")["size"] == held["size"] + len(rollout.reward), "no row is to blame, and all stay"
    assert same(after, before[-1]) and (at == 1 or not same(before[-1], before[0]))
    assert {key: float(figure) for key, figure in figures.items()} == {"train/skipped_batches": 1.0}
    [told] = agent.guard.skipped
    assert told.startswith("gradient of loss" if how is with_a_nan_gradient else "loss") and agent.guard.in_a_row == 1
    figures = agent.update(rollout)
    assert figures["train/skipped_batches"] == 1 and agent.guard.in_a_row == 0 and len(figures) > 5
    assert not same(trained(agent)["modules"], before[-1]["modules"]), "it goes on"


@pytest.mark.parametrize(("how", "name"), [(infinite, "surrogate"), (with_a_nan_gradient, "gradient of surrogate")])
def test_trpo_takes_no_step_from_what_is_not_finite(how, name, monkeypatch, same):
    agent, rollout = with_a_rollout("trpo")
    surrogate, before, parameter = agent.surrogate, trained(agent), next(agent.policy.parameters())
    with monkeypatch.context() as patch:
        patch.setattr(agent, "surrogate", lambda batch: how(surrogate(batch), parameter))
        figures = agent.update(rollout)
    assert same(trained(agent), before) and agent.guard.skipped == {name: 1}
    assert list(figures) == ["train/skipped_batches"]
    assert len(agent.update(rollout)) > 5 and agent.guard.in_a_row == 0


@pytest.mark.parametrize("step_rule", ["trpo", "natural", "fixed"])
def test_trpo_walks_no_step_that_overflows(step_rule, monkeypatch, same):
    agent, rollout = with_a_rollout("trpo", step_rule=step_rule)
    monkeypatch.setattr("minerva_lite.agents.trpo.predicted_gain", lambda gradient, step: torch.tensor(math.inf))
    before = trained(agent)["modules"]
    agent.update(rollout)
    assert same(trained(agent)["modules"], before) and agent.guard.skipped == {"predicted gain": 1}


def test_both_doors_count_to_three_together():
    agent, rollout = with_a_rollout("ppo")
    absent = dataclasses.replace(rollout, reward=torch.full_like(rollout.reward, math.nan))
    huge = dataclasses.replace(rollout, reward=torch.full_like(rollout.reward, 1e26))
    agent.update(huge), agent.update(rollout)
    agent.update(absent), agent.update(huge)
    assert agent.guard.skipped == {"loss/value": 2, "reward": 1} and agent.guard.in_a_row == 2
    with pytest.raises(FloatingPointError, match="^reward: not finite in 3 batches in a row"):
        agent.update(absent)


def test_a_gradient_that_is_not_finite_is_named_by_its_parameter(monkeypatch):
    agent, rollout = with_a_rollout("ppo")
    log_std, loss = agent.policy.log_std, agent.loss
    monkeypatch.setattr(agent, "loss", lambda rows: (with_a_nan_gradient(loss(rows)[0], log_std), loss(rows)[1]))
    agent.update(rollout)
    assert agent.guard.skipped == {"gradient of policy.log_std": 1}


def test_an_agent_whose_loss_takes_something_else_is_told_of_the_loss(monkeypatch):
    """A name is looked for by evaluating again; where that fails, the refusal stands all the same."""
    agent, rollout = with_a_rollout("a2c")
    spoil(agent, 1, infinite, monkeypatch)
    monkeypatch.setattr(agent, "evidence", lambda rollout: rollout.nothing_of_the_kind)
    agent.update(rollout)
    assert agent.guard.skipped == {"loss": 1}


@pytest.mark.parametrize(("field", "told"), [("reward", "reward_scaler.stats.var"), ("obs", "obs_normalizer.var")])
def test_statistics_that_would_overflow_stay_as_they_were(field, told, same):
    """An infinite variance would turn whatever comes after it into zeros."""
    agent, rollout = with_a_rollout("a2c", normalize_reward=True)
    before = trained(agent)["modules"]
    agent.update(dataclasses.replace(rollout, **{field: torch.full_like(getattr(rollout, field), 1e26)}))
    after = trained(agent)["modules"]
    moved = {key for key in before if not same(before[key], after[key])}
    assert agent.guard.skipped == {told: 1} and not any(key.startswith(told.split(".")[0]) for key in moved)
    assert bool(moved) == (field == "obs"), "observations are let in after the step, rewards before it"


# Settings that contradict one another, an environment or the method. The ranges of each are in `test_ranges.py`.

VINE = {"sampling": "vine", "vine_states": 8}
NO_CRITIC = {"whole_episodes": True, "baseline": "none"}
CONTRADICTIONS = [
    *((name, {"num_envs": 1, "rollout_steps": 1, "normalize_advantage": True}, r"normalize_advantage: wanted a batch of at least 2 rows, one has no spread; got 1") for name in NAMES),
    ("reinforce", NO_CRITIC | {"critic_hidden": (4,)}, r"critic_hidden: wanted None with baseline 'none', which reads no critic; got \(4,\)$"),
    ("reinforce", NO_CRITIC | {"value_target": "returns"}, r"value_target: wanted 'advantage' with baseline 'none', which reads no critic; got 'returns'$"),
    ("reinforce", NO_CRITIC | {"estimator": "gae"}, r"baseline: wanted 'value' where an episode is cut or the estimator is 'gae'.*; got 'none'"),
    ("reinforce", {"baseline": "others"}, r"baseline: wanted 'value' where an episode is cut.*; got 'others'"),
    ("reinforce", {"reward_to_go": False}, r"reward_to_go: wanted True with baseline 'value'; got False"),
    ("reinforce", NO_CRITIC | {"reward_to_go": False, "baseline": "others"}, r"reward_to_go: wanted True with baseline 'others'; got False"),
    ("reinforce", NO_CRITIC | {"reward_to_go": False, "discount_states": True}, r"discount_states: wanted False with the whole episode's return.*; got True"),
    ("reinforce", {"discount_states": True}, r"discount_states: wanted whole_episodes.*; got fixed rollouts"),
    ("ppo", {"whole_episodes": True}, r"whole_episodes: wanted False, PPO's minibatches.*; got True"),
    ("ppo", {"minibatch_size": 33}, r"minibatch_size: wanted at most rollout_steps \* num_envs = 32; got 33"),
    ("ppo", {"minibatch_size": 31}, r"minibatch_size: wanted no minibatch of one row.*; got 31 for a batch of 32"),
    ("ppo", {"minibatch_size": 1}, r"minibatch_size: wanted no minibatch of one row.*; got 1 for"),
    ("trpo", VINE | {"vine_states": 33}, r"vine_states: wanted at most the 32 states of a trunk.*; got 33"),
    ("trpo", VINE | {"whole_episodes": True}, r"vine_states: wanted .* of a trunk of fixed length.*whole_episodes True"),
    ("trpo", VINE | {"vine_actions": 1}, r"vine_actions: wanted at least 2, one branch has nothing to be compared with; got 1"),
    ("trpo", VINE | {"normalize_reward": True}, r"normalize_reward: wanted False with vine sampling.*; got True"),
    ("mpo", {"hidden": ()}, r"hidden: wanted at least one layer, which MPO's networks normalize; got \(\)"),
    ("mpo", {"critic_hidden": ()}, r"critic_hidden: wanted at least one layer, which MPO's networks normalize; got \(\)"),
    ("mpo", {"critic_target": "retrace"}, r"sequence_length: wanted at least 2 for Retrace; got 1"),
    ("mpo", {"sequence_length": 17}, r"replay_steps: wanted room for sequence_length and rollout_steps in each environment, 68 in all; got 64"),
    ("mpo", {"replay_steps": 31}, r"replay_steps: wanted room for sequence_length and rollout_steps in each environment, 32 in all; got 31"),
    ("mpo", {"warmup_steps": 65}, r"warmup_steps: wanted at most what the replay holds, 64; got 65"),
    ("mpo", {"replay_steps": 67, "warmup_steps": 66}, r"warmup_steps: wanted at most what the replay holds, 64; got 66"),
    ("vmpo", {"top_k_frac": 0.03}, r"top_k_frac: wanted one that keeps at least one sample; 0.03 of 32 samples of a batch is none"),
    ("vmpo", {"shared_encoder": True, "hidden": ()}, r"hidden: wanted at least one layer, which shared_encoder lets the critic use; got \(\)"),
    ("vmpo", {"torso": "layernorm", "hidden": ()}, r"hidden: wanted at least one layer, which torso 'layernorm' normalizes; got \(\)"),
    ("vmpo", {"torso": "layernorm", "critic_hidden": ()}, r"critic_hidden: wanted at least one layer, which torso 'layernorm' normalizes; got \(\)"),
    ("vmpo", {"shared_encoder": True, "critic_hidden": (8,)}, r"critic_hidden: wanted None with shared_encoder, whose critic has the policy's layers; got \(8,\)"),
    ("vmpo", {"importance_clip": 1.5}, r"importance_clip: wanted None where the target acts, every ratio is 1 there; got a number"),
    # What only the environment, or a float, says
    *((name, {"env_id": "CartPole-v1", "squash": True}, r"squash: wanted False for CartPole-v1, whose actions are discrete; got True") for name in NAMES),
    ("ppo", {"env_id": "ToyDials-v0", "squash": True}, r"squash: wanted False for ToyDials-v0, whose actions are discrete; got True"),
    ("mpo", {"env_id": "CartPole-v1", "action_penalty": True}, r"action_penalty: wanted False for CartPole-v1, whose actions are discrete; got True"),
    ("mpo", {"env_id": "ToyDials-v0"}, r"env_id: wanted Discrete or Box actions for MPO, whose critic lists all values; ToyDials-v0 has 2 choices at once: take an on-policy agent, such as ppo$"),
    *((name, {field: value}, ".*wanted a multiplier above") for name in ("mpo", "vmpo") for field in ("eta_init", "alpha_mean_init", "alpha_std_init") for value in (1e-9, 1e-8)),
]  # fmt: skip
# One step away from a contradiction: what is not read, or is just enough, is taken.
TAKEN = [
    ("ppo", {"minibatch_size": 1, "normalize_advantage": False}),
    *((name, {"hidden": (), "critic_hidden": ()}) for name in NAMES),
    ("a2c", {"num_envs": 1, "rollout_steps": 1}),  # which normalizes nothing unless it is told to
    ("trpo", {"vine_actions": 1, "vine_states": 10**6, "normalize_reward": True}),
    ("mpo", {"lam": 0.5, "eps_penalty": 3.0, "sequence_length": 16}),
    ("mpo", {"replay_steps": 67, "warmup_steps": 64}),
    ("vmpo", {"act_by": "online"}),
    ("vmpo", {"top_k_frac": 1 / 32}),
]


@pytest.mark.parametrize(("name", "options", "message"), CONTRADICTIONS, ids=str)
def test_contradictions_are_refused_by_name(name, options, message):
    assert re.match(message, refusal(small_agent, name, **options))


@pytest.mark.parametrize(("name", "options"), TAKEN, ids=str)
def test_what_contradicts_nothing_is_taken(name, options):
    small_agent(name, **options)
