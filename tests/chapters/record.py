"""Which notebooks must be executed again, from `record.json`, which `make test-full` alone writes.

That the outputs of a notebook are what its cells give is a fact about both, the functions that the cells enter, the
constants and classes that those name, the files that they open, and the libraries. While none of them changes it need
not be found anew. The record holds for each notebook what it entered and opened, and the digest of all of it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from platform import python_version
from typing import Any

import nbformat

from tests.mutants.reach import ALL, DEFINITIONS, LOOSE, normalized

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("record.json")
FOLDERS = ("minerva_lite", "book/minerva_book", "book/homework/course")  # whose functions are noted
SHARE = 4  # of the notebooks that need not be executed, one in so many is


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass
class Unit:
    """A function, a method, a class without the bodies of its methods, or another statement."""

    nodes: list[ast.AST]
    lines: tuple[int, int]
    runs: bool  # only when it is called: counts if it was entered, and not if it is only named

    @cached_property
    def mentions(self) -> set[str]:
        found = set()
        for node in (each for top in self.nodes for each in ast.walk(top)):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
        return found

    @property
    def text(self) -> str:
        return " ".join(ast.dump(node) for node in self.nodes)


class Source:
    """A text cut into units, by name: `f`, `C`, `C.m`, `CONSTANT`; and what it imports. parents: the folders above."""

    def __init__(self, text: str, parents: tuple[str, ...] = ()) -> None:
        self.units: dict[str, list[Unit]] = {}
        self.imports: dict[str, tuple[str, str]] = {}  # the name here -> a module, and the name there or ALL
        tree = ast.fix_missing_locations(normalized(text))  # a docstring alone has become a `pass` of no line
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    self.imports[each.asname or each.name.split(".")[0]] = (each.name, ALL)
            elif isinstance(node, ast.ImportFrom):
                base = parents[: len(parents) - node.level + 1] if node.level else ()
                origin = ".".join([*base, *([node.module] if node.module else [])])
                for each in node.names:
                    self.imports[each.asname or each.name] = (origin, each.name)
        for node in tree.body:
            self.cut(node)

    def cut(self, node: ast.stmt, prefix: str = "") -> None:
        lines = (min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]), node.end_lineno or 0)
        if isinstance(node, ast.ClassDef) and not prefix:
            for each in node.body:
                if isinstance(each, DEFINITIONS[:2]):
                    self.cut(each, f"{node.name}.")
                    each.body = [ast.Pass()]  # cut above; what stays is how it is called
            self.add(node.name, Unit([node], lines, runs=False))
        elif isinstance(node, DEFINITIONS[:2]):
            whole = [ast.Module([*node.body], []), node.args, *node.decorator_list]
            self.add(prefix + node.name, Unit(whole, lines, runs=True))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [n.id for t in targets for n in ast.walk(t) if isinstance(getattr(n, "ctx", None), ast.Store)
                     and isinstance(n, ast.Name)]  # fmt: skip
            for name in bound or [LOOSE]:  # an entry in a table binds no name
                self.add(name, Unit([node], lines, runs=False))
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            self.add(LOOSE, Unit([node], lines, runs=False))

    def add(self, name: str, unit: Unit) -> None:
        self.units.setdefault(name, []).append(unit)

    def names_at(self, line: int) -> Iterator[str]:
        """The units that hold a line; of a class and its method, the method."""
        holding = [n for n, units in self.units.items() if any(u.lines[0] <= line <= u.lines[1] for u in units)]
        yield from [name for name in holding if not any(other.startswith(f"{name}.") for other in holding)]


class Tree:
    """The sources as they stand below `root`."""

    def __init__(self, root: Path = ROOT, folders: Iterable[str] = FOLDERS) -> None:
        self.root = root
        self.sources: dict[str, Source] = {}
        self.modules: dict[str, Path] = {}
        for folder in folders:
            for path in sorted((root / folder).rglob("*.py")):
                parts = path.relative_to((root / folder).parent).with_suffix("").parts
                self.modules[".".join(parts).removesuffix(".__init__")] = path

    def __getitem__(self, module: str) -> Source:
        if module not in self.sources:
            path = self.modules[module]
            parents = module.split(".")[: None if path.name == "__init__.py" else -1]
            self.sources[module] = Source(path.read_text("utf8"), tuple(parents))
        return self.sources[module]

    def place(self, file: str, line: int) -> list[tuple[str, str]]:
        """(module, unit) of a line of a file."""
        found = [module for module, path in self.modules.items() if str(path) == file]
        return [(module, name) for module in found for name in self[module].names_at(line)]

    def digest(self, entered: dict[str, list[str]], cells: Source) -> str:
        """Of the units entered, and of the classes and constants that these and the cells name, and so on downward.

        Raises KeyError: a unit is gone.
        """
        texts: dict[tuple[str, str], list[str]] = {}
        waiting = [(cells, set().union(*(unit.mentions for units in cells.units.values() for unit in units)))]
        for module, names in entered.items():
            for name in names:
                units = self[module].units[name]
                texts[module, name] = [unit.text for unit in units]
                waiting += [(self[module], unit.mentions) for unit in units]
        seen = set()
        while waiting:
            source, names = waiting.pop()
            for name in {*names, LOOSE}:
                for unit in source.units.get(name, ()):
                    if not unit.runs and id(unit) not in seen:
                        seen.add(id(unit))
                        texts.setdefault((str(id(source)), name), []).append(unit.text)
                        waiting.append((source, unit.mentions))
                origin, there = source.imports.get(name, (LOOSE, LOOSE))
                below = f"{origin}.{there}" if there != ALL else origin
                if below in self.modules:  # a module: whatever of it is named besides
                    step = (below, frozenset(names))
                elif origin in self.modules:
                    step = (origin, frozenset({there}))
                else:
                    continue
                if step not in seen:
                    seen.add(step)
                    waiting.append((self[step[0]], set(step[1])))
        return digest(sorted(text for each in texts.values() for text in each))


def cells_of(path: Path) -> list[dict[str, Any]]:
    """Source, stored outputs and tags of the code cells: all that nbval looks at."""
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    return [{"source": c.source, "outputs": c.outputs, "tags": c.metadata.get("tags")} for c in cells]


def source_of(cells: list[dict[str, Any]]) -> Source:
    """Cells as one text; magics are no Python and are left out line by line."""
    lines = [line for cell in cells for line in cell["source"].splitlines()]
    return Source("\n".join(line for line in lines if not line.lstrip().startswith(("%", "!", "?"))))


@cache
def surroundings() -> str:
    return digest((ROOT / "requirements.txt").read_text("utf8"), python_version().rpartition(".")[0])


def key(path: Path, entry: dict[str, Any], tree: Tree) -> str:
    """The digest of all that a notebook's outputs depend on, by what is recorded of it. KeyError: a part is gone."""
    cells = cells_of(path)
    files = {}
    for name in entry["files"]:
        file = tree.root / name
        if not file.exists():
            raise KeyError(name)
        files[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return digest(surroundings(), cells, files, tree.digest(entry["entered"], source_of(cells)))


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
        except KeyError:
            continue
    return found


def in_turn(notebooks: Iterable[Path], recorded: dict[str, dict[str, Any]], tree: Tree) -> list[Path]:
    """The fresh notebooks, in an order drawn by the sources."""
    seed = digest([[module, *(unit.text for units in tree[module].units.values() for unit in units)]
                   for module in tree.modules])  # fmt: skip
    return sorted(fresh(notebooks, recorded, tree), key=lambda path: digest(seed, path.name))


def at_rest(turn: list[Path]) -> list[Path]:
    """Of the fresh ones those that are not executed this time: all but one in SHARE."""
    return turn[math.ceil(len(turn) / SHARE) :]


def by_copy(turn: list[Path]) -> list[Path]:
    """Of the others the first chapter: it is executed from its runnable copy."""
    return [path for path in turn[: math.ceil(len(turn) / SHARE)] if path.parent.name == "book"][:1]


def is_data(file: Path) -> bool:
    """Whether an opened file is read as data, and not as code, and outlives the notebook."""
    return file.suffix not in (".py", ".pyc") and file.is_file()


def entries(folder: Path, tree: Tree) -> dict[str, dict[str, Any]]:
    """What watched kernels wrote into `folder`, by notebook.

    Classes and constants are left out here: all are made when the package is imported, and count where they are named.
    """
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.json")):
        told = json.loads(file.read_text("utf8"))
        path = Path(told["notebook"])
        entered: dict[str, set[str]] = {}
        for module, name in (place for file, line in told["entered"] for place in tree.place(file, line)):
            if any(unit.runs for unit in tree[module].units[name]):
                entered.setdefault(module, set()).add(name)
        files = [file.relative_to(tree.root).as_posix() for file in map(Path, told["files"]) if is_data(file)]
        entry = {"files": sorted(files), "entered": {module: sorted(entered[module]) for module in sorted(entered)}}
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
