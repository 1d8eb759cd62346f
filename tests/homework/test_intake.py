"""What comes in: exports, file forms, times and rosters; and that nobody's file or name touches another student."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import unicodedata
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import nbformat
import pytest

from .hostile import NAME, POINTS, hand_in, raw, solved
from .trials import ROOT

from course import classroom, handout, intake, isolation, marking, reports, roster, uploads  # isort: skip - found by what trials puts on the path
from course.isolation import Limits, Said, offered  # isort: skip

FILE = f"{NAME}.ipynb"
UNSAFE = Limits(unsafe=offered() != "bubblewrap")


def export(file: Path, members: dict[str, bytes | str]) -> Path:
    """An archive, in it files by their names."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file


def unpacked(folder: Path, members: dict[str, bytes | str], **options) -> tuple[dict[str, str], uploads.Unpacked]:
    """What lies where after unpacking, and what was told."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    told = uploads.unpack(export(folder / "export.zip", members), out, **options)
    files = {str(f.relative_to(out)): f.read_text() for f in sorted(out.rglob("*")) if f.is_file()}
    files.pop(uploads.LEFT_OUT, None)
    files.pop(uploads.NAMES, None)
    return files, told


def person(student: str, **known) -> roster.Person:
    return roster.Person(student, **known)


# Exports


def test_moodles_number_is_the_one_at_the_end_of_the_first_folder(tmp_path):
    """Whatever a display name or a file's name holds: student 77's folder has student 77's file alone."""
    files, told = unpacked(tmp_path, {
        f"Vera Victim_77_assignsubmission_file/{FILE}": "victim",
        f"Evil_77_assignsubmission_file M_12_assignsubmission_file_/{FILE}": "by name",
        "Mallory_13_assignsubmission_file/x_77_assignsubmission_file.ipynb": "by file",
        f"Eve_14_assignsubmission_file/Vera Victim_77_assignsubmission_file/{FILE}": "by folder",
        "Vera Victim_77_assignsubmission_onlinetext/onlinetext.html": "text",
    })  # fmt: skip
    assert told.platform == "moodle" and (told.students, told.files, len(told.left_out)) == (4, 4, 1)
    assert files == {
        f"12/{FILE}": "by name",
        "13/x_77_assignsubmission_file.ipynb": "by file",
        f"14/Vera Victim_77_assignsubmission_file/{FILE}": "by folder",
        f"77/{FILE}": "victim",
    }


def test_moodles_files_in_one_folder_are_left_out_where_two_readings_are_possible(tmp_path):
    files, told = unpacked(tmp_path, {
        f"Vera Victim_77_assignsubmission_file_{FILE}": "victim",
        f"Evil_77_assignsubmission_file_x_12_assignsubmission_file_{FILE}": "evil",
    })  # fmt: skip
    assert files == {f"77/{FILE}": "victim"} and len(told.left_out) == 1
    listed = (tmp_path / "out" / uploads.LEFT_OUT).read_text()
    assert "Evil" in listed and "two readings" in listed and "Evil" not in str(told)


def test_canvas_numbers_are_the_ones_after_the_name_and_the_platform_is_one_for_all(tmp_path):
    files, told = unpacked(tmp_path, {
        f"victimvera_77_900_{FILE}": "victim",
        "evil_12_901_hw2 x_77_assignsubmission_file.ipynb": "by Moodle's words",
        "lovelaceada_LATE_13_902_hw2_gae-2.ipynb": "late",
        f"mallory_77_14_903_{FILE}": "a name that ends in a number",
    })  # fmt: skip
    assert told.platform == "canvas" and len(told.left_out) == 1
    assert files == {
        "12/hw2 x_77_assignsubmission_file.ipynb": "by Moodle's words",
        "13/hw2_gae-2.ipynb": "late",
        f"77/{FILE}": "victim",
    }
    # A file of Moodle's form among Canvas's changes nothing for the others either.
    files, told = unpacked(tmp_path, {
        f"victimvera_77_900_{FILE}": "victim", f"evil_12_901_y_77_assignsubmission_file_{FILE}": "evil",
    })  # fmt: skip
    assert told.platform == "canvas" and files[f"77/{FILE}"] == "victim" and len(files) == 2


def test_three_numbers_in_a_row_are_told_apart_by_the_roster_or_left_out(tmp_path):
    members = {f"ada_77_900_{FILE}": "other", "bob_12_901_2_hw2.ipynb": "a file named 2_hw2"}
    assert len(unpacked(tmp_path, members)[0]) == 1
    files, _ = unpacked(tmp_path, members, people=[person("bob", canvas="12"), person("ada", canvas="77")])
    assert files == {f"ada/{FILE}": "other", "bob/2_hw2.ipynb": "a file named 2_hw2"}
    # Both numbers are students': nobody can say whose the file is.
    members = {f"ada_5_900_{FILE}": "other", f"evil_77_12_901_{FILE}": "evil"}
    files, _ = unpacked(tmp_path, members, people=[person("bob", canvas="12"), person("ada", canvas="77")])
    assert files == {f"5/{FILE}": "other"}


