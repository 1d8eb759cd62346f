"""What comes in: the file that is meant, read as far as it can be, and when it was handed in."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from . import NAMES
from .graders import NOTE, rebuilt
from .isolation import readable
from .reading import read

NOTHING = "Nothing was handed in."


@dataclass
class Intake:
    """One student's file for one assignment."""

    student: str
    assignment: str
    notebook: nbformat.NotebookNode  # the released one with the answers in it that could be read
    handed_in: datetime.datetime | None = None
    note: str = ""  # what was wrong with it, for the student
    found: bool = False  # whether there is a file


def files_of(folder: Path) -> list[Path]:
    """Notebooks in a student's folder; links, hidden files, and what lies deeper than two levels are not looked at."""
    found = [*folder.glob("*.ipynb"), *folder.glob("*/*.ipynb")]
    seen = [f for f in found if not any(p.startswith((".", "__MACOSX")) for p in f.relative_to(folder).parts)]
    return sorted(f for f in seen if not f.is_symlink() and not f.parent.is_symlink() and f.is_file())


def choose(folder: Path, name: str) -> tuple[Path | None, str]:
    """The file for an assignment, and what to tell of it."""
    files = files_of(folder)
    for exact in (folder / f"{name}.ipynb", folder / name / f"{name}.ipynb"):
        if exact in files:
            return exact, ""
    number = name.split("_")[0].removeprefix("hw")
    short = re.compile(rf"(hw|homework)[ _-]*{number}(?!\d)", re.I)
    like = [
        f for f in files if f.parent.name == name or f.stem == name or (short.search(f.stem) and f.stem not in NAMES)
    ]
    if len(like) == 1:
        why = "lie where it was expected" if like[0].stem == name else f"have the name {name}.ipynb"
        return like[0], f"It did not {why}, but there was no doubt."
    return None, f"{len(like)} files might be meant, and none lies where it was expected." if like else NOTHING


def stamped(folder: Path, name: str) -> datetime.datetime | None:
    """The time in a student's timestamp.txt: beside the folder's files, else where nbgrader puts it.

    Raises ValueError: it is no time of this century.
    """
    for stamp in (folder / "timestamp.txt", folder / name / "timestamp.txt"):
        if stamp.is_file() and not stamp.is_symlink():
            with stamp.open("rb") as file:
                moment = datetime.datetime.fromisoformat(file.read(64).decode("utf8").replace(" UTC", "+00:00").strip())
            if not 2000 < moment.year < 2100:
                raise ValueError(f"{moment.year} is no year of this century")
            return moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return None


def taken(folder: Path, name: str, base: nbformat.NotebookNode) -> Intake:
    """A student's submission as far as it can be read, put into the released notebook."""
    found = Intake(folder.name, name, base)
    try:
        file, found.note = choose(folder, name)
        found.found = file is not None
        try:
            found.handed_in = stamped(folder, name)
        except ValueError:
            found.note = f"{found.note} Its timestamp.txt is no time.".strip()
        if file is None:
            return found
        if found.handed_in is None:
            moment = datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC)
            found.handed_in = moment.replace(tzinfo=None)
        made = rebuilt(base, read(file))
        found.notebook = made
        found.note = " ".join(filter(None, [found.note, made.metadata.get(NOTE, "")]))
    except Exception as error:  # whatever stands in the file
        why = " ".join(str(error).split())[:160] or type(error).__name__
        found.note = f"The file could not be read as a notebook ({readable(why)})."
    return found
