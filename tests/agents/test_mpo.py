"""MPO: its losses by hand, the order of its steps, every option, and a state that is complete with its replay.

The duals are in test_duals.py, the replay in test_replay.py, what the agent refuses in test_bad_input_mpo.py.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
from torch import distributions as td

from minerva_lite.agents.mpo import MPOAgent, MPOConfig
from minerva_lite.experience.rollout import Rollout
from minerva_lite.formulas.returns import retrace_targets
from minerva_lite.worlds.envs import EnvSpec, make_env
from tests.living import check_option_matters, check_restored, differ, learned, live, make_agent, vector

F64 = torch.float64
SMALL = {
    "num_envs": 4,
    "rollout_steps": 8,
    "learner_steps": 3,
    "warmup_steps": 32,
    "replay_steps": 400,
    "minibatch_size": 8,
    "action_samples": 5,
    "value_samples": 4,
    "target_period": 2,
    "hidden": (8,),
}
RETRACE = {"critic_target": "retrace", "sequence_length": 4}
WORLDS = ["Pendulum-v1", "CartPole-v1"]
BATCH, ACTIONS = 6, 2  # states of a batch, dimensions of an action, in the agents that have no world


def make(env_id: str = "Pendulum-v1", **options):
    return make_agent("mpo", env_id, **SMALL | options)


def alone(discrete: bool = False, **options) -> MPOAgent:
    """An agent in float64 with two action dimensions, or three actions, whose policy and critic have left their start."""
    spec = EnvSpec("test", obs_dim=3, num_actions=3) if discrete else EnvSpec("test", obs_dim=3, action_dim=ACTIONS)
    agent = MPOAgent(MPOConfig(**SMALL | options), spec, seed=0, device="cpu", dtype=F64)
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in (agent.policy, agent.target_policy, agent.critic, agent.target_critic):
            for p in module.parameters():
                p.add_(0.3 * torch.randn(p.shape, generator=g, dtype=F64))
    return agent


def states(n: int = BATCH) -> torch.Tensor:
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


def test_fit_loss_by_hand():
    """Actions 0 and 2 of weights 1/4 and 3/4; old N(0, 1), new N(1, 2^2): the mean with std 1, the std with mean 0."""
    agent = MPOAgent(MPOConfig(**SMALL), EnvSpec("test", obs_dim=3, action_dim=1), device="cpu", dtype=F64)
    action, weights = vector(0.0, 2.0).reshape(2, 1, 1), vector(0.25, 0.75).reshape(2, 1)
    old, new = (vector(0.0)[None], vector(1.0)[None]), (vector(1.0)[None], vector(2.0)[None])
    half_log = 0.5 * math.log(2 * math.pi)
    by_mean, by_std = 0.5 + half_log, 0.75 * 0.5 + math.log(2) + half_log
    loss, parts = agent.policy_loss(action, weights, old, new, {})  # no KL is priced: the fit alone
    assert loss.item() == parts["loss/policy"].item() == pytest.approx(by_mean + by_std, abs=1e-14)
    # A finite set: 1/4 of -log(1/2) and 3/4 of -log(1/3); three actions of probabilities 1/2, 1/3, 1/6.
    agent = alone(discrete=True)
    action, weights = torch.arange(3).unsqueeze(1), vector(0.25, 0.75, 0.0).unsqueeze(1)
    params = (vector(1 / 2, 1 / 3, 1 / 6).log().unsqueeze(0),)
    wanted = 0.25 * math.log(2) + 0.75 * math.log(3)
    loss, parts = agent.policy_loss(action, weights, params, params, {})
    assert loss.item() == parts["loss/policy"].item() == pytest.approx(wanted, abs=1e-14)
    # Each KL at its price: 5 nats at 3, and the fit is told without them.
    agent = alone(discrete=True, alpha_mean_init=3.0)
    loss, parts = agent.policy_loss(action, weights, params, params, {"mean": vector(5.0)})
    assert loss.item() - 15.0 == pytest.approx(wanted, abs=1e-6)
    assert parts["loss/policy"].item() == pytest.approx(wanted, abs=1e-14)


def kl_by_torch(agent, old, new):
    """The parts of KL(old || new), mean over the states: the mean's with the old std, the std's with the old mean."""
    if agent.policy.discrete:
        return [td.kl_divergence(td.Categorical(logits=old[0]), td.Categorical(logits=new[0])).mean(0, keepdim=True)]
    was = td.Normal(*old)
    parts = [td.kl_divergence(was, td.Normal(new[0], old[1])), td.kl_divergence(was, td.Normal(old[0], new[1]))]
    return [p.mean(0) if agent.config.per_dimension else p.sum(-1).mean(0, keepdim=True) for p in parts]


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("per_dimension", [False, True])
def test_mstep_by_hand(discrete, per_dimension):
    """By plain gradient steps: raw multipliers against (bound - KL) times the slope of softplus, then the policy
    against the gradient of the weighted likelihood plus the KL at the NEW multipliers."""
    rates = {"policy_learning_rate": 0.1, "dual_learning_rate": 0.5}
    big = {"optimizer": "sgd", "max_grad_norm": 1e9, "eps_mean": 0.02, "eps_std": 0.01, "alpha_mean_init": 3.0}
    agent = alone(discrete, per_dimension=per_dimension, **rates | big)
    obs, old, action, _, _, weights, _ = estep_of(agent)
    raws = [agent.duals[f"raw_alpha_{n}"].detach().clone() for n in (("mean",) if discrete else ("mean", "std"))]
    twin = copy.deepcopy(agent.policy)
    new = twin(obs)
    parts = kl_by_torch(agent, old, new)
    figures = agent.mstep(obs, old, action, weights)
    alphas = []
    for name, raw, part, bound in zip(("mean", "std"), raws, parts, (0.02, 0.01), strict=False):
        assert part.shape == ((ACTIONS,) if per_dimension and not discrete else (1,)) and (part > 0).all()
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


def sequences(agent: MPOAgent, steps: int = 4):
    """What a replay might give: [steps, 3] with a terminal step and a truncated one."""
    g = torch.Generator().manual_seed(3)
    spec, shape = agent.spec, (steps, 3)
    terminated, truncated = torch.zeros(2, *shape, dtype=torch.bool)
    terminated[1, 0], truncated[1, 1], terminated[3, 2], truncated[3, 2] = True, True, True, True
    action = (
        torch.randint(3, shape, generator=g)
        if spec.num_actions
        else torch.randn(*shape, ACTIONS, generator=g, dtype=F64)
    )
    rest = torch.randn(2, *shape, generator=g, dtype=F64)
    obs = torch.randn(2, *shape, 3, generator=g, dtype=F64)
    return Rollout(obs[0], action, rest[0], (), rest[1], obs[1], terminated, truncated)


@pytest.mark.parametrize("discrete", [False, True])
def test_critic_targets_by_hand(discrete, monkeypatch):
    """r + gamma V at the true successor, no V where terminated; Retrace of the target networks' Q and ratios."""
    for options in ({}, RETRACE | {"lam": 0.8}):
        agent = alone(discrete, gamma=0.9, **options)
        batch = sequences(agent)
        asked = []

        def value(obs, asked=asked):
            asked.append(obs)
            return obs.sum(-1)

        monkeypatch.setattr(agent, "expected_value", value)
        got = agent.critic_targets(batch, batch.obs, batch.next_obs)
        assert len(asked) == 1 and torch.equal(asked[0], batch.next_obs)
        next_value = batch.next_obs.sum(-1)
        if options:
            log_ratio = agent.policy.log_prob(agent.target_policy(batch.obs), batch.action) - batch.behavior_log_prob
            q_value = agent.target_critic(batch.obs, batch.action)
            wanted = retrace_targets(
                batch.reward, q_value, next_value, log_ratio, batch.terminated, batch.truncated, gamma=0.9, lam=0.8
            )
            assert differ([wanted[:-1]], [(batch.reward + 0.9 * next_value)[:-1]])
        else:
            wanted = batch.reward + 0.9 * torch.where(batch.terminated, 0.0, next_value)
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)
        assert not got.requires_grad


