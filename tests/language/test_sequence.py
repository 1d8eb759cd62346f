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
from minerva_lite.language.answers import AnswerBatch, Answers
from minerva_lite.language.decoder import Decoder
from minerva_lite.language.tokens import TASKS
from minerva_lite.training.checkpoints import load, save
from minerva_lite.training.video import film
from tests.living import ANSWERS, check_option_matters, check_restored, differ, learned, live, make_agent

KINDS = [
    {"advantage": "rloo"},
    {"advantage": "grpo", "objective": "gspo", "kl": "loss"},
    {"advantage": "critic", "kl": "reward", "lam": 0.9},
]


def make(env_id: str = "tokens/copy", dtype=torch.float64, **options):
    return make_agent("sequence", env_id, dtype=dtype, **ANSWERS | options)


def paying(env):
    """The environment with a verifier that pays something for nearly all answers: a small agent is seldom right."""
    env.task = copy.copy(env.task)
    env.task.judge = lambda prompt, answer, mask: ((answer * mask).sum(0) % 7).float() / 7
    return env


def lived_in(**options):
    """An agent after an update, and answers that it has not learned from."""
    agent, env, obs = make(**options)
    env = paying(env)
    _, obs = live(agent, env, obs, 1)
    return agent, agent.collect(env, obs)[0]


def moved(agent, rollout: Answers) -> AnswerBatch:
    """A batch whose policy has moved since the answers: by steps on other advantages."""
    batch, _ = agent.prepare(rollout)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return batch


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


def test_minibatches_are_whole_groups_and_all_of_them():
    agent, rollout = lived_in(num_envs=5, group=3, minibatch_prompts=2)
    rollout = dataclasses.replace(rollout, reward=torch.arange(15.0, dtype=torch.float64))
    batch, _ = agent.prepare(rollout)
    seen = []
    for part in batch.minibatches(2, agent.minibatch_generator):
        group = part.answer.shape[1] // part.prompt.shape[1]
        assert group == 3 and part.prompt.shape[1] <= 2
        for i in range(part.prompt.shape[1]):
            found = [
                k
                for k in range(5)
                if torch.equal(part.prompt[:, i], batch.prompt[:, k])
                and torch.equal(part.answer[:, 3 * i : 3 * i + 3], batch.answer[:, 3 * k : 3 * k + 3])
                and torch.equal(part.advantage[:, 3 * i : 3 * i + 3], batch.advantage[:, 3 * k : 3 * k + 3])
            ]
            seen += found
    assert sorted(seen) == [0, 1, 2, 3, 4]
    before = agent.minibatch_generator.get_state()
    assert next(batch.minibatches(5, agent.minibatch_generator)) is batch and torch.equal(
        agent.minibatch_generator.get_state(), before
    )


@pytest.mark.parametrize("kl", ["none", "reward"])
@pytest.mark.parametrize("advantage", ["rloo", "grpo"])
def test_an_answers_advantage_is_over_the_others_to_its_prompt(advantage, kl):
    price = {"kl": "reward", "beta": 0.3} if kl == "reward" else {}
    agent, rollout = lived_in(advantage=advantage, group=4, **price)
    reward = torch.arange(16.0, dtype=torch.float64).square()
    rollout = dataclasses.replace(rollout, reward=reward)
    batch, figures = agent.prepare(rollout)
    whole = reward
    if price:
        reference = agent.reference.log_prob(rollout.prompt, rollout.answer)
        left = ((rollout.behavior_log_prob - reference) * rollout.mask).sum(0)
        assert left.abs().max() > 1e-3 and figures["kl/to_reference"].item() == pytest.approx(left.mean().item())
        whole = reward - 0.3 * left
    wanted = {"rloo": leave_one_out_advantage(whole, 4), "grpo": group_advantage(whole, 4, scale=True)}[advantage]
    assert torch.allclose(batch.advantage, wanted.expand(7, -1), atol=1e-9)


