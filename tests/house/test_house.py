"""The shape of the house: what stands at the top, and what no file may hold."""

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest

from minerva_lite.training.presets import PRESETS

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


# The two READMEs: the Python runs, every command and file that they name exists, and no folder is left out

README, TESTS = (ROOT / "README.md").read_text("utf8"), (ROOT / "tests" / "README.md").read_text("utf8")
TARGETS = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text("utf8"), re.M))


def first_cells(text: str, heading: str) -> list[str]:
    """The first column of the table under a heading, names in backticks one by one."""
    part = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    rows = re.findall(r"^\| (.*?) \|", part, re.M)[1:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("steps", [4_096, pytest.param(None, marks=pytest.mark.slow)])
def test_the_six_lines_train_an_agent(steps, registries, capsys):
    """All of them as they stand: solved. In the quick tier the preset is cut short, and the lines still have to run."""
    [block] = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) == 6
    if steps:
        settings = PRESETS["ppo", "CartPole-v1"]
        PRESETS["ppo", "CartPole-v1"] = dataclasses.replace(settings, total_steps=steps)
    exec(compile(block, "README.md", "exec"), {})
    assert (9.0 if steps else 475.0) < float(capsys.readouterr().out.splitlines()[-1]) <= 500.0


@pytest.mark.parametrize("text", [README, TESTS, (ROOT / "CONTRIBUTING.md").read_text("utf8")])
def test_every_make_command_exists(text):
    named = set(re.findall(r"(?:`|^)make ([\w-]+)", text, re.M))
    assert named and named <= TARGETS, named - TARGETS


def test_every_place_on_the_map_exists_and_every_room_is_on_it():
    places = first_cells(README, "Where things are")
    assert [place for place in places if not (ROOT / place).exists()] == []
    rooms = {path.parent.name for path in (ROOT / "minerva_lite").glob("*/__init__.py")}
    assert rooms == {Path(place).name for place in places if place.startswith("minerva_lite/")} - {"minerva_lite"}


def test_every_folder_of_tests_is_named():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {name for name in folders if f"`{name}/`" not in TESTS} == set()
    shared = {name.rstrip("/") for name in first_cells(TESTS, "What tests share")}
    assert [name for name in shared if not (ROOT / "tests" / name).exists()] == []
    files = {path.name for path in (ROOT / "tests").glob("*.py")}
    assert files <= shared, files - shared


def test_the_tests_of_each_room_are_named():
    rows = re.findall(r"^\| `minerva_lite/(\w+)/` \| (.*?) \|", TESTS, re.M)
    rooms = {path.parent.name for path in (ROOT / "minerva_lite").glob("*/__init__.py")}
    assert {room for room, folders in rows if f"`{room}/`" in folders} == rooms


def test_the_map_of_the_tests_fits_on_a_screen():
    assert len(TESTS.splitlines()) <= 80 and max(len(line) for line in TESTS.splitlines()) <= 140
