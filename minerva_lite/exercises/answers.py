"""How an answer is compared with the right one."""

from __future__ import annotations

from torch import Tensor


def compare(name: str, got: Tensor, wanted: Tensor, atol: float = 1e-9) -> None:
    """Raise AssertionError naming the first wrong entry unless `got` equals `wanted` within `atol`."""
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        raise AssertionError(f"{name}: wanted a tensor of shape {tuple(wanted.shape)}; got {shape}")
    error = (got.double() - wanted).abs()
    # NaN compares false with everything: ask for what is right, not for what is wrong.
    bad = ~(error <= atol)
    if bad.any():
        index = tuple(int(i) for i in bad.nonzero()[0])
        raise AssertionError(
            f"{name}: {int(bad.sum())} of {bad.numel()} entries are wrong; the first, at {index}, "
            f"is {got[index].item():.6g} and should be {wanted[index].item():.6g}"
        )