@pytest.mark.parametrize("members", [
    {f"A_1_assignsubmission_file/{FILE}": "", f"b_2_3_{FILE}": ""},
    {"notes.ipynb": "", f"ada/{FILE}": ""},
])  # fmt: skip
def test_an_export_of_two_platforms_or_of_none_is_an_error_that_says_so(tmp_path, members):
    with pytest.raises(ValueError, match="wanted Moodle's or Canvas's; got 2 files.*--from moodle or --from canvas"):
        unpacked(tmp_path, members)
    files, told = unpacked(tmp_path, members, platform="moodle")
    assert len(files) + len(told.left_out) == 2


def test_what_is_refused_in_a_students_archive_counts_as_well(tmp_path, monkeypatch):
    """Members that are damaged, each of which has to be unpacked to see it: only so many are."""
    looked = []
    whole = intake.contents
    monkeypatch.setattr(
        intake, "contents", lambda archive, member, most: looked.append(most) or whole(archive, member, most)
    )
    (tmp_path / "ada").mkdir()
    with zipfile.ZipFile(tmp_path / "ada" / "a.zip", "w") as archive:
        for number in range(500):
            archive.writestr(f"{number}.ipynb", "x" * 100)
        for member in archive.infolist():
            member.CRC ^= 1
    with intake.opened(tmp_path / "ada") as (found, _):
        assert found == []
    assert len(looked) == 2 * intake.NOTEBOOKS


