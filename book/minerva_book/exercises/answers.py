"""How an answer is compared with the right one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

CLOSE = 1e-5  # of homework: a float32 computation of these sizes is well within, a wrong constant far outside
ENTRIES = 200_000  # numbers that an answer to homework may have
NOT_YET = "not answered yet"


class Wrong(AssertionError):
    """What a check raises: in a notebook its sentence stands alone, without the check's own lines above it."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows."""
        return [str(self) if str(self) == NOT_YET else f"not right yet: {self}"]


def compare(name: str, got: Tensor | float, wanted: Tensor, atol: float = 1e-9) -> None:
    """Raise AssertionError naming the first wrong entry unless `got` equals `wanted` within `atol`."""
    if isinstance(got, (int, float)):
        got = torch.tensor(got, dtype=torch.float64)
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        raise Wrong(f"{name}: wanted a tensor of shape {tuple(wanted.shape)}; got {shape}")
    error = (got.double() - wanted).abs()
    # NaN compares false with everything: ask for what is right, not for what is wrong.
    told_wrong(name, got, wanted, ~(error <= atol))


def told_wrong(name: str, got: Tensor, wanted: Tensor, bad: Tensor) -> None:
    """Raise AssertionError naming the first entry of `got` [...] that is wrong by `bad` [...], bool; none may be."""
    if bad.any():
        index = tuple(int(i) for i in bad.nonzero()[0])
        number, due = _told_apart(got[index].item(), wanted[index].item())
        raise Wrong(
            f"{name}: {int(bad.sum())} of {bad.numel()} entries are wrong; the first, at {index}, "
            f"is {number} and should be {due}"
        )


def _told_apart(got: float, wanted: float) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to see that they differ, at least six."""
    # 17 digits tell every float64 from its neighbors.
    digits = next((few for few in range(6, 17) if f"{got:.{few}g}" != f"{wanted:.{few}g}"), 17)
    return f"{got:.{digits}g}", f"{wanted:.{digits}g}"


def plain(answer: Any) -> list[dict[str, Any]]:
    """What a function of homework gave, as numbers and nothing else: a list of {"shape", "data"} in float64.

    A tuple or list that holds a tensor or an array is several answers; anything else is one.
    Raises TypeError: no numbers. ValueError: too many of them, or rows of different lengths.
    """
    parts = answer if isinstance(answer, (tuple, list)) and any(
        isinstance(part, (torch.Tensor, np.ndarray)) for part in answer
    ) else [answer]  # fmt: skip
    found: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, torch.Tensor):
            if part.is_complex():  # as float64 it would lose its imaginary part
                raise TypeError("wanted numbers; got complex ones")
            part = part.detach().cpu().double().numpy()
        array = np.asarray(part)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"wanted numbers; got {type(part).__name__}")
        if array.size > ENTRIES:
            raise ValueError(f"wanted an array of at most {ENTRIES} numbers; got {array.size}")
        array = array.astype("float64")
        found.append({"shape": list(array.shape), "data": array.reshape(-1).tolist()})
    return found


def agree(got: Tensor, wanted: Tensor) -> Tensor:
    """Which entries of an answer to homework [...] are right, bool: within CLOSE (1 + |wanted|), or both inf or NaN."""
    right = torch.where(wanted.isfinite(), (got - wanted).abs() <= CLOSE * (1.0 + wanted.abs()), got == wanted)
    return right | got.isnan() & wanted.isnan()