def test_a_critic_sees_each_token_as_a_step_and_the_last_as_the_end():
    agent, rollout = lived_in(advantage="critic", gamma=0.9, lam=0.8, kl="reward", beta=0.3, normalize_advantage=False)
    with torch.no_grad():
        agent.critic.head.weight.normal_(generator=torch.Generator().manual_seed(0))
    batch, _ = agent.prepare(rollout)
    reference = agent.reference.log_prob(rollout.prompt, rollout.answer)
    features = agent.policy.answer_features(rollout.prompt, rollout.answer)
    value = (features @ agent.critic.head.weight[0] + agent.critic.head.bias).detach()
    for b in range(rollout.num_steps):
        length = int(rollout.mask[:, b].sum())
        reward = -0.3 * (rollout.behavior_log_prob - reference).detach()[:length, b : b + 1]
        reward[-1] += rollout.reward[b]
        own = value[:length, b : b + 1]
        ends = torch.zeros(length, 1, dtype=torch.bool)
        ends[-1] = True
        following = torch.cat([own[1:], torch.zeros(1, 1, dtype=torch.float64)])
        wanted = gae(reward, own, following, ends, torch.zeros_like(ends), gamma=0.9, lam=0.8)
        assert torch.allclose(batch.advantage[:length, b : b + 1], wanted, atol=1e-9)
        assert torch.allclose(batch.value_target[:length, b : b + 1], wanted + own, atol=1e-9)
    scaled, _ = lived_in(advantage="critic")
    agent.config = dataclasses.replace(agent.config, normalize_advantage=True)
    kept = agent.prepare(rollout)[0].advantage[rollout.mask]
    assert kept.mean().item() == pytest.approx(0.0, abs=1e-9) and kept.std(correction=0).item() == pytest.approx(1.0)


# The loss


