"""What comes in: exports, file forms, times and rosters; and that nobody's file or name touches another student."""

from __future__ import annotations

import csv
import io
import json
import os
import re
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
from .trials import ROOT, SHORT, by_hand, page, table

from course import classroom, intake, reports, roster, uploads  # isort: skip - found by what trials puts on the path

FILE = f"{NAME}.ipynb"
TOTAL = float(sum(POINTS.values()))
person = roster.Person


def zipped(members: dict[str, bytes | str]) -> bytes:
    """An archive, in it files by their names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def export(file: Path, members: dict[str, bytes | str]) -> Path:
    file.write_bytes(zipped(members))
    return file


def unpacked(folder: Path, members: dict[str, bytes | str], **options) -> tuple[dict[str, str], uploads.Unpacked]:
    """What lies where after unpacking, and what is told."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    report = uploads.unpack(export(folder / "export.zip", members), out, **options)
    files = {str(f.relative_to(out)): f.read_text() for f in sorted(out.rglob("*")) if f.is_file()}
    return {name: text for name, text in files.items() if name not in (uploads.LEFT_OUT, uploads.NAMES)}, report


# Exports: members with what is in them, the roster, the files that come of them, and how many are left out


EXPORTS = {
    "Moodle's number is the one at the end of the first folder, whatever a display name or a file's name holds": ({
        f"Vera Victim_77_assignsubmission_file/{FILE}": "victim",
        f"Evil_77_assignsubmission_file M_12_assignsubmission_file_/{FILE}": "by name",
        "Mallory_13_assignsubmission_file/x_77_assignsubmission_file.ipynb": "by file",
        f"Eve_14_assignsubmission_file/Vera Victim_77_assignsubmission_file/{FILE}": "by folder",
        "Vera Victim_77_assignsubmission_onlinetext/onlinetext.html": "text",
    }, [], {
        f"12/{FILE}": "by name", "13/x_77_assignsubmission_file.ipynb": "by file", f"77/{FILE}": "victim",
        f"14/Vera Victim_77_assignsubmission_file/{FILE}": "by folder",
    }, 1),
    "Moodle's files in one folder are left out where two readings are possible": ({
        f"Vera Victim_77_assignsubmission_file_{FILE}": "victim",
        f"Evil_77_assignsubmission_file_x_12_assignsubmission_file_{FILE}": "evil",
    }, [], {f"77/{FILE}": "victim"}, 1),
    "Canvas's number is the one after the name if there is no third, and the platform is one for all": ({
        f"victimvera_77_900_{FILE}": "victim", f"evil_12_901_y_77_assignsubmission_file_{FILE}": "by Moodle's words",
        "lovelaceada_LATE_13_902_hw2_gae-2.ipynb": "late", f"mallory_77_14_903_{FILE}": "a name that ends in a number",
    }, [], {
        f"12/y_77_assignsubmission_file_{FILE}": "by Moodle's words", "13/hw2_gae-2.ipynb": "late",
        f"77/{FILE}": "victim",
    }, 1),
    "three numbers in a row are told apart by the roster, unless two of them are students'": ({
        f"ada_77_900_{FILE}": "other", "bob_12_901_2_hw2.ipynb": "a file named 2_hw2", f"evil_77_12_901_{FILE}": "evil",
    }, [person("bob", canvas="12"), person("ada", canvas="77")], {
        f"ada/{FILE}": "other", "bob/2_hw2.ipynb": "a file named 2_hw2",
    }, 1),
    "hidden names are a student's too, and what systems leave is passed over": ({
        f".Ada_1_assignsubmission_file/{FILE}": "mine", "__MACOSX/._x": "", "A_2_assignsubmission_file/.DS_Store": "",
        f"A_2_assignsubmission_file/._{FILE}": "", f"A_2_assignsubmission_file/.git/{FILE}": "other",
    }, [], {f"1/{FILE}": "mine", f"2/.git/{FILE}": "other"}, 0),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPORTS)
def test_an_export_becomes_a_folder_for_each_student(case, tmp_path):
    members, people, wanted, left = EXPORTS[case]
    files, report = unpacked(tmp_path, members, people=people)
    assert files == wanted and (report.files, len(report.left_out)) == (len(wanted), left), report.left_out
    assert report.platform == ("moodle" if next(iter(members)).count("_assign") else "canvas")
    if left:
        assert "vil" not in str(report) and (tmp_path / "out" / uploads.LEFT_OUT).read_text()


