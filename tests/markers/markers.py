"""The markers `# LaTeX: ...` of a file, as the book's pages find them, with the statements they belong to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from book._ext.marked_source import parse_source

PACKAGE = Path(__file__).parents[2] / "minerva_lite"


class MarkerError(Exception):
    """A marker that stands where it cannot belong to a statement of a function."""


@dataclass(frozen=True)
class Marker:
    """One formula and the statement that computes it."""

    path: str
    line: int  # of the comment
    latex: str
    owner: str  # qualified name of the function
    function: ast.FunctionDef
    statement: ast.stmt
    loop_names: frozenset[str]  # names bound by the for loops around the statement

    @property
    def where(self) -> str:
        return f"{Path(self.path).name}:{self.line}"

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
    found = parse_source(source)
    for problem in found.problems:
        raise MarkerError(f"{path.name}:{problem.line}: {problem.message}")
    statements = {statement.lineno: (statement, *around) for statement, *around in _statements(ast.parse(source))}
    markers = []
    for marker in found.markers:
        statement, functions, loops = statements[marker.first]
        if len(functions) != 1:
            place = "outside any function" if not functions else "in a nested function, which no case can call"
            raise MarkerError(f"{path.name}:{marker.line}: the marked statement is {place}")
        markers.append(Marker(str(path), marker.line, marker.formula, marker.scope, *functions, statement, loops))
    return markers


def module_names() -> list[str]:
    """Modules of the package, such as "formulas.returns" and "agents.ppo"."""
    files = [f.relative_to(PACKAGE).with_suffix("") for f in sorted(PACKAGE.rglob("*.py")) if f.name != "__init__.py"]
    return [".".join(file.parts) for file in files]


def markers_of(module: str) -> dict[str, list[Marker]]:
    """The markers of each function of a module, in order; a key is such as "agents.ppo.PPOAgent.policy_loss"."""
    found: dict[str, list[Marker]] = {}
    for marker in find_markers(PACKAGE.joinpath(*module.split(".")).with_suffix(".py")):
        found.setdefault(f"{module}.{marker.owner}", []).append(marker)
    return found


def _statements(
    node: ast.AST, functions: tuple[ast.AST, ...] = (), loops: frozenset[str] = frozenset()
) -> Iterator[tuple[ast.stmt, tuple[ast.AST, ...], frozenset[str]]]:
    """Every statement without a body, the functions it lies in, and the names of the loops around it."""
    if isinstance(node, ast.FunctionDef):
        functions += (node,)
    if isinstance(node, ast.For):
        loops |= {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and not hasattr(child, "body"):
            yield child, functions, loops
        else:
            yield from _statements(child, functions, loops)
