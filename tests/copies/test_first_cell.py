"""The first cell of a copy, in an environment of its own: where the package is, is not, or is another one."""

import re
import shutil
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from platform import python_version

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from minerva_book import mark
from minerva_book.wheel import build_wheel
from tests.copies import server
from tests.copies.fresh import environment, execute, install, linked, run
from tests.equations import ROOT
from tests.pages import build

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import copies  # noqa: E402

LINE = rf"minerva_lite {re.escape(mark())}, torch {re.escape(torch.__version__)}, Python {python_version()}, .+\n"
BY_HAND = r'pip install "minerva_lite\[book\] @ http://\S+/minerva_lite-\S+\.whl"'
IN_THE_FOLDER = r'pip install "\.\[book\]"  in the book\'s folder'
AGAIN = r'pip install --force-reinstall --no-deps "http:\S+\.whl"'
OTHER = r"This copy was made with 0\+1 and may not fit: type  {}  .*\n"
INSTALLING = "Installing the book's package\n"
RELOAD = "Reload this page in the browser once: .*\n"
EMPTIED = "If Run All has emptied what is below: .*\n"
FAILED = rf"Could not install .* type  {BY_HAND}  \(ERROR: .*\)\.\n{EMPTIED}"
MISSING = rf"The book's package is missing: put its wheel .* beside .*, or type  {IN_THE_FOLDER}  .*\n{EMPTIED}"
NO_PIP = rf"This Python has no pip: type  \S+python -m ensurepip  .*\n{EMPTIED}"
BIG = r"PyTorch brings 5 GB .* install PyTorch's CPU build .*\n"
BOOK = {"minerva_book", "minerva_lite"}
NEW = {*BOOK, "ipywidgets"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """What is installed and what could be: pip believes that torch is an old one, and finds another; one need is
    missing. The wheel of the book is served.
    """
    folder = tmp_path_factory.mktemp("machine")
    linked(folder / "bare", without={"ipywidgets", "torch"})
    links = linked(folder / "links", without={"ipywidgets"})
    (info,) = links.glob("torch-*.dist-info")
    info.unlink()
    (links / "torch-2.0.dist-info").mkdir()
    (links / "torch-2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.0\n")
    (folder / "found").mkdir()
    for name in ("torch", "ipywidgets"):
        with zipfile.ZipFile(folder / "found" / f"{name}-99-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "__version__ = '99'")
            info = f"{name}-99.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 99\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    build_wheel(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield (
        folder,
        {"served": f"http://127.0.0.1:{server.server_port}", "nowhere": "http://127.0.0.1:1"},
    )
    server.shutdown()


@pytest.mark.parametrize(("there", "address", "mark", "said", "new"), [
    pytest.param("book", None, mark(), LINE, set(), id="right"),
    pytest.param("pip", "served", mark(), INSTALLING + RELOAD + LINE, NEW, id="missing"),
    pytest.param("book", "served", "0+1", LINE + OTHER.format(AGAIN), set(), id="another"),
    pytest.param("book", None, "0+1", LINE + OTHER.format(IN_THE_FOLDER), set(), id="another, no address"),
    pytest.param("pip", "nowhere", mark(), INSTALLING + FAILED, NEW - BOOK, id="no network"),
    pytest.param("pip", "beside", mark(), INSTALLING + RELOAD + LINE, NEW, id="handed out"),
    pytest.param("pip", "above", mark(), INSTALLING + RELOAD + LINE, NEW, id="in a clone"),
    pytest.param("pip", None, mark(), MISSING, set(), id="no address"),
    pytest.param("", "served", mark(), NO_PIP, set(), id="no pip"),
    pytest.param("bare", "nowhere", mark(), INSTALLING + BIG + FAILED, set(), id="no PyTorch"),
])  # fmt: skip
def test_the_first_cell_says_what_it_found(there, address, mark, said, new, machine, tmp_path, monkeypatch):
    """It goes on with whatever package is there; without one it stops, with a sentence. A torch that is there stays."""
    folder, addresses = machine
    python, site = environment(tmp_path / "venv", folder / (there if there == "bare" else "links"), pip=there != "")
    if there == "book":
        install(python, *folder.glob("*.whl"))
    monkeypatch.setattr(copies, "ADDRESS", addresses.get(address, ""))
    monkeypatch.setattr(copies, "mark", lambda: mark)
    asked = 'print("figures say so\\n" * ("BOOK_RELOAD" in os.environ), end="")'
    (here := tmp_path / "book").mkdir()
    (here / "cell.ipy").write_text(f"{copies.first_cell().source}\n{asked}\n")
    if address in ("beside", "above"):
        shutil.copy(*folder.glob("*.whl"), here if address == "beside" else tmp_path)
    before = set(site.iterdir())
    more = {"PIP_FIND_LINKS": str(folder / "found"), "FORCE_COLOR": "1"}  # a kernel asks for colors
    done = run(python, "-m", "IPython", "--colors=NoColor", "cell.ipy", cwd=here, **more)
    told = said + "figures say so\n" * (RELOAD in said)
    assert re.fullmatch(told, done.stdout), done.stdout + done.stderr
    assert (done.returncode == 0) == (LINE in said) and done.stderr == ""
    assert {each.name for each in set(site.iterdir()) - before if each.suffix != ".dist-info"} == new


STOP = "import _thread, time\n_thread.interrupt_main()\ntime.sleep(60)"


@pytest.mark.parametrize(("source", "name", "said"), [
    (STOP, "KeyboardInterrupt", r"Stopped\. Run this cell again, or go on below\. What .*"),
    ("x = 1\nassert x == 2", "AssertionError", r"assert x == 2\nThis check does not hold.*\nChange .* below\."),
    ("assert False, 'Two lines\\nof words'", "AssertionError", r"Two lines\nof words"),
    ("y = 2\nprint(missed)", "NameError", r"print\(missed\)\nname 'missed' is not defined: run the cells above .*"),
    ("1 / 0", "ZeroDivisionError", r"(?s).*Traceback.*1.*0.*"),
])  # fmt: skip
def test_a_cell_that_is_stopped_or_whose_check_fails_ends_with_a_sentence(source, name, said):
    """Any other error shows the lines that led there. Each ends what Run All has begun."""
    cells = [copies.first_cell(), nbformat.v4.new_code_cell(source), nbformat.v4.new_code_cell("'went on'")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.raises(CellExecutionError):
        NotebookClient(notebook, timeout=60).execute(env=server.environment())
    (error,) = cells[1].outputs
    assert error.ename == name and re.fullmatch(said, "\n".join(error.traceback)) and cells[2].outputs == []


@pytest.mark.slow
def test_a_copy_alone_in_a_folder_reads_what_is_recorded(tmp_path):
    """The first cells of chapter 5, with the wheel and nothing else of the book."""
    python, _ = environment(tmp_path / "venv", linked(tmp_path / "links"))
    build_wheel(tmp_path)
    install(python, *tmp_path.glob("*.whl"))
    notebook = nbformat.read(build.site().parents[1] / "copies" / "05_ppo.ipynb", as_version=4)
    code = [place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    notebook.cells = notebook.cells[: code[12]]
    assert any("recording(" in cell.source for cell in notebook.cells)
    nbformat.write(notebook, tmp_path / "05_ppo.ipynb")
    execute(python, tmp_path / "05_ppo.ipynb", tmp_path / "alone")
