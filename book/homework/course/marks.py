"""The marks as the gradebook holds them, read in one pass; and which of them a person still has to give."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import Assignment, Comment, Grade, GradeCell, SolutionCell, SubmittedAssignment, SubmittedNotebook

from .graders import FAILED, by_question
from .reading import name_of

SEEN = "marked.json"  # in the term: what a person marked, by its hash, so that only what changed is marked again


@dataclass
class Given:
    """What a question of a submission earned, by machine or by a person."""

    question: str  # "q1"
    cell: str  # "q1-answer", "q2-marked"
    of: float
    automatic: float | None
    manual: float | None
    extra: float
    queued: bool  # in nbgrader's queue for a person
    changed: bool = False  # since a person marked it

    @property
    def unmarked(self) -> bool:
        return self.automatic is None and self.manual is None

    @property
    def awaited(self) -> bool:
        """Whether a person has to look: at an answer without a mark, or one that changed after its mark."""
        return self.unmarked or self.changed

    @property
    def points(self) -> float:
        """As nbgrader counts them: a person's mark before the machine's."""
        mark = self.automatic if self.manual is None else self.manual
        return 0.0 if mark is None else mark + self.extra


@dataclass
class Work:
    """A student's submission for one assignment, with its marks."""

    student: str
    assignment: str
    notebook: str
    handed_in: datetime.datetime | None
    penalty: float
    given: list[Given]
    comments: dict[str, str | None]  # by the cell that they stand at

    @property
    def points(self) -> float:
        return sum(each.points for each in self.given)

    @property
    def score(self) -> float:
        return max(0.0, self.points - self.penalty)

    @property
    def of(self) -> float:
        return sum(each.of for each in self.given)

    @property
    def awaited(self) -> list[str]:
        return [each.question for each in self.given if each.awaited]

    def file(self, term: Path) -> Path:
        """The graded notebook."""
        return term / "autograded" / self.student / self.assignment / f"{self.notebook}.ipynb"


def order_of(name: str) -> tuple[int, str]:
    number = re.match(r"q(\d+)", name)
    return (int(number[1]) if number else 0, name)


def works(term: Path, book: Any, policy: Any) -> list[Work]:
    """Every submission of the gradebook, by assignment and student, late policy applied to the marks as they are now.

    book: nbgrader's open gradebook. policy: its plugin for late work.
    """
    graded: dict[str, list[Given]] = {}
    columns = (Grade.notebook_id, GradeCell.name, GradeCell.max_score, Grade.auto_score, Grade.manual_score)
    rows = book.db.query(*columns, Grade.extra_credit, Grade.needs_manual_grade)
    for notebook, cell, of, automatic, manual, extra, queued in rows.join(GradeCell, Grade.cell_id == GradeCell.id):
        one = Given(cell.rsplit("-", 1)[0], cell, of, automatic, manual, extra or 0.0, queued)
        graded.setdefault(notebook, []).append(one)
    said: dict[str, dict[str, str | None]] = {}
    rows = book.db.query(Comment.notebook_id, SolutionCell.name, Comment.comment)
    for notebook, cell, comment in rows.join(SolutionCell, Comment.cell_id == SolutionCell.id):
        said.setdefault(notebook, {})[cell] = comment
    found = []
    rows = book.db.query(SubmittedNotebook, SubmittedAssignment, Assignment)
    rows = rows.join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
    for part, submission, assigned in rows.join(Assignment, SubmittedAssignment.assignment_id == Assignment.id):
        given = sorted(graded.get(part.id, []), key=lambda each: order_of(each.cell))
        late = submission.total_seconds_late
        kept = (submission.student_id, assigned.name, part.name, submission.timestamp)
        one = Work(*kept, 0.0, given, said.get(part.id, {}))
        one.penalty = policy.late_submission_penalty(one.student, one.points, late) if late > 0 else 0.0
        if (part.late_submission_penalty or 0.0) != one.penalty:
            part.late_submission_penalty = one.penalty or None
        found.append(one)
    found.sort(key=lambda one: (one.assignment, one.student))
    settle(term, book, found)
    book.db.commit()
    return found


def settle(term: Path, book: Any, found: list[Work]) -> None:
    """Tell answers that changed after a person's mark from those that were only graded again.

    Grading again puts everything that a person marked back into nbgrader's queue; what is the same leaves it here.
    """
    place = term / SEEN
    seen: dict[str, str] = json.loads(place.read_text()) if place.exists() else {}
    before = dict(seen)
    for work in found:
        by_person = [each for each in work.given if each.manual is not None]
        if not by_person or not work.file(term).exists():
            continue
        texts = sections(json.loads(work.file(term).read_text()))
        for each in by_person:
            key = f"{work.assignment}/{work.student}/{each.question}"
            now = hashlib.sha256(json.dumps(texts.get(each.question, [])).encode()).hexdigest()
            if not each.queued:
                seen[key] = now
            elif seen.get(key) == now:
                book.find_grade(each.cell, work.notebook, work.assignment, work.student).needs_manual_grade = False
                each.queued = False
            else:
                each.changed = True
    if seen != before:
        place.write_text(json.dumps(seen))


def sections(notebook: dict[str, Any]) -> dict[str, list[Any]]:
    """By question: the source and the pictures of each cell from the question's text to the next question's."""
    return {
        question: [
            [name_of(cell), "".join(cell["source"]), cell.get("attachments", {})]
            for cell in cells
            if not name_of(cell).endswith("-marked")
        ]
        for question, cells in by_question(notebook["cells"]).items()
    }


def failing(notebook: dict[str, Any]) -> dict[str, list[str]]:
    """The hidden cases that each function failed, as its check was marked."""
    checks = ((name_of(cell), cell["metadata"].get(FAILED)) for cell in notebook["cells"])
    return {name.removesuffix("-marked"): cases for name, cases in checks if cases}
