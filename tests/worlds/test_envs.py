"""Every back end: its numbers are Gymnasium's or DeepMind's own, and it tells successors from first states."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import pytest
import scipy.stats
import torch

from minerva_lite.worlds import TORCH_ENVS, BranchingEnv, EnvSpec, TabularEnv, VectorEnv, make_env
from minerva_lite.worlds.seeding import seeds_of_worlds
from minerva_lite.worlds.tabular import TabularMDP
from tests.laws import LAWS, lived, random_actions, same_action

F64 = torch.float64
TRANSITIONS = 10_000
torch_envs = pytest.mark.parametrize("env_id", list(TORCH_ENVS))


def test_every_torch_native_environment_has_its_laws():
    assert list(LAWS) == list(TORCH_ENVS), "an entry of tests/laws.py for every environment, in the same order"


@torch_envs
def test_the_laws_are_those_of_gymnasium(env_id):
    """What an entry states of starts, time limit and spaces holds for Gymnasium's own environment."""
    law, official = LAWS[env_id], gym.make(env_id)
    assert official.spec.max_episode_steps == law.time_limit == TORCH_ENVS[env_id].max_steps
    assert len(law.start[0]) == len(law.tried[0]) == TORCH_ENVS[env_id].state_dim
    assert make_env(env_id, backend="gymnasium").spec == TORCH_ENVS[env_id].spec
    starts = []
    for seed in range(400):
        official.reset(seed=seed)
        starts.append(official.unwrapped.state.copy())
    check_uniform(np.array(starts), law.start)


def check_uniform(states: np.ndarray, bounds) -> None:
    for column, low, high in zip(states.T, *bounds, strict=True):
        if low == high:
            assert (column == low).all()
        else:
            assert scipy.stats.kstest(column, "uniform", (low, high - low)).pvalue > 0.001


