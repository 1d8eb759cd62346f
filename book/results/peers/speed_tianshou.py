"""Steps a second of Tianshou's PPO on one row of the throughput table. It normalizes observations, not rewards."""

from __future__ import annotations

import contextlib
import io

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, VectorEnvNormObs
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch.distributions import Independent, Normal

from .measure import Clock, report_speed, task
from .throughput_rows import TASKS, Task


def networks(space: gym.Space, shape: tuple[int, ...]) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Policy and critic, each with a body of its own."""
    bodies = (Net(state_shape=shape, hidden_sizes=[64, 64], activation=torch.nn.Tanh) for _ in range(2))
    if isinstance(space, gym.spaces.Discrete):
        actor = DiscreteActor(preprocess_net=next(bodies), action_shape=space.n, softmax_output=False)
        policy = DiscreteActorPolicy(actor=actor, action_space=space)
        return policy, DiscreteCritic(preprocess_net=next(bodies))
    actor = ContinuousActorProbabilistic(preprocess_net=next(bodies), action_shape=space.shape, unbounded=True)
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=lambda params: Independent(Normal(*params), 1),
        action_space=space,
        action_scaling=True,
        action_bound_method="clip",
    )
    return policy, ContinuousCritic(preprocess_net=next(bodies))


def run(task: Task) -> tuple[int, float, float]:
    """Environment steps, seconds, CPU seconds; building is counted."""
    np.random.seed(0)
    torch.manual_seed(0)
    clock = Clock()
    env = DummyVectorEnv([lambda: gym.make(task.env_id) for _ in range(task.num_envs)])
    if task.normalize:
        env = VectorEnvNormObs(env)
    env.seed(0)
    one = gym.make(task.env_id)
    policy, critic = networks(one.action_space, one.observation_space.shape)
    algorithm = PPO(
        policy=policy,
        critic=critic,
        optim=AdamOptimizerFactory(lr=task.learning_rate),
        gamma=task.gamma,
        gae_lambda=task.lam,
        eps_clip=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        max_batchsize=4096,
        advantage_normalization=True,
    )
    collector = Collector(algorithm, env, VectorReplayBuffer(task.rollout, task.num_envs))
    params = OnPolicyTrainerParams(
        max_epochs=1,
        epoch_num_steps=task.total_steps,
        collection_step_num_env_steps=task.rollout,
        batch_size=task.minibatch,
        update_step_num_repetitions=task.epochs,
        training_collector=collector,
        verbose=False,
        show_progress=False,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        algorithm.run_training(params)
    return task.total_steps, *clock.seconds()


if __name__ == "__main__":
    report_speed(run(TASKS[task(task=TASKS).task]), "tianshou")
