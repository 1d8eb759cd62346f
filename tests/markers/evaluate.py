"""The value of a formula's tree, from the values that its symbols have in one call of the real function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from .latex import FormulaError, tokens_of
from .named import Named, as_tensor, combine, scalar
from .parse import Node, parse
from .table import Table

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    r"\exp": torch.exp, r"\log": torch.log, r"\tanh": torch.tanh, r"\mathrm{arctanh}": torch.atanh,
    r"\sqrt": torch.sqrt, "abs": torch.abs, "floor": torch.floor, r"\mathrm{sigmoid}": torch.sigmoid,
    r"\mathrm{softplus}": lambda x: F.softplus(x, threshold=1e3), r"\mathrm{sg}": torch.detach,
}  # fmt: skip
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow}
# A mutant turns `=` into `!=` and `<=` into `>=`.
COMPARE = {"<": torch.lt, ">": torch.gt, "<=": torch.le, ">=": torch.ge, "=": torch.eq, "!=": torch.ne}


REDUCE: dict[str, Callable[[Tensor, int], Tensor]] = {
    r"\sum": torch.sum, r"\prod": torch.prod, r"\mathrm{mean}": torch.mean, r"\max": torch.amax, r"\min": torch.amin,
    r"\mathrm{Var}": lambda x, dim: x.var(dim, correction=0), r"\mathrm{logsumexp}": torch.logsumexp,
    r"\mathrm{argmax}": lambda x, d: x.argmax(d).double(), r"\mathrm{argmin}": lambda x, d: x.argmin(d).double(),
}  # fmt: skip


@dataclass
class Scope:
    """What the symbols of one table mean at one moment of one call."""

    table: Table
    sources: dict[str, object]  # symbol -> value met in the code (inputs)
    left: dict[str, Named] = field(default_factory=dict)  # symbol -> value of an earlier marked line
    sizes: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)  # axis -> row, inside a loop over it
    bound: dict[str, Named] = field(default_factory=dict)  # index letter of a surrounding sum -> its numbers

    def __post_init__(self):
        for axis in self.table.passes:
            if f"passes {axis}" in self.sources:
                self.sizes[axis] = int(self.sources[f"passes {axis}"]) + 1
        for latex, symbol in self.table.declared.items():
            if latex in self.sources and symbol.source and not symbol.is_size:
                self._bind_sizes(latex, self.array(latex))

    def _bind_sizes(self, latex: str, array: Named) -> None:
        for axis, size in array.sizes().items():
            if self.sizes.setdefault(axis, size) != size:
                raise FormulaError(f"{latex}: axis {axis} has {size} entries here and {self.sizes[axis]} elsewhere")

    def array(self, latex: str) -> Named:
        """The whole array behind a symbol: an earlier left side, else an input."""
        if latex in self.left:
            return self.left[latex]
        symbol = self.table.declared[latex]
        if symbol.definition:
            whole = self.inside(*self.fixed, *self.bound)
            return whole.value(parse(tokens_of(symbol.definition), self.table))
        if symbol.is_size:
            return scalar(math.prod(self.size(axis) for axis in symbol.axes))
        if not symbol.source and set(symbol.axes) & set(self.fixed):
            # A recursion before its first row: all rows are unknown, only what stands beyond the edge is not.
            return self.unknown(latex)
        if not symbol.source:
            raise FormulaError(f"{latex} is neither an input nor the left side of an earlier marked line")
        if latex not in self.sources:
            raise FormulaError(f"{latex}: the call has no {symbol.source}")
        return Named(as_tensor(self.sources[latex]), symbol.axes)

    def unknown(self, latex: str) -> Named:
        """An array of whose rows none has been computed."""
        axes = self.table.declared[latex].axes
        return Named(torch.full([self.size(a) for a in axes], torch.nan, dtype=torch.float64), axes)

    def size(self, axis: str) -> int:
        if axis not in self.sizes:
            raise FormulaError(f"axis {axis} has no size: no input has it")
        return self.sizes[axis]

    def index(self, letter: str) -> Named:
        """The numbers an index letter runs over: its own axis, or one number inside a loop over that axis."""
        if letter in self.bound:
            return self.bound[letter]
        if letter in self.fixed:
            return scalar(self.fixed[letter])
        return Named(torch.arange(self.size(letter), dtype=torch.float64), (letter,))

    def inside(self, *letters: str, **changes: Named) -> Scope:
        """The scope within a reduction over these letters: they are free again, even in a loop over them."""
        scope = Scope.__new__(Scope)
        scope.__dict__.update(self.__dict__)
        scope.fixed = {a: n for a, n in self.fixed.items() if a not in letters}
        scope.bound = {**{a: n for a, n in self.bound.items() if a not in letters}, **changes}
        return scope

    def beyond(self, latex: str, axis: str) -> Named:
        if latex not in self.table.beyond:
            return scalar(0.0)
        value = self.sources[f"beyond {latex}"]
        axes = tuple(a for a in self.table.declared[latex].axes if a != axis)
        tensor = as_tensor(value)
        return Named(tensor, axes if tensor.dim() else ())

    # ------------------------------------------------------------------------------------------------ evaluation

    def value(self, node: Node) -> Named:
        return getattr(self, f"_{node.kind}")(node)

    def _number(self, node: Node) -> Named:
        return scalar(math.pi if node.value == r"\pi" else node.value)

    def _index(self, node: Node) -> Named:
        return self.index(node.value)

    def _symbol(self, node: Node) -> Named:
        symbol = self.table.declared[node.value]
        array = self.array(node.value)
        moves = {}
        for axis, index in zip(symbol.slots, node.args, strict=True):
            identity = index.kind == "index" and index.value == axis
            if not (identity and axis not in self.fixed and axis not in self.bound):
                moves[axis] = self.value(index)
        # Inside a loop over an axis, a symbol that does not write the axis out is meant at this row all the same.
        for axis in set(array.axes) & set(self.fixed) - set(moves) - set(symbol.slots):
            moves[axis] = scalar(self.fixed[axis])
        return array.gather(moves, lambda axis: self.beyond(node.value, axis)) if moves else array

    def _binary(self, node: Node) -> Named:
        return combine(BINARY[node.kind], *map(self.value, node.args))

    _add = _sub = _mul = _div = _pow = _binary

    def _neg(self, node: Node) -> Named:
        return combine(torch.neg, self.value(node.args[0]))

    def _call(self, node: Node) -> Named:
        return combine(UNARY[node.value], self.value(node.args[0]))

    def _nary(self, node: Node) -> Named:
        parts = list(map(self.value, node.args))
        if node.value == "clip":
            return combine(lambda x, low, high: torch.minimum(torch.maximum(x, low), high), *parts)
        function = torch.minimum if node.value == "min" else torch.maximum
        result = parts[0]
        for part in parts[1:]:
            result = combine(function, result, part)
        return result

    def _compare(self, node: Node) -> Named:
        parts = list(map(self.value, node.args))
        result = scalar(1.0)
        for operator, left, right in zip(node.value, parts, parts[1:], strict=False):
            true = combine(lambda x, y, f=COMPARE[operator]: f(x, y).double(), left, right)
            result = combine(torch.mul, result, true)
        return result

    def _flags(self, node: Node) -> list[Named]:
        parts = list(map(self.value, node.args))
        for part in parts:
            if not ((part.data == 0) | (part.data == 1)).all():
                raise FormulaError("a logical connective joins numbers other than 0 and 1")
        return parts

    def _and(self, node: Node) -> Named:
        return combine(torch.minimum, *self._flags(node))

    def _or(self, node: Node) -> Named:
        return combine(torch.maximum, *self._flags(node))

    def _member(self, node: Node) -> Named:
        r"""`t \in top_k(x_t)`: is x_t one of the k largest along t (ties: the lower index first)?"""
        letter, count, body = node.args
        axes = self._runs_over(letter.value)
        x = self.inside(*axes).value(body).with_axes(axes, self.sizes)
        rest = tuple(a for a in x.axes if a not in axes)
        data = x.to(rest + tuple(axes), self.sizes)
        flat = data.reshape(*data.shape[: len(rest)], -1)
        rank = flat.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
        mask = (rank < self.value(count).data.round()).double().reshape(data.shape)
        return Named(mask, rest + tuple(axes))

    def _inner(self, node: Node) -> Named:
        product = combine(torch.mul, *map(self.value, node.args))
        if self.table.inner not in product.axes:
            raise FormulaError(f"an inner product needs the axis {self.table.inner}")
        return product.reduce([self.table.inner], torch.sum)

    def _apply(self, node: Node) -> Named:
        """A matrix times what follows it, along the axis that it acts on."""
        matrix, vector = self.array(node.value), self.value(node.args[0])
        axis, summed = matrix.axes
        if axis not in vector.axes:
            raise FormulaError(f"{node.value} acts along the axis {axis}, which what follows it has not")
        vector = Named(vector.data, tuple(summed if a == axis else a for a in vector.axes))
        return combine(torch.mul, matrix, vector).reduce([summed], torch.sum)

    def _norm(self, node: Node) -> Named:
        return combine(torch.sqrt, self._inner(Node("inner", (node.args[0], node.args[0]))))

    def _lognormal(self, node: Node) -> Named:
        r"""`\log\mathcal{N}(x \mid \mu, \sigma^2)`, summed over the inner axis if there is one."""
        x, mean, variance = map(self.value, node.args)
        density = combine(
            lambda x, m, v: -0.5 * ((x - m).square() / v + torch.log(2.0 * math.pi * v)), x, mean, variance
        )
        return density.reduce([self.table.inner], torch.sum) if self.table.inner in density.axes else density

    def _runs_over(self, subscript: str) -> list[str]:
        """The axes a subscript such as t, ib or t,b stands for."""
        if subscript in self.table.index:
            return self.table.index[subscript].split()
        letters = subscript.replace(",", "")
        unknown = [a for a in letters if a not in self.table.axes and a not in self.bound]
        if unknown:
            raise FormulaError(f"the subscript {subscript} stands for no axis; declare it under `index`")
        return list(letters)

    def _reduce(self, node: Node) -> Named:
        name, subscript = node.value
        if len(node.args) == 3:
            return self._bounded(node)
        body = node.args[0]
        if subscript not in self.table.index and len(subscript) == 1 and subscript not in self.table.axes:
            # A second letter for an axis: sum_j over x_j beside an x_i.
            axis = next(_axes_indexed_by(body, subscript, self.table), None)
            if axis is None:
                raise FormulaError(f"the sum's index {subscript} stands at no symbol")
            numbers = Named(torch.arange(self.size(axis), dtype=torch.float64), (subscript,))
            axes, value = [subscript], self.inside(**{subscript: numbers}).value(body)
            sizes = {**self.sizes, subscript: self.size(axis)}
        else:
            axes, sizes = self._runs_over(subscript), self.sizes
            value = self.inside(*axes).value(body)
        value = value.with_axes(axes, sizes)
        if name == r"\mathrm{softmax}":
            log_sum = value.reduce(axes, torch.logsumexp)
            return combine(lambda x, z: torch.exp(x - z), value, log_sum)
        return value.reduce(axes, REDUCE[name])

    def _bounded(self, node: Node) -> Named:
        r"""`\sum_{k=low}^{high}`: the bounds may depend on other indices; an empty sum is 0, an empty product 1."""
        name, letter = node.value
        if name not in (r"\sum", r"\prod"):
            raise FormulaError(f"{name} takes no bounds")
        low, high = self.value(node.args[1]), self.value(node.args[2])
        first, last = int(low.data.min()), int(high.data.max())
        numbers = Named(torch.arange(first, max(last, first) + 1, dtype=torch.float64), (letter,))
        value = self.inside(**{letter: numbers}).value(node.args[0])
        inside = combine(lambda k, a, b: ((k >= a) & (k <= b)).double(), numbers, low, high)
        neutral = 0.0 if name == r"\sum" else 1.0
        masked = combine(lambda m, x: torch.where(m > 0, x, torch.full_like(x, neutral)), inside, value)
        return masked.reduce([letter], REDUCE[name])


def _axes_indexed_by(node: Node, letter: str, table: Table) -> Iterator[str]:
    """The axes in whose slots the letter stands."""
    if node.kind == "symbol":
        slots = zip(table.declared[node.value].slots, node.args, strict=True)
        yield from (axis for axis, index in slots if _mentions(index, letter))
    else:
        for part in node.args:
            yield from _axes_indexed_by(part, letter, table)


def _mentions(node: Node, letter: str) -> bool:
    return (node.kind == "index" and node.value == letter) or any(_mentions(a, letter) for a in node.args)
