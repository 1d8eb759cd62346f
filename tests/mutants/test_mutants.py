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


@pytest.fixture(scope="module")
def rows():
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--json"], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.stdout.startswith("["), done.stderr[-3000:]
    return json.loads(done.stdout)


def test_without_a_fault_everything_is_green(rows):
    assert rows[0]["green"], rows[0]


@pytest.mark.parametrize("i", range(len(faults.MUTANTS)), ids=lambda i: f"{faults.MUTANTS[i].fault}-{i}")
def test_the_fault_is_caught(rows, i):
    row = rows[i + 1]
    assert row["fault"] == faults.MUTANTS[i].fault
    assert row["caught"], f"{row['story']}: {row['tests']} {row['said']}"


def test_every_fault_has_a_mutant():
    assert {mutant.fault for mutant in faults.MUTANTS} == set(faults.FAULTS)