def test_nothing_leaves_the_folder_and_links_bombs_and_doubles_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "MEMBER", 1 << 20)
    good = f"Ada_1_assignsubmission_file/{FILE}"
    link = zipfile.ZipInfo("Eve_2_assignsubmission_file/link.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = tmp_path / "export.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(good, "good")
        archive.writestr(link, "/etc/passwd")
        for name in ("../../evil.ipynb", "/tmp/evil.ipynb", "Eve_2_assignsubmission_file/../../evil_1.ipynb",
                     "Eve_2_assignsubmission_file\\..\\..\\evil_2.ipynb", "C:/evil.ipynb"):  # fmt: skip
            archive.writestr(name, "evil")
        archive.writestr("Eve_2_assignsubmission_file/bomb.ipynb", bytes(3 << 20))
        for _ in range(2):
            archive.writestr("Eve_2_assignsubmission_file/twice.ipynb", "evil")
    told = uploads.unpack(file, tmp_path / "out")
    assert told.files == 1 and (tmp_path / "out" / "1" / FILE).read_text() == "good"
    assert len(told.left_out) == 9
    left = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    assert left == {"export.zip", f"out/1/{FILE}", "out/left_out.txt", "out/names.csv"}
    for why in ("leads out", "a link", "larger than 1 MB", "same name"):
        assert why in "".join(told.left_out), why


def test_a_liar_about_a_files_size_and_a_list_without_end_are_refused(tmp_path, monkeypatch):
    """The size in the list of contents says little: what comes out is counted."""
    monkeypatch.setattr(uploads, "MEMBER", 1 << 16)
    file = export(
        tmp_path / "export.zip",
        {f"Ada_1_assignsubmission_file/{FILE}": "x", "Eve_2_assignsubmission_file/b.ipynb": bytes(1 << 20)},
    )
    data = bytearray(file.read_bytes())
    for place in range(len(data) - 4):
        if data[place : place + 4] == (1 << 20).to_bytes(4, "little"):
            data[place : place + 4] = (100).to_bytes(4, "little")
    file.write_bytes(data)
    told = uploads.unpack(file, tmp_path / "out")
    assert told.files == 1 and len(told.left_out) == 1 and told.students == 1
    monkeypatch.setattr(uploads, "DIRECTORY", 100)
    with pytest.raises(ValueError, match="list of contents is too long"):
        uploads.unpack(file, tmp_path / "other")
    # Nor does a record of the 64-bit form within another one, of which the inner says that the list is short.
    record = bytearray(b"PK\6\6" + bytes(52))
    record[40:48] = (1 << 40).to_bytes(8, "little")
    record[8:12] = b"PK\6\6"
    locator = b"PK\6\7" + bytes(16)
    (tmp_path / "wide.zip").write_bytes(bytes(60) + bytes(record) + locator + b"PK\5\6" + bytes(18))
    with pytest.raises(ValueError, match="list of contents is too long"):
        uploads.unpack(tmp_path / "wide.zip", tmp_path / "other")
    monkeypatch.undo()
    monkeypatch.setattr(uploads, "MEMBERS", 1)
    with pytest.raises(ValueError, match="at most 1 files; got 2"):
        uploads.unpack(file, tmp_path / "other")


def test_the_names_of_an_export_are_kept_for_the_way_back(tmp_path):
    members = {"lovelaceada_LATE_13_902_a.pdf": "", f"lovelaceada_LATE_13_903_{FILE}": ""}
    unpacked(tmp_path, members)
    with (tmp_path / "out" / uploads.NAMES).open() as file:
        first, *_ = csv.DictReader(file)
    assert first == {"student": "13", "path": f"lovelaceada_LATE_13_903_{FILE}"}


def test_hidden_names_are_a_students_too_and_only_what_systems_leave_is_passed_over(tmp_path):
    files, told = unpacked(tmp_path, {
        f".Ada_1_assignsubmission_file/{FILE}": "mine", "__MACOSX/._x": "", "A_2_assignsubmission_file/.DS_Store": "",
        f"A_2_assignsubmission_file/._{FILE}": "", f"A_2_assignsubmission_file/.git/{FILE}": "other",
    })  # fmt: skip
    assert files == {f"1/{FILE}": "mine", f"2/.git/{FILE}": "other"} and told.left_out == []


def test_a_time_is_of_whom_the_roster_says(tmp_path):
    (tmp_path / "times.csv").write_text(
        f"student;assignment;time\n12;{NAME};2027-02-01T12:00Z\nbob;;2027-02-01T12:00Z\n"
    )
    found = roster.read_times([person("ada", canvas="12")], tmp_path / "none", tmp_path)
    assert found == dict.fromkeys([("ada", NAME), ("bob", "")], datetime(2027, 2, 1, 12))


def test_old_files_are_never_mixed_with_new_ones(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").touch()
    file = export(tmp_path / "export.zip", {f"Ada_1_assignsubmission_file/{FILE}": "x"})
    with pytest.raises(ValueError, match="wanted a folder that is new or empty"):
        uploads.unpack(file, tmp_path / "out")
    (tmp_path / "no.zip").write_text("no archive")
    with pytest.raises(ValueError, match="no zip archive"):
        uploads.unpack(tmp_path / "no.zip", tmp_path / "new")


def test_moodles_worksheet_says_whose_the_numbers_are(tmp_path):
    """They differ between assignments: without it a student has another name in each."""
    sheet = tmp_path / "worksheet.csv"
    sheet.write_text(
        "\ufeffIdentifier,Full name,Email address,Status\nParticipant 12,Ada L,Ada@example.org,x\n"
        "Participant 13,Bob B,bob@example.org,x\nParticipant 14,,,\n"
    )
    members = {f"n{k}_{k}_assignsubmission_file/{FILE}": str(k) for k in (12, 13, 14)}
    files, _ = unpacked(tmp_path, members, worksheet=sheet, people=[person("bob", name="Bob B")])
    assert files == {f"14/{FILE}": "14", f"ada@example.org/{FILE}": "12", f"bob/{FILE}": "13"}
    # A login counts before a name, which students may change to another's.
    people = [person("bob", name="Bob B", login="bob@example.org"), person("ada", name="A", login="ada@example.org")]
    sheet.write_text(sheet.read_text().replace("Ada L", "Bob B"))
    files, _ = unpacked(tmp_path, members, worksheet=sheet, people=people)
    assert files == {f"14/{FILE}": "14", f"ada/{FILE}": "12", f"bob/{FILE}": "13"}


def test_times_of_an_export_count_only_when_asked_for(tmp_path):
    members = {f"Ada_1_assignsubmission_file/{FILE}": "x"}
    assert "times.csv" not in unpacked(tmp_path, members)[0]
    files, _ = unpacked(tmp_path, members, trust_times=True)
    assert "times.csv" in files and roster.read_times([], tmp_path / "out").keys() == {("1", "")}


def test_students_whom_the_roster_does_not_know_are_counted_and_the_way_out_is_named(tmp_path):
    people = [person("ada", name="Ada L", moodle="12", canvas="77"), person("bob", name="Bob B")]
    members = {f"n{k}_{k}_assignsubmission_file/{FILE}": str(k) for k in (12, 13, 14)}
    told = str(unpacked(tmp_path, members, people=people)[1])
    assert "2 of 3 are not in roster.csv" in told and "WORKSHEET=worksheet.csv" in told
    sheet = tmp_path / "worksheet.csv"
    sheet.write_text("Identifier,Full name\nParticipant 13,Bob B\n")
    told = str(unpacked(tmp_path, members, people=people, worksheet=sheet)[1])
    assert "1 of 3 is not in roster.csv" in told and "WORKSHEET=" not in told
    told = str(unpacked(tmp_path, {f"ada_77_1_{FILE}": "", f"eve_78_2_{FILE}": ""}, people=people)[1])
    assert "1 of 2 is not in roster.csv" in told and "column canvas" in told and "WORKSHEET" not in told
    assert "roster.csv" not in str(unpacked(tmp_path, members)[1]), "without a roster nobody is missing from it"
    everybody = str(unpacked(tmp_path, {f"ada_77_1_{FILE}": ""}, people=people)[1])
    assert "roster.csv" not in everybody and everybody.startswith("1 file of 1 student, as canvas")


# Names and rosters


def test_the_folder_above_the_one_that_was_meant_is_no_class(term, tmp_path):
    """Five assignments were marked as five students, and stood in the table for Canvas."""
    for name in ("hw1", "plain", "Homework 2"):
        hand_in([solved("ada")], term / "release", tmp_path / "above" / name)
    with pytest.raises(ValueError, match="in which Homework 2 has an assignment's name; name the folder that holds"):
        classroom.grade(tmp_path / "above", term, names=[NAME], limits=UNSAFE)
    shutil.rmtree(tmp_path / "above" / "Homework 2")
    (tmp_path / "above" / "hw1").rename(tmp_path / "above" / NAME)
    with pytest.raises(ValueError, match=f"in which {NAME} has an assignment's name"):
        classroom.grade(tmp_path / "above", term, limits=UNSAFE)
    shutil.rmtree(tmp_path / "above" / NAME)
    (term / "roster.csv").write_text("student\nada\nbob\n")
    with pytest.raises(ValueError, match="none of the folders in .* is of anybody in roster.csv; name the one"):
        classroom.grade(tmp_path / "above", term, names=[NAME], limits=UNSAFE)
    assert not (term / "submitted").exists() and not (term / "canvas.csv").exists()
    # Where one is somebody's, the folder is the right one, and the other is told.
    (tmp_path / "above" / "plain" / "ada").rename(tmp_path / "above" / "ada")
    report = classroom.grade(tmp_path / "above", term, names=[NAME], limits=UNSAFE)
    assert "1 folder is of nobody in roster.csv" in str(report) and rows_of(term).keys() == {"ada", "plain"}


@pytest.mark.slow
def test_who_was_marked_by_mistake_is_taken_out_as_the_page_says(term, tmp_path):
    """By nbgrader's own command; and the tables go with the last one."""
    hand_in([solved("ada"), solved("plain")], term / "release", tmp_path / "in")
    classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    for name, left in (("plain", {"ada"}), ("ada", set())):
        command = [sys.executable, "-m", "nbgrader", "db", "student", "remove", name, "--force"]
        subprocess.run(command, cwd=term, check=True, capture_output=True)
        reports.write_reports(term)
        assert (rows_of(term).keys() if left else (term / "canvas.csv").exists()) == (left or False)
    page = (ROOT / "book" / "instructors.md").read_text()
    assert "nbgrader db student remove NAME --force" in page


def test_every_folder_name_is_kept_under_one_that_nbgrader_can_hold():
    same = ["ada", "ada.l@example.org", "José", "李雷", "अदिति", "_x", "a-b"]
    assert [roster.filed_as(name) for name in same] == same
    assert roster.filed_as(unicodedata.normalize("NFD", "José")) == "José"
    odd = ["O'Brien", "O Brien", "ada+x", "..", "", "-f", "a/b", "x" * 300, "x" * 301, "a\ud800", "[a]*", "a\nb"]
    kept = [roster.filed_as(name) for name in odd]
    assert len(set(kept)) == len(odd) and kept[0].startswith("O-Brien-")
    for name in kept:
        assert roster.filed_as(name) == name and len(name) <= roster.LONGEST and not set(name) & set("/ '+*[]\n\ud800")


def test_a_folder_may_be_named_by_anything_that_the_roster_says_of_a_student(tmp_path):
    people = [person("ada", name="Ada Lovelace", login="al1", canvas="12"), person("bob", login="al1x", moodle="13")]
    for name in ("Ada Lovelace", "13", "stranger"):
        (tmp_path / name).mkdir()
    folders, told = roster.folders_of(tmp_path, people)
    assert {each.student for each in folders} == {"ada", "bob", "stranger"} and len(told) == 2
    # Two folders of one student: the one with the student's own name counts; without such a one neither does.
    (tmp_path / "12").mkdir()
    assert {f.student for f in roster.folders_of(tmp_path, people)[0]} == {"bob", "stranger"}
    (tmp_path / "ada").mkdir()
    folders, told = roster.folders_of(tmp_path, people)
    assert {f.student: f.path.name for f in folders}["ada"] == "ada" and sum("left out" in line for line in told) == 2


@pytest.mark.parametrize(("text", "why"), [
    ("name\nAda\n", "wanted columns student; got no student"),
    ("student,hw2\nada,2 days\n", "got hw2"),
    ("student\nada\nada\n", "1 stand there more than once"),
    ("student\nO'Brien\n", "line 2: student: wanted at most 100 letters, digits and . @ _ -"),
    ("student\nO'Brien\n", "into the column name"),
    ("student,hw2_gae\nada,soon\n", "line 2, hw2_gae: wanted a time with its zone"),
    ("student,hw2_gae\nada,2027-02-01T12:00\n", "which has no zone"),
    ("student,hw2_gae\nada,1999-02-01T12:00Z\n", "of this century"),
])  # fmt: skip
def test_a_mistake_in_the_roster_is_told_without_a_name(tmp_path, text, why):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(ValueError) as told:
        roster.read_roster(tmp_path)
    assert why in str(told.value) and "ada" not in str(told.value) and "Brien" not in str(told.value)


def test_more_time_is_a_span_or_a_moment():
    def span(text):
        return roster.moment_of(text, "here", spans=True)

    assert span("2 days") == span("+2d") == span("48 h") == timedelta(days=2) and span("90m") == timedelta(hours=1.5)
    assert span("2027-02-01 12:00 UTC") == span("2027-02-01T13:00+01:00") == datetime(2027, 2, 1, 12)


# File forms


def notebook(tmp_path: Path) -> nbformat.NotebookNode:
    """A released notebook of two cells, and its answer replaced."""
    base = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("raise NotImplementedError()")])
    base.cells[0].metadata["nbgrader"] = {"grade_id": "q2-code", "solution": True}
    return base


