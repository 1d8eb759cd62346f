"""Settings that agents share: widths of the critic, rates of the duals, targets of the critic, states of before."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from minerva_lite.agents import AGENTS
from minerva_lite.agents.on_policy import OnPolicyAgent
from minerva_lite.agents.settings import completed
from minerva_lite.formulas.returns import discounted_returns, gae
from tests.living import STEPPERS, check_restored, differ, learned, live, make_agent

SMALL = {"num_envs": 4, "rollout_steps": 8, "hidden": (8, 6)}
OWN = {
    "reinforce": {"whole_episodes": False},
    "ppo": {"minibatch_size": 16, "epochs": 2},
    "trpo": {"value_iterations": 3, "damping": 0.01},
    "vmpo": {"inner_steps": 1},
    "mpo": {"warmup_steps": 0, "learner_steps": 1, "minibatch_size": 4, "replay_steps": 64},
}
ON_POLICY = [name for name, (agent, _) in AGENTS.items() if issubclass(agent, OnPolicyAgent)]
DUALS = ["mpo", "vmpo"]
WORLDS = ["Pendulum-v1", "CartPole-v1"]


def make(name: str, env_id: str = "Pendulum-v1", dtype=torch.float64, **options):
    return make_agent(name, env_id, dtype=dtype, **SMALL | OWN.get(name, {}) | options)


def widths(network: nn.Module) -> list[int]:
    """Outputs of a network's layers but the last."""
    return [layer.out_features for layer in network.modules() if isinstance(layer, nn.Linear)][:-1]


# Widths of the critic


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("name", STEPPERS)
def test_policy_and_critic_have_their_own_widths(name, env_id):
    agent, *_ = make(name, env_id, critic_hidden=(5, 4, 3))
    assert widths(agent.policy) == [8, 6] and widths(agent.critic) == [5, 4, 3]
    assert widths(make(name, env_id)[0].critic) == [8, 6]


@pytest.mark.parametrize("name", sorted(set(STEPPERS) - {"mpo"}))
def test_a_critic_without_a_hidden_layer_is_linear(name):
    agent, *_ = make(name, critic_hidden=())
    assert widths(agent.critic) == [] and widths(agent.policy) == [8, 6]


def test_the_targets_of_mpo_have_the_widths_of_what_they_copy():
    agent, *_ = make("mpo", critic_hidden=(5,))
    assert widths(agent.target_critic) == [5] and widths(agent.target_policy) == [8, 6]


def test_the_layernorm_torso_of_vmpo_takes_the_critics_widths():
    assert widths(make("vmpo", torso="layernorm", critic_hidden=(5,))[0].critic) == [5]


@pytest.mark.parametrize("name", STEPPERS)
def test_widths_given_twice_are_the_same_agent_to_the_bit(name):
    one, other = make(name, dtype=torch.float32), make(name, dtype=torch.float32, critic_hidden=(8, 6))
    for agent, env, obs in (one, other):
        live(agent, env, obs, 2)
    assert not differ(learned(one[0]), learned(other[0]))


@pytest.mark.parametrize("name", STEPPERS)
def test_every_layer_of_either_width_learns(name):
    agent, env, obs = make(name, critic_hidden=(5, 4))
    for network in (agent.policy, agent.critic):
        before = learned(network)
        _, obs = live(agent, env, obs, 2)
        assert all(not torch.equal(a, b) for a, b in zip(before, learned(network), strict=True))


# Rates of the duals


def moved(name: str, **options) -> dict[str, torch.Tensor]:
    """How far one update moves each raw parameter of the duals."""
    agent, env, obs = make(name, **options)
    before = {each: raw.detach().clone() for each, raw in agent.duals.items()}
    live(agent, env, obs, 1)
    return {each: raw.detach() - before[each] for each, raw in agent.duals.items()}


PENALTY = {"mpo": {"action_penalty": True, "log_std_init": 0.5}, "vmpo": {}}


@pytest.mark.parametrize("name", DUALS)
def test_a_temperature_has_its_own_rate_and_the_multipliers_keep_theirs(name):
    """A plain gradient step is as long as its rate; the first gradients do not depend on it."""
    plain = {"optimizer": "sgd", "dual_learning_rate": 1e-3, "policy_learning_rate": 1e-3, **PENALTY[name]}
    together, apart = moved(name, **plain), moved(name, **plain, temperature_learning_rate=3e-3)
    temperatures = {each for each in together if each.startswith("raw_eta")}
    assert temperatures == ({"raw_eta", "raw_eta_penalty"} if name == "mpo" else {"raw_eta"})
    for each in temperatures:
        assert together[each].abs().min() > 0
        torch.testing.assert_close(apart[each], 3 * together[each], rtol=1e-9, atol=0)
    slow = moved(name, **plain | {"dual_learning_rate": 1e-12}, temperature_learning_rate=1e-3)
    for each in set(together) - temperatures:
        assert slow[each].abs().max() < 1e-8
    for each in temperatures:
        torch.testing.assert_close(slow[each], together[each], rtol=1e-9, atol=0)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", DUALS)
