"""V-MPO: its loss by hand, who is kept and how it is weighed, every option, rows that are no transitions, a full state.

The duals are in test_duals.py, what the agent refuses in test_bad_input_mpo.py.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import distributions as td

from minerva_lite.agents.vmpo import VMPOAgent, VMPOConfig
from minerva_lite.experience.rollout import Batch
from minerva_lite.worlds.envs import EnvSpec, make_env
from tests.living import (
    FAMILIES,
    FAMILY_NAMES,
    check_option_matters,
    check_restored,
    differ,
    learned,
    live,
    make_agent,
    vector,
)

F64 = torch.float64
SMALL = {"num_envs": 4, "rollout_steps": 16, "inner_steps": 3, "hidden": (16,), "policy_learning_rate": 3e-3}
ROWS, ACTIONS = 8, 2


def make(env_id: str = "Pendulum-v1", **options):
    return make_agent("vmpo", env_id, **SMALL | options)


def alone(discrete: bool = False, **options) -> VMPOAgent:
    """An agent in float64 with two action dimensions, or three actions, whose policy has left its target."""
    spec = EnvSpec("test", obs_dim=3, num_actions=3) if discrete else EnvSpec("test", obs_dim=3, action_dim=ACTIONS)
    agent = VMPOAgent(VMPOConfig(**SMALL | options), spec, seed=0, device="cpu", dtype=F64)
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in (agent.policy, agent.target_policy, agent.critic):
            for p in module.parameters():
                p.add_(0.3 * torch.randn(p.shape, generator=g, dtype=F64))
    return agent


def rows(agent: VMPOAgent, n: int = ROWS) -> Batch:
    """A batch as `prepare` leaves it: [n] rows."""
    g = torch.Generator().manual_seed(2)
    obs = torch.randn(n, 3, generator=g, dtype=F64)
    action = (
        torch.randint(3, (n,), generator=g)
        if agent.policy.discrete
        else torch.randn(n, ACTIONS, generator=g, dtype=F64)
    )
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


def kl_by_torch(agent, old, new):
    """The parts of KL(old || new) in each row: the mean's with the old std, the std's with the old mean."""
    if agent.policy.discrete:
        return [td.kl_divergence(td.Categorical(logits=old[0]), td.Categorical(logits=new[0]))]
    was = td.Normal(*old)
    return [
        td.kl_divergence(was, td.Normal(new[0], old[1])).sum(-1),
        td.kl_divergence(was, td.Normal(old[0], new[1])).sum(-1),
    ]


# The loss by hand


@pytest.mark.parametrize("kl_over", ["all", "kept"])
@pytest.mark.parametrize("discrete", [False, True])
def test_loss_by_hand(discrete, kl_over):
    """-sum psi log pi + c_V half the squared error + the temperature's dual + for each part its KL at the present
    price, and the price against bound - KL; in value and in every gradient."""
    agent = alone(
        discrete,
        eps_eta=0.07,
        eps_mean=0.02,
        eps_std=0.01,
        vf_coef=0.7,
        alpha_mean_init=3.0,
        alpha_std_init=2.0,
        eta_init=0.5,
        kl_over=kl_over,
    )
    batch = agent.estep(rows(agent))
    loss, figures = agent.loss(batch)
    params = agent.policy(batch.obs)
    psi = batch.psi
    fit = -(psi * distribution(agent, params).log_prob(batch.action)).sum()
    critic = 0.5 * (agent.critic(batch.obs) - batch.value_target).square().mean()
    eta = torch.nn.functional.softplus(agent.duals["raw_eta"]) + 1e-8
    kept = batch.advantage[batch.kept]
    temperature = eta * (0.07 + (kept / eta).exp().mean().log())
    wanted = fit + 0.7 * critic + temperature
    parts = kl_by_torch(agent, batch.old, params)
    for name, bound, part in zip(("mean", "std"), (0.02, 0.01), parts, strict=False):
        alpha = torch.nn.functional.softplus(agent.duals[f"raw_alpha_{name}"]) + 1e-8
        kl = part[batch.kept].mean() if kl_over == "kept" else part.mean()
        wanted = wanted + alpha.detach() * kl + alpha * (bound - kl.detach())
        assert figures[f"kl/{name}"].item() == pytest.approx(kl.item(), rel=1e-10)
        assert figures[f"dual/alpha_{name}"].item() == pytest.approx(alpha.item(), rel=1e-10)
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-10)
    assert figures["loss/policy"].item() == pytest.approx(fit.item(), rel=1e-10)
    assert figures["loss/value"].item() == pytest.approx(critic.item(), rel=1e-10)
    assert figures["loss/temperature"].item() == pytest.approx(temperature.item(), rel=1e-10)
    parameters = [*agent.policy.parameters(), *agent.critic.parameters(), *agent.duals.parameters()]
    for got, right in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(wanted, parameters), strict=True):
        torch.testing.assert_close(got, right, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("discrete", [False, True])
def test_kl_parts_by_hand(discrete):
    """Old first, new second; the mean over all rows, or over the kept ones only."""
    for kl_over in ("all", "kept"):
        agent = alone(discrete, kl_over=kl_over, eps_mean=0.02, eps_std=0.01)
        batch = agent.estep(rows(agent))
        params = agent.policy(batch.obs)
        mean_over = batch.kept if kl_over == "kept" else torch.ones(ROWS, dtype=torch.bool)
        wanted = [part[mean_over].mean().item() for part in kl_by_torch(agent, batch.old, params)]
        loss, figures = agent.loss(batch)
        assert [name for name in figures if name.startswith("kl/")] == ["kl/mean", "kl/std"][: len(wanted)]
        assert [figures[name].item() for name in figures if name.startswith("kl/")] == pytest.approx(wanted, rel=1e-10)
        # A multiplier's slope is its bound less the KL.
        raws = [agent.duals[f"raw_alpha_{name}"] for name in ("mean", "std")[: len(wanted)]]
        slopes = [g / raw.sigmoid() for g, raw in zip(torch.autograd.grad(loss, raws), raws, strict=True)]
        bounds = [slope.item() + kl for slope, kl in zip(slopes, wanted, strict=True)]
        assert bounds == pytest.approx([0.02, 0.01][: len(wanted)], rel=1e-9)


def test_estep_by_hand():
    """The best half by advantage, weighed by min(ratio, clip) times exp(A / eta), the ratio that of the TARGET."""
    agent = alone(importance_clip=1.5, act_by="online", eta_init=0.5)
    batch = rows(agent)
    log_prob = distribution(agent, agent.target_policy(batch.obs)).log_prob(batch.action)
    ratio = vector(-2.0, -1.0, -0.1, 0.0, 0.1, 0.3, 0.5, 3.0)
    batch = dataclasses.replace(batch, behavior_log_prob=(log_prob - ratio).detach())
    got = agent.estep(batch)
    w = vector(-2.0, -1.0, -0.1, 0.0, 0.1, 0.3, math.log(1.5), math.log(1.5)).exp()
    torch.testing.assert_close(got.log_importance.exp(), w, rtol=1e-10, atol=0)
    best = batch.advantage.argsort(descending=True)[: ROWS // 2]
    assert got.kept.nonzero().flatten().tolist() == sorted(best.tolist())
    odds = torch.where(got.kept, w * (batch.advantage / 0.5).exp(), 0.0)
    torch.testing.assert_close(got.psi, odds / odds.sum(), rtol=1e-7, atol=1e-12)
    for mine, theirs in zip(got.old, agent.target_policy(batch.obs), strict=True):
        assert torch.equal(mine, theirs)
    plain = alone().estep(batch)
    assert not plain.log_importance.any()


# The E-step


@pytest.mark.parametrize("fraction", [0.1, 0.5, 1.0])
def test_the_top_k_are_kept_and_weighed_by_exp_of_advantage_over_eta(fraction):
    """Weights proportional to exp(A / eta) over the k best, counted out one by one; 0 for the rest; a sum of 1."""
    agent = alone(top_k_frac=fraction, eta_init=0.7)
    batch = rows(agent, 20)
    got = agent.estep(batch)
    k = math.floor(fraction * 20 + 1e-9)
    order = sorted(range(20), key=lambda i: -batch.advantage[i].item())
    odds = {i: math.exp(batch.advantage[i].item() / agent.duals.value("eta").item()) for i in order[:k]}
    wanted = [odds.get(i, 0.0) / sum(odds.values()) for i in range(20)]
    assert got.psi.tolist() == pytest.approx(wanted, abs=1e-12)
    assert got.kept.nonzero().flatten().tolist() == sorted(order[:k])


@pytest.mark.parametrize("discrete", [False, True])
def test_the_estep_beats_every_rival_at_its_temperature(discrete):
    """Among distributions over the kept, none earns more after paying eta for each nat; at the dual's minimum the
    bound binds."""
    agent = alone(discrete, eps_eta=0.05, dual_learning_rate=0.05)
    for _ in range(1500):
        agent.gradient_step(agent.loss(agent.estep(rows(agent, 20)))[0])
    batch = agent.estep(rows(agent, 20))
    psi, advantage = batch.psi[batch.kept], batch.advantage[batch.kept]
    assert (psi * (psi * 10).log()).sum().item() == pytest.approx(0.05, rel=1e-2)
    eta, g = agent.duals.value("eta").item(), torch.Generator().manual_seed(0)

    def worth(p):
        return ((p * advantage).sum() - eta * (p * (10 * p).log()).sum()).item()

    for spread in (0.01, 0.1, 1.0):
        for _ in range(50):
            assert (
                worth((psi.log() + spread * torch.randn(10, generator=g, dtype=F64)).softmax(0)) <= worth(psi) + 1e-12
            )


def test_psi_stays_over_the_inner_steps(monkeypatch):
    agent, env, obs = make(inner_steps=4)
    seen, calls, loss, estep = [], [], agent.loss, agent.estep
    monkeypatch.setattr(agent, "loss", lambda b: (seen.append((b.psi.clone(), b.old[0].clone())), loss(b))[1])
    monkeypatch.setattr(agent, "estep", lambda b: (calls.append(1), estep(b))[1])
    live(agent, env, obs, 1)
    assert len(calls) == 1 and len(seen) == 4
    assert not any(differ(seen[0], each) for each in seen[1:])


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_the_first_kl_is_zero_and_the_next_is_not(env_id, options):
    """The first inner step starts at the center of its bounds; the second has left it."""
    for inner_steps in (1, 2):
        agent, env, obs = make(env_id, inner_steps=inner_steps, **options)
        figures, _ = live(agent, env, obs, 2)
        parts = [v.item() for k, v in figures.items() if k in ("kl/mean", "kl/std")]
        assert len(parts) == (1 if env_id == "CartPole-v1" else 2)
        assert all(abs(part) < 1e-12 for part in parts) == (inner_steps == 1)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_multipliers_start_at_their_values(env_id):
    wanted = {"eta": 0.3, "alpha_mean": 7.0} | ({"alpha_std": 40.0} if env_id == "Pendulum-v1" else {})
    agent, _, _ = make(env_id, **{f"{name}_init": value for name, value in wanted.items()})
    assert {name.removeprefix("raw_") for name in agent.duals} == set(wanted)
    for name, value in wanted.items():
        assert agent.duals.value(name).item() == pytest.approx(value, rel=1e-6)


def test_raw_multipliers_are_projected_after_their_step():
    agent = alone(optimizer="sgd", dual_learning_rate=1e4, eta_init=1e-3, eps_eta=50.0)
    batch = rows(agent)
    agent.gradient_step(agent.loss(agent.estep(batch))[0])
    assert agent.duals["raw_eta"].item() == -18.0


@pytest.mark.parametrize("period", [1, 3])
def test_the_target_is_copied_after_every_so_many_updates_and_acts(period):
    agent, env, obs = make(target_period=period)
    moved = []
    for _ in range(6):
        before = learned(agent.target_policy)
        _, obs = live(agent, env, obs, 1)
        moved.append(differ(before, learned(agent.target_policy)))
        assert moved[-1] == (not differ(learned(agent.policy), learned(agent.target_policy))), "a copy, or left alone"
    assert moved == [(i + 1) % period == 0 for i in range(6)]
    assert agent.acting_policy is agent.target_policy
    online = make(act_by="online")[0]
    assert online.acting_policy is online.policy


def test_the_rollout_holds_log_probs_of_the_policy_that_acted():
    """With a target that lags behind, the stored density is that of the policy that acted."""
    for act_by in ("target", "online"):
        agent, env, obs = make(target_period=5, act_by=act_by)
        _, obs = live(agent, env, obs, 2)
        rollout, _ = agent.collect(env, obs)
        by = {"target": agent.target_policy, "online": agent.policy}
        density = {n: agent.policy.log_prob(p(agent.normalized(rollout.obs)), rollout.action) for n, p in by.items()}
        torch.testing.assert_close(rollout.behavior_log_prob, density[act_by].detach(), rtol=1e-5, atol=1e-5)
        other = density["online" if act_by == "target" else "target"]
        assert (rollout.behavior_log_prob - other).abs().max() > 1e-4


def test_importance_weights_are_one_where_the_target_acts_and_not_where_it_lags():
    agent, env, obs = make(act_by="online", importance_clip=1.2, target_period=5, policy_learning_rate=1e-2)
    _, obs = live(agent, env, obs, 2)
    w = agent.estep(agent.prepare(agent.collect(env, obs)[0])).log_importance.exp()
    assert (w - 1).abs().max() > 1e-3 and w.max() <= 1.2 + 1e-6
    fresh, env, obs = make(act_by="online", importance_clip=1.2)
    w = fresh.estep(fresh.prepare(fresh.collect(env, obs)[0])).log_importance.exp()
    torch.testing.assert_close(w, torch.ones_like(w), rtol=0, atol=1e-5)


def test_normalized_advantages_are_weighed_and_figured():
    agent = alone(normalize_advantage=True)
    batch = rows(agent)
    got = agent.estep(dataclasses.replace(batch, advantage=50.0 + 9.0 * batch.advantage))
    assert got.scaled_advantage.mean().item() == pytest.approx(0.0, abs=1e-9)
    assert got.scaled_advantage.std(correction=0).item() == pytest.approx(1.0, abs=1e-6)
    torch.testing.assert_close(got.psi, agent.estep(batch).psi, rtol=1e-6, atol=1e-9)


# Networks


def test_a_shared_encoder_is_the_policys_and_moves_with_both_losses():
    agent, env, obs = make(shared_encoder=True)
    assert agent.critic.shared[0][0] is agent.policy.encoder[0]
    own = sum(p.numel() for p in agent.critic.parameters())
    assert own == 16 + 1, "the encoder is listed once, with the policy"
    assert len({id(p) for p in agent.parameters}) == len(agent.parameters)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    first = agent.policy.mean[0].weight
    (slope,) = torch.autograd.grad(agent.critic(batch.obs).sum(), first)
    assert slope.abs().sum() > 0
    value = agent.critic(batch.obs).detach()
    live(agent, env, obs, 1)
    assert differ([value], [agent.critic(batch.obs).detach()])


def test_a_layernorm_torso_gives_a_std_that_depends_on_the_state():
    agent, env, obs = make(torso="layernorm")
    live(agent, env, obs, 2)
    g = torch.Generator().manual_seed(0)
    assert agent.policy(torch.randn(9, 3, generator=g))[1].std() > 0
    agent, env, obs = make(torso="tanh")
    live(agent, env, obs, 2)
    std = agent.policy(torch.randn(9, 3, generator=g))[1]
    assert torch.equal(std, std[:1].expand(9, -1))


def test_gradient_norms_are_clipped_over_policy_and_critic_together():
    agent = alone(
        optimizer="sgd", policy_learning_rate=1.0, value_learning_rate=1.0, dual_learning_rate=1e-9, max_grad_norm=0.01
    )
    batch = rows(agent)
    before = learned(agent.policy) + learned(agent.critic)
    norm = agent.gradient_step(agent.loss(agent.estep(batch))[0])
    after = learned(agent.policy) + learned(agent.critic)
    moved = math.sqrt(sum((a - b).square().sum().item() for a, b in zip(before, after, strict=True)))
    assert norm > 0.01 and moved == pytest.approx(0.01, rel=1e-3)


# Options

SGD = {"optimizer": "sgd"}
LAG = {"act_by": "online", "target_period": 2}
BY_RATIO = LAG | {"importance_clip": 1.05, "policy_learning_rate": 1e-2}
OPTIONS = [
    ("num_envs", "Pendulum-v1", {}, 2, 4),
    ("rollout_steps", "Pendulum-v1", {}, 16, 32),
    ("whole_episodes", "CartPole-v1", {"rollout_steps": 40}, True, False),
    ("gamma", "Pendulum-v1", {}, 0.9, 0.99),
    ("lam", "Pendulum-v1", {}, 0.9, 0.95),
    ("estimator", "Pendulum-v1", {}, "gae", "returns"),
    ("estimator", "Pendulum-v1", {}, "gae", "td"),
    ("normalize_obs", "Pendulum-v1", {}, True, False),
    ("normalize_reward", "Pendulum-v1", {}, True, False),
    ("normalize_advantage", "Pendulum-v1", {}, True, False),
    ("hidden", "Pendulum-v1", {}, (16,), (16, 16)),
    ("critic_hidden", "Pendulum-v1", {}, None, (4,)),
    ("value_target", "Pendulum-v1", {}, "advantage", "returns"),
    ("head_init", "Pendulum-v1", {}, "orthogonal", "small"),
    ("log_std_init", "Pendulum-v1", {}, 0.0, -0.5),
    ("squash", "Pendulum-v1", {}, True, False),
    ("inner_steps", "Pendulum-v1", {}, 2, 3),
    ("top_k_frac", "Pendulum-v1", {}, 0.5, 1.0),
    ("eps_eta", "Pendulum-v1", SGD, 0.1, 0.5),
    ("eps_mean", "Pendulum-v1", SGD, 0.01, 0.02),
    ("eps_mean", "CartPole-v1", SGD, 0.01, 0.02),
    ("eps_std", "Pendulum-v1", SGD, 1e-4, 1e-3),
    ("eta_init", "Pendulum-v1", {}, 1.0, 2.0),
    ("alpha_mean_init", "Pendulum-v1", {}, 1.0, 2.0),
    ("alpha_std_init", "Pendulum-v1", {}, 1.0, 2.0),
    ("kl_over", "Pendulum-v1", {}, "all", "kept"),
    ("log_normalizer", "Pendulum-v1", BY_RATIO | SGD, "weights", "count"),
    ("target_period", "Pendulum-v1", {}, 1, 2),
    ("act_by", "Pendulum-v1", {"target_period": 2}, "target", "online"),
    ("importance_clip", "Pendulum-v1", BY_RATIO, None, 1.05),
    ("importance_clip", "Pendulum-v1", BY_RATIO, 1.01, 1.05),
    ("torso", "Pendulum-v1", {}, "tanh", "layernorm"),
    ("torso", "CartPole-v1", {}, "tanh", "layernorm"),
    ("shared_encoder", "Pendulum-v1", {}, True, False),
    ("optimizer", "Pendulum-v1", {}, "adam", "sgd"),
    ("momentum", "Pendulum-v1", SGD, 0.0, 0.9),
    ("policy_learning_rate", "Pendulum-v1", {}, 1e-3, 2e-3),
    ("value_learning_rate", "Pendulum-v1", {}, 1e-3, 2e-3),
    ("dual_learning_rate", "Pendulum-v1", {}, 1e-2, 2e-2),
    ("temperature_learning_rate", "Pendulum-v1", {}, None, 2e-2),
    ("anneal_lr", "Pendulum-v1", {}, False, True),
    ("vf_coef", "Pendulum-v1", SGD, 0.5, 1.0),
    ("max_grad_norm", "Pendulum-v1", SGD, 0.01, 10.0),
]  # fmt: skip


@pytest.mark.parametrize(("option", "env_id", "base", "one", "other"), OPTIONS, ids=lambda x: str(x))
def test_every_option_matters(option, env_id, base, one, other):
    check_option_matters(lambda **o: make(env_id, **base | o), option, one, other, updates=4)


def test_no_option_is_left_out():
    assert {row[0] for row in OPTIONS} == {field.name for field in dataclasses.fields(VMPOConfig)}


@pytest.mark.parametrize("anneal", [False, True])
def test_learning_rates_fall_only_where_that_is_asked_for(anneal):
    rates = {"policy_learning_rate": 2e-3, "value_learning_rate": 4e-3, "dual_learning_rate": 5e-2}
    agent, env, obs = make(**rates, anneal_lr=anneal)
    figures, _ = live(agent, env, obs, 1, progress=0.25)
    left = 0.75 if anneal else 1.0
    groups = agent.optimizer.param_groups
    assert [group["lr"] for group in groups] == pytest.approx([2e-3 * left, 4e-3 * left, 5e-2])
    assert figures["train/learning_rate"].item() == pytest.approx(2e-3 * left)


# Figures


def test_figures_of_an_update():
    agent, env, obs = make(dtype=F64, act_by="online", importance_clip=1.2, target_period=5, policy_learning_rate=1e-2)
    _, obs = live(agent, env, obs, 2)
    rollout, _ = agent.collect(env, obs)
    batch = agent.estep(agent.prepare(rollout))
    figures = {name: value.item() for name, value in agent.update(rollout).items()}
    psi, kept, advantage = batch.psi, batch.kept, batch.advantage
    w = batch.log_importance[kept].exp()
    assert figures["kl/psi_kept"] == pytest.approx(
        (psi[kept] * (psi[kept] / (w / w.sum())).log()).sum().item(), rel=1e-8
    )
    assert figures["kl/psi_batch"] == pytest.approx((psi[kept] * (psi[kept] * 64).log()).sum().item(), rel=1e-8)
    assert figures["kl/psi_batch"] >= math.log(2)
    assert figures["train/effective_samples"] == pytest.approx(1 / psi.square().sum().item(), rel=1e-8)
    assert figures["train/selected_fraction"] == 0.5
    assert figures["adv/threshold"] == advantage[kept].min().item() >= advantage[~kept].max().item()
    spread = advantage.std(correction=0).item()
    assert figures["adv/std_over_eta"] == pytest.approx(spread / agent.duals.value("eta").item(), rel=1e-8)
    assert figures["adv/raw_std"] == pytest.approx(spread, rel=1e-8)
    assert figures["dual/eta"] == agent.duals.value("eta").item()


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_figures_carry_no_graph_and_are_finite(env_id, options):
    agent, env, obs = make(env_id, **options)
    figures, _ = live(agent, env, obs, 3)
    assert all(v.dim() == 0 and not v.requires_grad and v.isfinite() for v in figures.values())


# A state that is complete


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
@pytest.mark.parametrize(
    "more",
    [
        {"target_period": 2},
        {"shared_encoder": True, "torso": "layernorm"},
        {"normalize_obs": True, "normalize_reward": True},
    ],
    ids=str,
)
def test_a_restored_agent_goes_on_to_the_bit(env_id, options, more, same):
    """Target, multipliers, optimizer and the count of updates included: with a period of 2 the count is odd when saved."""
    check_restored(*make(env_id, **options | more), same)


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_seeds_decide_everything(env_id, options):
    ends = []
    for seed in (0, 0, 1):
        agent, env, obs = make_agent("vmpo", env_id, seed=seed, **SMALL | options)
        live(agent, env, obs, 2)
        ends.append(learned(agent))
    assert not differ(ends[0], ends[1]) and differ(ends[0], ends[2])


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_a_rollout_improves_the_fit_to_its_best_half(env_id, options):
    agent, env, obs = make(env_id, inner_steps=20, **options)
    rollout, _ = agent.collect(env, obs)
    batch = agent.estep(agent.prepare(rollout))
    before = agent.loss(batch)[1]["loss/policy"]
    agent.update(rollout)
    assert agent.loss(batch)[1]["loss/policy"] < before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_everything_stays_on_a_cuda_device(env_id, options):
    config = VMPOConfig(**SMALL | options, normalize_obs=True, normalize_reward=True)
    env = make_env(env_id, config.num_envs, device="cuda")
    agent, cpu = (VMPOAgent(config, env.spec, device=device) for device in ("cuda", "cpu"))
    assert all(torch.equal(a.cpu(), b) for a, b in zip(learned(agent), learned(cpu), strict=True))
    before = learned(agent)
    figures, obs = live(agent, env, env.reset(), 2)
    assert differ(before, learned(agent)) and obs.device.type == "cuda"
    assert all(math.isfinite(v) for v in figures.values())
