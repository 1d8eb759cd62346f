"""What the faults of real MPOs and V-MPOs would break, asked of both: ends, replays, prices, targets, options."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from minerva_lite.formulas.duals import multiplier_loss, positive
from tests.living import SGD, differ, kl_parts, learned, live, numbers, say, shake, small_agent

BOTH = ["mpo", "vmpo"]
PENDULUM, CARTPOLE = "Pendulum-v1", "CartPole-v1"
PLAIN = SGD | {"max_grad_norm": 1e9, "anneal_lr": False}  # a step is the rate times the gradient


def make(name: str, env_id: str = PENDULUM, **options):
    """An agent in float64, its environment and the first observation."""
    return small_agent(name, env_id, **{"dtype": torch.float64} | options)


# Where episodes end


@pytest.mark.parametrize("critic_target", ["one_step", "retrace"])
def test_a_target_ends_where_the_episode_does_and_bootstraps_where_it_was_cut(critic_target):
    """Toy episodes last 3 steps; even ones terminate, odd ones are cut. Q' is 100 everywhere, every ratio is 1.

    So Retrace is the discounted sum to the end of the sequence or of the episode.
    """
    options = {"critic_target": critic_target, "sequence_length": 4, "gamma": 0.5, "rollout_steps": 16}
    agent, env, obs = make("mpo", "ToyCount-v0", **options)
    say(agent.target_critic, 100.0)
    agent.replay.insert(agent.collect(env, obs)[0])
    batch = agent.replay.sample(64, 4, agent.minibatch_generator)
    target = agent.critic_targets(batch, batch.obs, batch.next_obs)
    last, odd = batch.obs[..., 1] == 2, batch.obs[..., 0] % 2 == 1
    terminated, cut = last & ~odd, last & odd
    wanted = torch.full_like(target[0], 100.0)
    for t in reversed(range(4)):
        goes_on = ~cut[t] & (critic_target == "retrace")
        wanted = batch.reward[t] + 0.5 * torch.where(goes_on, wanted, 100.0).masked_fill(terminated[t], 0.0)
        torch.testing.assert_close(target[t], wanted)
    assert all(kind[t].any() for kind in (terminated, cut, ~last) for t in (1, 3))


def test_the_trace_of_a_step_is_the_ratio_of_the_next_action():
    agent, env, obs = make("mpo", critic_target="retrace", sequence_length=3, gamma=0.9)
    shake(agent.target_critic, agent.generator)
    agent.replay.insert(agent.collect(env, obs)[0])
    batch = agent.replay.sample(8, 3, agent.minibatch_generator)
    state = agent.minibatch_generator.get_state()

    def targets(unlikely: int | None = None) -> torch.Tensor:
        """If the behavior policy had been surer of its action at that step by 60 nats: ratio 0."""
        surer = torch.zeros_like(batch.reward)
        surer[slice(0) if unlikely is None else unlikely] = 60.0
        data = dataclasses.replace(batch, behavior_log_prob=batch.behavior_log_prob + surer)
        agent.minibatch_generator.set_state(state)  # the same sampled actions in the expectation
        return agent.critic_targets(data, data.obs, data.next_obs)

    whole, cut = targets(), targets(1)
    agent.minibatch_generator.set_state(state)
    short = batch.reward + 0.9 * agent.expected_value(batch.next_obs)
    assert not torch.isclose(whole[:-1], short[:-1], rtol=1e-9).any(), "without a trace there would be nothing to tell"
    torch.testing.assert_close(whole[-1], short[-1])
    # The action of step 0 is given: its own ratio corrects nothing.
    torch.testing.assert_close(targets(0), whole)
    # The ratio of step 1 is what lets the correction through from step 1 to step 0, and stands nowhere else.
    torch.testing.assert_close(cut, torch.cat([short[:1], whole[1:]]))


def test_without_restart_weights_every_row_is_learned_from():
    """Under same-step autoreset no row is a phantom, the first of an episode least of all."""
    agent, env, obs = make("vmpo", "ToyCount-v0", rollout_steps=16)
    rollout, _ = agent.collect(env, obs)
    assert rollout.ended.any() and rollout.restart_weight is None
    batch = agent.prepare(rollout)
    assert torch.equal(batch.obs, rollout.obs.flatten(0, 1))
    assert int(agent.estep(batch).kept.sum()) == 32  # half of 4 * 16


# The E-step, the bounds and their prices


@pytest.mark.parametrize("env_id", [PENDULUM, CARTPOLE])
def test_the_temperature_steps_at_the_multipliers_rate(env_id):
    """One step of SGD down MPO's dual, whose slope is eps - KL(weights || prior); the new temperature weighs.

    The prior of a finite set is the target policy, not equal odds.
    """
    agent, _, obs = make("mpo", env_id, **PLAIN, eps_eta=3.0, dual_learning_rate=0.3, eta_init=2.0)
    shake(agent.target_policy, agent.generator), shake(agent.target_critic, agent.generator, 1.0)
    raw = agent.duals["raw_eta"].detach().clone()
    with torch.no_grad():
        old = agent.target_policy(obs)
        action, log_prior, q_value = agent.candidates(obs, old)
    prior = old[0].softmax(-1).T if agent.policy.discrete else torch.full_like(q_value, 1 / 16)

    def weighed(eta):
        odds = prior * ((q_value - q_value.max(0).values) / eta).exp()
        weights = odds / odds.sum(0)
        return weights, (weights * (weights / prior).log()).sum(0).mean()

    first, kl = weighed(2.0)
    stepped = raw - 0.3 * (3.0 - kl) * raw.sigmoid()
    wanted, realized = weighed(torch.nn.functional.softplus(stepped) + 1e-8)
    weights, figures = agent.estep(action, log_prior, q_value)
    assert 0.0 < kl < 3.0 and (first - wanted).abs().max() > 1e-3
    torch.testing.assert_close(agent.duals["raw_eta"].detach(), stepped)
    torch.testing.assert_close(weights, wanted)
    told = {
        "dual/eta": agent.duals.value("eta"),
        "kl/estep": realized,
        "train/weights_entropy": -torch.xlogy(wanted, wanted).sum(0).mean(),
        "train/effective_samples": (1 / wanted.square().sum(0)).mean(),
    }
    assert {name: figures[name].item() for name in told} == pytest.approx(numbers(told), rel=1e-8)


@pytest.mark.parametrize("bound", [1e-9, 1e3])
@pytest.mark.parametrize("env_id", [PENDULUM, CARTPOLE])
def test_a_broken_bound_raises_its_price_at_the_multipliers_own_rate(env_id, bound):
    """One step of SGD: raw falls by rate * (bound - KL) * slope of softplus. MPO's steps are in `test_mpo.py`."""
    agent, env, obs = make("vmpo", env_id, **PLAIN, eps_mean=bound, eps_std=bound, dual_learning_rate=0.3)
    shake(agent.policy, agent.generator)
    batch = agent.estep(agent.prepare(agent.collect(env, obs)[0]))
    with torch.no_grad():
        parts = [part.sum(-1).mean() for part in kl_parts(agent.policy, batch.old, agent.policy(batch.obs))]
    before = {name: raw.detach().clone() for name, raw in agent.duals.items()}
    agent.gradient_step(agent.loss(batch)[0])
    for name, part in zip(("raw_alpha_mean", "raw_alpha_std"), parts, strict=False):
        raw, after = before[name], agent.duals[name].detach()
        assert 1e-6 < part < 1e3 and (after > raw) == (bound < 1.0), "the price must rise where the bound is broken"
        torch.testing.assert_close(after, (raw - 0.3 * (bound - part) * raw.sigmoid()).clamp(min=-18.0))


