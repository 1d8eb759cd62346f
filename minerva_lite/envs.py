"""One vector-environment face over torch-native and Gymnasium back ends (floor 3).

Autoreset happens in the same step: `step.next_obs` is the true successor, `step.obs` what to act on next, so no
phantom transition exists. Actions are [-1, 1] (or int64) and are rescaled to the environment's bounds at its door.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from .checks import require_count, require_one_of, require_shape
from .tabular import TabularMDP, inverse_cdf


@dataclass(frozen=True)
class EnvSpec:
    """What a network must know of an environment. Exactly one of action_dim and num_actions is above 0."""

    env_id: str
    obs_dim: int
    action_dim: int = 0
    num_actions: int = 0


class Step(NamedTuple):
    """One step of B environments."""

    next_obs: Tensor  # [B, O] true successor
    reward: Tensor  # [B]
    terminated: Tensor  # [B] bool
    truncated: Tensor  # [B] bool, never together with terminated
    obs: Tensor  # [B, O] what to act on next: next_obs, or the first one of a new episode


class TorchEnv:
    """Base of the torch-native environments: time limit and autoreset, with everything on one device.

    A subclass gives `spec`, `max_steps`, `state_dim`, `initial`, `observe` and `advance`. The state is `state`
    [B, S] and `elapsed` [B]; both may be set, which is what vine sampling and the tests need.
    """

    spec: EnvSpec
    max_steps: int
    state_dim: int

    def __init__(self, num_envs: int, *, seed: int = 0, device: torch.device | str = "cpu", dtype=torch.float32):
        require_count(num_envs=num_envs)
        self.num_envs, self.device, self.dtype = num_envs, torch.device(device), dtype
        self.generator = Generator(device=self.device).manual_seed(seed)

    def reset(self) -> Tensor:
        """Start new episodes everywhere: the first observations [B, O]."""
        self.state = self.initial()
        self.elapsed = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        return self.observe(self.state)

    def step(self, action: Tensor) -> Step:
        """Advance by `action` ([B, D] in [-1, 1], clipped, or [B] int64)."""
        # Without this a [B] torque would broadcast: one action for all environments, and no error.
        per_env = (self.spec.action_dim,) if self.spec.action_dim else ()
        require_shape((self.num_envs, *per_env), action=action)
        if not hasattr(self, "state"):
            raise RuntimeError("step: wanted reset() first; there is no state yet")
        successor, reward, terminated = self.advance(self.state, action)
        self.elapsed += 1
        truncated = (self.elapsed >= self.max_steps) & ~terminated
        ended = terminated | truncated
        next_obs = self.observe(successor)
        # Fresh states are drawn at every step, used or not: asking whether one is needed would wait for the device.
        self.state = torch.where(ended.unsqueeze(-1), self.initial(), successor)
        self.elapsed.masked_fill_(ended, 0)
        return Step(next_obs, reward, terminated, truncated, self.observe(self.state))

    def branch(self, state: Tensor, elapsed: Tensor, seed: int) -> TorchEnv:
        """A copy with one environment a row of `state` [N, S] and `elapsed` [N], its random numbers from `seed`."""
        twin = copy.copy(self)
        twin.num_envs, twin.state, twin.elapsed = len(state), state.clone(), elapsed.clone()
        twin.generator = Generator(device=self.device).manual_seed(seed)
        return twin

    def _uniform(self, *high: float) -> Tensor:
        """[B, S] uniform on [-high, high]."""
        bound = torch.tensor(high, dtype=self.dtype, device=self.device)
        unit = torch.rand(self.num_envs, self.state_dim, generator=self.generator, dtype=self.dtype, device=self.device)
        return (2.0 * unit - 1.0) * bound


class TorchPendulum(TorchEnv):
    """Gymnasium's Pendulum-v1 (0.05 s steps): state (angle, rad; angular velocity, rad/s), torque 2 N m times a."""

    spec = EnvSpec("Pendulum-v1", obs_dim=3, action_dim=1)
    max_steps, state_dim = 200, 2

    def initial(self) -> Tensor:
        return self._uniform(math.pi, 1.0)

    def observe(self, state: Tensor) -> Tensor:
        angle, speed = state.unbind(-1)
        return torch.stack([angle.cos(), angle.sin(), speed], -1)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angle, speed = state.unbind(-1)
        torque = 2.0 * action[..., 0].clamp(-1.0, 1.0)
        upright = (angle + math.pi) % (2.0 * math.pi) - math.pi
        reward = -(upright.square() + 0.1 * speed.square() + 0.001 * torque.square())
        speed = (speed + (15.0 * angle.sin() + 3.0 * torque) * 0.05).clamp(-8.0, 8.0)
        successor = torch.stack([angle + 0.05 * speed, speed], -1)
        return successor, reward, torch.zeros_like(reward, dtype=torch.bool)


