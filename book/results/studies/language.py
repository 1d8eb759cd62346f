"""Sorting to 99 percent, learning rates that collapse, and reward against KL.

All runs start from the base model of chapter 9 and train on "tokens/sort", except where it says otherwise. Four parts:

- `reach`: RLOO, GRPO and PPO with a critic, 1600 updates, the learning rate falling from 8e-4;
- `rate`: RLOO for 400 updates at rates that do not fall;
- `frontier`: what 300 updates reach at each price, beside three methods that learn from as many answers of the base
  model: DPO, weights exp(r / beta) of each prompt's answers, and likelihood of the right ones alone;
- `flawed`: RLOO without a price on "tokens/sort-flawed", 30 updates of 32 prompts or of 320; of 32 by plain steps down
  the gradient in place of Adam's; and ten times as many updates of 32 at a tenth of Adam's rate.

Every number of a row is of 2000 other prompts with one sampled answer each, always the same prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from book.results.studies.base_model import PATH as BASE
from book.results.studies.record import RESULTS, asked
from minerva_lite import evaluate, make_env
from minerva_lite.formulas import dpo_loss, estep_weights
from minerva_lite.language import SequenceAgent, SequenceConfig
from minerva_lite.language.answers import Answers
from minerva_lite.language.base_model import load_base

PATH = RESULTS / "language.csv"
TASK, FLAWED = "tokens/sort", "tokens/sort-flawed"
WAYS = ("rloo", "grpo", "critic")
RATES = (5e-4, 1e-3, 2e-3, 4e-3)
PRICES = (0.5, 0.1, 0.02)
PROMPTS = (32, 320)  # of one update in the part `flawed`
SHORTER = 10  # in the part `flawed`: so much shorter are the steps of Adam by the method "short", and so many more
SEEDS = {"reach": range(200, 205), "rate": range(200, 203), "frontier": range(200, 203), "flawed": range(200, 203)}
UPDATES = {"reach": 1600, "rate": 400, "frontier": 300, "flawed": 30}
PASSES = 2  # over the base model's answers, of what learns from them


class Row(NamedTuple):
    """A policy after so many updates."""

    part: str
    method: str
    setting: float  # the learning rate; in the part `frontier` the price beta, in `flawed` the prompts of an update
    seed: int
    updates: int
    right: float  # share of sampled answers
    likeliest: float  # share of right ones among the answers of the likeliest tokens
    nats: float  # KL(pi || pi_ref) of an answer, estimated


def made(seed: int, **settings: object) -> SequenceAgent:
    """An agent that starts from the base model."""
    agent = SequenceAgent(SequenceConfig(**settings), make_env(TASK).spec, seed=seed, device="cpu")  # type: ignore[arg-type]
    agent.start_from(load_base(BASE))
    return agent


def told(agent: SequenceAgent) -> tuple[float, float, float]:
    """The last three columns of a row."""
    found = evaluate(agent, episodes=2000)
    return found["eval/right_sampled"], found["eval/right"], found["eval/kl_to_reference"]


def climb(
    make: Callable[[], SequenceAgent], seed: int, updates: int, look: int, task: str = TASK
) -> Iterator[tuple[int, tuple[float, float, float]]]:
    """Train an agent on its own answers, which the task pays; what it is every `look` updates."""
    agent = make()
    env = make_env(task, agent.config.num_envs, seed=seed)
    obs = env.reset()
    for update in range(updates):
        answers, obs = agent.collect(env, obs)
        agent.update(answers, update / updates)
        if (update + 1) % look == 0:
            yield update + 1, told(agent)


def weighted_loss(agent: SequenceAgent, answers: Answers, beta: float) -> Tensor:
    """-sum of w log pi over each prompt's answers, w proportional to exp(r / beta); at beta 0 the right ones alone."""
    group = agent.config.group
    reward = answers.reward.view(-1, group).T  # [G, prompts]
    if beta:
        weight = estep_weights(reward, torch.zeros_like(reward), torch.tensor(beta))
    else:
        weight = reward / reward.sum(0).clamp(min=1.0)
    log_prob = agent.policy.log_prob(answers.prompt, answers.answer).sum(0)
    return -(weight.T.flatten() * log_prob).sum() / len(answers.prompt[0])


