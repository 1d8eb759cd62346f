"""MPO: its losses by hand, the order of its steps, every option.

What it shares with V-MPO is in test_faults_mpo.py, the replay in test_replay.py.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import distributions as td

from minerva_lite.agents.optimizers import flatten
from tests.living import SGD, every_option, kl_parts, live, numbers, small_agent, stirred

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


# Losses and targets by hand


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("per_dimension", [False, True])
def test_mstep_by_hand(discrete, per_dimension):
    """By plain gradient steps: raw multipliers against (bound - KL) times the slope of softplus, then the policy
    against the gradient of the weighted likelihood plus the KL at the NEW multipliers. And what is told of them."""
    rates = {"policy_learning_rate": 0.1, "dual_learning_rate": 0.5}
    big = {"optimizer": "sgd", "max_grad_norm": 1e9, "eps_mean": 0.02, "eps_std": 0.01, "alpha_mean_init": 3.0}
    agent = stirred("mpo", discrete, per_dimension=per_dimension, **rates | big)
    obs = torch.randn(6, 3, generator=torch.Generator().manual_seed(2), dtype=F64)
    with torch.no_grad():
        old = agent.target_policy(obs)
        action, log_prior, q_value = agent.candidates(obs, old)
    weights, of_the_estep = agent.estep(action, log_prior, q_value)
    raws = [agent.duals[f"raw_alpha_{n}"].detach().clone() for n in (("mean",) if discrete else ("mean", "std"))]
    twin = copy.deepcopy(agent.policy)
    new = twin(obs)
    parts = [p.mean(0) if per_dimension else p.sum(-1).mean(0, keepdim=True) for p in kl_parts(agent.policy, old, new)]
    figures = of_the_estep | agent.mstep(obs, old, action, weights)
    figures |= agent.sums_and_shares(figures)
    wanted, price, slack = {"kl/estep_relative": figures["kl/estep"] / 0.1}, 0.0, 0.0
    for name, raw, part, bound in zip(("mean", "std"), raws, parts, (0.02, 0.01), strict=False):
        assert part.shape == ((2,) if per_dimension and not discrete else (1,)) and (part > 0).all()
        moved = raw - 0.5 * (bound - part.detach()) * raw.sigmoid()
        torch.testing.assert_close(agent.duals[f"raw_alpha_{name}"].detach(), moved, rtol=1e-10, atol=1e-12)
        before, alpha = (torch.nn.functional.softplus(x) + 1e-8 for x in (raw, moved))
        price, slack = price + (alpha * part).sum(), slack + (before * (bound - part)).sum()
        wanted |= {f"kl/{name}": part.mean(), f"kl/{name}_relative": part.mean() / bound}
        wanted |= {f"dual/alpha_{name}": alpha.mean(), f"loss/kl_{name}_penalty": (alpha * part).sum()}
    if discrete:
        fit = -(weights * td.Categorical(logits=new[0]).log_prob(action)).sum(0).mean()
    else:
        by_mean = td.Normal(new[0], old[1]).log_prob(action).sum(-1)
        by_std = td.Normal(old[0], new[1]).log_prob(action).sum(-1)
        fit = -(weights * (by_mean + by_std)).sum(0).mean()
    loss = fit + price
    gradient = torch.autograd.grad(loss, list(twin.parameters()))
    wanted |= {"loss/policy": fit, "loss/total": loss, "loss/alpha": slack}
    wanted |= {"loss/dual": slack + figures["loss/temperature"], "train/policy_grad_norm": flatten(gradient).norm()}
    assert {name: figures[name].item() for name in wanted} == pytest.approx(numbers(wanted), rel=1e-10)
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
    both = agent.sums_and_shares(figures | {"loss/alpha": zero[0, 0]})["loss/dual"]
    assert losses == [("duals", pytest.approx(both.item()))]


# The steps and their order


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("policy_steps", [1, 2])
def test_critic_then_temperature_then_prices_and_policy(env_id, policy_steps, monkeypatch):
    agent, env, obs = small_agent("mpo", env_id, policy_steps=policy_steps, learner_steps=1)
    asked, step = [], agent.gradient_step
    monkeypatch.setattr(agent, "gradient_step", lambda name, loss: (asked.append(name), step(name, loss))[1])
    live(agent, env, obs, 1)
    assert asked == ["critic", "duals"] + policy_steps * ["duals", "policy"]


def test_its_spreads_are_those_of_its_last_batch():
    agent, env, obs = small_agent("mpo", dtype=F64, learner_steps=1, target_period=100, policy_learning_rate=1e-2)
    _, obs = live(agent, env, obs, 3)
    seen, sample = [], agent.replay.sample
    agent.replay.sample = lambda *where: seen.append(sample(*where)) or seen[-1]
    critic, policy = copy.deepcopy(agent.critic), copy.deepcopy(agent.policy)
    told = numbers(live(agent, env, obs, 1)[0])
    value, std = critic(seen[0].obs, seen[0].action), policy(seen[0].obs)[1]
    assert told["value/pred_std"] == pytest.approx(value.std(correction=0).item(), rel=1e-8)
    assert [told["train/std_min"], told["train/std_max"]] == pytest.approx([x.item() for x in std.aminmax()])
    assert told["train/std_min"] < told["train/std_max"]
    assert {"loss/dual", "kl/estep_relative", "kl/mean_relative", "kl/std_relative"} < told.keys()
