"""Finding the markers `# LaTeX: ...` with tokenize, and the statements they belong to with ast."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PREFIX = "# LaTeX:"
NESTED = "<locals>"
STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)


class MarkerError(Exception):
    """A marker that stands where it cannot belong to a statement."""


@dataclass(frozen=True)
class Marker:
    """One formula and the statement that computes it."""

    path: str
    line: int  # of the comment
    latex: str
    owner: str  # qualified name of the innermost function
    statement: ast.stmt
    loop_names: frozenset[str]  # names bound by the for loops around the statement

    @property
    def where(self) -> str:
        return f"{Path(self.path).name}:{self.line}"

    @property
    def code(self) -> str:
        return ast.unparse(self.statement)

    @property
    def target(self) -> ast.expr | None:
        """What the statement assigns to; None for a return."""
        if isinstance(self.statement, ast.Return):
            return None
        return self.statement.targets[0] if isinstance(self.statement, ast.Assign) else self.statement.target


def find_markers(path: Path | str, source: str | None = None) -> list[Marker]:
    """All markers of a file in order. Raises MarkerError: one that is misplaced, with its line."""
    path = Path(path)
    source = path.read_text(encoding="utf-8") if source is None else source
    if "latex" not in source.lower():
        return []
    tree = ast.parse(source)
    lines = source.splitlines()
    statements = list(_simple_statements(tree, "", frozenset()))
    markers = []
    for line, comment in _comments(source):
        if not comment.startswith(PREFIX):
            if comment.lstrip("#! ").lower().startswith("latex"):
                raise MarkerError(f"{path.name}:{line}: a marker starts with exactly {PREFIX!r}")
            continue
        alone = lines[line - 1].lstrip().startswith("#")
        found = [s for s in statements if (s[0].lineno == line + 1 if alone else s[0].end_lineno == line)]
        where = f"{path.name}:{line}"
        if any(s.lineno < line <= s.end_lineno for s, _, _ in statements) and alone:
            raise MarkerError(f"{where}: the marker stands inside a statement")
        if not found:
            raise MarkerError(f"{where}: no simple statement directly below")
        if len(found) > 1:
            raise MarkerError(f"{where}: several statements share the marked line")
        statement, owner, loops = found[0]
        if not isinstance(statement, STATEMENTS) or getattr(statement, "value", None) is None:
            raise MarkerError(f"{where}: the marked statement neither assigns nor returns a value")
        if not owner:
            raise MarkerError(f"{where}: the marked statement is outside any function")
        if NESTED in owner:
            raise MarkerError(f"{where}: the marked statement is in a nested function, which no case can call")
        latex = comment[len(PREFIX) :].strip()
        if not latex:
            raise MarkerError(f"{where}: the marker is empty")
        markers.append(Marker(str(path), line, latex, owner, statement, loops))
    return markers


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Real comments only: what looks like one inside a string is none."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _simple_statements(
    node: ast.AST, owner: str, loops: frozenset[str]
) -> Iterator[tuple[ast.stmt, str, frozenset[str]]]:
    """Every statement without a body, with its function ("" outside of one) and the loop names around it."""
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            prefix = f"{owner}.{NESTED}." if inside else f"{owner}." if owner else ""
            for statement, name, names in _simple_statements(child, prefix + child.name, frozenset()):
                outside = isinstance(child, ast.ClassDef) and name == prefix + child.name
                yield statement, "" if outside else name, names
        elif isinstance(child, ast.For):
            names = {n.id for n in ast.walk(child.target) if isinstance(n, ast.Name)}
            yield from _simple_statements(child, owner, loops | names)
        elif isinstance(child, ast.stmt) and not hasattr(child, "body"):
            yield child, owner, loops
        else:
            yield from _simple_statements(child, owner, loops)
