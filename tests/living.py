"""What the tests of the agents share: an agent in its world, updates, what it has learned, and how to compare."""

from __future__ import annotations

import copy
import io

import torch
from torch import Tensor

from minerva_lite.agents import AGENTS
from minerva_lite.agents.stepwise import Stepwise
from minerva_lite.worlds.envs import TabularEnv, make_env
from minerva_lite.worlds.tabular import TabularMDP

# Every kind of policy an agent can have: continuous, squashed, discrete.
FAMILIES = [("Pendulum-v1", {}), ("Pendulum-v1", {"squash": True}), ("CartPole-v1", {})]
FAMILY_NAMES = ["continuous", "squashed", "discrete"]
# The agents that act step by step. "sequence" answers prompts as wholes and refuses every other world, so it is asked
# in `test_sequence.py`, on a task of its own, what these are asked on Pendulum and CartPole.
STEPPERS = {name: pair for name, pair in AGENTS.items() if issubclass(pair[0], Stepwise)}
# A small one of the others, for the tests that take any agent.
ANSWERS = {
    "num_envs": 4, "group": 2, "minibatch_prompts": 2, "epochs": 2, "width": 8, "heads": 2, "pretrain_steps": 2,
    "pretrain_batch": 8,
}  # fmt: skip

# Settings with which an update takes milliseconds: those of all agents, and what each needs besides.
SMALL = {"num_envs": 4, "rollout_steps": 8, "hidden": (8,)}
OWN = {
    "reinforce": {"whole_episodes": False},
    "ppo": {"minibatch_size": 16, "epochs": 2},
    "trpo": {"value_iterations": 3},
    "vmpo": {"inner_steps": 2},
    "mpo": {"warmup_steps": 0, "learner_steps": 1, "minibatch_size": 4, "replay_steps": 64},
}


def make_agent(algorithm: str, env_id: str, *, seed: int = 0, dtype=torch.float32, **options):
    """An agent, its environment ("tabular": a corridor of five states) and the first observation."""
    agent_class, config_class = AGENTS[algorithm]
    config = config_class(**options)
    if env_id == "tabular":
        env = TabularEnv(TabularMDP.chain(5, 0.9), config.num_envs, max_steps=20, seed=seed, dtype=dtype)
    else:
        env = make_env(env_id, config.num_envs, seed=seed, dtype=dtype)
    return agent_class(config, env.spec, seed=seed, device="cpu", dtype=dtype), env, env.reset()


def live(agent, env, obs, updates: int, progress: float = 0.0):
    """Collect and update; the figures of the last update and the next observation."""
    figures = {}
    for _ in range(updates):
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(rollout, progress=progress)
    return figures, obs


def learned(module) -> list[Tensor]:
    """Copies of the parameters of an agent or of one of its networks."""
    module = module if isinstance(module, torch.nn.Module) else module.modules
    return [p.detach().clone() for p in module.parameters()]


def differ(first: list[Tensor], second: list[Tensor]) -> bool:
    return len(first) != len(second) or any(
        a.shape != b.shape or not torch.equal(a, b) for a, b in zip(first, second, strict=True)
    )


def check_option_matters(make, option: str, one, other, updates: int = 2) -> None:
    """Two agents alike in all but one option end in different parameters; a third like the first does not.

    make(**{option: value}): an agent, its environment and the first observation.
    """
    ends = []
    for value in (one, other, one):
        agent, env, obs = make(**{option: value})
        live(agent, env, obs, updates, progress=0.25)
        ends.append(learned(agent))
    assert differ(ends[0], ends[1])
    assert not differ(ends[0], ends[2])


def through_a_file(state):
    """What a checkpoint does to a state: plain values and tensors, written and read back safely."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def check_restored(agent, env, obs, same) -> None:
    """A twin from another seed that takes over the agent's saved state goes on to the bit as the agent does.

    Whatever is missing from the state (normalizers, moments, multipliers, generators) shows by the second update. A
    twin that was handed the state itself, not a file, leaves the agent alone.
    """
    _, obs = live(agent, env, obs, 3)
    twin = type(agent)(agent.config, agent.spec, seed=99, device="cpu", dtype=agent.dtype)
    assert differ(learned(twin), learned(agent))
    twin.load_state_dict(through_a_file(agent.state_dict()))
    kept, other = copy.deepcopy(agent.state_dict()), copy.deepcopy(twin)
    other.load_state_dict(agent.state_dict())
    live(other, copy.deepcopy(env), obs.clone(), 1)
    assert same(agent.state_dict(), kept)
    twin_env, twin_obs = copy.deepcopy(env), obs.clone()
    for _ in range(2):
        theirs, obs = live(agent, env, obs, 1)
        ours, twin_obs = live(twin, twin_env, twin_obs, 1)
        assert same(theirs, ours)
    assert torch.equal(obs, twin_obs) and same(agent.state_dict(), twin.state_dict())


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)