def answered(text: str) -> str:
    made = notebook(Path())
    made.cells[0]["source"] = text
    return json.dumps(made)


def taken(folder: Path, files: dict[str, str | bytes], **options) -> tuple[intake.Intake, str]:
    """What comes of files in a student's folder, and the answer that was taken."""
    shutil.rmtree(folder / "ada", ignore_errors=True)
    (folder / "ada").mkdir()
    for name, data in files.items():
        place = folder / "ada" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data if isinstance(data, bytes) else data.encode())
    found = intake.taken(folder / "ada", NAME, notebook(folder), **options)
    return found, found.notebook.cells[0]["source"] if found.found else ""


def zipped(folder: Path, members: dict[str, bytes | str]) -> bytes:
    return export(folder / "made.zip", members).read_bytes()


def test_every_form_in_which_a_notebook_comes_is_taken(tmp_path):
    mine, other = answered("mine"), answered("other")
    forms = {
        "a text by its ending": {f"{FILE}.txt": mine},
        "deep folders": {f"a/b/c/d/{FILE}": mine},
        "an archive": {"hw2.zip": zipped(tmp_path, {f"some/folder/{FILE}": mine, "__MACOSX/._x.ipynb": "x"})},
        "an archive of a handout": {"all.ZIP": zipped(tmp_path, {FILE: mine, "hw3_trpo.ipynb": other})},
        "the newest of Canvas's": {"hw2_gae-1.ipynb": other, "hw2_gae-2.ipynb": mine},
        "the tenth is newer than the ninth": {"hw2_gae-9.ipynb": other, "hw2_gae-10.ipynb": mine},
        "the newest of a browser's": {FILE: other, "hw2_gae (1).ipynb": mine},
        "the copy that Jupyter laid aside": {FILE: mine, "hw2_gae-Copy1.ipynb": other},
        "the same twice": {"hw2 mine.ipynb": mine, "homework_2.ipynb": mine},
        "beside another assignment": {FILE: mine, "hw3_trpo.ipynb": other, "report.pdf": ""},
    }
    got = {form: taken(tmp_path, files)[1] for form, files in forms.items()}
    assert got == dict.fromkeys(forms, "mine")


