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
from platform import python_version

import nbclient
import nbformat
import pytest
from jupyter_client.kernelspec import get_kernel_spec
from nbgrader.utils import compute_checksum

from .conftest import in_this_process
from .hostile import NAME, Student, hand_in
from .trials import MARKS, NAMES, ROOT, SHORT, assignment, filled, leaks, table, telling

from course import classroom, handout  # isort: skip - found by what trials puts on the path
from course import term as terms  # isort: skip
from course.isolation import Limits  # isort: skip
from course.notebook import notebook  # isort: skip
from course.variants import base_of, cleared, place_of, variant_of  # isort: skip

SOURCE = ROOT / "book" / "homework" / "source"
SEED = "5f0e1d2c3b4a59687786958493a2b1c0"
PACKAGE = "minerva_lite @ https://example.org/minerva_lite.whl"
LINES = {  # long lines of solutions and rubrics that students are not given, of all assignments
    seed: {k: v for name in NAMES for k, v in telling(assignment(name, seed)).items()} for seed in (SEED, "example")
}  # fmt: skip
# In the package and in chapters an import or a common loop may stand that a solution has as well, but no solution.
COMMON = 0.3


@pytest.fixture(scope="module", params=[(NAME,), pytest.param(NAMES, marks=pytest.mark.slow)], ids=["one", "all"])
def names(request) -> tuple[str, ...]:
    return request.param


@pytest.fixture(scope="module")
def term(names, tmp_path_factory):
    """A term with a seed of its own, released; what is handed out. The package alone with all of it."""
    folder = tmp_path_factory.mktemp("term")
    handout.release(folder, seed=SEED, names=names, package=PACKAGE, wheel=len(names) > 1)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_source_is_what_the_questions_make(name):
    """Cells and their metadata; the outputs are the executed ones, which nbval compares."""

    def plain(book) -> list[tuple]:
        return [(c.cell_type, c.source, c.metadata.get("nbgrader")) for c in book.cells]

    stored = nbformat.read(SOURCE / name / f"{name}.ipynb", as_version=4)
    made = notebook(assignment(name), seconds=Limits().case_seconds)
    assert plain(stored) == plain(made), "run make homework-source"
    for cell in stored.cells:
        executed = cell.cell_type == "code" and cell.metadata.nbgrader.grade_id.endswith(("-marked", "-run"))
        assert cell.outputs if executed else True, cell.source
    assert (SOURCE / name / "requirements.txt").read_text() == terms.requirements()


def test_the_instructors_tables_are_the_questions(tmp_path):
    terms.tables(tmp_path, "example")
    page = (ROOT / "book" / "instructors.md").read_text()
    for name in ("assignments.csv", "questions.csv"):
        stored = (ROOT / "book" / "homework" / name).read_text()
        assert stored == (tmp_path / name).read_text(), "run make homework-source"
        assert f":file: homework/{name}" in page


