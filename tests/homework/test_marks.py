"""Points by share, pages that teach and are written when they changed, tables that say what is still to be marked."""

from __future__ import annotations

import ast
import contextlib
import csv
import datetime
import json
import re
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
import torch
from bs4 import BeautifulSoup
from nbgrader.utils import determine_grade

from .hostile import NAME, POINTS, SOLUTION, Student, hand_in, wrong
from .trials import SEEDS, answers_of, assignment, edited, points_of, verdict, worthless

from course import NAMES, classroom, feedback, handout, item_analysis, marking, pages, reports, similar, zips  # isort: skip - see trials
from course import __main__ as command  # isort: skip
from course import term as terms  # isort: skip
from course.graders import shown  # isort: skip
from course.captured import called, plain  # isort: skip
from course.isolation import Limits, Said  # isort: skip
from course.marking import Mark, counting, earned, hidden  # isort: skip
from course.marks import Given, Work  # isort: skip
from course.tried_out import tried_out  # isort: skip
from course.apart import Failed  # isort: skip

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
    handout.release(folder / "term", seed="example", guessable=True, names=[NAME], wheel=False)
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
    # Near the edges most points stay: one case of six lost, or two. What is wrong everywhere earns nothing.
    assert max(shares) >= 0.5 and min(shares) == 0.0


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
    found = BeautifulSoup(page(graded / "term", "partly"), "html.parser")
    assert not found.select(".output_execute_result") and "Out[" not in found.get_text(), "the words say it already"
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
    assert "moodle_provisional.csv count what is marked so far; a report without" in str(
        reports.write_reports(term, provisional=True)
    )
    assert totals("moodle.csv")["right"] == "" and totals("moodle_provisional.csv")["right"] == "14.0"
    by_hand(term, "right", q1=3.0)
    assert "are deleted; PROVISIONAL=1 writes them anew" in str(reports.write_reports(term))
    assert "PROVISIONAL" not in str(reports.write_reports(term))
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
        assert report.failed == 1 and report.pages == 0 and "1 page could not be made" in str(report)
        again = classroom.grade(term.parent / "in", term, limits=Limits(unsafe=True))
    assert page(term, "partly") == before and "memory" in (term / "grading.log").read_text()
    assert again.failed == 1 and "no failure" not in str(again) and "could not be graded" not in str(again)
    assert "1 graded, but the feedback page could not be made; see grading.log" in str(again)
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
    with pytest.raises(ValueError, match=r"REVEAL: wanted NAME=TIME .* got 'hw2_gae=2027-02-15T08:00'"):
        reports.write_reports(term, reveal=[f"{NAME}=2027-02-15T08:00"])


@pytest.mark.parametrize(("due", "more", "refused"), [
    (None, {}, False), ("2027-02-16 00:00", {}, True), ("2027-02-15 07:30", {}, True), ("2027-02-15 06:30", {}, False),
    ("2027-02-10 00:00", {"nobody": "6 days"}, True), ("2027-02-10 00:00", {"right": "2027-02-15T09:00+01:00"}, True),
    ("2027-02-10 00:00", {"right": "2 days"}, False),
])  # fmt: skip
def test_nothing_is_revealed_before_it_is_due_for_everybody(term, due, more, refused):
    """Whether the date came first or the due time, and whoever has an extension."""
    reports.write_reports(term, reveal=[REVEAL], now=BEFORE)  # nothing is due yet
    with terms.gradebook(terms.opened(term)) as book:
        book.find_assignment(NAME).duedate = due and datetime.datetime.fromisoformat(due)
        book.db.commit()
    if more:
        rows = "".join(f"{who},{until}\n" for who, until in more.items())
        (term / "roster.csv").write_text(f"student,{NAME}\n{rows}")
    now = datetime.datetime.fromisoformat(REVEAL.partition("=")[2])
    reports.write_reports(term, now=now)
    assert ("to try it" in page(term, "partly")) != refused
    with pytest.raises(ValueError, match="REVEAL: wanted a time") if refused else contextlib.nullcontext():
        reports.write_reports(term, reveal=[REVEAL], now=now)


def test_the_case_that_the_sentence_explains_is_the_one_that_is_shown_later():
    """Not the first to fail, where that is too large to be shown."""
    asked = MADE.question("q2")
    cases, right = hidden(asked, "example")
    cases = sorted(cases, key=lambda case: -case.inputs["reward"].numel())  # the largest first
    assert not tried_out(asked, cases[0]), "too large"
    given = frozenset(right)
    told = marking.mark(asked, cases, right, Said("nobody", stopped="ended"), given).reason
    shown_later = pages.reproduced(asked, "example", [*right])
    named = re.search(r'Case "(.*?)": ended', told)[1]
    small = [case.name for case in cases if tried_out(asked, case)]
    assert named == small[0] and pages.reproduced(asked, "example", [cases[0].name, named]).count(f'"{named}"') == 1
    assert "to try it" in shown_later
    told = marking.mark(asked, cases[:1], right, Said("nobody", stopped="ended"), given).reason
    assert f'Case "{cases[0].name}": ended.' in told, "the first, where none is small"


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
    one, two, three = item_analysis.statistics_of(found)
    assert (one["mean_share"], one["share_with_full"], one["share_with_none"]) == (0.5, 0.4, 0.4)
    assert (one["most_failed_case"], one["failed_by"]) == ("edge", 3)
    assert two["discrimination"] == 0.884 and three["marked"] == 4 and three["discrimination"] == ""
    lines = "\n".join(item_analysis.summary(found))
    assert "5 submissions" in lines and "1 still with parts" in lines and "zq" not in lines


