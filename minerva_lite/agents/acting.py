"""Observations as they come from outside, for `Agent.predict` and `Agent.value`; and what `Agent.act` takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import require_dtype, require_finite
from ..worlds.spec import EnvSpec

HINT = ": put gymnasium.wrappers.FlattenObservation around the environment, as training does where it has no Box"


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
