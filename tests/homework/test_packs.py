"""An instructor's own questions: checked, released, marked as the book's are, and never to be seen or found out."""

from __future__ import annotations

import csv
import runpy
import shutil
import sys

import nbformat
import pytest

from .hunt import given, hunted
from .trials import ROOT, assignment

from course import NAMES, check, classroom, handout, names_of, roster, zips  # isort: skip - found by what trials puts on the path
from course import term as terms  # isort: skip
from course.check import Subject  # isort: skip
from course.isolation import Limits, offered, run  # isort: skip
from course.leaks import MARKS, leaks, telling  # isort: skip
from course.marking import hidden, mark_cells  # isort: skip
from course.notebook import notebook  # isort: skip
from course.packs import own_names, private  # isort: skip
from course.variants import base_of, cleared, place_of, variant_of  # isort: skip

EXAMPLE = ROOT / "book" / "homework" / "packs" / "example"
OWN, REPLACED = "hw9_off_policy", "hw2_gae"
SEED = "5f0e1d2c3b4a59687786958493a2b1c0"
PACKAGE = "minerva_lite @ https://example.org/minerva_lite.whl"
UNSAFE = offered() != "bubblewrap"
LIMITS = Limits(unsafe=UNSAFE)
SETUP = {"id": "setup", "source": "import math\nimport torch\ntorch.set_default_dtype(torch.float64)"}


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """A private copy of the example, in a place that only the instructor reads."""
    folder = tmp_path_factory.mktemp("instructor") / "pack"
    shutil.copytree(EXAMPLE, folder)
    return folder


def answered(base, solutions: dict[str, str], file) -> None:
    """Write the notebook with these solutions in its cells."""
    book = nbformat.read(base, as_version=4)
    for cell in book.cells:
        question, _, kind = cell.metadata["nbgrader"]["grade_id"].partition("-")
        if kind == "code" and question in solutions:
            cell["source"] = solutions[question]
    file.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, file)


def marks_of(term) -> dict[str, float]:
    with (term / "grades.csv").open() as file:
        return {row["student"]: float(row["automatic"]) for row in csv.DictReader(file)}


def test_the_example_pack_passes_its_own_check():
    lines = list(check.reported(EXAMPLE))
    assert lines[-1] == "everything holds", [line for line in lines if line.startswith(check.FAULT)]
    assert "  q2, q4: the book's, whose solutions are public" in lines
    for name in own_names(EXAMPLE):
        for question in Subject(name, EXAMPLE).at().coded:
            assert f"  {question.name}: wrong answers are refused for their numbers" in lines


# A change of the pack's text, and what the check has to say of it.
SPOILED = {
    "the reference is refused": ("hw9_off_policy.py", "return value + correction", "return 1.01 * value + correction"),
    "the fault is not seen": ("hw9_off_policy.py", '"(shortfall * valid).mean()"', '"shortfall[valid].mean()"'),
    "wanted 3 different faults": ("hw9_off_policy.py", "fault = draw.choice(", "fault = (lambda many: many[0])("),
    "nothing stands in its goal": ("hw9_off_policy.py", 'goal="which logits an entropy bonus moves, and when it moves none"', 'goal=""'),
    "nothing stands in its rubric": ("hw9_off_policy.py", 'rubric="2 points', 'rubric=False * "2 points'),
    "stands in what students read": ("hw9_off_policy.py", "draw.choice([1.2, 1.5, 2.0])", "draw.choice([1.2, 1.5, 0.1 + 0.2])"),
    "an odd number of dollars": ("hw9_off_policy.py", "Let $\\pi = ", "Let $$\\pi = "),
    "the text shows the solution's": ("hw9_off_policy.py", "Data come from an old policy;", "Data `correction = ratio.clamp(max={here}) * error`;"),
    "a line of its solution stands in what is handed out": ("hw9_off_policy.py", 'intro="', 'intro="return value + correction; trace = trace.masked_fill(terminated | truncated, 0.0) '),
    "full marks for `return 0.0`": ("hw9_off_policy.py", "        total, count = 0.0, 0.0\n", "        return torch.tensor(0.0), torch.zeros_like(logits)\n        total, count = 0.0, 0.0\n"),
    "different functions on twenty seeds": ("hw2_gae.py", "draw.choice([2, 3, 4]), draw.choice([0.2, 0.3, 0.5, 0.8])", "3, 0.2"),
    "not seen: the floor": ("answers/hw9.py", '    "q3": {\n', '    "q3": {\n        "the floor": [("min=0.0", "min=0.00")],\n'),
    "falls over rather than being wrong": ("answers/hw9.py", '    "q3": {\n', '    "q3": {\n        "x": [("logits / 0.5", "logit / 0.5")],\n'),
    "refused though right": ("answers/hw9.py", "rows.log()", "rows.log2()"),
    "wanted 3 right answers": ("answers/hw2.py", '        "loops": """', '        "float32": """'),
    "other questions or points": ("hw9_off_policy.py", "points=6,", "points=draw.choice([5, 6]),"),
}  # fmt: skip
SLOW = pytest.mark.slow
# What needs one function of `check` alone, and is quick.
QUICK = {"nothing stands in its goal", "full marks for `return 0.0`", "wanted 3 right answers", "not seen: the floor"}


