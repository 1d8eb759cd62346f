"""A term: its folder, what is handed out, what comes in, and the reports. Students' names stay in the folder."""

from __future__ import annotations

import contextlib
import copy
import csv
import datetime
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import PyFileConfigLoader

from . import NAMES, assignment, seed_of
from .graders import NOTE, note_of, rebuilt, to_run
from .isolation import HOMEWORK, Limits, offered, readable
from .marking import marked_once
from .notebook import kind_of, notebook

ROOT = HOMEWORK.parents[1]
STUDENT = re.compile(r"[\w.@-]+")  # what a student's folder may be called
ONE = Limits()
LARGEST = 20 << 20  # bytes of a notebook
WRITTEN = 2 << 20  # and of what a student wrote in it
NOTHING = "Nothing was handed in."


def source(term: Path, names: Iterable[str] = NAMES) -> None:
    """Write the source notebooks that the term's seed draws."""
    for name in names:
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
    wanted = ("torch", "numpy", "scipy", "gymnasium", "matplotlib", "jupyterlab", "ipykernel", "ipywidgets", "nbclient")
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return "\n".join(line for line in lines if line.split("==")[0] in wanted) + "\n"


def tables(folder: Path, seed: str) -> None:
    """What each assignment and each question measures, as the instructor's page shows it."""
    with (
        (folder / "assignments.csv").open("w", newline="") as one,
        (folder / "questions.csv").open("w", newline="") as two,
    ):
        assigned, asked = csv.writer(one), csv.writer(two)
        assigned.writerow(["assignment", "about", "points", "by machine", "by people", "hours"])
        asked.writerow(["question", "title", "kind", "points", "minutes", "what it measures"])
        for made in (assignment(name, seed) for name in NAMES):
            machine = sum(question.points for question in made.coded)
            about = made.title.split(": ", 1)[1]
            hours = f"{made.minutes / 60:.1f}"
            assigned.writerow([f"`{made.name}`", about, made.points, machine, made.points - machine, hours])
            for q in made.questions:
                title = q.title.removeprefix("Find the bug: ")
                title = title[:1].upper() + title[1:]
                asked.writerow(
                    [f"{made.name.split('_')[0]} {q.name}", title, kind_of(q).lower(), q.points, q.minutes, q.goal]
                )


def opened(term: Path) -> NbGraderAPI:
    """nbgrader on the term's folder."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(term)).load_config()
    config.Application.log_level = "WARN"
    warnings.filterwarnings("ignore", module=r"nbgrader\.api")  # its own use of SQLAlchemy
    return NbGraderAPI(CourseDirectory(config=config), config=config)


def gradebook(api: NbGraderAPI) -> Gradebook:
    return Gradebook(api.coursedir.db_url, api.coursedir.course_id)


def done(term: Path, result: dict, what: str) -> bool:
    """Whether a step of nbgrader's succeeded; what it said goes to the term's log, which may name students."""
    with (term / "grading.log").open("a") as log:
        log.write(f"== {what}\n{result.get('log') or ''}\n{result.get('error') or ''}\n")
    return bool(result["success"])


def new_term(term: Path, seed: str | None, names: Iterable[str]) -> None:
    """The folder of a course: the seed (drawn unless given), nbgrader's settings, the sources, the rubrics."""
    term.mkdir(parents=True, exist_ok=True)
    old = seed_of(term) if (term / "seed.txt").exists() else None
    if old and seed and old != seed:
        raise ValueError(f"{term}: its seed is another one; a term keeps its seed, or its grades would change")
    (term / "seed.txt").write_text((old or seed or secrets.token_hex(16)) + "\n")
    if term.resolve() != HOMEWORK:
        os.chmod(term, 0o700)
        (term / "package.txt").write_text(f"{HOMEWORK}\n")
        if not (term / "nbgrader_config.py").exists():  # a term may change its late policy there
            shutil.copy(HOMEWORK / "nbgrader_config.py", term)
    source(term, names)
    there = [name for name in NAMES if (term / "source" / name).exists()]
    (term / "rubrics.md").write_text(rubrics(seed_of(term), there))


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
                lines.append(f"{q.solution.strip()}\n\n**Rubric.** {rubric}\n")
    return "\n".join(lines)


