"""TRPO's promise, judged in float64 by code of its own (`tests/studies/promise.py`), and what the promise rests on."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch
from torch.func import functional_call

from book.results.studies.promise import RUNS, Row, watch
from book.results.studies.record import read_rows
from minerva_lite.agents.optimizers import flatten
from minerva_lite.agents.trpo import TRPOConfig
from minerva_lite.training.presets import preset
from tests.living import learned, live, say, small_agent

RECORDED = Path(__file__).resolve().parents[2] / "book" / "results" / "trpo_promise.csv"
SMALL = {"num_envs": 8, "rollout_steps": 32, "hidden": (16,), "gamma": 0.95}
CONFIGS = {env_id: preset("trpo", env_id).config for env_id in RUNS}


def broken(row: Row, config: TRPOConfig) -> str:
    """What of the promise this update broke, or nothing."""
    if row.skipped:
        return "moved although it was left out" if row.moved or row.kl != 0.0 else ""
    if not row.moved:
        return "accepted, yet no bit changed"
    if row.kl > config.kl_bound:
        return "over the bound"
    # The line search demanded this share in float32, of a mean of terms about 1 in size.
    if row.gain < config.accept_ratio * row.fraction * row.predicted_gain - 1e-6:
        return "gained less than was demanded"
    return "" if row.gain > 0 else "the surrogate fell"


def kept(rows: list[Row], config: TRPOConfig) -> bool:
    return [(row, broken(row, config)) for row in rows if broken(row, config)] == []


# The promise.


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "updates"), RUNS.items())
def test_every_update_of_a_training_keeps_the_promise(env_id, updates):
    config = CONFIGS[env_id]
    rows = watch(config, env_id, updates)
    assert len(rows) == updates and kept(rows, config)
    # It is not kept by standing still: most steps are taken and use a good part of what is allowed.
    assert sum(not row.skipped for row in rows) > 0.75 * updates
    assert np.median([row.kl for row in rows]) > 0.25 * config.kl_bound


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("normalize_advantage", [True, False])
def test_a_few_updates_keep_the_promise(env_id, normalize_advantage):
    config = TRPOConfig(**SMALL, normalize_advantage=normalize_advantage)
    rows = watch(config, env_id, 6)
    assert kept(rows, config) and sum(not row.skipped for row in rows) >= 4


@pytest.mark.parametrize(("env_id", "normalize_advantage"), [("Pendulum-v1", True), ("CartPole-v1", False)])
@pytest.mark.parametrize(("why", "options"), [
    ("surrogate", {"accept_ratio": 1.0, "max_trials": 1}),  # all of the predicted gain, at the first trial
    ("kl", {"damping": 1e-4, "max_trials": 1, "cg_iterations": 30}),  # a full step that the KL's curve bends away from
])  # fmt: skip
def test_a_rejected_step_leaves_every_bit_of_the_policy(env_id, normalize_advantage, why, options):
    config = TRPOConfig(**SMALL | options, normalize_advantage=normalize_advantage)
    rows = watch(config, env_id, 6)
    assert kept(rows, config) and why in {row.skipped for row in rows}


def test_without_the_line_search_the_promise_is_broken():
    config = TRPOConfig(**SMALL, step_rule="natural", damping=1e-3, kl_bound=0.05)
    rows = watch(config, "CartPole-v1", 10)
    assert sum(broken(row, config) == "over the bound" for row in rows) >= 2
    assert not kept(rows, config)


def test_the_recorded_run_kept_the_promise():
    kinds = get_type_hints(Row) | {"moved": "True".__eq__}
    rows = [Row(**{name: kinds[name](text) for name, text in row.items()}) for row in read_rows(RECORDED)]
    seeds = sorted({row.seed for row in rows})
    wanted = [(env_id, seed, i) for env_id, updates in RUNS.items() for seed in seeds for i in range(updates)]
    assert [(row.env_id, row.seed, row.update) for row in rows] == wanted
    assert all(kept([row], CONFIGS[row.env_id]) for row in rows)


# What the promise rests on, piece by piece.


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_the_product_is_that_of_the_fisher_matrix(env_id):
    """The second derivatives of the mean KL at the old policy, all of them, by torch; the damping on the diagonal."""
    agent, env, obs = small_agent("trpo", env_id, dtype=torch.float64, hidden=(3,), rollout_steps=6, damping=0.3)
    _, obs = live(agent, env, obs, 1)
    batch = agent.prepare(agent.collect(env, obs)[0])
    named = dict(agent.policy.named_parameters())
    sizes = [p.numel() for p in named.values()]

    def kl(flat):
        parts = zip(named.items(), flat.split(sizes), strict=True)
        params = functional_call(agent.policy, {name: part.view_as(p) for (name, p), part in parts}, (batch.obs,))
        return agent.policy.kl(batch.behavior_params, params).mean()

    fisher = torch.autograd.functional.hessian(kl, flatten(learned(agent.policy)))
    product = agent.fisher_product(batch, list(named.values()))
    columns = torch.stack([product(v) for v in torch.eye(len(fisher), dtype=torch.float64)], 1)
    assert torch.allclose(columns, fisher + 0.3 * torch.eye(len(fisher)), atol=1e-9)
    assert fisher.abs().max() > 0.1


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_a_step_moves_every_parameter_of_the_policy(env_id):
    agent, env, obs = small_agent("trpo", env_id)
    before = learned(agent.policy)
    live(agent, env, obs, 2)  # the first head is nearly zero, and so are the gradients below it
    assert not any(torch.equal(old, new) for old, new in zip(before, agent.policy.parameters(), strict=True))


def test_the_policy_never_sees_the_critic_that_its_data_are_fitted_to(same):
    agents = []
    for value_iterations in (1, 25):
        agent, env, obs = small_agent("trpo", value_iterations=value_iterations)
        live(agent, env, obs, 1)
        agents.append(agent)
    assert same(agents[0].policy.state_dict(), agents[1].policy.state_dict())
    assert not same(agents[0].critic.state_dict(), agents[1].critic.state_dict())


# Data.


EDGE = [2.39, 5.0, 0.0, 0.0]  # a cart that leaves the track at its next step, whatever is done


@pytest.mark.parametrize(("state", "elapsed", "steps", "bootstrapped"), [
    (EDGE, 0, 1, False), (EDGE, 0, 5, False),  # terminated
    ([0.0, 0.0, 0.0, 0.0], 0, 1, True),  # cut by us after one step
    ([0.0, 0.0, 0.0, 0.0], 499, 5, True),  # cut by the time limit after one step
])  # fmt: skip
def test_a_branch_bootstraps_where_it_was_cut_and_only_there(state, elapsed, steps, bootstrapped):
    vine = {"sampling": "vine", "vine_states": 8, "vine_actions": 2, "vine_steps": steps}
    agent, env, _ = small_agent("trpo", "CartPole-v1", num_envs=8, rollout_steps=1, gamma=0.9, **vine)
    say(agent.critic, 100.0)
    env.state, env.elapsed = torch.tensor(state).repeat(8, 1), torch.full((8,), elapsed)
    vine, _ = agent.collect(env, env.observe(env.state))
    wanted = 1.0 + 0.9 * 100.0 * bootstrapped
    assert vine.q_value.shape == (8, 2) and torch.allclose(vine.q_value, torch.full((8, 2), wanted))
