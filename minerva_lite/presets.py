"""Settings per algorithm and environment; `book/results/README.md` tells how they were found (floor 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .agents import A2CConfig, MPOConfig, PPOConfig, REINFORCEConfig, TRPOConfig, VMPOConfig
from .on_policy import OnPolicyConfig


@dataclass(frozen=True)
class Preset:
    """A configuration, and for how many environment steps it was meant to train."""

    config: OnPolicyConfig | MPOConfig
    total_steps: int


PRESETS: dict[tuple[str, str], Preset] = {
    ("reinforce", "CartPole-v1"): Preset(
        REINFORCEConfig(num_envs=16, rollout_steps=500, gamma=0.99, baseline="others", learning_rate=1e-2),
        total_steps=200_000,
    ),
    ("a2c", "CartPole-v1"): Preset(
        A2CConfig(
            num_envs=8,
            rollout_steps=8,
            gamma=0.99,
            lam=0.95,
            learning_rate=1.5e-3,
            entropy_coef=0.01,
            normalize_reward=True,
        ),
        total_steps=200_000,
    ),
    # Pendulum's episodes last 200 steps: rollouts of whole ones see the swing-up at every update.
    ("trpo", "Pendulum-v1"): Preset(
        TRPOConfig(num_envs=10, rollout_steps=200, gamma=0.95, lam=0.95, kl_bound=0.02, anneal_kl=True, damping=0.01),
        total_steps=100_000,
    ),
    ("trpo", "CartPole-v1"): Preset(
        TRPOConfig(num_envs=32, rollout_steps=64, gamma=0.99, lam=0.95, anneal_kl=True),
        total_steps=65_536,
    ),
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
    # 32 batches after every 64 steps: MPO learns from each step many times, and needs few of them.
    ("mpo", "Pendulum-v1"): Preset(
        MPOConfig(
            num_envs=8,
            rollout_steps=8,
            learner_steps=32,
            minibatch_size=64,
            gamma=0.97,
            action_samples=16,
            value_samples=8,
            eps_mean=0.05,
            eps_std=1e-3,
            target_period=16,
            critic_learning_rate=3e-3,
            policy_learning_rate=3e-3,
            anneal_lr=True,
        ),
        total_steps=6_400,
    ),
    ("vmpo", "Pendulum-v1"): Preset(
        VMPOConfig(
            num_envs=10,
            rollout_steps=200,
            gamma=0.95,
            lam=0.95,
            eps_eta=0.5,
            policy_learning_rate=3e-3,
            value_learning_rate=3e-3,
            normalize_reward=True,
        ),
        total_steps=120_000,
    ),
    ("vmpo", "CartPole-v1"): Preset(
        VMPOConfig(
            num_envs=32,
            rollout_steps=64,
            gamma=0.99,
            lam=0.95,
            eps_eta=0.5,
            policy_learning_rate=3e-3,
            value_learning_rate=3e-3,
            normalize_reward=True,
        ),
        total_steps=65_536,
    ),
    ("reinforce", "Pendulum-v1"): Preset(
        REINFORCEConfig(num_envs=16, rollout_steps=200, gamma=0.95, baseline="others", learning_rate=1e-2),
        total_steps=1_000_000,
    ),
    ("reinforce", "LunarLander-v3"): Preset(
        REINFORCEConfig(num_envs=16, gamma=0.99, baseline="others", learning_rate=5e-3),
        total_steps=500_000,
    ),
    ("a2c", "Pendulum-v1"): Preset(
        A2CConfig(num_envs=8, rollout_steps=8, gamma=0.95, lam=0.9, learning_rate=1e-3, normalize_reward=True),
        total_steps=512_000,
    ),
    ("a2c", "LunarLander-v3"): Preset(
        A2CConfig(
            num_envs=8,
            rollout_steps=8,
            gamma=0.995,
            lam=0.95,
            learning_rate=1e-3,
            entropy_coef=0.01,
            normalize_reward=True,
        ),
        total_steps=512_000,
    ),
    ("trpo", "LunarLander-v3"): Preset(
        TRPOConfig(num_envs=16, rollout_steps=128, gamma=0.99, lam=0.98, kl_bound=0.02, normalize_reward=True),
        total_steps=512_000,
    ),
    ("ppo", "LunarLander-v3"): Preset(
        PPOConfig(
            num_envs=16,
            rollout_steps=256,
            minibatch_size=256,
            epochs=10,
            gamma=0.995,
            lam=0.98,
            learning_rate=1e-3,
            entropy_coef=0.01,
            normalize_reward=True,
        ),
        total_steps=512_000,
    ),
    ("mpo", "CartPole-v1"): Preset(
        MPOConfig(
            num_envs=8,
            rollout_steps=8,
            learner_steps=32,
            minibatch_size=64,
            gamma=0.99,
            eps_mean=0.01,
            target_period=16,
            critic_learning_rate=3e-3,
            policy_learning_rate=3e-3,
            anneal_lr=True,
        ),
        total_steps=12_800,
    ),
    ("mpo", "LunarLander-v3"): Preset(
        MPOConfig(
            num_envs=8,
            rollout_steps=8,
            learner_steps=32,
            minibatch_size=128,
            gamma=0.99,
            eps_mean=0.01,
            target_period=32,
            anneal_lr=True,
            hidden=(128, 128),
        ),
        total_steps=102_400,
    ),
    ("vmpo", "LunarLander-v3"): Preset(
        VMPOConfig(
            num_envs=16,
            rollout_steps=128,
            gamma=0.99,
            lam=0.95,
            eps_eta=0.5,
            policy_learning_rate=3e-3,
            value_learning_rate=3e-3,
            normalize_reward=True,
        ),
        total_steps=512_000,
    ),
}


# Bodies of six to twenty-one joints that run for 1000 steps or until they fall; torques within [-1, 1].
LOCOMOTION = (
    "HalfCheetah-v5",
    "Walker2d-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "Ant-v5",
    "dm_control/cheetah/run",
    "dm_control/walker/walk",
    "dm_control/walker/run",
    "dm_control/humanoid/stand",
    "dm_control/humanoid/walk",
    "dm_control/humanoid/run",
)


def locomotion(algorithm: str, config: OnPolicyConfig | MPOConfig, total_steps: int, **humanoid: Any) -> None:
    """Keep one object of settings for every locomotion task; the humanoids' differ by `humanoid`."""
    for env_id in LOCOMOTION:
        settings = replace(config, **humanoid) if "umanoid" in env_id else config
        PRESETS[algorithm, env_id] = Preset(settings, total_steps)


