"""The file of a study: the command that writes it, versions, the seeding, a line of columns, and rows."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from minerva_lite.training.studies import SEEDING_LINE, VERSIONS

RESULTS = Path(__file__).parents[1]


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a recorded study as text, by column; its comments are skipped."""
    with path.open(newline="", encoding="utf8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


class Record:
    """A file that one command writes, if need be in several calls: each adds the rows that are not there yet.

    path: created where nothing is. row: the NamedTuple of a row. module: the command is `python -m {module}`. digits:
    significant ones of a number that is not an integer. Raises SystemExit: the file holds other columns, or rows by
    other versions or of the former seeding, which would be mixed with this call's.
    """

    def __init__(self, path: Path, row: type, module: str, *, digits: int):
        head = [f"# command: python -m {module}", f"# versions: {VERSIONS}", SEEDING_LINE]
        head += [",".join(row._fields)]  # type: ignore[attr-defined]
        self.path, self.digits = path, digits
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(head) + "\n", encoding="utf8")
        if path.read_text("utf8").splitlines()[:4] != head:
            raise SystemExit(
                f"{path}: wanted a file of this study by these versions with {SEEDING_LINE[2:]!r}, which files of the "
                "former seeding lack; name another file, or remove it"
            )

    def names(self, columns: int) -> set[tuple[str, ...]]:
        """The rows' first cells, as many as name a run: which runs the file holds. A run is written whole."""
        return {tuple(row.values())[:columns] for row in read_rows(self.path)}

    def cells(self, values: Iterable[Any]) -> tuple[str, ...]:
        """The values of a row, or of its beginning, as they stand in the file."""
        return tuple(f"{value:.{self.digits}g}" if isinstance(value, float) else str(value) for value in values)

    def add(self, rows: list[Any]) -> None:
        """Add the rows of a run, all at once, so that a call that is stopped leaves whole runs."""
        cells = [self.cells(row) for row in rows]
        with self.path.open("a", newline="", encoding="utf8") as file:
            csv.writer(file, lineterminator="\n").writerows(cells)

    def fill(self, runs: Iterable[tuple[tuple[Any, ...], Callable[[], Iterable[Any]]]]) -> list[Any]:
        """Do the runs that the file lacks, one after the other; add each whole, print its last row, return them all.

        runs: the first cells of a run's first row, which no other run has and which name it, and the work that returns
        its rows, one at least.
        The file is read again before every run. What a work raises is raised here; the runs before it are in the file.
        """
        found: list[Any] = []
        for name, work in runs:
            if self.cells(name) not in self.names(len(name)):
                rows = list(work())
                self.add(rows)
                found += rows
                print(*rows[-1], flush=True)
        return found


def asked(module: str, doc: str, row: type, *, digits: int, usual: str = "", **more: Any) -> tuple[Record, Any]:
    """The record that the command line names by `--out`, and all that was asked for; one thread from here on.

    module, doc: what runs, and its docstring. row, digits: as in `Record`. usual: the file unless another one is named;
    by itself it is called like the module. more: what `add_argument` takes of further options, or, where that is no
    default, of a further argument.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS / (usual or f"{module.rpartition('.')[2]}.csv"))
    for name, how in more.items():
        parser.add_argument(f"--{name}" if "default" in how else name, **how)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return Record(options.out, row, module, digits=digits), options
