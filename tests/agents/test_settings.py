"""Settings that agents share: widths of the critic, rates of the duals, types that are taken, states of before."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from minerva_lite import PPOConfig, TRPOConfig
from minerva_lite.agents import AGENTS
from minerva_lite.agents.settings import completed
from minerva_lite.language import SequenceConfig
from tests.living import STEPPERS, differ, learned, live, small_agent

DUALS = ["mpo", "vmpo"]


def make(name: str, env_id: str = "Pendulum-v1", **options):
    return small_agent(name, env_id, **{"dtype": torch.float64, "hidden": (8, 6)} | options)


def widths(network: nn.Module) -> list[int]:
    """Outputs of a network's layers but the last."""
    return [layer.out_features for layer in network.modules() if isinstance(layer, nn.Linear)][:-1]


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("name", STEPPERS)
def test_policy_and_critic_have_their_own_widths(name, env_id):
    """Targets have the widths of what they copy, a torso those of its network, and none is a linear critic."""
    torsos = [{"torso": "layernorm"}, {}] if name == "vmpo" else [{}]
    for options in torsos:
        for critic in [(5, 4, 3), None] + ([()] if name != "mpo" and not options else []):
            agent, *_ = make(name, env_id, critic_hidden=critic, **options)
            for network in ("policy", "target_policy", "critic", "target_critic"):
                wanted = [8, 6] if critic is None or "policy" in network else list(critic)
                assert not hasattr(agent, network) or widths(getattr(agent, network)) == wanted


def test_settings_of_their_type_are_taken_numpys_too():
    assert PPOConfig(anneal_lr=np.False_, gamma=1, target_kl=None, hidden=[np.int64(3)]).anneal_lr is False
    assert TRPOConfig(kl_bound=np.float32(0.5)).kl_bound == 0.5


# Rates of the duals


def moved(name: str, **options) -> dict[str, torch.Tensor]:
    """How far one update moves each raw parameter of the duals."""
    agent, env, obs = make(name, **options)
    before = {each: raw.detach().clone() for each, raw in agent.duals.items()}
    live(agent, env, obs, 1)
    return {each: raw.detach() - before[each] for each, raw in agent.duals.items()}


PENALTY = {"mpo": {"action_penalty": True, "log_std_init": 0.5}, "vmpo": {"inner_steps": 1}}


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


# States of before, and states that are complete


NEW = {"critic_hidden", "temperature_learning_rate", "value_target"}


def of_before(state: dict) -> dict:
    """A state as it was saved before these fields existed."""
    kept = {name: value for name, value in state["config"].items() if name not in NEW}
    assert len(kept) < len(state["config"])
    return state | {"config": kept}


@pytest.mark.parametrize("name", STEPPERS)
def test_a_state_from_before_these_settings_is_taken_but_not_where_one_is_set(name, same):
    agent, env, obs = make(name)
    live(agent, env, obs, 2)
    twin, other = make(name)[0], make(name, critic_hidden=(8, 6))[0]  # the same shapes
    twin.load_state_dict(of_before(agent.state_dict()))
    assert same(twin.state_dict(), agent.state_dict())
    with pytest.raises(ValueError, match="^state: wanted one saved with this config"):
        other.load_state_dict(of_before(agent.state_dict()))


def test_what_was_saved_is_completed_by_defaults_alone():
    config = AGENTS["mpo"][1](eps_eta=0.3, critic_hidden=(4,))
    assert completed(config, {"eps_eta": 0.2})["eps_eta"] == 0.2
    assert completed(config, {})["critic_hidden"] is None
    assert completed(SequenceConfig(), {"eta": 0.3})["beta"] == 0.3, "its name until version 0.3"
    assert completed(config, dataclasses.asdict(config)) == dataclasses.asdict(config)
