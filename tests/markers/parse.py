r"""From a formula to a tree of `Node`s: declared symbols are cut out by longest match, lark parses the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import LarkError, VisitError
from lark.lexer import Lexer

from .latex import FormulaError, closing, tokens_of
from .table import Table


@dataclass(frozen=True)
class Node:
    """A piece of a formula: what it is, its parts, and what is not a part (a name, a number, an operator)."""

    kind: str
    args: tuple[Node, ...] = ()
    value: Any = None

    def stops_gradients(self) -> bool:
        """Does a stop-gradient stand anywhere in this tree?"""
        return self.value == STOP or any(part.stops_gradients() for part in self.args)


STOP = r"\mathrm{sg}"


@dataclass(frozen=True)
class Bare(Node):
    """A function's value whose argument had no brackets: it must not be followed by one more factor."""


@dataclass(frozen=True)
class Slash(Node):
    """A quotient written a / b: it must not be followed by one more factor either."""


FUNCTIONS = {r"\exp", r"\log", r"\tanh"} | {
    rf"\mathrm{{{name}}}" for name in ("softplus", "sigmoid", "sg", "arctanh")
}
# name of a reduction -> does it reach to the end of its term (wide) or take one argument (narrow)?
REDUCTIONS = {
    r"\sum": "WIDE", r"\prod": "WIDE", r"\mathrm{mean}": "WIDE", r"\mathrm{Var}": "NARROW", r"\max": "NARROW",
    r"\mathrm{logsumexp}": "NARROW", r"\mathrm{softmax}": "NARROW", r"\mathrm{argmax}": "NARROW",
}  # fmt: skip
NARY = {r"\min": "min", r"\max": "max", r"\mathrm{clip}": "clip"}
SIMPLE = {
    "+": "PLUS", "-": "MINUS", r"\cdot": "TIMES", "/": "SLASH", "^": "CARET", ",": "COMMA", r"\mid": "MID",
    "{": "LBRACE", "}": "RBRACE", r"\frac": "FRAC", r"\sqrt": "SQRT", r"\vee": "OR", r"\in": "IN",
}  # fmt: skip
PAIRS = {
    "(": (")", "LPAR", "RPAR"), "[": ("]", "LPAR", "RPAR"), r"\{": (r"\}", "LPAR", "RPAR"),
    r"\lvert": (r"\rvert", "LABS", "RABS"), r"\lVert": (r"\rVert", "LNORM", "RNORM"),
    r"\lfloor": (r"\rfloor", "LFLOOR", "RFLOOR"),
}  # fmt: skip
COMPARISONS = {"<": "<", ">": ">", "=": "=", r"\le": "<="}


def split_equation(latex: str) -> list[list[str]]:
    """Token lists of the sides of `left = right (= right)`; an = inside brackets does not split."""
    sides, depth = [[]], 0
    for token in tokens_of(latex):
        depth += {"{": 1, "(": 1, "[": 1, r"\{": 1, "}": -1, ")": -1, "]": -1, r"\}": -1}.get(token, 0)
        if token in ("=", r"\equiv", r"\leftarrow") and depth == 0:
            sides.append([])
        elif not (token == ":" and depth == 0):
            sides[-1].append(token)
    if len(sides) < 2 or not all(sides):
        raise FormulaError("a formula is `left = right`")
    return sides


def parse(tokens: list[str], table: Table, bound: frozenset[str] = frozenset()) -> Node:
    """The tree of one side. `bound` are index letters that a surrounding sum introduced."""
    try:
        return _lark().parse(list(_terminals(tokens, table, bound)))
    except VisitError as error:
        raise error.orig_exc from error
    except LarkError as error:
        raise FormulaError(f"outside the language: {' '.join(tokens)}: {str(error).splitlines()[0]}") from error


