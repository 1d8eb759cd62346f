"""Environments written in torch operations: they run on whatever device their tensors are on."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checks import can_ask, require_count, require_shape
from .seeding import WORLDS, generator, stream
from .spec import EnvSpec, OwnSpaces, Step
from .tabular import TabularMDP, inverse_cdf


class SeededEnv:
    """What environments written in torch share: a device, a generator of their own, and a state that can be saved."""

    held: tuple[str, ...]  # the tensors on which, with the generator, the next steps depend

    def __init__(
        self,
        num_envs: int,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        require_count(num_envs=num_envs)
        self.num_envs, self.seed, self.device, self.dtype = num_envs, seed, torch.device(device), dtype
        self.reseed(0)

    def reseed(self, steps: int) -> None:
        """Draw from here on what belongs to episodes that begin after so many steps of training."""
        self.generator = generator(stream(self.seed, WORLDS, steps), self.device)

    def state_dict(self) -> dict[str, Tensor]:
        """All that the next steps depend on; copies, because a step may change them in place."""
        return {name: getattr(self, name).clone() for name in self.held} | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a state that an environment made with the same arguments has saved."""
        for name in self.held:
            setattr(self, name, state[name].to(self.device, copy=True))
        self.generator.set_state(state["generator"].cpu())

    def close(self) -> None:
        """There is nothing to let go of."""


class TorchEnv(SeededEnv):
    """Base of the torch-native environments: time limit and autoreset, with everything on one device.

    A subclass gives `spec`, `max_steps`, `state_dim`, `initial`, `observe` and `advance`. The state is `state`
    [B, S] and `elapsed` [B]; both may be set, as vine sampling and the tests do. stagger: see `reset`; where: `seed`,
    `device` and `dtype` of a `SeededEnv`.
    """

    spec: EnvSpec
    max_steps: int
    state_dim: int
    held = ("state", "elapsed")

    def __init__(self, num_envs: int, *, stagger: bool = False, **where: Any):
        super().__init__(num_envs, **where)
        self.stagger = stagger
        self._bounds: dict[tuple[float, ...], Tensor] = {}
        self.state = self.elapsed = torch.empty(0, device=self.device)  # none before the first reset

    def initial(self) -> Tensor:
        """First states of new episodes, one for each environment: [B, S]."""
        raise NotImplementedError

    def observe(self, state: Tensor) -> Tensor:
        """What is seen of `state` [B, S]: [B, O]."""
        raise NotImplementedError

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Successors [B, S], rewards [B] and who is in a terminal state [B] bool. Pure: it changes nothing."""
        raise NotImplementedError

    def reset(self) -> Tensor:
        """Start new episodes everywhere: the first observations [B, O].

        With `stagger` each clock starts at a random step below the time limit. Without it, all environments stand at
        the same step of their episodes, so a short rollout holds only one part of an episode.
        """
        self.state = self.initial()
        self.elapsed = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        if self.stagger:
            self.elapsed.random_(self.max_steps, generator=self.generator)
        return self.observe(self.state)

    def step(self, action: Tensor) -> Step:
        """Advance by `action` ([B, D] in [-1, 1], clipped, or int64: [B], or [B, D] of several choices)."""
        # Without this check an action [B] would broadcast against [B, 1]: wrong numbers, and no error.
        require_shape((self.num_envs, *self.spec.action_shape), action=action)
        if self.spec.discrete and action.is_floating_point():  # half an action would be half a push
            raise ValueError(f"action: wanted whole numbers, int64; got {action.dtype}")
        if self.spec.discrete and can_ask(action):
            self._require_known(action)
        if len(self.state) != self.num_envs:
            raise RuntimeError("step: wanted reset() first; there is no state yet")
        successor, reward, terminated = self.advance(self.state, action)
        # First states are drawn at every step, whether an episode ended or not: to ask would be to wait for the device.
        step, self.state, self.elapsed = self.arrive(successor, reward, terminated, self.elapsed, self.initial())
        return step

    def _require_known(self, action: Tensor) -> None:
        """Raise ValueError unless every action [B], or every part of one [B, D], is among those that there are."""
        options_of = self.spec.choices or (self.spec.num_actions,)
        for options, part in zip(options_of, action.reshape(len(action), -1).T, strict=True):
            low, high = part.aminmax()
            if low < 0 or high >= options:
                raise ValueError(f"action: wanted whole numbers from 0 to {options - 1}; got {low} to {high}")

    def arrive(
        self, successor: Tensor, reward: Tensor, terminated: Tensor, elapsed: Tensor, fresh: Tensor
    ) -> tuple[Step, Tensor, Tensor]:
        """The step as an agent sees it, and the state and clock to go on from: `fresh` and 0 where an episode ended."""
        elapsed = elapsed + 1
        truncated = (elapsed >= self.max_steps) & ~terminated
        ended = terminated | truncated
        state = torch.where(ended.unsqueeze(-1), fresh, successor)
        step = Step(self.observe(successor), reward, terminated, truncated, self.observe(state))
        return step, state, elapsed.masked_fill(ended, 0)

    def branch(self, state: Tensor, elapsed: Tensor, seed: int) -> TorchEnv:
        """A copy with one environment per row of `state` [N, S] and `elapsed` [N], and random numbers from `seed`."""
        twin = copy.copy(self)
        twin.num_envs, twin.state, twin.elapsed = len(state), state.clone(), elapsed.clone()
        twin.generator = generator(stream(seed, WORLDS), self.device)
        return twin

    def uniform(self, *high: float) -> Tensor:
        """Return [B, S], uniform on [-high, high]; `high` has one bound for each of the S numbers of a state."""
        if high not in self._bounds:  # kept, because a copy to the device at every step would wait for it
            self._bounds[high] = torch.tensor(high, dtype=self.dtype, device=self.device)
        unit = torch.rand(self.num_envs, self.state_dim, generator=self.generator, dtype=self.dtype, device=self.device)
        return (2.0 * unit - 1.0) * self._bounds[high]


class TorchPendulum(TorchEnv):
    """Gymnasium's Pendulum-v1 (0.05 s steps): state (angle, rad; angular velocity, rad/s), torque 2 N m times a."""

    spec = EnvSpec("Pendulum-v1", obs_dim=3, action_dim=1, own=OwnSpaces((3,), (1,), "float32", (-2.0,), (2.0,)))
    max_steps, state_dim = 200, 2

    def initial(self) -> Tensor:
        return self.uniform(math.pi, 1.0)

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

    spec = EnvSpec("CartPole-v1", obs_dim=4, num_actions=2, own=OwnSpaces((4,), (), "int64", (0,), (1,)))
    max_steps, state_dim = 500, 4

    def initial(self) -> Tensor:
        return self.uniform(0.05, 0.05, 0.05, 0.05)

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

    The reward is the expected one of (s, a), so the only randomness is in the next state.
    """

    state_dim = 1

    def __init__(
        self,
        mdp: TabularMDP,
        num_envs: int,
        *,
        max_steps: int,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ):
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


TORCH_ENVS: dict[str, type[TorchEnv]] = {env.spec.env_id: env for env in (TorchPendulum, TorchCartPole)}
