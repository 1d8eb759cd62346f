"""`python -m tests.mutants` prints which test caught which fault and which wrong equation; `--json` tells a program.

`--quick`: what the quick checks prove, in one process: what is not in the record, and a sample of what is.
`--write`: keep the record (`make test-full` does, and nothing else).
"""

from __future__ import annotations

import json
import os
import sys

from tests.equations import mutants

from . import record
from .faults import MUTANTS
from .runner import run_mutants, table


def main(options: list[str]) -> int:
    chosen = {}
    for mutant in (*MUTANTS, *mutants()):
        chosen.setdefault(record.key(mutant), mutant)  # chapters share some lines
    proofs, why = record.read(record.RECORD)
    quick = "--quick" in options
    if quick:
        plan = record.plan(chosen, proofs, why, seed=record.tree(), limit=record.LIMIT)
        if plan.refusal:
            sys.exit(plan.refusal)
        chosen = {key: chosen[key] for key in (*plan.stale, *plan.sample)}
    first, *rows = run_mutants(chosen.values(), processes=1 if quick else os.cpu_count() or 1)
    found = dict(zip(chosen, rows, strict=True))
    good = first["green"] and all(row["caught"] for row in rows)
    if "--write" in options and good:
        record.write(found, record.RECORD)
    if "--json" in options:
        told = record.contradictions(proofs, found) if quick else []
        print(json.dumps({"unpatched": first, "rows": rows, "contradictions": told}))
    elif "--write" in options and good:
        print(f"{len(rows)} mutants are caught by every test named for them: {record.RECORD.name} is written")
    else:
        print(table([first, *rows]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
