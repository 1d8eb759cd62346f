"""What is known of the names in one function, before it runs: the kind of an object, the value of a condition.

The kind comes from annotations and from what an object is made by, the value from settings and defaults; both are asked
of `calling.Followed`.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from definitions import FUNCTION, UNKNOWN, Function, literal

if TYPE_CHECKING:
    from calling import Followed

COMPARED = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Gt: operator.gt, ast.Lt: operator.lt, ast.GtE: operator.ge,
    ast.LtE: operator.le, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
# Of an object: its class, ("each", kind) for what a loop runs over, ("tuple", kinds...) or ("function", its name).
Kind = Any  # None: not known


class Names:
    """The names in one function, and what they stand for where it is read."""

    def __init__(self, followed: Followed, function: Function):
        self.followed, self.package, self.function = followed, followed.package, function
        # A method of a base class runs on an object of the class that is followed.
        wholes = [each for each in (followed.root, followed.config) if each]
        self.me = next((each for each in wholes if function.owner in self.package.lineage(each)), function.owner)
        self.kinds: dict[str, Kind] = {}  # of local names
        self.local: set[str] = set()
        self._take_arguments()

    def _take_arguments(self) -> None:
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
        stored = [each.id for each in ast.walk(self.function.node) if is_stored(each)]
        self.once = {name for name in stored if stored.count(name) == 1}  # else its value depends on the way to it
        self.values = {name: literal(node) for name, node in defaults.items() if name not in passed | {*stored}}

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

    def bind(self, target: ast.expr, kind: Kind, value: Any = UNKNOWN) -> None:
        if isinstance(target, ast.Name):
            self.local.add(target.id)
            self.kinds[target.id] = kind
            self.values[target.id] = value if target.id in self.once else UNKNOWN
        elif isinstance(target, (ast.Tuple, ast.List)):
            inner = kind[1:] if isinstance(kind, tuple) and kind[0] == "tuple" else ()
            for i, each in enumerate(target.elts):
                self.bind(each, inner[i] if i < len(inner) else None)

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
            if (found := self.method_of(node)) and not is_property(found):
                return ("function", found.target)
            kind = self.kind(node.value)
            return followed.attribute(kind, node.attr) if isinstance(kind, str) else None
        if isinstance(node, ast.IfExp):
            return self.kind(node.body) or self.kind(node.orelse)
        if isinstance(node, ast.Subscript):
            kind = self.kind(node.value)
            found = self.package.method(kind, "__getitem__") if isinstance(kind, str) else None
            return followed.annotated(found.node.returns, found.module, kind) if found else each_of(kind)
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
        if isinstance(node.func, ast.Attribute) and (found := self.method_of(node.func)) and not is_property(found):
            receiver = self.me if is_super(node.func.value) else self.kind(node.func.value)
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
            if any(self.settles(each, stops) for each in node.values):
                return stops
            return UNKNOWN if any(self.value(each) is UNKNOWN for each in node.values) else not stops
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            sides = self.value(node.left), self.value(node.comparators[0])
            try:
                return UNKNOWN if UNKNOWN in sides else COMPARED[type(node.ops[0])](*sides)
            except TypeError:  # a side that does not run: `bound is not None and bound > 0`
                return UNKNOWN
        return UNKNOWN

    def method_of(self, node: ast.Attribute) -> Function | None:
        """The method or property that this attribute of an object is."""
        if is_super(node.value):
            return self.package.method(self.me, node.attr, after=self.function.owner)
        kind = self.kind(node.value)
        return self.package.method(kind, node.attr) if isinstance(kind, str) else None

    def called(self, function: ast.expr) -> Function | None:
        """The method that is called here, or the `forward` of an object that is called itself."""
        if isinstance(function, ast.Attribute) and (found := self.method_of(function)) and not is_property(found):
            return found
        kind = self.kind(function)
        return self.package.method(kind, "forward") if isinstance(kind, str) else None

    def settles(self, node: ast.expr, stops: bool) -> bool:
        return (value := self.value(node)) is not UNKNOWN and bool(value) == stops


def each_of(kind: Kind) -> Kind:
    return kind[1] if isinstance(kind, tuple) and kind[0] == "each" else None


def is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def is_property(function: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.node.decorator_list)