def test_a_notebook_of_any_name_is_taken_if_it_is_the_only_one_and_only_one_is_asked_for(tmp_path):
    files = {"assignment.ipynb": answered("mine"), "notes.txt": "x"}
    assert taken(tmp_path, files, alone=True)[1] == "mine" and not taken(tmp_path, files)[0].found
    assert not taken(tmp_path, {"hw3 final.ipynb": answered("mine")}, alone=True)[0].found
    assert not taken(tmp_path, files | {"other.ipynb": answered("x")}, alone=True)[0].found


def test_another_name_is_told_once_with_the_one_to_use_next_time(tmp_path):
    mine, next_time = answered("mine"), f"next time hand in `{FILE}`."
    forms = {f"{FILE}.txt": mine, f"a/b/{FILE}": mine, "hw2 `my` own.ipynb": mine}
    for name, text in forms.items():
        found, _ = taken(tmp_path, {name: text})
        place = name.replace("`", "'")
        assert found.renamed == f"Your notebook was found as `{place}`; {next_time}" and found.note == ""
        assert found.kind.endswith("there was no doubt.") and "my" not in found.kind
    found, _ = taken(tmp_path, {"x.zip": zipped(tmp_path, {FILE: mine})})
    assert f"found as `x.zip/{FILE}`" in found.renamed
    for right in (FILE, f"{NAME}/{FILE}"):
        assert taken(tmp_path, {right: mine})[0].renamed == ""