locomotion(
    "reinforce",
    REINFORCEConfig(
        num_envs=8,
        gamma=0.99,
        baseline="others",
        learning_rate=1e-2,
        normalize_obs=True,
        log_std_init=-0.5,
    ),
    total_steps=1_000_000,
    hidden=(128, 128),
)
locomotion(
    "a2c",
    A2CConfig(
        num_envs=8,
        rollout_steps=8,
        gamma=0.99,
        lam=0.9,
        learning_rate=1e-3,
        normalize_obs=True,
        normalize_reward=True,
        log_std_init=-0.5,
    ),
    total_steps=1_000_000,
    hidden=(128, 128),
)
locomotion(
    "trpo",
    TRPOConfig(
        num_envs=16,
        rollout_steps=64,
        gamma=0.99,
        lam=0.95,
        kl_bound=0.02,
        normalize_obs=True,
        normalize_reward=True,
        log_std_init=-0.5,
    ),
    total_steps=1_000_448,
    hidden=(256, 128),
)
locomotion(
    "ppo",
    PPOConfig(
        num_envs=16,
        rollout_steps=128,
        minibatch_size=64,
        epochs=10,
        gamma=0.99,
        lam=0.95,
        learning_rate=3e-4,
        normalize_obs=True,
        normalize_reward=True,
        log_std_init=-0.5,
    ),
    total_steps=1_001_472,
    hidden=(256, 128),
)
locomotion(
    "mpo",
    MPOConfig(
        num_envs=8,
        rollout_steps=8,
        learner_steps=16,
        warmup_steps=5_000,
        replay_steps=400_000,
        minibatch_size=128,
        gamma=0.99,
        action_samples=16,
        value_samples=16,
        eps_mean=5e-3,
        eps_std=1e-4,
        target_period=100,
        critic_learning_rate=1e-3,
        policy_learning_rate=1e-3,
        hidden=(128, 128),
        log_std_init=-0.5,
    ),
    total_steps=400_000,
    hidden=(256, 256),
)
locomotion(
    "vmpo",
    VMPOConfig(
        num_envs=16,
        rollout_steps=128,
        gamma=0.99,
        lam=0.95,
        eps_eta=0.5,
        policy_learning_rate=1e-3,
        value_learning_rate=1e-3,
        normalize_obs=True,
        normalize_reward=True,
        log_std_init=-0.5,
    ),
    total_steps=1_001_472,
    hidden=(256, 128),
)


def preset(algorithm: str, env_id: str) -> Preset:
    """The settings kept for `algorithm` on `env_id`.

    Raises ValueError: there are none; the message lists those kept.
    """
    if (algorithm, env_id) not in PRESETS:
        kept = ", ".join(f"{a} on {e}" for a, e in PRESETS)
        raise ValueError(f"preset: wanted one of: {kept}; got {algorithm} on {env_id}")
    return PRESETS[algorithm, env_id]
