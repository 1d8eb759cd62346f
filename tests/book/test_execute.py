"""What `make book EXECUTE=1` does: chapters are executed into a cache, and the pages take their outputs from there."""

import nbformat
from jupyter_cache import get_cache

from book._ext import execute


def notebook(source: str, output: str) -> nbformat.NotebookNode:
    stored = nbformat.v4.new_output("stream", text=output)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, outputs=[stored])])


def test_chapters_executed_into_a_cache_stay_as_they_are_and_lend_the_pages_their_outputs(tmp_path):
    paths = [tmp_path / f"{i}.ipynb" for i in range(2)]
    for i, path in enumerate(paths):
        nbformat.write(notebook(f"print({i} + 40)", "old\n"), path)
    before = [path.read_text() for path in paths]
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "of a former run").touch()
    execute.into_cache(paths, tmp_path / "cache")
    assert [path.read_text() for path in paths] == before and not (tmp_path / "cache" / "of a former run").exists()
    cache = get_cache(tmp_path / "cache")
    for i, path in enumerate(paths):
        _, merged = cache.merge_match_into_notebook(nbformat.read(path, 4))
        assert merged.cells[0].outputs[0].text == f"{i + 40}\n"
