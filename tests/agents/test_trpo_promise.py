"""TRPO's promise, judged in float64 by code of its own (`studies/promise.py`), and what the promise rests on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch

from book.results.studies.promise import RUNS, Row, mean_kl, saved, watch
from book.results.studies.record import read_rows
from minerva_lite.agents.critic_fit import fit_adam, fit_lbfgs
from minerva_lite.agents.networks import ValueNet
from minerva_lite.agents.reinforce import REINFORCEAgent, REINFORCEConfig
from minerva_lite.agents.trpo import TRPOAgent, TRPOConfig
from minerva_lite.experience import vine as vines
from minerva_lite.training.presets import preset
from minerva_lite.worlds.envs import TabularEnv, make_env
from minerva_lite.worlds.tabular import TabularMDP

RECORDED = Path(__file__).resolve().parents[2] / "book" / "results" / "trpo_promise.csv"
SMALL = {"num_envs": 8, "rollout_steps": 32, "hidden": (16,), "gamma": 0.95}
CONFIGS = {env_id: preset("trpo", env_id).config for env_id in RUNS}


def make(env_id: str = "Pendulum-v1", seed: int = 0, dtype=torch.float32, **options):
    """An agent, its environment and the first observation."""
    config = TRPOConfig(**SMALL | options)
    env = make_env(env_id, config.num_envs, seed=seed, dtype=dtype)
    return TRPOAgent(config, env.spec, seed=seed, device="cpu", dtype=dtype), env, env.reset()


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


@pytest.mark.parametrize(("change", "said"), [
    ({}, ""),
    ({"kl": 0.010001}, "over the bound"),
    ({"gain": 9e-4}, "gained less than was demanded"),
    ({"predicted_gain": 0.0, "gain": -1e-9}, "the surrogate fell"),
    ({"moved": False}, "accepted, yet no bit changed"),
    ({"skipped": "kl"}, "moved although it was left out"),
    ({"skipped": "kl", "moved": False, "kl": 0.0}, ""),
])  # fmt: skip
def test_the_judge_by_hand(change, said):
    row = Row(
        "",
        0,
        0,
        kl=0.009,
        fresh_kl=0.01,
        gain=0.02,
        predicted_gain=0.02,
        trials=2,
        fraction=0.5,
        skipped="",
        moved=True,
    )
    assert broken(row._replace(**change), TRPOConfig(kl_bound=0.01)) == said


def test_the_recorded_run_kept_the_promise():
    kinds = get_type_hints(Row) | {"moved": "True".__eq__}
    rows = [Row(**{name: kinds[name](text) for name, text in row.items()}) for row in read_rows(RECORDED)]
    seeds = sorted({row.seed for row in rows})
    wanted = [(env_id, seed, i) for env_id, updates in RUNS.items() for seed in seeds for i in range(updates)]
    assert [(row.env_id, row.seed, row.update) for row in rows] == wanted
    assert all(kept([row], CONFIGS[row.env_id]) for row in rows)


# What the promise rests on, piece by piece.


def prepared(env_id: str, **options):
    """A float64 agent after one update, a batch that its present policy collected, and its policy's parameters."""
    agent, env, obs = make(env_id, dtype=torch.float64, **{"hidden": (3,), "num_envs": 4, "rollout_steps": 6} | options)
    rollout, obs = agent.collect(env, obs)
    agent.update(rollout)
    rollout, _ = agent.collect(env, obs)
    return agent, rollout, agent.prepare(rollout), list(agent.policy.parameters())


