"""What students are given: the released notebooks, the package, and a version for Colab."""

from __future__ import annotations

import shutil
import subprocess
import urllib.parse
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelspec import get_kernel_dict

from minerva_book.wheel import build_wheel

from . import NAMES, assignment, known, seed_of
from .roster import moment_of, table, write_table, zoned
from .term import ROOT, done, gradebook, new_term, opened, released, requirements, rubrics
from .variants import base_of, folder_of, students_of, variant_of
from .variants import variants as has_variants

# For whoever has no Jupyter yet.
README = """# Homework: how to begin

With Python 3.11 or newer, in this folder:

    python -m venv .venv
    source .venv/bin/activate            on Windows: .venv\\Scripts\\activate
    python -m pip install -r requirements.txt
    python -m jupyter lab start.ipynb

The third line downloads PyTorch. On Linux it comes with its GPU libraries, some gigabytes, unless you install it \
without them first, as https://pytorch.org/get-started/locally says. `start.ipynb` says how to go on.
"""
# A notebook, since JupyterLab shows a Markdown file as its source, and a cell can run the check by the kernel's Python.
START = """# Homework: start here

{files}

**Run.** Each homework is one notebook. Open it, run its cells in turn (Shift+Enter) and write your answers in those \
that say so. *Run › Run All Cells* stops at the first question without an answer; behind it go on with *Run › Run \
Selected Cell and All Below*. If its first cell finds no package, type `python -m pip install -r requirements.txt` in \
this folder, restart the kernel and run it again.{colab}

**Save** with Ctrl+S (⌘S on a Mac): what you hand in is the file as you last saved it.

**Check** it before you hand it in. Save it, put its name into the cell below and run that cell. It runs your \
notebook afresh, as the grader does, on the examples that stand in it, and says for each question whether something \
is wrong with your answer."""
COLAB = " On Colab open the notebook of the same name from the folder `colab`; its first cell installs the package."
CHECK = """import sys

notebook = "{name}"  # change this line
!"{{sys.executable}}" -m minerva_book.exercises "{{notebook}}\""""
HAND_IN = """**Hand in** that one file, under the name it has, where your course collects homework. To get it out of \
Jupyter, right-click on its name in the list of files and choose *Download*."""


def release(
    term: Path,
    *,
    seed: str | None = None,
    names: Iterable[str] | None = None,
    due: dict[str, str] | None = None,
    package: str | None = None,
    wheel: bool = True,
    variants: int = 0,
) -> Path:
    """Make the term's folder if there is none, release its assignments; the folder to hand out.

    names: all assignments unless given. due: by assignment, ISO times with a zone. package: what the Colab version
    installs, as pip takes it; without it this repository's public address, and where there is none no version for
    Colab is made. variants: so many different notebooks, one of them for each student of the term's roster.csv.
    Raises RuntimeError: nbgrader refused an assignment. ValueError: a seed that is not the term's or not secret, an
    unknown name, a due time that is none or has no zone.
    """
    names = list(NAMES) if names is None else known(names, "ASSIGNMENTS")
    due = due or {}
    times = {known([name], "DUE")[0]: moment_of(when, f"DUE, {name}") for name, when in due.items()}
    new_term(term, seed, names, variants=variants)
    # The gradebook keeps no zones.
    write_table(term / "zones.csv", [["assignment", "due"], *(given(term) | due).items()])
    api = opened(term)
    for name in names:
        if not done(term, api.generate_assignment(name, force=True), f"release {name}"):
            raise RuntimeError(f"{name}: nbgrader could not release it; see {term / 'grading.log'}")
    with gradebook(api) as book:
        for name, moment in times.items():
            book.update_or_create_assignment(name, duedate=moment)
    handout = term / "handout"
    shutil.rmtree(handout, ignore_errors=True)
    handout.mkdir(parents=True)
    if has_variants(term):
        write_variants(term, names)
    package = package or package_of_this()
    students = students_of(term) if has_variants(term) else [""]  # in one folder, where all get the same
    for name in released(term):
        for student in students:
            base = base_of(term, name, student)
            (handout / name / student).mkdir(parents=True, exist_ok=True)
            shutil.copy(base, handout / name / student)
            if package:
                write_for_colab(base, handout / "colab" / student, package)
        shutil.copy(term / "release" / name / "requirements.txt", handout / name)
    start_page(term, handout)
    text = requirements()
    if wheel:
        build_wheel(handout)
        text += "".join(f"./{file.name}\n" for file in handout.glob("*.whl"))
    (handout / "requirements.txt").write_text(text)
    (handout / "README.md").write_text(README)
    return handout


