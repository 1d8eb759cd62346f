"""Points by share, pages that teach and are written when they changed, tables that say what is still to be marked."""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import json
import shutil
from pathlib import Path

import nbformat
import pytest
import torch
from nbgrader.utils import determine_grade

from .hostile import NAME, POINTS, SOLUTION, Student, hand_in, wrong
from .trials import SEEDS, answers_of, assignment, edited, points_of, verdict, worthless

from course import NAMES, classroom, feedback, handout, marking, pages, reports, statistics  # isort: skip - see trials
from course import term as terms  # isort: skip
from course.graders import shown  # isort: skip
from course.inside import called, plain  # isort: skip
from course.isolation import Limits, Said  # isort: skip
from course.marking import Mark, counting, earned, hidden  # isort: skip
from course.marks import Given, Work  # isort: skip
from course.rendering import Failed  # isort: skip

MADE = assignment(NAME)
CODED = [(name, question.name) for name in NAMES for question in assignment(name).coded]
BEFORE, AFTER = (datetime.datetime(2027, 2, day, tzinfo=datetime.UTC) for day in (14, 16))
REVEAL = f"{NAME}=2027-02-15T08:00+01:00"


def in_this_process(cells, questions, cases, **kwargs) -> Said:
    """In place of the process apart, for answers that are known to be harmless."""
    said, space = Said("this process"), {}
    with marking.ALONE, default_type_kept():
        for cell in cells:
            try:
                exec(cell["source"], space)
            except Exception as error:
                said.cells[cell["id"]] = f"{type(error).__name__}: {error}"
        for question in questions:
            for case in cases[question.name]:
                try:
                    answer = space[question.function]
                    got = called(question.call, answer, marking.copied(case.inputs), [*question.leaves])
                    said.answers[question.name, case.name] = plain(got)
                except Exception as error:
                    said.errors[question.name, case.name] = f"{type(error).__name__}: {error}"
    return said


@contextlib.contextmanager
def default_type_kept():
    before = torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def answering(text: str):
    def change(notebook) -> None:
        for cell in notebook.cells:
            if cell.metadata["nbgrader"]["grade_id"] in ("q1-answer", "q5-answer"):
                cell["source"] = text

    return change