def test_what_was_found_is_named_to_the_student_and_not_in_public(tmp_path):
    found, _ = taken(tmp_path, {"report by Ada.pdf": "", "a/notes.txt": ""})
    assert found.note == f"No file for it was found: wanted {FILE}; found: report by Ada.pdf, a/notes.txt."
    assert "Ada" not in found.kind and not found.found
    many, _ = taken(tmp_path, {f"{k}.txt": "" for k in range(9)})
    assert "and 4 more" in many.note
    two, _ = taken(tmp_path, {"hw2 Ada.ipynb": "1", "hw2 final.ipynb": "2"})
    assert "2 files might be meant" in two.note and "hw2 Ada.ipynb" in two.note and "Ada" not in two.kind
    broken, _ = taken(tmp_path, {FILE: "no notebook"})
    assert "could not be read" in broken.note and broken.kind == "The file could not be read as a notebook."
    assert taken(tmp_path, {})[0].note == intake.NOTHING


def zip_with_a_broken_record() -> bytes:
    """Its list of contents says that a name is in UTF-8, and it is not."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("ä.ipynb", "x")
    return file.getvalue().replace("ä".encode(), b"\xff\xff")


@pytest.mark.parametrize("files", [
    {"x.zip": b"no archive"}, {"x.zip": b"PK\5\6"}, {"x.zip": b"PK\5\6" + b"\xff" * 18}, {"x.zip": b""},
    {"x.zip": zip_with_a_broken_record()},
], ids=["words", "cut", "list", "empty", "record"])  # fmt: skip
def test_an_archive_that_is_none_costs_only_itself(tmp_path, files):
    found, _ = taken(tmp_path, files)
    assert not found.found and "found: x.zip" in found.note
    assert taken(tmp_path, files | {FILE: answered("mine")})[1] == "mine"


def test_a_students_archive_writes_nothing_outside_and_has_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MEMBER", 1 << 20)
    monkeypatch.setattr(intake, "ARCHIVE", 3 << 20)
    bomb = {f"{k}.ipynb": bytes(1 << 20) for k in range(9)}
    packed = zipped(tmp_path, {f"../../{FILE}": "evil", "x.ipynb": bytes(2 << 20)} | bomb)
    before = set(tmp_path.rglob("*"))
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "x.zip").write_bytes(packed)
    with intake.opened(tmp_path / "ada") as (found, _):
        assert len(found) == 3 and sum(each.path.stat().st_size for each in found) == 3 << 20
        assert {str(each.place) for each in found} == {"x.zip/0.ipynb", "x.zip/1.ipynb", "x.zip/2.ipynb"}
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "ada", tmp_path / "ada" / "x.zip"}


@pytest.mark.parametrize(("bound", "value", "many"), [("ARCHIVES", 1, 2), ("NOTEBOOKS", 2, 2), ("DIRECTORY", 99, 0)])
def test_a_students_archives_are_opened_up_to_a_number(tmp_path, monkeypatch, bound, value, many):
    """Each would take its time: a thousand archives of a thousand files in one folder, for one."""
    monkeypatch.setattr(intake, bound, value)
    for name in "ab":
        export(tmp_path / f"{name}.zip", {f"{k}.ipynb": "x" for k in range(2)})
    with intake.opened(tmp_path) as (found, _):
        assert len(found) == many


def test_links_and_folders_without_end_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / FILE).write_text(answered("secret"))
    (tmp_path / "ada" / "deep").mkdir(parents=True)
    (tmp_path / "ada" / "folder").symlink_to(secret)
    (tmp_path / "ada" / "x.zip").symlink_to(export(tmp_path / "x.zip", {FILE: answered("secret")}))
    (tmp_path / "ada" / "deep" / "again").symlink_to(tmp_path / "ada")
    os.mkfifo(tmp_path / "ada" / FILE)
    deep = tmp_path.joinpath("ada", *"abcdefghijkl")
    deep.mkdir(parents=True)
    (deep / FILE).write_text(answered("too deep"))
    assert intake.choose(tmp_path / "ada", NAME).note == intake.NOTHING


# A class, whose functions are not run: that is tested in test_classroom.py


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("released")
    handout.release(
        folder, seed="example", guessable=True, names=[NAME], due={NAME: "2027-02-01T12:00+01:00"}, wheel=False
    )
    return folder


@pytest.fixture
def term(released, tmp_path, monkeypatch):
    """A term of its own, in which every function is right without being run."""
    shutil.copytree(released, tmp_path / "term")

    def right(assignment, cells, secret, *, limits, by=None):
        marks = {q.name: marking.Mark(q.name, q.points, q.points, "right") for q in assignment.coded}
        empty = all("NotImplementedError" in cell["source"] for cell in cells if cell["id"].endswith("-code"))
        if empty:
            marks = {
                q.name: marking.Mark(q.name, 0, q.points, "a case: NotImplementedError: ") for q in assignment.coded
            }
        return marks, Said("nobody")

    monkeypatch.setattr(marking, "mark_cells", right)
    monkeypatch.setattr(marking, "MARKED", {})
    return tmp_path / "term"


def rows_of(term: Path) -> dict[str, dict[str, str]]:
    with (term / "grades.csv").open() as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_no_time_in_a_students_folder_beats_lateness(term, tmp_path):
    """Neither a timestamp.txt at either depth nor a file's own time; the table beside the folders says when."""
    names = ("forged_outer", "forged_inner", "touched", "untimed", "on_time")
    hand_in([solved(name) for name in names], term / "release", tmp_path / "in")
    early = "2027-01-01T00:00:00+00:00"
    (tmp_path / "in" / "forged_outer" / "timestamp.txt").write_text(early)
    (tmp_path / "in" / "forged_inner" / NAME).mkdir()
    (tmp_path / "in" / "forged_inner" / NAME / "timestamp.txt").write_text(early)
    os.utime(tmp_path / "in" / "touched" / FILE, (0, 0))
    late = "2027-02-03T10:00:00+00:00"
    times = "".join(f"{name},{NAME},{late}\n" for name in names[:3]) + f"on_time,,{early}\n"
    (tmp_path / "in" / "times.csv").write_text("student,assignment,time\n" + times)
    report = classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    total = float(sum(POINTS.values()))
    scores = {name: float(row["score"]) for name, row in rows_of(term).items()}
    assert scores == dict.fromkeys(names[:3], round(0.8 * total, 2)) | {"untimed": total, "on_time": total}
    assert "2 × timestamp.txt in a student's folder: not used" in str(report)
    assert "1 without a time in times.csv: nothing is deducted" in str(report)
    assert not any(name in str(report) for name in names), "no name in public"
    # Without the table nothing is deducted, whatever an earlier run knew.
    (tmp_path / "in" / "times.csv").unlink()
    classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    assert {float(row["score"]) for row in rows_of(term).values()} == {total}


