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
        number, due = _told_apart(got[index].item(), wanted[index].item())
        raise AssertionError(
            f"{name}: {int(bad.sum())} of {bad.numel()} entries are wrong; the first, at {index}, "
            f"is {number} and should be {due}"
        )


def _told_apart(got: float, wanted: float) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to see that they differ, at least six."""
    for digits in range(6, 17):
        pair = f"{got:.{digits}g}", f"{wanted:.{digits}g}"
        if pair[0] != pair[1]:
            return pair
    return f"{got:.17g}", f"{wanted:.17g}"  # 17 digits tell every float64 from its neighbors
