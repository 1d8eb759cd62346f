"""Presets with some settings changed, by name, for `study` to compare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

# What "--variants" may name, algorithm by algorithm: the preset, or the preset with settings changed. A function makes
# the new setting of the preset's own.
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "reinforce": {
        "preset": {},
        "no baseline": {"baseline": "none"},
        "critic as baseline": {"baseline": "value"},
        "whole-episode credit": {"baseline": "none", "reward_to_go": False},
        "no baseline, raw advantages": {"baseline": "none", "normalize_advantage": False},
        "whole-episode credit, raw": {"baseline": "none", "reward_to_go": False, "normalize_advantage": False},
        "discounted states": {"discount_states": True},
    },
    "a2c": {
        "preset": {},
        "lambda = 1 (returns)": {"estimator": "returns"},
        "lambda = 0 (TD)": {"estimator": "td"},
        "raw rewards": {"normalize_reward": False},
        "no entropy bonus": {"entropy_coef": 0.0},
    },
    "trpo": {
        "preset": {},
        "no line search": {"step_rule": "natural"},
        "damping 0.1": {"damping": 0.1},
        "KL 0.01": {"kl_bound": 0.01},
        "constant bound": {"anneal_kl": False},
        "Adam critic": {"value_fit": "adam"},
    },
    # What each implementation detail of PPO is worth.
    "ppo": {
        "preset": {},
        "no clipping": {"clip_eps": 1e6},
        "clip at 0.1": {"clip_eps": 0.1},
        "clip at 0.4": {"clip_eps": 0.4},
        "adaptive KL penalty": {"objective": "kl_penalty"},
        "stop at KL 0.02": {"target_kl": 0.02},
        "stop, no clip": {"target_kl": 0.02, "clip_eps": 1e6},
        "1 epoch": {"epochs": 1},
        # Minibatches of a tenth make as many steps of one epoch as ten epochs have: 40 on Pendulum, 79 on CartPole.
        "1 epoch, as many steps": {"epochs": 1, "minibatch_size": lambda size: math.ceil(size / 10)},
        "1 epoch, rate x 3": {"epochs": 1, "learning_rate": lambda rate: 3 * rate},
        "raw advantages": {"normalize_advantage": False},
        # As many rows an update, of a third of an episode of Pendulum: the environments start together.
        "short rollouts": {"num_envs": lambda count: 3 * count, "rollout_steps": lambda steps: steps // 3},
        "lambda = 1 (returns)": {"estimator": "returns"},
        "lambda = 0 (TD)": {"estimator": "td"},
        "clipped value loss": {"clip_value": True},
        "entropy bonus 0.01": {"entropy_coef": 0.01},
        "constant learning rate": {"anneal_lr": False},
        "no gradient clipping": {"max_grad_norm": 1e6},
        "normalized observations": {"normalize_obs": True},
        "scaled rewards": {"normalize_reward": True},
        "SGD with momentum": {"optimizer": "sgd", "momentum": 0.9},
    },
    "mpo": {
        "preset": {},
        "retrace": {"critic_target": "retrace", "sequence_length": 4, "minibatch_size": 32},
        "2 actions": {"action_samples": 2},
        "4 actions": {"action_samples": 4},
        "64 actions": {"action_samples": 64},
        "std bound as the mean's": {"eps_std": lambda bound: 50 * bound},  # 0.05 on Pendulum
        "no KL bounds": {"eps_mean": 1e3, "eps_std": 1e3},
        "eps_eta 0.01": {"eps_eta": 0.01},
        "eps_eta 1": {"eps_eta": 1.0},
        "targets every 2": {"target_period": 2},
        "targets every 128": {"target_period": 128},
        "action penalty": {"action_penalty": True},
    },
    "vmpo": {
        "preset": {},
        "all samples": {"top_k_frac": 1.0},
        "best tenth": {"top_k_frac": 0.1},
        "eps_eta 0.01": {"eps_eta": 0.01},
        "eps_eta 0.1": {"eps_eta": 0.1},
        "no KL bounds": {"eps_mean": 1e3, "eps_std": 1e3},
        "5 inner steps": {"inner_steps": 5},
        "targets every 5": {"target_period": 5},
        "raw rewards": {"normalize_reward": False},
    },
}


def varied(config: Any, changes: Mapping[str, Any]) -> Any:
    """A configuration with some settings changed; a function among `changes` is given the setting as it was."""
    return replace(config, **{n: new(getattr(config, n)) if callable(new) else new for n, new in changes.items()})
