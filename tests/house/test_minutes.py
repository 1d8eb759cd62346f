"""A run that takes longer than its minutes is red, and says so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


# That a session within its minutes is green and says nothing, every `make test` shows.
@pytest.mark.parametrize(("limit", "code"), [("0.001", 1), ("100", 0)])
def test_the_minutes_of_a_run_are_a_limit(limit, code):
    asked = ["-q", "-p", "no:cacheprovider", "tests/house/test_layers.py", "-k", "test_every_form_of_import_is_found"]
    command = [sys.executable, "-m", "pytest", *asked, "--minutes", limit]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout
    assert bool(re.search(rf"\d\.\d minutes; wanted at most {limit}", done.stdout)) is bool(code)
