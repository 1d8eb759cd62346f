"""Each chapter is executed from its runnable copy and compared with what the chapter has stored; then once more,
backwards. `make test` runs one copy, in place of its chapter.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import nbformat
import pytest

from minerva_book.figures.widgets import FRAMES
from tests.chapters.watch import watched
from tests.copies.second_pass import RECORD, TOLD, texts
from tests.equations import CHAPTERS, ROOT
from tests.pages import build

NBVAL = ("--nbval", "--nbval-current-env", "--nbval-cell-timeout", "300")


def execute(copy: Path, told: Path) -> str:
    """Run a notebook by nbval in a process of its own; what it says."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.copies.second_pass", *NBVAL]
    env = {name: value for name, value in os.environ.items() if name != FRAMES}  # a reader's figures are live
    env |= {"SECOND_PASS": str(told), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'book'}"}
    here = [f"--rootdir={copy.parent}", str(copy)]
    done = subprocess.run([*command, *here], cwd=copy.parent, env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_copy_gives_what_its_chapter_has_stored_and_can_be_run_again(chapter, request):
    copy = build.site().parents[1] / "copies" / chapter.name
    source, made = (nbformat.read(path, as_version=4).cells for path in (chapter, copy))
    code = [cell for cell in made if cell.cell_type == "code"]
    own = [cell for cell in code if not cell.metadata.get("added")]
    assert [texts(cell.outputs) for cell in own] == [texts(c.outputs) for c in source if c.cell_type == "code"]
    TOLD.mkdir(parents=True, exist_ok=True)
    told = TOLD / f"{chapter.stem}.json"
    told.unlink(missing_ok=True)
    folder = request.config.getoption("--watch-chapters")
    with watched(chapter, Path(folder).resolve()) if folder else nullcontext():
        said = execute(copy, told)
    passed = re.search(r"(\d+) passed", said)
    assert passed and int(passed[1]) == len(code) and "failed" not in said, said[-6000:]
    told = json.loads(told.read_text())
    assert told["silent"] == {}, "cells that compute for more than three seconds and show nothing"
    assert told["found"] == json.loads(RECORD.read_text()).get(chapter.stem, {})
    assert told["altered"] == {}, "a line that the chapter asks to change"


def test_a_second_pass_tells_what_raises_and_what_prints_otherwise(tmp_path):
    asks = "# Change this line for now: z = 1 → {}\n# Look for: it.\nz = 1\nprint(1 / z)"
    asked = [asks.format(new) for new in ("2", "1.0", "0")]
    cells = ["x = 1", "print(x)", "y = 2", "x = x + y", "del y", "print(3)", *asked]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    outputs = "", "1\n", "", "", "", "3\n", "1.0\n", "1.0\n", "1.0\n"
    for cell, name, said in zip(notebook.cells, "abcdefghi", outputs, strict=True):
        cell.id = name
        cell.outputs = [nbformat.v4.new_output("stream", text=said)] if said else []
    notebook.cells[4].metadata["tags"] = ["loop"]
    nbformat.write(notebook, tmp_path / "small.ipynb")
    execute(tmp_path / "small.ipynb", tmp_path / "told.json")
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["found"] == {"b": "other print", "d": "NameError"}
    assert told["altered"] == {"h": "same print", "i": "ZeroDivisionError"}


def test_a_cell_that_shows_nothing_is_told_and_what_it_shows_meanwhile_is_not_compared(tmp_path):
    helper = (
        "import time\nfrom minerva_book import counted\n\n\ndef work(seconds):\n"
        "    until = time.process_time() + seconds\n    while time.process_time() < until:\n        pass\n"
    )
    cells = [
        f"{helper}work(3.5)",
        "time.sleep(3.5)",
        "for _ in counted(range(5), 'rounds'):\n    work(0.8)",
        "work(3.5)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    for cell, name in zip(notebook.cells, ("imports", "waits", "shows", "silent"), strict=True):
        cell.id, cell.execution_count = name, 1
    nbformat.write(notebook, tmp_path / "small.ipynb")
    assert "4 passed" in execute(tmp_path / "small.ipynb", tmp_path / "told.json")
    told = json.loads((tmp_path / "told.json").read_text())
    assert list(told["silent"]) == ["silent"] and told["found"] == {}
