"""What the faults of real MPOs and V-MPOs would break, asked of both: ends, replays, prices, options, divergence."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch

from minerva_lite.agents.vmpo import WeighedBatch
from minerva_lite.experience.replay import SequenceReplay
from minerva_lite.experience.rollout import Rollout
from minerva_lite.formulas.duals import (
    estep_weights,
    multiplier_loss,
    positive,
    project_raw,
    raw_of,
    temperature_loss,
    top_k_mask,
    vmpo_temperature_loss,
    vmpo_weights,
)
from tests.living import differ, learned, make_agent

SMALL = {
    "mpo": {
        "num_envs": 4,
        "rollout_steps": 8,
        "learner_steps": 2,
        "warmup_steps": 0,
        "minibatch_size": 8,
        "replay_steps": 256,
        "hidden": (8,),
    },
    "vmpo": {"num_envs": 4, "rollout_steps": 16, "inner_steps": 3, "hidden": (8,)},
}
BOTH = list(SMALL)
PENDULUM, CARTPOLE = "Pendulum-v1", "CartPole-v1"
PLAIN = {"optimizer": "sgd", "max_grad_norm": 1e9, "anneal_lr": False}  # a step is the rate times the gradient


def make(name: str, env_id: str = PENDULUM, **options):
    """An agent in float64, its environment and the first observation."""
    return make_agent(name, env_id, **{"dtype": torch.float64} | SMALL[name] | options)


def clone(module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def shake(module, generator: torch.Generator, size: float = 0.3) -> None:
    """Move every parameter, so that a network and its target differ."""
    with torch.no_grad():
        for p in module.parameters():
            p += size * torch.randn(p.shape, generator=generator, dtype=p.dtype)


def say(critic, value: float) -> None:
    """Let a critic give `value` everywhere."""
    with torch.no_grad():
        critic.value[-1].weight.zero_()
        critic.value[-1].bias.fill_(value)


# Where episodes end


@pytest.mark.parametrize("critic_target", ["one_step", "retrace"])
def test_a_target_ends_where_the_episode_does_and_bootstraps_where_it_was_cut(critic_target):
    """Toy episodes last 3 steps; even ones terminate, odd ones are cut. Q' is 100 everywhere, every ratio is 1."""
    options = {"critic_target": critic_target, "sequence_length": 4, "gamma": 0.5, "rollout_steps": 16}
    agent, env, obs = make("mpo", "ToyCount-v0", **options)
    say(agent.target_critic, 100.0)
    rollout, _ = agent.collect(env, obs)
    agent.replay.insert(rollout)
    batch = agent.replay.sample(64, 4, agent.minibatch_generator)
    target = agent.critic_targets(batch, batch.obs, batch.next_obs)
    kinds = set()
    for b in range(64):
        for t in range(4):
            wanted, weight, s = 0.0, 1.0, t
            while True:  # forward, step by step: what Retrace is on its own policy's data
                wanted += weight * float(batch.reward[s, b])
                weight *= 0.5
                episode, step = batch.obs[s, b].tolist()
                if step == 2 and episode % 2 == 0:
                    kinds.add(("terminated", s))
                    break
                if step == 2 or s == 3 or critic_target == "one_step":
                    kinds.add(("cut" if step == 2 else "went on", s))
                    wanted += weight * 100.0
                    break
                s += 1
            assert float(target[t, b]) == pytest.approx(wanted), (t, b)
    assert {("terminated", 3), ("terminated", 1), ("cut", 3), ("cut", 1), ("went on", 3)} <= kinds


def unlikely(batch: Rollout, step: int) -> Rollout:
    """The same sequences, but at `step` the behavior policy had been surer of its action by 60 nats: ratio 0."""
    changed = batch.behavior_log_prob.clone()
    changed[step] += 60.0
    return dataclasses.replace(batch, behavior_log_prob=changed)


