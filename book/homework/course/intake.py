"""What comes in: the file that is meant, read as far as it can be, and what was wrong with it."""

from __future__ import annotations

import filecmp
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import nbformat

from . import NAMES
from .graders import NOTE, rebuilt
from .isolation import readable
from .reading import read
from .uploads import Refused, archive_of, contents, path_of

MEMBER = 64 << 20  # bytes of a notebook in an archive
ARCHIVE = 128 << 20  # and of all that is taken from a student's archives
ARCHIVES = 5  # of a student that are opened
DIRECTORY = 1 << 20  # bytes of an archive's list of contents
NOTEBOOKS = 100  # of a student that are looked at
FILES = 2000  # of a student's folder that are looked at
DEEPEST = 8  # folders within one another
NAMED = 5  # files that a note names
NOTHING = "Nothing was handed in."
NOTEBOOK = re.compile(r"(?P<stem>.+?)\.ipynb(\.txt|\.json)?", re.I | re.S)
# "hw2-1" by Canvas, "hw2 (1)" by browsers: the highest number is the newest. Jupyter's "-Copy1" is one laid aside.
NUMBERED = re.compile(r"(?P<base>.+?)(?: ?\((?P<browser>\d{1,3})\)|-(?P<canvas>\d{1,3}))", re.S)


@dataclass
class Intake:
    """One student's file for one assignment, and what to tell of it."""

    file: Path | None = None  # as long as it can be read
    note: str = ""  # what was wrong with it, for the student
    kind: str = ""  # the same without a word of the student's, to be counted in public
    renamed: str = ""  # for the student, if the file had another name or place and was found all the same
    notebook: nbformat.NotebookNode | None = None  # the released one with the answers in it that could be read


@dataclass(frozen=True)
class Found:
    """A file of a student's: where it can be read, and where it lay, by the folders and archives around it."""

    path: Path
    place: PurePosixPath

    @property
    def stem(self) -> str:
        whole = NOTEBOOK.fullmatch(self.place.name)
        return whole["stem"] if whole else ""

    @property
    def base(self) -> str:
        numbered = NUMBERED.fullmatch(self.stem)
        return numbered["base"] if numbered else self.stem

    @property
    def number(self) -> int:
        numbered = NUMBERED.fullmatch(self.stem)
        return int(numbered["browser"] or numbered["canvas"]) if numbered else 0


def hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX"))


def files_of(folder: Path) -> list[PurePosixPath]:
    """Files in a student's folder, from it; no links, nothing hidden, nothing below `DEEPEST` folders."""
    found: list[PurePosixPath] = []
    for place, folders, files in os.walk(folder):
        here = Path(place)
        depth = len(here.relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if not hidden(f)) * (depth < DEEPEST)  # links are not followed
        for name in sorted(files):
            with suppress(OSError):  # it may not be looked at
                if not hidden(name) and not (here / name).is_symlink() and (here / name).is_file():
                    found.append(PurePosixPath((here / name).relative_to(folder)))
        if len(found) > FILES:
            break
    return found[:FILES]


@contextmanager
def opened(folder: Path) -> Iterator[tuple[list[Found], list[PurePosixPath]]]:
    """A student's notebooks, archives opened as well, and all files for telling what was there."""
    places = files_of(folder)
    found = [Found(folder / place, place) for place in places if NOTEBOOK.fullmatch(place.name)][:NOTEBOOKS]
    tried = Tried()
    with tempfile.TemporaryDirectory(prefix="homework-") as scratch:
        for place in [place for place in places if place.suffix.lower() == ".zip"][:ARCHIVES]:
            from_archive(folder / place, place, Path(scratch), tried, found)
        yield found, places


@dataclass
class Tried:
    """What was spent on a student's archives; what is refused costs time as well."""

    looked: int = 0  # members, of which some are refused
    unpacked: int = 0  # bytes


def from_archive(file: Path, place: PurePosixPath, scratch: Path, tried: Tried, found: list[Found]) -> None:
    """Add the notebooks of a student's archive, written under numbers: no name in it is one on this machine."""
    try:
        with archive_of(file, DIRECTORY) as archive:
            for member in archive.infolist():
                try:
                    path = path_of(member)
                    if not NOTEBOOK.fullmatch(path.name) or any(map(hidden, path.parts)) or member.is_dir():
                        continue
                    if len(found) >= NOTEBOOKS or tried.looked >= 2 * NOTEBOOKS:
                        break
                    tried.looked += 1
                    most = max(0, min(MEMBER, ARCHIVE - tried.unpacked))
                    tried.unpacked += member.file_size if member.file_size <= most else 0  # what says more is left
                    target = scratch / f"{tried.looked}.ipynb"
                    target.write_bytes(contents(archive, member, most))
                    found.append(Found(target, place / path))
                except Refused:
                    continue
    except Exception:  # whatever an archive holds, what was taken before stays
        pass


