"""`python -m tests.markers [module ...]`: what is evaluated, what is mutated, what survives."""

from __future__ import annotations

import sys
import time

from .check import check_function, functions_of
from .markers import module_names
from .mutate import Tally, listed_survivors, mutants_of, try_mutants


def main(names: list[str]) -> int:
    start, reasons = time.perf_counter(), listed_survivors()
    reports, total = [], Tally()
    print(f"{'function':48s} {'markers':>7s} {'passes':>7s} {'mutants':>8s} {'survived':>8s} {'raised':>7s} {'s':>6s}")
    for name in names or module_names():
        for function in functions_of(name):
            began = time.perf_counter()
            found = check_function(function)
            reports.append(found)
            tally = Tally() if found.problems else try_mutants(function, mutants_of(function))
            total |= tally
            print(
                f"{function.key:48s} {len(found.evaluated):3d}/{len(function.markers):<3d} "
                f"{sum(found.evaluated.values()):7d} {len(tally):8d} {len(tally.survivors):8d} {tally.raised:7d} "
                f"{time.perf_counter() - began:6.1f}"
            )
    evaluated, problems = sum(len(r.evaluated) for r in reports), [p for r in reports for p in r.problems]
    print(
        f"\n{evaluated} markers evaluated; {len(total)} mutations, {len(total.survivors)} survived, "
        f"{total.raised} were caught by an error raised; {time.perf_counter() - start:.0f} s"
    )
    for name in total.survivors:
        print(f"survivor: {name}\n{reasons.get(name, '    NOT LISTED in survivors.txt').rstrip()}")
    for problem in problems:
        print(f"PROBLEM: {problem}")
    return 1 if problems or any(name not in reasons for name in total.survivors) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
