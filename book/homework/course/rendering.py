"""What a marker and a student see: Markdown without its teeth, pictures, rubrics; and feedback pages, made apart."""

from __future__ import annotations

import functools
import html
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nbformat
from bleach import ALLOWED_TAGS
from bleach.html5lib_shim import Filter
from bleach.sanitizer import Cleaner
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from traitlets.config import Config

from . import apart
from .reading import name_of
from .tex import symbols_only

MEMORY = 1 << 30  # bytes that a page may take
SECONDS = 60.0
CELLS_SECONDS = 5.0  # and all that a student wrote on it, for which whoever marks waits
TAGS = {*ALLOWED_TAGS, "p", "br", "hr", "div", "span", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "img", "table"}
TAGS |= {"thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "del", "sub", "sup"}
ATTRIBUTES = {"a": ["href"], "img": ["src", "alt"], "th": ["align"], "td": ["align"]}
PICTURE = re.compile(r"[A-Za-z0-9+/=\s]+")
# Nothing in it paints outside it, whatever its formulas ask for.
WITHIN = '<div style="contain: content; overflow: auto">'
OWN = '<div style="border-left: 5px dashed #b8860b; padding-left: 1em"><p><strong>Added by the student</strong></p>'
# What is told of a mark is long, and stands on one line.
WRAPPED = (
    "<style>.output pre, .output_area pre { white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; }"
    "</style>"
)
# On a student's page and on a marker's nothing else keeps a table's columns apart.
SPACED = (
    "<style>.text_cell_render table { margin-bottom: 1em; }"
    " .text_cell_render td, .text_cell_render th { padding: 0.2em 0.7em; }</style>"
)
RUBRIC = (
    '<div style="border: 2px solid #31708f; background: #eef6fb; padding: 0.5em 1em; margin-top: 1em">'
    "<p><strong>Rubric</strong> (for markers; not on the student's page)</p>"
)


class Renderer(IPythonRenderer):
    """Markdown as `nbconvert` has it; what stands in place of a picture is decided later."""

    def _embed_image_or_attachment(self, src: str) -> str:
        return src


class Tamed(Filter):
    """Pictures from the cell alone, links that lead away and say so, formulas of symbols."""

    def __init__(self, source: Any, pictures: dict[str, str]) -> None:
        super().__init__(source)
        self.pictures = pictures

    def __iter__(self) -> Iterator[dict[str, Any]]:
        text, verbatim = "", 0  # in code no formula is looked for
        for token in super().__iter__():
            name, data = token.get("name"), token.get("data")
            if token["type"] == "Entity":  # read before it is judged: "&#92;" is a backslash
                text += html.unescape(f"&{name};")
                continue
            if token["type"] in ("Characters", "SpaceCharacters"):
                text += data
                continue
            source = told = ""
            if name == "img" and isinstance(data, dict):
                source = unquote(data.get((None, "src"), "")).removeprefix("attachment:")
                told = data.get((None, "alt")) or "a picture that was handed in"
                if source not in self.pictures:
                    text += f"[no picture: {told}]"
                    continue
            if text:
                yield {"type": "Characters", "data": text if verbatim else symbols_only(text)}
                text = ""
            verbatim += {"StartTag": 1, "EndTag": -1}.get(token["type"], 0) * (name in ("pre", "code"))
            if source:
                token["data"] = {(None, "src"): self.pictures[source], (None, "alt"): told}
                token["data"][None, "style"] = "max-width: 100%"
            elif name == "a" and isinstance(data, dict):
                address = data.get((None, "href"), "")
                token["data"] = {}
                if outside(address):
                    opened = {"href": address, "rel": "noopener noreferrer nofollow", "target": "_blank"}
                    token["data"] = {(None, key): value for key, value in opened.items()}
            yield token
        if text:
            yield {"type": "Characters", "data": symbols_only(text)}


def outside(address: str) -> bool:
    """Whether a link leads to a named place in the network, and not to this machine or this very page."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in ("http", "https"):
        return parts.scheme == "mailto"
    if "\\" in address or "@" in parts.netloc:  # which browsers read otherwise
        return False
    return re.fullmatch(r"[\w-]+(\.[\w-]+)*\.[^\W\d]{2,}\.?", host) is not None and "localhost" not in host


def pictures_in(cell: Any) -> dict[str, str]:
    """The attachments of a cell as addresses that hold the picture itself; what is no PNG or JPEG is left out."""
    found = {}
    attachments = cell.get("attachments") if hasattr(cell, "get") else None
    for name, bundle in (attachments or {}).items():
        for kind in ("image/png", "image/jpeg"):
            encoded = bundle.get(kind)
            if isinstance(encoded, str) and PICTURE.fullmatch(encoded):
                found[unquote(name)] = f"data:{kind};base64,{encoded}"
    return found


def tamed(source: str, pictures: dict[str, str] | None = None) -> str:
    """Markdown as HTML that can neither run nor drive anything: no name, class, style or form, no foreign picture."""
    made = MarkdownWithMath(renderer=Renderer(escape=False, exclude_anchor_links=True)).render(source)
    cleaner = Cleaner(
        tags=TAGS,
        attributes=ATTRIBUTES,
        protocols={"http", "https", "mailto", "attachment"},
        filters=[functools.partial(Tamed, pictures=pictures or {})],
    )
    return cleaner.clean(made)


def handed_in(cell: Any) -> bool:
    """Whether a student wrote a cell, and not the assignment."""
    return not name_of(cell) or name_of(cell).endswith(("-answer", "-code", "-run"))


def html_of(cell: Any) -> str:
    """A cell's source as HTML; what a student wrote stays within its own box, and a cell of their own is called so."""
    if cell["cell_type"] == "markdown":
        made = tamed(cell["source"], pictures_in(cell))
        made = f"{SPACED}{made}" if "<table" in made else made
    else:
        made = Highlight2HTML(pygments_lexer="ipython3")(cell["source"], metadata=cell["metadata"])
    return boxed(cell, made) if handed_in(cell) else made


def boxed(cell: Any, made: str) -> str:
    return f"{WITHIN}{made}</div>" if name_of(cell) else f"{OWN}{WITHIN}{made}</div></div>"


def cells(asked: bytes) -> bytes:
    """The HTML of each of a student's cells, as JSON: `html_of`, in a process with limits."""
    return json.dumps([html_of(cell) for cell in json.loads(asked)]).encode()


def made_apart(notebook: Any) -> list[str]:
    """The HTML of each cell that a student wrote; as plain text where that takes too much."""
    kept = ("cell_type", "metadata", "attachments")
    theirs = [
        {key: cell[key] for key in kept if key in cell} | {"source": "".join(cell["source"])}  # a file has lines
        for cell in notebook["cells"]
        if handed_in(cell)
    ]
    try:
        asked = json.dumps(theirs).encode()
        return json.loads(apart.ask("rendering.cells", asked, memory=MEMORY, seconds=CELLS_SECONDS))
    except apart.Failed:
        return [boxed(cell, f"<pre>{html.escape(cell['source'])}</pre>") for cell in theirs]


@pass_context
def harmless(context: Any, source: str, *args: Any, **kwargs: Any) -> str:
    """A cell as HTML: what a student wrote is shown to whoever marks it, and was made apart."""
    cell = context.get("cell")
    if not cell or source != cell["source"]:  # a comment of whoever marked it
        return tamed(source)
    if not handed_in(cell):
        return html_of(cell)
    resources = context["resources"]
    if "handed_in" not in resources:
        resources["handed_in"] = made_apart(context["nb"])
    theirs = filter(handed_in, context["nb"].cells)
    return next(made for one, made in zip(theirs, resources["handed_in"], strict=True) if one is cell)


def filters(rubric: Callable[[str, str], str] = lambda assignment, cell: "") -> dict[str, Any]:
    """For `nbconvert`'s exporter. nbconvert's search for links into a notebook's files takes seconds for some texts.

    rubric: of an assignment and a cell's name, as Markdown, "" where there is none; shown below each answer in the
    formgrader and nowhere else.
    """

    @pass_context
    def shown(context: Any, source: str) -> str:
        made, resources = harmless(context, source), context.get("resources") or {}
        name = name_of(context.get("cell") or {})
        # Only the formgrader knows its submission by a number; a page for students has nbgrader's record instead.
        if not name.endswith("-answer") or "submission_id" not in resources or "nbgrader" in resources:
            return made
        told = rubric(resources["assignment_id"], name)
        return f"{made}{RUBRIC}{tamed(told)}</div>" if told else made

    return {"markdown2html": shown, "highlight_code": harmless, "strip_files_prefix": lambda made: made}


def made_page(notebook: str, resources: dict[str, Any]) -> str:
    """The HTML of a notebook's JSON with scores and comments in it, made in a process of its own with limits.

    resources: what the template asks for beside it. Raises apart.Failed, ValueError: there is none, and why.
    """
    theirs = {"handed_in": made_apart(json.loads(notebook))}
    asked = json.dumps({"notebook": notebook, "resources": resources | theirs}).encode()
    return apart.ask("rendering.page", asked, memory=MEMORY, seconds=SECONDS).decode("utf8")


def page(asked: bytes) -> bytes:
    """The HTML of a request's JSON, by nbgrader's template."""
    request = json.loads(asked)
    notebook = nbformat.reads(request["notebook"], as_version=4)
    made, _ = exporter().from_notebook_node(notebook, resources=request["resources"])
    return made.replace("</head>", f"{WRAPPED}</head>", 1).encode("utf8")


@functools.cache
def exporter() -> HTMLExporter:
    """`nbconvert` with nbgrader's template of a feedback page, which lies beside its formgrader."""
    found = importlib.util.find_spec("nbgrader")
    assert found and found.origin, "nbgrader is a requirement of the homework"
    folder = Path(found.origin).parent / "server_extensions" / "formgrader"
    config = Config()
    config.HTMLExporter.template_name = "feedback"
    config.HTMLExporter.extra_template_basedirs = [str(folder / "templates")]
    styles = folder / "static" / "node_modules" / "bootstrap" / "dist" / "css"
    config.HTMLExporter.extra_template_paths = [str(styles)]
    config.HTMLExporter.filters = filters()
    config.Exporter.default_preprocessors = []
    made = HTMLExporter(config=config)
    made.register_preprocessor(CSSHTMLHeaderPreprocessor, enabled=True)
    return made


def prepare() -> None:
    """In the server, once: templates and styles, which every page would otherwise load."""
    resources: dict[str, Any] = {"nbgrader": {"notebook": "", "score": 0.0, "max_score": 0.0, "late_penalty": 0.0}}
    cells = [nbformat.v4.new_markdown_cell("$x$"), nbformat.v4.new_code_cell("1")]
    resources["handed_in"] = [html_of(cell) for cell in cells]
    empty = json.dumps(nbformat.v4.new_notebook(cells=cells))
    page(json.dumps({"notebook": empty, "resources": resources}).encode())
