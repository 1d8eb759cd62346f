"""One environment of Gymnasium's, so wrapped that nothing of it but its transitions decides what an agent learns."""

from __future__ import annotations

import traceback
from typing import Any

import gymnasium as gym
import numpy as np

from .own_spaces import flat


class EnvironmentFailed(RuntimeError):
    """An environment raised, or returned what is no transition: the message says which one, where, and what.

    trace: its traceback as text, which an error from another process does not have otherwise.
    """

    trace = ""


def make_single(env_id: str, number: int, **options: Any) -> gym.Env[Any, Any]:
    """Environment `number` under Gymnasium's id, its observations as one vector. options: as in `gymnasium.make`.

    Raises EnvironmentFailed: its own code raised. What Gymnasium says of an id, and missing modules, pass as they are.
    """
    name = f"{env_id}: environment {number}"
    try:
        env = gym.make(env_id, disable_env_checker=True, **options)
        unchecked = gym.registry[env.unwrapped.spec.id].disable_env_checker  # type: ignore[union-attr]
        single = Single(flat(env), name)
        # Gymnasium's checker warns of observations that share memory: it looks at the copies, which do not.
        return single if unchecked else gym.wrappers.PassiveEnvChecker(single)
    except (KeyboardInterrupt, gym.error.Error, ModuleNotFoundError):
        raise
    except BaseException as error:
        raise _failed(name, "its making", error) from error


class Single(gym.Wrapper[Any, Any, Any, Any]):
    """Observations are copies, rewards are numbers, `info` is empty, and errors say where they come from."""

    def __init__(self, env: gym.Env[Any, Any], name: str):
        super().__init__(env)
        self.name, self.observation_space = name, env.observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The first observation. Raises EnvironmentFailed."""
        try:
            return self._copy(self._first(seed, options)), {}
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise _failed(self.name, "reset", error) from error

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One transition. Raises EnvironmentFailed."""
        try:
            obs, reward, terminated, truncated, _ = self.env.step(action)
            return self._copy(obs), _number(reward), bool(terminated), bool(truncated), {}
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise _failed(self.name, "step", error) from error

    def _first(self, seed: int | None, options: dict[str, Any] | None) -> Any:
        try:
            return self.env.reset(seed=seed, options=options)[0]
        except Exception:
            if seed is None or seed < 2**32:
                raise
            # Ours have 128 bits. Generators of an older kind, as dm_control's, take 32.
            return self.env.reset(seed=seed % 2**32, options=options)[0]

    def _copy(self, obs: Any) -> np.ndarray:
        """The observation in an array of its own: an environment may change its at the next step or reset."""
        own, space = np.array(obs), self.observation_space
        if own.shape != space.shape:
            raise ValueError(f"observation: wanted shape {space.shape}; got {own.shape}")
        return own if own.dtype == space.dtype else own.astype(space.dtype, casting="same_kind")


def _number(reward: Any) -> float:
    """The reward, in whatever form it is one number. None becomes NaN, which training refuses."""
    if isinstance(reward, float):
        return reward
    one = np.asarray(reward)
    if one.size != 1 or one.dtype.kind not in "biufO":
        raise ValueError(f"reward: wanted one number; got {reward!r}")
    number = one.item()
    return float("nan") if number is None else float(number)


def _failed(name: str, where: str, error: BaseException) -> EnvironmentFailed:
    failed = EnvironmentFailed(f"{name} raised {type(error).__name__} in {where}: {error}")
    failed.trace = "".join(traceback.format_exception(error))
    return failed
