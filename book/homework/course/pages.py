"""Feedback pages: one for each submission, written only where it would read otherwise than the one that is there."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import assignment as drawn
from . import known
from .apart import Failed
from .graders import renamed_of
from .marking import hidden
from .marks import Work, failing
from .question import Code
from .reading import about
from .rendering import made_page
from .term import done
from .tried_out import tried_out
from .variants import variant_of

STATE = "pages.json"  # in the term: of which content each page was made
TEMPLATE = f"3, nbgrader {version('nbgrader')}, nbconvert {version('nbconvert')}"  # new pages for all if it changes


def write_pages(term: Path, found: list[Work], shown: set[str]) -> tuple[int, int]:
    """Write what is new or changed; how many pages were written, and how many failed, whose old page is kept.

    shown: assignments whose failing cases may be shown.
    """
    place = term / STATE
    state: dict[str, list[Any]] = json.loads(place.read_text()) if place.exists() else {}

    def new(work: Work) -> list[Any] | Exception | None:
        """Of which content a page was made, and its stamp; why it was not; None where the old one stays."""
        try:
            asked = request_of(term, work, variant_of(term, work.student), work.assignment in shown)
            key = hashlib.sha256(json.dumps([TEMPLATE, *asked, work.points, work.awaited]).encode()).hexdigest()
            if state.get(f"{work.student}/{work.assignment}") == [key, *stamp_of(page_of(term, work))]:
                return None
            return [key, *write_page(term, work, made_page(*asked))]
        except (Failed, OSError, ValueError, KeyError) as error:
            return error

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        made = list(pool.map(new, found))
    for work, each in zip(found, made, strict=True):
        if isinstance(each, list):
            state[f"{work.student}/{work.assignment}"] = each
        elif each:
            done(term, {"success": False, "error": repr(each)}, f"feedback {work.assignment} of {work.student}")
    place.write_text(json.dumps(state))
    return sum(isinstance(each, list) for each in made), sum(isinstance(each, Exception) for each in made)


def page_of(term: Path, work: Work) -> Path:
    return term / "feedback" / work.student / work.assignment / f"{work.notebook}.html"


def stamp_of(page: Path) -> list[int]:
    """What tells that a page is still the one that was written here, and not nbgrader's own."""
    return [page.stat().st_size, page.stat().st_mtime_ns] if page.exists() else []


def request_of(term: Path, work: Work, seed: str, revealed: bool) -> tuple[str, dict[str, Any]]:
    """The graded notebook with scores and comments, as nbgrader's GetGrades puts them; a mark to come is no number.

    And what the template asks for beside it.
    """
    notebook = json.loads(work.file(term).read_text())
    failed = failing(notebook)
    marks = {each.cell: each for each in work.given}
    for cell in notebook["cells"]:
        record = about(cell)
        name = record.get("grade_id", "")
        if record.get("solution"):
            record["comment"] = work.comments.get(name)
        if name in marks:
            # From the number that a cell puts out nbgrader reads a share of the points; the words above it say so.
            cell["outputs"] = [one for one in cell.get("outputs", ()) if one["output_type"] != "execute_result"]
            record["score"] = float("nan") if marks[name].unmarked else marks[name].points
            record["points"] = marks[name].of
            if cases := revealed and failed.get(marks[name].question):
                asked = drawn(work.assignment, seed).question(marks[name].question)
                text = reproduced(asked, seed, cases)
                cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": text})
    renamed = renamed_of(term, work.assignment, work.student)
    if renamed.exists():
        record = {"grade_id": "renamed", "grade": False, "solution": False, "locked": True}
        told = {"cell_type": "markdown", "metadata": {"nbgrader": record}, "source": renamed.read_text()}
        notebook["cells"].insert(0, told | {"id": "renamed"})
    about_it = {"student": work.student, "assignment": work.assignment, "notebook": work.notebook}
    about_it |= {"score": float("nan") if work.awaited else work.score, "max_score": work.of}
    about_it |= {"late_penalty": work.penalty}
    resources = {"unique_key": work.notebook, "output_files_dir": f"{work.notebook}_files", "nbgrader": about_it}
    return json.dumps(notebook), resources


def write_page(term: Path, work: Work, page: str) -> list[int]:
    """Put a page and what nbgrader's exchange wants beside it into the feedback folder; its stamp."""
    awaited = ", ".join(each.removeprefix("q") for each in work.awaited)
    sofar = f"(so far {work.score:g} of {work.of:g} points; not yet marked: {awaited})"
    page = re.sub(r"\(Score: nan / [\d.]+\)", sofar, page, count=1) if awaited else page  # the heading comes first
    page = re.sub(r"Score: nan / ([\d.]+)", r"Not yet marked, of \1", page)
    place = page_of(term, work)
    place.parent.mkdir(parents=True, exist_ok=True)
    for name in ("timestamp.txt", "submission_secret.txt"):
        if (beside := work.file(term).with_name(name)).is_file():
            shutil.copy(beside, place.parent)
            (place.parent / name).chmod(0o644)
    new = place.with_suffix(".new")
    new.write_text(page, "utf8")
    os.replace(new, place)
    return stamp_of(place)


def reproduced(question: Code, seed: str, failed: list[str]) -> str:
    """The inputs of the failing case that the mark's sentence explains; "" if none is small enough."""
    cases = [case for case in hidden(question, seed)[0] if case.name in failed]
    return next(filter(None, (tried_out(question, case) for case in cases)), "")


def revealed(term: Path, more: Iterable[str], due: Mapping[str, datetime.datetime], now: datetime.datetime) -> set[str]:
    """The assignments whose failing cases are shown: those of the term's `reveal.txt`, to which `more` are added.

    due: when an assignment is due for the last of the class; nothing is shown before.
    Raises ValueError: one of `more` is unknown, or not yet due for everybody.
    """
    place, more = term / "reveal.txt", known(more, "REVEAL")
    for name in more:
        if name in due and now < due[name]:
            raise ValueError(f"REVEAL: wanted an assignment that is due for everybody; {name} is at {due[name]}")
    names = {*(place.read_text().split() if place.exists() else ()), *more}
    if more:
        place.write_text("\n".join(sorted(names)) + "\n")
    return {name for name in names if name not in due or due[name] <= now}