def ratios(agent, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and log-ratios of the tokens now, [L, B], by the whole texts."""
    group = batch.answer.shape[1] // batch.prompt.shape[1]
    text = torch.cat([batch.prompt.repeat_interleave(group, 1), batch.answer[:-1]])
    logits = agent.policy(text)[len(batch.prompt) - 1 :] / agent.config.temperature
    log_prob = logits.log_softmax(-1).gather(-1, batch.answer.unsqueeze(-1)).squeeze(-1)
    return log_prob, log_prob - batch.behavior_log_prob


@pytest.mark.parametrize("kl_estimate", ["k1", "k2", "k3"])
@pytest.mark.parametrize(
    ("objective", "average"),
    [("token", "constant"), ("token", "sequence"), ("token", "token"), ("sequence", "constant"), ("gspo", "constant")],
)
def test_the_loss_by_loops_over_tokens_or_answers(objective, average, kl_estimate):
    options = {"objective": objective, "average": average, "kl": "loss", "kl_estimate": kl_estimate, "beta": 0.7}
    agent, rollout = lived_in(clip_low=0.05, clip_high=0.1, temperature=0.8, **options)
    rollout = dataclasses.replace(rollout, reward=torch.linspace(0, 1, 8, dtype=torch.float64).square())
    batch = moved(agent, rollout)
    loss, parts = agent.loss(batch)
    log_prob, log_ratio = ratios(agent, batch)
    gain, penalty, clipped, lengths = 0.0, 0.0, [], batch.mask.sum(0).tolist()
    for b, length in enumerate(lengths):
        kls = kl_estimates((batch.reference_log_prob - log_prob)[:length, b])[("k1", "k2", "k3").index(kl_estimate)]
        if objective == "token":
            weight = {"constant": 1 / 56, "sequence": 1 / (8 * length), "token": 1 / sum(lengths)}[average]
            pieces = zip(log_ratio[:length, b], kls, strict=True)
        else:
            weight, share = 1 / 8, length if objective == "gspo" else 1
            pieces = [(log_ratio[:length, b].sum() / share, kls.sum() / share)]
        for log, k in pieces:
            ratio, advantage = log.exp(), batch.advantage[0, b]
            inside = ratio.clamp(0.95, 1.1)
            clipped.append(bool(inside != ratio))
            gain += weight * min(ratio * advantage, inside * advantage)
            penalty += weight * k
    assert loss.item() == pytest.approx((0.7 * penalty - gain).item(), rel=1e-9)
    assert parts["loss/policy"].item() == pytest.approx(-gain.item(), rel=1e-9)
    assert parts["loss/kl"].item() == pytest.approx(penalty.item(), rel=1e-9)
    assert any(clipped) and parts["train/clip_fraction"].item() == pytest.approx(sum(clipped) / len(clipped))
    k3 = (torch.expm1(log_ratio) - log_ratio)[batch.mask].mean().item()
    assert parts["kl/k3"].item() == pytest.approx(k3, rel=1e-8)


def test_the_first_gradient_is_that_of_reinforce_whatever_the_clip():
    """No ratio has moved yet, so none is clipped: the mean over answers of A grad log pi, over L."""
    agent, rollout = lived_in(clip_low=0.01, clip_high=0.01)
    rollout = dataclasses.replace(rollout, reward=torch.linspace(0, 1, 8, dtype=torch.float64).square())
    batch, _ = agent.prepare(rollout)
    loss, _ = agent.loss(batch)
    log_prob, _ = ratios(agent, batch)
    plain = -((log_prob * batch.mask).sum(0) * batch.advantage[0]).mean() / 7
    parameters = list(agent.policy.parameters())
    ours, theirs = (torch.autograd.grad(each, parameters) for each in (loss, plain))
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(ours, theirs, strict=True))
    assert sum(gradient.abs().sum() for gradient in ours) > 1e-3


def test_the_value_loss_is_over_the_tokens_that_were_written():
    agent, rollout = lived_in(advantage="critic", vf_coef=0.3)
    batch = moved(agent, rollout)
    loss, parts = agent.loss(batch)
    value = agent.critic(agent.policy.answer_features(batch.prompt, batch.answer))
    wanted = 0.5 * (value - batch.value_target)[batch.mask].square().mean()
    assert parts["loss/value"].item() == pytest.approx(wanted.item(), rel=1e-9)
    assert loss.item() == pytest.approx((parts["loss/policy"] + 0.3 * wanted).item(), rel=1e-9)
    assert parts["loss/total"].item() == loss.item() and not parts["loss/total"].requires_grad


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


@pytest.mark.parametrize(
    ("option", "one", "other", "beside"),
    [
        ("advantage", "rloo", "grpo", {}),
        ("advantage", "rloo", "critic", {}),
        ("normalize_advantage", True, False, {"advantage": "grpo"}),
        ("normalize_advantage", True, False, {"advantage": "critic"}),
        ("objective", "token", "sequence", {}),
        ("objective", "sequence", "gspo", {}),
        ("clip_low", 0.2, 1e-4, {}),
        ("clip_high", 0.2, 1e-4, {}),
        ("average", "constant", "sequence", {}),
        ("average", "constant", "token", {}),
        ("kl", "none", "reward", {}),
        ("kl", "reward", "loss", {}),
        ("kl_estimate", "k3", "k1", {"kl": "loss"}),
        ("kl_estimate", "k3", "k2", {"kl": "loss"}),
        ("beta", 0.05, 0.5, {"kl": "loss"}),
        ("beta", 0.05, 0.5, {"kl": "reward"}),
        ("epochs", 2, 3, {}),
        ("minibatch_prompts", 2, 4, {}),
        ("temperature", 1.0, 0.5, {}),
        ("gamma", 1.0, 0.5, {"advantage": "critic"}),
        ("lam", 1.0, 0.5, {"advantage": "critic"}),
        ("vf_coef", 0.5, 0.1, {"advantage": "critic"}),
        ("learning_rate", 5e-4, 1e-3, {}),
        ("anneal_lr", True, False, {}),
        ("max_grad_norm", 1.0, 1e-3, {"optimizer": "sgd"}),
        ("optimizer", "adam", "sgd", {}),
        ("momentum", 0.0, 0.9, {"optimizer": "sgd"}),
        ("group", 2, 4, {}),
        ("num_envs", 4, 5, {}),
        ("width", 8, 16, {}),
        ("layers", 2, 1, {}),
        ("heads", 2, 4, {}),
        ("pretrain_steps", 2, 3, {}),
        ("pretrain_batch", 8, 4, {}),
        ("pretrain_learning_rate", 1e-3, 1e-2, {}),
    ],
)
def test_every_option_matters(option, one, other, beside):
    def rewarded(**options):
        agent, env, obs = make(**beside | options)
        return agent, paying(env), obs

    # In the first update the policy is the reference still.
    check_option_matters(rewarded, option, one, other, updates=2 if option in ("kl", "beta") else 1)


def test_every_setting_is_tried_above():
    tried = {
        row[0] for mark in test_every_option_matters.pytestmark if mark.name == "parametrize" for row in mark.args[1]
    }
    assert tried == {field.name for field in dataclasses.fields(SequenceConfig)}


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
        ({"kl_estimate": "k1", "kl": "reward"}, "kl_estimate: wanted k3 without kl 'loss', which reads it; got k1"),
        ({"beta": 0.1}, "beta: wanted 0.05 without kl 'reward' or 'loss', which reads it; got 0.1"),
        ({"objective": "sequence", "advantage": "critic"}, "objective: wanted 'token' with advantage 'critic', which dif"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SequenceConfig(**options)


def test_a_critic_needs_no_group():
    agent, rollout = lived_in(advantage="critic", group=1)
    assert agent.update(rollout)["train/skipped_batches"] == 0


def test_this_one_refuses_every_other_world():
    wanted = ", ".join(TASKS)
    for env_id in ("CartPole-v1", "Pendulum-v1"):
        with pytest.raises(ValueError) as told:
            SequenceAgent(SequenceConfig(), make_env(env_id).spec, device="cpu")
        assert str(told.value) == f"env_id: wanted one of {wanted} for sequence; got {env_id!r}"


# Before the first answer


def test_pretraining_makes_solutions_likelier_and_leaves_a_copy_as_reference():
    agent, env, obs = make(pretrain_steps=60, pretrain_batch=64, pretrain_learning_rate=3e-3)
    prompt = env.task.draw(64, torch.Generator().manual_seed(0))
    solution = env.task.solution(prompt)
    before = agent.pretrain_loss(prompt, solution).item()
    last = agent.pretrain().item()
    after = agent.pretrain_loss(prompt, solution).item()
    assert after < 0.7 * before and last == pytest.approx(after, rel=0.3)
    mask = agent.task.mask(solution)
    assert after == pytest.approx(-agent.policy.log_prob(prompt, solution)[mask].mean().item())
    assert not differ(learned(agent.policy), learned(agent.reference))
    reference = learned(agent.reference)
    live(agent, paying(env), obs, 2)
    assert not differ(reference, learned(agent.reference)) and differ(reference, learned(agent.policy))


def test_it_is_pretrained_once_and_not_where_a_base_was_given():
    agent, env, obs = make()
    base = make(pretrain_steps=5)[0]
    base.pretrain()
    agent.start_from(base.policy)
    assert not differ(learned(agent.policy), learned(base.policy))
    _, obs = agent.collect(env, obs)
    assert not differ(learned(agent.policy), learned(base.policy)) and not differ(
        learned(agent.reference), learned(base.policy)
    )
    calls = []
    fresh, env, obs = make()
    pretrain = fresh.pretrain
    fresh.pretrain = lambda: calls.append(1) or pretrain()
    live(fresh, env, obs, 2)
    assert calls == [1]


@pytest.mark.parametrize("options", [{"width": 16}, {"layers": 1}, {"heads": 4}])
def test_a_reference_of_another_shape_is_refused(options):
    agent, other = make()[0], make(**options)[0]
    with pytest.raises(
        ValueError, match="^reference: wanted a decoder of 2 layers, width 8, 2 heads, 6 tokens, contex"
    ):
        agent.start_from(other.policy)
    with pytest.raises(
        ValueError, match=r"end 5; got one of 2 layers, width 8, 2 heads, 6 tokens, context 12, end None$"
    ):
        agent.start_from(Decoder(6, 12, torch.Generator(), width=8, heads=2))


def test_a_rate_that_is_too_large_is_named():
    with pytest.raises(
        FloatingPointError, match="^pretrain_learning_rate: wanted one with finite weights after 5 steps"
    ):
        make(pretrain_steps=5, pretrain_learning_rate=1e300)[0].pretrain()


# What is refused while it learns


def test_a_reward_that_is_not_finite_changes_nothing_and_three_times_are_enough(same):
    agent, rollout = lived_in()
    before = copy.deepcopy(agent.state_dict())
    spoiled = dataclasses.replace(rollout, reward=rollout.reward.clone().fill_(math.nan))
    for i in (1, 2):
        assert agent.update(spoiled) == {"train/skipped_batches": i} and agent.guard.skipped == {"reward": i}
    with pytest.raises(FloatingPointError, match="^reward: not finite in 3 batches in a row"):
        agent.update(spoiled)
    after = agent.state_dict()
    for name in ("skipped", "skipped_in_a_row"):
        del before[name], after[name]
    assert same(before, after)


def test_a_step_that_is_not_finite_is_not_taken_and_named():
    agent, rollout = lived_in(epochs=1)
    before = learned(agent)
    with torch.no_grad():
        huge = dataclasses.replace(rollout, behavior_log_prob=rollout.behavior_log_prob - 1e4)
    figures = agent.update(dataclasses.replace(huge, reward=torch.linspace(0, 1, 8, dtype=torch.float64)))
    assert figures == {"train/skipped_batches": 1} and not differ(before, learned(agent))
    assert list(agent.guard.skipped) == ["loss/policy"]


def test_answers_of_other_shapes_are_named():
    agent, rollout = lived_in()
    for change, message in (
        ({"mask": rollout.mask.double()}, "mask: wanted dtype torch.bool; got torch.float64"),
        ({"answer": rollout.answer[:, :4]}, r"answer: wanted shape \(7, 8\); got \(7, 4\)"),
        ({"prompt": rollout.prompt[:, :2]}, r"prompt: wanted shape \(6, 4\); got \(6, 2\)"),
        ({"reward": rollout.reward.float()}, "reward: wanted dtype torch.float64; got torch.float32"),
        ({"reward": rollout.reward[:4]}, r"reward: wanted shape \(8,\); got \(4,\)"),
        (
            {"mask": torch.zeros_like(rollout.mask)},
            "mask: wanted at least one token in every answer; got none in answer",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            agent.update(dataclasses.replace(rollout, **change))


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
        (np.zeros(5, int), r"obs: wanted shape \(6,\), one prompt, or \(any, 6\), a batch; got \(5,\)"),
        (np.zeros(6), "obs: wanted whole numbers from 0 to 5, tokens; got others"),
        (np.full(6, 6), "obs: wanted whole numbers from 0 to 5, tokens; got others"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            agent.predict(bad)


def test_a_value_is_the_critics_before_the_first_token():
    agent, env, obs = make(advantage="critic")
    live(agent, env, obs, 2)
    value = agent.value(obs.numpy())
    rollout, _ = agent.collect(env, obs)
    wanted = agent.critic(agent.policy.answer_features(rollout.prompt, rollout.answer))[0, ::2]
    assert value == pytest.approx(wanted.detach().numpy()) and agent.value(obs[0].numpy()) == pytest.approx(value[0])
    with pytest.raises(ValueError, match="^advantage: wanted 'critic', which learns one; got 'rloo'"):
        make()[0].value(obs.numpy())


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
        with pytest.raises(ValueError, match="^env_id: wanted one "):
            evaluate(agent, other)


def test_there_is_nothing_to_film(tmp_path):
    with pytest.raises(ValueError, match="^env_id: wanted an environment that draws pictures; got tokens/copy, whose"):
        film(make()[0], tmp_path / "x.gif")


# Files


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind["advantage"])
def test_it_is_restored_to_the_bit(kind, same):
    check_restored(*make(**kind), same)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_file_that_holds_statistics_of_observations_is_loaded(dtype, tmp_path, monkeypatch, same):
    """As they were written when the agent had such statistics, which nothing moved."""
    agent, *_ = make(dtype=dtype)
    kept, statistics = agent.state_dict(), Normalizer((6,)).to(dtype).state_dict()
    modules = kept["modules"] | {f"obs_normalizer.{name}": each for name, each in statistics.items()}
    with monkeypatch.context() as before:
        before.setattr(agent, "state_dict", lambda: kept | {"modules": modules})
        save(agent, tmp_path / "agent.pt")
    twin = load(tmp_path / "agent.pt", device="cpu")
    assert twin.dtype == dtype and same(twin.state_dict(), agent.state_dict())
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


def test_an_answer_that_is_paid_becomes_likelier():
    """Of two groups one holds a right answer: it gains, what was written beside it loses."""
    agent, env, obs = make(epochs=1, minibatch_prompts=4, optimizer="sgd", learning_rate=1e-2)
    rollout, _ = agent.collect(env, obs)
    reward = torch.zeros(8, dtype=torch.float64)
    reward[2] = 1.0
    before = (agent.policy.log_prob(rollout.prompt, rollout.answer) * rollout.mask).sum(0)
    agent.update(dataclasses.replace(rollout, reward=reward))
    after = (agent.policy.log_prob(rollout.prompt, rollout.answer) * rollout.mask).sum(0)
    assert after[2] > before[2] and (after - before)[2] > (after - before)[3]


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
