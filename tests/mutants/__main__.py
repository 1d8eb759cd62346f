"""`python -m tests.mutants` prints which test caught which fault; `--json` gives the same to a program.

With `--first`, only the first mutant of each fault: the quick checks.
"""

from __future__ import annotations

import json
import sys

from .faults import MUTANTS, first_of_each
from .runner import run_mutants, table

if __name__ == "__main__":
    rows = run_mutants(tuple(MUTANTS[i] for i in first_of_each()) if "--first" in sys.argv else MUTANTS)
    print(json.dumps(rows) if "--json" in sys.argv else table(rows))
    sys.exit(0 if rows[0]["green"] and all(row["caught"] for row in rows[1:]) else 1)
