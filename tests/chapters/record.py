"""Which notebooks must be executed again, from `record.json`, which `make test-full` alone writes.

That the outputs of a notebook are what its cells give is a fact about both, the functions that the cells enter, all
that stands outside of functions, the files that they open, and the libraries. While none of them changes it need not be
found anew. The record holds for each notebook what it entered and opened, and the digest of all of it.
"""

import argparse
import ast
import hashlib
import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from platform import python_version
from typing import Any

import nbformat

from tests.mutants.reach import DEFINITIONS, normalized

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("record.json")
FOLDERS = ("minerva_lite", "book/minerva_book")  # whose functions are noted
SHARE = 4  # of the notebooks that need not be executed, one in so many is


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Source:
    """A file cut into its functions and methods, by name (`f`, `C.m`), and the rest, which runs on import."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, list[tuple[range, str]]] = {}  # the lines and the syntax; a setter shares its name
        module = normalized(text)
        for holder in [*(node for node in module.body if isinstance(node, ast.ClassDef)), module]:
            prefix = f"{holder.name}." if isinstance(holder, ast.ClassDef) else ""
            for node in [each for each in holder.body if isinstance(each, DEFINITIONS[:2])]:
                lines = range(min([node.lineno, *(each.lineno for each in node.decorator_list)]), node.end_lineno + 1)
                self.functions.setdefault(prefix + node.name, []).append((lines, ast.dump(node)))
                if prefix:
                    node.body = []  # that a class has the method, and how it is called, stays with the class
                else:
                    holder.body.remove(node)
        self.rest = ast.dump(module)


class Tree:
    """The sources as they stand below `root`."""

    def __init__(self, root: Path = ROOT, folders: Iterable[str] = FOLDERS) -> None:
        self.root = root
        self.sources: dict[str, Source] = {}  # by the path below the root
        for file in sorted(file for folder in folders for file in (root / folder).rglob("*.py")):
            self.sources[file.relative_to(root).as_posix()] = Source(file.read_text("utf8"))

    def at(self, file: str, line: int) -> list[tuple[str, str]]:
        """(file, function) that holds a line; none for what runs on import."""
        file = Path(file).relative_to(self.root).as_posix()
        functions = self.sources[file].functions if file in self.sources else {}
        return [(file, name) for name, parts in functions.items() if any(line in lines for lines, _ in parts)]

    def digest(self, entered: dict[str, list[str]]) -> str:
        """Of these functions and of all that stands outside of functions. Raises KeyError: a function is gone."""
        functions = {file: [self.sources[file].functions[name] for name in names] for file, names in entered.items()}
        texts = [text for parts in functions.values() for part in parts for _, text in part]
        return digest(texts, [source.rest for source in self.sources.values()])


@cache
def surroundings() -> str:
    return digest((ROOT / "requirements.txt").read_text("utf8"), python_version().rpartition(".")[0])


def key(path: Path, entry: dict[str, Any], tree: Tree) -> str:
    """The digest of all that a notebook's outputs depend on, by what is recorded of it.

    Raises KeyError: a function is gone; FileNotFoundError: a file is.
    """
    # Source, stored outputs and tags of the code cells: all that nbval looks at.
    cells = [[cell.source, cell.outputs, cell.metadata.get("tags")] for cell in nbformat.read(path, 4).cells
             if cell.cell_type == "code"]  # fmt: skip
    files = {name: hashlib.sha256((tree.root / name).read_bytes()).hexdigest() for name in entry["files"]}
    return digest(surroundings(), cells, files, tree.digest(entry["entered"]))


def read(path: Path = RECORD) -> dict[str, dict[str, Any]]:
    """What is recorded of each notebook. Raises ValueError: the file was changed by hand."""
    if not path.exists():
        return {}
    told = json.loads(path.read_text("utf8"))
    if told["seal"] != digest(told["notebooks"]):
        raise ValueError(f"{path.name} was changed by hand: `make test-full` writes it")
    return told["notebooks"]


def fresh(notebooks: Iterable[Path], recorded: dict[str, dict[str, Any]], tree: Tree) -> list[Path]:
    """The notebooks that nothing has changed since they were recorded."""
    found = []
    for path in notebooks:
        entry = recorded.get(path.relative_to(tree.root).as_posix())
        try:
            if entry and key(path, entry, tree) == entry["key"]:
                found.append(path)
        except (KeyError, FileNotFoundError):
            continue
    return found


def at_rest(notebooks: Iterable[Path], recorded: dict[str, dict[str, Any]], tree: Tree) -> list[Path]:
    """The notebooks that need not be executed this time: the fresh ones but one in SHARE, drawn by the sources."""
    seed = tree.digest({file: [*source.functions] for file, source in tree.sources.items()})
    left = sorted(fresh(notebooks, recorded, tree), key=lambda path: digest(seed, path.name))
    return left[math.ceil(len(left) / SHARE) :]


def entries(folder: Path, tree: Tree) -> dict[str, dict[str, Any]]:
    """What watched kernels wrote into `folder`, by notebook."""
    found: dict[str, dict[str, Any]] = {}
    for written in sorted(folder.glob("*.json")):
        told = json.loads(written.read_text("utf8"))
        path = Path(told["notebook"])
        entered: dict[str, list[str]] = {}
        for file, name in sorted({place for at in told["entered"] for place in tree.at(*at)}):
            entered.setdefault(file, []).append(name)
        # What is read as data, and not as code, and outlives the notebook.
        data = [file for file in map(Path, told["files"]) if file.suffix not in (".py", ".pyc") and file.is_file()]
        entry = {"files": sorted(file.relative_to(tree.root).as_posix() for file in data), "entered": entered}
        found[path.relative_to(tree.root).as_posix()] = entry | {"key": key(path, entry, tree)}
    return found


def write(notebooks: dict[str, dict[str, Any]], path: Path = RECORD) -> None:
    """A line a notebook."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(notebooks.items()))
    path.write_text(f'{{"seal": "{digest(dict(sorted(notebooks.items())))}", "notebooks": {{\n{lines}\n}}}}\n', "utf8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the kernels of a whole run wrote (`pytest --watch-chapters`)")
    found = entries(parser.parse_args().folder, Tree())
    write(found)
    print(f"{len(found)} notebooks recorded")