def weeks(syllabus: str, minutes: dict[str, int]) -> tuple[list[list[str]], list[float], list[str]]:
    """The cells of each row of a syllabus, the hours of its homework, and all questions that are named.

    A question that several weeks name counts in equal parts; "hw2" and "hw2 the rest" mean those not named before.
    """
    rows = re.findall(r"^\| (\d+) \|(.*)\|$", syllabus, re.M)
    assert [int(week) for week, _ in rows] == list(range(1, len(rows) + 1))
    cells = [[cell.strip() for cell in row.split("|")] for _, row in rows]
    weekly: list[list[str]] = []
    named: list[str] = []
    for _, work, *_ in cells:
        weekly.append([])
        for name, words in re.findall(r"(hw\d)(.*?)(?=hw\d|$)", work):
            spans = re.findall(r"q(\d)(?: to q(\d))?", words)
            meant = [f"{name} q{n}" for a, b in spans for n in range(int(a), int(b or a) + 1)]
            weekly[-1] += meant or [each for each in minutes if each.startswith(name) and each not in named]
        named += weekly[-1]
    return cells, [sum(minutes[each] / named.count(each) for each in week) / 60 for week in weekly], named


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
        rows, hours, named = weeks(syllabus, minutes)
        assert [row[-1] for row in rows] == [f"{each:.1f}" for each in hours]  # rounded as assignments.csv rounds
        assert {*named} == {each for each in minutes if not each.startswith(missing)}
        if syllabus is instead:
            continue
        least, most = map(float, re.search(r"That is about ([\d.]+) to ([\d.]+) hours", syllabus).groups())
        loads = [float(row[2]) + float(row[3] or 0) + each for row, each in zip(rows, hours, strict=True)]
        loads = sorted(round(2 * load) / 2 for load in loads)[-len(rows) * 3 // 4 :]
        assert (loads[0], loads[-1]) == (least, most), "of the three quarters that are heaviest, to half hours"


def test_nothing_handed_out_holds_a_solution(term, names):
    """Every file of the handout and of nbgrader's release: cells, outputs, metadata, attachments are all its text."""
    lines = {question: found for question, found in LINES[SEED].items() if question.split("/")[0] in names}
    files = [f for place in ("handout", "release") for f in (term / place).rglob("*") if f.is_file()]
    assert len([f for f in files if f.suffix == ".ipynb"]) == 3 * len(names) + 1
    assert len(lines) == sum(len(assignment(name).questions) for name in names) and all(lines.values())
    for file in files:
        if file.suffix == ".whl":
            continue
        text = file.read_text()
        assert leaks(text, lines) == [] and [mark for mark in MARKS if mark in text] == [], file.name
        assert SEED not in text and str(ROOT) not in text, file.name
        if file.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            assert not any(cell.get("outputs") or cell.get("attachments") for cell in cells)
    # And they are found where they do stand: in this term's own sources.
    sources = "".join(file.read_text() for file in term.glob("source/*/*.ipynb"))
    assert leaks(sources, lines, 0.99) == list(lines)
    text = (term / "rubrics.md").read_text()
    for name in names:
        for question in assignment(name, SEED).questions:
            assert f"## {question.name} {question.title} ({question.points} points)" in text
    assert not list((term / "handout").rglob("rubrics*")) and (term.stat().st_mode & 0o077) == 0


def test_a_start_page_says_what_to_do_and_no_notebook_is_changed_for_it(term, names):
    """Each is nbgrader's release to the byte, with the hashes by which it knows a locked cell again."""
    folder = term / "handout"
    for name in names:
        file = folder / name / f"{name}.ipynb"
        assert file.read_bytes() == (term / "release" / name / file.name).read_bytes()
        cells = [cell for cell in nbformat.read(file, as_version=4).cells if "checksum" in cell.metadata.nbgrader]
        assert cells and all(cell.metadata.nbgrader.checksum == compute_checksum(cell) for cell in cells)
    page = nbformat.read(folder / "start.ipynb", as_version=4)
    nbformat.validate(page)
    text, check, hand_in = (cell.source for cell in page.cells)
    kernel = page.metadata.kernelspec, page.metadata.language_info  # as JupyterLab would save it
    assert kernel[0].display_name == get_kernel_spec("python3").display_name and kernel[1].version == python_version()
    assert kernel[1].keys() == nbformat.read(ROOT / "book" / "05_ppo.ipynb", as_version=4).metadata.language_info.keys()
    links = re.findall(r"\[Homework .*?\]\((.*?)\)", text)
    assert links == [f"{name}/{name}.ipynb" for name in names] and all((folder / link).is_file() for link in links)
    assert "requirements.txt" in text and "`colab`" in text and "Ctrl+S" in text and "**Hand in**" in hand_in


def test_what_students_install_is_pinned_and_holds_neither_solutions_nor_graders(term, names):
    lines = (term / "handout" / "requirements.txt").read_text().split()
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in lines if not line.startswith("./"))
    pinned = {line.split("==")[0] for line in lines}
    assert {"torch", "numpy", "matplotlib", "gymnasium", "jupyterlab", "nbclient"} <= pinned
    if len(names) == 1:
        return
    assert lines[-1].startswith("./minerva_lite-") and lines[-1].endswith(".whl")
    (wheel,) = (term / "handout").glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        inside = package.namelist()
        text = "\n".join(package.read(name).decode("utf8", "replace") for name in inside if not name.endswith("/"))
    assert {"minerva_book/exercises/homework.py", "minerva_lite/py.typed"} <= set(inside)
    assert not [name for name in inside if "homework/" in name or "course" in name or "answers/hw" in name]
    assert [leaks(text, lines, COMMON) for lines in LINES.values()] == [[], []]


