"""Execute chapters in place: python book/_ext/execute.py book/05_ppo.ipynb …

With --cache FOLDER the chapters stay as they are, and the pages take the outputs from there (`make book EXECUTE=1`).
Nothing random or timed is stored by itself: no timestamps, and the widgets' random identifiers are replaced by their
place in the notebook. A chapter that does not draw or print its own seconds is the same file when executed twice.
Matplotlib's vector pictures are stored in about half their length (`minerva_book.figures.vector.smaller`), and of the
widgets' settings only those that were made.
"""

import argparse
import json
import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from nbclient import NotebookClient
from processor import as_intel

from minerva_book.figures.vector import smaller
from minerva_book.figures.widgets import FRAMES

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


def executed(path: Path) -> str:
    """The notebook as text, executed."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("widgets", None)
    os.environ[FRAMES] = "1"
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
    return stable_ids(notebook)


def into_cache(paths: list[Path], folder: Path) -> None:
    """Execute notebooks, two at a time, into a cache that holds nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    cache = get_cache(folder)
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(2) as pool:
        for path, text in zip(paths, pool.map(executed, paths), strict=True):
            file = Path(place, path.name)
            file.write_text(text, "utf8")
            cache.cache_notebook_file(file, uri=str(path), check_validity=False, overwrite=True)
            print(path, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    as_intel()
    if args.cache:
        into_cache(args.chapters, args.cache)
    else:
        for chapter in args.chapters:
            chapter.write_text(executed(chapter), "utf8")