@pytest.mark.parametrize("members", [
    {f"A_1_assignsubmission_file/{FILE}": "", f"b_2_3_{FILE}": ""}, {"notes.ipynb": "", f"ada/{FILE}": ""},
])  # fmt: skip
def test_an_export_of_two_platforms_or_of_none_is_an_error_that_says_so(tmp_path, members):
    with pytest.raises(ValueError, match="wanted Moodle's or Canvas's; got 2 files.*--from moodle or --from canvas"):
        unpacked(tmp_path, members)
    files, report = unpacked(tmp_path, members, platform="moodle")
    assert len(files) + len(report.left_out) == 2
    with pytest.raises(ValueError, match="wanted a folder that is new or empty"):
        uploads.unpack(tmp_path / "export.zip", tmp_path, platform="moodle")
    (tmp_path / "no.zip").write_text("no archive")
    with pytest.raises(ValueError, match="no zip archive"):
        uploads.unpack(tmp_path / "no.zip", tmp_path / "new")


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
                     "Eve_2_assignsubmission_file\\..\\..\\evil_2.ipynb", "C:/evil.ipynb",
                     *["Eve_2_assignsubmission_file/twice.ipynb"] * 2):  # fmt: skip
            archive.writestr(name, "evil")
        archive.writestr("Eve_2_assignsubmission_file/bomb.ipynb", bytes(3 << 20))
    report = uploads.unpack(file, tmp_path / "out")
    assert report.files == 1 and (tmp_path / "out" / "1" / FILE).read_text() == "good" and len(report.left_out) == 9
    left = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    assert left == {"export.zip", f"out/1/{FILE}", "out/left_out.txt", "out/names.csv"}
    for why in ("leads out", "a link", "larger than 1 MB", "same name"):
        assert why in "".join(report.left_out), why


def test_a_liar_about_a_files_size_and_a_list_without_end_are_refused(tmp_path, monkeypatch):
    """The size in the list of contents says little: what comes out is counted."""
    monkeypatch.setattr(uploads, "MEMBER", 1 << 16)
    members = {f"Ada_1_assignsubmission_file/{FILE}": "x", "Eve_2_assignsubmission_file/b.ipynb": bytes(1 << 20)}
    file = export(tmp_path / "export.zip", members)
    sizes = ((number).to_bytes(4, "little") for number in (1 << 20, 100))
    file.write_bytes(file.read_bytes().replace(*sizes))
    report = uploads.unpack(file, tmp_path / "out")
    assert (report.files, len(report.left_out), report.students) == (1, 1, 1)
    # Nor does a record of the 64-bit form within another one, of which the inner says that the list is short.
    record = bytearray(b"PK\6\6" + bytes(52))
    record[40:48] = (1 << 40).to_bytes(8, "little")
    record[8:12] = b"PK\6\6"
    wide = tmp_path / "wide.zip"
    wide.write_bytes(bytes(60) + bytes(record) + b"PK\6\7" + bytes(16) + b"PK\5\6" + bytes(18))
    for archive, bound, most, why in (
        (file, "DIRECTORY", 100, "list of contents is too long"), (file, "MEMBERS", 1, "at most 1 files; got 2"),
        (wide, "DIRECTORY", 16 << 20, "list of contents is too long"),
    ):  # fmt: skip
        monkeypatch.setattr(uploads, "DIRECTORY", 16 << 20)
        monkeypatch.setattr(uploads, bound, most)
        with pytest.raises(ValueError, match=why):
            uploads.unpack(archive, tmp_path / "other")


def test_names_for_the_way_back_are_kept_and_times_of_an_export_count_only_when_asked_for(tmp_path):
    members = {"lovelaceada_LATE_13_902_a.pdf": "", f"lovelaceada_LATE_13_903_{FILE}": ""}
    assert "times.csv" not in unpacked(tmp_path, members)[0]
    with (tmp_path / "out" / uploads.NAMES).open() as file:
        assert next(csv.DictReader(file)) == {"student": "13", "path": f"lovelaceada_LATE_13_903_{FILE}"}
    assert "times.csv" in unpacked(tmp_path, members, trust_times=True)[0]
    assert roster.read_times([], tmp_path / "out").keys() == {("13", "")}