def official_step(env: gym.Env, state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """One step of Gymnasium's own, from this state: an agent's action is a number of one, or [-1, 1] on its bounds."""
    env.state, env.steps_beyond_terminated = state.copy(), None
    if isinstance(env.action_space, gym.spaces.Discrete):
        own = int(action)
    else:
        low, high = env.action_space.low.astype(np.float64), env.action_space.high.astype(np.float64)
        own = low + 0.5 * (np.clip(action, -1.0, 1.0) + 1.0) * (high - low)
    _, reward, terminated, truncated, _ = env.step(own)
    assert not truncated
    return env.state, float(reward), terminated


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@torch_envs
def test_transitions_equal_gymnasiums(env_id, dtype, tolerance):
    law, tolerance = LAWS[env_id], max(tolerance, LAWS[env_id].rounding)
    env = make_env(env_id, TRANSITIONS, backend="torch", dtype=dtype)
    env.reset()
    # States that float32 holds exactly; some of the actions lie beyond [-1, 1] and are clipped.
    state = np.random.default_rng(0).uniform(*law.tried, (TRANSITIONS, env.state_dim)).astype(np.float32)
    env.state, env.elapsed[:] = torch.from_numpy(state).to(dtype), law.time_limit - 1
    action = random_actions(env, 1)[0] if env.spec.num_actions else 1.3 * random_actions(env, 1)[0]
    official = gym.make(env_id).unwrapped
    official.reset(seed=0)
    rows = [
        official_step(official, s, a) for s, a in zip(state.astype(np.float64), action.double().numpy(), strict=True)
    ]
    successor, reward, terminated = (torch.tensor(np.array(column)) for column in zip(*rows, strict=True))

    step = env.step(action)
    assert torch.equal(step.truncated, ~step.terminated) and not env.elapsed.any(), "on the last allowed step, too"
    assert (step.next_obs.double() - env.observe(successor)).abs().max() <= tolerance
    assert (step.reward.double() - reward).abs().max() <= tolerance
    assert step.reward.dtype == step.next_obs.dtype == dtype
    if law.margin is None:
        assert not step.terminated.any() and not terminated.any()
        return
    margin = law.margin(successor)
    clear = margin.abs() > 10 * max(law.rounding, 1e-7)  # rounding may end an episode that stands on the threshold
    assert clear.sum() > 0.99 * TRANSITIONS and 0.01 < terminated.double().mean() < 0.9
    assert torch.equal(terminated[clear], margin[clear] <= 0)
    assert torch.equal(step.terminated[clear], terminated[clear])


NO_WHEEL = pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no wheel for Windows")
ENVPOOL = pytest.param("envpool", marks=NO_WHEEL)


@pytest.mark.parametrize("backend", ["torch", "gymnasium", ENVPOOL])
@torch_envs
def test_autoreset_in_the_same_step(env_id, backend):
    """next_obs follows from obs and action by the dynamics, always; obs is a new episode's where one ended."""
    if backend == "envpool" and env_id not in pytest.importorskip("envpool").list_all_envs():
        pytest.skip(f"EnvPool has no {env_id}")
    law, env = LAWS[env_id], make_env(env_id, 4, backend=backend, dtype=F64)
    twin = TORCH_ENVS[env_id](4, dtype=F64)
    assert env.spec == twin.spec
    rng, low, high = np.random.default_rng(0), *(torch.tensor(bound, dtype=F64) for bound in law.start)
    obs, ends, age, compared = env.reset(), 0, torch.zeros(4, dtype=torch.int64), 0
    for _ in range(450):
        state = law.state_of(obs)
        action = torch.tensor([law.ends(rng, row) for row in state.numpy()])
        action = action if env.spec.num_actions else action.to(F64).unsqueeze(-1)
        step = env.step(action)
        successor, reward, terminated = twin.advance(state, action)
        age += 1
        same = law.same_in_envpool(step.next_obs) if backend == "envpool" else torch.ones_like(terminated)
        torch.testing.assert_close(step.next_obs[same], twin.observe(successor)[same], rtol=0, atol=1e-5)
        clear = law.margin(successor).abs() > 1e-5 if law.margin else torch.ones_like(terminated)
        torch.testing.assert_close(step.reward[clear], reward[clear], rtol=0, atol=1e-5)
        assert torch.equal(step.terminated[clear], terminated[clear])
        assert torch.equal(step.truncated, (age == law.time_limit) & ~step.terminated)
        ended = step.terminated | step.truncated
        assert torch.equal(step.obs[~ended], step.next_obs[~ended]) and step.phantom is None
        fresh = law.state_of(step.obs[ended])
        assert (fresh >= low - 1e-6).all() and (fresh <= high + 1e-6).all(), "a first state"
        assert (step.obs[ended] != step.next_obs[ended]).any(-1).all()
        ends, compared = ends + int(ended.sum()), compared + int(same.sum())
        age[ended] = 0
        obs = step.obs
    assert ends >= 8 and compared > 1700, "two episodes of each environment"
    env.close()


@pytest.mark.parametrize(
    ("env_id", "sizes"), [("HalfCheetah-v5", (17, 6)), ("Hopper-v5", (11, 3)), ("Humanoid-v5", (348, 17))]
)
def test_gymnasium_back_end_is_gymnasiums_single_environments(env_id, sizes):
    env, singles = make_env(env_id, 2, backend="gymnasium", seed=7, dtype=F64), [gym.make(env_id) for _ in range(2)]
    assert (env.spec.obs_dim, env.spec.action_dim) == sizes
    first = [single.reset(seed=seed)[0] for single, seed in zip(singles, seeds_of_worlds(7, 2), strict=True)]
    assert env.reset().tolist() == [one.tolist() for one in first]
    for action in random_actions(env, 60):
        step, theirs = env.step(action), (action.double().numpy() * singles[0].action_space.high).astype(np.float32)
        for i, single in enumerate(singles):
            one, reward, terminated, truncated, _ = single.step(theirs[i])
            np.testing.assert_allclose(step.next_obs[i].numpy(), one, rtol=0, atol=1e-9)
            assert step.reward[i].item() == pytest.approx(reward, abs=1e-9)
            assert (step.terminated[i].item(), step.truncated[i].item()) == (terminated, truncated)
            one = single.reset()[0] if terminated or truncated else one
            np.testing.assert_allclose(step.obs[i].numpy(), one, rtol=0, atol=1e-9)
    env.close()


@pytest.mark.parametrize(
    ("name", "sizes", "steps"),
    [("cheetah/run", (17, 6), 50), ("walker/walk", (24, 6), 50), ("pendulum/swingup", (3, 1), 1001)],
)
def test_dm_control_is_deepminds_own(name, sizes, steps):
    """A dictionary becomes one vector, names in Gymnasium's order (sorted). An episode is cut, never terminated."""
    from dm_control import suite

    env = make_env(f"dm_control/{name}", 1, seed=5, dtype=F64)
    assert (env.spec.env_id, env.spec.obs_dim, env.spec.action_dim) == (f"dm_control/{name}", *sizes)
    own = suite.load(*name.split("/"), task_kwargs={"random": seeds_of_worlds(5, 1)[0] % 2**32})

    def is_vector(obs, timestep):
        parts = [np.ravel(timestep.observation[part]) for part in sorted(timestep.observation)]
        np.testing.assert_allclose(obs[0].numpy(), np.concatenate(parts), rtol=0, atol=1e-9)

    is_vector(env.reset(), own.reset())
    for i, action in enumerate(random_actions(env, steps)):
        step, theirs = env.step(action), own.step(action[0].double().numpy())
        is_vector(step.next_obs, theirs)
        assert step.reward[0].item() == pytest.approx(theirs.reward, abs=1e-9) and not step.terminated.any()
        assert step.truncated.item() == theirs.last() == (i == 999)
        is_vector(step.obs, own.reset() if theirs.last() else theirs)
    env.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "HalfCheetah-v5"])
