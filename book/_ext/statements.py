"""One function's statements in the order in which they run: what it calls, and which lines are not reached."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from called import Call
from definitions import FUNCTION, UNKNOWN, Function
from names import Names, each_of, is_property

if TYPE_CHECKING:
    from calling import Followed

LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
Span = tuple[int, int, int]  # of a fold: its first line, the last one that is always seen, its last line


@dataclass
class Visit:
    """What one function refers to under the configuration, and which of its lines are not reached."""

    function: Function
    caller: Visit | None = None  # the first that calls it
    references: list[Call] = field(default_factory=list)  # also those of lines that are not reached
    calls: list[str] = field(default_factory=list)  # functions that run, in order
    settings: list[str] = field(default_factory=list)  # fields of the config that are read
    unreached: list[Span] = field(default_factory=list)


class Reader(Names):
    """One function's statements, read in the order in which they run."""

    def __init__(self, followed: Followed, visit: Visit):
        super().__init__(followed, visit.function)
        self.visit, self.live = visit, True

    def read(self) -> None:
        self.block(self.function.node.body)

    # Statements

    def block(self, body: list[ast.stmt]) -> bool:
        """Read a block; return whether its end is never reached."""
        for i, statement in enumerate(body):
            if self.statement(statement):
                if rest := body[i + 1 :]:
                    self.unreached(rest, None)
                return True
        return False

    def unreached(self, body: list[ast.stmt], head: tuple[int, int] | None) -> None:
        """Read what does not run, for its links alone. head: the lines before it that are seen."""
        if self.live:
            self.visit.unreached.append((*(head or self._with_comment(body[0])), body[-1].end_lineno))
        was, self.live = self.live, False
        self.block(body)
        self.live = was

    def _with_comment(self, node: ast.stmt) -> tuple[int, int]:
        """The lines of a statement and of the comment above it."""
        text, first = self.package.lines[self.function.module], node.lineno
        while text[first - 2].strip().startswith("#"):
            first -= 1
        return first, node.end_lineno

    def statement(self, node: ast.stmt) -> bool:
        """Read a statement; return whether nothing after it runs."""
        if isinstance(node, ast.If):
            return self.branch(node)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self.expression(node.iter)
            self.bind(node.target, each_of(self.kind(node.iter)))
            self.block(node.body), self.block(node.orelse)
        elif isinstance(node, ast.Assign):
            self.expression(node.value)
            for target in node.targets:
                self.expression(target)
                self.bind(target, self.kind(node.value), self.value(node.value))
        elif isinstance(node, ast.AnnAssign):
            if node.value:
                self.expression(node.value)
            kind = self.followed.annotated(node.annotation, self.function.module, self.me)
            self.bind(node.target, kind or self.kind(node.value))
        elif isinstance(node, ast.AugAssign):
            self.expression(node.value)
            self.bind(node.target, None if isinstance(node.target, ast.Name) else self.kind(node.target))
        elif isinstance(node, FUNCTION):
            self.local.add(node.name)
            self.block(node.body)
        elif isinstance(node, ast.Raise):
            was, self.live = self.live, False  # what an error's message is made of is no part of the algorithm
            self.children(node)
            self.live = was
        else:
            self.children(node)
        return isinstance(node, LEAVES)

    def branch(self, node: ast.If) -> bool:
        self.expression(node.test)
        test = self.value(node.test)
        if test is UNKNOWN:
            ends = [self.block(node.body), bool(node.orelse) and self.block(node.orelse)]
            return all(ends)
        if test:
            if node.orelse:
                self.unreached(node.orelse, self._else(node))
            return self.block(node.body)
        self.unreached(node.body, (node.lineno, node.test.end_lineno))
        return bool(node.orelse) and self.block(node.orelse)

    def _else(self, node: ast.If) -> tuple[int, int]:
        """The lines of `else:` or of `elif …:`."""
        first = node.orelse[0]
        if isinstance(first, ast.If) and first.col_offset == node.col_offset:
            return first.lineno, first.test.end_lineno
        lines = range(node.body[-1].end_lineno + 1, first.lineno)
        text = self.package.lines[self.function.module]
        line = next(line for line in lines if text[line - 1].strip().startswith("else"))
        return line, line

    # Expressions

    def children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child)
            elif isinstance(child, ast.expr):
                self.expression(child)
            else:
                self.children(child)

    def expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call):
            self.call(node)
        elif isinstance(node, ast.Attribute):
            self.expression(node.value)
            if isinstance(node.ctx, ast.Load) and (found := self.method_of(node)):
                self.refer(node, found.target, runs=is_property(found))  # a method that is handed on runs later
            elif self.live and self.followed.config and self.kind(node.value) == self.followed.config:
                self.visit.settings.append(node.attr)
        elif isinstance(node, ast.Name):
            self.named(node)
        elif isinstance(node, ast.Subscript):
            self.children(node)
            self.special(node.value, "__getitem__" if isinstance(node.ctx, ast.Load) else "__setitem__")
        elif isinstance(node, (ast.IfExp, ast.BoolOp)):
            self.choice(node)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for each in node.generators:
                self.expression(each.iter)
                self.bind(each.target, each_of(self.kind(each.iter)))
                for test in each.ifs:
                    self.expression(test)
            for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                self.expression(part)
        elif isinstance(node, ast.Lambda):
            self.local |= {each.arg for each in node.args.args}
            self.expression(node.body)
        else:
            self.children(node)

    def choice(self, node: ast.IfExp | ast.BoolOp) -> None:
        """Only what is evaluated: one side of a conditional, and of `and` and `or` what the sides before leave."""
        if isinstance(node, ast.IfExp):
            self.expression(node.test)
            test = self.value(node.test)
            for part, runs in ((node.body, test), (node.orelse, test is UNKNOWN or not test)):
                self.reached(part, bool(runs))
            return
        runs, stops = True, isinstance(node.op, ast.Or)
        for part in node.values:
            self.reached(part, runs)
            runs = runs and not self.settles(part, stops)

    def reached(self, node: ast.expr, runs: bool) -> None:
        was, self.live = self.live, self.live and runs
        self.expression(node)
        self.live = was

    def named(self, node: ast.Name) -> None:
        """A function that is handed on: it runs where it is called."""
        if isinstance(node.ctx, ast.Load) and node.id not in self.local and (kind := self.kind(node)):
            self.refer(node, kind[1], None, runs=False)

    def call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            self.expression(function.value)
        elif not isinstance(function, ast.Name):
            self.expression(function)
        for each in node.args:
            self.expression(each)
        for keyword in node.keywords:
            self.expression(keyword.value)
        if isinstance(function, ast.IfExp):
            test = self.value(function.test)
            functions = [function.body] * bool(test) + [function.orelse] * (test is UNKNOWN or not test)
        else:
            functions = [function]
        for each in functions:
            if not self.callee(each, node):  # what another package gets may run there
                for part in [*node.args, *(keyword.value for keyword in node.keywords)]:
                    if isinstance(kind := self.kind(part), tuple) and kind[0] == "function":
                        self.refer(part, kind[1])

    def callee(self, function: ast.expr, node: ast.Call) -> bool:
        """Refer to what is called here; return whether it is of the package."""
        if isinstance(function, ast.Name) and function.id not in self.local:
            target = self.package.resolve(self.function.module, function.id)
            if target in self.package.functions:
                self.refer(function, target, node)
            elif target in self.package.classes:
                self.made(function, target, node)
            elif function.id == "len" and node.args:
                self.special(node.args[0], "__len__", function)
            return bool(target)
        if isinstance(kind := self.kind(function), tuple) and kind[0] == "function":
            self.refer(function, kind[1], node)
        elif found := self.called(function):
            self.refer(function, found.target, node)
        else:
            return False
        return True

    def made(self, node: ast.Name, target: str, call: ast.Call) -> None:
        """A class whose object is made: its own construction runs, if it is written in the package."""
        inits = [self.package.method(target, name) for name in ("__init__", "__post_init__")]
        found = next((each for each in inits if each), None)
        self.refer(node, found.target if found else target, call)

    def special(self, value: ast.expr, name: str, at: ast.expr | None = None) -> None:
        """`len(x)` and `x[...]` call methods of the object's class."""
        kind = self.kind(value)
        if isinstance(kind, str) and (found := self.package.method(kind, name)):
            self.refer(at or value, found.target, None)

    def refer(self, node: ast.expr, target: str, call: ast.Call | None = None, *, runs: bool = True) -> None:
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name not in ("", "self") and target != self.function.target:
            line = self.package.lines[self.function.module][node.end_lineno - 1]
            end = len(line.encode()[: node.end_col_offset].decode())  # Python counts bytes
            self.visit.references.append(Call(node.end_lineno, end - len(name), name, target))
        if not self.live or not runs or target not in self.package.functions:
            return
        self.visit.calls.append(target)
        self.pass_on(self.package.functions[target], call)

    def pass_on(self, function: Function, call: ast.Call | None) -> None:
        """Note which of its parameters a function gets; without a call to read, all of them."""
        arguments = function.node.args
        names = [each.arg for each in [*arguments.posonlyargs, *arguments.args]]
        names = names[1:] if function.owner else names
        passed = self.followed.passed.setdefault(function.target, set())
        every = call is None or any(isinstance(each, ast.Starred) for each in call.args)
        if every or any(each.arg is None for each in call.keywords):
            passed |= {*names, *(each.arg for each in arguments.kwonlyargs)}
        else:
            given = {**dict(zip(names, call.args, strict=False)), **{each.arg: each.value for each in call.keywords}}
            passed |= {*given}
            for name, argument in given.items():
                if isinstance(kind := self.kind(argument), tuple) and kind[0] == "function":
                    self.followed.handed[function.target, name] = kind[1]
