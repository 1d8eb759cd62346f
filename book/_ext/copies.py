"""A runnable copy of each chapter, written while its page is: `.build/copies/05_ppo.ipynb`.

Cells, their order and their code are the chapter's. Its text is plain Markdown (`plain.py`), its pictures are PNG, so
that they show in a notebook nobody trusts yet; what the page folds is folded in JupyterLab, Notebook 7 and Colab.
In the folder `lab` lie those of `make lab`, which also serves the pages: links lead there, and to the copies beside.
A caption is a cell of its own, marked `added`. So are a stub and its check, in the middle of a text, below each
*Implement* exercise.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import urljoin

import nbformat
from docutils import nodes
from numbering import chapter_name
from pictures import png
from plain import Plain, Unknown
from run_all import seconds
from sphinx.errors import ExtensionError
from sphinx_exercise.nodes import exercise_enumerable_node

import minerva_lite
from minerva_book import mark
from minerva_book.exercises.implement import NOT_YET, stub_and_check
from minerva_book.figures.widgets import RUN
from minerva_book.wheel import ROOT, build_wheel

ADDRESS = os.environ.get("BOOK_ADDRESS", "").rstrip("/")  # where the pages will stand, if that is known
PAGES = "/static"  # where `make lab` serves them
WHEEL = f"minerva_lite-{minerva_lite.__version__}-py3-none-any.whl"
FIRST_CELL = Path(__file__).with_name("first_cell.py")
OPEN = "device"  # a line that the page does not have, and whoever runs the chapter changes
FOLDED = {"hide-cell", "hide-input", "remove-cell"}  # their code; on the page a click shows it, but for the last
LINES = 10_000  # myst-nb numbers the lines of a notebook's cells from here on, 10,000 apart
MOVES = re.compile(r"^(?:figures\.)?(?:explore_\w+|frames_figure)\(", re.M)
PNG = f'set_matplotlib_formats("retina", dpi={2 * 96})'  # two pixels in one of the page's, which `size` stores
DRAWING = Path(__file__).with_name("pictures.py").read_text("utf8")
WITHOUT_TRUST = "image/png", "text/plain", "text/html"


def cell_of(node: nodes.Element, before: int) -> int:
    """The cell that a block stands in; some say nothing of it, and stand where the one before does."""
    lines = (each.line for each in node.findall(nodes.Element) if each.line and not isinstance(each, nodes.tgroup))
    return next((line // LINES - 1 for line in lines if line >= LINES), before)


def by_cell(children: list[nodes.Node], level: int = 0, at: int = 0) -> list[tuple[int, int, nodes.Node]]:
    """The blocks of a page in order, each with its cell and the level of its section."""
    found: list[tuple[int, int, nodes.Node]] = []
    for child in children:
        if isinstance(child, nodes.section):
            found += by_cell(child.children, level + 1, at)
        elif isinstance(child, nodes.Element):
            found.append((cell_of(child, at), level, child))
        at = found[-1][0] if found else at
    return found


class Copy:
    def __init__(self, app, doctree: nodes.document, docname: str, address: str):
        self.app, self.docname, self.address = app, docname, address
        self.notebook = nbformat.read(app.env.doc2path(docname), as_version=4)
        self.blocks = by_cell(doctree.children)
        self.plain = Plain(app.env.toc_fignumbers[docname], self.link)

    def link(self, node: nodes.Element) -> str:
        """To the page; where `make lab` serves it, to another chapter's copy beside; within the chapter nowhere."""
        where = node.get("refuri", "")
        if "://" in where or not where or where.startswith("#"):
            return "" if where.startswith("#") else where
        name, _, part = where.partition(".html")
        if self.address == PAGES and not part and chapter_name(f"book/{name}"):  # no copy opens at an equation
            return f"{name}.ipynb"
        return urljoin(f"{self.address}/{self.docname}.html", where) if self.address else ""

    def texts(self, cell: int) -> Iterator[tuple[str, str]]:
        """A cell's text in parts: each ends with an *Implement* exercise, and has its label, but for the last."""
        texts = []
        for at, level, block in self.blocks:
            if at == cell:
                self.plain.level = level
                try:
                    texts.append(self.plain.block(block))
                except Unknown as error:
                    raise ExtensionError(f"{self.docname}: cell {cell}: no plain form of a {error}") from error
                if label := to_implement(block):
                    yield "\n\n".join(filter(None, texts)), label
                    texts = []
        yield "\n\n".join(filter(None, texts)), ""

    def text(self, cell: nbformat.NotebookNode, place: int) -> Iterator[nbformat.NotebookNode]:
        """A text, and below each *Implement* exercise a stub and its check."""
        name = ""
        for text, label in self.texts(place):
            if not name:
                cell.source, name = text, cell.id
                yield cell
            elif text:
                yield added(nbformat.v4.new_markdown_cell(text), f"{name}-on")
            if label:
                try:
                    stub, check = stub_and_check(label)
                except KeyError as error:
                    raise ExtensionError(f"{self.docname}: cell {place}: no stub for the exercise {error}") from error
                yield added(nbformat.v4.new_code_cell(stub), f"{label}-stub")
                said = [nbformat.v4.new_output("stream", text=f"{NOT_YET}\n")]
                yield added(nbformat.v4.new_code_cell(check, outputs=said, execution_count=1), f"{label}-check")
                name = label

    def made(self) -> nbformat.NotebookNode:
        cells = []
        outputs = {block["cell_index"]: block for _, _, block in self.blocks if "cell_index" in block}
        for place, cell in enumerate(self.notebook.cells):
            if place == 1:
                cells += self.opening()
            if cell.cell_type == "markdown":
                cells += self.text(cell, place)
                continue
            cells.append(cell)
            fold(cell, self.titles(cell, outputs.get(place)))
            for output in cell.outputs:
                if "data" in output:
                    output.metadata |= size(output.data)
                    output.data = shown(output.data, folder_of(self.app) / ".drawn")
            if MOVES.search(cell.source):  # an output, so that it is gone as soon as the cell is run
                note = {"text/html": f"<em>{RUN}</em>", "text/plain": RUN}
                cell.outputs.append(nbformat.v4.new_output("display_data", note, metadata={"added": True}))
            if place in outputs:
                cells += self.captions(cell, outputs[place])
        self.notebook.cells = [*cells, *self.ending()]
        self.notebook.metadata.pop("widgets", None)
        return self.notebook

    def titles(self, cell: nbformat.NotebookNode, block: nodes.Element | None) -> dict[str, str]:
        """What a fold of a general name is called: by the equations that it checks, its figure, what it defines."""
        labels = [tag.removeprefix("checks:") for tag in cell.metadata.get("tags", []) if tag.startswith("checks:")]
        numbers = self.plain.numbers["displaymath"]
        checked = ", ".join(f"({'.'.join(map(str, numbers[f'equation-{label}']))})" for label in labels)
        figures = [self.plain.number("figure", each) for each in (block.findall(nodes.figure) if block else ())]
        defined = ", ".join(re.findall(r"^(?:def|class) (\w+)", cell.source, re.M))
        shows = "the code of the table" if re.search(r"^table\(", cell.source, re.M) else ""
        found = {"the check": f"check of {checked}" * bool(checked)}
        found["the code of the picture"] = f"the code of Figure {figures[0]}" if figures else ""
        found["the code"] = f"the code: {defined}" if defined else shows
        return {name: title for name, title in found.items() if title}

    def opening(self) -> list[nbformat.NotebookNode]:
        """Below the title: how long it runs, if that is measured, and the cell that finds the package."""
        told = seconds().get(self.docname.rpartition("/")[2])
        takes = f"Run All takes about {told} seconds on two cores. " if told else ""
        text = f"*{takes}Numbers in the text are an Intel CPU's. On other processors trainings take other paths.*"
        return [added(nbformat.v4.new_markdown_cell(text), "run-all"), first_cell()]

    def ending(self) -> Iterator[nbformat.NotebookNode]:
        """What comes next."""
        pages = [page for page in self.app.env.toctree_includes.get("book/index", ()) if chapter_name(page)]
        if self.docname in pages[:-1]:
            following = pages[pages.index(self.docname) + 1]
            title = self.app.env.titles[following]
            link = nodes.reference("", "", *title.children, refuri=f"{following.rpartition('/')[2]}.html")
            yield added(nbformat.v4.new_markdown_cell(f"Next: {self.plain.phrase(link)}"), "next")

    def captions(self, cell, block: nodes.Element):
        for figure in block.findall(nodes.figure):
            caption = next(figure.findall(nodes.caption))
            text = f"**Figure {self.plain.number('figure', figure)}.** {self.plain.inline(caption)}"
            yield added(nbformat.v4.new_markdown_cell(text), f"{cell.id}-caption")


