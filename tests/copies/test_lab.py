"""The folder of `make lab`: what is the reader's stays the reader's."""

import shutil
import sys

import nbformat
import pytest
from jupyter_core.paths import jupyter_config_path
from jupyter_server.extension.config import ExtensionConfigManager
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyterlab_server.config import get_page_config

from minerva_lite.training.progress import LIVE
from tests.equations import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from lab import GRADERS, RECORD, lay_out, start_page, without_graders  # noqa: E402


def write(path, source, output=""):
    cell = nbformat.v4.new_code_cell(source, outputs=[nbformat.v4.new_output("stream", text=output)] if output else [])
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# 5. PPO"), cell]), path)


def said(path):
    return nbformat.read(path, as_version=4).cells[1].source


@pytest.fixture
def folders(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    write(made / "05_ppo.ipynb", "first")
    return made, tmp_path / "notebooks"


def test_a_chapter_nobody_changed_follows_the_book(folders):
    made, folder = folders
    assert lay_out(made, folder, "1") == {"05_ppo.ipynb": ""} and said(folder / "05_ppo.ipynb") == "first"
    write(folder / "05_ppo.ipynb", "first", output="printed")
    before = (folder / "05_ppo.ipynb").read_bytes()
    lay_out(made, folder, "1")
    assert (folder / "05_ppo.ipynb").read_bytes() == before  # what it printed stays
    write(made / "05_ppo.ipynb", "second")
    assert lay_out(made, folder, "2") == {"05_ppo.ipynb": ""} and said(folder / "05_ppo.ipynb") == "second"


def test_another_mark_is_no_other_chapter(folders):
    """The first cell has it: an edited copy keeps its own, and nothing new lies beside; what was printed stays."""
    made, folder = folders

    def marked(path, mark, source, output=""):
        write(path, source, output)
        notebook = nbformat.read(path, as_version=4)
        first = nbformat.v4.new_code_cell(f"MARK = {mark}", id="the-package")
        notebook.cells.insert(1, first)
        nbformat.write(notebook, path)

    marked(made / "05_ppo.ipynb", 1, "first")
    lay_out(made, folder, "1")
    marked(folder / "05_ppo.ipynb", 1, "first", output="printed")
    marked(made / "05_ppo.ipynb", 2, "first")
    assert lay_out(made, folder, "2") == {"05_ppo.ipynb": ""} and said(folder / "05_ppo.ipynb") == "MARK = 2"
    assert "printed" in (folder / "05_ppo.ipynb").read_text()
    marked(folder / "05_ppo.ipynb", 2, "mine")
    marked(made / "05_ppo.ipynb", 3, "first")
    assert lay_out(made, folder, "3") == {"05_ppo.ipynb": ""} and said(folder / "05_ppo.ipynb") == "MARK = 2"


def test_a_changed_chapter_is_never_written_and_a_newer_one_lies_beside(folders):
    made, folder = folders
    lay_out(made, folder, "1")
    write(folder / "05_ppo.ipynb", "mine")
    before = (folder / "05_ppo.ipynb").read_bytes()
    assert lay_out(made, folder, "1") == {"05_ppo.ipynb": ""}  # of the same book
    write(made / "05_ppo.ipynb", "second")
    for _ in range(2):
        assert lay_out(made, folder, "2") == {"05_ppo.ipynb": "05_ppo 2.ipynb"}
        assert (folder / "05_ppo.ipynb").read_bytes() == before and said(folder / "05_ppo 2.ipynb") == "second"
    write(folder / "05_ppo 2.ipynb", "mine, too")
    lay_out(made, folder, "2")
    assert said(folder / "05_ppo 2.ipynb") == "mine, too"
    start_page(folder, made, {"05_ppo.ipynb": "05_ppo 2.ipynb"}, folder / "none")
    assert "<05_ppo 2.ipynb>" in nbformat.read(folder / "start.ipynb", as_version=4).cells[0].source


@pytest.mark.parametrize("text", ["", "{", "not a notebook"])
def test_a_file_that_is_no_notebook_is_the_readers(text, folders):
    made, folder = folders
    lay_out(made, folder, "1")
    (folder / "05_ppo.ipynb").write_text(text)
    write(made / "05_ppo.ipynb", "second")
    assert lay_out(made, folder, "2") == {"05_ppo.ipynb": "05_ppo 2.ipynb"}
    assert (folder / "05_ppo.ipynb").read_text() == text


def test_a_deleted_chapter_comes_back_and_a_lost_record_makes_all_the_readers(folders):
    made, folder = folders
    lay_out(made, folder, "1")
    (folder / "05_ppo.ipynb").unlink()
    lay_out(made, folder, "1")
    assert said(folder / "05_ppo.ipynb") == "first"
    (folder / RECORD).unlink()
    write(made / "05_ppo.ipynb", "second")
    assert lay_out(made, folder, "2") == {"05_ppo.ipynb": "05_ppo 2.ipynb"} and said(folder / "05_ppo.ipynb") == "first"


def test_the_start_page_links_the_one_of_homework_that_was_handed_out(folders, tmp_path):
    made, folder = folders
    lay_out(made, folder, "1")
    handout = tmp_path / "handout"
    for place in ("hw2_gae", "colab"):
        (handout / place).mkdir(parents=True)
        shutil.copy(made / "05_ppo.ipynb", handout / place / "hw2_gae.ipynb")
    for page in ("first", "second"):
        write(handout / "start.ipynb", page)
        start_page(folder, made, {"05_ppo.ipynb": ""}, handout)
        text = nbformat.read(folder / "start.ipynb", as_version=4).cells[0].source
        assert "[5. PPO](05_ppo.ipynb)" in text and "(homework/start.ipynb)" in text
        assert said(folder / "homework" / "start.ipynb") == page
        assert [*folder.glob("homework/*/*")] == [answers := folder / "homework" / "hw2_gae" / "hw2_gae.ipynb"]
        assert said(answers) == page.replace("second", "mine")
        write(answers, "mine")


def test_graders_extensions_are_off_in_these_settings_alone(tmp_path, monkeypatch):
    """As JupyterLab finds them by itself, a formgrader and a JupyterHub with it, and as `make lab` does."""

    def on() -> set[str]:
        """nbgrader's extensions of the server and of the page, by what the folders of settings say."""
        server = ExtensionConfigManager(read_config_path=jupyter_config_path()).get_jpserver_extensions()
        disabled = {*get_page_config([]).get("disabledExtensions", [])}
        names = {name for name, enabled in server.items() if enabled and name.startswith("nbgrader.")}
        return names | {"@jupyter/nbgrader"} - disabled

    monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)
    assert on() == {*(f"nbgrader.server_extensions.{name}" for name in GRADERS), "@jupyter/nbgrader"}
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(without_graders(tmp_path)))
    assert on() == set()


def test_of_a_training_a_saved_notebook_keeps_the_line(tmp_path):
    cell, told = nbformat.v4.new_code_cell("train()"), {"text/plain": "2 of 2 updates"}
    other = {"text/plain": "a table", "text/html": "<table>"}
    cell.outputs = [nbformat.v4.new_output("display_data", data=told | {"text/html": "<svg>"}, metadata=LIVE)]
    cell.outputs.append(nbformat.v4.new_output("display_data", data=other))
    contents = FileContentsManager(root_dir=str(tmp_path), pre_save_hook="lab.lines_alone")
    contents.save({"type": "notebook", "content": nbformat.v4.new_notebook(cells=[cell])}, "saved.ipynb")
    contents.save({"type": "file", "format": "text", "content": "words"}, "saved.txt")
    outputs = nbformat.read(tmp_path / "saved.ipynb", as_version=4).cells[0].outputs
    assert [output.data for output in outputs] == [told, other]
