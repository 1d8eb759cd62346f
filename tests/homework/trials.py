"""Answers tried in this process: reference solutions, wrong ones made by edits, right ones of another kind.

`python -m tests.homework.trials hw2` prints what an assignment's own tests will say.
"""

from __future__ import annotations

import importlib
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "homework"))

from course import NAMES, assignment  # noqa: E402
from course.figures import plain  # noqa: E402
from course.here import answered  # noqa: E402
from course.marking import differs, hidden  # noqa: E402
from course.question import EXAMPLE_SEED, Code  # noqa: E402

SEEDS = [EXAMPLE_SEED, *(f"term {n}" for n in range(1, 20))]


def answers_of(name: str) -> Any:
    """The module of tests.homework.answers that goes with an assignment."""
    return importlib.import_module(f"{__package__}.answers.{name.split('_')[0]}")


def edited(text: str, edits: list[tuple[str, str]]) -> str:
    """Raises ValueError unless each old text stands there once."""
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"wanted the text once, found {text.count(old)}: {old!r} in\n{text}")
        text = text.replace(old, new)
    return text


def verdict(question: Code, source: str, seed: str = EXAMPLE_SEED, *, threads: int = 1) -> dict[str, str]:
    """Case -> what is wrong with the function that `source` defines, "" where nothing is."""
    before = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)  # as the notebook's first cell does
    torch.set_num_threads(threads)
    try:
        namespace: dict[str, Any] = {}
        exec("import math\nimport torch", namespace)
        exec(question.setup, namespace)
        exec(source, namespace)
        return answered(question, namespace[question.function], seed)
    finally:
        torch.set_default_dtype(before[0])
        torch.set_num_threads(before[1])


def worthless(question: Code, seed: str) -> list[dict[str, str]]:
    """The verdicts on what takes no work: a constant in the right shape, an input as it came, the fault as given."""
    cases, right = hidden(question, seed)

    def always(number: float) -> dict[str, str]:
        parts = {case: tuple(torch.full_like(part, number) for part in wanted) for case, wanted in right.items()}
        return {case: differs(plain(answer), right[case]) for case, answer in parts.items()}

    sources = [f"def {question.function}(*given): return given[{place}]" for place in range(len(cases[0].inputs))]
    sources += [question.faulty] if question.fault else []
    return [always(0.0), always(1.0), *(verdict(question, source, seed) for source in sources)]


def points_of(question: Code, got: dict[str, str], seed: str = EXAMPLE_SEED) -> float:
    """What a verdict is worth: all, or its share of the cases that nothing worthless passes, less what it broke."""
    wrong = [case for case, why in got.items() if why]
    if not wrong or question.judge:
        return 0.0 if wrong else question.points
    idle = worthless(question, seed)
    counted = [case for case in got if all(each[case] for each in idle)]
    right = sum(not got[case] for case in counted) - sum(case not in counted for case in wrong)
    return max(0.0, math.floor(2 * question.points * Fraction(right, len(counted) or 1)) / 2)


def is_right(question: Code, source: str, seed: str = EXAMPLE_SEED, **kwargs: Any) -> bool:
    return not any(verdict(question, source, seed, **kwargs).values())


def report(name: str) -> list[str]:
    """What would fail in the tests, in lines."""
    found, answers = [], answers_of(name)
    example = assignment(name, EXAMPLE_SEED)
    for seed in SEEDS:
        for question in assignment(name, seed).coded:
            wrong = {case: why for case, why in verdict(question, question.solution, seed).items() if why}
            found += [f"{seed}, {question.name}: the reference is refused: {wrong}"] if wrong else []
            if question.fault and is_right(question, question.faulty, seed):
                found.append(f"{seed}, {question.name}: the fault is not seen: {question.fault.name}")
    for question in example.coded:
        wrong, right = answers.WRONG[question.name], answers.RIGHT[question.name]
        found += [f"{question.name}: only {len(wrong)} wrong answers"] if len(wrong) < 6 else []
        found += [f"{question.name}: only {len(right)} right answers"] if len(right) < 3 else []
        for story, edits in wrong.items():
            source = edits if isinstance(edits, str) else edited(question.solution, edits)
            got = verdict(question, source)
            if not any(got.values()):
                found.append(f"{question.name}: not seen: {story}")
            elif all("Error" in why for why in got.values() if why):
                found.append(f"{question.name}: falls over rather than being wrong: {story}: {got}")
        for story, source in right.items():
            wrong_at = {case: why for case, why in verdict(question, source).items() if why}
            found += [f"{question.name}: refused though right: {story}: {wrong_at}"] if wrong_at else []
        if question.name in answers.PACKAGE and is_right(question, answers.PACKAGE[question.name]):
            found.append(f"{question.name}: the package's own function gets the marks")
    return found


if __name__ == "__main__":
    for name in NAMES:
        if name.split("_")[0] in sys.argv[1:]:
            print("\n".join(report(name)) or f"{name}: everything holds")
