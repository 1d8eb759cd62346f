"""What an update tells of itself, by hand: losses and their parts, divergences over their bounds, how far it moved."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import distributions as td

from minerva_lite.experience.rollout import Rollout
from tests.living import STEPPERS, make_agent

SMALL = {"num_envs": 4, "rollout_steps": 16, "hidden": (8,)}
OWN = {
    "reinforce": {"whole_episodes": False},
    "ppo": {"minibatch_size": 32, "epochs": 2, "learning_rate": 1e-2},
    "trpo": {"value_iterations": 3},
    "vmpo": {"inner_steps": 3, "policy_learning_rate": 1e-2},
    "mpo": {"warmup_steps": 0, "learner_steps": 2, "minibatch_size": 8, "target_period": 100},
}
WORLDS = ["Pendulum-v1", "CartPole-v1"]
ONE_LOSS = ["reinforce", "a2c", "ppo", "vmpo"]


def make(name: str, env_id: str = "Pendulum-v1", **options):
    return make_agent(name, env_id, dtype=torch.float64, **SMALL | OWN.get(name, {}) | options)


def updated(agent, env, obs, updates: int = 1):
    """The figures of the last update as numbers, and the observation after it."""
    figures = {}
    for _ in range(updates):
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(rollout)
    return {name: figure.item() for name, figure in figures.items()}, obs


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("name", STEPPERS)
def test_the_step_norm_says_how_far_the_policys_parameters_moved(name, env_id):
    agent, env, obs = make(name, env_id)
    _, obs = updated(agent, env, obs)
    before = [p.detach().clone() for p in agent.policy.parameters()]
    figures, _ = updated(agent, env, obs)
    moved = sum((p.detach() - old).square().sum() for p, old in zip(agent.policy.parameters(), before, strict=True))
    assert 0 < moved.sqrt().item() == pytest.approx(figures["train/param_step_norm"], rel=1e-12)
    if name == "trpo":
        assert figures["train/param_step_norm"] == pytest.approx(figures["train/step_norm"], rel=1e-8)


@pytest.mark.parametrize("name", [name for name in STEPPERS if name != "mpo"])  # its replay takes none of these
def test_the_share_of_phantom_rows_is_told_where_the_rollout_has_a_place_for_them(name):
    agent, env, obs = make(name, "CartPole-v1")
    rollout, _ = agent.collect(env, obs)
    assert "train/restart_fraction" not in agent.update(rollout)
    weight = torch.ones_like(rollout.reward)
    marked = [dataclasses.replace(rollout, restart_weight=w) for w in (weight, weight.clone())]
    marked[1].restart_weight[2:5, 1] = 0.0
    assert [agent.update(one)["train/restart_fraction"].item() for one in marked] == [0.0, pytest.approx(3 / 64)]


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


def test_trpos_kl_is_told_over_the_bound_of_the_update():
    agent, env, obs = make("trpo", kl_bound=0.03, anneal_kl=True)
    rollout, _ = agent.collect(env, obs)
    told = {name: figure.item() for name, figure in agent.update(rollout, progress=0.5).items()}
    assert told["kl/bound"] == pytest.approx(0.015)
    assert told["kl/exact_relative"] == pytest.approx(told["kl/exact"] / 0.015, rel=1e-6)
    assert 0 < told["kl/exact_relative"] <= 1


@pytest.mark.parametrize("name", [name for name in STEPPERS if name != "mpo"])
def test_spreads_are_those_of_the_policy_after_the_update_and_of_the_critic_before_it(name):
    layers = {"torso": "layernorm"} if name == "vmpo" else {}  # there the std depends on the state
    agent, env, obs = make(name, **layers)
    rollout, _ = agent.collect(env, obs)
    value = agent.critic(rollout.obs).detach()
    told = {key: figure.item() for key, figure in agent.update(rollout).items()}
    std = agent.policy(rollout.obs)[1]
    assert told["value/pred_std"] == pytest.approx(value.std(correction=0).item(), rel=1e-8)
    assert [told["train/std_min"], told["train/std_max"]] == pytest.approx(
        [std.min().item(), std.max().item()], rel=1e-9
    )
    assert (told["train/std_min"] < told["train/std_max"]) == bool(layers)


@pytest.mark.parametrize("kl_over", ["all", "kept"])
@pytest.mark.parametrize("env_id", WORLDS)
def test_vmpo_tells_its_divergences_over_all_states_and_over_the_kept_and_over_their_bounds(env_id, kl_over):
    bounds = {"mean": 0.02, "std": 0.005}
    agent, env, obs = make(
        "vmpo",
        env_id,
        kl_over=kl_over,
        eps_mean=0.02,
        eps_std=0.005,
        eps_eta=0.3,
        alpha_mean_init=3.0,
        torso="layernorm",
    )
    _, obs = updated(agent, env, obs)
    batch = agent.estep(agent.prepare(agent.collect(env, obs)[0]))
    with torch.no_grad():  # target and policy apart
        for p in agent.policy.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1), dtype=p.dtype))
    told = {key: part.item() for key, part in agent.divergences(batch, agent.loss(batch)[1]).items()}
    new = agent.policy(batch.obs)
    if env_id == "CartPole-v1":
        parts = {"mean": td.kl_divergence(td.Categorical(logits=batch.old[0]), td.Categorical(logits=new[0]))}
    else:
        old, mixed = td.Normal(*batch.old), {"mean": (new[0], batch.old[1]), "std": (batch.old[0], new[1])}
        parts = {part: td.kl_divergence(old, td.Normal(*params)).sum(-1) for part, params in mixed.items()}
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


def test_vmpo_tells_the_mean_of_its_clipped_importance_weights_where_it_has_them():
    lag = {"act_by": "online", "target_period": 5}
    agent, env, obs = make("vmpo", importance_clip=1.1, **lag)
    _, obs = updated(agent, env, obs, 2)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    ratio = (agent.policy.log_prob(agent.target_policy(batch.obs), batch.action) - batch.behavior_log_prob).exp()
    wanted = ratio.clamp(max=1.1).mean().item()
    assert 1.0 > wanted == pytest.approx(agent.update(rollout)["train/importance_mean"].item(), rel=1e-8)
    assert "train/importance_mean" not in updated(*make("vmpo", **lag))[0]


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


def test_mpo_tells_the_dual_of_each_of_its_temperatures_and_their_sum():
    agent, env, obs = make(
        "mpo", action_penalty=True, eps_eta=0.3, eps_penalty=0.02, eta_init=0.7, eta_penalty_init=0.4
    )
    draw = torch.Generator().manual_seed(0)
    action = 2.0 * torch.randn(5, 3, 1, generator=draw, dtype=torch.float64)
    q_value = torch.randn(5, 3, generator=draw, dtype=torch.float64)
    _, told = agent.estep(action, torch.full_like(q_value, -torch.tensor(5.0).log()), q_value)
    outside = -(action - action.clamp(-1, 1)).abs().squeeze(-1)
    for name, score, eta, bound in (("", q_value, 0.7, 0.3), ("_penalty", outside, 0.4, 0.02)):
        wanted = eta * (bound + (score / eta).exp().mean(0).log().mean())
        assert told[f"loss/temperature{name}"].item() == pytest.approx(wanted.item(), rel=1e-6)
    figures, _ = updated(agent, env, obs, 2)
    duals = ("loss/temperature", "loss/temperature_penalty", "loss/alpha")
    assert figures["loss/dual"] == pytest.approx(sum(figures[name] for name in duals), rel=1e-10)


def test_mpos_spreads_are_those_of_its_last_batch():
    agent, env, obs = make("mpo", learner_steps=1, policy_learning_rate=1e-2)
    _, obs = updated(agent, env, obs, 3)
    seen: list[Rollout] = []
    sample = agent.replay.sample
    agent.replay.sample = lambda *where: seen.append(sample(*where)) or seen[-1]
    before = [p.detach().clone() for p in (*agent.critic.parameters(), *agent.policy.parameters())]
    rollout, _ = agent.collect(env, obs)
    told = agent.update(rollout)
    with torch.no_grad():
        for p, old in zip((*agent.critic.parameters(), *agent.policy.parameters()), before, strict=True):
            p.copy_(old)
        value, std = agent.critic(seen[0].obs, seen[0].action), agent.policy(seen[0].obs)[1]
    assert told["value/pred_std"].item() == pytest.approx(value.std(correction=0).item(), rel=1e-8)
    assert [told[f"train/std_{end}"].item() for end in ("min", "max")] == pytest.approx(
        [std.min().item(), std.max().item()]
    )
    assert told["train/std_min"] < told["train/std_max"]
