"""What nbgrader does differently here: answers are put into the released notebook, and marked by `marking`."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float, Unicode

from minerva_book.exercises.submission import released, sort_out, text_of

from . import assignment, reading, seed_of
from .feedback import UNWRITTEN
from .isolation import Limits
from .marking import Mark, marked_once
from .reading import about, name_of
from .variants import base_of, variant_of, variants

LONGEST = 20_000  # characters of a Markdown cell
ADDED = 60_000  # and of all that a student added: some of it takes a second to render
CELLS = 300  # cells that a student may add
HANDED_IN = "The picture that was handed in (not drawn by the grader):\n"
HIDDEN = re.compile(r"\n*### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.S)
LOST = "This notebook was made anew: answers on paper could not be told apart, and are for a person to find."
ELSEWHERE = "*This answer's cell was left as it was handed out."
FAILED = "homework_failed"  # the hidden cases that failed, in the metadata of a check
NOTE = "homework_note"  # what was wrong with a file, in the notebook's metadata


def rebuilt(release: nbformat.NotebookNode, submitted: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The released notebook with a submission's answers and its own cells; whatever else was changed is undone."""
    found = sort_out(submitted.cells, released(release.cells))
    answers, own = found.answers, {name: list(map(kept, cells)) for name, cells in found.added.items()}
    if sum(map(len, own.values())) > CELLS:
        raise ValueError(f"it has more than {CELLS} cells of its own")
    made = copy.deepcopy(release)
    cells, made.cells = made.cells, own[""] if answers else []
    for cell in cells:
        name = name_of(cell)
        if about(cell).get("solution") and name in answers:
            cell["source"] = text(answers[name])
            with_pictures(cell, answers[name])
        made.cells += [cell, *own.get(name, ())]
    if not answers:  # a notebook made anew, without nbgrader's records: its definitions come after the empty ones
        made.cells += own[""]
    elsewhere(made, released(release.cells))
    left = ADDED
    for cell in made.cells:
        if cell.cell_type == "markdown" and not about(cell):
            cell["source"] = text(cell, max(0, left))
            left -= len(cell["source"])
    for place, cell in enumerate(made.cells):
        cell["id"] = f"cell-{place}"
    notes = [LOST] if not answers else found.remarks
    notes += filter(None, [submitted.metadata.get(reading.UNSHOWN)])
    if notes:
        made.metadata[NOTE] = " ".join(notes)
    return made


def kept(cell: Any) -> Any:
    """A cell that a student added, without its records."""
    new = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
    return with_pictures(new(text(cell)), cell)


def with_pictures(cell: Any, submitted: Any) -> Any:
    """A cell, with the pictures that `reading` left in the submitted one."""
    if cell.cell_type != submitted.cell_type:
        return cell
    if cell.cell_type == "code" and not name_of(cell).endswith(("-code", "-marked")):
        cell["outputs"] = reading.figures(submitted)
    elif cell.cell_type == "markdown" and submitted.get("attachments"):
        cell["attachments"] = copy.deepcopy(submitted["attachments"])
    return cell


def elsewhere(notebook: nbformat.NotebookNode, empty: dict[str, str | None]) -> None:
    """Where an answer's cell is as released, but its question was worked on: say so in it, so that a person looks.

    nbgrader gives 0, and asks nobody, where a cell to fill in has not changed. Text that was added behind it moves in.
    """
    for question, cells in by_question(notebook.cells).items():
        named = {about(cell).get("grade_id"): place for place, cell in enumerate(cells) if about(cell)}
        place = named.get(f"{question}-answer")
        if place is None or text(cells[place]) != empty[f"{question}-answer"]:
            continue
        added = [cell for cell in cells if not about(cell) and text(cell).strip()]
        behind = [cell for cell in cells[place + 1 :] if any(cell is one for one in added)]
        # A picture stays in its own cell: it is known there only.
        behind = [cell for cell in behind if cell.cell_type == "markdown" and "attachment:" not in text(cell)]
        run = named.get(f"{question}-run")
        filled = run is not None and text(cells[run]) != empty[f"{question}-run"]
        if behind:
            moved = "\n\n".join(map(text, behind))
            cells[place]["source"] = f"{ELSEWHERE} In added cells below it stood:*\n\n{moved}"
            cells[place]["source"] = text(cells[place])
            notebook.cells = [cell for cell in notebook.cells if not any(cell is one for one in behind)]
        elif added or filled:
            cells[place]["source"] = f"{ELSEWHERE} Other cells of this question were filled in; see there.*"


def by_question(cells: list[Any]) -> dict[str, list[Any]]:
    """Each question's cells, with those of the student's own among and behind them."""
    found: dict[str, list[Any]] = {}
    question = ""
    for cell in cells:
        question = about(cell).get("grade_id", question).partition("-")[0]
        found.setdefault(question, []).append(cell)
    return found


def text(cell: Any, longest: int = LONGEST) -> str:
    """A cell's source; Markdown of more than anybody will read is cut, as some of it takes hours to render."""
    source = text_of(cell)
    if cell.cell_type == "code" or len(source) <= longest:
        return source
    return source[:longest] + "\n\n*(The rest was cut.)*"