class TorchCartPole(TorchEnv):
    """Gymnasium's CartPole-v1 (Euler steps of 0.02 s): state (x, m; m/s; pole angle, rad; rad/s), push 10 N."""

    spec = EnvSpec("CartPole-v1", obs_dim=4, num_actions=2)
    max_steps, state_dim = 500, 4

    def initial(self) -> Tensor:
        return self._uniform(0.05, 0.05, 0.05, 0.05)

    def observe(self, state: Tensor) -> Tensor:
        return state

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, velocity, angle, spin = state.unbind(-1)
        force = 20.0 * action.to(state.dtype) - 10.0
        cos, sin = angle.cos(), angle.sin()
        # Cart 1.0 kg, pole 0.1 kg and half-length 0.5 m: total mass 1.1, pole mass times length 0.05.
        push = (force + 0.05 * spin.square() * sin) / 1.1
        angular = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos.square() / 1.1))
        linear = push - 0.05 * angular * cos / 1.1
        rate = torch.stack([velocity, linear, spin, angular], -1)
        successor = state + 0.02 * rate
        terminated = (successor[..., 0].abs() > 2.4) | (successor[..., 2].abs() > 12.0 * 2.0 * math.pi / 360.0)
        return successor, torch.ones_like(force), terminated


class TabularEnv(TorchEnv):
    """A `TabularMDP` as an environment: observations are one-hot states, an episode is cut after `max_steps` steps.

    The reward is the expected one of (s, a): the world's only noise is where it goes next.
    """

    state_dim = 1

    def __init__(self, mdp: TabularMDP, num_envs: int, *, max_steps: int, seed: int = 0, dtype=torch.float64):
        require_count(max_steps=max_steps)
        super().__init__(num_envs, seed=seed, dtype=dtype)
        self.mdp, self.max_steps = mdp, max_steps
        states, actions = mdp.reward.shape
        self.spec = EnvSpec("tabular", obs_dim=states, num_actions=actions)

    def initial(self) -> Tensor:
        return self._draw(self.mdp.start.expand(self.num_envs, -1))

    def observe(self, state: Tensor) -> Tensor:
        return F.one_hot(state[:, 0], self.spec.obs_dim).to(self.dtype)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        reward = self.mdp.reward[state[:, 0], action].to(self.dtype)
        successor = self._draw(self.mdp.transition[state[:, 0], action])
        return successor, reward, torch.zeros_like(reward, dtype=torch.bool)

    def _draw(self, probability: Tensor) -> Tensor:
        """[B, 1] int64, one draw from each row of probability [B, S]."""
        uniform = torch.rand(self.num_envs, generator=self.generator, dtype=torch.float64)
        return inverse_cdf(probability, uniform).unsqueeze(-1)