IDLE = {q.name: q.faulty if q.fault else f"{q.header}\n    return 0.0 * {[*q.example.inputs][0]}" for q in MADE.coded}
CLASS = [
    Student("right", "q2 q3 q4", dict(SOLUTION), answering("A proof.")),
    wrong("partly", "q2", "the flag of the next step (fault 4)"),
    Student("idle", "", IDLE),
    Student("untouched", ""),
]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A term with four submissions, graded in this process; copied for every test."""
    folder = tmp_path_factory.mktemp("marks")
    handout.release(folder / "term", seed="example", names=[NAME], wheel=False)
    hand_in(CLASS, folder / "term" / "release", folder / "in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marking, "run", in_this_process)
        assert classroom.grade(folder / "in", folder / "term", limits=Limits(unsafe=True)).failed == 0
    return folder


@pytest.fixture
def term(graded, tmp_path, monkeypatch):
    shutil.copytree(graded, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(marking, "run", in_this_process)
    return tmp_path / "term"


def table(term: Path, name: str) -> dict[str, dict[str, str]]:
    with (term / name).open() as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def page(term: Path, student: str) -> str:
    return (term / "feedback" / student / NAME / f"{NAME}.html").read_text()


def by_hand(term: Path, student: str, **points: float) -> None:
    """What the formgrader does when a person types points."""
    with terms.gradebook(terms.opened(term)) as book:
        for question, number in points.items():
            grade = book.find_grade(f"{question}-answer", NAME, NAME, student)
            grade.manual_score, grade.needs_manual_grade = number, False
        book.db.commit()


def test_points_are_a_share_of_the_cases_that_count():
    counted = frozenset("abcdef")
    assert earned(6, counted, set()) == 6 and earned(6, counted, {"a"}) == 5.0
    assert earned(5, counted, {"a"}) == 4.0, "25/6 is rounded down to half points"
    assert earned(4, counted, {"a", "b", "c", "d", "e"}) == 0.5 and earned(4, counted, set("abcdef")) == 0.0
    assert earned(6, counted, {"x"}) == 5.0, "a case that no work passes costs one that counts"
    assert earned(6, counted, {"a", "x"}) == 4.0 and earned(2, frozenset("a"), {"a", "x"}) == 0.0
    assert earned(4, frozenset(), {"x"}) == 0.0, "nothing counts: all or nothing"


@pytest.mark.parametrize(("name", "question"), CODED)
def test_what_takes_no_work_earns_nothing(name, question):
    """0, 1, an input as it came, and a fault as it was handed out."""
    asked = assignment(name).question(question)
    counted = counting(asked, "example")
    assert asked.judge or counted, "a share can be earned"
    for got in [] if asked.judge else worthless(asked, "example"):
        assert earned(asked.points, counted, {case for case, why in got.items() if why}) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "question"), CODED)
def test_what_takes_no_work_earns_nothing_in_other_terms(name, question):
    for seed in SEEDS[1:6]:
        asked = assignment(name, seed).question(question)
        for got in [] if asked.judge else worthless(asked, seed):
            wrong_cases = {case for case, why in got.items() if why}
            assert earned(asked.points, counting(asked, seed), wrong_cases) == 0.0, seed


def test_a_wrong_edge_costs_its_share_and_the_package_next_to_nothing():
    asked, answers = assignment("hw3_trpo").question("q2"), answers_of("hw3_trpo")
    shares = []
    for edits in answers.WRONG["q2"].values():
        got = verdict(asked, edits if isinstance(edits, str) else edited(asked.solution, edits))
        points = earned(asked.points, counting(asked, "example"), {case for case, why in got.items() if why})
        assert points == points_of(asked, got)
        shares.append(points / asked.points)
    assert max(shares) > 0.8 and min(shares) == 0.0


@pytest.mark.parametrize(("points", "of"), [(0.0, 6), (3.5, 6), (6, 6)])
def test_nbgrader_reads_the_points(points, of):
    cell = nbformat.v4.new_code_cell("", outputs=shown(Mark("q2", points, of, "some reason"), "bubblewrap", ""))
    cell.metadata["nbgrader"] = {"grade": True, "solution": False, "points": of}
    assert determine_grade(cell) == (points, of)
    assert f"{points:g} of {of} points. some reason" in json.dumps(cell.outputs)


def test_a_reason_says_how_many_cases_fail_and_which():
    names = ["one step", "no trace", "long"]
    counted = frozenset(names[1:])
    assert feedback.reason(names, {}, counted) == "Every hidden case agrees (3)."
    told = feedback.reason(names, {"no trace": "the value is too small"}, frozenset(names))
    assert told == '2 of 3 hidden cases agree; not: "no trace". Case "no trace": the value is too small.'
    told = feedback.reason(names, {"no trace": "x"}, counted)
    assert "Of the 2 that count 1 agree" in told and 'Case "no trace": x.' in told
    assert feedback.reason(names, dict.fromkeys(names, "NotImplementedError: "), counted) == feedback.UNWRITTEN
    mark = Mark("q2", 0.0, 6, feedback.UNWRITTEN)
    assert "written here" not in shown(mark, "x", "Nothing was handed in.")[0].evalue


@pytest.mark.parametrize(("got", "told"), [
    (4.0, "the value is too large, off by the order of 0.1"),
    (3.1234, "the value is too small, off by the order of 0.1"),
    (-3.5, "the value has the wrong sign"), (float("nan"), "the value is not a number (NaN)"),
    (float("inf"), "the value is infinite"), (3.5 + 4e-4, "the value is too large, off by the order of 0.0001"),
])  # fmt: skip
def test_a_number_is_told_by_its_side_and_its_order(got, told):
    assert feedback.differs([{"shape": [], "data": [got]}], [torch.tensor(3.5).double()]) == told


def test_an_infinite_number_is_told_as_such():
    right = [torch.tensor([1.0, float("inf")]).double()]
    assert feedback.differs([{"shape": [2], "data": [1.0, 2.0]}], right).endswith("1 of them is finite and must not be")


def test_shares_reach_the_gradebook_and_the_page(graded):
    rows = table(graded / "term", "grades.csv")
    assert {s.name: float(rows[s.name]["automatic"]) for s in CLASS} == {s.name: s.points for s in CLASS}
    assert 0.0 < CLASS[1].points - POINTS["q3"] - POINTS["q4"] < POINTS["q2"]
    questions = table(graded / "term", "questions_marks.csv")
    assert float(questions["partly"]["q2"]) == CLASS[1].points - POINTS["q3"] - POINTS["q4"]
    assert questions["right"]["q1"] == "" and questions["right"]["q2_automatic"] == "6.0"
    failed = [case for case, why in verdict(MADE.question("q2"), CLASS[1].answers["q2"]).items() if why]
    text = page(graded / "term", "partly")
    assert all(f"&quot;{case}&quot;" in text or f'"{case}"' in text for case in failed), failed


def test_what_a_person_has_not_marked_is_said_and_not_counted(term):
    """On the page, in grades.csv, and by an empty total in what is imported, until the last part is marked."""
    text = page(term, "right")
    assert "Not yet marked, of 4.0" in text and "not yet marked: 1, 5)" in text and "Score: nan" not in text
    assert "Score: 0.0 / 4.0" not in text and "Score: 6.0 / 6.0" in text
    row = table(term, "grades.csv")["right"]
    assert row["not_yet_marked"] == "q1 q5" and row["final"] == "no"
    assert table(term, "grades.csv")["untouched"]["final"] == "yes", "what is empty is marked"

    def totals(file: str) -> dict[str, str]:
        return {row[0]: row[1] for row in csv.reader((term / file).open())}

    assert totals("moodle.csv")["right"] == "" and totals("moodle.csv")["untouched"] == "0.0"
    reports.write_reports(term, provisional=True)
    assert totals("moodle.csv")["right"] == "" and totals("moodle_provisional.csv")["right"] == "14.0"
    by_hand(term, "right", q1=3.0)
    reports.write_reports(term)
    assert not (term / "moodle_provisional.csv").exists() and not (term / "canvas_provisional.csv").exists()
    assert totals("moodle.csv")["right"] == "" and "not yet marked: 5)" in page(term, "right")
    by_hand(term, "right", q5=0.0)
    reports.write_reports(term)
    assert totals("moodle.csv")["right"] == "17.0" and table(term, "grades.csv")["right"]["final"] == "yes"
    assert "(Score: 17.0 / 23.0)" in page(term, "right") and "ot yet marked" not in page(term, "right")
    canvas = list(csv.reader((term / "canvas.csv").open()))
    assert [row[4] for row in canvas if row[2] == "right"] == ["17.0"]


def test_only_pages_that_changed_are_written(term, monkeypatch):
    asked = []
    real = pages.pages
    monkeypatch.setattr(
        pages, "pages", lambda requests, workers: asked.append(len(requests)) or real(requests, workers)
    )
    before = page(term, "partly")
    assert reports.write_reports(term).pages == 0 and asked == []
    by_hand(term, "partly", q1=2.0)
    assert reports.write_reports(term).pages == 1 and asked == [1] and page(term, "partly") != before
    (term / "feedback" / "idle" / NAME / f"{NAME}.html").write_text("nbgrader's own")
    assert reports.write_reports(term).pages == 1 and "nbgrader's own" not in page(term, "idle")
    with terms.gradebook(terms.opened(term)) as book:
        book.find_comment("q1-answer", NAME, NAME, "right").manual_comment = "Well derived."
        book.db.commit()
    assert reports.write_reports(term).pages == 1 and "Well derived." in page(term, "right")


def test_a_page_that_cannot_be_made_is_a_failure_and_leaves_the_old_one(term, monkeypatch):
    by_hand(term, "partly", q1=2.0)
    before = page(term, "partly")
    with monkeypatch.context() as patch:
        patch.setattr(pages, "pages", lambda requests, workers: [Failed("memory") for _ in requests])
        report = reports.write_reports(term)
        assert report.failed == 1 and report.pages == 0 and "1 pages could not be made" in str(report)
        again = classroom.grade(term.parent / "in", term, limits=Limits(unsafe=True))
    assert page(term, "partly") == before and "memory" in (term / "grading.log").read_text()
    assert again.failed == 1 and "no failure" not in str(again)
    assert reports.write_reports(term).pages == 1 and page(term, "partly") != before, "it is tried again"


def test_marks_of_people_hold_while_the_answer_is_the_same(term):
    """Grading the class again queues nothing that was marked and did not change; what changed waits for a person."""
    by_hand(term, "right", q1=3.0, q5=4.0)
    classroom.grade(term.parent / "in", term, limits=Limits(unsafe=True))
    row = table(term, "grades.csv")["right"]
    assert (row["final"], row["to_mark_by_hand"], row["score"]) == ("yes", "0", "21.0")
    again = Student("right", "", dict(SOLUTION), answering("Another proof."))
    hand_in([again], term / "release", term.parent / "again")
    classroom.grade(term.parent / "again", term, limits=Limits(unsafe=True))
    row = table(term, "grades.csv")["right"]
    assert (row["final"], row["to_mark_by_hand"], row["not_yet_marked"]) == ("no", "2", "q1 q5")


def test_a_failing_cases_inputs_are_shown_after_the_date_and_not_before(term):
    asked = MADE.question("q2")
    failed = [case for case, why in verdict(asked, CLASS[1].answers["q2"]).items() if why]
    reports.write_reports(term, reveal=[REVEAL], now=BEFORE)
    assert "to try it" not in page(term, "partly") and "torch.tensor([[-" not in page(term, "partly")
    report = reports.write_reports(term, now=AFTER)  # the date is kept in the term
    assert "to try it" in page(term, "partly") and "to try it" not in page(term, "right")
    assert report.pages == 3, "of those who failed a case"
    text = pages.reproduced(asked, "example", failed)
    space: dict = {}
    exec("import torch", space)
    exec(asked.solution, space)
    *lines, call = text.strip().split("\n\n", 1)[1].splitlines()
    exec("\n".join(lines), space)
    case = next(case for case in hidden(asked, "example")[0] if f'"{case.name}"' in text)
    right = hidden(asked, "example")[1][case.name][0]
    assert case.name in failed and torch.allclose(eval(call, space), right, atol=1e-3)
    assert len(text) < 2700
    with pytest.raises(ValueError, match=r"reveal: wanted NAME=TIME .* got 'hw2_gae=2027-02-15T08:00'"):
        reports.write_reports(term, reveal=[f"{NAME}=2027-02-15T08:00"])


def test_a_large_case_is_not_shown():
    many = [case.name for case in hidden(MADE.question("q2"), "example")[0] if case.inputs["reward"].numel() > 90]
    assert many and pages.reproduced(MADE.question("q2"), "example", many) == ""


def work(student: str, *points: float | None, failed: tuple[str, ...] = ()) -> Work:
    given = [Given(f"q{n}", f"q{n}-marked", 4.0, mark, None, 0.0, mark is None) for n, mark in enumerate(points, 1)]
    given[0].failed = [*failed]
    return Work(student, NAME, NAME, None, 0.0, 0.0, given, {})


def test_statistics_by_hand():
    marks = [(4.0, 4.0, None), (4.0, 3.0, 1.0), (2.0, 2.0, 1.0), (0.0, 1.0, 1.0), (0.0, 0.0, 1.0)]
    found = [work(f"zq{n}", *row, failed=("edge", "zero")[: n // 2]) for n, row in enumerate(marks)]
    one, two, three = statistics.statistics_of(found)
    assert (one["mean_share"], one["share_with_full"], one["share_with_none"]) == (0.5, 0.4, 0.4)
    assert (one["most_failed_case"], one["failed_by"]) == ("edge", 3)
    assert two["discrimination"] == 0.884 and three["marked"] == 4 and three["discrimination"] == ""
    lines = "\n".join(statistics.summary(found))
    assert "5 submissions" in lines and "1 still with parts" in lines and "zq" not in lines


def test_the_report_names_nobody_in_public(term):
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        print(reports.write_reports(term))
    assert "4 submissions" in heard.getvalue() and not [s.name for s in CLASS if s.name in heard.getvalue()]
