"""Points by share, pages that teach and are written when they changed, tables that say what is still to be marked."""

from __future__ import annotations

import csv
import datetime
import re
import shutil
import zipfile

import pytest
import torch
from bs4 import BeautifulSoup

from .conftest import in_this_process
from .hostile import CLASS, MADE, NAME, POINTS, hand_in, solved
from .trials import by_hand, filled, page, table, verdict

from course import classroom, feedback, marking, pages, reports, zips  # isort: skip - found by what trials puts on the path
from course import __main__ as command  # isort: skip
from course import term as terms  # isort: skip
from course.graders import shown  # isort: skip
from course.isolation import Limits, Said  # isort: skip
from course.marking import Mark, earned, hidden  # isort: skip
from course.roster import last_due, read_roster  # isort: skip
from course.tried_out import tried_out  # isort: skip
from course.apart import Failed  # isort: skip

DUE = datetime.datetime(2027, 2, 1, 11, tzinfo=datetime.UTC)  # of the term that was released


@pytest.fixture
def term(graded, tmp_path, monkeypatch):
    shutil.copytree(graded, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(marking, "run", in_this_process)
    return tmp_path / "term"


@pytest.mark.parametrize(("of", "counted", "wrong", "points"), [
    (6, "abcdef", "", 6), (6, "abcdef", "a", 5.0), (4, "abcdef", "abcde", 0.5), (4, "abcdef", "abcdef", 0.0),
    (5, "abcdef", "a", 4.0),  # 25/6 is rounded down to half points
    (6, "abcdef", "x", 5.0), (6, "abcdef", "ax", 4.0), (2, "a", "ax", 0.0),  # what no work passes costs one that counts
    (4, "", "x", 0.0), (4, "", "", 4),  # nothing counts: all or nothing
])  # fmt: skip
def test_points_are_a_share_of_the_cases_that_count(of, counted, wrong, points):
    assert earned(of, frozenset(counted), set(wrong)) == points


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


def test_shares_reach_the_gradebook_and_the_page(graded):
    rows = table(graded / "term")
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
    assert "4 of 6 points. " in text


def test_what_a_person_has_not_marked_is_said_and_not_counted(term):
    """On the page, in grades.csv, and by an empty total in what is imported, until the last part is marked."""
    text = page(term, "right")
    assert "Not yet marked, of 4.0" in text and "not yet marked: 1, 5)" in text and "Score: nan" not in text
    assert "Score: 0.0 / 4.0" not in text and "Score: 6.0 / 6.0" in text
    row = table(term)["right"]
    assert row["not_yet_marked"] == "q1 q5" and row["final"] == "no"
    assert table(term)["untouched"]["final"] == "yes", "what is empty is marked"

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
    assert totals("moodle.csv")["right"] == "17.0" and table(term)["right"]["final"] == "yes"
    assert "(Score: 17.0 / 23.0)" in page(term, "right") and "ot yet marked" not in page(term, "right")
    head, possible, *rows = csv.reader((term / "canvas.csv").open())
    assert head == ["Student", "ID", "SIS Login ID", "Section", NAME] and possible[0] == "Points Possible"
    assert float(possible[4]) == MADE.points and [row[4] for row in rows if row[2] == "right"] == ["17.0"]
    assert next(csv.reader((term / "moodle.csv").open())) == ["Username", NAME]


def test_only_pages_that_changed_are_written(term, monkeypatch):
    asked = []
    real = pages.made_page
    monkeypatch.setattr(pages, "made_page", lambda *given: asked.append(given) or real(*given))
    before = page(term, "partly")
    assert reports.write_reports(term).pages == 0 and asked == []
    by_hand(term, "partly", q1=2.0)
    assert reports.write_reports(term).pages == 1 == len(asked) and page(term, "partly") != before
    (term / "feedback" / "idle" / NAME / f"{NAME}.html").write_text("nbgrader's own")
    assert reports.write_reports(term).pages == 1 and "nbgrader's own" not in page(term, "idle")
    with terms.gradebook(terms.opened(term)) as book:
        book.find_comment("q1-answer", NAME, NAME, "right").manual_comment = "<b class=x>Well</b> derived."
        book.db.commit()
    assert reports.write_reports(term).pages == 1 and "<b>Well</b> derived." in page(term, "right")


def test_a_page_that_cannot_be_made_is_a_failure_and_leaves_the_old_one(term, monkeypatch):
    by_hand(term, "partly", q1=2.0)
    before = page(term, "partly")

    def none(*given):
        raise Failed("memory")

    with monkeypatch.context() as patch:
        patch.setattr(pages, "made_page", none)
        report = reports.write_reports(term)
        assert report.failed == 1 and report.pages == 0 and "1 page could not be made" in str(report)
        again = classroom.grade(term.parent / "in", term, limits=Limits())
    assert page(term, "partly") == before and "memory" in (term / "grading.log").read_text()
    assert again.failed == 1 and "no failure" not in str(again) and "could not be graded" not in str(again)
    assert "1 graded, but the feedback page could not be made; see grading.log" in str(again)
    assert reports.write_reports(term).pages == 1 and page(term, "partly") != before, "it is tried again"


def test_marks_of_people_hold_while_the_answer_is_the_same(term):
    """Grading the class again queues nothing that was marked and did not change; what changed waits for a person."""
    by_hand(term, "right", q1=3.0, q5=4.0)
    classroom.grade(term.parent / "in", term, limits=Limits())
    row = table(term)["right"]
    assert (row["final"], row["to_mark_by_hand"], row["score"]) == ("yes", "0", "21.0")
    again = solved("right", change=lambda book: filled(book, {}, q1_answer="Another proof.", q5_answer="It falls."))
    hand_in([again], term / "release", term.parent / "again")
    classroom.grade(term.parent / "again", term, limits=Limits())
    row = table(term)["right"]
    assert (row["final"], row["to_mark_by_hand"], row["not_yet_marked"]) == ("no", "2", "q1 q5")


def test_a_failing_cases_inputs_are_shown_once_it_is_due_for_everybody(term):
    """Whoever has an extension; and from then on in every report."""
    for roster, days in (("", 0), ("right,\nnobody,6 days", 6), ("right,2027-02-03T11:00Z", 2)):
        (term / "roster.csv").write_text(f"student,{NAME}\n{roster}\n")
        due = DUE + datetime.timedelta(days=days)
        with terms.gradebook(terms.opened(term)) as book:
            assert last_due(book, read_roster(term)) == {NAME: due}
    with pytest.raises(ValueError, match="REVEAL: wanted an assignment that is due for everybody"):
        reports.write_reports(term, reveal=[NAME], now=due - datetime.timedelta(minutes=1))
    assert not (term / "reveal.txt").exists() and "to try it" not in page(term, "partly")
    assert reports.write_reports(term, reveal=[NAME], now=due).pages == 3, "of those who failed a case"
    assert reports.write_reports(term, now=due).pages == 0, "it is kept in the term"
    assert "to try it" in page(term, "partly") and "to try it" not in page(term, "right")


def test_what_is_shown_of_a_case_reproduces_it():
    asked = MADE.question("q2")
    failed = [case for case, why in verdict(asked, CLASS[1].answers["q2"]).items() if why]
    text = pages.reproduced(asked, "example", failed)
    space: dict = {}
    exec(f"import torch\n{asked.solution}", space)
    *lines, call = text.strip().split("\n\n", 1)[1].splitlines()
    exec("\n".join(lines), space)
    case = next(case for case in hidden(asked, "example")[0] if f'"{case.name}"' in text)
    right = hidden(asked, "example")[1][case.name][0]
    assert case.name in failed and torch.allclose(eval(call, space), right, atol=1e-3) and len(text) < 2700


def test_the_case_that_the_sentence_explains_is_the_one_that_is_shown_later():
    """Not the first to fail, where that is too large to be shown."""
    asked = MADE.question("q2")
    cases, right = hidden(asked, "example")
    cases = sorted(cases, key=lambda case: -case.inputs["reward"].numel())  # the largest first
    small = [case.name for case in cases if tried_out(asked, case)]
    for given, named in ((cases, small[0]), (cases[:1], cases[0].name)):  # the first, where none is small
        why = marking.mark(asked, given, right, Said("nobody", stopped="ended"), frozenset(right)).reason
        assert f'Case "{named}": ended.' in why
    shown_later = pages.reproduced(asked, "example", [cases[0].name, small[0]])
    assert not tried_out(asked, cases[0]) and f'"{small[0]}"' in shown_later and "to try it" in shown_later


def test_the_report_names_nobody_in_public(term, capsys):
    """With everything that it can be asked for."""
    with terms.gradebook(terms.opened(term)) as book:
        book.find_assignment(NAME).duedate = datetime.datetime(2020, 1, 1)
        book.db.commit()
    command.report(term, provisional=True, reveal=(NAME,), zips=True)
    said = "".join(capsys.readouterr())
    assert "4 submissions, " in said and f"zips/{NAME}.zip: 4 pages" in said
    assert not [student.name for student in CLASS if re.search(rf"\b{student.name}\b", said)]
    assert "to try it" in page(term, "partly") and (term / "moodle_provisional.csv").exists()


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
    with pytest.raises(ValueError, match="names.csv: wanted columns student, path; got no student, path"):
        zips.feedback_zips(term, found, [f"{NAME}={names}"])
