"""Generated mutations of a marked statement: small programming mistakes that the comparison has to notice."""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Iterator
from contextlib import contextmanager

from .check import Function
from .markers import Marker

OPERATOR = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
COMPARISON = {
    ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.GtE: ast.LtE, ast.LtE: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
NAME = {
    "mean": "sum", "sum": "mean", "minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min",
    "amin": "amax", "amax": "amin", "argmax": "argmin", "argmin": "argmax", "var": "std", "std": "var",
    "log_softmax": "softmax", "softmax": "log_softmax", "logsumexp": "amax",
}  # fmt: skip
# Dropping one of these leaves its argument, of the same shape.
UNARY = {
    "exp", "expm1", "log", "log1p", "sqrt", "square", "abs", "neg", "tanh", "softplus", "sigmoid", "masked_fill",
    "clamp", "log_softmax", "softmax", "cumsum", "flip", "normalize_advantage", "floor", "reciprocal", "rsqrt",
}  # fmt: skip
SAME = {"dtype", "device", "shape"}  # of all tensors of a case that have the same axes
SYMMETRIC = {"minimum", "maximum", "min", "max"}


def mutants(function: Function, marker: Marker) -> Iterator[ast.stmt]:
    """Every mutated form of one marked statement, each once."""
    original = marker.statement
    seen = {ast.unparse(original)}
    swaps = _interchangeable(function, marker)
    gradients = any(s.stops_gradients() for s in function.equations[function.markers.index(marker)].sides)
    for mutated in _everywhere(original, swaps, gradients):
        text = ast.unparse(mutated)
        if text not in seen:
            seen.add(text)
            yield mutated


@contextmanager
def installed(function: Function, marker: Marker, statement: ast.stmt) -> Iterator[None]:
    """The function with another statement in place of the marked one; everything else as in its module.

    It is compiled against a copy of the module's namespace, under the file's own name and lines, so that the tracer
    finds the marked lines where they were.
    """
    replaced = _Replace(marker.statement, statement).visit(_shallow(marker.function, marker.statement))
    module = ast.fix_missing_locations(ast.Module([replaced], []))
    code = compile(module, function.module.__file__, "exec", __future__.annotations.compiler_flag, True)
    namespace = dict(vars(function.module))
    exec(code, namespace)  # noqa: S102 - the package's own source, with one statement changed
    holder, name = function.holder()
    original = vars(holder)[name]
    setattr(holder, name, namespace[name])
    try:
        yield
    finally:
        setattr(holder, name, original)


def same_value(statement: ast.stmt) -> ast.stmt:
    """The statement with its value written `(value,)[0]`: other code, the same result."""
    changed = copy.deepcopy(statement)
    changed.value = ast.Subscript(ast.Tuple([changed.value], ast.Load()), ast.Constant(0), ast.Load())
    return ast.fix_missing_locations(changed)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(copy.deepcopy(self.new), node) if node is self.old else self.generic_visit(node)


def _interchangeable(function: Function, marker: Marker) -> dict[str, str]:
    """Name -> the next name with the same axes, among parameters and what the marked lines above assign."""
    groups: dict[tuple, list[str]] = {}
    for symbol in function.table.declared.values():
        if symbol.source.isidentifier() and symbol.latex not in function.local_sources:
            groups.setdefault(symbol.axes, []).append(symbol.source)
    for equation, above in zip(function.equations, function.markers[: function.markers.index(marker)], strict=False):
        if equation.left and isinstance(above.target, ast.Name) and not above.loop_names:
            groups.setdefault(function.table.declared[equation.left].axes, []).append(above.target.id)
    pairs = {}
    for group in groups.values():
        names = list(dict.fromkeys(group))
        if len(names) > 1:
            pairs |= dict(zip(names, names[1:] + names[:1], strict=True))
    return pairs


def _everywhere(statement: ast.stmt, swaps: dict[str, str], gradients: bool) -> Iterator[ast.stmt]:
    # The dtype of another tensor is the same dtype: no mistake there.
    carriers = {id(n.value) for n in ast.walk(statement.value) if isinstance(n, ast.Attribute) and n.attr in SAME}
    for node in [n for n in ast.walk(statement.value) if isinstance(n, ast.expr) and id(n) not in carriers]:
        detached = gradients and isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "detach"
        for mutated in [*_here(node, swaps), *([node.func.value] if detached else [])]:
            mutated = ast.copy_location(mutated, node)
            changed = copy.copy(statement)
            changed.value = _Replace(node, mutated).visit(_shallow(statement.value, node))
            yield ast.fix_missing_locations(changed)


def _shallow(root: ast.AST, keep: ast.AST) -> ast.AST:
    """A deep copy of a tree in which one node is the original object, so that it can be found and replaced."""
    return copy.deepcopy(root, {id(keep): keep})


def _here(node: ast.expr, swaps: dict[str, str]) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left, op, right):
            if type(op) in OPERATOR:
                yield ast.BinOp(left, OPERATOR[type(op)](), right)
            if not _is_one(right) or not isinstance(op, ast.Mult | ast.Div | ast.Pow):
                yield left
            if isinstance(op, ast.Add | ast.BitOr | ast.BitAnd) or (isinstance(op, ast.Mult) and not _is_one(left)):
                yield right
            if isinstance(op, ast.Sub):
                yield ast.UnaryOp(ast.USub(), right)
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Compare(left, [op], [right]) if type(op) in COMPARISON:
            yield ast.Compare(left, [COMPARISON[type(op)]()], [right])
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Subscript(value, ast.Name() as index, context):
            yield ast.Subscript(value, ast.BinOp(index, ast.Sub(), ast.Constant(1)), context)
        case ast.Name(name) if name in swaps:
            yield ast.Name(swaps[name], ast.Load())
        case ast.Call():
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    func, args, keywords = node.func, node.args, node.keywords
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    is_method = isinstance(func, ast.Attribute) and not (
        isinstance(func.value, ast.Name) and func.value.id in ("torch", "F")
    )
    if name in NAME:
        other = (
            ast.Attribute(func.value, NAME[name], ast.Load())
            if isinstance(func, ast.Attribute)
            else ast.Name(NAME[name], ast.Load())
        )
        yield ast.Call(other, args, keywords)
    if name in UNARY:
        yield func.value if is_method else args[0]
    if name == "clamp" and is_method and len(args) == 2:
        yield ast.Call(func, [], [ast.keyword("min", args[0])])
        yield ast.Call(func, [], [ast.keyword("max", args[1])])
    if name == "masked_fill":
        yield ast.Call(func, [ast.UnaryOp(ast.Invert(), args[0]), *args[1:]], keywords)
    if name == "where":
        yield ast.Call(func, [args[0], args[2], args[1]], keywords)
    elif isinstance(func, ast.Name) and name not in SYMMETRIC:
        for k in range(len(args) - 1):
            yield ast.Call(func, [*args[:k], args[k + 1], args[k], *args[k + 2 :]], keywords)


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1
