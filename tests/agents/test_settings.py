"""Settings that agents share: widths of the critic, rates of the duals, types that are taken, states of before."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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


# Rates of the duals


PENALTY = {"mpo": {"action_penalty": True, "log_std_init": 0.5}, "vmpo": {"inner_steps": 1}}


@pytest.mark.parametrize("name", DUALS)
def test_a_temperature_has_its_own_rate_and_the_multipliers_keep_theirs(name):
    """In a group of its own only where it is set: a checkpoint of before has one group for all duals."""

    def rates(**options) -> list[dict[str, float]]:
        agent, *_ = make(name, dual_learning_rate=1e-3, **PENALTY[name], **options)
        names = {id(raw): each.removeprefix("raw_") for each, raw in agent.duals.items()}
        optimizer = agent.optimizers["duals"] if name == "mpo" else agent.optimizer
        groups = [{names[id(p)]: g["lr"] for p in g["params"] if id(p) in names} for g in optimizer.param_groups]
        return [group for group in groups if group]

    temperatures = ["eta", "eta_penalty"] if name == "mpo" else ["eta"]
    alphas = dict.fromkeys(["alpha_mean", "alpha_std"], 1e-3)
    assert rates() == [dict.fromkeys(temperatures, 1e-3) | alphas]
    assert rates(temperature_learning_rate=3e-3) == [dict.fromkeys(temperatures, 3e-3), alphas]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", DUALS)
def test_two_rates_that_are_equal_are_one_to_the_bit(name, optimizer):
    """Groups of one optimizer: the gradient's norm is still clipped over all duals together."""
    plain = {"optimizer": optimizer, "dual_learning_rate": 2e-2, "max_grad_norm": 0.05, **PENALTY[name]}
    one, other = make(name, **plain), make(name, **plain, temperature_learning_rate=2e-2)
    for agent, env, obs in (one, other):
        live(agent, env, obs, 4)
    assert not differ(learned(one[0]), learned(other[0]))


# States of before

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