def test_a_time_is_of_whom_the_roster_says(tmp_path):
    text = f"student;assignment;time\n12;{NAME};2027-02-01T12:00Z\nbob;;2027-02-01T12:00Z\n"
    (tmp_path / "times.csv").write_text(text)
    found = roster.read_times([person("ada", canvas="12")], tmp_path / "none", tmp_path)
    assert found == dict.fromkeys([("ada", NAME), ("bob", "")], datetime(2027, 2, 1, 12))


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


def test_students_whom_the_roster_does_not_know_are_counted_and_the_way_out_is_named(tmp_path):
    people = [person("ada", name="Ada L", moodle="12", canvas="77"), person("bob", name="Bob B")]
    members = {f"n{k}_{k}_assignsubmission_file/{FILE}": str(k) for k in (12, 13, 14)}
    sheet = tmp_path / "worksheet.csv"
    sheet.write_text("Identifier,Full name\nParticipant 13,Bob B\n")
    canvas = {f"ada_77_1_{FILE}": "", f"eve_78_2_{FILE}": ""}
    for files, options, words, other in (
        (members, {"people": people}, ("2 of 3 are not in roster.csv", "WORKSHEET=worksheet.csv"), "column canvas"),
        (members, {"people": people, "worksheet": sheet}, ("1 of 3 is not in roster.csv", "in common"), "WORKSHEET="),
        (canvas, {"people": people}, ("1 of 2 is not in roster.csv", "column canvas"), "WORKSHEET"),
        (members, {}, ("3 files of 3 students, as moodle",), "roster.csv"),  # nobody is missing from none
        ({f"ada_77_1_{FILE}": ""}, {"people": people}, ("1 file of 1 student, as canvas",), "roster.csv"),
    ):  # fmt: skip
        report = str(unpacked(tmp_path, files, **options)[1])
        assert all(word in report for word in words) and other not in report, report


# Names and rosters


def test_every_folder_name_is_kept_under_one_that_nbgrader_can_hold():
    same = ["ada", "ada.l@example.org", "José", "李雷", "अदिति", "_x", "a-b"]
    assert [roster.filed_as(name) for name in same] == same
    assert roster.filed_as(unicodedata.normalize("NFD", "José")) == "José"
    odd = ["O'Brien", "O Brien", "ada+x", "..", "", "-f", "a/b", "x" * 300, "x" * 301, "a\ud800", "[a]*", "a\nb"]
    found = [roster.filed_as(name) for name in odd]
    assert len(set(found)) == len(odd) and found[0].startswith("O-Brien-")
    for name in found:
        assert roster.filed_as(name) == name and len(name) <= roster.LONGEST and not set(name) & set("/ '+*[]\n\ud800")


def test_a_folder_may_be_named_by_anything_that_the_roster_says_of_a_student(tmp_path):
    """Of two folders of one student the one with the student's own name counts; without such a one neither does."""
    people = [person("ada", name="Ada Lovelace", login="al1", canvas="12"), person("bob", login="al1x", moodle="13")]
    for name, wanted, left in (
        ("Ada Lovelace", {"ada": "Ada Lovelace"}, 0), ("13", {"ada": "Ada Lovelace", "bob": "13"}, 0),
        ("12", {"bob": "13"}, 2), ("ada", {"ada": "ada", "bob": "13"}, 2),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        folders, lines = roster.folders_of(tmp_path, people)
        assert {each.student: each.path.name for each in folders} == wanted
        assert sum("left out" in line for line in lines) == left


@pytest.mark.parametrize(("text", "why"), [
    ("name\nAda\n", "wanted columns student; got no student"), ("student,hw2\nada,2 days\n", "got hw2"),
    ("student\nada\nada\n", "1 stand there more than once"),
    ("student\nO'Brien\n", "line 2: student: wanted at most 100 letters, digits and . @ _ -"),
    ("student\nO'Brien\n", "into the column name"),
    ("student,hw2_gae\nada,soon\n", "line 2, hw2_gae: wanted a time with its zone"),
    ("student,hw2_gae\nada,2027-02-01T12:00\n", "which has no zone"),
    ("student,hw2_gae\nada,1999-02-01T12:00Z\n", "of this century"),
])  # fmt: skip
def test_a_mistake_in_the_roster_is_told_without_a_name(tmp_path, text, why):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(ValueError) as error:
        roster.read_roster(tmp_path)
    assert why in str(error.value) and "ada" not in str(error.value) and "Brien" not in str(error.value)


def test_more_time_is_a_span_or_a_moment():
    moments = {
        "2 days": timedelta(2), "+2d": timedelta(2), "48 h": timedelta(2), "90m": timedelta(hours=1.5),
        "2027-02-01 12:00 UTC": datetime(2027, 2, 1, 12), "2027-02-01T13:00+01:00": datetime(2027, 2, 1, 12),
    }  # fmt: skip
    assert {text: roster.moment_of(text, "here", spans=True) for text in moments} == moments


# File forms


BASE = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("raise NotImplementedError()")])
BASE.cells[0].metadata["nbgrader"] = {"grade_id": "q2-code", "solution": True}


