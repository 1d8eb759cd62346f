"""Settings per environment and algorithm; `book/results/README.md` tells how they were found."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..agents import A2CConfig, MPOConfig, PPOConfig, REINFORCEConfig, TRPOConfig, VMPOConfig
from ..agents.on_policy import OnPolicyConfig


@dataclass(frozen=True)
class Preset:
    """A configuration, and for how many environment steps it was meant to train."""

    config: OnPolicyConfig | MPOConfig
    total_steps: int
    family: str = ""  # whose defaults they are, where nobody has looked for any (`defaults.settings_for`)
    untrained: bool = False  # nobody has trained with them on this task: they are those of a task like it


CARTPOLE = {
    "reinforce": Preset(
        REINFORCEConfig(num_envs=16, rollout_steps=500, gamma=0.99, baseline="others", learning_rate=1e-2),
        total_steps=200_000,
    ),
    "a2c": Preset(
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
    "trpo": Preset(
        TRPOConfig(num_envs=32, rollout_steps=64, gamma=0.99, lam=0.95, anneal_kl=True),
        total_steps=65_536,
    ),
    "ppo": Preset(
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
    "mpo": Preset(
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
        total_steps=19_200,
    ),
    "vmpo": Preset(
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
}

PENDULUM = {
    # A critic and GAE: with whole returns instead one of two seeds failed, and without a critic, on raw rewards, it
    # ended at -997, and at -876 with a rate of 3e-3.
    "reinforce": Preset(
        REINFORCEConfig(
            num_envs=16,
            rollout_steps=200,
            estimator="gae",
            gamma=0.95,
            lam=0.95,
            learning_rate=1e-2,
            normalize_reward=True,
        ),
        total_steps=1_000_000,
    ),
    "a2c": Preset(
        A2CConfig(num_envs=8, rollout_steps=8, gamma=0.95, lam=0.9, learning_rate=1e-3, normalize_reward=True),
        total_steps=512_000,
    ),
    # Pendulum's episodes last 200 steps: rollouts of whole ones see the swing-up at every update.
    "trpo": Preset(
        TRPOConfig(num_envs=10, rollout_steps=200, gamma=0.95, lam=0.95, kl_bound=0.02, anneal_kl=True, damping=0.01),
        total_steps=100_000,
    ),
    # Whole episodes again: of 64 steps of 32 environments, which start together, many hold late in training nothing but
    # balanced pendulums. Normalization makes full-sized updates of their tiny advantages, and runs lost the task again.
    "ppo": Preset(
        PPOConfig(
            num_envs=10,
            rollout_steps=200,
            minibatch_size=500,
            epochs=10,
            gamma=0.95,
            lam=0.95,
            learning_rate=3e-3,
            normalize_reward=True,
        ),
        total_steps=100_000,
    ),
    # 32 batches after every 64 steps: MPO learns from each step many times, and needs few of them.
    "mpo": Preset(
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
    "vmpo": Preset(
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
}

LUNAR_LANDER = {
    # It learns to hover (0), not to land (200). With the other episodes' mean instead of a critic, on raw rewards, at a
    # rate of 5e-3 and without an entropy bonus it ended at -385.
    "reinforce": Preset(
        REINFORCEConfig(
            num_envs=16,
            gamma=0.99,
            learning_rate=1e-2,
            entropy_coef=0.01,
            normalize_reward=True,
        ),
        total_steps=500_000,
    ),
    "a2c": Preset(
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
    "trpo": Preset(
        TRPOConfig(
            num_envs=16,
            rollout_steps=128,
            gamma=0.995,
            lam=0.98,
            kl_bound=0.01,
            damping=0.01,
            normalize_obs=True,
            normalize_reward=True,
        ),
        total_steps=512_000,
    ),
    "ppo": Preset(
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
    "mpo": Preset(
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
    "vmpo": Preset(
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

# MuJoCo's bodies: episodes of 1000 steps, which Gymnasium's but for the cheetah end earlier with a fall.
# Shared by all six: a first standard deviation of 0.6, a third of the range of an action, as in Tianshou's examples.
# Shared by the five on-policy ones: observations normalized, without which the joint velocities, of ten times the size
# of the angles, fill the tanh layers.
BODY = {
    # The plain gradient: eight episodes an update leave 125 updates, hence the large rate.
    "reinforce": Preset(
        REINFORCEConfig(
            num_envs=8,
            gamma=0.99,
            baseline="others",
            learning_rate=1e-2,
            normalize_obs=True,
            log_std_init=-0.5,
        ),
        total_steps=1_000_000,
    ),
    # RL Zoo's for PyBullet's HalfCheetah (8 steps, lam 0.9, a rate of 1e-3 falling to 0), by Adam, on 8 environments
    # where it has 4.
    "a2c": Preset(
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
    ),
    # Tianshou's 1024 steps an update, and a bound between its 0.01 and the 0.04 that RL Zoo has for HalfCheetah.
    "trpo": Preset(
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
        total_steps=1_001_472,
    ),
    # Tianshou's and CleanRL's, which agree on these: 2048 steps, ten epochs of 64 rows, 3e-4 falling to 0.
    "ppo": Preset(
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
    ),
    # Retrace along four steps, 32 sequences a batch. Without the penalty the means leave [-1, 1], where the clipped Q
    # is flat, and dm_control, which charges nothing for torque, never calls them back (Acme turns it on too). One
    # learner step for four of the environment: a laptop then needs some 15 minutes, 40 for a humanoid.
    "mpo": Preset(
        MPOConfig(
            num_envs=8,
            rollout_steps=8,
            learner_steps=16,
            warmup_steps=5_000,
            replay_steps=320_000,
            minibatch_size=32,
            sequence_length=4,
            critic_target="retrace",
            gamma=0.99,
            action_samples=16,
            value_samples=16,
            eps_mean=0.01,
            eps_std=3e-4,
            action_penalty=True,
            target_period=100,
            critic_learning_rate=1e-3,
            policy_learning_rate=1e-3,
            hidden=(128, 128),
            log_std_init=-0.5,
        ),
        total_steps=320_000,
    ),
    # Small steps on weights within 0.1 nats: larger ones (0.5 nats, and 0.1 of the mean instead of 0.01) were faster at
    # first and then stood still on HalfCheetah, and lost cheetah-run again.
    "vmpo": Preset(
        VMPOConfig(
            num_envs=16,
            rollout_steps=128,
            gamma=0.99,
            lam=0.95,
            eps_eta=0.1,
            eps_mean=0.01,
            eps_std=1e-4,
            policy_learning_rate=1e-3,
            value_learning_rate=1e-3,
            normalize_obs=True,
            normalize_reward=True,
            log_std_init=-0.5,
        ),
        total_steps=1_001_472,
    ),
}

# Found by `tests/studies/search.py`: for TRPO the best of eleven draws and published settings, for PPO RL Zoo's, with
# tanh where it has ReLU. Wide networks, short rollouts, and for PPO a small first standard deviation and small steps.
HALF_CHEETAH = BODY | {
    "trpo": Preset(
        replace(
            BODY["trpo"].config,
            num_envs=8,
            gamma=0.995,
            kl_bound=0.04,
            damping=0.1,
            cg_iterations=20,
            anneal_kl=True,
            value_fit="adam",
            log_std_init=-1.0,
            hidden=(128, 128),
        ),
        total_steps=1_000_448,
    ),
    "ppo": Preset(
        replace(
            BODY["ppo"].config,
            num_envs=4,
            epochs=20,
            gamma=0.98,
            lam=0.92,
            clip_eps=0.1,
            learning_rate=2e-5,
            anneal_lr=False,
            entropy_coef=4e-4,
            vf_coef=0.58,
            max_grad_norm=0.8,
            log_std_init=-2.0,
            hidden=(256, 256),
        ),
        total_steps=1_000_448,
    ),
}

# Wider layers for the humanoids, which have 67 observations and 21 joints in dm_control, 348 and 17 in Gymnasium; the
# rest as for the other bodies.
HUMANOID = {
    "reinforce": Preset(
        replace(BODY["reinforce"].config, hidden=(128, 128), learning_rate=3e-3), total_steps=1_000_000
    ),
    "a2c": Preset(replace(BODY["a2c"].config, hidden=(128, 128), learning_rate=3e-4), total_steps=1_000_000),
    "trpo": Preset(replace(BODY["trpo"].config, hidden=(256, 128), rollout_steps=128), total_steps=1_001_472),
    "ppo": Preset(replace(BODY["ppo"].config, hidden=(256, 128)), total_steps=1_001_472),
    "mpo": Preset(replace(BODY["mpo"].config, hidden=(256, 256)), total_steps=320_000),
    "vmpo": Preset(replace(BODY["vmpo"].config, hidden=(256, 128)), total_steps=1_001_472),
}

TASKS = {
    "CartPole-v1": CARTPOLE,
    "Pendulum-v1": PENDULUM,
    "LunarLander-v3": LUNAR_LANDER,
    "HalfCheetah-v5": HALF_CHEETAH,
    "Walker2d-v5": BODY,
    "Hopper-v5": BODY,
    "Ant-v5": BODY,
    "Humanoid-v5": HUMANOID,
    "dm_control/cheetah/run": BODY,
    "dm_control/walker/walk": BODY,
    "dm_control/walker/run": BODY,
    "dm_control/humanoid/stand": HUMANOID,
    "dm_control/humanoid/walk": HUMANOID,
    "dm_control/humanoid/run": HUMANOID,
}
# Which of them `book/results` has no run of: a test holds the two together.
EVERYBODY = ("reinforce", "a2c", "trpo", "ppo", "mpo", "vmpo")
UNTRAINED = {
    "LunarLander-v3": ("mpo",),
    "Walker2d-v5": EVERYBODY,
    "Hopper-v5": ("reinforce", "a2c", "mpo"),
    "Ant-v5": EVERYBODY,
    "Humanoid-v5": EVERYBODY,
    "dm_control/cheetah/run": ("reinforce", "mpo"),
    "dm_control/walker/walk": ("reinforce", "a2c", "trpo", "ppo", "mpo"),
    "dm_control/walker/run": EVERYBODY,
    "dm_control/humanoid/stand": EVERYBODY,
    "dm_control/humanoid/walk": EVERYBODY,
    "dm_control/humanoid/run": EVERYBODY,
}
# `preset` looks here; settings of your own are one more entry: PRESETS["ppo", "MyEnv-v0"] = Preset(…).
PRESETS: dict[tuple[str, str], Preset] = {
    (algorithm, env_id): replace(settings, untrained=algorithm in UNTRAINED.get(env_id, ()))
    for env_id, kept in TASKS.items()
    for algorithm, settings in kept.items()
}


def preset(algorithm: str, env_id: str) -> Preset:
    """The settings kept for `algorithm` on `env_id`.

    Raises ValueError: there are none; the message lists those kept for either of the two.
    """
    if (algorithm, env_id) not in PRESETS:
        near = [pair for pair in PRESETS if algorithm in pair or env_id in pair] or list(PRESETS)
        kept = ", ".join(f"{a} on {e}" for a, e in near)
        raise ValueError(f"preset: wanted one of: {kept}; got {algorithm} on {env_id}")
    return PRESETS[algorithm, env_id]
