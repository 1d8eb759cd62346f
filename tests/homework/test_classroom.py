"""A class is released, graded and reported: the marks are the expected ones to the point, whatever was handed in."""

from __future__ import annotations

import csv
import hashlib
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from .hostile import NAME, POINTS, class_of, hand_in, solved
from .trials import NAMES, ROOT, SHORT, answers_of, apart, assignment, edited

from course import classroom, handout, marking  # isort: skip - found by what trials puts on the path
from course import term as terms  # isort: skip
from course.graders import LatePolicy  # isort: skip
from course.isolation import named  # isort: skip
from course.marking import MARKED  # isort: skip

TOTAL = float(sum(POINTS.values()))


def fingerprint(*folders: Path) -> str:
    files = sorted(f for folder in folders for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    return hashlib.sha256(b"".join(str(f).encode() + f.read_bytes() for f in files)).hexdigest()


def table(term: Path) -> dict[str, dict[str, str]]:
    with (term / "grades.csv").open() as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def column(term: Path, name: str) -> dict[str, float]:
    return {student: float(row[name]) for student, row in table(term).items()}


FEW = ("zq-right", "zq-wrong_q2", "zq-reads_answers")


@apart
@pytest.mark.parametrize("size", [len(FEW), pytest.param(35, marks=pytest.mark.slow)])
def test_a_class_gets_the_marks_it_earned(size, released, tmp_path, capfd):
    term, elsewhere = tmp_path / "term", tmp_path / "elsewhere"
    shutil.copytree(released, term)
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("as it was")
    stay = (elsewhere, term / "release", term / "source", ROOT / "book" / "homework")
    untouched = fingerprint(*stay)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        students = [s for s in class_of(term, elsewhere, port) if size > len(FEW) or s.name in FEW]
        assert len(students) == size
        hand_in(students, term / "release", tmp_path / "submissions")
        (tmp_path / "submissions" / "times.csv").write_text("student,time\nzq-right,2027-02-03T10:00:00+00:00\n")
        report = classroom.grade(tmp_path / "submissions", term, limits=SHORT)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody called
            server.accept()
    assert report.submissions == size and report.failed == 0 and report.by == named()
    wanted = {student.name: float(student.points) for student in students}
    assert column(term, "automatic") == wanted
    assert column(term, "score") == wanted | {"zq-right": round(0.8 * TOTAL, 2)}, "two days late"
    for student in students:
        page = (term / "feedback" / student.name / NAME / f"{NAME}.html").read_text()
        assert student.note in page, student.name
        assert "HIDDEN TESTS" not in page and "full_marks" not in page
    assert untouched == fingerprint(*stay) and not list(tmp_path.rglob("was_here"))
    said = "".join(capfd.readouterr()) + str(report)
    assert not [student.name for student in students if student.name in said], "no name in public"
    if size > len(FEW):  # grading again, nothing remembered: the same marks
        MARKED.clear()
        classroom.grade(tmp_path / "submissions", term, limits=SHORT)
        assert column(term, "automatic") == wanted


LATE = {"early": "01T10:59", "grace": "01T11:59", "late": "03T10:00", "too_late": "10T10:00"}


@pytest.fixture
def marked(term):
    """A term whose students handed in everything right: on time, late, far too late."""
    folder = term.parent / "submissions"
    hand_in([solved(name) for name in LATE], term / "release", folder)
    rows = "".join(f"{name},{NAME},2027-02-{when}:00+00:00\n" for name, when in LATE.items())
    (folder / "times.csv").write_text("student,assignment,time\n" + rows)
    classroom.grade(folder, term, limits=SHORT)
    return term


def by_hand(term: Path, *students: str) -> None:
    with terms.gradebook(terms.opened(term)) as book:
        for name in students:
            book.find_grade("q1-answer", NAME, NAME, name).manual_score = 3.0
        book.db.commit()


def test_late_work_loses_what_the_policy_says_and_peoples_marks_stay(marked, tmp_path):
    assert column(marked, "score") == {"early": TOTAL, "grace": TOTAL, "late": round(0.8 * TOTAL, 2), "too_late": 0.0}
    assert {*column(marked, "automatic").values()} == {TOTAL}
    assert table(marked)["late"]["handed_in"] == "2027-02-03 10:00:00+00:00"
    # Marks that come after the late policy was applied are under it all the same; a class graded again keeps them.
    by_hand(marked, "early", "late", "too_late")
    # A second folder, in which somebody has no file for this assignment.
    hand_in([solved("newcomer")], marked / "release", tmp_path / "more")
    (tmp_path / "more" / "early").mkdir()
    report = classroom.grade(tmp_path / "more", marked, limits=SHORT)
    late = round(0.8 * (TOTAL + 3.0), 2)
    scores = {"early": TOTAL + 3.0, "grace": TOTAL, "late": late, "too_late": 0.0, "newcomer": TOTAL}
    assert report.submissions == 1 and column(marked, "score") == pytest.approx(scores, abs=0.01)


@pytest.mark.parametrize(
    ("hours", "share"), [(0, 0), (1, 0), (1.1, 0.1), (24, 0.1), (24.1, 0.2), (7 * 24, 0.7), (7 * 24 + 0.1, 1)]
)
def test_the_late_policy_by_hand(hours, share):
    assert LatePolicy().late_submission_penalty("x", 20.0, 3600.0 * hours) == pytest.approx(20.0 * share)


def test_bad_input_is_told_in_one_line(term, tmp_path):
    (tmp_path / "in" / "student").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for folder, names, why in (
        ("none", None, "folder for every student.*does not exist"), ("empty", None, "every student.*is empty"),
        ("in", None, "handed in; got none"), ("in", ["hw9"], "ASSIGNMENTS: wanted one of hw1_mdp"),
        ("in", ["hw3_trpo"], r"released ones that somebody handed in; got \['hw3_trpo'\]"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            classroom.grade(tmp_path / folder, term, names=names)
    with pytest.raises(ValueError, match="its seed is another one"):
        handout.release(term, seed="other", names=[NAME], wheel=False)
    with pytest.raises(ValueError, match="CLASS: wanted the folder of a term"):
        classroom.grade(tmp_path / "in", tmp_path / "none")
    (term / "pack.txt").write_text("questions of an earlier version\n")
    with pytest.raises(ValueError, match="has questions of a pack; version 0.2, which released it, marks it"):
        classroom.grade(tmp_path / "in", term)


def test_an_error_stops_the_class_and_gives_no_marks(term, tmp_path, monkeypatch):
    hand_in([solved(f"s{k}") for k in range(4)], term / "release", tmp_path / "in")

    def broken(*args, **kwargs):
        raise RuntimeError("the process for students' code did not start")

    monkeypatch.setattr(marking, "run", broken)
    monkeypatch.setattr(marking, "MARKED", {})
    with pytest.raises(RuntimeError, match="did not start"):
        classroom.grade(tmp_path / "in", term, limits=SHORT, workers=1)
    assert not (term / "grades.csv").exists()


def test_relative_paths_hold_while_nbgrader_changes_the_folder_and_how_far_it_is_is_told(term, tmp_path, monkeypatch):
    hand_in([solved(f"s{k}") for k in range(2)], term / "release", tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    heard, counted = [], ["1 of 2 submissions marked", "2 of 2 submissions marked"]
    for patience, first in ((0.0, counted[0]), (100.0, counted[-1])):  # the last one is told, whenever it was
        monkeypatch.setattr(classroom, "PATIENCE", patience)
        heard.clear()
        report = classroom.grade(Path("in"), Path("term"), limits=SHORT, workers=2, tell=heard.append)
        assert report.full == 2 and heard[0] == first and counted[-1] in heard
    assert str(report).startswith(f"2 submissions marked, 2 with every function right; run apart by: {report.by}")


# Through nbgrader and the process apart


@apart
@pytest.mark.slow
def test_nbgrader_by_itself_gives_the_same_marks(released, tmp_path):
    """As on a JupyterHub: nbgrader's own command in the term's folder, no word of this package's."""
    term = shutil.copytree(released, tmp_path / "term")
    hand_in([solved("late")], term / "release", tmp_path / "in")
    classroom.grade(tmp_path / "in", term, limits=SHORT)
    marked = term / "autograded" / "late" / NAME / f"{NAME}.ipynb"
    marked.unlink()
    command = [sys.executable, "-m", "nbgrader", "autograde", NAME, "--force", "--student", "late"]
    done = subprocess.run(command, cwd=term, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    cells = nbformat.read(marked, as_version=4).cells
    checks = [c for c in cells if c.metadata.get("nbgrader", {}).get("grade_id", "").endswith("-marked")]
    assert len(checks) == 3 and all("Every hidden case agrees" in cell.outputs[0].text for cell in checks)


@apart
@pytest.mark.slow
def test_the_reference_and_right_answers_have_full_marks_through_nbgrader_and_wrong_ones_lose_theirs(tmp_path):
    """All assignments: the reference, answers of another kind, and a wrong answer to each question."""
    handout.release(tmp_path / "term", seed="example", guessable=True, wheel=False)
    for name in NAMES:
        answers = answers_of(name)
        for student in ("reference", "right", "wrong"):
            notebook = nbformat.read(tmp_path / "term" / "release" / name / f"{name}.ipynb", as_version=4)
            for cell in notebook.cells:
                question, _, kind = cell.metadata["nbgrader"]["grade_id"].partition("-")
                if kind == "code":
                    solution = assignment(name).question(question).solution
                    others = {"right": answers.RIGHT[question], "wrong": answers.WRONG[question]}.get(student)
                    cell["source"] = edited(solution, next(iter(others.values()))) if others else solution
            (tmp_path / "in" / student).mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, tmp_path / "in" / student / f"{name}.ipynb")
    report = classroom.grade(tmp_path / "in", tmp_path / "term", limits=SHORT)
    assert (report.submissions, report.full, report.failed, report.notes) == (3 * len(NAMES), 2 * len(NAMES), 0, [])
    with (tmp_path / "term" / "questions_marks.csv").open() as file:
        for row in csv.DictReader(file):
            for q in assignment(row["assignment"]).coded:
                assert (float(row[q.name]) == q.points) == (row["student"] != "wrong"), (row, q.name)
