"""Compares what a submission computed with what is right, which only this side knows."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from .captured import called, plain
from .feedback import differs, reason
from .isolation import Limits, Said, run
from .question import Assignment, Case, Code
from .tried_out import explained

JUDGED = 10_000  # numbers of a table that a judge looks at
ALONE = threading.RLock()  # what is trusted runs one at a time: torch's default type is the whole process's


@dataclass(frozen=True)
class Mark:
    """What a question earned, and why: for the student to read."""

    question: str
    points: float
    of: int
    reason: str
    failed: tuple[str, ...] = ()  # hidden cases, in order

    @property
    def full(self) -> bool:
        return self.points == self.of


def number_of(text: str) -> int:
    """A seed for torch from any text, the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


@contextlib.contextmanager
def in_double() -> Iterator[None]:
    """For trusted code: torch's default type is the one that the notebook's first cell sets, whoever asks."""
    with ALONE:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


@functools.lru_cache(maxsize=64)
def hidden(question: Code, secret: str) -> tuple[list[Case], dict[str, list[Tensor]]]:
    """The hidden cases that a secret draws, and their right answers (none for a question with a judge)."""
    with in_double():
        cases = question.cases(Generator().manual_seed(number_of(f"{secret}/{question.name}/{question.function}")))
        if question.judge:
            return cases, {case.name: [] for case in cases}
        return cases, {case.name: parts_of(question.oracle(**copied(case.inputs))) for case in cases}


@functools.lru_cache(maxsize=64)
def counting(question: Code, secret: str) -> frozenset[str]:
    """The hidden cases that earn a share of the points: those that every worthless answer fails.

    Worthless is what takes no work: the constants 0 and 1 in the right shape, any of the inputs as it came, and for a
    bug to find the function as it was handed out. None for a question with a judge, which is all or nothing.
    """
    cases, right = hidden(question, secret)
    if question.judge:
        return frozenset()
    with in_double():
        return frozenset(case.name for case in cases if not passed_idly(question, case, right[case.name]))


def passed_idly(question: Code, case: Case, right: list[Tensor]) -> bool:
    """Whether a worthless answer is right on this case."""
    constants = ([torch.full_like(part, number) for part in right] for number in (0.0, 1.0))
    if any(not differs(plain(tuple(parts)), right) for parts in constants):
        return True
    idle: list[Callable] = [lambda *inputs, place=place: inputs[place] for place in range(len(case.inputs))]
    if question.fault:
        space: dict[str, Any] = {}
        exec(f"import math\nimport torch\n{question.setup}\n{question.faulty}", space)
        idle.append(space[question.function])
    for answer in idle:
        try:
            got = plain(called(question.call, answer, copied(case.inputs), [*question.leaves]))
        except Exception:  # an input that is no answer, such as a flag; the fault falls over
            continue
        if not differs(got, right):
            return True
    return False


def earned(points: int, counted: frozenset[str], wrong: set[str]) -> float:
    """The points of an answer with these cases wrong: its share of the cases that count, rounded down to half points.

    A wrong case that does not count takes one of the right ones away: what no work passes was broken. So full points
    are for what is right everywhere.
    """
    if not wrong:
        return points
    right = len(counted - wrong) - len(wrong - counted)
    return max(0, 2 * points * right // len(counted)) / 2 if counted else 0.0


def copied(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in inputs.items()}


def parts_of(answer: Any) -> list[Tensor]:
    parts = answer if isinstance(answer, (tuple, list)) else [answer]
    return [torch.as_tensor(part).detach().double() for part in parts]


def mark_cells(
    assignment: Assignment, cells: list[dict[str, str]], secret: str, limits: Limits
) -> tuple[dict[str, Mark], Said]:
    """Marks of an assignment's coded questions, by name, for a submission's code cells."""
    drawn = {question.name: hidden(question, secret) for question in assignment.coded}
    said = run(cells, assignment.coded, {name: cases for name, (cases, _) in drawn.items()}, limits=limits)
    marks = {q.name: mark(q, *drawn[q.name], said, counting(q, secret)) for q in assignment.coded}
    said.answers.clear()  # they may be large, and a class is remembered
    return marks, said


MARKED: dict[tuple, tuple[dict[str, Mark], Said]] = {}  # of this run of the grader, by what was marked


def marked_once(
    assignment: Assignment, cells: list[dict[str, str]], secret: str, limits: Limits
) -> tuple[dict[str, Mark], Said]:
    """`mark_cells`, taken from memory where the very same cells were marked in this run of the grader."""
    key = (assignment.name, secret, json.dumps(cells))
    if key not in MARKED:
        MARKED[key] = mark_cells(assignment, cells, secret, limits)
    return MARKED[key]


def mark(
    question: Code, cases: list[Case], right: dict[str, list[Tensor]], said: Said, counted: frozenset[str]
) -> Mark:
    """Full points if every case's answer is right, else a share by the cases that count; and what is wrong."""
    wrong = {}
    with ALONE:
        for case in cases:
            if why := refused(question, case, right[case.name], said):
                wrong[case.name] = why
    names = [case.name for case in cases]
    points = earned(question.points, counted, set(wrong))
    why = reason(names, wrong, counted, explained(question, cases, wrong))
    broken = "; ".join(f"cell {cell}: {why}" for cell, why in said.cells.items() if cell == f"{question.name}-code")
    why += f" ({broken})" if wrong and broken and broken not in why else ""
    return Mark(question.name, points, question.points, why, tuple(wrong))


def refused(question: Code, case: Case, right: list[Tensor], said: Said) -> str:
    """Why a case earns nothing, "" if its answer is right."""
    got = said.answers.get((question.name, case.name))
    if got is None:
        why = said.errors.get((question.name, case.name)) or said.errors.get((question.name, "")) or said.stopped
        return why or "no answer came back"
    try:
        return told(question, case, got, right)
    except Exception:  # whatever was sent back
        return "what came back is no answer"


def told(question: Code, case: Case, got: list[Any], right: list[Tensor]) -> str:
    """What is wrong with the arrays that came back for a case, "" if nothing is."""
    if not question.judge:
        return differs(got, right, ["the value", *(f"the gradient by {leaf}" for leaf in question.leaves)])
    if len(got) > JUDGED or any(len(part["data"]) > JUDGED for part in got):
        return f"wanted at most {JUDGED} numbers"
    try:
        arrays = [torch.tensor([float(x) for x in p["data"]], dtype=torch.float64).reshape(p["shape"]) for p in got]
    except (TypeError, ValueError, KeyError, RuntimeError):
        return "wanted numbers"
    return question.judge(copied(case.inputs), arrays)
