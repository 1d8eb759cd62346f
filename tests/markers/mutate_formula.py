"""Generated mutations of a formula: each is a small lie that the comparison has to notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .check import Equation
from .parse import Node
from .table import Table

ONE = Node("number", value=1.0)
COUNTERPART = {
    r"\mathrm{mean}": r"\sum", r"\sum": r"\mathrm{mean}", r"\max": r"\min", r"\min": r"\max",
    r"\mathrm{Var}": r"\mathrm{mean}", r"\mathrm{argmax}": r"\mathrm{argmin}", r"\mathrm{logsumexp}": r"\max",
}  # fmt: skip
OPPOSITE = {"<": ">", ">": "<", "<=": ">=", "=": "!="}


def mutants(equation: Equation, table: Table, earlier: set[str]) -> Iterator[Equation]:
    """Every mutated equation, each once. `earlier` are the left sides of the lines above."""
    seen = {equation.sides}
    for k, side in enumerate(equation.sides):
        for mutated in _everywhere(side, table, earlier):
            sides = equation.sides[:k] + (mutated,) + equation.sides[k + 1 :]
            if sides not in seen:
                seen.add(sides)
                yield replace(equation, sides=sides)


def _everywhere(node: Node, table: Table, earlier: set[str]) -> Iterator[Node]:
    """All trees that differ from this one by one mutation at one place."""
    yield from _here(node, table, earlier)
    if node.kind == "symbol":
        return  # its index is moved by _here
    for k, part in enumerate(node.args):
        for mutated in _everywhere(part, table, earlier):
            if not _same_by_evenness(node, part, mutated):
                yield Node(node.kind, node.args[:k] + (mutated,) + node.args[k + 1 :], node.value)


def _same_by_evenness(node: Node, part: Node, mutated: Node) -> bool:
    """A sign that an even function swallows is no lie."""
    even = node.kind == "call" and node.value == "abs"
    even |= node.kind == "pow" and node.args[1].kind == "number" and float(node.args[1].value) % 2 == 0
    return even and part.kind == "neg" and mutated == part.args[0]


def _here(node: Node, table: Table, earlier: set[str]) -> Iterator[Node]:
    args = node.args
    match node.kind:
        case "add":
            yield Node("sub", args)
            yield from args
        case "sub":
            yield Node("add", args)
            yield args[0]
            yield Node("neg", (args[1],))
        case "neg":
            yield args[0]
        case "mul":
            yield from (keep for keep, drop in (args, args[::-1]) if drop != ONE)
        case "div":
            if args[1] != ONE:
                yield args[0]
            if args[0] != ONE:
                yield Node("div", (ONE, args[1]))
        case "pow":
            if args[1] != ONE:
                yield args[0]
        case "number":
            yield Node("number", value=4.0 if node.value == r"\pi" else node.value + 1.0)
        case "index":
            yield Node("add", (node, ONE))
        case "call" | "apply":
            yield args[0]
        case "nary" if node.value == "clip":
            x, low, high = args
            yield from (x, Node("nary", (x, high), "min"), Node("nary", (x, low), "max"))
        case "nary":
            yield Node("nary", args, "max" if node.value == "min" else "min")
            for k in range(len(args)):
                rest = args[:k] + args[k + 1 :]
                yield Node("nary", rest, node.value) if len(rest) > 1 else rest[0]
        case "reduce":
            if node.value[0] in COUNTERPART and len(args) == 1:
                yield Node("reduce", args, (COUNTERPART[node.value[0]], node.value[1]))
        case "compare":
            for k, operator in enumerate(node.value):
                yield Node("compare", args, node.value[:k] + (OPPOSITE[operator],) + node.value[k + 1 :])
        case "or":
            yield Node("and", args)
            yield from args
        case "symbol":
            yield from _moved(node, table)
            yield from _other(node, table, earlier)


def _moved(node: Node, table: Table) -> Iterator[Node]:
    """The neighbor in time: t for t + 1, and t + 1 for t."""
    for k, (axis, index) in enumerate(zip(table.declared[node.value].slots, node.args, strict=True)):
        if axis == "t":
            own = Node("index", value="t")
            if index != own:
                moved = own
            else:
                moved = Node("sub" if "t+1" in node.value.replace(" ", "") else "add", (own, ONE))
            yield Node("symbol", node.args[:k] + (moved,) + node.args[k + 1 :], node.value)


def _other(node: Node, table: Table, earlier: set[str]) -> Iterator[Node]:
    """The next symbol with the same axes that is known here, in place of this one."""
    this = table.declared[node.value]
    known = [s for s in table.declared.values() if s.source or s.latex in earlier]
    alike = [s for s in known if s.axes == this.axes and len(s.slots) == len(this.slots)]
    names = [s.latex for s in alike if s is this or not s.source or s.source != this.source]
    if len(names) > 1 and node.value in names:
        yield Node("symbol", node.args, names[(names.index(node.value) + 1) % len(names)])
