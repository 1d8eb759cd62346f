"""Feedback pages in a zip for each assignment, named as Moodle and Canvas want them back."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath

from . import known
from .marks import Work
from .pages import page_of
from .roster import table
from .term import done
from .words import counted

# Full Name_12345_assignsubmission_file_, with or without the last line, and before Moodle 3.1 the file's name after it.
MOODLE = re.compile(r"[^/_]+_\d+_assignsubmission_file(?=_|$)(?!.*_assignsubmission_)")
CANVAS = re.compile(r"[^/_]+_(?:LATE_)?\d+_\d+_.+")  # name_user_attachment_file


def original_names(file: Path) -> dict[str, str]:
    """Student -> where the work lay in the export, from a table with the columns student and path.

    Raises ValueError: there is no such table.
    """
    if not file.is_file():
        raise ValueError(f"names: wanted the names.csv that unpacking an export leaves beside the folders; got {file}")
    found: dict[str, str] = {}
    for row in table(file, ("student", "path")):
        found.setdefault(row["student"], row["path"])
    return found


def wanted_back(path: str, page: str) -> str | None:
    """How a feedback page has to be called so that it finds the one who handed in what lay there; None if unknown.

    path: of the work in the export. page: the page's own name, such as hw2_gae.html.
    """
    parts = PurePosixPath(path.replace("\\", "/")).parts
    for part in parts:
        if found := MOODLE.match(part):
            # A folder keeps its name to the letter: its last line differs between Moodle's versions.
            return f"{part}/{page}" if part != parts[-1] or "." not in part else f"{found[0]}_{page}"
    if parts and CANVAS.fullmatch(parts[-1]):
        return str(PurePosixPath(parts[-1]).with_suffix(".html"))
    return None


def feedback_zips(term: Path, found: Iterable[Work], names: Sequence[str] = ()) -> list[str]:
    """Write `zips/NAME.zip` for each assignment; what to tell of each, and nobody by name.

    names: NAME=FILE, an assignment's table of original names; without one a zip has a folder for each student.
    Raises ValueError: a table that is missing or is none, an unknown assignment.
    """
    tables = dict(each.split("=", 1) if "=" in each else ("", each) for each in names)
    if "" in tables:
        raise ValueError(f"names: wanted NAME=FILE such as hw2_gae=in/hw2_gae/names.csv; got {tables['']!r}")
    known(tables, "NAMES")
    originals = {name: original_names(Path(file)) for name, file in tables.items()}
    (term / "zips").mkdir(exist_ok=True)
    lines = []
    for name, group in groupby(found, key=lambda work: work.assignment):
        there, left = 0, 0
        with zipfile.ZipFile(term / "zips" / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for work in group:
                page = page_of(term, work)
                place: str | None = f"{work.student}/{page.name}"
                if name in originals:
                    place = wanted_back(originals[name].get(work.student, ""), page.name)
                if place is None or not page.exists() or place in archive.namelist():
                    left += 1
                    done(term, {"success": False}, f"zip, {name}: {work.student} has no page, or no name to go by")
                    continue
                archive.write(page, place)
                there += 1
        without = f"; {left} left out, without a page or an export's name to go by; see grading.log" if left else ""
        lines.append(f"zips/{name}.zip: {counted(there, 'page', 'pages')}{without}")
    return lines