def answered(text: str) -> str:
    return json.dumps(BASE).replace("raise NotImplementedError()", text)


def taken(folder: Path, files: dict[str, str | bytes], **options) -> tuple[intake.Intake, str]:
    """What comes of files in a student's folder, and the answer that was taken."""
    shutil.rmtree(folder / "ada", ignore_errors=True)
    (folder / "ada").mkdir()
    for name, data in files.items():
        place = folder / "ada" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data if isinstance(data, bytes) else data.encode())
    found = intake.taken(folder / "ada", NAME, BASE, **options)
    return found, found.notebook.cells[0]["source"] if found.file else ""


MINE, OTHER = answered("mine"), answered("other")
FORMS = {
    "as it should be": {FILE: MINE},
    "in its folder": {f"{NAME}/{FILE}": MINE},
    "beside a handout's": {f"colab/{FILE}": OTHER, FILE: MINE},
    "a handout that was given back whole": {"start.ipynb": OTHER, f"colab/{FILE}": OTHER, f"{NAME}/{FILE}": MINE},
    "beside what systems leave": {
        "Homework 2.ipynb": MINE, "._Homework 2.ipynb": OTHER,
        ".ipynb_checkpoints/Homework 2-checkpoint.ipynb": OTHER, f"__MACOSX/{FILE}": OTHER},
    "a text by its ending": {f"{FILE}.txt": MINE},
    "deep folders": {f"a/b/c/d/{FILE}": MINE},
    "with a mark of its order of bytes": {FILE: "\ufeff" + MINE},
    "an archive": {"hw2.zip": zipped({f"some/folder/{FILE}": MINE, "__MACOSX/._x.ipynb": "x"})},
    "an archive of a handout": {"all.ZIP": zipped({FILE: MINE, "hw3_trpo.ipynb": OTHER})},
    "the newest of Canvas's": {"hw2_gae-1.ipynb": OTHER, "hw2_gae-2.ipynb": MINE},
    "the tenth is newer than the ninth": {"hw2_gae-9.ipynb": OTHER, "hw2_gae-10.ipynb": MINE},
    "the newest of a browser's": {FILE: OTHER, "hw2_gae (1).ipynb": MINE},
    "the copy that Jupyter laid aside": {FILE: MINE, "hw2_gae-Copy1.ipynb": OTHER},
    "the same twice": {"hw2 mine.ipynb": MINE, "homework_2.ipynb": MINE},
    "beside another assignment": {FILE: MINE, "hw3_trpo.ipynb": OTHER, "report.pdf": ""},
}  # fmt: skip
MANY = [nbformat.v4.new_code_cell("1") for _ in range(301)]
LARGE = [nbformat.v4.new_code_cell("# " + "x" * 10**6) for _ in range(3)]
NONE = {  # files of which none is taken, and what the student is told
    "two": ({"hw2 Ada.ipynb": "1", "hw2 final.ipynb": "2"}, "2 files might be meant.*hw2 Ada.ipynb"),
    "others": ({"hw21.ipynb": "", "hw3_trpo.ipynb": ""}, f"wanted {FILE}; found: hw21.ipynb, hw3_trpo.ipynb."),
    "named": ({"report by Ada.pdf": "", "a/notes.txt": ""}, f"wanted {FILE}; found: report by Ada.pdf, a/notes.txt."),
    "many": ({f"{k}.txt": "" for k in range(9)}, "and 4 more"), "nothing": ({}, intake.NOTHING),
    "of a system": ({f"__MACOSX/{FILE}": ""}, intake.NOTHING),
    "no archive": ({"x.zip": b"no archive"}, "found: x.zip"), "cut": ({"x.zip": b"PK\5\6"}, "found: x.zip"),
    "list": ({"x.zip": b"PK\5\6" + b"\xff" * 18}, "found: x.zip"), "empty": ({"x.zip": b""}, "found: x.zip"),
    "record": ({"x.zip": zipped({"ä.ipynb": "x"}).replace("ä".encode(), b"\xff\xff")}, "found: x.zip"),
    "broken": ({FILE: "no notebook"}, "The file could not be read as a notebook"),
    "half a sign": ({FILE: answered("\\ud800")}, "The file could not be read as a notebook"),
    "own cells": ({FILE: json.dumps(BASE | {"cells": [*BASE.cells, *MANY]})}, "more than 300 cells"),
    "large": ({FILE: json.dumps(BASE | {"cells": LARGE})}, "larger than 2 MB"),
}  # fmt: skip


