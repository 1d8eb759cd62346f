"""The state of an environment outside torch, saved and restored: of classes that are known to come back exactly.

Nothing is guessed of a foreign object. A class below is known by the attributes that change after it was made; another
one says itself what its state is, by `state_dict` and `load_state_dict`; with any other there is no state.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Collection
from typing import Any

import gymnasium as gym
import numpy as np

# By class: the attributes that a step or a reset changes, besides the random generator.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "minerva_lite.worlds.single.Single": (),
    "gymnasium.wrappers.common.TimeLimit": ("_elapsed_steps",),
    "gymnasium.wrappers.common.OrderEnforcing": ("_has_reset",),
    "gymnasium.wrappers.common.PassiveEnvChecker": (),
    "gymnasium.wrappers.transform_observation.FlattenObservation": (),
    "gymnasium.envs.classic_control.acrobot.AcrobotEnv": ("state",),
    "gymnasium.envs.classic_control.cartpole.CartPoleEnv": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.classic_control.continuous_mountain_car.Continuous_MountainCarEnv": ("state",),
    "gymnasium.envs.classic_control.mountain_car.MountainCarEnv": ("state",),
    "gymnasium.envs.classic_control.pendulum.PendulumEnv": ("state", "last_u"),
    "gymnasium.envs.toy_text.blackjack.BlackjackEnv": (
        "dealer", "player", "dealer_top_card_suit", "dealer_top_card_value_str",
    ),
    "gymnasium.envs.toy_text.cliffwalking.CliffWalkingEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.frozen_lake.FrozenLakeEnv": ("s", "lastaction"),
    "gymnasium.envs.toy_text.taxi.TaxiEnv": ("s", "lastaction", "fickle_step", "taxi_orientation"),
}  # fmt: skip
# Classes whose state is MuJoCo's: Gymnasium's, of versions 4 and 5, and the tasks of the Control Suite.
ROBOTS = (
    "ant.AntEnv half_cheetah.HalfCheetahEnv hopper.HopperEnv humanoid.HumanoidEnv humanoidstandup.HumanoidStandupEnv "
    "inverted_double_pendulum.InvertedDoublePendulumEnv inverted_pendulum.InvertedPendulumEnv pusher.PusherEnv "
    "reacher.ReacherEnv swimmer.SwimmerEnv walker2d.Walker2dEnv"
)
MUJOCO = {f"gymnasium.envs.mujoco.{robot.replace('.', f'_v{n}.')}" for robot in ROBOTS.split() for n in (4, 5)}
TASKS = (
    "acrobot.Balance ball_in_cup.BallInCup cartpole.Balance cheetah.Cheetah dog.Fetch dog.Move dog.Stand finger.Spin "
    "finger.Turn fish.Swim fish.Upright hopper.Hopper humanoid.Humanoid humanoid_CMU.HumanoidCMU lqr.LQRLevel "
    "manipulator.Bring pendulum.SwingUp point_mass.PointMass quadruped.Escape quadruped.Fetch quadruped.Move "
    "reacher.Reacher stacker.Stack swimmer.Swimmer walker.PlanarWalker"
)
SUITE = {f"dm_control.suite.{task}" for task in TASKS.split()}
PHYSICS = {f"{task.rpartition('.')[0]}.Physics" for task in SUITE}
# Of MuJoCo's model, what tasks of the Control Suite draw: where goals lie and how large, springs, gains, a terrain.
DRAWN = ["body_pos", "body_quat", "dof_damping", "geom_pos", "geom_size", "hfield_data", "jnt_stiffness", "site_pos"]
DRAWN += ["site_size", "wrap_prm"]
# Of its data, where bodies were a small step ago: the rewards of Ant and Humanoid read it before the next step.
BEHIND = ("xpos", "xipos")


class Unknown(Exception):
    """An environment, or a wrapper around it, whose state nobody says; the message is its class."""


def snapshot(env: gym.Env[Any, Any]) -> list[dict[str, Any]]:
    """The state of one environment, a dictionary for each wrapper and for itself. Raises Unknown."""
    return [{"class": _name(layer), "state": _state(layer), "random": _random(layer)} for layer in _layers(env)]


def restore(env: gym.Env[Any, Any], saved: list[dict[str, Any]]) -> None:
    """Put an environment that was made with the same arguments, and reset once, into a saved state.

    Raises ValueError: it is of another class, or in other wrappers.
    """
    layers = _layers(env)
    here, there = [_name(layer) for layer in layers], [held["class"] for held in saved]
    if here != there:
        raise ValueError(f"env: wanted the state of {', '.join(here)}; got that of {', '.join(there)}")
    for layer, held in zip(layers, saved, strict=True):
        if isinstance(held["random"], dict):
            source = layer.np_random
            if isinstance(source, np.random.RandomState):
                source.set_state(held["random"])
            else:
                source.bit_generator.state = held["random"]
        _set_state(layer, copy.deepcopy(held["state"]))


def _layers(env: gym.Env[Any, Any]) -> list[Any]:
    """The wrappers, from outside, and the environment itself."""
    return [env, *_layers(env.env)] if isinstance(env, gym.Wrapper) else [env]


def _name(thing: Any) -> str:
    """Where the class of a thing is found."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _is(thing: Any, names: Collection[str]) -> bool:
    """Whether a thing is of exactly the class that is found under one of these names."""
    kind = type(thing)
    return _name(thing) in names and getattr(sys.modules.get(kind.__module__), kind.__qualname__, 0) is kind