def test_expected_value_by_hand():
    """Three actions of probabilities 1/2, 1/3, 1/6 and values 6, 12, -6: 6. Or a mean over draws from the target."""
    agent = alone(discrete=True)
    agent.target_policy = lambda obs: (vector(1 / 2, 1 / 3, 1 / 6).log().expand(*obs.shape[:-1], 3),)
    agent.target_critic = lambda obs: vector(6.0, 12.0, -6.0).expand(*obs.shape[:-1], 3)
    got = agent.expected_value(torch.zeros(2, 4, 3, dtype=F64))
    torch.testing.assert_close(got, torch.full((2, 4), 6.0, dtype=F64), rtol=1e-12, atol=0)
    agent = alone(value_samples=7)
    obs, start = states(4).reshape(2, 2, 3), agent.minibatch_generator.get_state()
    got = agent.expected_value(obs)
    agent.minibatch_generator.set_state(start)
    mean, std = (p.expand(7, 2, 2, ACTIONS) for p in agent.target_policy(obs))
    draws = mean + std * torch.randn(7, 2, 2, ACTIONS, generator=agent.minibatch_generator, dtype=F64)
    wanted = sum(agent.target_critic(obs, a) for a in draws) / 7
    torch.testing.assert_close(got, wanted.detach(), rtol=1e-12, atol=1e-12)


