"""Which function or class of the annotated packages each call of a file means.

Jedi reads the sources and follows imports, annotations and values. What it leaves open of an object's own attributes,
as it does where several bases say what one is, is asked of the class as Python has it. Where nothing tells, there is no
answer, and so no link to a wrong place. This module knows nothing of Sphinx.
"""

from __future__ import annotations

import ast
import html
import inspect
import pydoc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_type_hints

import jedi

PIECE = re.compile(r'<span class="(\w+)">([^<]*)</span>|[^<]+')  # one token of a highlighted line, or space between


@dataclass(frozen=True)
class Call:
    """A name that is called, or from which a class inherits, and what it means."""

    line: int  # from 1
    column: int  # of the name's first character, from 0
    name: str
    target: str  # "package.module.Class.method"


class Package:
    """The files of all annotated packages. paths: dotted name of a module to its file; what is no Python calls none."""

    def __init__(self, paths: Mapping[str, Path]):
        self.paths = paths
        self.calls = cache(self.calls)

    def calls(self, module: str) -> list[Call]:
        """The calls in a module whose meaning is known, in the order of the file."""
        path = self.paths[module]
        text = path.read_text("utf8")
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return []  # a marker's fault already says so
        folder = path.parents[len(module.split(".")) - (path.name != "__init__.py")]
        script = jedi.Script(text, path=path, project=jedi.Project(folder, sys_path=[str(folder)]))
        found, lines = set(), text.split("\n")
        for name, owner in called(tree, module):
            word = name.id if isinstance(name, ast.Name) else name.attr
            # Python counts bytes.
            column = len(lines[name.end_lineno - 1].encode()[: name.end_col_offset].decode()) - len(word)
            known = [each for each in script.goto(name.end_lineno, column, follow_imports=True) if self.holds(each)]
            if target := known[0].full_name if len(known) == 1 else self.inherited(name, owner):
                found.add(Call(name.end_lineno, column, word, target))
        return sorted(found, key=lambda call: (call.line, call.column))

    def holds(self, meant: jedi.api.classes.Name) -> bool:
        return meant.type in ("function", "class") and meant.module_name in self.paths

    def inherited(self, name: ast.expr, owner: str) -> str:
        """What `self.method` or `self.attribute.method` is in the class `owner`, "" if that is not known."""
        start, *between = ast.unparse(name).split(".")
        thing = pydoc.locate(owner) if start == "self" else None
        for attribute in between:
            thing = inspect.getattr_static(thing, attribute, None) or self.hints(thing).get(attribute)
        return f"{thing.__module__}.{thing.__qualname__}" if getattr(thing, "__module__", "") in self.paths else ""

    def hints(self, thing: object) -> dict[str, object]:
        try:
            return get_type_hints(thing) if isinstance(thing, type) else {}
        except NameError:  # of what is imported for type checkers alone
            return {}


def called(node: ast.AST, owner: str) -> Iterator[tuple[ast.Name | ast.Attribute, str]]:
    """The names that are called below a node, and the class in which each stands."""
    for child in ast.iter_child_nodes(node):
        found = [child.func] if isinstance(child, ast.Call) else getattr(child, "bases", [])
        for each in (base.value if isinstance(base, ast.Subscript) else base for base in found):
            if isinstance(each, (ast.Name, ast.Attribute)):
                yield each, owner
        yield from called(child, f"{owner}.{child.name}" if isinstance(child, ast.ClassDef) else owner)


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
