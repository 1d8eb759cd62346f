"""One interface for vector environments: torch-native ones, Gymnasium's and EnvPool's.

An environment whose episode ends starts the next one in the same step: `step.next_obs` is the true successor,
`step.obs` what to act on next. So every row is a real transition, unless `autoreset="next_step"` asks for the other
way. Actions lie in [-1, 1] (or are int64), and the environment rescales them to its own bounds.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import torch

from ..checks import require_count, require_one_of, require_seed
from .numpy_backed import AUTORESET, EnvPoolEnv, GymEnv
from .spec import VectorEnv
from .torch_native import TORCH_ENVS, TorchEnv


@dataclass(frozen=True)
class Registered:
    """A kind of environment that a room above brings along, in which no agent acts step by step."""

    ids: Collection[str]  # those that there are by now
    make: Callable[..., VectorEnv]  # called as `make_env` is, which leaves it to refuse an unknown id
    instead: str  # for the error of an agent that acts step by step: what it is, and which agent learns from it


REGISTERED: dict[str, Registered] = {}  # by how the ids begin
BACKENDS = ("auto", "torch", "gymnasium", "parallel", "envpool")


def make_env(
    env_id: str,
    num_envs: int = 1,
    *,
    backend: str = "auto",
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    stagger: bool = False,
    autoreset: str = "same_step",
) -> TorchEnv | GymEnv | EnvPoolEnv | VectorEnv:
    """A vector environment: any Gymnasium id, `dm_control/<domain>/<task>`, or one of `REGISTERED`: `tokens/<task>`.

    backend: `torch`, `gymnasium` (one process), `parallel` (Gymnasium, one process per environment), `envpool` (by
    EnvPool's id; `evaluate` needs Gymnasium to have one of that name too), or `auto` (torch where there is a
    torch-native twin, Gymnasium otherwise). stagger: start the clocks of torch-native environments at random steps
    below the time limit, so that it does not end all first episodes together. autoreset: `same_step`, or
    `next_step`, Gymnasium's other way: the step after an end is the reset, a phantom row, to which `collect` gives
    restart weight 0.
    Raises ValueError: an unknown id, back end or autoreset, fewer than one environment, a seed that is none, `stagger`
    for one that is not torch-native, `next_step` for one that is not Gymnasium's, or spaces no agent here can handle,
    pixels among them. EnvironmentFailed: the environment's own code raised, here or in a step.
    ImportError: the optional packages of the back end or of dm_control are missing.
    `gymnasium.error.DependencyNotInstalled`: MuJoCo or Box2D is missing.
    """
    require_one_of(BACKENDS, backend=backend)
    _require_form(env_id)
    require_one_of(tuple(AUTORESET), autoreset=autoreset)
    require_count(num_envs=num_envs)
    where: dict[str, Any] = {"seed": require_seed(seed=seed), "device": device, "dtype": dtype}
    for start, kind in REGISTERED.items():
        if env_id.startswith(start):
            options = {"backend": backend, "stagger": stagger, "autoreset": autoreset}
            return kind.make(env_id, num_envs, **where, **options)
    if backend == "torch" and env_id not in TORCH_ENVS:
        raise ValueError(f"env_id: wanted one of {', '.join(TORCH_ENVS)} for backend torch; got {env_id!r}")
    native = backend in ("auto", "torch") and env_id in TORCH_ENVS
    if autoreset != "same_step" and (native or backend == "envpool"):
        raise ValueError(
            f"autoreset: wanted same_step for back end {'torch' if native else backend}; got {autoreset}, which "
            "gymnasium and parallel have"
        )
    if native:
        twin = TORCH_ENVS[env_id](num_envs, stagger=stagger, **where)
        if twin.spec.own is None and env_id in gym.registry:  # actions in the units of Gymnasium's, for `predict`
            with closing(GymEnv(env_id, 1)) as official:
                twin.spec = replace(twin.spec, own=official.spec.own)
        return twin
    if stagger:
        here = f"back end {backend}" if env_id in TORCH_ENVS else env_id
        raise ValueError(f"stagger: wanted False for {here}, only torch-native clocks can be set; got True")
    if backend == "envpool":
        return EnvPoolEnv(env_id, num_envs, **where)
    try:
        return GymEnv(env_id, num_envs, parallel=backend == "parallel", autoreset=autoreset, **where)
    except gym.error.DependencyNotInstalled:
        raise  # the id is known, and the message says what to install
    except ModuleNotFoundError as error:
        if ":" not in env_id:
            raise  # it says which optional package is missing
        why = str(error).split(". ")[0]
        raise ValueError(
            f"env_id: wanted <module>:<id> with a module that can be imported, or an id alone; got {env_id!r} ({why})"
        ) from error
    except gym.error.Error as error:
        hint = "".join(f"; did you mean {name}?" for name in _like(env_id)) or f" ({error})"
        raise ValueError(f"env_id: wanted a registered Gymnasium id; got {env_id!r}{hint}") from error


def _require_form(env_id: str) -> None:
    """Raise ValueError if an id is none of any form: Gymnasium's errors would name a form that is not meant."""
    if not isinstance(env_id, str) or not env_id.strip():
        raise ValueError(f"env_id: wanted a name, such as CartPole-v1 or dm_control/cheetah/run; got {env_id!r}")
    if env_id.split("/")[0] == "dm_control" and not re.fullmatch(r"dm_control/(\w+/\w+|[\w-]+-v\d+)", env_id):
        raise ValueError(f"env_id: wanted dm_control/<domain>/<task>, such as dm_control/cheetah/run; got {env_id!r}")
    if ":" in env_id and not re.fullmatch(r"\w+(\.\w+)*:[^:]+", env_id):
        raise ValueError(f"env_id: wanted <module>:<id>, where one is to be imported, or an id alone; got {env_id!r}")


def _like(env_id: str) -> list[str]:
    """The registered id whose spelling comes nearest, dm_control's as they are named here; none if none comes near."""
    names = [re.sub("^(dm_control/.*)-(.*)-v0$", r"\1/\2", name) for name in gym.registry]
    known = {name.lower(): name for name in names}
    module, colon, name = env_id.rpartition(":")
    return [module + colon + known[near] for near in difflib.get_close_matches(name.lower(), known, n=1)]
