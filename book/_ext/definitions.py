"""The functions and classes of a package, found in its source, which is never imported: what a name means where."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
UNKNOWN = object()  # a value that is not known before the algorithm runs


@dataclass(frozen=True)
class Function:
    """A function or method, and where it stands."""

    module: str
    name: str  # "function" or "Class.method"
    node: ast.FunctionDef
    owner: str  # the class, "" for none

    @property
    def target(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def lines(self) -> tuple[int, int]:
        return min([self.node.lineno, *(each.lineno for each in self.node.decorator_list)]), self.node.end_lineno


class Package:
    """The definitions of a package: `texts` holds the source of each module, `packages` those that are folders."""

    def __init__(self, texts: Mapping[str, str], packages: set[str]):
        self.trees = {name: ast.parse(text) for name, text in texts.items()}
        self.lines = {name: text.split("\n") for name, text in texts.items()}
        self.packages = packages
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, tuple[str, ast.ClassDef]] = {}
        self.imported = {name: dict(self._imports(name)) for name in self.trees}
        self.bound: dict[str, ast.expr] = {}  # what a module binds to a name, and the bound of a type variable
        for module, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, FUNCTION):
                    self.functions[f"{module}.{node.name}"] = Function(module, node.name, node, "")
                elif isinstance(node, ast.ClassDef):
                    self._add_class(module, node)
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.bound[f"{module}.{node.targets[0].id}"] = node.value

    def _add_class(self, module: str, node: ast.ClassDef) -> None:
        target = f"{module}.{node.name}"
        self.classes[target] = module, node
        for method in node.body:
            if isinstance(method, FUNCTION):
                self.functions[f"{target}.{method.name}"] = Function(
                    module, f"{node.name}.{method.name}", method, target
                )

    def _imports(self, module: str) -> Iterator[tuple[str, str]]:
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.ImportFrom):
                parts = module.split(".") if module in self.packages else module.split(".")[:-1]
                base = parts[: len(parts) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield alias.asname or alias.name, f"{source}.{alias.name}"

    def resolve(self, module: str, name: str) -> str:
        """What a name means in a module, "" for nothing of the package; what is re-exported is followed."""
        here = f"{module}.{name}"
        while here not in self.functions and here not in self.classes and here not in self.bound:
            holder, _, last = here.rpartition(".")
            if not (here := self.imported.get(holder, {}).get(last, "")):
                return ""
        return here

    def lineage(self, target: str) -> list[str]:
        """A class and its bases within the package, in the order in which a method is looked up."""
        module, node = self.classes[target]
        found = [target]
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(base, ast.Name) and (parent := self.resolve(module, base.id)) in self.classes:
                found += self.lineage(parent)
        return [each for i, each in enumerate(found) if each not in found[i + 1 :]]

    def method(self, target: str, name: str, after: str = "") -> Function | None:
        """The method that a call on an object of this class reaches; `after` is the class that asks by `super()`."""
        line = self.lineage(target)
        for each in line[line.index(after) + 1 if after in line else 0 :]:
            if found := self.functions.get(f"{each}.{name}"):
                return found
        return None

    def by_name(self, name: str) -> str:
        """The one class of this name. Raises ValueError: there is none, or more than one."""
        found = [target for target in self.classes if name in (target, target.rpartition(".")[2])]
        if len(found) != 1:
            raise ValueError(f"class: wanted the name of one class of the package; got {name!r}, {len(found)} classes")
        return found[0]


def literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else UNKNOWN
    except ValueError:
        return UNKNOWN
