"""What the homework's tests share. `python -m tests.homework.trials hw2` prints what an assignment's own tests say."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "homework"))

from course import NAMES, assignment  # noqa: E402
from course.check import SEEDS, answers_of, edited, is_right, reported, verdict  # noqa: E402

__all__ = ["ROOT", "SEEDS", "answers_of", "assignment", "edited", "is_right", "verdict"]

if __name__ == "__main__":
    asked = [name for name in NAMES if name.split("_")[0] in sys.argv[1:]]
    print("\n".join(reported(None, asked)))
