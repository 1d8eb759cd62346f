"""An algorithm, run: which functions make an agent and update it, what they read and which of their lines they pass.

The agent is the real one, with the settings of the page and otherwise its defaults. Its world is a pendulum.
"""

from __future__ import annotations

import ast
import inspect
import pydoc
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from types import FrameType
from typing import Any, get_type_hints

from called import Call
from torch.nn import Module

from minerva_lite.worlds import make_env

WORLD = "Pendulum-v1"
MOST_UPDATES = 100
parsed = cache(ast.parse)
Span = tuple[int, int, int]  # of a fold: its first line, the last one that is always seen, its last line


@dataclass
class Visit:
    """A function that ran."""

    module: str
    name: str  # "function" or "Class.method"
    node: ast.FunctionDef
    caller: str  # the function that was the first to call it, "" for none
    calls: list[Call]  # the names in it that stand for functions and classes of the package
    settings: list[str]  # fields of the config that it read
    unreached: list[Span]

    @property
    def lines(self) -> tuple[int, int]:
        return min([self.node.lineno, *(each.lineno for each in self.node.decorator_list)]), self.node.end_lineno


class Traced:
    """What runs while an agent is made, and then acts and learns, until an update has moved its policy.

    sources: the text of each module of the package. root: dotted name of the agent's class. settings: fields of its
    config that differ from their defaults. last: methods that come after all others, with what they alone call.
    without: modules and classes that are not entered.
    Raises ValueError: no class has that name, or no update moved the policy. AttributeError: the class has no such
    method. TypeError: its config has no such field.
    """

    def __init__(
        self, sources: Mapping[str, str], root: str, settings: Mapping[str, Any], *,
        last: Collection[str] = (), without: Collection[str] = (),
    ):  # fmt: skip
        if not isinstance(agent_class := pydoc.locate(root), type):
            raise ValueError(f"class: wanted that of an agent; got {root}")
        self.sources, self.without = sources, tuple(f"{each}." for each in without)
        self.last = {self._dotted(getattr(agent_class, name)) for name in last}
        self.made = self._dotted(agent_class.__init__)
        # By part of the page, in their order there: the caller of each function, "" for none.
        self.callers: dict[str, dict[str, str]] = {"runs": {}, "made": {}, "last": {}}
        self.frames: dict[str, FrameType] = {}  # the last one of each function
        self.passed: set[tuple[str, int]] = set()  # module and line
        self.reads: dict[str, dict[str, None]] = {}
        self.config_class: type = get_type_hints(agent_class)["config"]
        config = self._recording(self.config_class)(**settings)
        env = make_env(WORLD, config.num_envs, seed=0)
        with self._noting("made"):
            self.agent = agent_class(config, env.spec, seed=0, device="cpu")
        with self._noting("runs"):
            self._run(env)

    def _recording(self, config_class: type) -> type:
        """A class of settings that notes which function reads which of them."""
        names = {each.name for each in fields(config_class)}

        def read(config: Any, name: str) -> Any:
            if name in names:
                self.reads.setdefault(self._function(sys._getframe(1)), {})[name] = None
            return object.__getattribute__(config, name)

        return type(config_class.__name__, (config_class,), {"__getattribute__": read})

    @contextmanager
    def _noting(self, part: str) -> Iterator[None]:
        """A block whose calls are noted as this part of the page."""
        self.part, before = part, sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _run(self, env: Any) -> None:
        obs = env.reset()
        for _ in range(MOST_UPDATES):
            rollout, obs = self.agent.collect(env, obs)
            if self.agent.update(rollout)["train/param_step_norm"] > 0:
                return
        raise ValueError(f"updates: wanted one of the first {MOST_UPDATES} to move the policy; got none")

    def _function(self, frame: FrameType | None) -> str:
        """The function of the package to which a frame belongs, as itself or as a part of it; "" for none."""
        module = frame.f_globals.get("__name__")
        if module not in self.sources or frame.f_code.co_filename != frame.f_globals.get("__file__"):
            return ""  # what a dataclass generates names the module, and lies in no file
        return f"{module}.{frame.f_code.co_qualname.partition('.<locals>')[0]}"

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Callable | None:
        """Note a call, unless it is made below something that is not entered."""
        if not (name := self._function(frame)):
            return None
        stack, each = [], frame
        while each:
            stack += filter(None, [self._function(each)])
            each = each.f_back
        if any(above.startswith(self.without) for above in stack):
            return None
        part = self.part if self.last.isdisjoint(stack) else "last"
        self.callers[part].setdefault(name, stack[1] if len(stack) > 1 and name not in self.last else "")
        if "<locals>" not in frame.f_code.co_qualname:
            self.frames[name] = frame
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Callable:
        if event == "line":
            self.passed.add((frame.f_globals["__name__"], frame.f_lineno))
        return self._step

    def visits(self) -> dict[str, Visit]:
        """The functions in the order of the page: each is followed by those that it was the first to call."""
        callers: dict[str, str] = {}
        for part in self.callers.values():
            callers |= {name: above for name, above in part.items() if name not in callers}

        def below(caller: str) -> Iterator[tuple[str, Visit]]:
            for name in (each for each, above in callers.items() if above == caller):
                yield name, self._visit(name, caller)
                yield from below(name)

        return dict(below(""))

    def _visit(self, target: str, caller: str) -> Visit:
        module = self.frames[target].f_globals["__name__"]
        name, text = target.removeprefix(f"{module}."), self.sources[module].split("\n")
        node: Any = parsed(self.sources[module])
        for part in name.split("."):
            node = next(each for each in ast.walk(node) if getattr(each, "name", "") == part)
        folds = unreached(node.body, {line for where, line in self.passed if where == module}, text)
        calls = [each for each in self._calls(self.frames[target], node, text) if each.target != target]
        return Visit(module, name, node, caller, calls, [*self.reads.get(target, ())], [*folds])

    def _calls(self, frame: FrameType, function: ast.FunctionDef, text: list[str]) -> Iterator[Call]:
        """What the names in a function stood for when it last ran."""
        scope = {**frame.f_globals, **frame.f_locals}
        for node in (each for statement in function.body for each in ast.walk(statement)):
            name, thing = living(node, scope)
            word = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "self")
            if word != "self" and (target := self._dotted(thing)):
                before = text[name.end_lineno - 1].encode()[: name.end_col_offset].decode()  # Python counts bytes
                yield Call(name.end_lineno, len(before) - len(word), word, target)

    def _dotted(self, thing: Any) -> str:
        """The name of a function, property or class of the package; "" for anything else."""
        thing = getattr(thing, "fget", None) or getattr(thing, "__func__", thing)
        module, name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "<locals>")
        return f"{module}.{name}" if module in self.sources and "<locals>" not in name else ""


