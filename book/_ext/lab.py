"""The front door of `make lab`: `.notebooks/` with a copy of each chapter and a start page, in JupyterLab.

A copy whose text or code a reader has changed is the reader's, and is never written; a newer chapter then lies beside
it under the package's mark. Outputs are no change: they stay as long as the chapter does. What only graders need of
nbgrader is off in this server.
"""

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from platform import python_version

import nbformat
from jupyter_client.kernelspec import get_kernel_spec
from jupyter_server.base.handlers import FileFindHandler
from jupyterlab.labapp import main
from processor import as_intel
from run_all import seconds

ROOT = Path(__file__).resolve().parents[2]
MADE, FOLDER = ROOT / ".build" / "copies" / "lab", ROOT / ".notebooks"
RECORD = ".made.json"  # of each file what it said when it was written
FIRST = "the-package"  # the cell that finds the package, and has its mark
GRADERS = "formgrader", "validate_assignment", "assignment_list", "course_list"
START = """# Policy Optimization, Line by Line: the chapters, to run

**Begin** with [chapter 1]({first}), or with [Appendix A](a_prerequisites.ipynb) if derivatives and expectations are \
far away. Run a chapter cell by cell with Shift+Enter, change a line where it says so, and run that cell again. *Run › \
Run All Cells* takes the seconds that stand here, on two cores, and also unfolds the answers of the predictions.

{chapters}

**Your edits** are saved in these files, in the folder `.notebooks` of the book, and stay when the book changes. For a \
fresh chapter delete its file (right-click on its name in the list of files) and type `make lab` again.

{homework}
"""


def essence(path: Path) -> str:
    """What a notebook says, without what it printed, and without the package's mark; "" for a file that is none."""
    try:
        cells = nbformat.read(path, as_version=4).cells
    except (OSError, ValueError, KeyError, nbformat.reader.NotJSONError, nbformat.ValidationError):
        return ""
    said = [(cell.cell_type, cell.source) for cell in cells if cell.get("id") != FIRST]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def mark(made: Path) -> str:
    """The package's, from a copy: the package itself imports PyTorch, nearly half of the time to start."""
    found = re.search(r'MARK, WHEEL = \\"([^"\\]+)', next(made.glob("0*.ipynb")).read_text("utf8"))
    assert found, "the first cell of a copy has no mark"
    return found[1]


def renew(old: Path, new: Path) -> None:
    """Put the mark of `new` into the first cell of `old`; outputs stay."""
    notebooks = [nbformat.read(path, as_version=4) for path in (old, new)]
    for ours, theirs in zip(*([c for c in each.cells if c.get("id") == FIRST] for each in notebooks), strict=True):
        if ours.source != theirs.source:
            ours.source = theirs.source
            nbformat.write(notebooks[0], old)


def place(new: Path, target: Path) -> None:
    """With what JupyterLab would write in by itself, and then ask whether to save what nobody has changed."""
    notebook = nbformat.read(new, as_version=4)
    if "language_info" in notebook.metadata:
        notebook.metadata.language_info.version = python_version()
        notebook.metadata.kernelspec.display_name = get_kernel_spec("python3").display_name
    nbformat.write(notebook, target)


def lay_out(made: Path, folder: Path, mark: str) -> dict[str, str]:
    """Bring a folder up to date. Returns by chapter the name of a newer copy that lies beside an edited one, or ""."""
    folder.mkdir(exist_ok=True)
    file = folder / RECORD
    record = json.loads(file.read_text("utf8")) if file.exists() else {}
    beside = {}
    for new in sorted(made.glob("*.ipynb")):
        said, names = essence(new), [new.name]
        old = folder / new.name
        edited = old.exists() and essence(old) != record.get(old.name)
        if edited and said != record.get(old.name):
            names = [f"{new.stem} {mark}.ipynb"]
        beside[new.name] = names[0] if names[0] != new.name else ""
        target = folder / names[0]
        if not target.exists() or (not edited and said != record.get(target.name)):
            place(new, target)
            record[target.name] = said
        elif not edited:
            renew(target, new)
    file.write_text(json.dumps(record, indent=1), "utf8")
    for old in folder.glob("minerva_lite-*.whl"):
        old.unlink()
    for wheel in made.glob("*.whl"):  # a chapter that is handed out with it runs anywhere
        shutil.copy(wheel, folder)
    return beside