def release(
    term: Path,
    *,
    seed: str | None = None,
    names: Iterable[str] = NAMES,
    due: dict[str, str] | None = None,
    package: str | None = None,
    wheel: bool = True,
) -> Path:
    """Make the term's folder if there is none, release its assignments; the folder to hand out.

    due: by assignment, ISO times with a zone. package: what the Colab version installs, as pip takes it.
    Raises RuntimeError: nbgrader refused an assignment. ValueError: another seed than the term's, an unknown name.
    """
    names = known(names)
    new_term(term, seed, names)
    api = opened(term)
    for name in names:
        if not done(term, api.generate_assignment(name, force=True), f"release {name}"):
            raise RuntimeError(f"{name}: nbgrader could not release it; see {term / 'grading.log'}")
    with gradebook(api) as book:
        for name, when in (due or {}).items():
            moment = datetime.datetime.fromisoformat(when).astimezone(datetime.UTC)
            book.update_or_create_assignment(known([name])[0], duedate=moment.replace(tzinfo=None))
    handout = term / "handout"
    shutil.rmtree(handout, ignore_errors=True)
    (handout / "colab").mkdir(parents=True)
    for name in released(term):
        shutil.copytree(term / "release" / name, handout / name)
        on_colab = nbformat.read(handout / name / f"{name}.ipynb", as_version=4)
        on_colab.cells.insert(0, colab_cell(package or package_of_this()))
        nbformat.write(on_colab, handout / "colab" / f"{name}.ipynb")
    text = requirements()
    if wheel:
        build_wheel(handout)
        text += "".join(f"./{file.name}\n" for file in handout.glob("*.whl"))
    (handout / "requirements.txt").write_text(text)
    return handout


def build_wheel(folder: Path) -> None:
    """The package as students install it, from a copy: building leaves traces where it is done."""
    with tempfile.TemporaryDirectory() as name:
        for part in ("minerva_lite", "pyproject.toml", "README.md", "LICENSE"):
            copy_ = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy_(ROOT / part, Path(name, part))
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
        subprocess.run([*command, name], check=True, capture_output=True)


def released(term: Path) -> list[str]:
    return [name for name in NAMES if (term / "release" / name).exists()]


def known(names: Iterable[str]) -> list[str]:
    names = list(names)
    for name in names:
        if name not in NAMES:
            raise ValueError(f"assignment: wanted one of {', '.join(NAMES)}; got {name!r}")
    return names


def package_of_this() -> str:
    """This very version of the package, as pip takes it: the repository's address and commit if it has one."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    address = git("config", "--get", "remote.origin.url")
    if address.startswith("https://"):
        return f"minerva_lite @ git+{address}@{git('rev-parse', 'HEAD')}"
    return f"minerva_lite=={version('minerva_lite')}"


def colab_cell(package: str) -> nbformat.NotebookNode:
    cell = nbformat.v4.new_code_cell(
        f'# Run this first on Colab: its torch stays, the package comes as of this term.\n%pip install -q "{package}"'
    )
    cell["id"] = "colab"
    return cell


@dataclass
class Intake:
    """One student's file for one assignment."""

    student: str
    assignment: str
    notebook: nbformat.NotebookNode  # the released one with the answers in it that could be read
    handed_in: datetime.datetime | None = None
    note: str = ""  # what was wrong with it, for the student
    found: bool = False  # whether there is a file


@dataclass
class Report:
    """What a run of the grader did; no student is named."""

    submissions: int = 0
    by: str = ""
    full: int = 0  # with every marked function right
    notes: list[str] = field(default_factory=list)
    failed: int = 0  # that nbgrader could not grade; see the log

    def __str__(self) -> str:
        lines = [
            f"{self.submissions} submissions marked, {self.full} with every function right; run apart by: {self.by}"
        ]
        lines += [f"{self.notes.count(note)} × {note}" for note in sorted(set(self.notes))]
        return "\n".join([*lines, f"{self.failed} could not be graded" if self.failed else "no failure"])


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
        if file.stat().st_size > LARGEST:
            raise ValueError(f"it is larger than {LARGEST >> 20} MB")
        with warnings.catch_warnings(action="ignore"):  # of doubled cell numbers, which are made anew
            made = rebuilt(base, strip(nbformat.reads(file.read_text("utf-8-sig"), as_version=4)))
            nbformat.validate(made)
        if len(nbformat.writes(made).encode("utf8")) > WRITTEN:
            raise ValueError(f"without its outputs it is larger than {WRITTEN >> 20} MB")
        found.notebook = made
        found.note = found.note or made.metadata.get(NOTE, "")
    except Exception as error:  # whatever stands in the file
        why = " ".join(str(error).split())[:160] or type(error).__name__
        found.note = f"The file could not be read as a notebook ({readable(why)})."
    return found