class GymEnv:
    """Any Gymnasium id with Box observations and Box or Discrete actions, stepped by Gymnasium's vector API."""

    def __init__(
        self, env_id: str, num_envs: int, *, seed: int = 0, device: torch.device | str = "cpu", dtype=torch.float32
    ):
        require_count(num_envs=num_envs)
        self.num_envs, self.device, self.dtype, self._seed = num_envs, torch.device(device), dtype, seed
        self.env = gym.make_vec(
            env_id,
            num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
        )
        space, actions = self.env.single_observation_space, self.env.single_action_space
        if not isinstance(space, gym.spaces.Box):
            raise ValueError(f"env_id: wanted Box observations; {env_id} has {space}")
        obs_dim = int(np.prod(space.shape))
        if isinstance(actions, gym.spaces.Discrete):
            self._first = int(actions.start)
            self.spec = EnvSpec(env_id, obs_dim, num_actions=int(actions.n))
        elif isinstance(actions, gym.spaces.Box) and np.isfinite([actions.low, actions.high]).all():
            self._low, self._high = actions.low.astype(np.float64), actions.high.astype(np.float64)
            self.spec = EnvSpec(env_id, obs_dim, action_dim=int(np.prod(actions.shape)))
        else:
            raise ValueError(f"env_id: wanted Discrete or bounded Box actions; {env_id} has {actions}")

    def reset(self) -> Tensor:
        """Start new episodes everywhere: [B, O]. Only the first reset uses the seed, so episodes do not repeat."""
        obs, _ = self.env.reset(seed=self._seed)
        self._seed = None
        return self._obs(obs)

    def step(self, action: Tensor) -> Step:
        """Advance by `action` ([B, D] in [-1, 1], clipped, or [B] int64)."""
        obs, reward, terminated, truncated, info = self.env.step(self._action(action))
        next_obs = obs
        if "final_obs" in info:
            next_obs = obs.copy()
            for i in np.flatnonzero(info["_final_obs"]):
                next_obs[i] = info["final_obs"][i]
        return Step(
            self._obs(next_obs),
            torch.as_tensor(reward, dtype=self.dtype, device=self.device),
            torch.as_tensor(terminated, device=self.device),
            # Termination beats truncation: the agent must not bootstrap from a terminal state.
            torch.as_tensor(truncated & ~terminated, device=self.device),
            self._obs(obs),
        )

    def close(self) -> None:
        self.env.close()

    def _obs(self, obs: np.ndarray) -> Tensor:
        return torch.as_tensor(obs.reshape(self.num_envs, -1), dtype=self.dtype, device=self.device)

    def _action(self, action: Tensor) -> np.ndarray:
        """Map [-1, 1] affinely onto the environment's own bounds, dimension by dimension."""
        if self.spec.num_actions:
            require_shape((self.num_envs,), action=action)
            return action.cpu().numpy() + self._first
        require_shape((self.num_envs, self.spec.action_dim), action=action)
        shape = self.env.action_space.shape
        unit = action.clamp(-1.0, 1.0).cpu().double().numpy().reshape(shape)
        scaled = self._low + 0.5 * (unit + 1.0) * (self._high - self._low)
        return scaled.astype(self.env.action_space.dtype)


TORCH_ENVS = {env.spec.env_id: env for env in (TorchPendulum, TorchCartPole)}


def make_env(
    env_id: str,
    num_envs: int = 1,
    *,
    backend: str = "auto",
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> TorchEnv | GymEnv:
    """A vector environment: `backend` `torch`, `gymnasium`, or `auto` (torch where there is a torch-native twin).

    Raises ValueError: an unknown id or back end, fewer than one environment, or spaces no agent here can handle.
    """
    require_one_of(("auto", "torch", "gymnasium"), backend=backend)
    require_count(num_envs=num_envs)
    if backend == "torch" and env_id not in TORCH_ENVS:
        raise ValueError(f"env_id: wanted one of {', '.join(TORCH_ENVS)} for backend torch; got {env_id!r}")
    if backend != "gymnasium" and env_id in TORCH_ENVS:
        return TORCH_ENVS[env_id](num_envs, seed=seed, device=device, dtype=dtype)
    try:
        return GymEnv(env_id, num_envs, seed=seed, device=device, dtype=dtype)
    except gym.error.DependencyNotInstalled:
        raise  # a known id; the message says what to install
    except gym.error.Error as error:
        raise ValueError(f"env_id: wanted a registered Gymnasium id; got {env_id!r} ({error})") from error
