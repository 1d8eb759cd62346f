"""`python -m course release`, `unpack`, `grade`, `report`: homework from a term's folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from . import classroom, handout, reports, seed_of, uploads
from . import term as terms
from .isolation import protection
from .roster import read_roster
from .zips import feedback_zips


def release(
    term: Annotated[Path, tyro.conf.Positional],
    seed: str | None = None,
    assignments: tuple[str, ...] = (),
    due: tuple[str, ...] = (),
    package: str | None = None,
    variants: int = 0,
) -> None:
    """Make a term's folder and its handout.

    Args:
        term: The folder; private, as it holds the seed, the solutions and later the grades.
        seed: What the term's assignments are drawn from, 32 hexadecimal digits; drawn unless given.
        assignments: Which to release; all unless given.
        due: NAME=TIME for each that is due, such as hw2_gae=2027-02-01T23:59+01:00.
        package: What the Colab version installs, as pip takes it.
        variants: So many different notebooks, one of them for each student of the term's roster.csv.
    """
    wanted = "DUE: wanted NAME=TIME for each assignment, such as hw2_gae=2027-02-01T23:59+01:00"
    if odd := [each for each in due if "=" not in each]:
        raise ValueError(f"{wanted}; got {' '.join(odd)}")
    when = dict(each.split("=", 1) for each in due)
    drawn = {"seed": seed, "names": assignments or None, "variants": variants}
    folder = handout.release(term, **drawn, due=when, package=package)
    print(f"Hand out what is in {folder}; keep the rest of {term} to yourself.")
    if told := handout.about_colab(package):
        print(told)


def grade(
    submissions: Annotated[Path, tyro.conf.Positional],
    term: Annotated[Path, tyro.conf.Positional],
    assignments: tuple[str, ...] = (),
    workers: int | None = None,
) -> None:
    """Mark what came in: feedback pages and tables in the term's folder.

    Args:
        submissions: A folder per student, in it NAME.ipynb or NAME/NAME.ipynb; beside these folders times.csv.
        term: The folder that `release` made.
        assignments: Which; all that were handed in unless given.
        workers: How many submissions run at a time; one for every processor unless given.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers: wanted at least 1; got {workers}")
    print(f"Students' code is run apart by: {protection()}.", flush=True)
    if os.geteuid() == 0:
        print("This runs as root: an ordinary account would keep students' code further from the machine.", flush=True)
    print(classroom.grade(submissions, term, names=assignments or None, workers=workers))
    print(f"Feedback pages and grades.csv are in {term}.")


def unpack(
    export: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    term: Path | None = None,
    platform: Annotated[Literal["moodle", "canvas"] | None, tyro.conf.arg(name="from")] = None,
    worksheet: Path | None = None,
    trust_export_times: bool = False,
) -> None:
    """Make a folder for every student from the archive in which Moodle or Canvas exports what came in.

    Args:
        export: The archive.
        out: The folder to make, for `grade`.
        term: The folder that `release` made; if it has a roster.csv, students' folders are named by it.
        platform: Whose export it is, if the names in it do not say.
        worksheet: Moodle's grading worksheet, which says whose the numbers in its exports are.
        trust_export_times: Take the times in the archive as those of handing in, if your platform writes these.
    """
    people = read_roster(term) if term else []
    print(uploads.unpack(
        export, out, platform=platform, people=people, worksheet=worksheet, trust_times=trust_export_times
    ))  # fmt: skip


def source(term: Annotated[Path, tyro.conf.Positional]) -> None:
    """Write the source notebooks of a course folder anew, not executed.

    Args:
        term: The folder, with its seed.txt.
    """
    terms.source(term)
    if term.resolve() == terms.HOMEWORK:
        terms.tables(term, seed_of(term))


def report(
    term: Annotated[Path, tyro.conf.Positional],
    provisional: bool = False,
    reveal: tuple[str, ...] = (),
    zips: bool = False,
    names: tuple[str, ...] = (),
) -> None:
    """Write feedback pages and tables anew, after people gave their marks.

    Args:
        term: The folder that `release` made.
        provisional: Also canvas_provisional.csv and moodle_provisional.csv, whose totals lack what is not yet marked.
        reveal: Assignments whose pages show the inputs of a failing case, from now on.
        zips: Also a zip of each assignment's feedback pages, in zips/.
        names: NAME=FILE, the names.csv that unpacking an export left, so that a zip is named as Moodle or Canvas wants.
    """
    classroom.allow(term)  # the roster may have changed
    print(reports.write_reports(term, provisional=provisional, reveal=reveal))
    for line in feedback_zips(term, reports.marks_of(term), names) if zips else ():
        print(line)


if __name__ == "__main__":
    try:
        commands = {"release": release, "unpack": unpack, "grade": grade, "report": report, "source": source}
        tyro.extras.subcommand_cli_from_dict(commands, prog="python -m course")
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(str(error))
