"""MPO: its losses by hand, the order of its steps, every option.

What it shares with V-MPO is in test_faults_mpo.py, the replay in test_replay.py.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import distributions as td

from minerva_lite.agents.mpo import MPOAgent
from tests.living import SGD, every_option, kl_parts, live, small_agent, stirred

F64 = torch.float64
RETRACE = {"critic_target": "retrace", "sequence_length": 4}
PENALTY = {"action_penalty": True, "log_std_init": 0.5}
OPTIONS = {
    "learner_steps": [({}, 2, 3)],
    "warmup_steps": [({}, 32, 64)],
    "replay_steps": [({}, 48, 64)],
    "sequence_length": [({}, 1, 2)],
    "critic_target": [({"sequence_length": 4}, "one_step", "retrace")],
    "learn_from": [({"sequence_length": 2}, "all", "first")],
    "lam": [(RETRACE, 0.5, 1.0)],
    "action_samples": [({}, 4, 5)],
    "value_samples": [({}, 4, 5)],
    "per_dimension": [({"env_id": "ToyEcho-v0"}, True, False)],  # which has two action dimensions
    "action_penalty": [({}, True, False)],
    "eps_penalty": [(SGD | PENALTY, 1e-3, 1e-1)],
    "eta_penalty_init": [(PENALTY, 1.0, 2.0)],
    "policy_steps": [({}, 1, 2)],
    "target_period": [({}, 2, 3)],
    "critic_learning_rate": [({}, 1e-3, 2e-3)],
}
test_every_option_matters = every_option("mpo", OPTIONS)


def states(n: int = 6) -> torch.Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(2), dtype=F64)


def estep_of(agent: MPOAgent):
    """A batch of states, the old parameters there, the candidates, and their weights."""
    obs = states()
    with torch.no_grad():
        old = agent.target_policy(obs)
        action, log_prior, q_value = agent.candidates(obs, old)
    weights, figures = agent.estep(action, log_prior, q_value)
    return obs, old, action, log_prior, q_value, weights, figures


# Losses and targets by hand


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("per_dimension", [False, True])
def test_mstep_by_hand(discrete, per_dimension):
    """By plain gradient steps: raw multipliers against (bound - KL) times the slope of softplus, then the policy
    against the gradient of the weighted likelihood plus the KL at the NEW multipliers."""
    rates = {"policy_learning_rate": 0.1, "dual_learning_rate": 0.5}
    big = {"optimizer": "sgd", "max_grad_norm": 1e9, "eps_mean": 0.02, "eps_std": 0.01, "alpha_mean_init": 3.0}
    agent = stirred("mpo", discrete, per_dimension=per_dimension, **rates | big)
    obs, old, action, _, _, weights, _ = estep_of(agent)
    raws = [agent.duals[f"raw_alpha_{n}"].detach().clone() for n in (("mean",) if discrete else ("mean", "std"))]
    twin = copy.deepcopy(agent.policy)
    new = twin(obs)
    parts = [p.mean(0) if per_dimension else p.sum(-1).mean(0, keepdim=True) for p in kl_parts(agent.policy, old, new)]
    figures = agent.mstep(obs, old, action, weights)
    alphas = []
    for name, raw, part, bound in zip(("mean", "std"), raws, parts, (0.02, 0.01), strict=False):
        assert part.shape == ((2,) if per_dimension and not discrete else (1,)) and (part > 0).all()
        moved = raw - 0.5 * (bound - part.detach()) * raw.sigmoid()
        torch.testing.assert_close(agent.duals[f"raw_alpha_{name}"].detach(), moved, rtol=1e-10, atol=1e-12)
        alphas.append(torch.nn.functional.softplus(moved) + 1e-8)
        assert figures[f"kl/{name}"].item() == pytest.approx(part.mean().item(), rel=1e-10)
        assert figures[f"dual/alpha_{name}"].item() == pytest.approx(alphas[-1].mean().item(), rel=1e-10)
    if discrete:
        fit = -(weights * td.Categorical(logits=new[0]).log_prob(action)).sum(0).mean()
    else:
        by_mean = td.Normal(new[0], old[1]).log_prob(action).sum(-1)
        by_std = td.Normal(old[0], new[1]).log_prob(action).sum(-1)
        fit = -(weights * (by_mean + by_std)).sum(0).mean()
    assert figures["loss/policy"].item() == pytest.approx(fit.item(), rel=1e-10)
    loss = fit + sum((alpha * part).sum() for alpha, part in zip(alphas, parts, strict=True))
    gradient = torch.autograd.grad(loss, list(twin.parameters()))
    norm = math.sqrt(sum(g.square().sum().item() for g in gradient))
    assert figures["train/policy_grad_norm"].item() == pytest.approx(norm, rel=1e-10)
    for before, g, after in zip(twin.parameters(), gradient, agent.policy.parameters(), strict=True):
        torch.testing.assert_close(after, before - 0.1 * g, rtol=1e-9, atol=1e-12)


def test_overshoot_by_hand():
    """(1.3, -1.4) is 0.5 outside the box, a norm of 0.3 and 0.4; inside and on the edge nothing."""
    action = torch.tensor([[[1.3, -1.4], [1.0, -1.0]], [[0.2, 0.9], [-4.0, 0.5]]], dtype=F64)
    duals = {"eps_eta": 0.2, "eps_penalty": 0.05, "eta_init": 2.0, "eta_penalty_init": 0.7}
    agent, losses = stirred("mpo", action_penalty=True, **duals), []
    step, zero = agent.gradient_step, torch.zeros(2, 2, dtype=F64)
    agent.gradient_step = lambda name, loss: (losses.append((name, loss.item())), step(name, loss))[1]
    weights, figures = agent.estep(action, zero - math.log(2), zero)  # Q says nothing: its weights are 1/2 each
    pull, eta = weights - 0.5, figures["dual/eta_penalty"]
    wanted = torch.tensor([[-0.5, 0.0], [0.0, -3.0]], dtype=F64)
    from_the_one_inside = eta * (pull.log() - pull.log().max(0).values)
    torch.testing.assert_close(from_the_one_inside, wanted, rtol=1e-12, atol=1e-12)
    # The largest of each state is 0: of the penalty's dual the spread remains.
    spread = (wanted / 0.7).exp().mean(0).log().mean().item()
    by_penalty = 0.7 * (0.05 + spread)
    assert figures["loss/temperature"].item() == pytest.approx(2.0 * 0.2, abs=1e-7)
    assert figures["loss/temperature_penalty"].item() == pytest.approx(by_penalty, abs=1e-7)
    assert losses == [("duals", pytest.approx(2.0 * 0.2 + by_penalty, abs=1e-7))]


def test_figures_of_the_estep():
    agent = stirred("mpo", action_samples=5)
    *_, log_prior, _, weights, figures = estep_of(agent)
    torch.testing.assert_close(weights.sum(0), torch.ones(6, dtype=F64), rtol=0, atol=1e-12)
    kl = (weights * (weights.log() - log_prior)).sum(0).mean().item()
    effective = (1 / weights.square().sum(0)).mean().item()
    wanted = {"kl/estep": kl, "train/weights_entropy": math.log(5) - kl, "train/effective_samples": effective}
    assert {name: figures[name].item() for name in wanted} == pytest.approx(wanted, rel=1e-10)
    assert figures["dual/eta"].item() == agent.duals.value("eta").item()


# The steps and their order


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("policy_steps", [1, 2])
def test_critic_then_temperature_then_prices_and_policy(env_id, policy_steps, monkeypatch):
    agent, env, obs = small_agent("mpo", env_id, policy_steps=policy_steps, learner_steps=1)
    asked, step = [], agent.gradient_step
    monkeypatch.setattr(agent, "gradient_step", lambda name, loss: (asked.append(name), step(name, loss))[1])
    live(agent, env, obs, 1)
    assert asked == ["critic", "duals"] + policy_steps * ["duals", "policy"]
