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
from tests.living import ANSWERS, differ, every_option, everything, learned, live, make_agent, refusal, shake


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


def test_a_rollout_is_groups_of_answers_to_the_prompts_that_were_seen():
    agent, env, obs = make(num_envs=3, group=4, minibatch_prompts=3)
    rollout, after = agent.collect(env, obs)
    assert torch.equal(rollout.prompt, obs.T) and rollout.num_steps == 12 == agent.config.batch_size
    assert rollout.answer.shape == rollout.mask.shape == rollout.behavior_log_prob.shape == (7, 12)
    asked = rollout.prompt.repeat_interleave(4, 1)
    assert torch.equal(rollout.reward, agent.task.reward(asked, rollout.answer, rollout.mask).double())
    log_prob = agent.policy.log_prob(rollout.prompt, rollout.answer) * rollout.mask
    assert torch.allclose(log_prob, rollout.behavior_log_prob, atol=1e-10)
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
    price = {"kl": "reward", "beta": beta} if beta else {}
    agent, rollout = lived_in(advantage=advantage, group=4, temperature=0.8, **price)
    rollout = dataclasses.replace(rollout, reward=torch.arange(16.0, dtype=torch.float64).square())
    batch, figures = agent.prepare(rollout)
    reference = agent.reference.log_prob(rollout.prompt, rollout.answer, temperature=0.8)
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
    batch, figures = agent.prepare(rollout)
    assert figures["adv/raw_mean"].item() == pytest.approx(batch.advantage[rollout.mask].mean().item())
    assert figures["adv/raw_std"].item() == pytest.approx(batch.advantage[rollout.mask].std(correction=0).item())
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


@pytest.mark.parametrize(
    ("objective", "average", "kl_estimate", "critic"),
    [("token", "constant", "k1", {}), ("token", "sequence", "k2", {}), ("token", "token", "k3", CRITIC), ("sequence", "constant", "k2", {}), ("gspo", "constant", "k3", {})],
)  # fmt: skip
def test_the_loss_by_loops_over_tokens_or_answers(objective, average, kl_estimate, critic):
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


def updated(name, change):
    return lambda agent, rollout: agent.update(dataclasses.replace(rollout, **{name: change(getattr(rollout, name))}))


def started(**options):
    def start(agent, _):
        agent.start_from(Decoder(**agent.policy.arguments | options, generator=torch.Generator()))

    return start


WORDS = "obs: wanted whole numbers from 0 to 5, tokens; got others"
FORM = "reference: wanted a decoder of 2 layers, width 8, 2 heads, 6 tokens, context 12, end 5; got one of"
REFUSED = [
    (lambda agent, _: SequenceAgent(agent.config, make_env("CartPole-v1").spec), f"env_id: wanted one of {', '.join(TASKS)} for sequence; got 'CartPole-v1'"),
    (updated("mask", torch.Tensor.double), "mask: wanted dtype torch.bool; got torch.float64"),
    (updated("answer", lambda answer: answer[:, :4]), "answer: wanted shape (7, 8); got (7, 4)"),
    (updated("prompt", lambda prompt: prompt[:, :2]), "prompt: wanted shape (6, 4); got (6, 2)"),
    (updated("reward", torch.Tensor.float), "reward: wanted dtype torch.float64; got torch.float32"),
    (updated("reward", lambda reward: reward[:4]), "reward: wanted shape (8,); got (4,)"),
    (updated("mask", torch.zeros_like), "mask: wanted at least one token in every answer; got none in answer 0"),
    (started(width=16), f"{FORM} 2 layers, width 16, 2 heads, 6 tokens, context 12, end 5"),
    (started(layers=1), f"{FORM} 1 layers, width 8, 2 heads, 6 tokens, context 12, end 5"),
    (started(heads=4), f"{FORM} 2 layers, width 8, 4 heads, 6 tokens, context 12, end 5"),
    (started(end=None), f"{FORM} 2 layers, width 8, 2 heads, 6 tokens, context 12, end None"),
    (lambda agent, _: agent.predict(np.zeros(5, int)), "obs: wanted shape (6,), one prompt, or (any, 6), a batch; got (5,)"),
    (lambda agent, _: agent.predict(np.zeros(6)), WORDS),
    (lambda agent, _: agent.predict(np.full(6, 6)), WORDS),
    (lambda agent, _: agent.value(np.zeros(6, int)), "advantage: wanted 'critic', which learns one; got 'rloo'"),
    (lambda agent, _: evaluate(agent, "tokens/sort"), "env_id: wanted one "),
    (lambda agent, _: evaluate(agent, "CartPole-v1"), "env_id: wanted one "),
    (lambda agent, _: film(agent, "x.gif"), "env_id: wanted an environment that draws pictures; got tokens/copy, whose"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[f"{i}-{row[1][:40]}" for i, row in enumerate(REFUSED)])
def test_what_it_is_not_for_and_what_is_no_answer_is_refused_by_name(call, message):
    assert refusal(call, *lived_in()).startswith(message)


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


def test_a_value_is_the_critics_before_the_first_token():
    agent, env, obs = make(advantage="critic")
    live(agent, env, obs, 2)
    value = agent.value(obs.numpy())
    rollout, _ = agent.collect(env, obs)
    wanted = agent.critic(agent.policy.answer_features(rollout.prompt, rollout.answer))[0, ::2]
    assert value == pytest.approx(wanted.detach().numpy()) and agent.value(obs[0].numpy()) == pytest.approx(value[0])


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


# Files


def test_states_of_earlier_versions_are_taken(same):
    """With statistics of observations, which nothing ever moved, and the price by its former name."""
    agent, _ = lived_in(kl="reward", beta=0.3)
    twin, *_ = make(kl="reward", beta=0.3)
    state, statistics = agent.state_dict(), Normalizer((6,)).double().state_dict()
    state["modules"] = state["modules"] | {f"obs_normalizer.{name}": each for name, each in statistics.items()}
    state["config"]["eta"] = state["config"].pop("beta")
    twin.load_state_dict(state)
    assert same(twin.state_dict(), agent.state_dict())
    with pytest.raises(ValueError, match="^state: wanted one saved with this config"):
        make(kl="reward", beta=0.4)[0].load_state_dict(state)
    del state["modules"]["policy.norm.bias"]
    with pytest.raises(RuntimeError, match="policy.norm.bias"):
        twin.load_state_dict(state)


# Learning


def test_train_counts_answers_and_tells_what_they_were_paid():
    agent, env, _ = make(dtype=torch.float32)
    row = train(agent, env, 24, eval_episodes=20, progress=False).updates[-1]
    assert row["train/episode_return"] == row["train/reward_mean"] and 1 <= row["train/episode_length"] <= 7
    with pytest.raises(ValueError, match=r"^total_steps: wanted at least one rollout, 2 \* 4 = 8; got 7"):
        train(agent, env, 7)


@pytest.mark.slow
@pytest.mark.parametrize("advantage", ["rloo", "grpo", "critic"])
@pytest.mark.parametrize("seed", range(2))
def test_sorting_is_learned_from_a_quarter_or_a_half_to_90_percent(advantage, seed):
    agent, env, obs = make_agent("sequence", "tokens/sort", seed=seed, advantage=advantage)
    agent.pretrain()
    assert 0.25 < evaluate(agent, episodes=2000)["eval/right_sampled"] < 0.55
    train(agent, env, 256 * 320, eval_every=10**9, eval_episodes=10, progress=False)
    assert evaluate(agent, episodes=2000)["eval/right_sampled"] > 0.9
