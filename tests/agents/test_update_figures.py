"""What an update tells of itself, by hand: losses and their parts, divergences over their bounds, how far it moved."""

from __future__ import annotations

import copy

import pytest
import torch

from minerva_lite.experience.rollout import Rollout
from tests.living import STEPPERS, kl_parts, learned, live, numbers, shake, small_agent

FAR = {"ppo": {"learning_rate": 1e-2}, "vmpo": {"policy_learning_rate": 1e-2}, "mpo": {"target_period": 100}}
WORLDS = ["Pendulum-v1", "CartPole-v1"]
ONE_LOSS = ["reinforce", "a2c", "ppo", "vmpo"]


def make(name: str, env_id: str = "Pendulum-v1", **options):
    return small_agent(name, env_id, dtype=torch.float64, **FAR.get(name, {}) | options)


def updated(agent, env, obs, updates: int = 1):
    """The figures of the last update as numbers, and the observation after it."""
    figures, obs = live(agent, env, obs, updates)
    return numbers(figures), obs


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("name", STEPPERS)
def test_the_step_norm_says_how_far_the_policys_parameters_moved(name, env_id):
    agent, env, obs = make(name, env_id)
    _, obs = updated(agent, env, obs)
    before = learned(agent.policy)
    figures, _ = updated(agent, env, obs)
    moved = sum((new - old).square().sum() for new, old in zip(learned(agent.policy), before, strict=True))
    assert 0 < moved.sqrt().item() == pytest.approx(figures["train/param_step_norm"], rel=1e-12)
    if name == "trpo":
        assert figures["train/param_step_norm"] == pytest.approx(figures["train/step_norm"], rel=1e-8)


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("name", ONE_LOSS)
def test_the_total_is_the_loss_that_is_descended(name, env_id):
    bonus = {} if name == "vmpo" else {"entropy_coef": 0.3}
    agent, env, obs = make(name, env_id, **bonus)
    batch = agent.prepare(agent.collect(env, obs)[0])
    loss, parts = agent.loss(agent.estep(batch) if name == "vmpo" else batch)
    figures = {key: part.item() for key, part in parts.items() if part.dim() == 0}
    rest = -0.3 * agent.policy.entropy(agent.policy(batch.obs)).mean().item() if bonus else figures["loss/temperature"]
    rest += sum(value for key, value in figures.items() if key.endswith("_penalty") or key == "loss/alpha")
    wanted = figures["loss/policy"] + agent.config.vf_coef * figures["loss/value"] + rest
    assert figures["loss/total"] == loss.item() == pytest.approx(wanted, rel=1e-10)
    assert not parts["loss/total"].requires_grad
    assert "loss/total" in updated(agent, env, obs)[0]


def test_ppos_figures_are_those_of_the_whole_rollout_after_the_update():
    agent, env, obs = make("ppo", objective="kl_penalty", kl_penalty_init=1.7, kl_bound=0.03, entropy_coef=0.1)
    told, _ = updated(agent, env, obs)
    assert told["loss/kl_penalty"] == pytest.approx(1.7 * told["kl/exact"], rel=1e-12)
    assert told["kl/exact_relative"] == pytest.approx(told["kl/exact"] / 0.03, rel=1e-12)
    wanted = told["loss/policy"] + 0.5 * told["loss/value"] - 0.1 * told["train/entropy"]
    assert told["loss/total"] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("kl_over", ["all", "kept"])
