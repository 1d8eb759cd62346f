"""The recorded files of the benches: each is read, and written again byte by byte as it is."""

from __future__ import annotations

import shlex
import sys

import pytest

from book.results.peers import bench, language, throughput

RESULTS = bench.ROOT / "book" / "results"
TABLES = {f"peers_{algorithm}": bench.TABLE for algorithm in bench.ALGORITHMS}
TABLES |= {"peers_language": language.TABLE, "throughput": throughput.TABLE}


def test_every_recorded_race_is_here():
    assert {path.stem for path in RESULTS.glob("peers_*.csv")} | {"throughput"} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_recorded_file_is_written_again_as_it_is(name, tmp_path, monkeypatch):
    recorded = RESULTS / f"{name}.csv"
    command, told = (line.partition(": ")[2] for line in recorded.read_text().splitlines()[:2])
    monkeypatch.setattr(sys, "argv", shlex.split(command)[2:])
    rows = TABLES[name].read(recorded)
    TABLES[name].write(tmp_path / "again.csv", rows, dict(each.rsplit(" ", 1) for each in told.split(", ")))
    assert (tmp_path / "again.csv").read_bytes() == recorded.read_bytes()


def test_a_cell_is_a_word_a_fraction_or_an_integer():
    row = language.TABLE.read(RESULTS / "peers_language.csv")[0]
    kinds = {"algorithm": str, "runner": str, "seconds": float, "cpu_seconds": float, "right": float}
    assert {name: type(cell) for name, cell in row.items()} == {"seed": int, "update": int} | kinds
