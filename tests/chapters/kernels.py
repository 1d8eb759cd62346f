"""Kernels of notebooks compute as those did that wrote what is stored."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))

from processor import as_intel  # noqa: E402

as_intel()
