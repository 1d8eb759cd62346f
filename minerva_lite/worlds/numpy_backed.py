"""Environments that live outside torch: Gymnasium's, dm_control's through Shimmy, and EnvPool's."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from ..checks import require_shape
from .own_spaces import describe
from .seeding import seeds_of_worlds
from .single import EnvironmentFailed, make_single
from .snapshot import Unknown, restore, snapshot
from .spec import Step

AUTORESET = {"same_step": gym.vector.AutoresetMode.SAME_STEP, "next_step": gym.vector.AutoresetMode.NEXT_STEP}


class NumpyEnv:
    """Base of the back ends that use NumPy: spaces become a spec, actions are rescaled, results become tensors.

    A subclass gives `reset` and `advance`.
    """

    env: Any  # what the library made

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        spaces: tuple[gym.Space[Any], gym.Space[Any]],
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        self.num_envs, self.device, self.dtype = num_envs, torch.device(device), dtype
        self.seed, self.spec = seed, describe(env_id, *spaces)
        self.reseed(0)

    def reseed(self, steps: int) -> None:
        """Give the next reset seeds of its own, for episodes that begin after so many steps of training."""
        self._seeds: list[int] | None = seeds_of_worlds(self.seed, self.num_envs, steps)

    def advance(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """True successors, rewards, terminated, truncated, and what to act on next."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of processes and windows."""
        self.env.close()

    def step(self, action: Tensor) -> Step:
        """Advance by `action` ([B, D] in [-1, 1], clipped, or int64: [B], or [B, D] of several choices)."""
        next_obs, reward, terminated, truncated, obs = self.advance(self.native(action))
        return Step(
            self._obs(next_obs),
            torch.as_tensor(reward, dtype=self.dtype, device=self.device),
            torch.as_tensor(terminated, device=self.device),
            # Termination beats truncation: the agent must not bootstrap from a terminal state.
            torch.as_tensor(truncated & ~terminated, device=self.device),
            self._obs(obs),
        )

    def state_dict(self) -> dict[str, Any] | None:
        """All that the next steps depend on. None where it cannot be read: only `GymEnv` can."""
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state. Raises NotImplementedError: this back end saves none."""
        raise NotImplementedError(f"{type(self).__name__} saves no state")

    def _obs(self, obs: np.ndarray) -> Tensor:
        return torch.as_tensor(obs.reshape(self.num_envs, -1), dtype=self.dtype, device=self.device)

    def native(self, action: Tensor) -> np.ndarray:
        """The action as the environments take it, each dimension in its own bounds."""
        require_shape((self.num_envs, *self.spec.action_shape), action=action)
        return self.spec.own_action(action)


class GymEnv(NumpyEnv):
    """Any Gymnasium id whose observations `describe` makes a vector of, and whose actions are of a kind that it names.

    parallel: each environment runs in its own process, which is faster where single steps are slow. autoreset:
    `same_step`, or `next_step`, where an environment that has ended spends the next step on its reset: a phantom row,
    `Step.phantom`. where: `seed`, `device` and `dtype`, as of every `NumpyEnv`.
    """

    def __init__(
        self, env_id: str, num_envs: int, *, parallel: bool = False, autoreset: str = "same_step", **where: Any
    ):
        vector = gym.vector.AsyncVectorEnv if parallel else gym.vector.SyncVectorEnv
        made = [partial(make_single, registered_id(env_id), number) for number in range(num_envs)]
        self.env = vector(made, autoreset_mode=AUTORESET[autoreset])
        self.autoreset, self.steps = autoreset, 0  # that each environment has made
        spaces = self.env.single_observation_space, self.env.single_action_space
        try:
            super().__init__(env_id, num_envs, spaces, **where)
        except ValueError:
            self.env.close()  # otherwise its processes would stay
            raise

    def reset(self, seeds: Sequence[int] | None = None) -> Tensor:
        """Start new episodes everywhere: [B, O]. seeds: one for each environment; else the run's, the first time.

        Later ones draw on, so that episodes do not repeat.
        """
        with self._failing():
            obs, _ = self.env.reset(seed=self._seeds if seeds is None else [*seeds])
        self._seeds = None
        self._over = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        return self._obs(obs)

    def step(self, action: Tensor) -> Step:
        """Advance by `action` ([B, D] in [-1, 1], clipped, or [B] int64); ignored where the step is a phantom."""
        step = super().step(action)
        if self.autoreset == "next_step":
            step = step._replace(phantom=self._over)
            self._over = step.terminated | step.truncated  # whose next step is its reset
        return step

    def state_dict(self) -> dict[str, Any] | None:
        """All that the next steps depend on; None if `parallel`, or if `snapshot` does not know one of them."""
        if not isinstance(self.env, gym.vector.SyncVectorEnv):  # they are in other processes
            return None
        try:
            envs = [snapshot(env) for env in self.env.envs]
        except Unknown:
            return None
        return {"envs": envs} | ({"over": self._over} if self.autoreset == "next_step" else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that an environment of the same making saved.

        Raises ValueError: the other `autoreset`. NotImplementedError: `parallel`, whose state cannot be set.
        """
        if not isinstance(self.env, gym.vector.SyncVectorEnv):
            return super().load_state_dict(state)
        saved_mode = "next_step" if "over" in state else "same_step"
        if "envs" in state and saved_mode != self.autoreset:
            raise ValueError(
                f"autoreset: wanted the state of an environment with {self.autoreset}; got {saved_mode}: name that one"
            )
        if self._seeds is not None:
            self.reset()
        for env, saved in zip(self.env.envs, state["envs"], strict=True):
            restore(env, saved)
        if self.autoreset == "next_step":
            self._over = state["over"].to(self.device, copy=True)
            self.env._autoreset_envs = self._over.cpu().numpy().copy()  # what Gymnasium knows of it

    def advance(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        with self._failing():
            obs, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        next_obs = obs
        if "final_obs" in info:  # Gymnasium's own, for that of an environment is empty
            next_obs = obs.copy()
            for i in np.flatnonzero(terminated | truncated):
                next_obs[i] = info["final_obs"][i]
        return next_obs, reward, terminated, truncated, obs

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Add to the error of an environment how far it had come, and what is lost of it between processes."""
        try:
            yield
        except EnvironmentFailed as error:
            there = error.args[0] if isinstance(error.args[0], EnvironmentFailed) else error  # Gymnasium makes another
            failed = EnvironmentFailed(f"{there}; it had made {self.steps} steps")
            failed.trace = there.trace
            raise failed from error.__cause__ or RuntimeError(there.trace)
        except (EOFError, ConnectionError) as error:
            raise EnvironmentFailed(
                f"{self.spec.env_id}: the process of an environment ended; it had made {self.steps} steps"
            ) from error


def registered_id(env_id: str) -> str:
    """The name that Gymnasium has for an id: `dm_control/<domain>/<task>` is Shimmy's `dm_control/<domain>-<task>-v0`.

    Raises ImportError: a dm_control id without Shimmy and dm_control.
    """
    named = re.fullmatch(r"dm_control/(\w+)/(\w+)", env_id)
    if not named:
        return env_id
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # GLFW warns where there is no screen, and nothing is drawn here
            import dm_control  # noqa: F401 - Shimmy registers nothing without it
            import shimmy
    except ImportError as error:
        raise ImportError(f"env_id: {env_id} needs `pip install minerva_lite[dmc]` ({error})") from error
    gym.register_envs(shimmy)
    return f"dm_control/{named[1]}-{named[2]}-v0"


class EnvPoolEnv(NumpyEnv):
    """One of EnvPool's environments, by EnvPool's id; its threads in C++ step all copies.

    By itself EnvPool resets an environment at the step after an end and throws that step's action away. Here the
    environments that ended are reset at once, so no row is such a step.
    """

    def __init__(self, env_id: str, num_envs: int, **where: Any):
        try:
            import envpool
        except ImportError as error:
            raise ImportError(f"backend: envpool needs `pip install minerva_lite[envpool]` ({error})") from error
        if env_id not in envpool.list_all_envs():
            raise ValueError(f"env_id: wanted one that EnvPool has; got {env_id!r}")
        self.make = partial(envpool.make_gymnasium, env_id, num_envs=num_envs)
        self.env = self.make(seed=0)
        observed = self.env.observation_space
        if not isinstance(observed, gym.spaces.Box):
            raise ValueError(f"backend: wanted one that flattens {observed}, gymnasium or parallel; got envpool")
        super().__init__(env_id, num_envs, (observed, self.env.action_space), **where)

    def reset(self) -> Tensor:
        if self._seeds is not None:  # EnvPool takes seeds only where it makes environments, and of 31 bits
            self.env.close()
            self.env, self._seeds = self.make(seed=[seed % 2**31 for seed in self._seeds]), None
        obs, _ = self.env.reset()
        return self._obs(obs)

    def advance(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        next_obs, reward, terminated, truncated, _ = self.env.step(action)
        obs, ended = next_obs, np.flatnonzero(terminated | truncated)
        if len(ended):
            obs = next_obs.copy()
            obs[ended], _ = self.env.reset(ended)
        return next_obs, reward, terminated, truncated, obs
