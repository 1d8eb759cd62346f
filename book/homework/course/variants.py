"""A notebook of their own for each student: the same questions, drawn from a seed of the student's own.

A term has so many variants as its `variants.txt` says, or none. Which one is a student's follows from the term's secret
seed and the student's name, so that nobody else can tell and every run of the grader says the same.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import SaveCells
from traitlets.config.loader import Config, PyFileConfigLoader

from .drawn import assignment, seed_of
from .isolation import HOMEWORK, Limits
from .notebook import notebook
from .question import Assignment
from .roster import read_roster


def settings(term: Path) -> Config:
    """nbgrader's settings in a term's folder."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(term)).load_config()


def cleared(made: Assignment, config: Config | None = None) -> nbformat.NotebookNode:
    """The notebook that students get, by the steps by which nbgrader releases, but for its record in the gradebook."""
    config = config or settings(HOMEWORK)
    found = notebook(made, seconds=Limits().case_seconds)
    resources = {"nbgrader": {"assignment": made.name, "notebook": made.name, "student": "."}}
    for step in GenerateAssignment(config=config).preprocessors:
        if step is not SaveCells:
            found, resources = step(config=config).preprocess(found, resources)
    return found


def variants(term: Path) -> int:
    """How many variants the term has; 0 if everybody gets the same."""
    file = term / "variants.txt"
    return int(file.read_text()) if file.exists() else 0


def keep_variants(term: Path, count: int) -> None:
    """Note how many variants a term has. Raises ValueError: too few, no students, or not what the term began with."""
    if count < 2:
        raise ValueError(f"variants: wanted at least 2; got {count}")
    if count != variants(term) and any((term / "release").glob("*/*.ipynb")):
        raise ValueError(f"{term}: it has {variants(term) or 'no'} variants; a term keeps them, or grades would change")
    students_of(term)
    (term / "variants.txt").write_text(f"{count}\n")


def place_of(term: Path, student: str) -> int:
    """Which variant is a student's, from 0; the term has to have some."""
    word = hashlib.sha256(f"{seed_of(term)}/variant of/{student}".encode()).digest()
    return int.from_bytes(word, "big") % variants(term)


def variant_of(term: Path, student: str) -> str:
    """The seed from which a student's assignments and hidden cases are drawn: the term's if there are no variants."""
    return f"{seed_of(term)}/variant {place_of(term, student)}" if variants(term) else seed_of(term)


def folder_of(term: Path, student: str) -> Path:
    """Where the term keeps what only this student's variant holds."""
    return term / "variants" / f"{place_of(term, student):04}"


def base_of(term: Path, name: str, student: str) -> Path:
    """The notebook that a student was given: the released one, or the student's variant of it, made where missing."""
    if not variants(term):
        return term / "release" / name / f"{name}.ipynb"
    file = folder_of(term, student) / f"{name}.ipynb"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.with_suffix(f".{os.getpid()}")  # another process may read while this one writes
        nbformat.write(cleared(assignment(name, variant_of(term, student)), settings(term)), whole)
        whole.replace(file)
    return file


def students_of(term: Path) -> list[str]:
    """The students of the term's roster.csv. Raises ValueError: there is none, or it cannot be read."""
    found = sorted(each.student for each in read_roster(term))
    if not found:
        raise ValueError(f"{term}: roster.csv: wanted a table with a column student, for a notebook of their own each")
    return found