def test_the_report_names_nobody_in_public(term, capsys):
    """With everything that it can be asked for."""
    command.report(term, provisional=True, reveal=(REVEAL,), zips=True, similar=True)
    said = "".join(capsys.readouterr())
    assert "4 submissions, " in said and f"zips/{NAME}.zip: 4 pages" in said and "none alike" in said
    assert not [student.name for student in CLASS if re.search(rf"\b{student.name}\b", said)]
    assert (term / "similar.csv").exists() and (term / "moodle_provisional.csv").exists()


@pytest.mark.parametrize(("path", "name"), [
    ("Ada King_12345_assignsubmission_file/hw2_gae.ipynb", "Ada King_12345_assignsubmission_file/hw2_gae.html"),
    ("Ada King_12345_assignsubmission_file_/a/b.ipynb", "Ada King_12345_assignsubmission_file_/hw2_gae.html"),
    ("top/Ada_12345_assignsubmission_file_hw2.ipynb", "Ada_12345_assignsubmission_file_hw2_gae.html"),
    ("kingada_77_1234_hw2_gae-1.ipynb", "kingada_77_1234_hw2_gae-1.html"),
    ("submissions/kingada_LATE_77_1234_hw2.zip", "kingada_LATE_77_1234_hw2.html"),
    ("ada/hw2_gae.ipynb", None), ("", None),
    # Names that point at somebody else, as Moodle and Canvas read them, or out of the zip.
    ("king_77_1234_x_78_assignsubmission_file_.ipynb", "king_77_1234_x_78_assignsubmission_file_.html"),
    ("Eve_77_assignsubmission_file__99_assignsubmission_file/a.ipynb", None), ("a_1_assignsubmission/../x", None),
])  # fmt: skip
def test_a_page_goes_back_by_the_name_it_came_with(path, name):
    assert zips.wanted_back(path, "hw2_gae.html") == name


def test_zips_hold_the_pages_by_student_or_by_original_name(term):
    found = reports.marks_of(term)

    def inside() -> list[str]:
        with zipfile.ZipFile(term / "zips" / f"{NAME}.zip") as archive:
            assert all(archive.read(name).startswith(b"<!DOCTYPE html>") for name in archive.namelist())
            return archive.namelist()

    assert zips.feedback_zips(term, found) == [f"zips/{NAME}.zip: 4 pages"]
    assert inside() == [f"{name}/{NAME}.html" for name in ("idle", "partly", "right", "untouched")]
    names = term.parent / "names.csv"
    with pytest.raises(ValueError, match=r"names: wanted the names.csv that unpacking an export leaves"):
        zips.feedback_zips(term, found, [f"{NAME}={names}"])
    names.write_text(f"student,path\nright,Ada_1_assignsubmission_file/{NAME}.ipynb\npartly,b_7_8_x.ipynb\n")
    (line,) = zips.feedback_zips(term, found, [f"{NAME}={names}"])
    assert inside() == ["b_7_8_x.html", f"Ada_1_assignsubmission_file/{NAME}.html"]
    assert line.startswith(f"zips/{NAME}.zip: 2 pages; 2 left out") and "Ada" not in line
    names.write_text("who,where\n")
    with pytest.raises(ValueError, match="wanted the columns student and path; got who, where"):
        zips.feedback_zips(term, found, [f"{NAME}={names}"])


class Renamed(ast.NodeTransformer):
    """Other names and other numbers, and lines in another order where they do not depend on each other."""

    def __init__(self, tree: ast.AST) -> None:
        bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.names = {name: f"my_{number}" for number, name in enumerate(sorted(bound))}

    def visit_Name(self, node):
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node):
        return ast.arg(self.names[node.arg])

    def visit_Constant(self, node):
        return ast.Constant(node.value + 1) if type(node.value) is float else node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        for place in range(len(node.body) - 1):
            one, two = node.body[place : place + 2]
            both = isinstance(one, ast.Assign) and isinstance(two, ast.Assign)
            if both and not stored(one) & read(two) and not stored(two) & read(one):
                node.body[place : place + 2] = two, one
        return node


