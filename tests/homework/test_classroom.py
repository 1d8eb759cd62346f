"""A class is released, graded and reported: the marks are the expected ones to the point, whatever was handed in."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from .hostile import MADE, NAME, POINTS, SOLUTION, class_of, hand_in, solved
from .trials import ROOT

from course import classroom, handout, intake, reports  # isort: skip - found by what trials puts on the path
from course import term as terms  # isort: skip
from course.graders import LatePolicy, to_run  # isort: skip
from course.isolation import Limits, named, offered, run  # isort: skip
from course.marking import MARKED, hidden, mark_cells  # isort: skip

UNSAFE = offered() != "bubblewrap"  # where no namespace is to be had, the weaker way is tried
SHORT = Limits(cell_seconds=3.0, case_seconds=2.0, question_seconds=8.0, unsafe=UNSAFE)
SETUP = {"id": "setup", "source": "import math\nimport torch\ntorch.set_default_dtype(torch.float64)"}


@contextlib.contextmanager
def listener():
    """A port on this machine, and who called it."""
    heard, server = [], socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.2)
    open_ = threading.Event()
    open_.set()

    def listen():
        while open_.is_set():
            with contextlib.suppress(TimeoutError):
                line, _ = server.accept()
                heard.append(line.recv(100))
                line.close()

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield server.getsockname()[1], heard
    finally:
        open_.clear()
        thread.join()
        server.close()


def fingerprint(folder: Path) -> str:
    files = sorted(f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    return hashlib.sha256(b"".join(str(f).encode() + f.read_bytes() for f in files)).hexdigest()


def table(term: Path) -> dict[str, dict[str, str]]:
    with (term / "grades.csv").open() as file:
        return {row["student"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("size", [5, pytest.param(35, marks=pytest.mark.slow)])
def test_a_class_gets_the_marks_it_earned(size, tmp_path, capfd):
    began = time.perf_counter()
    term, elsewhere = tmp_path / "term", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("as it was")
    handout.release(term, seed="example", guessable=True, names=[NAME], wheel=False)
    untouched = [
        fingerprint(folder) for folder in (elsewhere, term / "release", term / "source", ROOT / "book" / "homework")
    ]
    with listener() as (port, heard):
        students = class_of(term, elsewhere, port)[:size]
        assert len(students) == size
        hand_in(students, term / "release", tmp_path / "submissions")
        report = classroom.grade(tmp_path / "submissions", term, limits=SHORT)
    assert report.submissions == size and report.failed == 0 and report.by == named(offered())
    assert heard == [], "nobody was called"
    rows = table(term)
    assert rows.keys() == {student.name for student in students}
    found = {student.name: float(rows[student.name]["automatic"]) for student in students}
    assert found == {student.name: float(student.points) for student in students}
    for student in students:
        page = (term / "feedback" / student.name / NAME / f"{NAME}.html").read_text()
        assert student.note in page, student.name
        assert "HIDDEN TESTS" not in page and "full_marks" not in page
    assert untouched == [
        fingerprint(f) for f in (elsewhere, term / "release", term / "source", ROOT / "book" / "homework")
    ]
    assert not list(tmp_path.rglob("was_here"))
    said = "".join(capfd.readouterr())
    assert not [student.name for student in students if student.name in said + str(report)], "no name in public"
    assert time.perf_counter() - began < 600
    # Grading again, nothing remembered: the same marks.
    if size == 35:
        MARKED.clear()
        classroom.grade(tmp_path / "submissions", term, limits=SHORT)
        assert {name: row["automatic"] for name, row in table(term).items()} == {
            n: r["automatic"] for n, r in rows.items()
        }


@pytest.fixture(scope="module")
def term(tmp_path_factory):
    """A term whose students handed in: one everything right, and on time, late, far too late."""
    folder = tmp_path_factory.mktemp("course")
    due = {NAME: "2027-02-01T12:00+01:00"}
    handout.release(folder / "term", seed="example", guessable=True, names=[NAME], due=due, wheel=False)
    times = {
        "early": "2027-02-01T10:59:00+00:00",
        "grace": "2027-02-01T11:59:00+00:00",
        "late": "2027-02-03T10:00:00+00:00",
        "too_late": "2027-02-10T10:00:00+00:00",
    }
    hand_in([solved(name) for name in times], folder / "term" / "release", folder / "submissions")
    rows = "".join(f"{name},{NAME},{when}\n" for name, when in times.items())
    (folder / "submissions" / "times.csv").write_text("student,assignment,time\n" + rows)
    classroom.grade(folder / "submissions", folder / "term", limits=SHORT)
    return folder


def test_late_work_loses_what_the_policy_says(term):
    rows = table(term / "term")
    total = sum(POINTS.values())
    assert {name: float(row["score"]) for name, row in rows.items()} == {
        "early": total, "grace": total, "late": round(0.8 * total, 2), "too_late": 0.0,
    }  # fmt: skip
    assert {float(row["automatic"]) for row in rows.values()} == {float(total)}
    assert rows["late"]["handed_in"] == "2027-02-03 10:00:00+00:00"


@pytest.mark.parametrize(
    ("hours", "share"), [(0, 0), (1, 0), (1.1, 0.1), (24, 0.1), (24.1, 0.2), (7 * 24, 0.7), (7 * 24 + 0.1, 1)]
)
def test_the_late_policy_by_hand(hours, share):
    assert LatePolicy().late_submission_penalty("x", 20.0, 3600.0 * hours) == pytest.approx(20.0 * share)


def test_marks_that_people_gave_stay_when_the_class_is_graded_again(term):
    api = terms.opened(term / "term")
    with terms.gradebook(api) as book:
        grade = book.find_grade("q1-answer", NAME, NAME, "early")
        grade.manual_score = 3.0
        book.db.commit()
    classroom.grade(term / "submissions", term / "term", limits=SHORT)
    assert float(table(term / "term")["early"]["score"]) == sum(POINTS.values()) + 3.0
    assert float(table(term / "term")["grace"]["score"]) == sum(POINTS.values())
    # Marks that come after the late policy was applied are under it all the same.
    with terms.gradebook(terms.opened(term / "term")) as book:
        for name in ("late", "too_late"):
            book.find_grade("q1-answer", NAME, NAME, name).manual_score = 3.0
        book.db.commit()
    reports.write_reports(term / "term")
    rows = table(term / "term")
    assert float(rows["late"]["score"]) == pytest.approx(0.8 * (sum(POINTS.values()) + 3.0), abs=0.01)
    assert float(rows["too_late"]["score"]) == 0.0 and float(rows["too_late"]["automatic"]) == sum(POINTS.values())


def test_who_hands_in_nothing_more_keeps_the_marks(term, tmp_path):
    """A second folder, in which somebody has no file for this assignment."""
    hand_in([solved("newcomer")], term / "term" / "release", tmp_path / "more")
    (tmp_path / "more" / "early").mkdir()
    report = classroom.grade(tmp_path / "more", term / "term", limits=SHORT)
    rows = table(term / "term")
    assert report.submissions == 1 and float(rows["newcomer"]["automatic"]) == sum(POINTS.values())
    assert float(rows["early"]["automatic"]) == sum(POINTS.values())


def test_a_learning_management_system_can_import_the_table(term):
    """Totals are empty until people have marked their part, and in tables that say so in their name."""
    reports.write_reports(term / "term", provisional=True)
    rows = table(term / "term")
    for suffix in ("", "_provisional"):
        moodle = list(csv.reader((term / "term" / f"moodle{suffix}.csv").open()))
        canvas = list(csv.reader((term / "term" / f"canvas{suffix}.csv").open()))
        assert moodle[0] == ["Username", NAME] and canvas[0] == ["Student", "ID", "SIS Login ID", "Section", NAME]
        assert canvas[1][0] == "Points Possible" and float(canvas[1][4]) == MADE.points
        wanted = {name: row["score"] if suffix or row["final"] == "yes" else "" for name, row in rows.items()}
        assert {row[0]: row[1] for row in moodle[1:]} == wanted
        assert {row[2]: row[4] for row in canvas[2:]} == wanted


def test_nbgrader_by_itself_gives_the_same_marks(term):
    """As on a JupyterHub: nbgrader's own command in the term's folder, no word of this package's."""
    command = [sys.executable, "-m", "nbgrader", "autograde", NAME, "--force", "--student", "late"]
    done = subprocess.run(command, cwd=term / "term", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    autograded = nbformat.read(term / "term" / "autograded" / "late" / NAME / f"{NAME}.ipynb", as_version=4)
    marked = [c for c in autograded.cells if c.metadata.get("nbgrader", {}).get("grade_id", "").endswith("-marked")]
    assert len(marked) == 3 and all("Every hidden case agrees" in cell.outputs[0].text for cell in marked)


@pytest.mark.slow  # two attacks run until their limits
def test_without_a_namespace_limits_and_a_guard_remain(tmp_path):
    """The fallback: attacks that it must still withstand, and the honest work beside them."""
    with listener() as (port, heard):
        students = {s.name: s for s in class_of(tmp_path, tmp_path, port)}
        for name in ("reads_answers", "writes", "calls_home", "endless", "exits"):
            answers = students[f"zq-{name}"].answers
            cells = [SETUP, *({"id": f"{q}-code", "source": text} for q, text in answers.items())]
            marks, said = mark_cells(MADE, cells, "example", limits=replace(SHORT, unsafe=True), by="process")
            earned = {question for question, mark in marks.items() if mark.full}
            # Here a cell that would delete a folder ends at that line.
            assert said.by == "process" and earned == {"q3", "q4"}, (name, marks)
    assert heard == [] and list(tmp_path.iterdir()) == []


def test_without_a_namespace_a_released_notebook_gets_its_marks(term):
    """Whole, its first cell included; and a folder that is closed is not read."""
    notebook = nbformat.read(term / "term" / "submitted" / "early" / NAME / f"{NAME}.ipynb", as_version=4)
    secret = term / "term" / "seed.txt"
    reads = {"id": "own", "source": f"open({str(secret)!r}).read()"}
    closed = Limits(closed=(str(term / "term"),), unsafe=True)
    marks, said = mark_cells(MADE, [*to_run(notebook), reads], "example", limits=closed, by="process")
    assert all(mark.full for mark in marks.values()), marks
    assert said.cells == {"own": "PermissionError: this file is not open to homework"}


def test_the_world_of_the_child_holds_no_answers(tmp_path):
    """What is in sight inside: Python and the two packages, read-only; nothing of the homework, of home, of the network."""
    if offered() != "bubblewrap":
        pytest.skip("bubblewrap is not at hand here")
    hidden_places = [str(ROOT / "book"), str(ROOT / "tests"), str(ROOT / ".git"), str(tmp_path), "/etc/passwd", "/sys"]
    look = f"""
import os, numpy
def twisted_gae(*inputs):
    seen = [float(os.path.exists(place)) for place in {hidden_places!r}]
    for place in ("/", "/usr", {str(ROOT / "minerva_lite")!r}, os.path.dirname(numpy.__file__)):
        try:
            open(place + "/was_here", "w").close()
            seen.append(1.0)
        except OSError:
            seen.append(0.0)
    return torch.tensor([*seen, float(sum(name.isdigit() for name in os.listdir("/proc")))])
"""
    question = MADE.question("q2")
    cases = {"q2": hidden(question, "example")[0][:1]}
    said = run([SETUP, {"id": "q2-code", "source": look}], [question], cases, limits=SHORT)
    (part,) = said.answers["q2", "one step"]
    *sight, processes = part["data"]
    assert sight == [0.0] * 10 and processes <= 6


def test_a_grader_that_cannot_start_gives_no_marks(monkeypatch):
    """Trouble on this side is an error, and not a class full of zeros."""
    from course import isolation

    monkeypatch.setattr(isolation, "PYTHON", shutil.which("false"))
    with pytest.raises(RuntimeError, match="did not start"):
        mark_cells(MADE, [SETUP], "example", limits=replace(SHORT, unsafe=True), by="process")


def test_bad_input_is_told_in_one_line(tmp_path, term):
    for folder, why in ((tmp_path / "none", "folder for every student"), (tmp_path, "folder for every student")):
        with pytest.raises(ValueError, match=why):
            classroom.grade(folder, term / "term")
    with pytest.raises(ValueError, match="handed in; got none"):
        (tmp_path / "student").mkdir()
        classroom.grade(tmp_path, term / "term")
    with pytest.raises(ValueError, match=r"released ones that somebody handed in; got \['hw3_trpo'\]"):
        classroom.grade(term / "submissions", term / "term", names=["hw3_trpo"])
    with pytest.raises(ValueError, match="wanted one of hw1_mdp"):
        classroom.grade(term / "submissions", term / "term", names=["hw9"])
    with pytest.raises(ValueError, match="its seed is another one"):
        handout.release(term / "term", seed="other", names=[NAME], wheel=False)


def test_without_a_namespace_nothing_is_marked_unless_asked(monkeypatch, tmp_path, term):
    with pytest.raises(RuntimeError, match="bubblewrap: wanted, to run students' code apart"):
        mark_cells(MADE, [SETUP], "example", limits=replace(SHORT, unsafe=False), by="process")


CASES = [
    "one step",
    "no episode ends",
    "many short episodes",
    "no discount",
    "no trace",
    "everything terminates or is cut",
]


def forging(frames: str) -> list[dict[str, str]]:
    """The right answers, but question 2 writes to every descriptor what the expression `frames` gives, as bytes."""
    attack = f"""
import json, os
def twisted_gae(*inputs):
    cases = {CASES!r}
    data = {frames}
    for descriptor in range(3, 32):
        try:
            os.set_blocking(descriptor, True)
            os.write(descriptor, data)
        except OSError:
            pass
    os._exit(17)
"""
    answers = SOLUTION | {"q2": attack}
    return [SETUP, *({"id": f"{q}-code", "source": source} for q, source in answers.items())]


@pytest.mark.parametrize(("frames", "kept"), [
    # Numbers too large to convert, shapes that would take hours to multiply, lines without end, words for numbers.
    ("b''.join(json.dumps(dict(question='q2', case=c, parts=[dict(shape=[1, 3], data=[10**400, 0, 0])])).encode() + b'\\n' for c in cases)", "q3 q4"),
    ("b''.join(json.dumps(dict(question='q2', case=c, parts=[dict(shape=[10**4000] * 20, data=[0])])).encode() + b'\\n' for c in cases)", "q3 q4"),
    ("b''.join(json.dumps(dict(question='q2', case=c, parts=[dict(shape=float('inf'), data=None)])).encode() + b'\\n' for c in cases)", "q3 q4"),
    ("b''.join(json.dumps(dict(question='q2', case=c, parts='a')).encode() + b'\\n' for c in cases)", "q3 q4"),
    ("b'\\n' * 2**20", "q3 q4"),
    ("b'[\"begins\"]\\n' + b'[' * 100_000 + b'\\n'", "q3 q4"),
    ("json.dumps(dict(question='q2', error='\\ud800 <script>')).encode() + b'\\n'", "q3 q4"),
], ids=["huge", "shape", "infinite", "words", "newlines", "nested", "surrogate"])  # fmt: skip
def test_forged_frames_earn_nothing_and_stop_nobody(frames, kept):
    if UNSAFE:
        pytest.skip("bubblewrap is not at hand here")
    began = time.perf_counter()
    marks, said = mark_cells(MADE, forging(frames), "example", limits=SHORT)
    assert {question for question, mark in marks.items() if mark.full} == set(kept.split()), marks
    assert time.perf_counter() - began < 40
    "".join(mark.reason for mark in marks.values()).encode("utf8")  # it can be written


def test_the_machine_is_out_of_reach():
    """Not the kernel's settings, not memory as files, not memory by many processes, not a right to more processes."""
    if UNSAFE:
        pytest.skip("bubblewrap is not at hand here")
    look = """
import os
def twisted_gae(*inputs):
    seen = []
    for path in ("/proc/sys/kernel/core_pattern", "/proc/self/oom_score_adj", "/dev/was_here", "/proc/sys/vm/drop_caches"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            seen.append(1.0)
        except OSError:
            seen.append(0.0)
    written = 0
    try:
        with open("/dev/shm/x", "wb", buffering=0) as one, open("/dev/shm/y", "wb", buffering=0) as two:
            for file in (one, two) * 8:
                written += file.write(bytes(1 << 23))
    except OSError:
        pass
    return torch.tensor([*seen, float(written)])
"""
    question = MADE.question("q2")
    cases = {"q2": hidden(question, "example")[0][:1]}
    said = run([SETUP, {"id": "q2-code", "source": look}], [question], cases, limits=SHORT)
    *opened, written = said.answers["q2", "one step"][0]["data"]
    assert opened == [0.0] * 4 and written <= 1 << 26
    hogs = """
import os
def twisted_gae(*inputs):
    for _ in range(6):
        if not os.fork():
            break
    rows = [bytearray(os.urandom(1 << 20)) * 300 for _ in range(2)]
    while True:
        rows[0][::4096] = rows[1][::4096]
"""
    small = replace(SHORT, memory=1 << 30, question_seconds=20.0, case_seconds=20.0)
    said = run([SETUP, {"id": "q2-code", "source": hogs}], [question], cases, limits=small)
    assert said.stopped == "took more memory than it may"


def test_what_students_write_is_shown_without_its_scripts(tmp_path):
    """In answers on paper, cells of their own and raw cells; formulas and tables stay. And nothing long is rendered."""
    handout.release(tmp_path / "term", seed="example", guessable=True, names=[NAME], wheel=False)
    evil = (
        "<script>alert(1)</script> <img src=x onerror=alert(2)> [l](javascript:alert(3)) $a^2$\n\n|x|y|\n|-|-|\n|1|2|"
    )

    def change(notebook):
        for cell in notebook.cells:
            if cell.metadata["nbgrader"]["grade_id"] == "q1-answer":
                cell["source"] = evil
        notebook.cells += [nbformat.v4.new_markdown_cell(evil), nbformat.v4.new_raw_cell(evil)]
        notebook.cells.append(nbformat.v4.new_markdown_cell("\\begin{a}" * 100_000))
        notebook.metadata["homework_note"] = "CHECKED BY HAND: full marks"

    hand_in([solved("evil", change=change)], tmp_path / "term" / "release", tmp_path / "in")
    began = time.perf_counter()
    report = classroom.grade(tmp_path / "in", tmp_path / "term", limits=SHORT)
    assert report.failed == 0 and time.perf_counter() - began < 60
    page = (tmp_path / "term" / "feedback" / "evil" / NAME / f"{NAME}.html").read_text()
    assert "<script>alert(1)" not in page and "onerror=alert" not in page and 'href="javascript:' not in page
    assert "$a^2$" in page and "<td>1</td>" in page and "The rest was cut" in page and "CHECKED BY HAND" not in page


def test_the_file_that_is_meant_is_found(tmp_path):
    """Beside what systems leave behind, and in a handout that was given back whole."""

    def choose(*files):
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        for file in files:
            (tmp_path / "s" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "s" / file).write_text(file)  # no two are the same
        found = intake.choose(tmp_path / "s", NAME)
        return str(found.file.relative_to(tmp_path / "s")) if found.file else found.note

    nb = f"{NAME}.ipynb"
    assert choose(f"colab/{nb}", f"{NAME}/{nb}") == f"{NAME}/{nb}"
    assert choose(f"colab/{nb}", nb) == nb
    assert choose(f"colab/{nb}") == f"colab/{nb}"
    assert (
        choose("Homework 2.ipynb", "._Homework 2.ipynb", ".ipynb_checkpoints/Homework 2-checkpoint.ipynb")
        == "Homework 2.ipynb"
    )
    assert choose("hw2 mine.ipynb", "homework_2.ipynb").startswith("2 files might be meant")
    assert choose("hw21.ipynb", "hw3_trpo.ipynb").endswith(f"wanted {nb}; found: hw21.ipynb, hw3_trpo.ipynb.")
    assert choose(f"__MACOSX/{nb}", "notes.txt").endswith(f"wanted {nb}; found: notes.txt.")
    assert choose(f"__MACOSX/{nb}") == intake.NOTHING


def test_too_much_is_told_and_the_rest_of_the_class_is_marked(tmp_path, term):
    base = nbformat.read(term / "term" / "release" / NAME / f"{NAME}.ipynb", as_version=4)

    def many(notebook):
        notebook.cells += [nbformat.v4.new_code_cell("1") for _ in range(301)]

    def large(notebook):
        notebook.cells += [nbformat.v4.new_code_cell("# " + "x" * 10**6) for _ in range(3)]

    mark = {"many": many, "large": large}
    hand_in([solved(name, change=change) for name, change in mark.items()], term / "term" / "release", tmp_path)
    assert "more than 300 cells" in intake.taken(tmp_path / "many", NAME, base).note
    assert "larger than 2 MB" in intake.taken(tmp_path / "large", NAME, base).note
    text = (tmp_path / "many" / f"{NAME}.ipynb").read_text()
    hand_in([solved("bom")], term / "term" / "release", tmp_path)
    file = tmp_path / "bom" / f"{NAME}.ipynb"
    file.write_text("\ufeff" + file.read_text())
    assert intake.taken(tmp_path / "bom", NAME, base).note == "" and text


def test_a_link_is_not_followed(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("{}")
    (tmp_path / "class" / "student").mkdir(parents=True)
    (tmp_path / "class" / "student" / f"{NAME}.ipynb").symlink_to(secret)
    assert intake.choose(tmp_path / "class" / "student", NAME).file is None


@pytest.mark.slow
def test_the_reference_has_full_marks_through_nbgrader_twice(tmp_path):
    """All assignments, two students with the reference, graded with one thread and, anew, with two."""
    from course import NAMES, assignment

    handout.release(tmp_path / "term", seed="example", guessable=True, wheel=False)
    for student in ("one", "two"):
        for name in NAMES:
            notebook = nbformat.read(tmp_path / "term" / "release" / name / f"{name}.ipynb", as_version=4)
            for cell in notebook.cells:
                grade_id = cell.metadata["nbgrader"]["grade_id"]
                if grade_id.endswith("-code"):
                    cell["source"] = assignment(name).question(grade_id.removesuffix("-code")).solution
            (tmp_path / "in" / student).mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, tmp_path / "in" / student / f"{name}.ipynb")
    for threads in (1, 2):
        MARKED.clear()
        report = classroom.grade(tmp_path / "in", tmp_path / "term", limits=replace(SHORT, threads=threads))
        assert report.submissions == report.full == 2 * len(NAMES) and report.failed == 0 and report.notes == []
        with (tmp_path / "term" / "grades.csv").open() as file:
            for row in csv.DictReader(file):
                assert float(row["automatic"]) == sum(q.points for q in assignment(row["assignment"]).coded), row


@pytest.mark.slow
@pytest.mark.parametrize("place", range(8))
def test_each_wrong_answer_loses_the_marks_of_its_question_and_no_other(place):
    """Wrong answers handed in beside right ones of another kind, through the process apart."""
    from concurrent.futures import ThreadPoolExecutor

    from course import NAMES, assignment

    from .trials import answers_of, edited

    made, answers = assignment(NAMES[place]), answers_of(NAMES[place])

    def earned(question: str, story: str, edits) -> set[str]:
        sources = {q.name: next(iter(answers.RIGHT[q.name].values())) for q in made.coded}
        asked = made.question(question)
        sources[question] = edits if isinstance(edits, str) else edited(asked.solution, edits)
        cells = [SETUP, *({"id": f"{q.name}-setup", "source": q.setup} for q in made.coded if q.setup)]
        cells += [{"id": f"{name}-code", "source": source} for name, source in sources.items()]
        marks, _ = mark_cells(made, cells, "example", limits=replace(Limits(), unsafe=UNSAFE))
        return {name for name, mark in marks.items() if mark.full}

    # Six a question; that all of them are wrong is tested in this process (test_questions.py).
    wrong = [(q.name, *each) for q in made.coded for each in list(answers.WRONG[q.name].items())[:6]]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda each: earned(*each), wrong))
    everything = {q.name for q in made.coded}
    assert [(q, story, got) for (q, story, _), got in zip(wrong, found, strict=True) if got != everything - {q}] == []
