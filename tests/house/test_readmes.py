"""The two READMEs: the Python runs, every command and file that they name exists, and no folder is left out."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from minerva_lite.training.presets import PRESETS

ROOT = Path(__file__).resolve().parents[2]
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
