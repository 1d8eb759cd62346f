"""Whether a text tells a solution: the lines of solutions and rubrics that students are not given."""

from __future__ import annotations

import json
from functools import cache

from .question import Assignment, Code

# What stands in a source notebook and in nothing that is handed out.
MARKS = (
    "BEGIN SOLUTION",
    "END SOLUTION",
    "HIDDEN TESTS",
    "MARK SCHEME",
    "full_marks",
    "Rubric",
    "course.here",
    "sys.path",
)


def shown(assignment: Assignment) -> str:
    """All that students are given of an assignment's questions."""
    questions = assignment.questions
    faulty = [question.faulty for question in questions if getattr(question, "fault", None)]
    return "\n".join([q.text + getattr(q, "header", "") + getattr(q, "setup", "") for q in questions] + faulty)


def telling(assignment: Assignment) -> dict[str, list[str]]:
    """Long lines of solutions and rubrics that students are not given, by assignment and question, "hw2_gae/q1"."""
    found = {}
    given = shown(assignment)
    for question in assignment.questions:
        text = question.body if isinstance(question, Code) else question.solution
        if not isinstance(question, Code):
            text += "\n" + question.rubric + "\n" + getattr(question, "code", "")
        least = 8 if getattr(question, "fault", None) else 30  # of a mended function one line is new
        lines = {line.strip() for line in text.splitlines() if len(line.strip()) >= least}
        lines = {line for line in lines if not line.startswith(("from ", "import "))}
        found[f"{assignment.name}/{question.name}"] = sorted(line for line in lines if line not in given)
    return found


def leaks(text: str, lines: dict[str, list[str]], share: float = 0.0) -> list[str]:
    """Questions of which more than a share of the lines stand in the text, plain or as they stand inside JSON."""
    told = {name: sum(any(form in text for form in forms(line)) for line in lines[name]) for name in lines}
    return [name for name, count in told.items() if count > share * len(lines[name])]


@cache
def forms(line: str) -> tuple[str, ...]:
    """A line as it is and as it stands inside JSON; most are the same in both, and to search long texts takes time."""
    return tuple({line, json.dumps(line)[1:-1]})
