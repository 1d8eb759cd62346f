"""What the presets reached: numbers from the recorded studies of the book, which the package brings along."""

from __future__ import annotations

import csv
from pathlib import Path

from ..agents import AGENTS
from ..checks import require_one_of
from .presets import PRESETS

RECORDED = Path(__file__).with_name("reached.csv")  # made by `python -m book.results.studies.reached`
Pair = tuple[str, str]


def reached() -> dict[Pair, str]:
    """By algorithm and environment, what the preset's settings reached: mean of the final policies' mean returns.

    `-152 after 24000 steps (worst of 20 seeds -190)`. A pair that nobody recorded is left out.
    """
    with RECORDED.open(encoding="utf8", newline="") as file:
        return {(row["algorithm"], row["env_id"]): _told(**row) for row in csv.DictReader(file)}


def table_of_presets(*, env: str | None = None, algorithm: str | None = None) -> str:
    """The presets as lines of text: algorithm, environment, steps, and what they reached where it is recorded.

    Below them, without steps, what the defaults of a family reached on an environment that has no preset.
    env, algorithm: only theirs. Raises ValueError: nothing is kept or recorded for it.
    """
    recorded = reached()
    pairs = [*PRESETS, *(pair for pair in recorded if pair not in PRESETS)]
    if env is not None:
        require_one_of(tuple(dict.fromkeys(env_id for _, env_id in pairs)), env=env)
    if algorithm is not None:
        require_one_of(tuple(AGENTS), algorithm=algorithm)
    rows = [("algorithm", "environment", "steps", "reached")]
    for pair in pairs:
        if algorithm not in (None, pair[0]) or env not in (None, pair[1]):
            continue
        if settings := PRESETS.get(pair):
            unknown = "untrained" if settings.untrained else ""
            rows.append((*pair, str(settings.total_steps), recorded.get(pair, unknown)))
        else:
            rows.append((*pair, "", f"{recorded[pair]}, by its family's defaults"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _told(algorithm: str, env_id: str, steps: str, seeds: str, mean: str, worst: str) -> str:
    by = f"worst of {seeds} seeds {float(worst):.0f}" if int(seeds) > 1 else "one seed"
    return f"{float(mean):.0f} after {steps} steps ({by})"