def test_overshoot_by_hand():
    """(1.3, -1.4) is 0.5 outside the box, a norm of 0.3 and 0.4; inside and on the edge nothing."""
    action = torch.tensor([[[1.3, -1.4], [1.0, -1.0]], [[0.2, 0.9], [-4.0, 0.5]]], dtype=F64)
    agent, told = alone(action_penalty=True, eps_eta=0.2, eps_penalty=0.05, eta_init=2.0, eta_penalty_init=0.7), []
    step, zero = agent.gradient_step, torch.zeros(2, 2, dtype=F64)
    agent.gradient_step = lambda name, loss: (told.append((name, loss.item())), step(name, loss))[1]
    weights, figures = agent.estep(action, zero - math.log(2), zero)  # Q says nothing: its weights are 1/2 each
    pull, eta = weights - 0.5, figures["dual/eta_penalty"]
    wanted = torch.tensor([[-0.5, 0.0], [0.0, -3.0]], dtype=F64)
    from_the_one_inside = eta * (pull.log() - pull.log().max(0).values)
    torch.testing.assert_close(from_the_one_inside, wanted, rtol=1e-12, atol=1e-12)
    # The largest of each state is 0: of the penalty's dual the spread remains.
    spread = (wanted / 0.7).exp().mean(0).log().mean().item()
    assert told == [("duals", pytest.approx(2.0 * 0.2 + 0.7 * (0.05 + spread), abs=1e-7))]


# The E-step


@pytest.mark.parametrize("discrete", [False, True])
def test_candidates_and_what_they_weighed_before(discrete):
    agent = alone(discrete)
    obs = states()
    old = tuple(p.detach() for p in agent.target_policy(obs))
    start = agent.minibatch_generator.get_state()
    action, log_prior, q_value = agent.candidates(obs, old)
    n = 3 if discrete else 5
    assert log_prior.shape == q_value.shape == (n, BATCH) and action.shape[:2] == (n, BATCH)
    torch.testing.assert_close(log_prior.exp().sum(0), torch.ones(BATCH, dtype=F64), rtol=1e-12, atol=0)
    for i in range(n):
        at = agent.target_critic(obs, action[i])
        torch.testing.assert_close(q_value[i], at, rtol=1e-12, atol=1e-12)
        if discrete:
            assert (action[i] == i).all(), "every action of the set, once"
            torch.testing.assert_close(log_prior[i].exp(), old[0].softmax(-1)[:, i], rtol=1e-12, atol=0)
    if discrete:
        assert torch.equal(start, agent.minibatch_generator.get_state()), "nothing is drawn"
    else:
        agent.minibatch_generator.set_state(start)
        noise = torch.randn(n, BATCH, ACTIONS, generator=agent.minibatch_generator, dtype=F64)
        torch.testing.assert_close(action, old[0] + old[1] * noise, rtol=1e-12, atol=1e-12)
        assert (log_prior == -math.log(n)).all()


