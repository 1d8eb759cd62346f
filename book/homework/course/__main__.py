"""`python -m course release`, `grade`, `report`: homework from a term's folder. The Makefile calls them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import tyro

from . import NAMES, classroom, handout, reports, seed_of
from . import term as terms
from .isolation import Limits
from .similar import write_similar
from .zips import feedback_zips


def release(
    term: Annotated[Path, tyro.conf.Positional],
    seed: str | None = None,
    assignments: tuple[str, ...] = NAMES,
    due: tuple[str, ...] = (),
    package: str | None = None,
) -> None:
    """Make a term's folder and its handout.

    Args:
        term: The folder; private, as it holds the seed, the solutions and later the grades.
        seed: What the term's assignments are drawn from; a secret one is drawn unless given.
        assignments: Which to release.
        due: NAME=TIME for each that is due, such as hw2_gae=2027-02-01T23:59+01:00.
        package: What the Colab version installs, as pip takes it.
    """
    when = dict(each.split("=", 1) for each in due)
    folder = handout.release(term, seed=seed, names=assignments, due=when, package=package)
    print(f"Hand out what is in {folder}; keep the rest of {term} to yourself.")
    if not package and "@" not in handout.package_of_this():
        print("The Colab version needs an address of the package to install: release again and name one.")


def grade(
    submissions: Annotated[Path, tyro.conf.Positional],
    term: Annotated[Path, tyro.conf.Positional],
    assignments: tuple[str, ...] = (),
    unsafe: bool = False,
) -> None:
    """Mark what came in: feedback pages and tables in the term's folder.

    Args:
        submissions: A folder per student, in it NAME.ipynb or NAME/NAME.ipynb, and timestamp.txt if there is one.
        term: The folder that `release` made.
        assignments: Which; all that were handed in unless given.
        unsafe: Mark even where the machine offers no namespace to keep students' code apart from the answers.
    """
    if os.geteuid() == 0:
        print("This runs as root: an ordinary account would keep students' code further from the machine.")
    print(classroom.grade(submissions, term, names=assignments or None, limits=Limits(unsafe=unsafe)))
    print(f"Feedback pages and grades.csv are in {term}.")


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
    similar: bool = False,
) -> None:
    """Write feedback pages and tables anew, after people gave their marks.

    Args:
        term: The folder that `release` made.
        provisional: Also canvas_provisional.csv and moodle_provisional.csv, whose totals lack what is not yet marked.
        reveal: NAME=TIME, from when on pages show the inputs of a failing case, such as hw2_gae=2027-02-15T08:00+01:00.
        zips: Also a zip of each assignment's feedback pages, in zips/.
        names: NAME=FILE, the names.csv that unpacking an export left, so that a zip is named as Moodle or Canvas wants.
        similar: Also similar.csv and similar.md, the answers that are alike.
    """
    print(reports.write_reports(term, provisional=provisional, reveal=reveal))
    found = reports.marks_of(term) if zips or similar else []
    for line in feedback_zips(term, found, names) if zips else ():
        print(line)
    if similar:
        print(write_similar(term, found, seed_of(term)))


if __name__ == "__main__":
    try:
        tyro.extras.subcommand_cli_from_dict(
            {"release": release, "grade": grade, "report": report, "source": source}, prog="python -m course"
        )
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(str(error))