def living(node: ast.AST, scope: Mapping[str, Any]) -> tuple[ast.AST, Any]:
    """The name that an expression is read by, and what it was, or what it would have called; None: it is not known."""
    if isinstance(node, ast.Name):
        return node, scope.get(node.id)
    if isinstance(node, ast.Attribute):  # found without computing a property
        holder = living(node.value, scope)[1]
        layers = holder._modules if isinstance(holder, Module) else {}
        return node, layers.get(node.attr, inspect.getattr_static(holder, node.attr, None))
    if isinstance(node, ast.Subscript):
        name, thing = living(node.value, scope)
        return name, getattr(type(thing), "__getitem__", None)
    if isinstance(node, ast.Call):
        name, thing = living(node.func, scope)
        if isinstance(name, ast.Name) and name.id == "len":
            return name, getattr(type(living(node.args[0], scope)[1]), "__len__", None)
        if isinstance(thing, Module):  # what torch brings is told by what the package makes of it
            return name, type(thing) if type(thing).forward.__module__.startswith("torch.") else type(thing).forward
        return name, thing
    return node, None


def unreached(block: list[ast.stmt], ran: Collection[int], text: list[str]) -> Iterator[Span]:
    """Of a block that was entered: the blocks in it that were not, and what stands behind the last line that ran."""
    for node in block:
        if ran.isdisjoint(range(node.lineno, block[-1].end_lineno + 1)):
            yield code_above(node, text) + 1, node.end_lineno, block[-1].end_lineno
            return
        for first, head, inner in inner_blocks(node, text):
            if ran.isdisjoint(range(inner[0].lineno, inner[-1].end_lineno + 1)):
                yield first, head, inner[-1].end_lineno
            else:
                yield from unreached(inner, ran, text)


def inner_blocks(node: ast.AST, text: list[str]) -> Iterator[tuple[int, int, list[ast.stmt]]]:
    """The blocks of a statement, each with the first and the last line of what opens it."""
    for name in ("body", "orelse", "finalbody"):
        if isinstance(inner := getattr(node, name, None), list) and inner:
            is_elif = text[inner[0].lineno - 1].lstrip().startswith("elif ")
            head = code_above(inner[0].body[0] if is_elif else inner[0], text)
            yield inner[0].lineno if is_elif else node.lineno if name == "body" else head, head, inner
    for handler in getattr(node, "handlers", []):
        yield from inner_blocks(handler, text)


def code_above(node: ast.stmt, text: list[str]) -> int:
    """The last line above a statement that is no comment."""
    return next(line for line in range(node.lineno - 1, 0, -1) if not text[line - 1].lstrip().startswith("#"))