def _terminals(tokens: list[str], table: Table, bound: frozenset[str]):
    """Cut tokens into terminals: symbols first, then operators whose subscript belongs to them, then the rest."""
    bound = bound | _bound_letters(tokens, table)
    i, stack = 0, []

    def emit(kind: str, value: Any = None) -> Token:
        return Token(kind, value if value is not None else kind)

    while i < len(tokens):
        token = tokens[i]
        found = table.longest(tokens, i)
        if found:
            symbol, i, index = found
            if symbol.acts:
                yield emit("OPERATOR", symbol.latex)
                continue
            yield emit("SYMBOL", (symbol, tuple(_index(list(expr), table, bound) for expr in index)))
            continue
        if token == r"\mathbb" and tokens[i + 1] == "{":
            token, i = rf"\mathbb{{{tokens[i + 2]}}}", i + 4
        else:
            i += 1
        following = tokens[i] if i < len(tokens) else None
        if token == r"\log" and tokens[i : i + 4] == [r"\mathcal", "{", "N", "}"]:
            i += 4
            yield emit("LOGNORMAL")
        elif token in REDUCTIONS and (following == "_" or token not in NARY):
            kind = REDUCTIONS[token]
            subscript, bounds = [], ()
            if following == "_":
                end = closing(tokens, i + 1)
                subscript, i = tokens[i + 2 : end], end + 1
            if "=" in subscript and i < len(tokens) and tokens[i] == "^":
                end = closing(tokens, i + 1)
                at = subscript.index("=")
                lower, upper = subscript[at + 1 :], tokens[i + 2 : end]
                subscript, i = subscript[:at], end + 1
                bounds = (parse(lower, table, bound), parse(upper, table, bound))
            if token == r"\mathrm{mean}" and tokens[i : i + 1] in (["["], [r"\{"]):
                kind = "NARROW"
            yield emit(kind, (token, "".join(subscript), bounds))
        elif token in NARY:
            yield emit("NARY", NARY[token])
        elif token in FUNCTIONS:
            yield emit("FUNC", token)
        elif token == r"\mathbb{1}":
            yield emit("INDICATOR")
        elif token == r"\mathrm{top}" and following == "_":
            end = closing(tokens, i + 1)
            yield emit("TOP", parse(tokens[i + 2 : end], table, bound))
            i = end + 1
        elif token == "^" and tokens[i : i + 3] == ["{", r"\top", "}"]:
            i += 3
            yield emit("TRANSPOSE")
        elif token in PAIRS:
            stack.append(PAIRS[token][0])
            yield emit(PAIRS[token][1])
        elif stack and token == stack[-1]:
            kind = next(right for close, _, right in PAIRS.values() if close == token)
            stack.pop()
            yield emit(kind)
        elif token in COMPARISONS:
            yield emit("COMPARE", COMPARISONS[token])
        elif token in SIMPLE:
            yield emit(SIMPLE[token])
        elif token == r"\pi":
            yield emit("CONST", r"\pi")
        elif token[0].isdigit():
            yield emit("NUM", float(token))
        elif len(token) == 1 and (token in table.axes or token in bound):
            yield emit("INDEX", token)
        else:
            script = "".join(tokens[i : closing(tokens, i + 1) + 1]) if following in ("_", "^") else ""
            raise FormulaError(f"undeclared symbol {token}{script} in {' '.join(tokens)}")


def _bound_letters(tokens: list[str], table: Table) -> frozenset[str]:
    """Letters that some reduction of this formula runs over."""
    letters = set()
    for i, token in enumerate(tokens[:-2]):
        before_script = tokens[i - 1] if i else ""
        if token == "_" and (before_script in REDUCTIONS or before_script == "}"):
            inside = tokens[i + 2 : closing(tokens, i + 1)]
            inside = inside[: inside.index("=")] if "=" in inside else inside
            if before_script in REDUCTIONS:
                letters |= {t for t in inside if len(t) == 1 and t.isalpha()}
    if letters & set(table.symbols):
        raise FormulaError(f"two readings: {', '.join(letters & set(table.symbols))} is an index here and a symbol too")
    return frozenset(letters)


def _index(tokens: list[str], table: Table, bound: frozenset[str]) -> Node:
    """An index such as t+1: letters (axes, bound ones, or declared sizes), whole numbers, + and -."""
    node, sign = None, "add"
    for token in tokens:
        if token in "+-":
            sign = "add" if token == "+" else "sub"
            node = node or Node("number", value=0.0)
            continue
        if token in table.declared:
            part = Node("symbol", value=token)
        elif token.isdigit():
            part = Node("number", value=float(token))
        else:
            part = Node("index", value=token)
        node = part if node is None else Node(sign, (node, part))
    return node