@pytest.mark.parametrize(
    "told", [t if t in QUICK else pytest.param(t, marks=SLOW) for t in SPOILED if "package" not in t]
)
def test_a_spoiled_pack_is_told_so(told, tmp_path):
    file, old, new = SPOILED[told]
    shutil.copytree(EXAMPLE, tmp_path / "pack")
    text = (tmp_path / "pack" / file).read_text()
    changed = text.replace(old, new) if file.startswith("answers/hw2") else text.replace(old, new, 1)
    assert changed != text
    (tmp_path / "pack" / file).write_text(changed)
    name = REPLACED if "hw2" in file else OWN
    faults = [line for line in check.reported(tmp_path / "pack", [name]) if line.startswith(check.FAULT)]
    assert any(told in line for line in faults), faults


def test_the_command_says_how_a_pack_fares(tmp_path, monkeypatch, capsys):
    def ran(*words):
        monkeypatch.setattr(sys, "argv", ["course", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            runpy.run_module("course", run_name="__main__")
        return end.value.code, capsys.readouterr().out

    code, out = ran("check", EXAMPLE, "--assignments", OWN)
    assert code == 0 and out.endswith("everything holds\n")
    shutil.copytree(EXAMPLE, tmp_path / "pack", ignore=shutil.ignore_patterns("answers"))
    (tmp_path / "pack" / "hw2_gae.py").unlink()
    code, out = ran("check", tmp_path / "pack")
    assert code == 1 and "FAULT hw9_off_policy q2: FileNotFoundError" in out and "things do not hold" in out
    assert "wanted files such as hw9_mine.py" in ran("check", tmp_path)[0]
    assert "wanted one of hw9_off_policy" in ran("check", tmp_path / "pack", "--assignments", "hw99")[0]


def test_a_term_has_the_books_assignments_and_the_packs():
    assert names_of(EXAMPLE) == (*NAMES, OWN) and names_of() == NAMES
    own, books = (assignment(REPLACED, "example", place) for place in (EXAMPLE, None))
    assert own.question("q3").function == "long_target" and books.question("q3").function == "critic_loss"
    assert own.question("q2").solution == books.question("q2").solution, "what the book draws is the same as without it"
    with pytest.raises(ValueError, match="wanted one of hw1"):
        terms.known([OWN])
    assert terms.known([OWN], EXAMPLE) == [OWN]


def test_a_pack_that_cannot_be_one_is_refused(tmp_path):
    for name, why in (
        ("hw2_mine", "hw2_mine.py: wanted a number of its own, or hw2_gae.py"),
        ("hw Mine", "got hw Mine.py"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text("")
        with pytest.raises(ValueError, match=why):
            private(folder)
    with pytest.raises(ValueError, match="wanted files such as hw9_mine.py; got none"):
        private(tmp_path / "nowhere")
    (tmp_path / "hw9_mine.py").write_text("from course.hw2 import make")
    with pytest.raises(ValueError, match="wanted an assignment with this name; got 'hw2_gae'"):
        assignment("hw9_mine", "example", tmp_path)


def test_a_pack_that_students_code_could_read_is_refused(tmp_path, monkeypatch):
    """Python's own folder and the package are in sight inside; a pack in them would be, too."""
    folder = tmp_path / "environment" / "pack"
    shutil.copytree(EXAMPLE, folder)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    with pytest.raises(ValueError, match="wanted a place that students' code cannot read"):
        handout.release(tmp_path / "term", pack=folder, wheel=False)
    assert not (tmp_path / "term").exists()
    shutil.copytree(EXAMPLE, tmp_path / "term" / "pack")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="wanted a folder beside the term's"):
        terms.new_term(tmp_path / "term", None, [], tmp_path / "term" / "pack")


def test_a_term_keeps_its_pack(tmp_path, pack):
    term = tmp_path / "term"
    terms.new_term(term, None, [OWN], pack)
    shutil.copytree(EXAMPLE, tmp_path / "other")
    with pytest.raises(ValueError, match="a term keeps its pack"):
        terms.new_term(term, None, [OWN], tmp_path / "other")
    terms.new_term(term, None, [OWN])
    assert (term / "pack.txt").read_text() == f"{pack}\n"
    (tmp_path / "late" / "release" / REPLACED).mkdir(parents=True)
    with pytest.raises(ValueError, match="hw2_gae of the book was released"):
        terms.new_term(tmp_path / "late", None, [OWN], pack)


@pytest.fixture(scope="module")
def term(tmp_path_factory, pack):
    """A term with a pack: one assignment of its own, one in place of the book's."""
    folder = tmp_path_factory.mktemp("term") / "term"
    handout.release(folder, seed=SEED, names=[REPLACED, OWN], pack=pack, package=PACKAGE, wheel=False)
    return folder


def test_a_pack_is_released_and_marked_as_the_books_are(term, pack, tmp_path):
    assert (term / "pack.txt").read_text() == f"{pack}\n"
    made = assignment(OWN, SEED, pack)
    rubrics = (term / "rubrics.md").read_text()
    assert f"# {made.title}" in rubrics and f"Planted: {made.question('q3').fault.name}" in rubrics
    for student, solutions in (
        ("right", {q.name: q.solution for q in made.coded}),
        ("example", {q.name: q.solution for q in assignment(OWN, "example", pack).coded}),
        ("empty", {}),
    ):
        base = term / "handout" / OWN / f"{OWN}.ipynb"
        answered(base, solutions, tmp_path / student / f"{OWN}.ipynb")
    report = classroom.grade(tmp_path, term, names=[OWN], limits=LIMITS)
    assert report.failed == 0 and report.full == 1
    marks = marks_of(term)
    assert marks["right"] == sum(q.points for q in made.coded) and marks["empty"] == 0.0 and marks["example"] < 6
    page = (term / "feedback" / "right" / OWN / f"{OWN}.html").read_text()
    assert "full_marks" not in page and "Rubric" not in page


def test_nothing_handed_out_holds_the_packs_solutions(term, pack):
    lines = {name: told for each in (REPLACED, OWN) for name, told in telling(assignment(each, SEED, pack)).items()}
    files = [f for place in ("handout", "release") for f in (term / place).rglob("*") if f.is_file()]
    assert len([f for f in files if f.suffix == ".ipynb"]) == 6
    for file in files:
        text = file.read_text()
        assert leaks(text, lines) == [] and [mark for mark in MARKS if mark in text] == [], file.name
        assert str(pack) not in text and SEED not in text, file.name
    sources = [(term / "source" / each / f"{each}.ipynb").read_text() for each in (REPLACED, OWN)]
    assert len(leaks("".join(sources), lines)) == len(lines), "they are found where they do stand"


def test_the_source_of_a_pack_executes_its_own_check(term):
    """The hidden check in the source finds the term's pack from the folder that it runs in."""
    book = nbformat.read(term / "source" / OWN / f"{OWN}.ipynb", as_version=4)
    check_cell = next(c for c in book.cells if c.metadata.nbgrader.grade_id == "q2-marked")
    code = next(c for c in book.cells if c.metadata.nbgrader.grade_id == "q2-code")
    import contextlib
    import os

    import torch

    before, default = os.getcwd(), torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        stack.callback(os.chdir, before)
        stack.callback(torch.set_default_dtype, default)
        os.chdir(term / "source" / OWN)
        space: dict = {}
        for cell in (*book.cells[1:2], code, check_cell):
            exec(cell.source, space)
        exec(code.source.replace("return value + correction", "return correction"), space)
        with pytest.raises(AssertionError, match="entries are wrong"):
            exec(check_cell.source[check_cell.source.index("full_marks(") :], space)


def test_students_code_cannot_see_the_pack(pack):
    """Neither the folder, nor by way of Python's modules; the job sent inside holds inputs and no solution."""
    if UNSAFE:
        pytest.skip("bubblewrap is not at hand here")
    question = assignment(OWN, SEED, pack).question("q2")
    look = f"""
import os, sys
def corrected_return(*inputs):
    seen = [float(os.path.exists(place)) for place in {[str(pack), str(pack.parent), str(EXAMPLE)]!r}]
    return torch.tensor([*seen, float(any(name.startswith(("pack_", "course")) for name in sys.modules))])
"""
    cases = {"q2": hidden(question, SEED)[0][:1]}
    said = run([SETUP, {"id": "q2-code", "source": look}], [question], cases, limits=LIMITS)
    assert said.answers["q2", "one step"][0]["data"] == [0.0] * 4


@pytest.mark.slow
def test_without_a_namespace_the_pack_is_closed(pack):
    question = assignment(OWN, SEED, pack)
    reads = {"id": "own", "source": f"open({str(pack / 'hw9_off_policy.py')!r}).read()"}
    limits = Limits(unsafe=True, closed=(str(pack),))
    _, said = mark_cells(question, [SETUP, reads], SEED, limits=limits, by="process")
    assert said.cells == {"own": "PermissionError: this file is not open to homework"}


def test_made_up_seeds_solve_the_books_questions_and_not_the_packs(pack):
    """The loop that finds all of a public generator's solutions, on the same term with a private pack."""
    texts = given(notebook(assignment(REPLACED, SEED, pack), seconds=5.0))
    found, _ = hunted(texts, (REPLACED,), 2000)
    right = assignment(REPLACED, SEED, pack)
    assert {name: q.solution for name, q in found.items()} == {n: right.question(n).solution for n in ("q2", "q4")}
    texts = given(notebook(assignment(OWN, SEED, pack), seconds=5.0))
    assert hunted(texts, NAMES, 50) == ({}, 50)


@pytest.mark.slow
def test_made_up_seeds_solve_every_question_of_the_book():
    """Why a seed alone keeps nothing secret: every coded question of a term, found by drawing."""
    for name in NAMES:
        made = assignment(name, SEED)
        found, _ = hunted(given(notebook(made, seconds=5.0)), (name,))
        assert {n: q.solution for n, q in found.items()} == {q.name: q.solution for q in made.coded}


def test_a_seed_that_can_be_guessed_is_refused(tmp_path, monkeypatch):
    guessable = ("cs285fall2026", "example", "cs285fall2026cs285fall2026cs285fa", "0" * 32, "deadbeef" * 4, SEED[:31])
    for seed in guessable:
        with pytest.raises(ValueError, match=r"wanted 32 hexadecimal digits .*print\(secrets.token_hex\(16\)"):
            handout.release(tmp_path / "term", seed=seed, names=[REPLACED], wheel=False)
        assert not (tmp_path / "term").exists()
    assert terms.secret(SEED) == SEED
    monkeypatch.setattr(sys, "argv", ["course", "release", str(tmp_path / "term"), "--seed", guessable[0]])
    with pytest.raises(SystemExit, match="nobody can guess"):
        runpy.run_module("course", run_name="__main__")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--guessable"])
    with pytest.raises(SystemExit) as end:  # the command line knows no such word
        runpy.run_module("course", run_name="__main__")
    assert end.value.code == 2


STUDENTS = ("ada", "bob", "cyd", "dan")


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """A term in which each student has a notebook of their own."""
    folder = tmp_path_factory.mktemp("varied") / "term"
    folder.mkdir()
    (folder / "roster.csv").write_text("student;name\n" + "".join(f"{name};X\n" for name in STUDENTS))
    handout.release(folder, seed=SEED, names=[REPLACED], variants=1_000_000, package=PACKAGE, wheel=False)
    return folder


def test_each_student_has_a_variant_and_is_marked_by_it(varied, tmp_path):
    """Right work of two neighbors has full marks; handed in by somebody else it fails."""
    assert len({variant_of(varied, student) for student in STUDENTS}) == 4
    asked = {student: assignment(REPLACED, variant_of(varied, student)) for student in STUDENTS}
    for student, of in (("ada", "ada"), ("bob", "bob"), ("cyd", "ada"), ("dan", "bob")):
        base = varied / "handout" / REPLACED / of / f"{REPLACED}.ipynb"
        solutions = {q.name: q.solution for q in asked[of].coded}
        answered(base, solutions, tmp_path / student / f"{REPLACED}.ipynb")
    report = classroom.grade(tmp_path, varied, limits=LIMITS)
    assert report.failed == 0 and report.full == 2
    total, marks = sum(q.points for q in asked["ada"].coded), marks_of(varied)
    assert marks["ada"] == marks["bob"] == total and marks["cyd"] < total / 2 and marks["dan"] < total / 2
    for student in STUDENTS:  # what stands on a page is the student's own question, whatever was handed in
        marked = nbformat.read(varied / "autograded" / student / REPLACED / f"{REPLACED}.ipynb", as_version=4)
        texts = {c.metadata["nbgrader"]["grade_id"]: c.source for c in marked.cells if "nbgrader" in c.metadata}
        assert texts["q2-text"].endswith(asked[student].question("q2").text.strip())


def test_variants_are_private_and_stay(varied, tmp_path):
    with (varied / "variants.csv").open() as file:
        rows = {row["student"]: row["variant"] for row in csv.DictReader(file)}
    assert rows == {student: f"{place_of(varied, student):04}" for student in STUDENTS}
    handed = [f.relative_to(varied / "handout").as_posix() for f in (varied / "handout").rglob("*.ipynb")]
    assert sorted(handed) == sorted(f"{p}/{s}/{REPLACED}.ipynb" for s in STUDENTS for p in ("colab", REPLACED))
    for file in (varied / "handout").rglob("*.ipynb"):
        assert SEED not in file.read_text() and not any(place in file.read_text() for place in rows.values())
    for student in STUDENTS:
        lines = telling(assignment(REPLACED, variant_of(varied, student)))
        assert leaks((varied / "handout" / REPLACED / student / f"{REPLACED}.ipynb").read_text(), lines) == []
        rubric = (varied / "variants" / rows[student] / "rubrics.md").read_text()
        assert assignment(REPLACED, variant_of(varied, student)).question("q4").fault.name in rubric
    with pytest.raises(ValueError, match="a term keeps them"):
        handout.release(varied, names=[REPLACED], variants=2, wheel=False)
    # Another term's students of the same names have other ones.
    (tmp_path / "seed.txt").write_text("another")
    (tmp_path / "variants.txt").write_text("1000000")
    assert variant_of(tmp_path, "ada") != variant_of(varied, "ada")


def test_the_roster_and_the_zips_know_a_packs_assignments(tmp_path, pack):
    (tmp_path / "seed.txt").write_text(SEED)
    (tmp_path / "pack.txt").write_text(str(pack))
    (tmp_path / "roster.csv").write_text(f"student,{OWN}\nada,2 days\n")
    assert roster.read_roster(tmp_path)[0].until == {OWN: "2 days"}
    (tmp_path / "names.csv").write_text("student,path\n")
    assert zips.feedback_zips(tmp_path, [], [f"{OWN}={tmp_path / 'names.csv'}"]) == []


def test_variants_want_students(tmp_path):
    with pytest.raises(ValueError, match="wanted a table with a column student"):
        terms.new_term(tmp_path / "term", None, [], variants=5)
    with pytest.raises(ValueError, match="wanted at least 2"):
        terms.new_term(tmp_path / "term", None, [], variants=1)


def test_what_a_variant_is_made_by_is_what_nbgrader_releases(varied):
    """Cell by cell, records included; so an ordinary student's notebook and a variant are marked alike."""
    ordinary = nbformat.read(varied / "release" / REPLACED / f"{REPLACED}.ipynb", as_version=4)
    made = cleared(assignment(REPLACED, SEED))
    # In the term's folder the hidden check, which is not handed out, reaches the package by another way.
    assert [dict(cell) for cell in made.cells] == [dict(cell) for cell in ordinary.cells]
    assert made.metadata == ordinary.metadata
    assert base_of(varied, REPLACED, "a latecomer").exists(), "who is not in the roster has a variant, too"