def title(path: Path) -> str:
    return nbformat.read(path, as_version=4).cells[0].source.partition("\n")[0].removeprefix("# ")


def start_page(folder: Path, made: Path, beside: dict[str, str], handout: Path) -> None:
    """Write `start.ipynb`: the chapters in the book's order, newer copies, homework if a term's was handed out here."""
    lines, takes = [], seconds()
    for name, newer in beside.items():
        more = f" (yours; the book's present one is [here](<{newer}>))" if newer else ""
        told = f", {takes[stem]} s" if (stem := name.removesuffix(".ipynb")) in takes else ""
        lines.append(f"- [{title(made / name)}]({name}){told}{more}")
    for each in handout.glob("*/*.ipynb"):
        target = folder / "homework" / each.parent.name / each.name
        if each.parent.name == each.stem and not target.exists():  # not those for Colab
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(each, target)
    homework = "**Homework** is handed out by your instructors; how they make it is on the book's page for instructors."
    if (handout / "start.ipynb").exists():
        (folder / "homework").mkdir(exist_ok=True)
        place(handout / "start.ipynb", folder / "homework" / "start.ipynb")
        homework = "**Homework**: [what there is, and what to do with it](homework/start.ipynb)."
    first = next(name for name in beside if name[0].isdigit())
    text = START.format(first=first, chapters="\n".join(lines), homework=homework)
    notebook = nbformat.read(made / first, as_version=4)  # for its kernel
    notebook.cells = [nbformat.v4.new_markdown_cell(text, id="start")]
    nbformat.write(notebook, folder / "start.ipynb")
    place(folder / "start.ipynb", folder / "start.ipynb")


def without_graders(folder: Path) -> Path:
    """A folder of settings for Jupyter in which nbgrader's extensions are off, and JupyterLab asks about no news."""
    extensions = [f"nbgrader.server_extensions.{name}" for name in GRADERS]
    server = {"ServerApp": {"jpserver_extensions": dict.fromkeys(extensions, False)}}
    off = "@jupyter/nbgrader", "@jupyterlab/apputils-extension:announcements"
    page = {"disabledExtensions": dict.fromkeys(off, True)}
    for name, settings in (("jupyter_server_config.d/nbgrader.json", server), ("labconfig/page_config.json", page)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), "utf8")
    return folder


def lines_alone(model: dict, **_: object) -> None:
    """Of what showed a training (`minerva_lite.training.progress.LIVE`) a file keeps the line."""
    cells = model["content"]["cells"] if model["type"] == "notebook" else []
    for output in (output for cell in cells for output in cell.get("outputs", [])):
        if "minerva_lite" in output.get("metadata", {}):
            output["data"].pop("text/html", None)


class Forgetful(dict):
    """Keeps nothing."""

    def __setitem__(self, name: str, path: str) -> None:
        pass


def serve(made: Path, folder: Path, words: list[str]) -> None:
    """words: for JupyterLab, such as --port=8899; with --no-server the folder is all."""
    start_page(folder, made, lay_out(made, folder, mark(made)), ROOT / ".homework" / "term" / "handout")
    if "--no-server" in words:
        return
    as_intel()
    os.environ["JUPYTER_CONFIG_PATH"] = str(without_graders(ROOT / ".build" / "jupyter"))
    # The server keeps where it found a file by its name alone, and JupyterLab's fonts are named as Notebook's: whoever
    # asked second would be refused them.
    FileFindHandler._static_paths = Forgetful()
    saves = f"--ContentsManager.pre_save_hook={Path(__file__).stem}.{lines_alone.__name__}"
    pages = f"--ServerApp.extra_static_paths={[str(made.parents[1] / '_build' / 'html')]}"  # at copies.PAGES
    os.chdir(folder)
    sys.exit(main(["--LabApp.default_url=/lab/tree/start.ipynb", saves, pages, *words]))


if __name__ == "__main__":
    serve(MADE, FOLDER, sys.argv[1:])
