"""One cell of the recorded grid of off-policy targets, computed again."""

import pytest

from book.results.studies.record import read_rows
from book.results.studies.traces import ACTIONS, COUNTS, MIXTURES, WORLDS, cell
from minerva_book.worlds.off_policy import METHODS
from tests.studies.test_record import RESULTS


def test_the_file_holds_every_cell_of_the_grid():
    rows = read_rows(RESULTS / "traces.csv")
    assert len(rows) == len(ACTIONS) * len(MIXTURES) * len(COUNTS) * len(METHODS) * WORLDS
    assert len({tuple(row.values())[:5] for row in rows}) == len(rows)


@pytest.mark.parametrize("method", ["Retrace", "uncorrected"])
def test_a_cell_of_the_recorded_grid_is_found_again(method):
    recorded = [
        row for row in read_rows(RESULTS / "traces.csv")
        if (row["actions"], row["mixture"], row["method"]) == ("2", "0.6", method)
    ]  # fmt: skip
    for row, again in zip(recorded, cell(2, 0.6, method), strict=True):
        assert (int(row["count"]), int(row["world"]), float(row["knob"])) == (again.count, again.world, again.knob)
        assert float(row["tuned"]) == pytest.approx(again.tuned, rel=2e-3)
        assert float(row["shared"]) == pytest.approx(again.shared, rel=2e-3)