def added(cell: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """A cell that the chapter does not have."""
    cell.id, cell.metadata["added"] = name, True
    return cell


def to_implement(block: nodes.Element) -> str:
    """The label of an *Implement* exercise; "" of another block."""
    implement = isinstance(block, exercise_enumerable_node) and re.match(r"\W*Implement\b", block.children[0].astext())
    return block["label"] if implement else ""


def first_cell() -> nbformat.NotebookNode:
    """Finds or fetches the package, and says what the notebook runs on."""
    wheel = f"{ADDRESS}/{WHEEL}" if ADDRESS else ""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]
    needs = project["dependencies"] + project["optional-dependencies"]["book"]
    source = FIRST_CELL.read_text("utf8").replace("@MARK@", mark()).replace("@WHEEL@", wheel)
    source = source.replace('["@NEEDS@"]', json.dumps(needs)).strip()
    hidden = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": ["nbval-ignore-output"]}
    return added(nbformat.v4.new_code_cell(source, metadata=hidden), "the-package")


def fold(cell: nbformat.NotebookNode, titles: dict[str, str]) -> None:
    """Fold what the page folds; elsewhere than in JupyterLab, Notebook 7 and Colab the first line says what it is."""
    tags, prompt = set(cell.metadata.get("tags", [])), cell.metadata.pop("mystnb", {}).get("code_prompt_show", "")
    hidden = {"source_hidden": True} if tags & FOLDED and OPEN not in tags else {}
    if tags & {"hide-cell", "hide-output"}:
        hidden["outputs_hidden"] = True
    if "source_hidden" in hidden:
        title = prompt.removeprefix("Show ").removesuffix(": {type}") or "imports and settings"
        title = titles.get(title, title)
        source = cell.source.replace('set_matplotlib_formats("svg")', PNG)
        cell.source = f"# @title {title[0].upper()}{title[1:]}\n{source}"
        cell.metadata["cellView"] = "form"
    if hidden:
        cell.metadata["jupyter"] = hidden
    if "outputs_hidden" in hidden:
        cell.metadata["collapsed"] = True  # its older name, which JupyterLab would add
    if "outputs_hidden" in hidden and cell.outputs:
        # JupyterLab shows the first line of the first output that is hidden, which may be the answer. This has none.
        cell.outputs.insert(0, nbformat.v4.new_output("display_data", metadata={"added": True}))