def test_the_trace_of_a_step_is_the_ratio_of_the_next_action():
    agent, env, obs = make("mpo", critic_target="retrace", sequence_length=3, gamma=0.9)
    shake(agent.target_critic, agent.generator)
    rollout, _ = agent.collect(env, obs)
    agent.replay.insert(rollout)
    batch = agent.replay.sample(8, 3, agent.minibatch_generator)
    state = agent.minibatch_generator.get_state()

    def targets(data: Rollout) -> torch.Tensor:
        agent.minibatch_generator.set_state(state)  # the same sampled actions in the expectation
        return agent.critic_targets(data, data.obs, data.next_obs)

    def one_step() -> torch.Tensor:
        agent.minibatch_generator.set_state(state)
        return batch.reward + 0.9 * agent.expected_value(batch.next_obs)

    whole, short = targets(batch), one_step()
    assert not torch.isclose(whole[:-1], short[:-1], rtol=1e-9).any(), "without a trace there would be nothing to tell"
    torch.testing.assert_close(whole[-1], short[-1])
    # The action of step 0 is given: its own ratio corrects nothing.
    torch.testing.assert_close(targets(unlikely(batch, 0)), whole)
    # The ratio of step 1 is what lets the correction through from step 1 to step 0, and stands nowhere else.
    cut = targets(unlikely(batch, 1))
    torch.testing.assert_close(cut[0], short[0])
    torch.testing.assert_close(cut[1:], whole[1:])


def clocked(first: int, steps: int, envs: int = 3) -> Rollout:
    """Row (t, b) says b and its own hour; every fifth hour terminates, every seventh is cut."""
    hour = torch.arange(first, first + steps).unsqueeze(1).expand(steps, envs)
    obs = torch.stack([torch.arange(envs).expand(steps, envs), hour], -1).double()
    return Rollout(
        obs=obs,
        action=obs[..., :1] + 0.5,
        behavior_log_prob=-hour.double(),
        behavior_params=(),
        reward=10.0 * hour.double(),
        next_obs=obs + 0.25,
        terminated=hour % 5 == 0,
        truncated=(hour % 7 == 0) & (hour % 5 != 0),
    )


@pytest.mark.parametrize("length", [1, 3, 7])
def test_a_replay_samples_every_held_sequence_in_its_order(length, generator):
    replay = SequenceReplay(7)
    for first, steps in ((0, 4), (4, 5), (9, 2)):  # the ring closes within a rollout
        replay.insert(clocked(first, steps))
    assert replay.size == 7 and replay.num_steps == 21
    drawn = replay.sample(900, length, generator)
    env, hour = drawn.obs[..., 0], drawn.obs[..., 1]
    whole = clocked(0, 11)
    for name in ("action", "behavior_log_prob", "reward", "next_obs", "terminated", "truncated"):
        assert torch.equal(getattr(drawn, name), getattr(whole, name)[hour.long(), env.long()]), name
    assert (env == env[0]).all() and (hour == hour[0] + torch.arange(length).unsqueeze(1)).all()
    # All that lie in the ring, and those alone: hours 4 to 10.
    places, count = torch.stack([env[0], hour[0]], -1).unique(dim=0, return_counts=True)
    assert set(places[:, 1].tolist()) == set(range(4, 10 - length + 2)) and len(places) == 3 * (8 - length)
    expected = 900 / len(places)
    assert ((count - expected).abs() < 6 * math.sqrt(expected)).all()


