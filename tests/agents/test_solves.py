"""The presets learn: the final policy, not the best one, on the official environment, over 100 episodes."""

from __future__ import annotations

import pytest

from minerva_lite import evaluate, make_env, preset, train
from minerva_lite.agents import AGENTS
from minerva_lite.training.presets import PRESETS
from minerva_lite.training.variants import ABLATIONS, varied

SOLVED = {"Pendulum-v1": -200.0, "CartPole-v1": 475.0}
# Two stand for all in the quick tier: what breaks another agent's learning turns its chapter red, too.
QUICK = [("ppo", "CartPole-v1"), ("trpo", "CartPole-v1")]
# MPO solves CartPole on most seeds, REINFORCE Pendulum on some: no promise is made (`book/results/README.md`).
MOSTLY = ("mpo", "CartPole-v1")
APART = [MOSTLY, ("reinforce", "Pendulum-v1")]
TASKS = [(*pair, "preset") for pair in PRESETS if pair[1] in SOLVED and pair not in APART]
TASKS = [
    pytest.param(*task, seed, marks=[] if task[:2] in QUICK and not seed else pytest.mark.slow)
    for task in (*TASKS, ("mpo", "Pendulum-v1", "retrace"))
    for seed in range(5)
]


def final_of(algorithm, env_id, variant, seed):
    settings = preset(algorithm, env_id)
    config = varied(settings.config, ABLATIONS.get(algorithm, {"preset": {}})[variant])
    env = make_env(env_id, config.num_envs, seed=seed)
    agent = AGENTS[algorithm][0](config, env.spec, seed=seed, device="cpu")
    train(agent, env, settings.total_steps, eval_every=settings.total_steps, eval_episodes=1, progress=False)
    return evaluate(agent, episodes=100)["eval/mean"]


@pytest.mark.parametrize(("algorithm", "env_id", "variant", "seed"), TASKS)
def test_the_preset_solves(algorithm, env_id, variant, seed):
    assert final_of(algorithm, env_id, variant, seed) >= SOLVED[env_id]


@pytest.mark.slow
def test_mpo_solves_cartpole_on_most_seeds():
    """Of ten recorded runs two fail, as chapter 8 says."""
    finals = [final_of(*MOSTLY, "preset", seed) for seed in range(5)]
    assert sum(final >= SOLVED[MOSTLY[1]] for final in finals) >= 3, finals