def _offers(thing: Any) -> bool:
    """Whether the class itself says what its state is; a subclass may have more of it, so it has to say it again."""
    return all(name in vars(type(thing)) for name in ("state_dict", "load_state_dict"))


def _random(layer: Any) -> Any:
    """The state of an environment's own generator: NumPy's, or of dm_control a RandomState."""
    source = None if isinstance(layer, gym.Wrapper) else layer.np_random
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    return source.bit_generator.state if isinstance(source, np.random.Generator) else None


def _state(layer: Any) -> Any:
    if _offers(layer):
        if (offered := layer.state_dict()) is None:
            raise Unknown(_name(layer))
        return copy.deepcopy(offered)
    owner, names, physics = _known(layer)
    state = {name: copy.deepcopy(vars(owner)[name]) for name in names if name in vars(owner)}
    if physics:
        import mujoco

        model, data = physics
        state["integration"] = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_getState(model, data, state["integration"], mujoco.mjtState.mjSTATE_INTEGRATION)
        state |= {name: getattr(model, name).copy() for name in DRAWN}
        state |= {name: getattr(data, name).copy() for name in BEHIND}
    return state


def _set_state(layer: Any, state: Any) -> None:
    if _offers(layer):
        layer.load_state_dict(state)
        return
    owner, names, physics = _known(layer)
    for name in set(names) & set(state):
        setattr(owner, name, state[name])
    if physics:
        import mujoco

        model, data = physics
        for name in DRAWN:
            getattr(model, name)[...] = state[name]
        mujoco.mj_setState(model, data, state["integration"], mujoco.mjtState.mjSTATE_INTEGRATION)
        # dm_control's step begins with the second half of MuJoCo's. So the first half, which computes contacts and
        # constraints from the state, has to run here; its results lie in memory that cannot be copied.
        mujoco.mj_step1(model, data)
        for name in BEHIND:
            getattr(data, name)[...] = state[name]


def _known(layer: Any) -> tuple[Any, tuple[str, ...], tuple[Any, Any] | None]:
    """Where the state is: an object and its attributes, and MuJoCo's model and data or None. Raises Unknown."""
    if _is(layer, ATTRIBUTES) and not _drew_its_map(layer):
        return layer, ATTRIBUTES[_name(layer)], None
    if _is(layer, MUJOCO):
        return layer, (), (layer.model, layer.data)
    if _is(layer, {"shimmy.dm_control_compatibility.DmControlCompatibilityV0"}):
        inner = layer._env
        known = _is(inner, {"dm_control.rl.control.Environment"})
        if known and _is(inner.task, SUITE) and _is(inner.physics, PHYSICS):
            return inner, ("_step_count", "_reset_next_step"), (inner.physics.model.ptr, inner.physics.data.ptr)
    raise Unknown(_name(layer))


def _drew_its_map(layer: Any) -> bool:
    """Whether it is a frozen lake on a map that was drawn when it was made: the next one will have another map."""
    arguments = layer.spec.kwargs if type(layer).__name__ == "FrozenLakeEnv" and layer.spec else {}
    return arguments.get("desc") is None and arguments.get("map_name", "") is None
