"""What a chapter may weigh, so that it opens on a slow line and a change of it can be looked at."""

import json

import pytest

from tests.equations import ROOT

NOTEBOOK = 800_000  # bytes of a notebook's file
FRAMES = 200_000  # bytes of it that its figures that move take: pictures, what they share, controls and links
notebooks = pytest.mark.parametrize("path", sorted((ROOT / "book").glob("*.ipynb")), ids=lambda path: path.stem)


def size(notebook: dict) -> int:
    """Bytes of a notebook's file, as Jupyter writes it."""
    return len((json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode())


@notebooks
def test_a_notebook_keeps_its_budget(path):
    assert path.stat().st_size <= NOTEBOOK
    assert '"execution":' not in path.read_text("utf8"), "timestamps"


@notebooks
def test_figures_that_move_keep_their_budget(path):
    notebook = json.loads(path.read_text("utf8"))
    rest = {key: value for key, value in notebook["metadata"].items() if key != "widgets"}
    weight = size(notebook) - size(notebook | {"metadata": rest})  # of the state of its widgets, without the still
    assert weight <= FRAMES
    shows_one = any("widget-view+json" in key for cell in notebook["cells"] for output in cell.get("outputs", [])
                    for key in output.get("data", {}))  # fmt: skip
    assert (weight > 10_000) == shows_one, "frames are stored where this test looks for them"
