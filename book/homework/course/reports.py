"""Feedback pages and tables of marks, from the gradebook as it stands."""

from __future__ import annotations

import contextlib
import csv
from pathlib import Path
from typing import Any

from nbgrader.apps import NbGraderAPI

from .term import done, gradebook, opened


def row_of(assignment: Any, submission: Any) -> dict[str, Any]:
    """A submission's line of grades.csv."""
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    penalty = submission.late_submission_penalty or 0.0
    return {
        "student": submission.student.id,
        "assignment": assignment.name,
        "score": round(max(0.0, submission.score - penalty), 2),
        "max_score": assignment.max_score,
        "automatic": round(sum(grade.auto_score or 0.0 for grade in grades), 2),
        "late_penalty": round(penalty, 2),
        "to_mark_by_hand": sum(grade.needs_manual_grade for grade in grades),
        "handed_in": submission.timestamp.isoformat(" ", "seconds") if submission.timestamp else "",
    }


def write_reports(term: Path, api: NbGraderAPI | None = None) -> None:
    """Feedback pages and tables from the gradebook as it stands, marks that people gave included."""
    api = api or opened(term)
    rows = []
    policy = api.config.AssignLatePenalties.plugin_class(config=api.config)
    with gradebook(api) as book:
        for each in book.assignments:
            for submission in each.submissions:
                for part in submission.notebooks:  # of the score as it is now, marks that people gave included
                    late = submission.total_seconds_late
                    lost = policy.late_submission_penalty(submission.student.id, part.score, late) if late > 0 else 0.0
                    part.late_submission_penalty = lost or None
                rows.append(row_of(each, submission))
        book.db.commit()
    rows.sort(key=lambda row: (row["assignment"], row["student"]))
    for row in rows:
        done(term, api.generate_feedback(row["assignment"], row["student"], force=True), f"feedback {row['student']}")
    if not rows:
        return
    with (term / "grades.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    # One row a student, one column an assignment, as Canvas imports them; Moodle has no use for its second row.
    names = sorted({row["assignment"] for row in rows})
    with contextlib.ExitStack() as stack:
        table = csv.writer(stack.enter_context((term / "canvas.csv").open("w", newline="")))
        table.writerow(["Student", "ID", "SIS Login ID", "Section", *names])
        possible = {row["assignment"]: row["max_score"] for row in rows}
        table.writerow(["Points Possible", "", "", "", *(possible[name] for name in names)])
        moodle = csv.writer(stack.enter_context((term / "moodle.csv").open("w", newline="")))
        moodle.writerow(["Username", *names])
        for student in sorted({row["student"] for row in rows}):
            score = {r["assignment"]: r["score"] for r in rows if r["student"] == student}
            table.writerow(["", "", student, "", *(score.get(n, "") for n in names)])
            moodle.writerow([student, *(score.get(n, "") for n in names)])
