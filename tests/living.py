"""What the tests of the agents share: an agent in its world, updates, what it has learned, and how to compare."""

from __future__ import annotations

import copy
import io
from dataclasses import fields

import pytest
import torch
from torch import Tensor
from torch import distributions as td

from minerva_lite.agents import AGENTS
from minerva_lite.agents.stepwise import Stepwise
from minerva_lite.worlds import EnvSpec, TabularEnv, make_env
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


def small_agent(algorithm: str, env_id: str = "Pendulum-v1", **options):
    """The same with the settings of `SMALL` and `OWN`, where no other are given; "sequence" as in `ANSWERS`."""
    if algorithm == "sequence":
        return make_agent(algorithm, "tokens/sort", **ANSWERS | options)
    return make_agent(algorithm, env_id, **SMALL | OWN.get(algorithm, {}) | options)


def shake(module, generator: torch.Generator, size: float = 0.3) -> None:
    """Move every parameter, so that a network has left its start and differs from its copy."""
    with torch.no_grad():
        for p in module.parameters():
            p += size * torch.randn(p.shape, generator=generator, dtype=p.dtype)


def stirred(algorithm: str, discrete: bool = False, **options):
    """An MPO or V-MPO of no world, in float64: two action dimensions, or three actions, and networks all apart."""
    agent_class, config_class = AGENTS[algorithm]
    spec = EnvSpec("test", obs_dim=3, **{"num_actions": 3} if discrete else {"action_dim": 2})
    config = config_class(**SMALL | OWN[algorithm] | options)
    agent, generator = agent_class(config, spec, device="cpu", dtype=torch.float64), torch.Generator().manual_seed(1)
    for name in ("policy", "target_policy", "critic", "target_critic"):
        if hasattr(agent, name):
            shake(getattr(agent, name), generator)
    return agent


def kl_parts(policy, old, new) -> list[Tensor]:
    """By torch, [N, D]: the mean's part of KL(old || new) with the old std, the std's with the old mean; or the one."""
    if policy.discrete:
        return [td.kl_divergence(td.Categorical(logits=old[0]), td.Categorical(logits=new[0])).unsqueeze(-1)]
    params = ((new[0], old[1]), (old[0], new[1]))
    return [td.kl_divergence(td.Normal(*old), td.Normal(*each)) for each in params]


def live(agent, env, obs, updates: int, progress: float = 0.0):
    """Collect and update; the figures of the last update and the next observation."""
    figures = {}
    for _ in range(updates):
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(rollout, progress=progress)
    return figures, obs


def with_statistics(algorithm: str, env_id: str = "Pendulum-v1", **options):
    """A small agent that normalizes observations, and rewards if it can."""
    rewards = {} if algorithm == "mpo" else {"normalize_reward": True}
    return small_agent(algorithm, env_id, **{"normalize_obs": True} | rewards | options)


def lived_in(algorithm: str, env_id: str = "Pendulum-v1", **options):
    """A small agent after two updates, its environment and the present observation."""
    agent, env, obs = small_agent(algorithm, env_id, **options)
    return agent, env, live(agent, env, obs, 2)[1]


def learned(module) -> list[Tensor]:
    """Copies of the parameters of an agent or of one of its networks."""
    module = module if isinstance(module, torch.nn.Module) else module.modules
    return [p.detach().clone() for p in module.parameters()]


def everything(agent) -> dict:
    """All that a refused batch must leave alone, cloned: the two counts of refusals are what it may change."""
    state = agent.state_dict()
    del state["skipped"], state["skipped_in_a_row"]
    return copy.deepcopy(state)


def refusal(call, *arguments, **named) -> str:
    """What a call is refused with."""
    with pytest.raises(ValueError) as error:
        call(*arguments, **named)
    return str(error.value)


def numbers(figures) -> dict[str, float]:
    return {name: figure.item() for name, figure in figures.items()}


def say(critic, value: float) -> None:
    """Let a critic give `value` everywhere."""
    with torch.no_grad():
        critic.value[-1].weight.zero_()
        critic.value[-1].bias.fill_(value)


def differ(first: list[Tensor], second: list[Tensor]) -> bool:
    return len(first) != len(second) or not all(map(torch.equal, first, second))


SGD = {"optimizer": "sgd"}  # whose steps are as long as their gradients: of a factor Adam would show nothing
# The options that agents share: what is set in both agents, and the two values that must lead elsewhere.
SHARED = {
    "num_envs": [({}, 2, 4)],
    "rollout_steps": [({}, 4, 8)],
    "whole_episodes": [({"env_id": "CartPole-v1", "rollout_steps": 60}, True, False)],
    "gamma": [({}, 0.9, 0.99)],
    "lam": [({}, 0.9, 0.95)],
    "estimator": [({}, "gae", "returns"), ({}, "gae", "td")],
    "value_target": [({}, "advantage", "returns")],
    "normalize_obs": [({}, True, False)],
    "normalize_reward": [({}, True, False)],
    "normalize_advantage": [({}, True, False)],
    "hidden": [({}, (8,), (8, 8))],
    "critic_hidden": [({}, None, (4,))],
    "head_init": [({}, "orthogonal", "small")],
    "log_std_init": [({}, 0.0, -0.5)],
    "squash": [({}, True, False)],
    "vf_coef": [(SGD, 0.1, 0.5)],
    "entropy_coef": [({}, 0.0, 0.1)],
    "optimizer": [({}, "adam", "sgd")],
    "momentum": [(SGD, 0.0, 0.9)],
    "learning_rate": [({}, 1e-3, 3e-3)],
    "anneal_lr": [({}, True, False)],
    "max_grad_norm": [(SGD, 0.01, 40.0)],
    "minibatch_size": [({}, 8, 16)],
    # MPO and V-MPO
    "eps_eta": [({}, 0.1, 0.5)],
    "eps_mean": [(SGD | {"env_id": env_id}, 0.01, 0.02) for env_id in ("Pendulum-v1", "CartPole-v1")],
    "eps_std": [(SGD, 1e-4, 1e-3)],
    "eta_init": [({}, 1.0, 2.0)],
    "alpha_mean_init": [({}, 1.0, 2.0)],
    "alpha_std_init": [({}, 1.0, 2.0)],
    "dual_learning_rate": [({}, 1e-2, 2e-2)],
    "temperature_learning_rate": [({}, None, 2e-2)],
    "policy_learning_rate": [({}, 1e-3, 2e-3)],
    "target_period": [({}, 1, 2)],
}


def every_option(
    algorithm: str, own: dict[str, list[tuple]], refused: tuple[str, ...] = (), make=small_agent, updates=4
):
    """The test that each setting of an agent matters; one that has no row, here or there, turns it red.

    Two agents alike in all but one option end in different parameters; a third like the first does not.

    own: rows as in `SHARED`, of the agent's own settings and of those that need other values. make: as `small_agent`.
    """
    options = [each.name for each in fields(AGENTS[algorithm][1]) if each.name not in refused]
    rows = SHARED | own
    cases = [(option, *row) for option in options for row in rows.get(option, [({}, "no row", "no row")])]

    @pytest.mark.parametrize(("option", "base", "one", "other"), cases, ids=str)
    def test_every_option_matters(option, base, one, other):
        assert "no row" not in (one, other), f"{option} is tried nowhere"
        ends = []
        for value in (one, other, one):
            agent, env, obs = make(algorithm, **base | {option: value})
            live(agent, env, obs, updates, progress=0.25)
            ends.append(learned(agent))
        assert differ(ends[0], ends[1]) and not differ(ends[0], ends[2])

    return test_every_option_matters


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