class _Tokens(Lexer):
    """Hands ready-made terminals to lark."""

    def __init__(self, _conf: Any):
        pass

    def lex(self, data: Any):
        yield from data


class _Build(Transformer):
    """Parse tree to `Node`s; refuses what has two readings."""

    def start(self, parts):
        return parts[0]

    def _binary(kind):  # noqa: N805
        return lambda self, parts: Node(kind, (parts[0], parts[-1]))

    add, sub, or_ = map(_binary, ("add", "sub", "or"))

    def div(self, parts):
        return Slash("div", (parts[0], parts[-1]))

    def mul(self, parts):
        return Node("mul", (parts[0], parts[-1]))

    def mul_bare(self, parts):
        return Node("mul", (Node("number", value=parts[0].value), parts[1]))

    def implicit(self, parts):
        last = parts[0]
        while last.kind == "mul":
            last = last.args[1]
        if isinstance(last, Bare):
            raise FormulaError("two readings: a function without brackets is followed by a factor; add brackets")
        if isinstance(parts[0], Slash):
            raise FormulaError("two readings: a / b c; write \\frac or add brackets")
        return Node("mul", (parts[0], parts[1]))

    def neg(self, parts):
        return Node("neg", (parts[-1],))

    def compare(self, parts):
        return Node("compare", tuple(parts[::2]), tuple(p.value for p in parts[1::2]))

    def member(self, parts):
        return Node("member", (parts[0], parts[2].value, parts[3]))

    def group(self, parts):
        # Brackets settle the reading, so the marks of Bare and Slash end here.
        return Node(parts[1].kind, parts[1].args, parts[1].value)

    def plain(self, parts):
        return parts[1]

    def pow(self, parts):
        base = parts[0] if isinstance(parts[0], Node) else self.number(parts[:1])
        return Node("pow", (base, parts[3]))

    def apply(self, parts):
        return Node("apply", (parts[1],), parts[0].value)

    def inner(self, parts):
        nodes = [p for p in parts if isinstance(p, Node)]
        return Node("inner", tuple(nodes))

    def call(self, parts):
        return Node("call", (parts[1],), parts[0].value)

    def bare_call(self, parts):
        return Bare("call", (parts[1],), parts[0].value)

    def reduce(self, parts):
        name, subscript, bounds = parts[0].value
        return Node("reduce", (parts[1], *bounds), (name, subscript))

    def bare_reduce(self, parts):
        name, subscript, bounds = parts[0].value
        return Bare("reduce", (parts[1], *bounds), (name, subscript))

    def nary(self, parts):
        nodes = tuple(p for p in parts if isinstance(p, Node))
        if parts[0].value == "clip" and len(nodes) != 3:
            raise FormulaError("clip takes three arguments")
        return Node("nary", nodes, parts[0].value)

    def lognormal(self, parts):
        return Node("lognormal", tuple(p for p in parts if isinstance(p, Node)))

    def frac(self, parts):
        return Node("div", tuple(p for p in parts if isinstance(p, Node)))

    def _one(name):  # noqa: N805
        return lambda self, parts: Node("call", (next(p for p in parts if isinstance(p, Node)),), name)

    sqrt, abs_, floor = map(_one, (r"\sqrt", "abs", "floor"))

    def norm(self, parts):
        return Node("norm", (parts[1],))

    def indicator(self, parts):
        body = parts[1]
        if body.kind not in ("compare", "or", "member"):
            raise FormulaError("an indicator needs a condition")
        return body

    def number(self, parts):
        return Node("number", value=parts[0].value)

    def symbol(self, parts):
        symbol, index = parts[0].value
        return Node("symbol", index, symbol.latex)

    def index(self, parts):
        return Node("index", value=parts[0].value)


@lru_cache(maxsize=1)
def _lark() -> Lark:
    grammar = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer=_Tokens, transformer=_Build())