def test_the_colab_version_installs_the_terms_package_first(term, names):
    for name in names:
        first, *rest = nbformat.read(term / "handout" / "colab" / f"{name}.ipynb", as_version=4).cells
        plain = nbformat.read(term / "handout" / name / f"{name}.ipynb", as_version=4).cells
        assert f'%pip install -q "{PACKAGE}"' in first.source
        assert [cell.source for cell in rest] == [cell.source for cell in plain]


@pytest.mark.parametrize(("address", "package"), [
    ("https://example.org/a/b.git", "minerva_lite[book,studies] @ git+https://example.org/a/b.git@c0ffee"),
    ("", ""), ("git@example.org:a/b.git", ""), ("/srv/git/b", ""), ("https://me:secret@example.org/b", ""),
])  # fmt: skip
def test_the_package_for_colab_is_an_address_of_this_repository_or_none(monkeypatch, address, package):
    """Never a bare name, which anybody may register on an index."""
    said = {"config": address, "rev-parse": "c0ffee", "branch": ""}
    monkeypatch.setattr(handout, "git", lambda *words: said[words[0]])
    assert handout.package_of_this() == package
    told = handout.about_colab(None)
    assert ("push it first" in told) if package else ("No version for Colab was made" in told)
    assert handout.about_colab("minerva_lite @ https://example.org/x.whl") == ""


def test_students_read_when_it_is_due_and_how_to_begin(term):
    handed = handout.release(term, seed=SEED, names=[NAME], due={NAME: "2027-02-01T23:59+01:00"}, wheel=False)
    text = nbformat.read(handed / "start.ipynb", as_version=4).cells[0].source
    assert f"({NAME}/{NAME}.ipynb), due 2027-02-01 23:59 UTC+01:00\n" in text, "in the zone it was given in"
    assert "python -m jupyter lab start.ipynb\n" in (handed / "README.md").read_text("utf8")


def test_a_term_keeps_its_due_times_seed_and_what_it_released(term, names, monkeypatch):
    """And without an address no notebook for Colab is handed out."""
    monkeypatch.setattr(handout, "package_of_this", lambda: "")
    with pytest.raises(ValueError, match="has no zone"):
        handout.release(term, names=[NAME], due={NAME: "2027-02-01T23:59"}, wheel=False)
    handout.release(term, names=[NAME], due={NAME: "2027-02-01T23:59-05:00"}, wheel=False)
    handout.release(term, names=[NAME], wheel=False)
    assert ", due 2027-02-01 23:59 UTC-05:00" in (term / "handout" / "start.ipynb").read_text()
    assert (term / "seed.txt").read_text() == f"{SEED}\n" and not (term / "handout" / "colab").exists()
    assert {file.stem for file in term.glob("handout/*/*.ipynb")} == {*names}


def test_a_seed_that_can_be_guessed_is_refused(tmp_path):
    guessable = ("cs285fall2026", "example", "cs285fall2026cs285fall2026cs285fa", "0" * 32, "deadbeef" * 4, SEED[:31])
    for seed in guessable:
        with pytest.raises(ValueError, match=r"wanted 32 hexadecimal digits .*print\(secrets.token_hex\(16\)"):
            handout.release(tmp_path / "term", seed=seed, names=[NAME], wheel=False)
        assert not (tmp_path / "term").exists()
    assert terms.secret(SEED) == SEED
    seeds = set()
    for name in ("one", "two"):
        terms.new_term(tmp_path / name, None, [])
        seeds.add(terms.secret((tmp_path / name / "seed.txt").read_text().strip()))
    assert len(seeds) == 2, "drawn unless given"


