"""The duals of MPO and V-MPO, temperature and Lagrange multipliers, as raw parameters that an optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

    def groups(self, temperature_rate: float, rate: float) -> list[dict[str, Any]]:
        """Parameter groups for one optimizer: the temperatures with their learning rate, the others with theirs."""
        temperatures = [raw for name, raw in self.items() if name.startswith("raw_eta")]
        others = [raw for name, raw in self.items() if not name.startswith("raw_eta")]
        return [{"params": temperatures, "lr": temperature_rate}, {"params": others, "lr": rate}]

    def project(self) -> None:
        """Move raw parameters that fell too low to come back to their least value: after each optimizer step."""
        for raw in self.values():
            project_raw(raw.data)
