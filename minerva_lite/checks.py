"""Argument errors that name the argument, what was wanted and what came."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor


def require_same_shape(**tensors: Tensor) -> None:
    """Raise ValueError unless every tensor has the shape of the first one named."""
    first, *rest = tensors
    wanted = tensors[first].shape
    for name in rest:
        if tensors[name].shape != wanted:
            raise ValueError(
                f"{name}: wanted shape {tuple(wanted)}, the shape of {first}; got {tuple(tensors[name].shape)}"
            )


def require_shape(wanted: tuple[int | None, ...], **tensors: Tensor) -> None:
    """Raise ValueError unless every tensor has the shape `wanted`; None stands for any length."""
    for name, tensor in tensors.items():
        fits = len(tensor.shape) == len(wanted)
        if not fits or any(w is not None and w != n for w, n in zip(wanted, tensor.shape, strict=True)):
            shape = str(tuple(wanted)).replace("None", "any")
            raise ValueError(f"{name}: wanted shape {shape}; got {tuple(tensor.shape)}")


def require_bool(**tensors: Tensor) -> None:
    """Raise ValueError unless every tensor is a bool mask: a flag held as 0.0 or 1.0 hides mistakes."""
    require_dtype(torch.bool, **tensors)


def require_dtype(wanted: torch.dtype, **tensors: Tensor) -> None:
    """Raise ValueError unless every tensor has the dtype `wanted`."""
    _require(lambda dtype: dtype == wanted, f"dtype {wanted}", {name: t.dtype for name, t in tensors.items()})


def can_ask(tensor: Tensor) -> bool:
    """Whether a check may depend on the tensor's numbers: on a GPU, and in compiled code, it would have to wait."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def widest(device: torch.device) -> torch.dtype:
    """The floating-point type for long sums on a device: float64, but for Apple's MPS, which has none."""
    return torch.float32 if device.type == "mps" else torch.float64


def wide(tensor: Tensor) -> Tensor:
    """The tensor in float64: where it lies if there is such a type, else on the CPU."""
    return (tensor if widest(tensor.device) == torch.float64 else tensor.cpu()).double()


def require_unit_interval(**values: float) -> None:
    """Raise ValueError unless every number lies in [0, 1]; NaN does not."""
    _require(lambda value: 0.0 <= value <= 1.0, "a number in [0, 1]", values)


def require_positive(**values: float) -> None:
    """Raise ValueError unless every number is finite and above zero."""
    _require(lambda value: value > 0 and math.isfinite(value), "a finite number above 0", values)


def require_non_negative(**values: float) -> None:
    """Raise ValueError unless every number is finite and at least zero."""
    _require(lambda value: value >= 0 and math.isfinite(value), "a finite number of at least 0", values)


def require_count(**values: int) -> None:
    """Raise ValueError unless every value is a whole number of at least one."""
    _require(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
        "a whole number of at least 1",
        values,
    )


def require_one_of(options: tuple[str, ...], **values: str) -> None:
    """Raise ValueError unless every value is one of the named options: nothing falls through to a default."""
    _require(lambda value: value in options, f"one of {', '.join(options)}", values)


def _require(fits: Callable[[Any], bool], wanted: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if not fits(value):
            raise ValueError(f"{name}: wanted {wanted}; got {value!r}")


def require_seed(**seed: Any) -> int:
    """The seed as an int, for Gymnasium takes no number of NumPy's.

    Raises ValueError unless it is a whole number from 0 to 2**63 - 1.
    """
    _require(
        lambda value: isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < 2**63,
        "a whole number from 0 to 2**63 - 1",
        seed,
    )
    (value,) = seed.values()
    return int(value)


def require_finite(**tensors: Tensor) -> None:
    """Raise ValueError unless every entry of every tensor is finite."""
    for name, tensor in tensors.items():
        if bad := int((~torch.isfinite(tensor)).sum()):
            raise ValueError(f"{name}: wanted finite numbers; got {bad} that are NaN or infinite")