def test_every_form_in_which_a_notebook_comes_is_taken(tmp_path):
    assert {form: taken(tmp_path, files)[1] for form, files in FORMS.items()} == dict.fromkeys(FORMS, "mine")
    for form, (files, why) in NONE.items():
        found, _ = taken(tmp_path, files)
        nobody = found.kind.replace(FILE, "")
        assert found.notebook == BASE and bool(found.file) == (FILE in files), form
        assert re.search(why, found.note) and "Ada" not in nobody and "x.zip" not in nobody, (form, found.note)
        if "x.zip" in files:  # an archive that is none costs only itself
            assert taken(tmp_path, files | {FILE: MINE})[1] == "mine"


def test_a_notebook_of_any_name_is_taken_if_it_is_the_only_one_and_only_one_is_asked_for(tmp_path):
    files = {"assignment.ipynb": MINE, "notes.txt": "x"}
    assert taken(tmp_path, files, alone=True)[1] == "mine" and not taken(tmp_path, files)[0].file
    assert taken(tmp_path, files | {"start.ipynb": OTHER}, alone=True)[1] == "mine"
    assert not taken(tmp_path, {"start.ipynb": MINE}, alone=True)[0].file
    assert not taken(tmp_path, {"hw3 final.ipynb": MINE}, alone=True)[0].file
    assert not taken(tmp_path, files | {"other.ipynb": answered("x")}, alone=True)[0].file


def test_another_name_is_told_with_the_one_to_use_next_time(tmp_path):
    for name in (f"{FILE}.txt", f"a/b/{FILE}", "hw2 `my` own.ipynb", f"x.zip/{FILE}"):
        files = {"x.zip": zipped({FILE: MINE})} if name.startswith("x.zip") else {name: MINE}
        found, _ = taken(tmp_path, files)
        place = name.replace("`", "'")
        assert found.renamed == f"Your notebook was found as `{place}`; next time hand in `{FILE}`."
        assert found.note == "" and found.kind.endswith("there was no doubt.") and "my" not in found.kind
    assert [taken(tmp_path, {right: MINE})[0].renamed for right in (FILE, f"{NAME}/{FILE}")] == ["", ""]


def test_a_students_archive_writes_nothing_outside_and_has_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MEMBER", 1 << 20)
    monkeypatch.setattr(intake, "ARCHIVE", 3 << 20)
    bomb = {f"{k}.ipynb": bytes(1 << 20) for k in range(9)}
    (tmp_path / "ada").mkdir()
    export(tmp_path / "ada" / "x.zip", {f"../../{FILE}": "evil", "x.ipynb": bytes(2 << 20)} | bomb)
    with intake.opened(tmp_path / "ada") as (found, _):
        assert sum(each.path.stat().st_size for each in found) == 3 << 20
        assert {str(each.place) for each in found} == {"x.zip/0.ipynb", "x.zip/1.ipynb", "x.zip/2.ipynb"}
    assert set(tmp_path.rglob("*")) == {tmp_path / "ada", tmp_path / "ada" / "x.zip"}


