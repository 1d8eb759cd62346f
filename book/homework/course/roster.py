"""Who takes the course, until when each has time, and when something came in: the instructor's own tables."""

from __future__ import annotations

import csv
import datetime
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import NAMES

LONGEST = 100  # characters of a student's name in folders
KNOWN_BY = ("login", "name", "canvas", "moodle")  # columns by which a folder's name may mean a student
SPAN = re.compile(r"\+?(\d+(?:\.\d+)?) ?(d|h|m)(?:ays?|ours?|in(?:utes)?)?", re.I)
ASSIGNMENT = re.compile(r"(hw|homework|assignment)[ _-]*\d+", re.I)
UNITS = {"d": "days", "h": "hours", "m": "minutes"}


@dataclass(frozen=True)
class Person:
    """A line of roster.csv."""

    student: str  # the name in folders, gradebook and tables
    name: str = ""
    login: str = ""
    canvas: str = ""  # the number in Canvas's exports
    moodle: str = ""  # the number in Moodle's exports, which differs between assignments
    until: dict[str, str] = field(default_factory=dict)  # assignment -> time, or how much more time


@dataclass(frozen=True)
class Folder:
    """A student's folder, and the name by which the student is kept."""

    student: str
    path: Path


def table(file: Path, wanted: tuple[str, ...]) -> list[dict[str, str]]:
    """A table's rows, without blanks around what stands there. Raises ValueError: a column is missing."""
    text = file.read_text("utf-8-sig")
    first = text.partition("\n")[0]
    rows = csv.DictReader(text.splitlines(), delimiter=max(",;\t", key=first.count))
    names = [name.strip() for name in rows.fieldnames or ()]
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"{file.name}: wanted columns {', '.join(wanted)}; got no {', '.join(missing)}")
    made = []
    for row in rows:
        cells = {(name or "").strip(): (row[name] or "").strip() for name in rows.fieldnames or ()}
        if any(cells.values()):
            made.append(cells)
    return made


def write_table(file: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Rows, the columns' names first; whatever a name is made of can be written."""
    with file.open("w", newline="", encoding="utf8", errors="backslashreplace") as lines:
        csv.writer(lines).writerows(rows)


def read_roster(term: Path) -> list[Person]:
    """The people of the term's roster.csv, with a column for any of its assignments; none if there is no such file.

    Raises ValueError: a column is missing or unknown, a student stands there twice or has a name that no folder can
    have, a due time is none.
    """
    file = term / "roster.csv"
    if not file.exists():
        return []
    people = []
    for line, row in enumerate(table(file, ("student",)), 2):
        unknown = set(row) - {"student", *KNOWN_BY, *NAMES, ""}
        if unknown:
            raise ValueError(f"roster.csv: wanted columns student, {', '.join(KNOWN_BY)}, an assignment's; "
                             f"got {', '.join(sorted(unknown))}")  # fmt: skip
        if filed_as(row["student"]) != row["student"]:
            raise ValueError(
                f"roster.csv, line {line}: student: wanted at most {LONGEST} letters, digits and . @ _ -, "
                ". and - not first; put a name such as O'Neill into the column name, and a login here"
            )
        until = {name: row[name] for name in NAMES if row.get(name)}
        for name, when in until.items():
            moment_of(when, f"roster.csv, line {line}, {name}", spans=True)
        people.append(Person(row["student"], **{name: row.get(name, "") for name in KNOWN_BY}, until=until))
    twice = sum(count > 1 for count in Counter(each.student for each in people).values())
    if twice:
        raise ValueError(f"roster.csv: wanted every student once; {twice} stand there more than once")
    return people


def moment_of(text: str, where: str, *, spans: bool = False) -> datetime.datetime | datetime.timedelta:
    """A time in UTC without its zone, as the gradebook keeps it. spans: or how much more time, such as `2 days`.

    Raises ValueError, which names `where`: no time, a time without a zone, or one of another century.
    """
    span = SPAN.fullmatch(text.strip())
    if spans and span:
        return datetime.timedelta(**{UNITS[span[2].lower()]: float(span[1])})
    return zoned(text, where, ", or such as 2 days" if spans else "").astimezone(datetime.UTC).replace(tzinfo=None)


def zoned(text: str, where: str, more: str = "") -> datetime.datetime:
    """A time in the zone it is given in. Raises ValueError as `moment_of`; more: what else was wanted."""
    wanted = "wanted a time with its zone, such as 2027-02-01T23:59+01:00" + more
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r" ?(UTC|Z)$", "+00:00", text.strip()))
    except ValueError:
        raise ValueError(f"{where}: {wanted}; got {text[:40]!r}") from None
    if moment.tzinfo is None:
        raise ValueError(f"{where}: {wanted}; got {text[:40]!r}, which has no zone")
    if not 2000 < moment.year < 2100:
        raise ValueError(f"{where}: wanted a time of this century; got {text[:40]!r}")
    return moment


