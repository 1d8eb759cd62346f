"""Settings for an environment that has no preset: a family of them, chosen by its spaces and its time limit.

| family | taken where | settings of | changed | steps (MPO) |
|---|---|---|---|---|
| `discrete` | actions are choices | LunarLander | gamma 0.99, observations normalized | 512 000 (102 400) |
| `control` | continuous, at most 11 observations, bounded | Pendulum | the same; for PPO below | 512 000 (102 400) |
| `body` | continuous, more observations or unbounded ones | Ant | | a million (320 000) |
| `humanoid` | a body with 12 actions or more | Humanoid | | a million (320 000) |
| `tokens` | prompts are answered as wholes | its own | | 102 400 answers |

In each of them a rollout follows the time limit of an episode, 1000 steps where none is registered. REINFORCE waits for
whole episodes. TRPO, PPO and V-MPO take an eighth of one, as a power of two between 64 and 512, from so many
environments that an update has 2048 steps. The presets named above have these lengths too, or nearly, but Pendulum's,
which take whole episodes. PPO's control takes a rate of 1e-3 and quarters of an update as minibatches. A2C and MPO
learn after every eight steps. MPO's observations stay as they are: its critic normalizes by a layer of its own.

A default is where to start. What an environment needs beyond it, nobody has tried.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields, replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ..agents import AGENTS
from ..checks import require_one_of
from ..language import TASKS, SequenceConfig
from ..worlds.envs import make_env
from ..worlds.numpy_backed import registered_id
from .presets import BODY, HUMANOID, LUNAR_LANDER, PENDULUM, PRESETS, Preset

TIME_LIMIT = 1_000  # steps; of MuJoCo's episodes, and of nearly all of the Control Suite's
MANY = 12  # observations or actions, of a body
ROWS = 2_048  # steps of one update
SHORTEST, LONGEST = 64, 512  # rollouts


WHY = {"body": " (its observations are unbounded, or many)", "humanoid": " (its actions are many)"}


class Facts(NamedTuple):
    """What is known of an environment before anybody has trained on it."""

    family: str  # `discrete`, `control`, `body`, `humanoid` or `tokens`
    time_limit: int | None  # of an episode, steps; None: nothing is registered


def facts(env_id: str, *, backend: str = "auto") -> Facts:
    """Make one environment, as `make_env` does, and read its facts. Raises what `make_env` raises."""
    backend = "gymnasium" if backend == "parallel" else backend  # the same environments, without a process
    with closing(make_env(env_id, backend=backend)) as env:
        spec, inner = env.spec, getattr(env, "env", None)
        if inner is None:  # torch-native
            bounded, limit = True, env.max_steps
        else:
            space = getattr(inner, "single_observation_space", inner.observation_space)  # EnvPool has but the latter
            bounded = np.isfinite([space.low, space.high]).all()
            registered = inner.envs[0].spec if hasattr(inner, "envs") else inner.spec.config
            limit = getattr(registered, "max_episode_steps", None)
    if env_id in TASKS:
        return Facts("tokens", limit)
    if not spec.action_dim:
        return Facts("discrete", limit)
    if bounded and spec.obs_dim < MANY:
        return Facts("control", limit)
    return Facts("body" if spec.action_dim < MANY else "humanoid", limit)


def episode_limit(env_id: str) -> int:
    """Steps of a whole episode: the official environment's time limit, `TIME_LIMIT` where none is registered."""
    if env_id in TASKS:
        return 1
    official = gym.registry.get(registered_id(env_id).rpartition(":")[2])
    return getattr(official, "max_episode_steps", None) or TIME_LIMIT


class Evaluations(NamedTuple):
    """How a training is evaluated."""

    every: int  # steps between two evaluations while it trains
    episodes: int  # of each of them
    final: int  # episodes of the one of the trained agent


