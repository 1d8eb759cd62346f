"""Run the real functions, and compare what each marked statement produced with its formula."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Any

import torch
from torch import Tensor

from .evaluate import Scope
from .inputs import CASES
from .latex import FormulaError, tokens_of
from .markers import Marker, markers_of, module_names
from .named import Named, as_tensor
from .parse import Node, parse, split_equation
from .symbols import TABLES
from .table import Table, path_root
from .trace import Call, Pass, leaves_of, trace

TOLERANCE = 1e-9  # relative to the largest entry
ROUNDING = 1e-13  # absolute: what float64 leaves where terms of size one cancel
DRAWS = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like"}


@dataclass(frozen=True)
class Equation:
    """A parsed marker: the symbol on its left (None where the left side is an expression) and its sides."""

    left: str | None
    sides: tuple[Node, ...]  # every side to be compared with the value
    at: tuple[tuple[str, Node], ...] = ()  # axis -> row of the left side where it is moved: x_0, x_{k+1}

    @classmethod
    def read(cls, latex: str, table: Table) -> Equation:
        first, *rest = split_equation(latex)
        declared = [s for s in table.declared.values() if not s.definition]
        symbol, at = next((s for s in declared if tokens_of(s.latex) == first), None), ()
        if symbol is None:
            whole = parse(first, table)
            moved = table.declared[whole.value] if whole.kind == "symbol" else None
            if moved in declared and not moved.source:
                symbol = moved
                rows = zip(moved.slots, whole.args, strict=True)
                at = tuple((axis, row) for axis, row in rows if row != Node("index", value=axis))
        sides = rest if symbol else [first, *rest]
        return cls(symbol.latex if symbol else None, tuple(parse(side, table) for side in sides), at)

    def rows(self, scope: Scope) -> dict[str, int]:
        """axis -> the one row of the left side that this pass computes; no entry for an axis of which it has all."""
        axes = scope.table.declared[self.left].axes
        here = {axis: row for axis, row in scope.fixed.items() if axis in axes}
        moved = {axis: int(scope.value(row).data) for axis, row in self.at}
        for axis, row in moved.items():
            if not 0 <= row < scope.size(axis):
                raise FormulaError(f"{self.left} has no row {row} along {axis}")
        return here | moved


@dataclass
class Function:
    """One function with markers, and everything needed to check it."""

    key: str  # as in symbols.py, such as "returns.gae" or "agents.ppo.PPOAgent.policy_loss"
    module: Any
    markers: list[Marker]
    tables: dict[str, Table] = field(default_factory=lambda: TABLES, repr=False)
    cases: dict[str, Callable] = field(default_factory=lambda: CASES, repr=False)

    @property
    def qualname(self) -> str:
        return self.markers[0].owner

    @property
    def table(self) -> Table:
        return self.tables[self.key]

    @cached_property
    def equations(self) -> list[Equation]:
        read = []
        for marker in self.markers:
            try:
                read.append(Equation.read(marker.latex, self.table))
            except FormulaError as error:
                raise FormulaError(f"{marker.where} {marker.latex}: {error}") from error
        return read

    def holder(self) -> tuple[Any, str]:
        """The module or class that holds the function, and the name it is held under."""
        *path, name = self.qualname.split(".")
        return reduce(getattr, path, self.module), name

    def raw(self) -> Callable:
        holder, name = self.holder()
        found = inspect.getattr_static(holder, name)
        return inspect.unwrap(getattr(found, "__func__", None) or getattr(found, "fget", None) or found)

    @cached_property
    def local_sources(self) -> dict[str, str]:
        """Symbols that stand for what enters the function from a call: see `_comes_from_outside`."""
        parameters = set(inspect.signature(self.raw()).parameters)
        locals_ = {}
        for symbol in self.table.declared.values():
            if symbol.source and path_root(symbol.source) not in parameters:
                if not self._comes_from_outside(path_root(symbol.source)):
                    raise FormulaError(f"{self.key}: {symbol.latex} stands for {symbol.source}, which is no input")
                locals_[symbol.latex] = symbol.source
        edges = [(path, f"beyond {latex} stands {path}") for latex, path in self.table.beyond.items()]
        edges += [(path, f"the loop over {axis} runs {path} times") for axis, path in self.table.passes.items()]
        for path, story in edges:
            if path_root(path) not in parameters:
                raise FormulaError(f"{self.key}: {story}, which is no input")
        return locals_

    def _comes_from_outside(self, name: str) -> bool:
        """Is every binding of a local a random draw, a network's output, or a function that is checked itself?"""
        checked, owner = {key.rsplit(".", 1)[-1] for key in self.tables}, self.holder()[0]
        names = [({node.id for node in ast.walk(target) if isinstance(node, ast.Name)}, value)
                 for target, value in _bindings(self.markers[0].function)]  # fmt: skip
        values = [value for bound, value in names if name in bound]
        return bool(values) and all(_is_outside_call(v, checked, owner) or _is_view_of(v, name) for v in values)

    def run(self) -> list[Call]:
        """Every call of the function in its cases, traced. The cases are the same each time."""
        code, calls, (holder, name) = self.raw().__code__, [], self.holder()
        stops = any(side.stops_gradients() for equation in self.equations for side in equation.sides)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for case in self.cases[self.key](torch.Generator().manual_seed(1)):
                for tensor in leaves_of(case.values()) if stops else ():
                    tensor.requires_grad_()
                run = partial(getattr(holder, name), **case)
                calls += trace(run, code, self.markers, self.table, self.local_sources)
        return calls


