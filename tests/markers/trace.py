"""Watching the real function run: its inputs at each call, and what each marked statement really produced."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from types import CodeType, FrameType
from typing import Any

from torch import Tensor

from .markers import Marker
from .table import Table


@dataclass
class Pass:
    """One execution of one marked statement."""

    marker: int
    value: Any
    fixed: dict[str, int]  # axis -> row, from the loops around the statement
    locals: dict[str, Any]  # symbol -> local from the outside world (random draws, network outputs), just before


@dataclass
class Call:
    """One call of the watched function."""

    inputs: dict[str, Any]
    leaves: list[Tensor] = field(default_factory=list)  # arguments that gradients are taken by
    passes: list[Pass] = field(default_factory=list)


def leaves_of(arguments: Iterable[Any]) -> list[Tensor]:
    """The tensors of numbers among arguments of a function, and among the fields of a batch, if they are leaves."""
    found = [v for a in arguments for v in (vars(a).values() if is_dataclass(a) else (a,))]
    return [v for v in found if isinstance(v, Tensor) and v.is_floating_point() and v.is_leaf]


def snapshot(value: Any) -> Any:
    """A copy that later in-place changes cannot reach; the graph behind it stays."""
    return value.clone() if isinstance(value, Tensor) else value


def trace(
    run: Callable[[], Any],
    code: CodeType,
    markers: list[Marker],
    table: Table,
    local_sources: Mapping[str, str],
) -> list[Call]:
    """Run, and record every call of the function with this code object.

    A statement over several lines fires a line event for each of them, so it counts as done at the first event
    outside of its lines; the value is read there, before the next statement runs. A return's value is taken from
    the return event, since leaving a `with` block comes in between.
    """
    calls: list[Call] = []
    targets = [compile(ast.unparse(m.target), "<target>", "eval") if m.target else None for m in markers]
    ranges = [(m.statement.lineno, m.statement.end_lineno) for m in markers]
    sources = {s.latex: s.source for s in table.declared.values() if s.source and s.latex not in local_sources}
    sources |= {f"beyond {latex}": path for latex, path in table.beyond.items()}
    sources |= {f"passes {axis}": path for axis, path in table.passes.items()}

    def enter(frame: FrameType, event: str, _: Any) -> Callable | None:
        if event != "call" or frame.f_code is not code:
            return None
        read = {name: _read(path, frame.f_locals) for name, path in sources.items()}
        call = Call({name: value for name, value in read.items() if value is not _MISSING and value is not None})
        call.leaves = [tensor for tensor in leaves_of(frame.f_locals.values()) if tensor.requires_grad]
        calls.append(call)
        open_pass: list[Pass] = []

        def close(value: Any) -> None:
            done = open_pass.pop()
            done.value = snapshot(value)
            call.passes.append(done)

        def step(frame: FrameType, event: str, arg: Any) -> Callable:
            if event == "line":
                if open_pass:
                    low, high = ranges[open_pass[0].marker]
                    if low <= frame.f_lineno <= high:
                        return step
                    target = targets[open_pass[0].marker]
                    if target is None:
                        return step
                    close(eval(target, frame.f_globals, frame.f_locals))
                for k, (low, high) in enumerate(ranges):
                    if low <= frame.f_lineno <= high:
                        around = markers[k].loop_names & table.axes
                        fixed = {a: frame.f_locals[a] for a in around if isinstance(frame.f_locals.get(a), int)}
                        outside = {name: _read(path, frame.f_locals) for name, path in local_sources.items()}
                        open_pass.append(Pass(k, None, fixed, {n: v for n, v in outside.items() if v is not _MISSING}))
                        break
            elif event == "return" and open_pass:
                target = targets[open_pass[0].marker]
                close(arg if target is None else eval(target, frame.f_globals, frame.f_locals))
            elif event == "exception":
                open_pass.clear()
            return step

        return step

    previous = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(previous)
    return calls


_MISSING = object()


def _read(path: str, names: Mapping[str, Any]) -> Any:
    try:
        return snapshot(eval(path, {"__builtins__": {}}, dict(names)))  # noqa: S307 - paths come from symbols.py
    except (NameError, AttributeError, IndexError, KeyError, TypeError):
        return _MISSING
