"""Checks for the exercises: they say which entry is wrong and by how much, not how to mend it (floor 7)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from .returns import gae


def _compare(name: str, got: Tensor, wanted: Tensor, atol: float = 1e-9) -> None:
    """Raise AssertionError naming the worst entry unless `got` equals `wanted` within `atol`."""
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


def check_gae(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function` computes GAE, called as `minerva_lite.returns.gae` is, [T, B] float64."""
    generator = Generator().manual_seed(seed)
    for steps, gamma, lam in ((1, 0.9, 0.8), (9, 0.9, 0.8), (9, 1.0, 1.0), (9, 0.97, 0.0)):
        reward, value, next_value = torch.randn(3, steps, 4, generator=generator, dtype=torch.float64)
        chance = torch.rand(2, steps, 4, generator=generator)
        flags = (chance < 0.25).unbind(0)
        arguments = (reward, value, next_value, *flags)
        wanted = gae(*arguments, gamma=gamma, lam=lam)
        _compare(f"T = {steps}, gamma = {gamma}, lam = {lam}", function(*arguments, gamma=gamma, lam=lam), wanted)


def check_dual_clip(function: Callable[..., Tensor]) -> None:
    """Raise AssertionError unless `function(log_ratio, advantage, clip_eps, c)` is dual-clip PPO's objective."""
    ratio = torch.tensor([0.1, 0.75, 0.95, 1.05, 1.25, 2.9, 3.1, 50.0], dtype=torch.float64)
    for sign in (2.0, -2.0, 0.0):
        for clip_eps, c in ((0.2, 3.0), (0.1, 1.5)):
            low, high = (min(r, 1 + clip_eps) for r in ratio.tolist()), (max(r, 1 - clip_eps) for r in ratio.tolist())
            kept = list(low) if sign >= 0 else [min(r, c) for r in high]
            wanted = sign * torch.tensor(kept, dtype=torch.float64)
            got = function(ratio.log(), torch.full_like(ratio, sign), clip_eps, c)
            _compare(f"A = {sign}, clip_eps = {clip_eps}, c = {c}", got, wanted)
