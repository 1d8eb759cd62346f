"""The opening of chapter 9b with one thing changed at a time, five seeds each.

All runs start from the base model of chapter 9 and take 80 steps on 64 pairs of a right and a wrong answer to one
prompt. `WAYS` says what each of them changes in the chapter's first run, which descends DPO's loss at price 0.1, by
Adam at a rate of 5e-4, on the same 512 pairs of the base model again and again.

The reference is the base model throughout. Shares right and nats are of 2000 other prompts with one sampled answer
each, log-ratios are means over the first 512 pairs of the run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from book.results.studies.base_model import PATH as BASE
from book.results.studies.record import RESULTS, asked
from minerva_lite.formulas import dpo_loss
from minerva_lite.language.base_model import load_base
from minerva_lite.language.decoder import Decoder
from minerva_lite.language.tokens import TASKS

PATH = RESULTS / "preferences.csv"
SORT = TASKS["tokens/sort"]
SEEDS = range(200, 205)
BATCH, STEPS, LOOKS = 64, 80, (1, 2, 4, *range(8, 81, 8))
Pairs = tuple[Tensor, Tensor, Tensor]  # prompts, preferred and rejected answers, [6, N] each


@dataclass(frozen=True)
class Way:
    """What a run does. The defaults are those of the chapter's first run."""

    pairs: int = 512  # how many there are; at 0 each step draws new ones
    of_policy: bool = False  # new ones are answers of the policy at that step, and not of the base model
    price: float = 0.1
    rate: float = 5e-4
    loss: str = "dpo"  # or "ipo", or "none"
    likelihood: float = 0.0  # how much of the preferred answers' mean -log pi is added to it


WAYS = {
    "opening": Way(),
    "rate 2e-4": Way(rate=2e-4),
    "price 1": Way(price=1.0),
    "2048 pairs": Way(pairs=2048),
    "rate and price": Way(rate=2e-4, price=1.0),
    "rate and pairs": Way(rate=2e-4, pairs=2048),
    "price and pairs": Way(price=1.0, pairs=2048),
    "all three": Way(pairs=2048, price=1.0, rate=2e-4),
    "IPO": Way(loss="ipo"),
    "DPO and likelihood": Way(likelihood=0.1),
    "likelihood alone": Way(loss="none", likelihood=0.1),
    "new pairs of the base model": Way(pairs=0),
    "new pairs of the policy": Way(pairs=0, of_policy=True),
}


class Row(NamedTuple):
    """A policy after so many steps."""

    way: str
    seed: int
    steps: int
    right: float  # share of sampled answers
    nats: float  # KL(pi || pi_ref) of an answer, estimated
    preferred: float  # mean log-ratio of the preferred answers, nats
    rejected: float
    ordered: float  # share of the pairs whose margin is positive


def compared(policy: Decoder, count: int, draw: Generator) -> Pairs:
    """`count` pairs: of two answers of the policy to one prompt the right one and the wrong one.

    Raises ValueError: among sixteen times as many prompts there are fewer where one answer is right and one is wrong.
    """
    prompt = SORT.draw(16 * count, draw)
    answer = policy.sample(prompt, 6, draw, group=2)[0].view(6, -1, 2)
    right = (answer == SORT.solution(prompt)[..., None]).all(0)
    mixed = (right[:, 0] != right[:, 1]).nonzero()[:count, 0]
    if len(mixed) < count:
        raise ValueError(f"count: wanted pairs that the policy writes, at most {len(mixed)} here; got {count}")
    best = right[mixed].long().argmax(1)
    return prompt[:, mixed], answer[:, mixed, best], answer[:, mixed, 1 - best]


def log_probs(policy: Decoder, base: Decoder, pairs: Pairs) -> list[Tensor]:
    """Of preferred and rejected answers by the policy, then by the base model: four of [N], nats."""
    prompt, *answers = pairs
    ours = [policy.log_prob(prompt, answer).sum(0) for answer in answers]
    with torch.no_grad():
        return ours + [base.log_prob(prompt, answer).sum(0) for answer in answers]


def loss_of(way: Way, logs: list[Tensor]) -> Tensor:
    """What a run descends, of `log_probs`."""
    chosen, rejected, reference_chosen, reference_rejected = logs
    loss = -way.likelihood * chosen.mean()
    if way.loss == "ipo":
        margin = chosen - reference_chosen - rejected + reference_rejected
        loss = loss + (margin - 0.5 / way.price).square().mean()
    if way.loss == "dpo":
        loss = loss + dpo_loss(*logs, way.price)
    return loss


def told(policy: Decoder, base: Decoder, pairs: Pairs) -> tuple[float, ...]:
    """The last five columns of a row."""
    prompt = SORT.draw(2000, Generator().manual_seed(1))
    answer, log_prob, mask = policy.sample(prompt, 6, Generator().manual_seed(2))
    with torch.no_grad():
        nats = (log_prob - base.log_prob(prompt, answer)).sum(0).mean()
        logs = log_probs(policy, base, pairs)
    ratio = torch.stack([logs[0] - logs[2], logs[1] - logs[3]])
    right, ordered = SORT.right(prompt, answer, mask).float().mean(), (ratio[0] > ratio[1]).float().mean()
    return tuple(each.item() for each in (right, nats, *ratio.mean(1), ordered))


def batches(way: Way, pairs: Pairs, policy: Decoder, base: Decoder, draw: Generator) -> Iterator[Pairs]:
    """The pairs of each step, without an end."""
    while True:
        if not way.pairs:
            yield compared(policy if way.of_policy else base, BATCH, draw)
            continue
        for i in torch.randperm(way.pairs, generator=draw).split(BATCH):
            yield tuple(each[:, i] for each in pairs)  # type: ignore[misc]


def descend(name: str, seed: int) -> list[Row]:
    """One run: a row before its first step, and one at each of `LOOKS`."""
    way, base = WAYS[name], load_base(BASE)
    policy, pairs = copy.deepcopy(base), compared(base, way.pairs or 512, Generator().manual_seed(seed))
    first: Pairs = tuple(each[:, :512] for each in pairs)  # type: ignore[assignment]
    adam = torch.optim.Adam(policy.parameters(), lr=way.rate)
    rows = [Row(name, seed, 0, *told(policy, base, first))]
    of_steps = batches(way, pairs, policy, base, Generator().manual_seed(1000 + seed))
    for step, batch in zip(range(1, STEPS + 1), of_steps, strict=False):
        loss = loss_of(way, log_probs(policy, base, batch))
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step in LOOKS:
            rows.append(Row(name, seed, step, *told(policy, base, first)))
    return rows


if __name__ == "__main__":
    record, _ = asked(__spec__.name, __doc__, Row, digits=6)
    record.fill(((name, seed), partial(descend, name, seed)) for seed in SEEDS for name in WAYS)