@pytest.mark.parametrize(("bound", "value", "many"), [("ARCHIVES", 1, 2), ("NOTEBOOKS", 2, 2), ("DIRECTORY", 99, 0)])
def test_a_students_archives_are_opened_up_to_a_number(tmp_path, monkeypatch, bound, value, many):
    """Each would take its time: a thousand archives of a thousand files in one folder, for one."""
    monkeypatch.setattr(intake, bound, value)
    for name in "ab":
        export(tmp_path / f"{name}.zip", {f"{k}.ipynb": "x" for k in range(2)})
    with intake.opened(tmp_path) as (found, _):
        assert len(found) == many


def test_what_is_refused_in_a_students_archive_counts_as_well(tmp_path, monkeypatch):
    """Members that are damaged, each of which has to be unpacked to see it: only so many are."""
    looked, whole = [], intake.contents
    monkeypatch.setattr(intake, "contents", lambda *given: looked.append(given) or whole(*given))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(500):
            archive.writestr(f"{number}.ipynb", "x" * 100)
        for member in archive.infolist():
            member.CRC ^= 1
    with intake.opened(tmp_path) as (found, _):
        assert found == [] and len(looked) == 2 * intake.NOTEBOOKS


def test_links_and_folders_without_end_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    deep = tmp_path.joinpath("ada", *"abcdefghijkl")
    for folder in (secret, deep, tmp_path / "ada" / "deep"):
        folder.mkdir(parents=True)
    (secret / FILE).write_text(MINE)
    (deep / FILE).write_text(MINE)
    for name, target in {
        "folder": secret, "x.zip": export(tmp_path / "x.zip", {FILE: MINE}), "deep/again": tmp_path / "ada",
        "hw2_gae-1.ipynb": secret / FILE,
    }.items():  # fmt: skip
        (tmp_path / "ada" / name).symlink_to(target)
    os.mkfifo(tmp_path / "ada" / FILE)
    assert intake.choose(tmp_path / "ada", NAME).note == intake.NOTHING


# A class, whose functions run in this process


@pytest.mark.slow
def test_who_was_marked_by_mistake_is_taken_out_as_the_page_says(term, tmp_path):
    """By nbgrader's own command; and the tables go with the last one."""
    hand_in([solved("ada"), solved("plain")], term / "release", tmp_path / "in")
    classroom.grade(tmp_path / "in", term, limits=SHORT)
    for name, left in (("plain", {"ada"}), ("ada", set())):
        command = [sys.executable, "-m", "nbgrader", "db", "student", "remove", name, "--force"]
        subprocess.run(command, cwd=term, check=True, capture_output=True)
        reports.write_reports(term)
        assert (table(term).keys() if left else (term / "canvas.csv").exists()) == (left or False)
    page = (ROOT / "book" / "instructors.md").read_text()
    assert "nbgrader db student remove NAME --force" in page