def test_a_replay_refuses_restart_weights():
    phantom = dataclasses.replace(clocked(0, 4), restart_weight=torch.ones(4, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="^restart_weight: wanted none"):
        SequenceReplay(7).insert(phantom)


def test_without_restart_weights_every_row_is_learned_from():
    """Under same-step autoreset no row is a phantom, the first of an episode least of all."""
    agent, env, obs = make("vmpo", "ToyCount-v0")
    rollout, _ = agent.collect(env, obs)
    assert rollout.ended.any() and (rollout.restart_weight is None or bool((rollout.restart_weight == 1).all()))
    batch = agent.prepare(rollout)
    assert torch.equal(batch.obs, rollout.obs.flatten(0, 1))
    assert int(agent.estep(batch).kept.sum()) == 32  # half of 4 * 16


def test_a_row_of_restart_weight_zero_is_left_out():
    agent, env, obs = make("vmpo", "ToyCount-v0")
    rollout, _ = agent.collect(env, obs)
    weight = torch.ones_like(rollout.reward)
    weight[3::4] = 0.0
    batch = agent.prepare(dataclasses.replace(rollout, restart_weight=weight))
    assert torch.equal(batch.obs, rollout.obs[weight == 1])
    assert int(agent.estep(batch).kept.sum()) == 24


@pytest.mark.parametrize("name", ["vmpo", "ppo"])
def test_the_contents_of_a_row_of_restart_weight_zero_do_not_matter(name):
    """Neither the gradients nor any statistics: after episodes that ended in row 2 comes a phantom, of reward 0."""
    ends = []
    for poison in (0.0, 50.0):
        options = {"normalize_obs": True, "normalize_reward": True, "num_envs": 4, "rollout_steps": 16, "hidden": (8,)}
        options |= {"minibatch_size": 16} if name == "ppo" else {}
        agent, env, obs = make_agent(name, "ToyCount-v0", dtype=torch.float64, **options)
        rollout, _ = agent.collect(env, obs)
        changed = {"restart_weight": torch.ones_like(rollout.reward)}
        changed["restart_weight"][3] = 0.0
        for column in ("obs", "next_obs", "action", "behavior_log_prob"):
            changed[column] = getattr(rollout, column).clone()
            changed[column][3] += poison
        changed["reward"] = rollout.reward.clone()
        changed["reward"][3] = 0.0
        assert rollout.ended[2].all()
        agent.update(dataclasses.replace(rollout, **changed))
        assert agent.obs_normalizer.count == agent.reward_scaler.stats.count == 4 * 15
        ends.append([t.clone() for t in agent.modules.state_dict().values() if isinstance(t, torch.Tensor)])
    assert not differ(*ends)


# The E-step


def test_the_temperature_feels_the_kept_samples_alone():
    """Its slope is eps - KL(psi || kept); what the others' advantages are changes nothing."""
    agent, env, obs = make("vmpo", eps_eta=0.1, eta_init=0.7, kl_over="kept")
    rollout, _ = agent.collect(env, obs)
    batch = agent.estep(agent.prepare(rollout))

    def slope(scaled: torch.Tensor) -> float:
        agent.optimizer.zero_grad()
        agent.loss(dataclasses.replace(batch, scaled_advantage=scaled))[0].backward()
        return float(agent.duals["raw_eta"].grad)

    advantage, kept = batch.scaled_advantage, batch.kept
    psi = batch.psi[kept]
    kl = float(torch.xlogy(psi, psi).sum() + math.log(len(psi)))
    wanted = (0.1 - kl) * float(agent.duals["raw_eta"].detach().sigmoid())
    assert slope(advantage) == pytest.approx(wanted)
    assert slope(advantage.masked_fill(~kept, -1000.0)) == pytest.approx(wanted)
    assert int(kept.sum()) == 32 and float(psi.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("depth", [-60.0, -900.0])
def test_an_ineligible_advantage_far_above_the_rest_underflows_no_weight(depth):
    """A row that does not count, of scaled advantage 0, among samples at -60 or -900, in float32."""
    advantage = torch.tensor([0.0, depth, depth - 1.0, depth - 2.0, depth - 3.0, 0.0])
    eligible = torch.tensor([False, True, True, True, True, False])
    mask, zero = top_k_mask(advantage, eligible, 0.5), torch.zeros(6)
    assert mask.tolist() == [False, True, True, False, False, False]
    raw = torch.tensor(raw_of(1.0), requires_grad=True)
    psi = vmpo_weights(advantage, mask, zero, positive(raw))
    likely = 1.0 / (1.0 + math.exp(-1.0))
    torch.testing.assert_close(psi, torch.tensor([0.0, likely, 1.0 - likely, 0.0, 0.0, 0.0]))
    loss = vmpo_temperature_loss(advantage, mask, zero, positive(raw), 0.1)
    assert float(loss.detach()) == pytest.approx(depth + 0.1 + math.log((1.0 + math.exp(-1.0)) / 2), rel=1e-5)
    loss.backward()
    kl = likely * math.log(2 * likely) + (1 - likely) * math.log(2 * (1 - likely))
    assert float(raw.grad) == pytest.approx((0.1 - kl) * (1 - math.exp(-1.0)), rel=1e-4)


def test_ties_keep_exactly_k():
    """All advantages alike: the first half of the batch, not all of it."""
    agent, env, obs = make("vmpo", top_k_frac=0.5)
    batch = agent.prepare(agent.collect(env, obs)[0])
    kept = agent.estep(dataclasses.replace(batch, advantage=torch.full_like(batch.advantage, 3.0))).kept
    assert kept.tolist() == [True] * 32 + [False] * 32
    three_of_six = top_k_mask(torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0, 1.0]), torch.ones(6, dtype=torch.bool), 0.5)
    assert three_of_six.tolist() == [True, True, False, False, True, False]


