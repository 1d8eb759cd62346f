"""A term's folder: the seed, the sources, nbgrader's settings and gradebook, the rubrics. All of it is private."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from . import NAMES, assignment, seed_of
from .isolation import HOMEWORK, Limits
from .notebook import kind_of, notebook
from .roster import write_table
from .variants import keep_variants, settings

ROOT = HOMEWORK.parents[1]
ONE = Limits()


def secret(seed: str) -> str:
    """The seed. Raises ValueError: it could be guessed; then everybody can make the hidden cases and the answers."""
    if not re.fullmatch(r"[0-9a-f]{32,}", seed) or len(set(seed)) < 8:
        raise ValueError(
            "seed: wanted 32 hexadecimal digits that nobody can guess; got another text. Leave it out, and a term "
            'draws its own, or draw one: python3 -c "import secrets; print(secrets.token_hex(16))"'
        )
    return seed


def new_term(term: Path, seed: str | None, names: Iterable[str], *, variants: int = 0) -> None:
    """The folder of a course: the seed (drawn unless given), nbgrader's settings, the sources, the rubrics.

    variants: how many; 0 leaves it as it is.
    Raises ValueError: seed or variants are not what the term began with; the seed can be guessed.
    """
    old = seed_of(term) if (term / "seed.txt").exists() else None
    if old and seed and old != seed:
        raise ValueError(
            f"{term}: its seed is another one, and a term keeps its seed, or its grades would change; "
            "name another folder, CLASS=folder, or delete this one if nothing was handed out"
        )
    if seed and not old:
        secret(seed)
    term.mkdir(parents=True, exist_ok=True)
    (term / "seed.txt").write_text((old or seed or secrets.token_hex(16)) + "\n")
    if variants:
        keep_variants(term, variants)
    if term.resolve() != HOMEWORK:
        os.chmod(term, 0o700)
        (term / "package.txt").write_text(f"{HOMEWORK}\n")
        if not (term / "nbgrader_config.py").exists():  # a term may change its late policy there
            shutil.copy(HOMEWORK / "nbgrader_config.py", term)
    source(term, names)
    there = [name for name in NAMES if (term / "source" / name).exists()]
    (term / "rubrics.md").write_text(rubrics(seed_of(term), there))


def source(term: Path, names: Iterable[str] | None = None) -> None:
    """Write the source notebooks that the term's seed draws, of all assignments unless named."""
    for name in NAMES if names is None else names:
        folder = term / "source" / name
        folder.mkdir(parents=True, exist_ok=True)
        reach = os.path.relpath(HOMEWORK, folder.resolve())
        nbformat.write(
            notebook(assignment(name, seed_of(term)), seconds=ONE.case_seconds, reach=reach),
            folder / f"{name}.ipynb",
        )
        (folder / "requirements.txt").write_text(requirements())


def requirements() -> str:
    """What a student installs, beside the package itself: the book's own pins."""
    wanted = ("torch", "numpy", "scipy", "gymnasium", "matplotlib", "joblib", "jupyterlab", "ipykernel")
    wanted += ("ipywidgets", "nbclient")
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return "\n".join(line for line in lines if line.split("==")[0] in wanted) + "\n"


def tables(folder: Path, seed: str) -> None:
    """What each assignment and each question measures, as the instructor's page shows it."""
    assigned = [["assignment", "about", "points", "by machine", "by people", "hours"]]
    asked = [["question", "title", "kind", "points", "minutes", "what it measures"]]
    for made in (assignment(name, seed) for name in NAMES):
        machine = sum(question.points for question in made.coded)
        about, hours = made.title.split(": ", 1)[1], f"{made.minutes / 60:.1f}"
        assigned.append([f"`{made.name}`", about, made.points, machine, made.points - machine, hours])
        for q in made.questions:
            title = q.title.removeprefix("Find the bug: ")
            name = f"{made.name.split('_')[0]} {q.name}"
            asked.append([name, title[:1].upper() + title[1:], kind_of(q).lower(), q.points, q.minutes, q.goal])
    write_table(folder / "assignments.csv", assigned)
    write_table(folder / "questions.csv", asked)


def rubrics(seed: str, names: Iterable[str]) -> str:
    """For whoever marks: what every question measures, its solution and rubric, and the planted faults."""
    lines = []
    for made in (assignment(name, seed) for name in names):
        lines.append(f"# {made.title}\n")
        for q in made.questions:
            lines.append(f"## {q.name} {q.title} ({q.points} points)\n\nMeasures: {q.goal}.\n")
            if fault := getattr(q, "fault", None):
                lines.append(f"Planted: {fault.name} ({fault.story}).\n")
            if rubric := getattr(q, "rubric", ""):
                lines.append(f"{q.solution.strip()}\n\n**Rubric.**\n\n{rubric}\n")
    return "\n".join(lines)


def opened(term: Path) -> NbGraderAPI:
    """nbgrader on the term's folder."""
    config = settings(term)
    config.Application.log_level = "WARN"
    warnings.filterwarnings("ignore", module=r"nbgrader\.api")  # its own use of SQLAlchemy
    return NbGraderAPI(CourseDirectory(config=config), config=config)


def gradebook(api: NbGraderAPI) -> Gradebook:
    return Gradebook(api.coursedir.db_url, api.coursedir.course_id)


def noted(term: Path, *entries: str) -> None:
    """Write into the term's log, which may name students."""
    with (term / "grading.log").open("a", encoding="utf8", errors="backslashreplace") as log:
        log.writelines(f"== {entry}\n" for entry in entries)


def done(term: Path, result: dict, what: str) -> bool:
    """Whether a step of nbgrader's succeeded; what it said goes to the term's log."""
    noted(term, f"{what}\n{result.get('log') or ''}\n{result.get('error') or ''}")
    return bool(result["success"])


def released(term: Path) -> list[str]:
    return [name for name in NAMES if (term / "release" / name).exists()]
