"""Find the ``# LaTeX:`` markers of a Python file and the statements they stand for.

A marker is a comment on one line, directly above a statement or at its end; its
left side is the value which that statement assigns or returns. This module knows
nothing of Sphinx or torch and never imports the code it reads, so that the book's
build and the formula tests can share it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

MARKER = re.compile(r"# LaTeX: (\S.*)")
# A slip of the pen must not silently turn a formula into an ordinary comment.
ALMOST_MARKER = re.compile(r"#+\s*la?tex\s*:", re.IGNORECASE)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LEAVES_BLOCK = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Marker:
    """One formula and the statement that computes its left side (lines count from 1)."""

    line: int  # of the comment
    column: int  # of the comment's `#`
    formula: str
    first: int  # of the statement
    last: int
    scope: str  # "function", "Class.method"; "" at module level
    name: str  # what is assigned, or "return"; "-2" marks the second of its name

    @property
    def stands_above(self) -> bool:
        """Whether the comment has a line of its own."""
        return self.line < self.first


@dataclass(frozen=True)
class Problem:
    """A comment that looks like a marker and cannot be one, or a file that is not Python."""

    line: int
    message: str


@dataclass(frozen=True)
class MarkedSource:
    """A file's text, its markers in order, its faults, and the lines of each function and class."""

    text: str
    markers: tuple[Marker, ...]
    problems: tuple[Problem, ...]
    objects: dict[str, tuple[int, int]]  # "Class.method" -> first and last line
    imports: tuple[int, int] | None = None  # first and last line of those at module level


@dataclass(frozen=True)
class _Statement:
    node: ast.stmt
    scope: str
    is_dead: bool  # it follows a return, raise, continue or break of its own block


def parse_source(text: str) -> MarkedSource:
    """Parse one file; faults are returned, not raised, so that all are seen at once."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return MarkedSource(text, (), (Problem(error.lineno or 1, f"not Python: {error.msg}"),), {})
    statements = list(_statements(tree))
    objects: dict[str, tuple[int, int]] = {}
    for statement in statements:
        if isinstance(node := statement.node, DEFINITIONS):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            objects.setdefault(_join(statement.scope, node.name), (first, node.end_lineno))

    markers, problems, seen = [], [], Counter()
    for token in _comments(text):
        placed = _place(token, statements)
        if isinstance(placed, Problem):
            problems.append(placed)
            continue
        if markers and markers[-1].first == placed.first:
            problems.append(Problem(placed.line, "this statement already has a marker"))
            continue
        seen[placed.scope, placed.name] += 1
        if (count := seen[placed.scope, placed.name]) > 1:
            placed = replace(placed, name=f"{placed.name}-{count}")
        markers.append(placed)
    importing = [each for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    imports = (importing[0].lineno, importing[-1].end_lineno) if importing else None
    return MarkedSource(text, tuple(markers), tuple(problems), objects, imports)


def find_modules(root: Path, package: str) -> dict[str, Path]:
    """Return dotted name -> file of a package (or of a single module) below ``root``, or else below its ``book``."""
    parts = package.split(".")
    root = root if root.joinpath(parts[0]).is_dir() or root.joinpath(f"{parts[0]}.py").is_file() else root / "book"
    base = root.joinpath(*parts)
    if base.with_suffix(".py").is_file():
        return {package: base.with_suffix(".py")}
    modules = {}
    for path in sorted(base.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def others(room: str, modules: Iterable[str], texts: Iterable[str], directive: str) -> list[str]:
    """What ``room.*`` stands for on a page: the modules of a room of which no page's directive names any part."""
    named = {name for text in texts for name in re.findall(rf"^```\{{{directive}\}} (\S+)$", text, re.M)}
    inside = [module for module in modules if module.startswith(f"{room}.")]
    return [module for module in inside if not any(f"{name}.".startswith(f"{module}.") for name in named)]


def _comments(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the comments that are, or nearly are, markers; strings are other tokens."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and ALMOST_MARKER.match(token.string):
            yield token


def _statements(node: ast.AST, scope: str = "") -> Iterator[_Statement]:
    """Walk all statements in order, each with the dotted name of its surroundings."""
    for _, block in ast.iter_fields(node):
        is_dead = False
        for child in block if isinstance(block, list) else ():
            if isinstance(child, ast.stmt):
                yield _Statement(child, scope, is_dead)
                is_dead = is_dead or isinstance(child, LEAVES_BLOCK)
            if isinstance(child, ast.AST):  # handlers and match cases hold statements too
                is_definition = isinstance(child, DEFINITIONS)
                yield from _statements(child, _join(scope, child.name) if is_definition else scope)


def _place(token: tokenize.TokenInfo, statements: list[_Statement]) -> Marker | Problem:
    """Tie one comment to its statement, or say why that cannot be done."""
    line, column = token.start
    if not (match := MARKER.fullmatch(token.string.rstrip())):
        return Problem(line, f"write '# LaTeX: <formula>', not {token.string!r}")
    if not _has_top_level_equals(match[1]):
        return Problem(line, "the formula has no '=': its left side is what the statement gives")
    if token.line[:column].strip():
        candidates = [each for each in statements if each.node.end_lineno == line and not _is_compound(each.node)]
        where = "at the end of"
    else:
        candidates = [each for each in statements if each.node.lineno == line + 1]
        where = "directly above"
    if len(candidates) != 1:
        return Problem(line, f"a marker stands {where} one statement; here are {len(candidates)}")
    statement = candidates[0]
    if not (name := _value_name(statement.node)):
        return Problem(line, "the marked statement neither assigns nor returns a value")
    if statement.is_dead:
        return Problem(line, "the marked statement is never reached")
    return Marker(line, column, match[1], statement.node.lineno, statement.node.end_lineno, statement.scope, name)


def _is_compound(node: ast.stmt) -> bool:
    return isinstance(getattr(node, "body", None), list)


def _join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _has_top_level_equals(formula: str) -> bool:
    """Whether an equals sign stands outside all braces (that of a sum's index does not count)."""
    depth = 0
    for symbol in re.sub(r"\\.", "", formula):
        depth += (symbol == "{") - (symbol == "}")
        if symbol == "=" and depth == 0:
            return True
    return False


def _value_name(node: ast.stmt) -> str:
    """Return the name a statement binds, "return", or "" where it does neither."""
    if isinstance(node, ast.Return):
        return "return" if node.value else ""
    if isinstance(node, ast.Assign):
        return "-".join(map(_target_name, node.targets))
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value):
        return _target_name(node.target)
    return ""


def _target_name(target: ast.expr) -> str:
    """``self.eta`` is called eta, ``x[t]`` x, and ``mean, std`` mean-std."""
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr
    if isinstance(target, (ast.Tuple, ast.List)):
        return "-".join(map(_target_name, target.elts))
    return _target_name(target.value)  # a subscript or a starred name
