"""What leaves the house holds no solution, hidden check or rubric; the stored sources are what the questions make."""

from __future__ import annotations

import csv
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile

import nbformat
import pytest

from minerva_book.exercises import self_check
from minerva_book.exercises.selfcheck import examined

from .trials import ROOT, assignment

from course import NAMES, handout  # isort: skip - found by what trials puts on the path
from course import term as terms  # isort: skip
from course.isolation import Limits  # isort: skip
from course.leaks import MARKS, leaks  # isort: skip
from course.leaks import telling as told_by  # isort: skip
from course.notebook import notebook  # isort: skip

SOURCE = ROOT / "book" / "homework" / "source"
SEED = "a term of its own"


@pytest.fixture(scope="module")
def term(tmp_path_factory):
    """A term with a seed of its own, released; what is handed out."""
    folder = tmp_path_factory.mktemp("term")
    handout.release(folder, seed=SEED, guessable=True, package="minerva_lite @ https://example.org/minerva_lite.whl")
    return folder


def telling(seed: str) -> dict[str, list[str]]:
    """Long lines of solutions and rubrics that students are not given, of all the book's, by question."""
    return {k: v for name in NAMES for k, v in told_by(assignment(name, seed)).items()}


# In the package and in chapters an import or a common loop may stand that a solution has as well, but no solution.
COMMON = 0.3


@pytest.mark.parametrize("name", NAMES)
def test_the_source_is_what_the_questions_make(name):
    """Cells and their metadata; the outputs are the executed ones, which nbval compares."""
    stored = nbformat.read(SOURCE / name / f"{name}.ipynb", as_version=4)
    made = notebook(assignment(name), seconds=Limits().case_seconds)
    assert [(c.cell_type, c.source, c.metadata.get("nbgrader")) for c in stored.cells] == [
        (c.cell_type, c.source, c.metadata.get("nbgrader")) for c in made.cells
    ], "run make homework-source"
    assert all(
        c.outputs
        for c in stored.cells
        if c.cell_type == "code" and c.metadata.nbgrader.grade_id.endswith(("-marked", "-run"))
    )
    assert (SOURCE / name / "requirements.txt").read_text() == terms.requirements()


def test_the_instructors_tables_are_the_questions(tmp_path):
    terms.tables(tmp_path, "example")
    for name in ("assignments.csv", "questions.csv"):
        assert (ROOT / "book" / "homework" / name).read_text() == (tmp_path / name).read_text(), (
            "run make homework-source"
        )
        assert f":file: homework/{name}" in (ROOT / "book" / "instructors.md").read_text()


def weeks(syllabus: str) -> list[list[str]]:
    """Chapters, graded work, class, own and graded of each row of a syllabus."""
    rows = re.findall(r"^\| (\d+) \|(.*)\|$", syllabus, re.M)
    assert [int(week) for week, _ in rows] == list(range(1, len(rows) + 1))
    return [[cell.strip() for cell in cells.split("|")] for _, cells in rows]


def graded(rows: list[list[str]], minutes: dict[str, int]) -> tuple[list[float], list[str]]:
    """Hours of each week's homework, a question that several weeks name in equal parts; the questions, in order."""
    named: list[list[str]] = []
    for _, work, *_ in rows:
        found = []
        for name, words in re.findall(r"(hw\d)(.*?)(?=hw\d|$)", work):
            every = [question for question in minutes if question.startswith(name)]
            spans = re.findall(r"q(\d)(?: to q(\d))?", words)
            asked = [f"{name} q{n}" for a, b in spans for n in range(int(a), int(b or a) + 1)]
            if not asked:  # "hw2", or "hw1 the rest"
                before = {question for week in named for question in week} if "the rest" in words else set()
                asked = [question for question in every if question not in before]
            found += asked
        named.append(found)
    told = [question for week in named for question in week]
    return [sum(minutes[each] / told.count(each) for each in week) / 60 for week in named], list(dict.fromkeys(told))