def read(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def stored(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def disguised(source: str) -> str:
    tree = ast.parse(source)
    return "# My own work.\n" + ast.unparse(ast.fix_missing_locations(Renamed(tree).visit(tree)))


@pytest.mark.parametrize("name", [NAME, *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES if n != NAME)])
def test_copies_are_found_under_other_names_and_independent_answers_are_not(name):
    for question in (q for q in assignment(name).coded if not q.judge):
        given = similar.given_with(question)["code"]
        right = answers_of(name).RIGHT[question.name]
        assert similar.alike(right, given, "code") == []
        for story, source in right.items():
            copy = disguised(source)
            assert copy != source
            found = similar.alike(right | {f"copy of {story}": copy}, given, "code")
            assert [{*pair[:2]} for pair in found] == [{story, f"copy of {story}"}], (question.name, story)
            assert found[0][2:] == ("the same but for names, numbers and order", 1.0)


def test_what_everybody_was_given_is_no_copy():
    """The reference, the code as given, an empty cell, and a bug that is repaired in the one obvious way."""
    for question in MADE.coded:
        given = similar.given_with(question)["code"]
        for source in (question.solution, question.header + "\n    raise NotImplementedError()"):
            assert similar.alike({"one": source, "two": source}, given, "code") == []
        if question.fault:
            assert similar.alike({"one": question.faulty, "two": question.faulty}, given, "code") == []


def test_an_answer_of_hundreds_of_terms_does_not_stop_the_report():
    long = "def f(a):\n    return " + " + ".join(["a"] * 400) + "\n"
    assert similar.alike({"one": long, "two": "def f(a):\n    return 400 * a\n"}, "", "code") == []


def in_added_cells(source: str, how: str) -> list[str]:
    """A copy that does not stand in the answer's cell, or not as it was."""
    inner = source.replace("\n", "\n    ")
    return {
        "as it is": [source],
        "beside experiments": ["\n".join(f"curve_{n} = [{n} * x**2 for x in range(9)]" for n in range(60)), source],
        "under a magic": [f"%%time\n{source}"],
        "under a condition": [f"if True:\n    {inner}"],
        "in a text": [f"exec({source!r})"],
        "in a text with a name": [f"text = {source!r}", "eval(compile(text, 'x', 'exec'))"],
        "beside a cell that is no Python": ["this is no Python", source],
        "by another name": [source.replace("def twisted_gae", "def mine"), "twisted_gae = mine"],
    }[how]


@pytest.mark.parametrize("where", ["q2", "q4"])
@pytest.mark.parametrize("how", [
    "as it is", "beside experiments", "under a magic", "under a condition", "in a text", "in a text with a name",
    "beside a cell that is no Python", "by another name",
])  # fmt: skip
def test_a_copy_in_added_cells_is_a_copy(how, where):
    """In the section of its own question or in another's: where it is marked, too, the last definition counts."""
    source, question = answers_of(NAME).RIGHT["q2"]["numpy"], MADE.question("q2")

    def handed(code: str, added: list[str]) -> dict:
        cells = []
        for name in ("q2-text", "q2-code", "q4-text", "q4-code"):
            text = {"q2-code": code, "q4-code": SOLUTION["q4"]}.get(name, "")
            kind = "code" if name.endswith("code") else "markdown"
            cells.append({"cell_type": kind, "source": text, "metadata": {"nbgrader": {"grade_id": name}}})
            if name == f"{where}-code":
                cells += [{"cell_type": "code", "source": each, "metadata": {}} for each in added]
        return {"cells": cells}

    stub = question.header + "\n    raise NotImplementedError()"
    copies = {"one": handed(source, []), "two": handed(stub, in_added_cells(disguised(source), how))}
    answers = {who: similar.answers_of(question, notebook)["code"] for who, notebook in copies.items()}
    found = similar.alike(answers, similar.given_with(question)["code"], "code")
    assert [pair[:2] for pair in found] == [("one", "two")]


def test_an_operator_that_is_called_is_an_operator():
    written, called = "x = a * b + c @ d - e / f", "x = torch.sub(torch.mul(a, b).add(torch.matmul(c, d)), e.div(f))"
    assert similar.lines_of(written) == similar.lines_of(called)


def test_alike_answers_are_listed_in_the_term_and_not_in_public(term):
    source = answers_of(NAME).RIGHT["q2"]["numpy"]
    text = """Let the critic be off by k; each error then has the bias gamma k less k, for it bootstraps from a value
    that is off as well, and the sum of a geometric series gives what is asked. The score has mean zero, so a constant
    does not matter to the expected gradient, as long as no episode ends before the horizon."""
    people = [
        Student("zq-one", "", SOLUTION | {"q2": source}, answering(text)),
        Student("zq-two", "", SOLUTION | {"q2": disguised(source)}, answering("First of all. " + text)),
        Student("zq-three", "", SOLUTION | {"q2": answers_of(NAME).RIGHT["q2"]["float32"]}, answering(text[::-1])),
    ]
    hand_in(people, term / "release", term.parent / "three")
    classroom.grade(term.parent / "three", term, limits=Limits(unsafe=True))
    told = similar.write_similar(term, reports.marks_of(term), "example")
    with (term / "similar.csv").open() as file:
        rows = [(row["question"], row["part"], row["student"], row["other"]) for row in csv.DictReader(file)]
    assert rows == [(q, part, "zq-one", "zq-two") for q, part in (("q1", "text"), ("q2", "code"), ("q5", "text"))]
    assert "## zq-one and zq-two" in (term / "similar.md").read_text() and "zq" not in told and "3 pairs" in told
