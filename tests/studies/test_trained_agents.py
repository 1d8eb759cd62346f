"""The trained agents of the book: each is read by this version, is small, and is as good as its row says."""

from __future__ import annotations

from pathlib import Path

import pytest

from book.results.studies.checkpoints import AGENTS_OF, FOLDER, IN_ALL, LARGEST, name_of
from book.results.studies.record import read_rows
from minerva_lite import evaluate, load

ROWS = {row["file"]: row for row in read_rows(Path(FOLDER) / "checkpoints.csv")}


def test_every_checkpoint_has_a_row_and_all_are_small():
    files = {path.name: path.stat().st_size for path in FOLDER.glob("*.pt")}
    promised = {name_of(algorithm, env_id) for env_id, names in AGENTS_OF.items() for algorithm in names}
    assert promised == set(ROWS) <= set(files)
    assert max(files.values()) <= LARGEST and sum(files.values()) <= IN_ALL


@pytest.mark.parametrize("file", ROWS)
def test_a_checkpoint_is_read_and_returns_what_its_row_says(file):
    """Ten of the hundred episodes: five standard errors of the difference, and what another processor rounds."""
    row, agent = ROWS[file], load(FOLDER / file, device="cpu")
    assert (agent.name, agent.spec.env_id) == (row["algorithm"], row["env_id"])
    mean = evaluate(agent, episodes=10)["eval/mean"]
    assert mean == pytest.approx(float(row["mean"]), abs=5 * float(row["std"]) / 10**0.5 + 1e-6)