def test_two_rates_that_are_equal_are_one_to_the_bit(name, optimizer):
    """Groups of one optimizer: the gradient's norm is still clipped over all duals together."""
    plain = {"optimizer": optimizer, "dual_learning_rate": 2e-2, "max_grad_norm": 0.05, **PENALTY[name]}
    one, other = make(name, **plain), make(name, **plain, temperature_learning_rate=2e-2)
    for agent, env, obs in (one, other):
        live(agent, env, obs, 4)
    assert not differ(learned(one[0]), learned(other[0]))


def test_the_optimizers_state_is_laid_out_as_before_unless_a_rate_is_set():
    def groups(name, **options):
        agent, *_ = make(name, **options)
        optimizer = agent.optimizers["duals"] if name == "mpo" else agent.optimizer
        return [len(group["params"]) for group in optimizer.state_dict()["param_groups"]]

    policy, critic = 7, 6
    assert groups("mpo") == [3] and groups("vmpo") == [policy, critic, 3]
    rate = {"temperature_learning_rate": 1e-2}
    assert groups("mpo", **rate) == [1, 2] and groups("vmpo", **rate) == [policy, critic, 1, 2]


@pytest.mark.parametrize("anneal", [False, True])
def test_the_rates_of_the_duals_never_fall(anneal):
    agent, env, obs = make("vmpo", anneal_lr=anneal, dual_learning_rate=5e-2, temperature_learning_rate=7e-2)
    live(agent, env, obs, 1, progress=0.25)
    assert [group["lr"] for group in agent.optimizer.param_groups[2:]] == [7e-2, 5e-2]


# What the critic is fitted to


def cut(name: str, **options):
    """An agent and a rollout with an end of either kind in it."""
    agent, env, obs = make(name, lam=0.6, gamma=0.9, **options)
    rollout, _ = agent.collect(env, obs)
    rollout.terminated[2, 0] = rollout.truncated[4, 1] = True
    return agent, rollout


@pytest.mark.parametrize("name", ON_POLICY)
def test_returns_stand_beside_gae(name):
    """Advantages by GAE, targets by returns without a decaying trace: bootstrapped where the data end."""
    agent, rollout = cut(name, estimator="gae", value_target="returns")
    batch = agent.prepare(rollout)
    ends = (rollout.terminated, rollout.truncated)
    with torch.no_grad():
        value, next_value = agent.critic(rollout.obs), agent.critic(rollout.next_obs)
    returns = discounted_returns(rollout.reward, next_value, *ends, gamma=0.9).flatten()
    advantage = gae(rollout.reward, value, next_value, *ends, gamma=0.9, lam=0.6).flatten()
    torch.testing.assert_close(batch.value_target, returns, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(batch.advantage, advantage, rtol=1e-12, atol=1e-12)
    assert (returns - advantage - value.flatten()).abs().max() > 1e-3, "the two targets differ here"


@pytest.mark.parametrize("name", ON_POLICY)
def test_with_the_estimator_returns_both_targets_are_one(name):
    agent, rollout = cut(name, estimator="returns")
    twin, _ = cut(name, estimator="returns", value_target="returns")
    torch.testing.assert_close(agent.prepare(rollout).value_target, twin.prepare(rollout).value_target)


def test_the_returns_are_those_of_the_scaled_rewards():
    agent, rollout = cut("a2c", value_target="returns", normalize_reward=True)
    before = agent.prepare(rollout).value_target
    for _ in range(3):
        agent.absorb_rewards(rollout)
    assert (agent.prepare(rollout).value_target - before).abs().max() > 1e-3


# States of before, and states that are complete


NEW = {"critic_hidden", "temperature_learning_rate", "value_target"}


def of_before(state: dict) -> dict:
    """A state as it was saved before these fields existed."""
    kept = {name: value for name, value in state["config"].items() if name not in NEW}
    assert len(kept) < len(state["config"])
    return state | {"config": kept}


@pytest.mark.parametrize("name", STEPPERS)
def test_a_state_from_before_these_settings_is_taken(name, same):
    agent, env, obs = make(name)
    live(agent, env, obs, 2)
    twin, *_ = make(name)
    twin.load_state_dict(of_before(agent.state_dict()))
    assert same(twin.state_dict(), agent.state_dict())


@pytest.mark.parametrize("name", STEPPERS)
def test_it_is_not_taken_where_one_of_them_is_set(name):
    agent, *_ = make(name)
    other, *_ = make(name, critic_hidden=(8, 6))  # the same shapes
    with pytest.raises(ValueError, match="^state: wanted one saved with this config"):
        other.load_state_dict(of_before(agent.state_dict()))


def test_what_was_saved_is_completed_by_defaults_alone():
    config = AGENTS["mpo"][1](eps_eta=0.3, critic_hidden=(4,))
    assert completed(config, {"eps_eta": 0.2})["eps_eta"] == 0.2
    assert completed(config, {})["critic_hidden"] is None
    assert completed(config, dataclasses.asdict(config)) == dataclasses.asdict(config)


SET = {"critic_hidden": (5,)}
RATE = {"temperature_learning_rate": 3e-2, "normalize_obs": True}


@pytest.mark.parametrize("name", STEPPERS)
def test_an_agent_with_all_of_them_is_restored_to_the_bit(name, same):
    options = SET | (RATE if name in DUALS else {}) | ({"value_target": "returns"} if name in ON_POLICY else {})
    check_restored(*make(name, **options), same)