def test_a_multiplier_that_fell_to_its_floor_comes_back():
    """Clamped after the step, not inside the graph, where there would be no slope any more."""
    raw = torch.tensor(-19.0, dtype=torch.float64, requires_grad=True)
    multiplier_loss(positive(raw), torch.tensor(50.0, dtype=torch.float64), 0.1).backward()
    assert raw.grad < 0


@pytest.mark.parametrize("name", BOTH)
def test_multipliers_stay_where_they_have_a_slope(name):
    """A slack bound and a huge rate push the raw parameters down without end; the projection holds them at -18."""
    options = PLAIN | {"eps_mean": 1e3, "eps_std": 1e3, "eps_eta": 1e3, "dual_learning_rate": 10.0}
    agent, env, obs = make(name, **options)
    live(agent, env, obs, 2)
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
@pytest.mark.parametrize(("name", "steps"), [("mpo", "learner_steps"), ("vmpo", "inner_steps")])
def test_the_first_kl_after_a_copy_is_zero_and_the_next_is_not(name, steps, env_id):
    """The bounds are centered on the target: the first step starts there, the second has left it, a copy returns."""
    for count, at_the_center in ((1, True), (2, False), (3, name == "mpo")):  # MPO's third is after a copy again
        figures, _ = live(*make(name, env_id, **{steps: count}, target_period=2 if name == "mpo" else 1), 1)
        parts = [value.item() for key, value in figures.items() if key in ("kl/mean", "kl/std")]
        assert len(parts) == (2 if env_id == PENDULUM else 1)
        assert all(abs(part) < 1e-12 for part in parts) == at_the_center