def _bindings(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What each assignment and loop binds, and to what; `a, b = x, y` and `for a, b in zip(x, y)` side by side."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets, value):
                sides = value.elts if isinstance(value, ast.Tuple) else ()
            case ast.For(target, value):
                targets = [target]
                sides = value.args if isinstance(value, ast.Call) and ast.unparse(value.func) == "zip" else ()
            case ast.AugAssign(target) | ast.AnnAssign(target) | ast.NamedExpr(target):
                targets, value, sides = [target], node, ()
            case _:
                continue
        for target in targets:
            pairwise = sides and isinstance(target, ast.Tuple)
            yield from zip(target.elts, sides, strict=True) if pairwise else [(target, value)]


def _is_view_of(value: ast.AST, name: str) -> bool:
    """`x[:1].expand_as(x)`: the same numbers under the same name, in another shape."""
    return isinstance(value, ast.Call) and ast.unparse(value) == f"{name}[:1].expand_as({name})"


def _is_outside_call(value: ast.AST, checked: set[str], owner: Any) -> bool:
    """torch.rand(...), gae(...), self.critic(...), self.policy.log_prob(...), but no unchecked method of the class.

    A sum of such calls is one too, and so is a choice between one and a part of an argument.
    """
    if isinstance(value, ast.IfExp):
        branches = (value.body, value.orelse)
        return all(isinstance(b, ast.Attribute | ast.Name) or _is_outside_call(b, checked, owner) for b in branches)
    if not isinstance(value, ast.Call):
        return False
    path = ast.unparse(value.func).split(".")
    if path == ["sum"] and isinstance(value.args[0], ast.GeneratorExp):
        return _is_outside_call(value.args[0].elt, checked, owner)
    if len(path) == 1:
        return path[0] in checked
    if path[0] == "torch":
        return len(path) == 2 and path[1] in DRAWS
    return path[0] == "self" and (not hasattr(owner, path[1]) or (len(path) == 2 and path[1] in checked))


# ------------------------------------------------------------------------------------------------------ comparing


class Mismatch(FormulaError):
    """The code produced something else than the formula says."""


def compare(
    function: Function, calls: list[Call], equations: list[Equation] | None = None, only: int | None = None
) -> dict[int, int]:
    """Compare every pass of every marker; how often each was evaluated. Raises Mismatch at the first difference.

    `equations` replaces the formulas (a mutant), `only` restricts the comparison to one marker.
    """
    equations = equations or function.equations
    counts: dict[int, int] = {}
    for call in calls:
        scope = Scope(function.table, dict(call.inputs))
        for done in call.passes:
            equation, marker = equations[done.marker], function.markers[done.marker]
            scope.sources.update(done.locals)
            for latex in done.locals:
                scope._bind_sizes(latex, scope.array(latex))
            scope.fixed = done.fixed
            try:
                if only is None or only == done.marker:
                    stops = any(s.stops_gradients() for s in function.equations[done.marker].sides)
                    _compare_pass(scope, equation, done, call.leaves if stops else [])
                    counts[done.marker] = counts.get(done.marker, 0) + 1
                if equation.left is not None:
                    remember(scope, equation, done)
            except FormulaError as error:
                row = f" at {done.fixed}" if done.fixed else ""
                raise type(error)(f"{marker.where}{row} [{marker.latex}] {error}") from error
    return counts


def _compare_pass(scope: Scope, equation: Equation, done: Pass, leaves: list[Tensor]) -> None:
    live = as_tensor(done.value)
    value = live.detach()
    for side in equation.sides:
        result = scope.value(side)
        axes = result.axes
        if equation.left is not None:
            rows = equation.rows(scope)
            axes = tuple(a for a in scope.table.declared[equation.left].axes if a not in rows)
            Named(value, axes)  # the value has as many axes as the left side
            wanted = tuple(scope.sizes.get(a, n) for a, n in zip(axes, value.shape, strict=True))
            if tuple(value.shape) != wanted:
                raise Mismatch(
                    f"the left side has axes {' '.join(axes)} of sizes {wanted}; the code has {tuple(value.shape)}"
                )
        data = result.to(axes, {**scope.sizes, **dict(zip(axes, value.shape, strict=False))})
        agree(data.detach(), value)
        if leaves and not done.fixed:
            # A stop-gradient changes no value, so formulas that have one are held to the gradients too.
            weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
            for leaf in leaves:
                agree(*(_slope(weights, tensor, leaf) for tensor in (data, live)), what="gradients: ")


def _slope(weights: Tensor, tensor: Tensor, leaf: Tensor) -> Tensor:
    if not tensor.requires_grad:
        return torch.zeros_like(leaf)
    total = (weights * tensor).sum()
    return torch.autograd.grad(total, leaf, retain_graph=True, allow_unused=True, materialize_grads=True)[0]


def agree(formula: Tensor, value: Tensor, what: str = "") -> None:
    """Raise Mismatch where two tensors differ by more than rounding."""
    if formula.shape != value.shape:
        raise Mismatch(f"{what}the formula has shape {tuple(formula.shape)}, the code {tuple(value.shape)}")
    same = formula == value  # infinities of one sign included
    finite = torch.isfinite(formula) & torch.isfinite(value)
    scale = max(1e-300, float(torch.where(finite, torch.maximum(formula.abs(), value.abs()), 0.0).max()))
    # not (x <= y) rather than x > y: a NaN is a difference.
    bad = ~same & ~(finite & ((formula - value).abs() <= TOLERANCE * scale + ROUNDING))
    if bad.any():
        first, other = formula[bad][0].item(), value[bad][0].item()
        raise Mismatch(f"{what}the formula gives {first:.12g}, the code {other:.12g}")


def remember(scope: Scope, equation: Equation, done: Pass) -> None:
    """Keep a left side for later lines; inside a loop, as one row of the array. Rows not yet computed are NaN."""
    latex, rows = equation.left, equation.rows(scope)
    symbol, value = scope.table.declared[latex], as_tensor(done.value)
    if not rows:
        scope.left[latex] = Named(value, symbol.axes)
        return
    if latex not in scope.left:
        scope.left[latex] = scope.unknown(latex)
    scope.left[latex].data[tuple(rows.get(a, slice(None)) for a in symbol.axes)] = value.detach()


# --------------------------------------------------------------------------------------------------------- reports


@dataclass
class Report:
    """What checking came to. `problems` is empty when every formula holds."""

    evaluated: dict[str, int] = field(default_factory=dict)  # "file:line latex" -> passes compared
    problems: list[str] = field(default_factory=list)


def check_function(function: Function) -> Report:
    """Evaluate all markers of one function."""
    report = Report()
    try:
        function.equations  # noqa: B018 - a formula outside the language is reported as such
        counts = compare(function, function.run())
    except FormulaError as error:
        report.problems.append(f"{function.key}: {error}")
        return report
    for k, marker in enumerate(function.markers):
        if counts.get(k):
            report.evaluated[f"{marker.where} {marker.latex}"] = counts[k]
        else:
            report.problems.append(f"{function.key}: {marker.where} [{marker.latex}] is on a line that no case reaches")
    return report


def functions_of(name: str) -> Iterator[Function]:
    """The functions with markers of one module, in order."""
    for key, markers in markers_of(name).items():
        yield Function(key, importlib.import_module(f"minerva_lite.{name}"), markers)


def all_functions() -> list[Function]:
    return [function for name in module_names() for function in functions_of(name)]