def test_the_syllabus_counts_the_minutes_of_the_questions():
    page = (ROOT / "book" / "instructors.md").read_text()
    with (ROOT / "book" / "homework" / "questions.csv").open(newline="") as file:
        minutes = {row["question"]: int(row["minutes"]) for row in csv.DictReader(file)}
    tables = page[page.index("**Twelve weeks**") :]
    twelve, language, six = re.split(r"^\*\*(?:With language models|Six weeks)\*\*", tables, flags=re.M)
    # The weeks with language models stand for those of the same number.
    other = dict(re.findall(r"^\| (\d+) (\|.*)$", language, re.M))
    instead = re.sub(r"^\| (\d+) (\|.*)$", lambda row: f"| {row[1]} {other.get(row[1], row[2])}", twelve, flags=re.M)
    assert len(other) == 2 and re.search(r"hw6 is left out", language) and re.search("hw8 left out", twelve)
    left_out = re.search(r"(hw\d), (hw\d) and (hw\d) are left out", six).groups()
    for syllabus, missing in ((twelve, "hw8"), (instead, "hw6"), (six, left_out)):
        rows = weeks(syllabus)
        hours, told = graded(rows, minutes)
        assert [row[-1] for row in rows] == [f"{each:.1f}" for each in hours]  # rounded as assignments.csv rounds
        assert sorted(told) == sorted(each for each in minutes if not each.startswith(missing))
        if syllabus is instead:
            continue
        least, most = map(float, re.search(r"That is about ([\d.]+) to ([\d.]+) hours", syllabus).groups())
        loads = [float(row[2]) + float(row[3] or 0) + each for row, each in zip(rows, hours, strict=True)]
        loads = sorted(round(2 * load) / 2 for load in loads)[-len(rows) * 3 // 4 :]
        assert (loads[0], loads[-1]) == (least, most), "of the three quarters that are heaviest, to half hours"


def test_every_solution_has_lines_to_look_for():
    lines = telling(SEED)
    assert len(lines) == sum(len(assignment(name).questions) for name in NAMES)
    assert [name for name, solution in lines.items() if not solution] == []
    # And they are found where they do stand.
    term_source = json.dumps([notebook(assignment(name, SEED), seconds=5.0) for name in NAMES])
    assert leaks(term_source, lines, 0.99) == list(lines)


def test_nothing_handed_out_holds_a_solution(term):
    """Every file of the handout and of nbgrader's release: cells, outputs, metadata, attachments are all its text."""
    lines = telling(SEED)
    files = [f for place in ("handout", "release") for f in (term / place).rglob("*") if f.is_file()]
    assert len([f for f in files if f.suffix == ".ipynb"]) == 3 * len(NAMES)
    for file in files:
        if file.suffix == ".whl":
            continue
        text = file.read_text()
        assert leaks(text, lines) == [], file.name
        assert [mark for mark in MARKS if mark in text] == [], file.name
        assert SEED not in text and str(ROOT) not in text, file.name
        if file.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            assert not any(cell.get("outputs") or cell.get("attachments") for cell in cells)


def test_the_package_holds_neither_solutions_nor_graders(term):
    (wheel,) = (term / "handout").glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        names = package.namelist()
        text = "\n".join(package.read(name).decode("utf8", "replace") for name in names if not name.endswith("/"))
    assert {"minerva_book/exercises/homework.py", "minerva_lite/py.typed"} <= set(names)
    assert not [name for name in names if "homework/" in name or "course" in name or "answers/hw" in name]
    for seed in (SEED, "example"):
        assert leaks(text, telling(seed), COMMON) == []


def test_the_pages_hold_no_homework():
    """The rendered book takes in what the table of contents names, and nothing of the homework is there."""
    contents = (ROOT / "_toc.yml").read_text()
    assert "homework" not in contents
    pages = [f for f in ROOT.glob("book/*.*") if f.suffix in (".md", ".ipynb")]
    pages += [*ROOT.glob("book/annotated/*.md"), *ROOT.glob("book/api/*.md")]
    lines = telling("example")
    assert len(pages) > 20
    for page in pages:
        assert leaks(page.read_text(), lines, COMMON) == [], page.name


def test_a_term_has_its_own_questions(term):
    """Another seed than the example's: other constants, forms and faults, in what students see."""
    for name in NAMES[:6]:
        theirs = nbformat.read(term / "handout" / name / f"{name}.ipynb", as_version=4)
        example = nbformat.read(SOURCE / name / f"{name}.ipynb", as_version=4)
        texts = [{c.metadata.nbgrader.grade_id: c.source for c in book.cells} for book in (theirs, example)]
        assert texts[0].keys() == texts[1].keys()
        differing = [key for key in texts[0] if key.endswith(("-text", "-faulty")) and texts[0][key] != texts[1][key]]
        assert len(differing) >= 3, differing
    assert (term / "seed.txt").read_text().strip() == SEED and (term.stat().st_mode & 0o077) == 0


def test_a_drawn_seed_is_secret_and_kept(tmp_path):
    for _ in range(2):
        handout.release(tmp_path / "term", names=["hw2_gae"], wheel=False)
        seeds = (tmp_path / "term" / "seed.txt").read_text()
    other = terms.new_term(tmp_path / "other", None, ["hw2_gae"]) or (tmp_path / "other" / "seed.txt").read_text()
    assert len(seeds.strip()) == 32 and other != seeds


def test_the_self_check_tells_where_one_stands(term, tmp_path):
    """As released nothing agrees; with the reference everything does; a renamed or damaged file is told so."""
    released = term / "handout" / "hw2_gae" / "hw2_gae.ipynb"
    shutil.copy(released, tmp_path)
    found = self_check(tmp_path / "hw2_gae.ipynb")
    assert found == dict.fromkeys(["q1", "q2", "q3", "q4", "q5"], "there is no answer yet")
    book = nbformat.read(released, as_version=4)
    for cell in book.cells:
        if cell.metadata.nbgrader.grade_id.endswith("-code"):
            cell["source"] = assignment("hw2_gae", SEED).question(cell.metadata.nbgrader.grade_id[:2]).solution
        if cell.metadata.nbgrader.grade_id == "q1-answer":
            cell["source"] = "By linearity."
    nbformat.write(book, tmp_path / "hw2_gae.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "minerva_book.exercises", "hw2_gae.ipynb"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.count("nothing speaks against it") == 4 and "q5: there is no answer yet" in done.stdout, (
        done.stderr
    )
    assert done.returncode == 1
    book.cells = [cell for cell in book.cells if cell.metadata.nbgrader.grade_id != "q3-marked"]
    nbformat.write(book, tmp_path / "hw2_gae.ipynb")
    assert examined(tmp_path / "hw2_gae.ipynb").remarks == [
        "The cell q3-marked was deleted; grading puts the released one back."
    ]
    del book.metadata["homework"]["cells"]
    nbformat.write(book, tmp_path / "hw2_gae.ipynb")
    with pytest.raises(ValueError, match="check cells of q3; they were deleted"):
        self_check(tmp_path / "hw2_gae.ipynb")
    (tmp_path / "hw2_gae.ipynb").rename(tmp_path / "mine.ipynb")
    with pytest.raises(ValueError, match=r"wanted the name hw2_gae\.ipynb"):
        self_check(tmp_path / "mine.ipynb")
    (tmp_path / "none.ipynb").write_text("no")
    with pytest.raises(ValueError, match="got a file that is none"):
        self_check(tmp_path / "none.ipynb")


def test_the_colab_version_installs_the_terms_package_first(term):
    for name in NAMES:
        first, *rest = nbformat.read(term / "handout" / "colab" / f"{name}.ipynb", as_version=4).cells
        plain = nbformat.read(term / "handout" / name / f"{name}.ipynb", as_version=4).cells
        assert '%pip install -q "minerva_lite @ https://example.org/minerva_lite.whl"' in first.source
        assert [cell.source for cell in rest] == [cell.source for cell in plain]


def test_what_students_install_is_pinned_and_complete(term):
    lines = (term / "handout" / "requirements.txt").read_text().split()
    assert lines[-1].startswith("./minerva_lite-") and lines[-1].endswith(".whl")
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in lines[:-1])
    assert {"torch", "numpy", "matplotlib", "gymnasium", "jupyterlab", "nbclient"} <= {
        line.split("==")[0] for line in lines
    }