def test_the_parallel_back_end_gives_the_same_numbers(env_id, same):
    one, many = (lived(make_env(env_id, 3, backend=name, seed=2, dtype=F64), 200) for name in ("gymnasium", "parallel"))
    assert same(one, many) and one["terminated"].any() == (env_id == "CartPole-v1")


@pytest.mark.parametrize("backend", ["auto", "torch", "gymnasium", "parallel", ENVPOOL])
def test_every_back_end_keeps_the_protocol(backend):
    env = make_env("CartPole-v1", 3, backend=backend)
    assert isinstance(env, VectorEnv) and isinstance(env, BranchingEnv) == (backend in ("auto", "torch"))
    env.reset()
    if (state := env.state_dict()) is None:
        with pytest.raises(NotImplementedError, match="saves no state"):
            env.load_state_dict({})
    else:
        env.load_state_dict(state)
    env.close()


# Actions


def test_discrete_actions_may_begin_anywhere_and_termination_beats_truncation():
    env = make_env("ToyEchoDiscrete-v0", 3)
    env.reset()
    steps = [env.step(torch.tensor([0, 1, 2])) for _ in range(3)]
    assert steps[0].next_obs[:, 0].tolist() == [5.0, 6.0, 7.0]
    assert steps[2].terminated.all() and not any(step.truncated.any() for step in steps)


