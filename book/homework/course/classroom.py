"""A class is marked. Students' names stay in the term's folder."""

from __future__ import annotations

import copy
import os
import re
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat

from . import assignment, pack_of
from .graders import NOTE, note_of, to_run
from .intake import choose, taken
from .isolation import Limits, offered
from .marking import marked_once
from .reports import write_reports
from .term import ONE, done, known, opened, released
from .variants import base_of, variant_of

STUDENT = re.compile(r"[\w.@-]+")  # what a student's folder may be called


@dataclass
class Report:
    """What a run of the grader did; no student is named."""

    submissions: int = 0
    by: str = ""
    full: int = 0  # with every marked function right
    notes: list[str] = field(default_factory=list)
    failed: int = 0  # that nbgrader could not grade; see the log

    def __str__(self) -> str:
        lines = [
            f"{self.submissions} submissions marked, {self.full} with every function right; run apart by: {self.by}"
        ]
        lines += [f"{self.notes.count(note)} × {note}" for note in sorted(set(self.notes))]
        return "\n".join([*lines, f"{self.failed} could not be graded" if self.failed else "no failure"])


def grade(
    submissions: Path,
    term: Path,
    *,
    names: Iterable[str] | None = None,
    workers: int | None = None,
    limits: Limits = ONE,
) -> Report:
    """Collect, mark, and report: `feedback/`, `grades.csv`, `canvas.csv` in the term's folder.

    submissions: a folder per student, in it NAME.ipynb or NAME/NAME.ipynb, and timestamp.txt if there is one.
    names: assignments; every released one that somebody handed in unless given. Grading again gives the same marks and
    leaves the marks that people gave.
    Raises ValueError: no folder, no student, a student's folder with a name that nbgrader cannot hold.
    """
    students = sorted(submissions.iterdir()) if submissions.is_dir() else []
    students = [f for f in students if f.is_dir() and not f.is_symlink() and not f.name.startswith((".", "__MACOSX"))]
    if not students:
        raise ValueError(f"submissions: wanted a folder with a folder for every student; got {submissions}")
    odd = sum(not STUDENT.fullmatch(folder.name) for folder in students)
    if odd:
        raise ValueError(f"submissions: wanted folders named by letters, digits and . @ _ -; {odd} have other names")
    there = released(term)
    pack = pack_of(term)
    names = known(names, pack) if names else [n for n in there if any(choose(folder, n)[0] for folder in students)]
    unreleased = set(names) - set(there)
    if unreleased or not names:
        raise ValueError(
            f"assignments: wanted released ones that somebody handed in; got {sorted(unreleased) or 'none'}"
        )
    come_in = [
        taken(folder, name, nbformat.read(base_of(term, name, folder.name), as_version=4))
        for name in names
        for folder in students
    ]
    # Who handed something in before and nothing now keeps what was there.
    come_in = [e for e in come_in if e.found or not (term / "submitted" / e.student / e.assignment).exists()]
    closed = [str(place.resolve()) for place in (term, submissions, pack) if place]
    limits = replace(limits, closed=tuple(closed))
    ready = []
    for each in come_in:
        made = copy.deepcopy(each.notebook)
        made.metadata.pop(NOTE, None)
        note = note_of(term, each.assignment, each.student)
        note.unlink(missing_ok=True)
        if each.note:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(each.note)
        folder = term / "submitted" / each.student / each.assignment
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        nbformat.write(made, folder / f"{each.assignment}.ipynb")
        if each.handed_in:
            (folder / "timestamp.txt").write_text(f"{each.handed_in:%Y-%m-%d %H:%M:%S.%f} UTC")
        ready.append(to_run(made))
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:  # each waits for a process of its own
        marks = list(
            pool.map(
                lambda each, cells, seed: marked_once(assignment(each.assignment, seed, pack), cells, seed, limits),
                come_in,
                ready,
                [variant_of(term, each.student) for each in come_in],
            )
        )
    report = Report(len(come_in), offered(), sum(all(m.full for m in found.values()) for found, _ in marks))
    api = opened(term)
    for each in come_in:
        what = f"{each.assignment} of {each.student}"
        if not done(term, api.autograde(each.assignment, each.student, force=True, create=True), f"mark {what}"):
            report.failed += 1
        # In public without the reason, in which a student's own words may stand.
        report.notes += [re.sub(r" \(.*\)", "", each.note, flags=re.S)] if each.note else []
    write_reports(term, api)
    return report
