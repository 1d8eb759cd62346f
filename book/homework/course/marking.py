"""Compares what a submission computed with what is right, which only this side knows."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from minerva_lite.exercises.answers import CLOSE, agree  # noqa: F401 - known by this name too

from .isolation import Limits, Said, run
from .question import Assignment, Case, Code

JUDGED = 10_000  # numbers of a table that a judge looks at


@dataclass(frozen=True)
class Mark:
    """What a question earned, and why: for the student to read."""

    question: str
    points: int
    of: int
    reason: str

    @property
    def full(self) -> bool:
        return self.points == self.of


def number_of(text: str) -> int:
    """A seed for torch from any text, the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


@functools.lru_cache(maxsize=64)
def hidden(question: Code, secret: str) -> tuple[list[Case], dict[str, list[Tensor]]]:
    """The hidden cases that a secret draws, and their right answers (none for a question with a judge)."""
    cases = question.cases(Generator().manual_seed(number_of(f"{secret}/{question.name}/{question.function}")))
    if question.judge:
        return cases, {case.name: [] for case in cases}
    return cases, {case.name: parts_of(question.oracle(**copied(case.inputs))) for case in cases}


def copied(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in inputs.items()}


def parts_of(answer: Any) -> list[Tensor]:
    parts = answer if isinstance(answer, (tuple, list)) else [answer]
    return [torch.as_tensor(part).detach().double() for part in parts]


def mark_cells(
    assignment: Assignment,
    cells: list[dict[str, str]],
    secret: str,
    *,
    limits: Limits = Limits(),  # noqa: B008 - it cannot be changed
    by: str | None = None,
) -> tuple[dict[str, Mark], Said]:
    """Marks of an assignment's coded questions, by name, for a submission's code cells."""
    drawn = {question.name: hidden(question, secret) for question in assignment.coded}
    said = run(cells, assignment.coded, {name: cases for name, (cases, _) in drawn.items()}, limits=limits, by=by)
    marks = {q.name: mark(q, *drawn[q.name], said) for q in assignment.coded}
    said.answers.clear()  # they may be large, and a class is remembered
    return marks, said


MARKED: dict[tuple, tuple[dict[str, Mark], Said]] = {}  # of this run of the grader, by what was marked


def marked_once(
    assignment: Assignment, cells: list[dict[str, str]], secret: str, limits: Limits
) -> tuple[dict[str, Mark], Said]:
    """`mark_cells`, taken from memory where the very same cells were marked in this run of the grader."""
    key = (assignment.name, secret, json.dumps(cells))
    if key not in MARKED:
        MARKED[key] = mark_cells(assignment, cells, secret, limits=limits)
    return MARKED[key]


def mark(question: Code, cases: list[Case], right: dict[str, list[Tensor]], said: Said) -> Mark:
    """Full points if every case's answer is right, else none, and the first thing that is wrong."""
    reason = ""
    for case in cases:
        got = said.answers.get((question.name, case.name))
        if got is None:
            why = said.errors.get((question.name, case.name)) or said.errors.get((question.name, "")) or said.stopped
            reason = f"{case.name}: {why or 'no answer came back'}"
        else:
            try:
                reason = told(question, case, got, right[case.name])
            except Exception:  # whatever was sent back
                reason = "what came back is no answer"
            reason = reason and f"{case.name}: {reason}"
        if reason:
            break
    if not reason:
        return Mark(question.name, question.points, question.points, f"Every hidden case agrees ({len(cases)}).")
    broken = "; ".join(f"cell {cell}: {why}" for cell, why in said.cells.items() if cell == f"{question.name}-code")
    return Mark(question.name, 0, question.points, reason + (f" ({broken})" if broken and broken not in reason else ""))


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


def differs(got: list[Any], right: list[Tensor], names: list[str] | None = None) -> str:
    """Why an answer is wrong: which entry, which axis, by how much; the right number is not told. "" if it is right.

    names: what the arrays are, if they have names.
    """
    names = names if names and len(names) == len(right) > 1 else [f"array {place}" for place in range(len(right))]
    if len(got) != len(right):
        return f"wanted {len(right)} arrays; got {len(got)}"
    for place, (part, wanted) in enumerate(zip(got, right, strict=True)):
        which = f"{names[place]}: " if len(right) > 1 else ""
        # What came back may be anything: it is compared before it is converted.
        if part["shape"] != list(wanted.shape):
            return f"{which}wanted shape {tuple(wanted.shape)}; got {str(part['shape'])[:60]}"
        if len(part["data"]) != wanted.numel():
            return f"{which}wanted {wanted.numel()} numbers; got {len(part['data'])}"
        try:
            array = torch.tensor([float(x) for x in part["data"]], dtype=torch.float64).reshape(wanted.shape)
        except (TypeError, ValueError, OverflowError):
            return f"{which}wanted numbers"
        wrong = ~agree(array, wanted)
        if wrong.any():
            first = tuple(int(i) for i in wrong.nonzero()[0])
            off = float((array - wanted).abs()[wrong].nan_to_num(nan=torch.inf).max())
            count = f"{int(wrong.sum())} of {wrong.numel()} entries are wrong"
            return f"{which}{count}, {where(wrong, first)}; off by up to {off:.3g}"
    return ""


def where(wrong: Tensor, first: tuple[int, ...]) -> str:
    """The pattern of wrong entries in words."""
    if wrong.ndim == 0:
        return "the only one"
    told = f"the first at {list(first) if len(first) > 1 else first[0]}"
    if wrong.ndim == 2:
        rows, columns = wrong.any(1), wrong.any(0)
        if rows.sum() == 1 and wrong.shape[0] > 1:
            told += f", all in row {int(rows.nonzero()[0])}"
        elif columns.sum() == 1 and wrong.shape[1] > 1:
            told += f", all in column {int(columns.nonzero()[0])}"
    return told
