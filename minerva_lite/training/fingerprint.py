"""What decides a run's numbers, as one word: so that recorded runs of two different agents are never drawn as one."""

from __future__ import annotations

import hashlib
import math
from contextlib import closing
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import torch

from ..agents.optimizers import flatten
from ..worlds.envs import make_env

CLOSE = 1e-3  # of two numbers of the same code; plain and vectorized arithmetic gave up to 8e-5 on 24 presets


def settings_digest(config: Any) -> str:
    """The first half of a fingerprint, of every setting that is not the default: eight hexadecimal digits."""
    values = ((field, getattr(config, field.name)) for field in fields(config))
    changed = sorted((field.name, repr(value)) for field, value in values if value != field.default)
    return hashlib.sha256(repr(changed).encode()).hexdigest()[:8]


@lru_cache(maxsize=256)
def fingerprint(agent_class: type, config: Any, env_id: str, backend: str = "auto") -> str:
    """A digest of the settings, and how far two updates move the networks: `1f3a9c20-0.6214356`.

    The digest covers every setting that is not the default. The number is the norm of the step of all parameters over
    two rollouts and updates from seed 0, in float64 on the CPU, where rounding does not show in seven digits. It
    depends on agent, estimator, networks, environment and random draws, so a change of any of them shows, and a
    change that only moves code does not. What two updates do not reach is not seen: a replay that is full, a time
    limit after many steps. Takes a second or two. Raises what `make_env` and the agent raise.
    """
    digest = settings_digest(config)
    if hasattr(config, "warmup_steps"):
        config = replace(config, warmup_steps=0)  # MPO would only collect
    backend = "gymnasium" if backend == "parallel" else backend  # the same environments, without processes
    with closing(make_env(env_id, config.num_envs, seed=0, backend=backend, dtype=torch.float64)) as env:
        agent = agent_class(config, env.spec, seed=0, device="cpu", dtype=torch.float64)
        before, obs = flatten(list(agent.modules.parameters())).detach(), env.reset()
        for progress in (0.0, 0.5):  # what falls over the training has fallen at the second
            rollout, obs = agent.collect(env, obs)
            agent.update(rollout, progress=progress)
        moved = (flatten(list(agent.modules.parameters())).detach() - before).norm()
    return f"{digest}-{moved:.7g}"


def same_fingerprint(one: str, other: str) -> bool:
    """Whether two fingerprints are of the same agent, settings and environment, be it on different processors."""
    (digest, _, number), (its_digest, _, its_number) = one.partition("-"), other.partition("-")
    return digest == its_digest and math.isclose(float(number), float(its_number), rel_tol=CLOSE)