@pytest.mark.parametrize("eps_eta", [0.02, 0.1])
def test_a_finite_set_is_weighed_exactly(eps_eta):
    """Weights pi(a) exp(Q / eta) / Z counted out action by action; at the temperature that the dual settles on, no
    other distribution within the bound earns more."""
    agent = alone(discrete=True, eps_eta=eps_eta, dual_learning_rate=0.05)
    for _ in range(1500):
        _, _, _, log_prior, q_value, weights, figures = estep_of(agent)
    eta = agent.duals.value("eta").item()
    for b in range(BATCH):
        odds = [math.exp(log_prior[i, b]) * math.exp(q_value[i, b] / eta) for i in range(3)]
        assert weights[:, b].tolist() == pytest.approx([x / sum(odds) for x in odds], abs=1e-12)
    assert figures["kl/estep"].item() == pytest.approx(eps_eta, rel=1e-3), "the bound binds, on average over states"
    # Every other distribution at the same temperature pays more divergence than it earns.
    g = torch.Generator().manual_seed(0)
    earned = ((weights * q_value).sum(0) - eta * (weights * (weights.log() - log_prior)).sum(0)).mean()
    for spread in (0.01, 0.1, 1.0):
        for _ in range(50):
            rival = (weights.log() + spread * torch.randn(3, BATCH, generator=g, dtype=F64)).softmax(0)
            gain = ((rival * q_value).sum(0) - eta * (rival * (rival.log() - log_prior)).sum(0)).mean()
            assert gain <= earned + 1e-12


def test_figures_of_the_estep():
    agent = alone()
    *_, log_prior, q_value, weights, figures = estep_of(agent)
    assert weights.sum(0).tolist() == pytest.approx([1.0] * BATCH, abs=1e-12)
    kl = (weights * (weights.log() - log_prior)).sum(0).mean().item()
    assert figures["kl/estep"].item() == pytest.approx(kl, rel=1e-10)
    assert figures["train/weights_entropy"].item() == pytest.approx(math.log(5) - kl, rel=1e-10)
    assert figures["train/effective_samples"].item() == pytest.approx(
        (1 / weights.square().sum(0)).mean().item(), rel=1e-10
    )
    assert figures["dual/eta"].item() == agent.duals.value("eta").item()


def test_the_action_penalty_adds_a_second_set_of_weights():
    """Each state's weights sum to 2; actions within the box are pulled alike, of those outside the nearer more."""
    agent = alone(action_penalty=True, eta_penalty_init=0.5)
    obs, old, action, log_prior, q_value, _, _ = estep_of(agent)
    action = 3.0 * action
    weights, figures = agent.estep(action, log_prior, q_value)
    assert weights.sum(0).tolist() == pytest.approx([2.0] * BATCH, abs=1e-12)
    outside = (action - action.clamp(-1, 1)).norm(dim=-1)
    pull = (-outside / agent.duals.value("eta_penalty").detach()).softmax(0)
    by_q = (q_value / agent.duals.value("eta").detach()).softmax(0)
    torch.testing.assert_close(weights, by_q + pull, rtol=1e-9, atol=1e-12)
    assert figures["dual/eta_penalty"].item() == agent.duals.value("eta_penalty").item()
    assert "eta_penalty" not in "".join(alone().duals.keys())


def test_the_action_penalty_is_refused_for_discrete_actions():
    with pytest.raises(ValueError, match="^action_penalty: wanted False"):
        make("CartPole-v1", action_penalty=True)


# The steps and their order


@pytest.mark.parametrize("env_id", WORLDS)
@pytest.mark.parametrize("policy_steps", [1, 2])
def test_critic_then_temperature_then_prices_and_policy(env_id, policy_steps, monkeypatch):
    agent, env, obs = make(env_id, policy_steps=policy_steps, learner_steps=1)
    asked, step = [], agent.gradient_step
    monkeypatch.setattr(agent, "gradient_step", lambda name, loss: (asked.append(name), step(name, loss))[1])
    live(agent, env, obs, 1)
    assert asked == ["critic", "duals"] + policy_steps * ["duals", "policy"]


@pytest.mark.parametrize("env_id", WORLDS)
def test_the_first_kl_is_zero_and_the_next_is_not(env_id):
    """The first M-step after a copy starts at its center; the second has left it."""
    for learner_steps, wanted in ((1, True), (2, False), (3, True)):  # target_period 2: the third is a first again
        agent, env, obs = make(env_id, learner_steps=learner_steps)
        figures, _ = live(agent, env, obs, 1)
        parts = [v.item() for k, v in figures.items() if k in ("kl/mean", "kl/std")]
        assert len(parts) == (2 if env_id == "Pendulum-v1" else 1)
        assert all(abs(part) < 1e-12 for part in parts) == wanted


