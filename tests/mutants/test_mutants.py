"""Each fault and each wrong equation, put into the package, turns every test named for it red.

Without it they are green.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.equations import mutants
from tests.mutants.faults import MUTANTS
from tests.mutants.runner import ROOT

ALL = (*MUTANTS, *mutants())


def test_every_fault_and_every_wrong_equation_is_caught():
    """What the record does not hold, and a sample of what it holds, runs now."""
    command = [sys.executable, "-m", "tests.mutants", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.stdout.startswith("{"), done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["unpatched"]["green"], found["unpatched"]
    assert [f"{row['story']}: {row['tests']} {row['said']}" for row in found["rows"] if not row["caught"]] == []
    assert len(found["rows"]) >= len(ALL) // 25