def start_page(term: Path, handout: Path) -> None:
    """What a student does with the notebooks; none of them is changed. Of variants it names nobody's folder."""
    names, own = released(term), "your_name/" if has_variants(term) else ""
    files = []
    with gradebook(opened(term)) as book:
        moments = {each.name: each.duedate.replace(tzinfo=UTC) for each in book.assignments if each.duedate}
    zones = {name: zoned(text, name).tzinfo for name, text in given(term).items()}
    for name in names:
        title = assignment(name, seed_of(term)).title
        due = f", due {moments[name].astimezone(zones.get(name, UTC)):%Y-%m-%d %H:%M %Z}" if name in moments else ""
        files.append(f"- {title}: `{name}/{own}{name}.ipynb`{due}" if own else f"- [{title}]({name}/{name}.ipynb){due}")
    text = START.format(files="\n".join(files), colab=COLAB if (handout / "colab").exists() else "")
    check = CHECK.format(name=f"{names[0]}/{own}{names[0]}.ipynb")
    cells = [
        nbformat.v4.new_markdown_cell(text, id="start"),
        nbformat.v4.new_code_cell(check, id="check"),
        nbformat.v4.new_markdown_cell(HAND_IN, id="hand-in"),
    ]
    spec = get_kernel_dict()  # in full, or JupyterLab completes it, and asks whether to save what nobody has changed
    kernel = {"name": "python3", "display_name": spec["display_name"], "language": spec["language"]}
    metadata = {"kernelspec": kernel, "language_info": IPythonKernel.language_info}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), handout / "start.ipynb")


def given(term: Path) -> dict[str, str]:
    """By assignment the due time that was given last, of which only the zone counts: the gradebook's may be edited."""
    file = term / "zones.csv"
    return {row["assignment"]: row["due"] for row in table(file, ("assignment", "due"))} if file.exists() else {}


def write_variants(term: Path, names: Iterable[str]) -> None:
    """The roster's variants of these assignments anew, their rubrics, and variants.csv: who has which."""
    told = "Each student has a variant: variants.csv says which, and variants/NUMBER/rubrics.md has its solutions.\n"
    (term / "rubrics.md").write_text(told)
    for name in names:
        for old in (term / "variants").glob(f"*/{name}.ipynb"):
            old.unlink()
    rows = [["student", "variant"]]
    for student in students_of(term):
        for name in released(term):
            base_of(term, name, student)
        folder = folder_of(term, student)
        (folder / "rubrics.md").write_text(rubrics(variant_of(term, student), released(term)))
        rows.append([student, folder.name])
    write_table(term / "variants.csv", rows)


def write_for_colab(base: Path, folder: Path, package: str) -> None:
    """The notebook with a first cell that installs the package."""
    folder.mkdir(parents=True, exist_ok=True)
    on_colab = nbformat.read(base, as_version=4)
    first = nbformat.v4.new_code_cell(
        "# Run this first on Colab: the package comes as of this term; Colab's torch stays if it is new enough.\n"
        f'%pip install -q "{package}"',
        id="colab",
    )
    on_colab.cells.insert(0, first)
    nbformat.write(on_colab, folder / base.name)


def git(*words: str) -> str:
    """What git says of this repository, "" where it fails."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def package_of_this() -> str:
    """This very version of the package, as pip takes it: the repository's address and commit, "" if it has none.

    Never its bare name: whoever owns that name on an index would run code on every student's machine.
    """
    address = urllib.parse.urlsplit(git("config", "--get", "remote.origin.url"))
    commit = git("rev-parse", "HEAD")
    if address.scheme != "https" or not address.hostname or "@" in address.netloc or not commit:
        return ""  # a name or a token before an @ is somebody's own
    return f"minerva_lite[book,studies] @ git+{address.geturl()}@{commit}"


def about_colab(package: str | None) -> str:
    """What an instructor has to know of the version for Colab, "" if nothing."""
    if package:
        return ""
    if not package_of_this():
        return (
            "No version for Colab was made: this repository has no public https address, from which students could "
            'install the package. Say where its wheel lies: PACKAGE="minerva_lite[book,studies] @ https://…/minerva_lite-….whl"'
        )
    if not git("branch", "-r", "--contains", "HEAD"):
        return "The version for Colab installs this commit, which is on no remote branch known here: push it first."
    return ""