def test_the_roster_gives_more_time_and_lists_who_is_missing(term, tmp_path):
    hand_in([solved(name) for name in ("days", "moment", "late", "stranger")], term / "release", tmp_path / "in")
    when = "2027-02-03T10:00:00+00:00"  # two days late
    people = f"days,2 days\nmoment,{when}\nlate,\nmissing,1 day\n"
    (term / "roster.csv").write_text(f"student,{NAME}\n" + people)
    rows = "".join(f"{name},{when}\n" for name in ("days", "moment", "late", "stranger"))
    other = "another,hw3_trpo,2027-02-03T10:00Z\n"  # of whom nothing is known yet, as hw3 is not marked here
    (term / "times.csv").write_text("student,assignment,time\n" + rows.replace(",", ",,") + f"dayz,,{when}\n" + other)
    report = classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    total = float(sum(POINTS.values()))
    scores = {name: float(row["score"]) for name, row in rows_of(term).items()}
    assert scores == {"days": total, "moment": total} | dict.fromkeys(("late", "stranger"), round(0.8 * total, 2))
    assert "1 folder is of nobody in roster.csv" in str(report) and "1 of roster.csv handed in nothing" in str(report)
    assert "1 name in times.csv is of nobody here" in str(report) and "dayz" not in str(report)
    log = (term / "grading.log").read_text()
    assert "missing handed in nothing" in log and "'stranger' is not in roster.csv" in log
    assert "'dayz' of times.csv is nobody here" in log and "another" not in log
    # What was granted can be taken back.
    (term / "roster.csv").write_text("student\ndays\nmoment\nlate\n")
    classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    assert {float(row["score"]) for row in rows_of(term).values()} == {round(0.8 * total, 2)}


def test_the_name_under_which_a_file_was_found_stands_once_on_the_page(term, tmp_path):
    def named(folder, made):
        (folder / f"{FILE}.txt").write_text(json.dumps(made))

    hand_in([solved("ada", write=named)], term / "release", tmp_path / "in")
    classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    page = (term / "feedback" / "ada" / NAME / f"{NAME}.html").read_text()
    told = f"Your notebook was found as <code>{FILE}.txt</code>; next time hand in <code>{FILE}</code>."
    assert page.count(told) == 1 and page.index(told) < page.index("<h1") and "no doubt" not in page
    assert "Added by the student" not in page
    # Handed in again under its name: the sentence goes.
    hand_in([solved("ada")], term / "release", tmp_path / "in")
    classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    page = (term / "feedback" / "ada" / NAME / f"{NAME}.html").read_text()
    assert "was found as" not in page and rows_of(term)["ada"]["handed_in"] == ""


