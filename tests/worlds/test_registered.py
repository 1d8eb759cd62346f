"""Environments that a room above brings along: made as all others are, and refused to agents that act step by step."""

from __future__ import annotations

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.worlds import EnvSpec, TabularEnv, TabularMDP, make_env
from minerva_lite.worlds.envs import REGISTERED, Registered
from tests.living import STEPPERS


@pytest.fixture
def asked(monkeypatch) -> list:
    """What the maker of the ids `toy/…` is asked for."""
    calls: list = []

    def make(env_id, num_envs, **how):
        calls.append((env_id, num_envs, how))
        return TabularEnv(TabularMDP.chain(3, 0.9), num_envs, max_steps=4)

    monkeypatch.setitem(REGISTERED, "toy/", Registered({"toy/one"}, make, "which is a toy"))
    return calls


def test_what_was_registered_is_made_by_its_own_maker_with_all_that_is_asked(asked):
    how = {"seed": 3, "device": "cpu", "dtype": torch.float64}
    how |= {"backend": "torch", "stagger": True, "autoreset": "next_step"}
    assert make_env("toy/two", 5, **how).num_envs == 5 and asked == [("toy/two", 5, how)]
    with pytest.raises(ValueError, match="^num_envs: wanted a whole number of at least 1; got 0"):
        make_env("toy/two", 0)
    for other in ("toy", "my/toy/one"):
        with pytest.raises(ValueError, match="^env_id: wanted a registered Gymnasium id"):
            make_env(other)
    assert len(asked) == 1


@pytest.mark.parametrize("name", STEPPERS)
def test_an_agent_that_acts_step_by_step_says_what_it_is_instead(name, asked):
    kind, settings = AGENTS[name]
    told = f"wanted an environment that is acted in step by step for {name}; got 'toy/one', which is a toy"
    with pytest.raises(ValueError, match=f"^env_id: {told}$"):
        kind(settings(), EnvSpec("toy/one", 2, num_actions=2), device="cpu")
    kind(settings(), EnvSpec("toy/two", 2, num_actions=2), device="cpu")
