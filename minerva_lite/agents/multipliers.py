"""The temperature and the Lagrange multipliers of MPO and V-MPO, as raw parameters that an optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..formulas.duals import positive, project_raw, raw_of


class Multipliers(nn.ParameterDict):
    """Positive numbers by name; `raw_<name>` is the parameter whose softplus is the value.

    starts: the first value of each, above 0. shapes: how many of each there are; one number where none is given.
    Raises ValueError: a start that `raw_of` refuses.
    """

    def __init__(self, starts: Mapping[str, float], shapes: Mapping[str, tuple[int, ...]] | None = None):
        shapes = shapes or {}
        super().__init__(
            {f"raw_{name}": nn.Parameter(torch.full(shapes.get(name, ()), raw_of(v))) for name, v in starts.items()}
        )

    def value(self, name: str) -> Tensor:
        """The multiplier, of its shape; differentiable in its raw parameter."""
        return positive(self[f"raw_{name}"])

    def project(self) -> None:
        """Move raw parameters that fell too low to come back to their least value: after each optimizer step."""
        for raw in self.values():
            project_raw(raw.data)