def read_times(people: list[Person], *folders: Path) -> dict[tuple[str, str], datetime.datetime]:
    """(student, assignment) -> when it was handed in, from each folder's times.csv; a later folder's word counts.

    A row without an assignment is for all of them: its key has "" in that place.
    Raises ValueError: a column is missing, a time is none.
    """
    found: dict[tuple[str, str], Any] = {}
    for folder in folders:
        file = folder / "times.csv"
        if file.is_symlink() or not file.exists():
            continue
        for line, row in enumerate(table(file, ("student", "time")), 2):
            if row.get("assignment") and row["assignment"] not in NAMES:
                raise ValueError(f"times.csv, line {line}: wanted one of {', '.join(NAMES)}; got another assignment")
            key = student_of(row["student"], people), row.get("assignment", "")
            found[key] = moment_of(row["time"], f"times.csv, line {line}")
    return found


def filed_as(name: str) -> str:
    """A name that folders and nbgrader can hold: the name itself, composed (NFC), where that is possible.

    Any other character becomes "-", and what tells two such names apart follows.
    """
    name = unicodedata.normalize("NFC", name)
    # Vowel signs of many scripts are marks, which are no "word characters" to `re`.
    kept = "".join(c if c in "_.@-" or unicodedata.category(c)[0] in "LMN" else "-" for c in name)
    if kept == name and len(name) <= LONGEST and not name.startswith((".", "-")) and name:
        return name
    digest = hashlib.sha256(name.encode("utf8", "surrogatepass")).hexdigest()[:6]
    return f"{kept.strip('.-')[: LONGEST - 7]}-{digest}".lstrip("-")


def folders_of(submissions: Path, people: list[Person]) -> tuple[list[Folder], list[str]]:
    """Every student's folder, by the name under which the student is kept; and what is told of the others.

    A folder's name may be a student's of the roster, or what the roster says of one. What is told may hold names.
    Raises ValueError: there is no folder; they are nobody's of the roster; or, without one, they are called as
    assignments are: somebody has named the folder above, and every assignment would be a student.
    """
    there = sorted(submissions.iterdir()) if submissions.is_dir() else []
    there = [f for f in there if f.is_dir() and not f.is_symlink() and not f.name.startswith((".", "__MACOSX"))]
    if not there:
        why = "which is empty" if submissions.is_dir() else "which does not exist"
        raise ValueError(f"submissions: wanted a folder with a folder for every student; got {submissions}, {why}")
    meant = {folder: student_of(folder.name, people) for folder in there}
    shared = Counter(meant.values())
    taken, told = [], []
    for folder, student in meant.items():
        if shared[student] > 1 and folder.name != student:
            told.append(f"{folder.name!r} was left out: it means {student!r}, and so does another folder")
            continue
        if folder.name != student:
            told.append(f"{folder.name!r} is kept as {student!r}")
        taken.append(Folder(student, folder))
    if people and not {each.student for each in taken} & {each.student for each in people}:
        raise ValueError(
            f"SUBMISSIONS: none of the folders in {submissions} is of anybody in roster.csv; "
            "name the one that holds students' folders"
        )
    like = [folder.name for folder in there if folder.name in NAMES or ASSIGNMENT.fullmatch(folder.name)]
    if like and not people:
        raise ValueError(
            f"SUBMISSIONS: wanted a folder with a folder for every student; got {submissions}, in which {like[0]} has "
            "an assignment's name; name the folder that holds students' folders, or write a roster.csv"
        )
    return taken, told


def student_of(name: str, people: list[Person]) -> str:
    """The student whom a folder's name means: by the roster if it says so without doubt, else the name as it is."""
    plain = unicodedata.normalize("NFC", name)
    if any(each.student == plain for each in people):
        return plain
    for column in KNOWN_BY:
        like = {each.student for each in people if plain and same(getattr(each, column), plain)}
        if len(like) == 1:
            return like.pop()
    return filed_as(name)


def same(one: str, other: str) -> bool:
    return unicodedata.normalize("NFC", one).casefold() == unicodedata.normalize("NFC", other).casefold()


def without_due(book: Any, people: list[Person]) -> None:
    """Raises ValueError: the roster gives somebody more time for an assignment that is never due for the class."""
    for name in sorted({name for person in people for name in person.until}):
        if any(each.name == name and each.duedate is None for each in book.assignments):
            raise ValueError(f"roster.csv: {name} has no due time for the class; release it again with DUE={name}=TIME")


def grant(book: Any, people: list[Person]) -> None:
    """Give every student of the roster the time that it says, in nbgrader's own record of extensions.

    Without a roster the extensions stay as they are.
    """
    enrolled = {person.student: person for person in people}
    for assigned in book.assignments if people else ():
        for submission in assigned.submissions:
            if assigned.duedate is not None:
                submission.extension = extension(enrolled.get(submission.student.id, Person("")), assigned) or None
    book.db.commit()


def extension(person: Person, assigned: Any) -> datetime.timedelta:
    """How much more time the roster gives a person for an assignment that is due."""
    until = person.until.get(assigned.name)
    more = moment_of(until, assigned.name, spans=True) if until else datetime.timedelta()
    return max(more if isinstance(more, datetime.timedelta) else more - assigned.duedate, datetime.timedelta())


def last_due(book: Any, people: list[Person]) -> dict[str, datetime.datetime]:
    """By assignment, when it is due for the last of the class, in UTC; only those that are due."""
    found = {}
    for assigned in book.assignments:
        if assigned.duedate is not None:
            more = [each.extension or datetime.timedelta() for each in assigned.submissions]
            more += [extension(person, assigned) for person in people]
            last = assigned.duedate + max(more, default=datetime.timedelta())
            found[assigned.name] = last.replace(tzinfo=datetime.UTC)
    return found