def test_large_values_keep_the_temperatures_slope():
    """Q near 1e4 at a temperature of 1e-6, in float32: the slope is still eps - KL(q || prior)."""
    q_value = torch.tensor([[1e4, 1e4], [9.9e3, 9.8e3]])
    log_prior = torch.full((2, 2), -math.log(2.0))
    eta = torch.tensor(1e-6, requires_grad=True)
    temperature_loss(q_value, log_prior, eta, 0.1).backward()
    assert float(eta.grad) == pytest.approx(0.1 - math.log(2.0), rel=1e-5)
    assert torch.equal(estep_weights(q_value, log_prior, eta), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))


def test_a_finite_set_is_weighed_from_the_target_policy_not_from_equal_odds():
    agent, env, obs = make("mpo", CARTPOLE)
    shake(agent.target_policy, agent.generator, 1.0)
    say(agent.target_critic, 5.0)  # no action is better: the weights are the prior
    with torch.no_grad():
        old = agent.target_policy(obs)
        action, log_prior, q_value = agent.candidates(obs, old)
    weights, figures = agent.estep(action, log_prior, q_value)
    assert torch.equal(action, torch.tensor([[0] * 4, [1] * 4])) and not torch.allclose(weights[0], weights[1])
    torch.testing.assert_close(weights, old[0].softmax(-1).T)
    assert float(figures["kl/estep"]) == pytest.approx(0.0, abs=1e-12)


def test_importance_weights_tilt_the_weights_and_their_dual_alike():
    """psi is proportional to w exp(A / eta); the dual's slope is eps - KL(psi || w), over the kept."""
    options = {"act_by": "online", "importance_clip": 1.2, "eta_init": 0.7, "target_period": 3} | PLAIN
    agent, env, obs = make("vmpo", **options)
    shake(agent.policy, agent.generator, 0.2)
    batch = agent.estep(agent.prepare(agent.collect(env, obs)[0]))
    with torch.no_grad():
        ratio = agent.policy.log_prob(agent.target_policy(batch.obs), batch.action) - batch.behavior_log_prob
    kept, weight = batch.kept, ratio.exp().clamp(max=1.2)
    assert (weight < 1.2).any() and (weight == 1.2).any()
    tilted = (weight * ((batch.advantage - batch.advantage.max()) / 0.7).exp())[kept]
    psi, prior = tilted / tilted.sum(), weight[kept] / weight[kept].sum()
    torch.testing.assert_close(batch.psi[kept], psi)
    agent.loss(batch)[0].backward()
    slope = (0.1 - (psi * (psi / prior).log()).sum()) * agent.duals["raw_eta"].detach().sigmoid()
    torch.testing.assert_close(agent.duals["raw_eta"].grad, slope)


# The bounds and their prices


@pytest.mark.parametrize("name", BOTH)
def test_inflating_the_std_does_not_relax_the_bound_on_the_mean(name):
    agent, env, obs = make(name, **({"torso": "layernorm"} if name == "vmpo" else {}))
    parts = {}
    rollout, _ = agent.collect(env, obs)
    for inflated in (0.0, 1.0):
        twin = copy.deepcopy(agent)
        head = twin.policy.mean[-1]
        with torch.no_grad():
            head.bias += torch.tensor([0.3, inflated], dtype=torch.float64)  # the mean's, and the log-std's
            if name == "mpo":
                old = twin.target_policy(obs)
                action, log_prior, _ = twin.candidates(obs, old)
                with torch.enable_grad():
                    figures = twin.mstep(obs, old, action, log_prior.exp())
                parts[inflated] = float(figures["kl/mean"])
            else:
                batch = twin.estep(twin.prepare(rollout))
                parts[inflated] = float(twin.loss(batch)[1]["kl/mean"])
    assert parts[0.0] == pytest.approx(0.5 * 0.3**2, rel=0.05)
    assert parts[1.0] == pytest.approx(parts[0.0])