def learned_of(agent, prefix: str) -> list[torch.Tensor]:
    return learned(getattr(agent, prefix + "policy")) + learned(getattr(agent, prefix + "critic"))


@pytest.mark.parametrize("period", [1, 3])
def test_mpos_targets_move_every_period_of_learner_steps(period):
    agent, env, obs = make("mpo", target_period=period, learner_steps=1)
    for step in range(7):
        online, target = learned_of(agent, ""), learned_of(agent, "target_")
        _, obs = live(agent, env, obs, 1)
        assert not differ(learned_of(agent, "target_"), online if step % period == 0 else target)
        assert differ(learned_of(agent, ""), learned_of(agent, "target_"))


@pytest.mark.parametrize("period", [1, 3])
def test_vmpos_target_moves_every_period_of_updates_and_psi_once_an_update(period, monkeypatch):
    agent, env, obs = make("vmpo", target_period=period, inner_steps=3)
    seen, estep, loss = [], agent.estep, agent.loss
    monkeypatch.setattr(agent, "estep", lambda batch: seen.append("estep") or estep(batch))
    monkeypatch.setattr(agent, "loss", lambda batch: seen.append(learned(agent.target_policy)) or loss(batch))
    for update in range(1, 5):
        target = learned(agent.target_policy)
        _, obs = live(agent, env, obs, 1)
        assert seen[0] == "estep" and len(seen) == 4 and not any(differ(target, s) for s in seen[1:])
        seen.clear()
        wanted = learned(agent.policy) if update % period == 0 else target
        assert not differ(learned(agent.target_policy), wanted) and differ(learned(agent.policy), target)


@pytest.mark.parametrize(("learn_from", "rows"), [("first", 1), ("all", 3)])
def test_mpo_learns_from_the_first_step_or_from_all(learn_from, rows, monkeypatch):
    agent, env, obs = make("mpo", sequence_length=3, learn_from=learn_from, critic_target="retrace", learner_steps=2)
    seen, critic_step, mstep = [], agent.critic_step, agent.mstep
    monkeypatch.setattr(agent, "critic_step", lambda *a: seen.append(a[2].shape) or critic_step(*a))
    monkeypatch.setattr(agent, "mstep", lambda *a: seen.append(a[0].shape) or mstep(*a))
    agent.update(agent.collect(env, obs)[0])
    assert seen == [(rows, 4), (rows * 4, 3)] * 2


@pytest.mark.parametrize(
    ("options", "first"), [({"warmup_steps": 64}, 2), ({"sequence_length": 17, "replay_steps": 128}, 3)]
)
def test_mpo_waits_until_it_has_something_to_learn_from(options, first):
    """So many steps, or a whole sequence; until then it says how far it moved and how much it holds, and no more."""
    agent, env, obs = make("mpo", **options)
    for update in range(1, first + 1):
        before = learned_of(agent, "")
        figures, obs = live(agent, env, obs, 1)
        assert figures["train/replay_steps"].item() == 32 * update
        assert differ(before, learned_of(agent, "")) == ("loss/critic" in figures) == (update == first)
        waiting = {"train/param_step_norm", "train/replay_steps", "train/skipped_batches"}
        assert update == first or (set(figures) == waiting and figures["train/param_step_norm"] == 0)


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