def likely(found: list[Found], name: str, alone: bool) -> list[Found]:
    """The notebooks that may be meant, of the best kind that there is."""
    found = [each for each in found if each.base != "start"]  # the handout's own page is nobody's work
    number = name.split("_")[0].removeprefix("hw")
    short = re.compile(rf"(hw|homework)[ _-]*{number}(?!\d)", re.I)
    exact = [each for each in found if each.base == name]
    kinds = [
        [each for each in exact if len(each.place.parts) == 1],
        [each for each in exact if each.place.parent == PurePosixPath(name)],
        [
            each
            for each in found
            if each in exact or each.place.parent.name == name or (short.search(each.stem) and each.base not in NAMES)
        ],
    ]
    if alone and len(found) == 1 and not re.search(r"(hw|homework)[ _-]*\d", found[0].stem, re.I):
        kinds.append(found)  # "assignment.ipynb", where only this assignment is asked for
    return next((kind for kind in kinds if kind), [])


def chosen(found: list[Found], places: list[PurePosixPath], name: str, *, alone: bool = False) -> Intake | Found:
    """The one that is meant, or why there is none."""
    like = likely(found, name, alone)
    newest = max((each.number for each in like), default=0)
    if len({(each.place.parent, each.base) for each in like}) == 1:
        like = [each for each in like if each.number == newest]
    if like and all(same(like[0].path, each.path) for each in like[1:]):
        return like[0]
    if like:
        kind = "Several files might be meant, and none lies where it was expected."
        return Intake(None, f"{len(like)} files might be meant, and none lies where it was expected: "
                            f"{listed([each.place for each in like])}.", kind)  # fmt: skip
    if not places:
        return Intake(None, NOTHING, NOTHING)
    kind = f"No file for it was found: wanted {name}.ipynb"
    return Intake(None, f"{kind}; found: {listed(places)}.", f"{kind}; found other files.")


def same(one: Path, other: Path) -> bool:
    """Whether two files hold the same; not where one cannot be read."""
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def listed(places: list[PurePosixPath]) -> str:
    """Some files' names for a page."""
    names = [readable(str(place).encode("utf8", "replace").decode())[:60] for place in places[:NAMED]]
    return ", ".join(names) + (f" and {len(places) - NAMED} more" if len(places) > NAMED else "")


@contextmanager
def choosing(folder: Path, name: str, *, alone: bool = False) -> Iterator[Intake]:
    """The file for an assignment, as long as it can be read. alone: take the only one there is, whatever its name."""
    with opened(folder) as (found, places):
        one = chosen(found, places, name, alone=alone)
        if isinstance(one, Intake):
            yield one
        elif one.place in (PurePosixPath(f"{name}.ipynb"), PurePosixPath(name, f"{name}.ipynb")):
            yield Intake(one.path)
        else:
            why = "lie where it was expected" if one.stem == name else f"have the name {name}.ipynb"
            kind = f"It did not {why}, but there was no doubt."
            place = listed([one.place]).replace("`", "'")
            told = f"Your notebook was found as `{place}`; next time hand in `{name}.ipynb`."
            yield Intake(one.path, kind=kind, renamed=told)


def choose(folder: Path, name: str, *, alone: bool = False) -> Intake:
    """`choosing`, for whether there is one and what is told of it."""
    with choosing(folder, name, alone=alone) as choice:
        return choice


def taken(folder: Path, name: str, base: nbformat.NotebookNode, *, alone: bool = False) -> Intake:
    """A student's submission as far as it can be read, put into the released notebook."""
    found = Intake()
    try:
        with choosing(folder, name, alone=alone) as found:
            made = rebuilt(base, read(found.file)) if found.file else base
        nbformat.validate(made)
        found.notebook = made
        said = made.metadata.get(NOTE, "")
        found.note = " ".join(filter(None, [found.note, said]))
        found.kind = " ".join(filter(None, [found.kind, re.sub(r" \(.*\)", "", said, flags=re.S)]))
    except Exception as error:  # whatever stands in the file
        why = " ".join(str(error).split())[:160] or type(error).__name__
        found.notebook, found.kind = base, "The file could not be read as a notebook."
        found.note = f"{found.kind[:-1]} ({readable(why)})."
    return found