def moved_policy(name: str, env_id: str, **options):
    """An agent whose policy has left its target, and data to learn from: MPO's arguments of mstep, V-MPO's batch."""
    agent, env, obs = make(name, env_id, **PLAIN | options)
    shake(agent.policy, agent.generator)
    rollout, _ = agent.collect(env, obs)
    with torch.no_grad():
        if name == "vmpo":
            return agent, agent.estep(agent.prepare(rollout))
        states = rollout.obs.flatten(0, 1)
        old = agent.target_policy(states)
        action, log_prior, _ = agent.candidates(states, old)
        return agent, (states, old, action, log_prior.exp())


def realized(agent, data) -> dict[str, torch.Tensor]:
    """KL parts of the present policy, by their definition: means over all states, one an action dimension for MPO."""
    with torch.no_grad():
        states, old = (data.obs, data.old) if isinstance(data, WeighedBatch) else data[:2]
        new = agent.policy(states)
        if agent.policy.discrete:
            p, q = old[0].log_softmax(-1), new[0].log_softmax(-1)
            parts = ((p.exp() * (p - q)).sum(-1, keepdim=True),)
        else:
            (m0, s0), (m1, s1) = old, new
            parts = ((m1 - m0) ** 2 / s0**2 / 2, (s0**2 / s1**2 - 1) / 2 + (s1 / s0).log())
        return dict(zip(("alpha_mean", "alpha_std"), (p.mean(0) for p in parts), strict=False))


@pytest.mark.parametrize("bound", [1e-9, 1e3])
@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize("env_id", [PENDULUM, CARTPOLE])
@pytest.mark.parametrize("name", BOTH)
def test_a_broken_bound_raises_its_price_at_the_multipliers_own_rate(name, env_id, rate, bound):
    """One step of SGD: raw falls by rate * (bound - KL) * slope of softplus, whatever the other learning rates are."""
    agent, data = moved_policy(name, env_id, eps_mean=bound, eps_std=bound, dual_learning_rate=rate)
    kl = realized(agent, data)
    before = {key: raw.detach().clone() for key, raw in agent.duals.items()}
    if name == "mpo":
        agent.mstep(*data)
    else:
        agent.gradient_step(agent.loss(data)[0])
    for key, part in kl.items():
        raw, after = before[f"raw_{key}"], agent.duals[f"raw_{key}"].detach()
        assert (part > 1e-6).all() and (part < 1e3).all()
        assert ((after > raw) == (bound < 1.0)).all(), "the price must rise where the bound is broken"
        wanted = raw - rate * (bound - part.reshape(raw.shape)) * raw.sigmoid()
        torch.testing.assert_close(after, wanted.clamp(min=-18.0))


@pytest.mark.parametrize("name", BOTH)
def test_the_temperature_steps_at_the_multipliers_rate(name):
    """One step of SGD down the dual, whose slope is eps - KL of the weights."""
    agent, env, obs = make(name, **PLAIN, eps_eta=3.0, dual_learning_rate=0.3, eta_init=2.0)
    raw = agent.duals["raw_eta"].detach().clone()
    rollout, _ = agent.collect(env, obs)
    if name == "vmpo":
        batch = agent.estep(agent.prepare(rollout))
        agent.gradient_step(agent.loss(batch)[0])
        psi = batch.psi[batch.kept]
        kl = (torch.xlogy(psi, psi)).sum() + math.log(len(psi))
    else:
        shake(agent.target_critic, agent.generator, 1.0)
        with torch.no_grad():
            action, log_prior, q_value = agent.candidates(obs, agent.target_policy(obs))
        weights = ((q_value - q_value.max(0).values) / 2.0).softmax(0)
        kl = (weights * (weights * len(weights)).log()).sum(0).mean()
        agent.estep(action, log_prior, q_value)
    assert 0.0 < float(kl) < 3.0
    torch.testing.assert_close(agent.duals["raw_eta"].detach(), raw - 0.3 * (3.0 - kl) * raw.sigmoid())


def test_a_multipliers_loss_moves_the_multiplier_alone(generator):
    alpha, kl = (torch.rand(3, generator=generator, requires_grad=True) for _ in range(2))
    multiplier_loss(alpha, kl, 0.1).backward()
    assert kl.grad is None
    torch.testing.assert_close(alpha.grad, 0.1 - kl.detach())


