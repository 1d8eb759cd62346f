"""The files of the recorded studies: each begins with the command that writes it, and grows by whole runs."""

import importlib
import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from book.results.studies import traces
from book.results.studies.record import Record, read_rows
from minerva_book.worlds.off_policy import METHODS
from minerva_lite.training.studies import SEEDING_LINE

RESULTS = Path(__file__).resolve().parents[2] / "book" / "results"
COMMAND = "# command: python -m book.results.studies."
# Each recorded file by the study that it names; those that `study` wrote name arguments, too.
HEADS = {path.read_text().partition("\n")[0]: path for path in sorted(RESULTS.rglob("*.csv"))}
STUDIES = {line.removeprefix(COMMAND): path for line, path in HEADS.items() if re.fullmatch(COMMAND + r"\w+", line)}


class Row(NamedTuple):
    task: str
    seed: int
    rate: float
    update: int
    mean: float


def test_every_study_has_a_file_that_names_it():
    here = {path.stem for path in (RESULTS / "studies").glob("*.py") if "__main__" in path.read_text()}
    here -= {"base_model"}  # writes weights and no rows; `language/test_base_model.py` asks what they are worth
    here -= {"reached"}  # makes a table of the package from recorded studies; `test_reached.py` compares them
    assert here == set(STUDIES) | {"search", "sensitivity"}  # whose files `study` writes


@pytest.mark.parametrize("module", STUDIES)
def test_a_recorded_file_names_its_versions_and_has_the_columns_of_its_study(module):
    lines = STUDIES[module].read_text().splitlines()
    columns = importlib.import_module(f"book.results.studies.{module}").Row._fields
    assert lines[1].startswith("# versions: python 3")
    assert lines[2 + (lines[2] == SEEDING_LINE)] == ",".join(columns), "files of the former seeding have no such line"
    assert all(None not in row and None not in row.values() for row in read_rows(STUDIES[module]))


def runs_of(asked, tasks, seeds=(0, 1)):
    """Runs named by task, seed and a rate, of two rows each; which of them are done is added to `asked`."""

    def work(name):
        asked.append(name)
        return [Row(*name, update, update * 2 / 3) for update in (1, 2)]

    return [(name, partial(work, name)) for task in tasks for seed in seeds for name in [(task, seed, 0.0012345)]]


def test_a_file_is_filled_with_the_runs_that_it_lacks(tmp_path, capsys):
    """The rate is written with three digits, and a second call knows it again by these."""
    path, asked = tmp_path / "study.csv", []
    Record(path, Row, "book.results.studies.toy", digits=3).fill(runs_of(asked, ["a, b"]))
    assert asked == [("a, b", 0, 0.0012345), ("a, b", 1, 0.0012345)]
    assert capsys.readouterr().out.splitlines() == [f"a, b {seed} 0.0012345 2 {4 / 3}" for seed in (0, 1)]
    before = path.read_bytes()
    Record(path, Row, "book.results.studies.toy", digits=3).fill(runs_of(asked, ["a, b", "c", "c"], seeds=(1, 2)))
    assert asked[2:] == [("a, b", 2, 0.0012345), ("c", 1, 0.0012345), ("c", 2, 0.0012345)], "each of them once"
    assert path.read_bytes().startswith(before)
    rows = [(task, str(seed), "0.00123", *each) for task, seed, _ in asked for each in (("1", "0.667"), ("2", "1.33"))]
    assert [tuple(row.values()) for row in read_rows(path)] == rows, "each of them whole"
    assert b"\r" not in path.read_bytes()


def test_a_run_that_fails_leaves_whole_runs(tmp_path):
    """It raises after its first row. The next call does this run and those behind it."""
    path, asked = tmp_path / "study.csv", []

    def failing():
        yield Row("b", 0, 0.0012345, 1, 0.5)
        raise ArithmeticError

    (a,), (b,), (c,) = (runs_of(asked, [task], seeds=[0]) for task in "abc")
    record = Record(path, Row, "book.results.studies.toy", digits=3)
    with pytest.raises(ArithmeticError):
        record.fill([a, (b[0], failing), c])
    assert [(row["task"], row["update"]) for row in read_rows(path)] == [("a", "1"), ("a", "2")]
    record.fill([a, b, c])
    assert [name[0] for name in asked] == ["a", "b", "c"] and record.names(1) == {("a",), ("b",), ("c",)}


@pytest.mark.parametrize("line", [0, 1, 2, 3])
@pytest.mark.parametrize("change", [lambda line: [line + "x"], lambda line: []], ids=["another", "missing"])
def test_a_file_of_another_study_or_of_the_former_seeding_is_refused(tmp_path, line, change):
    path = tmp_path / "study.csv"
    Record(path, Row, "book.results.studies.toy", digits=3)
    lines = path.read_text().splitlines()
    lines[line : line + 1] = change(lines[line])
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit, match="seeding: streams'.*; name another file"):
        Record(path, Row, "book.results.studies.toy", digits=3)
    assert path.read_text().splitlines() == lines  # and left as it was


def test_the_file_of_traces_holds_every_cell_of_the_grid():
    rows = read_rows(RESULTS / "traces.csv")
    assert len(rows) == len(traces.ACTIONS) * len(traces.MIXTURES) * len(traces.COUNTS) * len(METHODS) * traces.WORLDS
    assert len({tuple(row.values())[:5] for row in rows}) == len(rows)


@pytest.mark.parametrize("method", ["Retrace", "uncorrected"])
def test_a_cell_of_the_recorded_grid_of_traces_is_found_again(method):
    recorded = [
        row for row in read_rows(RESULTS / "traces.csv")
        if (row["actions"], row["mixture"], row["method"]) == ("2", "0.6", method)
    ]  # fmt: skip
    for row, again in zip(recorded, traces.cell(2, 0.6, method), strict=True):
        assert (int(row["count"]), int(row["world"]), float(row["knob"])) == (again.count, again.world, again.knob)
        assert float(row["tuned"]) == pytest.approx(again.tuned, rel=2e-3)
        assert float(row["shared"]) == pytest.approx(again.shared, rel=2e-3)
