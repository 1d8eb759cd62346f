"""What the agents share that act step by step: acting, also outside training, and statistics of what they observe.

How they learn is in `base`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from ..checks import require_dtype, require_finite
from ..experience.normalizer import Normalizer
from ..experience.rollout import Rollout
from ..worlds.envs import REGISTERED
from ..worlds.spec import EnvSpec
from .base import NonFiniteGuard, NonFiniteStep
from .multi_categorical import MultiCategoricalPolicy
from .networks import CategoricalPolicy, GaussianPolicy, Params, Policy, SquashedGaussianPolicy
from .settings import CollectSettings

HINT = ": put gymnasium.wrappers.FlattenObservation around the environment, as training does where it has no Box"


class Stepwise:
    """The half of an `Agent` that acts: an agent names it before that one among its bases.

    It observes, acts and is paid at every step, and may keep running statistics of what it observes.
    """

    name: str
    config: CollectSettings
    spec: EnvSpec
    policy: Policy
    dtype: torch.dtype
    device: torch.device
    generator: Generator
    guard: NonFiniteGuard
    obs_normalizer: Normalizer

    def require_world(self, spec: EnvSpec) -> None:
        """Raise ValueError if the environment is none that is acted in step by step."""
        for each in REGISTERED.values():
            if spec.env_id in each.ids:
                raise ValueError(
                    f"env_id: wanted an environment that is acted in step by step for {self.name}; "
                    f"got {spec.env_id!r}, {each.instead}"
                )

    def make_statistics(self) -> dict[str, nn.Module]:
        return {"obs_normalizer": Normalizer((self.spec.obs_dim,))}

    def make_policy(self, weights: Generator, *, torso: str, squash: bool) -> Policy:
        """A policy for this environment's actions.

        Raises ValueError: squash with a finite action set.
        """
        c, spec = self.config, self.spec
        if spec.discrete and squash:
            raise ValueError(f"squash: wanted False for {spec.env_id}, whose actions are discrete; got True")
        if spec.choices:
            return MultiCategoricalPolicy(spec.obs_dim, spec.choices, c.hidden, weights, torso)
        if spec.num_actions:
            return CategoricalPolicy(spec.obs_dim, spec.num_actions, c.hidden, weights, torso)
        family = SquashedGaussianPolicy if squash else GaussianPolicy
        return family(spec.obs_dim, spec.action_dim, c.hidden, c.log_std_init, weights, torso)

    @torch.no_grad()
    def act(self, obs: Tensor, *, deterministic: bool = False) -> tuple[Tensor, Params]:
        """Actions for obs [B, O] as the policy stores them, and the parameters they were drawn from.

        `predict` acts outside training. Raises ValueError: obs is no tensor, or has another shape or dtype.
        """
        require_rows(self.spec, self.dtype, obs)
        params = (self.policy if deterministic else self.acting_policy)(self.normalized(obs))
        action = self.policy.mode(params) if deterministic else self.policy.sample(params, self.generator)
        return action, params

    def predict(self, obs: Any, *, deterministic: bool = True) -> np.ndarray:
        """What to do, in the environment's own actions: its shape, bounds and dtype; the policy's mode, or a draw.

        obs: one observation as the environment gives it, or a batch of them [B, ...]: a NumPy array, a list or a
        tensor of any kind of numbers. One observation gives one action (a number where that is what the environment
        takes), a batch a first axis [B]. Where training flattened the observations, as it does with all that are no
        Box, put gymnasium.wrappers.FlattenObservation around the environment.
        Nothing of the agent changes: statistics are read, and its random numbers touched only by
        deterministic=False. Stable-Baselines3 returns a pair, of which the second is the state of a recurrent policy;
        there is none here, so the action alone is returned.
        Raises ValueError: obs has another shape, is no numbers, or holds a NaN or an infinity; or the environment's
        bounds are not known (`EnvSpec.own`).
        """
        rows, single = as_rows(self.spec, self.dtype, self.device, obs)
        action, _ = self.act(rows, deterministic=deterministic)
        with torch.no_grad():
            own: np.ndarray = self.spec.own_action(self.policy.to_env(action))
        return own[0] if single else own

    @torch.no_grad()
    def value(self, obs: Any) -> np.ndarray | float:
        """What the critic expects from here on: a number for one observation, [B] for a batch, as `predict` takes them.

        In units of the discounted return of raw rewards. With `normalize_reward` the critic learns from scaled ones;
        its value is multiplied by the present scale, and what was clipped stays clipped. Nothing changes.
        Raises ValueError: obs is refused as by `predict`, or no critic has learned.
        """
        rows, single = as_rows(self.spec, self.dtype, self.device, obs)
        value: np.ndarray = self.state_value(self.normalized(rows)).cpu().double().numpy()
        return float(value[0]) if single else value

    def state_value(self, obs: Tensor) -> Tensor:
        """V(s) of obs [B, O] as the networks see them: [B], in units of the discounted return of raw rewards."""
        raise NotImplementedError

    @property
    def acting_policy(self) -> Policy:
        """The policy that acts while data are collected."""
        return self.policy

    def normalized(self, obs: Tensor) -> Tensor:
        """Observations [..., O] as the networks see them, of the same shape."""
        return self.obs_normalizer.normalize(obs) if self.config.normalize_obs else obs

    @contextmanager
    def all_or_nothing(self, name: str, module: nn.Module, statistics: Normalizer) -> Iterator[None]:
        """A block that moves the running statistics of `module`, undone if their variance, of that name, overflows.

        Raises NonFiniteStep then, because such statistics turn whatever comes after them into zeros.
        """
        before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
        yield
        try:
            self.guard.admit(name, statistics.var.max())
        except NonFiniteStep:
            module.load_state_dict(before)
            raise

    def absorb_obs(self, rollout: Rollout) -> None:
        """Let the observations of a rollout into their running statistics."""
        with self.all_or_nothing("obs_normalizer.var", self.obs_normalizer, self.obs_normalizer):
            self.obs_normalizer.absorb(rollout.visited)


def as_rows(spec: EnvSpec, dtype: torch.dtype, device: torch.device, obs: Any) -> tuple[Tensor, bool]:
    """Observations as rows [B, O] for the networks, and whether it was a single one.

    obs: [*shape] or [B, *shape] in the environment's own shape, or flat, [O] or [B, O]; numbers of any kind.
    Raises ValueError: obs is no numbers, has another shape, or holds a NaN or an infinity.
    """
    array = _numbers(obs)
    shape, flat = spec.own.obs_shape if spec.own else (spec.obs_dim,), (spec.obs_dim,)
    # In this order: where the environment's own shape is (1, O) or (), a flat batch of one looks the same.
    for each in (shape, flat):
        single = array.shape == each
        if single or (array.ndim and array.shape[1:] == each):
            # A copy, since torch takes neither the byte order nor the negative strides that an array may have.
            rows = torch.as_tensor(np.array(array, dtype=np.float64, order="C").reshape(-1, spec.obs_dim), dtype=dtype)
            require_finite(obs=rows)
            return rows.to(device), single
    # A Discrete, a MultiDiscrete and a Tuple of them come as whole numbers.
    hint = HINT if isinstance(obs, tuple) or array.dtype.kind != "f" else ""
    batch = ", ".join(map(str, ("any", *shape)))
    raise ValueError(f"obs: wanted shape {shape}, one observation, or ({batch}), a batch; got {array.shape}{hint}")


def _numbers(obs: Any) -> np.ndarray:
    """What was given as an array. Raises ValueError: it is none of numbers."""
    try:
        array = obs.detach().cpu().double().numpy() if isinstance(obs, Tensor) else np.asarray(obs)
    except ValueError:  # parts of different lengths
        array = np.array(None)
    if array.dtype.kind in "fiub":
        return array
    if isinstance(obs, tuple) and len(obs) == 2 and isinstance(obs[1], dict):
        raise ValueError("obs: wanted an array of numbers; got two things, as `env.reset()` returns: take the first")
    got = f"an array of {array.dtype}" if isinstance(obs, np.ndarray) else f"a {type(obs).__name__}"
    raise ValueError(f"obs: wanted an array of numbers; got {got}{HINT if isinstance(obs, (dict, tuple)) else ''}")


def require_rows(spec: EnvSpec, dtype: torch.dtype, obs: Any) -> None:
    """Raise ValueError unless obs is a tensor [B, O] of this dtype: what an environment of this package gives."""
    wanted = f"shape (any, {spec.obs_dim})"
    if not isinstance(obs, Tensor):
        raise ValueError(f"obs: wanted a tensor of {wanted}; got a {type(obs).__name__}: `predict` takes NumPy arrays")
    if obs.ndim != 2 or obs.shape[1] != spec.obs_dim:
        hint = ": `predict` takes one observation" if obs.ndim == 1 else ""
        raise ValueError(f"obs: wanted {wanted}; got {tuple(obs.shape)}{hint}")
    require_dtype(dtype, obs=obs)
