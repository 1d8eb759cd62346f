"""A tier that takes longer than its minutes is red, and says so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


# That a session within its minutes is green, every `make test` shows that is.
@pytest.mark.parametrize(("limit", "code"), [("0.00001", 1), pytest.param("30", 0, marks=pytest.mark.slow)])
def test_the_minutes_of_a_tier_are_a_limit(limit, code):
    asked = ["tests/pages/test_numbers.py", "-k", "a_wrong_number", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *asked, "--minutes", limit]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stdout
    assert re.search(rf"\d\.\d minutes; the limit of this tier is {float(limit):g}", done.stdout)


def test_the_quick_tier_and_the_full_one_have_limits():
    """`make test` takes eleven minutes on two quiet cores and may take fifteen, `make test-full` fifty."""
    limits = re.findall(r"--minutes \$\(or \$\(MINUTES\),(\d+)\)", (ROOT / "Makefile").read_text())
    assert limits == ["15", "50"]
