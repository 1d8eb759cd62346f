"""The file of a bench: the command that wrote it, the versions it ran with, a line of columns, and rows."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book.results.studies.record import read_rows


@dataclass(frozen=True)
class Table:
    """What stands in a bench's file.

    module: the command is `python -m {module}` with the arguments of this process. columns: all, in order. text: those
    that hold words. digits: those that hold fractions, and how many decimals of them are written. The others hold
    integers.
    """

    module: str
    columns: Sequence[str]
    text: frozenset[str]
    digits: Mapping[str, int]

    def write(self, path: Path, rows: list[dict[str, Any]], versions: Mapping[str, str]) -> None:
        """Write the rows under two comment lines: how they were made, and with what. What was there is replaced.

        Raises KeyError: a row lacks a column of fractions. Raises ValueError: a row has a column that the table lacks.
        """
        with path.open("w", newline="") as file:
            told = ", ".join(f"{name} {number}" for name, number in versions.items())
            command = shlex.join(["python", "-m", self.module, *sys.argv[1:]])
            file.write(f"# command: {command}\n# versions: {told}\n")
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(row | {name: round(row[name], n) for name, n in self.digits.items()} for row in rows)

    def read(self, path: Path) -> list[dict[str, Any]]:
        """The rows of a file that `write` wrote, numbers as numbers. Raises ValueError: a cell is not of its kind."""
        kinds = dict.fromkeys(self.text, str) | dict.fromkeys(self.digits, float)
        return [{name: kinds.get(name, int)(value) for name, value in row.items()} for row in read_rows(path)]
