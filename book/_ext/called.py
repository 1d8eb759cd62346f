"""Which function or class of the annotated packages each call of a file means, read from the sources alone.

What a name stands for is told by imports, annotations and what a function is annotated to return. A method is the one
of the class that the annotation names, as a reader of the file knows it: what a subclass makes of it is not asked.
Where nothing tells, there is no answer, and so no link to a wrong place. This module knows nothing of Sphinx.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

Function = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
DEEPEST = 12  # steps from a name to its meaning; what refers to itself ends here
PIECE = re.compile(r'<span class="(\w+)">([^<]*)</span>|[^<]+')  # one token of a highlighted line, or space between


@dataclass(frozen=True)
class Call:
    """A name that is called, or from which a class inherits, and what it means."""

    line: int  # from 1
    column: int  # of the name's first character, from 0
    name: str
    target: str  # "package.module.Class.method"


@dataclass(frozen=True)
class _Scope:
    """Where a name is read: the functions around it, the inmost last, and the class of the outmost."""

    module: str
    owner: str = ""  # dotted name of the class
    functions: tuple[tuple[str, Function], ...] = ()


class Package:
    """The sources of all annotated packages. sources: dotted name of a module to its text; faulty ones are left out."""

    def __init__(self, sources: Mapping[str, str]):
        self.sources, self.trees = dict(sources), {}
        self.definitions: dict[str, tuple[str, ast.stmt]] = {}  # dotted name -> its module, its node
        self.imports: dict[str, dict[str, str]] = {}
        # A class is asked for the same attribute by each of its methods, and a function for each of its names.
        self.calls, self._class_of_attribute = cache(self.calls), cache(self._class_of_attribute)
        self._bindings = cache(self._bindings)
        for name, text in sources.items():
            try:
                self.trees[name] = ast.parse(text)
            except SyntaxError:
                continue  # a marker's fault already says so
        for name, tree in self.trees.items():
            self.imports[name] = dict(self._imported(name, tree))
            self._define(name, name, tree)

    def calls(self, module: str) -> list[Call]:
        """The calls in a module whose meaning is known, in the order of the file."""
        if module not in self.trees:
            return []
        lines = self.sources[module].split("\n")
        found = []
        for name, target in self._meanings(self.trees[module], _Scope(module)):
            last = name.id if isinstance(name, ast.Name) else name.attr
            line = lines[name.end_lineno - 1].encode()[: name.end_col_offset].decode()  # ast counts bytes
            found.append(Call(name.end_lineno, len(line) - len(last), last, target))
        return sorted(set(found), key=lambda call: (call.line, call.column))

    def _define(self, module: str, prefix: str, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, DEFINITIONS):
                self.definitions.setdefault(f"{prefix}.{child.name}", (module, child))
                self._define(module, f"{prefix}.{child.name}", child)
            elif not isinstance(child, ast.expr):
                self._define(module, prefix, child)

    def _imported(self, module: str, tree: ast.AST) -> Iterator[tuple[str, str]]:
        """What each imported name stands for, wherever in the module it is imported."""
        is_package = any(other.startswith(f"{module}.") for other in self.sources)
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            above = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield alias.asname or alias.name, f"{base}.{alias.name}"

    def _meanings(self, node: ast.AST, scope: _Scope) -> Iterator[tuple[ast.Name | ast.Attribute, str]]:
        for child in ast.iter_child_nodes(node):
            inner = scope
            called = []
            if isinstance(child, ast.ClassDef):
                called = [base.value if isinstance(base, ast.Subscript) else base for base in child.bases]
                if not scope.functions:
                    inner = _Scope(scope.module, f"{scope.owner or scope.module}.{child.name}")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                before = scope.functions[-1][0] if scope.functions else scope.owner or scope.module
                inner = _Scope(scope.module, scope.owner, (*scope.functions, (f"{before}.{child.name}", child)))
            elif isinstance(child, ast.Call):
                called = [child.func]
            for name in called:
                if isinstance(name, (ast.Name, ast.Attribute)) and (target := self._callee(name, scope, 0)):
                    yield name, target
            yield from self._meanings(child, inner)

    def _callee(self, called: ast.expr, scope: _Scope, depth: int) -> str:
        """The function or class that an expression is; "" where that is not known."""
        if depth > DEEPEST:
            return ""
        if isinstance(called, ast.Name):
            return self._named(called.id, scope)
        if not isinstance(called, ast.Attribute):
            return ""
        if isinstance(called.value, ast.Call) and getattr(called.value.func, "id", "") == "super":
            found = next(filter(None, (self._member(base, called.attr) for base in self._bases(scope.owner))), "")
        else:
            found = self._member(self._class_of(called.value, scope, depth + 1), called.attr)
        return found if found in self.definitions else ""

    def _named(self, name: str, scope: _Scope) -> str:
        """What a bare name stands for: a function within this one, one of the module, or an imported one."""
        for where, function in reversed(scope.functions):
            if f"{where}.{name}" in self.definitions:
                return f"{where}.{name}"
            if name in self._bindings(function):
                return ""  # a variable hides what the module calls so
        return self._in_module(scope.module, name)

    def _in_module(self, module: str, name: str, depth: int = 0) -> str:
        """What a name of a module stands for, through any number of modules that only pass it on."""
        if f"{module}.{name}" in self.definitions:
            return f"{module}.{name}"
        target = self.imports.get(module, {}).get(name, "")
        if not target or target in self.definitions or depth > DEEPEST:
            return target if target in self.definitions else ""
        return self._in_module(*target.rpartition(".")[::2], depth + 1)

    def _bases(self, owner: str) -> list[str]:
        if owner not in self.definitions:
            return []
        module, node = self.definitions[owner]
        bases = [self._annotated(base, module) for base in getattr(node, "bases", [])]
        return [base for base in bases if base]

    def _member(self, owner: str, name: str, depth: int = 0) -> str:
        """The method of a class or of the first base that has it."""
        if not owner or depth > DEEPEST:
            return ""
        if f"{owner}.{name}" in self.definitions:
            return f"{owner}.{name}"
        return next(filter(None, (self._member(base, name, depth + 1) for base in self._bases(owner))), "")

    def _annotated(self, annotation: ast.expr | None, module: str) -> str:
        """The class of this package that an annotation names; of `A | None` it is A, of `A | B` none."""
        if isinstance(annotation, ast.Subscript):
            return self._annotated(annotation.value, module)
        if isinstance(annotation, ast.BinOp):
            sides = [side for side in (annotation.left, annotation.right) if getattr(side, "value", ...) is not None]
            return self._annotated(sides[0], module) if len(sides) == 1 else ""
        if not isinstance(annotation, ast.Name):
            return ""
        found = self._in_module(module, annotation.id)
        return found if found and isinstance(self.definitions[found][1], ast.ClassDef) else ""

    def _class_of(self, value: ast.expr | None, scope: _Scope, depth: int) -> str:
        """The class of this package to which a value belongs; "" where that is not known."""
        if depth > DEEPEST:
            return ""
        if isinstance(value, ast.Name):
            return self._class_of_name(value.id, scope, depth)
        if isinstance(value, ast.Attribute):
            return self._class_of_attribute(self._class_of(value.value, scope, depth + 1), value.attr, depth)
        if isinstance(value, ast.Call):
            return self._given_by(self._callee(value.func, scope, depth + 1))
        return ""

    def _class_of_name(self, name: str, scope: _Scope, depth: int) -> str:
        for place, (_, function) in reversed(list(enumerate(scope.functions))):
            if place == 0 and scope.owner and function.args.args and name == function.args.args[0].arg:
                static = {"staticmethod", "classmethod"} & {getattr(each, "id", "") for each in function.decorator_list}
                return "" if static else scope.owner
            bound = self._bindings(function)
            if name in bound:
                inner = _Scope(scope.module, scope.owner, scope.functions[: place + 1])
                known = self._annotated(bound[name], scope.module)
                return known or self._class_of(bound[name], inner, depth + 1) if bound[name] is not None else ""
        return ""

    def _class_of_attribute(self, owner: str, name: str, depth: int) -> str:
        """By the annotation in the class or in a base, a property's, or what a method assigns to it."""
        if owner not in self.definitions or depth > DEEPEST:
            return ""
        if f"{owner}.{name}" in self.definitions:
            return self._given_by(f"{owner}.{name}")
        module, node = self.definitions[owner]
        for child in getattr(node, "body", []):
            if isinstance(child, ast.AnnAssign) and getattr(child.target, "id", "") == name:
                return self._annotated(child.annotation, module)
        for child in getattr(node, "body", []):
            if isinstance(child, ast.FunctionDef):
                scope = _Scope(module, owner, ((f"{owner}.{child.name}", child),))
                for each in ast.walk(child):
                    if isinstance(each, ast.Assign) and any(
                        isinstance(target, ast.Attribute) and target.attr == name for target in each.targets
                    ):
                        return self._class_of(each.value, scope, depth + 1)
        bases = (self._class_of_attribute(base, name, depth + 1) for base in self._bases(owner))
        return next(filter(None, bases), "")

    def _given_by(self, target: str) -> str:
        """The class of what a function returns, or the class itself that is called."""
        if target not in self.definitions:
            return ""
        module, node = self.definitions[target]
        return target if isinstance(node, ast.ClassDef) else self._annotated(getattr(node, "returns", None), module)

    def _bindings(self, function: Function) -> dict[str, ast.expr | None]:
        """Parameters and variables of a function: the annotation or the value; None where there are several."""
        every = function.args
        bound = {each.arg: each.annotation for each in [*every.posonlyargs, *every.args, *every.kwonlyargs]}
        for node in ast.walk(function):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                bound[node.target.id] = node.annotation
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.setdefault(node.id, None)
        for name, value in _assigned_once(function).items():
            if bound.get(name) is None:
                bound[name] = value
        return bound


def _assigned_once(function: Function) -> dict[str, ast.expr]:
    """Variables that are stored to in one place of a function, by `name = value` or side by side with others."""
    stores = [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs += zip(target.elts, node.value.elts, strict=False)
            else:
                pairs.append((target, node.value))
    return {
        target.id: value for target, value in pairs if isinstance(target, ast.Name) and stores.count(target.id) == 1
    }


def linked(line: str, calls: list[Call]) -> list[tuple[str, str]]:
    """A highlighted line in pieces, each with the target of its link or "": only a token that is that name has one."""
    wanted, pieces, plain, column = {call.column: call for call in calls}, [], "", 0
    for token in PIECE.finditer(line):
        kind, text = token[1] or "", html.unescape(token[0] if token[2] is None else token[2])
        call = wanted.get(column)
        column += len(text)
        if call and kind.startswith("n") and text == call.name:
            pieces += [(plain, ""), (token[0], call.target)]
            plain = ""
        else:
            plain += token[0]
    return [*pieces, (plain, "")]
