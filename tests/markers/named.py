"""Arrays whose axes have names, so that a formula broadcasts by what an index means and not by its position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .latex import FormulaError


@dataclass(frozen=True)
class Named:
    """A float64 tensor with one name per axis."""

    data: Tensor
    axes: tuple[str, ...] = ()

    def __post_init__(self):
        if self.data.dim() != len(self.axes):
            raise FormulaError(f"axes {' '.join(self.axes) or '(none)'}: the value has shape {tuple(self.data.shape)}")

    def sizes(self) -> dict[str, int]:
        return dict(zip(self.axes, self.data.shape, strict=True))

    def to(self, axes: tuple[str, ...], sizes: dict[str, int]) -> Tensor:
        """The data with exactly these axes in this order; an axis it lacks is repeated."""
        extra = set(self.axes) - set(axes)
        if extra:
            raise FormulaError(f"axis {', '.join(sorted(extra))} is left over")
        order = [self.axes.index(a) for a in axes if a in self.axes]
        data = self.data.permute(order)
        shape = [self.sizes().get(a, 1) for a in axes]
        return data.reshape(shape).expand([sizes.get(a, self.sizes().get(a, 1)) for a in axes])

    def with_axes(self, wanted: list[str], sizes: dict[str, int]) -> Named:
        """At least the wanted axes."""
        axes = self.axes + tuple(a for a in wanted if a not in self.axes)
        return Named(self.to(axes, sizes), axes)

    def reduce(self, axes: list[str], function: Callable[[Tensor, int], Tensor]) -> Named:
        """Flatten these axes to a last one and apply `function(data, -1)`."""
        rest = tuple(a for a in self.axes if a not in axes)
        data = self.to(rest + tuple(axes), self.sizes())
        data = data.reshape(*data.shape[: len(rest)], -1)
        return Named(function(data, -1), rest)

    def gather(self, moves: dict[str, Named], beyond: Callable[[str], Named]) -> Named:
        """Replace each axis in `moves` by an index array; where the index leaves the axis, take `beyond(axis)`."""
        # Temporary names, so that x_{ij} can be read as x_{ji}.
        current = Named(self.data, tuple(f"{a}?" if a in moves else a for a in self.axes))
        for axis, index in moves.items():
            k = current.axes.index(f"{axis}?")
            rest = current.axes[:k] + current.axes[k + 1 :]
            if set(index.axes) & set(rest):
                raise FormulaError(f"an index of axis {axis} runs over an axis that the symbol already has")
            data = current.data.movedim(k, 0)
            size, position = data.shape[0], index.data.round().long()
            inside = Named(((position >= 0) & (position < size)).double(), index.axes)
            taken = Named(data[position.clamp(0, size - 1)], index.axes + rest)
            edge = beyond(axis)
            edge = Named(edge.data, tuple(f"{a}?" if f"{a}?" in rest else a for a in edge.axes))
            current = combine(lambda m, x, y: torch.where(m > 0, x, y), inside, taken, edge)
        return current


def combine(function: Callable[..., Tensor], *parts: Named) -> Named:
    """Apply an elementwise function after aligning axes by name."""
    sizes: dict[str, int] = {}
    for part in parts:
        for axis, size in part.sizes().items():
            if sizes.setdefault(axis, size) != size:
                raise FormulaError(f"axis {axis} has sizes {sizes[axis]} and {size}")
    axes = tuple(sizes)
    return Named(function(*(part.to(axes, sizes) for part in parts)), axes)


def scalar(value: float) -> Named:
    return Named(torch.tensor(float(value), dtype=torch.float64))


def as_tensor(value: object) -> Tensor:
    """A value met in the code as float64: flags are 0 and 1. A live graph is kept."""
    if isinstance(value, Tensor):
        return value.to(torch.float64)
    if isinstance(value, bool | int | float):
        return torch.tensor(float(value), dtype=torch.float64)
    raise FormulaError(f"wanted a tensor or a number; the code has {type(value).__name__}")
