"""Each fault, put into the package, turns every test named for it red; without it they are green."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("mutant_faults", Path(__file__).with_name("faults.py"))
faults = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = faults
spec.loader.exec_module(faults)


def run(*options: str) -> list[dict]:
    command = [sys.executable, "-m", "tests.mutants", "--json", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.stdout.startswith("["), done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def rows(request):
    """The row of each mutant by its index, and the unpatched one at -1: all of them where any slow test asks."""
    here = [item for item in request.session.items if item.module is request.module]
    if any(item.get_closest_marker("slow") for item in here):
        indices, found = range(len(faults.MUTANTS)), run()
    else:
        indices, found = faults.first_of_each(), run("--first")
    return dict(zip([-1, *indices], found, strict=True))


def test_without_a_fault_everything_is_green(rows):
    assert rows[-1]["green"], rows[-1]


def cases():
    """The first mutant of each fault is quick; the others of its kind are slow."""
    first = faults.first_of_each()
    for i, mutant in enumerate(faults.MUTANTS):
        yield pytest.param(i, id=f"{mutant.fault}-{i}", marks=() if i in first else pytest.mark.slow)


@pytest.mark.parametrize("i", list(cases()))
def test_the_fault_is_caught(rows, i):
    row = rows[i]
    assert row["story"] == faults.MUTANTS[i].story
    assert row["caught"], f"{row['story']}: {row['tests']} {row['said']}"


def test_every_fault_has_a_mutant():
    assert {mutant.fault for mutant in faults.MUTANTS} == set(faults.FAULTS)
