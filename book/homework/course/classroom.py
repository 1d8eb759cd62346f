"""A class is marked. Students' names stay in the term's folder."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import nbformat
import nbgrader.api
from nbgrader.apps import NbGraderAPI

from . import assignment, known, seed_of
from .graders import NOTE, note_of, renamed_of, to_run
from .intake import choose, taken
from .isolation import Limits, named
from .marking import marked_once
from .reports import marks_of, write_reports
from .roster import Folder, Person, folders_of, grant, read_roster, read_times, without_due
from .term import ONE, done, gradebook, noted, opened, released
from .variants import base_of, variant_of, variants
from .words import counted

PATIENCE = 10.0  # seconds between two words on how far it is


@dataclass
class Report:
    """What a run of the grader did; no student is named."""

    submissions: int = 0
    by: str = ""
    full: int = 0  # with every marked function right
    notes: list[str] = field(default_factory=list)
    failed: int = 0  # that nbgrader could not grade, or that have no new page; see the log
    pages: int = 0  # of these, those that are graded
    told: list[str] = field(default_factory=list)  # about the class as a whole

    def __str__(self) -> str:
        lines = [
            f"{counted(self.submissions, 'submission', 'submissions')} marked, "
            f"{self.full} with every function right; run apart by: {self.by}"
        ]
        lines += [f"{self.notes.count(note)} × {note}" for note in sorted(set(self.notes))]
        ungraded = self.failed - self.pages
        lines += [*self.told, *([f"{ungraded} could not be graded"] if ungraded else [])]
        if self.pages:
            lines += [f"{self.pages} graded, but the feedback page could not be made; see grading.log"]
        return "\n".join([*lines, *([] if self.failed else ["no failure"])])


@dataclass(frozen=True)
class Handed:
    """What is kept of one submission while the class is marked; its notebook lies in the term's folder."""

    student: str
    assignment: str
    kind: str  # what was wrong with the file, as it is told in public
    timed: bool
    full: bool


@dataclass(frozen=True)
class Class:
    """What marking a submission needs to know of the class."""

    term: Path
    seed: str
    limits: Limits
    bases: dict[str, nbformat.NotebookNode | None]  # the released notebooks; None where each student has a variant
    times: dict[tuple[str, str], datetime]
    alone: bool  # whether only one assignment is asked for