def test_values_and_weights_take_no_gradient_from_the_e_step(generator):
    q_value = torch.rand(4, 3, generator=generator, requires_grad=True)
    log_prior = torch.full((4, 3), -math.log(4.0), requires_grad=True)
    eta = torch.tensor(0.5, requires_grad=True)
    temperature_loss(q_value, log_prior, eta, 0.1).backward()
    assert q_value.grad is None and log_prior.grad is None and float(eta.grad) != 0.0
    assert not estep_weights(q_value, log_prior, eta).requires_grad


def test_a_multiplier_that_fell_to_its_floor_comes_back():
    """Clamped after the step, not inside the graph, where there would be no slope any more."""
    raw = torch.tensor([-30.0, 2.0], dtype=torch.float64, requires_grad=True)
    project_raw(raw.data)
    assert raw.tolist() == [-18.0, 2.0]
    raw.data[0] = -19.0
    multiplier_loss(positive(raw), torch.full((2,), 50.0, dtype=torch.float64), 0.1).backward()
    assert (raw.grad < 0).all()


@pytest.mark.parametrize("name", BOTH)
def test_multipliers_stay_where_they_have_a_slope(name):
    """A slack bound and a huge rate push the raw parameters down without end; the projection holds them at -18."""
    options = PLAIN | {"eps_mean": 1e3, "eps_std": 1e3, "eps_eta": 1e3, "dual_learning_rate": 10.0}
    agent, env, obs = make(name, **options)
    for _ in range(2):
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
    raws = torch.cat([raw.detach().reshape(-1) for raw in agent.duals.values()])
    assert (raws == -18.0).any() and (raws >= -18.0).all()


# Who is who: networks and targets


@pytest.mark.parametrize("env_id", [PENDULUM, CARTPOLE])
def test_the_e_step_and_the_targets_ask_the_target_networks_alone(env_id):
    agent, env, obs = make("mpo", env_id, critic_target="retrace", sequence_length=2)
    rollout, _ = agent.collect(env, obs)
    batch = dataclasses.replace(rollout, behavior_params=())
    state = agent.minibatch_generator.get_state()

    def answers() -> list[torch.Tensor]:
        agent.minibatch_generator.set_state(state)
        with torch.no_grad():
            return [
                *agent.candidates(obs, agent.target_policy(obs)),
                agent.critic_targets(batch, batch.obs, batch.next_obs),
            ]

    noise = torch.Generator().manual_seed(7)
    shake(agent.target_critic, noise)  # a first critic says so little that rounding could hide who was asked
    before = answers()
    for online in (agent.policy, agent.critic):
        shake(online, noise)
        assert not differ(before, answers())
    for target in (agent.target_policy, agent.target_critic):
        shake(target, noise)
        assert differ(before, answers())


@pytest.mark.parametrize("env_id", [PENDULUM, CARTPOLE])
def test_mpos_bounds_are_centered_on_the_target(env_id):
    """Between two copies the policy moves away from its target, and the KL parts say so."""
    agent, env, obs = make("mpo", env_id, learner_steps=3)
    figures = agent.update(agent.collect(env, obs)[0])
    assert float(figures["kl/mean"]) > 0.0


def test_a_critic_knows_no_action_beyond_the_bounds():
    agent, _, obs = make("mpo")
    shake(agent.critic, agent.generator)
    with torch.no_grad():
        inside, edge, beyond = (agent.critic(obs, torch.full_like(obs[:, :1], a)) for a in (0.5, 1.0, 7.0))
    assert torch.equal(edge, beyond) and not torch.equal(inside, edge)


def test_a_shared_encoder_learns_from_the_values_too():
    agent, _, obs = make("vmpo", shared_encoder=True)
    agent.critic(obs).sum().backward()
    gradients = [p.grad for p in agent.policy.encoder.parameters()]
    assert gradients and all(g is not None and g.abs().sum() > 0 for g in gradients)
    assert agent.policy.mean[-1].weight.grad is None


@pytest.mark.parametrize("period", [1, 3])
def test_mpos_targets_move_every_period_of_learner_steps(period):
    agent, env, obs = make("mpo", target_period=period, learner_steps=1)
    for step in range(7):
        online, target = learned_of(agent, ""), learned_of(agent, "target_")
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
        assert not differ(learned_of(agent, "target_"), online if step % period == 0 else target)
        assert differ(learned_of(agent, ""), learned_of(agent, "target_"))


