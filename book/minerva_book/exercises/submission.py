"""A homework notebook against the one that was released: answers, added cells, changes. The grader sorts it so as well.

Cells are mappings as `nbformat` has them; a released cell's name is nbgrader's `grade_id`, as "q2-code".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SOLUTIONS = ("-code", "-run", "-answer")  # how the names of cells to fill in end
NOT_RUN = ("-marked", "-run")  # and of those that the grader does not run


@dataclass
class Sorted:
    """A submission's cells by the released ones."""

    answers: dict[str, Any] = field(default_factory=dict)  # released name -> the cell that stands for it
    added: dict[str, list[Any]] = field(default_factory=lambda: {"": []})  # by the released cell they stand behind
    changed: list[str] = field(default_factory=list)  # given cells of code whose text is another

    @property
    def remarks(self) -> list[str]:
        return [
            f"The given cell {name} was changed; your version was run after the given one." for name in self.changed
        ]


def name_of(cell: Any) -> str:
    """The released name of a cell; "" for one that the student added, or where the record is none."""
    about = cell.get("metadata", {}).get("nbgrader", {})
    name = about.get("grade_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else ""


def text_of(cell: Any) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(str(line) for line in source)


def same_text(one: str, other: str) -> bool:
    """Whether two cells say the same, spaces at the ends of lines apart."""
    return [line.rstrip() for line in one.strip().splitlines()] == [
        line.rstrip() for line in other.strip().splitlines()
    ]


def released(cells: Iterable[Any]) -> dict[str, str | None]:
    """The named cells of a released notebook, in order: the text of what a student fills in or runs, else None."""
    found: dict[str, str | None] = {}
    for cell in cells:
        name = name_of(cell)
        kept = name.endswith(SOLUTIONS) or cell["cell_type"] == "code"
        if name:
            found[name] = text_of(cell) if kept else None
    return found


def sort_out(cells: Iterable[Any], known: dict[str, str | None]) -> Sorted:
    """Sort a submission's cells by the released ones, `known` as `released` gives it.

    The first cell of a name stands for it. A further one counts as added, and so does a given cell of code that was
    changed (behind the given one), unless it says what was released: then it is no work of the student's.
    """
    found, after = Sorted(), ""
    for cell in cells:
        name = name_of(cell)
        first = name in known and name not in found.answers
        if first:
            found.answers[name], after = cell, name
            found.added.setdefault(name, [])
            if name.endswith(SOLUTIONS):
                continue
        if name in known:
            text = known[name]
            if text is None or name.endswith("-marked") or same_text(text_of(cell), text):
                continue
            if not name.endswith(SOLUTIONS) and cell.get("cell_type") != "code":
                continue
            if first:
                found.changed.append(name)
        found.added[after].append(cell)
    return found


def recorded(notebook: Any) -> dict[str, str | None]:
    """What a released notebook's metadata says of its cells, as `released` gives it; {} where it says nothing."""
    homework = notebook.get("metadata", {}).get("homework", {})
    with contextlib.suppress(TypeError, ValueError, AttributeError):
        return {str(name): None if text is None else str(text) for name, text in homework.get("cells", [])}
    return {}


def code_to_run(notebook: Any) -> tuple[list[dict[str, Any]], Sorted]:
    """The cells {"id", "source", "own"} that the grader will run of a submission, in its order; and the cells sorted.

    As far as the notebook tells what was released; else its own cells are taken for that.
    """
    known = recorded(notebook) or released(notebook["cells"])
    found = sort_out(notebook["cells"], known)
    order: list[tuple[str, str | None]] = []  # released name or "", text if it is code
    added = {
        name: [("", text_of(cell) if cell.get("cell_type") == "code" else None) for cell in cells]
        for name, cells in found.added.items()
    }
    order += added[""] if found.answers else []
    for name, text in known.items():
        if name in found.answers and name.endswith(SOLUTIONS):
            text = text_of(found.answers[name])
        order += [(name, None if name.endswith("-answer") else text), *added.get(name, [])]
    order += [] if found.answers else added[""]
    return [
        {"id": name or f"cell {place}", "source": text, "own": not name}
        for place, (name, text) in enumerate(order)
        if text is not None and not name.endswith(NOT_RUN)
    ], found
