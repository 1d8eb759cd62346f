"""Acting outside training: `predict` and `value` take what an environment gives, and answer in its own terms."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite.training.checkpoints import load, read, save
from minerva_lite.training.evaluation import evaluate
from minerva_lite.worlds import EnvSpec, make_env
from tests.agents.test_multi_categorical import TOYS
from tests.living import STEPPERS, lived_in, refusal, small_agent
from tests.runs import new, run, stopped

HINT = ": put gymnasium.wrappers.FlattenObservation around the environment, as training does where it has no Box"


# The loop of `train.md`


LOOPS = [(name, env_id) for name in STEPPERS for env_id in ("Pendulum-v1", "CartPole-v1")]
LOOPS += [(name, env_id) for name in ("ppo", "mpo") for env_id in ("MountainCarContinuous-v0", "FrozenLake-v1")]


@pytest.mark.parametrize(("name", "env_id"), LOOPS)
def test_a_loop_of_ones_own_repeats_the_evaluation(name, env_id, tmp_path):
    """From a file, on the plain environment: the returns are those of `evaluate`, to rounding in float32."""
    trained = lived_in(name, env_id, normalize_obs=True)[0]
    save(trained, tmp_path / "run.pt")
    wanted = evaluate(trained, episodes=1, seed=7)

    agent = load(tmp_path / "run.pt", device="cpu")
    assert agent.spec.own == trained.spec.own == make_env(env_id, backend="gymnasium").spec.own is not None
    env = gym.make(env_id)
    env = env if isinstance(env.observation_space, gym.spaces.Box) else gym.wrappers.FlattenObservation(env)
    obs, _ = env.reset(seed=7)
    total, steps, over = 0.0, 0, False
    while not over:
        action = agent.predict(obs)
        assert env.action_space.contains(action)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, steps, over = total + reward, steps + 1, terminated or truncated
    assert steps == wanted["eval/length"] and total == pytest.approx(wanted["eval/mean"], rel=1e-5)


# Which action


def test_actions_have_the_bounds_of_the_environment():
    """One unit of the policy is half the width of the bounds, [-3, 1] and [10, 30]; what lies outside is clipped."""
    agent = lived_in("ppo", "ToyEcho-v0", dtype=torch.float64)[0]
    with torch.no_grad():
        agent.policy.mean[-1].weight.zero_()
    for mean, wanted in ([0.0, 0.0], [-1.0, 20.0]), ([1.0, -0.5], [1.0, 15.0]), ([-9.0, 9.0], [-3.0, 30.0]):
        agent.policy.mean[-1].bias.data = torch.tensor(mean, dtype=torch.float64)
        action = agent.predict([0.0, 0.0])
        assert action.tolist() == wanted and action.dtype == np.float64
    squashed = lived_in("ppo", squash=True)[0]
    mean, _ = squashed.policy(torch.ones(1, 3))
    assert squashed.predict(np.ones(3)) == pytest.approx(2.0 * mean.tanh().item(), rel=1e-6)


@pytest.mark.parametrize("env_id", ["ToyEchoDiscrete-v0", *TOYS])
def test_numbers_begin_where_the_environment_counts_from(env_id):
    agent = lived_in("ppo", env_id)[0]
    batch = agent.predict(np.random.default_rng(0).normal(size=(64, agent.spec.obs_dim)), deterministic=False)
    space = gym.make(env_id).action_space
    assert all(map(space.contains, batch)) and batch.dtype == space.dtype
    low, high = np.array(agent.spec.own.low), np.array(agent.spec.own.high)
    assert (batch.reshape(64, -1).min(0) == low).all() and (batch.reshape(64, -1).max(0) == high).all()


# Which observation


def test_one_observation_and_a_batch_of_any_numbers_give_the_same():
    agent, *_ = lived_in("ppo", normalize_obs=True)
    batch = np.array([[1.0, -2.0, 3.0], [0.0, 1.0, -8.0]])
    wanted = agent.predict(batch)
    assert wanted.shape == (2, 1) and wanted.dtype == np.float32 and wanted[0] != wanted[1]
    frozen = batch.astype(np.float32)
    frozen.setflags(write=False)
    kinds = [
        *(batch.astype(kind) for kind in (np.float16, np.int8, np.int64, np.longdouble, ">f8")),
        np.flip(np.flip(batch, 1).copy(), 1), np.asfortranarray(batch), frozen, batch.tolist(), tuple(map(tuple, batch)),
        torch.tensor(batch), torch.tensor(batch).int(), torch.tensor(batch, dtype=torch.bfloat16, requires_grad=True),
    ]  # fmt: skip
    for each in kinds:
        assert np.array_equal(agent.predict(each), wanted)
        one = agent.predict(each[0])
        assert one.shape == (1,) and one.dtype == np.float32
        assert one == pytest.approx(wanted[0], rel=1e-6)  # a product of another height rounds differently
    assert agent.predict(batch[:1]).shape == (1, 1) and agent.predict(batch[:0]).shape == (0, 1)
    whole = lived_in("ppo", "CartPole-v1")[0]
    assert isinstance(whole.predict(np.zeros(4)), np.int64) and whole.predict(np.zeros((2, 4))).shape == (2,)
    assert whole.predict(np.zeros((0, 4))).shape == whole.value(np.zeros((0, 4))).shape == (0,), "none has no choices"


@pytest.mark.parametrize(
    ("shape", "single", "batch"),
    [
        ((2, 3), [(2, 3), (6,)], [(5, 2, 3), (5, 6), (1, 6), (1, 2, 3)]),
        ((1, 6), [(1, 6), (6,)], [(5, 1, 6), (5, 6), (1, 1, 6)]),
        ((), [()], [(5,), (1,), (5, 1)]),
        ((1,), [(1,)], [(5, 1), (1, 1)]),
    ],
)
def test_the_environments_own_shape_tells_one_from_a_batch(shape, single, batch, register):
    register(gym.spaces.Box(-1.0, 1.0, shape), gym.spaces.Box(-1.0, 1.0, (2, 2)))
    agent, *_ = small_agent("ppo", "ToyAny-v0")
    for each in single:
        assert agent.predict(np.zeros(each)).shape == (2, 2) and isinstance(agent.value(np.zeros(each)), float)
    for each in batch:
        assert agent.predict(np.zeros(each)).shape == (each[0], 2, 2) and agent.value(np.zeros(each)).shape == each[:1]


SHAPE = "wanted shape (3,), one observation, or (any, 3), a batch; got"
ARRAY = "wanted an array of numbers; got"
NO_OBSERVATIONS = [
    (np.zeros(4), f"{SHAPE} (4,)"),
    (np.zeros((2, 2, 3)), f"{SHAPE} (2, 2, 3)"),
    (np.zeros((96, 96, 3), np.uint8), f"{SHAPE} (96, 96, 3){HINT}"),
    (2, f"{SHAPE} (){HINT}"),
    ((14.0, 10.0), f"{SHAPE} (2,){HINT}"),
    ({"a": np.zeros(3)}, f"{ARRAY} a dict{HINT}"),
    ((np.zeros(3), {}), f"{ARRAY} two things, as `env.reset()` returns: take the first"),
    ((np.zeros(3), np.zeros(2)), f"{ARRAY} a tuple{HINT}"),
    ([[1.0, 2.0], [3.0]], f"{ARRAY} a list"),
    ("up", f"{ARRAY} a str"),
    (np.array(["1", "2", "3"]), f"{ARRAY} an array of <U1"),
    (np.zeros(3, complex), f"{ARRAY} an array of complex128"),
    (np.array([0.0, np.nan, 1.0]), "wanted finite numbers; got 1 that are NaN or infinite"),
    (np.array([0.0, 1e300, np.inf]), "wanted finite numbers; got 2 that are NaN or infinite"),  # one for float32 alone
]
POINTED = [
    (np.zeros((2, 3)), "wanted a tensor of shape (any, 3); got a ndarray: `predict` takes NumPy arrays"),
    (torch.zeros(3), "wanted shape (any, 3); got (3,): `predict` takes one observation"),
    (torch.zeros(2, 4), "wanted shape (any, 3); got (2, 4)"),
    (torch.zeros(2, 3, dtype=torch.float64), "wanted dtype torch.float32; got torch.float64"),
]


@pytest.mark.parametrize(("asked", "obs", "message"), [
    *(("predict", *row) for row in NO_OBSERVATIONS), *(("value", *row) for row in NO_OBSERVATIONS),
    *(("act", *row) for row in POINTED),  # which points at `predict`
])  # fmt: skip
def test_what_is_no_observation_is_named(asked, obs, message):
    assert refusal(getattr(small_agent("ppo")[0], asked), obs) == f"obs: {message}"


# What does not change


@pytest.mark.parametrize("name", STEPPERS)
def test_asking_moves_nothing(name, same):
    agent, *_ = lived_in(name, normalize_obs=True)
    before, batch = copy.deepcopy(agent.state_dict()), np.ones((5, 3))
    agent.predict(batch), agent.value(batch)
    assert same(before, agent.state_dict())
    first, second = (agent.predict(batch, deterministic=False) for _ in range(2))
    moved = agent.state_dict()
    assert not np.array_equal(first, second) and not torch.equal(before.pop("generator"), moved.pop("generator"))
    assert same(before, moved)


# Values


@pytest.mark.parametrize("name", [each for each in STEPPERS if each != "mpo"])
def test_a_value_is_the_critics_in_the_units_of_the_reward(name):
    batch = np.random.default_rng(0).normal(size=(5, 3))
    for normalize_reward in (False, True):
        agent, *_ = lived_in(name, normalize_obs=True, normalize_reward=normalize_reward)
        wanted = agent.critic(agent.normalized(torch.tensor(batch, dtype=torch.float32))).detach()
        scale = agent.reward_scaler.stats.var.sqrt() if normalize_reward else torch.ones(())
        assert normalize_reward == (scale > 2.0)
        assert agent.value(batch) == pytest.approx((wanted * scale).numpy(), rel=1e-5)
        assert agent.value(batch[0]) == pytest.approx(agent.value(batch)[0], rel=1e-5)


@pytest.mark.parametrize("baseline", ["none", "others"])
def test_without_a_critic_there_is_no_value(baseline):
    agent, *_ = small_agent("reinforce", "CartPole-v1", whole_episodes=True, baseline=baseline)
    told = refusal(agent.value, np.zeros(4))
    assert told.startswith(f"baseline: wanted 'value', whose critic learns; got '{baseline}'")


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_the_value_of_mpo_is_that_of_what_it_predicts(env_id):
    agent, _, obs = lived_in("mpo", env_id)
    action, _ = agent.act(obs, deterministic=True)
    assert agent.value(obs) == pytest.approx(agent.critic(obs, action).detach().numpy(), rel=1e-5)


# Files


def test_an_older_file_acts_goes_on_and_says_what_it_lacks(tmp_path, same):
    """As a version wrote it that knew less of environments."""
    path = tmp_path / "run.pt"
    stopped(*new("ppo"), path)
    saved = read(path)
    saved["state"]["spec"] = {k: v for k, v in saved["state"]["spec"].items() if k not in ("own", "choices")}
    torch.save(saved, path), path.with_name("run.best.pt").unlink(missing_ok=True)
    old = load(path, device="cpu")
    assert old.spec == EnvSpec("Pendulum-v1", obs_dim=3, action_dim=1) and old.spec.own is None
    assert isinstance(old.value(np.zeros(3)), float)
    assert refusal(old.predict, np.zeros(3)) == (
        "spec.own: wanted the bounds of Pendulum-v1, which neither a checkpoint of an older version nor a spec made by "
        "hand has; got None: set agent.spec = make_env('Pendulum-v1', backend='gymnasium').spec"
    )
    old.spec = make_env("Pendulum-v1").spec
    assert old.predict(np.zeros(3)).shape == (1,) and evaluate(old, episodes=1)["eval/length"] == 200
    run(*(whole := new("ppo")))
    run(*(rest := new("ppo")), path)
    assert same(whole[0].state_dict(), rest[0].state_dict())
