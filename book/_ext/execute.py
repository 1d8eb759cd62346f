"""Execute chapters in place: python book/_ext/execute.py book/05_ppo.ipynb …

Nothing random or timed is stored by itself: no timestamps, and the widgets' random identifiers are replaced by their
place in the notebook. A chapter that does not draw or print its own seconds is the same file when executed twice.
Matplotlib's vector pictures are stored in about half their length (`minerva_book.figures.vector.smaller`), and of the
widgets' settings only those that were made.
"""

import json
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from minerva_book.figures.vector import smaller

ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def widget_state(notebook) -> dict:
    return notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state", {})


def stable_ids(notebook) -> str:
    """The notebook as text, its widgets' 32-digit identifiers numbered: shown ones first, then what they hold."""
    state = widget_state(notebook)
    names: dict[str, str] = {}

    def rename(text: str) -> str:
        return ID.sub(lambda match: names.get(match.group(), match.group()), text)

    def visit(text: str) -> None:
        for found in ID.findall(text):
            if found in state and found not in names:
                names[found] = f"{len(names):032x}"
                visit(json.dumps(state[found], sort_keys=True))

    visit(json.dumps([cell.get("outputs") for cell in notebook.cells]))
    loose = state.keys() - names.keys()  # links: nothing holds them, they hold the others
    for found in sorted(loose, key=lambda each: rename(json.dumps(state[each], sort_keys=True))):
        visit(found)
    return nbformat.writes(nbformat.reads(rename(nbformat.writes(notebook)), as_version=4)) + "\n"


def execute(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("widgets", None)
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")  # matplotlib stamps its SVG files with it, not with today
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for model in widget_state(notebook).values():
        model["state"] = {name: value for name, value in model["state"].items() if value is not None}
    bundles = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    for bundle in bundles:
        if "image/svg+xml" in bundle:
            bundle["image/svg+xml"] = smaller(bundle["image/svg+xml"])
    path.write_text(stable_ids(notebook), "utf8")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python book/_ext/execute.py CHAPTER.ipynb ...")
    for name in sys.argv[1:]:
        execute(Path(name))
