"""The state of an environment: it comes back exactly, or there is none and the run is told."""

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

SUITE = "finger-turn_easy fish-swim point_mass-hard lqr-lqr_2_1 dog-stand reacher-easy stacker-stack_2 swimmer-swimmer6"
ROBOTS = (
    "Ant HalfCheetah Hopper Humanoid HumanoidStandup InvertedDoublePendulum InvertedPendulum Pusher Reacher Swimmer"
)
QUICK = ["MountainCar-v0", "MountainCarContinuous-v0", "Blackjack-v1", "Taxi-v4", "FrozenLake-v1", "CliffWalking-v1"]
QUICK += ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "Humanoid-v5", "dm_control/finger/turn_hard"]
SLOW = [f"{each}-v5" for each in [*ROBOTS.split(), "Walker2d"]]
SLOW += [f"dm_control/{each.replace('-', '/')}" for each in [*SUITE.split(), "manipulator-bring_ball", "dog-fetch"]]


@pytest.mark.parametrize("env_id", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
def test_a_state_that_went_through_a_file_goes_on_to_the_bit(env_id, tmp_path, same):
    """In another environment, across the ends of episodes."""
    first, other = (make_env(env_id, 2, backend="gymnasium", seed=seed, dtype=torch.float64) for seed in (1, 99))
    first.reset(), other.reset()
    for action in random_actions(first, 37):
        first.step(action)
    torch.save(packed(first.state_dict()), tmp_path / "state.pt")
    other.load_state_dict(unpacked(torch.load(tmp_path / "state.pt", weights_only=True)))
    for i, action in enumerate(random_actions(first, 90)):
        assert same(first.step(action), other.step(action)), i
        assert i != 60 or torch.equal(first.reset(), other.reset())


class Walk(gym.Env):
    """A walk whose state is an array and a view of it, a number of NumPy's, and a dictionary by places."""

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


class SavedWalk(Walk):
    """The same, and it says itself what its state is."""

    def state_dict(self):
        return {"state": self.state, "speed": self.speed, "seen": self.seen}

    def load_state_dict(self, state):
        self.state, self.speed, self.seen = state["state"], state["speed"], state["seen"]
        self.x = self.state[:1]


class SubWalk(SavedWalk):
    """May have more state than its base knows of."""


class OtherCart(CartPoleEnv):
    """One whose steps draw from a generator that nobody knows."""

    def step(self, action):
        obs, *rest = super().step(action)
        return obs + random.random(), *rest


@pytest.fixture
def made(registries):
    """Environments of a class or a function, under the name `Made-v0`."""

    def make(entry, **how):
        gym.register("Made-v0", entry_point=entry, max_episode_steps=50, **how)
        return make_env("Made-v0", 2)

    return make


def test_what_an_environment_offers_comes_back_as_it_was_with_its_generator(made, tmp_path, same):
    env = made(SavedWalk)
    other = make_env("Made-v0", 2, seed=9)
    env.reset()
    for action in random_actions(env, 30):
        env.step(action)
    torch.save(state_of(env), tmp_path / "state.pt")
    other.load_state_dict(unpacked(torch.load(tmp_path / "state.pt", weights_only=True)))
    held, back = (vars(each.env.envs[0].unwrapped) for each in (env, other))
    assert type(back["speed"]) is np.float32 and back["seen"] == held["seen"]
    for action in random_actions(env, 80):
        assert same(env.step(action), other.step(action))


@pytest.mark.parametrize(
    ("entry", "how"),
    [
        (Walk, {}),
        (SubWalk, {}),
        (OtherCart, {}),
        (type("CartPoleEnv", (CartPoleEnv,), {"__module__": CartPoleEnv.__module__}), {}),
        (lambda **how: gym.wrappers.TransformReward(CartPoleEnv(**how), lambda reward: reward), {}),
        (lambda **how: gym.wrappers.NormalizeObservation(SavedWalk()), {}),
        ("gymnasium.envs.toy_text:FrozenLakeEnv", {"kwargs": {"map_name": None}}),  # each on a map of its own
        ("gymnasium.envs.box2d:LunarLander", {}),
    ],
)
def test_what_is_not_known_exactly_has_no_state(entry, how, made):
    env = made(entry, **how)
    env.reset()
    assert env.state_dict() is None and state_of(env) is None


class Color(enum.IntEnum):
    RED = 1


CYCLE = []
CYCLE.append(CYCLE)
Pair = collections.namedtuple("Pair", "x y")
FOREIGN = [object(), Pair(1, 2), collections.defaultdict(int), Color.RED, [Color.RED], {Color.RED: 1}, {1, 2}, random.Random(0)]  # fmt: skip
FOREIGN += [np.array(["a"]), np.array([None]), np.ma.array([1]), np.datetime64("2020-01-01"), np.longdouble(1), CYCLE]
FOREIGN += [(i for i in ()), np.array([1], ">f8")]


@pytest.mark.parametrize("value", FOREIGN, ids=lambda value: type(value).__name__)
def test_an_offer_that_would_not_come_back_is_no_state_with_a_warning(value, made, monkeypatch):
    env = made(SavedWalk)
    env.reset()
    monkeypatch.setattr(SavedWalk, "state_dict", lambda self: {"value": value})
    with pytest.warns(UserWarning, match=r"^the state of the environments is not saved, a resumed run starts fresh"):
        assert state_of(env) is None


@pytest.mark.parametrize(
    "value",
    [np.zeros(()), np.array([[1, 2]], np.uint16), np.float64(1), np.bool_(True), (1, (2, [3])), {(1, "a"): {2: None}},
     2**130, float("nan"), b"\xff", np.arange(6)[::-2], torch.ones(2), np.random.default_rng(0).bit_generator.state],
)  # fmt: skip
def test_an_offer_comes_back_with_its_kinds(value, tmp_path):
    torch.save(packed(value), tmp_path / "value.pt")
    back = unpacked(torch.load(tmp_path / "value.pt", weights_only=True))
    assert type(back) is type(value) and repr(back) == repr(value)
    assert getattr(back, "dtype", None) == getattr(value, "dtype", None)


def test_a_state_of_another_class_is_refused(made):
    env, walk = make_env("CartPole-v1", 2, backend="gymnasium"), made(SavedWalk)
    env.reset(), walk.reset()
    with pytest.raises(
        ValueError, match=r"^env: wanted the state of gymnasium\.\S*TimeLimit, .*SavedWalk; got that of"
    ):
        walk.load_state_dict(env.state_dict())
