"""What a source notebook's hidden check calls: the reference solution against the hidden cases, in this process."""

from __future__ import annotations

from collections.abc import Callable

from . import assignment as drawn
from . import seed_of
from .captured import called, plain
from .marking import copied, hidden, told


def answered(question, function: Callable, secret: str) -> dict[str, str]:
    """Case -> what is wrong, "" if nothing is; for trusted code only."""
    cases, right = hidden(question, secret)
    found = {}
    for case in cases:
        inputs = copied(case.inputs)
        try:
            got = plain(called(question.call, function, inputs, list(question.leaves)))
            found[case.name] = told(question, case, got, right[case.name])
        except Exception as error:
            found[case.name] = f"{type(error).__name__}: {error}"
    return found


def full_marks(assignment: str, name: str, function: Callable) -> None:
    """Raise AssertionError unless `function` is right on every hidden case of the course in this folder."""
    seed = seed_of()
    question = drawn(assignment, seed).question(name)
    wrong = {case: why for case, why in answered(question, function, seed).items() if why}
    assert not wrong, wrong
