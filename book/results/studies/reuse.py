"""`python -m book.results.studies.reuse`: along the gradient steps of one batch, what the batch says and what is true.

An agent of the preset is trained for a while and stopped. Then it takes up to 160 gradient steps on one batch that its
policy collects, with its own loss and optimizer. On the way are written down: the surrogate on that batch; the same
number on fresh data of the same behavior policy, which no step has seen; the return of fresh episodes of the policy as
it then is; and the KL. How often a step sees the same rows is set by their number alone: all minibatches have 500 rows,
so that 160 steps are 160 passes over 400 rows, 40 over 2000, 10 over 8000, and one over 80 000.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import cache, partial
from itertools import chain, count
from typing import NamedTuple

import torch

from book.results.studies.record import asked
from minerva_lite.agents.ppo import PPOAgent
from minerva_lite.experience.rollout import Batch, collect
from minerva_lite.training.presets import preset
from minerva_lite.worlds.envs import make_env

UPDATES = {"Pendulum-v1": 7, "CartPole-v1": 4}  # of the preset, after which the agent is stopped: of 50, of 32
WARM = {"Pendulum-v1": 0, "CartPole-v1": 500}  # steps before a batch begins: Pendulum's 200 rows are whole episodes
STEPS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 40, 60, 80, 120, 160)
ROWS = (400, 2000, 8000, 80_000)
CLIPS = {"none": 1e6, "0.1": 0.1, "0.2": 0.2, "0.4": 0.4}
T, MINIBATCH, EPISODES, FRESH = 200, 500, 500, 40_000


class Row(NamedTuple):
    """One moment of one batch. The surrogates are means of ratio times advantage, the advantages at spread 1."""

    env_id: str
    seed: int
    rows: int
    clip: str
    step: int
    on_batch: float  # surrogate, on the rows that are learned from
    on_fresh: float  # surrogate, on 40 000 rows of the same behavior policy that are not
    returned: float  # mean return of 500 fresh episodes of the policy as it is now
    kl_batch: float  # mean KL(behavior || now) over the states of the batch, nats
    kl_fresh: float  # the same over the fresh states


@cache  # one agent begins with all batches of its seed
def trained(env_id: str, seed: int, updates: int) -> tuple[PPOAgent, float]:
    """The preset's agent after so many updates, and the share of its training that is over."""
    settings = preset("ppo", env_id)
    env = make_env(env_id, settings.config.num_envs, seed=seed)
    agent = PPOAgent(settings.config, env.spec, seed=seed, device="cpu")
    obs = env.reset()
    for update in range(updates):
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout, progress=update * settings.config.batch_size / settings.total_steps)
    return agent, updates * settings.config.batch_size / settings.total_steps


def batch_of(agent: PPOAgent, rows: int, seed: int) -> Batch:
    """Rows of the agent's policy with its critic's advantages: 200 steps of `rows` / 200 environments."""
    env_id = agent.spec.env_id
    env = make_env(env_id, rows // T, seed=seed)
    twin = copy.deepcopy(agent)
    twin.generator.manual_seed(seed)
    obs = env.reset()
    if WARM[env_id]:
        obs = collect(twin, env, obs, WARM[env_id])[1]
    return twin.prepare(collect(twin, env, obs, T)[0])


@torch.no_grad()
def surrogate(agent: PPOAgent, batch: Batch) -> tuple[float, float]:
    """The mean of ratio times advantage, shifted and scaled to mean 0 and spread 1; and the mean KL."""
    params = agent.policy(batch.obs)
    ratio = (agent.policy.log_prob(params, batch.action) - batch.behavior_log_prob).exp()
    advantage = (batch.advantage - batch.advantage.mean()) / batch.advantage.std(correction=0)
    return float((ratio * advantage).mean()), float(agent.policy.kl(batch.behavior_params, params).mean())


@torch.no_grad()
def true_return(agent: PPOAgent, seed: int, episodes: int = EPISODES) -> float:
    """Mean return of the policy as it acts, over fresh episodes; the starts and the noise are the same for all."""
    env, twin = make_env(agent.spec.env_id, episodes, seed=seed), copy.deepcopy(agent)
    twin.generator.manual_seed(seed)
    obs, total, alive = env.reset(), torch.zeros(episodes), torch.ones(episodes, dtype=torch.bool)
    while alive.any():
        step = env.step(twin.policy.to_env(twin.act(obs)[0]))
        total += step.reward * alive
        alive &= ~(step.terminated | step.truncated)
        obs = step.obs
    return float(total.mean())


def climb(
    agent: PPOAgent,
    progress: float,
    rows: int,
    clip: str,
    seed: int,
    steps: tuple[int, ...] = STEPS,
) -> list[Row]:
    """Take gradient steps on one batch, and look at the policy on the way. The agent itself stays as it is."""
    batch, fresh = batch_of(agent, rows, seed + 1000), batch_of(agent, FRESH, seed + 2000)
    climber = copy.deepcopy(agent)
    climber.config = dataclasses.replace(climber.config, clip_eps=CLIPS[clip])
    climber.generator.manual_seed(seed)
    climber.set_learning_rate(progress)
    # Epoch after epoch, without end.
    source = chain.from_iterable(batch.minibatches(MINIBATCH, climber.generator) for _ in count())
    found = []
    for step in range(steps[-1] + 1):
        if step in steps:
            (on_batch, kl_batch), (on_fresh, kl_fresh) = surrogate(climber, batch), surrogate(climber, fresh)
            returned = true_return(climber, seed + 3000)
            name = agent.spec.env_id, seed, rows, clip, step
            found.append(Row(*name, on_batch, on_fresh, returned, kl_batch, kl_fresh))
        if step < steps[-1]:
            climber.gradient_step(climber.loss(next(source))[0])
    return found


def curve(env_id: str, seed: int, rows: int, clip: str) -> list[Row]:
    """All rows of one batch."""
    return climb(*trained(env_id, seed, UPDATES[env_id]), rows, clip, seed)


if __name__ == "__main__":
    seeds = {"type": int, "nargs": "+", "default": [0, 1, 2, 3, 4]}
    record, options = asked(__spec__.name, __doc__, Row, digits=5, usual="ppo_reuse.csv", seeds=seeds)
    record.fill(
        ((env_id, seed, rows, clip), partial(curve, env_id, seed, rows, clip))
        for seed in options.seeds
        for env_id in UPDATES
        for clip in CLIPS
        for rows in ROWS
        if rows == 2000 or clip in ("none", "0.2")
    )
