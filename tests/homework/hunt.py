"""What a public generator is worth: a loop over made-up seeds finds the solutions of a released notebook.

`python -m tests.homework.hunt` draws a term, hunts through its notebooks, marks what was found, and says how long
the hunt took. `python -m tests.homework.hunt FOLDER` hunts through the notebooks of a handout.
"""

from __future__ import annotations

import random
import secrets
import sys
import time
from pathlib import Path

import nbformat

from .trials import assignment

from course import NAMES  # isort: skip - found by what trials puts on the path
from course.isolation import Limits, offered  # isort: skip
from course.marking import mark_cells  # isort: skip
from course.notebook import notebook  # isort: skip
from course.packs import maker  # isort: skip
from course.question import Code  # isort: skip

SETUP = {"id": "setup", "source": "import math\nimport torch\ntorch.set_default_dtype(torch.float64)"}


def given(book: nbformat.NotebookNode) -> dict[str, str]:
    """The texts of a notebook that students read, by the cells' names."""
    ids = {cell.metadata.get("nbgrader", {}).get("grade_id", ""): cell.source for cell in book.cells}
    return {name: text for name, text in ids.items() if name.endswith(("-text", "-faulty"))}


def hunted(texts: dict[str, str], names: tuple[str, ...] = NAMES, seeds: int = 5000) -> tuple[dict[str, Code], int]:
    """The coded questions of which made-up seeds draw the very variant, and how many seeds that took (all, if not all).

    texts: what the notebook says. names: assignments to draw.
    """
    wanted = {name.partition("-")[0] for name in texts}
    found: dict[str, Code] = {}
    for seed in range(seeds):
        for name in names:
            for question in maker(name, None)(random.Random(f"{seed}/{name}")).questions:
                said = texts.get(f"{question.name}-text", "")
                if question.name not in wanted or not said.endswith(question.text.strip()):
                    continue
                if getattr(question, "fault", None):
                    told = question.faulty.replace(f"def {question.function}(", f"def faulty_{question.function}(", 1)
                    if told not in texts.get(f"{question.name}-faulty", ""):
                        continue
                wanted.remove(question.name)
                if isinstance(question, Code):
                    found[question.name] = question
        if not wanted:
            return found, seed + 1
    return found, seeds


def points(name: str, secret: str, found: dict[str, Code]) -> float:
    """What the grader gives for the solutions that were found."""
    cells = [{"id": f"{q.name}-code", "source": f"{q.setup}\n{q.solution}"} for q in found.values()]
    limits = Limits(unsafe=offered() != "bubblewrap")
    marks, _ = mark_cells(assignment(name, secret), [SETUP, *cells], secret, limits=limits)
    return sum(mark.points for mark in marks.values())


def main() -> None:
    secret, total, possible, spent = secrets.token_hex(16), 0.0, 0, 0.0
    if sys.argv[1:]:
        books = {file.stem: nbformat.read(file, as_version=4) for file in Path(sys.argv[1]).glob("hw*/hw*.ipynb")}
    else:
        books = {name: notebook(assignment(name, secret), seconds=5.0) for name in NAMES}
    for name, book in sorted(books.items()):
        began, before = time.perf_counter(), time.process_time()
        found, seeds = hunted(given(book), (name,) if name in NAMES else NAMES)
        spent += time.process_time() - before
        print(f"{name}: {', '.join(found) or 'nothing'} by {seeds} seeds, {time.perf_counter() - began:.1f} s")
        if not sys.argv[1:]:
            total += points(name, secret, found)
            possible += sum(question.points for question in assignment(name, secret).coded)
    if possible:
        print(f"{total:g} of {possible} machine points")
    print(f"the hunt took {spent:.1f} s of one processor")


if __name__ == "__main__":
    main()
