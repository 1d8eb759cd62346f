"""V-MPO: its loss by hand, who is kept and how it is weighed, every option, what it says of an update.

What it shares with MPO is in test_faults_mpo.py.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import distributions as td

from minerva_lite.agents.vmpo import VMPOAgent
from minerva_lite.experience.rollout import Batch
from minerva_lite.formulas.duals import vmpo_temperature_loss
from minerva_lite.formulas.objectives import normalize_advantage
from tests.living import SGD, every_option, everything, kl_parts, live, numbers, refusal, small_agent, stirred, vector

F64 = torch.float64
LAG = {"act_by": "online", "target_period": 5}
BY_RATIO = LAG | {"importance_clip": 1.05, "policy_learning_rate": 1e-2}
OPTIONS = {
    "inner_steps": [({}, 2, 3)],
    "top_k_frac": [({}, 0.5, 1.0)],
    "kl_over": [({}, "all", "kept")],
    "log_normalizer": [(BY_RATIO | SGD, "weights", "count")],
    "act_by": [({"target_period": 2}, "target", "online")],
    "importance_clip": [(BY_RATIO, None, 1.05), (BY_RATIO, 1.01, 1.05)],
    "torso": [({"env_id": env_id}, "tanh", "layernorm") for env_id in ("Pendulum-v1", "CartPole-v1")],
    "shared_encoder": [({}, True, False)],
    "value_learning_rate": [({}, 1e-3, 2e-3)],
}
test_every_option_matters = every_option("vmpo", OPTIONS)


def rows(agent: VMPOAgent, n: int = 8) -> Batch:
    """A batch as `prepare` leaves it: [n] rows."""
    g = torch.Generator().manual_seed(2)
    obs = torch.randn(n, 3, generator=g, dtype=F64)
    action = torch.randint(3, (n,), generator=g) if agent.policy.discrete else torch.randn(n, 2, generator=g, dtype=F64)
    advantage, value_target, behavior = torch.randn(3, n, generator=g, dtype=F64)
    return Batch(
        obs=obs,
        action=action,
        behavior_log_prob=behavior,
        behavior_params=agent.policy(obs),
        advantage=advantage,
        value_old=torch.zeros_like(advantage),
        value_target=value_target,
    )


def distribution(agent: VMPOAgent, params):
    """The policy as torch knows it."""
    return td.Categorical(logits=params[0]) if agent.policy.discrete else td.Independent(td.Normal(*params), 1)


# The loss by hand


@pytest.mark.parametrize("kl_over", ["all", "kept"])
@pytest.mark.parametrize("discrete", [False, True])
def test_loss_by_hand(discrete, kl_over):
    """-sum psi log pi + c_V half the squared error + the temperature's dual, tilted by the ratios as psi is + for each
    part its KL at the present price, and the price against bound - KL; in value and in every gradient. And its figures.
    """
    bounds = {"mean": 0.02, "std": 0.01}
    options = {"alpha_mean_init": 3.0, "alpha_std_init": 2.0, "eta_init": 0.5, "importance_clip": 1.5}
    options |= {"eps_eta": 0.07, "eps_mean": 0.02, "eps_std": 0.01, "act_by": "online", "torso": "layernorm"}
    agent = stirred("vmpo", discrete, vf_coef=0.7, kl_over=kl_over, **options)
    batch = agent.estep(rows(agent))
    loss, figures = agent.loss(batch)
    told = numbers(agent.divergences(batch, figures))
    params = agent.policy(batch.obs)
    psi = batch.psi
    fit = -(psi * distribution(agent, params).log_prob(batch.action)).sum()
    critic = 0.5 * (agent.critic(batch.obs) - batch.value_target).square().mean()
    eta = torch.nn.functional.softplus(agent.duals["raw_eta"]) + 1e-8
    temperature = vmpo_temperature_loss(batch.advantage, batch.kept, batch.log_importance, eta, 0.07)
    wanted, slack = fit + 0.7 * critic + temperature, 0.0
    parts = [part.sum(-1) for part in kl_parts(agent.policy, batch.old, params)]
    for (name, bound), part in zip(bounds.items(), parts, strict=False):
        alpha = torch.nn.functional.softplus(agent.duals[f"raw_alpha_{name}"]) + 1e-8
        everywhere, of_the_kept = part.mean(), part[batch.kept].mean()
        assert everywhere.item() != pytest.approx(of_the_kept.item(), rel=1e-3)
        kl = of_the_kept if kl_over == "kept" else everywhere
        wanted, slack = wanted + alpha.detach() * kl + alpha * (bound - kl.detach()), slack + alpha * (bound - kl)
        tells = {f"kl/{name}": kl, f"kl/{name}_relative": kl / bound, f"dual/alpha_{name}": alpha}
        tells |= {f"kl/{name}_all": everywhere, f"kl/{name}_kept": of_the_kept, f"loss/kl_{name}_penalty": alpha * kl}
        assert {key: told[key] for key in tells} == pytest.approx(numbers(tells), rel=1e-10)
    assert ("kl/std" in told) != discrete and not [key for key in told if "/" not in key]
    tells = {"policy": fit, "value": critic, "temperature": temperature, "alpha": slack, "dual": slack + temperature}
    for name, part in tells.items():
        assert told[f"loss/{name}"] == pytest.approx(part.item(), rel=1e-10)
    assert told["loss/total"] == loss.item() == pytest.approx(wanted.item(), rel=1e-10)
    parameters = [*agent.policy.parameters(), *agent.critic.parameters(), *agent.duals.parameters()]
    for got, right in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(wanted, parameters), strict=True):
        torch.testing.assert_close(got, right, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("normalize", [True, False])
def test_estep_by_hand(normalize):
    """The best half by advantage, weighed by min(ratio, clip) times exp(A / eta), the ratio that of the TARGET."""
    agent = stirred("vmpo", importance_clip=1.5, act_by="online", eta_init=0.5, normalize_advantage=normalize)
    batch = rows(agent)
    log_prob = distribution(agent, agent.target_policy(batch.obs)).log_prob(batch.action)
    ratio = vector(-2.0, -1.0, -0.1, 0.0, 0.1, 0.3, 0.5, 3.0)
    batch = dataclasses.replace(batch, behavior_log_prob=(log_prob - ratio).detach())
    got = agent.estep(batch)
    w = vector(-2.0, -1.0, -0.1, 0.0, 0.1, 0.3, math.log(1.5), math.log(1.5)).exp()
    torch.testing.assert_close(got.log_importance.exp(), w, rtol=1e-10, atol=0)
    best = batch.advantage.argsort(descending=True)[:4]
    assert got.kept.nonzero().flatten().tolist() == sorted(best.tolist())
    advantage = normalize_advantage(batch.advantage) if normalize else batch.advantage
    odds = torch.where(got.kept, w * (advantage / 0.5).exp(), 0.0)
    torch.testing.assert_close(got.scaled_advantage, advantage)
    torch.testing.assert_close(got.psi, odds / odds.sum(), rtol=1e-7, atol=1e-12)
    for mine, theirs in zip(got.old, agent.target_policy(batch.obs), strict=True):
        assert torch.equal(mine, theirs)
    plain = stirred("vmpo").estep(batch)
    assert not plain.log_importance.any()


@pytest.mark.parametrize("fraction", [0.04, 0.5])
def test_a_top_k_that_keeps_no_eligible_sample_is_refused(fraction, same):
    """Of 32 rows it keeps at least one; of the one or twenty that are real it keeps none."""
    agent, env, obs = small_agent("vmpo", top_k_frac=fraction, normalize_reward=True)
    rollout, _ = agent.collect(env, obs)
    weight, real = torch.zeros_like(rollout.reward), 1 if fraction == 0.5 else 20
    weight.view(-1)[:real] = 1.0
    before, told = everything(agent), refusal(agent.update, dataclasses.replace(rollout, restart_weight=weight))
    assert told == f"top_k_frac: wanted one that keeps at least one sample; {fraction} of {real} eligible steps is none"
    assert same(before, everything(agent))


def test_figures_of_an_update():
    agent, env, obs = small_agent("vmpo", dtype=F64, **BY_RATIO | {"eps_eta": 0.3})
    _, obs = live(agent, env, obs, 2)
    rollout, _ = agent.collect(env, obs)
    batch = agent.estep(agent.prepare(rollout))
    figures = numbers(agent.update(rollout))
    kept, advantage, w, eta = batch.kept, batch.advantage, batch.log_importance.exp(), agent.duals.value("eta")
    psi, spread = batch.psi[kept], advantage.std(correction=0)
    to_the_kept = (psi * (psi / (w[kept] / w[kept].sum())).log()).sum()
    wanted = {
        "kl/psi_kept": to_the_kept,
        "kl/psi_kept_relative": to_the_kept / 0.3,
        "kl/psi_batch": (psi * (psi * 32).log()).sum(),
        "train/effective_samples": 1 / psi.square().sum(),
        "train/importance_mean": w.mean(),
        "train/selected_fraction": torch.tensor(0.5),
        "adv/threshold": advantage[kept].min(),
        "adv/std_over_eta": spread / eta,
        "adv/raw_std": spread,
        "dual/eta": eta,
    }
    for name, value in wanted.items():
        assert figures[name] == pytest.approx(value.item(), rel=1e-8), name
    assert figures["kl/psi_batch"] >= math.log(2) and advantage[kept].min() >= advantage[~kept].max()
    assert w.mean() < 1.0 and w.max() <= 1.05
    assert {"loss/dual", "kl/mean_all", "kl/std_kept", "kl/mean_relative"} < figures.keys()
    assert "train/importance_mean" not in live(*small_agent("vmpo", **LAG), 1)[0]
