"""`python -m course release`, `check`, `grade`, `report`: homework from a term's folder. The Makefile calls them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import tyro

from . import check, classroom, handout, reports, seed_of
from . import term as terms
from .isolation import Limits


def release(
    term: Annotated[Path, tyro.conf.Positional],
    seed: str | None = None,
    assignments: tuple[str, ...] = (),
    due: tuple[str, ...] = (),
    package: str | None = None,
    pack: Path | None = None,
    variants: int = 0,
) -> None:
    """Make a term's folder and its handout.

    Args:
        term: The folder; private, as it holds the seed, the solutions and later the grades.
        seed: What the term's assignments are drawn from, 32 hexadecimal digits; drawn unless given.
        assignments: Which to release; all unless given.
        due: NAME=TIME for each that is due, such as hw2_gae=2027-02-01T23:59+01:00.
        package: What the Colab version installs, as pip takes it.
        pack: A private folder of your own assignments, beside the book's or in their place.
        variants: So many different notebooks, one of them for each student of the term's roster.csv.
    """
    when = dict(each.split("=", 1) for each in due)
    drawn = {"seed": seed, "names": assignments or None, "pack": pack, "variants": variants}
    folder = handout.release(term, **drawn, due=when, package=package)
    print(f"Hand out what is in {folder}; keep the rest of {term} to yourself.")
    if not package and "@" not in handout.package_of_this():
        print("The Colab version needs an address of the package to install: release again and name one.")


def check_pack(
    pack: Annotated[Path, tyro.conf.Positional],
    assignments: tuple[str, ...] = (),
) -> None:
    """Try a pack's questions as the book's own are tried; ends with 1 if something does not hold.

    Args:
        pack: The folder, with the answers to try in its folder `answers`.
        assignments: Which; all of the pack unless given.
    """
    faults = 0
    for line in check.reported(pack, assignments):
        faults += line.startswith(check.FAULT)
        print(line, flush=True)
    sys.exit(1 if faults else 0)


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


def report(term: Annotated[Path, tyro.conf.Positional]) -> None:
    """Write feedback pages and tables anew, after people gave their marks.

    Args:
        term: The folder that `release` made.
    """
    reports.write_reports(term)


if __name__ == "__main__":
    try:
        commands = {"release": release, "check": check_pack, "grade": grade, "report": report, "source": source}
        tyro.extras.subcommand_cli_from_dict(commands, prog="python -m course")
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(str(error))
