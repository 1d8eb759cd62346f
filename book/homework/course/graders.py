"""What nbgrader does differently here: answers are put into the released notebook, and marked by `marking`."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import bleach
import nbformat
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float, Unicode

from . import assignment, pack_of
from .isolation import Limits
from .marking import Mark, marked_once
from .variants import base_of, variant_of

LONGEST = 20_000  # characters of a Markdown cell
CELLS = 300  # cells that a student may add
TAGS = {*bleach.ALLOWED_TAGS, "p", "br", "hr", "div", "span", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "img", "table"}
TAGS |= {"thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "del", "sub", "sup"}
HIDDEN = re.compile(r"\n*### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
LOST = "This notebook was made anew: answers on paper could not be told apart, and are for a person to find."
NOTE = "homework_note"  # what was wrong with a file, in the notebook's metadata


def about(cell: Any) -> dict[str, Any]:
    """nbgrader's record of a cell; {} for a cell of the student's, or for a record that is none."""
    found = cell.get("metadata", {}).get("nbgrader", {})
    return found if isinstance(found, dict) and isinstance(found.get("grade_id"), str) else {}


def rebuilt(release: nbformat.NotebookNode, submitted: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The released notebook with a submission's answers and its own cells; whatever else was changed is undone."""
    known = {about(cell)["grade_id"]: cell for cell in release.cells if about(cell)}
    answers: dict[str, Any] = {}
    own: dict[str, list[Any]] = {"": []}  # its own cells, by the released one that they stand after
    after = ""
    for cell in submitted.cells:
        name = about(cell).get("grade_id")
        if name in known and name not in answers:
            answers[name], after = cell, name
            own.setdefault(after, [])
        elif name not in known or about(known[name])["solution"]:  # a copy of a given cell is no work of the student's
            kept = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
            own[after].append(kept(text(cell)))
    if sum(map(len, own.values())) > CELLS:
        raise ValueError(f"it has more than {CELLS} cells of its own")
    made = copy.deepcopy(release)
    cells, made.cells = made.cells, own[""] if answers else []
    for cell in cells:
        name = about(cell).get("grade_id", "")
        if about(cell).get("solution") and name in answers:
            cell["source"] = text(answers[name])
        made.cells += [cell, *own.get(name, ())]
    if not answers:  # a notebook made anew, without nbgrader's records: its definitions come after the empty ones
        made.cells += own[""]
    for place, cell in enumerate(made.cells):
        cell["id"] = f"cell-{place}"
    if not answers:
        made.metadata[NOTE] = LOST
    return made


def text(cell: Any) -> str:
    """A cell's source; Markdown of more than anybody will read is cut, as some of it takes hours to render."""
    source = cell.get("source", "")
    source = source if isinstance(source, str) else "".join(str(line) for line in source)
    if cell.cell_type == "code" or len(source) <= LONGEST:
        return source
    return source[:LONGEST] + "\n\n*(The rest was cut.)*"


def harmless(*args: Any) -> str:
    """Markdown as HTML without scripts: what a student writes is shown to whoever marks it."""
    attributes = {"*": ["id", "class"], "a": ["href"], "img": ["src", "alt"], "th": ["align"], "td": ["align"]}
    return bleach.clean(markdown2html_mistune(args[-1]), tags=TAGS, attributes=attributes)


def to_run(notebook: nbformat.NotebookNode) -> list[dict[str, str]]:
    """Code that defines things: not the checks, and not the experiments, which a person marks."""
    cells = []
    for place, cell in enumerate(notebook.cells):
        name = about(cell).get("grade_id", "")
        if cell.cell_type == "code" and not name.endswith(("-marked", "-run")):
            cells.append({"id": name or f"cell {place}", "source": text(cell)})
    return cells


def note_of(term: Path, assignment: str, student: str) -> Path:
    """Where stands what was wrong with a file: not beside the file, where a student could write it."""
    return term / "notes" / assignment / f"{student}.txt"


class Rebuild(NbGraderPreprocessor):
    """First of all: the released notebook with this submission's answers."""

    release = Unicode(help="the course's folder of released assignments").tag(config=True)

    def preprocess(self, nb, resources):
        where = resources["nbgrader"]
        released = base_of(Path(self.release).parent, where["assignment"], where["student"])
        return rebuilt(nbformat.read(released, as_version=4), nb), resources


class MarkApart(NbGraderPreprocessor):
    """In place of executing the notebook: its functions run apart, their answers are compared here."""

    course = Unicode(help="the course's folder, whose seed.txt says what is right").tag(config=True)
    unsafe = Bool(help="mark even where students' code cannot be kept apart").tag(config=True)

    def preprocess(self, nb, resources):
        seed, pack = variant_of(Path(self.course), resources["nbgrader"]["student"]), pack_of(Path(self.course))
        drawn = assignment(resources["nbgrader"]["assignment"], seed, pack)
        closed = (self.course, *([str(pack)] if pack else ()))
        marks, said = marked_once(drawn, to_run(nb), seed, Limits(closed=closed, unsafe=self.unsafe))
        noted = note_of(Path(self.course), resources["nbgrader"]["assignment"], resources["nbgrader"]["student"])
        note = noted.read_text() if noted.exists() else nb.metadata.get(NOTE, "")
        nb.metadata.pop(NOTE, None)
        for place, cell in enumerate(nb.cells):
            name = about(cell).get("grade_id", "")
            if cell.cell_type == "code":
                cell["execution_count"] = None
                cell["outputs"] = []
                why = said.cells.get(name or f"cell {place}")
                if why:
                    cell["outputs"] = [
                        nbformat.v4.new_output("stream", name="stdout", text=f"When this cell ran: {why}\n")
                    ]
            if name.endswith("-marked"):
                cell["source"] = HIDDEN.sub("", text(cell))
                cell["outputs"] = [shown(marks[name.removesuffix("-marked")], said.by, note)]
        return nb, resources


def shown(mark: Mark, by: str, note: str) -> Any:
    """A mark as the output from which nbgrader reads the points: an error is none, anything else is all."""
    points = f"{mark.points} of {mark.of} points."
    told = " ".join(filter(None, [points, note, mark.reason, f"(Run apart by: {by}.)"]))
    if not mark.full:
        return nbformat.v4.new_output("error", ename="Marked", evalue=told, traceback=[told])
    return nbformat.v4.new_output("stream", name="stdout", text=told + "\n")


class LatePolicy(LateSubmissionPlugin):
    """A share of the score for every day begun after the hour of grace; nothing is left after the last day."""

    grace_minutes = Float(60.0, help="late by less costs nothing").tag(config=True)
    share_per_day = Float(0.1, help="of the score, for every day begun").tag(config=True)
    last_day = Float(7.0, help="days after which a submission earns nothing").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        late = total_seconds_late - 60.0 * self.grace_minutes
        if late <= 0:
            return 0.0
        days = -(-total_seconds_late // 86_400)
        return score if days > self.last_day else round(min(1.0, self.share_per_day * days) * score, 2)
