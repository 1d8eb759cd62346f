"""Every back end is a `VectorEnv`, and those whose state can be set are told from the others before anything is run."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from minerva_lite.worlds import BranchingEnv, EnvSpec, OwnSpaces, TabularEnv, TabularMDP, VectorEnv, make_env

envpool = pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no wheel for Windows")
BACK_ENDS = [
    ("torch", "Pendulum-v1", True),
    ("torch", "CartPole-v1", True),
    ("gymnasium", "CartPole-v1", False),
    ("parallel", "CartPole-v1", False),
    pytest.param("envpool", "CartPole-v1", False, marks=envpool),
]


@pytest.mark.parametrize(("backend", "env_id", "branches"), BACK_ENDS)
def test_every_back_end_keeps_the_protocol(backend, env_id, branches):
    env = make_env(env_id, 3, backend=backend, seed=0, dtype=torch.float64)
    # The same before the first reset and after it.
    assert isinstance(env, VectorEnv) and isinstance(env, BranchingEnv) == branches
    obs = env.reset()
    assert isinstance(env, VectorEnv) and isinstance(env, BranchingEnv) == branches
    assert obs.shape == (3, env.spec.obs_dim) and obs.dtype == env.dtype and obs.device == env.device
    per_env = (env.spec.action_dim,) if env.spec.action_dim else ()
    action = torch.zeros(3, *per_env, dtype=env.dtype if per_env else torch.int64)
    step = env.step(action)
    assert step.next_obs.shape == step.obs.shape == obs.shape and step.reward.dtype == env.dtype
    assert step.reward.shape == step.terminated.shape == step.truncated.shape == (env.num_envs,)
    assert step.terminated.dtype == step.truncated.dtype == torch.bool
    if (state := env.state_dict()) is None:
        with pytest.raises(NotImplementedError, match="saves no state"):
            env.load_state_dict({})
    else:
        env.load_state_dict(state)
    env.close()


def test_a_tabular_environment_branches():
    env = TabularEnv(TabularMDP.chain(3, 0.9), 2, max_steps=4)
    assert isinstance(env, BranchingEnv)
    env.reset()
    branch = env.branch(env.state, env.elapsed, 1)
    assert isinstance(branch, BranchingEnv) and branch.num_envs == 2


def test_what_lacks_a_method_keeps_no_protocol():
    class Half:
        spec, num_envs, dtype, device = None, 2, torch.float32, torch.device("cpu")

        def reset(self):
            return torch.zeros(2, 1)

    assert not isinstance(Half(), VectorEnv)


@pytest.mark.parametrize("kinds", [{}, {"action_dim": 2, "num_actions": 3}, {"num_actions": 3, "choices": (2,)}])
def test_a_spec_has_one_kind_of_actions(kinds):
    with pytest.raises(ValueError, match=r"^spec: wanted exactly one of action_dim, num_actions and choices; got "):
        EnvSpec("Any-v0", 3, **kinds)


def test_whole_numbers_of_a_box_are_the_nearest_ones():
    """Cut off instead, 9.9 of 10 would be 9, and the upper bound an action of measure zero."""
    spec = EnvSpec("Any-v0", 3, action_dim=2, own=OwnSpaces((3,), (2,), "int64", (-3, 0), (3, 10)))
    own = spec.own_action(torch.tensor([[-1.0, 1.0], [1.0, -1.0], [-0.6, 0.98], [0.6, 0.0]]))
    assert own.dtype == np.int64 and own.tolist() == [[-3, 10], [3, 0], [-2, 10], [2, 5]]


def test_half_a_push_is_refused():
    env = make_env("CartPole-v1", 2, seed=0)
    env.reset()
    with pytest.raises(ValueError, match=r"^action: wanted whole numbers, int64; got torch.float32"):
        env.step(torch.full((2,), 0.5))
