"""The state of an environment: it comes back exactly, or there is none and the run is told."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import collections
import enum
import random

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from minerva_lite.training.checkpoints import packed, state_of, unpacked
from minerva_lite.worlds.envs import make_env
from tests.laws import random_actions

QUICK = "Made-v0 MountainCar-v0 MountainCarContinuous-v0 Blackjack-v1 Taxi-v4 FrozenLake-v1 CliffWalking-v1 CartPole-v1 Acrobot-v1 Pendulum-v1 Humanoid-v5 dm_control/finger/turn_hard"
SUITE = "fish/swim point_mass/hard lqr/lqr_2_1 dog/fetch reacher/easy stacker/stack_2 swimmer/swimmer6 manipulator/bring_ball quadruped/run hopper/hop"


def through_a_file(state, tmp_path):
    torch.save(packed(state), tmp_path / "state.pt")
    return unpacked(torch.load(tmp_path / "state.pt", weights_only=True))


class Walk(gym.Env):
    """A walk that offers its state: an array and a view of it, a number of NumPy's, and a dictionary by places."""

    observation_space, action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.speed, self.seen = self.np_random.normal(size=2), np.float32(0.1), {}
        self.x = self.state[:1]
        return self.state.copy(), {}

    def step(self, action):
        self.x += self.speed * (2 * action - 1) + self.np_random.normal(scale=0.1)
        self.speed = self.speed * np.float32(1.01)
        place = (int(self.x[0]), np.int64(0))
        self.seen[place] = self.seen.get(place, 0) + 1
        return self.state.copy(), float(self.seen[place]), bool(abs(self.x[0]) > 4), False, {}

    def state_dict(self):
        return {"state": self.state, "speed": self.speed, "seen": self.seen}

    def load_state_dict(self, state):
        self.state, self.speed, self.seen = state["state"], state["speed"], state["seen"]
        self.x = self.state[:1]


@pytest.fixture
def made(registries):
    """Environments of a class or a function, under the name `Made-v0`."""

    def make(entry, **how):
        gym.register("Made-v0", entry_point=entry, max_episode_steps=50, **how)
        env = make_env("Made-v0", 2)
        env.reset()
        return env

    return make


@pytest.mark.parametrize(
    "env_id", [*QUICK.split(), *(pytest.param(f"dm_control/{name}", marks=pytest.mark.slow) for name in SUITE.split())]
)
def test_a_state_goes_on_to_the_bit_in_another_environment(env_id, made, tmp_path, same):
    """Across the ends of episodes, too; its generator's as well. Resumed runs show it of all that Gymnasium has."""
    made(Walk)
    first, other = (make_env(env_id, 2, backend="gymnasium", seed=seed, dtype=torch.float64) for seed in (1, 99))
    first.reset(), other.reset()
    for action in random_actions(first, 37):
        first.step(action)
    other.load_state_dict(through_a_file(first.state_dict(), tmp_path))
    for i, action in enumerate(random_actions(first, 90)):
        assert same(first.step(action), other.step(action)), i
        assert i != 60 or torch.equal(first.reset(), other.reset())
    with pytest.raises(ValueError, match=r"^env: wanted the state of .*; got that of CartPole$"):
        other.load_state_dict({"envs": [[{"class": "CartPole"}]] * 2})


@pytest.mark.parametrize(
    ("entry", "how"),
    [
        (type("SubWalk", (Walk,), {}), {}),  # may have more state than its base knows of
        (type("SilentWalk", (Walk,), {"state_dict": lambda self: None, "load_state_dict": None}), {}),
        (type("CartPoleEnv", (CartPoleEnv,), {"__module__": CartPoleEnv.__module__}), {}),
        (lambda **how: gym.wrappers.TransformReward(CartPoleEnv(**how), lambda reward: reward), {}),
        (lambda **how: gym.wrappers.NormalizeObservation(Walk()), {}),
        ("gymnasium.envs.toy_text:FrozenLakeEnv", {"kwargs": {"map_name": None}}),  # each on a map of its own
        ("gymnasium.envs.box2d:LunarLander", {}),
    ],
)
def test_what_is_not_known_exactly_has_no_state(entry, how, made):
    env = made(entry, **how)
    assert env.state_dict() is None and state_of(env) is None


Color = enum.IntEnum("Color", "RED")
CYCLE = []
CYCLE.append(CYCLE)
FOREIGN = [
    object(), collections.namedtuple("Pair", "x y")(1, 2), collections.defaultdict(int), Color.RED, {Color.RED: 1}, {1, 2}, CYCLE, (i for i in ()),
    random.Random(0), np.array(["a"]), np.array([None]), np.ma.array([1]), np.datetime64("2020-01-01"), np.longdouble(1), np.array([1], ">f8"),
]  # fmt: skip


@pytest.mark.parametrize("value", FOREIGN, ids=lambda value: type(value).__name__)
def test_an_offer_that_would_not_come_back_is_no_state_with_a_warning(value, made, monkeypatch):
    env = made(Walk)
    monkeypatch.setattr(Walk, "state_dict", lambda self: {"value": value})
    with pytest.warns(UserWarning, match=r"^the state of the environments is not saved, a resumed run starts fresh"):
        assert state_of(env) is None


@pytest.mark.parametrize(
    "value",
    [np.zeros(()), np.array([[1, 2]], np.uint16), np.float64(1), np.bool_(True), (1, (2, [3])), {(1, "a"): {2: None}}, 2**130, float("nan"), b"\xff",
     np.arange(6)[::-2], torch.ones(2), np.random.default_rng(0).bit_generator.state, np.random.RandomState(0).get_state(legacy=False)],
)  # fmt: skip
def test_an_offer_comes_back_with_its_kinds(value, tmp_path):
    back = through_a_file(value, tmp_path)
    assert type(back) is type(value) and repr(back) == repr(value)
    assert getattr(back, "dtype", None) == getattr(value, "dtype", None)