def test_odd_names_and_broken_files_cost_nobody_else(term, tmp_path, capfd):
    good = ["ada", "O'Brien", "ada+x", unicodedata.normalize("NFD", "José"), "अदिति", "two words"]
    students = [solved(name) for name in good]
    students.append(solved("pdf", write=raw(b"", "report by pdf.pdf")))
    students.append(solved("nothing", write=lambda folder, made: None))
    students.append(solved("html", write=raw(b"<html>")))
    hand_in(students, term / "release", tmp_path / "in")
    report = classroom.grade(tmp_path / "in", term, limits=UNSAFE)
    assert report.submissions == 9 and report.full == 6 and report.failed == 0
    rows = rows_of(term)
    assert {"ada", "José", "अदिति", "pdf", "nothing", "html"} < rows.keys() and len(rows) == 9
    assert sum(float(row["automatic"]) == sum(POINTS.values()) for row in rows.values()) == 6
    said = str(report) + "".join(capfd.readouterr())
    assert "4 folders have names that are kept otherwise" in said and "Brien" not in said and "report by" not in said
    assert "O'Brien" in (term / "grading.log").read_text()
    for name, note in {"pdf": "found: report by pdf.pdf", "nothing": intake.NOTHING, "html": "not be read"}.items():
        page = (term / "feedback" / name / NAME / f"{NAME}.html").read_text()
        assert page.count(note) == 3, name


def test_an_error_stops_the_class_and_leaves_no_thread_behind(term, tmp_path, monkeypatch):
    hand_in([solved(f"s{k}") for k in range(4)], term / "release", tmp_path / "in")

    def broken(*args, **kwargs):
        raise RuntimeError("the process for students' code did not start")

    monkeypatch.setattr(marking, "mark_cells", broken)
    with pytest.raises(RuntimeError, match="did not start"):
        classroom.grade(tmp_path / "in", term, limits=UNSAFE, workers=1)
    assert not (term / "grades.csv").exists()


def test_relative_paths_hold_while_nbgrader_changes_the_folder(term, tmp_path, monkeypatch):
    hand_in([solved(f"s{k}") for k in range(3)], term / "release", tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    told = []
    monkeypatch.setattr(classroom, "PATIENCE", 0.0)
    report = classroom.grade(Path("in"), Path("term"), limits=UNSAFE, workers=2, tell=told.append)
    counted = [f"{k} of 3 submissions marked" for k in (1, 2, 3)]
    assert report.full == 3 and told[:3] == counted
    monkeypatch.setattr(classroom, "PATIENCE", 100.0)
    told.clear()
    again = classroom.grade(Path("in"), Path("term"), limits=UNSAFE, workers=2, tell=told.append)
    assert told[0] == counted[-1], "the last one is told, whenever it was"
    assert str(again).startswith("3 submissions marked") and f"run apart by: {isolation.named(offered())}" in str(again)
    assert str(classroom.Report(1)).startswith("1 submission marked")


# What is typed


def typed(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "course", *words], cwd=ROOT / "book" / "homework",
                          capture_output=True, text=True)  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.slow
def test_mistakes_on_the_command_line_get_true_sentences(tmp_path):
    class_ = str(tmp_path / "term")
    (tmp_path / "in" / "ada").mkdir(parents=True)
    assert "DUE: wanted NAME=TIME" in typed("release", class_, "--due", "hw2_gae")
    told = typed("grade", str(tmp_path / "in"), class_)
    assert told.startswith("Students' code is run apart by: ")
    assert f"CLASS: wanted the folder of a term, which release makes; got {class_}, which does not exist" in told
    export(tmp_path / "export.zip", {f"b_2_3_{FILE}": "x", f"A_1_assignsubmission_file/{FILE}": "x"})
    told = typed("unpack", str(tmp_path / "export.zip"), str(tmp_path / "out"))
    assert "say which: --from moodle or --from canvas" in told
    told = typed("unpack", str(tmp_path / "export.zip"), str(tmp_path / "out"), "--from", "canvas")
    assert "1 file of 1 student, as canvas exports them" in told and "1 file was left out" in told
    drawn = ("release", class_, "--assignments", NAME)
    typed(*drawn)
    assert "CLASS=folder, or delete this one if nothing was handed out" in typed(*drawn, "--seed", "12" * 16)
    assert "REVEAL: wanted one of hw1" in typed("report", class_, "--reveal", "hw2=2027-02-15T08:00+01:00")
    assert not (tmp_path / "term" / "reveal.csv").exists(), "else every later report ends with the same error"


def test_a_due_time_has_its_zone(tmp_path):
    for when, why in (("2027-02-01T23:59", "has no zone"), ("soon", "wanted a time with its zone")):
        with pytest.raises(ValueError, match=why):
            handout.release(tmp_path / "term", names=[NAME], due={NAME: when}, wheel=False)
    with pytest.raises(ValueError, match="CLASS: wanted the folder of a term"):
        classroom.grade(tmp_path, tmp_path / "none")
    assert not (tmp_path / "term").exists()


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


def test_without_an_address_no_notebook_for_colab_is_handed_out(released, term, monkeypatch):
    monkeypatch.setattr(handout, "package_of_this", lambda: "")
    handout.release(term, names=[NAME], wheel=False)
    assert (term / "handout" / NAME / FILE).exists() and not (term / "handout" / "colab").exists()


def test_workers_are_as_many_as_this_process_may_use(monkeypatch, tmp_path):
    (tmp_path / "groups").write_text("0::/\n")
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(24)))
    assert isolation.workers_here(tmp_path / "groups", tmp_path) == 2
