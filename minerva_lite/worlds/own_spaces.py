"""What Gymnasium's spaces become here: one vector of observations, and actions of one of three kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .spec import EnvSpec, OwnSpaces

# What has rows and columns and more numbers than this is a picture; a smaller one is the map of a grid.
PICTURE = 1_000
NUMERIC = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
BOUND = 1e30  # from here on a bound of actions stands for none, such as the largest number of float32


def describe(env_id: str, observed: gym.Space[Any], actions: gym.Space[Any]) -> EnvSpec:
    """The spec of an environment whose observations are a Box by now, and are read as one vector.

    Raises ValueError: observations that no vector can be made of or that are pixels, actions that are neither bounded
    nor finitely many.
    """
    for space in filter(_pixels, _leaves(observed)):
        raise ValueError(
            f"env_id: wanted observations that are measurements; {env_id} has pixels, {space}, and the networks here "
            "have no convolutions: name a wrapper that makes features of them where the environment is registered"
        )
    if not isinstance(observed, spaces.Box):
        raise ValueError(
            "env_id: wanted Box, Discrete, MultiDiscrete or MultiBinary observations, or a Dict or Tuple of them; "
            f"{env_id} has {observed}; gymnasium.wrappers.TransformObservation, named where the environment is "
            "registered, can make one of another"
        )
    if isinstance(actions, spaces.MultiBinary):
        actions = spaces.MultiDiscrete(np.full(actions.shape, 2), dtype=actions.dtype)
    kind: dict[str, Any]
    if isinstance(actions, spaces.Discrete):
        kind, low, high = {"num_actions": int(actions.n)}, actions.start, actions.start + actions.n - 1
    elif isinstance(actions, spaces.MultiDiscrete):
        kind = {"choices": tuple(actions.nvec.flatten().tolist())}
        low, high = actions.start, actions.start + actions.nvec - 1
    elif isinstance(actions, spaces.Box) and (np.abs(np.array([actions.low, actions.high], float)) < BOUND).all():
        kind, low, high = {"action_dim": int(np.prod(actions.shape))}, actions.low, actions.high
    else:
        raise ValueError(
            f"env_id: wanted Discrete, MultiDiscrete, MultiBinary or bounded Box actions; {env_id} has {actions}; "
            "gymnasium.wrappers.TransformAction, named where the environment is registered, can make one of another"
        )
    ends = (tuple(np.ravel(end).tolist()) for end in (low, high))
    own = OwnSpaces(observed.shape, actions.shape or (), str(actions.dtype), *ends)
    return EnvSpec(env_id, int(np.prod(observed.shape)), own=own, **kind)


def flat(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment with observations as one vector, by Gymnasium's wrapper: dictionaries in the order of their
    names, one of K as a unit vector. One that has a Box already, or whose space has no vector, as it is.
    """
    observed = env.observation_space
    numeric = all(isinstance(leaf, NUMERIC) and not _pixels(leaf) for leaf in _leaves(observed))
    return gym.wrappers.FlattenObservation(env) if numeric and not isinstance(observed, spaces.Box) else env


def _leaves(space: gym.Space[Any]) -> Iterator[gym.Space[Any]]:
    """The spaces of which a Dict or a Tuple is made, however deep; of another space itself."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        for part in space.values() if isinstance(space, spaces.Dict) else space:
            yield from _leaves(part)
    else:
        yield space


def _pixels(space: gym.Space[Any]) -> bool:
    shape = space.shape or ()
    return len(shape) > 1 and int(np.prod(shape)) > PICTURE