def flat_gradient(scalar: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
    parts = torch.autograd.grad(scalar, parameters, retain_graph=True, materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in parts])


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_the_product_is_that_of_the_fisher_matrix(env_id):
    # The matrix by its definition, the mean of score times score: over all actions of a finite set, and for a
    # Gaussian from the known matrix of its mean and log-std.
    agent, _, batch, parameters = prepared(env_id, damping=0.3)
    params, fisher = agent.policy(batch.obs), 0.0
    n = len(batch.obs)
    if agent.policy.discrete:
        log_prob = params[0].log_softmax(-1)
        for row in log_prob:
            for entry in row:
                score = flat_gradient(entry, parameters)
                fisher = fisher + entry.exp().detach() * torch.outer(score, score) / n
    else:
        mean, std = params
        for i in range(n):
            slope = flat_gradient(mean[i, 0], parameters) / std[i, 0].detach()
            width = flat_gradient(std[i, 0].log(), parameters)
            fisher = fisher + (torch.outer(slope, slope) + 2.0 * torch.outer(width, width)) / n
    product = agent.fisher_product(batch, parameters)
    columns = torch.stack([product(v) for v in torch.eye(len(fisher), dtype=torch.float64)], 1)
    assert torch.allclose(columns, fisher + 0.3 * torch.eye(len(fisher)), atol=1e-9)
    assert fisher.abs().max() > 0.1


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_the_kl_of_the_line_search_is_old_to_new(env_id, generator):
    agent, rollout, batch, parameters = prepared(env_id)
    before = saved(agent)
    with torch.no_grad():
        for p in parameters:  # far away, where the two directions of the KL differ
            p += torch.randn(p.shape, generator=generator, dtype=p.dtype)
    after, obs = saved(agent), rollout.obs.numpy()
    there, back = mean_kl(before, after, obs), mean_kl(after, before, obs)
    assert abs(there - back) > 1e-3 and abs(float(agent.mean_kl(batch).detach()) - there) < 1e-9


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_a_step_moves_every_parameter_of_the_policy(env_id):
    agent, env, obs = make(env_id)
    before = saved(agent)
    for _ in range(2):  # the first head is nearly zero, and so are the gradients below it
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
    after = saved(agent)
    assert [name for name in before if name.startswith("policy.") and np.array_equal(before[name], after[name])] == []


def test_the_policy_never_sees_the_critic_that_its_data_are_fitted_to(same):
    agents = []
    for value_iterations in (1, 25):
        agent, env, obs = make(value_iterations=value_iterations)
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
        agents.append(agent)
    assert same(agents[0].policy.state_dict(), agents[1].policy.state_dict())
    assert not same(agents[0].critic.state_dict(), agents[1].critic.state_dict())


# Data.


def test_branches_of_a_state_differ_by_their_first_action_alone(monkeypatch, generator):
    # A random world under a random policy, and every branch told to begin with the same action.
    env = TabularEnv(TabularMDP.random(6, 3, 0.9, generator), 4, max_steps=50, seed=0)
    config = TRPOConfig(**SMALL | {"num_envs": 4}, sampling="vine", vine_states=16, vine_steps=10)
    agent = TRPOAgent(config, env.spec, seed=0, device="cpu", dtype=env.dtype)
    same_action = torch.zeros(16, 3, dtype=torch.int64)
    monkeypatch.setattr(vines, "_propose", lambda *arguments: (same_action, torch.zeros(16, 3, dtype=env.dtype)))
    vine, _ = agent.collect(env, env.reset())
    assert torch.equal(vine.q_value[:, :1].expand(16, 3), vine.q_value)
    assert len(vine.q_value[:, 0].unique()) > 8  # states, and what became of them, do differ


EDGE = [2.39, 5.0, 0.0, 0.0]  # a cart that leaves the track at its next step, whatever is done


@pytest.mark.parametrize(("state", "elapsed", "steps", "bootstrapped"), [
    (EDGE, 0, 1, False), (EDGE, 0, 5, False),  # terminated
    ([0.0, 0.0, 0.0, 0.0], 0, 1, True),  # cut by us after one step
    ([0.0, 0.0, 0.0, 0.0], 499, 5, True),  # cut by the time limit after one step
])  # fmt: skip
def test_a_branch_bootstraps_where_it_was_cut_and_only_there(state, elapsed, steps, bootstrapped):
    agent, env, _ = make(
        "CartPole-v1", sampling="vine", rollout_steps=1, vine_states=8, vine_actions=2, vine_steps=steps, gamma=0.9
    )
    with torch.no_grad():
        agent.critic.value[-1].weight.zero_()
        agent.critic.value[-1].bias.fill_(100.0)
    env.state, env.elapsed = torch.tensor(state).repeat(8, 1), torch.full((8,), elapsed)
    vine, _ = agent.collect(env, env.observe(env.state))
    wanted = 1.0 + 0.9 * 100.0 * bootstrapped
    assert vine.q_value.shape == (8, 2) and torch.allclose(vine.q_value, torch.full((8, 2), wanted))


