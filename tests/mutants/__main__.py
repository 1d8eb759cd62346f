"""Which test caught which fault and which wrong equation."""

from __future__ import annotations

import argparse
import json
import os
import sys

from tests.equations import mutants

from . import record
from .faults import MUTANTS
from .runner import run_mutants, table


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("--json", action="store_true", help="tell a program")
    parser.add_argument("--quick", action="store_true", help="in one process, what the record lacks, and a sample")
    parser.add_argument("--write", action="store_true", help="keep the record, as make test-full does")
    options = parser.parse_args(words)
    chosen = {}
    for mutant in (*MUTANTS, *mutants()):
        chosen.setdefault(record.key(mutant), mutant)  # chapters share some lines
    proofs, why = record.read(record.RECORD)
    if options.quick:
        plan = record.plan(chosen, proofs, why, seed=record.tree(), limit=record.LIMIT)
        if plan.refusal:
            sys.exit(plan.refusal)
        chosen = {key: chosen[key] for key in (*plan.stale, *plan.sample)}
    first, *rows = run_mutants(chosen.values(), processes=1 if options.quick else os.cpu_count() or 1)
    found = dict(zip(chosen, rows, strict=True))
    good = first["green"] and all(row["caught"] for row in rows)
    if options.write and good:
        record.write(found, record.RECORD)
    if options.json:
        told = record.contradictions(proofs, found) if options.quick else []
        print(json.dumps({"unpatched": first, "rows": rows, "contradictions": told}))
    elif options.write and good:
        print(f"{len(rows)} mutants are caught by every test named for them: {record.RECORD.name} is written")
    else:
        print(table([first, *rows]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
