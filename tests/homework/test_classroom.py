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
from .trials import (
    NAMES,
    ROOT,
    SHORT,
    answers_of,
    apart,
    assignment,
    example_term,
    filled,
    on_the_example,
    page,
    table,
    written,
)

from course import classroom, marking  # isort: skip - found by what trials puts on the path
from course.graders import LatePolicy  # isort: skip
from course.isolation import named  # isort: skip
from course.marking import MARKED  # isort: skip

TOTAL = float(sum(POINTS.values()))


def fingerprint(*folders: Path) -> str:
    files = sorted(f for folder in folders for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    return hashlib.sha256(b"".join(str(f).encode() + f.read_bytes() for f in files)).hexdigest()


def column(term: Path, name: str) -> dict[str, float]:
    return {student: float(row[name]) for student, row in table(term).items()}


FEW = ("zq-right", "zq-reads_answers")


@apart
@pytest.mark.parametrize("size", [len(FEW), pytest.param(11, marks=pytest.mark.slow)])
def test_a_class_gets_the_marks_it_earned(size, released, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(classroom, "PATIENCE", 0.0)
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
        heard: list[str] = []
        report = classroom.grade(tmp_path / "submissions", term, limits=SHORT, tell=heard.append)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody called
            server.accept()
    assert report.submissions == size and report.failed == 0 and report.by == named()
    assert heard[:size] == [f"{k} of {size} submissions marked" for k in range(1, size + 1)]
    wanted = {student.name: float(student.points) for student in students}
    assert column(term, "automatic") == wanted
    assert column(term, "score") == wanted | {"zq-right": round(0.8 * TOTAL, 2)}, "two days late"
    for student in students:
        text = page(term, student.name)
        assert student.note in text and "HIDDEN TESTS" not in text and "full_marks" not in text, student.name
    assert untouched == fingerprint(*stay) and not list(tmp_path.rglob("was_here"))
    said = "".join([*capfd.readouterr(), *heard, str(report)])
    assert not [student.name for student in students if student.name in said], "no name in public"
    if size > len(FEW):  # grading again, nothing remembered: the same marks
        MARKED.clear()
        classroom.grade(tmp_path / "submissions", term, limits=SHORT)
        assert column(term, "automatic") == wanted


@pytest.mark.parametrize(
    ("hours", "share"), [(0, 0), (1, 0), (1.1, 0.1), (24, 0.1), (24.1, 0.2), (7 * 24, 0.7), (7 * 24 + 0.1, 1)]
)
def test_the_late_policy_by_hand(hours, share):
    assert LatePolicy().late_submission_penalty("x", 20.0, 3600.0 * hours) == pytest.approx(20.0 * share)


def folders(place: Path, *names: str) -> Path:
    for name in names:
        (place / name).mkdir(parents=True)
    return place


def test_bad_input_is_told_in_one_line(term, tmp_path):
    """And the folder above the one that was meant: five assignments were marked as five students, for Canvas."""
    (tmp_path / "empty").mkdir()
    one = folders(tmp_path / "in", "student")
    for folder, names, why in (
        (tmp_path / "none", None, "folder for every student.*does not exist"),
        (tmp_path / "empty", None, "every student.*is empty"),
        (one, None, "handed in; got none"),
        (one, ["hw3_trpo"], r"released ones that somebody handed in; got \['hw3_trpo'\]"),
        (folders(tmp_path / "above", "plain", NAME), None, f"in which {NAME} has an assignment's name"),
        (folders(tmp_path / "words", "Homework 2"), None, "in which Homework 2 has an assignment's name"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            classroom.grade(folder, term, names=names)
    (term / "roster.csv").write_text("student\nada\nbob\n")
    with pytest.raises(ValueError, match="none of the folders in .* is of anybody"):
        classroom.grade(one, term)
    (term / "pack.txt").write_text("questions of an earlier version\n")
    with pytest.raises(ValueError, match="has questions of a pack; version 0.2, which released it, marks it"):
        classroom.grade(one, term)
    assert not (term / "submitted").exists() and not (term / "canvas.csv").exists()


def test_an_error_stops_the_class_and_gives_no_marks(term, tmp_path, monkeypatch):
    hand_in([solved(f"s{k}") for k in range(4)], term / "release", tmp_path / "in")

    def broken(*args, **kwargs):
        raise RuntimeError("the process for students' code did not start")

    monkeypatch.setattr(marking, "run", broken)
    monkeypatch.setattr(marking, "MARKED", {})
    with pytest.raises(RuntimeError, match="did not start"):
        classroom.grade(tmp_path / "in", term, limits=SHORT, workers=1)
    assert not (term / "grades.csv").exists()


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
    example_term(tmp_path / "term")
    for name in NAMES:
        right, coded = answers_of(name).RIGHT, assignment(name).coded
        for student, answers in {
            "reference": {q.name: q.solution for q in coded},
            "right": {q.name: written(name, q.name, next(iter(right[q.name].values()))) for q in coded},
            "wrong": {q.name: next(iter(on_the_example(name, q.name).values())) for q in coded},
        }.items():
            notebook = nbformat.read(tmp_path / "term" / "release" / name / f"{name}.ipynb", as_version=4)
            (tmp_path / "in" / student).mkdir(parents=True, exist_ok=True)
            nbformat.write(filled(notebook, answers), tmp_path / "in" / student / f"{name}.ipynb")
    report = classroom.grade(tmp_path / "in", tmp_path / "term", limits=SHORT)
    assert (report.submissions, report.full, report.failed, report.notes) == (3 * len(NAMES), 2 * len(NAMES), 0, [])
    with (tmp_path / "term" / "questions_marks.csv").open() as file:
        for row in csv.DictReader(file):
            for q in assignment(row["assignment"]).coded:
                assert (float(row[q.name]) == q.points) == (row["student"] != "wrong"), (row, q.name)