@pytest.mark.parametrize("env_id", WORLDS)
def test_the_realized_kl_is_that_of_target_and_policy(env_id):
    """Many steps on one batch: the figure is the KL before the step, and on average the price holds it at its bound."""
    options = {"target_period": 10_000, "policy_learning_rate": 1e-2, "eps_mean": 0.01, "eps_std": 0.005}
    agent, env, obs = make(env_id, **options, dual_learning_rate=0.3)
    rollout, _ = agent.collect(env, obs)
    agent.replay.insert(rollout)
    late = {"kl/mean": [], "kl/std": []}
    for i in range(300):
        batch = agent.replay.sample(64, 1, torch.Generator().manual_seed(0))
        at = agent.normalized(batch.obs).flatten(0, 1)
        new, old = agent.policy(at), agent.target_policy(at) if agent.learned else None
        figures = agent.learner_step(batch)
        if old is not None:
            for name, part in zip(("mean", "std"), kl_by_torch(agent, old, new), strict=False):
                assert figures[f"kl/{name}"].item() == pytest.approx(part.mean().item(), rel=1e-3, abs=1e-7)
        if i >= 200:
            for name in late.keys() & figures.keys():
                late[name].append(figures[name].item())
    for name, bound in (("kl/mean", 0.01), ("kl/std", 0.005)):
        assert sum(late[name]) / 100 < 2 * bound


@pytest.mark.parametrize("env_id", WORLDS)
def test_multipliers_start_at_their_values(env_id):
    wanted = {"eta": 0.3, "alpha_mean": 7.0} | (
        {"alpha_std": 40.0, "eta_penalty": 0.05} if env_id == "Pendulum-v1" else {}
    )
    settings = {f"{name}_init": value for name, value in wanted.items()}
    agent, _, _ = make(env_id, **settings, action_penalty=env_id == "Pendulum-v1")
    assert {name.removeprefix("raw_") for name in agent.duals} == set(wanted)
    for name, value in wanted.items():
        assert agent.duals.value(name).flatten().tolist() == pytest.approx([value], rel=1e-6)


@pytest.mark.parametrize("per_dimension", [True, False])
def test_one_multiplier_each_dimension_or_one_for_all(per_dimension):
    agent = alone(per_dimension=per_dimension)
    shape = (ACTIONS,) if per_dimension else (1,)
    assert agent.duals.value("alpha_mean").shape == agent.duals.value("alpha_std").shape == shape
    assert alone(discrete=True, per_dimension=per_dimension).duals.value("alpha_mean").shape == (1,)


def test_raw_multipliers_are_projected_after_their_step():
    agent = alone(optimizer="sgd", dual_learning_rate=1e4, eta_init=1e-3, eps_eta=50.0)
    estep_of(agent)
    assert agent.duals["raw_eta"].item() == -18.0
    assert agent.duals.value("eta").item() == pytest.approx(math.exp(-18) + 1e-8, rel=1e-6)


def test_targets_are_copies_and_move_only_when_they_are_due():
    agent, env, obs = make(target_period=2, learner_steps=1)
    seen = []
    for _ in range(5):
        before = learned(agent.policy), learned(agent.critic)
        _, obs = live(agent, env, obs, 1)
        fresh = [
            not differ(learned(t), b) for t, b in zip((agent.target_policy, agent.target_critic), before, strict=True)
        ]
        assert fresh[0] == fresh[1]
        seen.append(fresh[0])
    assert seen == [True, False, True, False, True], "synchronized before the first of every two learner steps"
    assert not any(p.requires_grad for p in (*agent.target_policy.parameters(), *agent.target_critic.parameters()))


@pytest.mark.parametrize("learn_from", ["first", "all"])
def test_which_steps_of_a_sequence_are_learned_from(learn_from, monkeypatch):
    agent, env, obs = make(learn_from=learn_from, learner_steps=1, **RETRACE)
    shapes, critic_step, mstep = [], agent.critic_step, agent.mstep
    monkeypatch.setattr(agent, "critic_step", lambda o, a, t: (shapes.append(tuple(t.shape)), critic_step(o, a, t))[1])
    monkeypatch.setattr(agent, "mstep", lambda s, *rest: (shapes.append(tuple(s.shape)), mstep(s, *rest))[1])
    live(agent, env, obs, 1)
    assert shapes == ([(1, 8), (8, 3)] if learn_from == "first" else [(4, 8), (32, 3)])


