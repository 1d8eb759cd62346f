"""What the presets reached, read from the recorded studies of the book where they lie beside the package."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..agents import AGENTS
from ..checks import require_one_of
from .presets import PRESETS
from .studies import COLUMNS, SEEDING_LINE, read_study

RESULTS = Path(__file__).parents[2] / "book" / "results"  # of the repository; an installed package has none
Pair = tuple[str, str]


def reached(folder: str | Path = RESULTS) -> dict[Pair, str]:
    """By algorithm and environment, what the preset's settings reached: mean of the final policies' mean returns.

    Studies of the preset come first; where there is none, the last trials of the search for presets that had the
    settings of today. A pair that nobody recorded is left out, and so are all of them where `folder` does not exist.
    """
    told = {pair: _summary(rows) for pair, rows in _trials(Path(folder)).items()}
    return told | {pair: _summary(rows) for pair, rows in _studies(Path(folder)).items()}


def table_of_presets(*, env: str | None = None, algorithm: str | None = None, folder: str | Path = RESULTS) -> str:
    """The presets as lines of text: algorithm, environment, steps, and what they reached where it is recorded.

    Below them, without steps, what the defaults of a family reached on an environment that has no preset.
    env, algorithm: only theirs. Raises ValueError: nothing is kept or recorded for it.
    """
    recorded = reached(folder)
    pairs = [*PRESETS, *(pair for pair in recorded if pair not in PRESETS)]
    if env is not None:
        require_one_of(tuple(dict.fromkeys(env_id for _, env_id in pairs)), env=env)
    if algorithm is not None:
        require_one_of(tuple(AGENTS), algorithm=algorithm)
    rows = [("algorithm", "environment", "steps", "reached")]
    for pair in pairs:
        if algorithm not in (None, pair[0]) or env not in (None, pair[1]):
            continue
        if kept := PRESETS.get(pair):
            rows.append((*pair, str(kept.total_steps), recorded.get(pair, "untrained" if kept.untrained else "")))
        else:
            rows.append((*pair, "", f"{recorded[pair]}, by its family's defaults"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _studies(folder: Path) -> dict[Pair, list[dict[str, Any]]]:
    """The last rows of all runs of presets in the files that `study` wrote. A seed that two files have counts once.

    Where runs of a pair are of today's seeding, the others do not count; nor, where some have fingerprints, do those
    without, which are of older settings or code.
    """
    runs, older = {}, ",".join(COLUMNS[: COLUMNS.index("fingerprint")])
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf8") as file:
            head = [next(file, "").rstrip() for _ in range(4)]
        if not any(line.startswith(older) for line in head):
            continue
        for row in read_study(path):
            if row["episodes"] == 100 and row["variant"] == "preset":
                rank = ("fingerprint" in row) + (SEEDING_LINE in head)
                runs[row["algorithm"], row["env_id"], row["seed"], rank] = row
    best = {key[:2]: key[3] for key in sorted(runs, key=lambda key: key[3])}
    return _by_pair(row for key, row in runs.items() if key[3] == best[key[:2]])


def _trials(folder: Path) -> dict[Pair, list[dict[str, Any]]]:
    """Those trials of the search for presets, at the most steps, that had a preset's settings as far as they tell."""
    path = folder / "preset_trials.csv"
    if not path.exists():
        return {}
    lines = [line for line in path.read_text("utf8").splitlines() if not line.startswith("#")]
    rows = []
    for row in csv.DictReader(lines):
        kept = PRESETS.get((row["algorithm"], row["env_id"]))
        settings = json.loads(json.dumps(asdict(kept.config))) if kept else {}
        if kept and all(settings.get(name) == value for name, value in json.loads(row["config"]).items()):
            rows.append({**row, "steps": float(row["steps"]), "mean": float(row["mean"])})
    most = {pair: max(row["steps"] for row in told) for pair, told in _by_pair(rows).items()}
    return {pair: [r for r in told if r["steps"] == most[pair]] for pair, told in _by_pair(rows).items()}


def _by_pair(rows: Any) -> dict[Pair, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in rows:
        found[row["algorithm"], row["env_id"]].append(row)
    return dict(found)


def _summary(rows: list[dict[str, Any]]) -> str:
    """`-152 (worst of 20 seeds -190)`; the steps too where they are those of a trial."""
    means = [row["mean"] for row in rows]
    seeds = f"worst of {len(means)} seeds {min(means):.0f}" if len(means) > 1 else "one seed"
    return f"{np.mean(means):.0f} after {max(row['steps'] for row in rows):.0f} steps ({seeds})"