@pytest.mark.parametrize("env_id", WORLDS)
def test_vmpo_tells_its_divergences_over_all_states_and_over_the_kept_and_over_their_bounds(env_id, kl_over):
    bounds = {"mean": 0.02, "std": 0.005}
    starts = {"eps_mean": 0.02, "eps_std": 0.005, "eps_eta": 0.3, "alpha_mean_init": 3.0, "torso": "layernorm"}
    agent, env, obs = make("vmpo", env_id, kl_over=kl_over, **starts)
    _, obs = updated(agent, env, obs)
    batch = agent.estep(agent.prepare(agent.collect(env, obs)[0]))
    shake(agent.policy, torch.Generator().manual_seed(1), 0.05)  # target and policy apart
    told = numbers(agent.divergences(batch, agent.loss(batch)[1]))
    parts = kl_parts(agent.policy, batch.old, agent.policy(batch.obs))
    parts = {name: part.sum(-1) for name, part in zip(bounds, parts, strict=False)}
    assert {key.split("/")[1].split("_")[0] for key in told if key.startswith("kl/")} == set(parts)
    for name, part in parts.items():
        everywhere, kept = part.mean().item(), part[batch.kept].mean().item()
        assert everywhere != pytest.approx(kept, rel=1e-3)
        assert [told[f"kl/{name}_all"], told[f"kl/{name}_kept"]] == pytest.approx([everywhere, kept], rel=1e-8)
        used = kept if kl_over == "kept" else everywhere
        assert told[f"kl/{name}"] == pytest.approx(used, rel=1e-8)
        assert told[f"kl/{name}_relative"] == pytest.approx(used / bounds[name], rel=1e-8)
        alpha = told[f"dual/alpha_{name}"]
        assert told[f"loss/kl_{name}_penalty"] == pytest.approx(alpha * used, rel=1e-8)
    slack = sum(told[f"dual/alpha_{name}"] * (bounds[name] - told[f"kl/{name}"]) for name in parts)
    assert told["loss/alpha"] == pytest.approx(slack, rel=1e-8)
    assert told["loss/dual"] == pytest.approx(slack + told["loss/temperature"], rel=1e-8)
    update, _ = updated(agent, env, obs)
    assert told.keys() <= update.keys() and not [key for key in update if "/" not in key]
    assert update["kl/psi_kept_relative"] == pytest.approx(update["kl/psi_kept"] / 0.3, rel=1e-12)


@pytest.mark.parametrize("env_id", WORLDS)
def test_mpo_tells_what_each_of_its_losses_was(env_id):
    """Multipliers are stepped before the policy, so the price is the new one, and the multipliers' loss of the old."""
    bounds = {"mean": 0.02, "std": 0.005}
    options = {"eps_mean": 0.02, "eps_std": 0.005, "eps_eta": 0.3, "learner_steps": 1, "policy_learning_rate": 1e-2}
    agent, env, obs = make("mpo", env_id, **options, dual_learning_rate=0.3)
    first, obs = updated(agent, env, obs, 2)
    told, _ = updated(agent, env, obs)
    parts = [name for name in bounds if f"kl/{name}" in told]
    slack = sum(first[f"dual/alpha_{name}"] * (bounds[name] - told[f"kl/{name}"]) for name in parts)
    prices = {name: told[f"dual/alpha_{name}"] * told[f"kl/{name}"] for name in parts}
    assert told["loss/alpha"] == pytest.approx(slack, rel=1e-8)
    assert {name: told[f"loss/kl_{name}_penalty"] for name in parts} == pytest.approx(prices, rel=1e-8)
    assert all(price > 0 for price in prices.values())
    assert told["loss/total"] == pytest.approx(told["loss/policy"] + sum(prices.values()), rel=1e-10)
    assert told["loss/dual"] == pytest.approx(told["loss/alpha"] + told["loss/temperature"], rel=1e-10)
    for name, bound in [("estep", 0.3), *((name, bounds[name]) for name in parts)]:
        assert told[f"kl/{name}_relative"] == pytest.approx(told[f"kl/{name}"] / bound, rel=1e-12)


def test_mpo_tells_the_sum_of_its_duals():
    """Each by itself is in `test_mpo.py`."""
    figures, _ = updated(*make("mpo", action_penalty=True, eps_penalty=0.02, eta_penalty_init=0.4), 2)
    duals = ("loss/temperature", "loss/temperature_penalty", "loss/alpha")
    assert figures["loss/dual"] == pytest.approx(sum(figures[name] for name in duals), rel=1e-10)


def test_mpos_spreads_are_those_of_its_last_batch():
    agent, env, obs = make("mpo", learner_steps=1, policy_learning_rate=1e-2)
    _, obs = updated(agent, env, obs, 3)
    seen: list[Rollout] = []
    sample = agent.replay.sample
    agent.replay.sample = lambda *where: seen.append(sample(*where)) or seen[-1]
    critic, policy = copy.deepcopy(agent.critic), copy.deepcopy(agent.policy)
    told, _ = updated(agent, env, obs)
    value, std = critic(seen[0].obs, seen[0].action), policy(seen[0].obs)[1]
    assert told["value/pred_std"] == pytest.approx(value.std(correction=0).item(), rel=1e-8)
    assert [told["train/std_min"], told["train/std_max"]] == pytest.approx([x.item() for x in std.aminmax()])
    assert told["train/std_min"] < told["train/std_max"]