def test_the_rubrics_name_every_question_and_stay_inside(term):
    text = (term / "rubrics.md").read_text()
    for name in NAMES:
        for question in assignment(name, SEED).questions:
            assert f"## {question.name} {question.title} ({question.points} points)" in text
    assert not list((term / "handout").rglob("rubrics*"))


def test_the_command_line_releases_and_says_what_is_wrong(tmp_path, monkeypatch):
    words = ["release", str(tmp_path / "term"), "--assignments", "hw2_gae", "--due", "hw2_gae=2027-02-01T23:59+01:00"]
    places = os.pathsep.join(str(ROOT / place) for place in ("book/homework", "book"))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": places, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "course", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "Hand out what is in" in done.stdout, done.stderr
    # The others in this process: to import nbgrader takes five seconds.
    for words, why in (
        (["grade", str(tmp_path / "none"), str(tmp_path / "term")], "wanted a folder with a folder for every student"),
        (["release", str(tmp_path / "x"), "--assignments", "hw9"], "wanted one of"),
        (["release", str(tmp_path / "term"), "--seed", "other"], "its seed is another one"),
        (["release", str(tmp_path / "term"), "--assignments", "hw2_gae", "--due", "hw2_gae=soon"], "soon"),
    ):
        monkeypatch.setattr(sys, "argv", ["course", *words])
        with pytest.raises(SystemExit, match=why):  # any other exception would be a traceback
            runpy.run_module("course", run_name="__main__")