def test_learning_waits_for_the_warmup_and_for_a_whole_sequence():
    agent, env, obs = make(warmup_steps=64)
    before = learned(agent)
    figures, obs = live(agent, env, obs, 1)
    assert figures["train/replay_steps"] == 32 and not differ(before, learned(agent)) and agent.learned == 0
    figures, obs = live(agent, env, obs, 1)
    assert figures["train/replay_steps"] == 64 and agent.learned == 3 and differ(before, learned(agent))
    agent, env, obs = make(warmup_steps=0, **RETRACE | {"sequence_length": 10})
    assert [live(agent, env, obs, 1)[0].get("loss/critic") is None for _ in range(2)] == [True, False]


# Options

# One row per option: environment ("ToyEcho-v0" has two action dimensions), what is set in both, and two values.
SGD = {"optimizer": "sgd"}
PENALTY = {"action_penalty": True, "log_std_init": 0.5}
OPTIONS = [
    ("num_envs", "Pendulum-v1", {}, 2, 4),
    ("rollout_steps", "Pendulum-v1", {}, 4, 8),
    ("learner_steps", "Pendulum-v1", {}, 2, 3),
    ("warmup_steps", "Pendulum-v1", {}, 32, 64),
    ("replay_steps", "Pendulum-v1", {}, 48, 400),
    ("minibatch_size", "Pendulum-v1", {}, 8, 9),
    ("sequence_length", "Pendulum-v1", {}, 1, 2),
    ("critic_target", "Pendulum-v1", {"sequence_length": 4}, "one_step", "retrace"),
    ("learn_from", "Pendulum-v1", {"sequence_length": 2}, "all", "first"),
    ("gamma", "Pendulum-v1", {}, 0.9, 0.99),
    ("lam", "Pendulum-v1", RETRACE, 0.5, 1.0),
    ("action_samples", "Pendulum-v1", {}, 4, 5),
    ("value_samples", "Pendulum-v1", {}, 4, 5),
    ("eps_eta", "Pendulum-v1", {}, 0.1, 0.5),
    ("eps_mean", "Pendulum-v1", SGD, 0.01, 0.02),
    ("eps_std", "Pendulum-v1", SGD, 1e-4, 1e-3),
    ("eps_mean", "CartPole-v1", SGD, 0.01, 0.02),
    ("per_dimension", "ToyEcho-v0", {}, True, False),
    ("action_penalty", "Pendulum-v1", {}, True, False),
    ("eps_penalty", "Pendulum-v1", SGD | PENALTY, 1e-3, 1e-1),
    ("eta_init", "Pendulum-v1", {}, 1.0, 2.0),
    ("eta_penalty_init", "Pendulum-v1", PENALTY, 1.0, 2.0),
    ("alpha_mean_init", "Pendulum-v1", {}, 1.0, 2.0),
    ("alpha_std_init", "Pendulum-v1", {}, 1.0, 2.0),
    ("policy_steps", "Pendulum-v1", {}, 1, 2),
    ("target_period", "Pendulum-v1", {}, 2, 3),
    ("optimizer", "Pendulum-v1", {}, "adam", "sgd"),
    ("momentum", "Pendulum-v1", SGD, 0.0, 0.9),
    ("critic_learning_rate", "Pendulum-v1", {}, 1e-3, 2e-3),
    ("policy_learning_rate", "Pendulum-v1", {}, 1e-3, 2e-3),
    ("dual_learning_rate", "Pendulum-v1", {}, 1e-2, 2e-2),
    ("temperature_learning_rate", "Pendulum-v1", {}, None, 2e-2),
    ("anneal_lr", "Pendulum-v1", {}, False, True),
    ("max_grad_norm", "Pendulum-v1", SGD, 0.01, 40.0),
    ("normalize_obs", "Pendulum-v1", {}, True, False),
    ("hidden", "Pendulum-v1", {}, (8,), (8, 8)),
    ("critic_hidden", "Pendulum-v1", {}, None, (4,)),
    ("log_std_init", "Pendulum-v1", {}, 0.0, -0.5),
]  # fmt: skip


@pytest.mark.parametrize(("option", "env_id", "base", "one", "other"), OPTIONS, ids=lambda x: str(x))
def test_every_option_matters(option, env_id, base, one, other):
    check_option_matters(lambda **o: make(env_id, **base | o), option, one, other, updates=3)


def test_no_option_is_left_out():
    assert {row[0] for row in OPTIONS} == {field.name for field in dataclasses.fields(MPOConfig)}