def evaluations(
    algorithm: str, env_id: str, total_steps: int, every: int | None, episodes: int | None, *, usual: int
) -> Evaluations:
    """What is asked for; with a preset, or where only one of the two is given, 20 evaluations of `usual` episodes.

    Without both they take at most a fifth of the steps, or 3 evaluations of 3 episodes if that is more: there are 20 of
    50 episodes, then fewer evaluations, then fewer episodes. The final one has 100 episodes, but at least 10, and no
    more steps than the training. An episode counts as long as `episode_limit`.
    """
    has_preset, limit = (algorithm, env_id) in PRESETS, episode_limit(env_id)
    final = 100 if has_preset else min(max(total_steps // limit, 10), 100)
    if has_preset or every or episodes:
        return Evaluations(every or max(1, total_steps // 20), episodes or usual, final)
    room = max(total_steps // 5, 3 * 3 * limit)
    times = min(max(room // (50 * limit), 3), 20)
    return Evaluations(-(-total_steps // times), min(max(room // (times * limit), 3), 50), final)


def settings_for(algorithm: str, env_id: str, *, backend: str = "auto") -> Preset:
    """The preset kept for `algorithm` on `env_id`; without one, the defaults of the environment's family, named in it.

    An algorithm of your own in `AGENTS` has no family: its configuration's own defaults are taken.
    Raises ValueError: an unknown algorithm; and whatever `make_env` raises where the environment has no preset.
    """
    require_one_of(tuple(AGENTS), algorithm=algorithm)
    return PRESETS.get((algorithm, env_id)) or defaults_for(algorithm, env_id, backend=backend)


def defaults_for(algorithm: str, env_id: str, *, backend: str = "auto") -> Preset:
    """The defaults of the environment's family, also where a preset is kept. Raises what `make_env` raises."""
    known = facts(env_id, backend=backend)
    family = FAMILIES[known.family]
    if algorithm not in family:
        config = AGENTS[algorithm][1]()
        return Preset(config, _whole_rollouts(512_000, config), f"{type(config).__name__}'s own")
    usual = family[algorithm]
    config = replace(usual.config, **_lengths(usual.config, known.time_limit or TIME_LIMIT))
    return Preset(config, _whole_rollouts(usual.total_steps, config), known.family)


def announcement(algorithm: str, env_id: str, settings: Preset, given: set[str], evaluated: Evaluations) -> str:
    """One line for a user: there is no preset, which defaults were taken instead, and the main ones of them.

    given: settings, or `steps`, that a file gives and no family. Empty if the file gives them all.
    Of a preset that nobody has trained it says so.
    """
    if {"steps", *(field.name for field in fields(settings.config))} <= given:
        return ""
    if settings.untrained:
        return (
            f"the preset for {algorithm} on {env_id} is untrained: its settings are those of other tasks of its "
            "family, and what they reach here nobody has seen"
        )
    step = "clip_eps" if getattr(settings.config, "objective", "") == "clip" else "kl_bound"
    shown = ["num_envs", "rollout_steps", "gamma", "learning_rate", "policy_learning_rate", step, "normalize_obs"]
    own = [name for name in shown if hasattr(settings.config, name) and name not in given]
    family = f"taken are the defaults of the family {settings.family!r}{WHY.get(settings.family, '')}"
    parts = [family + " for what the file leaves open" if given else family]
    parts += [f"{name} {getattr(settings.config, name)}" for name in own]
    parts += [] if "steps" in given else [f"over {settings.total_steps} steps"]
    parts += [f"evaluated every {evaluated.every} steps over {evaluated.episodes} episodes"]
    return f"no preset for {algorithm} on {env_id}: {', '.join(parts)}; --config.…, --steps and --eval-… change them"


def _lengths(config: Any, time_limit: int) -> dict[str, int]:
    """The length of a rollout and the number of environments that fit episodes of `time_limit` steps."""
    if getattr(config, "whole_episodes", False):
        return {"rollout_steps": time_limit}
    if config.batch_size < ROWS // 2:  # A2C and MPO, which learn after every few steps
        return {}
    eighth = 1 << (max(1, time_limit // 8) - 1).bit_length()  # rounded up to a power of two
    steps = min(max(eighth, SHORTEST), LONGEST)
    return {"rollout_steps": steps, "num_envs": ROWS // steps}


def _whole_rollouts(steps: int, config: Any) -> int:
    return -(-steps // config.batch_size) * config.batch_size


def _general(presets: dict[str, Preset], **ppo: Any) -> dict[str, Preset]:
    """Settings of a task made general; `ppo` are more changes of PPO's."""
    general = {name: kept.changed(512_000, gamma=0.99, normalize_obs=True) for name, kept in presets.items()}
    general["mpo"] = presets["mpo"].changed(102_400, gamma=0.99)  # its critic normalizes by a layer of its own
    general["ppo"] = general["ppo"].changed(**ppo)
    return general


FAMILIES: dict[str, dict[str, Preset]] = {
    "discrete": _general(LUNAR_LANDER),
    "control": _general(PENDULUM, learning_rate=1e-3, minibatch_size=ROWS // 4),
    "body": BODY,
    "humanoid": HUMANOID,
    "tokens": {"sequence": Preset(SequenceConfig(), 102_400)},
}
