"""Settings per algorithm and environment; `book/results/README.md` tells how they were found (floor 5)."""

from __future__ import annotations

from dataclasses import dataclass

from .agents.ppo import PPOConfig


@dataclass(frozen=True)
class Preset:
    """A configuration, and for how many environment steps it was meant to train."""

    config: PPOConfig
    total_steps: int


PRESETS: dict[tuple[str, str], Preset] = {
    ("ppo", "Pendulum-v1"): Preset(
        PPOConfig(
            num_envs=32,
            rollout_steps=64,
            minibatch_size=512,
            epochs=10,
            gamma=0.95,
            lam=0.95,
            learning_rate=3e-3,
            normalize_reward=True,
        ),
        total_steps=98_304,
    ),
    ("ppo", "CartPole-v1"): Preset(
        PPOConfig(
            num_envs=32,
            rollout_steps=64,
            minibatch_size=256,
            epochs=10,
            gamma=0.99,
            lam=0.95,
            learning_rate=1e-3,
        ),
        total_steps=65_536,
    ),
}


def preset(algorithm: str, env_id: str) -> Preset:
    """The settings kept for `algorithm` on `env_id`.

    Raises ValueError: there are none; the message lists those kept.
    """
    if (algorithm, env_id) not in PRESETS:
        kept = ", ".join(f"{a} on {e}" for a, e in PRESETS)
        raise ValueError(f"preset: wanted one of: {kept}; got {algorithm} on {env_id}")
    return PRESETS[algorithm, env_id]
