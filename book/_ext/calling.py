"""Follow the calls of an algorithm through a package: which functions run, in the order in which they first run.

The source is read and never imported. A name is resolved through the imports of its file, `self.x` on the class whose
algorithm is followed, and the type of any other object by the annotations of what it comes from. The algorithm is
followed under one configuration, so a branch is left where its condition is known: what the settings say, what a class
says of itself (`discrete = False`), and an argument that no call passes and that therefore keeps its default.

`tests/book/test_one_page.py` compares what is found with what runs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from definitions import FUNCTION, UNKNOWN, Package, literal
from names import Kind
from statements import Reader, Visit


class Followed:
    """An algorithm, followed from methods of its class.

    root: the class. settings: fields of its config that differ from their defaults. where: which class stands behind an
    attribute or an abstract class, both by name. without: modules that are not entered. last: methods that are followed
    after all others.
    """

    def __init__(
        self, package: Package, root: str, *, settings: Mapping[str, Any], where: Mapping[str, str], without: list[str]
    ):
        self.package, self.root, self.settings, self.without = package, root, settings, without
        self.where = {name: package.by_name(target) for name, target in where.items()}
        self.passed: dict[str, set[str]] = {}  # of each function: the parameters that some call passes
        self.handed: dict[tuple[str, str], str] = {}  # the function that stands behind a parameter
        self.kinds: dict[tuple[str, str], Kind] = {}  # of attributes, by class and name
        self.config = self.attribute(root, "config")
        unknown = [name for name in settings if self.default(name) is None]
        if unknown:
            raise ValueError(f"settings: wanted fields of {self.config}; got {', '.join(unknown)}")

    def enters(self, target: str) -> bool:
        return target in self.package.functions and not any(target.startswith(f"{each}.") for each in self.without)

    def follow(self, starts: list[str], last: Sequence[str] = ()) -> dict[str, Visit]:
        """Every function that is reached from these methods, in the order in which it is first called.

        What is reached from the methods named in `last` alone comes after all others.
        """
        while True:
            before = {name: set(passed) for name, passed in self.passed.items()}, dict(self.handed)
            visits: dict[str, Visit] = {}
            wait = {self.start(name) for name in last}
            for names in (starts, last):
                for name in names:
                    wait.discard(self.start(name))
                    self._enter(self.start(name), visits, wait)
            if before == (self.passed, self.handed):  # else an argument taken for its default is passed somewhere
                return visits

    def start(self, name: str) -> str:
        if (found := self.package.method(self.root, name)) is None:
            raise ValueError(f"from: wanted methods of {self.root}; got {name}")
        return found.target

    def _enter(self, target: str, visits: dict[str, Visit], wait: set[str], caller: Visit | None = None) -> None:
        if target in visits or target in wait or not self.enters(target):
            return
        visits[target] = visit = Visit(self.package.functions[target], caller)
        Reader(self, visit).read()
        for call in visit.calls:
            self._enter(call, visits, wait, visit)

    # What is known of classes and of their attributes

    def concrete(self, target: str) -> str:
        """The class that stands behind an abstract one; an agent behind every protocol that it keeps."""
        if (named := self.where.get(target.rpartition(".")[2])) is not None:
            return named
        _, node = self.package.classes[target]
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            wanted = [each.name for each in node.body if isinstance(each, FUNCTION)]
            if wanted and all(
                self.attribute(self.root, name) or self.package.method(self.root, name) for name in wanted
            ):
                return self.root
        return target

    def annotated(self, node: ast.expr | None, module: str, owner: str) -> Kind:
        """The kind that an annotation names."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        if isinstance(node, ast.Name):
            if node.id == "Self":
                return owner
            target = self.package.resolve(module, node.id)
            if isinstance(bound := self.package.bound.get(target), ast.Call):  # a type variable
                found = next((each.value for each in bound.keywords if each.arg == "bound"), None)
                return self.annotated(found, target.rpartition(".")[0], owner)
            return self.concrete(target) if target in self.package.classes else None
        if isinstance(node, ast.BinOp):
            return self.annotated(node.left, module, owner) or self.annotated(node.right, module, owner)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            kinds = [self.annotated(each, module, owner) for each in inner]
            return ("tuple", *kinds) if node.value.id == "tuple" and len(kinds) > 1 else ("each", kinds[0])
        return None

    def attribute(self, target: str, name: str) -> Kind:
        """The kind of an object's attribute: as its class annotates it, or as a method first sets it."""
        if (target, name) not in self.kinds:
            self.kinds[target, name] = self._attribute(target, name)
        return self.kinds[target, name]

    def _attribute(self, target: str, name: str) -> Kind:
        if name in self.where and target in self.package.lineage(self.root):
            return self.where[name]
        if found := self.package.method(target, name):
            return self.annotated(found.node.returns, found.module, target)
        for each in self.package.lineage(target):
            module, node = self.package.classes[each]
            for line in node.body:
                named = isinstance(line, ast.AnnAssign) and line.target.id == name
                if named and (kind := self.annotated(line.annotation, module, target)):
                    return kind
            for line in ast.walk(node):
                if isinstance(line, ast.Assign) and _is_own(line.targets[0], name) and isinstance(line.value, ast.Call):
                    made = line.value.func
                    made = self.package.resolve(module, made.id) if isinstance(made, ast.Name) else ""
                    if made in self.package.classes:
                        return made
        return None

    def field(self, name: str) -> tuple[str, ast.AnnAssign] | None:
        """Where the config's class, or one of its bases, has a field: the module, and the line."""
        for each in self.package.lineage(self.config) if self.config else ():
            module, node = self.package.classes[each]
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and line.target.id == name and line.value:
                    return module, line
        return None

    def default(self, name: str) -> ast.expr | None:
        """The default of a field; of a call it is the first argument, as in `count(10)`."""
        if (found := self.field(name)) is None:
            return None
        value = found[1].value
        return value.args[0] if isinstance(value, ast.Call) and value.args else value

    def constant(self, target: str, name: str) -> Any:
        """The value of an object's attribute, where it is a setting or a constant of its class."""
        if target == self.config:
            if name in self.settings:
                return self.settings[name]
            return literal(self.default(name))
        for each in self.package.lineage(target):
            for line in self.package.classes[each][1].body:
                if (
                    isinstance(line, ast.Assign)
                    and isinstance(line.targets[0], ast.Name)
                    and line.targets[0].id == name
                ):
                    return literal(line.value)
        return UNKNOWN


def _is_own(node: ast.expr, name: str) -> bool:
    """Whether this is `self.name`."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
