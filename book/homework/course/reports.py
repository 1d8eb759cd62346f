"""Feedback pages and tables of marks, from the gradebook as it stands."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.apps import NbGraderAPI

from .marks import Work, order_of, works
from .pages import revealed, write_pages
from .roster import last_due, read_roster, write_table
from .term import gradebook, opened
from .words import counted

TABLES = ("grades.csv", "questions_marks.csv", "canvas.csv", "moodle.csv")
PROVISIONAL = ("canvas_provisional.csv", "moodle_provisional.csv")


@dataclass
class Reported:
    """What was written; no student is named."""

    works: int = 0
    pages: int = 0
    failed: int = 0  # pages that could not be made; see the log
    tables: str = ""  # what became of those whose totals are provisional

    def __str__(self) -> str:
        works, pages = counted(self.works, "submission", "submissions"), counted(self.pages, "page", "pages")
        lines = [f"{works}, {pages} of feedback new or changed", *filter(None, [self.tables])]
        failed = f"{counted(self.failed, 'page', 'pages')} could not be made, see grading.log"
        return "\n".join([*lines, failed] if self.failed else lines)


def marks_of(term: Path, api: NbGraderAPI | None = None) -> list[Work]:
    """The gradebook's marks as they are now, late policy applied."""
    api = api or opened(term)
    policy = api.config.AssignLatePenalties.plugin_class(config=api.config)
    with gradebook(api) as book:
        return works(term, book, policy)


def write_reports(
    term: Path,
    api: NbGraderAPI | None = None,
    *,
    provisional: bool = False,
    reveal: Sequence[str] = (),
    now: datetime.datetime | None = None,
) -> Reported:
    """Write pages that changed, and all tables, from the gradebook as it stands, marks that people gave included.

    provisional: also tables to import whose totals lack what people have not marked. reveal: assignments whose failing
    cases are shown from now on. now: the time, with a zone.
    Raises ValueError: see `revealed`.
    """
    api = api or opened(term)
    with gradebook(api) as book:
        due = last_due(book, read_roster(term))
    shown = revealed(term, reveal, due, now or datetime.datetime.now(datetime.UTC))
    found = marks_of(term, api)
    if not found:  # everybody was taken out again
        for name in (*TABLES, *PROVISIONAL):
            (term / name).unlink(missing_ok=True)
        return Reported()
    report = Reported(len(found), *write_pages(term, found, shown))
    for name, rows in (("grades.csv", [row_of(work) for work in found]), ("questions_marks.csv", question_rows(found))):
        write_table(term / name, [rows[0], *(row.values() for row in rows)])
    importable(term, "", found, final=True)
    both = " and ".join(PROVISIONAL)
    if provisional:
        importable(term, "_provisional", found, final=False)
        report.tables = f"{both} count what is marked so far; a report without PROVISIONAL=1 deletes them"
    elif any((term / name).exists() for name in PROVISIONAL):
        for name in PROVISIONAL:
            (term / name).unlink(missing_ok=True)
        report.tables = f"{both} were of an earlier report and are deleted; PROVISIONAL=1 writes them anew"
    return report


def row_of(work: Work) -> dict[str, Any]:
    """A submission's line of grades.csv."""
    return {
        "student": work.student,
        "assignment": work.assignment,
        "score": round(work.score, 2),
        "max_score": work.of,
        "automatic": round(sum(each.automatic or 0.0 for each in work.given), 2),
        "late_penalty": round(work.penalty, 2),
        "to_mark_by_hand": sum(each.queued for each in work.given),
        "handed_in": work.handed_in.isoformat(" ", "seconds") + "+00:00" if work.handed_in else "",
        "final": "no" if work.awaited else "yes",
        "not_yet_marked": " ".join(work.awaited),
    }


def question_rows(found: Iterable[Work]) -> list[dict[str, Any]]:
    """A line for each submission: what each question earned, by machine and by people; late work is not deducted."""
    rows = []
    found = list(found)
    names = sorted({each.question for work in found for each in work.given}, key=order_of)
    for work in found:
        row: dict[str, Any] = {"student": work.student, "assignment": work.assignment}
        given = {each.question: each for each in work.given}
        for name in names:
            one = given.get(name)
            parts = ("", "", "") if one is None else ("" if one.unmarked else one.points, one.automatic, one.manual)
            for suffix, number in zip(("", "_automatic", "_manual"), parts, strict=True):
                row[name + suffix] = "" if number is None else number
        rows.append(row)
    return rows


def importable(term: Path, suffix: str, found: Iterable[Work], *, final: bool) -> None:
    """One row a student, one column an assignment, as Canvas imports them; Moodle has no use for its second row.

    final: a total is empty while a person still has to mark a part of it.
    """
    found = list(found)
    possible = {work.assignment: work.of for work in found}
    totals: dict[str, dict[str, Any]] = {}
    for work in found:
        empty = final and work.awaited
        totals.setdefault(work.student, {})[work.assignment] = "" if empty else round(work.score, 2)
    names = sorted(possible)
    people = {each.student: each for each in read_roster(term)}
    canvas: list[list[Any]] = [["Student", "ID", "SIS Login ID", "Section", *names]]
    canvas.append(["Points Possible", "", "", "", *(possible[name] for name in names)])
    moodle: list[list[Any]] = [["Username", *names]]
    for student, scores in sorted(totals.items()):
        person = people.get(student)  # the folder's name stands in where the roster says nothing
        login = (person.login if person else "") or student
        known_as = [person.name, person.canvas] if person else ["", ""]
        canvas.append([*known_as, login, "", *(scores.get(name, "") for name in names)])
        moodle.append([login, *(scores.get(name, "") for name in names)])
    write_table(term / f"canvas{suffix}.csv", canvas)
    write_table(term / f"moodle{suffix}.csv", moodle)
