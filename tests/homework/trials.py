"""What the homework's tests share: answers to try, what they are worth, and lines that tell a solution."""

from __future__ import annotations

import csv
import functools
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "homework"))

from course import NAMES, assignment, handout  # noqa: E402
from course import term as terms  # noqa: E402
from course.captured import plain  # noqa: E402
from course.here import answered  # noqa: E402
from course.isolation import Limits, missing  # noqa: E402
from course.marking import differs, hidden, in_double  # noqa: E402
from course.question import EXAMPLE_SEED, Assignment, Code  # noqa: E402

from .answers.slips import SLIPS, slipped  # noqa: E402

SEEDS = [EXAMPLE_SEED, *(f"term {n}" for n in range(1, 20))]
TERMS = [*SEEDS, *(f"autumn {n}" for n in range(12))]
CODED = [(name, question.name) for name in NAMES for question in assignment(name).coded]
SETUP = {"id": "setup", "source": "import math\nimport torch\ntorch.set_default_dtype(torch.float64)"}
apart = pytest.mark.skipif(bool(missing()), reason=f"nothing keeps students' code apart here: {missing()}")
SHORT = Limits(cell_seconds=3.0, case_seconds=2.0, question_seconds=4.0)
# What stands in a source notebook and in nothing that is handed out.
MARKS = (
    "BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS", "MARK SCHEME", "full_marks", "Rubric", "course.here", "sys.path",
)  # fmt: skip


def answers_of(name: str) -> Any:
    """RIGHT and PACKAGE of an assignment: by question, stories with a text, or a text."""
    return importlib.import_module(f"tests.homework.answers.{name.split('_')[0]}")


def written(name: str, question: str, text: str) -> str:
    """The function that an answer's text holds: the body alone, or all where its arguments have names of their own."""
    asked = assignment(name).question(question)
    return text if f"def {asked.function}(" in text else f"{asked.header}\n{text}"


def mistakes(name: str, question: str) -> dict[str, Any]:
    """The edits by which a solution becomes wrong, by their stories."""
    return SLIPS[name.split("_")[0]][question]


def on_the_example(name: str, question: str) -> dict[str, str]:
    """The mistakes that the example's solution has room for, as whole functions."""
    solution = assignment(name).question(question).solution
    made = {story: slipped(solution, edits) for story, edits in mistakes(name, question).items()}
    return {story: source for story, source in made.items() if source is not None}


def filled(notebook: Any, answers: dict[str, str], **others: str) -> Any:
    """The notebook with functions by their questions, and other cells' texts by name, "_" for "-"."""
    sources = {f"{question}-code": source for question, source in answers.items()}
    sources |= {name.replace("_", "-"): source for name, source in others.items()}
    for cell in notebook.cells:
        cell["source"] = sources.get(cell.metadata["nbgrader"]["grade_id"], cell.source)
    return notebook


def example_term(folder: Path, **options: Any) -> Path:
    """A released term with the example's seed, which a term of one's own may not take."""
    folder.mkdir()
    (folder / "seed.txt").write_text(EXAMPLE_SEED)
    handout.release(folder, wheel=False, **options)
    return folder


def table(term: Path, name: str = "grades.csv") -> dict[str, dict[str, str]]:
    """A table of a term's folder, by student."""
    with (term / name).open() as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def page(term: Path, student: str, name: str = "hw2_gae") -> str:
    """A student's feedback."""
    return (term / "feedback" / student / name / f"{name}.html").read_text()


def by_hand(term: Path, student: str, name: str = "hw2_gae", **points: float) -> None:
    """What the formgrader does when a person types points."""
    with terms.gradebook(terms.opened(term)) as book:
        for question, number in points.items():
            grade = book.find_grade(f"{question}-answer", name, name, student)
            grade.manual_score, grade.needs_manual_grade = number, False
        book.db.commit()


def verdict(question: Code, source: str, seed: str = EXAMPLE_SEED, *, threads: int = 1) -> dict[str, str]:
    """Case -> what is wrong with the function that `source` defines, "" where nothing is. In this process."""
    before, namespace = torch.get_num_threads(), {}
    torch.set_num_threads(threads)
    try:
        with in_double():
            exec(f"import math\nimport torch\n{question.setup}", namespace)
            exec(source, namespace)
            return answered(question, namespace[question.function], seed)
    finally:
        torch.set_num_threads(before)


def wrong_cases(question: Code, source: str, seed: str = EXAMPLE_SEED, **kwargs: Any) -> dict[str, str]:
    return {case: why for case, why in verdict(question, source, seed, **kwargs).items() if why}


def worthless(question: Code, seed: str) -> list[dict[str, str]]:
    """The verdicts on what takes no work: a constant in the right shape, an input as it came, the fault as given."""
    cases, right = hidden(question, seed)

    def always(number: float) -> dict[str, str]:
        parts = {case: tuple(torch.full_like(part, number) for part in wanted) for case, wanted in right.items()}
        return {case: differs(plain(answer), right[case]) for case, answer in parts.items()}

    sources = [f"def {question.function}(*given): return given[{place}]" for place in range(len(cases[0].inputs))]
    sources += [question.faulty] if question.fault else []
    return [always(0.0), always(1.0), *(verdict(question, source, seed) for source in sources)]


def telling(made: Assignment) -> dict[str, list[str]]:
    """Long lines of solutions and rubrics that students are not given, by assignment and question, "hw2_gae/q1"."""
    found = {}
    given = "\n".join(q.text + getattr(q, "header", "") + getattr(q, "setup", "") for q in made.questions)
    given += "\n".join(q.faulty for q in made.coded if q.fault)
    for question in made.questions:
        code = isinstance(question, Code)
        text = question.body if code else f"{question.solution}\n{question.rubric}\n{getattr(question, 'code', '')}"
        least = 8 if getattr(question, "fault", None) else 30  # of a mended function one line is new
        lines = {line.strip() for line in text.splitlines() if len(line.strip()) >= least}
        found[f"{made.name}/{question.name}"] = sorted(
            line for line in lines if not line.startswith(("from ", "import ")) and line not in given
        )
    return found


def leaks(text: str, lines: dict[str, list[str]], share: float = 0.0) -> list[str]:
    """Questions of which more than a share of the lines stand in the text, plain or as they stand inside JSON."""
    seen = {name: sum(any(form in text for form in forms(line)) for line in lines[name]) for name in lines}
    return [name for name, count in seen.items() if count > share * len(lines[name])]


@functools.cache
def forms(line: str) -> tuple[str, ...]:
    """A line as it is and as it stands inside JSON; most are the same in both, and to search long texts takes time."""
    return tuple({line, json.dumps(line)[1:-1]})
