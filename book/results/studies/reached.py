"""What the presets reached, from the recorded studies, as a table of the package."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from book.results.studies.record import RESULTS, read_rows
from minerva_lite.training.presets import PRESETS
from minerva_lite.training.reached import RECORDED, Pair
from minerva_lite.training.studies import COLUMNS, SEEDING_LINE, read_study

HEAD = ("algorithm", "env_id", "steps", "seeds", "mean", "worst")  # returns of the final policies, over the seeds


def summary(folder: Path = RESULTS) -> str:
    """The table: a row per algorithm and environment of which something is recorded.

    Studies of the preset come first; where there is none, the last trials of the search for presets that had the
    settings of today.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for pair, rows in sorted((of_trials(folder) | of_studies(folder)).items()):
        means = [row["mean"] for row in rows]
        steps = f"{max(row['steps'] for row in rows):.0f}"
        writer.writerow([*pair, steps, len(means), round(float(np.mean(means)), 3), min(means)])
    return text.getvalue()


def of_studies(folder: Path) -> dict[Pair, list[dict[str, Any]]]:
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
    return by_pair(row for key, row in runs.items() if key[3] == best[key[:2]])


def of_trials(folder: Path) -> dict[Pair, list[dict[str, Any]]]:
    """Those trials of the search for presets, at the most steps, that had a preset's settings as far as they tell."""
    path = folder / "preset_trials.csv"
    if not path.exists():
        return {}
    rows = []
    for row in read_rows(path):
        kept = PRESETS.get((row["algorithm"], row["env_id"]))
        settings = json.loads(json.dumps(asdict(kept.config))) if kept else {}
        if kept and all(settings.get(name) == value for name, value in json.loads(row["config"]).items()):
            rows.append({**row, "steps": float(row["steps"]), "mean": float(row["mean"])})
    most = {pair: max(row["steps"] for row in told) for pair, told in by_pair(rows).items()}
    return {pair: [r for r in told if r["steps"] == most[pair]] for pair, told in by_pair(rows).items()}


def by_pair(rows: Any) -> dict[Pair, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in rows:
        found[row["algorithm"], row["env_id"]].append(row)
    return dict(found)


if __name__ == "__main__":
    RECORDED.write_text(summary(), "utf8")
