"""What the homework's tests share. `python -m tests.homework.trials hw2` prints what an assignment's own tests say."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "homework"))

from course import NAMES, assignment  # noqa: E402
from course.captured import plain  # noqa: E402
from course.check import SEEDS, answers_of, edited, is_right, reported, verdict  # noqa: E402
from course.marking import differs, hidden  # noqa: E402
from course.question import EXAMPLE_SEED, Code  # noqa: E402

__all__ = ["ROOT", "SEEDS", "answers_of", "assignment", "edited", "is_right", "points_of", "verdict", "worthless"]


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


if __name__ == "__main__":
    asked = [name for name in NAMES if name.split("_")[0] in sys.argv[1:]]
    print("\n".join(reported(None, asked)))