def strip(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without outputs: they are the student's, and of no use here."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell["outputs"], cell["execution_count"] = [], None
        cell.pop("attachments", None)
    return notebook


def grade(
    submissions: Path,
    term: Path,
    *,
    names: Iterable[str] | None = None,
    workers: int | None = None,
    limits: Limits = ONE,
) -> Report:
    """Collect, mark, and report: `feedback/`, `grades.csv`, `canvas.csv` in the term's folder.

    submissions: a folder per student, in it NAME.ipynb or NAME/NAME.ipynb, and timestamp.txt if there is one.
    names: assignments; every released one that somebody handed in unless given. Grading again gives the same marks and
    leaves the marks that people gave.
    Raises ValueError: no folder, no student, a student's folder with a name that nbgrader cannot hold.
    """
    students = sorted(submissions.iterdir()) if submissions.is_dir() else []
    students = [f for f in students if f.is_dir() and not f.is_symlink() and not f.name.startswith((".", "__MACOSX"))]
    if not students:
        raise ValueError(f"submissions: wanted a folder with a folder for every student; got {submissions}")
    odd = sum(not STUDENT.fullmatch(folder.name) for folder in students)
    if odd:
        raise ValueError(f"submissions: wanted folders named by letters, digits and . @ _ -; {odd} have other names")
    there = released(term)
    names = known(names) if names else [n for n in there if any(choose(folder, n)[0] for folder in students)]
    unreleased = set(names) - set(there)
    if unreleased or not names:
        raise ValueError(
            f"assignments: wanted released ones that somebody handed in; got {sorted(unreleased) or 'none'}"
        )
    seed = seed_of(term)
    bases = {name: nbformat.read(term / "release" / name / f"{name}.ipynb", as_version=4) for name in names}
    come_in = [taken(folder, name, bases[name]) for name in names for folder in students]
    # Who handed something in before and nothing now keeps what was there.
    come_in = [e for e in come_in if e.found or not (term / "submitted" / e.student / e.assignment).exists()]
    limits = replace(limits, closed=(str(term.resolve()), str(submissions.resolve())))
    ready = []
    for each in come_in:
        made = copy.deepcopy(each.notebook)
        made.metadata.pop(NOTE, None)
        note = note_of(term, each.assignment, each.student)
        note.unlink(missing_ok=True)
        if each.note:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(each.note)
        folder = term / "submitted" / each.student / each.assignment
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        nbformat.write(made, folder / f"{each.assignment}.ipynb")
        if each.handed_in:
            (folder / "timestamp.txt").write_text(f"{each.handed_in:%Y-%m-%d %H:%M:%S.%f} UTC")
        ready.append(to_run(made))
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:  # each waits for a process of its own
        marks = list(
            pool.map(
                lambda pair: marked_once(assignment(pair[0].assignment, seed), pair[1], seed, limits),
                zip(come_in, ready, strict=True),
            )
        )
    report = Report(len(come_in), offered(), sum(all(m.full for m in found.values()) for found, _ in marks))
    api = opened(term)
    for each in come_in:
        what = f"{each.assignment} of {each.student}"
        if not done(term, api.autograde(each.assignment, each.student, force=True, create=True), f"mark {what}"):
            report.failed += 1
        # In public without the reason, in which a student's own words may stand.
        report.notes += [re.sub(r" \(.*\)", "", each.note, flags=re.S)] if each.note else []
    write_reports(term, api)
    return report


def row_of(assignment: Any, submission: Any) -> dict[str, Any]:
    """A submission's line of grades.csv."""
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    penalty = submission.late_submission_penalty or 0.0
    return {
        "student": submission.student.id,
        "assignment": assignment.name,
        "score": round(max(0.0, submission.score - penalty), 2),
        "max_score": assignment.max_score,
        "automatic": round(sum(grade.auto_score or 0.0 for grade in grades), 2),
        "late_penalty": round(penalty, 2),
        "to_mark_by_hand": sum(grade.needs_manual_grade for grade in grades),
        "handed_in": submission.timestamp.isoformat(" ", "seconds") if submission.timestamp else "",
    }


def write_reports(term: Path, api: NbGraderAPI | None = None) -> None:
    """Feedback pages and tables from the gradebook as it stands, marks that people gave included."""
    api = api or opened(term)
    rows = []
    policy = api.config.AssignLatePenalties.plugin_class(config=api.config)
    with gradebook(api) as book:
        for each in book.assignments:
            for submission in each.submissions:
                for part in submission.notebooks:  # of the score as it is now, marks that people gave included
                    late = submission.total_seconds_late
                    lost = policy.late_submission_penalty(submission.student.id, part.score, late) if late > 0 else 0.0
                    part.late_submission_penalty = lost or None
                rows.append(row_of(each, submission))
        book.db.commit()
    rows.sort(key=lambda row: (row["assignment"], row["student"]))
    for row in rows:
        done(term, api.generate_feedback(row["assignment"], row["student"], force=True), f"feedback {row['student']}")
    if not rows:
        return
    with (term / "grades.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    # One row a student, one column an assignment, as Canvas imports them; Moodle has no use for its second row.
    names = sorted({row["assignment"] for row in rows})
    with contextlib.ExitStack() as stack:
        table = csv.writer(stack.enter_context((term / "canvas.csv").open("w", newline="")))
        table.writerow(["Student", "ID", "SIS Login ID", "Section", *names])
        possible = {row["assignment"]: row["max_score"] for row in rows}
        table.writerow(["Points Possible", "", "", "", *(possible[name] for name in names)])
        moodle = csv.writer(stack.enter_context((term / "moodle.csv").open("w", newline="")))
        moodle.writerow(["Username", *names])
        for student in sorted({row["student"] for row in rows}):
            score = {r["assignment"]: r["score"] for r in rows if r["student"] == student}
            table.writerow(["", "", student, "", *(score.get(n, "") for n in names)])
            moodle.writerow([student, *(score.get(n, "") for n in names)])