def ended(monkeypatch, *words) -> str | int | None:
    """With what the command ends; any other exception would be a traceback."""
    monkeypatch.setattr(sys, "argv", ["course", *map(str, words)])
    try:
        runpy.run_module("course", run_name="__main__")
    except SystemExit as end:
        return end.code
    return 0


def test_mistakes_on_the_command_line_get_true_sentences(tmp_path, released, monkeypatch, capsys):
    term = shutil.copytree(released, tmp_path / "term")
    (tmp_path / "in" / "ada").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("b_2_3_x.ipynb", "x")
        archive.writestr("A_1_assignsubmission_file/x.ipynb", "x")
    for words, why in (
        (["release", "new", "--due", NAME], "DUE: wanted NAME=TIME"),
        (["release", "new", "--assignments", "hw9"], "ASSIGNMENTS: wanted one of"),
        (["release", term, "--seed", "12" * 16], "its seed is another one.*; name another folder, CLASS="),
        (["grade", "in", "new"], "CLASS: wanted the folder of a term, .*; got .*new, which does not exist"),
        (["grade", "in", term, "--workers", "0"], "workers: wanted at least 1"),
        (["report", term, "--reveal", "hw2"], "REVEAL: wanted one of hw1"),
        (["unpack", "export.zip", "out"], "say which: --from moodle or --from canvas"),
        (["unpack", "export.zip", "out", "--from", "canvas"], 0),
    ):  # fmt: skip
        monkeypatch.chdir(tmp_path)
        code = ended(monkeypatch, *words)
        assert code == why if isinstance(why, int) else re.search(why, str(code)), (words, code)
    said = capsys.readouterr().out
    assert "Students' code is run apart by: " in said and "1 file of 1 student, as canvas exports them" in said
    assert not (tmp_path / "new").exists() and "1 file was left out" in said


@pytest.mark.slow
def test_the_command_releases_with_no_environment_of_its_own(tmp_path):
    """nbgrader starts programs that lie beside Python, which is then on no path."""
    words = ["release", str(tmp_path / "term"), "--assignments", NAME, "--due", f"{NAME}=2027-02-01T23:59+01:00"]
    places = os.pathsep.join(str(ROOT / place) for place in ("book/homework", "book"))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": places, "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "course", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "Hand out what is in" in done.stdout, done.stderr


