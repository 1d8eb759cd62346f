"""One function's statements in the order in which they run: what it calls, and which lines are not reached.

Nothing runs. The kind of an object comes from annotations, the value of a condition from settings and defaults; both
are asked of `calling.Followed`.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from definitions import FUNCTION, UNKNOWN, Function, literal

if TYPE_CHECKING:
    from calling import Followed

LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
COMPARED = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Gt: operator.gt, ast.Lt: operator.lt, ast.GtE: operator.ge,
    ast.LtE: operator.le, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
Kind = Any  # of an object: its class, ("each", kind) for what a loop runs over, ("tuple", kinds...); None: not known
Span = tuple[int, int, int]  # of a fold: its first line, the last one that is always seen, its last line


@dataclass(frozen=True)
class Reference:
    """A name in a function's source that stands for something of the package."""

    line: int
    start: int  # columns of the name
    end: int
    target: str


@dataclass
class Visit:
    """What one function refers to under the configuration, and which of its lines are not reached."""

    function: Function
    caller: Visit | None = None  # the first that calls it
    references: list[Reference] = field(default_factory=list)  # also those of lines that are not reached
    calls: list[str] = field(default_factory=list)  # functions that run, in order
    settings: list[str] = field(default_factory=list)  # fields of the config that are read
    unreached: list[Span] = field(default_factory=list)


