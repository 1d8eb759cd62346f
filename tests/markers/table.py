r"""What a function's symbols stand for: the only hand-written part (the tables themselves are in symbols.py).

A symbol is written `latex: "identifier [axes]"`:
- `r"r_t": "reward [t b]"`   a parameter of the function, with its named axes;
- `r"\gamma": "gamma"`       a scalar; `self.config.gamma`, `params[1]` and `next_value[-1]` are paths and work too;
- `r"A_t": "[t b]"`          no identifier: the left side of an earlier marked line;
- `r"N": "#[t b]"`           the number of entries along these axes;
- `r"M": "product.matrix @[i]"`  a square matrix that acts on what follows it, along this axis: `M p_k`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .latex import FormulaError, tokens_of

SPEC = re.compile(
    r"^\s*(?P<source>[^\[\]#@]*(?:\[[-\w:,\"']+\][\w.]*)*?)\s*(?P<kind>[#@]?)(?:\[(?P<axes>[a-z ]*)\])?\s*$"
)
# Symbols of the notation that mean the same everywhere: a table that has the parts need not declare them.
IDENTITIES = {"e_t": r"d_t \vee z_t"}
INDEX_TOKENS = re.compile(r"[a-zA-Z]|\d+|\+|-")


@dataclass(frozen=True)
class Symbol:
    """One declared symbol. `pattern` is its tokens, with (axis,) where an index may stand."""

    latex: str
    source: str  # a path that starts at a parameter; "" for a left side
    axes: tuple[str, ...]
    is_size: bool = False
    acts: bool = False  # a matrix, with axes (a, a*)
    definition: str = ""  # of a symbol that follows from declared ones: x from \log x, and the IDENTITIES

    @classmethod
    def declare(cls, latex: str, spec: str) -> Symbol:
        match = SPEC.match(spec)
        if not match:
            raise FormulaError(f"symbol {latex}: cannot read its declaration {spec!r}")
        axes, acts = tuple((match["axes"] or "").split()), match["kind"] == "@"
        if acts and len(axes) != 1:
            raise FormulaError(f"symbol {latex}: a matrix acts along one axis; got {spec!r}")
        axes += (f"{axes[0]}*",) if acts else ()
        return cls(latex, match["source"].strip(), axes, match["kind"] == "#", acts)

    @cached_property
    def pattern(self) -> tuple:
        depth, out = [], []
        tokens = tokens_of(self.latex)
        for i, token in enumerate(tokens):
            if token == "{":
                depth.append(i > 0 and tokens[i - 1] == "_")
            elif token == "}":
                depth.pop()
            is_slot = token in self.axes and any(depth) and not self.is_size
            out.append((token,) if is_slot else token)
        return tuple(out)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The axes that an index can move, in the order of their first appearance."""
        return tuple(dict.fromkeys(p[0] for p in self.pattern if isinstance(p, tuple)))

    def match(self, tokens: list[str], at: int) -> tuple[int, tuple[tuple[str, ...], ...]] | None:
        """Where the symbol ends if it stands at `at`, and the index that stands in each slot."""
        found: dict[str, tuple[str, ...]] = {}
        for k, wanted in enumerate(self.pattern):
            if at >= len(tokens):
                return None
            if not isinstance(wanted, tuple):
                if tokens[at] != wanted:
                    return None
                at += 1
                continue
            end = at
            if k + 1 < len(self.pattern) and self.pattern[k + 1] in ("}", ","):
                while end < len(tokens) and INDEX_TOKENS.fullmatch(tokens[end]):
                    end += 1
            elif INDEX_TOKENS.fullmatch(tokens[at]) and tokens[at].isalpha():
                end = at + 1
            index = tuple(tokens[at:end])
            if not index or index[0] == "+" or found.setdefault(wanted[0], index) != index:
                return None
            at = end
        # `V` does not stand in `V_t`, `V'` or `V^{\mathrm{old}}`: those are other symbols.
        rest = tokens[at : at + 3]
        if rest[:1] in (["_"], ["'"]) or (rest[:1] == ["^"] and rest[-1].startswith(r"\mathrm")):
            return None
        return at, tuple(found[axis] for axis in self.slots)

    def is_all_of(self, tokens: list[str]) -> bool:
        """Whether nothing else stands there."""
        found = self.match(tokens, 0)
        return found is not None and found[0] == len(tokens)


@dataclass(frozen=True)
class Table:
    """The symbols of one function.

    index: what a subscript of a mean, sum, ... runs over where that is not the axis of the same name.
    inner: the axis of inner products and norms.
    beyond: value of an array past its last or before its first row (a path, or a number); zero where not given.
    passes: how often the loop over an axis runs that no input has (a path); such an axis has one row more, x_{k+1}.
    """

    symbols: Mapping[str, str] = field(default_factory=dict)
    index: Mapping[str, str] = field(default_factory=dict)
    inner: str = "i"
    beyond: Mapping[str, str] = field(default_factory=dict)
    passes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def declared(self) -> dict[str, Symbol]:
        declared = {latex: Symbol.declare(latex, spec) for latex, spec in self.symbols.items()}
        known = {tuple(tokens_of(latex)) for latex in declared}
        for latex, symbol in list(declared.items()):
            tokens = tokens_of(latex)
            if tokens[0] == r"\log" and tuple(tokens[1:]) not in known:
                plain = " ".join(tokens[1:])
                declared[plain] = Symbol(plain, "", symbol.axes, definition=rf"\exp({latex})")
        for latex, definition in IDENTITIES.items():
            parts = [part.strip() for part in definition.split(r"\vee")]
            if latex not in declared and all(part in declared for part in parts):
                declared[latex] = Symbol(latex, "", declared[parts[0]].axes, definition=definition)
        return declared

    @cached_property
    def axes(self) -> set[str]:
        return {axis for symbol in self.declared.values() for axis in symbol.axes}

    def longest(self, tokens: list[str], at: int) -> tuple[Symbol, int, tuple] | None:
        """The longest declared symbol at `at`; of two equally long ones, the one written out more literally."""
        best = None
        for symbol in self.declared.values():
            matched = symbol.match(tokens, at)
            if matched:
                moved = sum(index != (axis,) for axis, index in zip(symbol.slots, matched[1], strict=True))
                key = (matched[0], -moved, len(symbol.pattern))
                if best is None or key > best[0]:
                    best = key, symbol, *matched
        return best[1:] if best else None

    def used(self, tokens: list[str]) -> set[str]:
        """The symbols that stand in a formula, and those from which they follow."""
        found, at = set(), 0
        while at < len(tokens):
            symbol, at, _ = self.longest(tokens, at) or (None, at + 1, ())
            if symbol:
                found |= self.used(tokens_of(symbol.definition)) if symbol.definition else {symbol.latex}
        return found


def path_root(path: str) -> str:
    """The name at which a path starts; only attributes, items and slices with constants may follow."""
    node = ast.parse(path, mode="eval").body
    while isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and _is_constant(node.slice)):
        node = node.value
    if not isinstance(node, ast.Name):
        raise FormulaError(f"{path!r} is not a path: a name, then attributes, constant items or constant slices")
    return node.id


def _is_constant(index: ast.expr) -> bool:
    return not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(index))
