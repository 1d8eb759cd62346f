"""What a test can reach: the functions, classes and constants that it names, what these name, and so on downward.

The top level of a file is cut into units: definitions, assignments, and loose statements, which run at import and
belong to whatever reaches their file. Comments, docstrings and line numbers are left out. A name stands for everything
that it could mean. So a test may reach too much here, and never too little: `watch.py` compares with what runs.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CONFTEST = "tests.conftest"
TESTS = ("tests.", "book.results.studies.")
ALL, LOOSE = "*", ""  # in place of a name: everything in a file, and its loose statements


def files_of_tests(root: Path) -> list[Path]:
    """The tests that can be named for a mutant, and what they share."""
    tests = root / "tests"
    return [*tests.glob("*.py"), *tests.glob("*/test_*.py"), *(root / "book/results/studies").glob("*.py")]


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, of the package and of the tests that can be named for a mutant."""
    files = [*(ROOT / "minerva_lite").rglob("*.py"), *files_of_tests(ROOT)]
    return {".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f for f in files}


def normalized(text: str) -> ast.Module:
    """The syntax tree without docstrings; comments are not in it anyway."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFINITIONS)) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


@dataclass(eq=False)
class Unit:
    """A statement at the top level of a file."""

    module: str
    node: ast.stmt

    @cached_property
    def mentions(self) -> set[str]:
        """Names in it, arguments (they ask for fixtures) and texts, as in `setattr("minerva_lite.x.y", …)`."""
        found = set()
        for node in ast.walk(self.node):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
        return found - {ALL, LOOSE}

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.module} {ast.dump(self.node)}".encode()).hexdigest()


class Source:
    """A file cut into units."""

    def __init__(self, module: str, text: str) -> None:
        self.units: dict[str, list[Unit]] = {LOOSE: []}  # by the names that they bind
        self.imports: dict[str, tuple[str, str]] = {}  # the name here -> the module, and the name there or ALL
        tree = normalized(text)
        for statement in tree.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                continue
            unit, names = Unit(module, statement), [LOOSE]
            if isinstance(statement, DEFINITIONS):
                names = [statement.name]
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            for name in names:
                self.units.setdefault(name, []).append(unit)
        parents = module.split(".") if modules()[module].name == "__init__.py" else module.split(".")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    self.imports[each.asname or each.name.split(".")[0]] = (each.name, ALL)
            elif isinstance(node, ast.ImportFrom):
                base = parents[: len(parents) - node.level + 1] if node.level else []
                origin = ".".join([*base, *([node.module] if node.module else [])])
                for each in node.names:
                    below = f"{origin}.{each.name}"
                    target = (below, ALL) if below in modules() else (origin, each.name)
                    self.imports[each.asname or each.name] = target


@cache
def source(module: str) -> Source:
    return Source(module, modules()[module].read_text("utf8"))


class Sources:
    """The package and the tests, with other texts in place of some files."""

    def __init__(self, changed: dict[Path, str] | None = None) -> None:
        names = {path: name for name, path in modules().items()}
        self.changed = {names[path]: Source(names[path], text) for path, text in (changed or {}).items()}

    def __getitem__(self, module: str) -> Source:
        return self.changed.get(module) or source(module)

    def meanings(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        """Where a name in a file leads, if not to a unit of this file."""
        if name in self[module].imports:
            yield self[module].imports[name]
        elif module.startswith(TESTS):
            yield CONFTEST, name  # a fixture
        if name.startswith(("minerva_lite.", *TESTS)):  # a text
            parts = name.split(".")
            yield from [(".".join(parts[:k]), ALL) for k in range(len(parts), 1, -1)]

    def reach(self, test: str) -> set[Unit]:
        """The units that a test, `tests/room/test_x.py::test_y`, can reach."""
        file, _, name = test.partition("::")
        module = file.removesuffix(".py").replace("/", ".")
        if name not in self[module].units:
            raise ValueError(f"{file} has no {name}")
        found: set[Unit] = set()
        seen: set[tuple[str, str]] = set()
        waiting = [(module, name), (module, "pytestmark"), (CONFTEST, LOOSE)]
        while waiting:
            module, name = pair = waiting.pop()
            if pair in seen or module not in modules():
                continue
            seen.add(pair)
            here = self[module]
            if name == ALL:
                waiting += [(module, each) for each in (*here.units, *here.imports)]
            elif name in here.units:
                found.update(here.units[name])
                waiting += [(module, LOOSE), *((module, each) for unit in here.units[name] for each in unit.mentions)]
            else:
                waiting += self.meanings(module, name)
        return found

    def digest(self, test: str) -> str:
        """The hash of what a test can reach."""
        return hashlib.sha256("".join(sorted(unit.digest for unit in self.reach(test))).encode()).hexdigest()