def grade(
    submissions: Path,
    term: Path,
    *,
    names: Iterable[str] | None = None,
    workers: int | None = None,
    limits: Limits = ONE,
    tell: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Report:
    """Collect, mark, and report: `feedback/`, `grades.csv`, `canvas.csv` in the term's folder.

    submissions: a folder per student, in it NAME.ipynb or NAME/NAME.ipynb, and beside these folders times.csv if there
    is one. names: assignments; every released one that somebody handed in unless given. workers: how many submissions
    run at a time, one for every processor unless given. tell: takes lines on how far it is.
    Grading again gives the same marks and leaves the marks that people gave.
    Raises ValueError: no term, no folder, no student, folders that are not students', a roster or times that cannot be
    read.
    """
    submissions, term = submissions.resolve(), term.resolve()  # nbgrader changes the current folder as it works
    there = terms_assignments(term)
    people = read_roster(term)
    folders, odd = folders_of(submissions, people)
    times = read_times(people, term, submissions)
    names = asked(known(names, "ASSIGNMENTS") if names else None, there, folders)
    api = opened(term)
    marks_of(term, api)  # what people marked so far, before it is graded again
    with gradebook(api) as book:
        without_due(book, people)
        due = {each.name for each in book.assignments if each.duedate}
    room = Class(
        term,
        seed_of(term),
        limits,
        {name: None if variants(term) else nbformat.read(base_of(term, name, ""), as_version=4) for name in names},
        times,
        len(names) == 1,
    )
    report = Report(by=named())
    with one_engine():
        handed = mark_all(room, api, folders, workers or len(os.sched_getaffinity(0)), report, tell)
    report.submissions, report.full = len(handed), sum(each.full for each in handed)
    report.notes = [each.kind for each in handed if each.kind]
    report.told = about_class(room, due, people, folders, odd, handed)
    allow(term, api)
    with gradebook(api) as book:
        for each in handed:  # nbgrader keeps the time of an earlier submission where there is none now
            if not each.timed and (found := book.find_submission(each.assignment, each.student)).timestamp:
                found.timestamp = None
        book.db.commit()
    tell("writing pages and tables")
    written = write_reports(term, api)
    report.failed, report.pages = report.failed + written.failed, written.failed
    report.told += filter(None, [written.tables])
    return report


def allow(term: Path, api: NbGraderAPI | None = None) -> None:
    """Give everybody the time that the roster says, if there is one. Raises ValueError: the roster cannot be read."""
    people = read_roster(term)
    if people:
        with gradebook(api or opened(term)) as book:
            without_due(book, people)
            grant(book, people)


def terms_assignments(term: Path) -> list[str]:
    """What was released in a term. Raises ValueError: there is no such term, or nothing was released."""
    if not (term / "seed.txt").exists():
        why = "in which there is no seed.txt" if term.is_dir() else "which does not exist"
        raise ValueError(f"CLASS: wanted the folder of a term, which release makes; got {term}, {why}")
    if (term / "pack.txt").exists():  # whose questions this version would mark as the book's
        raise ValueError(f"CLASS: {term} has questions of a pack; version 0.2, which released it, marks it")
    there = released(term)
    if not there:
        raise ValueError(f"CLASS: wanted a term in which something was released; got {term}")
    return there


def asked(names: list[str] | None, there: list[str], folders: list[Folder]) -> list[str]:
    """The assignments to mark. Raises ValueError: one was not released, or nobody handed any in."""
    if names is None:
        names = [n for n in there if any(choose(each.path, n).file for each in folders)]
        if not names and len(there) == 1:  # whatever the files' names are, they can be meant for nothing else
            names = [n for n in there if any(choose(each.path, n, alone=True).file for each in folders)]
    unreleased = set(names) - set(there)
    if unreleased or not names:
        raise ValueError(
            f"assignments: wanted released ones that somebody handed in; got {sorted(unreleased) or 'none'}"
        )
    return names


@contextlib.contextmanager
def one_engine() -> Iterator[None]:
    """nbgrader opens its gradebook six times a submission, each time with an engine that compiles every query anew."""
    made = nbgrader.api.create_engine
    nbgrader.api.create_engine = functools.cache(made)
    try:
        yield
    finally:
        nbgrader.api.create_engine = made


def mark_all(
    room: Class, api: NbGraderAPI, folders: list[Folder], workers: int, report: Report, tell: Callable[[str], None]
) -> list[Handed]:
    """Submissions are read and run by a pool, each in processes of its own; nbgrader has each as soon as it is done."""
    handed: list[Handed] = []
    for name in room.bases:  # drawn once, before several want them at a time
        assignment(name, room.seed)
    pool = ThreadPoolExecutor(workers)
    try:
        futures: list[Future] = [pool.submit(one, room, name, each) for name in room.bases for each in folders]
        told = time.monotonic()
        for place, future in enumerate(as_completed(futures), 1):
            each = future.result()
            if each is not None:
                what = f"{each.assignment} of {each.student}"
                marked = api.autograde(each.assignment, each.student, force=True, create=True)
                report.failed += not done(room.term, marked, f"mark {what}")
                handed.append(each)
            if time.monotonic() - told > PATIENCE or place == len(futures):
                told = time.monotonic()
                tell(f"{place} of {counted(len(futures), 'submission', 'submissions')} marked")
    finally:
        pool.shutdown(cancel_futures=True)
    return handed


def one(room: Class, name: str, folder: Folder) -> Handed | None:
    """Read a submission, keep it in the term's folder, run it; None if nothing came in and something is there."""
    term, student = room.term, folder.student
    base = room.bases[name] or nbformat.read(base_of(term, name, student), as_version=4)
    found = taken(folder.path, name, base, alone=room.alone)
    kept = term / "submitted" / student / name
    if not found.file and kept.exists():
        return None
    for file, told in ((note_of(term, name, student), found.note), (renamed_of(term, name, student), found.renamed)):
        file.unlink(missing_ok=True)
        if told:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(told)
    made = copy.deepcopy(found.notebook)
    made.metadata.pop(NOTE, None)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    nbformat.write(made, kept / f"{name}.ipynb")
    when = room.times.get((student, name), room.times.get((student, "")))
    if when:
        (kept / "timestamp.txt").write_text(f"{when:%Y-%m-%d %H:%M:%S.%f} UTC")
    seed = variant_of(term, student)
    marks, _ = marked_once(assignment(name, seed), to_run(made), seed, room.limits)
    return Handed(student, name, found.kind, when is not None, all(mark.full for mark in marks.values()))


def about_class(
    room: Class, due: set[str], people: list[Person], folders: list[Folder], odd: list[str], handed: list[Handed]
) -> list[str]:
    """What the instructor has to know of the class, without a name; the names go to the term's log."""
    term, names = room.term, list(room.bases)
    enrolled, came = {each.student for each in people}, {each.student for each in folders}
    unknown = sorted({who for who, what in room.times if what in ("", *names)} - enrolled - came)
    unknown = [who for who in unknown if not (term / "submitted" / who).exists()]
    strangers = sorted(came - enrolled) if people else []
    untimed = sum(not each.timed for each in handed if each.assignment in due)
    stamps = sum((each.path / inner / "timestamp.txt").exists() for each in folders for inner in (".", *names))
    otherwise = counted(len(odd), "folder has a name that is", "folders have names that are")
    nobody = counted(len(unknown), "name in times.csv is", "names in times.csv are")
    lines = [line for count, line in (
        (odd, f"{otherwise} kept otherwise, or left out; see grading.log"),
        (untimed, f"{untimed} without a time in times.csv: nothing is deducted for lateness"),
        (stamps, f"{stamps} × timestamp.txt in a student's folder: not used, as it may be the student's own"),
        (unknown, f"{nobody} of nobody here: no folder has it; see grading.log"),
        (strangers, f"{counted(len(strangers), 'folder is', 'folders are')} of nobody in roster.csv, "
                    "and marked all the same; see grading.log"),
    ) if count]  # fmt: skip
    log = [*odd, *(f"{who!r} of times.csv is nobody here" for who in unknown)]
    log += [f"{who!r} is not in roster.csv" for who in strangers]
    for name in names:
        if missing := sorted(who for who in enrolled if not (term / "submitted" / who / name).exists()):
            lines.append(f"{name}: {len(missing)} of roster.csv handed in nothing; see grading.log")
            log += [f"{name}: {who} handed in nothing" for who in missing]
    noted(term, *log)
    return lines
