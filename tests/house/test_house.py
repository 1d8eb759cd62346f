"""The shape of the house: what stands at the top, and what no file may hold."""

import json
import re
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"book", "minerva_lite", "tests"}
# Addresses of package registries and options that choose one; assembled so that this file does not hold them.
REGISTRIES = [r"registry\." + "npmjs", r"pypi\." + "org/simple", r"files\." + "pythonhosted", "download" + r"\.pytorch"]
FORBIDDEN = {
    "a registry address": re.compile(f"https?://({'|'.join(REGISTRIES)})"),
    "an index option": re.compile("--(extra-)?" + "index-url"),
    "an address in a lock file": re.compile('"resolved"' + r':\s*"'),
    "a path of somebody's machine": re.compile("(?<![\\w.])/(home/|Users/|root/|" + "work/)" + r"[\w.-]+"),
}  # fmt: skip


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in names.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return (ROOT / path).read_text("utf8")
    except UnicodeDecodeError:
        return ""


def faults_in(text: str) -> list[str]:
    return [name for name, pattern in FORBIDDEN.items() if pattern.search(text)]


def stored_errors(notebook: dict) -> list[int]:
    """Cells that stored an exception and are not meant to."""
    return [i for i, cell in enumerate(notebook["cells"])
            if any(output["output_type"] == "error" for output in cell.get("outputs", []))
            and "raises-exception" not in cell["metadata"].get("tags", [])]  # fmt: skip


def test_the_repository_has_three_visible_folders():
    seen = {path.parts[0] for path in tracked() if len(path.parts) > 1 and not path.parts[0].startswith(".")}
    assert seen == ROOMS


@pytest.mark.parametrize("path", [path for path in tracked() if path.suffix == ".ipynb"], ids=str)
def test_no_notebook_stores_an_error(path):
    assert stored_errors(json.loads(text_of(path))) == []


def test_no_file_holds_what_belongs_to_one_machine():
    found = {str(path): faults_in(text_of(path)) for path in tracked()}
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_every_requirement_is_pinned():
    lines = [line.split("#")[0].split(";")[0].strip() for line in text_of(Path("requirements.txt")).splitlines()]
    assert [line for line in lines if line and not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_a_fault_and_a_stored_error_are_found():
    for text, fault in (
        ("https://registry." + "npmjs.org/x", "a registry address"),
        ("pip install x --extra-" + "index-url y", "an index option"),
        ('"resolved"' + ': "https://x"', "an address in a lock file"),
        ("see /" + "home/ann/book", "a path of somebody's machine"),
    ):
        assert faults_in("fine") == [] and fault in faults_in(text)
    cell = {"outputs": [{"output_type": "error"}], "metadata": {}}
    meant = cell | {"metadata": {"tags": ["raises-exception"]}}
    assert stored_errors({"cells": [meant, cell, {"metadata": {}}]}) == [1]


@pytest.mark.parametrize(("limit", "red"), [(1.0, True), (3.0, False), (None, False)])
def test_a_run_that_takes_longer_than_its_minutes_is_red_and_says_so(limit, red):
    options, lines = {"--minutes": limit}, []
    config = SimpleNamespace(getoption=options.get, began=time.perf_counter() - 120.0)
    session = SimpleNamespace(config=config, exitstatus=pytest.ExitCode.OK)
    conftest.pytest_sessionfinish(session)
    assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if red else pytest.ExitCode.OK)
    conftest.pytest_terminal_summary(SimpleNamespace(write_line=lambda line, **color: lines.append(line)), config)
    assert lines == (["2.0 minutes; wanted at most 1"] if red else [])