@torch_envs
def test_torch_native_starts_are_uniform_and_from_their_own_generator(env_id):
    env = make_env(env_id, 20_000, seed=1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    env.reset()
    assert torch.equal(torch.get_rng_state(), before)
    check_uniform(env.state.numpy(), np.float32(LAWS[env_id].start))
    assert torch.equal(env.reset(), env.observe(env.state))


@torch_envs
def test_staggered_clocks_spread_the_ends_of_episodes(env_id):
    env, plain = make_env(env_id, 4000, seed=1, stagger=True), make_env(env_id, 4000, seed=1)
    assert torch.equal(env.reset(), plain.reset()), "states and their random numbers are as without"
    assert not plain.elapsed.any()
    counts = torch.bincount(env.elapsed, minlength=env.max_steps)
    assert len(counts) == env.max_steps and scipy.stats.chisquare(counts.numpy()).pvalue > 0.001


@pytest.mark.parametrize(
    ("env_id", "how", "message"),
    [
        ("Acrobot-v1", {"backend": "torch"}, f"env_id: wanted one of {', '.join(TORCH_ENVS)} for backend torch; got 'Acrobot-v1'"),
        ("Nope-v0", {"backend": "envpool"}, "env_id: wanted one that EnvPool has; got 'Nope-v0'"),
        ("tokens/sorting", {}, "env_id: wanted one of tokens/sort, .*tokens/copy; got 'tokens/sorting'"),
        ("Pendulum-v1", {"backend": "numpy"}, "backend: wanted one of auto, torch, gymnasium, parallel, envpool; got 'numpy'"),
        ("FrozenLake-v1", {"backend": "envpool"}, r"backend: wanted one that flattens Discrete\(16\), gymnasium or parallel; got envpool"),
        ("tokens/sort", {"backend": "gymnasium"}, "backend: wanted auto or torch for tokens/sort; got gymnasium"),
        ("Acrobot-v1", {"num_envs": 0}, "num_envs: wanted a whole number of at least 1; got 0"),
        ("Acrobot-v1", {"stagger": True}, "stagger: wanted False for Acrobot-v1, only torch-native clocks can be set"),
        ("CartPole-v1", {"stagger": True, "backend": "gymnasium"}, "stagger: wanted False for back end gymnasium, only torch-native clocks"),
        ("tokens/sort", {"stagger": True}, "stagger: wanted False for tokens/sort; got True"),
        ("ToyCount-v0", {"autoreset": "NextStep"}, "autoreset: wanted one of same_step, next_step; got 'NextStep'"),
        ("Pendulum-v1", {"autoreset": "next_step"}, "autoreset: wanted same_step for back end torch; got next_step, which gymnasium and"),
        ("CartPole-v1", {"backend": "envpool", "autoreset": "next_step"}, "autoreset: wanted same_step for back end envpool"),
        ("tokens/sort", {"autoreset": "next_step"}, "autoreset: wanted same_step for tokens/sort; got next_step"),
    ],
)  # fmt: skip
def test_bad_input_is_named(env_id, how, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make_env(env_id, **how)


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


@pytest.mark.parametrize("kinds", [{}, {"action_dim": 2, "num_actions": 3}, {"num_actions": 3, "choices": (2,)}])
def test_a_spec_has_one_kind_of_actions(kinds):
    with pytest.raises(ValueError, match=r"^spec: wanted exactly one of action_dim, num_actions and choices; got "):
        EnvSpec("Any-v0", 3, **kinds)


@pytest.mark.parametrize("backend", ["torch", "gymnasium"])
@torch_envs
def test_a_wrong_action_shape_is_refused_not_broadcast(env_id, backend):
    env = make_env(env_id, 2, backend=backend)
    env.reset()
    right = same_action(env)
    for wrong in (right.unsqueeze(-1), right[:1]) if env.spec.num_actions else (right[:, 0], right[:1]):
        with pytest.raises(ValueError, match=r"^action: wanted shape \(2,.*; got"):
            env.step(wrong)
    if env.spec.num_actions and backend == "torch":
        with pytest.raises(ValueError, match=r"^action: wanted whole numbers, int64; got torch.float32"):
            env.step(torch.full((2,), 0.5))


# Copies that start from a set state


@pytest.mark.parametrize("name", [*TORCH_ENVS, "tabular"])
def test_a_branch_starts_in_the_given_states_and_draws_by_its_seed(name):
    """That it leaves the original alone is seen where a vine is collected."""
    if name == "tabular":
        env = TabularEnv(TabularMDP.chain(5, 0.9, slip=0.3), 3, max_steps=12)
    else:
        env = make_env(name, 3, dtype=F64)
    env.reset()
    for _ in range(4):
        env.step(same_action(env))
    rows = torch.tensor([2, 0, 0, 1, 2])
    branch = env.branch(env.state[rows], env.elapsed[rows], 7)
    assert branch.num_envs == 5 and branch.spec == env.spec and type(branch) is type(env)
    step = branch.step(same_action(branch))
    if name != "tabular":  # whose successors are drawn
        successor, reward, _ = env.advance(env.state[rows], same_action(branch))
        assert torch.equal(step.next_obs, env.observe(successor)) and torch.equal(step.reward, reward)
    assert torch.equal(branch.elapsed, env.elapsed[rows] + 1)
    # As many steps as the time limit: long enough for new episodes, whose first states are drawn.
    branches = [env.branch(env.state, env.elapsed, seed) for seed in (7, 7, 8)]
    first, again, other = (torch.stack([b.step(same_action(b)).obs for _ in range(b.max_steps)]) for b in branches)
    assert torch.equal(first, again) and not torch.equal(first, other)


# Tabular worlds


def test_a_tabular_environment_follows_its_world():
    """Rewards are those of the table, successors have its frequencies, observations are one-hot states."""
    world = TabularMDP.random(4, 3, 0.9, torch.Generator().manual_seed(5))
    env = TabularEnv(world, 20_000, max_steps=10, seed=1)
    obs = env.reset()
    assert env.spec.obs_dim == 4 and env.spec.num_actions == 3 and obs.dtype == F64
    assert obs.sum(-1).eq(1).all() and ((obs == 0) | (obs == 1)).all()
    state = obs.argmax(-1)
    assert scipy.stats.chisquare(state.bincount(), 20_000 * world.start).pvalue > 1e-4
    action = torch.arange(20_000) % 3
    step = env.step(action)
    assert torch.equal(step.reward, world.reward[state, action])
    came = torch.zeros(4, 3, 4, dtype=F64)
    came.index_put_((state, action, step.next_obs.argmax(-1)), torch.ones(20_000, dtype=F64), accumulate=True)
    wanted = came.sum(-1, keepdim=True) * world.transition
    assert scipy.stats.chisquare(came.flatten(), wanted.flatten(), ddof=11).pvalue > 1e-4, "12 sums are given"
    for _ in range(8):
        assert not (step.terminated | step.truncated).any()
        step = env.step(action)
    assert env.step(action).truncated.all(), "the tenth"
    with pytest.raises(RuntimeError, match=r"^step: wanted reset\(\) first"):
        TabularEnv(world, 3, max_steps=3).step(action[:3])
