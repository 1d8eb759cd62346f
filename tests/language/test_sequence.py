"""The agent that answers prompts: advantages and losses by hand, its options, what it refuses, and that it learns."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch

from minerva_lite import evaluate, make_env, train
from minerva_lite.experience.normalizer import Normalizer
from minerva_lite.formulas.distributions import kl_estimates
from minerva_lite.formulas.returns import gae
from minerva_lite.formulas.sequences import group_advantage, leave_one_out_advantage
from minerva_lite.language import SequenceAgent, SequenceConfig
from minerva_lite.language.answers import AnswerBatch
from minerva_lite.language.decoder import Decoder
from minerva_lite.language.tokens import TASKS
from minerva_lite.training.video import film
from tests.living import (
    ANSWERS,
    check_restored,
    differ,
    every_option,
    everything,
    learned,
    live,
    make_agent,
    refusal,
    shake,
)

KINDS = [
    {"advantage": "rloo"},
    {"advantage": "grpo", "objective": "gspo", "kl": "loss"},
    {"advantage": "critic", "kl": "reward", "lam": 0.9, "group": 1},  # which compares no answers
]


def make(env_id: str = "tokens/copy", dtype=torch.float64, **options):
    return make_agent("sequence", env_id, dtype=dtype, **ANSWERS | options)


def rewarded(algorithm: str = "sequence", **options):
    """With a verifier that pays something for nearly all answers: a small agent is seldom right."""
    agent, env, obs = make_agent(algorithm, "tokens/copy", dtype=torch.float64, **ANSWERS | options)
    env.task = copy.copy(env.task)
    env.task.judge = lambda prompt, answer, mask: ((answer * mask).sum(0) % 7).float() / 7
    return agent, env, obs


def lived_in(**options):
    """An agent after an update, and answers that it has not learned from."""
    agent, env, obs = rewarded(**options)
    _, obs = live(agent, env, obs, 1)
    return agent, agent.collect(env, obs)[0]


# What is learned from


def test_nothing_is_drawn_from_the_generator_of_torch():
    before = torch.get_rng_state()
    agent, env, obs = make(advantage="critic")
    live(agent, env, obs, 2)
    evaluate(agent)
    assert torch.equal(before, torch.get_rng_state())


def test_a_rollout_is_groups_of_answers_to_the_prompts_that_were_seen():
    agent, env, obs = make(num_envs=3, group=4, minibatch_prompts=3)
    rollout, after = agent.collect(env, obs)
    assert torch.equal(rollout.prompt, obs.T) and rollout.num_steps == 12 == agent.config.batch_size
    assert rollout.answer.shape == rollout.mask.shape == rollout.behavior_log_prob.shape == (7, 12)
    asked = rollout.prompt.repeat_interleave(4, 1)
    assert torch.equal(rollout.reward, agent.task.reward(asked, rollout.answer, rollout.mask).double())
    log_prob = agent.policy.log_prob(rollout.prompt, rollout.answer)
    kept = rollout.mask
    assert torch.allclose(log_prob[kept], rollout.behavior_log_prob[kept], atol=1e-10)
    assert after.shape == obs.shape and not torch.equal(after, obs)


def test_minibatches_are_whole_groups_and_all_of_them(generator):
    """Three answers to each of five prompts; every row of a tensor holds the number of its column."""
    prompt, column = torch.arange(5).expand(6, -1), torch.arange(15.0).expand(7, -1)
    names = ("answer", "behavior_log_prob", "mask", "advantage", "value_target")
    batch = AnswerBatch(prompt=prompt, **dict.fromkeys(names, column))
    parts = list(batch.minibatches(2, generator))
    assert [part.prompt.shape[1] for part in parts] == [2, 2, 1]
    order = torch.cat([part.prompt[0] for part in parts]).tolist()
    assert sorted(order) == [0, 1, 2, 3, 4] != order
    for part in parts:
        wanted = (3 * part.prompt[0].unsqueeze(-1) + torch.arange(3)).flatten().expand(7, -1)
        assert all(torch.equal(getattr(part, name), wanted) for name in names) and part.reference_log_prob is None
    before = generator.get_state()
    assert next(batch.minibatches(5, generator)) is batch and torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("advantage", ["rloo", "grpo"])
def test_an_answers_advantage_is_over_the_others_to_its_prompt(advantage, beta):
    agent, rollout = lived_in(advantage=advantage, group=4, **{"kl": "reward", "beta": beta} if beta else {})
    rollout = dataclasses.replace(rollout, reward=torch.arange(16.0, dtype=torch.float64).square())
    batch, figures = agent.prepare(rollout)
    reference = agent.reference.log_prob(rollout.prompt, rollout.answer)
    left = ((rollout.behavior_log_prob - reference) * rollout.mask).sum(0)
    assert left.abs().max() > 1e-3 and ("kl/to_reference" in figures) == (beta > 0)
    assert not beta or figures["kl/to_reference"].item() == pytest.approx(left.mean().item())
    whole = rollout.reward - beta * left
    wanted = {"rloo": leave_one_out_advantage(whole, 4), "grpo": group_advantage(whole, 4, scale=True)}[advantage]
    assert torch.allclose(batch.advantage, wanted.expand(7, -1), atol=1e-9)


def test_a_critic_sees_each_token_as_a_step_and_the_last_as_the_end():
    agent, rollout = lived_in(advantage="critic", gamma=0.9, lam=0.8, kl="reward", beta=0.3, normalize_advantage=False)
    with torch.no_grad():
        agent.critic.head.weight.normal_(generator=torch.Generator().manual_seed(0))
    batch, _ = agent.prepare(rollout)
    reference = agent.reference.log_prob(rollout.prompt, rollout.answer)
    value = agent.critic(agent.policy.answer_features(rollout.prompt, rollout.answer)).detach()
    for b, length in enumerate(rollout.mask.sum(0).tolist()):
        reward = -0.3 * (rollout.behavior_log_prob - reference).detach()[:length, b : b + 1]
        reward[-1] += rollout.reward[b]
        own, ends = value[:length, b : b + 1], torch.arange(1, length + 1).unsqueeze(-1) == length
        following = torch.cat([own[1:], torch.zeros(1, 1, dtype=torch.float64)])
        wanted = gae(reward, own, following, ends, torch.zeros_like(ends), gamma=0.9, lam=0.8)
        assert torch.allclose(batch.advantage[:length, b : b + 1], wanted, atol=1e-9)
        assert torch.allclose(batch.value_target[:length, b : b + 1], wanted + own, atol=1e-9)
    agent.config = dataclasses.replace(agent.config, normalize_advantage=True)
    kept = agent.prepare(rollout)[0].advantage[rollout.mask]
    assert kept.mean().item() == pytest.approx(0.0, abs=1e-9) and kept.std(correction=0).item() == pytest.approx(1.0)


# The loss


CRITIC = {"advantage": "critic"}


@pytest.mark.parametrize("kl_estimate", ["k1", "k2", "k3"])
@pytest.mark.parametrize(
    ("objective", "average", "critic"),
    [("token", "constant", {}), ("token", "sequence", {}), ("token", "token", CRITIC), ("sequence", "constant", {}), ("gspo", "constant", {})],
)  # fmt: skip
def test_the_loss_by_loops_over_tokens_or_answers(objective, average, critic, kl_estimate):
    options = {"objective": objective, "average": average, "kl": "loss", "kl_estimate": kl_estimate, "beta": 0.7}
    agent, rollout = lived_in(clip_low=0.05, clip_high=0.1, temperature=0.8, **options | critic)
    rollout = dataclasses.replace(rollout, reward=torch.linspace(0, 1, 8, dtype=torch.float64).square())
    batch, _ = agent.prepare(rollout)
    shake(agent.policy, torch.Generator().manual_seed(0), 0.05)
    loss, parts = agent.loss(batch)
    text = torch.cat([batch.prompt.repeat_interleave(2, 1), batch.answer[:-1]])
    log_prob = (agent.policy(text)[5:] / 0.8).log_softmax(-1).gather(-1, batch.answer.unsqueeze(-1)).squeeze(-1)
    log_ratio = log_prob - batch.behavior_log_prob
    gain, penalty, clipped, lengths = 0.0, 0.0, [], batch.mask.sum(0).tolist()
    for b, length in enumerate(lengths):
        kls = kl_estimates((batch.reference_log_prob - log_prob)[:length, b])[("k1", "k2", "k3").index(kl_estimate)]
        if objective == "token":
            weight = {"constant": 1 / 56, "sequence": 1 / (8 * length), "token": 1 / sum(lengths)}[average]
            pieces = zip(log_ratio[:length, b], batch.advantage[:length, b], kls, strict=True)
        else:
            weight, share = 1 / 8, length if objective == "gspo" else 1
            pieces = [(log_ratio[:length, b].sum() / share, batch.advantage[0, b], kls.sum() / share)]
        for log, advantage, k in pieces:
            ratio = log.exp()
            inside = ratio.clamp(0.95, 1.1)
            clipped.append(bool(inside != ratio))
            gain += weight * min(ratio * advantage, inside * advantage)
            penalty += weight * k
    wanted = {"loss/policy": -gain, "loss/kl": penalty, "loss/total": 0.7 * penalty - gain}
    if critic:
        value = agent.critic(agent.policy.answer_features(batch.prompt, batch.answer))
        wanted["loss/value"] = 0.5 * (value - batch.value_target)[batch.mask].square().mean()
        wanted["loss/total"] += 0.5 * wanted["loss/value"]
    wanted["kl/k3"] = (torch.expm1(log_ratio) - log_ratio)[batch.mask].mean()
    wanted["train/clip_fraction"] = torch.tensor(clipped).double().mean()
    assert any(clipped) and loss.item() == parts["loss/total"].item() and parts.keys() == wanted.keys()
    for name, each in wanted.items():
        assert parts[name].item() == pytest.approx(each.item(), rel=1e-8) and not parts[name].requires_grad, name


def test_what_stands_behind_the_end_changes_nothing():
    agent, rollout = lived_in(advantage="critic", kl="loss")
    assert not rollout.mask.all()
    other = rollout.answer.masked_fill(~rollout.mask, 1)
    losses = []
    for answer in (rollout.answer, other):
        batch, figures = agent.prepare(dataclasses.replace(rollout, answer=answer))
        losses.append((agent.loss(batch)[0].item(), *(figure.item() for figure in figures.values())))
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


# Options and settings


PLAIN = {
    "group": (2, 4), "clip_low": (0.2, 1e-4), "clip_high": (0.2, 1e-4), "epochs": (2, 3), "minibatch_prompts": (2, 4),
    "temperature": (1.0, 0.5), "width": (8, 16), "layers": (2, 1), "heads": (2, 4), "pretrain_steps": (2, 3),
    "pretrain_batch": (8, 4), "pretrain_learning_rate": (1e-3, 1e-2),
}  # fmt: skip
OPTIONS = {name: [({}, *pair)] for name, pair in PLAIN.items()} | {
    "advantage": [({}, "rloo", "grpo"), ({}, "rloo", "critic")],
    "normalize_advantage": [({"advantage": "grpo"}, True, False), (CRITIC, True, False)],
    "objective": [({}, "token", "sequence"), ({}, "sequence", "gspo")],
    "average": [({}, "constant", "sequence"), ({}, "constant", "token")],
    "kl": [({}, "none", "reward"), ({}, "reward", "loss")],
    "kl_estimate": [({"kl": "loss"}, "k3", other) for other in ("k1", "k2")],
    "beta": [({"kl": kl}, 0.05, 0.5) for kl in ("loss", "reward")],
    "gamma": [(CRITIC, 1.0, 0.5)],
    "lam": [(CRITIC, 1.0, 0.5)],
    "vf_coef": [(CRITIC, 0.5, 0.1)],
}
# Two updates: in the first one the policy is the reference still.
test_every_option_matters = every_option("sequence", OPTIONS, make=rewarded, updates=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": 1}, "group: wanted at least 2 answers to each prompt with advantage 'rloo', which compares them; got 1"),
        ({"minibatch_prompts": 33}, "minibatch_prompts: wanted at most num_envs = 32; got 33"),
        ({"clip_low": 1.5}, r"clip_low: wanted a number in \(0, 1\], no ratio is below 0; got 1.5"),
        ({"heads": 3}, "heads: wanted a divisor of width = 64; got 3"),
        ({"lam": 0.9}, "lam: wanted 1.0 without advantage 'critic', which reads it; got 0.9"),
        ({"vf_coef": 1.0, "advantage": "grpo"}, "vf_coef: wanted 0.5 without advantage 'critic', which reads it; got 1.0"),
        ({"normalize_advantage": False}, "normalize_advantage: wanted True without another advantage than 'rloo', which"),
        ({"objective": "gspo", "average": "token"}, "average: wanted constant without objective 'token', which reads it"),
        ({"kl_estimate": "k1"}, "kl_estimate: wanted k3 without kl 'loss', which reads it; got k1"),
        ({"beta": 0.1}, "beta: wanted 0.05 without kl 'reward' or 'loss', which reads it; got 0.1"),
        ({"objective": "sequence", "advantage": "critic"}, "objective: wanted 'token' with advantage 'critic', which dif"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SequenceConfig(**options)


def test_this_one_refuses_every_other_world():
    wanted = ", ".join(TASKS)
    for env_id in ("CartPole-v1", "Pendulum-v1"):
        told = refusal(SequenceAgent, SequenceConfig(), make_env(env_id).spec, device="cpu")
        assert told == f"env_id: wanted one of {wanted} for sequence; got {env_id!r}"


# Before the first answer


def test_pretraining_makes_solutions_likelier_and_leaves_a_copy_as_reference():
    agent, env, obs = rewarded(pretrain_steps=60, pretrain_batch=64, pretrain_learning_rate=3e-3)
    prompt = env.task.draw(64, torch.Generator().manual_seed(0))
    solution = env.task.solution(prompt)
    before = agent.pretrain_loss(prompt, solution).item()
    last = agent.pretrain().item()
    after = agent.pretrain_loss(prompt, solution).item()
    assert after < 0.7 * before and last == pytest.approx(after, rel=0.3)
    assert not differ(learned(agent.policy), learned(agent.reference))
    reference = learned(agent.reference)
    live(agent, env, obs, 2)
    assert not differ(reference, learned(agent.reference)) and differ(reference, learned(agent.policy))


def test_it_is_pretrained_once_and_not_where_a_base_was_given():
    agent, env, obs = make()
    base = make(pretrain_steps=5)[0]
    base.pretrain()
    agent.start_from(base.policy)
    agent.collect(env, obs)
    for decoder in (agent.policy, agent.reference):
        assert not differ(learned(decoder), learned(base.policy))
    calls = []
    fresh, env, obs = make()
    pretrain = fresh.pretrain
    fresh.pretrain = lambda: calls.append(1) or pretrain()
    live(fresh, env, obs, 2)
    assert calls == [1]


@pytest.mark.parametrize("options", [{"width": 16}, {"layers": 1}, {"heads": 4}, {"end": None}], ids=str)
def test_a_reference_of_another_shape_is_refused(options):
    agent, *_ = make()
    other, form = Decoder(**agent.policy.arguments | options, generator=torch.Generator()), agent.policy.form
    assert form == "2 layers, width 8, 2 heads, 6 tokens, context 12, end 5" != other.form
    assert refusal(agent.start_from, other) == f"reference: wanted a decoder of {form}; got one of {other.form}"


def test_a_rate_that_is_too_large_is_named():
    message = "^pretrain_learning_rate: wanted one with finite weights after 5 steps"
    with pytest.raises(FloatingPointError, match=message):
        make(pretrain_steps=5, pretrain_learning_rate=1e300)[0].pretrain()


# What is refused while it learns


@pytest.mark.parametrize(
    ("name", "column", "value", "state"),
    [("reward", "reward", math.nan, everything), ("loss/policy", "behavior_log_prob", -1e4, learned)],
)
def test_what_is_not_finite_changes_nothing_and_three_times_are_enough(name, column, value, state, same):
    agent, rollout = lived_in()
    before = state(agent)
    paid = dataclasses.replace(rollout, reward=torch.linspace(0, 1, 8, dtype=torch.float64))
    spoiled = dataclasses.replace(paid, **{column: torch.full_like(getattr(paid, column), value)})
    for i in (1, 2):
        assert agent.update(spoiled) == {"train/skipped_batches": i} and agent.guard.skipped == {name: i}
    with pytest.raises(FloatingPointError, match=f"^{name}: not finite in 3 batches in a row"):
        agent.update(spoiled)
    assert same(before, state(agent))


def test_answers_of_other_shapes_are_named():
    agent, rollout = lived_in()
    for change, message in (
        ({"mask": rollout.mask.double()}, "mask: wanted dtype torch.bool; got torch.float64"),
        ({"answer": rollout.answer[:, :4]}, "answer: wanted shape (7, 8); got (7, 4)"),
        ({"prompt": rollout.prompt[:, :2]}, "prompt: wanted shape (6, 4); got (6, 2)"),
        ({"reward": rollout.reward.float()}, "reward: wanted dtype torch.float64; got torch.float32"),
        ({"reward": rollout.reward[:4]}, "reward: wanted shape (8,); got (4,)"),
        (
            {"mask": torch.zeros_like(rollout.mask)},
            "mask: wanted at least one token in every answer; got none in answer 0",
        ),
    ):
        assert refusal(agent.update, dataclasses.replace(rollout, **change)) == message


# Acting outside training


def test_predict_takes_prompts_as_they_come_and_answers_in_tokens(same):
    agent, env, obs = make()
    live(agent, env, obs, 1)
    before = copy.deepcopy(agent.state_dict())
    answer = agent.predict(obs.numpy())
    assert answer.shape == (4, 7) and answer.dtype == np.int64
    assert np.array_equal(agent.predict(obs[2].tolist()), answer[2]) and np.array_equal(agent.predict(obs), answer)
    assert same(before, agent.state_dict())
    drawn = [agent.predict(obs, deterministic=False) for _ in range(2)]
    assert not np.array_equal(*drawn)
    for bad, message in (
        (np.zeros(5, int), "obs: wanted shape (6,), one prompt, or (any, 6), a batch; got (5,)"),
        (np.zeros(6), "obs: wanted whole numbers from 0 to 5, tokens; got others"),
        (np.full(6, 6), "obs: wanted whole numbers from 0 to 5, tokens; got others"),
    ):
        assert refusal(agent.predict, bad) == message


def test_a_value_is_the_critics_before_the_first_token():
    agent, env, obs = make(advantage="critic")
    live(agent, env, obs, 2)
    value = agent.value(obs.numpy())
    rollout, _ = agent.collect(env, obs)
    wanted = agent.critic(agent.policy.answer_features(rollout.prompt, rollout.answer))[0, ::2]
    assert value == pytest.approx(wanted.detach().numpy()) and agent.value(obs[0].numpy()) == pytest.approx(value[0])
    assert refusal(make()[0].value, obs.numpy()) == "advantage: wanted 'critic', which learns one; got 'rloo'"


def test_evaluation_tells_what_was_right_and_what_was_paid(same):
    agent, env, obs = make("tokens/sort-flawed", dtype=torch.float32)
    live(agent, env, obs, 2)
    with torch.no_grad():  # it writes zeros, which is paid in full
        agent.policy.head.bias[0] = 50.0
    before = copy.deepcopy(agent.state_dict())
    told = evaluate(agent, episodes=200)
    assert told["eval/mean"] == told["eval/sampled"] == 1.0 and told["eval/right"] == told["eval/right_sampled"] == 0.0
    assert told["eval/length"] == 6 and told == evaluate(agent, episodes=200)
    assert told["eval/kl_to_reference"] > 5 and same(before, agent.state_dict())
    assert evaluate(agent, "tokens/sort", episodes=200)["eval/mean"] == 0.0, "the same prompts, an honest verifier"
    for other in ("tokens/copy", "CartPole-v1"):
        assert refusal(evaluate, agent, other).startswith("env_id: wanted one ")


def test_there_is_nothing_to_film(tmp_path):
    told = "env_id: wanted an environment that draws pictures; got tokens/copy, whose"
    assert refusal(film, make()[0], tmp_path / "x.gif").startswith(told)


# Files


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["advantage"])
def test_it_is_restored_to_the_bit(kind, same):
    check_restored(*make(**kind), same)


def test_a_state_that_holds_statistics_of_observations_is_taken(same):
    """As it was written when the agent had such statistics, which nothing moved."""
    (agent, _), (twin, *_) = lived_in(), make()
    kept, statistics = agent.state_dict(), Normalizer((6,)).double().state_dict()
    modules = kept["modules"] | {f"obs_normalizer.{name}": each for name, each in statistics.items()}
    twin.load_state_dict(kept | {"modules": modules})
    assert same(twin.state_dict(), agent.state_dict())
    del modules["policy.norm.bias"]
    with pytest.raises(RuntimeError, match="policy.norm.bias"):
        twin.load_state_dict(kept | {"modules": modules})


# Learning


def test_train_counts_answers_and_tells_what_they_were_paid():
    agent, env, _ = make(dtype=torch.float32)
    history = train(agent, env, 24, eval_episodes=20, progress=False)
    assert [row["steps"] for row in history.updates] == [8, 16, 24]
    row = history.updates[-1]
    assert row["train/episode_return"] == row["train/reward_mean"] and 1 <= row["train/episode_length"] <= 7
    assert {"eval/right", "eval/right_sampled", "eval/sampled"} <= set(history.evaluations[-1])
    with pytest.raises(ValueError, match=r"^total_steps: wanted at least one rollout, 2 \* 4 = 8; got 7"):
        train(agent, env, 7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["advantage"])
@pytest.mark.parametrize("seed", range(2))
def test_sorting_is_learned_from_a_quarter_or_a_half_to_90_percent(kind, seed):
    plain = {"advantage": kind["advantage"]}
    agent, env, obs = make_agent("sequence", "tokens/sort", seed=seed, **plain)
    agent.pretrain()
    assert 0.25 < evaluate(agent, episodes=2000)["eval/right_sampled"] < 0.55
    train(agent, env, 256 * 320, eval_every=10**9, eval_episodes=10, progress=False)
    assert evaluate(agent, episodes=2000)["eval/right_sampled"] > 0.9


def test_a_state_that_has_the_price_by_its_former_name_is_taken():
    agent, _ = lived_in(kl="reward", beta=0.3)
    state = agent.state_dict()
    state["config"]["eta"] = state["config"].pop("beta")
    make(kl="reward", beta=0.3)[0].load_state_dict(state)
    with pytest.raises(ValueError, match="^state: wanted one saved with this config"):
        make(kl="reward", beta=0.4)[0].load_state_dict(state)
