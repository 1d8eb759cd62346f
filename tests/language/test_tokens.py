"""Tasks of tokens: what is drawn, what is right, what a verifier pays, and the environment around them."""

from __future__ import annotations

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.language.tokens import TASKS, TokenEnv
from minerva_lite.worlds.envs import make_env
from minerva_lite.worlds.spec import EnvSpec, VectorEnv
from tests.living import STEPPERS, refusal

# By task and prompt: answers, and what is paid for them. The first is the solution, and no other one is right.
PAID = {
    "tokens/sort": {"409215": {"012459": 1.0, "000000": 0.0}, "777000": {"000777": 1.0}},
    # It pays for order, and not for the digits.
    "tokens/sort-flawed": {"409215": {"012459": 1.0, "000000": 1.0, "012549": 0.8, "543210": 0.0}},
    "tokens/copy": {
        "axxbca": {"abca.": 1.0, "abc.": 0.0, "abcaa.": 0.0, "abcaxx.": 0.0, "abcaaaa": 0.0},  # the last does not end
        "xxxxxx": {".": 1.0},
        "abcdab": {"abcdab.": 1.0},
    },
}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_few_tokens_prompts_of_its_length_and_a_solution_of_each(name):
    """Any other first token is wrong."""
    task, generator = TASKS[name], torch.Generator().manual_seed(0)
    prompt, other, again = (task.draw(300, each) for each in (generator, generator, torch.Generator().manual_seed(0)))
    assert len(task.alphabet) == len(set(task.alphabet)) <= 32 and task.name == name
    assert prompt.shape == (task.prompt_length, 300) and prompt.dtype == torch.int64
    assert prompt.min() >= 0 and prompt.max() < len(task.alphabet)
    assert len(set(task.write(prompt))) > 20, "the prompts differ"
    assert task.spec.obs_dim == task.prompt_length and task.spec.num_actions == len(task.alphabet)
    assert torch.equal(again, prompt) and not torch.equal(other, prompt)
    solution = task.solution(prompt)
    judged = prompt, solution, task.mask(solution)
    assert solution.shape == (task.answer_length, 300)
    assert bool((task.reward(*judged) == 1).all()) and bool(task.right(*judged).all())
    wrong = solution.clone()
    wrong[0] = (wrong[0] + 1) % len(task.alphabet)
    assert not task.right(prompt, wrong, task.mask(wrong)).any()


@pytest.mark.parametrize(("name", "prompt"), [(name, prompt) for name, prompts in PAID.items() for prompt in prompts])
def test_what_is_right_and_what_is_paid_by_hand(name, prompt):
    task, answers = TASKS[name], PAID[name][prompt]
    asked, solution = task.read(prompt).unsqueeze(1), next(iter(answers))
    assert task.write(task.solution(asked)) == [solution]
    for text, wanted in answers.items():
        answer = torch.full((task.answer_length, 1), task.end or 0)  # filled up behind its end
        answer[: len(text), 0] = task.read(text)
        judged = asked, answer, task.mask(answer)
        assert task.reward(*judged).item() == pytest.approx(wanted) and task.right(*judged).item() == (text == solution)


def test_a_mask_ends_with_the_first_end_token():
    answer = torch.tensor([[5, 1, 1], [5, 5, 1], [1, 5, 1]])
    assert TASKS["tokens/copy"].mask(answer).tolist() == [[True, True, True], [False, True, True], [False, False, True]]
    assert TASKS["tokens/sort"].mask(answer).all(), "nothing ends an answer"


def test_what_cannot_be_judged_is_named():
    task = TASKS["tokens/copy"]
    prompt = task.read("axxbca").unsqueeze(1)
    answer = task.solution(prompt)
    mask = task.mask(answer)
    for arguments, message in (
        ((prompt, answer, torch.zeros_like(mask)), "mask: wanted at least one token in every answer; got none in answ"),
        ((prompt, answer, mask.long()), "mask: wanted dtype torch.bool; got torch.int64"),
        ((prompt[:5], answer, mask), "prompt: wanted shape (6, 1); got (5, 1)"),
        ((prompt, answer, mask[:3]), "mask: wanted shape (7, 1), the shape of answer; got (3, 1)"),
    ):
        assert refusal(task.reward, *arguments).startswith(message)
    assert refusal(task.read, "abe") == "text: wanted characters of 'abcdx.' for tokens/copy; got 'e'"


# The environment


def test_a_step_judges_groups_of_answers_and_brings_the_next_prompts():
    env = make_env("tokens/sort", 3, seed=4, dtype=torch.float64)
    assert isinstance(env, TokenEnv) and isinstance(env, VectorEnv)
    first = env.reset()
    assert first.shape == (3, 6) and first.dtype == torch.int64
    answer = first.T.sort(0).values.repeat_interleave(2, 1)
    answer[0, [1, 4]] += 1
    step = env.step(answer % 10)
    assert step.reward.tolist() == [1.0, 0.0, 1.0, 1.0, 0.0, 1.0] and step.reward.dtype == torch.float64
    assert step.terminated.all() and not step.truncated.any() and torch.equal(step.next_obs, first)
    assert step.obs.shape == (3, 6) and not torch.equal(step.obs, first)


@pytest.mark.parametrize("name", STEPPERS)
def test_an_agent_that_acts_step_by_step_says_what_it_is_instead(name):
    kind, settings = AGENTS[name]
    told = f"env_id: wanted an environment that is acted in step by step for {name}; got 'tokens/sort', whose answers"
    assert refusal(kind, settings(), TASKS["tokens/sort"].spec, device="cpu").startswith(told)
    kind(settings(), EnvSpec("tokens/other", 6, num_actions=10), device="cpu")


def test_what_is_no_answer_is_named():
    env = make_env("tokens/sort", 3)
    with pytest.raises(RuntimeError, match=r"^step: wanted reset\(\) first"):
        env.step(torch.zeros(6, 3, dtype=torch.int64))
    env.reset()
    for action, message in (
        (torch.zeros(5, 3, dtype=torch.int64), "action: wanted shape (6, any); got (5, 3)"),
        (torch.zeros(6, 3), "action: wanted dtype torch.int64; got torch.float32"),
        (torch.zeros(6, 4, dtype=torch.int64), "action: wanted as many answers to each of 3 prompts; got 4"),
        (torch.full((6, 3), 10), "action: wanted tokens from 0 to 9; got 10 to 10"),
    ):
        assert refusal(env.step, action) == message
