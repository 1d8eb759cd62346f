"""The presets learn: the final policy, not the best one, on the official environment, over 100 episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minerva_lite import evaluate, make_env, preset, train
from minerva_lite.agents import AGENTS
from minerva_lite.presets import PRESETS
from minerva_lite.variants import ABLATIONS

SOLVED = {"Pendulum-v1": -200.0, "CartPole-v1": 475.0}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))]


TASKS = [*((algorithm, env_id, "preset") for algorithm, env_id in PRESETS), ("mpo", "Pendulum-v1", "retrace")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("algorithm", "env_id", "variant"), TASKS)
def test_the_preset_solves(algorithm, env_id, variant, seed):
    settings = preset(algorithm, env_id)
    config = replace(settings.config, **ABLATIONS[algorithm][variant])
    env = make_env(env_id, config.num_envs, seed=seed)
    agent = AGENTS[algorithm][0](config, env.spec, seed=seed, device="cpu")
    train(agent, env, settings.total_steps, eval_every=settings.total_steps, eval_episodes=1, progress=False)
    final = evaluate(agent, episodes=100)
    assert final["eval/mean"] >= SOLVED[env_id], final
