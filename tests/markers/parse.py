r"""From a formula to a tree of `Node`s, by recursive descent; declared symbols are found first, by longest match.

Products of sums of products, as in print, with three rules that TeX leaves to the eye:
  - a sum, product or mean without brackets reaches to the end of its term (as \sum does in print);
  - a function without brackets takes one symbol or number, or a power of one;
  - what would have two readings (\log x y, a / b c, f(x)^2) is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

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
FUNCTIONS = {r"\exp", r"\log", r"\tanh", STOP, *(rf"\mathrm{{{f}}}" for f in ("softplus", "sigmoid", "arctanh"))}
WIDE = {r"\sum", r"\prod", r"\mathrm{mean}"}  # reach to the end of their term
NARROW = {r"\max", *(rf"\mathrm{{{f}}}" for f in ("Var", "logsumexp", "softmax", "argmax"))}  # take one argument
NARY = {r"\min": "min", r"\max": "max", r"\mathrm{clip}": "clip"}
COMPARISONS = {"<": "<", ">": ">", "=": "=", r"\le": "<="}
GROUP = {"(": ")", "[": "]", r"\{": r"\}"}
BRACES = {"{": "}"}
BARS = {r"\lvert": r"\rvert", r"\lfloor": r"\rfloor", r"\lVert": r"\rVert"}
NAMED = {r"\lvert": "abs", r"\lfloor": "floor"}
TRANSPOSE, NORMAL, ONE = (list(x) for x in (("^", "{", r"\top", "}"), (r"\mathcal", "{", "N", "}"), ("{", "1", "}")))
# What ends a term.
ENDS = {"", "+", "-", "}", ",", r"\mid", r"\vee", r"\in", *COMPARISONS, *GROUP.values(), *BARS.values()}


def split_equation(latex: str) -> list[list[str]]:
    """Token lists of the sides of `left = right (= right)`; an = inside brackets does not split."""
    sides, depth = [[]], 0
    for token in tokens_of(latex):
        depth += {"{": 1, "(": 1, "[": 1, r"\{": 1, "}": -1, ")": -1, "]": -1, r"\}": -1}.get(token, 0)
        if token == "=" and depth == 0:
            sides.append([])
        elif not (token == ":" and depth == 0):
            sides[-1].append(token)
    if len(sides) < 2 or not all(sides):
        raise FormulaError("a formula is `left = right`")
    return sides


def parse(tokens: list[str], table: Table, bound: frozenset[str] = frozenset()) -> Node:
    """The tree of one side. `bound` are index letters that a surrounding sum introduced."""
    reader = _Reader(tokens, table, bound | _bound_letters(tokens, table))
    tree = reader.logic()
    return tree if reader.here == "" else reader.refuse()


def _bound_letters(tokens: list[str], table: Table) -> frozenset[str]:
    """Letters that some reduction of this formula runs over."""
    letters = set()
    for i, (token, script) in enumerate(zip(tokens, tokens[1:], strict=False)):
        if token in WIDE | NARROW and script == "_":
            inside = tokens[i + 3 : closing(tokens, i + 2)]
            inside = inside[: inside.index("=")] if "=" in inside else inside
            letters |= {t for t in inside if len(t) == 1 and t.isalpha()}
    if letters & set(table.symbols):
        raise FormulaError(f"two readings: {', '.join(letters & set(table.symbols))} is an index here and a symbol too")
    return frozenset(letters)


def _index(tokens: tuple[str, ...]) -> Node:
    """An index such as t+1: letters (axes or bound ones), whole numbers, + and -."""
    node, sign = None, "add"
    for token in tokens:
        if token in "+-":
            sign = "add" if token == "+" else "sub"
            node = node or Node("number", value=0.0)
            continue
        part = Node("number", value=float(token)) if token.isdigit() else Node("index", value=token)
        node = part if node is None else Node(sign, (node, part))
    return node


class _Reader:
    """A place in the tokens of a formula. Each method reads one kind of piece there, and moves on behind it."""

    def __init__(self, tokens: list[str], table: Table, bound: frozenset[str]):
        self.tokens, self.table, self.bound, self.i = tokens, table, bound, 0

    @property
    def here(self) -> str:
        return self.tokens[self.i] if self.i < len(self.tokens) else ""

    @property
    def word(self) -> str:
        """The token here, unless a declared symbol begins with it."""
        return "" if self.table.longest(self.tokens, self.i) else self.here

    def refuse(self) -> NoReturn:
        raise FormulaError(f"outside the language: {' '.join(self.tokens)}: at {self.here or 'its end'}")

    def next(self) -> str:
        self.i += 1
        return self.tokens[self.i - 1]

    def take(self, *wanted: str) -> str:
        """The token here if it is one of these; else none, and nothing moves."""
        return self.next() if self.here and self.here in wanted else ""

    def follows(self, wanted: list[str]) -> bool:
        """Whether these tokens stand here; if so, move on behind them."""
        found = self.tokens[self.i : self.i + len(wanted)] == wanted
        self.i += len(wanted) * found
        return found

    def group(self, brackets: dict[str, str]) -> Node:
        """A piece within one of these pairs of brackets."""
        close = brackets.get(self.take(*brackets)) or self.refuse()
        node = self.logic()
        return node if self.take(close) else self.refuse()

    def braced(self) -> list[str]:
        """The tokens between the braces that begin here."""
        start, self.i = self.i + 1, closing(self.tokens, self.i) + 1
        return self.tokens[start : self.i - 1]

    def logic(self) -> Node:
        node = self.relation()
        while self.take(r"\vee"):
            node = Node("or", (node, self.relation()))
        return node

    def relation(self) -> Node:
        parts, operators = [self.sum()], []
        if self.follows([r"\in", r"\mathrm{top}", "_"]):
            return Node("member", (*parts, parse(self.braced(), self.table, self.bound), self.group(GROUP)))
        while operator := self.take(*COMPARISONS):
            operators.append(COMPARISONS[operator])
            parts.append(self.sum())
        return Node("compare", tuple(parts), tuple(operators)) if operators else parts[0]

    def sum(self) -> Node:
        node = Node("neg", (self.term(),)) if self.take("-") else self.term()
        while operator := self.take("+", "-"):
            node = Node("add" if operator == "+" else "sub", (node, self.term()))
        return node

    def term(self) -> Node:
        node, unclear = self.factor()
        while self.here not in ENDS:
            operator = self.take(r"\cdot", "/")
            if unclear and not operator:
                raise FormulaError(f"two readings: {unclear}")
            right, unclear = self.factor()
            node = Node("div" if operator == "/" else "mul", (node, right))
            if operator == "/":
                unclear = "a / b c; write \\frac or add brackets"
        return node

    def factor(self) -> tuple[Node, str]:
        """A factor, and why none may follow without an operator, if so."""
        word, after = self.word, self.tokens[self.i + 1 : self.i + 5]
        if word in WIDE | NARROW and not (word in NARY and after[:1] != ["_"]):
            return self.reduction()
        if word in NARY:
            return self.listed("nary", NARY[self.next()], ","), ""
        if word == r"\log" and after == NORMAL:
            self.i += 5
            return self.listed("lognormal", None, r"\mid", ","), ""
        if word in FUNCTIONS:
            name, (argument, unclear) = self.next(), self.argument()
            return Node("call", (argument,), name), unclear
        node = self.group(GROUP) if word in GROUP else self.plain()
        if self.follows(TRANSPOSE):
            right, unclear = self.factor()
            return Node("inner", (node, right)), unclear
        return self.power(node), ""

    def power(self, node: Node) -> Node:
        return Node("pow", (node, self.group(BRACES))) if self.take("^") else node

    def argument(self) -> tuple[Node, str]:
        """What a function takes: a group, or without brackets one piece."""
        if self.here in GROUP:
            return self.group(GROUP), ""
        inner = self.next() if self.word in FUNCTIONS else ""
        node = Node("call", (self.argument()[0],), inner) if inner else self.power(self.plain())
        return node, "a function without brackets is followed by a factor; add brackets"

    def reduction(self) -> tuple[Node, str]:
        name, bounds = self.next(), ()
        subscript = self.braced() if self.take("_") else self.refuse()
        if "=" in subscript and self.take("^"):
            at = subscript.index("=")
            sides, subscript = (subscript[at + 1 :], self.braced()), subscript[:at]
            bounds = tuple(parse(side, self.table, self.bound) for side in sides)
        narrow = name in NARROW or self.here in ("[", r"\{")
        body, unclear = self.argument() if narrow else (self.term(), "")
        return Node("reduce", (body, *bounds), (name, "".join(subscript))), unclear

    def listed(self, kind: str, value: str | None, *separators: str) -> Node:
        """The arguments in brackets of what takes several."""
        close = GROUP.get(self.take(*GROUP)) or self.refuse()
        parts = [self.logic()]
        while self.take(*separators):
            parts.append(self.logic())
        if len(parts) < 2 or (value in ("clip", None) and len(parts) != 3):
            raise FormulaError(f"{value or kind}: wanted two arguments or more, three arguments of a clip or a density")
        return Node(kind, tuple(parts), value) if self.take(close) else self.refuse()

    def plain(self) -> Node:
        """One symbol, index, number or bracketed piece."""
        if found := self.table.longest(self.tokens, self.i):
            symbol, self.i, index = found
            if symbol.acts:
                return Node("apply", (self.group(GROUP) if self.here in GROUP else self.plain(),), symbol.latex)
            return Node("symbol", tuple(map(_index, index)), symbol.latex)
        if self.here in ENDS or self.here in ("^", "_", r"\cdot", "/"):
            self.refuse()
        if (opened := self.here) in BARS:
            body = self.group(BARS)
            return Node("norm", (body,)) if opened == r"\lVert" else Node("call", (body,), NAMED[opened])
        token, at = self.next(), self.i
        if token == r"\frac":
            return Node("div", (self.group(BRACES), self.group(BRACES)))
        if token == r"\sqrt":
            return Node("call", (self.group(BRACES),), token)
        if token == r"\mathbb" and self.follows(ONE):
            body = self.group(GROUP)
            if body.kind not in ("compare", "or", "member"):
                raise FormulaError("an indicator needs a condition")
            return body
        if token == r"\pi" or token[0].isdigit():
            return Node("number", value=token if token == r"\pi" else float(token))
        if len(token) == 1 and (token in self.table.axes or token in self.bound):
            return Node("index", value=token)
        script = "".join(self.tokens[at : closing(self.tokens, at + 1) + 1]) if self.here in ("_", "^") else ""
        raise FormulaError(f"undeclared symbol {token}{script} in {' '.join(self.tokens)}")
