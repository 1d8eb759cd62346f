"""What the study of the language model descends, by hand; and that its file holds every run."""

from __future__ import annotations

import pytest
import torch

from book.results.studies import language
from book.results.studies.record import read_rows
from minerva_lite import make_env


@pytest.fixture(scope="module")
def asked():
    """An agent of the study with three prompts and four answers to each, whose rewards are set."""
    agent = language.made(0, num_envs=3, minibatch_prompts=3, group=4)
    env = make_env(language.TASK, 3, seed=0)
    answers, _ = agent.collect(env, env.reset())
    reward = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    answers.reward.copy_(reward)
    return agent, answers, agent.policy.log_prob(answers.prompt, answers.answer).sum(0).detach()


def test_weights_are_shared_out_within_a_prompt_by_hand(asked):
    """At price 1 a right answer weighs e; at price 0 right ones share the weight, and a prompt without one has none."""
    agent, answers, log_prob = asked
    e = torch.e
    whole = [
        (log_prob[0] + e * log_prob[1] + log_prob[2] + e * log_prob[3]) / (2 + 2 * e),
        log_prob[4:8].mean(),
        (e * log_prob[8:11].sum() + log_prob[11]) / (3 * e + 1),
    ]
    assert language.weighted_loss(agent, answers, 1.0).item() == pytest.approx(-sum(whole).item() / 3, rel=1e-5)
    right = (log_prob[[1, 3]].mean() + log_prob[8:11].mean()) / 3
    assert language.weighted_loss(agent, answers, 0.0).item() == pytest.approx(-right.item(), rel=1e-5)


def test_a_pair_is_the_first_right_and_the_first_wrong_answer_to_one_prompt(asked):
    """The policy is the reference, so both log-ratios are 0, and the loss is log 2; its slope names the pairs."""
    agent, answers, _ = asked
    loss = language.preference_loss(agent, answers, 0.5)
    assert loss.item() == pytest.approx(torch.tensor(2.0).log().item(), rel=1e-5)
    slope = torch.autograd.grad(loss, agent.policy.head.weight, retain_graph=True)[0]
    log_prob = agent.policy.log_prob(answers.prompt, answers.answer).sum(0)
    # Half of eta a pair, and prompt 1 has no pair.
    pairs = -0.25 * (log_prob[1] - log_prob[0] + log_prob[8] - log_prob[11]) / 2
    assert torch.allclose(slope, torch.autograd.grad(pairs, agent.policy.head.weight)[0], atol=1e-5)


def test_the_file_holds_every_run_once_and_whole():
    rows = read_rows(language.PATH)
    got = [(row["part"], row["method"], float(row["setting"]), int(row["seed"]), int(row["updates"])) for row in rows]
    assert len(got) == len(set(got))
    runs = {(part, method, setting, seed) for part, method, setting, seed, _ in language.runs()}
    assert {each[:4] for each in got} == runs
    looks = {"reach": 16, "rate": 8, "frontier": 1, "flawed": 3}
    for run in runs:
        assert sum(each[:4] == run for each in got) == looks[run[0]], run


def test_short_steps_are_a_tenth_of_adams_and_ten_times_as_many():
    """Adam again, at the same rate times updates, so that only the length of its steps differs from the usual run's."""
    works = {(method, setting): work for part, method, setting, seed, work in language.runs() if part == "flawed"}
    usual, short = works["rloo", 32], works["short", 32]
    usual_agent, short_agent = (work.args[0]() for work in (usual, short))
    assert short_agent.config.learning_rate == pytest.approx(usual_agent.config.learning_rate / 10)
    assert not short_agent.config.anneal_lr and not usual_agent.config.anneal_lr
    assert type(short_agent.optimizer) is type(usual_agent.optimizer) is torch.optim.Adam
    assert short.args[2] == 10 * usual.args[2]
    rows = [row for row in read_rows(language.PATH) if row["method"] == "short"]
    assert {row["updates"] for row in rows} == {"100", "200", "300"}
