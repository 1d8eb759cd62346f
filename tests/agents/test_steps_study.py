"""Ways to use a rollout (`studies/steps.py`) are what they are called; what a batch claims (`studies/reuse.py`)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from book.results.studies import reuse
from book.results.studies.record import read_rows
from book.results.studies.steps import COMPARED, METHODS, RATES, PlainAgent, best_rate, comparison, finals, run, trials
from minerva_lite.agents.optimizers import flatten
from minerva_lite.agents.trpo import TRPOAgent, TRPOConfig
from minerva_lite.worlds.envs import make_env
from tests.living import differ, learned

RESULTS = Path(__file__).resolve().parents[2] / "book" / "results"
SMALL = {"num_envs": 8, "rollout_steps": 32, "hidden": (16,), "gamma": 0.95, "damping": 0.0}


def moved(agent_class: type, **changes) -> tuple[torch.Tensor, torch.Tensor]:
    """How one update moved the policy [n], and the gradient of the surrogate there [n]."""
    config = TRPOConfig(**SMALL | changes)
    env = make_env("CartPole-v1", config.num_envs, seed=0, dtype=torch.float64)
    agent = agent_class(config, env.spec, seed=0, device="cpu", dtype=torch.float64)
    rollout, _ = agent.collect(env, env.reset())
    gradient = torch.autograd.grad(agent.surrogate(agent.prepare(rollout)), list(agent.policy.parameters()))
    before = flatten(learned(agent.policy))
    agent.update(rollout, progress=0.5)
    return flatten(learned(agent.policy)) - before, flatten(gradient)


def test_the_plain_gradient_at_a_rate_steps_along_the_gradient_and_its_rate_falls():
    step, gradient = moved(PlainAgent, step_rule="fixed", natural_step=0.2, cg_iterations=1, normalize_advantage=False)
    assert torch.allclose(step, 0.5 * 0.2 * gradient, atol=1e-12)


def test_one_product_scales_the_plain_gradient_to_the_bound():
    changes = METHODS["plain scaled"].changes
    step, gradient = moved(TRPOAgent, **changes, normalize_advantage=False, kl_bound=1e-4)
    assert torch.cosine_similarity(step, gradient, dim=0) > 1 - 1e-9
    natural, _ = moved(TRPOAgent, step_rule="natural", normalize_advantage=False, kl_bound=1e-4)
    assert torch.cosine_similarity(natural, gradient, dim=0) < 0.99


@pytest.mark.parametrize("method", ["plain 0.3", "TRPO", "PPO"])
def test_a_run_has_a_row_for_each_update(method):
    rows = run("CartPole-v1", method, 0, updates=1)
    assert [row.steps for row in rows] == [2048] and rows[0].episodes == 0
    assert 0 < rows[0].kl < 1 and 0 < rows[0].fresh_kl < 1 and rows[0].seconds > 0
    assert math.isclose(rows[0].bound, 0.01 if method == "TRPO" else 0.0, rel_tol=1e-6)


def test_the_record_is_whole_and_trpo_keeps_its_bound_in_it():
    final = finals(RESULTS / "steps.csv")
    assert list(final) == [*trials(), *comparison(final)]
    assert best_rate("CartPole-v1", final) in {f"plain {rate:g}" for rate in RATES}
    trpo = [row for row in read_rows(RESULTS / "steps.csv") if row["method"].startswith("TRPO")]
    assert {int(row["seed"]) for row in trpo} == set(COMPARED)
    assert all(float(row["kl"]) <= float(row["bound"]) * 1.001 for row in trpo)


# What one batch claims


def test_the_record_is_complete_and_begins_where_nothing_has_moved():
    rows = read_rows(RESULTS / "ppo_reuse.csv")
    curves = {tuple(row.values())[:4] for row in rows}
    assert len(curves) == 2 * 5 * 10 and len(rows) == len(curves) * len(reuse.STEPS)
    for row in rows:
        assert all(math.isfinite(float(row[name])) for name in reuse.Row._fields[5:])
        if row["step"] == "0":
            assert abs(float(row["on_batch"])) < 1e-5 and abs(float(row["kl_batch"])) < 1e-5


def test_steps_move_a_copy_the_batch_says_more_than_it_keeps_and_a_clip_holds_its_claim():
    agent, progress = reuse.trained("Pendulum-v1", 0, 1)
    before, batch = learned(agent.policy), reuse.batch_of(agent, 400, 7)
    assert len(batch) == 400 and torch.equal(batch.obs, reuse.batch_of(agent, 400, 7).obs)
    first, last = reuse.climb(agent, progress, 400, "none", 0, steps=(0, 12))
    assert not differ(before, learned(agent.policy))
    assert abs(first.on_batch) < 1e-5 and abs(first.on_fresh) < 1e-5 and first.kl_batch < 1e-6
    assert last.on_batch > max(last.on_fresh, 0.01) and last.kl_fresh > 1e-4
    assert first.returned == reuse.true_return(agent, 3000) != last.returned
    assert reuse.climb(agent, progress, 400, "0.1", 0, steps=(0, 12))[-1].on_batch < last.on_batch