class Reader:
    """One function's statements, read in the order in which they run."""

    def __init__(self, followed: Followed, visit: Visit):
        self.followed, self.package = followed, followed.package
        self.visit, self.function = visit, visit.function
        function = visit.function
        self.me = followed.root if self._is_of_root(function.owner) else function.owner
        self.kinds: dict[str, Kind] = {}  # of local names
        self.values: dict[str, Any] = {}  # of local names whose value is known
        self.local: set[str] = set()
        self.live = True

    def _is_of_root(self, owner: str) -> bool:
        return owner in self.package.lineage(self.followed.root)

    def read(self) -> None:
        arguments = self.function.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in every:
            self.local.add(argument.arg)
            kind = self.followed.annotated(argument.annotation, self.function.module, self.me)
            if handed := self.followed.handed.get((self.function.target, argument.arg)):
                kind = ("function", handed)
            self.kinds[argument.arg] = kind or self._elsewhere(argument.arg)
        if self.function.owner:
            self.kinds[every[0].arg] = self.me
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip([a.arg for a in positional[::-1]], arguments.defaults[::-1], strict=False))
        defaults |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d}
        passed = self.followed.passed.setdefault(self.function.target, set())
        stored = [each.id for each in ast.walk(self.function.node) if _is_stored(each)]
        self.once = {name for name in stored if stored.count(name) == 1}  # else its value depends on the way to it
        self.values = {name: literal(node) for name, node in defaults.items() if name not in passed | {*stored}}
        self.block(self.function.node.body)

    def _elsewhere(self, name: str) -> Kind:
        """What methods of the root's classes call a parameter of this name, where this one does not say it."""
        if self.me != self.followed.root:
            return None
        for each in self.package.lineage(self.me):
            module, node = self.package.classes[each]
            for method in node.body:
                for argument in method.args.args if isinstance(method, FUNCTION) else ():
                    if argument.arg == name and (kind := self.followed.annotated(argument.annotation, module, self.me)):
                        return kind
        return None

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
            first = body[0]
            self.visit.unreached.append((*(head or (first.lineno, first.end_lineno)), body[-1].end_lineno))
        was, self.live = self.live, False
        self.block(body)
        self.live = was

    def statement(self, node: ast.stmt) -> bool:
        """Read a statement; return whether nothing after it runs."""
        if isinstance(node, ast.If):
            return self.branch(node)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self.expression(node.iter)
            self.bind(node.target, _each(self.kind(node.iter)))
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

    def bind(self, target: ast.expr, kind: Kind, value: Any = UNKNOWN) -> None:
        if isinstance(target, ast.Name):
            self.local.add(target.id)
            self.kinds[target.id] = kind
            self.values[target.id] = value if target.id in self.once else UNKNOWN
        elif isinstance(target, (ast.Tuple, ast.List)):
            inner = kind[1:] if isinstance(kind, tuple) and kind[0] == "tuple" else ()
            for i, each in enumerate(target.elts):
                self.bind(each, inner[i] if i < len(inner) else None)

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
                self.refer(node, found.target)
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
                self.bind(each.target, _each(self.kind(each.iter)))
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
            runs = runs and not self._settles(part, stops)

    def _settles(self, node: ast.expr, stops: bool) -> bool:
        return (value := self.value(node)) is not UNKNOWN and bool(value) == stops

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
            self.callee(each, node)

    def callee(self, function: ast.expr, node: ast.Call) -> None:
        if isinstance(function, ast.Name) and function.id not in self.local:
            target = self.package.resolve(self.function.module, function.id)
            if target in self.package.functions:
                self.refer(function, target, node)
            elif target in self.package.classes:
                self.made(function, target, node)
            elif function.id == "len" and node.args:
                self.special(node.args[0], "__len__", function)
        elif isinstance(kind := self.kind(function), tuple) and kind[0] == "function":
            self.refer(function, kind[1], node)
        elif found := self.called(function):
            self.refer(function, found.target, node)

    def called(self, function: ast.expr) -> Function | None:
        """The method that is called here, or the `forward` of an object that is called itself."""
        if isinstance(function, ast.Attribute) and (found := self.method_of(function)) and not _is_property(found):
            return found
        kind = self.kind(function)
        return self.package.method(kind, "forward") if isinstance(kind, str) else None

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

    def method_of(self, node: ast.Attribute) -> Function | None:
        """The method or property that this attribute of an object is."""
        if _is_super(node.value):
            return self.package.method(self.me, node.attr, after=self.function.owner)
        kind = self.kind(node.value)
        return self.package.method(kind, node.attr) if isinstance(kind, str) else None

    def refer(self, node: ast.expr, target: str, call: ast.Call | None = None, *, runs: bool = True) -> None:
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name and target != self.function.target:
            line = self.package.lines[self.function.module][node.end_lineno - 1]
            end = len(line.encode()[: node.end_col_offset].decode())  # Python counts bytes
            self.visit.references.append(Reference(node.end_lineno, end - len(name), end, target))
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

    # What is known of a value

    def kind(self, node: ast.expr | None) -> Kind:
        followed, module = self.followed, self.function.module
        if isinstance(node, ast.Name):
            target = "" if node.id in self.local else self.package.resolve(module, node.id)
            return ("function", target) if target in self.package.functions else self.kinds.get(node.id)
        if isinstance(node, ast.Tuple):
            return ("tuple", *map(self.kind, node.elts))
        if isinstance(node, ast.BoolOp):
            kinds = [self.kind(each) for each in node.values if self.value(each) is UNKNOWN]
            return next(filter(None, kinds), None)
        if isinstance(node, ast.Attribute):
            kind = self.kind(node.value)
            return followed.attribute(kind, node.attr) if isinstance(kind, str) else None
        if isinstance(node, ast.IfExp):
            return self.kind(node.body) or self.kind(node.orelse)
        if isinstance(node, ast.Subscript):
            kind = self.kind(node.value)
            found = self.package.method(kind, "__getitem__") if isinstance(kind, str) else None
            return followed.annotated(found.node.returns, found.module, kind) if found else _each(kind)
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Name) and node.func.id not in self.local:
            if node.func.id == "type":
                return self.kind(node.args[0])
            if node.func.id == "cast":
                return followed.annotated(node.args[0], module, self.me) or self.kind(node.args[1])
            target = self.package.resolve(module, node.func.id)
            if found := self.package.functions.get(target):
                return followed.annotated(found.node.returns, found.module, "")
            return target if target in self.package.classes else None
        if isinstance(node.func, ast.Attribute) and (found := self.method_of(node.func)) and not _is_property(found):
            receiver = self.me if _is_super(node.func.value) else self.kind(node.func.value)
            return followed.annotated(found.node.returns, found.module, receiver)
        kind = self.kind(node.func)  # an object that is called: type(self)(...), or a network
        if isinstance(kind, str) and (found := self.package.method(kind, "forward")):
            return followed.annotated(found.node.returns, found.module, kind)
        return kind if isinstance(node.func, ast.Call) else None

    def value(self, node: ast.expr) -> Any:
        """What an expression is, as far as settings and defaults say it."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.values.get(node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            kind = self.kind(node.value)
            return self.followed.constant(kind, node.attr) if isinstance(kind, str) else UNKNOWN
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return UNKNOWN if (value := self.value(node.operand)) is UNKNOWN else not value
        if isinstance(node, ast.BoolOp):
            stops = isinstance(node.op, ast.Or)
            if any(self._settles(each, stops) for each in node.values):
                return stops
            return UNKNOWN if any(self.value(each) is UNKNOWN for each in node.values) else not stops
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            sides = self.value(node.left), self.value(node.comparators[0])
            try:
                return UNKNOWN if UNKNOWN in sides else COMPARED[type(node.ops[0])](*sides)
            except TypeError:  # a side that does not run: `bound is not None and bound > 0`
                return UNKNOWN
        return UNKNOWN


def _each(kind: Kind) -> Kind:
    return kind[1] if isinstance(kind, tuple) and kind[0] == "each" else None


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _is_property(function: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.node.decorator_list)