def lottery(agent_class, config):
    """Episodes of 1 to 6 steps, each in its own environment; the agent and a rollout of whole episodes."""
    env = make_env("ToyLottery-v0", 6, seed=0)
    agent = agent_class(config, env.spec, seed=0, device="cpu")
    rollout, _ = agent.collect(env, env.reset())
    return agent, rollout


@pytest.mark.parametrize(("agent_class", "config_class"), [(TRPOAgent, TRPOConfig), (REINFORCEAgent, REINFORCEConfig)])
def test_whole_episodes_keep_first_episodes_alone(agent_class, config_class):
    agent, rollout = lottery(agent_class, config_class(num_envs=6, rollout_steps=50, whole_episodes=True))
    batch = agent.prepare(rollout)
    assert rollout.reward.shape == (6, 6)  # until the longest is over
    # The observation is the step within the episode: 6 episodes reach step 0, 5 reach step 1, …
    assert batch.obs.flatten().sort().values.tolist() == sorted(t for n in range(1, 7) for t in range(n))
    assert all(len(rows) == 21 for rows in vars(batch).values() if torch.is_tensor(rows))


@pytest.mark.parametrize(("discount_states", "weights"), [(False, [1.0, 1.0, 1.0]), (True, [1.0, 0.5, 0.25])])
def test_gamma_to_the_t_weighs_a_state_where_asked_and_nowhere_else(discount_states, weights):
    config = REINFORCEConfig(num_envs=6, rollout_steps=50, discount_states=discount_states, gamma=0.5)
    agent, rollout = lottery(REINFORCEAgent, config)
    batch = agent.prepare(rollout)
    for t, weight in enumerate(weights):
        assert (batch.weight[batch.obs[:, 0] == t] == weight).all()
    agent, rollout = lottery(TRPOAgent, TRPOConfig(num_envs=6, rollout_steps=50, whole_episodes=True, gamma=0.5))
    assert "weight" not in vars(agent.prepare(rollout))


@pytest.mark.parametrize("normalize_advantage", [True, False])
def test_the_weight_of_a_state_stands_in_the_loss(normalize_advantage):
    config = REINFORCEConfig(num_envs=6, rollout_steps=50, normalize_advantage=normalize_advantage)
    agent, rollout = lottery(REINFORCEAgent, config)
    log_prob, advantage, weight = torch.tensor([-1.0, -3.0]), torch.tensor([3.0, 5.0]), torch.tensor([1.0, 0.5])
    scaled = [-1.0, 1.0] if normalize_advantage else [3.0, 5.0]
    wanted = -0.5 * (1.0 * scaled[0] * -1.0 + 0.5 * scaled[1] * -3.0)
    agent.policy.log_prob = lambda params, action: log_prob
    batch = dataclasses.replace(agent.prepare(rollout)[:2], advantage=advantage, weight=weight)
    assert float(agent.loss(batch)[1]["loss/policy"]) == pytest.approx(wanted, abs=1e-6)


# The critic.


@pytest.mark.parametrize("how", ["adam", "lbfgs"])
def test_a_fit_that_does_not_help_is_undone_to_the_bit(how, monkeypatch, same, generator):
    critic = ValueNet(2, (8,), generator)
    obs, target = torch.randn(32, 2, generator=generator), torch.randn(32, generator=generator)
    before = {name: value.clone() for name, value in critic.state_dict().items()}
    if how == "adam":
        steps = {"passes": 3, "learning_rate": 1e3, "minibatch": 8, "generator": generator}  # far too long
        kept = fit_adam(critic, obs, target, l2=0.0, **steps)
    else:

        def lost(optimizer, closure):
            closure()
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.detach().fill_(float("nan"))

        monkeypatch.setattr(torch.optim.LBFGS, "step", lost)
        kept = fit_lbfgs(critic, obs, target, iterations=5, l2=0.0)
    assert not kept and same(before, dict(critic.state_dict()))
