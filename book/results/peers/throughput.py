"""Training steps a second, PPO's and TRPO's, beside Stable-Baselines3 and Tianshou.

Everybody has the same networks, rollout, minibatches and epochs (`throughput_rows.py`), one thread, and a process of
its own; the runners take turns, so that whatever the machine does meanwhile happens to all of them. The clock starts
after torch's first optimizer step and counts everything else, the building too. The rows "preset" are this package's
tuned settings, which do something else and are nobody's peers, so the table leaves them out. Nothing else should run
on the machine: wall over CPU seconds tells if something did.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from statistics import median
from typing import Any

from .bench import ROOT, peers_python, told_by
from .tables import Table
from .throughput_rows import TASKS

RUNNERS = {
    "torch": ["speed_minerva", "--backend=auto", "--settings=task"],
    "gymnasium": ["speed_minerva", "--backend=gymnasium", "--settings=task"],
    "sb3": ["speed_sb3"],
    "tianshou": ["speed_tianshou"],
    "preset": ["speed_minerva", "--backend=auto", "--settings=preset"],
}
PEERS = ("sb3", "tianshou")
TABLE = Table(
    "book.results.peers.throughput",
    ("task", "runner", "repeat", "steps", "seconds", "cpu_seconds"),
    text=frozenset({"task", "runner"}),
    digits={"seconds": 3, "cpu_seconds": 3},
)


def runners_of(algorithm: str) -> list[str]:
    """Who runs a row: of TRPO the peer is the contrib package of Stable-Baselines3 alone."""
    return [name for name in RUNNERS if name != "tianshou" or algorithm == "ppo"]


def speeds(rows: list[dict[str, Any]], task: str, runner: str) -> list[float]:
    """Steps a second of each repeat."""
    return [row["steps"] / row["seconds"] for row in rows if (row["task"], row["runner"]) == (task, runner)]


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A header, then a row a task: medians over repeats, and those of ours over the faster peer of a repeat."""
    lines = [["steps/s", "torch", "gym", "sb3", "tianshou", "torch / best", "gym / best"]]
    for task in dict.fromkeys(row["task"] for row in rows):
        of = {name: speeds(rows, task, name) for name in RUNNERS}
        best = [max(pair) for pair in zip(*(of[peer] for peer in PEERS if of[peer]), strict=True)]
        ratios = [median(a / b for a, b in zip(of[name], best, strict=True)) for name in ("torch", "gymnasium")]
        cells = [f"{median(of[name]):.0f}" if of[name] else "—" for name in ("torch", "gymnasium", *PEERS)]
        lines.append([task.replace("-", "\u00a0"), *cells, *(f"{ratio:.2f}" for ratio in ratios)])
    return lines


def summary(rows: list[dict[str, Any]]) -> str:
    """The table as the bench prints it."""
    widths = [17, *[13] * (2 + len(PEERS)), 15, 15]
    lines = ["".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in table(rows)]
    worst = max(row["seconds"] / row["cpu_seconds"] for row in rows)
    return "\n".join([*lines, f"Wall over CPU seconds, worst run: {worst:.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "book/results/throughput.csv")
    parser.add_argument("--read", type=Path, metavar="CSV", help="run nothing; print the summary of this table")
    args = parser.parse_args()
    if args.read:
        print(summary(TABLE.read(args.read)))
        return
    theirs, rows, versions = peers_python(), [], {}
    for task in args.tasks:
        for repeat in range(args.repeats):
            for runner in runners_of(TASKS[task].algorithm):
                python = theirs if runner in PEERS else sys.executable
                found = told_by(python, *RUNNERS[runner], f"--task={task}")
                versions |= found.pop("versions")
                rows.append({"task": task, "runner": runner, "repeat": repeat} | found)
                print(f"{task} {repeat} {runner:10} {found['steps'] / found['seconds']:8.0f} steps/s", flush=True)
        TABLE.write(args.out, rows, versions)
    with args.out.with_name(f"{args.out.stem}_table.csv").open("w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows(table(rows))  # what the page on training shows
    print(summary(rows))


if __name__ == "__main__":
    main()
