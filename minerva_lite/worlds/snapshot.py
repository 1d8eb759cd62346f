"""The state of an environment outside torch, as tensors and plain values, saved and restored.

Everything found in the environment's attributes is saved: numbers, arrays, random generators, MuJoCo's data and model.
If one attribute is neither of these nor known to stay as it was built, the environment cannot be saved at all: half a
state would be worse than none.
"""

from __future__ import annotations

import types
from enum import Enum
from typing import Any

import gymnasium as gym
import numpy as np
import torch

Saved = Any  # tensors, numbers, strings, None, and lists, tuples and dictionaries of them

# Built once and never changed by a step or a reset.
STATIC = (gym.Space, gym.envs.registration.EnvSpec, types.FunctionType, types.MethodType, types.ModuleType, type, Enum)
STATIC_NAMES = {"MujocoRenderer", "ArraySpec", "BoundedArray", "Array"}
PLAIN = (bool, int, float, str, type(None))


class Opaque(Exception):
    """An attribute that `snapshot` cannot save; the message says where it stands and of which type it is."""


def snapshot(env: gym.Env) -> Saved:
    """The state of one environment. Raises Opaque: something in it cannot be saved."""
    return _save(env, type(env).__name__, set())


def restore(env: gym.Env, saved: Saved) -> None:
    """Put an environment that was made with the same arguments into a saved state."""
    _load(env, saved, set())


def _members(thing: Any) -> dict[str, Any]:
    """The attributes of a wrapper, an environment, or a task of dm_control that are to be saved."""
    return {name: value for name, value in vars(thing).items() if not _static(value)}


def _static(value: Any) -> bool:
    text = isinstance(value, np.ndarray) and value.dtype.kind in "SU"  # such as the map of a grid, in letters
    return text or isinstance(value, STATIC) or type(value).__name__ in STATIC_NAMES


def _nested(thing: Any) -> bool:
    """Whether to save a thing by saving its attributes."""
    return isinstance(thing, gym.Env) or type(thing).__module__.startswith(("dm_control.", "shimmy."))


def _physics(thing: Any) -> tuple[Any, Any] | None:
    """MuJoCo's model and data, if this is an object that holds both."""
    if type(thing).__module__.startswith("dm_control.") and hasattr(thing, "model") and hasattr(thing, "data"):
        return thing.model.ptr, thing.data.ptr
    return None


def _save(value: Any, where: str, seen: set[int]) -> Saved:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":  # numbers
            raise Opaque(f"{where}, an array of {value.dtype}")
        return torch.from_numpy(np.ascontiguousarray(value).copy())
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_save(x, f"{where}[{i}]", seen) for i, x in enumerate(value))
    if isinstance(value, dict):
        return {k: _save(x, f"{where}[{k!r}]", seen) for k, x in value.items() if not _static(x)}
    if isinstance(value, np.random.Generator):
        return {"generator": _save(value.bit_generator.state, where, seen)}
    if isinstance(value, np.random.RandomState):
        return {"generator": _save(value.get_state(legacy=False), where, seen)}
    if type(value).__module__.startswith("mujoco") and type(value).__name__ in ("MjData", "MjModel"):
        arrays = {name: torch.from_numpy(array.copy()) for name, array in _arrays(value).items()}
        return arrays | ({"integration": _integration(value)} if type(value).__name__ == "MjData" else {})
    physics = _physics(value)
    if physics:
        return {"physics": [_save(part, where, seen) for part in physics]}
    if _nested(value):
        if id(value) in seen:
            return None
        seen.add(id(value))
        return {name: _save(x, f"{where}.{name}", seen) for name, x in _members(value).items()}
    raise Opaque(f"{where}, a {type(value).__module__}.{type(value).__name__}")


def _load(value: Any, saved: Saved, seen: set[int]) -> Any:
    """The value that replaces `value`. Objects that hold state are changed in place and returned."""
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = _load({}, saved["generator"], seen)
    elif isinstance(value, np.random.RandomState):
        value.set_state(_load({}, saved["generator"], seen))
    elif type(value).__module__.startswith("mujoco") and type(value).__name__ in ("MjData", "MjModel"):
        if "integration" in saved:
            import mujoco

            # dm_control's step begins with the second half of MuJoCo's. So the first half, which computes contacts and
            # constraints from the state, has to run here; its results lie in memory that cannot be copied.
            mujoco.mj_setState(value.model, value, saved["integration"].numpy(), mujoco.mjtState.mjSTATE_INTEGRATION)
            mujoco.mj_step1(value.model, value)
        for name, array in _arrays(value).items():
            kept = saved[name].numpy()
            if kept.shape == array.shape and not np.array_equal(kept, array, equal_nan=kept.dtype.kind == "f"):
                array[...] = kept
    elif physics := _physics(value):
        for part, state in zip(physics, saved["physics"], strict=True):
            _load(part, state, seen)
    elif _nested(value):
        if id(value) not in seen:
            seen.add(id(value))
            for name, state in saved.items():
                setattr(value, name, _load(getattr(value, name, None), state, seen))
    elif isinstance(saved, torch.Tensor):
        return saved.clone() if isinstance(value, torch.Tensor) else saved.numpy().copy()
    elif isinstance(saved, (list, tuple)):
        old = value if isinstance(value, (list, tuple)) and len(value) == len(saved) else [None] * len(saved)
        return type(saved)(_load(o, x, seen) for o, x in zip(old, saved, strict=True))
    elif isinstance(saved, dict):
        there = value if isinstance(value, dict) else {}
        kept = {name: x for name, x in there.items() if _static(x)}
        return kept | {name: _load(there.get(name), x, seen) for name, x in saved.items()}
    else:
        return saved
    return value


def _integration(data: Any) -> torch.Tensor:
    """All that MuJoCo's next step depends on, as one vector."""
    import mujoco

    which = mujoco.mjtState.mjSTATE_INTEGRATION
    vector = np.empty(mujoco.mj_stateSize(data.model, which))
    mujoco.mj_getState(data.model, data, vector, which)
    return torch.from_numpy(vector)


def _arrays(thing: Any) -> dict[str, np.ndarray]:
    """Every array of MuJoCo's data or model, by name."""
    # Textures are left out: they take megabytes and change only what is drawn.
    names = (name for name in dir(thing) if not name.startswith(("_", "tex_")))
    named = {name: getattr(thing, name, None) for name in names}
    return {
        name: array for name, array in named.items() if isinstance(array, np.ndarray) and array.dtype.kind in "fiub"
    }
