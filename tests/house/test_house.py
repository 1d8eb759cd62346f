"""The shape of the house: what stands at the top, and what no file may hold."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"book", "minerva_lite", "tests"}
# What belongs to one machine, and what is found by that; assembled so that this file does not hold them.
REGISTRIES = r"(registry\.npm|pypi\.org/simple|files\.pythonhosted|download\.py" + "torch)"
FORBIDDEN = [
    ("https?://" + REGISTRIES, "https://registry" + ".npmjs.org/x"),
    ("--(extra-)?index" + "-url", "pip install x --extra-index" + "-url y"),
    ('"resolved"' + r':\s*"', '"resolved"' + ': "https://x"'),
    (r"(?<![\w.])/(home/|Users/|root/|work" + r"/)[\w.-]+", "see /" + "home/ann/book"),
]  # fmt: skip


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in names.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return (ROOT / path).read_text("utf8")
    except UnicodeDecodeError:
        return ""


def stored_errors(notebook: dict) -> list[int]:
    """Cells that stored an exception and are not meant to."""
    return [i for i, cell in enumerate(notebook["cells"])
            if any(output["output_type"] == "error" for output in cell.get("outputs", []))
            and "raises-exception" not in cell["metadata"].get("tags", [])]  # fmt: skip


def test_the_repository_has_three_visible_folders():
    seen = {path.parts[0] for path in tracked() if len(path.parts) > 1 and not path.parts[0].startswith(".")}
    assert seen == ROOMS


def test_no_notebook_stores_an_error():
    cell = {"outputs": [{"output_type": "error"}], "metadata": {}}
    meant = cell | {"metadata": {"tags": ["raises-exception"]}}
    assert stored_errors({"cells": [meant, cell, {"metadata": {}}]}) == [1]
    notebooks = [path for path in tracked() if path.suffix == ".ipynb"]
    assert notebooks and [str(path) for path in notebooks if stored_errors(json.loads(text_of(path)))] == []


@pytest.mark.parametrize(("pattern", "found"), FORBIDDEN, ids=["a registry", "an index", "a lock file", "a path"])
def test_no_file_holds_what_belongs_to_one_machine(pattern, found):
    assert re.search(pattern, found)
    assert [str(path) for path in tracked() if re.search(pattern, text_of(path))] == []


def test_every_requirement_is_pinned():
    lines = [line.split("#")[0].split(";")[0].strip() for line in text_of(Path("requirements.txt")).splitlines()]
    assert [line for line in lines if line and not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