def test_times_are_the_instructors_and_the_roster_gives_more_and_lists_who_is_missing(term, tmp_path):
    """Neither a timestamp.txt at either depth nor a file's own time; the tables beside the folders say when."""
    names = ("days", "moment", "early", "late", "forged", "inner", "untimed")
    hand_in([solved(name) for name in (*names, "stranger")], term / "release", tmp_path / "in")
    (tmp_path / "in" / "forged" / "timestamp.txt").write_text("2027-01-01T00:00:00+00:00")
    (tmp_path / "in" / "inner" / NAME).mkdir()
    (tmp_path / "in" / "inner" / NAME / "timestamp.txt").write_text("2027-01-01T00:00:00+00:00")
    os.utime(tmp_path / "in" / "late" / FILE, (0, 0))
    when = "2027-02-03T10:00:00+00:00"  # two days late
    people = "".join(f"{name},\n" for name in names[3:])
    times = f"days,2 days\nmoment,{when}\nearly,2027-01-02T00:00Z\n"  # a time before the class's takes none away
    (term / "roster.csv").write_text(f"student,{NAME}\n{times}missing,1 day\n{people}")
    rows = "".join(f"{name},,{when}\n" for name in (*names[:6], "stranger", "dayz"))
    other = "another,hw3_trpo,2027-02-03T10:00Z\n"  # of whom nothing is known yet, as hw3 is not marked here
    (term / "times.csv").write_text(f"student,assignment,time\n{rows}{other}")
    report = str(classroom.grade(tmp_path / "in", term, limits=SHORT))
    scores = {name: float(row["score"]) for name, row in table(term).items()}
    less = dict.fromkeys(("early", "late", "forged", "inner", "stranger"), round(0.8 * TOTAL, 2))
    assert scores == dict.fromkeys(("days", "moment", "untimed"), TOTAL) | less
    assert table(term)["late"]["handed_in"] == "2027-02-03 10:00:00+00:00"
    for line in ("2 × timestamp.txt in a student's folder: not used", "1 of roster.csv handed in nothing",
                 "1 without a time in times.csv: nothing is deducted", "1 folder is of nobody in roster.csv",
                 "1 name in times.csv is of nobody here"):  # fmt: skip
        assert line in report, report
    assert not any(name in report for name in (*names[:1], "forged", "inner", "untimed", "dayz")), "no name in public"
    log = (term / "grading.log").read_text()
    for line in ("missing handed in nothing", "'stranger' is not in roster.csv", "'dayz' of times.csv is nobody here"):
        assert line in log
    assert "another" not in log
    # What was granted can be taken back; and without the times nothing is deducted, whatever an earlier run knew. Who
    # hands in nothing now keeps what came before. Of people's marks as much is deducted as of the machine's.
    (term / "roster.csv").write_text("student\n" + "".join(f"{name}\n" for name in names))
    shutil.rmtree(tmp_path / "in" / "inner")
    (tmp_path / "in" / "moment" / FILE).unlink()
    (term / "times.csv").write_text(f"student,time\ndays,{when}\n")
    by_hand(term, "days", q1=3.0)
    assert classroom.grade(tmp_path / "in", term, limits=SHORT).submissions == 6
    scores = {name: float(row["score"]) for name, row in table(term).items()}
    assert scores["days"] == round(0.8 * (TOTAL + 3.0), 2) and scores["moment"] == round(0.8 * TOTAL, 2)
    assert scores["late"] == scores["forged"] == TOTAL


def test_odd_names_and_broken_files_cost_nobody_else(term, tmp_path, monkeypatch, capfd):
    """By relative paths, which hold while nbgrader changes the folder. How far it is is told at the end, at least."""
    good = ["O'Brien", "ada+x", unicodedata.normalize("NFD", "José"), "अदिति"]

    def renamed(folder, made):
        (folder / f"{FILE}.txt").write_text(json.dumps(made))

    students = [*map(solved, good), solved("ada", write=renamed), solved("html", write=raw(b"<html>"))]
    students.append(solved("pdf", write=raw(b"", "report by pdf.pdf")))
    students.append(solved("nothing", write=lambda folder, made: None))
    hand_in(students, term / "release", tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    heard: list[str] = []
    report = classroom.grade(Path("in"), Path("term"), limits=SHORT, workers=2, tell=heard.append)
    assert (report.submissions, report.full, report.failed) == (8, 5, 0) and "8 of 8 submissions marked" in heard
    assert str(report).startswith(f"8 submissions marked, 5 with every function right; run apart by: {report.by}")
    rows = table(term)
    assert {"ada", "José", "अदिति", "pdf", "nothing", "html"} < rows.keys() and len(rows) == 8
    assert sum(float(row["automatic"]) == TOTAL for row in rows.values()) == 5
    said = str(report) + "".join(capfd.readouterr())
    assert "3 folders have names that are kept otherwise" in said and "Brien" not in said and "report by" not in said
    assert "O'Brien" in (term / "grading.log").read_text()
    for name, note in {"pdf": "found: report by pdf.pdf", "nothing": intake.NOTHING, "html": "not be read"}.items():
        assert page(term, name).count(note) == 3, name
    text = page(term, "ada")
    sentence = f"Your notebook was found as <code>{FILE}.txt</code>; next time hand in <code>{FILE}</code>."
    assert text.count(sentence) == 1 and text.index(sentence) < text.index("<h1") and "no doubt" not in text
    assert "Added by the student" not in text
    # Handed in again under its name: the sentence goes.
    hand_in([solved("ada")], term / "release", tmp_path / "in")
    classroom.grade(tmp_path / "in", term, limits=SHORT)
    assert "was found as" not in page(term, "ada") and table(term)["ada"]["handed_in"] == ""