def preference_loss(agent: SequenceAgent, answers: Answers, beta: float) -> Tensor:
    """DPO's loss of a right and a wrong answer to each prompt that has both, the first of each."""
    group = agent.config.group
    right = answers.reward.view(-1, group) > 0.5
    mixed = (right.any(1) & ~right.all(1)).nonzero().flatten()
    log_prob = agent.policy.log_prob(answers.prompt, answers.answer).sum(0).view(-1, group)
    with torch.no_grad():
        reference = agent.reference.log_prob(answers.prompt, answers.answer).sum(0).view(-1, group)
    columns = [(right if good else ~right)[mixed].int().argmax(1) for good in (True, False)]
    return dpo_loss(*[law[mixed, column] for law in (log_prob, reference) for column in columns], beta)


def learn_offline(
    seed: int, beta: float, loss_of: Callable[[SequenceAgent, Answers, float], Tensor]
) -> Iterator[tuple[int, tuple[float, float, float]]]:
    """Collect the base model's answers of 300 updates, and descend a loss of them in two passes."""
    agent = made(seed, learning_rate=5e-4)
    env = make_env(TASK, agent.config.num_envs, seed=seed)
    obs, kept = env.reset(), []
    for _ in range(UPDATES["frontier"]):
        answers, obs = agent.collect(env, obs)
        kept.append(answers)
    steps = PASSES * len(kept)
    for step in range(steps):
        agent.set_learning_rate(step / steps)
        agent.gradient_step(loss_of(agent, kept[step % len(kept)], beta))
    yield steps, told(agent)


def runs() -> Iterator[tuple[str, str, float, int, Callable[[], Iterator[tuple[int, tuple[float, float, float]]]]]]:
    """Every run: what names it, and what does it."""
    for seed in SEEDS["reach"]:
        for way in WAYS:
            agent = partial(made, seed, learning_rate=8e-4, advantage=way)
            yield "reach", way, 8e-4, seed, partial(climb, agent, seed, UPDATES["reach"], 100)
    for seed in SEEDS["rate"]:
        for rate in RATES:
            agent = partial(made, seed, learning_rate=rate, anneal_lr=False)
            yield "rate", "rloo", rate, seed, partial(climb, agent, seed, UPDATES["rate"], 50)
    updates = UPDATES["frontier"]
    for seed in SEEDS["frontier"]:
        for price in PRICES:
            for way in ("rloo", "grpo"):
                agent = partial(made, seed, learning_rate=8e-4, advantage=way, kl="reward", beta=price)
                yield "frontier", way, price, seed, partial(climb, agent, seed, updates, updates)
            yield "frontier", "dpo", price, seed, partial(learn_offline, seed, price, preference_loss)
            yield "frontier", "weights", price, seed, partial(learn_offline, seed, price, weighted_loss)
        yield "frontier", "weights", 0.0, seed, partial(learn_offline, seed, 0.0, weighted_loss)
        agent = partial(made, seed, learning_rate=8e-4)
        yield "frontier", "rloo", 0.0, seed, partial(climb, agent, seed, updates, updates)
    updates = UPDATES["flawed"]
    for seed in SEEDS["flawed"]:
        for prompts in PROMPTS:
            agent = partial(made, seed, num_envs=prompts, minibatch_prompts=prompts, anneal_lr=False)
            yield "flawed", "rloo", prompts, seed, partial(climb, agent, seed, updates, 10, FLAWED)
        agent = partial(made, seed, optimizer="sgd", learning_rate=0.3, anneal_lr=False)
        yield "flawed", "sgd", PROMPTS[0], seed, partial(climb, agent, seed, updates, 10, FLAWED)
        agent = partial(made, seed, learning_rate=SequenceConfig.learning_rate / SHORTER, anneal_lr=False)
        times = SHORTER * updates
        yield "flawed", "short", PROMPTS[0], seed, partial(climb, agent, seed, times, 10 * SHORTER, FLAWED)


def rows_of(part: str, method: str, setting: float, seed: int, work: Callable[[], Iterator]) -> list[Row]:
    """Do one of `runs`: its rows."""
    return [Row(part, method, setting, seed, updates, *figures) for updates, figures in work()]


if __name__ == "__main__":
    record, _ = asked(__spec__.name, __doc__, Row, digits=6)
    record.fill((run[:4], partial(rows_of, *run)) for run in runs())
