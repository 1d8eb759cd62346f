"""The mutation engine: can the comparison fail? Every generated lie, in formula or code, is tried on it."""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import mutate_code, mutate_formula
from .check import Function, Mismatch, compare
from .parse import Node

SURVIVORS = Path(__file__).parent / "survivors.txt"
REQUIRED = 0.95
INFIX = {"add": "+", "sub": "-", "mul": r"\cdot", "div": "/", "pow": "^"}


@dataclass(frozen=True)
class Mutant:
    """One lie: `what` is "formula" or "code", `changed` the equation or the statement that replaces marker k."""

    function: Function = field(repr=False)
    marker: int
    what: str
    before: str
    after: str
    changed: Any = field(repr=False)

    @property
    def name(self) -> str:
        """The same from run to run, and free of line numbers."""
        return f"{self.function.key} | {self.what} | {self.before} -> {self.after}"


class Tally(dict[str, str]):
    """What became of the mutants: name -> "differs", "raised" where an error showed it, or "survived"."""

    @property
    def generated(self) -> int:
        return len(self)

    @property
    def survivors(self) -> list[str]:
        return [name for name, verdict in self.items() if verdict == "survived"]

    @property
    def raised(self) -> int:
        return [*self.values()].count("raised")


def mutants_of(function: Function) -> Iterator[Mutant]:
    """All mutants of the markers of one function."""
    earlier: set[str] = set()
    for k, (marker, equation) in enumerate(zip(function.markers, function.equations, strict=True)):
        for changed in mutate_formula.mutants(equation, function.table, earlier):
            after = " = ".join(map(told, changed.sides))
            yield Mutant(function, k, "formula", marker.latex, after, changed)
        for statement in mutate_code.mutants(function, marker):
            yield Mutant(function, k, "code", ast.unparse(marker.statement), ast.unparse(statement), statement)
        earlier.add(equation.left)


def told(node: Node) -> str:
    """A tree as text, to name a mutant: what is not written between its parts is written like a function."""
    parts = [told(part) for part in node.args]
    if node.kind in INFIX:
        return f"({f' {INFIX[node.kind]} '.join(parts)})"
    if node.kind == "symbol":
        moved = [text for text, part in zip(parts, node.args, strict=True) if part.kind != "index"]
        return f"{node.value}{{at {', '.join(moved)}}}" if moved else node.value
    name = "_".join(node.value) if isinstance(node.value, tuple) else f"{node.value or node.kind}"
    return f"{name}({', '.join(parts)})" if parts else name


def sampled(mutants: Iterable[Mutant], one_in: int) -> list[Mutant]:
    """A sample that is the same on every run and machine, and does not shift when other mutants come or go."""
    return [m for m in mutants if zlib.crc32(m.name.encode()) % one_in == 0]


def try_mutants(function: Function, mutants: Iterable[Mutant]) -> Tally:
    """Does the comparison notice them? The unmutated function must hold, or being caught would mean nothing."""
    calls = function.run()
    compare(function, calls)
    return Tally({mutant.name: _verdict(function, mutant, calls) for mutant in mutants})


def _verdict(function: Function, mutant: Mutant, calls: list) -> str:
    equations = list(function.equations)
    is_code = mutant.what == "code"
    if not is_code:
        equations[mutant.marker] = mutant.changed
    with mutate_code.installed(function, function.markers[mutant.marker], mutant.changed) if is_code else nullcontext():
        try:
            # A mutated line is judged by its own formula alone, not by what it does to later lines.
            counts = compare(function, function.run() if is_code else calls, equations, only=mutant.marker)
        except Mismatch:
            return "differs"
        except Exception:  # noqa: BLE001 - whatever a mistake raises, it was noticed
            return "raised"
    return "survived" if counts.get(mutant.marker) else "differs"


def listed_survivors() -> dict[str, str]:
    """name -> reason, from survivors.txt: a name on a line of its own, the reason indented below it."""
    return dict(re.findall(r"^([^#\s].*)\n((?: .*\n)*)", SURVIVORS.read_text("utf8"), re.M))
