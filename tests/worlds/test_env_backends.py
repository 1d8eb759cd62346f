"""MuJoCo, dm_control, EnvPool and environments in processes of their own: the same face, the same numbers."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite.worlds.envs import TORCH_ENVS, make_env
from minerva_lite.worlds.seeding import seeds_of_worlds
from tests.laws import law_of, played, random_actions

F64 = torch.float64


@pytest.mark.parametrize(
    ("env_id", "obs_dim", "action_dim"), [("HalfCheetah-v5", 17, 6), ("Hopper-v5", 11, 3), ("Humanoid-v5", 348, 17)]
)
def test_mujoco_is_gymnasiums_single_environment(env_id, obs_dim, action_dim):
    env = make_env(env_id, 2, seed=3, dtype=F64)
    assert (env.spec.obs_dim, env.spec.action_dim) == (obs_dim, action_dim)
    singles = [gym.make(env_id) for _ in range(2)]
    obs, ends = env.reset(), 0
    theirs = [single.reset(seed=seed)[0] for single, seed in zip(singles, seeds_of_worlds(3, 2), strict=True)]
    assert obs.tolist() == [one.tolist() for one in theirs]
    high = singles[0].action_space.high
    for action in random_actions(env, 60):
        step = env.step(action)
        for i, single in enumerate(singles):
            one, reward, terminated, truncated, _ = single.step((action[i].double().numpy() * high).astype(np.float32))
            np.testing.assert_allclose(step.next_obs[i].numpy(), one, rtol=0, atol=1e-9)
            assert step.reward[i].item() == pytest.approx(reward, abs=1e-9)
            assert (step.terminated[i].item(), step.truncated[i].item()) == (terminated, truncated and not terminated)
            if terminated or truncated:
                one, ends = single.reset()[0], ends + 1
            np.testing.assert_allclose(step.obs[i].numpy(), one, rtol=0, atol=1e-9)
    assert ends == 0 if env_id == "HalfCheetah-v5" else ends > 0
    env.close()


@pytest.mark.parametrize(
    ("domain", "task", "obs_dim", "action_dim"), [("cheetah", "run", 17, 6), ("walker", "walk", 24, 6)]
)
def test_dm_control_is_deepminds_own(domain, task, obs_dim, action_dim):
    """A dictionary of observations becomes one vector, names in Gymnasium's order (sorted)."""
    from dm_control import suite

    env = make_env(f"dm_control/{domain}/{task}", 1, seed=5, dtype=F64)
    assert (env.spec.env_id, env.spec.obs_dim, env.spec.action_dim) == (
        f"dm_control/{domain}/{task}",
        obs_dim,
        action_dim,
    )
    own = suite.load(domain, task, task_kwargs={"random": seeds_of_worlds(5, 1)[0] % 2**32})

    def vector(timestep):
        return np.concatenate([np.ravel(timestep.observation[name]) for name in sorted(timestep.observation)])

    np.testing.assert_allclose(env.reset()[0].numpy(), vector(own.reset()), rtol=0, atol=1e-9)
    for action in random_actions(env, 50):
        step, theirs = env.step(action), own.step(action[0].double().numpy())
        np.testing.assert_allclose(step.next_obs[0].numpy(), vector(theirs), rtol=0, atol=1e-9)
        assert step.reward[0].item() == pytest.approx(theirs.reward, abs=1e-9)
        assert not (step.terminated | step.truncated).any()
    env.close()


def test_an_episode_of_dm_control_is_cut_never_terminated():
    env = make_env("dm_control/pendulum/swingup", 1)
    env.reset()
    steps = [env.step(action) for action in random_actions(env, 1001)]
    assert [i for i, step in enumerate(steps) if step.truncated.item()] == [999]
    assert not any(step.terminated.item() for step in steps)
    assert not torch.equal(steps[999].obs, steps[999].next_obs) and torch.equal(steps[998].obs, steps[998].next_obs)
    env.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "HalfCheetah-v5"])
def test_the_parallel_back_end_gives_the_same_numbers(env_id, same):
    one, many = (make_env(env_id, 3, backend=name, seed=2, dtype=F64) for name in ("gymnasium", "parallel"))
    assert torch.equal(one.reset(), many.reset()) and one.spec == many.spec
    ends = 0
    for action in random_actions(one, 60):
        left, right = one.step(action), many.step(action)
        assert same(left, right)
        ends += int((left.terminated | left.truncated).sum())
    assert ends > 0 or env_id != "CartPole-v1"
    one.close(), many.close()


@pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no wheel for Windows")
@pytest.mark.parametrize("env_id", list(TORCH_ENVS))
def test_envpool_obeys_the_same_laws_and_stores_no_phantom(env_id):
    """Every successor follows from what was acted on; after an end stands the first state of a new episode."""
    import envpool

    if env_id not in envpool.list_all_envs():
        pytest.skip(f"EnvPool has no {env_id}")
    law, twin = law_of(env_id), TORCH_ENVS[env_id](4, dtype=F64)
    env, rng = make_env(env_id, 4, backend="envpool", dtype=F64), np.random.default_rng(0)
    low, high = (torch.tensor(bound, dtype=F64) for bound in law.start)
    assert env.spec == twin.spec
    obs, age, ends, compared = env.reset(), torch.zeros(4, dtype=torch.int64), 0, 0
    for _ in range(450):
        state = law.state_of(obs)
        action = played(env, law.ends or law.lasts, rng, state)
        step, age = env.step(action), age + 1
        successor, reward, terminated = twin.advance(state, action)
        same = law.same_in_envpool(step.next_obs)
        torch.testing.assert_close(step.next_obs[same], twin.observe(successor)[same], rtol=0, atol=1e-5)
        torch.testing.assert_close(step.reward, reward, rtol=0, atol=1e-5)
        compared += int(same.sum())
        ended = step.terminated | step.truncated
        assert torch.equal(step.obs[~ended], step.next_obs[~ended])
        assert torch.equal(step.terminated, terminated)
        assert torch.equal(step.truncated, (age == law.time_limit) & ~terminated)
        fresh = law.state_of(step.obs[ended])
        assert (fresh >= low - 1e-6).all() and (fresh <= high + 1e-6).all(), "a first state"
        ends += int(ended.sum())
        age = age.masked_fill(ended, 0)
        obs = step.obs
    assert ends >= 8 and compared > 1700
    env.close()


@pytest.mark.parametrize(
    ("arguments", "missing", "message"),
    [
        ({"env_id": "CartPole-v1", "backend": "envpool"}, "envpool", r"^backend: envpool needs `pip install minerva_lite\[envpool\]`"),
        ({"env_id": "dm_control/cheetah/run"}, "shimmy", r"^env_id: dm_control/cheetah/run needs `pip install minerva_lite\[dmc\]`"),
        ({"env_id": "dm_control/cheetah/run"}, "dm_control", r"^env_id: dm_control/cheetah/run needs `pip install minerva_lite\[dmc\]`"),
    ],
)  # fmt: skip
def test_a_missing_package_is_named(monkeypatch, arguments, missing, message):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=message):
        make_env(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env_id": "Nope-v0", "backend": "envpool"}, r"^env_id: wanted one that EnvPool has; got 'Nope-v0'"),
        ({"env_id": "dm_control/cheetah/fly"}, r"^env_id: wanted a registered Gymnasium id; got 'dm_control/cheetah/fly'"),
        ({"env_id": "FrozenLake-v1", "backend": "envpool"}, r"^backend: wanted one that flattens Discrete\(16\), gymnasium or parallel; got envpool"),
    ],
)  # fmt: skip
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_env(**arguments)
