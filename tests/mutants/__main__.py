"""`python -m tests.mutants` prints which test caught which fault; `--json` gives the same to a program."""

from __future__ import annotations

import json
import sys

from .runner import run_mutants, table

if __name__ == "__main__":
    rows = run_mutants()
    print(json.dumps(rows) if "--json" in sys.argv else table(rows))
    sys.exit(0 if rows[0]["green"] and all(row["caught"] for row in rows[1:]) else 1)