@pytest.mark.slow
def test_the_self_check_tells_where_one_stands(term, tmp_path):
    """With the reference everything agrees: by the command of before, which forwards."""
    book = nbformat.read(term / "handout" / NAME / f"{NAME}.ipynb", as_version=4)
    answers = {question.name: question.solution for question in assignment(NAME, SEED).coded}
    nbformat.write(filled(book, answers, q1_answer="By linearity."), tmp_path / f"{NAME}.ipynb")
    command = [sys.executable, "-m", "minerva_lite.exercises", f"{NAME}.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.count("nothing speaks against it") == 4 and done.returncode == 1, done.stderr
    assert "q5: not answered yet" in done.stdout


@pytest.mark.slow
def test_the_start_pages_cell_checks_a_notebook(term):
    page = nbformat.read(term / "handout" / "start.ipynb", as_version=4)
    nbclient.execute(page, cwd=str(term / "handout"))
    said = "".join(output.text for output in page.cells[1].outputs)
    assert "q1: not answered yet" in said and "WARNING" not in said


# A notebook for each student


STUDENTS = ("ada", "bob", "cyd", "dan")


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """A term in which each student has a notebook of their own."""
    folder = tmp_path_factory.mktemp("varied") / "term"
    folder.mkdir()
    (folder / "roster.csv").write_text("student;name\n" + "".join(f"{name};X\n" for name in STUDENTS))
    handout.release(folder, seed=SEED, names=[NAME], variants=1_000_000, package=PACKAGE, wheel=False)
    return folder


def test_each_student_has_a_variant_and_is_marked_by_it(varied, tmp_path, monkeypatch):
    """Right work of two neighbors has full marks; handed in by somebody else it fails."""
    monkeypatch.setattr("course.marking.run", in_this_process)
    assert len({variant_of(varied, student) for student in STUDENTS}) == 4
    drawn = {student: assignment(NAME, variant_of(varied, student)) for student in STUDENTS}
    of = {"ada": "ada", "bob": "bob", "cyd": "ada", "dan": "bob"}
    for student, author in of.items():
        answers = {q.name: q.solution for q in drawn[author].coded}
        (tmp_path / "given" / NAME).mkdir(parents=True, exist_ok=True)
        shutil.copy(varied / "handout" / NAME / author / f"{NAME}.ipynb", tmp_path / "given" / NAME)
        hand_in([Student(student, "", answers)], tmp_path / "given", tmp_path / "one")
        shutil.move(tmp_path / "one" / student, tmp_path / "in" / student)
    report = classroom.grade(tmp_path / "in", varied, limits=SHORT)
    assert report.failed == 0 and report.full == 2
    marks = {student: float(row["automatic"]) for student, row in table(varied).items()}
    total = sum(q.points for q in drawn["ada"].coded)
    assert marks["ada"] == marks["bob"] == total and max(marks["cyd"], marks["dan"]) < total / 2
    for student in STUDENTS:  # what stands on a page is the student's own question, whatever was handed in
        marked = nbformat.read(varied / "autograded" / student / NAME / f"{NAME}.ipynb", as_version=4)
        texts = {c.metadata["nbgrader"]["grade_id"]: c.source for c in marked.cells if "nbgrader" in c.metadata}
        assert texts["q2-text"].endswith(drawn[student].question("q2").text.strip())


def test_variants_are_private_and_stay(varied, tmp_path):
    rows = {student: row["variant"] for student, row in table(varied, "variants.csv").items()}
    assert rows == {student: f"{place_of(varied, student):04}" for student in STUDENTS}
    handed = {f.relative_to(varied / "handout").as_posix(): f.read_text() for f in varied.glob("handout/**/*.ipynb")}
    start = handed.pop("start.ipynb")
    assert f"`{NAME}/your_name/{NAME}.ipynb`" in start and not [name for name in STUDENTS if f"/{name}/" in start]
    assert sorted(handed) == sorted(f"{p}/{s}/{NAME}.ipynb" for s in STUDENTS for p in ("colab", NAME))
    assert not [text for text in handed.values() if SEED in text or any(place in text for place in rows.values())]
    for student in STUDENTS:
        theirs = assignment(NAME, variant_of(varied, student))
        assert leaks(handed[f"{NAME}/{student}/{NAME}.ipynb"], telling(theirs)) == []
        rubric = (varied / "variants" / rows[student] / "rubrics.md").read_text()
        assert theirs.question("q4").fault.name in rubric
    # Another term's students of the same names have other ones.
    (tmp_path / "seed.txt").write_text("another")
    (tmp_path / "variants.txt").write_text("1000000")
    assert variant_of(tmp_path, "ada") != variant_of(varied, "ada")
    for folder, count, why in (
        (varied, 2, "a term keeps them"), (tmp_path / "term", 5, "wanted a table with a column student"),
        (tmp_path / "term", 1, "wanted at least 2"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            handout.release(folder, names=[NAME], variants=count, wheel=False)


def test_what_a_variant_is_made_by_is_what_nbgrader_releases(varied):
    """Cell by cell, records included; so an ordinary student's notebook and a variant are marked alike."""
    ordinary = nbformat.read(varied / "release" / NAME / f"{NAME}.ipynb", as_version=4)
    made = cleared(assignment(NAME, SEED))
    # In the term's folder the hidden check, which is not handed out, reaches the package by another way.
    assert [dict(cell) for cell in made.cells] == [dict(cell) for cell in ordinary.cells]
    assert made.metadata == ordinary.metadata
    assert base_of(varied, NAME, "a latecomer").exists(), "who is not in the roster has a variant, too"
