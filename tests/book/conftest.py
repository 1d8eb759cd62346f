"""Tests of the pages. Their extensions know one another by bare names, so their folder is on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
