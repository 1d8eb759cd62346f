"""What happens at the ends: of a log-std's range, of a replay's rows, of uniform numbers, of numbers that are equal."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from minerva_lite import train
from minerva_lite.agents.networks import LOG_STD_MAX, LOG_STD_MIN, GaussianPolicy
from minerva_lite.experience.replay import SequenceReplay
from minerva_lite.formulas import distributions as d
from minerva_lite.formulas.objectives import normalize_advantage
from minerva_lite.worlds.tabular import inverse_cdf
from tests.living import ANSWERS, STEPPERS, differ, learned, live, make_agent, small_agent
from tests.tape import as_on_a_gpu

INF = math.inf
# The range of the log-std

GAUSSIANS = [(name, {}) for name in STEPPERS] + [("vmpo", {"torso": "layernorm"})]


def stds(agent, obs):
    return agent.policy(agent.normalized(obs))[1].detach()


def pushed(agent, obs, way: float, steps: int = 60) -> torch.Tensor:
    """The log-stds [B, D] of the states after steps of Adam that raise (way 1) or lower (-1) all of them."""
    optimizer = torch.optim.Adam(agent.policy.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        (-way * agent.policy(obs)[1].log()).sum().backward()
        optimizer.step()
        agent.policy.project()
    return stds(agent, obs).log()


@pytest.mark.parametrize("end", [LOG_STD_MIN, LOG_STD_MAX])
@pytest.mark.parametrize(("name", "options"), GAUSSIANS)
def test_a_log_std_reaches_either_end_and_comes_back(name, options, end):
    agent, _, obs = small_agent(name, log_std_init=end, **options)
    out = math.copysign(1.0, end)
    assert torch.allclose(pushed(agent, obs, out), torch.full((4, 1), end), atol=1e-5)
    assert ((pushed(agent, obs, -out) - end).abs() > 1).all()


def test_inside_the_range_the_stds_and_gradients_of_a_state_are_those_of_torchs_clamp():
    policy = GaussianPolicy(3, 2, (8,), 0.0, torch.Generator().manual_seed(0), "layernorm").double()
    obs = torch.randn(64, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours = policy(obs)[1]
    theirs = (policy.log_std + policy.mean(obs).chunk(2, -1)[1]).clamp(LOG_STD_MIN, LOG_STD_MAX).exp()
    pairs = [torch.autograd.grad(std.square().sum(), list(policy.parameters())) for std in (ours, theirs)]
    assert torch.equal(ours, theirs) and not differ(*map(list, pairs))


def paying_by_z(rollout, sign: float):
    """The rollout with a reward for each action by how far out it lay, in standard deviations."""
    mean, std = rollout.behavior_params
    return dataclasses.replace(rollout, reward=sign * ((rollout.action - mean) / std).square().sum(-1))


@pytest.mark.parametrize(("name", "options"), [(n, o) for n, o in GAUSSIANS if n != "mpo"])
def test_learning_stays_at_the_upper_end_and_leads_away_from_it(name, options):
    """Beyond its range the log-std would have no gradient: every step has to end within, or it never returns."""
    agent, env, obs = small_agent(name, log_std_init=LOG_STD_MAX, **options)
    out = [] if options else 3 * [1.0]  # a layer before the log-std moves states apart, not to the end
    for way in out + 12 * [-1.0]:
        rollout, obs = agent.collect(env, obs)
        agent.update(paying_by_z(rollout, way))
        assert options or agent.policy.log_std.item() <= LOG_STD_MAX
    assert (stds(agent, obs) < math.exp(LOG_STD_MAX)).all()


@pytest.mark.parametrize(("name", "options"), [("mpo", {}), ("vmpo", {"torso": "layernorm", "vf_coef": 0.0})])
def test_an_agent_whose_every_state_is_past_the_upper_end_learns_its_way_back(name, options):
    agent, env, obs = small_agent(name, log_std_init=LOG_STD_MAX, **options)
    pushed(agent, obs, 1.0, 3), agent.target_policy.load_state_dict(agent.policy.state_dict())
    raw = agent.policy.log_std + agent.policy.mean(obs).chunk(2, -1)[1]
    assert (raw > LOG_STD_MAX).all()
    _, obs = live(agent, env, obs, 200)
    assert (stds(agent, obs) < math.exp(LOG_STD_MAX)).any()


@pytest.mark.parametrize("step_rule", ["trpo", "natural", "fixed"])
def test_trpo_keeps_its_bound_where_its_step_is_cut_at_the_end(step_rule):
    """Far actions are paid: the log-std goes up to its end and stays, and the mean learns on."""
    agent, env, obs = small_agent(
        "trpo", log_std_init=1.99, step_rule=step_rule, natural_step=0.01, num_envs=16, normalize_advantage=False
    )
    means = []
    for _ in range(6):
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(paying_by_z(rollout, 1.0))
        assert agent.policy.log_std.item() <= LOG_STD_MAX and figures["train/step_fraction"] > 0
        if step_rule == "trpo":
            assert figures["kl/exact"] <= agent.config.kl_bound
        means.append(learned(agent.policy.mean))
    assert agent.policy.log_std.item() == LOG_STD_MAX
    assert all(differ(one, other) for one, other in zip(means, means[1:], strict=False))


# Rows that do not follow one another

RETRACE = {"critic_target": "retrace", "sequence_length": 4, "replay_steps": 1000, "warmup_steps": 0}


def seams(replay: SequenceReplay) -> int:
    """How many pairs of rows are sampled as if the second followed the first, although it does not."""
    batch = replay.sample(400, 4, torch.Generator().manual_seed(0))
    follows = (batch.next_obs[:-1] == batch.obs[1:]).all(-1)
    return int((~(batch.terminated | batch.truncated)[:-1] & ~follows).sum())


def second_train(agent, env, obs):
    for _ in range(2):
        train(agent, env, 64, eval_every=64, eval_episodes=1, progress=False)


def refused(agent, env, obs):
    _, obs = live(agent, env, obs, 2)
    rollout, obs = agent.collect(env, obs)
    agent.update(dataclasses.replace(rollout, reward=rollout.reward * math.nan))
    live(agent, env, obs, 2)


def withdrawn(agent, env, obs):
    _, obs = live(agent, env, obs, 3)
    agent.replay.withdraw(8)
    live(agent, env, obs, 2)


def loaded(agent, env, obs):
    live(agent, env, obs, 2)
    agent.load_state_dict(agent.state_dict())
    live(agent, env, env.reset(), 2)


def dropped(agent, env, obs):
    _, obs = live(agent, env, obs, 2)
    agent.replay.columns["reward"][5, 2] = 1e26
    agent.replay.drop_huge()
    live(agent, env, obs, 2)


def unbroken(agent, env, obs):
    live(agent, env, obs, 3)


@pytest.mark.parametrize("how", [second_train, refused, withdrawn, loaded, dropped, unbroken])
def test_no_trace_runs_over_a_seam_of_the_replay(how):
    agent, env, obs = small_agent("mpo", **RETRACE)
    how(agent, env, obs)
    assert agent.replay.size >= 16 and seams(agent.replay) == 0
    assert agent.replay.sample(400, 4).truncated.any() == (how != unbroken), "none where none is"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("field", ["reward", "obs", "next_obs"])
def test_the_row_that_cannot_be_learned_from_leaves_and_newer_ones_stay(field, masked):
    agent, env, obs = small_agent("mpo", learner_steps=8, minibatch_size=32, replay_steps=4000)
    runner = as_on_a_gpu(agent) if masked else agent
    for i in range(12):
        rollout, obs = agent.collect(env, obs)
        if i == 4:
            getattr(rollout, field)[3, 1] = 1e26
        runner.update(rollout)
    held = runner.state_dict()["replay"]["columns"]
    assert sum(agent.guard.skipped.values()) == 1
    assert held[field].abs().max() < 1e26 and len(held["reward"]) == 12 * 8 - 1
    assert torch.equal(held["reward"][-8:], rollout.reward)


# The running return of the rewards


@pytest.mark.filterwarnings("ignore:.*fresh episodes")
def test_a_running_return_starts_anew_with_the_episodes(tmp_path):
    agent, env, _ = small_agent("ppo", normalize_reward=True)
    absorb, starts = agent.reward_scaler.absorb, []
    agent.reward_scaler.absorb = lambda *args: (starts.append(agent.reward_scaler.running.clone()), absorb(*args))
    env.state_dict = lambda: None  # so that a resume starts fresh episodes
    once = {"eval_every": 64, "eval_episodes": 1, "progress": False}
    train(agent, env, 64, checkpoint=tmp_path / "one.pt", **once)
    assert agent.reward_scaler.running.abs().min() > 0
    starts.clear()
    train(agent, env, 64, **once)
    assert not starts[0].any() and agent.reward_scaler.running.abs().min() > 0
    train(agent, env, 64, **once, checkpoint=tmp_path / "one.pt", resume=True)
    assert not agent.reward_scaler.running.any(), "nothing is left to do, and nothing is running"


# Uniform numbers and probabilities at their ends


def test_a_uniform_draw_of_zero_beats_no_likelier_action():
    for dtype, other in ((torch.float32, 1), (torch.float64, 0)):  # draws in float64 lie closer to 0
        logits = torch.tensor([[-100.0, 0.0], [-30.0, 0.0], [-INF, 0.0], [0.0, -INF]], dtype=dtype)
        noise, wanted = torch.tensor([0.0, 0.5], dtype=dtype).expand(4, 2), [1, other, 1, 0]
        assert d.categorical_sample(logits, noise=noise).tolist() == wanted
        assert d.categorical_sample(logits[:, [1, 0]], noise=noise.flip(-1)).tolist() == [1 - i for i in wanted]


def test_an_action_that_is_ruled_out_counts_nothing():
    logits = torch.tensor([[0.3, -INF, 1.0], [-INF, 2.0, -INF]], requires_grad=True)
    short = torch.tensor([[0.3, 1.0]])
    entropy, kl = d.categorical_entropy(logits), d.categorical_kl(logits, logits.detach() + 0.0)
    assert torch.allclose(entropy, torch.stack([d.categorical_entropy(short)[0], torch.zeros(())]))
    assert torch.equal(kl, torch.zeros(2))
    kl = d.categorical_kl(logits.detach(), logits)
    for figure in (entropy, kl, d.categorical_kl(logits, torch.zeros(2, 3))):
        (gradient,) = torch.autograd.grad(figure.sum(), logits)
        assert torch.isfinite(gradient).all()
    assert d.categorical_kl(torch.zeros(1, 3), logits[:1]).item() == INF, "what the new one rules out costs all"


@pytest.mark.parametrize("last", [0.0, 1e-30])
def test_rounding_never_draws_what_has_no_probability(last):
    probability = torch.tensor([0.1] * 10 + [last] * 3)
    total = probability.cumsum(-1)[-1]
    uniform = torch.tensor([torch.nextafter(total, torch.tensor(0.0)), total, 1.0])
    assert inverse_cdf(probability.expand(3, -1), uniform).tolist() == [9, 9, 9]
    assert inverse_cdf(probability, torch.tensor(0.0)).item() == 0


# Advantages that rounding alone tells apart


def test_equal_advantages_are_not_normalized_into_a_direction():
    assert not normalize_advantage(torch.full((100,), 0.1)).any()
    assert not normalize_advantage(torch.full((100,), 0.1).double() + 1e-15).any()
    assert normalize_advantage(torch.tensor([1e-12, 2e-12])).abs().min() > 0, "small, and apart by more than rounding"
    assert normalize_advantage(torch.tensor([1.0, math.nan])).isnan().all(), "a NaN is not hidden"


@pytest.mark.parametrize("paid", [0.0, 0.1, 1.0])
def test_answers_paid_alike_teach_a_policy_with_a_critic_nothing(paid):
    agent, env, obs = make_agent("sequence", "tokens/copy", **ANSWERS | {"advantage": "critic", "kl": "reward"})
    answers, _ = agent.collect(env, obs)
    batch, figures = agent.prepare(dataclasses.replace(answers, reward=torch.full_like(answers.reward, paid)))
    assert figures["adv/raw_std"] < 1e-6 and not batch.advantage.any()
    other = agent.prepare(dataclasses.replace(answers, reward=paid + torch.arange(len(answers.reward)) * 1e-3))[0]
    assert other.advantage.abs().max() > 0.5


# Cut episodes


@pytest.mark.parametrize("baseline", ["none", "others", "value"])
def test_reinforce_tells_of_episodes_that_are_cut_where_no_critic_stands_for_the_rest(baseline, recwarn):
    agent, env, obs = make_agent("reinforce", "CartPole-v1", num_envs=8, rollout_steps=500, baseline=baseline)
    figures, obs = live(agent, env, obs, 1)
    assert not recwarn.list and figures["train/cut_episodes"] == 0
    agent.config = dataclasses.replace(agent.config, rollout_steps=3)
    assert live(agent, env, obs, 1)[0]["train/cut_episodes"] == 1
    told = [str(each.message).startswith("rollout_steps: wanted enough") for each in recwarn.list]
    assert told == [True] * (baseline != "value")