def rubric_of(course: Path, assignment_name: str, cell: str) -> str:
    """What an answer of this course is marked by, and the solution; "" for a cell that people do not mark."""
    drawn = assignment(assignment_name, seed_of(course))
    asked = {f"{question.name}-answer": question for question in drawn.questions}.get(cell)
    rubric = getattr(asked, "rubric", "").strip()
    if not (asked and rubric):
        return ""
    other = "**The numbers may be another variant's;** this student's stand in the folder `variants`.\n\n"
    return f"{other if variants(course) else ''}{rubric}\n\n**Solution.**\n\n{asked.solution.strip()}"


def to_run(notebook: nbformat.NotebookNode) -> list[dict[str, str]]:
    """Code that defines things: not the checks, and not the experiments, which a person marks."""
    cells = []
    for place, cell in enumerate(notebook.cells):
        name = name_of(cell)
        if cell.cell_type == "code" and not name.endswith(("-marked", "-run")):
            cells.append({"id": name or f"cell {place}", "source": text(cell), "own": not name})
    return cells


def note_of(term: Path, assignment: str, student: str) -> Path:
    """Where stands what was wrong with a file: not beside the file, where a student could write it."""
    return term / "notes" / assignment / f"{student}.txt"


def renamed_of(term: Path, assignment: str, student: str) -> Path:
    """Where stands that a file had another name than the one that was wanted, for the top of the page."""
    return term / "notes" / assignment / "names" / f"{student}.txt"


class ReadApart(NotebookExporter):
    """nbgrader's notebooks: what a student handed in is read in a process of its own (see `reading`)."""

    def from_filename(self, filename, resources=None, **kwargs):
        if not getattr(self.parent, "_sanitizing", True):  # nbgrader's second look: this is the grader's own file
            return super().from_filename(filename, resources=resources, **kwargs)
        return self.from_notebook_node(reading.read(Path(filename)), resources=resources, **kwargs)


class Rebuild(NbGraderPreprocessor):
    """First of all: the released notebook with this submission's answers."""

    release = Unicode(help="the course's folder of released assignments").tag(config=True)

    def preprocess(self, nb, resources):
        where = resources["nbgrader"]
        released = base_of(Path(self.release).parent, where["assignment"], where["student"])
        return rebuilt(nbformat.read(released, as_version=4), nb), resources


class Record(NbGraderPreprocessor):
    """Last of all when an assignment is released: what its cells were, so that the self-check can rebuild them."""

    def preprocess(self, nb, resources):
        nb.metadata.setdefault("homework", {})["cells"] = [list(pair) for pair in released(nb.cells).items()]
        return nb, resources


class MarkApart(NbGraderPreprocessor):
    """In place of executing the notebook: its functions run apart, their answers are compared here."""

    course = Unicode(help="the course's folder, whose seed.txt says what is right").tag(config=True)

    def preprocess(self, nb, resources):
        seed = variant_of(Path(self.course), resources["nbgrader"]["student"])
        drawn = assignment(resources["nbgrader"]["assignment"], seed)
        marks, said = marked_once(drawn, to_run(nb), seed, Limits())
        noted = note_of(Path(self.course), resources["nbgrader"]["assignment"], resources["nbgrader"]["student"])
        note = noted.read_text() if noted.exists() else nb.metadata.get(NOTE, "")
        nb.metadata.pop(NOTE, None)
        for place, cell in enumerate(nb.cells):
            name = name_of(cell)
            if cell.cell_type == "code":
                why = said.cells.get(name or f"cell {place}")
                cell["execution_count"] = None
                pictures = reading.figures(cell)  # that a student had drawn, with a caption that says so
                told = [f"When this cell ran: {why}\n"] * bool(why) + [HANDED_IN] * bool(pictures)
                cell["outputs"] = [nbformat.v4.new_output("stream", name="stdout", text=each) for each in told]
                cell["outputs"] += pictures
            if name.endswith("-marked"):
                cell["source"] = HIDDEN.sub("", text(cell))
                found = marks[name.removesuffix("-marked")]
                cell["outputs"] = shown(found, said.by, note)
                cell.metadata[FAILED] = [*found.failed]  # for pages
        return nb, resources


def shown(mark: Mark, by: str, note: str) -> list[Any]:
    """A mark as the outputs from which nbgrader reads the points: an error is none, a number is so many, else all."""
    points = f"{mark.points:g} of {mark.of} points."
    why = "" if note and mark.reason == UNWRITTEN else mark.reason
    told = " ".join(filter(None, [points, note, why, f"(Run apart by: {by}.)"]))
    if not mark.points:
        return [nbformat.v4.new_output("error", ename="Marked", evalue=told, traceback=[told])]
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=told + "\n")]
    if not mark.full:
        outputs.append(nbformat.v4.new_output("execute_result", data={"text/plain": f"{mark.points:g}"}))
    return outputs


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
