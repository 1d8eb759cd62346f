"""Each fault and each wrong equation, put into the package, turns every test named for it red.

Without it they are green.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.equations import mutants
from tests.mutants import faults, record
from tests.mutants.runner import ROOT

ALL = (*faults.MUTANTS, *mutants())


def run(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=1800)


def test_every_fault_and_every_wrong_equation_is_caught():
    """What the record does not hold, and a sample of what it holds, runs now."""
    done = run("tests.mutants", "--quick", "--json")
    assert done.stdout.startswith("{"), done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["unpatched"]["green"], told["unpatched"]
    assert [f"{row['story']}: {row['tests']} {row['said']}" for row in told["rows"] if not row["caught"]] == []
    assert told["contradictions"] == [] and len(told["rows"]) >= len(ALL) // 25


def test_every_edit_fits_and_changes_what_its_tests_reach():
    keys = {record.key(mutant) for mutant in ALL}  # raises where it does not
    assert len(faults.MUTANTS) < len(keys) <= len(ALL)


def test_every_fault_has_a_mutant():
    assert {mutant.fault for mutant in faults.MUTANTS} == set(faults.FAULTS)


@pytest.mark.parametrize("tests", [
    ["test_objectives.py::test_clip_by_hand_in_value_and_gradient",
     "test_trpo_promise.py::test_a_few_updates_keep_the_promise",
     "test_door.py::test_a_diverged_policy_does_not_train_on"],
    pytest.param([], marks=pytest.mark.slow),
], ids=["some", "all"])  # fmt: skip
def test_a_test_enters_nothing_that_it_is_not_known_to_reach(tests):
    done = run("tests.mutants.watch", *tests)
    assert done.stdout.startswith("{"), done.stderr[-3000:]
    assert json.loads(done.stdout) == {}