def learned_of(agent, prefix: str) -> list[torch.Tensor]:
    return clone(getattr(agent, prefix + "policy")) + clone(getattr(agent, prefix + "critic"))


@pytest.mark.parametrize("period", [1, 3])
def test_vmpos_target_moves_every_period_of_updates_and_psi_once_an_update(period, monkeypatch):
    agent, env, obs = make("vmpo", target_period=period)
    seen, estep, loss = [], agent.estep, agent.loss
    monkeypatch.setattr(agent, "estep", lambda batch: seen.append("estep") or estep(batch))
    monkeypatch.setattr(agent, "loss", lambda batch: seen.append(clone(agent.target_policy)) or loss(batch))
    for update in range(1, 5):
        target = clone(agent.target_policy)
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
        assert seen[0] == "estep" and len(seen) == 4 and not any(differ(target, s) for s in seen[1:])
        seen.clear()
        wanted = clone(agent.policy) if update % period == 0 else target
        assert not differ(clone(agent.target_policy), wanted) and differ(clone(agent.policy), target)


def test_the_std_is_fitted_with_the_old_mean_and_the_mean_with_the_old_std():
    """Each half of the fit pulls only at its own parameter, and the other's new value does not change its pull."""
    agent, (states, old, action, weights) = moved_policy("mpo", PENDULUM)

    def pulls(mean_shift: float, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        mean, std = (p.detach().clone() for p in old)
        mean, std = (mean + mean_shift).requires_grad_(), (std * scale).requires_grad_()
        agent.policy_loss(action, weights, old, (mean, std), {})[0].backward()  # no KL is priced: the fit alone
        return mean.grad, std.grad

    mean_pull, std_pull = pulls(0.3, 1.0)
    torch.testing.assert_close(pulls(0.3, 5.0)[0], mean_pull)
    torch.testing.assert_close(pulls(2.0, 1.0)[1], std_pull)


@pytest.mark.parametrize(("learn_from", "rows"), [("first", 1), ("all", 3)])
def test_mpo_learns_from_the_first_step_or_from_all(learn_from, rows, monkeypatch):
    agent, env, obs = make("mpo", sequence_length=3, learn_from=learn_from, critic_target="retrace")
    seen, critic_step, mstep = [], agent.critic_step, agent.mstep
    monkeypatch.setattr(agent, "critic_step", lambda *a: seen.append(a[2].shape) or critic_step(*a))
    monkeypatch.setattr(agent, "mstep", lambda *a: seen.append(a[0].shape) or mstep(*a))
    agent.update(agent.collect(env, obs)[0])
    assert seen == [(rows, 8), (rows * 8, 3)] * 2


def test_mpo_waits_until_it_has_something_to_learn_from():
    agent, env, obs = make("mpo", warmup_steps=64)
    for held in (32, 64):
        before = learned_of(agent, "")
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(rollout)
        assert float(figures["train/replay_steps"]) == held
        assert differ(before, learned_of(agent, "")) == (held == 64)


@pytest.mark.parametrize("name", BOTH)
def test_a_restored_agent_continues_to_the_bit(name, same):
    """Replay, counters, moments and multipliers included: whatever is missing shows within five updates."""
    agent, env, obs = make(name, target_period=5 if name == "mpo" else 3)
    for _ in range(4):
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
    twin = type(agent)(agent.config, agent.spec, seed=99, device="cpu", dtype=agent.dtype)
    twin.load_state_dict(copy.deepcopy(agent.state_dict()))
    twin_env, twin_obs = copy.deepcopy(env), obs.clone()
    for _ in range(5):
        rollout, obs = agent.collect(env, obs)
        theirs, twin_obs = twin.collect(twin_env, twin_obs)
        assert same(agent.update(rollout), twin.update(theirs))
        assert same(agent.state_dict(), twin.state_dict())


def test_a_restored_replay_draws_the_same(generator):
    replay, twin = SequenceReplay(7), SequenceReplay(7)
    replay.insert(clocked(0, 5)), replay.insert(clocked(5, 5))
    twin.load_state_dict(replay.state_dict())
    for each in (replay, twin):
        each.insert(clocked(10, 2))
    state = generator.get_state()
    first = replay.sample(50, 3, generator)
    generator.set_state(state)
    second = twin.sample(50, 3, generator)
    assert all(torch.equal(a, second.tensors()[k]) for k, a in first.tensors().items())


# Divergence


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("env_id", [PENDULUM, CARTPOLE])
@pytest.mark.parametrize("name", BOTH)
def test_a_diverged_policy_does_not_train_on(name, env_id, poison):
    """Its outputs are refused at the door, by name, and the third time in a row training ends."""
    agent, env, obs = make(name, env_id)
    rollout, obs = agent.collect(env, obs)
    agent.update(rollout)
    policies = [agent.policy, agent.target_policy]
    with torch.no_grad():
        for policy in policies:
            (policy.logits if policy.discrete else policy.mean)[-1].bias.fill_(poison)
    assert not any(torch.isfinite(p).all() for p in agent.policy(obs)[:1])
    before = learned(agent.modules)
    for skipped in (1, 2):
        figures = agent.update(agent.collect(env, env.reset())[0])
        assert {key: float(value) for key, value in figures.items()} == {"train/skipped_batches": skipped}
        same = [torch.equal(a.nan_to_num(1.0), b.nan_to_num(1.0)) for a, b in zip(before, learned(agent.modules), strict=True)]  # fmt: skip # noqa: E501
        assert all(same)
    with pytest.raises(FloatingPointError, match="not finite in 3 batches in a row"):
        agent.update(agent.collect(env, env.reset())[0])


# Options


@pytest.mark.parametrize("name", BOTH)
def test_a_multiplier_starts_at_its_value(name):
    options = {"eta_init": 0.3, "alpha_mean_init": 5.0, "alpha_std_init": 70.0}
    if name == "mpo":
        options |= {"action_penalty": True, "eta_penalty_init": 0.02}
    agent, _, _ = make(name, **options)
    for key, value in options.items():
        if key.endswith("_init"):
            first = agent.duals.value(key.removesuffix("_init")).detach()
            torch.testing.assert_close(first, torch.full_like(first, value), rtol=1e-6, atol=0.0)


def wide_actions(**options):
    """An MPO, and candidates of which some lie outside [-1, 1]; Q' says nothing, so the penalty decides alone."""
    agent, env, obs = make("mpo", action_penalty=True, **PLAIN | options)
    action = torch.tensor([0.5, -1.0, 1.2, -3.0], dtype=torch.float64).reshape(4, 1, 1).expand(4, 5, 1)
    log_prior = torch.full((4, 5), -math.log(4.0), dtype=torch.float64)
    return agent, (action, log_prior, torch.zeros_like(log_prior))


@pytest.mark.parametrize("eps_penalty", [1e-6, 0.01, 3.0])
def test_the_penaltys_bound_moves_its_temperature(eps_penalty):
    """One step of SGD down a dual of its own: slope eps_penalty - KL(penalty's weights || uniform)."""
    agent, data = wide_actions(eps_penalty=eps_penalty, eta_penalty_init=0.5, dual_learning_rate=0.3)
    raw = agent.duals["raw_eta_penalty"].detach().clone()
    pull = torch.tensor([0.0, 0.0, -0.2, -2.0], dtype=torch.float64).div(0.5).softmax(0)
    kl = (pull * (4 * pull).log()).sum()
    agent.estep(*data)
    wanted = raw - 0.3 * (eps_penalty - kl) * raw.sigmoid()
    torch.testing.assert_close(agent.duals["raw_eta_penalty"].detach(), wanted)


def test_the_penaltys_weights_are_added_and_pull_inside():
    agent, data = wide_actions(eta_penalty_init=0.5)
    weights, figures = agent.estep(*data)
    pull = weights - 0.25  # Q says nothing: its own weights are equal
    torch.testing.assert_close(weights.sum(0), torch.full((5,), 2.0, dtype=torch.float64))
    eta = float(figures["dual/eta_penalty"])
    wanted = torch.tensor([0.0, 0.0, -0.2, -2.0], dtype=torch.float64).div(eta).softmax(0)
    torch.testing.assert_close(pull, wanted.unsqueeze(1).expand(4, 5))
    plain, _ = make("mpo")[0].estep(*data)
    torch.testing.assert_close(plain, torch.full((4, 5), 0.25, dtype=torch.float64))