def size(data: dict[str, str]) -> dict[str, dict[str, int]]:
    """How wide a picture is shown: as on the page, where it has more pixels."""
    width = re.search(r'<svg [^>]*?width="([\d.]+)pt"', data.get("image/svg+xml", ""), re.S)
    return {"image/png": {"width": round(float(width[1]) * 96 / 72)}} if width else {}


def shown(data: dict[str, str], drawn: Path) -> dict[str, str]:
    """An output as it shows in a notebook that is not trusted: pictures as PNG, of a widget its picture alone.

    drawn: the folder of pictures that a former build has drawn.
    """
    if "image/svg+xml" in data:
        svg = data["image/svg+xml"]
        file = drawn / f"{sha256((svg + DRAWING).encode()).hexdigest()}.png"
        if not file.exists():
            drawn.mkdir(exist_ok=True)
            file.write_bytes(png(svg))
        data["image/png"] = b64encode(file.read_bytes()).decode()
    return {kind: data[kind] for kind in WITHOUT_TRUST if kind in data}


def folder_of(app) -> Path:
    return Path(app.outdir).parents[1] / "copies"


def write(app, doctree: nodes.document, docname: str) -> None:
    if chapter_name(docname):
        for folder, address in ((folder_of(app), ADDRESS), (folder_of(app) / "lab", PAGES)):
            folder.mkdir(exist_ok=True)
            path = folder / f"{docname.rpartition('/')[2]}.ipynb"
            path.write_text(nbformat.writes(Copy(app, doctree, docname, address).made()) + "\n", "utf8")


def finish(app, error: Exception | None) -> None:
    """Beside the copies and the pages: the wheel; and what the download buttons give."""
    if error is None and app.builder.format == "html":
        for old in folder_of(app).rglob("*.whl"):
            old.unlink()
        build_wheel(folder_of(app))
        for wheel in folder_of(app).glob("*.whl"):
            shutil.copy(wheel, app.outdir)
            shutil.copy(wheel, folder_of(app) / "lab")
        for copy in folder_of(app).glob("*.ipynb"):
            shutil.copy(copy, Path(app.outdir, "_sources", "book"))


def setup(app) -> dict:
    app.connect("doctree-resolved", write, priority=900)
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