@pytest.mark.parametrize("anneal", [False, True])
def test_learning_rates_fall_only_where_that_is_asked_for(anneal):
    agent, env, obs = make(
        anneal_lr=anneal, critic_learning_rate=2e-3, policy_learning_rate=4e-3, dual_learning_rate=5e-2
    )
    live(agent, env, obs, 1, progress=0.25)
    rates = {name: optimizer.param_groups[0]["lr"] for name, optimizer in agent.optimizers.items()}
    left = 0.75 if anneal else 1.0
    assert rates == pytest.approx({"critic": 2e-3 * left, "policy": 4e-3 * left, "duals": 5e-2})


# A state that is complete


@pytest.mark.parametrize(
    "options", [{}, RETRACE, {"action_penalty": True, "normalize_obs": True}, {"replay_steps": 40}], ids=str
)
@pytest.mark.parametrize("env_id", WORLDS)
def test_a_restored_agent_goes_on_to_the_bit(env_id, options, same):
    """Replay (wrapped, in one case), multipliers, target networks, optimizers and the count of learner steps included."""
    if env_id == "CartPole-v1":
        options = {k: v for k, v in options.items() if k != "action_penalty"}
    check_restored(*make(env_id, **options), same)


def test_a_foreign_state_is_not_taken():
    state = make()[0].state_dict()
    for other in (make(eps_eta=0.2)[0], make("CartPole-v1")[0]):
        with pytest.raises(ValueError, match="^state: wanted one saved with this config and environment; got another"):
            other.load_state_dict(state)


@pytest.mark.parametrize("env_id", WORLDS)
def test_seeds_decide_everything(env_id):
    ends = []
    for seed in (0, 0, 1):
        agent, env, obs = make_agent("mpo", env_id, seed=seed, **SMALL)
        live(agent, env, obs, 3)
        ends.append(learned(agent))
    assert not differ(ends[0], ends[1]) and differ(ends[0], ends[2])


@pytest.mark.parametrize("env_id", WORLDS)
def test_float64_is_the_same_agent_with_more_digits(env_id):
    ends = []
    for dtype in (torch.float32, torch.float64):
        agent, env, obs = make_agent("mpo", env_id, dtype=dtype, **SMALL)
        ends.append([p.double() for p in learned(agent)])
    for single, double in zip(*ends, strict=True):
        torch.testing.assert_close(single, double, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("env_id", WORLDS)
def test_figures_carry_no_graph_and_are_finite(env_id):
    agent, env, obs = make(env_id)
    figures, _ = live(agent, env, obs, 3)
    wanted = {
        "loss/critic", "loss/policy", "kl/estep", "kl/mean", "dual/eta", "dual/alpha_mean", "train/entropy",
        "train/effective_samples", "train/weights_entropy", "train/replay_steps", "train/skipped_batches",
        "train/critic_grad_norm", "train/policy_grad_norm", "value/q_mean", "value/q_min", "value/q_max", "value/target_std",
        "value/pred_std", "loss/total", "loss/alpha", "loss/temperature", "loss/dual", "loss/kl_mean_penalty",
        "kl/estep_relative", "kl/mean_relative", "train/param_step_norm",
    }  # fmt: skip
    if env_id == "Pendulum-v1":
        wanted |= {"kl/std", "dual/alpha_std", "train/std", "train/std_min", "train/abs_action"}
        wanted |= {"kl/std_relative", "loss/kl_std_penalty", "train/std_max"}
    assert set(figures) == wanted
    assert all(v.dim() == 0 and not v.requires_grad and v.isfinite() for v in figures.values())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("env_id", WORLDS)
def test_everything_stays_on_a_cuda_device(env_id, same):
    config = MPOConfig(**SMALL | RETRACE, normalize_obs=True)
    env = make_env(env_id, config.num_envs, device="cuda")
    agent, cpu = (MPOAgent(config, env.spec, device=device) for device in ("cuda", "cpu"))
    assert all(torch.equal(a.cpu(), b) for a, b in zip(learned(agent), learned(cpu), strict=True))
    before = learned(agent)
    figures, obs = live(agent, env, env.reset(), 3)
    assert differ(before, learned(agent)) and obs.device.type == "cuda"
    assert {column.device.type for column in agent.replay.columns.values()} == {"cuda"}
    assert all(math.isfinite(v) for v in figures.values())
    twin = MPOAgent(config, env.spec, seed=1, device="cuda")
    twin.load_state_dict(agent.state_dict())
    assert same(live(twin, copy.deepcopy(env), obs.clone(), 1)[0], live(agent, env, obs, 1)[0])
