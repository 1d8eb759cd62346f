"""A student's file, read where it can do no harm: its cells' text, its pictures drawn anew, and nothing else.

`cleaned` runs in a process with limits (see `apart`); `read` asks for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat

from . import apart
from .pictures import Album, NoPicture

ON_DISK = 200 << 20  # bytes of a file, with its outputs
WRITTEN = 2 << 20  # bytes of what a student wrote in it
CELLS = 2000
MEMORY = 1 << 30  # bytes that reading may take
SECONDS = 60.0
FIGURES = 12  # pictures of one cell's outputs
KINDS = ("image/png", "image/jpeg")
UNSHOWN = "homework_unshown"  # what is said of pictures that were left out, in the notebook's metadata
MISSING = "*(Here stood a picture that cannot be shown.)*"
# ![text](attachment:name), and as Colab writes it: ![text](data:image/png;base64,…)
REFERENCE = re.compile(r"!\[[^\]\n]{0,300}\]\(\s*<?attachment:([^)>\n]{1,300})>?\s*\)")
EMBEDDED = re.compile(r"!\[([^\]\n]{0,300})\]\(\s*data:image/\w{1,10};base64,([A-Za-z0-9+/=]+)\s*\)")


def read(file: Path) -> nbformat.NotebookNode:
    """A notebook of a student's file: its cells' text with nbgrader's names, and its pictures, drawn anew.

    Raises ValueError, apart.Failed: it is no notebook, or takes more than it may; the text says which.
    """
    if file.stat().st_size > ON_DISK:
        raise ValueError(f"it is larger than {ON_DISK >> 20} MB")
    made = apart.ask("reading.cleaned", file.read_bytes(), memory=MEMORY, seconds=SECONDS)
    return nbformat.from_dict(json.loads(made))


def prepare() -> None:
    """In the server, once: what the first file would otherwise load."""
    cleaned(b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')


def cleaned(file: bytes) -> bytes:
    """The notebook in a file's bytes, as JSON of `nbformat` 4. Raises ValueError: it is none, or too large."""
    given = loaded(file)
    del file
    album, unshown = Album(), []
    for cell in given:  # pictures first: outputs and attachments are nothing that `nbformat` should see
        outputs, attachments = cell.pop("outputs", None), cell.pop("attachments", None)
        cell["pictures"], why = pictures_of(cell, outputs, attachments, album)
        unshown += why
    if sum(len(text_of(cell).encode("utf8", "surrogatepass")) for cell in given) > WRITTEN:
        raise ValueError(f"without its outputs it is larger than {WRITTEN >> 20} MB")
    made = nbformat.v4.new_notebook(cells=[new_cell(cell) for cell in given])
    if unshown:
        made.metadata[UNSHOWN] = f"{len(unshown)} of its pictures cannot be shown: {', '.join(sorted(set(unshown)))}."
    nbformat.validate(made)
    return json.dumps(made, ensure_ascii=False).encode("utf8")


def loaded(file: bytes) -> list[dict[str, Any]]:
    """The cells of a notebook of nbformat 4, with nothing in them but what is used. Raises ValueError."""
    try:
        notebook = json.loads(file.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError(f"it is no JSON: {file[:40].decode('utf8', 'replace')!r}") from None
    if not isinstance(notebook, dict) or "nbformat" not in notebook or not isinstance(notebook.get("cells"), list):
        raise ValueError("it is JSON, but no notebook")
    if len(notebook["cells"]) > CELLS:
        raise ValueError(f"it has more than {CELLS} cells")
    return [kept(cell) for cell in notebook["cells"]]


def kept(cell: Any) -> dict[str, Any]:
    """A cell with what is used of it. Raises ValueError: it is no cell."""
    kind = cell.get("cell_type") if isinstance(cell, dict) else None
    if kind not in ("code", "markdown", "raw"):
        raise ValueError("one of its cells is none")
    made = {"cell_type": kind, "source": text_of(cell)}
    made["name"] = name_of(cell) if len(name_of(cell)) <= 100 else ""
    return made | {key: cell[key] for key in ("outputs", "attachments") if key in cell}


def text_of(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(map(str, source)) if isinstance(source, list) else ""


def pictures_of(cell: dict[str, Any], outputs: Any, attachments: Any, album: Album) -> tuple[Any, list[str]]:
    """A cell's pictures: of code what it had drawn, of Markdown by name; and why some are left out.

    The Markdown's references to pictures that are left out become words.
    """
    if cell["cell_type"] == "code":
        return drawn(outputs, album) if not cell["name"] or cell["name"].endswith("-run") else ([], [])
    found: dict[str, Any] = {}
    unshown: list[str] = []

    def add(name: str, encoded: Any) -> bool:
        try:
            kind, picture = album.take(encoded)
        except NoPicture as why:
            unshown.append(str(why))
            return False
        found[name] = {kind: picture}
        return True

    def embedded(match: re.Match) -> str:
        name = f"picture-{len(found) + 1}-of-this-text"
        return f"![{match[1]}](attachment:{name})" if add(name, match[2]) else MISSING

    def referred(match: re.Match) -> str:
        return match[0] if unquote(match[1].strip()) in found else MISSING

    source = EMBEDDED.sub(embedded, cell["source"])
    for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
        kinds = [kind for kind in bundle if kind.startswith("image/")] if isinstance(bundle, dict) else []
        if kinds and unquote(name) in unquote(source):
            add(unquote(name), bundle[kinds[0]])
    cell["source"] = REFERENCE.sub(referred, source)
    return found, unshown


def drawn(outputs: Any, album: Album) -> tuple[list[dict[str, str]], list[str]]:
    """The pictures among a cell's outputs, and why some are left out."""
    found, unshown = [], []
    for output in outputs if isinstance(outputs, list) else ():
        data = output.get("data") if isinstance(output, dict) else None
        kind = next((kind for kind in KINDS if kind in data), None) if isinstance(data, dict) else None
        if kind is None:
            continue
        if len(found) + len(unshown) == FIGURES:
            unshown.append(f"a cell drew more than {FIGURES}")
            break
        try:
            found.append(dict([album.take(data[kind])]))
        except NoPicture as why:
            unshown.append(str(why))
    return found, unshown


def new_cell(cell: dict[str, Any]) -> nbformat.NotebookNode:
    make = getattr(nbformat.v4, f"new_{cell['cell_type']}_cell")
    made = make(cell["source"], metadata={"nbgrader": {"grade_id": cell["name"]}} if cell["name"] else {})
    if cell["cell_type"] == "code":
        made["outputs"] = [nbformat.v4.new_output("display_data", data=picture) for picture in cell["pictures"]]
    elif cell["pictures"]:
        made["attachments"] = cell["pictures"]
    return made


def about(cell: Any) -> dict[str, Any]:
    """nbgrader's record of a cell; {} for a cell of the student's, or for a record that is none."""
    metadata = cell.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) and isinstance(found.get("grade_id"), str) else {}


def name_of(cell: Any) -> str:
    """nbgrader's name of a cell, "" for one of the student's own."""
    return about(cell).get("grade_id", "")


def figures(cell: Any) -> list[nbformat.NotebookNode]:
    """The pictures among a read cell's outputs."""
    outputs: Iterable[Any] = cell.get("outputs", ())
    found = [{kind: output["data"][kind] for kind in KINDS if kind in output.get("data", {})} for output in outputs]
    return [nbformat.v4.new_output("display_data", data=data) for data in found if data]
