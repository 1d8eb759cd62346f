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
    parser.add_argument("names", nargs="*", help="only mutants whose story, file or tests hold one of these")
    parser.add_argument("--json", action="store_true", help="tell a program")
    parser.add_argument("--quick", action="store_true", help="in one process, what the record lacks, and a sample")
    parser.add_argument("--write", action="store_true", help="keep the record, as make test-full does")
    options = parser.parse_args(words)
    known = {record.key(mutant): mutant for mutant in reversed((*MUTANTS, *mutants()))}  # chapters share some lines
    proofs = {key: story for key, story in record.read(record.RECORD).items() if key in known}
    chosen = record.plan(known, proofs, record.tree()) if options.quick else list(known)
    if options.names:
        text = {key: " ".join((known[key].story, known[key].file, *known[key].tests)) for key in chosen}
        chosen = [key for key in chosen if any(name in text[key] for name in options.names)]
    first, *rows = run_mutants(map(known.get, chosen), processes=1 if options.quick else os.cpu_count() or 1)
    good = first["green"] and all(row["caught"] for row in rows)
    if options.write and good:
        record.write(proofs | {key: known[key].story for key in chosen}, record.RECORD)
    print(json.dumps({"unpatched": first, "rows": rows}) if options.json else table([first, *rows]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
