"""The book's homework 2 with one question of our own in it: the rest is the book's, whose solutions are public."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import torch
from course import hw2
from course.question import Assignment, Case, Code
from torch import Generator


def make(draw: Random) -> Assignment:
    book = hw2.make(draw)  # first: what it draws is then the same as without us
    own = long_target(draw)
    return replace(book, questions=[own if question.name == own.name else question for question in book.questions])


def long_target(draw: Random) -> Code:
    """Targets of a few steps; drawn are how many, and what is done to the rewards or to the value at the end."""
    most, size = draw.choice([2, 3, 4]), draw.choice([0.2, 0.3, 0.5, 0.8])
    twist_text, earned_code, after_code, earned, after = draw.choice(
        [
            (
                f"the rewards after the first count ${size}$ times",
                f"reward[u] * (1.0 if u == t else {size})",
                "next_value[u]",
                lambda r, later: r * (size if later else 1.0),
                lambda v: v,
            ),
            (
                f"the value at the end counts as ${size}$ where it is larger than that",
                "reward[u]",
                f"next_value[u].clamp(max={size})",
                lambda r, later: r,
                lambda v: min(v, size),
            ),
            (
                f"$l$ steps after $t$ a fee of ${size}\\,l$ is taken from the reward",
                f"reward[u] - {size} * (u - t)",
                "next_value[u]",
                lambda r, later: r - size * later,
                lambda v: v,
            ),
        ]
    )

    def oracle(reward, next_value, terminated, truncated, gamma):
        def ahead(t: int, b: int, later: int) -> float:
            got = earned(float(reward[t, b]), later)
            if terminated[t, b]:
                return got
            if truncated[t, b] or later + 1 == most or t + 1 == len(reward):
                return got + gamma * after(float(next_value[t, b]))
            return got + gamma * ahead(t + 1, b, later + 1)

        steps, envs = reward.shape
        return torch.tensor([[ahead(t, b, 0) for b in range(envs)] for t in range(steps)]).double()

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, ends, gamma in (
            ("one step", 1, 4, 0.3, 0.9),
            ("no episode ends", 8, 2, 0.0, 0.9),
            ("many short episodes", 20, 3, 0.4, 0.95),
            ("no discount", 9, 3, 0.2, 1.0),
        ):
            given = hw2.rows(generator, steps, envs, ends)
            del given["value"]
            made.append(Case(name, given | {"gamma": gamma}))
        return made

    example = hw2.example_rows()
    del example["value"]
    return Code(
        name="q3",
        title="A target that looks a few steps ahead",
        points=4,
        minutes=40,
        goal="where a target of several steps has to stop",
        text=rf"""
Write `long_target`: the critic's target of {most} steps,
$y_t = \sum_{{l < k}} \gamma^l r_{{t+l}} + \gamma^k V(s_{{t+k}})$. Here $k = {most}$, or less where the episode ends earlier (the step that
ends it is the last one that counts) or the batch does. After a terminated step there is no value; after a truncated one, and at the
batch's end, there is (`next_value` of the last row that counts). One thing differs: {twist_text}.
""",
        function="long_target",
        header='''def long_target(reward, next_value, terminated, truncated, gamma):
    """Targets [T, B]. All tensors are [T, B]; terminated and truncated are bool; gamma is a number."""''',
        body=f"""    target = torch.zeros_like(reward)
    for t in range(len(reward)):
        end = min(t + {most}, len(reward)) - 1
        going, factor = torch.ones_like(terminated[t]), 1.0
        for u in range(t, end + 1):
            target[t] += going * factor * ({earned_code})
            factor *= gamma
            going = going & ~terminated[u]
            stops = going & truncated[u] if u < end else going
            target[t] += stops * factor * {after_code}
            going = going & ~truncated[u]
    return target""",
        oracle=oracle,
        cases=cases,
        example=Case("example", example | {"gamma": 0.9}),
    )
