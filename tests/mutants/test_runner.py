"""What counts as caught, tried on a package of one file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import astuple

from tests.mutants.runner import ROOT, Mutant

PACKAGE = "def double(x):\n    return 2 * x\n\ndef other(x):\n    return x\n"
TESTS = """
import pytest
from minerva_lite import double, other

@pytest.mark.parametrize("x", [1, 2, 3])
def test_double(x):
    assert double(x) == 2 * x, "said"

def test_other():
    assert other(1) == 1

def test_small():
    assert double(1) < 3
"""
DOUBLE, OTHER, SMALL = (f"test_toy.py::test_{name}" for name in ("double", "other", "small"))
MUTANTS = [
    Mutant(1, "caught", "__init__.py", (("2 * x", "3 * x"),), (DOUBLE,)),
    Mutant(1, "caught by one of two", "__init__.py", (("2 * x", "x"),), (DOUBLE, SMALL)),
    Mutant(1, "not caught", "__init__.py", (("2 * x", "x + x"),), (DOUBLE,)),
    Mutant(1, "falls over", "__init__.py", (("2 * x", "2 * y"),), (DOUBLE,)),
    Mutant(1, "cannot be imported", "__init__.py", (("def other", "def another"),), (OTHER,)),
    Mutant(1, "the next one again", "__init__.py", (("return x", "return -x"),), (OTHER,)),
]
PROGRAM = """
import json, sys
from pathlib import Path
from tests.mutants import runner
runner.ROOT = Path(sys.argv[1])
runner.TESTS = runner.ROOT / "tests"
mutants = [runner.Mutant(*each) for each in json.loads(sys.argv[2])]
print(json.dumps(runner.run_mutants(mutants, processes=2)))
"""


def test_red_by_an_assertion_in_every_test_that_is_named(tmp_path):
    for name, text in {"minerva_lite/__init__.py": PACKAGE, "tests/room/test_toy.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps([astuple(mutant) for mutant in MUTANTS])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    whole, *rows = json.loads(done.stdout)
    assert whole["green"] and whole["tests"] == {DOUBLE: "green", OTHER: "green", SMALL: "green"}
    assert {row["story"]: list(row["tests"].values()) for row in rows} == {
        "caught": ["red"],
        "caught by one of two": ["red", "green"],
        "not caught": ["green"],
        "falls over": ["fell over: NameError: name 'y' is not defined"],
        "cannot be imported": ["did not run"],
        "the next one again": ["red"],
    }
    assert [row["story"] for row in rows if row["caught"]] == ["caught", "the next one again"]
    assert (tmp_path / "minerva_lite/__init__.py").read_text() == PACKAGE
